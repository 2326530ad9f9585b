"""What groups say of themselves: valid by the published schemas of the conventions, and true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from terrazzo.gridding import Config, open_grid, run
from terrazzo.gridding.template import make_template
from tests.gridding.cases import GREENLAND, HEIGHTS, configuration, healpix, segments

pytest.importorskip("healpix_geo")
pyproj = pytest.importorskip("pyproj")
jsonschema = pytest.importorskip("jsonschema")

SCHEMAS = Path(__file__).parent / "schemas"


def check(document: dict[str, Any], *conventions: str) -> None:
    for name in conventions:
        schema = json.loads((SCHEMAS / f"{name}.json").read_text())
        jsonschema.Draft7Validator(schema).validate(document)
    said = [one["name"] for one in document["attributes"]["zarr_conventions"]]
    assert sorted(said) == sorted(conventions)


def document(folder: Path, group: str = "") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / group / "zarr.json").read_text())
    return found


def made(keys: dict[str, Any], folder: Path) -> dict[str, Any]:
    config = Config.from_dict(configuration(keys, HEIGHTS))
    make_template(config, folder)
    return document(folder, config.grid.group)


@pytest.mark.parametrize("ellipsoid", ["WGS84", "sphere"])
@pytest.mark.parametrize("coordinates", ["none", "cell_ids"])
def test_healpix_by_dggs_and_cf(ellipsoid: str, coordinates: str, tmp_path: Path) -> None:
    found = made(healpix(6, 9, 12, ellipsoid, coordinates=coordinates), tmp_path)
    check(found, "dggs")
    block = found["attributes"]["dggs"]
    assert (block["name"], block["refinement_level"]) == ("healpix", 12)
    assert ("ellipsoid" in block) is (ellipsoid == "WGS84")
    assert block.get("coordinate") == (None if coordinates == "none" else "cell_ids")
    mapping = document(tmp_path, "12/spatial_ref")["attributes"]
    assert mapping["grid_mapping_name"] == "healpix" and mapping["refinement_level"] == 12
    assert ("earth_radius" in mapping) is (ellipsoid == "sphere")
    if coordinates == "cell_ids":
        assert document(tmp_path, "12/cell_ids")["attributes"]["standard_name"] == "healpix_index"


@pytest.mark.parametrize(
    "keys",
    [
        GREENLAND,
        {**GREENLAND, "crs": "+proj=laea +lat_0=72 +lon_0=-45 +datum=WGS84 +units=m"},
        {**GREENLAND, "crs": 4326, "resolution": [0.5, 0.25], "bounds": [-60, 60, 60, 90]},
    ],
    ids=["code", "text", "degrees"],
)
def test_rectilinear_by_proj_spatial_and_cf(keys: dict[str, Any], tmp_path: Path) -> None:
    found = made(keys, tmp_path)
    check(found, "proj", "spatial")
    said = found["attributes"]
    grid = Config.from_dict(configuration(keys, HEIGHTS)).grid
    # the affine transform, from (column, row) of corners, finds the centres that are stored
    a, b, c, d, e, f = said["spatial:transform"]
    rows, columns = (n for n in said["spatial:shape"])
    assert (rows, columns) == grid.shape and b == d == 0.0
    x, y = (np.asarray(open_array(tmp_path, name)) for name in ("x", "y"))
    np.testing.assert_allclose(a * (np.arange(columns) + 0.5) + c, x, rtol=1e-12)
    np.testing.assert_allclose(e * (np.arange(rows) + 0.5) + f, y, rtol=1e-12)
    assert said["spatial:bbox"] == [c, f + e * rows, c + a * columns, f]
    assert said["spatial:dimensions"] == document(tmp_path, "rectilinear/count")["dimension_names"]
    for text in (said["proj:wkt2"], said.get("proj:code", said["proj:wkt2"])):
        assert pyproj.CRS(text) == pyproj.CRS(keys["crs"])
    mapping = document(tmp_path, "rectilinear/spatial_ref")["attributes"]
    assert pyproj.CRS.from_cf(mapping) == pyproj.CRS(keys["crs"])
    assert [float(v) for v in mapping["GeoTransform"].split()] == [c, a, b, f, d, e]
    assert document(tmp_path, "rectilinear/count")["attributes"]["grid_mapping"] == "spatial_ref"
    units = {name: document(tmp_path, f"rectilinear/{name}")["attributes"]["units"] for name in "xy"}
    degrees = keys["crs"] == 4326
    assert units == ({"x": "degrees_east", "y": "degrees_north"} if degrees else {"x": "m", "y": "m"})


def open_array(folder: Path, name: str) -> Any:
    import terrazzo

    return terrazzo.open_array(folder / "rectilinear" / name, mode="r")[...]


@pytest.mark.parametrize(("keys", "more"), [(healpix(6, 9, 12), ()), (GREENLAND, ("proj", "spatial"))])
def test_pyramids_by_multiscales(keys: dict[str, Any], more: tuple[str, ...], tmp_path: Path) -> None:
    config = configuration(keys, HEIGHTS)
    config["output"]["pyramid"] = 2
    made = make_template(Config.from_dict(config), tmp_path)
    found = document(tmp_path)
    check(found, "multiscales", *more)
    grids = [made.grid, *(one.grid for one in made.levels)]
    for k, (entry, grid) in enumerate(zip(found["attributes"]["multiscales"]["layout"], grids, strict=True)):
        assert entry["asset"] == grid.group and entry.get("derived_from") == (
            grids[k - 1].group if k else None
        )
        said = document(tmp_path, grid.group)["attributes"]
        for key in ("spatial:shape", "spatial:transform"):
            assert entry.get(key) == said.get(key)
        check(document(tmp_path, grid.group), *(more or ("dggs",)))


def test_fields_say_how_points_became_values(tmp_path: Path) -> None:
    variables = {
        "n": {"function": "count"},
        "low": {"function": "nanmin", "source": "h_li", "attrs": {"units": "m"}},
        "spread": {"function": "std", "source": "h_li"},
        "ends": {"expression": "max(h_li)"},
        "own": {"function": "mean", "source": "h_li", "attrs": {"cell_methods": "area: mean (mine)"}},
    }
    run(configuration(healpix(6, 9, 12), variables), segments(), store=tmp_path)
    said = {name: dict(array.attrs) for name, array in open_grid(tmp_path).fields.items()}
    assert said["n"]["units"] == "1" and "cell_methods" not in said["n"]
    assert said["low"]["cell_methods"] == "area: minimum" and said["low"]["units"] == "m"
    assert said["spread"]["cell_methods"] == "area: standard_deviation"
    assert "cell_methods" not in said["ends"] and said["own"]["cell_methods"] == "area: mean (mine)"
    assert all(one["grid_mapping"] == "spatial_ref" for one in said.values())
    assert document(tmp_path, "12")["attributes"]["Conventions"] == "CF-1.11"
