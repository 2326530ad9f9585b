"""Hierarchies of Zarr 2 and of the draft, through the same doors as those of Zarr 3."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.care import check
from terrazzo.errors import (
    ArrayNotFoundError,
    ContainsArrayError,
    ContainsNodeError,
    MetadataError,
    NodeNotFoundError,
    ReadOnlyError,
)
from terrazzo.storage import MemoryStore
from terrazzo.stores.watching import CountingStore

VALUES = np.arange(63.0).reshape(9, 7)
FORMS: list[dict[str, Any]] = [{"zarr_format": 2}, {"dialect": "P"}, {"dialect": "D"}]
form = pytest.mark.parametrize("form", FORMS, ids=["v2", "P", "D"])
Form = dict[str, Any]


def shards(form: Form) -> Any:
    return None if form == {"zarr_format": 2} else (4, 6)


@form
@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_a_hierarchy_is_made_found_listed_changed_and_read(form: Form, kind: str, tmp_path: Path) -> None:
    place: Any = tmp_path / "x.zarr" if kind == "folder" else {}
    root = terrazzo.open_group(place, mode="w", attributes={"title": "t"}, **form)
    root.create_array("a/deep", data=VALUES, chunks=(2, 3), shards=shards(form), attributes={"unit": "m"})
    root.create_array("scalar", data=np.float32(2.5))
    root.create_group("empty")
    found = terrazzo.open(place, mode="r+")
    assert found.attrs["title"] == "t"
    assert [path for path, _ in found.members(None)] == ["a", "empty", "scalar", "a/deep"]
    array = found["a/deep"]
    assert array.metadata.zarr_format == form.get("zarr_format", 3)
    assert array.metadata.dialect == ("v2" if "zarr_format" in form else "draft")
    np.testing.assert_array_equal(array[...], VALUES)
    assert found["scalar"][()] == 2.5
    array[3:6, 2:5] = -1
    array.attrs["k"] = [1, None]
    array.resize((11, 7))
    again = terrazzo.open_array(place, path="a/deep", mode="r")
    wanted = np.zeros((11, 7))
    wanted[:9] = VALUES
    wanted[3:6, 2:5] = -1
    np.testing.assert_array_equal(again[...], wanted)
    assert again.attrs.asdict() == {"unit": "m", "k": [1, None]}
    assert again.shards == shards(form)
    assert check(place).ok
    if kind == "folder":
        copied = pickle.loads(pickle.dumps(again))
        np.testing.assert_array_equal(copied[...], wanted)
    del found["a"]
    assert sorted(terrazzo.open(place, mode="r")) == ["empty", "scalar"]


@form
def test_a_node_is_not_made_over_another(form: Form) -> None:
    store: dict[str, bytes] = {}
    terrazzo.create_array(store, name="x", shape=4, dtype="i4", **form)
    with pytest.raises(ContainsArrayError):
        terrazzo.create_array(store, name="x", shape=4, dtype="i4", **form)
    terrazzo.create_array(store, name="x", shape=5, dtype="i4", overwrite=True, **form)
    with pytest.raises(ContainsNodeError):
        terrazzo.create_array(store, name="x/below", shape=5, dtype="i4", **form)
    assert terrazzo.open_array(store, path="x", mode="r").shape == (5,)


@form
def test_overwriting_a_store_of_another_format_leaves_nothing_of_it(form: Form) -> None:
    store: dict[str, bytes] = {}
    terrazzo.create_array(store, name="old", data=VALUES)
    terrazzo.open_group(store, mode="w", **form)
    assert not any("old" in key for key in store)
    terrazzo.open_group(store, mode="w")
    assert set(store) == {"zarr.json"}


@form
def test_a_copy_into_zarr_3_and_back(form: Form) -> None:
    store: dict[str, bytes] = {}
    terrazzo.create_array(store, name="x", data=VALUES, chunks=(2, 3), shards=shards(form), **form)
    plain = terrazzo.from_array({}, data=terrazzo.open(store, path="x"))
    assert plain.metadata.zarr_format == 3
    assert plain.metadata.chunk_key_encoding.name in ("default", "v2")
    np.testing.assert_array_equal(plain[...], VALUES)
    back: dict[str, bytes] = {}
    terrazzo.from_array(back, data=plain, compressors="gzip:1", shards=None, **form)
    np.testing.assert_array_equal(terrazzo.open(back)[...], VALUES)


@form
def test_parts_are_read_by_as_many_requests_as_in_zarr_3(form: Form) -> None:
    """The same chunks cost the same requests, whatever their documents are."""
    counted = []
    for made in ({}, form):
        below = MemoryStore()
        terrazzo.create_array(below, name="x", data=VALUES, chunks=(2, 3), shards=shards(form), **made)
        counting = CountingStore(below)
        array = terrazzo.open_array(counting, path="x", mode="r")
        counting.reset()
        np.testing.assert_array_equal(array[1:8, 2:6], VALUES[1:8, 2:6])
        counted.append((counting.requests, counting.round_trips))
    assert counted[0] == counted[1]


def test_where_two_formats_are_in_one_place_zarr_3_is_found() -> None:
    store: dict[str, bytes] = {}
    terrazzo.create_array(store, data=np.zeros(3), zarr_format=2)
    terrazzo.create_array(store, data=np.ones(4))
    assert terrazzo.open(store).shape == (4,)
    assert terrazzo.open(store, zarr_format=2).shape == (3,)
    assert terrazzo.open(store, zarr_format=3).shape == (4,)
    del store["zarr.json"]
    with pytest.raises(NodeNotFoundError):
        terrazzo.open_array(store, zarr_format=3, mode="r")


def test_contradictions_are_told() -> None:
    with pytest.raises(ValueError, match="contradict"):
        terrazzo.open({}, zarr_format=2, dialect="P")
    with pytest.raises(ValueError, match="dialect is 'Q'"):
        terrazzo.create_array({}, shape=1, dtype="i4", dialect="Q")
    root = terrazzo.open_group({}, zarr_format=2)
    with pytest.raises(MetadataError, match="cannot be mixed"):
        root.create_array("x", shape=1, dtype="i4", zarr_format=3)
    with pytest.raises(MetadataError, match="no shards"):
        root.create_array("x", shape=8, dtype="i4", chunks=2, shards=4)
    with pytest.raises(MetadataError, match="dimensions"):
        root.create_array("x", shape=8, dtype="i4", dimension_names=["x"])
    assert list(root) == []


# Zarr 2 alone


def test_a_change_keeps_what_zarr_3_cannot_say() -> None:
    store: dict[str, bytes] = {}
    terrazzo.create_array(store, data=np.arange(4), zarr_format=2)
    said = json.loads(store[".zarray"])
    store[".zarray"] = json.dumps({**said, "fill_value": None, "written_by": "somebody"}).encode()
    array = terrazzo.open_array(store)
    array.resize((9,))
    array.attrs["a"] = 1
    now = json.loads(store[".zarray"])
    assert now["fill_value"] is None
    assert now["written_by"] == "somebody"
    assert now["shape"] == [9]
    assert json.loads(store[".zattrs"]) == {"a": 1}


def test_consolidated_metadata_of_zarr_2() -> None:
    store: dict[str, bytes] = {}
    root = terrazzo.open_group(store, zarr_format=2, attributes={"a": 1})
    root.create_array("g/x", data=VALUES, attributes={"u": 2})
    terrazzo.consolidate_metadata(store)
    said = json.loads(store[".zmetadata"])
    assert said["zarr_consolidated_format"] == 1
    assert set(said["metadata"]) == {".zgroup", ".zattrs", "g/.zgroup", "g/x/.zarray", "g/x/.zattrs"}
    counting = CountingStore(MemoryStore())
    for key, value in store.items():
        counting.set(key, value)
    group = terrazzo.open_consolidated(counting, mode="r")
    counting.reset()
    assert [path for path, _ in group.members(None)] == ["g", "g/x"]
    assert group["g/x"].attrs["u"] == 2
    assert counting.requests == 0
    assert group["g/x"].metadata.zarr_format == 2


def test_chunks_have_the_names_of_zarr_2() -> None:
    store: dict[str, bytes] = {}
    terrazzo.create_array(store, name="x", data=VALUES, chunks=(5, 7), zarr_format=2)
    encoding = {"name": "v2", "separator": "/"}
    terrazzo.create_array(
        store, name="y", data=VALUES, chunks=(5, 7), chunk_key_encoding=encoding, zarr_format=2
    )
    assert {"x/0.0", "x/1.0", "y/0/0", "y/1/0", ".zgroup", "x/.zarray"} <= set(store)
    assert json.loads(store["y/.zarray"])["dimension_separator"] == "/"
    assert "zarr.json" not in store


def test_order_and_byte_order_are_stored() -> None:
    store: dict[str, bytes] = {}
    terrazzo.create_array(
        store, data=VALUES.astype(">f4"), chunks=(9, 7), order="F", compressors=None, zarr_format=2
    )
    assert store["0.0"] == VALUES.astype(">f4").T.tobytes()


# the draft alone


def test_implied_groups_are_groups() -> None:
    store: dict[str, bytes] = {}
    root = terrazzo.open_group(store, mode="w", dialect="P")
    root.create_array("a/b/x", data=VALUES)
    del store["meta/root/a.group.json"], store["meta/root/a/b.group.json"], store["meta/root.group.json"]
    root = terrazzo.open(store, mode="r+")
    assert [path for path, _ in root.members(None)] == ["a", "a/b", "a/b/x"]
    root["a"].attrs["made"] = True
    assert json.loads(store["meta/root/a.group.json"]) == {"attributes": {"made": True}}
    with pytest.raises(NodeNotFoundError):
        root["a/c"]


def test_the_entry_point_says_the_suffix_and_what_has_to_be_understood() -> None:
    entry: dict[str, Any] = {
        "zarr_format": "https://purl.org/zarr/spec/core/3.0",
        "metadata_encoding": "application/json",
        "extensions": [],
    }
    document = {
        "shape": [3],
        "data_type": "<i4",
        "chunk_grid": {"type": "regular", "chunk_shape": [3], "separator": "/"},
        "chunk_memory_layout": "C",
        "fill_value": 0,
        "attributes": {},
    }
    store = {
        "zarr.json": json.dumps(entry).encode(),
        "meta/root/x.array": json.dumps(document).encode(),
        "data/root/x/c0": np.arange(3, dtype="<i4").tobytes(),
    }
    assert terrazzo.open(store, path="x", mode="r")[...].tolist() == [0, 1, 2]
    entry["extensions"] = [{"extension": "http://x", "must_understand": True}]
    store["zarr.json"] = json.dumps(entry).encode()
    with pytest.raises(MetadataError, match="understood"):
        terrazzo.open(store, mode="r")
    del store["zarr.json"]
    store["meta/root/x.array.json"] = store.pop("meta/root/x.array")
    assert terrazzo.open(store, path="x", mode="r", dialect="P")[2] == 2


def test_shards_that_a_resize_lost_are_said_and_mended() -> None:
    store: dict[str, bytes] = {}
    terrazzo.create_array(store, name="x", data=VALUES, chunks=(2, 3), shards=(4, 6), dialect="P")
    document = json.loads(store["meta/root/x.array.json"])
    kept = document.pop("storage_transformers")
    store["meta/root/x.array.json"] = json.dumps(document).encode()
    array = terrazzo.open_array(store, path="x", chunks_per_shard=(2, 2))
    np.testing.assert_array_equal(array[...], VALUES)
    array.update_attributes({})
    assert json.loads(store["meta/root/x.array.json"])["storage_transformers"] == kept
    np.testing.assert_array_equal(terrazzo.open_array(store, path="x", mode="r")[...], VALUES)


def test_names_and_codecs_that_the_draft_does_not_have() -> None:
    root = terrazzo.open_group({}, dialect="P")
    with pytest.raises(ValueError, match="names nodes"):
        root.create_array("größe", data=VALUES)
    with pytest.raises(MetadataError, match="zarr-python's draft knows"):
        root.create_array("x", data=VALUES, compressors="crc32c")
    with pytest.raises(MetadataError, match="end"):
        root.create_array("x", data=VALUES, chunks=(2, 3), shards=(4, 6), index_location="start")
    assert list(root) == []


def test_names_that_end_like_documents() -> None:
    root = terrazzo.open_group({}, mode="w", dialect="D")
    root.create_array("x.array", data=VALUES)
    root.create_array("group/root", data=VALUES + 1)
    found = terrazzo.open(root.store, mode="r")
    assert sorted(found.members(None))[0][0] == "group"
    np.testing.assert_array_equal(found["x.array"][...], VALUES)
    np.testing.assert_array_equal(found["group/root"][...], VALUES + 1)


def test_what_a_microscope_wrote() -> None:
    """acquire's own way: `uint16`, a null for the compressor, a file below `meta/` that is no node."""
    values = np.arange(16, dtype="<u2").reshape(4, 4)
    protocol = "https://purl.org/zarr/spec/protocol/core/3.0"
    entry = {
        "extensions": [],
        "metadata_encoding": protocol,
        "metadata_key_suffix": ".json",
        "zarr_format": protocol,
    }
    sharding = {
        "extension": "https://purl.org/zarr/spec/storage_transformers/sharding/1.0",
        "type": "indexed",
        "configuration": {"chunks_per_shard": [2, 2]},
    }
    document = {
        "shape": [4, 4],
        "data_type": "uint16",
        "compressor": None,
        "chunk_grid": {"type": "regular", "chunk_shape": [2, 2], "separator": "/"},
        "chunk_memory_layout": "C",
        "fill_value": 0,
        "extensions": [],
        "attributes": {},
        "storage_transformers": [sharding],
    }
    body = b"".join(values[i : i + 2, j : j + 2].tobytes() for i in (0, 2) for j in (0, 2))
    store = {
        "zarr.json": json.dumps(entry).encode(),
        "meta/root.group.json": b'{"attributes": {"multiscales": []}}',
        "meta/root/0.array.json": json.dumps(document).encode(),
        "meta/acquire.json": b"{}",
        "data/root/0/c0/0": body + np.array([[8 * i, 8] for i in range(4)], "<u8").tobytes(),
    }
    group = terrazzo.open(store, mode="r")
    assert group.attrs.asdict() == {"multiscales": []}
    assert list(group) == ["0"]
    np.testing.assert_array_equal(group["0"][...], values)
    assert group["0"].shards == (4, 4)


