"""Byte ranges of versions of objects, kept in a folder within a budget; many processes may use one folder.

What it does not do: know stores. Whoever asks names an object and its version; what is found is what was kept under
that name, or nothing. Nothing that goes wrong here is an error: it is a miss.

One file per range, `<object>/<version>/<start>-<length>`, both names digests. A file is written beside its place and
renamed, and carries a digest of every block, bound to its place: what a crash, a disk or somebody's hand left half is
not believed. What was used longest ago goes first. Ranges are kept as they were asked for: rounding them to blocks
would fetch more than was asked for, see docs/decisions.
"""

from __future__ import annotations

import os
import re
import stat
import struct
import sys
import threading
import time
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from typing import NamedTuple

from terrazzo.errors import StoreError, UnsupportedError
from terrazzo.stores.contract import Buffer

__all__ = ["Extents", "Found", "Name", "name_of"]

_MAGIC = b"tzrange1"
_HEADER = struct.Struct("<8sQQ")
_TOTAL = struct.Struct("<8sQ")
_DIGEST = 8
#: bytes under one digest: a small read checks no more than this beyond what it needs
BLOCK = 1 << 16
#: longer ranges become several files, so that parts of them can go
LONGEST = 8 << 20
#: what a file takes on a disk is rounded up to this
PAGE = 4096
_FILE = re.compile(r"([0-9a-f]{1,16})-([0-9a-f]{1,16})").fullmatch
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_OLD = os.O_RDONLY | _PLAIN
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN
_NOTES, _NOTE = "notes", "last"  # beside an object's versions; counted and thrown out like ranges
_STALE = 3600.0  # seconds after which an unfinished file is a dead writer's
_TOUCHED = 10 * 10**9  # nanoseconds within which another use is not written down
_LISTED = 1024  # versions whose ranges are remembered in memory
_TARGET = 0.8  # of the budget, after ranges were thrown out


class Name(NamedTuple):
    """One version of one object, as digests in hexadecimal."""

    object: str
    version: str


class Found(NamedTuple):
    """What is there of a range: from its start, and up to its end; `head` is all of it where nothing is missing."""

    head: bytes
    tail: bytes


def name_of(object_text: str, version_text: str, key: bytes = b"") -> Name:
    """Names that tell nothing of what they name; key: keeps apart what must not be found by another process."""
    named = blake2b(object_text.encode("utf-8", "surrogatepass"), digest_size=16, key=key).hexdigest()
    version = blake2b(f"{named} {version_text}".encode("utf-8", "surrogatepass"), digest_size=16, key=key)
    return Name(named, version.hexdigest())


class _Listing:
    """The ranges of one version that were seen: (start, end), sorted; overlaps are rare and harmless."""

    def __init__(self, ranges: list[tuple[int, int]], stamp: int) -> None:
        self.ranges = ranges
        self.stamp = stamp
        self.longest = max((end - start for start, end in ranges), default=0)

    def add(self, start: int, end: int) -> None:
        insort(self.ranges, (start, end))
        self.longest = max(self.longest, end - start)

    def remove(self, start: int, end: int) -> None:
        at = bisect_left(self.ranges, (start, end))
        if self.ranges[at : at + 1] == [(start, end)]:
            del self.ranges[at]

    def touching(self, start: int, end: int) -> list[tuple[int, int]]:
        first = bisect_left(self.ranges, (start - self.longest, 0))
        last = bisect_left(self.ranges, (end, 0))
        return [one for one in self.ranges[first:last] if one[1] > start]


