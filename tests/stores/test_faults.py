"""Every call to the disk fails once, and every call is the last one of a process: old or new, never a mixture."""

from __future__ import annotations

import errno
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from stores.faulty import Died, DyingFiles, FailingFiles, ShortFiles
from terrazzo.errors import StoreError
from terrazzo.stores.contract import ALL, Erase, Patch, Put
from terrazzo.stores.journal import JOURNAL_SUFFIX, Journal
from terrazzo.stores.local import LocalStore

OLD = bytes(range(100))
State = dict[str, bytes]
START: State = {"a/b": OLD, "a/kept": b"kept"}


def put(store: LocalStore, *keys: str) -> None:
    with ExitStack() as held:
        changes = []
        for hold in [held.enter_context(store.hold(key, (0, 5))) for key in keys]:
            sink = store.sink(hold)
            sink.write(0, b"new " * 10)
            sink.write(40, hold.key.encode())
            changes.append(Put(hold, sink))
        store.commit(changes)


def patch(store: LocalStore, **patch: Any) -> None:
    with store.hold("a/b") as hold:
        store.commit([Patch(hold, **patch)])


def erase(store: LocalStore) -> None:
    with store.hold("a/b") as hold:
        store.commit([Erase(hold)])


def new(key: str) -> bytes:
    return b"new " * 10 + key.encode()


# what happens, and every state it may leave
CHANGES: dict[str, tuple[Callable[[LocalStore], None], list[State]]] = {
    "set": (lambda store: store.set("a/b", b"set"), [{**START, "a/b": b"set"}]),
    "create": (lambda store: store.set("x/y/z", b"set"), [{**START, "x/y/z": b"set"}]),
    "replace": (lambda store: put(store, "a/b"), [{**START, "a/b": new("a/b")}]),
    "replace two": (
        lambda store: put(store, "a/b", "c/d"),
        [{**START, "a/b": new("a/b")}, {**START, "a/b": new("a/b"), "c/d": new("c/d")}],
    ),
    "erase": (erase, [{"a/kept": b"kept"}]),
    "erase prefix": (lambda store: store.erase_prefix("a/"), [{"a/kept": b"kept"}, {"a/b": OLD}, {}]),
    "append": (lambda store: patch(store, appends=[(100, b"tail")]), [{**START, "a/b": OLD + b"tail"}]),
    "append, guarded": (
        lambda store: patch(store, appends=[(100, b"tail"), (106, b"end")], guard_length=True),
        [{**START, "a/b": OLD + b"tail\0\0end"}],
    ),
    "overwrite": (
        lambda store: patch(store, overwrites=[(0, b"12345678"), (90, b"zz")]),
        [{**START, "a/b": b"12345678" + OLD[8:90] + b"zz" + OLD[92:]}],
    ),
    "append and overwrite": (
        lambda store: patch(store, appends=[(100, b"tail")], overwrites=[(0, b"12345678")]),
        [{**START, "a/b": b"12345678" + OLD[8:] + b"tail"}],
    ),
    "append and overwrite, guarded": (
        lambda store: patch(store, appends=[(100, b"tail")], overwrites=[(0, b"1234")], guard_length=True),
        [{**START, "a/b": b"1234" + OLD[4:] + b"tail"}],
    ),
}


def prepared(root: Path) -> None:
    store = LocalStore(root, durability="none")
    for key, value in START.items():
        store.set(key, value)


def state(store: LocalStore) -> State:
    return {key: store.get(key) or b"" for key in store.list()}


def beside(root: Path) -> list[str]:
    return sorted(path.name for path in root.rglob("*.__*"))


def dead_tail_dropped(state: State) -> State:
    """Bytes behind an object whose index is at its start mean nothing until the index names them."""
    return {key: value[:100] if value[:100] == OLD else value for key, value in state.items()}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("change", CHANGES)
