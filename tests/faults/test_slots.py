"""Slots: writers of fixed-size chunks of one shard wait for nobody but those who write to the same chunk."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.errors import HeldError, StoreError
from terrazzo.stores.contract import Erase, Patch
from terrazzo.stores.local import LocalStore
from terrazzo.stores.locks import OPEN_FILE_LOCKS
from tests.faults.layers import Counting
from tests.faults.test_crashes import in_child
from tests.faults.ways import BY_NAME, CHUNK, SHAPE, left_overs, made, noise, opened

pytestmark = pytest.mark.skipif(not OPEN_FILE_LOCKS, reason="this system has no locks of open files")

WAY = BY_NAME["slots-index-at-end"]
SHARD = "c/0/0"
FIRST, SECOND = (slice(0, CHUNK[0]), slice(0, CHUNK[1])), (slice(0, CHUNK[0]), slice(CHUNK[1], SHAPE[1]))


class Stopping(Counting):
    """Stops ahead of the first write to the object itself, until `go` is set."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.inode = os.stat(path).st_ino
        self.stopped, self.go = threading.Event(), threading.Event()

    def before(self, operation: str, arguments: tuple[Any, ...]) -> None:
        if (
            operation == "pwrite"
            and os.fstat(arguments[0]).st_ino == self.inode
            and not self.stopped.is_set()
        ):
            self.stopped.set()
            assert self.go.wait(60)


def test_a_shard_is_written_with_a_slot_for_every_chunk(root: Path) -> None:
    array = made(root, WAY)
    array[0, 0] = 7
    n_chunks, nbytes = 4, CHUNK[0] * CHUNK[1] * 4 + 4
    assert (root / SHARD).stat().st_size == n_chunks * nbytes + n_chunks * 16 + 4
    inode = (root / SHARD).stat().st_ino
    array[...] = 0  # all of it: replaced, and the slots are laid again
    assert (root / SHARD).stat().st_size == n_chunks * nbytes + n_chunks * 16 + 4
    assert (root / SHARD).stat().st_ino != inode
    inode = (root / SHARD).stat().st_ino
    array[FIRST] = noise(1, CHUNK)
    array[FIRST] = 0
    array[3:30, 3:40] = 5
    assert (root / SHARD).stat().st_ino == inode
    assert (opened(root, WAY)[3:30, 3:40] == 5).all()
    assert left_overs(root) == []


def test_no_writer_waits_for_anothers_slot(root: Path) -> None:
    """A writer that stopped in the middle of its chunk: others write theirs meanwhile, and return."""
    made(root, WAY)[...] = 1
    files = Stopping(root / SHARD)
    slow = threading.Thread(target=lambda: opened(root, WAY, files).__setitem__(FIRST, 2))
    slow.start()
    try:
        assert files.stopped.wait(60)
        opened(root, WAY)[SECOND] = 3  # this thread
        status = in_child(lambda: opened(root, WAY).__setitem__((slice(CHUNK[0], None), slice(None)), 4))
        assert status == 0, "another process"
        assert (opened(root, WAY)[SECOND] == 3).all()
        assert (opened(root, WAY)[CHUNK[0] :] == 4).all()
        assert (opened(root, WAY)[FIRST] == 1).all(), "the slow one is still at work"
        # the same slot has to be waited for
        with LocalStore(root).hold(SHARD, exclusive=False) as hold:
            with pytest.raises(HeldError):
                hold.claim([(0, 10)], timeout=0)
        with pytest.raises(HeldError):
            LocalStore(root).hold(SHARD, timeout=0)
    finally:
        files.go.set()
        slow.join()
    assert (opened(root, WAY)[FIRST] == 2).all()
    assert left_overs(root) == []


def test_the_same_slot_is_waited_for(root: Path) -> None:
    made(root, WAY)[...] = 1
    files = Stopping(root / SHARD)
    slow = threading.Thread(target=lambda: opened(root, WAY, files).__setitem__(FIRST, 2))
    slow.start()
    assert files.stopped.wait(60)
    done = threading.Event()

    def write() -> None:
        opened(root, WAY)[0, 0] = 9  # a part of the chunk: laid over what the slow one leaves
        done.set()

    other = threading.Thread(target=write)
    other.start()
    assert not done.wait(0.1)
    files.go.set()
    slow.join()
    other.join()
    wanted = np.ones(SHAPE, "i4")
    wanted[FIRST] = 2
    wanted[0, 0] = 9
    np.testing.assert_array_equal(opened(root, WAY)[...], wanted)


