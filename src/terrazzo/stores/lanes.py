"""A journal that several writers share: each has a lane of its own in the file, and its record in it or none.

What it does not do: know what a record says (journal.py), or which bytes of the object it is about (slots.py).

    head      marks the file as one of this kind (a sole writer's journal has another mark)
    lane k    from FIRST + k * LANE on: a mark, the record's length, the record. No mark: no record.

The file is sparse, so lanes lie far apart and a record has room. Its writer keeps the lane's first byte locked for as
long as the record counts; a record in a lane that nobody locks was left by a dead writer.
"""

from __future__ import annotations

import os
import struct

from terrazzo.errors import HeldError
from terrazzo.stores.files import Files, write_all
from terrazzo.stores.locks import lock_range, unlock

__all__ = ["ROOM", "are_lanes", "clear", "close_lane", "has_dead", "open_lane", "put", "records"]

HEAD = b"tzlanes\n"
#: bytes of one record at most
ROOM = 1 << 30
FIRST = 4096
LANE = 1 << 32
LANES = 1024

_MARK = b"record\n\0"
_PREFIX = struct.Struct("<8sQ")


def open_lane(files: Files, folder: int, name: str) -> tuple[int, int]:
    """The open journal file `name`, made where it is missing, and where in it the lane begins that is now ours."""
    file = files.create(name, folder, os.O_RDWR)
    try:
        if os.pread(file, len(HEAD), 0) != HEAD:
            write_all(files, file, 0, HEAD)
        for number in range(LANES):
            start = FIRST + number * LANE
            if lock_range(file, start, 1, wait=False):
                if not os.pread(file, 1, start).strip(b"\0"):
                    return file, start
                lock_range(
                    file, start, 1, wait=False, free=True
                )  # a dead writer's: it has to be mended first
        raise HeldError(f"{name!r}: {LANES} writers are at work in one object")
    except BaseException:
        os.close(file)
        raise


def put(files: Files, file: int, start: int, record: bytes) -> None:
    """Write a record into a lane."""
    write_all(files, file, start, _PREFIX.pack(_MARK, len(record)) + record)


def clear(files: Files, file: int, start: int) -> None:
    """The record of a lane counts no more."""
    write_all(files, file, start, bytes(_PREFIX.size))


def close_lane(file: int) -> None:
    """Give the lane back."""
    unlock(file)


def are_lanes(file: int) -> bool:
    """Whether an open journal file is one of this kind."""
    return os.pread(file, len(HEAD), 0) == HEAD


def records(file: int) -> list[bytes]:
    """What lies in the lanes, whole or not."""
    found = []
    for start, length in _marked(file):
        if length <= ROOM and start + _PREFIX.size + length <= os.fstat(file).st_size:
            found.append(os.pread(file, length, start + _PREFIX.size))
    return found


def has_dead(file: int) -> bool:
    """Whether a dead writer's record lies in a lane; asked through a descriptor that has no lane itself."""
    for start, _ in _marked(file):
        if lock_range(file, start, 1, wait=False):
            # Its writer may have ended between the look and the lock: look again, now that nobody changes it.
            dead = os.pread(file, len(_MARK), start) == _MARK
            lock_range(file, start, 1, wait=False, free=True)
            if dead:
                return True
    return False


def _marked(file: int) -> list[tuple[int, int]]:
    size = os.fstat(file).st_size
    found = []
    for start in range(FIRST, min(size, FIRST + LANES * LANE), LANE):
        prefix = os.pread(file, _PREFIX.size, start)
        if len(prefix) == _PREFIX.size:
            mark, length = _PREFIX.unpack(prefix)
            if mark == _MARK:
                found.append((start, length))
    return found
