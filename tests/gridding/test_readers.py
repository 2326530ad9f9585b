"""Readers answer what a look at every cell answers, and ask the store for no more than they need."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import terrazzo
from terrazzo.errors import BoundsCheckError, LimitError, NodeNotFoundError, SelectionError
from terrazzo.gridding import Config, GridMismatchError, GridStore, open_grid, run
from terrazzo.gridding.configuration import grid_from
from terrazzo.gridding.healpix import deinterleave
from terrazzo.gridding.regions import Box, Polygon
from terrazzo.gridding.template import make_template
from terrazzo.stores.store import Open, Source, Store
from terrazzo.stores.watching import CountingStore
from tests.gridding.cases import (
    ATL06,
    GREENLAND,
    HEIGHTS,
    PAGE_HEALPIX,
    PAGE_RECTILINEAR,
    configuration,
    healpix,
    segments,
)

pytest.importorskip("healpix_geo")
pytest.importorskip("pyproj")
pytest.importorskip("h5py")

KINDS = {
    "healpix": healpix(6, 9, 12),
    "healpix plain": healpix(6, 9, 12, "sphere", sharded=False),
    "rectilinear": GREENLAND,
    "rectilinear plain": {**GREENLAND, "sharded": False},
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, GridStore]:
    found = {}
    for name, keys in KINDS.items():
        folder = tmp_path_factory.mktemp("grid")
        run(configuration(keys, HEIGHTS, ATL06), store=folder)
        found[name] = open_grid(folder)
    return found


def brute(name: str) -> tuple[Any, Any]:
    """Every populated cell and its count, from the points."""
    grid, points = grid_from(KINDS[name]), segments()
    cells = grid.locate(points["longitude"], points["latitude"])
    return np.unique(cells, return_counts=True)


@pytest.mark.parametrize("name", KINDS)
def test_everything_that_is_populated_is_found(name: str, stores: dict[str, GridStore]) -> None:
    store, (cells, counts) = stores[name], brute(name)
    found = store.everything()
    order = np.argsort(found.cells)
    assert (found.cells[order] == cells).all() and (found.values["count"][order] == counts).all()
    shards = store.grid.shard_of(cells)
    assert (store.shards() == np.unique(shards)).all()
    chunk_of = {
        (int(s), int(p))
        for s, p in zip(shards, store.grid.position_of(cells) // store.grid.cells_per_chunk, strict=True)
    }
    wanted = sorted(
        int(np.ravel_multi_index(store.grid.chunk_index(s, c), store.grid.chunk_grid)) for s, c in chunk_of
    )
    assert store.chunks().tolist() == wanted
    assert sum(int(block.sum()) for _, block in store.blocks("count")) == 22_284


@pytest.mark.parametrize("name", KINDS)
def test_cells_and_points(name: str, stores: dict[str, GridStore]) -> None:
    store, (cells, counts) = stores[name], brute(name)
    assert (store.cells(cells, "count") == counts).all()
    assert store.cell(int(cells[3]), "count") == counts[3]
    assert (store.cells(cells[:6].reshape(2, 3), "count") == counts[:6].reshape(2, 3)).all()
    longitude, latitude = store.grid.centres(cells[:1])
    assert store.point(float(longitude[0]), float(latitude[0]), "count") == counts[0]
    assert np.isnan(store.cell(0, "h_mean")) and store.cell(0, "count") == 0
    with pytest.raises(BoundsCheckError):
        store.cell(-1)
    for number in (-1, int(np.prod(store.grid.chunk_grid))):
        with pytest.raises(BoundsCheckError, match="inner chunks are 0 to"):
            store.chunk(number, "count")
    for wrong in ([1.5], [np.nan], [True, False], ["1"]):
        with pytest.raises(SelectionError, match="whole numbers"):
            store.cells(wrong, "count")
    assert store.cells([], "count").shape == (0,)
    with pytest.raises(NodeNotFoundError, match="count"):
        store.cell(0, "nothing")


EDGE = st.floats(-51.2, -48.9), st.floats(69.8, 72.3)


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=15)
@given(corners=st.tuples(*EDGE, *EDGE))
def test_a_box_holds_the_cells_whose_centres_lie_in_it(
    name: str, corners: tuple[float, ...], stores: dict[str, GridStore]
) -> None:
    west, south, east, north = min(corners[0::2]), min(corners[1::2]), max(corners[0::2]), max(corners[1::2])
    store, (cells, counts) = stores[name], brute(name)
    longitude, latitude = store.grid.centres(cells)
    inside = (longitude >= west) & (longitude <= east) & (latitude >= south) & (latitude <= north)
    found = store.box(west, south, east, north, ["count"])
    order = np.argsort(found.cells)
    assert (found.cells[order] == cells[inside]).all()
    assert (found.values["count"][order] == counts[inside]).all()


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=15)
@given(corners=st.lists(st.tuples(*EDGE), min_size=3, max_size=6, unique=True))
def test_a_polygon_too(name: str, corners: list[tuple[float, float]], stores: dict[str, GridStore]) -> None:
    store, (cells, _) = stores[name], brute(name)
    longitude, latitude = store.grid.centres(cells)
    inside = np.array([even_odd(x, y, corners) for x, y in zip(longitude, latitude, strict=True)])
    assert np.sort(store.polygon(corners, ["count"]).cells).tolist() == cells[inside].tolist()


def even_odd(x: float, y: float, corners: list[tuple[float, float]]) -> bool:
    """How often a ray from the point meets the ring, edge by edge."""
    odd = False
    for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True):
        if (y0 > y) != (y1 > y) and x < x0 + (y - y0) * (x1 - x0) / (y1 - y0):
            odd = not odd
    return odd


@given(
    st.tuples(st.floats(-180, 180), st.floats(-90, 90), st.floats(0, 360), st.floats(0, 180)),
    st.tuples(st.floats(-180, 180), st.floats(-90, 90), st.floats(0.01, 60)),
    st.tuples(st.floats(0, 360), st.floats(0, 1)),
)
def test_a_box_may_touch_every_circle_with_a_point_inside(
    box: tuple[float, ...], circle: tuple[float, ...], way: tuple[float, float]
) -> None:
    region = Box(box[0], box[1], box[0] + box[2], min(90.0, box[1] + box[3]))
    lon, lat, radius = circle
    a, d, bearing = np.radians(lat), np.radians(radius * way[1]), np.radians(way[0])
    b = np.arcsin(np.clip(np.sin(a) * np.cos(d) + np.cos(a) * np.sin(d) * np.cos(bearing), -1, 1))
    turn = np.arctan2(np.sin(bearing) * np.sin(d) * np.cos(a), np.cos(d) - np.sin(a) * np.sin(b))
    point = np.array([lon + np.degrees(turn)]), np.array([np.degrees(b)])
    if region.contains(*point)[0]:
        assert region.may_touch(np.array([lon]), np.array([lat]), np.array([radius + 1e-6]))[0]


EARTH = {
    "healpix": healpix(1, 3, 5),
    "degrees": {
        "type": "rectilinear",
        "crs": "EPSG:4326",
        "resolution": 2,
        "bounds": [-180, -90, 180, 90],
        "chunk_shape": [30, 36],
        "chunk_inner": [10, 12],
        "sharded": True,
    },
    "polar": {
        "type": "rectilinear",
        "crs": "EPSG:3031",
        "resolution": 100_000,
        "chunk_shape": [32, 32],
        "bounds": [-6_400_000, -6_400_000, 6_400_000, 6_400_000],
        "chunk_inner": [8, 8],
        "sharded": True,
    },
}
REGIONS: dict[str, Any] = {
    "over the date line": Box(170, -20, -150, 30),
    "a cap": Box(-180, 75, 180, 90),
    "the south": Box(-180, -90, 180, -60),
    "a quarter at the pole": Box(0, 60, 90, 90),
    "everything": Box(-180, -90, 180, 90),
    "from 0 to 360": Box(0, -10, 360, 10),
    "one meridian": Box(180, -90, 180, 90),
    "a triangle over the date line": Polygon([(160, -40), (-160, -40), (180, 20)]),
    "around the north pole": Polygon([(0, 60), (120, 65), (-120, 70)]),
    "around the south pole": Polygon([(0, -60), (-120, -65), (120, -70)]),
    "with a hole at the pole": Polygon(
        [(0, -60), (90, -60), (180, -60), (-90, -60)], [[(0, -80), (90, -80), (180, -80), (-90, -80)]]
    ),
}


@pytest.fixture(scope="module")
def earths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, GridStore]:
    random = np.random.default_rng(3)
    n = 4000
    longitude, latitude = random.uniform(-180, 180, n), np.degrees(np.arcsin(random.uniform(-1, 1, n)))
    # and points on every edge there is
    edges = [(x, y) for x in (-180.0, 0.0, 45.0, 90.0, 180.0) for y in (-90.0, -60.0, 0.0, 41.8103149, 90.0)]
    longitude = np.append(longitude, [x for x, _ in edges])
    latitude = np.append(latitude, [y for _, y in edges])
    found = {}
    for name, keys in EARTH.items():
        folder = tmp_path_factory.mktemp("earth")
        report = run(
            configuration(keys, {"n": "count"}), {"longitude": longitude, "latitude": latitude}, store=folder
        )
        found[name] = open_grid(folder)
        assert report.points + report.outside == n + len(edges)
        assert report.outside == 0 or name != "healpix"
        cells = found[name].grid.locate(longitude, latitude)
        inside = cells >= 0
        wanted, counts = np.unique(cells[inside], return_counts=True)
        assert (found[name].cells(wanted, "n") == counts).all()
        for lon, lat, cell in zip(longitude[-25:], latitude[-25:], cells[-25:], strict=True):
            if cell >= 0:
                at = int(np.searchsorted(wanted, cell))
                assert found[name].point(float(lon), float(lat), "n") == counts[at]
    return found


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("name", EARTH)
def test_regions_anywhere_on_the_earth(name: str, region: str, earths: dict[str, GridStore]) -> None:
    store, where = earths[name], REGIONS[region]
    everything = store.everything(["n"])
    inside = where.contains(everything.longitude, everything.latitude)
    found = store.region(where, ["n"])
    assert sorted(found.cells.tolist()) == sorted(everything.cells[inside].tolist())
    assert int(found.values["n"].sum()) == int(everything.values["n"][inside].sum())
    if region == "everything":
        assert inside.all()


def test_regions_over_the_date_line_and_wrong_ones() -> None:
    fiji = Box(170, -25, -170, -10)
    assert fiji.contains(np.array([175.0, -175, 0]), np.array([-20.0, -20, -20])).tolist() == [
        True,
        True,
        False,
    ]
    ring = Polygon([(170, -25), (-170, -25), (-170, -10), (170, -10)])
    assert ring.contains(np.array([175.0, -175, 0]), np.array([-20.0, -20, -20])).tolist() == [
        True,
        True,
        False,
    ]
    with pytest.raises(ValueError, match="at least three"):
        Polygon([(0, 0), (1, 1)])
    with pytest.raises(ValueError, match="latitude of 95"):
        Polygon([(0, 80), (120, 95), (-120, 80)])
    with pytest.raises(ValueError, match="degrees"):
        Box(0, 5, 1, 2)


def test_parents_and_pictures(stores: dict[str, GridStore]) -> None:
    store, (cells, counts) = stores["healpix"], brute("healpix")
    for order in (6, 8, 9, 11, 12):
        number = int(cells[100] >> 2 * (12 - order))
        part = store.parent(order, number, "count")
        assert len(part) == 4 ** (12 - order)
        assert part.sum() == counts[cells >> 2 * (12 - order) == number].sum()
    chunk = int(store.chunks()[0])
    picture, plain = store.image(chunk, "count"), store.chunk(chunk, "count")
    rows, columns = deinterleave(np.arange(64))
    assert picture.shape == (8, 8) and (picture[7 - rows, columns] == plain).all()
    # a step to the right is a step to the north-east, a step up one to the north-west
    longitude, latitude = store.grid.centres(store.chunk_cells(chunk))
    at = {(int(r), int(c)): k for k, (r, c) in enumerate(zip(rows, columns, strict=True))}
    right, up = at[(0, 1)], at[(1, 0)]
    assert latitude[right] > latitude[0] and longitude[right] > longitude[0]
    assert latitude[up] > latitude[0] and longitude[up] < longitude[0]
    flat = stores["rectilinear"]
    number = int(flat.chunks()[0])
    assert flat.image(number, "count").shape == (64, 64)
    with pytest.raises(GridMismatchError, match="HEALPix"):
        flat.parent(3, 1)
    with pytest.raises(BoundsCheckError):
        store.parent(0, 12)


def test_parents_that_are_too_large_are_refused(tmp_path: Path) -> None:
    make_template(Config.from_dict(configuration(healpix(8, 13, 19), HEIGHTS)), tmp_path)
    store = open_grid(tmp_path)
    with pytest.raises(LimitError, match=r"has 274,877,906,944 cells of order 19, .* raise `memory`"):
        store.parent(0, 11)
    assert len(store.parent(12, 5)) == 4**7
    config = Config.from_dict(configuration(healpix(6, 9, 12), HEIGHTS))
    make_template(config, tmp_path / "small")
    small = terrazzo.open_group(tmp_path / "small", mode="r", config={"memory": 4 << 10})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("terrazzo.gridding.reader.MOST_NBYTES", 1 << 10)
        with pytest.raises(LimitError, match="at most 4,096 are read"):
            open_grid(small).parent(6, 0)
        assert len(open_grid(small).parent(9, 0)) == 64


class Ranges(Store):
    """An object store of the plainest kind: ranges of objects that have a tag, every one asked for by a request."""

    writable = False

    def __init__(self, objects: dict[str, bytes]) -> None:
        self.objects = objects
        self.asked: list[tuple[str, int]] = []

    def get(self, key: str) -> bytes | None:
        return self.objects.get(key)

    def open(self, requests: Sequence[Open]) -> list[Source | None]:
        return [self._opened(request) for request in requests]

    def _opened(self, request: Open) -> Source | None:
        value = self.objects.get(request.key)
        if value is None:
            self.asked.append((request.key, 0))
            return None
        start, length = request.first or (0, 0)
        start = max(0, len(value) + start) if start < 0 else start
        first = value[start : None if length is None else start + length]
        self.asked.append((request.key, len(first)))
        return Source(request.key, len(value), "only", None, first)

    def fetch(self, requests: Sequence[tuple[Source, Sequence[tuple[int, int]]]]) -> list[list[bytes]]:
        answers = []
        for source, ranges in requests:
            self.asked += [(source.key, length) for _, length in ranges]
            answers.append([self.objects[source.key][start : start + length] for start, length in ranges])
        return answers


@pytest.mark.parametrize(
    ("keys", "index"),
    [(PAGE_HEALPIX, 16 * 1024 + 4), (PAGE_RECTILINEAR, 16 * 16 + 4)],
    ids=["healpix", "rectilinear"],
)
def test_case_25_two_reads_for_a_chunk(keys: dict[str, Any], index: int, tmp_path: Path) -> None:
    grid = grid_from(keys)
    shard = 258_582 if grid.ndim == 1 else 12
    longitude, latitude = grid.centres(grid.cells_of(shard, np.arange(4096) + 3 * 4096))
    points = {"longitude": longitude, "latitude": latitude, "v": np.arange(4096.0)}
    run(configuration(keys, {"v": {"function": "mean", "source": "v"}}), points, store=tmp_path)
    files = {p.relative_to(tmp_path).as_posix(): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    plain = Ranges(files)
    array = terrazzo.open_array(plain, path=f"{grid.group}/v", mode="r")

    def reads(number: int) -> tuple[Any, list[Any], int]:
        at = grid.chunk_index(shard, number)
        box = tuple(slice(i * c, (i + 1) * c) for i, c in zip(at, grid.chunk_shape, strict=True))
        plain.asked.clear()
        values = array[box]
        return values, list(plain.asked), sum(nbytes for _, nbytes in plain.asked)

    values, asked, nbytes = reads(3)
    assert values.reshape(-1).tolist() == list(range(4096))
    assert len(asked) <= 2 and nbytes == index + 16_384
    fresh = terrazzo.open_array(plain, path=f"{grid.group}/v", mode="r")
    array = fresh
    values, asked, nbytes = reads(5)
    assert np.isnan(values).all() and len(asked) == 1 and nbytes == index
    shard = 7 if grid.ndim == 1 else 1
    values, asked, nbytes = reads(5)
    assert np.isnan(values).all() and nbytes == 0


def test_a_box_asks_for_the_indexes_of_its_shards_once(tmp_path: Path) -> None:
    run(configuration(KINDS["healpix"], HEIGHTS, ATL06), store=tmp_path)
    files = {p.relative_to(tmp_path).as_posix(): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    store = CountingStore(terrazzo.storage.MemoryStore())
    for key, value in files.items():
        store.set(key, value)
    grid = open_grid(store)
    store.reset()
    grid.box(-50.3, 70.0, -49.9, 70.5, ["count"])
    first = store.counts
    assert first.requests["list_prefix"] == first.requests["list"] == 0
    store.reset()
    grid.box(-50.3, 70.0, -49.9, 70.5, ["count"])
    assert store.counts.read_nbytes < first.read_nbytes, "indexes are remembered"


def zagg_store(folder: Path, sharded: bool) -> None:
    """A store as zagg leaves it: its attributes, its group, none of ours."""
    run(configuration(healpix(6, 9, 12, sharded=sharded), HEIGHTS, ATL06), store=folder)
    group = terrazzo.open_group(folder, mode="r+")["12"]
    assert isinstance(group, terrazzo.Group)
    attributes = dict(group.attrs)
    del attributes["gridding"]
    attributes["dggs"] = {**attributes["dggs"], "coordinate": "cell_ids", "compression": "none"}
    for name in list(group.attrs):
        del group.attrs[name]
    group.update_attributes(attributes)


@pytest.mark.parametrize("sharded", [True, False])
def test_stores_of_another_writer_are_read(sharded: bool, tmp_path: Path) -> None:
    zagg_store(tmp_path, sharded)
    store, (cells, counts) = open_grid(tmp_path), brute("healpix")
    found = store.everything(["count"])
    assert (np.sort(found.cells) == cells).all() and (store.cells(cells, "count") == counts).all()
    assert store.grid.describe()["ellipsoid"] == "WGS84" and store.grid.sharded is sharded


def rewritten(folder: Path, attributes: dict[str, Any]) -> None:
    """Leave a group only these attributes."""
    document = json.loads((folder / "zarr.json").read_text())
    (folder / "zarr.json").write_text(json.dumps({**document, "attributes": attributes}))


@pytest.mark.parametrize(
    ("ellipsoid", "kind"),
    [
        ({"semimajor_axis": 6378137, "inverse_flattening": 298.257223563}, "WGS84"),
        ({"name": "mine", "semimajor_axis": 6378137.0, "semiminor_axis": 6356752.314245179}, "WGS84"),
        ({"name": "wgs84"}, "WGS84"),
        ("WGS_1984", "WGS84"),
        ({"name": "WGS84", "semi_major_axis": 6378137.0, "inverse_flattening": 298.257223563}, "WGS84"),
        ({"semimajor_axis": 6370997.0}, "sphere"),
        ({"name": "sphere"}, "sphere"),
        (None, "sphere"),
        ({"semimajor_axis": 6377397.155, "inverse_flattening": 299.1528128}, None),
        ({"name": "airy"}, None),
    ],
)
def test_an_ellipsoid_is_known_by_its_numbers(ellipsoid: Any, kind: str | None, tmp_path: Path) -> None:
    zagg_store(tmp_path, True)
    said = json.loads((tmp_path / "12/zarr.json").read_text())["attributes"]
    block = {key: value for key, value in said["dggs"].items() if key != "ellipsoid"}
    rewritten(tmp_path / "12", {"dggs": block if ellipsoid is None else {**block, "ellipsoid": ellipsoid}})
    if kind is None:
        with pytest.raises(GridMismatchError, match="WGS84 and spheres"):
            open_grid(tmp_path)
        return
    assert open_grid(tmp_path).grid.describe()["ellipsoid"] == kind
    other = {"WGS84": "sphere", "sphere": "WGS84"}[kind]
    assert open_grid(tmp_path, ellipsoid=other).grid.describe()["ellipsoid"] == other


def test_a_geozarr_group_is_read_by_its_affine_transform(tmp_path: Path) -> None:
    run(configuration(KINDS["rectilinear"], HEIGHTS, ATL06), store=tmp_path)
    wanted = open_grid(tmp_path)
    said = json.loads((tmp_path / "rectilinear/zarr.json").read_text())["attributes"]
    geozarr = {key: value for key, value in said.items() if key.startswith(("proj:", "spatial:"))}
    rewritten(tmp_path / "rectilinear", geozarr)
    found = open_grid(tmp_path)
    assert found.grid.spatial() == wanted.grid.spatial()
    assert (
        found.box(-50.5, 70, -50, 71, ["count"]).cells.tolist()
        == wanted.box(-50.5, 70, -50, 71, ["count"]).cells.tolist()
    )
    for wrong in ([1, 0, 0], [500.0, 9.0, 0.0, 0.0, -500.0, 0.0], ["a"] * 6, None):
        rewritten(tmp_path / "rectilinear", {**geozarr, "spatial:transform": wrong})
        with pytest.raises(GridMismatchError, match="spatial:transform"):
            open_grid(tmp_path)
    with pytest.raises(GridMismatchError, match="only HEALPix"):
        GridStore(wanted.group, "sphere")


def test_what_is_no_grid_is_said(tmp_path: Path) -> None:
    group = terrazzo.create_group(tmp_path / "a")
    with pytest.raises(NodeNotFoundError, match="no gridded group"):
        open_grid(tmp_path / "a")
    group.update_attributes({"dggs": {"name": "h3"}})
    with pytest.raises(GridMismatchError, match="nested healpix"):
        open_grid(tmp_path / "a")
