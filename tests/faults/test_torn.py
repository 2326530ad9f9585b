"""A writer in place that stands still half way: readers never see its half, and read on once it is done or mended."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.stores.files import Files
from tests.faults.layers import Counting
from tests.faults.test_crashes import in_child
from tests.faults.ways import BY_NAME, CHUNK, SHAPE, Way, made, noise, opened

IN_PLACE = ["slots-index-at-end", "in-place-index-at-start", "append-index-at-end", "append-index-at-start"]
CHANGED = (slice(0, CHUNK[0]), slice(0, CHUNK[1]))


class HalfWay(Counting):
    """Stands still in the middle of the write number `number` to the object, until `go` is set; or dies there."""

    def __init__(self, path: Path, number: int, dies: bool = False) -> None:
        super().__init__()
        self.inode, self.number, self.dies = os.stat(path).st_ino, number, dies
        self.there, self.go = threading.Event(), threading.Event()

    def before(self, operation: str, arguments: tuple[Any, ...]) -> None:
        if operation != "pwrite" or os.fstat(arguments[0]).st_ino != self.inode:
            return
        if self.number == 0:
            file, buffer, offset = arguments
            Files.pwrite(self, file, memoryview(buffer).cast("B")[: memoryview(buffer).nbytes // 2], offset)
            if self.dies:
                os.kill(os.getpid(), signal.SIGKILL)
            self.there.set()
            assert self.go.wait(60)
        self.number -= 1


def begun(root: Path, way: Way) -> tuple[Any, Any]:
    made(root, way)[...] = old = noise(1, SHAPE)
    new = old.copy()
    new[CHANGED] = noise(2, CHUNK, bits=31 if way.strategy.name == "append" else 20)
    return old, new


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("name", IN_PLACE)
def test_a_reader_waits_for_a_writer_that_stands_still(root: Path, name: str, number: int, mode: Any) -> None:
    way = BY_NAME[name]
    old, new = begun(root, way)
    files = HalfWay(root / "c/0/0", number)
    writer = threading.Thread(target=lambda: opened(root, way, files).__setitem__(CHANGED, new[CHANGED]))
    writer.start()
    while not files.there.wait(0.01):
        if not writer.is_alive():
            return  # it has no such write
    threading.Timer(0.4, files.go.set).start()
    found = terrazzo.open_array(root, mode=mode)[...]
    assert np.array_equal(found, old) or np.array_equal(found, new)
    writer.join()
    np.testing.assert_array_equal(terrazzo.open_array(root, mode="r")[...], new)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("name", IN_PLACE)
def test_a_reader_mends_what_a_dead_writer_left(root: Path, name: str, number: int) -> None:
    way = BY_NAME[name]
    old, new = begun(root, way)
    files = HalfWay(root / "c/0/0", number, dies=True)
    if not os.WIFSIGNALED(in_child(lambda: opened(root, way, files).__setitem__(CHANGED, new[CHANGED]))):
        return
    found = terrazzo.open_array(root, mode="r+")[...]
    assert np.array_equal(found, old) or np.array_equal(found, new)


def test_without_a_second_look_the_half_is_an_error(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the checksum that notices, and the second look that cures."""
    way = BY_NAME["slots-index-at-end"]
    _, new = begun(root, way)
    files = HalfWay(root / "c/0/0", 0, dies=True)
    assert os.WIFSIGNALED(in_child(lambda: opened(root, way, files).__setitem__(CHANGED, new[CHANGED])))
    with monkeypatch.context() as patch:
        patch.setattr("terrazzo.read.flow.PATIENT_TRIES", 1)
        with pytest.raises(terrazzo.errors.ChecksumError, match=r"inner chunk \(0, 0\)"):
            opened(root, way)[...]
    np.testing.assert_array_equal(opened(root, way)[...], new)


def test_who_may_only_read_is_told_of_a_dead_writer(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    way = BY_NAME["slots-index-at-end"]
    _, new = begun(root, way)
    files = HalfWay(root / "c/0/0", 0, dies=True)
    assert os.WIFSIGNALED(in_child(lambda: opened(root, way, files).__setitem__(CHANGED, new[CHANGED])))
    monkeypatch.setattr("terrazzo.read.flow.time.sleep", lambda _: None)
    with pytest.raises(terrazzo.errors.ChecksumError):
        terrazzo.open_array(root, mode="r")[...]
    np.testing.assert_array_equal(opened(root, way)[...], new)


def test_a_journal_is_not_redone_on_another_file_of_the_same_inode(tmp_path: Path) -> None:
    """Another library replaced the shard, so often that the dead writer's inode is used again."""
    way = BY_NAME["slots-index-at-end"]
    begun(tmp_path, way)
    path = tmp_path / "c/0/0"
    files = HalfWay(path, 0, dies=True)
    assert os.WIFSIGNALED(in_child(lambda: opened(tmp_path, way, files).__setitem__(CHANGED, 5)))
    whole = path.read_bytes()
    made(tmp_path / "other", way)[...] = newer = noise(3, SHAPE)
    theirs = (tmp_path / "other/c/0/0").read_bytes()
    inode = path.stat().st_ino
    assert len(theirs) == len(whole)
    for _ in range(200):
        fresh = path.with_name("fresh")
        fresh.write_bytes(theirs)
        fresh.rename(path)
        if path.stat().st_ino == inode:
            break
    else:
        pytest.skip("this file system does not use inodes again")
    np.testing.assert_array_equal(opened(tmp_path, way)[...], newer)
    opened(tmp_path, way)[0, 0] = newer[0, 0]
    np.testing.assert_array_equal(opened(tmp_path, way)[...], newer)