# from one format to another


@pytest.mark.parametrize("target", [{}, *FORMS], ids=["v3", "v2", "P", "D"])
@form
def test_a_tree_is_copied_from_any_format_to_any_other(form: Form, target: Form) -> None:
    source = terrazzo.open_group({}, mode="w", **form)
    source.create_array("a/x", data=VALUES, chunks=(2, 3), compressors="gzip:1", attributes={"unit": "m"})
    dest = terrazzo.open_group({}, mode="w", **target)
    terrazzo.copy(source["a"], dest)
    found = terrazzo.open(dest.store, path="a/x", mode="r")
    np.testing.assert_array_equal(found[...], VALUES)
    assert found.attrs["unit"] == "m"
    if not target:
        assert found.metadata.chunk_key_encoding.name in ("default", "v2")
    source.move("a", "b")
    np.testing.assert_array_equal(source["b/x"][...], VALUES)


def test_records_become_those_of_zarr_3_where_they_can() -> None:
    said = {
        "zarr_format": 2,
        "shape": [2],
        "chunks": [2],
        "dtype": [["a", "<i2"], ["b", ">i4"]],
        "compressor": None,
        "fill_value": "AQAAAAAC",
        "order": "C",
        "filters": None,
    }
    values = np.array([(1, 2), (3, 4)], [("a", "<i2"), ("b", ">i4")])
    array = terrazzo.open({".zarray": json.dumps(said).encode(), "0": values.tobytes()})
    assert array[...].tolist() == [(1, 2), (3, 4)]
    plain = terrazzo.from_array({}, data=array)
    assert plain.metadata.data_type.name == "struct"
    assert plain[...].tolist() == [(1, 2), (3, 4)]
    assert plain.fill_value.item() == (1, 2)
    said["dtype"], said["fill_value"] = [["a", "<i2", [2]]], None
    array = terrazzo.open({".zarray": json.dumps(said).encode(), "0": np.arange(4, dtype="<i2").tobytes()})
    assert array[1]["a"].tolist() == [2, 3]
    with pytest.raises(MetadataError, match="no data type describes"):
        terrazzo.from_array({}, data=array)


