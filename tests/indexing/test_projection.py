"""Projections against numpy: what is read and written through chunk tables is what a plain ndarray gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terrazzo.chunk_grid import RectilinearGrid, RegularGrid
from terrazzo.indexing import (
    Tiles,
    project_basic,
    project_blocks,
    project_coordinates,
    project_fancy,
    project_mask,
    project_orthogonal,
)

from .placing import Chunks, read, write

LIMITS = st.sampled_from([(), (1,), (2, 1), (5, 2), (7,), (40, 3)])


@st.composite
def tilings(draw: st.DrawFn, min_dims: int = 0, max_dims: int = 4) -> Tiles:
    """Regular, rectilinear and sharded tilings of small arrays; lengths of zero and chunks beyond the edge too."""
    ndim = draw(st.integers(min_dims, max_dims))
    longest = {0: 1, 1: 23, 2: 11, 3: 6, 4: 4}[ndim]
    shape = tuple(draw(st.integers(0, longest)) for _ in range(ndim))
    inner = tuple(draw(st.integers(1, 3)) for _ in range(ndim)) if draw(st.booleans()) else None
    unit = inner or (1,) * ndim
    if draw(st.booleans()):
        return Tiles(shape, RegularGrid([u * draw(st.integers(1, 4)) for u in unit]), inner)
    edges: list[Any] = []
    for length, u in zip(shape, unit, strict=True):
        if draw(st.booleans()):
            edges.append(u * draw(st.integers(1, 4)))
            continue
        listed = [[u * draw(st.integers(1, 3)), draw(st.integers(1, 3))]]
        while sum(e * n for e, n in listed) < length:
            listed.append([u * draw(st.integers(1, 4)), draw(st.integers(1, 2))])
        if draw(st.booleans()):
            listed.append([u, 1])
        edges.append(listed)
    return Tiles(shape, RectilinearGrid(*edges), inner)


def slices(length: int) -> st.SearchStrategy[slice]:
    ends = st.none() | st.integers(-length - 2, length + 2)
    steps = st.none() | st.integers(1, length + 2) | st.integers(-length - 2, -1)
    return st.builds(slice, ends, ends, steps)


def basic_items(length: int) -> st.SearchStrategy[Any]:
    return slices(length) | (st.integers(-length, length - 1) if length else slices(length))


@st.composite
def orthogonal_items(draw: st.DrawFn, length: int) -> Any:
    kind = draw(st.sampled_from(["basic", "array", "mask", "list"]))
    if kind == "basic":
        return draw(basic_items(length))
    if kind == "mask":
        return np.array(draw(st.lists(st.booleans(), min_size=length, max_size=length)), dtype=bool)
    found = draw(st.lists(st.integers(-length, length - 1), max_size=8)) if length else []
    return found if kind == "list" else np.array(found, dtype=draw(st.sampled_from([np.int64, np.int16])))


def value_of(tiles: Tiles) -> np.ndarray[Any, Any]:
    return np.arange(int(np.prod(tiles.shape, dtype=np.int64)), dtype=np.int64).reshape(tiles.shape)


def as_ix(items: list[Any], shape: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
    """numpy's way to say an orthogonal selection, and the shape it has without dropped dimensions."""
    columns, out_shape = [], []
    for item, length in zip(items, shape, strict=True):
        if isinstance(item, list):
            item = np.array(item, dtype=np.int64)
        column = np.arange(length)[item]
        if not isinstance(item, int):
            out_shape.append(len(column))
        columns.append(np.atleast_1d(column))
    return np.ix_(*columns) if columns else (), tuple(out_shape)


def same(found: Any, wanted: Any) -> None:
    assert np.shape(found) == np.shape(wanted)
    np.testing.assert_array_equal(found, wanted)


@given(st.data(), tilings(), LIMITS)
@settings(max_examples=100, deadline=None)
def test_basic(data: st.DataObject, tiles: Tiles, limits: tuple[int, ...]) -> None:
    given_items = data.draw(st.integers(0, len(tiles.shape)))
    items: list[Any] = [data.draw(basic_items(length)) for length in tiles.shape[:given_items]]
    if data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(items)))
        tail = len(items) - place
        for dim in range(tail):  # items after the Ellipsis belong to the last dimensions
            items[place + dim] = data.draw(basic_items(tiles.shape[len(tiles.shape) - tail + dim]))
        items.insert(place, Ellipsis)
    selection = tuple(items)
    plain = value_of(tiles)
    chunks = Chunks(tiles, plain)
    for project in (project_basic, project_fancy):
        projection = project(selection, tiles)
        found, wanted = read(projection, chunks, *limits), plain[selection]
        same(found, wanted)
        assert isinstance(found, np.ndarray) == isinstance(wanted, np.ndarray)
        assert projection.out_shape == wanted.shape
    _write_and_compare(
        project_basic(selection, tiles, for_write=True), tiles, selection, wanted.shape, data, limits
    )


