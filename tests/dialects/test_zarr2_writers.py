"""What zarr-python 2 stored beside plain arrays: Python objects, consolidated metadata of both formats, N5."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.care import migrate
from terrazzo.errors import CodecError, MetadataError, UnknownCodecError, UnsupportedError
from terrazzo.stores.memory import MemoryStore
from terrazzo.stores.watching import CountingStore

ARCHIVE = Path(__file__).resolve().parents[1] / "fixtures" / "zarr2.zip"
TRUSTED = {"allow_pickle": True}


def store(name: str) -> dict[str, bytes]:
    """One of the archive's stores, key by key."""
    start = f"arrays/{name}/"
    with zipfile.ZipFile(ARCHIVE) as content:
        return {
            key.removeprefix(start): content.read(key) for key in content.namelist() if key.startswith(start)
        }


def objects() -> dict[str, list[Any]]:
    with zipfile.ZipFile(ARCHIVE) as content:
        return dict(json.loads(content.read("manifest.json"))["objects"])


def listed(found: Any) -> list[Any]:
    return [one.tolist() if isinstance(one, np.ndarray) else one for one in found]


OBJECTS = objects()


@pytest.mark.parametrize("path", OBJECTS)
def test_objects_are_read_and_changed(path: str) -> None:
    stored = store("v2")
    array = terrazzo.open_array(stored, path=path, config=TRUSTED)
    assert listed(array[...]) == OBJECTS[path]
    assert listed(array[1:3]) == OBJECTS[path][1:3]
    array[2:4] = array[0:2]
    wanted = OBJECTS[path][:2] + OBJECTS[path][:2] + OBJECTS[path][4:]
    assert listed(terrazzo.open_array(stored, path=path, mode="r", config=TRUSTED)[...]) == wanted


