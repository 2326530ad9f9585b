"""Points: single elements, gathered by the inner chunk they lie in.

What it does not do: dimensions that are slices; a product of selections is a `BoxProjection`.

Elements are sorted once, by shard and inner chunk, with keys packed into as few int64 as hold them; the order inside
a chunk stays that of the selection. For writing, of elements named twice the last one stays, as in numpy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from terrazzo.chunk_grid import ChunkGrid, Ints
from terrazzo.indexing.axes import Bools, changes
from terrazzo.indexing.projection import UNBOUNDED, Array, Place, Projection, Window, fitted
from terrazzo.indexing.selection import Points

__all__ = ["PointProjection", "PointWindow"]


class PointProjection(Projection):
    """The projection of single elements."""

    kind = "points"
    flips = ()

    def __init__(
        self,
        points: Points,
        shape: Sequence[int],
        grid: ChunkGrid,
        inner_shape: tuple[int, ...] | None,
        for_write: bool = False,
    ) -> None:
        self.out_shape = points.shape
        self.buffer_shape = (points.count,)
        self.for_write = for_write
        self._shape = tuple(shape)
        self._grid = grid
        self._inner_shape = inner_shape
        count, ndim = points.count, len(shape)
        outer, start = np.empty((2, ndim, count), dtype=np.int64)
        inner, inside = np.zeros((2, count), dtype=np.int64)
        most_inner = most_inside = 1
        keys: list[tuple[Ints, int]] = []
        for dim, positions in enumerate(points.coordinates):
            edges = grid.dims[dim]
            outer[dim], offset = edges.locate(positions)
            extent: int | Ints = edges.uniform or edges.extent(outer[dim])
            if inner_shape is not None:
                edge = inner_shape[dim]
                number = offset // edge
                offset -= number * edge
                inner = inner * (extent // edge) + number
                most_inner *= edges.unique[-1] // edge
                extent = edge
                most_inside *= edge
            else:
                most_inside *= edges.unique[-1] if edges.unique else 1
            start[dim] = positions - offset
            inside = inside * extent + offset
            keys.append((outer[dim], edges.count(shape[dim])))
        chunk_keys = _packed([*keys, (inner, most_inner)])
        order = _order(_packed([*chunk_keys, (inside, most_inside)]) if for_write else chunk_keys)
        if order is None:
            order = np.arange(count, dtype=np.int64)
        else:
            inside = inside[order]
            chunk_keys = [(key[order], size) for key, size in chunk_keys]
        new = _any_change(chunk_keys)
        if for_write and count:
            last = np.append((new | changes(inside))[1:], True)
            if not last.all():
                order, inside, chunk_keys = (
                    order[last],
                    inside[last],
                    [(key[last], s) for key, s in chunk_keys],
                )
                new = _any_change(chunk_keys)
        firsts = np.flatnonzero(new)
        self._inside, self._outside = inside, order
        self._bounds = np.stack([firsts, np.append(firsts[1:], len(order))[: len(firsts)]], axis=1)
        heads = order[firsts]
        self._outers = np.ascontiguousarray(outer.T[heads])
        self._starts = np.ascontiguousarray(start.T[heads])
        self._inner = inner[heads]
        #: the first row of each shard, and the end
        shards = _any_change([(column, 0) for column in self._outers.T], len(heads))
        self._shard_firsts = np.append(np.flatnonzero(shards), len(heads))
        self.nrows = len(heads)

    def finish(self, buffer: Array) -> Array:
        found: Array = buffer.reshape(self.out_shape)
        return found[()] if not self.out_shape else found

    def prepare(self, value: Array) -> Array:
        return np.ascontiguousarray(fitted(value, self.out_shape)).reshape(self.buffer_shape)

    def windows(self, max_rows: int = UNBOUNDED, max_shards: int = UNBOUNDED) -> Iterator[Window]:
        firsts = self._shard_firsts
        shard, shards = 0, len(firsts) - 1
        while shard < shards:
            row = int(firsts[shard])
            stop = int(np.searchsorted(firsts, row + max_rows, side="right")) - 1
            stop = max(shard + 1, min(stop, shard + max_shards, shards))
            end = int(firsts[stop])
            step = end - row if self.for_write or end - row <= max_rows else max_rows
            for lo in range(row, end, step):
                yield PointWindow(self, lo, min(lo + step, end))
            shard = stop


class PointWindow(Window):
    """A range of a point projection's rows."""

    def __init__(self, projection: PointProjection, lo: int, hi: int) -> None:
        self._projection = projection
        self._rows = slice(lo, hi)
        outers = projection._outers[self._rows]
        new = _any_change([(column, 0) for column in outers.T], len(outers))
        self.outers = outers[new]
        self.shard_number = np.cumsum(new) - 1
        self.inner = projection._inner[self._rows]
        self.cell = np.arange(hi - lo, dtype=np.int64)
        self._bounds = np.ascontiguousarray(projection._bounds[self._rows])

    def placement(self) -> tuple[object, ...]:
        return "points", self._bounds, self._projection._inside, self._projection._outside

    @cached_property
    def whole(self) -> Bools:
        if not self._projection.for_write:
            return np.zeros(len(self.cell), dtype=np.bool_)
        projection = self._projection
        inside = np.ones(len(self.cell), dtype=np.int64)
        for dim, length in enumerate(projection._shape):
            if projection._inner_shape is not None:
                edge: int | Ints = projection._inner_shape[dim]
            else:
                edge = projection._grid.dims[dim].extent(projection._outers[self._rows, dim])
            inside *= np.minimum(edge, length - projection._starts[self._rows, dim])
        whole: Bools = inside == self._bounds[:, 1] - self._bounds[:, 0]
        return whole

    @cached_property
    def whole_shard(self) -> Bools:
        if not self._projection.for_write:
            return np.zeros(len(self.outers), dtype=np.bool_)
        inside = np.ones(len(self.outers), dtype=np.int64)
        for dim, length in enumerate(self._projection._shape):
            edges = self._projection._grid.dims[dim]
            index = self.outers[:, dim]
            inside *= np.minimum(edges.extent(index), length - edges.start(index))
        firsts = np.searchsorted(self.shard_number, np.arange(len(self.outers)))
        covered = np.add.reduceat(self._bounds[:, 1] - self._bounds[:, 0], firsts)
        whole: Bools = inside == covered
        return whole

    def chunk_selection(self, row: int) -> Place:
        lo, hi = self._bounds[row].tolist()
        return (
            np.unravel_index(self._projection._inside[lo:hi], self._chunk_shape(row))
            if self.outers.shape[1]
            else ()
        )

    def out_selection(self, row: int) -> Place:
        lo, hi = self._bounds[row].tolist()
        outside = self._projection._outside[lo:hi]
        return (outside,) if self.outers.shape[1] else (int(outside[0]),)

    def _chunk_shape(self, row: int) -> tuple[int, ...]:
        inner = self._projection._inner_shape
        return inner or self._projection._grid.chunk_shape(self.outers[self.shard_number[row]].tolist())


def _packed(keys: Sequence[tuple[Ints, int]]) -> list[tuple[Ints, int]]:
    """The same order in fewer keys: neighbours become one while their sizes fit an int64. Slowest first."""
    packed: list[tuple[Ints, int]] = []
    for key, size in keys:
        if packed and packed[-1][1] * size < UNBOUNDED:
            before, sizes = packed[-1]
            packed[-1] = (before * size + key, sizes * size)
        else:
            packed.append((key, size))
    return packed


def _order(keys: Sequence[tuple[Ints, int]]) -> Ints | None:
    """The stable order by these keys, slowest first; None where they are in order already."""
    if len(keys) == 1:
        key = keys[0][0]
        return None if (key[1:] >= key[:-1]).all() else np.argsort(key, kind="stable")
    return np.lexsort([key for key, _ in reversed(keys)])


def _any_change(keys: Sequence[tuple[Ints, int]], count: int = 1) -> Bools:
    if not keys:
        return changes(np.zeros(count, dtype=np.int64))
    new = changes(keys[0][0])
    for key, _ in keys[1:]:
        new |= changes(key)
    return new
