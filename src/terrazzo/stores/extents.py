"""Byte ranges of versions of objects, kept on a shelf.

What it does not do: know stores. Whoever asks names an object and its version; what is found is what was kept under
that name, or nothing: whatever is wrong with a file is a miss.

One file per range, `<object>/<version>.<start>-<length>`, names being digests. It carries a digest of every block,
bound to its place: what a crash, a disk or somebody's hand left half is not believed. Ranges are kept as they were
asked for; docs/decisions/0009-a-cache-keeps-ranges.md says why.
"""

from __future__ import annotations

import os
import re
import struct
import threading
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

from terrazzo.stores.contract import Buffer
from terrazzo.stores.shelf import Shelf, pages

__all__ = ["Extents", "Found", "Name", "name_of"]

_MAGIC = b"tzrange1"
_HEADER = struct.Struct("<8sQQ")
_DIGEST = 8
#: bytes under one digest: a small read checks no more than this beyond what it needs
BLOCK = 1 << 16
#: longer ranges become several files, so that parts of them can go
LONGEST = 8 << 20
_FILE = re.compile(r"([0-9a-f]{32})\.([0-9a-f]{1,16})-([0-9a-f]{1,16})").fullmatch
_NOTE, _NOTE_NBYTES = "last", 4096
_LISTED = 1024  # versions whose ranges are remembered in memory


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


class Extents:
    """The ranges on one shelf, found again by this process and by others."""

    def __init__(self, folder: str | os.PathLike[str], nbytes: int) -> None:
        self.shelf = Shelf(folder, nbytes)
        self._listings: OrderedDict[Name, _Listing] = OrderedDict()
        self._guard = threading.Lock()

    def find(self, name: Name, ranges: Sequence[tuple[int, int]]) -> list[Found]:
        """What is there of each (start, length)."""
        stamp = self.shelf.stamp(name.object)
        with self._guard:
            listing = self._listings.get(name)
            if listing is not None:
                self._listings.move_to_end(name)
        if listing is None:
            listing = self._list(name, stamp)
        found = [self._assembled(name, listing, start, length) for start, length in ranges]
        missing = [i for i, (_, length) in enumerate(ranges) if len(found[i].head) < length]
        if missing and listing.stamp != stamp:  # another process may have brought it meanwhile
            listing = self._list(name, stamp)
            for i in missing:
                found[i] = self._assembled(name, listing, *ranges[i])
        return found

    def keep(self, name: Name, start: int, value: Buffer) -> None:
        """Remember these bytes from `start` on, as far as the budget allows."""
        view = memoryview(value).cast("B")
        if not view or pages(len(view)) > self.shelf.nbytes // 4:
            return
        for at in range(0, len(view), LONGEST):
            self._keep(name, start + at, view[at : at + LONGEST])

    def note(self, object_name: str, text: str) -> None:
        """Remember a few words about an object, in place of earlier ones."""
        value = text.encode()
        if len(value) <= _NOTE_NBYTES:
            self.shelf.write(object_name, _NOTE, [value])

    def noted(self, object_name: str) -> str:
        """What was noted last; empty where nothing was. It is text of a file: nothing vouches for it."""
        file = self.shelf.open(object_name, _NOTE)
        if file is None:
            return ""
        try:
            return os.pread(file, _NOTE_NBYTES, 0).decode("utf-8", "replace")
        except OSError:
            return ""
        finally:
            os.close(file)

    def _keep(self, name: Name, start: int, view: memoryview) -> None:
        file_name = _file_name(name, start, start + len(view))
        if os.path.lexists(self.shelf.path(name.object, file_name)):
            return
        content = [_HEADER.pack(_MAGIC, start, len(view)), _digests(name, start, 0, view), view]
        if self.shelf.write(name.object, file_name, content):
            with self._guard:
                listing = self._listings.get(name)
                if listing is not None:
                    listing.add(start, start + len(view))
                    # what others bring at this very moment may be fetched once more
                    listing.stamp = self.shelf.stamp(name.object)

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
        for one in touching:
            if at < end and one[0] > at and one[1] >= end:
                tail = self._read(name, one, one[0], end) or b""
                break
        return Found(head, tail)

    def _read(self, name: Name, extent: tuple[int, int], start: int, end: int) -> bytes | None:
        """Bytes `start` to `end` out of a file, where they are what was kept."""
        begin, length = extent[0], extent[1] - extent[0]
        file = self.shelf.open(name.object, _file_name(name, *extent))
        if file is None:
            return None
        try:
            body = _HEADER.size + -(-length // BLOCK) * _DIGEST
            if os.fstat(file).st_size != body + length:
                return None
            if os.pread(file, _HEADER.size, 0) != _HEADER.pack(_MAGIC, begin, length):
                return None
            first, last = (start - begin) // BLOCK, -(-(end - begin) // BLOCK)
            digests = os.pread(file, (last - first) * _DIGEST, _HEADER.size + first * _DIGEST)
            window = min(length, last * BLOCK) - first * BLOCK
            value = os.pread(file, window, body + first * BLOCK)
            if len(value) != window or digests != _digests(name, begin, first, value):
                return None
        except OSError:
            return None
        finally:
            os.close(file)
        skipped = start - begin - first * BLOCK
        return value if len(value) == end - start else value[skipped : skipped + end - start]

    def _list(self, name: Name, stamp: int) -> _Listing:
        ranges = []
        for found in map(_FILE, self.shelf.names(name.object)):
            if found is not None and found[1] == name.version:
                start, length = int(found[2], 16), int(found[3], 16)
                if 0 < length <= LONGEST:
                    ranges.append((start, start + length))
        listing = _Listing(sorted(ranges), stamp)
        with self._guard:
            self._listings[name] = listing
            self._listings.move_to_end(name)
            while len(self._listings) > _LISTED:
                self._listings.popitem(last=False)
        return listing


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


def _file_name(name: Name, start: int, end: int) -> str:
    return f"{name.version}.{start:x}-{end - start:x}"


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