def test_one_error_at_every_call(tmp_path: Path, change: str, number: int) -> None:
    act, ends = CHANGES[change]
    at = 0
    while True:
        root = tmp_path / str(at)
        prepared(root)
        files = FailingFiles(at, number)
        store = LocalStore(root, files=files)
        raised = None
        try:
            act(store)
        except StoreError as error:
            raised = error
        if raised is None:
            assert state(store) == ends[-1], files.calls
            if not files.failed:
                break
        else:
            assert files.failed
            assert raised.errno == number
            assert any(key in str(raised) for key in ("a/b", "c/d", "x/y/z", "a/kept"))
        left = beside(root)
        if files.calls[at] == "unlink":  # the one removal that failed may leave what it should have removed
            assert len(left) <= 1, (files.calls, left)
        elif left:  # a sync that failed while an object changed in place: its journal stays
            assert left == ["b" + JOURNAL_SUFFIX], files.calls
            assert files.calls[at] in ("sync", "sync_folder")
        fresh = LocalStore(root)
        for key in START:
            fresh.recover(key)
        found = state(fresh)
        assert found in (START, *ends) or dead_tail_dropped(found) == START, (files.calls, found)
        fresh.set("a/b", b"next")
        assert fresh.get("a/b") == b"next"
        fresh.erase_prefix("")
        assert list(root.rglob("*")) == [], files.calls
        at += 1
    assert at > 3


@pytest.mark.parametrize("change", CHANGES)
def test_death_at_every_call(tmp_path: Path, change: str) -> None:
    act, ends = CHANGES[change]
    at = 0
    while True:
        root = tmp_path / str(at)
        prepared(root)
        files = DyingFiles(at)
        try:
            act(LocalStore(root, files=files))
        except Died:
            pass
        if not files.failed:
            break
        fresh = LocalStore(root)
        torn = state(fresh)
        if "patch" not in change and "append" not in change and "overwrite" not in change:
            assert torn in (START, *ends), (files.calls, torn)  # whole before anybody mends
        with fresh.hold("a/b", ALL, timeout=0) as hold:  # the lock is free, and taking it mends
            seen = None if hold.source is None else bytes(hold.source.first)
        found = state(fresh)
        assert found.get("a/b") == seen
        assert found in (START, *ends) or dead_tail_dropped(found) == START, (files.calls, found)
        if "guarded" in change:
            assert found in (START, *ends), (files.calls, found)
        fresh.set("a/b", b"next")
        fresh.erase_prefix("")
        assert list(root.rglob("*")) == [], files.calls
        at += 1
    assert at > 3


def test_recover_is_what_a_reader_calls(tmp_path: Path) -> None:
    """A reader that finds torn bytes asks once; the writer is dead, so what it began is finished."""
    prepared(tmp_path)
    change = dict(overwrites=[(0, b"12345678"), (50, b"abcdefgh")])
    store = LocalStore(tmp_path)
    probe = DyingFiles(10**6)
    patch(LocalStore(tmp_path, files=probe), **change)
    at = max(i for i, call in enumerate(probe.calls) if call == "pwrite")
    store.set("a/b", OLD)
    with pytest.raises(Died):
        patch(LocalStore(tmp_path, files=DyingFiles(at)), **change)
    torn = store.get("a/b")
    assert torn == b"12345678" + OLD[8:50] + b"abcd" + OLD[54:]
    assert store.recover("a/b") is True
    assert store.get("a/b") == b"12345678" + OLD[8:50] + b"abcdefgh" + OLD[58:]
    assert store.recover("a/b") is False
    assert beside(tmp_path) == []


def test_a_journal_cut_at_any_byte_does_not_count(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, durability="none")
    store.set("a", OLD)
    object_path, journal_path = tmp_path / "a", tmp_path / ("a" + JOURNAL_SUFFIX)
    inode = object_path.stat().st_ino
    whole = Journal(False, inode, 100, 100, 0, (), ((3, b"XYZ"), (50, b"!"))).encode()
    for cut in range(len(whole)):
        journal_path.write_bytes(whole[:cut])
        assert store.recover("a") is True
        assert store.get("a") == OLD
        assert not journal_path.exists()
    for flip in range(len(whole)):
        journal_path.write_bytes(whole[:flip] + bytes([whole[flip] ^ 0x10]) + whole[flip + 1 :])
        store.recover("a")
        assert store.get("a") == OLD
    journal_path.write_bytes(whole + b"\0")
    store.recover("a")
    assert store.get("a") == OLD
    journal_path.write_bytes(whole)
    store.recover("a")
    assert store.get("a") == OLD[:3] + b"XYZ" + OLD[6:50] + b"!" + OLD[51:]
    assert object_path.stat().st_ino == inode


