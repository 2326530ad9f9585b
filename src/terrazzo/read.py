"""The read flow: locate, fetch, decode. One flow for plain and sharded arrays, one for sync and async.

What it does not do: select or project (indexing.py), or hold a store: it yields batches and is sent answers.

A read holds one version of each object from its index to its last chunk. What does not decode is looked at again,
since an in-place writer may have been at work, then mended where a dead writer left a journal, then reported with
the array, the key and the inner chunk.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Sequence
from functools import partial
from typing import Any

import numpy as np

from terrazzo import _kernel
from terrazzo.codecs.chain import Chain
from terrazzo.errors import (
    ChecksumError,
    ChunkNotFoundError,
    CodecError,
    ConflictError,
    LimitError,
    ShardError,
    StoreError,
)
from terrazzo.index import IndexCache, first_range, parse
from terrazzo.indexing import Projection, Window
from terrazzo.layout import Layout
from terrazzo.options import Options
from terrazzo.stores.flow import Fetching, Opening, Recovering, Working
from terrazzo.stores.store import ALL, Open, Source

__all__ = [
    "MAX_OBJECTS",
    "MAX_ROWS",
    "Flow",
    "bytes_of",
    "locate",
    "place",
    "raise_failures",
    "read",
    "size_of",
]

Array = np.ndarray[Any, Any]
Flow = Generator[Any, Any, None]

#: objects open at once in one call, well below the usual limit of descriptors
MAX_OBJECTS = 128
#: rows of one kernel call: tables of a few MiB, however large the selection is
MAX_ROWS = 1 << 15
#: looks at an object whose bytes do not decode, before that is believed
TRIES = 5
MISSING = -1


def read(layout: Layout, projection: Projection, out: Array, options: Options, cache: IndexCache) -> Flow:
    """Fill `out` (of the projection's buffer shape) with the selected elements."""
    for window in projection.windows(MAX_ROWS, MAX_OBJECTS):
        for attempt in range(TRIES):
            try:
                yield from _read_window(layout, window, out, options, cache, fresh=attempt > 0)
                break
            except (ShardError, CodecError, ConflictError, StoreError) as error:
                if not _worth_another_look(error) or attempt == TRIES - 1:
                    raise
                yield Recovering(keys(layout, window))
                yield Working(partial(time.sleep, 0.002 * 4**attempt))


def _worth_another_look(error: Exception) -> bool:
    return isinstance(error, ShardError | CodecError | ConflictError) and not isinstance(error, LimitError)


def keys(layout: Layout, window: Window) -> list[str]:
    return layout.chunk_keys(window.outers)


def _read_window(
    layout: Layout, window: Window, out: Array, options: Options, cache: IndexCache, *, fresh: bool
) -> Flow:
    names = keys(layout, window)
    sources: list[Source | None] = []
    try:
        rows = yield from locate(layout, window, names, sources, options, cache, fresh=fresh)
        yield from decode(layout, window, rows, names, sources, out, options)
    finally:
        for source in sources:
            if source is not None:
                source.close()


def locate(
    layout: Layout,
    window: Window,
    names: Sequence[str],
    sources: list[Source | None],
    options: Options,
    cache: IndexCache,
    *,
    fresh: bool = False,
) -> Generator[Any, Any, Array]:
    """Open the objects of a window (into `sources`); the kernel's rows: source, offset, nbytes, program, cell."""
    n = len(window.cell)
    rows = np.empty((n, 5), np.int64)
    number = window.shard_number
    _, which = layout.chains(window.outers)
    rows[:, 3] = 0 if which is None else which[number]
    rows[:, 4] = window.cell
    if layout.sharding is None:
        sources += yield Opening([Open(name, ALL, or_handle=True) for name in names])
        sizes = [MISSING if source is None else size_of(source) for source in sources]
        size = np.array(sizes, np.int64)[number]
        rows[:, 0] = np.where(size >= 0, number, MISSING)
        rows[:, 1] = 0
        rows[:, 2] = size
        return rows

    counts = layout.counts(window.outers)
    requests = []
    for name, count in zip(names, counts, strict=True):
        known = None if fresh else cache.get(name)
        requests.append(Open(name, first_range(layout.sharding, count), None if known is None else known.tag))
    sources += yield Opening(requests)
    entries: list[Array | None] = []
    for name, count, source in zip(names, counts, sources, strict=True):
        if source is None:
            cache.drop(name)
            entries.append(None)
            continue
        index = cache.get(name) if source.first is None else None
        if index is None or index.tag != source.tag:
            index = parse(layout, name, count, source, options.strict)
            cache.put(name, index)
        entries.append(index.entries)
    inner = window.inner
    if len(entries) == 1:
        found = entries[0]
        if found is None:
            rows[:, :3] = (MISSING, 0, 0)
            return rows
        taken = found[inner].view(np.int64)
    else:
        base = np.zeros(len(entries), np.int64)
        np.cumsum([0 if e is None else len(e) for e in entries[:-1]], out=base[1:])
        present = np.array([e is not None for e in entries])
        stacked = [e for e in entries if e is not None]
        if not stacked:
            rows[:, :3] = (MISSING, 0, 0)
            return rows
        every = np.concatenate(stacked) if len(stacked) > 1 else stacked[0]
        where = base[number] + inner
        if not present.all():
            where[~present[number]] = 0
        taken = every[where].view(np.int64)
        if not present.all():
            taken[~present[number]] = -1
    empty = taken[:, 0] == -1  # EMPTY is all ones
    rows[:, 0] = np.where(empty, MISSING, number)
    rows[:, 1:3] = taken
    return rows


def size_of(source: Source) -> int:
    """Bytes of the object; where they were not known before the first answer, that answer was all of it."""
    if source.size is None:
        assert source.first is not None
        return memoryview(source.first).nbytes
    return source.size


def decode(
    layout: Layout,
    window: Window,
    rows: Array,
    names: Sequence[str],
    sources: Sequence[Source | None],
    out: Array,
    options: Options,
) -> Flow:
    """Fetch what has no handle, then run the kernel (or the chain, in Python) over the rows."""
    if options.missing == "error":
        gone = np.flatnonzero(rows[:, 0] == MISSING)
        if len(gone):
            raise ChunkNotFoundError(f"{_place_of(layout, window, names, int(gone[0]))} is not stored")
    handles = [None if source is None else handle_of(source) for source in sources]
    lacking = [
        number for number, handle in enumerate(handles) if handle is None and sources[number] is not None
    ]
    if not lacking:
        yield from _decode_rows(layout, window, rows, names, handles, out, options)
        return
    # bytes must be fetched: in pieces that fit the budget
    wanted = np.isin(rows[:, 0], lacking)
    order = np.argsort(np.where(wanted, rows[:, 0], -2), kind="stable")
    cost = np.cumsum(np.where(wanted, rows[:, 2], 0)[order])
    start = 0
    while start < len(order):
        spent = cost[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(cost, spent + options.memory, side="right")))
        part = order[start:stop]
        moved = rows[part].copy()
        fetched = yield from _fetch(sources, moved, wanted[part], len(handles))
        yield from _decode_rows(layout, window, moved, names, [*handles, *fetched], out, options, part)
        start = stop


