"""The letter of the draft, on hierarchies made from its text alone: rewritten, copied into both dialects, migrated."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.care import check, migrate
from terrazzo.errors import MetadataError

ARCHIVE = Path(__file__).resolve().parents[1] / "fixtures" / "letter.zip"
with zipfile.ZipFile(ARCHIVE) as content:
    FILES = {name: content.read(name) for name in content.namelist()}
ENTRIES: dict[str, dict[str, Any]] = json.loads(FILES["manifest.json"])["arrays"]
STORES = sorted({entry["store"] for entry in ENTRIES.values()})
#: what numpy's types of the draft and of Zarr 3 both have
KEPT = [name for name in ENTRIES if name.startswith(("types/", "extensions/", "layouts/", "codecs/"))]


def store(name: str) -> dict[str, bytes]:
    start = f"arrays/{name}/"
    return {key.removeprefix(start): value for key, value in FILES.items() if key.startswith(start)}


def opened(name: str, stored: dict[str, bytes]) -> Any:
    return terrazzo.open_array(stored, path=ENTRIES[name]["path"])


def document(name: str, stored: dict[str, bytes]) -> Any:
    path = ENTRIES[name]["path"]
    return json.loads(stored[f"meta/{path}.array.json" if path else "meta/array.json"])


@pytest.mark.parametrize("name", STORES)
def test_a_check_finds_nothing(name: str) -> None:
    assert check(store(name), verify_data=True).ok


@pytest.mark.parametrize(
    "name", [name for name in ENTRIES if not name.startswith(("shards/", "codecs/", "fills/"))]
)
def test_the_same_values_are_the_same_bytes(name: str) -> None:
    """Chunks at the border too, and the document stays as it is where nothing is said anew."""
    stored = store(ENTRIES[name]["store"])
    before = dict(stored)
    array = opened(name, stored)
    if "root-shards" in name:
        return
    with terrazzo.config.set({"write_empty_chunks": True}):
        array = opened(name, stored)
        array[...] = array[...]
        array.update_attributes({})
    assert {
        key: json.loads(value) if key.startswith("meta/") else value for key, value in stored.items()
    } == {key: json.loads(value) if key.startswith("meta/") else value for key, value in before.items()}


@pytest.mark.parametrize("dialect", ["P", "D"])
@pytest.mark.parametrize("name", KEPT)
def test_copies_in_both_dialects_say_the_same(name: str, dialect: str) -> None:
    source = opened(name, store(ENTRIES[name]["store"]))
    if name == "types/r24" and dialect == "P":
        return  # numpy's void there, tested as such
    made: dict[str, bytes] = {}
    codecs: dict[str, Any] = {"compressors": "gzip:1", "filters": "auto", "serializer": "auto"}
    copy = terrazzo.from_array(made, data=source, dialect=dialect, **codecs)
    again = terrazzo.open_array(made, mode="r")
    assert again[...].tobytes() == source[...].tobytes()
    assert again.metadata.data_type == source.metadata.data_type
    assert copy.metadata.dialect == "draft"
    said = json.loads(made["meta/array.json" if dialect == "D" else "meta/root.array.json"])["data_type"]
    theirs = document(name, store(ENTRIES[name]["store"]))["data_type"]
    if dialect == "D" and isinstance(theirs, dict):
        assert said["extension"] == theirs["extension"]
        assert str(said["type"]).lstrip("<>|") == str(theirs["type"]).lstrip("<>|") or isinstance(
            said["type"], list
        )
        raw = f"r{8 * source.dtype.itemsize}"
        assert raw in (said["fallback"] if isinstance(said["fallback"], list) else [said["fallback"]])


def extended(kind: Any, fallback: Any) -> dict[str, bytes]:
    stored = store("types")
    said = document("types/int32", stored)
    said["data_type"] = {"extension": "http://example.org/unknown/1.0", "type": kind, "fallback": fallback}
    stored["meta/int32.array.json"] = json.dumps(said).encode()
    return stored


@pytest.mark.parametrize(
    ("fallback", "wanted"),
    [("int32", "int32"), ("<i4", "int32"), (["quaternion", "uint32", "r32"], "uint32"), (["r32"], "r32")],
)
def test_a_type_that_is_not_known_is_read_as_its_first_known_fallback(fallback: Any, wanted: str) -> None:
    stored = extended("<quaternion", fallback)
    with pytest.raises(MetadataError, match="fallback"):
        terrazzo.open_array(stored, path="int32", mode="r")
    with pytest.warns(terrazzo.errors.TerrazzoWarning, match="not known"):
        array = terrazzo.open_array(stored, path="int32", mode="r", fallback="warn")
    assert array.metadata.data_type.name == wanted
    silent = terrazzo.open_array(stored, path="int32", mode="r", fallback="use")
    raw = np.frombuffer(ENTRIES_BYTES, "<i4").reshape(7, 10)
    assert silent[...].tobytes() == raw.tobytes()
    assert "quaternion" in str(silent.info)


ENTRIES_BYTES = (np.arange(70).reshape(7, 10) * 3 - 60).astype("<i4").tobytes()


@pytest.mark.parametrize("fallback", [None, [], "other", ["other", {"extension": "x", "type": "y"}]])
def test_without_a_known_fallback_it_is_refused(fallback: Any) -> None:
    stored = extended("<quaternion", fallback)
    for how in ("error", "warn", "use"):
        with pytest.raises(MetadataError, match="quaternion"):
            terrazzo.open_array(stored, path="int32", mode="r", fallback=how)


@pytest.mark.parametrize("name", STORES)
def test_every_hierarchy_migrates(name: str, tmp_path: Path) -> None:
    for key, value in store(name).items():
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(value)
    chunks = {path: path.stat().st_ino for path in tmp_path.glob("data/**/*") if path.is_file()}
    report = migrate(tmp_path, verify=True)
    assert report.verified
    assert report.encoded == []
    assert report.copied == 0
    inodes = {path.stat().st_ino for path in tmp_path.rglob("*") if path.is_file()}
    assert set(chunks.values()) <= inodes
    migrate(tmp_path, confirm=True)
    assert not (tmp_path / "meta").exists() or not list((tmp_path / "meta").rglob("*"))
    for label, entry in ENTRIES.items():
        if entry["store"] == name:
            array = terrazzo.open_array(tmp_path, path=entry["path"], mode="r")
            assert array.metadata.dialect == "v3"
            assert array[...].tobytes() == opened(label, store(name))[...].tobytes()


def test_the_fallbacks_of_a_kind_are_written_and_a_caller_may_name_others() -> None:
    days = np.arange(5).astype("M8[D]")
    for given, wanted in ((None, ["<i8", "r64"]), (["int32", "r64"], ["int32", "r64"]), ([], [])):
        made: dict[str, bytes] = {}
        terrazzo.create_array(made, data=days, dialect="D", fallbacks=given)
        assert json.loads(made["meta/array.json"])["data_type"]["fallback"] == wanted
        array = terrazzo.open_array(made)
        array.attrs["a"] = 1
        array.resize((7,))
        assert json.loads(made["meta/array.json"])["data_type"]["fallback"] == wanted
        assert terrazzo.open_array(made, mode="r")[:5].tolist() == days.tolist()
    with pytest.raises(ValueError, match="fallbacks"):
        terrazzo.create_array({}, data=days, fallbacks=["int64"])