@pytest.mark.parametrize("size", [100, 101, 104, 107, 108, 109])
def test_a_tail_that_is_not_whole_is_cut_off(tmp_path: Path, size: int) -> None:
    store = LocalStore(tmp_path, durability="none")
    tail = b"tailtail"
    value = (OLD + tail + b"!")[:size]
    store.set("a", value)
    inode = (tmp_path / "a").stat().st_ino
    journal = Journal(True, inode, 100, 108, zlib.crc32(tail), ((100, 8),), ())
    (tmp_path / ("a" + JOURNAL_SUFFIX)).write_bytes(journal.encode())
    assert store.recover("a") is True
    assert store.get("a") == (OLD + tail if size == 108 else OLD)


@pytest.mark.parametrize("why", ["another inode", "shorter", "absent", "past the end"])
def test_a_journal_of_another_object_is_dropped(tmp_path: Path, why: str) -> None:
    store = LocalStore(tmp_path, durability="none")
    store.set("a", OLD)
    inode = (tmp_path / "a").stat().st_ino
    before, offset = (200, 0) if why == "shorter" else (100, 98 if why == "past the end" else 0)
    journal = Journal(False, inode + (why == "another inode"), before, before, 0, (), ((offset, b"XYZ"),))
    (tmp_path / ("a" + JOURNAL_SUFFIX)).write_bytes(journal.encode())
    if why == "absent":
        (tmp_path / "a").unlink()
    assert store.recover("a") is True
    assert store.get("a") == (None if why == "absent" else OLD)
    assert beside(tmp_path) == []


def test_short_writes_are_continued(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, files=ShortFiles())
    store.set("a", OLD)
    with store.hold("a") as hold:
        store.commit([Patch(hold, [(100, b"tailtail")], [(1, b"12345678")])])
    assert store.get("a") == OLD[:1] + b"12345678" + OLD[9:] + b"tailtail"


def test_the_order_of_calls(tmp_path: Path) -> None:
    """New bytes reach the disk before their name does, a journal before the bytes it speaks of."""
    files = FailingFiles(10**6)
    store = LocalStore(tmp_path, files=files)
    store.set("a/b", OLD)
    assert files.calls == [
        "mkdir",
        "create",
        "pwrite",
        "stamp",
        "sync",
        "rename",
        "sync_folder",
        "sync_folder",
    ]
    files.calls.clear()
    with store.hold("a/b") as hold:
        store.commit([Patch(hold, [(100, b"t")], [(0, b"x")])])
    assert files.calls == [
        *("create",),  # the lock
        *("pwrite", "sync"),  # the tail
        *("create", "pwrite", "sync", "sync_folder"),  # the journal
        *("pwrite", "stamp", "sync"),  # the object
        *("unlink", "unlink"),  # the journal goes, then the lock
    ]
    for durability in ("rename", "none"):
        files.calls.clear()
        with store.hold("a/b") as hold:
            sink = store.sink(hold)
            sink.write(0, b"x")
            store.commit([Put(hold, sink)], durability)  # type: ignore[arg-type]
        assert files.calls == ["create", "pwrite", "stamp", "rename"]
    files.calls.clear()
    store.sync()
    assert files.calls[0] == "sync_file_system"
    files.calls.clear()
    store.sync()
    assert files.calls == []


@pytest.mark.parametrize("n", [3, 12, 50])
def test_many_files_do_not_pay_a_barrier_each(tmp_path: Path, n: int) -> None:
    files = FailingFiles(10**6)
    store = LocalStore(tmp_path, files=files)
    put(store, *(f"c/{i}" for i in range(n)))
    assert files.calls.count("sync") + files.calls.count("sync_file_system") <= n
    assert files.calls.count("sync_folder") == 2
    assert files.calls.count("rename") == n