class Bomb:
    """Runs code where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("raise SystemExit('unpickled')",))


def test_nothing_is_unpickled_unless_that_is_asked_for() -> None:
    numcodecs = pytest.importorskip("numcodecs")
    stored = store("v2")
    for key in [key for key in stored if key.startswith("objects/pickle/") and key[-1].isdigit()]:
        stored[key] = bytes(numcodecs.Blosc().encode(pickle.dumps(Bomb())))
    with pytest.raises(UnknownCodecError, match="allow_pickle"):
        terrazzo.open_array(stored, path="objects/pickle", mode="r")
    with pytest.raises(SystemExit):
        terrazzo.open_array(stored, path="objects/pickle", mode="r", config=TRUSTED)[...]


def test_numcodecs_reads_what_we_write() -> None:
    numcodecs = pytest.importorskip("numcodecs")
    stored = store("v2")
    for path in ("objects/json2", "objects/vlen-array"):
        array = terrazzo.open_array(stored, path=path)
        array[...] = array[...]
        filters = json.loads(stored[f"{path}/.zarray"])["filters"]
        raw = _decompressed(stored[f"{path}/0"])
        found = numcodecs.get_codec(filters[0]).decode(raw)
        n = len(found)
        assert listed(found)[: len(OBJECTS[path])] == OBJECTS[path][:n]


def _decompressed(chunk: bytes) -> bytes:
    numcodecs = pytest.importorskip("numcodecs")
    return bytes(numcodecs.Blosc().decode(chunk))


def test_messagepack() -> None:
    numcodecs = pytest.importorskip("numcodecs.msgpacks")
    things = [1, "two", [3, 4.5], {"five": None}, True, b"six"]
    value = np.empty(6, object)
    value[:] = things
    said = {
        "zarr_format": 2,
        "shape": [6],
        "chunks": [6],
        "dtype": "|O",
        "compressor": None,
        "fill_value": None,
        "order": "C",
        "filters": [numcodecs.MsgPack().get_config()],
    }
    stored = {".zarray": json.dumps(said).encode(), "0": bytes(numcodecs.MsgPack().encode(value))}
    array = terrazzo.open_array(stored)
    assert listed(array[...]) == things
    array[0] = "changed"
    assert listed(numcodecs.MsgPack().decode(stored["0"])) == ["changed", *things[1:]]


@pytest.mark.parametrize(
    ("identity", "chunk"),
    [
        ("json2", b"[1,2"),
        ("json2", b"3"),
        ("json2", b'[1,2,"|O",[3]]'),
        ("json2", b'[1,2,"|O",[-2]]'),
        ("json2", b'[1,2,"|O",[999999999999]]'),
        ("json2", b'[1,2,"|O",[2,1]]'),
        ("json2", b'["|O",[2]]'),
        ("json2", b"[" * 100_000),
        ("vlen-array", b""),
        ("vlen-array", b"\x02\0\0\0\x08\0\0\0"),
        ("vlen-array", b"\x02\0\0\0\xff\xff\xff\xff\0\0\0\0"),
        ("vlen-array", b"\x02\0\0\0\x03\0\0\0abc\0\0\0\0"),
        ("vlen-array", b"\xff\xff\xff\xff"),
    ],
)
def test_damaged_chunks_are_told(identity: str, chunk: bytes) -> None:
    filters = [{"id": identity, **({"dtype": "<i4"} if identity == "vlen-array" else {})}]
    said = {
        "zarr_format": 2,
        "shape": [2],
        "chunks": [2],
        "dtype": "|O",
        "compressor": None,
        "fill_value": 0,
        "order": "C",
        "filters": filters,
    }
    array = terrazzo.open_array({".zarray": json.dumps(said).encode(), "0": chunk}, mode="r")
    with pytest.raises(CodecError):
        array[...]


def test_objects_have_no_form_in_zarr_3() -> None:
    array = terrazzo.open_array(store("v2"), path="objects/json2", mode="r")
    with pytest.raises(MetadataError, match="object"):
        terrazzo.from_array({}, data=array)
    with pytest.raises(MetadataError, match="objects"):
        start = "objects/json2/"
        migrate({k.removeprefix(start): v for k, v in store("v2").items() if k.startswith(start)}, {})


# consolidated metadata


@pytest.mark.parametrize("name", ["v2", "draft"])
def test_consolidated_metadata_are_read_in_one_round(name: str) -> None:
    counting = CountingStore(MemoryStore())
    for key, value in store(name).items():
        counting.set(key, value)
    group = terrazzo.open_consolidated(counting, mode="r")
    plain = terrazzo.open_group(counting, mode="r", use_consolidated=False)
    counting.reset()
    members = [path for path, _ in group.members(None)] if name == "draft" else list(group)
    assert counting.requests == 0
    assert members == ([path for path, _ in plain.members(None)] if name == "draft" else list(plain))
    assert "consolidated" not in members


def test_the_drafts_are_written_as_zarr_python_wrote_them() -> None:
    stored = store("draft")
    key = "meta/root/consolidated/.zmetadata"
    before = json.loads(stored.pop(key))
    del stored["meta/root/consolidated.group.json"]
    terrazzo.consolidate_metadata(stored)
    after = json.loads(stored[key])
    del before["metadata"]["meta/root/consolidated.group.json"]
    assert after == before
    root = terrazzo.open_group(stored, mode="r+")
    root.create_array("g/y", data=np.arange(3))
    assert "g/y" not in terrazzo.open_consolidated(stored, mode="r")
    terrazzo.consolidate_metadata(stored)
    assert terrazzo.open_consolidated(stored, mode="r")["g/y"][2] == 2


def test_the_letter_has_no_place_for_them() -> None:
    stored: dict[str, bytes] = {}
    terrazzo.open_group(stored, mode="w", dialect="D").create_array("x", data=np.arange(3))
    before = dict(stored)
    with pytest.raises(MetadataError, match="nowhere"):
        terrazzo.consolidate_metadata(stored)
    assert stored == before


# N5


def test_a_hierarchy_of_n5_is_found_and_its_values_can_be_changed() -> None:
    stored = store("n5")
    root = terrazzo.open(stored, mode="r+")
    assert root.attrs["title"] == "N5"
    assert sorted(root) == ["blosc", "bz2", "gzip", "raw", "xz"]
    array = root["gzip/int16"]
    assert array.metadata.dialect == "n5"
    wanted = array[...]
    array[2:5, 1:4] = -3
    wanted[2:5, 1:4] = -3
    again = terrazzo.open(stored, path="gzip/int16", mode="r")
    np.testing.assert_array_equal(again[...], wanted)
    with pytest.raises(UnsupportedError, match="N5"):
        array.resize((20, 20))
    with pytest.raises(UnsupportedError, match="N5"):
        array.attrs["x"] = 1
    with pytest.raises(UnsupportedError, match="N5"):
        root.create_array("new", data=wanted)
    with pytest.raises(UnsupportedError, match="N5"):
        terrazzo.create_array({}, data=wanted, dialect="n5")


def test_n5_without_documents_for_groups() -> None:
    stored = {
        key: value for key, value in store("n5").items() if key.count("/") != 1 or "attributes" not in key
    }
    assert "gzip/attributes.json" not in stored
    root = terrazzo.open(stored, mode="r")
    assert sorted(root["gzip"]) == ["float32", "float64", "int16", "uint8"]
    assert [path for path, _ in root["raw"].members(None)] == ["float32", "float64", "int16", "uint8"]
    del stored["attributes.json"]
    array = terrazzo.open(stored, path="raw/float64", mode="r")
    assert array.shape == (7, 9)


def test_n5_becomes_zarr_3() -> None:
    made = terrazzo.from_array({}, data=terrazzo.open(store("n5"), path="blosc/float32", mode="r"))
    assert made.metadata.dialect == "v3"
    np.testing.assert_array_equal(made[...], terrazzo.open(store("n5"), path="blosc/float32")[...])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"dataType": "object"}, "dataType"),
        ({"dataType": {}}, "dataType"),
        ({"dataType": ["uint8"]}, "dataType"),
        ({"dimensions": []}, "dimensions"),
        ({"dimensions": [3, -1]}, "shape"),
        ({"blockSize": [3]}, "chunk_shape"),
        ({"blockSize": [0, 1]}, "chunk_shape"),
        ({"compression": {"type": "lz4", "blockSize": 65536}}, "Java"),
        ({"compression": {"type": "jpeg"}}, "not known"),
        ({"compression": 3}, "compression"),
        ({"compression": {"type": "gzip", "level": "x"}}, "level"),
        ({"compression": {"type": "blosc", "shuffle": 7}}, "shuffle"),
    ],
)
def test_documents_of_n5_that_are_wrong(change: dict[str, Any], reason: str) -> None:
    said = {"dimensions": [3, 2], "blockSize": [3, 2], "dataType": "uint8", "compression": {"type": "raw"}}
    document = json.dumps({**said, **change}).encode()
    with pytest.raises(MetadataError, match=reason):
        terrazzo.open({"attributes.json": document}, mode="r")


def test_a_file_of_that_name_that_is_not_of_n5() -> None:
    for content in (b'{"dimensions": 3}', b"\xff\x00", b'["dimensions"', b'{"a": 1}'):
        with pytest.raises(terrazzo.errors.NodeNotFoundError):
            terrazzo.open({"attributes.json": content, "other": b""}, mode="r")
