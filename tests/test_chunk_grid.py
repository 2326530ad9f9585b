"""Chunk grids: arithmetic against unrolled edges, the forms of documents, and sizes that would not fit anywhere."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terrazzo.chunk_grid import (
    ChunkGrid,
    RectilinearGrid,
    RegularEdges,
    RegularGrid,
    RunEdges,
    chunk_grid_from_extension,
    grid,
    register_chunk_grid,
)
from terrazzo.errors import MetadataError, TerrazzoWarning


@dataclass
class Extension:
    name: str
    configuration: Mapping[str, Any] | None = field(default_factory=dict)


def regular(chunk_shape: Any, shape: tuple[int, ...], **more: Any) -> ChunkGrid:
    return chunk_grid_from_extension(
        Extension("regular", {"chunk_shape": chunk_shape, **more}), shape, "zarr.json"
    )


def rectilinear(chunk_shapes: Any, shape: tuple[int, ...], **more: Any) -> ChunkGrid:
    configuration = {"kind": "inline", "chunk_shapes": chunk_shapes, **more}
    return chunk_grid_from_extension(Extension("rectilinear", configuration), shape, "zarr.json")


RUNS = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 4)), min_size=1, max_size=5)


@given(RUNS)
@settings(max_examples=100, deadline=None)
def test_runs_are_their_unrolled_edges(runs: list[tuple[int, int]]) -> None:
    edges = [edge for edge, count in runs for _ in range(count)]
    starts = np.concatenate([[0], np.cumsum(edges)])
    dim = RunEdges(runs)
    every = np.arange(len(edges), dtype=np.int64)
    assert dim.start(every).tolist() == starts[:-1].tolist()
    assert [dim.begin(i) for i in range(len(edges) + 1)] == starts.tolist()
    assert dim.extent(every).tolist() == edges
    coordinates = np.arange(starts[-1], dtype=np.int64)
    index, inside = dim.locate(coordinates)
    assert index.tolist() == np.repeat(every, edges).tolist()
    assert inside.tolist() == [k for edge in edges for k in range(edge)]
    assert [dim.find(int(c)) for c in coordinates] == [(int(i), int(starts[i])) for i in index]
    assert dim.unique == tuple(sorted(set(edges)))
    assert dim.covered == starts[-1]
    assert [dim.count(n) for n in range(int(starts[-1]) + 1)] == [
        int(np.searchsorted(starts, n)) for n in range(starts[-1] + 1)
    ]


@given(st.integers(1, 7), st.integers(0, 40))
def test_regular_is_a_run(edge: int, length: int) -> None:
    plain, runs = RegularEdges(edge), RunEdges([(edge, 20)])
    coordinates = np.arange(min(length, 20 * edge), dtype=np.int64)
    for one, other in zip(plain.locate(coordinates), runs.locate(coordinates), strict=True):
        assert one.tolist() == other.tolist()
    assert plain.count(length) == -(-length // edge)
    assert runs.uniform == plain.uniform == edge


def test_examples_of_the_specification() -> None:
    found = rectilinear([4, [1, 2, 3], [[4, 2]], [[1, 3], 3], [4, 4, 4]], (6, 6, 6, 6, 6))
    assert found.grid_shape((6, 6, 6, 6, 6)) == (2, 3, 2, 4, 2)
    assert [found.chunk_extent(d, np.arange(n)).tolist() for d, n in enumerate((2, 3, 2, 4, 3))] == [
        [4, 4],
        [1, 2, 3],
        [4, 4],
        [1, 1, 1, 3],
        [4, 4, 4],
    ]
    assert found.chunk_shape((0, 1, 1, 3, 2)) == (4, 2, 4, 3, 4)
    assert found.uniform_shape is None
    assert not found.is_regular
    assert found.unique_edges(1) == (1, 2, 3)
    index, inside = found.locate(1, np.array([0, 1, 2, 3, 5]))
    assert index.tolist() == [0, 1, 1, 2, 2]
    assert inside.tolist() == [0, 0, 1, 0, 2]
    assert found.chunk_start(3, np.array([3])).tolist() == [3]


def test_regular_grid() -> None:
    found = regular([10, 1000], (95, 20))
    assert found == RegularGrid((10, 1000))
    assert found.grid_shape((95, 20)) == (10, 1)
    assert found.grid_shape((0, 20)) == (0, 1)
    assert found.chunk_shape((9, 0)) == (10, 1000)
    assert found.uniform_shape == (10, 1000)
    assert found.is_regular
    assert found.resized((1, 1)) is found
    assert found.distinct_shapes() == [(10, 1000)]
    assert found.to_extension() == {"name": "regular", "configuration": {"chunk_shape": [10, 1000]}}
    empty = regular([], ())
    assert empty.grid_shape(()) == ()
    assert empty.chunk_shape(()) == ()
    assert empty.distinct_shapes() == [()]
    assert empty.uniform_shape == ()


def test_growth() -> None:
    found = rectilinear([3, [2, 2], [5, 1]], (4, 4, 6))
    grown = found.resized((40, 9, 3))
    assert grown.configuration()["chunk_shapes"] == [3, [2, 2, 5], [5, 1]]
    assert grown.grid_shape((40, 9, 3)) == (14, 3, 1)
    assert found.resized((4, 4, 6)) == found
    assert rectilinear([[]], (0,)).resized((7,)).configuration()["chunk_shapes"] == [[7]]


@pytest.mark.parametrize(
    "shapes", [[4, [1, 2]], [[[4, 100], 3], 2], [[12, 12, 12], [[1, 7]]], [[[2**40, 2**20]], 1]]
)
def test_documents_round_trip(shapes: Any) -> None:
    shape = (3, 3)
    found = rectilinear(shapes, shape)
    again = chunk_grid_from_extension(Extension(**found.to_extension()), shape)
    assert again == found
    assert hash(again) == hash(found)
    assert pickle.loads(pickle.dumps(found)) == found
    assert eval(repr(found), {"RectilinearGrid": RectilinearGrid}) == found


def test_runs_are_written_where_they_are_shorter() -> None:
    found = RectilinearGrid([4, 4, 4, 4, 5, 1000, 1000], [3, 3])
    assert found.configuration()["chunk_shapes"] == [[[4, 4], 5, [1000, 2]], [3, 3]]


def test_hostile_counts_cost_nothing() -> None:
    found = rectilinear([[[1, 2**62], [2, 2**60]], [[2**40, 2**22]]], (2**62 + 5, 2**62))
    assert found.grid_shape((2**62 + 5, 2**62)) == (2**62 + 3, 2**22)
    index, inside = found.locate(0, np.array([2**62 - 1, 2**62, 2**62 + 3]))
    assert index.tolist() == [2**62 - 1, 2**62, 2**62 + 1]
    assert inside.tolist() == [0, 0, 1]
    assert found.distinct_shapes() == [(2, 2**40), (1, 2**40)]
    with pytest.raises(MetadataError, match="beyond"):
        rectilinear([[[2**40, 2**30]]], (1,))
    many = RectilinearGrid(*[list(range(1, 300))] * 6)
    assert len(many.distinct_shapes()) == 299
    wide = RegularGrid((2**62,))
    assert wide.grid_shape((2**63 - 1,)) == (2,)


def test_distinct_shapes_show_every_edge() -> None:
    found = RectilinearGrid([4, 2, 6], 5, [3, 1])
    shapes = found.distinct_shapes()
    assert shapes[0] == (6, 5, 3)
    for dim in range(3):
        assert {shape[dim] for shape in shapes} == set(found.unique_edges(dim))


@pytest.mark.parametrize(
    "chunk_shape, shape, paths",
    [
        ([0], (2,), ["chunk_shape[0]"]),
        ([-1, 1.0, True], (2, 2, 2), ["chunk_shape[0]", "chunk_shape[1]", "chunk_shape[2]"]),
        ([2], (2, 2), ["chunk_shape"]),
        ("22", (2, 2), ["chunk_shape"]),
        (None, (2,), ["chunk_shape"]),
        ([2**63], (2,), ["chunk_shape[0]"]),
        ([0, 0], (0, 2), ["chunk_shape[1]"]),
    ],
)
@pytest.mark.filterwarnings("ignore::terrazzo.errors.TerrazzoWarning")
def test_regular_refused(chunk_shape: Any, shape: tuple[int, ...], paths: list[str]) -> None:
    with pytest.raises(MetadataError, match=r"zarr.json: chunk_grid.configuration") as caught:
        regular(chunk_shape, shape)
    assert [path for path, _ in caught.value.problems] == [
        f"chunk_grid.configuration.{path}" for path in paths
    ]


@pytest.mark.parametrize(
    "shapes, shape, paths",
    [
        ([0], (2,), ["chunk_shapes[0]"]),
        ([[0, 2]], (2,), ["chunk_shapes[0][0]"]),
        ([[[2, 0]]], (2,), ["chunk_shapes[0][0][1]"]),
        ([[[2, 1, 1]]], (2,), ["chunk_shapes[0][0]"]),
        ([[2, "2"]], (2,), ["chunk_shapes[0][1]"]),
        ([[2, 2]], (5,), ["chunk_shapes[0]"]),
        ([[]], (1,), ["chunk_shapes[0]"]),
        ([2], (5, 5), ["chunk_shapes"]),
        ([2.0, None], (5, 5), ["chunk_shapes[0]", "chunk_shapes[1]"]),
        ({}, (5,), ["chunk_shapes"]),
    ],
)
def test_rectilinear_refused(shapes: Any, shape: tuple[int, ...], paths: list[str]) -> None:
    with pytest.raises(MetadataError) as caught:
        rectilinear(shapes, shape)
    assert [path for path, _ in caught.value.problems] == [
        f"chunk_grid.configuration.{path}" for path in paths
    ]


def test_every_problem_is_told() -> None:
    with pytest.raises(MetadataError) as caught:
        chunk_grid_from_extension(
            Extension("rectilinear", {"kind": "file", "chunk_shapes": [0], "x": 1}), (2,)
        )
    assert [path for path, _ in caught.value.problems] == [
        "chunk_grid.configuration.x",
        "chunk_grid.configuration.kind",
        "chunk_grid.configuration.chunk_shapes[0]",
    ]
    with pytest.raises(MetadataError, match="known: rectilinear, regular"):
        chunk_grid_from_extension(Extension("hexagonal"), (2,))
    with pytest.raises(MetadataError, match=r"shape\[0\]"):
        regular([1], (2**63,))
    with pytest.raises(MetadataError, match=r"chunk_shape\[1\]"):
        RegularGrid((1, 0))
    with pytest.raises(MetadataError, match=r"chunk_shapes\[0\]\[1\]"):
        RectilinearGrid([1, 0])


def test_chunk_of_zero_for_a_length_of_zero() -> None:
    with pytest.warns(TerrazzoWarning, match="read as 1"):
        found = regular([0, 5], (0, 5))
    assert found == RegularGrid((1, 5))


def test_a_grid_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    class Doubling(ChunkGrid):
        name = "doubling"

        def __init__(self, length: int) -> None:
            runs = [(1 << k, 1) for k in range(length.bit_length())]
            self.dims = (RunEdges(runs),)

        def configuration(self) -> dict[str, Any]:
            return {}

        def resized(self, shape: Any) -> ChunkGrid:
            return Doubling(shape[0])

    monkeypatch.setattr(grid, "_builders", dict(grid._builders))
    register_chunk_grid("doubling", lambda configuration, shape, path: Doubling(shape[0]))
    found = chunk_grid_from_extension(Extension("doubling"), (10,))
    assert found.grid_shape((10,)) == (4,)
    assert found.resized((100,)).grid_shape((100,)) == (7,)
