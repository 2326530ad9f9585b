"""The write flow: merge, encode, assemble, put.

What it does not do: decide where changed chunks go in an old shard (strategy.py), or lock and sync (the store).

Per window of objects: hold them, in the order of their keys; lay the value over what is there, encode, and write in one
kernel call (untouched inner chunks keep their encoded bytes); then commit all of them together. A chunk that is the
fill value, bit for bit, is left out; an object without chunks is none.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from terrazzo import _kernel
from terrazzo.errors import CodecError, ConflictError
from terrazzo.index import IndexCache, first_range, parse
from terrazzo.indexing import Projection, Window
from terrazzo.layout import Layout
from terrazzo.options import Options
from terrazzo.read import MAX_ROWS, place, raise_failures, size_of
from terrazzo.shard import EMPTY, empty_entries, order
from terrazzo.stores.flow import Committing, Fetching, Holding, Sinking, Working
from terrazzo.stores.store import Erase, Hold, Put, Sink
from terrazzo.strategy import Replace, Strategy

__all__ = ["write"]

Array = np.ndarray[Any, Any]
Flow = Generator[Any, Any, None]

#: objects held, and so descriptors used, at once
MAX_OBJECTS = 128
#: looks at an object that others keep changing, before giving up
TRIES = 20
OVER_FILL, OVER_OLD, COPY = 0, 1, 2
MISSING = -1


def write(
    layout: Layout,
    projection: Projection,
    value: Array,
    options: Options,
    cache: IndexCache,
    strategy: Strategy | None = None,
) -> Flow:
    """Store `value`, of the projection's buffer shape and the array's type, in the selected elements."""
    strategy = strategy or Replace()
    for window in projection.windows(MAX_ROWS, MAX_OBJECTS):
        for attempt in range(TRIES):
            try:
                yield from _write_window(layout, window, value, options, cache, strategy)
                break
            except ConflictError:
                if attempt == TRIES - 1:
                    raise
                pause = random.uniform(0, 0.01 * 2 ** min(attempt, 7))
                yield Working(lambda pause=pause: time.sleep(pause))


@dataclass(slots=True)
class _Rows:
    """The rows of a window in the order in which chunks will lie, and where each came from in the window.

    table: the kernel's. number: the object of each row. inner: the inner chunk's number. origin: the window's row, or -1
    for a chunk that is only copied.
    """

    table: Array
    number: Array
    inner: Array
    origin: Array


def _write_window(
    layout: Layout, window: Window, value: Array, options: Options, cache: IndexCache, strategy: Strategy
) -> Flow:
    names = layout.chunk_keys(window.outers)
    counts = layout.counts(window.outers) if layout.sharding is not None else [()] * len(names)
    whole = _whole_objects(layout, window, len(names))
    firsts = [
        None if whole[k] or layout.sharding is None else first_range(layout.sharding, counts[k])
        for k in range(len(names))
    ]
    holds: list[Hold] = yield Holding(list(zip(names, firsts, strict=True)))
    sinks: list[Sink] = []
    try:
        olds = [
            None if whole[k] or hold.source is None or layout.sharding is None
            else parse(layout, names[k], counts[k], hold.source, options.strict).entries
            for k, hold in enumerate(holds)
        ]
        rows = _rows(layout, window, holds, whole, olds, counts, strategy)
        sources = yield from _sources(holds, whole)
        sinks += yield Sinking(holds)
        entries, ends = yield from _encode(layout, window, rows, names, sources, sinks, counts, value, options)
        changes = yield from _assemble(layout, rows, entries, ends, holds, sinks, counts, options)
        yield Committing(changes, options.durability)
        for name in names:
            cache.drop(name)
    finally:
        for sink in sinks:
            with suppress(OSError):
                sink.discard()
        for hold in holds:
            hold.release()


def _whole_objects(layout: Layout, window: Window, objects: int) -> Array:
    """Which objects need nothing of what they were."""
    return window.whole_shard


def _rows(
    layout: Layout,
    window: Window,
    holds: Sequence[Hold],
    whole: Array,
    olds: Sequence[Array | None],
    counts: Sequence[tuple[int, ...]],
    strategy: Strategy,
) -> _Rows:
    n = len(window.cell)
    number = window.shard_number
    table = np.zeros((n, 7), np.int64)
    table[:, 2] = window.cell
    table[:, 3] = number
    table[:, 4] = MISSING
    chains, which = layout.chains(window.outers)
    if which is not None:
        table[:, 1] = which[number]
    partial = ~window.whole
    if layout.sharding is None:
        sizes = np.array([MISSING if h.source is None else size_of(h.source) for h in holds], np.int64)
        old = partial & (sizes[number] >= 0)
        table[old, 0] = OVER_OLD
        table[old, 4] = number[old]
        table[old, 6] = sizes[number[old]]
        return _Rows(table, number, np.zeros(n, np.int64), np.arange(n))

    inner = window.inner
    tables, numbers, inners, origins = [table], [number], [inner], [np.arange(n)]
    merged = [k for k, entries in enumerate(olds) if entries is not None]
    if merged:
        starts = np.searchsorted(number, np.arange(len(holds) + 1)) if _sorted(number) else None
        for k in merged:
            entries = olds[k]
            assert entries is not None
            mine = np.arange(starts[k], starts[k + 1]) if starts is not None else np.flatnonzero(number == k)
            touched = inner[mine]
            there = entries[touched].view(np.int64)
            over = partial[mine] & (there[:, 0] != -1)
            at = mine[over]
            table[at, 0] = OVER_OLD
            table[at, 4] = k
            table[at, 5:7] = there[over]
            kept = entries[:, 0] != EMPTY
            kept[touched] = False
            keep = np.flatnonzero(kept)
            copied = np.zeros((len(keep), 7), np.int64)
            copied[:, 0] = COPY
            copied[:, 3] = k
            copied[:, 4] = k
            copied[:, 5:7] = entries[keep].view(np.int64)
            tables.append(copied)
            numbers.append(np.full(len(keep), k, np.int64))
            inners.append(keep)
            origins.append(np.full(len(keep), -1, np.int64))
    if len(tables) > 1:
        table, number = np.concatenate(tables), np.concatenate(numbers)
        inner, origin = np.concatenate(inners), np.concatenate(origins)
    else:
        origin = origins[0]
    rank = inner
    if strategy.order not in ("C", "unordered"):
        ranks = {count: _ranks(strategy.order, count) for count in set(counts)}
        if len(ranks) == 1:
            rank = next(iter(ranks.values()))[inner]
        else:
            rank = np.empty(len(inner), np.int64)
            for k, count in enumerate(counts):
                mine = number == k
                rank[mine] = ranks[count][inner[mine]]
    if strategy.order == "unordered" and len(tables) == 1:
        return _Rows(table, number, inner, origin)
    sequence = np.lexsort((rank, number))
    return _Rows(np.ascontiguousarray(table[sequence]), number[sequence], inner[sequence], origin[sequence])


def _sorted(numbers: Array) -> bool:
    return bool((numbers[1:] >= numbers[:-1]).all())


def _ranks(kind: str, count: tuple[int, ...]) -> Array:
    """The place in the file of each inner chunk, by its C-order number."""
    sequence = order(kind, count)
    rank = np.empty(len(sequence), np.int64)
    rank[sequence] = np.arange(len(sequence))
    return rank


def _sources(holds: Sequence[Hold], whole: Array) -> Generator[Any, Any, list[Any]]:
    """What the kernel reads old chunks from: a descriptor, or a buffer with the whole object."""
    handles: list[Any] = []
    lacking = []
    for k, hold in enumerate(holds):
        source = hold.source
        handle = None if source is None or whole[k] else source.handle
        handles.append(b"" if handle is None else handle)
        if source is not None and not whole[k] and handle is None:
            lacking.append(k)
    if lacking:
        answers = yield Fetching([(holds[k].source, [(0, size_of(holds[k].source))]) for k in lacking])
        for k, (buffer,) in zip(lacking, answers, strict=True):
            handles[k] = buffer
    return handles


def _encode(
    layout: Layout,
    window: Window,
    rows: _Rows,
    names: Sequence[str],
    sources: Sequence[Any],
    sinks: Sequence[Sink],
    counts: Sequence[tuple[int, ...]],
    value: Array,
    options: Options,
) -> Generator[Any, Any, tuple[Array, list[int]]]:
    """Encode every row into its sink; answers entries uint64 (n, 2) in the order of the rows, and the sinks' ends."""
    sharding = layout.sharding
    at_start = sharding is not None and sharding.index_location == "start"
    ends = [sharding.index_nbytes(counts[k]) if at_start and sharding else 0 for k in range(len(sinks))]
    chains, _ = layout.chains(window.outers)
    programs = layout.programs(chains)
    drop = not options.write_empty_chunks
    found = np.empty((len(rows.table), 2), np.uint64)
    if programs is None:
        yield Working(
            lambda: _encode_in_python(layout, window, rows, names, sources, sinks, chains, value, drop, found, ends)
        )
        return found, ends
    raw = value.view(f"V{value.dtype.itemsize}")
    handles = [sink.handle for sink in sinks]
    placement = window.placement()
    for start in range(0, len(rows.table), MAX_ROWS):
        part = rows.table[start : start + MAX_ROWS]
        got, bodies, after, failures = yield Working(
            lambda part=part: _kernel.encode(
                programs, sources, part, placement, raw, handles, ends, drop, options.threads
            )
        )
        if failures:
            origin = rows.origin[start : start + MAX_ROWS]
            raise_failures(layout, window, names, [(int(origin[r]), kind, text) for r, kind, text in failures])
        for sink, body, position in zip(sinks, bodies, ends, strict=True):
            if body:
                sink.write(position, body)
        found[start : start + MAX_ROWS] = np.frombuffer(got, np.uint64).reshape(-1, 2)
        ends = list(after)
    return found, ends


