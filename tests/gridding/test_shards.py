"""What is stored: exact bytes, one object per shard, the same values sharded or not, and who may write what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.gridding import (
    ChunkNotUniformError,
    Config,
    DuplicateShardError,
    GridMismatchError,
    HealpixGrid,
    NoDataWarning,
    NotWholeShardError,
    Plan,
    SchemaError,
    ShardFailedError,
    make_plan,
    run,
)
from terrazzo.gridding.accumulate import Gridded
from terrazzo.gridding.audit import audit
from terrazzo.gridding.configuration import grid_from
from terrazzo.gridding.template import make_template
from terrazzo.gridding.writing import CellChunks, ShardWriter
from tests.gridding.cases import (
    ATL06,
    GREENLAND,
    HEIGHTS,
    PAGE_HEALPIX,
    PAGE_RECTILINEAR,
    configuration,
    healpix,
    objects,
    segments,
    shard_objects,
)

pytest.importorskip("healpix_geo")
pytest.importorskip("pyproj")
pytest.importorskip("h5py")

FLOAT = {"v": {"function": "mean", "source": "v"}}


def points_in_chunks(grid: Any, shard: int, chunks: list[int]) -> dict[str, Any]:
    """One point in the first cell of each of these inner chunks."""
    cells = grid.cells_of(shard, np.array(chunks) * grid.cells_per_chunk)
    longitude, latitude = grid.centres(cells)
    return {"longitude": longitude, "latitude": latitude, "v": np.arange(len(chunks)) + 1.5}


@pytest.mark.parametrize(
    ("keys", "shard", "one", "all_"),
    [(PAGE_HEALPIX, 258_582, 32_772, 16_793_604), (PAGE_RECTILINEAR, 12, 16_644, 262_404)],
)
def test_cases_16_17_18_bytes_of_a_shard(
    keys: dict[str, Any], shard: int, one: int, all_: int, tmp_path: Path
) -> None:
    grid = grid_from(keys)
    config = configuration(keys, FLOAT)
    run(config, points_in_chunks(grid, shard, [grid.k // 2]), store=tmp_path / "one")
    (stored,) = shard_objects(tmp_path / "one", "v").values()
    assert len(stored) == one
    index = np.frombuffer(stored[-(16 * grid.k + 4) : -4], "<u8").reshape(-1, 2)
    assert (index == 2**64 - 1).all(axis=1).sum() == grid.k - 1
    assert index[grid.k // 2].tolist() == [0, grid.cells_per_chunk * 4]
    run(config, points_in_chunks(grid, shard, list(range(grid.k))), store=tmp_path / "all")
    (stored,) = shard_objects(tmp_path / "all", "v").values()
    assert len(stored) == all_
    index = np.frombuffer(stored[-(16 * grid.k + 4) : -4], "<u8").reshape(-1, 2)
    assert (index[:, 0] == np.arange(grid.k) * grid.cells_per_chunk * 4).all(), "chunks lie in C order"


def test_case_17_nothing_populated_makes_no_object(tmp_path: Path) -> None:
    grid = HealpixGrid(2, 6, 4, True)
    empty = {"longitude": np.zeros(0), "latitude": np.zeros(0), "v": np.zeros(0)}
    config = configuration(healpix(2, 4, 6), FLOAT)
    with pytest.warns(NoDataWarning):
        run(config, empty, store=tmp_path / "none")
    assert shard_objects(tmp_path / "none", "v") == {}
    # values that are the fill value, bit for bit, are not stored either
    points = {**points_in_chunks(grid, 7, [0, 3]), "v": np.array([np.nan, np.nan])}
    run(config, points, store=tmp_path / "fill")
    assert shard_objects(tmp_path / "fill", "v") == {}


def test_minus_zero_is_not_zero(tmp_path: Path) -> None:
    grid = HealpixGrid(2, 6, 4, True)
    points = {**points_in_chunks(grid, 7, [3]), "v": np.array([-0.0])}
    variables = {"v": {"function": "min", "source": "v", "fill_value": 0}}
    run(configuration(healpix(2, 4, 6), variables), points, store=tmp_path)
    (stored,) = shard_objects(tmp_path, "v").values()
    assert np.signbit(np.frombuffer(stored[:4], "<f4")[0])


@pytest.mark.parametrize(
    "keys",
    [healpix(2, 4, 7), {**GREENLAND, "resolution": 2000, "chunk_shape": [64, 96], "chunk_inner": [16, 24]}],
)
def test_case_19_sharded_and_not_hold_the_same(keys: dict[str, Any], tmp_path: Path) -> None:
    for name, sharded in (("sharded", True), ("plain", False)):
        run(configuration({**keys, "sharded": sharded}, HEIGHTS), segments(), store=tmp_path / name)
    grid = grid_from(keys)
    for field in HEIGHTS:
        ours = terrazzo.open_array(tmp_path / "sharded" / grid.group / field)
        plain = terrazzo.open_array(tmp_path / "plain" / grid.group / field)
        assert ours.shards == grid.shard_shape and plain.shards is None and ours.chunks == plain.chunks
        np.testing.assert_array_equal(ours[...], plain[...])
        wholes, pieces = shard_objects(tmp_path / "sharded", field), shard_objects(tmp_path / "plain", field)
        assert len(pieces) == len(ours.inventory().chunks)
        assert len(wholes) == len(
            {tuple(np.array(c) // grid.chunks_per_shard) for c in ours.inventory().chunks}
        )
        found = ours.inventory()
        for index, number, offset, nbytes in zip(
            found.chunks.tolist(),
            found.object.tolist(),
            found.offset.tolist(),
            found.nbytes.tolist(),
            strict=True,
        ):
            key = f"{grid.group}/{field}/c/" + "/".join(map(str, index))
            whole = (tmp_path / "sharded" / grid.group / field / found.keys[number]).read_bytes()
            assert whole[offset : offset + nbytes] == pieces[key]


def test_documents_are_those_of_the_page(tmp_path: Path) -> None:
    make_template(Config.from_dict(configuration(PAGE_HEALPIX, FLOAT)), tmp_path)
    document = json.loads((tmp_path / "19/v/zarr.json").read_text())
    assert document["shape"] == [3_298_534_883_328] and document["dimension_names"] == ["cells"]
    assert document["chunk_grid"]["configuration"]["chunk_shape"] == [4_194_304]
    (codec,) = document["codecs"]
    assert codec["name"] == "sharding_indexed"
    assert codec["configuration"]["chunk_shape"] == [4096]
    assert [one["name"] for one in codec["configuration"]["codecs"]] == ["bytes"]
    assert [one["name"] for one in codec["configuration"]["index_codecs"]] == ["bytes", "crc32c"]
    attributes = json.loads((tmp_path / "19/zarr.json").read_text())["attributes"]
    assert attributes["dggs"] == {
        "name": "healpix",
        "refinement_level": 19,
        "indexing_scheme": "nested",
        "spatial_dimension": "cells",
        "ellipsoid": {"name": "WGS84", "semimajor_axis": 6378137.0, "inverse_flattening": 298.257223563},
    }
    assert attributes["zarr_conventions"][0]["uuid"] == "7b255807-140c-42ca-97f6-7a1cfecdbc38"


def test_storage_may_be_chosen(tmp_path: Path) -> None:
    config = configuration(healpix(4, 7, 10), HEIGHTS)
    config["output"]["storage"] = {"inner_codecs": ["bytes", "zstd:5", "crc32c"], "index_location": "start"}
    run(config, segments(), store=tmp_path / "small")
    run(configuration(healpix(4, 7, 10), HEIGHTS), segments(), store=tmp_path / "large")
    small, large = (
        terrazzo.open_array(tmp_path / name / "10/h_mean", mode="r") for name in ("small", "large")
    )
    assert small.nbytes_stored() < large.nbytes_stored() / 2
    assert small.metadata.codecs[0].configuration["index_location"] == "start"
    region = slice(1000 * 4096, 1020 * 4096)
    np.testing.assert_array_equal(small[region], large[region])


def test_case_20_atl06_in_a_polar_grid(tmp_path: Path) -> None:
    for name, sharded in (("sharded", True), ("plain", False)):
        report = run(configuration({**GREENLAND, "sharded": sharded}, HEIGHTS, ATL06), store=tmp_path / name)
        assert (report.points, report.cells, report.shards, report.chunks) == (22_284, 687, 3, 17)
        assert report.outside == 0 and report.filtered == 36_934 - 22_284
    for field in HEIGHTS:
        assert len(shard_objects(tmp_path / "sharded", field)) == 3
        assert len(shard_objects(tmp_path / "plain", field)) == 17
    array = terrazzo.open_array(tmp_path / "sharded/rectilinear/count", mode="r")
    assert array.shape == (768, 512)
    count = array[...]
    assert count.sum() == 22_284 and count.max() == 56 and (count > 0).sum() == 687
    x = terrazzo.open_array(tmp_path / "sharded/rectilinear/x", mode="r")
    assert x.shards is None and x.chunks == (512,) and x[:2].tolist() == [-255750.0, -255250.0]
    assert x.attrs["standard_name"] == "projection_x_coordinate"


COMPANION = {
    **HEIGHTS,
    "lowest": {"expression": "max(floor_)", "resolution": "chunk"},
}


def companion_config(chunks: str = "shard", **grid: Any) -> dict[str, Any]:
    config = configuration({**healpix(6, 9, 12), **grid}, COMPANION, ATL06)
    config["aggregation"]["chunk_precompute"] = {"floor_": {"function": "min", "source": "h_li"}}
    config["output"]["storage"] = {"companion_chunks": chunks}
    return config


def test_case_22_how_many_objects(tmp_path: Path) -> None:
    report = run(companion_config(), store=tmp_path / "a")
    shards = report.shards
    stored = [key for key in objects(tmp_path / "a") if "/c/" in key]
    assert shards == 6 and len(stored) == 2 * shards + shards == report.objects
    assert audit(tmp_path / "a").problems == []
    # the same fields, written chunk by chunk behind the back of the plan
    (tmp_path / "a/12/count/c/999").write_bytes(b"x")
    assert any("count/c/999" in words for words in audit(tmp_path / "a").problems)
    unit = run(companion_config("unit"), store=tmp_path / "b")
    assert unit.objects == 2 * shards + 40
    ours, theirs = (terrazzo.open_array(tmp_path / name / "12/lowest", mode="r") for name in "ab")
    assert ours.shape == (12 * 4**9,) and ours.chunks == (64,) and theirs.chunks == (1,)
    region = slice(16138 * 64, 16140 * 64)
    np.testing.assert_array_equal(ours[region], theirs[region])
    assert (~np.isnan(ours[region])).any()


def test_a_companion_is_the_statistic_of_its_chunk(tmp_path: Path) -> None:
    run(companion_config(), store=tmp_path)
    lowest = terrazzo.open_array(tmp_path / "12/lowest", mode="r")[...]
    grid = HealpixGrid(6, 12, 9, True)
    found = segments()
    chunk = grid.locate(found["longitude"], found["latitude"]) // 64
    wanted = np.full(grid.chunk_grid, np.nan, np.float32)
    for one in np.unique(chunk):
        wanted[one] = found["h_li"][chunk == one].min()
    np.testing.assert_array_equal(lowest, wanted)


def test_cell_ids_where_they_are_asked_for(tmp_path: Path) -> None:
    run(configuration(healpix(6, 9, 12, coordinates="cell_ids"), None, ATL06), store=tmp_path)
    ids = terrazzo.open_array(tmp_path / "12/cell_ids", mode="r")
    assert ids.dtype == np.uint64 and ids.shards is None and ids.chunks == (4096,)
    assert len(shard_objects(tmp_path, "cell_ids")) == 6
    assert ids[66_210_179] == 66_210_179
    attributes = terrazzo.open_group(tmp_path / "12", mode="r").attrs
    assert attributes["dggs"]["coordinate"] == "cell_ids"


def test_case_24_a_companion_that_varies(tmp_path: Path) -> None:
    config = configuration(
        healpix(6, 9, 12), {"v": {"function": "mean", "source": "h_li", "resolution": "chunk"}}, ATL06
    )
    with pytest.raises(ShardFailedError, match="ChunkNotUniformError.*distinct values") as raised:
        run(config, store=tmp_path)
    assert len(raised.value.failures) > 0
    assert shard_objects(tmp_path, "v") == {} or len(shard_objects(tmp_path, "v")) == 6 - len(
        raised.value.failures
    )
    assert all("ChunkNotUniformError" in words for _, words in raised.value.failures.values())
    assert issubclass(ChunkNotUniformError, ValueError)


def test_case_24_a_plan_of_another_grid(tmp_path: Path) -> None:
    plan = make_plan(Config.from_dict(configuration(healpix(5, 8, 12), None, ATL06)))
    with pytest.raises(GridMismatchError, match="another grid"):
        run(configuration(healpix(6, 9, 12), None, ATL06), store=tmp_path, plan=plan)
    assert objects(tmp_path) == {}
    same = make_plan(Config.from_dict(configuration(healpix(6, 8, 12, sharded=False), None, ATL06)))
    assert run(configuration(healpix(6, 9, 12), None, ATL06), store=tmp_path, plan=same).points == 22_284


def test_case_24_a_second_job_for_a_shard(tmp_path: Path) -> None:
    plan = make_plan(Config.from_dict(configuration(healpix(6, 9, 12), None, ATL06)))
    with pytest.raises(DuplicateShardError, match="more than once"):
        Plan(
            plan.signature,
            np.append(plan.shards, plan.shards[0]),
            np.append(plan.starts, plan.starts[-1] + 1),
            np.append(plan.granules, 0),
            plan.names,
        )
    again = json.loads(plan.to_json())
    assert (Plan.from_json(plan.to_json()).shards == plan.shards).all()
    again["shard_keys"][1] = again["shard_keys"][0]
    with pytest.raises(DuplicateShardError):
        Plan.from_json(json.dumps(again))
    with pytest.raises(GridMismatchError, match="no plan"):
        Plan.from_json("[1]")
    run(configuration(healpix(6, 9, 12), None, ATL06), store=tmp_path)
    before = objects(tmp_path)
    config = configuration(healpix(6, 9, 12), None, ATL06, create_only=True, resume=False)
    with pytest.raises(ShardFailedError, match="DuplicateShardError.*create_only"):
        run(config, store=tmp_path)
    assert objects(tmp_path) == before


def test_case_24_a_part_of_a_shard_is_never_written(tmp_path: Path) -> None:
    config = Config.from_dict(configuration(healpix(2, 4, 6), FLOAT))
    template = make_template(config, tmp_path)
    array, before = template.arrays["v"], objects(tmp_path)
    chunk = np.ones(16, np.float32)
    with pytest.raises(NotWholeShardError, match="part of a chunk"):
        ShardWriter(config.grid, 5).put(array, 5, {(0,): chunk[:8]})
    with pytest.raises(NotWholeShardError, match="none of them"):
        ShardWriter(config.grid, 5).put(array, 5, {(16,): chunk})
    with pytest.raises(NotWholeShardError, match="for shard 5"):
        ShardWriter(config.grid, 5).put(array, 6, {(0,): chunk})
    with pytest.raises(NotWholeShardError, match="one whole shard"):
        ShardWriter(HealpixGrid(1, 6, 4, True), 5).put(array, 5, {(0,): chunk})
    assert objects(tmp_path) == before
    writer = ShardWriter(config.grid, 5)
    writer.put(array, 5, {(0,): chunk})
    written = objects(tmp_path)
    with pytest.raises(DuplicateShardError, match="already"):
        writer.put(array, 5, {(1,): chunk})
    assert objects(tmp_path) == written


def test_a_store_of_another_grid_or_schema_is_refused(tmp_path: Path) -> None:
    run(configuration(healpix(6, 9, 12), None, ATL06), store=tmp_path)
    before = objects(tmp_path)
    with pytest.raises(GridMismatchError, match="another grid"):
        run(configuration(healpix(6, 9, 12, "sphere"), None, ATL06), store=tmp_path)
    other = {"count": {"function": "count", "dtype": "int64"}}
    with pytest.raises(GridMismatchError, match="declared otherwise"):
        run(configuration(healpix(6, 9, 12), other, ATL06), store=tmp_path)
    assert objects(tmp_path) == before
    run(configuration(healpix(6, 9, 12, "sphere"), None, ATL06), store=tmp_path, overwrite=True)
    assert terrazzo.open_array(tmp_path / "12/count", mode="r")[66_107_984] == 276


def test_chunks_are_made_when_they_are_asked_for() -> None:
    grid = HealpixGrid(2, 6, 4, True)
    gridded = Gridded(np.array([0, 17, 18, 255]), {"v": np.array([1.0, 2, 3, 4])}, 4)
    chunks = CellChunks(grid, gridded.positions, gridded.values["v"], np.nan)
    assert list(chunks) == [(0,), (1,), (15,)] and len(chunks) == 3
    assert np.flatnonzero(~np.isnan(chunks[(1,)])).tolist() == [1, 2]


def test_vectors_lie_beside_their_cells(tmp_path: Path) -> None:
    variables = {
        "q": {
            "function": "quantile",
            "source": "h_li",
            "params": {"q": [0.0, 1.0]},
            "kind": "vector",
            "trailing_shape": [2],
            "dtype": "float64",
        },
        "low": {"function": "min", "source": "h_li"},
        "high": {"function": "max", "source": "h_li"},
    }
    for keys in (healpix(6, 9, 12), GREENLAND, {**GREENLAND, "sharded": False}):
        run(configuration(keys, variables), segments(), store=tmp_path, overwrite=True)
        group = terrazzo.open_group(tmp_path / grid_from(keys).group, mode="r")
        part = slice(16138 * 4096, 16165 * 4096) if keys["type"] == "healpix" else slice(None)
        both = group["q"][part]
        assert (~np.isnan(both)).sum() > 400
        np.testing.assert_array_equal(both[..., 0].astype(np.float32), group["low"][part])
        np.testing.assert_array_equal(both[..., 1].astype(np.float32), group["high"][part])


def test_columns_that_are_not_there_are_missed_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="no column"):
        run(
            configuration(healpix(6, 9, 12), {"v": {"function": "mean", "source": "nothing"}}),
            segments(),
            store=tmp_path,
        )
    assert objects(tmp_path) == {}
