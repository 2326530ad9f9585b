"""One damaged shard: which of its inner chunks still have a known place, and which bytes are chunks of none.

What it does not do: write, or guess. A chunk has a place only where an index with a right checksum, what is left of
one (remains.py), or a saved manifest says so; and it counts only where its bytes decode.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from terrazzo.arrays.array import Array
from terrazzo.care.carve import carve_chunks, checks_index, find_indexes
from terrazzo.care.remains import Remains, read_remains
from terrazzo.errors import CodecError, TerrazzoError
from terrazzo.shard import EMPTY, empty_entries

__all__ = ["Salvaged", "salvage"]

Entries = np.ndarray[Any, np.dtype[np.uint64]]


@dataclass(slots=True, eq=False)
class Salvaged:
    """What is left of one shard.

    source: where the places come from: "index", "other index", "rest of the index" (which is cut, or whose checksum is
    wrong), "older index", "manifest" or "nothing".
    entries: those that decode, EMPTY elsewhere. lost: C-order number of an inner chunk -> why it is lost; where no
    index was found it is not known which chunks there were, and `lost` is empty. unplaced: (offset, nbytes).
    doubt: what may be wrong with chunks that have a place.
    """

    source: str
    entries: Entries
    lost: dict[int, str] = field(default_factory=dict)
    unplaced: list[tuple[int, int]] = field(default_factory=list)
    doubt: str | None = None

    @property
    def sound(self) -> bool:
        return self.source == "index" and not self.lost


def salvage(array: Array, count: tuple[int, ...], body: bytes, manifest: Entries | None = None) -> Salvaged:
    """Find every inner chunk of a shard's bytes. count: inner chunks per dimension. manifest: entries saved earlier."""
    sharding = array.layout.sharding
    assert sharding is not None
    n = int(np.prod(count, dtype=np.int64))
    chain = array.layout.chain
    found: Entries | None = None
    source, end = "index", 0
    for location in (sharding.index_location, "end" if sharding.index_location == "start" else "start"):
        nbytes = sharding.index_nbytes(count)
        if len(body) >= nbytes and (source == "index" or checks_index(sharding)):
            start = 0 if location == "start" else len(body) - nbytes
            try:
                found = sharding.decode_index(body[start : start + nbytes], count)
                end = start + nbytes
                break
            except CodecError:
                pass
        source = "other index"
    if found is not None and not checks_index(sharding):
        return _unchecked(array, count, found, body, manifest, (start, end))
    rest = read_remains(body, count, sharding, chain) if found is None else None
    if rest is not None and rest.complete:
        return _of_remains(rest)
    if found is None:
        older = find_indexes(body, count, sharding)
        if older:
            source, (end, found) = "older index", older[0]
        elif manifest is not None:
            source, found = "manifest", manifest
        elif rest is not None:
            return _of_remains(rest)
        else:
            source, found = "nothing", empty_entries(n)
    kept, lost = _judged(array, found, body)
    salvaged = Salvaged(source, kept, lost)
    if not salvaged.sound:
        known = [(end - sharding.index_nbytes(count), end)] if source.endswith("index") else []
        salvaged.unplaced = list(carve_chunks(body, _uncovered(kept, len(body), known), chain))
    return salvaged


def _unchecked(
    array: Array,
    count: tuple[int, ...],
    found: Entries,
    body: bytes,
    manifest: Entries | None,
    span: tuple[int, int],
) -> Salvaged:
    """What an index without a checksum tells. One with an entry that cannot be right may be that of a shard which was
    cut short: its other entries then lie at places of others."""
    sharding, chain = array.layout.sharding, array.layout.chain
    assert sharding is not None
    kept, lost = _judged(array, found, body)
    salvaged = Salvaged("index", kept, lost)
    if salvaged.sound:
        return salvaged
    rest = read_remains(body, count, sharding, chain)
    if rest is not None and rest.span[0] != span[0] and (manifest is None or rest.complete):
        return _of_remains(rest)
    stored = found[(found != EMPTY).any(axis=1)]
    offset, stop = stored[:, 0], stored[:, 0] + stored[:, 1]  # one that wraps around is told by its length
    wrong = (stored == EMPTY).any(axis=1) | (stored[:, 1] == 0) | (offset >= len(body))
    wrong |= (stored[:, 1] > len(body)) | (stop > len(body)) | ((offset < span[1]) & (stop > span[0]))
    if not wrong.any():
        salvaged.unplaced = list(carve_chunks(body, _uncovered(kept, len(body), [span]), chain))
        return salvaged
    if rest is not None and manifest is None:
        return _of_remains(rest)
    source = "nothing" if manifest is None else "manifest"
    kept, lost = _judged(array, empty_entries(len(found)) if manifest is None else manifest, body)
    return Salvaged(source, kept, lost, list(carve_chunks(body, _uncovered(kept, len(body), []), chain)))


def _of_remains(rest: Remains) -> Salvaged:
    return Salvaged("rest of the index", rest.entries, rest.lost, rest.unplaced, rest.doubt)


def _judged(array: Array, entries: Entries, body: bytes) -> tuple[Entries, dict[int, str]]:
    """The entries whose bytes decode, and why the others do not."""
    size = len(body)
    kept = empty_entries(len(entries))
    lost: dict[int, str] = {}
    view = memoryview(body)
    stored = np.flatnonzero((entries != EMPTY).any(axis=1))
    for number in stored.tolist():
        offset, nbytes = (int(v) for v in entries[number])
        if offset == EMPTY or nbytes == EMPTY:
            lost[number] = "only one half of its index entry marks it as not stored"
        elif offset > size or nbytes > size - offset:
            lost[number] = f"it reaches past the end of the shard, which has {size:,} bytes"
        else:
            try:
                array.layout.chain.decode(view[offset : offset + nbytes])
            except (TerrazzoError, MemoryError) as error:
                lost[number] = str(error) or type(error).__name__
            else:
                kept[number] = offset, nbytes
    return kept, lost


def _uncovered(entries: Entries, size: int, known: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """(start, stop) of the bytes that no chunk and no index covers."""
    stored = entries[entries[:, 0] != EMPTY].astype(np.int64)
    spans = sorted([*known, *((int(a), int(a + b)) for a, b in stored.tolist())])
    free, at = [], 0
    for start, stop in spans:
        if start > at:
            free.append((at, start))
        at = max(at, stop)
    if at < size:
        free.append((at, size))
    return free
