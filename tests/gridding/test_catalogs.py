"""Footprints: what lies inside, which shards they touch, and plans and runs that are made from them."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from terrazzo.gridding import (
    Config,
    GridConfigError,
    GridMismatchError,
    HealpixGrid,
    Plan,
    RectilinearGrid,
    make_plan,
    read_catalog,
    run,
)
from terrazzo.gridding.covering import covering
from terrazzo.gridding.regions import Box, Polygon, Regions
from terrazzo.gridding.wkb import polygons_of
from tests.gridding.cases import ATL06, BEAMS, GREENLAND, HEIGHTS, SAMPLES, configuration, healpix, objects

pytest.importorskip("healpix_geo")
pytest.importorskip("pyproj")
h5py = pytest.importorskip("h5py")


def inside(region: Any, lon: float, lat: float) -> bool:
    return bool(region.contains(np.array([lon]), np.array([lat]))[0])


# regions


def test_rings_over_the_date_line_around_a_pole_and_with_holes() -> None:
    fiji = Polygon([(170, -25), (-170, -25), (-170, -10), (170, -10)])
    assert inside(fiji, 180, -20) and inside(fiji, -175, -20) and not inside(fiji, 0, -20)
    arctic = Polygon([(0, 80), (120, 70), (-120, 75)])
    assert inside(arctic, 17, 90) and inside(arctic, 60, 76) and not inside(arctic, 60, 74.9)
    assert not inside(arctic, 60, -80) and inside(arctic, 179.9, 73)
    antarctic = Polygon([(0, -70), (90, -70), (180, -70), (-90, -70)])
    assert inside(antarctic, 5, -90) and inside(antarctic, 5, -71) and not inside(antarctic, 5, -69)
    ring = Polygon([(0, 60), (90, 60), (180, 60), (270, 60)], [[(0, 80), (90, 80), (180, 80), (270, 80)]])
    assert inside(ring, 45, 70) and not inside(ring, 45, 85) and not inside(ring, 45, 90)
    earth = Polygon([(-180, -90), (180, -90), (180, 90), (-180, 90), (-180, -90)])
    assert all(inside(earth, lon, lat) for lon, lat in [(0, 0), (179, 89), (-180, -90), (12, 90)])
    cap = Polygon([(-180, 60), (180, 60), (180, 90), (-180, 90), (-180, 60)])
    assert inside(cap, 0, 61) and inside(cap, 0, 90) and not inside(cap, 0, 59) and not inside(cap, 0, -89)
    wide = Polygon(
        [(-150, -10), (-50, -10), (50, -10), (150, -10), (150, 10), (50, 10), (-50, 10), (-150, 10)]
    )
    assert inside(wide, 0, 0) and not inside(wide, 170, 0)
    assert inside(Box(10, 80, 20, 90), 100, 90), "a pole lies on every meridian"


CORNERS = st.lists(st.tuples(st.floats(0, 150), st.floats(-80, 80)), min_size=3, max_size=7, unique=True)


@settings(max_examples=40, deadline=None)
@given(CORNERS, st.sampled_from([0.0, 100.0, 170.0, -179.5, 350.0]), st.integers(0, 2**31))
def test_a_polygon_is_the_same_wherever_it_lies(
    corners: list[tuple[float, float]], turn: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    x, y = random.uniform(-20, 170, 200), random.uniform(-90, 90, 200)
    wanted = np.zeros(200, np.bool_)
    for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True):
        if y0 != y1:
            wanted ^= ((y0 > y) != (y1 > y)) & (x < x0 + (y - y0) * (x1 - x0) / (y1 - y0))
    turned = [((lon + turn + 180) % 360 - 180, lat) for lon, lat in corners]
    found = Polygon(turned).contains((x + turn + 180) % 360 - 180, y)
    assert (found != wanted).sum() == 0 or _near_an_edge(corners, x[found != wanted], y[found != wanted])


def _near_an_edge(corners: Any, x: Any, y: Any) -> bool:
    """Turning costs digits; a point that changes sides lies on an edge."""
    for px, py in zip(x, y, strict=True):
        near = []
        for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True):
            length = (x1 - x0) ** 2 + (y1 - y0) ** 2
            t = (
                min(1.0, max(0.0, ((px - x0) * (x1 - x0) + (py - y0) * (y1 - y0)) / length))
                if length
                else 0.0
            )
            near.append(np.hypot(px - x0 - t * (x1 - x0), py - y0 - t * (y1 - y0)))
        if min(near) > 1e-6:
            return False
    return True


# covering

GRIDS = [
    HealpixGrid(5, 9),
    HealpixGrid(4, 8, 6, ellipsoid="sphere"),
    RectilinearGrid("EPSG:3031", 5000, [-3200000, -3200000, 3200000, 3200000], [64, 64], [16, 16], True),
    RectilinearGrid("EPSG:4326", 0.5, [-180, -90, 180, 90], [30, 40], [10, 10], True),
]
PLACES = st.tuples(st.floats(-180, 180), st.floats(-89.9, 89.9), st.floats(0.1, 25), st.floats(0.1, 25))


@pytest.mark.parametrize("grid", GRIDS, ids=repr)
@settings(max_examples=25, deadline=None)
@example(place=(0.0, 89.9, 1.0, 25.0), kind="hole", seed=0)
@example(place=(0.0, -89.9, 1.0, 25.0), kind="hole", seed=0)
@given(place=PLACES, kind=st.sampled_from(["box", "polygon", "hole"]), seed=st.integers(0, 2**31))
def test_no_shard_is_missed(grid: Any, place: tuple[float, ...], kind: str, seed: int) -> None:
    lon, lat, width, height = place
    south, north = max(-90.0, lat - height), min(90.0, lat + height)
    corners = [(lon - width, south), (lon + width, lat), (lon, north)]
    region: Any = Box(lon - width, south, lon + width, north)
    if kind != "box":
        below, above = max(-90.0, lat - height / 50), min(90.0, lat + height / 50)
        hole = [[(lon, below), (lon + width / 9, lat), (lon, above)]]
        region = Polygon(corners, hole if kind == "hole" else [])
    random = np.random.default_rng(seed)
    x, y = random.uniform(lon - width, lon + width, 3000), random.uniform(south, north, 3000)
    inside_ = region.contains(x, y)
    wanted = grid.shard_of(grid.locate(x[inside_], y[inside_]))
    assert set(np.unique(wanted[wanted >= 0]).tolist()) <= set(covering(grid, region).tolist())


@pytest.mark.parametrize(
    "region",
    [
        Polygon([(-60, 60), (-59, 60), (-39, 80), (-40, 80)]),
        Polygon([(170, 50), (-170, 70), (-170, 71), (170, 51)]),
        Polygon([(0, 85), (120, 85), (-120, 85)]),
        Regions([Box(10, 10, 12, 30), Box(50, -40, 52, -38)]),
    ],
    ids=["a track", "over the date line", "around the pole", "two boxes"],
)
def test_few_shards_are_taken_in_vain(region: Any) -> None:
    grid = HealpixGrid(6, 10)
    random = np.random.default_rng(8)
    x, y = random.uniform(-180, 180, 4_000_000), np.degrees(np.arcsin(random.uniform(-1, 1, 4_000_000)))
    chosen = region.contains(x, y)
    touched = np.unique(grid.shard_of(grid.locate(x[chosen], y[chosen])))
    found = covering(grid, region)
    assert np.isin(touched, found).all()
    assert len(found) <= 1.35 * len(touched) + 4


def test_a_margin_makes_a_footprint_wider() -> None:
    grid = HealpixGrid(6, 10)
    box = Box(10, 10, 12, 12)
    assert set(covering(grid, box).tolist()) < set(covering(grid, box, 2.0).tolist())
    # the whole of shards within two degrees
    wide = covering(grid, Box(8.1, 8.1, 13.9, 13.9))
    assert np.isin(
        wide[np.isin(wide, covering(grid, Box(10, 8.1, 12, 13.9)))], covering(grid, box, 2.0)
    ).all()


def test_a_region_of_too_many_shards_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("terrazzo.gridding.covering.MOST", 50_000)
    with pytest.raises(GridConfigError, match="parent_order"):
        covering(HealpixGrid(14, 20), Box(-180, -90, 180, 90))


# catalogs


def extents() -> list[dict[str, Any]]:
    """The samples, each with the box around its points."""
    found = []
    for path in sorted(SAMPLES.glob("ATL06_*.h5")):
        lon: list[Any] = []
        lat: list[Any] = []
        with h5py.File(path) as file:
            for beam in BEAMS:
                if beam in file:
                    lon.append(file[beam]["land_ice_segments/longitude"][:])
                    lat.append(file[beam]["land_ice_segments/latitude"][:])
        x, y = np.concatenate(lon), np.concatenate(lat)
        box = [float(v) for v in (x.min(), y.min(), x.max(), y.max())]
        found.append({"id": path.stem, "path": str(path), "bbox": box})
    return found


def corners(box: list[float]) -> list[list[float]]:
    w, s, e, n = box
    return [[w, s], [e, s], [e, n], [w, n], [w, s]]


def wkb(ring: list[list[float]], order: str = "<", z: bool = False) -> bytes:
    head = (b"\1" if order == "<" else b"\0") + struct.pack(order + "III", 1003 if z else 3, 1, len(ring))
    return head + b"".join(
        struct.pack(order + ("3d" if z else "2d"), *p, *([5.0] if z else [])) for p in ring
    )


def catalogs(kind: str, folder: Path) -> Any:
    granules = extents()
    if kind == "list":
        return granules
    features = [
        {
            "type": "Feature",
            "id": one["id"],
            "bbox": [*one["bbox"][:2], 0, *one["bbox"][2:], 9],
            "properties": {"path": one["path"]},
            "geometry": {"type": "Polygon", "coordinates": [corners(one["bbox"])]},
        }
        for one in granules
    ]
    if kind == "collection":
        return {"type": "FeatureCollection", "features": features}
    if kind == "geojson":
        for one in features:
            one["geometry"] = {"type": "MultiPolygon", "coordinates": [one["geometry"]["coordinates"]]}
            one["assets"] = {
                "data": {"href": one.pop("properties")["path"], "roles": ["data"]},
                "thumbnail": {"href": "x.png"},
            }
        (folder / "a.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
        return folder / "a.geojson"
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns: dict[str, Any] = {
        "id": [one["id"] for one in granules],
        "path": [one["path"] for one in granules],
    }
    if kind == "parquet boxes":
        names = ("xmin", "ymin", "xmax", "ymax")
        columns["bbox"] = [dict(zip(names, one["bbox"], strict=True)) for one in granules]
    else:
        columns["geometry"] = [
            wkb(corners(one["bbox"]), "<>"[k % 2], k % 3 == 0) for k, one in enumerate(granules)
        ]
    parquet.write_table(pyarrow.table(columns), folder / "a.parquet")
    return folder / "a.parquet"


KINDS = ["list", "collection", "geojson", "parquet boxes", "parquet geometries"]
SOURCE = {key: value for key, value in ATL06.items() if key != "files"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_from_footprints_opens_nothing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = catalogs(kind, tmp_path)
    config = Config.from_dict(configuration(healpix(6, 9, 12), HEIGHTS, SOURCE))
    looked = make_plan(Config.from_dict(configuration(healpix(6, 9, 12), HEIGHTS, ATL06)))

    def no(*_: Any, **__: Any) -> None:
        raise AssertionError("a granule was opened")

    monkeypatch.setattr(h5py, "File", no)
    plan = make_plan(config, read_catalog(catalog))
    assert not plan.counted and plan.points == 0 and plan.names == looked.names
    assert set(looked.shards.tolist()) <= set(plan.shards.tolist())
    tasks = {task.shard: set(task.granules) for task in plan}
    for task in looked:
        assert set(task.granules) <= tasks[task.shard]
    assert sum(map(len, tasks.values())) < len(plan) * len(plan.names), "granules elsewhere are left out"


@pytest.mark.parametrize("keys", [healpix(6, 9, 12), GREENLAND], ids=["healpix", "rectilinear"])
def test_a_run_from_footprints_makes_the_same_shards(keys: dict[str, Any], tmp_path: Path) -> None:
    run(configuration(keys, HEIGHTS, ATL06), store=tmp_path / "points")
    catalogs("geojson", tmp_path)
    config = configuration(keys, HEIGHTS, SOURCE)
    config["catalog"] = {"path": str(tmp_path / "a.geojson"), "margin": 0.01}
    report = run(config, store=tmp_path / "footprints", engine="processes")
    assert report.points == 22_284 and report.shards == report.written + report.empty
    shards = {k: v for k, v in objects(tmp_path / "points").items() if "/c/" in k}
    assert shards == {k: v for k, v in objects(tmp_path / "footprints").items() if "/c/" in k}
    # kept, and used another day
    for name in ("plan.json", "plan.parquet"):
        if name.endswith("parquet"):
            pytest.importorskip("pyarrow")
        plan = make_plan(Config.from_dict(config))
        plan.save(tmp_path / name)
        again = Plan.load(tmp_path / name)
        assert again.names == plan.names and (again.granules == plan.granules).all() and not again.counted
        assert (again.shards == plan.shards).all() and (again.starts == plan.starts).all()
        found = run(config, store=tmp_path / "footprints", plan=again)
        assert found.written == 0 and found.current == report.shards
    some = run(config, store=tmp_path / "few", plan=plan, shards=plan.shards[:2].tolist())
    assert some.shards == 2


def test_only_granules_that_touch_a_shard_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config.from_dict(configuration(healpix(6, 9, 12), HEIGHTS, SOURCE))
    catalog = read_catalog(extents())
    plan = make_plan(config, catalog)
    task = min(plan, key=lambda one: len(one.granules))
    assert len(task.granules) < len(catalog)
    opened: set[str] = set()
    real = h5py.File
    monkeypatch.setattr(h5py, "File", lambda path, *rest: opened.add(Path(path).stem) or real(path, *rest))
    run(config, catalog, store=tmp_path, plan=plan, shards=[task.shard], engine="serial")
    assert opened == {Path(plan.names[k]).stem for k in task.granules}


def test_a_plan_knows_its_granules(tmp_path: Path) -> None:
    config = configuration(healpix(6, 9, 12), HEIGHTS, ATL06)
    plan = make_plan(Config.from_dict(config))
    files = sorted(map(str, SAMPLES.glob("ATL06_*.h5")))
    # another order is another plan with the same granules
    backwards = configuration(healpix(6, 9, 12), HEIGHTS, {**ATL06, "files": files[::-1]})
    assert run(backwards, store=tmp_path / "a", plan=plan).points == 22_284
    with pytest.raises(GridMismatchError, match="is none of them"):
        run(
            configuration(healpix(6, 9, 12), HEIGHTS, {**ATL06, "files": files[:3]}),
            store=tmp_path / "b",
            plan=plan,
        )
    assert not (tmp_path / "b").exists()
    text = json.loads(plan.to_json())
    for change in (
        {"shard_granules": [[99]] * len(plan)},
        {"shard_granules": []},
        {"shard_keys": ["a"]},
        {"metadata": {}},
        {"granules": None},
    ):
        with pytest.raises(GridMismatchError):
            Plan.from_json(json.dumps({**text, **change}))
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    if pytest.importorskip("pyarrow"):
        with pytest.raises(GridMismatchError, match="no plan"):
            Plan.load(tmp_path / "x.parquet")


GOOD = {"path": "a.h5", "bbox": [0, 0, 1, 1]}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "empty"),
        (5, "int"),
        ({"type": "Feature"}, "FeatureCollection"),
        ([5], r"catalog\[0\] is 5"),
        ([{"bbox": [0, 0, 1, 1]}], "names no file"),
        ([{"path": "a.h5"}], "no footprint"),
        ([GOOD, GOOD], "more than once"),
        ([{"path": "a.h5", "bbox": [0, 0, 1]}], "3 numbers"),
        ([{"path": "a.h5", "bbox": [0, 5, 1, 1]}], "west, south"),
        ([{"path": "a.h5", "bbox": "x"}], "catalog"),
        ([{"path": "a.h5", "polygon": [[0, 0], [1, 1]]}], "at least three"),
        ([{"path": "a.h5", "polygon": [[0, 0], [1, 1], [float("nan"), 2]]}], "finite"),
        ([{"path": "a.h5", "polygon": [[0, 0], [1, 95], [1, 2]]}], "latitude of 95"),
        ([{"path": "a.h5", "geometry": {"type": "Point", "coordinates": [0, 0]}}], "Point"),
        ([{"path": "a.h5", "geometry": {"type": "Polygon"}}], "no 'coordinates'"),
        ([{"path": "a.h5", "geometry": {"type": "Polygon", "coordinates": []}}], "no region"),
        ([{"path": "a.h5", "geometry": {"type": "Polygon", "coordinates": 5}}], "catalog"),
        ([{"path": "a.h5", "geometry": {"type": "MultiPolygon", "coordinates": [[]]}}], "no region"),
        ([{"path": "a.h5", "bbox": {"xmin": 1}}], "no 'ymin'"),
        ([{"path": "a.h5", "bbox": [0, 0, float("inf"), 1]}], "degrees"),
        ([{"path": "a.h5", "geometry": b"\1\1\0\0\0"}], "kind 1"),
        ([{"path": "a.h5", "geometry": wkb(corners([0, 0, 1, 1]))[:-3]}], "corners"),
        ([{"path": "a.h5", "geometry": wkb(corners([0, 0, 1, 1])) + b"x"}], "ends after"),
    ],
)
def test_what_is_wrong_with_a_catalog_is_said(given: Any, words: str) -> None:
    with pytest.raises(GridConfigError, match=words):
        read_catalog(given)


def test_a_catalog_in_a_configuration(tmp_path: Path) -> None:
    config = configuration(healpix(6, 9, 12), HEIGHTS, ATL06)
    with pytest.raises(GridConfigError, match="both given"):
        Config.from_dict({**config, "catalog": [GOOD]})
    config = configuration(healpix(6, 9, 12), HEIGHTS, SOURCE)
    with pytest.raises(GridConfigError, match="margin"):
        Config.from_dict({**config, "catalog": {"path": "a.json", "margin": "x"}})
    with pytest.raises(FileNotFoundError, match="no file"):
        Config.from_dict({**config, "catalog": "a.json"}, tmp_path)
    (tmp_path / "a.json").write_text("[")
    with pytest.raises(GridConfigError, match="no JSON"):
        Config.from_dict({**config, "catalog": "a.json"}, tmp_path)
    (tmp_path / "a.json").write_text(json.dumps([GOOD]))
    source = Config.from_dict({**config, "catalog": "a.json"}, tmp_path).source
    assert source is not None and source.files == (str(tmp_path / "a.h5"),)
    with pytest.raises(GridConfigError, match="data_source is missing"):
        make_plan(Config.from_dict(configuration(healpix(6, 9, 12))), read_catalog([GOOD]))


def test_geometries_of_every_kind() -> None:
    ring = corners([0.0, 0.0, 2.0, 1.0])
    one = wkb(ring)
    many = b"\1" + struct.pack("<II", 6, 2) + one + wkb(ring, ">")
    for text, n in ((one, 1), (many, 2), (b"\1" + struct.pack("<II", 7, 1) + many, 2)):
        found = list(polygons_of(text))
        assert len(found) == n and all(rings[0].tolist() == ring for rings in found)
    with_id = b"\1" + struct.pack("<III", 3 | 0x20000000, 4326, 1) + one[9:]
    assert next(polygons_of(with_id))[0].tolist() == ring
    for text in (b"", b"\2", b"\1", b"\1\6\0\0\0\xff\xff\xff\xff", b"\1" + struct.pack("<II", 7, 1) * 9):
        with pytest.raises(ValueError):
            list(polygons_of(text))
