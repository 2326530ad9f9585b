"""Killed, or refused by the disk, at every operation of every way of writing: nothing torn, nothing lost."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from terrazzo.errors import StoreError
from terrazzo.stores.files import Files
from terrazzo.stores.local import LocalStore
from tests.faults.layers import Counting, Failing, Killing, Short
from tests.faults.ways import CHUNK, SHAPE, WAYS, Way, left_overs, made, noise, opened

Change = Callable[[Any], None]
Value = np.ndarray[Any, Any]


def part_of_two_chunks(array: Any) -> None:
    array[10:30, 4:20] = noise(7, (20, 16), bits=20)


def one_chunk_longer(array: Any) -> None:
    array[: CHUNK[0], : CHUNK[1]] = noise(8, CHUNK)


def one_chunk_shorter(array: Any) -> None:
    array[: CHUNK[0], : CHUNK[1]] = noise(9, CHUNK, bits=3)


def one_chunk_to_fill(array: Any) -> None:
    array[: CHUNK[0], : CHUNK[1]] = 0


def everything(array: Any) -> None:
    array[...] = noise(10, SHAPE)


def nothing_is_left(array: Any) -> None:
    array[...] = 0


CHUNKS = [
    (slice(i, i + CHUNK[0]), slice(j, j + CHUNK[1]))
    for i in range(0, SHAPE[0], CHUNK[0])
    for j in range(0, SHAPE[1], CHUNK[1])
]
CHANGES = [
    *(part_of_two_chunks, one_chunk_longer, one_chunk_shorter),
    *(one_chunk_to_fill, everything, nothing_is_left),
]


def base(root: Path, way: Way) -> Value:
    """An array with three of its four chunks stored."""
    array = made(root, way)
    value = noise(1, SHAPE, bits=12)
    value[CHUNK[0] :, CHUNK[1] :] = 0
    array[...] = value
    return value


def after(root: Path, way: Way, change: Change, files: Files | None = None) -> Value:
    array = opened(root, way, files)
    change(array)
    return np.array(opened(root, way)[...])


def checked(root: Path, way: Way, old: Value, new: Value) -> bool:
    """The array is old or new, whole; the next write is done and leaves nothing beside the object. True: it is new."""
    array = opened(root, way)
    found = array[...]
    if way.strategy.name == "in-place" and not np.array_equal(found, new):
        # Until it is mended each inner chunk is old or new; afterwards all of the write is.
        for window in CHUNKS:
            assert np.array_equal(found[window], old[window]) or np.array_equal(found[window], new[window])
    else:
        assert np.array_equal(found, old) or np.array_equal(found, new)
    if way.strategy.name != "replace":
        array.store.recover("c/0/0")
        found = array[...]
    is_new = np.array_equal(found, new)
    assert is_new or np.array_equal(found, old)
    array[5:7, 40:50] = -3
    wanted = (new if is_new else old).copy()
    wanted[5:7, 40:50] = -3
    np.testing.assert_array_equal(opened(root, way)[...], wanted)
    assert left_overs(root) == []
    return is_new


def in_child(work: Callable[[], None]) -> int:
    """What a forked process that does `work` ends with, as by os.waitpid."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


