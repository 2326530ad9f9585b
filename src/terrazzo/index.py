"""Shard indexes: what to ask for, how to believe it, and which ones to remember.

What it does not do: read. The flows fetch the bytes; this room says which, checks them, and keeps the answers.
Specification: sharding_indexed 1.0, "Binary shard format".

A remembered index is used only for the very version of the object that it was read from (the tag of its source), or
unseen where `options.immutable` says that shards never change.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from terrazzo.codecs.sharding import ShardingIndexed
from terrazzo.errors import ChecksumError, CodecError, ShardError
from terrazzo.layout import Layout
from terrazzo.shard import EMPTY, check_entries, index_range
from terrazzo.stores.store import Range, Source, Tag

__all__ = ["IndexCache", "ShardIndex", "first_range", "parse"]


@dataclass(frozen=True, slots=True, eq=False)
class ShardIndex:
    """One shard's index: entries uint64 (n, 2) of (offset, nbytes) in C order of the inner chunks, read-only.

    near: the shard could be read through a handle.
    """

    entries: np.ndarray[Any, np.dtype[np.uint64]]
    size: int
    tag: Tag
    near: bool = False

    def stored(self, inner: np.ndarray[Any, Any]) -> tuple[int, int]:
        """How many of these inner chunks are stored, and their encoded bytes."""
        wanted = self.entries[inner]
        found = wanted[wanted[:, 0] != EMPTY, 1]
        return len(found), int(found.sum())


def first_range(sharding: ShardingIndexed, count: tuple[int, ...]) -> Range:
    """The byte range that holds the index of a shard with `count` inner chunks per dimension."""
    return index_range(sharding.index_location, sharding.index_nbytes(count))


def parse(layout: Layout, key: str, count: tuple[int, ...], source: Source, strict: bool) -> ShardIndex:
    """The index in `source.first`, checked against the size of the object it came from."""
    sharding = layout.sharding
    assert sharding is not None and source.first is not None
    where = f"array {layout.path!r}: shard {key!r}" if layout.path else f"array at the root: shard {key!r}"
    nbytes = sharding.index_nbytes(count)
    found = memoryview(source.first).nbytes
    size = source.size if source.size is not None else found
    if found != nbytes or size < nbytes:
        raise ShardError(
            f"{where} has {size} bytes, fewer than the {nbytes} of its index for {prod(count)} inner chunks: "
            "it was cut short, or belongs to another array; `terrazzo check` tells more"
        )
    try:
        entries = sharding.decode_index(source.first, count)
    except ChecksumError as error:
        raise ChecksumError(f"{where}: the index is not what was written: {error}") from error
    except CodecError as error:
        raise ShardError(f"{where}: the index does not decode: {error}") from error
    start, length = first_range(sharding, count)
    span = (size + start, size) if start < 0 else (0, length or 0)
    check_entries(entries, size, span, strict, where, count)
    entries.setflags(write=False)
    return ShardIndex(entries, size, source.tag, source.handle is not None)


#: shards that never change and stay open after a read, in this process, whichever arrays they belong to
MOST_KEPT = 64
_kept: OrderedDict[tuple[int, str], Source] = OrderedDict()
_numbers = itertools.count()


class IndexCache:
    """Indexes by key, least recently used out first, within a byte budget; safe to use from many threads.

    With them, for shards that never change (`options.immutable`), the sources of the last few, open.
    """

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._number = next(_numbers)
        self._held = 0
        self._known: OrderedDict[str, ShardIndex] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> ShardIndex | None:
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
            return known

    def put(self, key: str, index: ShardIndex) -> None:
        with self._lock:
            old = self._known.pop(key, None)
            if old is not None:
                self._held -= old.entries.nbytes
            if index.entries.nbytes > self.nbytes:
                return
            self._known[key] = index
            self._held += index.entries.nbytes
            while self._held > self.nbytes:
                _, out = self._known.popitem(last=False)
                self._held -= out.entries.nbytes

    def keep(self, key: str, source: Source) -> bool:
        """Keep a shard's source open; False where it is not worth it, and the caller's to close.

        It is closed once it is dropped here and nobody reads from it any more.
        """
        if type(source.handle) is not int or source.closer is not None:
            return False
        _kept[self._number, key] = source
        while len(_kept) > MOST_KEPT:
            with suppress(KeyError):  # another thread was faster
                _kept.popitem(last=False)
        return True

    def kept(self, key: str, tag: Tag) -> Source | None:
        """The open source of that version of a shard."""
        source = _kept.get((self._number, key))
        return source if source is not None and source.tag == tag else None

    def drop(self, key: str) -> None:
        _kept.pop((self._number, key), None)
        with self._lock:
            old = self._known.pop(key, None)
            if old is not None:
                self._held -= old.entries.nbytes

    def clear(self) -> None:
        self._let_go()
        with self._lock:
            self._known.clear()
            self._held = 0

    def _let_go(self) -> None:
        for name in [name for name in tuple(_kept) if name[0] == self._number]:
            _kept.pop(name, None)

    def __del__(self) -> None:
        if _kept:
            self._let_go()

    def __reduce__(self) -> tuple[Any, ...]:
        return IndexCache, (self.nbytes,)  # a copy in another process starts empty
