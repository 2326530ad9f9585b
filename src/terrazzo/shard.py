"""The bytes of a shard: index entries, where the index lies, which bytes are alive, and the order of inner chunks.

What it does not do: I/O, codecs, strategies. An index arrives here decoded, as entries.
Specification: sharding_indexed 1.0, "Binary shard format".

Entries are uint64 (n, 2): offset and nbytes of each inner chunk, in C order of the shard's chunk grid. Offsets count
from the first byte of the shard, whatever the place of the index. Both fields EMPTY: the chunk is not stored.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from terrazzo.errors import ShardError

__all__ = [
    "EMPTY",
    "Entries",
    "check_entries",
    "dead_ranges",
    "empty_entries",
    "index_range",
    "order",
    "overlaps",
]

#: both fields of an entry whose inner chunk is not stored
EMPTY = 2**64 - 1

Entries = np.ndarray[Any, np.dtype[np.uint64]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]

#: permutations of more inner chunks are computed anew rather than kept
CACHED_CHUNKS = 1 << 17
#: entries that are looked at together
CHECKED_AT_ONCE = 1 << 15


def index_range(location: str, index_nbytes: int) -> tuple[int, int | None]:
    """What to ask a store for: (start, length) of the index; a negative start counts from the end."""
    return (0, index_nbytes) if location == "start" else (-index_nbytes, None)


def empty_entries(n: int) -> Entries:
    """The entries of a shard of `n` inner chunks in which nothing is stored."""
    return np.full((n, 2), EMPTY, np.uint64)


def check_entries(
    entries: Entries,
    shard_nbytes: int,
    index_span: tuple[int, int],
    strict: bool,
    where: str,
    count: tuple[int, ...] | None = None,
) -> None:
    """Raise ShardError unless every entry can be right in a shard of `shard_nbytes` bytes.

    index_span: (start, stop) of the index in the shard. where: how the message names the shard. count: inner chunks
    per dimension, so that the message can name coordinates. Ranges that overlap one another are legal.
    With strict=False, chunks of no bytes and chunks that reach into the index pass.
    """
    if strict and _are_right(entries, shard_nbytes, index_span):
        return
    offset, nbytes = entries[:, 0], entries[:, 1]
    no_offset, no_nbytes = offset == EMPTY, nbytes == EMPTY
    if no_offset.all() and no_nbytes.all():
        return
    size = np.uint64(shard_nbytes)
    half = no_offset != no_nbytes
    # without an addition, which could wrap: nbytes <= size - offset
    outside = ~no_offset & ~no_nbytes & ((offset > size) | (nbytes > size - np.minimum(offset, size)))
    bad = half | outside
    if strict:
        start, stop = (np.uint64(edge) for edge in index_span)
        stored = ~no_offset & ~bad
        void = stored & (nbytes == 0)
        inside = stored & ~void & (offset < stop) & (offset + np.where(stored, nbytes, 0) > start)
        bad = bad | void | inside
    if not bad.any():
        return
    first = int(np.argmax(bad))
    found = f"offset {_shown(offset[first])}, nbytes {_shown(nbytes[first])}"
    if half[first]:
        fault = "only one of the two marks the chunk as not stored; both or none must"
    elif outside[first]:
        fault = f"reaches past the end of the shard, which has {shard_nbytes} bytes"
    elif void[first]:
        fault = "a stored chunk has at least one byte (`strict=False` leaves the verdict to its codecs)"
    else:
        fault = f"lies in the index, which takes the bytes {index_span[0]} to {index_span[1]} (`strict=False` reads it)"
    several = int(np.count_nonzero(bad))
    more = f"; {several - 1} more entries of {len(entries)} are wrong" if several > 1 else ""
    raise ShardError(
        f"{where}: the index entry of {_chunk(first, count)} cannot be right: {found}: {fault}{more}"
    )


def _are_right(entries: Entries, shard_nbytes: int, index_span: tuple[int, int]) -> bool:
    """Whether all entries pass, in blocks that stay in the cache of a core; what does not pass is told by who asks.

    A million entries: 2 ms instead of 10.
    """
    first, last = (index_span[1], shard_nbytes) if index_span[0] == 0 else (0, index_span[0])
    if last <= first:
        return False
    low, room, high, one = (np.uint64(number) for number in (first, last - first, last, 1))
    for start in range(0, len(entries), CHECKED_AT_ONCE):
        offset, nbytes = entries[start : start + CHECKED_AT_ONCE].T
        # Unsigned numbers wrap: what is below the first byte, or no bytes at all, becomes too large.
        right = (offset - low < room) & (nbytes - one < high - offset)
        if not right.all() and not (right | ((offset == EMPTY) & (nbytes == EMPTY))).all():
            return False
    return True


def dead_ranges(entries: Entries, shard_nbytes: int, index_span: tuple[int, int]) -> Numbers:
    """The bytes that neither a stored chunk nor the index covers: int64 (k, 2) of (offset, nbytes), in order.

    `entries` have passed `check_entries`.
    """
    stored = entries[entries[:, 0] != EMPTY].astype(np.int64)
    starts = np.concatenate([stored[:, 0], [index_span[0], shard_nbytes]])
    stops = np.concatenate([stored.sum(axis=1), [index_span[1], shard_nbytes]])
    sequence = np.argsort(starts, kind="stable")
    starts, stops = starts[sequence], stops[sequence]
    covered = np.concatenate([[0], np.maximum.accumulate(stops)[:-1]])
    gaps = starts > covered
    return np.stack([covered[gaps], (starts - covered)[gaps]], axis=1)


def overlaps(entries: Entries) -> Numbers:
    """The numbers of the inner chunks that share a byte with another one, ascending: int64 (k,).

    Legal to read; such a chunk must never be overwritten where it lies.
    """
    stored = np.flatnonzero((entries[:, 0] != EMPTY) & (entries[:, 1] != 0))
    if len(stored) < 2:
        return np.empty(0, np.int64)
    stored = stored[np.argsort(entries[stored, 0], kind="stable")]
    starts = entries[stored, 0].astype(np.int64)
    stops = starts + entries[stored, 1].astype(np.int64)
    shared = np.zeros(len(stored), bool)
    shared[1:] = starts[1:] < np.maximum.accumulate(stops)[:-1]
    shared[:-1] |= stops[:-1] > starts[1:]
    return np.sort(stored[shared]).astype(np.int64)


def order(kind: str, count: tuple[int, ...]) -> Numbers:
    """The sequence in which inner chunks lie in a shard of `count` chunks per dimension: their C-order numbers.

    kind: "C" (last dimension first), "F" (first dimension first), or "morton" (neighbours in space stay near).
    The answer is shared: read-only.
    """
    if kind not in _ORDERS:
        raise ValueError(f"order {kind!r} of inner chunks is not known; use {', '.join(map(repr, _ORDERS))}")
    if math.prod(count) > CACHED_CHUNKS:
        return _ORDERS[kind](count)
    return _cached(kind, tuple(count))


@lru_cache(maxsize=32)
def _cached(kind: str, count: tuple[int, ...]) -> Numbers:
    sequence = _ORDERS[kind](count)
    sequence.setflags(write=False)
    return sequence


def _c_order(count: tuple[int, ...]) -> Numbers:
    return np.arange(math.prod(count), dtype=np.int64)


def _f_order(count: tuple[int, ...]) -> Numbers:
    return np.ascontiguousarray(_c_order(count).reshape(count).ravel("F"))


def _morton(count: tuple[int, ...]) -> Numbers:
    """Z order. A dimension gives as many bits as its extent needs, so grids that are no powers of two (or not cubes)
    follow the curve of the power of two around them, leaving out what is not there."""
    code = np.zeros(count, np.int64)
    place = 0
    for level in range(max(((extent - 1).bit_length() for extent in count), default=0)):
        for dimension in reversed(range(len(count))):
            if (count[dimension] - 1) >> level:
                bit = (np.arange(count[dimension], dtype=np.int64) >> level & 1) << place
                code |= bit.reshape([-1 if d == dimension else 1 for d in range(len(count))])
                place += 1
    return np.argsort(code.reshape(-1), kind="stable").astype(np.int64, copy=False)


_ORDERS = {"morton": _morton, "C": _c_order, "F": _f_order}


def _shown(field: np.uint64) -> str:
    return "2^64-1" if field == EMPTY else str(int(field))


def _chunk(number: int, count: tuple[int, ...] | None) -> str:
    if count is None:
        return f"inner chunk number {number}"
    return f"inner chunk {tuple(int(i) for i in np.unravel_index(number, count)) if count else ()}"