def _encode_in_python(
    layout: Layout,
    window: Window,
    rows: _Rows,
    names: Sequence[str],
    sources: Sequence[Any],
    sinks: Sequence[Sink],
    chains: Sequence[Any],
    value: Array,
    drop: bool,
    found: Array,
    ends: list[int],
) -> None:
    """For chains that the kernel does not know: one chunk after the other."""
    for k, (action, program, _, sink, source, offset, nbytes) in enumerate(rows.table.tolist()):
        chain = chains[program]
        row = int(rows.origin[k])
        if action == COPY:
            encoded = layout.bytes_of(sources[source], offset, nbytes)
        else:
            try:
                if action == OVER_OLD:
                    chunk = np.array(chain.decode(layout.bytes_of(sources[source], offset, nbytes)))
                else:
                    chunk = np.full(chain.spec.shape, layout.fill, layout.dtype)
                chunk[window.chunk_selection(row)] = value[window.out_selection(row)]
                encoded = None if drop and chain.is_fill(chunk) else chain.encode(chunk)
            except CodecError as error:
                raise type(error)(f"{place(layout, window, names, row)}: {error}") from error
        if encoded is None or not (length := memoryview(encoded).nbytes):
            found[k] = EMPTY
            continue
        sinks[sink].write(ends[sink], encoded)
        found[k] = (ends[sink], length)
        ends[sink] += length


