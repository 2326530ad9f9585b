"""Folders: what lies on the disk, what is refused, what other programs and processes do meanwhile."""

from __future__ import annotations

import errno
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from terrazzo.errors import ConflictError, HeldError, KeyRefusedError, StoreError
from terrazzo.stores.contract import ALL, Erase, Open, Patch, Put
from terrazzo.stores.folders import _open_by_segment
from terrazzo.stores.local import LocalStore

Opener = Callable[[Path], LocalStore]


def by_system(root: Path, **options: Any) -> LocalStore:
    return LocalStore(root, durability="none", **options)


def by_segment(root: Path) -> LocalStore:
    store = LocalStore(root, durability="none")
    store.folders.open = store._open = _open_by_segment
    return store


either = pytest.mark.parametrize("make", [by_system, by_segment])


def names(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if not path.is_dir())


# -- links, pipes and folders where objects should be -----------------------------------------------------------------


@either
def test_links_out_of_the_root_are_refused(tmp_path: Path, make: Opener) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    root = tmp_path / "root"
    root.mkdir()
    (root / "file").symlink_to(outside / "secret")
    (root / "folder").symlink_to(outside)
    (root / "up").symlink_to("..")
    store = make(root)
    for key in ("file", "folder/secret", "up/outside/secret"):
        for attempt in (
            lambda key=key: store.get(key),
            lambda key=key: store.open([Open(key, ALL)]),
            lambda key=key: store.get_partial_values([(key, ALL)]),
            lambda key=key: store.exists(key),
            lambda key=key: store.tag(key),
        ):
            with pytest.raises(StoreError, match="follow_symlinks=True"):
                attempt()
    for key in ("folder/secret", "folder/new", "up/new"):
        with pytest.raises(StoreError, match="follow_symlinks=True"):
            store.set(key, b"evil")
        with pytest.raises(StoreError, match="follow_symlinks=True"):
            store.erase(key)
    assert list(store.list()) == []
    store.erase_prefix("")
    assert names(outside) == ["secret"]
    assert (outside / "secret").read_bytes() == b"secret"


def test_a_new_object_replaces_a_link_and_not_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    root = tmp_path / "root"
    root.mkdir()
    (root / "file").symlink_to(tmp_path / "secret")
    LocalStore(root).set("file", b"mine")
    assert (tmp_path / "secret").read_bytes() == b"secret"
    assert (root / "file").read_bytes() == b"mine"
    assert not (root / "file").is_symlink()