@pytest.mark.parametrize("way", ["P", "D"])
def test_a_node_of_a_draft_opens_by_the_name_of_a_folder(way: str, tmp_path: Path) -> None:
    root = tmp_path / "draft.zarr"
    values = np.arange(12).reshape(3, 4)
    terrazzo.create_array(root, name="a/b", data=values, chunks=(2, 2), shards=(4, 4), dialect=way)
    for place in (root / "a" / "b", f"{root}/a/b/", f"file://{root}/a/b"):
        found = terrazzo.open_array(place, mode="r")
        assert (found.path, found.metadata.dialect) == ("a/b", "draft")
        assert (found[...] == values).all()
    assert list(terrazzo.open_group(root / "a", mode="r")) == ["b"]
    with pytest.raises(ReadOnlyError):
        terrazzo.open_array(root / "a" / "b", mode="r")[0, 0] = 1
    terrazzo.open(root / "a" / "b", mode="r+")[0, 0] = 7
    assert terrazzo.open(root, mode="r")["a/b"][0, 0] == 7
    assert check(root / "a" / "b", verify_data=True).ok
    with pytest.raises(ArrayNotFoundError):
        terrazzo.open_array(root / "a" / "c", mode="r")
    # what lies below a hierarchy of Zarr 3 is nobody else's
    terrazzo.open_group(root / "own", mode="w", zarr_format=3).create_group("x")
    with pytest.raises(ArrayNotFoundError):
        terrazzo.open_array(root / "own" / "a" / "b", mode="r")
    assert not (root / "a").exists()
