"""Whole shards from their populated inner chunks, in memory of those chunks alone.

What it does not do: read what was there; a shard written here is exactly the chunks that were given.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

import numpy as np

from terrazzo.errors import SelectionError
from terrazzo.index import IndexCache
from terrazzo.layout import Layout
from terrazzo.options import Options
from terrazzo.read import MAX_ROWS
from terrazzo.stores.flow import Sinking
from terrazzo.stores.store import NEAR, Cost, Sink
from terrazzo.strategy import Strategy
from terrazzo.write.encoding import encode
from terrazzo.write.flow import assemble, starts_of, with_patience
from terrazzo.write.held import Fresh, commit, given_back, hold_objects
from terrazzo.write.refusing import refuse_foreign
from terrazzo.write.rows import Rows, ranks
from terrazzo.write.slack import slack_of

__all__ = ["write_shard"]

Array = np.ndarray[Any, Any]
Flow = Generator[Any, Any, None]
Chunks = Mapping[tuple[int, ...], Any]


class _Stacked:
    """A window over chunks stacked along the first axis: chunk k of the value goes, whole, into the chunk of row k."""

    def __init__(self, outer: tuple[int, ...], shape: tuple[int, ...], inner: Array) -> None:
        n = len(inner)
        self.outers = np.array([outer], np.int64).reshape(1, len(outer))
        self.shard_number = np.zeros(n, np.int64)
        self.inner = inner
        self.cell = np.arange(n)
        self.shape = shape

    def placement(self) -> tuple[object, ...]:
        if not self.shape:
            return "grid", []
        n, edge = len(self.cell), self.shape[0]
        lead = np.zeros((n, 3), np.int64)
        lead[:, 1] = edge
        lead[:, 2] = np.arange(n) * edge
        rest = [("span", np.array([[0, c, 0]], np.int64), 1) for c in self.shape[1:]]
        return "grid", [("span", lead, 1), *rest]

    def chunk_selection(self, row: int) -> tuple[slice, ...]:
        return tuple(slice(0, c) for c in self.shape)

    def out_selection(self, row: int) -> tuple[slice, ...]:
        if not self.shape:
            return ()
        edge = self.shape[0]
        return (slice(row * edge, (row + 1) * edge), *(slice(0, c) for c in self.shape[1:]))


def write_shard(
    layout: Layout,
    index: tuple[int, ...],
    chunks: Chunks,
    options: Options,
    cache: IndexCache,
    strategy: Strategy,
    cost: Cost = NEAR,
) -> Flow:
    """Put the shard at `index` of the grid, made of `chunks`: index of an inner chunk -> values of its shape."""
    sharding = layout.sharding
    if sharding is None:
        raise ValueError(f"array {layout.path!r} has no shards; write its chunks by assignment")
    grid = layout.grid.grid_shape(layout.shape)
    if len(index) != len(grid) or any(not 0 <= i < n for i, n in zip(index, grid, strict=True)):
        raise SelectionError(f"array {layout.path!r} has a grid of {grid} shards; there is none at {index}")
    outers = np.array([index], np.int64).reshape(1, len(index))
    count = layout.counts(outers)[0]
    if not isinstance(chunks, Mapping):
        raise TypeError(
            f"array {layout.path!r}: the chunks of a shard are a mapping from the index of an inner chunk to its "
            f"values, not a {type(chunks).__name__}; a whole shard's values are written by assignment, or with blocks"
        )
    known = list(chunks)
    for inner in known:
        if len(inner) != len(count) or any(not 0 <= i < n for i, n in zip(inner, count, strict=True)):
            raise SelectionError(
                f"array {layout.path!r}: a shard has {count} inner chunks; there is none at {tuple(inner)}"
            )
    numbers = np.array([int(np.ravel_multi_index(inner, count)) if count else 0 for inner in known], np.int64)
    if strategy.order != "unordered":
        sequence = np.argsort(ranks(strategy.order, count)[numbers], kind="stable")
        known, numbers = [known[k] for k in sequence.tolist()], numbers[sequence]
    yield from with_patience(
        lambda: _put(layout, outers, count, known, numbers, chunks, options, cache, strategy, cost)
    )


def _put(
    layout: Layout,
    outers: Array,
    count: tuple[int, ...],
    known: list[tuple[int, ...]],
    numbers: Array,
    chunks: Chunks,
    options: Options,
    cache: IndexCache,
    strategy: Strategy,
    cost: Cost,
) -> Flow:
    assert layout.sharding is not None
    names = layout.chunk_keys(outers)
    shape = layout.sharding.chunk_shape
    holds = yield from hold_objects(layout, names, [count], [True], cost)
    sinks: list[Sink] = []
    with given_back(holds, sinks):
        yield from refuse_foreign(layout, holds, [None], [count], [True])
        sinks += yield Sinking(holds)
        entries = np.empty((len(known), 2), np.uint64)
        ends = starts_of(layout, [count])
        nbytes = max(1, layout.chain.spec.nbytes or 1 << 16)
        step = max(1, min(MAX_ROWS, options.memory // (2 * nbytes)))
        outer = tuple(outers[0].tolist())
        slack = slack_of(layout, strategy, [count], options)
        for start in range(0, len(known), step):
            part = known[start : start + step]
            value = _stack(layout, chunks, part, shape)
            window: Any = _Stacked(outer, shape, numbers[start : start + step])
            places = np.arange(len(part))
            rows = Rows(np.zeros_like(places), numbers[start : start + step], places, cell=places)
            entries[start : start + step], ends = yield from encode(
                layout, window, rows, names, [b""], sinks, [count], ends, value, options, slack
            )
        every = Rows(np.zeros(len(known), np.int64), numbers, numbers)
        fresh: Fresh = {}
        changes = assemble(layout, every, entries, ends, holds, sinks, [count], fresh, outers)
        yield from commit(changes, fresh, {names[0]: holds[0]}, options, cache, cost)


def _stack(layout: Layout, chunks: Chunks, where: list[tuple[int, ...]], shape: tuple[int, ...]) -> Array:
    if not shape:
        return np.asarray(chunks[where[0]], dtype=layout.dtype)
    stack = np.empty((len(where) * shape[0], *shape[1:]), layout.dtype)
    for k, inner in enumerate(where):
        piece = np.asarray(chunks[inner], dtype=layout.dtype)  # asked for only now: it may come from a file
        if piece.shape != shape:
            raise ValueError(
                f"array {layout.path!r}: the values of inner chunk {tuple(inner)} have shape {piece.shape}; "
                f"inner chunks have {shape}"
            )
        stack[k * shape[0] : (k + 1) * shape[0]] = piece
    return stack