def operations(root: Path, way: Way, change: Change) -> tuple[list[str], Value, Value]:
    """The operations of a change, and the array before and after it; `base` lies in root/base."""
    old = base(root / "base", way)
    shutil.copytree(root / "base", root / "whole")
    counted = Counting()
    new = after(root / "whole", way, change, counted)
    assert not np.array_equal(old, new)
    assert left_overs(root / "whole") == []
    return counted.calls, old, new


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_killed_at_every_operation(root: Path, way: Way, change: Change) -> None:
    calls, old, new = operations(root, way, change)
    assert len(calls) >= 3
    outcomes = []
    for at, call in enumerate(calls):
        for half in (False, True) if call == "pwrite" else (False,):
            place = root / "killed"
            shutil.copytree(root / "base", place)
            array = opened(place, way, Killing(at, half=half))
            status = in_child(lambda array=array: change(array))
            assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
            assert len(left_overs(place)) <= 2, "at most the lock and the journal"
            outcomes.append(checked(place, way, old, new))
            shutil.rmtree(place)
    assert not outcomes[0], "nothing happened before the first operation"
    assert outcomes == sorted(outcomes), "once it is new it stays new"


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_refused_at_every_operation(root: Path, way: Way, change: Change) -> None:
    """A disk that is full or broken, once or for good: an error of ours, the old value or the new, no litter."""
    calls, old, new = operations(root, way, change)
    for at, call in enumerate(calls):
        errors = [errno.ENOSPC, errno.EIO] if call in ("create", "pwrite", "mkdir") else [errno.EIO]
        for lasting, error in [(False, errors[0]), (True, errors[-1])]:
            place = root / "refused"
            shutil.copytree(root / "base", place)
            files = Failing(at, error, lasting=lasting, half=at % 2 == 0)
            try:
                change(opened(place, way, files))
            except StoreError as refused:
                said = str(refused)
            else:
                said = None
            if said is None:
                # Only what is tidied up after the object is durable may fail in silence.
                np.testing.assert_array_equal(opened(place, way)[...], new)
            else:
                assert "c/0/0" in said
            if not lasting and call != "unlink":
                assert not [name for name in left_overs(place) if name.endswith(".__lock")]
            checked(place, way, old, new)
            shutil.rmtree(place)


@pytest.mark.parametrize("most", [1, 7, 511])
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_short_writes_are_continued(root: Path, way: Way, most: int) -> None:
    base(root, way)
    array = opened(root, way, Short(most))
    wanted = array[...]
    for change in CHANGES[:4]:
        change(array)
        change(wanted)
        np.testing.assert_array_equal(opened(root, way)[...], wanted)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_interrupted_by_signals_all_the_time(root: Path, way: Way) -> None:
    """Signals that come every 0.2 ms make no call fail."""
    base(root, way)
    array = opened(root, way)
    wanted = array[...]
    arrived: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda *_: arrived.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
    try:
        for change in CHANGES * 2:
            change(array)
            change(wanted)
            np.testing.assert_array_equal(array[...], wanted)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert arrived


_FULL = """
import resource, sys
import numpy as np
from pathlib import Path
from terrazzo.errors import StoreError
from tests.faults.ways import BY_NAME, noise, opened

way, root = BY_NAME[sys.argv[1]], Path(sys.argv[2])
array = opened(root, way)
old = array[...]
size = (root / "c/0/0").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size - 100 if sys.argv[3] == "all" else size + 100,) * 2)
try:
    array[...] = noise(3, array.shape)
except StoreError as error:
    print(error)
else:
    raise SystemExit("no error")
np.testing.assert_array_equal(opened(root, way)[...], old)
"""


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_limit_that_the_kernels_own_writes_meet(root: Path, way: Way) -> None:
    """The descriptor that the kernel writes to is refused more bytes: an error, the old shard, no litter."""
    base(root, way)
    done = subprocess.run(
        [sys.executable, "-c", _FULL, way.name, str(root), "all"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "c/0/0" in done.stdout
    assert left_overs(root) == []


@pytest.mark.parametrize("durability", ["fsync", "rename", "none"])
def test_what_each_durability_syncs(root: Path, durability: str) -> None:
    way = WAYS[0]
    base(root, way)
    files = Counting()
    array = opened(root, way, files).using(durability=durability)
    everything(array)
    syncs = [call for call in files.calls if call.startswith("sync")]
    assert syncs == (["sync", "sync_folder"] if durability == "fsync" else [])
    if durability == "fsync":
        calls = files.calls
        assert calls.index("sync") < calls.index("rename") < calls.index("sync_folder")
    store = array.store
    assert isinstance(store, LocalStore)
    store.sync()
    again = [call for call in files.calls if call.startswith("sync")]
    assert again == (syncs if durability == "fsync" else ["sync_file_system"])
