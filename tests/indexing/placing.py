"""The oracle's helper: a store of chunks as numpy arrays, and a slow, obvious executor of the kernel's placement."""

from __future__ import annotations

import itertools
from array import array
from typing import Any

import numpy as np

from terrazzo.indexing import Projection, Tiles, Window

FILL = -7


class Chunks:
    """An array cut into full-size inner chunks, by (shard index, C-order number inside the shard)."""

    def __init__(self, tiles: Tiles, value: np.ndarray[Any, Any]) -> None:
        self.tiles = tiles
        self.chunks: dict[tuple[tuple[int, ...], int], np.ndarray[Any, Any]] = {}
        self.origin: dict[tuple[tuple[int, ...], int], tuple[int, ...]] = {}
        for shard in itertools.product(*map(range, tiles.grid.grid_shape(tiles.shape))):
            shape = tiles.grid.chunk_shape(shard)
            begin = [dim.begin(i) for dim, i in zip(tiles.grid.dims, shard, strict=True)]
            inner = tiles.inner_shape if tiles.inner_shape is not None else shape
            counts = [s // c for s, c in zip(shape, inner, strict=True)]
            for number, index in enumerate(itertools.product(*map(range, counts))):
                start = tuple(b + i * c for b, i, c in zip(begin, index, inner, strict=True))
                chunk = np.full(inner, FILL, dtype=value.dtype)
                here = value[tuple(slice(s, s + c) for s, c in zip(start, inner, strict=True))]
                chunk[tuple(map(slice, here.shape))] = here
                self.chunks[shard, number] = chunk
                self.origin[shard, number] = start

    def assembled(self) -> np.ndarray[Any, Any]:
        """The array that the chunks hold."""
        whole = np.full(self.tiles.shape, FILL, dtype=np.int64)
        for key, chunk in self.chunks.items():
            start = self.origin[key]
            target = whole[..., *(slice(s, s + c) for s, c in zip(start, chunk.shape, strict=True))]
            target[...] = chunk[tuple(map(slice, target.shape))]
        return whole

    def padding_is_clean(self) -> bool:
        """Whether nothing was written beyond the array's edge."""
        for key, chunk in self.chunks.items():
            inside = tuple(max(0, n - s) for n, s in zip(self.tiles.shape, self.origin[key], strict=True))
            for dim, n in enumerate(inside):
                if (
                    np.take(chunk, range(min(n, chunk.shape[dim]), chunk.shape[dim]), axis=dim) != FILL
                ).any():
                    return False
        return True


def _axes(table: array[int]) -> list[tuple[Any, ...]]:
    """The axes of a grid of spans that was told in one table."""
    axes, at = [], 0
    while at < len(table):
        step, count = table[at : at + 2]
        axes.append(("span", table[at + 2 : at + 2 + 3 * count], step))
        at += 2 + 3 * count
    return axes


def moves(
    placement: Any, cell: int, chunk_shape: tuple[int, ...]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(position in the chunk, position in the buffer) of every element of a cell, one by one."""
    if placement[0] == "points":
        _, bounds, inside, outside = placement
        assert bounds.dtype == inside.dtype == outside.dtype == np.int64
        assert bounds.flags.c_contiguous
        lo, hi = bounds[cell]
        return [
            (
                tuple(int(v) for v in np.unravel_index(inside[k], chunk_shape)) if chunk_shape else (),
                (int(outside[k]),),
            )
            for k in range(lo, hi)
        ]
    if placement[0] == "spans":
        placement = "grid", _axes(placement[1])
    axes = [(form, _table(table, form), *rest) for form, table, *rest in placement[1]]
    sizes = [len(axis[1]) for axis in axes]
    columns = []
    for axis, k in zip(axes, np.unravel_index(cell, sizes) if sizes else (), strict=True):
        assert axis[1].dtype == np.int64
        assert axis[1].flags.c_contiguous
        if axis[0] == "span":
            start, count, out = (int(v) for v in axis[1][k])
            columns.append([(start + i * axis[2], out + i) for i in range(count)])
        else:
            lo, hi = axis[1][k]
            columns.append([(int(axis[2][i]), int(axis[3][i])) for i in range(lo, hi)])
    return [(tuple(i for i, _ in move), tuple(o for _, o in move)) for move in itertools.product(*columns)]


def _table(table: Any, form: str) -> Any:
    """A table as an array of rows: small ones come flat."""
    if isinstance(table, array):
        assert table.typecode == "q"
        return np.array(table, np.int64).reshape(-1, {"span": 3, "pick": 2}[form])
    return table


def rows(window: Window, chunks: Chunks) -> list[tuple[int, tuple[tuple[int, ...], int]]]:
    """Each row's cell and the key of its chunk, after the promises every window makes."""
    n, m = len(window.cell), len(window.outers)
    assert window.outers.shape == (m, len(chunks.tiles.shape))
    assert len({tuple(outer) for outer in window.outers.tolist()}) == m
    assert window.shard_number.shape == window.inner.shape == window.whole.shape == (n,)
    assert window.whole_shard.shape == (m,)
    assert window.whole.dtype == window.whole_shard.dtype == np.bool_
    assert {a.dtype for a in (window.outers, window.shard_number, window.inner, window.cell)} == {
        np.dtype(np.int64)
    }
    assert set(window.shard_number.tolist()) == set(range(m))
    keys = [
        (tuple(window.outers[s].tolist()), int(i))
        for s, i in zip(window.shard_number, window.inner, strict=True)
    ]
    assert len(set(keys)) == n
    return list(zip(window.cell.tolist(), keys, strict=True))


def read(projection: Projection, chunks: Chunks, *limits: int) -> Any:
    """The result of a projection, element by element; every element of the buffer is filled exactly once."""
    buffer = np.full(projection.buffer_shape, -1, dtype=np.int64)
    filled = np.zeros(projection.buffer_shape, dtype=np.int64)
    other = buffer.copy()
    for window in projection.windows(*limits):
        placement = window.placement()
        for row, (cell, key) in enumerate(rows(window, chunks)):
            chunk = chunks.chunks[key]
            for inside, outside in moves(placement, cell, chunk.shape):
                buffer[outside] = chunk[inside]
                filled[outside] += 1
            other[window.out_selection(row)] = chunk[window.chunk_selection(row)]
    assert (filled == 1).all()
    np.testing.assert_array_equal(buffer, other)
    return projection.finish(buffer)


def write(projection: Projection, chunks: Chunks, value: Any, *limits: int) -> None:
    """Lay a value over the chunks; whole chunks and whole shards are forgotten first, as a writer may."""
    prepared = projection.prepare(np.asarray(value))
    assert prepared.shape == projection.buffer_shape
    seen: set[Any] = set()
    for window in projection.windows(*limits):
        placement = window.placement()
        touched = rows(window, chunks)
        shards = {tuple(outer) for outer in window.outers.tolist()}
        assert not shards & seen, "a shard is written by one window"
        seen |= shards
        for shard, whole in zip(window.outers.tolist(), window.whole_shard, strict=True):
            if whole:
                for key in chunks.chunks:
                    if key[0] == tuple(shard):
                        chunks.chunks[key][...] = FILL
        for row, (cell, key) in enumerate(touched):
            chunk = chunks.chunks[key]
            if window.whole[row]:
                chunk[...] = FILL
            copied = chunk.copy()
            for inside, outside in moves(placement, cell, chunk.shape):
                chunk[inside] = prepared[outside]
            copied[window.chunk_selection(row)] = prepared[window.out_selection(row)]
            np.testing.assert_array_equal(chunk, copied)