def _assemble(
    layout: Layout,
    rows: _Rows,
    entries: Array,
    ends: Sequence[int],
    holds: Sequence[Hold],
    sinks: Sequence[Sink],
    counts: Sequence[tuple[int, ...]],
    options: Options,
) -> Generator[Any, Any, list[Put | Erase]]:
    """Close each object with its index, where it has one; objects without a chunk are erased."""
    sharding = layout.sharding
    changes: list[Put | Erase] = []
    full = entries[:, 0] != EMPTY
    kept = np.bincount(rows.number[full], minlength=len(holds))
    bounds = np.searchsorted(rows.number, np.arange(len(holds) + 1)) if _sorted(rows.number) else None
    for k, (hold, sink) in enumerate(zip(holds, sinks, strict=True)):
        if not kept[k]:
            changes.append(Erase(hold))
            continue
        if sharding is not None:
            mine = slice(bounds[k], bounds[k + 1]) if bounds is not None else rows.number == k
            index = empty_entries(int(np.prod(counts[k], dtype=np.int64)))
            index[rows.inner[mine]] = entries[mine]
            encoded = sharding.encode_index(index, counts[k])
            sink.write(0 if sharding.index_location == "start" else ends[k], encoded)
        changes.append(Put(hold, sink))
    return changes
    yield  # a flow, like its siblings: stores without descriptors may one day assemble by requests


