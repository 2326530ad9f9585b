"""Migrations: the same values, mostly the same files; interrupted, repeated, confirmed, refused."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.care import check, migrate
from terrazzo.care.migrate import JOURNAL
from terrazzo.cli import main
from terrazzo.errors import (
    ContainsNodeError,
    LimitError,
    MetadataError,
    NodeNotFoundError,
    StoreError,
    UnsupportedError,
)
from terrazzo.strategy import InPlace

VALUES = np.arange(63.0).reshape(9, 7)


def hierarchy(place: Any, **form: Any) -> None:
    shards = None if form.get("zarr_format") == 2 else (4, 6)
    root = terrazzo.open_group(place, mode="w", attributes={"title": "t"}, **form)
    root.create_array("g/sharded", data=VALUES, chunks=(2, 3), shards=shards, attributes={"unit": "m"})
    root.create_array("fortran", data=VALUES.astype(">i4"), chunks=(4, 4), order="F", compressors="gzip:1")
    root.create_array("scalar", data=np.float32(2.5))


def same(place: Any) -> None:
    root = terrazzo.open(place, mode="r")
    assert root.attrs.asdict() == {"title": "t"}
    np.testing.assert_array_equal(root["g/sharded"][...], VALUES)
    np.testing.assert_array_equal(root["fortran"][...], VALUES)
    assert root["g/sharded"].attrs["unit"] == "m"
    assert root["scalar"][()] == 2.5


@pytest.fixture(params=[{"zarr_format": 2}, {"dialect": "P"}, {"dialect": "D"}], ids=["v2", "P", "D"])
def form(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(request.param)


def files(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file with its number, so that a link is seen."""
    return {
        file.relative_to(folder).as_posix(): (file.stat().st_ino, file.read_bytes())
        for file in folder.rglob("*")
        if file.is_file() and not file.name.endswith(".__lock")
    }


def test_a_dry_run_changes_nothing(form: dict[str, Any], tmp_path: Path) -> None:
    hierarchy(tmp_path / "a", **form)
    before = files(tmp_path / "a")
    report = migrate(tmp_path / "a", dry_run=True)
    assert report.nodes == 5
    assert report.same + report.linked > 0
    assert files(tmp_path / "a") == before


