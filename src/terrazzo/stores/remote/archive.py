"""A ZIP archive that lies in another store, read by ranges: its directory once, then the members that are wanted.

What it does not do: write. What an archive may hold, and what is refused, is zip.py's.
Specification: as zip.py; the address is `s3://bucket/x.zip|zip:` (ZEP 8).
"""

from __future__ import annotations

import builtins
import io
import threading
import zipfile
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from terrazzo.errors import StoreError
from terrazzo.stores.contract import Cost, Open, Range, Source
from terrazzo.stores.emulation import window
from terrazzo.stores.store import Store
from terrazzo.stores.zip import ZipStore

__all__ = ["RemoteZipStore"]

#: read first: the directory of most archives, whole
TAIL_NBYTES = 128 << 10
#: read of a member's header, whose length nobody knows before
HEADER_NBYTES = 1 << 10
#: headers kept
MOST_HEADERS = 256


class RemoteZipStore(ZipStore):
    """The members of the archive that is the object `key` of `store`, in the version it had when it was opened.

    max_members, max_member_nbytes, allow_duplicates: as of ZipStore. ConflictError once the archive was replaced.
    """

    def __init__(
        self,
        store: Store,
        key: str,
        *,
        max_members: int = 1 << 22,
        max_member_nbytes: int = 1 << 40,
        allow_duplicates: bool = False,
    ) -> None:
        self.store = store
        self.key = key
        (source,) = store.open([Open(key, (-TAIL_NBYTES, None))])
        if source is None:
            raise StoreError(f"there is no archive {key!r} in {store}")
        self._source = source
        self._headers: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._ahead = threading.local()
        self._reader = _Reader(store, source)
        super().__init__(
            key,
            "r",
            max_members=max_members,
            max_member_nbytes=max_member_nbytes,
            allow_duplicates=allow_duplicates,
        )

    def __repr__(self) -> str:
        return f"RemoteZipStore({self.store!r}, {self.key!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        limits = (self.max_members, self.max_member_nbytes, self.allow_duplicates)
        return _again, (self.store, self.key, *limits)

    @property
    def identity(self) -> Hashable:
        return ("zip", self.store.identity, self.key)

    @property
    def cost(self) -> Cost:
        return self.store.cost

    def get_partial_values(self, requests: Iterable[tuple[str, Range]]) -> builtins.list[bytes | None]:
        asked = list(requests)
        self._look_ahead(asked)
        return super().get_partial_values(asked)

    def open(self, requests: Sequence[Open]) -> builtins.list[Source | None]:
        self._look_ahead([(one.key, one.first) for one in requests if one.first is not None])
        return super().open(requests)

    def fetch(
        self, requests: Sequence[tuple[Source, Sequence[tuple[int, int]]]]
    ) -> builtins.list[builtins.list[Any]]:
        self._look_ahead(
            [(source.key, part) for source, parts in requests if source.handle is None for part in parts]
        )
        return super().fetch(requests)

    def close(self) -> None:
        if "_unopened" not in self.__dict__:
            self._source.close()

    def __del__(self) -> None:
        pass

    # -- below --------------------------------------------------------------------------------------------------------

    def _look_ahead(self, asked: Sequence[tuple[str, Range]]) -> None:
        """Everything that a call will read, in two requests at a time: headers that were not seen, then members."""
        members = [(self._members[key], part) for key, part in asked if key in self._members]
        size = self._reader.size
        offsets = {member.header_offset for member, _ in members if member.header_offset not in self._places}
        headers = [
            (offset, min(HEADER_NBYTES, size - offset)) for offset in sorted(offsets) if 0 <= offset < size
        ]
        for window_, part in zip(headers, self._reader.parts(headers), strict=True):
            self._headers[window_] = part
            while len(self._headers) > MOST_HEADERS:
                self._headers.popitem(last=False)
        wanted: list[tuple[int, int]] = []
        for member, asked_of in members:
            start, end = 0, member.compress_size
            if member.compress_type == zipfile.ZIP_STORED and asked_of != (0, None):
                start, end = window(*asked_of, member.file_size)
            wanted.append((self._place(member) + start, end - start))
        wanted = [one for one in dict.fromkeys(wanted) if one[1] > 0 and one[0] + one[1] <= size]
        self._ahead.parts = dict(zip(wanted, self._reader.parts(wanted), strict=True))

    def _read_at(self, offset: int, nbytes: int) -> bytes:
        ahead: dict[tuple[int, int], bytes] = getattr(self._ahead, "parts", {})
        found = ahead.pop((offset, nbytes), None)
        if found is not None:
            return found
        for (start, length), header in self._headers.copy().items():
            if start <= offset and offset + nbytes <= start + length:
                return header[offset - start : offset - start + nbytes]
        return self._reader.part(offset, nbytes)

    def _named(self, path: Any) -> str:
        return f"{self.store}/{path}"

    def _open_archive(self) -> Any:
        return self._reader

    def _archive_nbytes(self) -> int:
        return self._reader.size


class _Reader(io.RawIOBase):
    """One version of an object as a file: its tail is in memory, the rest comes by ranges."""

    def __init__(self, store: Store, source: Source) -> None:
        super().__init__()
        self._store = store
        self._source = source
        self._tail = bytes(source.first if source.first is not None else b"")
        if source.size is None:
            raise StoreError(f"{source.key!r}: its size is not told; an archive cannot be read from there")
        self.size: int = source.size
        self._at = 0

    def parts(self, asked: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of (offset, length) ranges that lie in the object; those outside the tail in one call."""
        start = self.size - len(self._tail)
        far = [one for one in asked if one[0] < start]
        fetched = iter(self._store.fetch([(self._source, far)])[0] if far else ())
        return [
            bytes(next(fetched)) if offset < start else self._tail[offset - start : offset - start + nbytes]
            for offset, nbytes in asked
        ]

    def part(self, offset: int, nbytes: int) -> bytes:
        """Clipped, as a file would."""
        nbytes = max(0, min(nbytes, self.size - offset))
        return self.parts([(offset, nbytes)])[0] if nbytes else b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        part = self.part(self._at, len(buffer))
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)

    def read(self, size: int = -1) -> bytes:
        part = self.part(self._at, self.size - self._at if size is None or size < 0 else size)
        self._at += len(part)
        return part


def _again(
    store: Store, key: str, max_members: int, max_member_nbytes: int, allow_duplicates: bool
) -> ZipStore:
    limits = {
        "max_members": max_members,
        "max_member_nbytes": max_member_nbytes,
        "allow_duplicates": allow_duplicates,
    }
    return RemoteZipStore.unopened(f"{store}/{key}", {"store": store, "key": key, **limits})
