"""Small selections are planned in plain integers: to the same rows and places as those that are parsed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terrazzo.chunk_grid import chunk_grid_from_extension
from terrazzo.indexing import Tiles, project_basic, project_fancy, project_orthogonal
from terrazzo.indexing.selection import parse_basic, parse_fancy, parse_orthogonal
from terrazzo.indexing.small import SmallBox
from terrazzo.metadata import Extension

SHAPE, SHARD, INNER = (20, 30, 7), (8, 10, 7), (4, 5, 7)
GRID = chunk_grid_from_extension(Extension("regular", {"chunk_shape": list(SHARD)}), SHAPE, "zarr.json")
TILES = Tiles(SHAPE, GRID, INNER)
EDGES = GRID.edges(SHAPE, INNER)

ends = st.none() | st.integers(-32, 32)
items = (
    st.integers(-32, 32)
    | st.integers(-32, 32).map(np.int16)
    | st.builds(slice, ends, ends, st.sampled_from([None, None, 1, 2, -1]))
)
WAYS = {
    "basic": (parse_basic, project_basic),
    "fancy": (parse_fancy, project_fancy),
    "orthogonal": (parse_orthogonal, project_orthogonal),
}


def told(work: Any) -> Any:
    """Everything that a small projection says, or the error in its place; None for other projections."""
    try:
        box = work()
    except Exception as error:
        return type(error), str(error)
    if not isinstance(box, SmallBox):
        return None
    values = np.arange(np.prod(box.buffer_shape)).reshape(box.buffer_shape)
    windows = [
        (
            *(part.tolist() for part in (w.outers, w.inner, w.shard_number, w.cell, w.whole, w.whole_shard)),
            [(w.chunk_selection(row), w.out_selection(row)) for row in range(len(w.cell))],
        )
        for w in box.windows()
    ]
    found = box.finish(values)
    return np.shape(found), type(found), box.nrows, box.rows(), box.placement(), windows


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=100, deadline=None)
@given(selection=st.lists(items, max_size=4).map(tuple) | items)
def test_what_is_not_parsed_means_the_same(way: str, selection: Any) -> None:
    parse, project = WAYS[way]

    def parsed() -> Any:
        box: Any = parse(selection, SHAPE)
        assert EDGES is not None
        return SmallBox.of(box.selectors, box.scalar, EDGES)

    assert told(lambda: project(selection, TILES)) == told(parsed)


def test_dimensions_that_are_left_out_are_whole() -> None:
    assert EDGES is not None
    box = SmallBox.plainly(3, EDGES)
    assert box is not None and box.out_shape == (30, 7)


@pytest.mark.parametrize("selection", [True, np.True_, 1.5, None, (1, 2, 3, 4), [1], 20, -21, slice(5, 5)])
def test_what_is_not_plain_is_left_to_the_parser(selection: Any) -> None:
    assert EDGES is not None
    assert SmallBox.plainly(selection, EDGES) is None