class Extents:
    """The folder and its budget in bytes of disk."""

    def __init__(self, folder: str | os.PathLike[str], nbytes: int) -> None:
        self.folder = os.path.abspath(os.path.expanduser(os.fspath(folder)))
        self.nbytes = nbytes
        self._listings: OrderedDict[Name, _Listing] = OrderedDict()
        self._guard = threading.Lock()
        self._number = 0
        _claim(self.folder)

    # -- finding --------------------------------------------------------------------------------------------------

    def find(self, name: Name, ranges: Sequence[tuple[int, int]]) -> list[Found]:
        """What is there of each (start, length)."""
        listing, stamp = self._listing(name)
        found = [self._assembled(name, listing, start, length) for start, length in ranges]
        missing = [i for i, (_, length) in enumerate(ranges) if len(found[i].head) < length]
        if missing and listing.stamp != stamp:  # another process may have brought it meanwhile
            listing = self._list(name, stamp)
            for i in missing:
                found[i] = self._assembled(name, listing, *ranges[i])
        return found

    def _assembled(self, name: Name, listing: _Listing, start: int, length: int) -> Found:
        end, at, parts = start + length, start, []
        with self._guard:
            touching = listing.touching(start, end)
        while at < end:
            reaching = [one for one in touching if one[0] <= at < one[1]]
            if not reaching:
                break
            best = max(reaching, key=lambda one: one[1])
            part = self._read(name, best, at, min(end, best[1]))
            if part is None:
                touching.remove(best)
                with self._guard:
                    listing.remove(*best)
                continue
            parts.append(part)
            at += len(part)
        head = parts[0] if len(parts) == 1 else b"".join(parts)
        tail = b""
        for one in sorted(touching):
            if at < end and one[0] > at and one[1] >= end:
                tail = self._read(name, one, one[0], end) or b""
                break
        return Found(head, tail)

    def _read(self, name: Name, extent: tuple[int, int], start: int, end: int) -> bytes | None:
        """Bytes `start` to `end` out of a file, where they are what was kept."""
        begin, length = extent[0], extent[1] - extent[0]
        blocks = -(-length // BLOCK)
        try:
            file = os.open(self._path(name, *extent), _OLD)
        except OSError:
            return None
        try:
            looked = os.fstat(file)
            body = _HEADER.size + blocks * _DIGEST
            if not stat.S_ISREG(looked.st_mode) or looked.st_size != body + length:
                return None
            first, last = (start - begin) // BLOCK, -(-(end - begin) // BLOCK)
            if os.pread(file, _HEADER.size, 0) != _HEADER.pack(_MAGIC, begin, length):
                return None
            digests = os.pread(file, (last - first) * _DIGEST, _HEADER.size + first * _DIGEST)
            window = min(length, last * BLOCK) - first * BLOCK
            value = os.pread(file, window, body + first * BLOCK)
            if len(value) != window or digests != _digests(name, begin, first, value):
                return None
            self._touch(file, looked)
        except OSError:
            return None
        finally:
            os.close(file)
        skipped = start - begin - first * BLOCK
        return value if len(value) == end - start else value[skipped : skipped + end - start]

    def _listing(self, name: Name) -> tuple[_Listing, int]:
        """The ranges of a version as far as they are known, and the folder's present stamp."""
        stamp = self._stamp(name)
        with self._guard:
            listing = self._listings.get(name)
            if listing is not None:
                self._listings.move_to_end(name)
        return (self._list(name, stamp) if listing is None else listing), stamp

    def _stamp(self, name: Name) -> int:
        try:
            return os.stat(self._path(name)).st_mtime_ns
        except OSError:
            return 0

    def _touch(self, file: int, looked: os.stat_result) -> None:
        """Write down that a file was used, if not a moment ago."""
        if time.time_ns() - looked.st_mtime_ns > _TOUCHED:
            with suppress(OSError):
                os.utime(file)

    def _list(self, name: Name, stamp: int) -> _Listing:
        ranges = []
        with suppress(OSError), os.scandir(self._path(name)) as entries:
            for entry in entries:
                found = _FILE(entry.name)
                if found:
                    start, length = int(found[1], 16), int(found[2], 16)
                    if 0 < length <= LONGEST:
                        ranges.append((start, start + length))
        listing = _Listing(sorted(ranges), stamp)
        with self._guard:
            self._listings[name] = listing
            self._listings.move_to_end(name)
            while len(self._listings) > _LISTED:
                self._listings.popitem(last=False)
        return listing

    # -- keeping --------------------------------------------------------------------------------------------------

    def keep(self, name: Name, start: int, value: Buffer) -> None:
        """Remember these bytes from `start` on, as far as the budget allows."""
        view = memoryview(value).cast("B")
        if not view or self._cost(len(view)) > self.nbytes // 4:
            return
        for at in range(0, len(view), LONGEST):
            self._keep(name, start + at, view[at : at + LONGEST])

    def _keep(self, name: Name, start: int, view: memoryview) -> None:
        extent, cost = (start, start + len(view)), self._cost(len(view))
        path = self._path(name, *extent)
        if os.path.lexists(path):
            return
        content = [_HEADER.pack(_MAGIC, start, len(view)), _digests(name, start, 0, view), view]
        if not self._write(self._path(name), path, content, cost):
            return
        with self._guard:
            listing = self._listings.get(name)
            if listing is not None:
                listing.add(*extent)
                listing.stamp = self._stamp(name)  # what others bring at this moment may be fetched once more

    def note(self, name: str, text: str) -> None:
        """Remember a few words about an object, in place of earlier ones."""
        value = text.encode()
        if len(value) <= PAGE:
            folder = f"{self.folder}/{name}/{_NOTES}"
            self._write(folder, f"{folder}/{_NOTE}", [value], PAGE)

    def _write(self, folder: str, path: str, content: Sequence[Buffer], cost: int) -> bool:
        """Write a file whole, where there is room for it."""
        with self._guard:
            self._number += 1
            beside = f"{folder}/.{os.getpid()}-{threading.get_ident()}-{self._number}"
        size = sum(map(len, content))
        try:
            file = self._begin(folder, beside, cost, size)
            if file is None:
                return False
            try:
                if os.writev(file, content) != size:
                    raise OSError("the disk took a part of it")
            finally:
                os.close(file)
            with self._total() as total:
                replaced = os.path.lexists(path)
                os.rename(beside, path)
                if replaced:
                    total[0] -= cost
        except OSError:
            with suppress(OSError):
                os.unlink(beside)
                with self._total() as total:
                    total[0] -= cost
            return False
        return True

    def noted(self, name: str) -> str:
        """What was noted last; empty where nothing was."""
        try:
            file = os.open(f"{self.folder}/{name}/{_NOTES}/{_NOTE}", _OLD)
        except OSError:
            return ""
        try:
            value = os.pread(file, PAGE, 0)
            self._touch(file, os.fstat(file))
            return value.decode("utf-8", "replace")
        except OSError:
            return ""
        finally:
            os.close(file)

    def _cost(self, length: int) -> int:
        nbytes = length + _HEADER.size + -(-length // BLOCK) * _DIGEST
        return -(-nbytes // PAGE) * PAGE

    # -- the budget -----------------------------------------------------------------------------------------------

    def _begin(self, folder: str, beside: str, cost: int, size: int) -> int | None:
        """A new file of its full size, counted; None where there is no room now.

        It is there before its bytes are counted for others: whoever counts files meanwhile counts it too.
        """
        for attempt in range(2):
            with self._total() as total:
                if total[0] + cost <= self.nbytes:
                    _make(folder)
                    file = os.open(beside, _NEW, 0o600)
                    try:
                        os.ftruncate(file, size)
                    except OSError:
                        os.close(file)
                        os.unlink(beside)
                        raise
                    total[0] += cost
                    return file
            if attempt or not self._evict(cost):
                return None
        return None

    @contextmanager
    def _total(self) -> Iterator[list[int]]:
        """The bytes in the folder, counted by all of its processes, locked for as long as it takes to add to them."""
        with _locked(f"{self.folder}/total") as file:
            found = os.pread(file, _TOTAL.size, 0)
            magic, before = _TOTAL.unpack(found) if len(found) == _TOTAL.size else (b"", 0)
            total = [before if magic == _MAGIC else sum(cost for _, cost, _ in self._walk())]
            yield total
            if total[0] != before or magic != _MAGIC:
                os.pwrite(file, _TOTAL.pack(_MAGIC, max(0, total[0])), 0)

    def _evict(self, cost: int) -> bool:
        """Throw out what was used longest ago. False where another process is at it."""
        with _locked(f"{self.folder}/sweeper", wait=False) as sweeper:
            if sweeper < 0:
                return False
            with self._total() as total:
                before = total[0]
            found = sorted(self._walk())
            left = sum(one for _, one, _ in found)
            for _, one, path in found:
                if left + cost <= self.nbytes * _TARGET:
                    break
                with suppress(OSError):
                    os.unlink(path)
                    left -= one
            self._prune()
            with self._total() as total:  # and what others counted meanwhile
                total[0] = left + max(0, total[0] - before)
        return True

    def _walk(self) -> Iterator[tuple[int, int, str]]:
        """(last use, bytes, path) of every file of a range; unfinished ones of dead writers go."""
        for version in self._versions():
            with suppress(OSError), os.scandir(version) as entries:
                for entry in entries:
                    with suppress(OSError):
                        looked = entry.stat(follow_symlinks=False)
                        if stat.S_ISDIR(looked.st_mode):
                            continue
                        if entry.name.startswith(".") and time.time() - looked.st_mtime > _STALE:
                            os.unlink(entry.path)
                            continue
                        yield looked.st_mtime_ns, -(-looked.st_size // PAGE) * PAGE, entry.path

    def _versions(self) -> Iterator[str]:
        for one in _folders(self.folder):
            yield from _folders(one)

    def _prune(self) -> None:
        for one in _folders(self.folder):
            for version in (*_folders(one), one):
                with suppress(OSError):  # not empty, mostly
                    os.rmdir(version)

    def _path(self, name: Name, start: int | None = None, end: int = 0) -> str:
        folder = f"{self.folder}/{name.object}/{name.version}"
        return folder if start is None else f"{folder}/{start:x}-{end - start:x}"


def _digests(name: Name, start: int, first: int, value: Buffer) -> bytes:
    """One digest per block, which no other place has: of a version, a range, a block's number."""
    view, person = memoryview(value).cast("B"), bytes.fromhex(name.version)
    return b"".join(
        blake2b(
            view[at : at + BLOCK],
            digest_size=_DIGEST,
            person=person,
            salt=struct.pack("<QQ", start, first + at // BLOCK),
        ).digest()
        for at in range(0, len(view), BLOCK)
    )


def _make(folder: str) -> None:
    """A folder and the one above it, for nobody else's eyes."""
    for path in (os.path.dirname(folder), folder):
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)


def _folders(path: str) -> list[str]:
    with suppress(OSError), os.scandir(path) as entries:
        return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    return []


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


def _claim(folder: str) -> None:
    """Make the folder, or make sure that nobody else can have put into it what we would believe."""
    if sys.platform == "win32":
        raise UnsupportedError(
            "caches on Windows are not supported yet: they are shared by locks that it does not have"
        )
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        looked = os.stat(folder)
    except OSError as error:
        raise StoreError(f"{folder!r} cannot hold a cache: {error.strerror or error}") from error
    if looked.st_mode & stat.S_IWOTH or looked.st_uid not in (os.getuid(), 0):
        raise StoreError(
            f"{folder!r} cannot hold a cache: others may write to it, and what they wrote would be read as values; "
            "name a folder of your own"
        )
