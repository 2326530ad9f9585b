"""What is left of an index whose end is cut off, or whose checksum is wrong: which of its entries still count.

What it does not do: believe an entry for its own sake. One counts where it names, byte for byte, a chunk that decodes,
and no other one claims bytes of it; where two readings of the same bytes are possible, none counts.
Specification: sharding_indexed 1.0, "Binary shard format".

An index at the start of a shard begins at its first byte. One at the end begins at a byte that its length tells, unless
the end of the shard is gone: then at any byte of the last ones. It is looked for where the last chunk ends, as they are
written, and where the last chunk ends that its own entries name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from terrazzo.care.carve import carve_chunks, delimits, words_at
from terrazzo.codecs import ShardingIndexed
from terrazzo.codecs.chain import Chain
from terrazzo.errors import TerrazzoError
from terrazzo.shard import EMPTY, empty_entries, overlaps

__all__ = ["Remains", "read_remains"]

Entries = np.ndarray[Any, np.dtype[np.uint64]]
Which = np.ndarray[Any, np.dtype[np.bool_]]

ENTRY_NBYTES = 16
#: how many times the bytes of a shard are decoded, at most, for entries that no carved chunk explains
DECODED = 16
#: readings of one shard that are tried; more than a few contradict each other anyway
MOST_READINGS = 64


@dataclass(slots=True, eq=False)
class Remains:
    """entries: those that count, EMPTY elsewhere. lost: number of a chunk -> why it has no entry. complete: every entry
    is there and counts. doubt: what may be wrong with entries that count. span: (start, stop) of what is left.
    unplaced: (offset, nbytes) of the chunks that no entry names."""

    entries: Entries
    span: tuple[int, int]
    lost: dict[int, str] = field(default_factory=dict)
    complete: bool = False
    doubt: str | None = None
    unplaced: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Reading:
    """The bytes of a shard from `start` on read as entries. named: those that name a chunk; counted: of them those that
    no other one contradicts; wrong: those that cannot be right; undecodable: those whose bytes are no chunk."""

    start: int
    entries: Entries
    named: Which
    counted: Which
    wrong: Which
    undecodable: Which
    shared: bool
    cut: bool

    @property
    def hits(self) -> int:
        return int(self.counted.sum())


def read_remains(
    body: bytes, count: tuple[int, ...], sharding: ShardingIndexed, chain: Chain
) -> Remains | None:
    """The entries that count of the index of `body`; None where none does, or where it cannot be told which."""
    tail = _tail_nbytes(sharding)
    chunks = None if tail is None else _Chunks.of(body, count, sharding, chain)
    if tail is None or chunks is None:
        return None
    n, size = prod(count), len(body)
    nbytes = ENTRY_NBYTES * n + tail
    readings: list[_Reading] = []
    if size >= nbytes:
        whole = _read(chunks, 0 if chunks.at_start else size - nbytes, n, cut=False)
        if whole.hits and (chunks.at_start or _begins(whole, chunks, tail)):
            readings.append(whole)
    if not chunks.at_start:
        cut = [_read(chunks, start, n, cut=True) for start in _starts(chunks, n, tail)]
        readings += [one for one in cut if one.hits and not one.shared and _goes_on(one, chunks, n)]
    most = max((one.hits for one in readings), default=0)
    best = [one for one in readings if one.hits == most]
    return _judged(best[0], chunks, n) if len(best) == 1 else None


def _tail_nbytes(sharding: ShardingIndexed) -> int | None:
    """Bytes of the checksum behind a plain little-endian table; None for any other index."""
    names = [codec.name for codec in sharding.index_codecs]
    if names[:1] != ["bytes"] or getattr(sharding.index_codecs[0], "endian", None) != "little":
        return None
    return {("bytes",): 0, ("bytes", "crc32c"): 4}.get(tuple(names))


@dataclass(slots=True, eq=False)
class _Chunks:
    """The chunks that a shard's bytes hold, as far as they can be told from other bytes.

    carved: offset -> nbytes. length: of every chunk, where nothing in a chunk tells it from other bytes: then an entry
    counts that names bytes where a chunk can lie. first: where chunks may begin. left: bytes that may still be
    decoded to see whether they are a chunk: entries of a hostile index may all name the whole shard.
    """

    body: memoryview
    chain: Chain
    at_start: bool
    first: int
    length: int | None
    carved: dict[int, int]
    left: int
    #: why bytes are no chunk; empty where they are one
    known: dict[tuple[int, int], str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, body: bytes, count: tuple[int, ...], sharding: ShardingIndexed, chain: Chain
    ) -> _Chunks | None:
        at_start = sharding.index_location == "start"
        first = sharding.index_nbytes(count) if at_start else 0
        if first > len(body):
            return None
        told = delimits(chain)
        if not told and chain.encoded_nbytes is None:
            return None
        carved = dict(carve_chunks(body, [(first, len(body))], chain)) if told else {}
        length = None if told else chain.encoded_nbytes
        return cls(memoryview(body), chain, at_start, first, length, carved, DECODED * len(body))

    @property
    def end(self) -> int:
        """Where the last chunk that was found ends."""
        return max((offset + nbytes for offset, nbytes in self.carved.items()), default=0)

    def has(self, offset: int, nbytes: int) -> bool:
        """Whether these bytes are a chunk."""
        if self.length is not None:
            return nbytes == self.length and (offset - self.first) % nbytes == 0
        if self.carved.get(offset) == nbytes:
            return True
        if (offset, nbytes) not in self.known:
            self.left -= nbytes
            if self.left < 0:
                return False
            self.known[offset, nbytes] = self._why(self.body[offset : offset + nbytes])
        return not self.known[offset, nbytes]

    def _why(self, encoded: memoryview) -> str:
        try:
            self.chain.decode(bytes(encoded))
        except (TerrazzoError, MemoryError) as error:
            return str(error) or type(error).__name__
        return "" if delimits(self.chain, encoded) else "more bytes lie behind the end of its frame"


def _read(chunks: _Chunks, start: int, n: int, *, cut: bool) -> _Reading:
    size = len(chunks.body)
    there = min(n, (size - start) // ENTRY_NBYTES)
    entries = np.frombuffer(chunks.body[start : start + ENTRY_NBYTES * there], "<u8").astype(np.uint64)
    entries = entries.reshape(-1, 2)
    offset, nbytes = entries[:, 0], entries[:, 1]
    limit = np.uint64(size if chunks.at_start else start)
    void = (offset == EMPTY) & (nbytes == EMPTY)
    can = (offset >= chunks.first) & (offset < limit) & (nbytes > 0)
    can[can] = nbytes[can] <= limit - offset[can]
    named = can.copy()
    named[can] = [chunks.has(*row) for row in entries[can].tolist()]
    shared = np.zeros(there, np.bool_)
    shared[overlaps(np.where(named[:, None], entries, np.uint64(EMPTY)))] = True
    return _Reading(
        start,
        entries,
        named,
        named & ~shared,
        (~void & ~can) | shared,
        can & ~named,
        bool(shared.any()),
        cut,
    )


def _begins(whole: _Reading, chunks: _Chunks, tail: int) -> bool:
    """Whether an index at the end is where its length says: the shard was not cut short, and nothing is behind it."""
    if chunks.end > whole.start:
        return False  # chunks lie there
    named = whole.entries[whole.named].sum(axis=1)
    if whole.start - max(chunks.end, int(named.max())) >= ENTRY_NBYTES:
        before = bytes(chunks.body[whole.start - ENTRY_NBYTES : whole.start])
        offset, nbytes = int.from_bytes(before[:8], "little"), int.from_bytes(before[8:], "little")
        may_be_one = before == b"\xff" * ENTRY_NBYTES or 0 < nbytes <= whole.start - offset
        if may_be_one or (whole.wrong[-1] and not whole.named[-1]):
            return False
    if whole.named[0]:
        return True
    if not tail:
        return chunks.end == whole.start and not whole.wrong[:2].all()
    # were it cut, what is its checksum now would be the beginning of an entry
    return not _may_begin_an_entry(bytes(chunks.body[len(chunks.body) - tail :]), whole.start)


def _goes_on(cut: _Reading, chunks: _Chunks, n: int) -> bool:
    """Whether what is behind the last whole entry can be the beginning of the next one."""
    there = len(cut.entries)
    return there == n or _may_begin_an_entry(
        bytes(chunks.body[cut.start + ENTRY_NBYTES * there :]), cut.start
    )


def _may_begin_an_entry(beginning: bytes, limit: int) -> bool:
    """beginning: fewer bytes than an entry has. limit: where chunks end."""
    return beginning == b"\xff" * len(beginning) or int.from_bytes(beginning[:8], "little") < limit


def _starts(chunks: _Chunks, n: int, tail: int) -> Iterator[int]:
    """Where an index at the end may begin whose own end is cut off, so that every whole entry can be right."""
    size = len(chunks.body)
    low = max(size - (ENTRY_NBYTES * n + tail) + 1, chunks.end, 0)
    many = size - ENTRY_NBYTES - low + 1
    if many <= 0:
        return
    offset, nbytes = words_at(chunks.body, low, many), words_at(chunks.body, low + 8, many)
    place = np.arange(low, low + many, dtype=np.uint64)
    void = (offset == EMPTY) & (nbytes == EMPTY)
    can = (offset < place) & (nbytes > 0)
    can[can] = nbytes[can] <= place[can] - offset[can]
    if chunks.length is not None:
        can &= (nbytes == chunks.length) & (offset % np.uint64(chunks.length) == 0)
    ends = np.where(can, offset + nbytes, np.uint64(0))
    found = 0
    for rest in range(min(ENTRY_NBYTES, many)):
        mine = np.arange(many - 1 - rest, -1, -ENTRY_NBYTES)  # the last entry first
        fits = (void | can)[mine]
        run = mine[: len(fits) if fits.all() else int(fits.argmin())]
        last = np.maximum.accumulate(ends[run]) if len(run) else ends[:0]
        at = place[run]
        good = (last <= at) & ((at == chunks.end) | (last == at)) & (last > 0)
        if chunks.length is not None:
            # no more chunks than entries: those that name one, and those that are gone
            gone = n - np.arange(1, len(run) + 1)
            held = at // np.uint64(chunks.length)
            good |= (last <= at) & (last > 0) & (at % np.uint64(chunks.length) == 0)
            good &= held.astype(np.int64) - np.cumsum(can[run]) <= gone
        for start in at[good].tolist():
            found += 1
            if found > MOST_READINGS:
                return
            yield int(start)


def _judged(reading: _Reading, chunks: _Chunks, n: int) -> Remains:
    there = len(reading.entries)
    entries = empty_entries(n)
    entries[:there][reading.counted] = reading.entries[reading.counted]
    lost: dict[int, str] = {}
    if not reading.cut:
        for number in _suspect(reading, entries, chunks):
            entries[number] = EMPTY
            lost[number] = "its entry in a damaged index may have been that of another chunk"
    for number in np.flatnonzero(reading.wrong | reading.undecodable).tolist():
        offset, nbytes = reading.entries[number].tolist()
        if reading.wrong[number]:
            lost[number] = (
                f"its entry in a damaged index cannot be right: offset {offset:,}, nbytes {nbytes:,}"
            )
        else:
            why = chunks.known.get((offset, nbytes))
            lost[number] = why or "its entry in a damaged index names no chunk"
    missing = list(range(there, n))
    if missing:
        rest = bytes(chunks.body[reading.start + ENTRY_NBYTES * there :])
        entry = _completed(rest, reading, chunks, entries)
        if entry is not None:
            entries[there] = entry
            missing = missing[1:]
    elif _unnamed(entries, chunks, reading) != ([], 0):
        void = (reading.entries == EMPTY).all(axis=1)
        said = "its entry in a damaged index says that it is not stored, beside entries that are wrong"
        lost |= dict.fromkeys(_beside(void, reading.wrong | reading.undecodable), said)
    span = (reading.start, len(chunks.body) if not chunks.at_start else chunks.first)
    unplaced, spare = _unnamed(entries, chunks, reading)
    if missing and (unplaced or spare):
        reason = "its index entry is cut off: whether it was stored, and where, is not known"
        lost |= dict.fromkeys(missing, reason)
    doubt = None
    unnamed = max(len(unplaced), int(spare > 0 and not lost))
    if unnamed > len(lost) and (not reading.cut or (reading.entries == EMPTY).all(axis=1).any()):
        doubt = (
            "no checksum tells whether its index is right, and there are more chunks than its entries explain: values "
            "that came back may be older ones, and chunks may be lost that it says were never stored"
        )
    complete = there == n and not lost and doubt is None
    return Remains(entries, span, lost, complete, doubt, unplaced)


def _suspect(reading: _Reading, entries: Entries, chunks: _Chunks) -> list[int]:
    """Entries that name a chunk, and may be the entry of one that none names: what made the entry before it wrong may
    have overwritten their first bytes too."""
    named = {(int(o), int(b)): n for n, (o, b) in enumerate(entries.tolist()) if o != EMPTY}
    broken = reading.wrong | reading.undecodable
    found = set()
    for offset, nbytes in _free(entries, chunks, reading):
        for kept in range(8, 64, 8):
            number = named.get((offset >> kept << kept, nbytes), 0)
            if number and broken[number - 1]:
                found.add(number)
    return sorted(found)


def _beside(void: Which, broken: Which) -> list[int]:
    """The runs of `void` that touch something broken."""
    found = []
    for way in (range(len(void)), range(len(void) - 1, -1, -1)):
        touched = False
        for number in way:
            touched = bool(broken[number] or (touched and void[number]))
            if touched and void[number]:
                found.append(number)
    return found


def _free(entries: Entries, chunks: _Chunks, reading: _Reading) -> list[tuple[int, int]]:
    """Chunks that no entry names, also where nothing but their length tells them."""
    if chunks.length is None:
        return _unnamed(entries, chunks, reading)[0]
    taken = {int(offset) for offset in entries[:, 0].tolist()}
    stop = len(chunks.body) if chunks.at_start else reading.start
    places = range(chunks.first, stop - chunks.length + 1, chunks.length)
    return [(offset, chunks.length) for offset in places if offset not in taken]


def _completed(rest: bytes, reading: _Reading, chunks: _Chunks, entries: Entries) -> tuple[int, int] | None:
    """The entry of which the first bytes, an offset at least, are there; EMPTY twice for a chunk that is not stored."""
    if len(rest) < 8:
        return None
    if rest == b"\xff" * len(rest):
        return EMPTY, EMPTY
    offset = int.from_bytes(rest[:8], "little")
    nbytes = chunks.length if chunks.length is not None else chunks.carved.get(offset)
    if nbytes is None or offset + nbytes > reading.start or not chunks.has(offset, nbytes):
        return None
    if nbytes.to_bytes(8, "little")[: len(rest) - 8] != rest[8:]:
        return None
    taken = entries[entries[:, 0] != EMPTY].astype(np.int64)
    free = ((taken[:, 0] >= offset + nbytes) | (taken.sum(axis=1) <= offset)).all()
    return (offset, nbytes) if free else None


def _unnamed(entries: Entries, chunks: _Chunks, reading: _Reading) -> tuple[list[tuple[int, int]], int]:
    """Chunks that no entry names, and how many bytes are neither theirs nor those of an entry."""
    taken = sorted((int(a), int(a + b)) for a, b in entries[entries[:, 0] != EMPTY].astype(np.int64).tolist())
    starts = np.array([start for start, _ in taken], np.int64)
    stops = np.array([stop for _, stop in taken], np.int64)
    unplaced = []
    for offset, nbytes in sorted(chunks.carved.items()):
        before = int(np.searchsorted(starts, offset + nbytes))
        if before == 0 or stops[before - 1] <= offset:
            unplaced.append((offset, nbytes))
    stop = len(chunks.body) if chunks.at_start else reading.start
    held = int((stops - starts).sum()) + sum(nbytes for _, nbytes in unplaced)
    return unplaced, stop - chunks.first - held
