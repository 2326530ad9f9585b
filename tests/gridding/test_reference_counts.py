"""Every sample in every grid: the counts and values that were computed without this library."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.gridding import HealpixGrid, run
from tests.gridding.cases import ATL06, HEIGHTS, SAMPLES, configuration, healpix, segments, shard_objects

pytest.importorskip("healpix_geo")
pytest.importorskip("h5py")


def table(name: str, value: str) -> dict[str, Any]:
    return {
        "reader": "csv",
        "files": str(SAMPLES / name),
        "coordinates": {"longitude": "longitude", "latitude": "latitude"},
        "variables": {"v": value},
    }


BAJA = table("baja-bathymetry.csv.xz", "bathymetry_m")
ZIP = table("geonames-us-zipcodes.csv.gz", "latitude")
QUAKES = table("usgs-earthquakes-2018-02-week.csv.gz", "magnitude")
ATL03 = {
    "reader": "hdf5",
    "files": str(SAMPLES / "ATL03_clip_gt1r_subset.h5"),
    "groups": ["gt1r"],
    "coordinates": {"longitude": "{group}/heights/lon_ph", "latitude": "{group}/heights/lat_ph"},
    "variables": {"v": "{group}/heights/h_ph"},
}
#: source, orders, points, then per ellipsoid: shards, populated chunks, populated cells, largest count
CASES = [
    ("atl06", ATL06, (6, 9, 12), 22_284, "sphere", 7, 39, 256, 276),
    ("atl06", ATL06, (6, 9, 12), 22_284, "WGS84", 6, 40, 254, 242),
    ("atl06", ATL06, (8, 13, 19), 22_284, "sphere", 24, 476, 22_279, None),
    ("atl06", ATL06, (8, 13, 19), 22_284, "WGS84", 22, 473, 22_283, None),
    ("baja", BAJA, (4, 7, 11), 82_970, "sphere", 9, 293, 23_430, 201),
    ("baja", BAJA, (4, 7, 11), 82_970, "WGS84", 9, 295, 23_474, 204),
    ("zip codes", ZIP, (2, 5, 8), 42_049, "sphere", 21, 292, 8_442, 481),
    ("zip codes", ZIP, (2, 5, 8), 42_049, "WGS84", 21, 291, 8_407, 453),
    ("earthquakes", QUAKES, (0, 2, 6), 1_707, "sphere", 12, 52, 274, 221),
    ("earthquakes", QUAKES, (0, 2, 6), 1_707, "WGS84", 12, 51, 281, 224),
    ("atl03", ATL03, (11, 13, 19), 6_809, "sphere", 1, 3, 126, 184),
    ("atl03", ATL03, (11, 13, 19), 6_809, "WGS84", 2, 2, 128, 181),
]


@pytest.mark.parametrize(
    ("source", "orders", "points", "ellipsoid", "shards", "chunks", "cells", "most"),
    [case[1:] for case in CASES],
    ids=[f"{case[0]}-{case[2]}-{case[4]}" for case in CASES],
)
def test_reference_counts(
    source: dict[str, Any],
    orders: tuple[int, int, int],
    points: int,
    ellipsoid: str,
    shards: int,
    chunks: int,
    cells: int,
    most: int | None,
    tmp_path: Path,
) -> None:
    parent, inner, child = orders
    report = run(configuration(healpix(parent, inner, child, ellipsoid), None, source), store=tmp_path)
    assert (report.points, report.shards, report.chunks, report.cells) == (points, shards, chunks, cells)
    array = terrazzo.open_array(tmp_path / str(child) / "count", mode="r")
    assert len(shard_objects(tmp_path, "count")) == shards
    assert len(array.inventory()) == chunks
    if most is not None:
        largest = max(int(array[box].max()) for _, box in array.inventory().boxes())
        assert largest == most


VALUES: dict[str, Any] = {
    "count": {"function": "count"},
    "mean": {"function": "mean", "source": "h_li", "dtype": "float64"},
    "weighted": {
        "function": "average",
        "source": "h_li",
        "params": {"weights": "1 / h_li_sigma**2"},
        "dtype": "float64",
    },
    "min": {"function": "min", "source": "h_li", "dtype": "float64"},
    "max": {"function": "max", "source": "h_li", "dtype": "float64"},
    "median": {"function": "median", "source": "h_li", "dtype": "float64"},
    "var": {"function": "var", "source": "h_li", "dtype": "float64"},
    "sigma": {"expression": "np.sqrt(1 / np.sum(1 / h_li_sigma**2))", "dtype": "float64"},
}
#: the busiest cell of order 12
BUSIEST = [
    (
        "sphere",
        66_107_984,
        {
            "count": 276,
            "mean": 1273.5102640788,
            "weighted": 1272.8234204326,
            "min": 1266.2799072266,
            "max": 1282.3950195312,
            "median": 1274.5843505859,
            "var": 9.1053503864,
            "sigma": 0.0013666172312,
        },
    ),
    ("WGS84", 66_210_179, {"count": 242, "mean": 1910.6240869950, "weighted": 1910.5025147146}),
]


@pytest.mark.parametrize(("ellipsoid", "cell", "wanted"), BUSIEST, ids=["sphere", "WGS84"])
@pytest.mark.parametrize("batch", [1 << 20, 100], ids=["whole", "in batches"])
def test_case_21_values_of_the_busiest_cell(
    ellipsoid: str, cell: int, wanted: dict[str, float], batch: int, tmp_path: Path
) -> None:
    variables = VALUES
    if batch == 100:  # those that merge, with states of a few points at a time
        variables = {name: how for name, how in VALUES.items() if name not in ("median", "sigma")}
    config = configuration(healpix(6, 9, 12, ellipsoid), variables, ATL06, batch_points=batch, memory=1 << 16)
    run(config, store=tmp_path)
    group = terrazzo.open_group(tmp_path / "12", mode="r")
    for name in set(wanted) & set(variables):
        # the reference value for WGS84 and weights has ten digits that agree with float64 arithmetic
        rel = 1e-10 if (name, ellipsoid) == ("weighted", "WGS84") else 2e-13
        assert group[name][cell] == pytest.approx(wanted[name], rel=rel, abs=6e-11), name
    points = segments()
    mine = HealpixGrid(6, 12, ellipsoid=ellipsoid).locate(points["longitude"], points["latitude"]) == cell
    h, s = (points[name][mine].astype(np.float64) for name in ("h_li", "h_li_sigma"))
    assert group["weighted"][cell] == pytest.approx(np.average(h, weights=1 / s**2), rel=1e-14)


@pytest.mark.parametrize(("ellipsoid", "sharded", "plain"), [("WGS84", 22, 473), ("sphere", 24, 476)])
def test_case_21_objects_of_8_13_19(ellipsoid: str, sharded: int, plain: int, tmp_path: Path) -> None:
    for flag, wanted in ((True, sharded), (False, plain)):
        run(
            configuration(healpix(8, 13, 19, ellipsoid, sharded=flag), HEIGHTS, ATL06),
            store=tmp_path / str(flag),
        )
        for field in HEIGHTS:
            assert len(shard_objects(tmp_path / str(flag), field)) == wanted
        shutil.rmtree(tmp_path / str(flag))
