"""Every way to give points makes the same cells; files that lack something are named; filters filter."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.gridding import (
    Config,
    GridConfigError,
    NoDataWarning,
    SchemaError,
    ShardFailedError,
    load_config,
    make_plan,
    open_grid,
    run,
)
from terrazzo.gridding.inputs import FunctionSource, SpilledSource, source_from
from tests.gridding.cases import ATL06, HEIGHTS, SAMPLES, SEGMENTS, configuration, healpix, segments

pytest.importorskip("healpix_geo")
h5py = pytest.importorskip("h5py")

GRID = healpix(6, 9, 12)


def counts(folder: Path) -> Any:
    return terrazzo.open_array(folder / "12/count", mode="r")[16138 * 4096 : 16165 * 4096]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("columns")
    run(configuration(GRID, HEIGHTS), segments(), store=folder)
    found = counts(folder)
    assert found.sum() == 22_284
    return found


def tables(kind: str) -> Any:
    points = segments()
    if kind == "structured":
        rows = np.empty(len(points["h_li"]), [(name, column.dtype) for name, column in points.items()])
        for name, column in points.items():
            rows[name] = column
        return rows
    if kind == "pandas":
        return pytest.importorskip("pandas").DataFrame({**points, "words": "x"})
    if kind == "arrow":
        return pytest.importorskip("pyarrow").table(points)
    if kind == "big-endian":
        return {name: column.astype(column.dtype.newbyteorder(">")) for name, column in points.items()}
    return ({name: column[k : k + 1000] for name, column in points.items()} for k in range(0, 22_284, 1000))


@pytest.mark.parametrize("kind", ["structured", "pandas", "arrow", "big-endian", "iterator"])
def test_tables_of_every_kind(kind: str, expected: Any, tmp_path: Path) -> None:
    report = run(configuration(GRID, HEIGHTS), tables(kind), store=tmp_path)
    assert report.points == 22_284
    np.testing.assert_array_equal(counts(tmp_path), expected)


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "arrow"])
def test_files_of_every_kind(kind: str, expected: Any, tmp_path: Path) -> None:
    points, path = segments(), tmp_path / f"points.{kind}"
    if kind.startswith("csv"):
        rows = zip(*(column.tolist() for column in points.values()), strict=True)
        text = "\n".join([",".join(points), *(",".join(map(repr, row)) for row in rows)])
        path.write_bytes(gzip.compress(text.encode()) if kind.endswith("gz") else text.encode())
    else:
        pyarrow = pytest.importorskip("pyarrow")
        table = pyarrow.table(points)
        if kind == "parquet":
            pytest.importorskip("pyarrow.parquet").write_table(table, path)
        else:
            with pyarrow.ipc.new_file(path, table.schema) as file:
                file.write_table(table, max_chunksize=3000)
    source = {
        "reader": kind.partition(".")[0],
        "files": str(path),
        "coordinates": {"longitude": "longitude", "latitude": "latitude"},
        "variables": {"h_li": "h_li"},
    }
    run(configuration(GRID, HEIGHTS, source, batch_points=5000), store=tmp_path / "store")
    np.testing.assert_array_equal(counts(tmp_path / "store"), expected)


def of_shard(shard: int) -> Any:
    points = segments()
    grid = Config.from_dict(configuration(GRID)).grid
    mine = grid.shard_of(grid.locate(points["longitude"], points["latitude"])) == shard
    yield {name: column[mine][:500] for name, column in points.items()}
    yield {name: column[mine][500:] for name, column in points.items()}


def test_a_function_that_answers_shards(expected: Any, tmp_path: Path) -> None:
    shards = make_plan(Config.from_dict(configuration(GRID)), segments()).shards
    run(configuration(GRID, HEIGHTS), FunctionSource(of_shard, shards.tolist()), store=tmp_path)
    np.testing.assert_array_equal(counts(tmp_path), expected)


def test_batches_that_were_spilled_go_with_their_source() -> None:
    config = Config.from_dict(configuration(GRID, HEIGHTS))
    source = source_from(config, tables("iterator"))
    assert isinstance(source, SpilledSource) and len(source.names) == 23
    folder = Path(source.folder)
    assert folder.exists()
    source.close()
    assert not folder.exists()


@pytest.mark.parametrize(
    ("filters", "keep"),
    [
        ([{"dataset": SEGMENTS + "h_li", "op": "gt", "value": 1000}], lambda p: p["h_li"] > 1000),
        ([{"dataset": SEGMENTS + "h_li", "op": "le", "value": 0, "keep": False}], lambda p: p["h_li"] > 0),
        (
            [{"expression": "(h_li > 0) & (h_li_sigma < 0.05)"}],
            lambda p: (p["h_li"] > 0) & (p["h_li_sigma"] < 0.05),
        ),
    ],
)
def test_filters(filters: Any, keep: Any, tmp_path: Path) -> None:
    report = run(configuration(GRID, HEIGHTS, {**ATL06, "filters": filters}), store=tmp_path)
    assert report.points == int(keep(segments()).sum()) == counts(tmp_path).sum()


def test_columns_of_two_dimensions(tmp_path: Path) -> None:
    beam = "{group}/heights/"
    source = {
        "reader": "h5coro",
        "files": str(SAMPLES / "ATL03_*.h5"),
        "groups": ["gt1r"],
        "coordinates": {"longitude": beam + "lon_ph", "latitude": beam + "lat_ph"},
        "variables": {"land": {"path": beam + "signal_conf_ph", "column": 0}},
        "filters": [{"dataset": beam + "signal_conf_ph", "column": 0, "op": "ge", "value": 2}],
    }
    report = run(
        configuration(healpix(11, 13, 19), {"n": {"function": "min", "source": "land"}}, source),
        store=tmp_path,
    )
    with h5py.File(SAMPLES / "ATL03_clip_gt1r_subset.h5") as file:
        assert report.points == int((file["gt1r/heights/signal_conf_ph"][:, 0] >= 2).sum()) > 0


def test_what_is_wrong_with_points_is_said(tmp_path: Path) -> None:
    config = configuration(GRID, HEIGHTS)
    points = segments()
    with pytest.raises(GridConfigError, match="no column 'longitude'"):
        run(config, {"lon": points["longitude"]}, store=tmp_path)
    with pytest.raises(GridConfigError, match="different lengths"):
        run(config, {**points, "h_li": points["h_li"][:5]}, store=tmp_path)
    with pytest.raises(GridConfigError, match="not int"):
        run(config, 5, store=tmp_path)
    with pytest.raises(GridConfigError, match="data_source is missing"):
        run(config, store=tmp_path)
    with pytest.raises(SchemaError, match="no column"):
        run(config, {name: points[name] for name in ("longitude", "latitude")}, store=tmp_path)
    with pytest.raises(SchemaError, match="column 'h_li' of the points holds datetime64"):
        run(config, {**points, "h_li": points["h_li"].astype("M8[s]")}, store=tmp_path)
    with pytest.raises(GridConfigError, match="column 'longitude' of the points holds <U"):
        run(config, {**points, "longitude": points["longitude"].astype(str)}, store=tmp_path)
    for codecs in (["nonsense"], ["zstd", "bytes"], ["crc32c"], ["vlen-utf8"], ["transpose"]):
        wrong = configuration(GRID, HEIGHTS)
        wrong["output"]["storage"] = {"inner_codecs": codecs}
        with pytest.raises(GridConfigError, match="output.storage.inner_codecs is"):
            run(wrong, points, store=tmp_path)
    with pytest.raises(GridConfigError, match="nothing matches"):
        Config.from_dict(configuration(GRID, HEIGHTS, {**ATL06, "files": str(tmp_path / "*.h5")}))
    with pytest.raises(FileNotFoundError, match="no file"):
        run(configuration(GRID, HEIGHTS, {**ATL06, "files": str(tmp_path / "a.h5")}), store=tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_yaml_and_json_say_the_same(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    given = configuration(GRID, HEIGHTS, ATL06)
    given["output"]["store"] = "out.zarr"
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(given))
    (tmp_path / "a.json").write_text(json.dumps(given))
    one, other = load_config(tmp_path / "a.yaml"), load_config(tmp_path / "a.json")
    assert one.signature == other.signature and one.output.store == str(tmp_path / "out.zarr")
    (tmp_path / "b.yaml").write_text("a: [")
    with pytest.raises(GridConfigError, match="no YAML"):
        load_config(tmp_path / "b.yaml")
    (tmp_path / "c.json").write_text("[1]")
    with pytest.raises(GridConfigError, match="holds list"):
        load_config(tmp_path / "c.json")


def test_what_is_read_decides_what_is_current(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    rows = [f"{k / 100},{k / 200},{k},{k * 2}" for k in range(9000)]
    path.write_text("\n".join(["longitude,latitude,a,b", *rows]))
    names = {"longitude": "longitude", "latitude": "latitude"}
    source = {"reader": "csv", "files": str(path), "coordinates": names, "variables": {"h": "a"}}
    variables = {"h": {"function": "max", "source": "h"}}

    def again(**changed: Any) -> tuple[int, int]:
        report = run(
            configuration(healpix(2, 4, 6), variables, {**source, **changed}), store=tmp_path / "store"
        )
        return report.written, report.current

    written, _ = again()
    assert written > 1 and again() == (0, written)
    assert again(variables={"h": "b"}) == (written, 0), "another column"
    assert again() == (written, 0)
    assert again(filters=[{"dataset": "a", "op": "gt", "value": -1}]) == (written, 0)
    assert again() == (written, 0)
    # one digit in the middle of a file of the same length
    text = path.read_text()
    path.write_text(text.replace("\n45.0,22.5,4500,9000", "\n45.0,22.5,4501,9000"))
    assert path.stat().st_size == len(text)
    assert again() == (written, 0)


def test_groups_that_are_nowhere_are_said(tmp_path: Path) -> None:
    config = configuration(GRID, HEIGHTS, {**ATL06, "groups": ["gt1l", "gt9l"]})
    with pytest.warns(NoDataWarning, match="'gt9l' is in none of 8 files"):
        run(config, store=tmp_path)


HEAD = "longitude,latitude,v\n"
BROKEN: dict[str, tuple[bytes, str]] = {
    "short.csv": (b"1,2,3\n4,5\n", "short.csv, line 3: 2 values; the header has 3"),
    "text.csv": (b"1,2,3\n\n4,5,abc\n", "text.csv, line 4: column 'v' holds 'abc', and no number"),
    "latin.csv": (b"1,2,3\n\xff\xfe,1,2\n", "latin.csv' cannot be read as csv"),
    "quote.csv": (b'1,2,"3\n4,5,6\n', "quote.csv, line 3: column 'v' holds"),
    "cut.csv.gz": (
        gzip.compress(HEAD.encode() + b"1,2,3\n" * 5000)[:-20],
        "cannot be read as csv: Compressed file",
    ),
    "not.csv.gz": (b"hello", "not.csv.gz' cannot be read as csv"),
    "not.csv.xz": (b"hello", "not.csv.xz' cannot be read as csv"),
    "not.parquet": (b"PAR1xxxx", "not.parquet' cannot be read as parquet"),
    "not.arrow": (b"ARROW1", "not.arrow' cannot be read as arrow"),
    "not.hdf5": (b"hello", "not.hdf5' cannot be read as hdf5"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_files_that_are_broken_are_named(name: str, tmp_path: Path) -> None:
    content, words = BROKEN[name]
    kind = name.split(".")[1]
    if kind in ("parquet", "arrow"):
        pytest.importorskip("pyarrow")
    plain = name.endswith(".csv")
    (tmp_path / name).write_bytes(HEAD.encode() + content if plain else content)
    source = {
        "reader": kind,
        "files": str(tmp_path / name),
        "coordinates": {"longitude": "longitude", "latitude": "latitude"},
        "variables": {"v": "v"},
    }
    config = configuration(healpix(0, 1, 3), {"m": {"function": "mean", "source": "v"}}, source)
    with pytest.raises((GridConfigError, ShardFailedError), match=words):
        run(config, store=tmp_path / "store")


def test_odd_rows_are_no_points(tmp_path: Path) -> None:
    rows = ["1e400,2,3", "4,95,1", "nan,0,1", ",,", "   ", "361,0,5", "-180,90,7", ' 20 ,"10",8']
    (tmp_path / "a.csv").write_text("\ufeff" + HEAD + "\n".join(rows), encoding="utf-8")
    source = {
        "reader": "csv",
        "files": str(tmp_path / "a.csv"),
        "coordinates": {"longitude": "longitude", "latitude": "latitude"},
        "variables": {"v": "v"},
    }
    report = run(
        configuration(healpix(0, 1, 3), HEIGHTS | {"h_mean": "count"}, source), store=tmp_path / "store"
    )
    assert (report.points, report.outside) == (3, 4)


@pytest.mark.parametrize(
    ("group", "words"),
    [
        ("short", "has shape .2,., and there are 3 points"),
        ("single", "is a single value"),
        ("text", "holds .S1; numbers are needed"),
        ("nested", "has no dataset 'nested/lon'"),
        ("flat", "flat/v' has 2 dimensions; path: and column:"),
    ],
)
def test_datasets_that_do_not_fit_are_named(group: str, words: str, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made: dict[str, dict[str, Any]] = {
            "short": {"lon": np.zeros(3), "lat": np.zeros(3), "v": np.zeros(2)},
            "single": {"lon": 1.0, "lat": 2.0, "v": 3.0},
            "text": {"lon": np.array([b"x"]), "lat": np.zeros(1), "v": np.zeros(1)},
            "flat": {"lon": np.zeros(3), "lat": np.zeros(3), "v": np.zeros((3, 2))},
        }
        for name, datasets in made.items():
            for key, values in datasets.items():
                file[f"{name}/{key}"] = values
        file.create_group("nested/lon")
    source = {
        "files": str(tmp_path / "a.h5"),
        "groups": [group],
        "coordinates": {"longitude": "{group}/lon", "latitude": "{group}/lat"},
        "variables": {"v": "{group}/v"},
    }
    config = configuration(healpix(0, 1, 3), {"m": {"function": "mean", "source": "v"}}, source)
    with pytest.raises(GridConfigError, match=words):
        run(config, store=tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_what_is_masked_or_filled_is_no_number(tmp_path: Path) -> None:
    grid = healpix(1, 3, 4)
    fields = {
        "all": "count",
        "n": {"function": "count", "source": "h"},
        "mean": {"function": "nanmean", "source": "h", "dtype": "float64"},
    }
    h = np.array([1, 2, -99, 3], np.int16)
    place = {"lon": np.full(4, 10.0), "lat": np.full(4, 20.0)}

    def found(points: Any, source: Any, name: str) -> list[Any]:
        run(configuration(grid, fields, source), points, store=tmp_path / name)
        store = open_grid(tmp_path / name)
        return [store.point(10.0, 20.0, field) for field in fields]

    columns = {"longitude": place["lon"], "latitude": place["lat"]}
    assert found({**columns, "h": np.ma.masked_equal(h, -99)}, None, "masked") == [4, 3, 2.0]
    assert found({**columns, "h": np.ma.masked_equal(h.astype("f4"), -99)}, None, "floats") == [4, 3, 2.0]
    assert found({**columns, "h": np.ma.masked_equal(h, 7)}, None, "none masked") == [4, 4, -23.25]
    hidden = np.ma.array(place["lon"], mask=[False, False, False, True])
    assert found({**columns, "longitude": hidden, "h": h}, None, "place") == [3, 3, -32.0]

    source = {
        "reader": "hdf5",
        "files": str(tmp_path / "a.h5"),
        "coordinates": {"longitude": "lon", "latitude": "lat"},
        "variables": {"h": "h"},
    }
    for k, (stored, said, wanted) in enumerate(
        [
            (h, {"_FillValue": np.int16(-99)}, [4, 3, 2.0]),
            (h.astype("f4"), {"_FillValue": np.array([-99], "f4")}, [4, 3, 2.0]),
            (h * 10, {"_FillValue": np.int16(-990), "scale_factor": 0.1, "add_offset": 5.0}, [4, 3, 7.0]),
            (h, {"_FillValue": "none"}, [4, 4, -23.25]),
            (h, {"scale_factor": np.float32(2)}, [4, 4, -46.5]),
            (h.astype(">i2"), {}, [4, 4, -23.25]),
        ]
    ):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["lon"], file["lat"], file["h"] = place["lon"], place["lat"], stored
            file["h"].attrs.update(said)
        assert found(None, source, f"file {k}") == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"filters": [{"dataset": "a", "op": "in", "value": 0}]}, "filters.0..value does not go with op in"),
        ({"filters": [{"dataset": "a", "op": "in", "values": []}]}, "values is .*a list of finite numbers"),
        ({"filters": [{"dataset": "a", "op": "not_in", "values": 3}]}, "values is 3"),
        ({"filters": [{"dataset": "a", "op": "eq", "values": [0]}]}, "values does not go with op eq"),
        ({"filters": [{"dataset": "a", "op": "eq"}]}, "value is None; op eq needs a finite number"),
        ({"filters": [{"dataset": "a", "op": "lt", "value": float("nan")}]}, "value is nan"),
        ({"filters": [{"dataset": "a", "op": "lt", "value": "5"}]}, "value is '5'"),
        ({"filters": [{"dataset": "a", "op": "lt", "value": 5, "column": "x"}]}, "column is 'x'"),
        ({"filters": [{"dataset": "a", "op": "lt", "value": 5, "keep": "no"}]}, "keep is 'no'"),
        ({"filters": [{"dataset": "a", "value": 5}]}, "op is None"),
        ({"filters": [{"op": "eq", "value": 5}]}, "names no dataset"),
        ({"filters": [{"expression": "h_il > 0"}]}, "uses h_il, which data_source.variables does not name"),
        ({"quality_filter": {"dataset": "a", "value": "0"}}, "quality_filter.value is '0'"),
        ({"quality_filter": {"dataset": "a", "op": "eq"}}, "quality_filter.op is unknown"),
    ],
)
def test_filters_that_compare_with_nothing(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(GridConfigError, match=words):
        Config.from_dict(configuration(GRID, HEIGHTS, {**ATL06, **changes}))


@pytest.mark.parametrize("column", [2, -3])
def test_a_filter_on_a_column_that_is_not_there(column: int, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["lon"], file["lat"], file["flags"] = np.full(3, 10.0), np.full(3, 20.0), np.zeros((3, 2))
    source = {
        "reader": "hdf5",
        "files": str(tmp_path / "a.h5"),
        "coordinates": {"longitude": "lon", "latitude": "lat"},
        "filters": [{"dataset": "flags", "op": "eq", "value": 0, "column": column}],
    }
    with pytest.raises(GridConfigError, match=f"'flags' has shape .*, and column is {column}"):
        run(configuration(GRID, {"n": "count"}, source), store=tmp_path / "out")