def handle_of(source: Source) -> Any:
    """What the kernel can read from: a descriptor or a buffer."""
    if source.handle is not None:
        return source.handle
    if (
        source.first is not None
        and source.size is not None
        and memoryview(source.first).nbytes == source.size
    ):
        return source.first
    return None


def _fetch(
    sources: Sequence[Source | None], rows: Array, wanted: Array, base: int
) -> Generator[Any, Any, list[Any]]:
    """Fetch the wanted rows' ranges; the rows are changed to point into the buffers that are answered."""
    picked = np.flatnonzero(wanted)
    asked: dict[int, list[tuple[int, int]]] = {}
    where: dict[int, list[int]] = {}
    for row in picked.tolist():
        number, offset, nbytes = (int(v) for v in rows[row, :3])
        asked.setdefault(number, []).append((offset, nbytes))
        where.setdefault(number, []).append(row)
    held = {number: source for number in asked if (source := sources[number]) is not None}
    answers = yield Fetching([(held[number], ranges) for number, ranges in asked.items()])
    buffers: list[Any] = []
    for number, parts in zip(asked, answers, strict=True):
        for row, part in zip(where[number], parts, strict=True):
            rows[row, 0] = base + len(buffers)
            rows[row, 1] = 0
            buffers.append(part)
    return buffers