def _write_and_compare(
    projection: Any,
    tiles: Tiles,
    index: Any,
    shape: tuple[int, ...],
    data: st.DataObject,
    limits: tuple[int, ...],
) -> None:
    plain = value_of(tiles)
    chunks = Chunks(tiles, plain)
    kind = data.draw(st.sampled_from(["full", "scalar", "broadcast", "leading"]))
    value = -100 - np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)
    if kind == "scalar":
        value = np.array(-55)
    elif kind == "broadcast" and shape:
        value = value[:1] if shape[0] else value
    elif kind == "leading":
        value = value[None, None]
    write(projection, chunks, value, *limits)
    if kind == "leading":
        value = value[0, 0]
    plain[index] = value
    np.testing.assert_array_equal(chunks.assembled(), plain)
    assert chunks.padding_is_clean()


@given(st.data(), tilings(), LIMITS)
@settings(max_examples=100, deadline=None)
def test_orthogonal(data: st.DataObject, tiles: Tiles, limits: tuple[int, ...]) -> None:
    items = [data.draw(orthogonal_items(length)) for length in tiles.shape]
    index, out_shape = as_ix(items, tiles.shape)
    plain = value_of(tiles)
    projection = project_orthogonal(tuple(items), tiles)
    assert projection.out_shape == out_shape
    same(read(projection, Chunks(tiles, plain), *limits), plain[index].reshape(out_shape))

    chunks = Chunks(tiles, plain)
    value = -100 - np.arange(int(np.prod(out_shape, dtype=np.int64))).reshape(out_shape)
    write(project_orthogonal(tuple(items), tiles, for_write=True), chunks, value, *limits)
    expected = plain.copy()
    _assign_last(expected, index, value)
    np.testing.assert_array_equal(chunks.assembled(), expected)
    assert chunks.padding_is_clean()


def _assign_last(plain: np.ndarray[Any, Any], index: Any, value: np.ndarray[Any, Any]) -> None:
    """Assignment element by element, so that the last of equal positions is sure to stay."""
    positions = np.arange(plain.size).reshape(plain.shape)[index]
    for position, element in zip(
        positions.reshape(-1), np.broadcast_to(value.reshape(-1), positions.size), strict=True
    ):
        plain.reshape(-1)[position] = element


@given(st.data(), tilings(min_dims=1, max_dims=3), LIMITS)
@settings(max_examples=100, deadline=None)
def test_coordinates(data: st.DataObject, tiles: Tiles, limits: tuple[int, ...]) -> None:
    count = data.draw(st.integers(0, 12)) if all(tiles.shape) else 0
    items: list[Any] = []
    for length in tiles.shape:
        found = (
            data.draw(st.lists(st.integers(-length, length - 1), min_size=count, max_size=count))
            if count
            else []
        )
        items.append(np.array(found, dtype=np.int64))
    if count and data.draw(st.booleans()):
        items[0] = items[0][:, None]  # broadcast to two dimensions
    if count and data.draw(st.booleans()):
        items[-1] = int(items[-1].reshape(-1)[0])
    selection = tuple(items)
    plain = value_of(tiles)
    wanted = plain[selection]
    projection = project_coordinates(selection, tiles)
    assert projection.out_shape == np.shape(wanted)
    same(read(projection, Chunks(tiles, plain), *limits), wanted)

    chunks = Chunks(tiles, plain)
    value = -100 - np.arange(wanted.size).reshape(wanted.shape)
    write(project_coordinates(selection, tiles, for_write=True), chunks, value, *limits)
    _assign_last(plain, selection, value)
    np.testing.assert_array_equal(chunks.assembled(), plain)
    assert chunks.padding_is_clean()


@given(st.data(), tilings(max_dims=3), LIMITS)
@settings(max_examples=60, deadline=None)
def test_mask(data: st.DataObject, tiles: Tiles, limits: tuple[int, ...]) -> None:
    plain = value_of(tiles)
    bits = data.draw(st.sampled_from(["all", "none", "some"]))
    mask = np.full(tiles.shape, bits == "all")
    if bits == "some":
        mask = np.array(
            data.draw(st.lists(st.booleans(), min_size=plain.size, max_size=plain.size)), dtype=bool
        )
        mask = mask.reshape(tiles.shape)
    for project in (project_mask, project_fancy):
        same(read(project(mask, tiles), Chunks(tiles, plain), *limits), plain[mask])
    chunks = Chunks(tiles, plain)
    write(project_mask(mask, tiles, for_write=True), chunks, 5, *limits)
    plain[mask] = 5
    np.testing.assert_array_equal(chunks.assembled(), plain)


