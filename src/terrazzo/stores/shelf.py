"""Small files in folders of one folder, within a byte budget that many processes keep together.

What it does not do: know what is in the files. Nothing that goes wrong here is an error: what cannot be written is not
written, and what cannot be read is not there.

A file is written beside its place and renamed; nobody else sees it before. What was used longest ago goes first. The
budget is of the disk: every file and folder counts in whole pages. One number is locked for as long as it takes to add
to it; who throws out locks nobody else out of reading or writing.
"""

from __future__ import annotations

import os
import stat
import struct
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from terrazzo.errors import StoreError, UnsupportedError
from terrazzo.stores.contract import Buffer

__all__ = ["Shelf", "pages"]

PAGE = 4096
_MAGIC = b"tzrange1"
_TOTAL = struct.Struct("<8sQ")
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_STALE = 3600.0  # seconds after which an unfinished file is a dead writer's
_TOUCHED = 10 * 10**9  # nanoseconds within which another use is not written down
_TARGET = 0.8  # of the budget, after files were thrown out


def pages(nbytes: int) -> int:
    """What a file of so many bytes takes on a disk."""
    return -(-nbytes // PAGE) * PAGE


class Shelf:
    """The folder `root`, and the budget in bytes of disk."""

    def __init__(self, root: str | os.PathLike[str], nbytes: int) -> None:
        self.root = os.path.abspath(os.path.expanduser(os.fspath(root)))
        self.nbytes = nbytes
        self._number = 0
        self._guard = threading.Lock()
        _claim(self.root)

    def path(self, folder: str, name: str) -> str:
        return f"{self.root}/{folder}/{name}"

    def open(self, folder: str, name: str) -> int | None:
        """A descriptor of a file, for reading, and now counted as used; None where there is no plain file."""
        try:
            file = os.open(self.path(folder, name), os.O_RDONLY | _PLAIN)
        except OSError:
            return None
        try:
            looked = os.fstat(file)
            if stat.S_ISREG(looked.st_mode):
                if time.time_ns() - looked.st_mtime_ns > _TOUCHED:
                    with suppress(OSError):
                        os.utime(file)
                return file
        except OSError:
            pass
        os.close(file)
        return None

    def names(self, folder: str) -> list[str]:
        with suppress(OSError), os.scandir(f"{self.root}/{folder}") as entries:
            return [entry.name for entry in entries]
        return []

    def stamp(self, folder: str) -> int:
        """What changes when files come into a folder, or go."""
        try:
            return os.stat(f"{self.root}/{folder}").st_mtime_ns
        except OSError:
            return 0

    def write(self, folder: str, name: str, content: Sequence[Buffer]) -> bool:
        """Put a file into its place, whole; False where there is no room now, or the disk fails."""
        with self._guard:
            self._number += 1
            beside = self.path(folder, f".{os.getpid()}-{threading.get_ident()}-{self._number}")
        size = sum(memoryview(part).nbytes for part in content)
        cost = pages(size)
        try:
            file = self._begin(folder, beside, size)
            if file is None:
                return False
            try:
                if os.writev(file, content) != size:
                    raise OSError("the disk took a part of it")
            finally:
                os.close(file)
            with self._total() as total:
                path = self.path(folder, name)
                replaced = os.path.lexists(path)
                os.rename(beside, path)
                total[0] -= cost if replaced else 0
        except OSError:
            with suppress(OSError):
                os.unlink(beside)
                with self._total() as total:
                    total[0] -= cost
            with suppress(OSError):
                os.makedirs(self.root, mode=0o700, exist_ok=True)  # somebody removed all of it
            return False
        return True

    def _begin(self, folder: str, beside: str, size: int) -> int | None:
        """A new file of its full size, counted; None where there is no room now.

        It is there before others see that it was counted: whoever counts files meanwhile counts it too.
        """
        where = f"{self.root}/{folder}"
        for attempt in range(2):
            with self._total() as total:
                cost = pages(size) + (0 if os.path.isdir(where) else PAGE)
                if total[0] + cost <= self.nbytes:
                    with suppress(FileExistsError):
                        os.mkdir(where, 0o700)
                    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN, 0o600)
                    try:
                        os.ftruncate(file, size)
                    except OSError:
                        os.close(file)
                        os.unlink(beside)
                        raise
                    total[0] += cost
                    return file
            if attempt or not self._throw_out(cost):
                return None
        return None

    def _throw_out(self, cost: int) -> bool:
        """Remove what was used longest ago, until there is room for more than `cost`. False where another is at it."""
        with _locked(f"{self.root}/sweeper", wait=False) as sweeper:
            if sweeper < 0:
                return False
            with self._total() as total:
                before = total[0]
            found = sorted(self._walk())
            left, emptied = sum(nbytes for _, nbytes, _ in found), set()
            for _, nbytes, path in found:
                if left + cost <= self.nbytes * _TARGET:
                    break
                with suppress(OSError):  # folders stay as long as something is in them
                    os.unlink(path)
                    left -= nbytes
                    emptied.add(os.path.dirname(path))
            with self._total() as total:
                for folder in emptied:
                    with suppress(OSError):
                        os.rmdir(folder)
                        left -= PAGE
                total[0] = left + max(0, total[0] - before)  # and what others counted meanwhile
        return True

    def _walk(self) -> Iterator[tuple[int, int, str]]:
        """(last use, bytes, path) of every file and folder; unfinished files of dead writers go."""
        with suppress(OSError), os.scandir(self.root) as folders:
            for folder in folders:
                if not folder.is_dir(follow_symlinks=False):
                    continue
                yield time.time_ns(), PAGE, folder.path
                with suppress(OSError), os.scandir(folder.path) as entries:
                    for entry in entries:
                        with suppress(OSError):
                            looked = entry.stat(follow_symlinks=False)
                            if entry.name.startswith(".") and time.time() - looked.st_mtime > _STALE:
                                os.unlink(entry.path)
                            elif not stat.S_ISDIR(looked.st_mode):
                                yield looked.st_mtime_ns, pages(looked.st_size), entry.path

    @contextmanager
    def _total(self) -> Iterator[list[int]]:
        """The bytes that are counted, in a list to change them in; locked meanwhile. A lost number is counted anew."""
        with _locked(f"{self.root}/total") as file:
            found = os.pread(file, _TOTAL.size, 0)
            magic, before = _TOTAL.unpack(found) if len(found) == _TOTAL.size else (b"", 0)
            total = [before if magic == _MAGIC else sum(nbytes for _, nbytes, _ in self._walk())]
            yield total
            if total[0] != before or magic != _MAGIC:
                os.pwrite(file, _TOTAL.pack(_MAGIC, max(0, total[0])), 0)


@contextmanager
def _locked(path: str, wait: bool = True) -> Iterator[int]:
    """An open file, locked alone; -1 where somebody has it and nobody waits."""
    import fcntl

    file = os.open(path, os.O_RDWR | os.O_CREAT | _PLAIN, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield -1
            return
        yield file
    finally:
        os.close(file)


def _claim(root: str) -> None:
    """Make the folder, or make sure that nobody else can have put into it what we would believe."""
    if sys.platform == "win32":
        raise UnsupportedError(
            "caches on Windows are not supported yet: processes share them by locks it does not have"
        )
    try:
        os.makedirs(root, mode=0o700, exist_ok=True)
        looked = os.stat(root)
    except OSError as error:
        raise StoreError(f"{root!r} cannot hold a cache: {error.strerror or error}") from error
    if looked.st_mode & stat.S_IWOTH or looked.st_uid not in (os.getuid(), 0):
        raise StoreError(
            f"{root!r} cannot hold a cache: others may write to it, and what they wrote would be read as values; "
            "name a folder of your own"
        )
