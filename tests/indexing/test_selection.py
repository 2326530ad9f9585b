"""Selections: what is refused, with which error, and what `array[...]` takes a selection to mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from terrazzo.chunk_grid import RegularGrid
from terrazzo.errors import (
    ArrayIndexError,
    BoundsCheckError,
    NegativeStepError,
    SelectionError,
    VindexInvalidSelectionError,
)
from terrazzo.indexing import (
    Tiles,
    project_basic,
    project_blocks,
    project_coordinates,
    project_fancy,
    project_mask,
    project_orthogonal,
)

from .placing import Chunks, read

TILES = Tiles((5, 6, 7), RegularGrid((2, 4, 6)), (2, 2, 3))
PLAIN = np.arange(5 * 6 * 7).reshape(5, 6, 7)
CHUNKS = Chunks(TILES, PLAIN)
SOME = np.array([True, False, True, True, False])


@pytest.mark.parametrize(
    "selection, kind",
    [
        (5, BoundsCheckError),
        (-6, BoundsCheckError),
        ((0, 0, 7), BoundsCheckError),
        ((0, 0, 0, 0), SelectionError),
        ((..., ...), SelectionError),
        (None, SelectionError),
        ((0, np.newaxis), SelectionError),
        (1.0, SelectionError),
        (np.float64(1), SelectionError),
        ("x", SelectionError),
        (True, SelectionError),
        (np.True_, SelectionError),
        (slice(None, None, 0), SelectionError),
        (slice(0.5, None), SelectionError),
        (slice("a", None), SelectionError),
        ({1}, SelectionError),
        (1j, SelectionError),
    ],
)
def test_basic_refused(selection: Any, kind: type[Exception]) -> None:
    for project in (project_basic, project_fancy, project_orthogonal):
        with pytest.raises(kind) as caught:
            project(selection, TILES)
        assert isinstance(caught.value, IndexError)
        assert type(caught.value) is kind


@pytest.mark.parametrize("selection", [[0, 1], np.array([0, 1]), SOME, (0, [1])])
def test_basic_takes_no_arrays(selection: Any) -> None:
    with pytest.raises(SelectionError, match="oindex and vindex"):
        project_basic(selection, TILES)


@pytest.mark.parametrize(
    "selection, kind",
    [
        ([0.5], ArrayIndexError),
        (np.array([0.0]), ArrayIndexError),
        (np.array(["a"]), ArrayIndexError),
        ([[0, 1]], ArrayIndexError),
        ([[0, 1], [2]], ArrayIndexError),
        (np.ones(4, dtype=bool), ArrayIndexError),
        ([0, 5], BoundsCheckError),
        ([-6], BoundsCheckError),
        (np.array([2**64 - 1], dtype=np.uint64), BoundsCheckError),
        (np.array([], dtype=float), ArrayIndexError),
    ],
)
def test_orthogonal_refused(selection: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        project_orthogonal(selection, TILES)


@pytest.mark.parametrize(
    "selection, kind",
    [
        (([0], [0]), VindexInvalidSelectionError),
        (([0], [0], slice(None)), VindexInvalidSelectionError),
        (([0], [0], ...), VindexInvalidSelectionError),
        (([0], [0], SOME), VindexInvalidSelectionError),
        (([0], [0, 1], [0, 1, 2]), ArrayIndexError),
        (([0], [0], [7]), BoundsCheckError),
        (([0], [0], [0.0]), ArrayIndexError),
        (([0], [0], 1.0), VindexInvalidSelectionError),
    ],
)
def test_coordinates_refused(selection: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        project_coordinates(selection, TILES)


@pytest.mark.parametrize("mask", [SOME, PLAIN, True, np.ones((5, 6, 8), dtype=bool)])
def test_mask_refused(mask: Any) -> None:
    with pytest.raises(VindexInvalidSelectionError, match=r"a mask is boolean, of shape \(5, 6, 7\)"):
        project_mask(mask, TILES)


@pytest.mark.parametrize(
    "selection, kind",
    [
        (3, BoundsCheckError),
        (-4, BoundsCheckError),
        (slice(None, None, -1), NegativeStepError),
        (slice(None, None, 2), NegativeStepError),
        ([0], SelectionError),
        (None, SelectionError),
    ],
)
def test_blocks_refused(selection: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        project_blocks(selection, TILES)


@pytest.mark.parametrize(
    "selection",
    [
        ([0, 1], [2, 3], slice(None)),
        ([0, 1], slice(None), [0, 1]),
        ([[0, 1], [1, 0]],),
        np.array([[0, 1], [1, 0]]),
        np.ones((5, 6), dtype=bool),
        ([0, 1], [2, 3]),
    ],
)
def test_mixtures_are_refused_with_the_way_out(selection: Any) -> None:
    with pytest.raises(SelectionError, match=r"oindex|mask"):
        project_fancy(selection, TILES)


@pytest.mark.parametrize(
    "selection",
    [
        ([0, 4, 0], [1, 1, 5], [6, 0, -1]),
        ([[0], [4]], [1, 5], 3),
        (np.array(2), np.int8(1), [0, 1]),
        (0, [1, 2]),
        [0, 4, 0],
        SOME,
        (SOME, 2),
        (slice(None), [3, 1]),
        (..., [3, 1]),
        ([3, 1], ..., slice(None, None, -2)),
        range(3),
        np.array([], dtype=np.int64),
        [],
        PLAIN % 2 == 0,
        (PLAIN % 2 == 0,),
        np.int16(3),
        np.array(3),
        (slice(np.int64(1), np.int64(3)),),
    ],
)
def test_what_numpy_means(selection: Any) -> None:
    found = read(project_fancy(selection, TILES), CHUNKS)
    wanted = PLAIN[selection]
    assert np.shape(found) == np.shape(wanted)
    np.testing.assert_array_equal(found, wanted)


def test_an_array_beside_an_integer_stays_in_its_place() -> None:
    """numpy moves the array's dimension to the front here; as in zarr-python it stays where it is written."""
    found = read(project_fancy((0, slice(None), [1, 2]), TILES), CHUNKS)
    np.testing.assert_array_equal(found, PLAIN[0][:, [1, 2]])