@given(st.data(), tilings(max_dims=3), LIMITS)
@settings(max_examples=60, deadline=None)
def test_blocks(data: st.DataObject, tiles: Tiles, limits: tuple[int, ...]) -> None:
    items: list[Any] = []
    index: list[Any] = []
    for length, edges, count in zip(
        tiles.shape, tiles.grid.dims, tiles.grid.grid_shape(tiles.shape), strict=True
    ):
        begin = [min(edges.begin(i), length) for i in range(count)] + [length]
        if count and data.draw(st.booleans()):
            item = data.draw(st.integers(-count, count - 1))
            items.append(item)
            index.append(slice(begin[item % count], begin[item % count + 1]))
        else:
            item = data.draw(slices(count).filter(lambda s: s.step is None or s.step == 1))
            items.append(item)
            lo, hi, _ = item.indices(count)
            index.append(slice(begin[lo], begin[hi]) if lo < hi else slice(0, 0))
    plain = value_of(tiles)
    projection = project_blocks(tuple(items), tiles)
    same(read(projection, Chunks(tiles, plain), *limits), plain[tuple(index)])
    for window in project_blocks(tuple(items), tiles, for_write=True).windows():
        assert window.whole.all()
        assert window.whole_shard.all()


@given(st.data(), tilings(min_dims=1, max_dims=3))
@settings(max_examples=60, deadline=None)
def test_whole_is_exact(data: st.DataObject, tiles: Tiles) -> None:
    """`whole` is told exactly: neither a chunk nor a shard too few."""
    items = tuple(data.draw(orthogonal_items(length)) for length in tiles.shape)
    index, _ = as_ix(list(items), tiles.shape)
    touched = np.zeros(tiles.shape, dtype=np.int64)
    touched[index] = 1
    chunks = Chunks(tiles, touched)
    for window in project_orthogonal(items, tiles, for_write=True).windows():
        for k, (shard, inner) in enumerate(zip(window.shard_number, window.inner, strict=True)):
            found = chunks.chunks[tuple(window.outers[shard].tolist()), int(inner)]
            assert window.whole[k] == (found != 0).all()
        for k, outer in enumerate(window.outers.tolist()):
            found = [chunk for (shard, _), chunk in chunks.chunks.items() if shard == tuple(outer)]
            assert window.whole_shard[k] == all((chunk != 0).all() for chunk in found)


def test_window_counts() -> None:
    """Windows fill up to their limits: shards together while rows and shards allow it, and split only for reading."""
    tiles = Tiles((64, 64), RegularGrid((16, 16)), (4, 4))
    sizes = [len(w.cell) for w in project_basic(..., tiles).windows(64)]
    assert sizes == [64] * 4
    assert [len(w.outers) for w in project_basic(..., tiles).windows(10**6, 2)] == [2] * 8
    assert [len(w.cell) for w in project_basic(..., tiles).windows(8)] == [8] * 32
    assert [len(w.cell) for w in project_basic(..., tiles, for_write=True).windows(8)] == [16] * 16
    assert len(list(project_basic(..., tiles).windows())) == 1


def test_shapes_beyond_memory() -> None:
    """Planning costs what is touched, not what exists."""
    tiles = Tiles((2**62, 2**40), RegularGrid((2**20, 2**20)), (2**10, 2**10))
    (window,) = project_basic((slice(2**61, 2**61 + 3), 2**39), tiles).windows()
    assert window.outers.tolist() == [[2**41, 2**19]]
    assert window.inner.tolist() == [0]
    first = next(iter(project_basic(..., tiles, for_write=True).windows(2**20, 1)))
    assert len(first.cell) == 2**20
    assert first.whole_shard.tolist() == [True]
    wide = project_basic((slice(None, None, 2**60), slice(5, 0, -(2**70))), tiles)
    assert wide.buffer_shape == (4, 1)
    (window,) = wide.windows()
    assert window.outers[:, 0].tolist() == [0, 2**40, 2**41, 3 * 2**40]
    points = project_coordinates(([2**62 - 1, 0], [2**40 - 1, -1]), tiles)
    (window,) = points.windows()
    assert window.outers.tolist() == [[0, 2**20 - 1], [2**42 - 1, 2**20 - 1]]
    runs = Tiles((2**60 + 2,), RectilinearGrid([[1, 2**60], 2]))
    (window,) = project_basic(slice(-3, None), runs).windows()
    assert window.outers[:, 0].tolist() == [2**60 - 1, 2**60]


def test_last_of_equal_positions_stays() -> None:
    tiles = Tiles((10,), RegularGrid((4,)))
    for project in (project_orthogonal, project_coordinates):
        chunks = Chunks(tiles, np.zeros(10, dtype=np.int64))
        write(project([3, 9, 3, -1, 3], tiles, for_write=True), chunks, np.array([1, 2, 3, 4, 5]))
        assert chunks.assembled().tolist() == [0, 0, 0, 5, 0, 0, 0, 0, 0, 4]


def test_value_that_does_not_fit() -> None:
    tiles = Tiles((4, 6), RegularGrid((2, 2)))
    projection = project_basic((slice(0, 2), 3), tiles, for_write=True)
    with pytest.raises(ValueError, match=r"shape \(3,\) does not fit a selection of shape \(2,\)"):
        projection.prepare(np.zeros(3))
    with pytest.raises(ValueError, match="does not fit"):
        projection.prepare(np.zeros((2, 2)))