def _decode_rows(
    layout: Layout,
    window: Window,
    rows: Array,
    names: Sequence[str],
    handles: Sequence[Any],
    out: Array,
    options: Options,
    part: Array | None = None,
) -> Flow:
    chains, _ = layout.chains(window.outers)
    programs = layout.programs(chains)
    if programs is not None:
        sources = [b"" if handle is None else handle for handle in handles]
        target = out.view(f"V{out.dtype.itemsize}") if out.dtype.itemsize else out
        failures = yield Working(
            partial(_kernel.decode, programs, sources, rows, window.placement(), target, options.threads)
        )
        if failures:
            numbers = window.shard_number if part is None else window.shard_number[part]
            inners = window.inner if part is None else window.inner[part]
            raise_failures(layout, names, counts_of(layout, window), numbers, inners, failures)
        return
    yield Working(lambda: _decode_in_python(layout, window, chains, rows, names, handles, out, part))


def _decode_in_python(
    layout: Layout,
    window: Window,
    chains: Sequence[Chain],
    rows: Array,
    names: Sequence[str],
    handles: Sequence[Any],
    out: Array,
    part: Array | None,
) -> None:
    """For chains that the kernel does not know: one chunk after the other."""
    for k, (number, offset, nbytes, program, _) in enumerate(rows.tolist()):
        row = k if part is None else int(part[k])
        target = window.out_selection(row)
        if number == MISSING:
            out[target] = layout.fill
            continue
        try:
            encoded = bytes_of(handles[number], offset, nbytes)
            out[target] = chains[program].decode(encoded)[window.chunk_selection(row)]
        except CodecError as error:
            raise type(error)(f"{_place_of(layout, window, names, row)}: {error}") from error


def bytes_of(handle: Any, offset: int, nbytes: int) -> Any:
    """The bytes of one chunk from a descriptor or a buffer."""
    if isinstance(handle, int):
        found = os.pread(handle, nbytes, offset)
        if len(found) != nbytes:
            raise CodecError(f"{nbytes} bytes at {offset} are past the end of the object")
        return found
    return memoryview(handle).cast("B")[offset : offset + nbytes]


def counts_of(layout: Layout, window: Window) -> list[tuple[int, ...]]:
    """Inner chunks per dimension, for each object of a window; () for the objects of a plain array."""
    return [()] * len(window.outers) if layout.sharding is None else layout.counts(window.outers)


def _place_of(layout: Layout, window: Window, names: Sequence[str], row: int) -> str:
    number = int(window.shard_number[row])
    return place(layout, names, counts_of(layout, window), number, int(window.inner[row]))


def place(
    layout: Layout, names: Sequence[str], counts: Sequence[tuple[int, ...]], number: int, inner: int
) -> str:
    """How an error names a chunk: array, key, inner chunk."""
    array = f"array {layout.path!r}" if layout.path else "array at the root"
    if layout.sharding is None:
        return f"{array}: chunk {names[number]!r}"
    index = tuple(int(v) for v in np.unravel_index(inner, counts[number])) if counts[number] else ()
    return f"{array}: shard {names[number]!r}, inner chunk {index}"


def raise_failures(
    layout: Layout,
    names: Sequence[str],
    counts: Sequence[tuple[int, ...]],
    numbers: Array,
    inners: Array,
    failures: Sequence[tuple[int, str, str]],
) -> None:
    """Turn what the kernel reports into the error of its kind, with the place of the first and the number of all."""
    row, kind, sentence = min(failures)
    more = f" (and {len(failures) - 1} more chunks)" if len(failures) > 1 else ""
    text = f"{place(layout, names, counts, int(numbers[row]), int(inners[row]))}: {sentence}{more}"
    if kind == "memory":
        raise MemoryError(text)
    errors = {"checksum": ChecksumError, "codec": CodecError, "range": ShardError, "io": StoreError}
    raise errors[kind](text)
