"""xdggs opens what a run makes by its attributes alone, and finds every cell where we do; run by `make engines`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from terrazzo.gridding import GridStore, open_grid, run
from tests.gridding.cases import HEIGHTS, configuration, healpix, segments

pytest.importorskip("healpix_geo")
xarray = pytest.importorskip("xarray")
xdggs = pytest.importorskip("xdggs")


@pytest.fixture(params=["WGS84", "sphere"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> GridStore:
    keys = healpix(4, 6, 9, request.param, coordinates="cell_ids")
    run(configuration(keys, HEIGHTS), segments(), store=tmp_path)
    return open_grid(tmp_path)


def check(decoded: Any, store: GridStore) -> None:
    assert decoded.dggs.grid_info.level == 9 and decoded.dggs.grid_info.indexing_scheme == "nested"
    cells = decoded["cell_ids"].values.astype(np.int64)
    longitude, latitude = store.grid.centres(cells)
    centres = decoded.dggs.cell_centers()
    np.testing.assert_allclose(centres["latitude"].values, latitude, atol=1e-9)
    turn = (centres["longitude"].values - longitude + 180) % 360 - 180
    np.testing.assert_allclose(turn, 0, atol=1e-9)


@pytest.mark.parametrize("convention", ["zarr", "cf"])
def test_the_store(convention: str, store: GridStore, tmp_path: Path) -> None:
    if convention == "cf" and xdggs.__version__.startswith("0.6"):
        pytest.skip("xdggs 0.6 takes the numbers of an ellipsoid for its own")
    opened = xarray.open_zarr(tmp_path / "9", consolidated=False, chunks=None)
    ids = opened["cell_ids"].values
    there = np.flatnonzero(opened["count"].values)
    assert (ids[there] == there).all()
    # the shards that were made have their numbers; a decoded domain has no gaps
    check(xdggs.decode(opened.isel(cells=there), convention=convention, name="cell_ids"), store)


def test_to_xarray(store: GridStore) -> None:
    decoded = xdggs.decode(store.to_xarray())
    check(decoded, store)
    assert int(decoded["count"].sum()) == 22_284
