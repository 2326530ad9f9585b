"""What gridding writes, zarr-python, tensorstore and xarray read equal to our readers."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo import gridding

pytest.importorskip("healpix_geo")
zarr = pytest.importorskip("zarr")

FIELDS = {
    "count": {"function": "count"},
    "mean": {"function": "mean", "source": "v"},
    "q": {
        "function": "quantile",
        "source": "v",
        "params": {"q": [0.25, 0.75]},
        "kind": "vector",
        "trailing_shape": [2],
    },
}


@pytest.fixture(scope="module", params=[True, False], ids=["sharded", "plain"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gridded")
    random = np.random.default_rng(6)
    points = {
        "longitude": random.uniform(-60, -40, 3000),
        "latitude": random.uniform(60, 75, 3000),
        "v": random.normal(size=3000),
    }
    grid = {
        "type": "healpix",
        "parent_order": 2,
        "child_order": 7,
        "chunk_inner": 4,
        "coordinates": "cell_ids",
    }
    config = {
        "aggregation": {"variables": FIELDS},
        "output": {"grid": {**grid, "sharded": request.param}},
        "execution": {"engine": "serial", "durability": "rename"},
    }
    gridding.run(config, points, store=folder)
    return folder


def ours(store: Path) -> dict[str, Any]:
    fields = gridding.open_grid(store).fields
    return {name: array[...] for name, array in fields.items()}


def test_zarr_python(store: Path) -> None:
    group = zarr.open_group(store / "7", mode="r")
    assert {"cell_ids", "spatial_ref", *FIELDS} == {name for name, _ in group.arrays()}
    for name, values in ours(store).items():
        np.testing.assert_array_equal(group[name][...], values)


def test_zarr_python_warns_of_the_receipts_unless_metadata_are_consolidated(
    store: Path, tmp_path: Path
) -> None:
    """Wherever below a group an object lies that is no node, zarr-python warns when it lists the group."""
    group = zarr.open_group(store / "7", mode="r")
    with pytest.warns(UserWarning, match="__receipts is not recognized") as warned:
        assert "mean" in dict(group.members())
    assert len(warned) == 1
    shutil.copytree(store, tmp_path / "copy")
    terrazzo.consolidate_metadata(tmp_path / "copy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        group = zarr.open_group(tmp_path / "copy", mode="r")["7"]
        assert "mean" in dict(group.members())


def test_tensorstore(store: Path) -> None:
    tensorstore = pytest.importorskip("tensorstore")
    for name, values in ours(store).items():
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(store / "7" / name)}}
        np.testing.assert_array_equal(tensorstore.open(spec).result().read().result(), values)


def test_xarray(store: Path) -> None:
    xarray = pytest.importorskip("xarray")
    found = xarray.open_zarr(store / "7", consolidated=False, chunks=None, mask_and_scale=False)
    assert found["mean"].dims == ("cells",) and found["q"].dims == ("cells", "q_0")
    for name, values in ours(store).items():
        np.testing.assert_array_equal(found[name].values, values)
    populated = gridding.open_grid(store).to_xarray()
    assert int(populated["count"].sum()) == 3000
    assert populated["cell_ids"].attrs["level"] == 7
