"""Replaced files are let go of by a thread: soon, few at a time, and none that somebody could miss."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from terrazzo.stores import leaving
from terrazzo.stores.leaving import MOST, leave, settled
from terrazzo.stores.local import FileSource, LocalStore
from terrazzo.stores.store import Open, Put

SIZE = leaving.LARGE


@pytest.fixture(autouse=True)
def nothing_waits() -> Iterator[None]:
    settled()
    yield
    settled()


def opened(path: Path, nbytes: int = SIZE) -> FileSource:
    """The last descriptor of a file without a name."""
    path.write_bytes(bytes(nbytes))
    file = os.open(path, os.O_RDONLY)
    path.unlink()
    return FileSource("a", nbytes, (), file)


def is_open(file: int) -> bool:
    try:
        os.fstat(file)
    except OSError:
        return False
    return True


class Slow(FileSource):
    """Is closed only when the test says so."""

    __slots__ = ("gate",)

    def close(self) -> None:
        if self.handle is not None:
            self.gate.wait(60)
        super().close()


def slow(path: Path, gate: threading.Event) -> Slow:
    source = opened(path)
    found = Slow("a", source.size, (), source.handle)
    found.gate = gate
    source.handle = None
    return found


def test_a_large_file_is_closed_by_another_thread(tmp_path: Path) -> None:
    gate = threading.Event()
    source = slow(tmp_path / "a", gate)
    leave(source)
    assert source.handle is not None
    gate.set()
    assert settled()
    assert source.handle is None
    assert not settled()


def test_few_wait_and_the_next_is_closed_at_once(tmp_path: Path) -> None:
    gate = threading.Event()
    waiting = [slow(tmp_path / str(k), gate) for k in range(MOST)]
    for source in waiting:
        leave(source)
    more = opened(tmp_path / "more")
    leave(more)
    assert more.handle is None
    assert all(source.handle is not None for source in waiting)
    gate.set()
    settled()
    assert all(source.handle is None for source in waiting)


@pytest.mark.parametrize("why", ["small", "no room", "no thread", "no descriptor"])
def test_what_may_not_wait_is_closed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    source = opened(tmp_path / "a", SIZE - 1 if why == "small" else SIZE)
    file = source.handle
    assert isinstance(file, int)
    if why == "no room":
        monkeypatch.setattr(leaving, "ROOM", 1 << 62)
    if why == "no thread":

        def refused(_: Any) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(leaving, "_thread", None)
        monkeypatch.setattr(threading.Thread, "start", refused)
    if why == "no descriptor":
        source.handle = None
        os.close(file)
    leave(source)
    assert source.handle is None
    assert not is_open(file)


def test_the_thread_ends_and_comes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaving, "PATIENCE", 0.01)
    for _ in range(2):
        gate = threading.Event()
        source = slow(tmp_path / "a", gate)
        leave(source)
        thread = leaving._thread
        gate.set()
        settled()
        assert thread is not None
        thread.join(60)
        assert not thread.is_alive() and source.handle is None


def test_a_child_inherits_nothing_that_waits(tmp_path: Path) -> None:
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    files = []
    for k in range(MOST):
        source = opened(tmp_path / str(k))
        files.append(source.handle)
        leave(source)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            inherited = any(is_open(file) for file in files if isinstance(file, int))
            leave(opened(tmp_path / "child"))
            settled()
            grandchild = os.fork()  # the child's own files are let go of before it forks
            if grandchild == 0:
                os._exit(0)
            code = 2 if inherited else os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1])
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_replaced_objects_leave_nothing_open(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.set("a", bytes(SIZE))
    before = len(os.listdir("/dev/fd"))
    for number in range(1, 9):
        reader = store.open([Open("a")])[0]
        with store.hold("a") as hold:
            sink = store.sink(hold)
            sink.expect(SIZE)
            sink.write(0, bytes([number]) * SIZE)
            store.commit([Put(hold, sink)], "none")
        assert reader is not None and isinstance(reader.handle, int)
        assert os.pread(reader.handle, 1, 0) == bytes([number - 1])  # who reads it has it, whole
        reader.close()
    settled()
    assert len(os.listdir("/dev/fd")) <= before + 1  # the folder that `sync` asks
    assert store.get("a") == bytes([8]) * SIZE