def test_in_place_no_chunk_is_rewritten(form: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "a"
    hierarchy(folder, **form)
    before = files(folder)
    report = migrate(folder, verify=True)
    assert report.copied == 0
    assert report.encoded == []
    assert {
        name: found for name, found in files(folder).items() if name in before and name != "zarr.json"
    } == {name: found for name, found in before.items() if name != "zarr.json"}
    same(folder)
    assert terrazzo.open(folder, mode="r").metadata.dialect == "v3"
    again = migrate(folder)  # it has happened: nothing is done twice
    assert (again.linked, again.removed) == (0, 0)
    terrazzo.open(folder)["g/sharded"].attrs["later"] = 1
    assert migrate(folder, confirm=True).removed > 0
    same(folder)
    assert terrazzo.open(folder, mode="r")["g/sharded"].attrs["later"] == 1
    left = files(folder)
    assert not any(
        name.startswith(("meta/", "data/")) or name.endswith((".zarray", ".zattrs", ".zgroup"))
        for name in left
    )
    assert JOURNAL not in left
    inodes = {number for number, _ in before.values()}
    chunks = [number for name, (number, _) in left.items() if not name.endswith("zarr.json")]
    assert chunks
    assert inodes.issuperset(chunks)
    assert check(folder).ok


def test_into_another_place(form: dict[str, Any], tmp_path: Path) -> None:
    hierarchy(tmp_path / "a", **form)
    before = files(tmp_path / "a")
    report = migrate(tmp_path / "a", tmp_path / "b", verify=True)
    assert report.verified
    assert (report.linked, report.copied) == (0, migrate(tmp_path / "a", tmp_path / "c", dry_run=True).copied)
    # what is written there later is written there alone
    terrazzo.open(tmp_path / "b", strategy=InPlace(torn_reads=True))["g/sharded"][0] = VALUES[0]
    assert files(tmp_path / "a") == before
    same(tmp_path / "b")
    assert migrate(tmp_path / "a", tmp_path / "d", link=True, verify=True).linked == report.copied
    memory: dict[str, bytes] = {}
    assert migrate(tmp_path / "a", memory, verify=True).copied == report.copied
    same(memory)


@pytest.mark.parametrize("steps", [1, 4, 9])
def test_an_interrupted_migration_leaves_the_old_and_goes_on(
    form: dict[str, Any], tmp_path: Path, steps: int
) -> None:
    folder = tmp_path / "a"
    hierarchy(folder, **form)

    def stop(done: int, total: int) -> None:
        if done >= min(steps, total):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        migrate(folder, progress=stop)
    same(folder)
    assert terrazzo.open(folder, mode="r").metadata.dialect != "v3"
    migrate(folder, verify=True, confirm=True)
    same(folder)
    assert terrazzo.open(folder, mode="r").metadata.dialect == "v3"


@pytest.mark.parametrize("writes", range(8))
def test_a_failing_write_leaves_one_of_both(writes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store fails at each write in turn; what is found is the old hierarchy or the new one, whole."""
    store: dict[str, bytes] = {}
    hierarchy(store, dialect="P")
    left = [writes]

    class Failing(dict[str, bytes]):
        def __setitem__(self, key: str, value: bytes) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise OSError("no space left")
            super().__setitem__(key, value)

    failing = Failing(store)
    with pytest.raises(OSError, match="no space left"):
        migrate(failing)
    same(dict(failing))
    left[0] = 10_000
    migrate(failing, verify=True)
    same(failing)


def test_a_single_array_of_zarr_2(tmp_path: Path) -> None:
    hierarchy(tmp_path / "a", zarr_format=2)
    migrate(tmp_path / "a" / "g" / "sharded", verify=True)
    assert terrazzo.open(tmp_path / "a", path="g/sharded", mode="r").metadata.dialect == "v3"
    np.testing.assert_array_equal(terrazzo.open(tmp_path / "a" / "g" / "sharded", mode="r")[...], VALUES)


def test_the_sharding_of_early_2023_gets_its_final_document() -> None:
    store: dict[str, bytes] = {}
    array = terrazzo.create_array(store, data=VALUES, chunks=(3, 7), shards=(9, 7), compressors=None)
    document = array.metadata.to_document()
    del document["codecs"][0]["configuration"]["index_codecs"]

    store["zarr.json"] = json.dumps(document).encode()
    migrate(store, verify=True)
    said = json.loads(store["zarr.json"])["codecs"][0]["configuration"]
    assert [codec["name"] for codec in said["index_codecs"]] == ["bytes", "crc32c"]
    assert set(store) == {"zarr.json", "c/0/0"}


def test_zarr_3_to_zarr_2(tmp_path: Path) -> None:
    root = terrazzo.open_group(tmp_path / "a", mode="w", attributes={"title": "t"})
    root.create_array("plain", data=VALUES, chunks=(2, 3), compressors="zstd:1")
    root.create_array("sharded", data=VALUES, chunks=(2, 3), shards=(4, 6), dimension_names=["y", "x"])
    report = migrate(tmp_path / "a", tmp_path / "b", zarr_format=2, verify=True)
    assert report.encoded == ["sharded"]
    assert report.copied == 15
    found = terrazzo.open(tmp_path / "b", mode="r")
    assert found.metadata.zarr_format == 2
    np.testing.assert_array_equal(found["sharded"][...], VALUES)
    assert found["sharded"].chunks == (2, 3)
    assert found["sharded"].attrs["_ARRAY_DIMENSIONS"] == ["y", "x"]
    with pytest.raises(MetadataError, match="give a destination"):
        migrate(tmp_path / "a", zarr_format=2)
    del root["sharded"]
    migrate(tmp_path / "a", zarr_format=2, verify=True, confirm=True)
    assert terrazzo.open(tmp_path / "a", mode="r").metadata.zarr_format == 2


def test_what_cannot_be_migrated_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(NodeNotFoundError):
        migrate(tmp_path / "nothing")
    store: dict[str, bytes] = {}
    root = terrazzo.open_group(store, mode="w", dialect="P")
    root.create_array("meta", data=VALUES)
    before = dict(store)
    with pytest.raises(ContainsNodeError, match="'/meta'"):
        migrate(store)
    with pytest.raises(UnsupportedError, match="whole"):
        migrate(root["meta"])
    assert store == before
    both: dict[str, bytes] = {}
    terrazzo.create_array(both, data=VALUES, zarr_format=2)
    terrazzo.create_array(both, data=VALUES + 1)
    with pytest.raises(ContainsNodeError, match=r"zarr\.json already"):
        migrate(both)
    with pytest.raises(ValueError, match="zarr_format is 4"):
        migrate(store, zarr_format=4)


def test_records_that_zarr_3_cannot_say(tmp_path: Path) -> None:
    zarray = {
        "zarr_format": 2,
        "shape": [2],
        "chunks": [2],
        "dtype": [["a", "<i2"], ["b", ">i4"]],
        "compressor": None,
        "fill_value": None,
        "order": "C",
        "filters": None,
    }

    values = np.array([(1, 2), (3, 4)], [("a", "<i2"), ("b", ">i4")])
    store = {".zarray": json.dumps(zarray).encode(), "0": values.tobytes()}
    with pytest.raises(MetadataError, match="several byte orders"):
        migrate(store)
    target: dict[str, bytes] = {}
    assert migrate(store, target, verify=True).encoded == [""]
    assert terrazzo.open(target)[...].tolist() == [(1, 2), (3, 4)]


def test_values_that_differ_keep_the_old(monkeypatch: pytest.MonkeyPatch) -> None:
    store: dict[str, bytes] = {}
    terrazzo.create_array(store, data=VALUES, compressors=None, zarr_format=2)
    room = sys.modules["terrazzo.care.migrate"]  # the package has the function under this name
    whole: Callable[..., Any] = room._carry_out

    def spoiled(*arguments: Any) -> None:
        whole(*arguments)
        document = store["zarr.json"].replace(b"float64", b"int64").replace(b"0.0", b"0")
        store["zarr.json"] = document

    monkeypatch.setattr(room, "_carry_out", spoiled)
    with pytest.raises(StoreError, match="differ"):
        migrate(store, verify=True, confirm=True)
    assert ".zarray" in store


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = os.fspath(tmp_path / "a")
    hierarchy(place, dialect="P")
    assert main(["migrate", place, "--dry-run"]) == 0
    assert "P to v3: 5 documents" in capsys.readouterr().out
    assert main(["migrate", place, "--verify", "--confirm", "--json"]) == 0
    assert '"verified": true' in capsys.readouterr().out
    same(place)


def test_what_is_open_already_is_migrated_with_its_options(tmp_path: Path) -> None:
    values = np.arange(63, dtype="i4").reshape(9, 7)
    place = tmp_path / "draft"
    opened = terrazzo.create_array(
        place, data=values, chunks=(2, 3), chunk_key_encoding={"name": "fanout"}, config={"drafts": "fanout"}
    )
    with pytest.raises(MetadataError, match="drafts"):
        migrate(place, tmp_path / "no")
    report = migrate(opened, tmp_path / "two", zarr_format=2, verify=True)
    assert (report.nodes, report.verified) == (1, True)
    np.testing.assert_array_equal(terrazzo.open_array(tmp_path / "two", mode="r")[...], values)
    group = terrazzo.create_group(tmp_path / "group")
    group.create_array("a", data=values, chunks=(2, 3))
    lax = terrazzo.open_group(tmp_path / "group", config={"missing": "error"})
    (tmp_path / "group" / "a" / "c" / "0" / "0").unlink()
    assert migrate(lax, tmp_path / "three", zarr_format=2, verify=True).verified
    assert (terrazzo.open_array(tmp_path / "three" / "a", mode="r")[:2, :3] == 0).all()
    strict = replace(opened.options, limits=replace(opened.options.limits, metadata_nbytes=10))
    narrow = terrazzo.Array(opened.store, opened.path, opened.metadata, strict)
    with pytest.raises(LimitError, match="metadata_nbytes"):
        migrate(narrow, tmp_path / "four")