def test_the_locks_are_one_per_slot(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trace of one write to two chunks: the gate and the lock shared, their two slots, a lane; nothing else is
    waited for."""
    made(root, WAY)[...] = 1
    trace: list[tuple[str, Any]] = []
    from terrazzo.stores import lanes, locks, slots

    plain_range, plain_set = locks.lock_range, locks._set

    def lock_range(file: int, start: int, length: int, *, wait: bool, free: bool = False) -> bool:
        where = "slot" if os.fstat(file).st_ino == (root / SHARD).stat().st_ino else "lane"
        trace.append((where, (start, length, wait)))
        return plain_range(file, start, length, wait=wait, free=free)

    def set_lock(file: int, exclusive: bool, wait: bool, span: tuple[int, int]) -> None:
        trace.append(("gate" if span[0] else "object", (exclusive, wait)))
        plain_set(file, exclusive, wait, span)

    monkeypatch.setattr(slots, "lock_range", lock_range)
    monkeypatch.setattr(lanes, "lock_range", lock_range)
    monkeypatch.setattr(locks, "_set", set_lock)
    array = opened(root, WAY)
    array[0:2, 0:40] = 2
    nbytes = CHUNK[0] * CHUNK[1] * 4 + 4
    assert trace == [
        ("gate", (False, True)),
        ("object", (False, True)),
        ("slot", (0, 2 * nbytes, True)),  # neighbours, locked in one call
        ("lane", (lanes.FIRST, 1, False)),
        ("object", (True, False)),  # leaving: tidied up by who is alone
    ]


def test_a_writer_that_died_is_mended_before_its_slot_is_written(root: Path) -> None:
    """The kernel gives its locks to whoever waits; what it left half way must not come back later."""
    made(root, WAY)[...] = 1

    class Dying(Counting):
        def before(self, operation: str, arguments: tuple[Any, ...]) -> None:
            if operation == "pwrite" and os.fstat(arguments[0]).st_ino == inode:
                os.pwrite(arguments[0], memoryview(arguments[1])[:100], arguments[2])
                os.kill(os.getpid(), signal.SIGKILL)

    inode = (root / SHARD).stat().st_ino
    files = Stopping(root / SHARD)  # keeps the object shared all the while, so that nobody tidies up
    other = threading.Thread(target=lambda: opened(root, WAY, files).__setitem__(SECOND, 3))
    other.start()
    assert files.stopped.wait(60)
    assert os.WIFSIGNALED(in_child(lambda: opened(root, WAY, Dying()).__setitem__(FIRST, 2)))
    later = threading.Thread(target=lambda: opened(root, WAY).__setitem__((0, 0), 8))
    later.start()  # finds the dead one's record, and waits for the other to leave so as to mend alone
    later.join(0.1)
    files.go.set()
    other.join()
    later.join()
    wanted = np.ones(SHAPE, "i4")
    wanted[FIRST], wanted[SECOND] = 2, 3
    wanted[0, 0] = 8
    np.testing.assert_array_equal(opened(root, WAY)[...], wanted)
    assert left_overs(root) == []


def test_what_was_not_claimed_cannot_be_written(root: Path) -> None:
    made(root, WAY)[...] = 1
    store = LocalStore(root)
    with store.hold(SHARD, exclusive=False) as hold:
        with pytest.raises(StoreError, match="shared"):
            store.commit([Patch(hold, overwrites=[(0, b"x")])])
        assert hold.claim([(0, 4), (8, 4)])
        assert not hold.claim([(100, 1)]), "once"
        for patch in (
            Patch(hold, overwrites=[(4, b"x")]),
            Patch(hold, overwrites=[(2, b"xyz")]),
            Patch(hold, appends=[((root / SHARD).stat().st_size, b"x")]),
        ):
            with pytest.raises(StoreError, match="claimed"):
                store.commit([patch])
        with pytest.raises(StoreError, match="shared"):
            store.commit([Erase(hold)])
        store.commit([Patch(hold, overwrites=[(8, b"abcd")])])
    assert (root / SHARD).read_bytes()[8:12] == b"abcd"


def test_many_writers_of_many_slots(root: Path) -> None:
    """Four processes of four threads, each with chunks of its own and one that all of them write."""
    n, rounds = 16, 6
    shape = (CHUNK[0] * n, CHUNK[1])
    made(root, WAY, shape=(shape[0] + CHUNK[0], shape[1]), shards=(shape[0] + CHUNK[0], shape[1]))
    opened(root, WAY)[0, 0] = 1

    def work(number: int) -> None:
        array = opened(root, WAY)
        for turn in range(1, rounds + 1):
            array[CHUNK[0] * number : CHUNK[0] * (number + 1)] = number * 100 + turn
            array[shape[0] :] = number * 100 + turn

    def several(numbers: range) -> None:
        threads = [threading.Thread(target=work, args=(number,)) for number in numbers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    children = []
    for first in range(0, n, 4):
        child = os.fork()
        if child == 0:
            several(range(first, first + 4))
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(children)
    found = opened(root, WAY)[...]
    for number in range(n):
        assert (found[CHUNK[0] * number : CHUNK[0] * (number + 1)] == number * 100 + rounds).all()
    last = np.unique(found[shape[0] :])
    assert len(last) == 1, "the last one wins, whole"
    assert last[0] % 100 == rounds
    opened(root, WAY)[0, 0] = 1
    assert left_overs(root) == []


def test_tasks_that_wait_for_a_slot_leave_threads_to_its_holder(root: Path) -> None:
    """More tasks than threads, all on one chunk: who has the slot finds a thread to commit in."""
    made(root, WAY)[...] = 1
    array = terrazzo.AsyncArray(opened(root, WAY))

    async def everybody() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        await asyncio.wait_for(asyncio.gather(*(array.setitem((0, k), k + 10) for k in range(12))), 60)

    asyncio.run(everybody())
    assert opened(root, WAY)[0, :12].tolist() == [k + 10 for k in range(12)]


def test_who_wants_the_whole_shard_gets_its_turn(root: Path) -> None:
    """Writers of slots that never leave a gap between them let a writer of the whole shard pass."""
    made(root, WAY)[...] = 1
    over = threading.Event()
    store = LocalStore(root)

    def stream() -> None:
        """Give a hold back only once the next one is there, or cannot be had."""
        held = store.hold(SHARD, exclusive=False)
        while not over.is_set():
            try:
                following = store.hold(SHARD, exclusive=False, timeout=0.05)
            except HeldError:
                held.release()
                held = store.hold(SHARD, exclusive=False)
            else:
                held.release()
                held = following
        held.release()

    threads = [threading.Thread(target=stream) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            store.hold(SHARD, timeout=20).release()
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert left_overs(root) == []
