"""Grids: exact numbers of cells, shards, places and bounds, beside other libraries and against their own inverse."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from terrazzo.gridding import GridConfigError, HealpixGrid, RectilinearGrid
from terrazzo.gridding.configuration import grid_from
from terrazzo.gridding.healpix import deinterleave, interleave
from tests.gridding.cases import GREENLAND, PAGE_HEALPIX, PAGE_RECTILINEAR, healpix

healpix_geo = pytest.importorskip("healpix_geo")
pytest.importorskip("pyproj")


def test_case_1_sizes_of_8_13_19() -> None:
    grid = grid_from(PAGE_HEALPIX)
    assert grid.k == 4**5 == 1024
    assert grid.cells_per_chunk == 4096
    assert grid.cells_per_shard == 4_194_304
    assert grid.n_shards == 786_432
    assert grid.shape == (3_298_534_883_328,)
    assert grid.chunk_grid == (805_306_368,)


def test_case_2_sizes_of_the_rectilinear_example() -> None:
    grid = grid_from(PAGE_RECTILINEAR)
    assert grid.shape == (1280, 1280) and grid.n_shards == 25 and grid.k == 16
    assert int(np.prod(grid.chunk_grid)) == 400


def test_case_3_sizes_of_4_6_8() -> None:
    grid = grid_from(healpix(4, 6, 8))
    assert (grid.k, grid.cells_per_shard, grid.cells_per_chunk) == (16, 256, 16)


@pytest.mark.parametrize("inner", [8, None])
def test_case_4_a_shard_of_one_chunk_is_refused(inner: int | None) -> None:
    with pytest.raises(GridConfigError) as refused:
        grid_from(healpix(8, inner, 19))
    for word in ("K = 1", "parent_order", "chunk_inner"):
        assert word in str(refused.value)


def test_case_5_and_rectilinear_too() -> None:
    same = {**PAGE_RECTILINEAR, "chunk_inner": [256, 256]}
    with pytest.raises(GridConfigError, match="K = 1"):
        grid_from(same)
    grid = grid_from({**same, "sharded": False})
    assert grid.k == 1 and not grid.sharded


@pytest.mark.parametrize(
    "keys",
    [
        healpix(8, 7, 19),
        healpix(8, 20, 19),
        {**PAGE_RECTILINEAR, "chunk_inner": [60, 64]},
    ],
)
def test_case_6_inner_chunks_that_do_not_fit(keys: dict[str, Any]) -> None:
    with pytest.raises(GridConfigError, match="chunk_inner"):
        grid_from(keys)


def test_case_7_oblong_inner_chunks() -> None:
    assert grid_from({**PAGE_RECTILINEAR, "chunk_inner": [64, 128]}).k == 8


@pytest.mark.parametrize("ellipsoid", ["sphere", "WGS84"])
def test_case_8_the_north_pole(ellipsoid: str) -> None:
    grid = HealpixGrid(8, 19, 13, True, ellipsoid)
    cell = grid.locate([45.0], [90.0])
    assert cell.tolist() == [274_877_906_943]
    assert grid.shard_of(cell).tolist() == [65_535]
    assert divmod(int(grid.position_of(cell)[0]), 4096) == (1023, 4095)


def test_case_9_the_south_pole_and_the_origin() -> None:
    assert HealpixGrid(4, 8).locate([45.0, 0.0], [-90.0, 0.0]).tolist() == [524_288, 311_296]
    grid = HealpixGrid(8, 19, 13)
    cell = grid.locate([45.0], [-90.0])
    assert cell.tolist() == [2_199_023_255_552] == [8 * 4**19]
    assert grid.position_of(cell).tolist() == [0]


@pytest.mark.parametrize(("ellipsoid", "cell"), [("sphere", 258_588), ("WGS84", 258_582)])
def test_case_10_the_ellipsoid_matters(ellipsoid: str, cell: int) -> None:
    assert HealpixGrid(4, 8, ellipsoid=ellipsoid).locate([-50.0], [71.0]).tolist() == [cell]


def test_case_11_the_pole_of_a_polar_grid() -> None:
    grid = grid_from(PAGE_RECTILINEAR)
    cell = grid.locate([0.0], [-90.0])
    assert divmod(int(cell[0]), 1280) == (640, 640) and cell.tolist() == [819_840]
    assert grid.shard_of(cell).tolist() == [12] and grid.shard_index(12) == (2, 2)
    chunk = int(grid.position_of(cell)[0]) // 4096
    assert grid.chunk_index(12, chunk) == (10, 10)


def test_case_12_two_places_in_antarctica() -> None:
    grid = grid_from(PAGE_RECTILINEAR)
    assert isinstance(grid, RectilinearGrid)
    cells = grid.locate([0.0, -132.0], [-71.0, -78.5])
    assert [divmod(int(cell), 1280) for cell in cells] == [(223, 640), (807, 453)]
    assert cells[1] == 1_033_413 and grid.shard_of(cells).tolist() == [2, 16]
    chunks = grid.position_of(cells) // 4096
    assert [grid.chunk_index(s, c) for s, c in zip([2, 16], chunks.tolist(), strict=True)] == [
        (3, 10),
        (12, 7),
    ]
    # the centre of the cell is within half of one of y = 2,082,760.1085
    assert abs(float(grid.coordinate_of("y", np.array([223]))[0]) - 2_082_760.1085) <= 2500


def test_case_13_outside_is_minus_one() -> None:
    grid = grid_from(PAGE_RECTILINEAR)
    cells = grid.locate([0.0, 0.0, np.nan], [-60.0, -90.0, -90.0])
    assert cells.tolist() == [-1, 819_840, -1]
    assert grid.shard_of(cells).tolist() == [-1, 12, -1]


def test_case_14_bounds_are_filled_up_to_whole_shards() -> None:
    grid = RectilinearGrid("EPSG:3413", 10, [0, 0, 1000, 1000], [64, 64])
    assert grid.unpadded == (100, 100) and grid.shape == (128, 128)
    assert grid.extent == (0.0, 1000.0 - 1280.0, 1280.0, 1000.0)


GRIDS = [
    HealpixGrid(2, 7, 4, True),
    HealpixGrid(8, 19, 13, True, "sphere"),
    grid_from(GREENLAND),
    RectilinearGrid(
        "EPSG:3031", [4000, 5000], [-3200000, -3200000, 3200000, 3200000], [64, 96], [16, 24], True
    ),
]


@pytest.mark.parametrize("grid", GRIDS, ids=repr)
def test_places_and_numbers_belong_together(grid: Any) -> None:
    random = np.random.default_rng(1)
    cells = random.integers(0, int(np.prod(grid.shape)), 500)
    shards, positions = grid.shard_of(cells), grid.position_of(cells)
    for shard in np.unique(shards).tolist():
        mine = shards == shard
        assert (grid.cells_of(shard, positions[mine]) == cells[mine]).all()
    assert (positions < grid.cells_per_shard).all()
    longitude, latitude = grid.centres(cells)
    assert (grid.locate(longitude, latitude) == cells).all(), "a cell's centre lies in it"


@pytest.mark.parametrize("grid", GRIDS, ids=repr)
def test_a_circle_holds_its_shard(grid: Any) -> None:
    random = np.random.default_rng(2)
    for shard in random.integers(0, grid.n_shards, 5).tolist():
        cells = grid.cells_of(shard, random.integers(0, grid.cells_per_shard, 300))
        (lon,), (lat,), (radius,) = grid.circles("shard", np.array([shard]))
        a, b = np.radians(lat), np.radians(grid.centres(cells)[1])
        turned = np.radians(grid.centres(cells)[0] - lon)
        distance = np.degrees(
            np.arccos(np.clip(np.sin(a) * np.sin(b) + np.cos(a) * np.cos(b) * np.cos(turned), -1, 1))
        )
        assert (distance <= radius).all()


def test_the_numbers_are_those_of_another_library() -> None:
    healpix_c = pytest.importorskip("healpix")
    random = np.random.default_rng(3)
    lon, lat = random.uniform(-180, 540, 2000), np.degrees(np.arcsin(random.uniform(-1, 1, 2000)))
    for order in (3, 8, 13, 19, 29):
        ours = HealpixGrid(0, order, ellipsoid="sphere").locate(lon, lat)
        theirs = healpix_c.ang2pix(2**order, lon, lat, nest=True, lonlat=True)
        assert (ours == theirs).all()


def test_bits_are_taken_apart_and_put_together() -> None:
    numbers = np.random.default_rng(4).integers(0, 2**62, 1000)
    rows, columns = deinterleave(numbers)
    assert (interleave(rows, columns) == numbers).all()
    assert rows.max() < 2**31 and columns.max() < 2**31


@pytest.mark.parametrize("grid", GRIDS, ids=repr)
def test_four_cells_make_a_coarser_one(grid: Any) -> None:
    coarse = grid.coarser()
    assert coarse.n_shards == grid.n_shards and coarse.cells_per_shard * 4 == grid.cells_per_shard
    positions = np.random.default_rng(5).integers(0, grid.cells_per_shard, 200)
    shard = grid.n_shards // 2
    longitude, latitude = grid.centres(grid.cells_of(shard, positions))
    found = coarse.locate(longitude, latitude)
    assert (found == coarse.cells_of(shard, grid.coarse_position(positions))).all()


def test_a_grid_can_be_sent_and_compared() -> None:
    for grid in GRIDS:
        again = pickle.loads(pickle.dumps(grid))
        assert again == grid and again.signature == grid.signature and grid_from(grid.describe()) == grid
    one, other = HealpixGrid(8, 19, 13, True), HealpixGrid(8, 19, 12, False)
    assert one.signature == other.signature, "how shards are stored does not move a point"
    assert one.signature != HealpixGrid(8, 19, 13, True, "sphere").signature


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"type": "h3"}, "healpix or rectilinear"),
        ({}, "healpix or rectilinear"),
        ({"type": "healpix", "child_order": 5}, "parent_order is missing"),
        ({"type": "healpix", "parent_order": 3}, "child_order is missing"),
        (healpix(3, 4, 2), "child_order"),
        (healpix(3, 4, 30), "0 to 29"),
        (healpix(-1, 4, 8), "0 to 29"),
        ({**PAGE_HEALPIX, "parent_order": True}, "an integer"),
        ({**PAGE_HEALPIX, "parent_order": 8.0}, "an integer"),
        ({**PAGE_HEALPIX, "sharded": "yes"}, "sharded"),
        ({**PAGE_HEALPIX, "chunk_iner": 13}, "did you mean chunk_inner"),
        ({**PAGE_HEALPIX, "ellipsoid": "GRS80"}, "WGS84"),
        ({**PAGE_HEALPIX, "indexing_scheme": "ring"}, "nested"),
        ({**PAGE_HEALPIX, "coordinates": "x"}, "cell_ids"),
        ({**PAGE_RECTILINEAR, "crs": None}, "crs is missing"),
        ({**PAGE_RECTILINEAR, "crs": "EPSG:1"}, "no such coordinate system"),
        ({**PAGE_RECTILINEAR, "bounds": [0, 0, 1]}, "four finite numbers"),
        ({**PAGE_RECTILINEAR, "bounds": [0, 0, float("inf"), 1]}, "four finite numbers"),
        ({**PAGE_RECTILINEAR, "bounds": [5, 0, 1, 1]}, "xmin has to be less"),
        ({**PAGE_RECTILINEAR, "resolution": 0}, "positive"),
        ({**PAGE_RECTILINEAR, "resolution": 1e9}, "larger than bounds"),
        ({**PAGE_RECTILINEAR, "chunk_shape": [256]}, "two positive integers"),
        ({**PAGE_RECTILINEAR, "chunk_shape": [256, 0]}, "two positive integers"),
        ({**PAGE_RECTILINEAR, "parent_order": 8}, "unknown"),
        ({**PAGE_RECTILINEAR, "ellipsoid": "sphere"}, "crs of a rectilinear grid says it"),
        ({**PAGE_RECTILINEAR, "coordinates": "cell_ids"}, "has y and x"),
    ],
)
def test_what_is_wrong_is_said(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(GridConfigError, match=words):
        grid_from(keys)


def test_automatic_choices() -> None:
    assert HealpixGrid(8, 19, "auto", "auto").chunk_order == 13
    assert HealpixGrid(8, 10, "auto").chunk_order == 8
    assert HealpixGrid(8, 19, None, "auto").sharded is False