def test_links_are_followed_on_request(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_bytes(b"there")
    root = tmp_path / "root"
    root.mkdir()
    (root / "file").symlink_to(outside / "x")
    (root / "folder").symlink_to(outside)
    (outside / "loop").symlink_to(root)
    store = by_system(root, follow_symlinks=True)
    assert store.get("file") == store.get("folder/x") == b"there"
    store.set("folder/new", b"new")
    assert (outside / "new").read_bytes() == b"new"
    listed = list(store.list())
    assert {"file", "folder/x", "folder/new"} <= set(listed)
    assert len(listed) < 50


def test_the_root_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    LocalStore(tmp_path / "link").set("a", b"x")
    assert (tmp_path / "real" / "a").read_bytes() == b"x"


@pytest.mark.parametrize("suffix", [".__lock", ".__redo"])
@pytest.mark.parametrize("kind", ["link", "hard link", "dangling", "pipe", "folder"])
def test_what_lies_at_the_name_of_a_lock_is_not_written_to(tmp_path: Path, kind: str, suffix: str) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    root = tmp_path / "root"
    root.mkdir()
    trap = root / f"a{suffix}"
    if kind == "link":
        trap.symlink_to(secret)
    elif kind == "hard link":
        os.link(secret, trap)
    elif kind == "dangling":
        trap.symlink_to(tmp_path / "made")
    elif kind == "pipe":
        os.mkfifo(trap)
    else:
        trap.mkdir()
    store = LocalStore(root)
    try:
        store.set("a", b"x")
    except StoreError:
        assert not (root / "a").exists()
    else:
        assert suffix == ".__redo"  # a journal that is none is removed
        assert store.get("a") == b"x"
    assert secret.read_bytes() == b"secret"
    assert not (tmp_path / "made").exists()


@either
def test_pipes_and_folders_are_no_objects(tmp_path: Path, make: Opener) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder" / "below").mkdir(parents=True)
    store = make(tmp_path)
    for key in ("pipe", "folder"):
        for attempt in (lambda key=key: store.get(key), lambda key=key: store.open([Open(key)])):
            with pytest.raises(StoreError, match=f"'{key}'"):
                attempt()
        with pytest.raises(StoreError, match=f"'{key}'"):
            store.hold(key)
        assert not store.exists(key)
    with pytest.raises(StoreError, match="'folder'"):
        store.set("folder", b"x")
    assert list(store.list()) == []
    assert names(tmp_path) == ["pipe"]


def test_devices_are_no_objects(tmp_path: Path) -> None:
    try:
        os.mknod(tmp_path / "zero", 0o666 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root makes devices")
    with pytest.raises(StoreError, match="device"):
        LocalStore(tmp_path).get("zero")


def test_nothing_lies_below_an_object(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.set("a", b"x")
    assert store.get("a/b") is None
    assert not store.exists("a/b")
    store.erase("a/b")
    with pytest.raises(StoreError, match="a/b"):
        store.set("a/b", b"y")
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("key", ["a.__lock", "a.__redo", "x.__lock/a", "x/a.__redo"])
def test_names_of_our_own_files_are_no_keys(tmp_path: Path, key: str) -> None:
    store = LocalStore(tmp_path)
    (tmp_path / "a.__lock").write_bytes(b"")
    for attempt in (lambda: store.get(key), lambda: store.set(key, b""), lambda: store.hold(key)):
        with pytest.raises(KeyRefusedError):
            attempt()
    assert list(store.list()) == []
    assert store.list_dir("") == ([], [])


def test_a_name_that_is_too_long_is_an_error_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="longer") as found:
        LocalStore(tmp_path).set("a" * 300, b"")
    assert found.value.errno == errno.ENAMETOOLONG


def test_files_that_no_key_names_are_not_listed(tmp_path: Path) -> None:
    (tmp_path / "back\\slash").write_bytes(b"")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe")).write_bytes(b"")
    (tmp_path / "a").write_bytes(b"")
    assert list(LocalStore(tmp_path).list()) == ["a"]


# -- what lies on the disk --------------------------------------------------------------------------------------------


def test_an_object_is_a_plain_file(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        LocalStore(tmp_path).set("a/c/0/1", b"x")
    finally:
        os.umask(before)
    assert names(tmp_path) == ["a/c/0/1"]
    assert (tmp_path / "a/c/0/1").stat().st_mode & 0o777 == 0o640


def test_empty_folders_go_with_their_last_object(tmp_path: Path) -> None:
    root = tmp_path / "root"
    store = LocalStore(root)
    store.set("a/b/c", b"x")
    store.set("a/d", b"x")
    store.erase("a/b/c")
    assert not (root / "a/b").exists()
    store.erase("a/d")
    assert list(root.iterdir()) == []
    (root / "x/y/z").mkdir(parents=True)
    store.erase_prefix("x/")
    assert list(root.iterdir()) == []


def test_a_held_key_has_a_lock_file_and_a_free_one_has_none(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with store.hold("a/b"):
        assert names(tmp_path) == ["a/b.__lock"]
        assert list(store.list()) == []
    assert names(tmp_path) == []
    assert not (tmp_path / "a").exists()
    with store.hold("a/b", exclusive=False) as one:
        with LocalStore(tmp_path.parent).hold(f"{tmp_path.name}/a/b", exclusive=False):
            with pytest.raises(StoreError, match="shared"):
                store.sink(one)
            with pytest.raises(HeldError):
                LocalStore(tmp_path.parent.parent).hold(
                    f"{tmp_path.parent.name}/{tmp_path.name}/a/b", timeout=0
                )
    assert names(tmp_path) == []


def test_a_writer_without_the_lock_is_noticed(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.set("a", b"old")
    for change in (Put, Erase, Patch):
        with store.hold("a") as hold:
            (tmp_path / "other").write_bytes(b"foreign")
            os.replace(tmp_path / "other", tmp_path / "a")
            if change is Put:
                sink = store.sink(hold)
                sink.write(0, b"ours")
                made: Any = Put(hold, sink)
            else:
                made = change(hold)
            with pytest.raises(ConflictError, match="'a'"):
                store.commit([made])
        assert names(tmp_path) == ["a"]
        assert store.get("a") == b"foreign"


def test_stale_lock_files_are_taken_over(tmp_path: Path) -> None:
    (tmp_path / "a.__lock").write_bytes(b"garbage of a dead writer, longer than what comes")
    (tmp_path / "b.__lock").write_bytes(b"garbage")
    store = LocalStore(tmp_path)
    store.set("a", b"new")
    assert store.get("a") == b"new"
    assert names(tmp_path) == ["a", "b.__lock"]
    store.erase_prefix("")
    assert names(tmp_path) == []


def test_an_error_leaves_no_open_file(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.set("a", b"x")
    (tmp_path / "folder").mkdir()

    def everything() -> None:
        with store.hold("a", ALL) as hold:
            store.sink(hold).write(0, b"x")
        with pytest.raises(StoreError):
            store.open([Open("a"), Open("folder")])
        with pytest.raises(StoreError):
            store.set("folder", b"x")
        store.set("b/c", b"x")
        store.erase("b/c")
        list(store.list())
        store.sync()
        store.open([Open("a")])  # never closed: it closes itself

    everything()
    before = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
    for _ in range(5):
        everything()
    after = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
    assert after <= before


def test_it_travels_to_other_processes(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, durability="rename", follow_symlinks=True)
    again = pickle.loads(pickle.dumps(store))
    assert again == store
    assert (again.durability, again.follow_symlinks) == ("rename", True)
    assert LocalStore(tmp_path / "x") != store


def test_a_folder_that_is_gone_after_the_way_is_no_empty_one(tmp_path: Path) -> None:
    """Else an array whose folder a worker does not have would read as fill values."""
    store = LocalStore(tmp_path / "x")
    absent = pickle.dumps(store)  # a store may be made before its folder
    store.set("a", b"1")
    travelling = pickle.dumps(store)
    (tmp_path / "x").rename(tmp_path / "y")
    uses: list[Any] = [
        lambda one: one.get("a"),
        lambda one: one.exists("a"),
        lambda one: list(one.list()),
        lambda one: one.open([Open("a")]),
        lambda one: one.set("a", b"2"),
        lambda one: one.erase("a"),
        lambda one: one.recover("a"),
    ]
    for use in uses:
        again = pickle.loads(travelling)
        assert again == store and str(again) == str(store)
        with pytest.raises(
            StoreError, match=r"x' could not be opened: it is gone, or not on this"
        ) as refused:
            use(again)
        assert refused.value.errno == errno.ENXIO
        with pytest.raises(StoreError):
            use(pickle.loads(pickle.dumps(pickle.loads(travelling))))
        again.sync()
        again.close()
    assert not (tmp_path / "x").exists()
    (tmp_path / "y").rename(tmp_path / "x")
    assert again.get("a") == pickle.loads(travelling).get("a") == b"1"
    with pytest.raises(AttributeError):
        _ = again.nothing
    (tmp_path / "x" / "a").unlink()
    (tmp_path / "x").rmdir()
    early = pickle.loads(absent)
    assert early.get("a") is None
    early.set("a", b"3")
    assert store.get("a") == b"3"


@pytest.mark.parametrize("n", [1, 10, 40])
def test_many_objects_in_one_commit(tmp_path: Path, n: int) -> None:
    store = LocalStore(tmp_path)
    holds = [store.hold(f"{i % 3}/{i}") for i in range(n)]
    changes = []
    for hold in holds:
        sink = store.sink(hold)
        os.pwrite(sink.handle, hold.key.encode(), 0)
        changes.append(Put(hold, sink))
    tags = store.commit(changes)
    for hold in holds:
        hold.release()
    assert tags == [store.tag(hold.key) for hold in holds]
    assert all(store.get(hold.key) == hold.key.encode() for hold in holds)
    assert len(names(tmp_path)) == n


# -- many writers -----------------------------------------------------------------------------------------------------

COUNT = """
import sys
from terrazzo.stores.contract import ALL, Put
from terrazzo.stores.local import LocalStore
store = LocalStore(sys.argv[1], durability="none")
for _ in range(int(sys.argv[2])):
    with store.hold("deep/n", ALL) as hold:
        value = int(bytes(hold.source.first)) if hold.source else 0
        sink = store.sink(hold)
        sink.write(0, str(value + 1).encode())
        store.commit([Put(hold, sink)], "none")
"""
FILL = """
import sys
from terrazzo.stores.contract import Put, Patch
from terrazzo.stores.local import LocalStore
store = LocalStore(sys.argv[1], durability="rename")
print("ready", flush=True)
n = 0
while True:
    n += 1
    with store.hold("a/replaced") as hold:
        sink = store.sink(hold)
        for i in range(16):
            sink.write(i * 4096, bytes([n % 256]) * 4096)
        store.commit([Put(hold, sink)], "rename")
    with store.hold("a/patched") as hold:
        store.commit([Patch(hold, (), [(i * 8192, bytes([n % 256]) * 4096) for i in range(8)])], "rename")
"""


def spawn(script: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE)


def test_processes_lose_no_update(tmp_path: Path) -> None:
    writers = [spawn(COUNT, str(tmp_path), "60") for _ in range(3)]
    for writer in writers:
        assert writer.wait(60) == 0
        assert writer.stdout is not None
        writer.stdout.close()
    assert (tmp_path / "deep/n").read_bytes() == b"180"
    assert names(tmp_path) == ["deep/n"]


def test_a_killed_writer_leaves_whole_objects_and_a_free_lock(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, durability="none")
    store.set("a/patched", bytes(65536))
    chance = random.Random(7)
    for _ in range(4):
        writer = spawn(FILL, str(tmp_path))
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(chance.uniform(0.0, 0.03))
        writer.send_signal(signal.SIGKILL)
        writer.wait(30)
        writer.stdout.close()
        with store.hold("a/patched", ALL, timeout=5) as hold:  # mends
            assert hold.source is not None
            value = bytes(hold.source.first)
        assert len(value) == 65536
        assert len({value[i * 8192] for i in range(8)}) == 1
        replaced = store.get("a/replaced")
        # `next`: what the one before left, where this one was killed early
        assert replaced in (None, b"next") or (len(replaced) == 65536 and len(set(replaced)) == 1)
        store.set("a/replaced", b"next")
        assert names(tmp_path) == ["a/patched", "a/replaced"]


def test_writers_and_erasers_of_one_folder(tmp_path: Path) -> None:
    """Folders go and come while others make objects in them."""
    stores = [LocalStore(tmp_path, durability="none") for _ in range(2)]
    errors: list[BaseException] = []

    def work(number: int) -> None:
        store = stores[number % 2]
        try:
            for i in range(60):
                store.set(f"x/y/{number}", b"v")
                assert store.get(f"x/y/{number}") == b"v"
                store.erase(f"x/y/{number}")
                if i % 10 == 0:
                    store.erase_prefix(f"x/y/{number}/")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_take_its_parents_hold(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    hold = store.hold("a")
    child = os.fork()
    if child == 0:
        try:
            hold.release()
            try:
                store.hold("a", timeout=0)
            except HeldError:
                os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert names(tmp_path) == ["a.__lock"]
    sink = store.sink(hold)
    sink.write(0, b"parent")
    store.commit([Put(hold, sink)])
    hold.release()
    assert store.get("a") == b"parent"


def test_readers_see_one_version_while_it_is_replaced(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, durability="none")
    store.set("a", bytes(20_000))
    stop = threading.Event()

    def rewrite() -> None:
        n = 0
        while not stop.is_set():
            n = (n + 1) % 256
            store.set("a", bytes([n]) * 20_000)

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        for _ in range(300):
            (source,) = store.open([Open("a", (-1, None))])
            assert source is not None
            parts = store.fetch([(source, [(0, 1), (10_000, 10)])])[0]
            source.close()
            assert {*source.first, *parts[0], *parts[1]} == {source.first[0]}
    finally:
        stop.set()
        writer.join()


def test_a_hold_whose_source_cannot_be_closed_is_given_back_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    store.set("a", b"1")
    (hold,) = store.hold_all(["a"], firsts=[ALL])

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    assert hold.source is not None
    with monkeypatch.context() as patch:
        patch.setattr(type(hold.source), "close", interrupted)
        with pytest.raises(KeyboardInterrupt):
            hold.release()
    store.set("a", b"2")
    assert store.get("a") == b"2" and os.listdir(tmp_path) == ["a"]


FORKING = """
import os, sys, threading
import terrazzo
array = terrazzo.create_array(sys.argv[1], shape=(3, 1 << 16), dtype="f8", chunks=(1, 1 << 16), compressors=None)
array = array.using(durability="none")
done = []
def write(row):
    while not done:
        array[row] = 1
threads = [threading.Thread(target=write, args=(row,)) for row in range(2)]
for thread in threads: thread.start()
ended = []
for n in range(12):
    child = os.fork()
    if not child:
        array[2] = n
        os._exit(0)
    ended.append(os.waitpid(child, 0)[1])
done.append(True)
for thread in threads: thread.join()
assert ended == [0] * 12 and (array[2] == 11).all(), (ended, array[2])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_children_forked_among_writing_threads_write(tmp_path: Path) -> None:
    """What a thread of the parent held at the fork, nobody gives back in the child."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING, str(tmp_path / "a")],
        timeout=120,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
