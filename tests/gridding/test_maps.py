"""Maps show what is stored, where it is: pixels against cells, axes against places, outlines against shards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from terrazzo.drawing.lettering import lettering
from terrazzo.gridding import GridStore, open_grid, run
from terrazzo.gridding.frame import degree_ticks, frame_around, nice_step, places_of
from terrazzo.gridding.maps import field_map, shard_map
from terrazzo.gridding.pictures import shards_geojson, shards_svg
from terrazzo.gridding.regions import Box
from tests.gridding.cases import GREENLAND, configuration, healpix, segments
from tests.test_drawing import decode_png

pytest.importorskip("healpix_geo")
pytest.importorskip("pyproj")
pytest.importorskip("h5py")

FIELDS: dict[str, Any] = {
    "count": {"function": "count"},
    "mean": {
        "function": "mean",
        "source": "h_li",
        "dtype": "float64",
        "attrs": {"units": "m", "long_name": "height"},
    },
}
KINDS = {"healpix": healpix(6, 9, 12), "fine": healpix(8, 13, 19), "rectilinear": GREENLAND}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, GridStore]:
    found = {}
    for name, keys in KINDS.items():
        folder = tmp_path_factory.mktemp("grid")
        run(configuration(keys, FIELDS), segments(), store=folder)
        found[name] = open_grid(folder)
    return found


@pytest.mark.parametrize("name", KINDS)
def test_every_cell_is_under_its_pixel(name: str, stores: dict[str, GridStore]) -> None:
    store = stores[name]
    found = store.everything(["mean"])
    frame = frame_around(store.grid, found.cells, 300)
    row, column = frame.pixels(found.cells)
    rows, columns = frame.shape
    assert max(frame.shape) == 300 and min(frame.shape) > 300 / 2.3
    assert (row >= 0).all() and (row < rows).all() and (column >= 0).all() and (column < columns).all()
    mean = frame.average(found.cells, found.values["mean"])
    low, high = found.values["mean"].min(), found.values["mean"].max()
    assert low <= np.nanmin(mean) and np.nanmax(mean) <= high and np.isfinite(mean[row, column]).all()
    # one cell in a pixel: its own value
    alone = np.unique(row * columns + column, return_counts=True)
    for flat in alone[0][alone[1] == 1][:50].tolist():
        at = int(np.flatnonzero(row * columns + column == flat)[0])
        assert mean[row[at], column[at]] == pytest.approx(found.values["mean"][at], abs=1e-9)
    if name != "fine":  # and the other way round, where cells are larger than pixels
        under = frame_around(store.grid, found.cells, 800).cells()
        assert set(np.unique(under).tolist()) >= set(found.cells.tolist())


@pytest.mark.parametrize("name", KINDS)
def test_a_map_of_a_field(name: str, stores: dict[str, GridStore]) -> None:
    found = field_map(stores[name], "mean", longest=200)
    assert found.title == "height (m)" and "cells of" in found.caption and found.bar is not None
    picture = decode_png(found.to_png())
    assert (picture[..., 3] == 255).all(), "on white, not on nothing"
    rows, columns = found.pixels.shape
    assert picture.shape[0] > rows and picture.shape[1] > columns
    assert len(np.unique(found.pixels)) > 10 and len(found.x_ticks) >= 2 and len(found.y_ticks) >= 2
    svg = ElementTree.fromstring(found.to_svg())
    texts = {one.text for one in svg.iter("{http://www.w3.org/2000/svg}text")}
    assert {"height (m)", found.caption, *(label for _, label in found.y_ticks)} <= texts
    image = next(svg.iter("{http://www.w3.org/2000/svg}image"))
    assert image.get("href", "").startswith("data:image/png;base64,")
    part = field_map(stores[name], "mean", Box(-50.6, 70.0, -49.0, 70.8), 200)
    assert part.caption != found.caption
    with pytest.raises(ValueError, match="one number per cell"):
        raise_for_vectors(stores)


def raise_for_vectors(stores: dict[str, GridStore]) -> None:
    class Vectors(GridStore):
        def region(self, *_: Any) -> Any:
            from terrazzo.gridding import Cellwise

            return Cellwise(np.array([1]), np.zeros(1), np.zeros(1), {"mean": np.zeros((1, 3))})

    field_map(Vectors(stores["healpix"].group), "mean")


@pytest.mark.parametrize("name", KINDS)
def test_a_map_of_shards(name: str, stores: dict[str, GridStore]) -> None:
    store = stores[name]
    shards, chunks = store.shards(), store.chunks()
    found = shard_map(store, longest=300)
    assert found.title == f"{len(shards)} shards, {len(chunks)} populated inner chunks"
    assert (found.pixels == 4).any() and (found.pixels == 5).any()
    assert decode_png(found.to_png()).shape[2] == 4
    tree = ElementTree.fromstring(shards_svg(store))
    polygons = tree.findall(".//{http://www.w3.org/2000/svg}polygon")
    assert len(polygons) == len(shards) + len(chunks)
    outlines = json.loads(shards_geojson(store))
    assert [one["id"] for one in outlines["features"]] == shards.tolist()
    for one in outlines["features"]:
        ring = np.array(one["geometry"]["coordinates"][0])
        assert (ring[0] == ring[-1]).all() and len(ring) >= 5
        x, y = ring[:-1].T
        assert (x * np.roll(y, -1) - np.roll(x, -1) * y).sum() > 0, "against the clock"
    assert len(json.loads(shards_geojson(store, "chunk"))["features"]) == len(chunks)


def test_a_map_over_the_date_line_and_of_nothing(tmp_path: Path) -> None:
    longitude = np.array([179.5, -179.5, 178.0, -178.2])
    points = {
        "longitude": longitude,
        "latitude": np.array([-17.0, -16.0, -18.0, -17.5]),
        "h_li": np.arange(4.0),
    }
    run(configuration(healpix(3, 5, 8), FIELDS), points, store=tmp_path / "a")
    found = field_map(open_grid(tmp_path / "a"), "mean")
    labels = [label for _, label in found.x_ticks]
    assert any(label.endswith("E") for label in labels) and any(label.endswith("W") for label in labels)
    assert (found.pixels >= 6).sum() > 50
    empty = field_map(open_grid(tmp_path / "a"), "mean", Box(0, 0, 1, 1))
    assert (
        empty.caption.startswith("0 cells") and empty.bar is None and decode_png(empty.to_png()).shape[2] == 4
    )
    one = {name: column[:1] for name, column in points.items()}
    run(configuration(healpix(3, 5, 8), FIELDS), one, store=tmp_path / "b")
    single = field_map(open_grid(tmp_path / "b"), "mean")
    assert single.bar == (0.0, 0.0) and (single.pixels >= 6).any() and single.to_svg()
    assert places_of(open_grid(tmp_path / "b").grid, np.array([0]), 0.0)[0].shape == (1,)


def test_ticks() -> None:
    assert [nice_step(span, 5) for span in (1, 2.4, 10, 26, 0.03)] == pytest.approx([0.2, 0.5, 2, 10, 0.01])
    assert degree_ticks(175, 185, "EW", 4) == [(175, "175°E"), (180, "180°W"), (185, "175°W")]
    assert degree_ticks(-1, 1, "NS", 4) == [
        (-1.0, "1.0°S"),
        (-0.5, "0.5°S"),
        (0.0, "0.0°"),
        (0.5, "0.5°N"),
        (1.0, "1.0°N"),
    ]
    assert degree_ticks(80, 100, "NS", 4) == [(80.0, "80°N"), (85.0, "85°N"), (90.0, "90°N")]


def test_letters() -> None:
    assert lettering("10", 2).shape == (14, 24)
    assert (lettering("☃") == lettering("☂")).all() and lettering("☃").any()
    seen = {
        lettering(letter).tobytes()
        for letter in "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    }
    assert len(seen) == 62, "no two letters look alike"
    with pytest.raises(ValueError, match="size 0"):
        lettering("a", 0)
