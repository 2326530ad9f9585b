"""Slots: several writers in one object at once, each in bytes that nobody else writes to.

What it does not do: change the object's length, or anything that lies outside its slots (an index, say).

Writers share the lock of the object, so that nobody replaces it meanwhile, and lock the bytes of their slots in the
object itself, lowest first. So a writer waits for those alone that write to one of its own slots. What it is about to
write is recorded in a lane of the journal (lanes.py) and is whole on the disk before a slot changes.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Sequence

from terrazzo.errors import HeldError, StoreError
from terrazzo.stores import lanes
from terrazzo.stores.contract import Patch, Tag
from terrazzo.stores.files import Files, write_all
from terrazzo.stores.journal import JOURNAL_SUFFIX, WRITE, checked_pieces, journal_of, read_exactly, tag_of
from terrazzo.stores.locks import OPEN_FILE_LOCKS, lock_range, unlock

__all__ = ["Slots", "needs_mending"]

#: ranges locked for one writer; more of them cost more than waiting for the whole object
MOST_RANGES = 4096


class Slots:
    """Byte ranges of one object that are this writer's until `give`."""

    def __init__(self, file: int, ranges: list[tuple[int, int]]) -> None:
        self.file: int | None = file
        self.ranges = ranges

    @classmethod
    def claim(
        cls, folder: int, name: str, ranges: Sequence[tuple[int, int]], version: Tag, timeout: float | None
    ) -> Slots | None:
        """Wait for every (start, length); None where a sole writer has to do it.

        The caller shares the lock of the object, which it found at `version`.
        """
        joined = _joined(ranges)
        if not OPEN_FILE_LOCKS or len(joined) > MOST_RANGES or sum(n for _, n in joined) > lanes.ROOM // 2:
            return None
        file = os.open(name, WRITE, dir_fd=folder)
        try:
            # Inode and size alone: other slots may have been written since, which moves the time of change.
            if tag_of(os.fstat(file))[:3] != version[:3]:  # type: ignore[index]
                os.close(file)
                return None
            _take(file, name, joined, timeout)
            # Only now: who died with one of these slots locked has left its record before we got the lock.
            if needs_mending(folder, name):
                unlock(file)
                return None
        except BaseException:
            os.close(file)
            raise
        return cls(file, joined)

    def write(self, files: Files, folder: int, name: str, patch: Patch, sync: bool, journal: bool) -> Tag:
        """Overwrite inside the slots; afterwards all of it is there, or, after a crash, all once it is mended.

        An error puts the old bytes back, and where that fails too leaves the record for `mend`.
        """
        key, file = patch.hold.key, self.file
        if file is None:
            raise StoreError(f"{key!r}: its slots were given back; claim them again")
        found = os.fstat(file)
        appends, overwrites = checked_pieces(key, patch, found.st_size)
        if appends or not all(self._covers(start, memoryview(piece).nbytes) for start, piece in overwrites):
            raise StoreError(
                f"{key!r}: only bytes that were claimed can be written by one of several writers"
            )
        if not journal:
            for start, piece in overwrites:
                write_all(files, file, start, piece)
            files.stamp(file)
            return tag_of(os.fstat(file))
        lane, start = lanes.open_lane(files, folder, name + JOURNAL_SUFFIX)
        try:
            try:
                lanes.put(files, lane, start, journal_of(patch, file, (), overwrites).encode())
                if sync:
                    files.sync(lane)
                    files.sync_folder(folder)
            except BaseException:
                lanes.clear(files, lane, start)
                raise
            old = [
                (place, read_exactly(file, place, memoryview(piece).nbytes)) for place, piece in overwrites
            ]
            try:
                for place, piece in overwrites:
                    write_all(files, file, place, piece)
            except BaseException:
                for place, piece in old:
                    write_all(files, file, place, piece)
                if sync:
                    files.sync(file)
                lanes.clear(files, lane, start)
                raise
            files.stamp(file)
            if sync:
                files.sync(file)
            # This needs no sync: who writes to these slots next syncs a record of its own first, in the same file.
            lanes.clear(files, lane, start)
            return tag_of(os.fstat(file))
        finally:
            lanes.close_lane(lane)

    def give(self) -> None:
        file, self.file = self.file, None
        if file is not None:
            unlock(file)

    def _covers(self, start: int, length: int) -> bool:
        return any(first <= start and start + length <= first + n for first, n in self.ranges)


def needs_mending(folder: int, name: str) -> bool:
    """Whether a journal lies there that no living writer of slots accounts for; asked by who shares the lock."""
    try:
        file = os.open(name + JOURNAL_SUFFIX, WRITE, dir_fd=folder)
    except FileNotFoundError:
        return False
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            return True
        return lanes.has_dead(file) if lanes.are_lanes(file) else found.st_size > 0
    finally:
        os.close(file)


def _joined(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same bytes as ascending ranges; neighbours become one."""
    joined: list[tuple[int, int]] = []
    for start, length in sorted(ranges):
        if joined and start <= sum(joined[-1]):
            first, n = joined[-1]
            joined[-1] = (first, max(n, start + length - first))
        elif length:
            joined.append((start, length))
    return joined


def _take(file: int, name: str, ranges: Sequence[tuple[int, int]], timeout: float | None) -> None:
    deadline = None if timeout is None else time.monotonic() + timeout
    for start, length in ranges:
        pause = 0.0005
        while not lock_range(file, start, length, wait=deadline is None):
            remaining = (deadline or 0.0) - time.monotonic()
            if remaining <= 0:
                raise HeldError(f"{name!r}: another writer is at work in bytes {start} to {start + length}")
            time.sleep(min(pause, remaining))
            pause = min(pause * 2, 0.05)
