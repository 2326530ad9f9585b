"""Lock files: one writer of an object at a time, across processes.

What it does not do: write the object; keep out programs that take no lock.

The lock of the object `name` is the file `name.__lock` beside it, locked as a whole. It is also the place where the
new object is built, and what is renamed over the old one. So whoever gets the lock of a file that no longer bears
the name (it was renamed or removed meanwhile) has to try again with the one that does. tensorstore takes the same
lock in the same manner; its writers and ours exclude one another.

Where ranges of an open file can be locked, everybody passes a gate, one byte far behind the others, on the way to the
lock: who wants it alone keeps the gate until all who share the lock are gone, so that no new ones come before.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys
import time

from terrazzo.errors import HeldError, StoreError
from terrazzo.stores.files import Files

if sys.platform != "win32":
    import fcntl

__all__ = ["LOCK_SUFFIX", "OPEN_FILE_LOCKS", "lock", "lock_again", "lock_range", "share_alone", "unlock"]

LOCK_SUFFIX = ".__lock"

_BUSY = (errno.EAGAIN, errno.EACCES)
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
# Locks of an open file description (Linux), not of a process: threads exclude one another, and closing another
# descriptor of the same file gives nothing away. Elsewhere flock has the same manner.
OPEN_FILE_LOCKS = hasattr(fcntl, "F_OFD_SETLK") if sys.platform != "win32" else False
#: (start, length) of what is locked for an object, of the gate before it, and of both
_OBJECT, _GATE, _WHOLE = (0, 1 << 62), (1 << 62, 1), (0, 0)


def lock(
    files: Files, folder: int, name: str, exclusive: bool, timeout: float | None
) -> tuple[int, os.stat_result]:
    """The open lock file of `name`, locked and bearing the lock's name, and what it is under the lock; HeldError after
    `timeout` seconds.

    FileNotFoundError where the folder was removed.
    """
    lock_name = name + LOCK_SUFFIX
    deadline = None if timeout is None else time.monotonic() + timeout
    flags = os.O_RDWR | os.O_NONBLOCK  # opening a FIFO must not wait for its other end
    while True:
        try:
            file = files.create(lock_name, folder, flags)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK, errno.EISDIR, errno.ENXIO):
                raise _not_a_file(lock_name) from error
            raise
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
                raise _not_a_file(lock_name)
            if not (
                exclusive and share_alone(file)
            ):  # nobody there, nearly always: gate and object in one step
                _wait(file, name, exclusive, deadline)
            named = _bearing(lock_name, folder, found)
            if named is not None:
                return file, named
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def share_alone(file: int) -> bool:
    """Whether a shared lock could be made the only one."""
    try:
        _set(file, True, False, _WHOLE)
    except OSError:
        return False
    return True


def lock_again(folder: int, name: str) -> int | None:
    """The lock file of `name`, locked alone, where it is there and nobody else has it; never made."""
    try:
        file = os.open(
            name + LOCK_SUFFIX, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder
        )
    except OSError:
        return None
    try:
        if share_alone(file) and _bearing(name + LOCK_SUFFIX, folder, os.fstat(file)) is not None:
            return file
    except BaseException:
        os.close(file)
        raise
    os.close(file)
    return None


def lock_range(file: int, start: int, length: int, *, wait: bool, free: bool = False) -> bool:
    """Lock these bytes of an open file alone, or give them `free`; False where another has some of them.

    Only where OPEN_FILE_LOCKS.
    """
    kind = fcntl.F_UNLCK if free else fcntl.F_WRLCK
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK, _range(kind, start, length))
    except OSError as error:
        if error.errno not in _BUSY:
            raise
        return False
    return True


def unlock(file: int) -> None:
    """Give the lock back and close its file; also where a forked child still has a copy of the descriptor."""
    try:
        if OPEN_FILE_LOCKS:
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, _range(fcntl.F_UNLCK))
        else:
            fcntl.flock(file, fcntl.LOCK_UN)
    finally:
        os.close(file)


def _wait(file: int, name: str, exclusive: bool, deadline: float | None) -> None:
    if not OPEN_FILE_LOCKS:
        _wait_for(file, name, exclusive, deadline, _WHOLE)
        return
    _wait_for(file, name, exclusive, deadline, _GATE)
    _wait_for(file, name, exclusive, deadline, _OBJECT)
    fcntl.fcntl(file, fcntl.F_OFD_SETLK, _range(fcntl.F_UNLCK, *_GATE))


def _wait_for(file: int, name: str, exclusive: bool, deadline: float | None, span: tuple[int, int]) -> None:
    pause = 0.0005
    while True:
        try:
            _set(file, exclusive, deadline is None, span)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                raise StoreError(
                    f"{name!r}: the file system has no locks ({os.strerror(error.errno)}), so that two writers could "
                    "lose each other's changes; mount it with locks enabled, or write to another place"
                ) from error
            if error.errno not in _BUSY:
                raise
        else:
            return
        remaining = (deadline or 0.0) - time.monotonic()
        if remaining <= 0:
            raise HeldError(f"{name!r} is being changed by another writer; gave up waiting for it")
        time.sleep(min(pause, remaining))
        pause = min(pause * 2, 0.05)


def _set(file: int, exclusive: bool, wait: bool, span: tuple[int, int]) -> None:
    if OPEN_FILE_LOCKS:
        kind = fcntl.F_WRLCK if exclusive else fcntl.F_RDLCK
        fcntl.fcntl(file, fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK, _range(kind, *span))
    else:
        kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        fcntl.flock(file, kind | (0 if wait else fcntl.LOCK_NB))


def _range(kind: int, start: int = 0, length: int = 0) -> bytes:
    # struct flock: type, whence, start, length (0: to the end), process; the process is 0 for this kind of lock
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0)


def _bearing(lock_name: str, folder: int, locked: os.stat_result) -> os.stat_result | None:
    """What bears the lock's name now, where that is the file that was locked."""
    try:
        named = os.stat(lock_name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return named if (named.st_dev, named.st_ino) == (locked.st_dev, locked.st_ino) else None


def _not_a_file(lock_name: str) -> StoreError:
    return StoreError(
        f"{lock_name!r} is in the place of a lock file, but it is a link, a folder or a device; "
        "remove it, it was not made by a writer"
    )