def test_several_masks_are_orthogonal() -> None:
    masks = SOME, np.arange(6) > 3, np.arange(7) < 2
    np.testing.assert_array_equal(read(project_fancy(masks, TILES), CHUNKS), PLAIN[np.ix_(*masks)])


def test_one_dimension() -> None:
    tiles = Tiles((9,), RegularGrid((4,)))
    plain = np.arange(9)
    for selection in ([3, 1, -1], np.array([[0, 1], [8, 7]]), plain > 4, [], ([0],)):
        found = read(project_fancy(selection, tiles), Chunks(tiles, plain))
        wanted = (
            plain[np.asarray(selection, dtype=int) if selection == [] else selection]
            if isinstance(selection, list)
            else plain[selection]
        )
        np.testing.assert_array_equal(found, wanted)


def test_no_dimensions() -> None:
    tiles = Tiles((), RegularGrid(()), ())
    plain = np.array(5)
    chunks = Chunks(tiles, plain)
    whole = read(project_fancy(..., tiles), chunks)
    assert isinstance(whole, np.ndarray)
    assert whole.shape == ()
    element = read(project_fancy((), tiles), chunks)
    assert not isinstance(element, np.ndarray)
    assert element == 5
    assert read(project_mask(np.True_, tiles), chunks).tolist() == [5]
    assert read(project_mask(False, tiles), chunks).tolist() == []
    assert read(project_coordinates((), tiles), chunks) == 5
    assert read(project_blocks((), tiles), chunks) == 5
    with pytest.raises(SelectionError, match="too many indices"):
        project_fancy(0, tiles)


def test_elements_and_arrays() -> None:
    """All integers give an element; with an Ellipsis an array without dimensions."""
    assert not isinstance(read(project_basic((1, 2, 3), TILES), CHUNKS), np.ndarray)
    assert isinstance(read(project_basic((1, 2, 3, ...), TILES), CHUNKS), np.ndarray)
