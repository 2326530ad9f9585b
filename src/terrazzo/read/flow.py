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
from terrazzo.indexing import Projection, SmallBox
from terrazzo.layout import Layout
from terrazzo.options import Options
from terrazzo.read.cached import decode_cached
from terrazzo.read.chunk_cache import ChunkCache
from terrazzo.read.decode import Job, check_stored, decode
from terrazzo.read.far import open_far
from terrazzo.read.locate import MAX_ROWS, Part, max_objects, open_objects, rows_in
from terrazzo.read.parts import read_parts, takes_parts
from terrazzo.read.small import read_small
from terrazzo.stores.flow import Recovering, Working
from terrazzo.stores.store import NEAR, Cost, Tag

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
    cost: Cost = NEAR,
) -> Flow:
    """Fill `out` (of the projection's buffer shape) with the selected elements.

    cost: of a request to the store; where it is far, requests are planned by it.
    """
    if chunks is None and isinstance(projection, SmallBox):
        if not (yield from read_small(layout, [(projection, out)], options, cache)):
            return
    for window in projection.windows(MAX_ROWS, max_objects(layout, options, cost)):
        job = (window, out, window.shard_number)
        yield from _with_second_looks(layout, [job], window.outers, options, cache, chunks, cost)


def read_many(
    layout: Layout,
    selected: Sequence[tuple[Projection, Array]],
    options: Options,
    cache: IndexCache,
    chunks: ChunkCache | None = None,
    cost: Cost = NEAR,
) -> Flow:
    """Fill the output of each projection; every object is opened once, and all of them are asked for together."""
    if chunks is None:
        selected = yield from read_small(layout, selected, options, cache)
    for batch, outers in _batches(layout, selected, options, cost):
        yield from _with_second_looks(layout, batch, outers, options, cache, chunks, cost)


def _batches(
    layout: Layout, selected: Sequence[tuple[Projection, Array]], options: Options, cost: Cost
) -> Iterator[tuple[list[Part], Array]]:
    """Windows of all projections, as many together as rows and objects allow, and the distinct objects of each lot."""
    most = max_objects(layout, options, cost)
    batch: list[Part] = []
    numbers: dict[tuple[int, ...], int] = {}
    rows = 0
    for projection, out in selected:
        for window in projection.windows(MAX_ROWS, most):
            touched = list(map(tuple, window.outers.tolist()))
            new = sum([outer not in numbers for outer in touched])
            if batch and (rows + len(window.cell) > MAX_ROWS or len(numbers) + new > most):
                yield batch, _outers(numbers, layout)
                batch, numbers, rows = [], {}, 0
            mine = np.array([numbers.setdefault(outer, len(numbers)) for outer in touched], np.int64)
            batch.append(
                (window, out, mine if len(mine) == 1 == len(window.cell) else mine[window.shard_number])
            )
            rows += len(window.cell)
    if batch:
        yield batch, _outers(numbers, layout)


def _outers(numbers: dict[tuple[int, ...], int], layout: Layout) -> Array:
    return np.array(list(numbers), np.int64).reshape(len(numbers), layout.ndim)


def _with_second_looks(
    layout: Layout,
    batch: Sequence[Part],
    outers: Array,
    options: Options,
    cache: IndexCache,
    chunks: ChunkCache | None,
    cost: Cost,
) -> Flow:
    before: list[Tag | None] = []
    unsettled = False
    for attempt in range(PATIENT_TRIES):
        seen: list[Tag | None] = []
        try:
            yield from _read_batch(layout, batch, outers, options, cache, chunks, cost, seen, attempt)
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
    batch: Sequence[Part],
    outers: Array,
    options: Options,
    cache: IndexCache,
    chunks: ChunkCache | None,
    cost: Cost,
    seen: list[Tag | None],
    attempt: int,
) -> Flow:
    parts = layout.chain.partial and takes_parts(layout, [(window, out) for window, out, _ in batch])
    if cost.far:
        objects, batch = yield from open_far(
            *(layout, batch, outers, options, cache, cost, seen),
            attempt=attempt,
            fetched=chunks is None,
            parts=parts,
        )
    else:
        objects = yield from open_objects(
            layout, outers, options, cache, attempt=attempt, seen=seen, parts=parts
        )
    try:
        if not batch:
            return
        jobs = [
            Job(window, number, rows_in(layout, window, objects, number), out)
            for window, out, number in batch
        ]
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
