"""The read flows: locate, fetch, decode. One flow for plain and sharded arrays, one for sync and async.

What it does not do: select or project (indexing), or hold a store: it yields batches and is sent answers.

A read holds one version of each object from its index to its last chunk. What does not decode is looked at again,
since an in-place writer may have been at work, then mended where a dead writer left a journal, then reported with
the array, the key and the inner chunk.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from terrazzo.errors import CodecError, ConflictError, ShardError
from terrazzo.index import IndexCache
from terrazzo.indexing import Projection, Window
from terrazzo.layout import Layout
from terrazzo.options import Options
from terrazzo.read.cached import decode_cached
from terrazzo.read.chunk_cache import ChunkCache
from terrazzo.read.decode import Job, check_stored, decode
from terrazzo.read.locate import MAX_ROWS, max_objects, open_objects, rows_in
from terrazzo.read.parts import read_parts, takes_parts
from terrazzo.stores.flow import Recovering, Working
from terrazzo.stores.store import Tag

__all__ = ["read", "read_many"]

Array = np.ndarray[Any, Any]
Flow = Generator[Any, Any, None]

#: looks at an object whose bytes do not decode, before that is believed
TRIES = 5
#: looks at an object that is another version each time, since somebody is writing to it
PATIENT_TRIES = 100


def read(
    layout: Layout,
    projection: Projection,
    out: Array,
    options: Options,
    cache: IndexCache,
    chunks: ChunkCache | None = None,
) -> Flow:
    """Fill `out` (of the projection's buffer shape) with the selected elements."""
    for window in projection.windows(MAX_ROWS, max_objects(layout, options)):
        yield from _with_second_looks(layout, [(window, out)], window.outers, options, cache, chunks)


def read_many(
    layout: Layout,
    selected: Sequence[tuple[Projection, Array]],
    options: Options,
    cache: IndexCache,
    chunks: ChunkCache | None = None,
) -> Flow:
    """Fill the output of each projection; every object is opened once, and all of them are asked for together."""
    for batch, outers in _batches(layout, selected, options):
        yield from _with_second_looks(layout, batch, outers, options, cache, chunks)


def _batches(
    layout: Layout, selected: Sequence[tuple[Projection, Array]], options: Options
) -> Iterator[tuple[list[tuple[Window, Array]], Array]]:
    """Windows of all projections, as many together as rows and objects allow, and the distinct objects of each lot."""
    most = max_objects(layout, options)
    batch: list[tuple[Window, Array]] = []
    seen: set[tuple[int, ...]] = set()
    rows = 0
    for projection, out in selected:
        for window in projection.windows(MAX_ROWS, most):
            touched = set(map(tuple, window.outers.tolist()))
            if batch and (rows + len(window.cell) > MAX_ROWS or len(seen | touched) > most):
                yield batch, _outers(seen, layout)
                batch, seen, rows = [], set(), 0
            batch.append((window, out))
            seen |= touched
            rows += len(window.cell)
    if batch:
        yield batch, _outers(seen, layout)


def _outers(seen: set[tuple[int, ...]], layout: Layout) -> Array:
    return np.array(sorted(seen), np.int64).reshape(len(seen), layout.ndim)


def _with_second_looks(
    layout: Layout,
    batch: Sequence[tuple[Window, Array]],
    outers: Array,
    options: Options,
    cache: IndexCache,
    chunks: ChunkCache | None = None,
) -> Flow:
    before: list[Tag | None] = []
    unsettled = False
    for attempt in range(PATIENT_TRIES):
        seen: list[Tag | None] = []
        try:
            yield from _read_batch(layout, batch, outers, options, cache, chunks, seen, fresh=attempt > 0)
            return
        except (ShardError, CodecError, ConflictError) as error:
            changing = unsettled or isinstance(error, ConflictError) or seen != before
            if attempt == PATIENT_TRIES - 1 or (attempt >= TRIES - 1 and not changing):
                raise
        before = seen
        unsettled = any((yield Recovering(layout.chunk_keys(outers))))
        # Uneven pauses once it takes long, so as not to keep step with the writer.
        from random import uniform  # loads hashlib; here, where somebody waits anyway

        pause = 0.002 * 4**attempt if attempt < TRIES - 1 else uniform(0, 0.02)
        yield Working(partial(time.sleep, pause))


def _read_batch(
    layout: Layout,
    batch: Sequence[tuple[Window, Array]],
    outers: Array,
    options: Options,
    cache: IndexCache,
    chunks: ChunkCache | None,
    seen: list[Tag | None],
    *,
    fresh: bool,
) -> Flow:
    parts = takes_parts(layout, batch)
    objects = yield from open_objects(layout, outers, options, cache, fresh=fresh, seen=seen, parts=parts)
    try:
        jobs = []
        numbers = None
        for window, out in batch:
            number = window.shard_number
            if window.outers is not outers:
                if numbers is None:
                    numbers = {tuple(outer): k for k, outer in enumerate(outers.tolist())}
                number = np.array([numbers[tuple(o)] for o in window.outers.tolist()], np.int64)[number]
            jobs.append(Job(window, number, rows_in(layout, window, objects, number), out))
        if options.missing == "error":
            check_stored(layout, jobs, objects)
        if layout.chain.partial:
            yield from read_parts(layout, jobs, objects, options)
        if chunks is None:
            yield from decode(layout, jobs, objects, options)
        else:
            yield from decode_cached(layout, jobs, objects, options, chunks)
    finally:
        objects.close()
