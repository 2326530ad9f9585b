"""The letter of the draft, on hierarchies made from its text alone: read, rewritten, copied, migrated, refused.

What nobody can doubt is read by tests/test_fixtures.py as well. Where the text leaves something open (DOUBTS.md
beside the generator) our answer stands in ANSWERS, and what is read though the text wants it refused in TOLERATED.
"""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.care import check, migrate
from terrazzo.errors import KeyRefusedError, MetadataError

ARCHIVE = Path(__file__).resolve().parents[1] / "fixtures" / "letter.zip"
with zipfile.ZipFile(ARCHIVE) as content:
    FILES = {name: content.read(name) for name in content.namelist()}
MANIFEST = json.loads(FILES["manifest.json"])
#: by what is to become of them: `arrays` leave nothing open, `open` do, `unknown` are read as their fallbacks
KINDS = ("arrays", "open", "unknown")
ENTRIES: dict[str, dict[str, Any]] = {
    label: entry for kind in KINDS for label, entry in MANIFEST[kind].items()
}
STORES = sorted({entry["store"] for entry in ENTRIES.values()})
INT32 = "core_types/default/int32"

#: what the text leaves open, by its number in DOUBTS.md, and how it is read here
ANSWERS = {
    "D1": "digits of the value, the most significant first",
    "D2": "digits of the real part, then of the imaginary one",
    "D3": "a number is the real part",
    "D4": "the quiet NaN",
    "D5": "negative zero",
    "D6": "raw bytes in the order of the digits",
    "D7": "every key of the array's chunks goes into shards",
    "D8": "both addresses are gzip",
    "D9": "a gzip file of stored blocks",
    "D10": "a codec without configuration",
    "D11": "a second `endian` takes what is before it for elements of the default order",
    "D12": "/",
    "D13": "an axis of length 0 may have chunks of length 0",
    "D14": "numpy's fields, packed; fill values are bytes",
    "D15": "names of the core are types of fields as well",
    "D16": "3.1 is read as 3.0",
    "D17": "a fallback may be an extension",
    "D18": "complex numbers are those of the core",
    "D19": "int64 and uint64 are types, and so is numpy's spelling",
    "D20": "raw bytes have no order",
    "D21": "elements are turned",
    "D22": "counts, text, and a list of the fields' values",
    "D23": "null is zero",
    "D24": "records in records and arrays in records",
    "D25": "both addresses are shards",
    "D26": "one chunk per shard",
    "D27": "the first of the list is nearest the array",
}

#: the reason for each refusal
REASONS = {
    "unknown_name": "foo: found 1 under a name that the draft does not know",
    "must_understand": "has to be understood and is not known",
    "type_no_fallback": 'data_type.type: found "x", which is not a type',
    "type_no_known_fallback": 'data_type.type: found "x", which is not a type',
    "type_unknown_core": 'data_type: found "int7", which is not a type',
    "type_r12": "must be a multiple of 8",
    "grid": 'chunk_grid: found "rectilinear" of the extension "http',
    "layout": 'chunk_memory_layout: found .* of the extension "http',
    "transformer": "storage transformer .* is not known",
    "codec": "codec .* is not known",
    "fill_fraction": "fill_value: found 1.5, must be an integer",
    "fill_range": "fill_value: found 2147483648, must be an integer",
    "fill_hex_short": "must have 8 digits",
    "separator": "chunk_grid.separator",
    "shard_rank": "chunks_per_shard: found",
    "shard_type": "storage_transformers.0..type",
    "no_shape": "shape: is missing",
    "no_data_type": "data_type: is missing",
    "no_chunk_grid": "chunk_grid: is missing",
    "group_unknown_name": "extensions: found .* under a name that the draft does not know",
    "refuse_extension": "has to be understood and is not known",
    "refuse_major": "zarr_format: found .*4.0.*, must be of the major version 3",
    "refuse_encoding": "in another encoding than JSON",
}
#: what a writer must not write, and what it can only mean
TOLERATED = {
    "fill_null": "zero, as zarr-python wrote it and as the text has it in its example",
    "fill_absent": "zero",
    "fill_bool_number": "0 is false",
    "no_chunk_memory_layout": "C",
    "no_extensions": "none",
    "no_attributes": "none",
}


def store(name: str) -> dict[str, bytes]:
    start = f"arrays/{name}/"
    return {key.removeprefix(start): value for key, value in FILES.items() if key.startswith(start)}


def opened(name: str, stored: dict[str, bytes], **how: Any) -> Any:
    return terrazzo.open_array(stored, path=ENTRIES[name]["path"], **how)


def document(name: str, stored: dict[str, bytes]) -> Any:
    path = ENTRIES[name]["path"]
    return json.loads(stored[f"meta/{path}.array.json" if path else "meta/array.json"])


def expected(name: str) -> np.ndarray[Any, Any]:
    """The values as they are stored; records as bytes."""
    saved = np.load(io.BytesIO(FILES[f"expected/{name}/expected.npy"]), allow_pickle=False)
    spelled = ENTRIES[name]["dtype"]
    return saved.view(spelled) if isinstance(spelled, str) and saved.dtype != np.dtype(spelled) else saved


def same(name: str, found: np.ndarray[Any, Any]) -> bool:
    """To the last bit, whatever the byte order in memory."""
    wanted = expected(name)
    if found.dtype.names is None and found.dtype != wanted.dtype and wanted.dtype.kind in "biufcmMSU":
        wanted = wanted.astype(found.dtype)
    return found.shape == wanted.shape and found.tobytes() == wanted.tobytes()


def is_plain(name: str) -> bool:
    """Whether every chunk is stored, and what is not of the array in it as we would have it; nothing is compressed."""
    entry, said = ENTRIES[name], document(name, FILES_OF[ENTRIES[name]["store"]])
    stored = FILES_OF[entry["store"]]
    edges = said["chunk_grid"]["chunk_shape"]
    count = np.prod([-(-n // max(edge, 1)) for n, edge in zip(said["shape"], edges, strict=True)], dtype=int)
    chunks = sum(key.startswith(f"data/{entry['path']}/c") for key in stored)
    packed = any("endian" not in one["type"] for one in said.get("codecs", []))
    return bool(
        chunks == count and not packed and not said.get("storage_transformers") and "junk" not in name
    )


FILES_OF = {name: store(name) for name in STORES}
PLAIN = [
    name for name in MANIFEST["arrays"] if name.split("/")[0] not in ("names", "sharding") and is_plain(name)
]
#: what numpy's types of the draft and of Zarr 3 both have
KEPT = [name for name in PLAIN if name.startswith(("core_types/", "ext_types/", "layouts/C/"))]


@pytest.mark.parametrize("name", ENTRIES)
@pytest.mark.filterwarnings("ignore::terrazzo.errors.TerrazzoWarning")
def test_it_is_read_as_the_text_says(name: str) -> None:
    entry = ENTRIES[name]
    array = opened(name, store(entry["store"]), mode="r", fallback="use")
    assert same(name, array[...])
    assert array.attrs.asdict() == entry["attributes"]
    part = tuple(slice(extent // 3, extent - extent // 4) for extent in array.shape)
    assert array[part].tobytes() == np.asarray(array[...][part]).tobytes()
    assert set((entry.get("doubt") or "").split()) <= ANSWERS.keys()


def test_every_doubt_is_answered() -> None:
    met = {one for entry in MANIFEST["open"].values() for one in entry["doubt"].split()}
    assert met == ANSWERS.keys()
    assert len(MANIFEST["arrays"]) > 250 and len(PLAIN) > 90 and len(KEPT) > 70


@pytest.mark.parametrize("name", MANIFEST["unknown"])
def test_an_unknown_type_is_read_where_its_fallback_is_asked_for(name: str) -> None:
    with pytest.raises(MetadataError, match="it has the fallback"):
        opened(name, store("ext_types"), mode="r")


@pytest.mark.parametrize("one", MANIFEST["refused"], ids=lambda one: (one["path"] or one["store"]).strip("/"))
def test_it_is_refused_for_its_reason(one: dict[str, Any]) -> None:
    name = (one["path"] or one["store"]).strip("/")
    path = (one["path"] or "").strip("/")
    if name in TOLERATED:
        array = terrazzo.open_array(store(one["store"]), path=path, mode="r")
        assert array.fill_value == 0
        if name != "fill_bool_number":  # whose chunks are of integers
            assert array[...].tolist() == [1, 4, 7, 10]
        return
    with pytest.raises(MetadataError, match=REASONS[name]):
        terrazzo.open(store(one["store"]), path=path or "a", mode="r", fallback="use")


def test_every_refusal_is_met() -> None:
    names = [(one["path"] or one["store"]).strip("/") for one in MANIFEST["refused"]]
    assert sorted(names) == sorted([*REASONS, *TOLERATED])


def test_nodes_with_the_names_of_documents_and_folders(tmp_path: Path) -> None:
    """The draft allows them. `zarr.json` names no node here, and does not hide its neighbour `data`, nor itself."""
    for stored in (store("names"), unpacked("names", tmp_path)):
        assert terrazzo.open_array(stored, path="data", mode="r").attrs["i"] == 12
        assert terrazzo.open_array(stored, path="meta/data", mode="r")[...].tolist() == [34, 37, 40]
        with pytest.raises(KeyRefusedError, match="the name of the metadata document"):
            terrazzo.open_array(stored, path="zarr.json", mode="r")
        group = terrazzo.open_group(stored, mode="r")
        assert set(group.array_keys()) == set(MANIFEST["groups apart"]["names/"]["arrays"]) - {"zarr.json"}


def test_a_group_of_unknown_types_lists_them_where_fallbacks_are_asked_for() -> None:
    entry = MANIFEST["groups apart"]["ext_types/unknown"]
    group = terrazzo.open_group(store("ext_types"), path=entry["path"], mode="r", fallback="use")
    assert sorted(group.array_keys()) == entry["arrays"]


def test_an_entry_point_is_known_however_its_slashes_are_spelled() -> None:
    stored = store("names")
    stored["zarr.json"] = stored["zarr.json"].replace(b"/", b"\\/")
    assert terrazzo.open_array(stored, path="foo", mode="r").metadata.dialect == "draft"


def test_a_migration_leaves_no_node_behind(tmp_path: Path) -> None:
    """The draft allows a node `zarr.json`; Zarr 3 does not see it, so that it would go with the old format."""
    source = unpacked("names", tmp_path / "source")
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    for into in (None, tmp_path / "target"):
        with pytest.raises(KeyRefusedError, match="'zarr.json', whose name the draft allows"):
            migrate(source, into, confirm=into is None)
    assert {path: path.read_bytes() for path in source.rglob("*") if path.is_file()} == before
    (source / "meta/zarr.json.array.json").unlink()
    shutil.rmtree(source / "data/zarr.json")
    assert migrate(source, tmp_path / "target", verify=True).verified
    for label, entry in ENTRIES.items():
        if entry["store"] == "names":
            array = terrazzo.open_array(tmp_path / "target", path=entry["path"], mode="r")
            assert array.metadata.dialect == "v3" and same(label, array[...]), label


def unpacked(name: str, folder: Path) -> Path:
    for key, value in store(name).items():
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_bytes(value)
    return folder


@pytest.mark.parametrize("name", [name for name in STORES if name != "refuse_arrays"])
@pytest.mark.filterwarnings("ignore::terrazzo.errors.TerrazzoWarning")
def test_a_check_finds_nothing(name: str) -> None:
    stored = store(name)
    if name == "ext_types":
        stored = {key: value for key, value in stored.items() if "/unknown/" not in key}
    assert check(stored, verify_data=True).ok


@pytest.mark.parametrize("name", PLAIN)
def test_the_same_values_are_the_same_bytes(name: str) -> None:
    """Chunks at the border too, and the document stays as it is where nothing is said anew."""
    stored = store(ENTRIES[name]["store"])
    before = dict(stored)
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
    if "/default/r" in name and dialect == "P":
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
    stored = store("core_types")
    said = document(INT32, stored)
    said["data_type"] = {"extension": "http://example.org/unknown/1.0", "type": kind, "fallback": fallback}
    stored["meta/default/int32.array.json"] = json.dumps(said).encode()
    return stored


@pytest.mark.parametrize(
    ("fallback", "wanted"),
    [("int32", "int32"), ("<i4", "int32"), (["quaternion", "uint32", "r32"], "uint32"), (["r32"], "r32")],
)
def test_a_type_that_is_not_known_is_read_as_its_first_known_fallback(fallback: Any, wanted: str) -> None:
    stored = extended("<quaternion", fallback)
    with pytest.raises(MetadataError, match="fallback"):
        terrazzo.open_array(stored, path="default/int32", mode="r")
    with pytest.warns(terrazzo.errors.TerrazzoWarning, match="not known"):
        array = terrazzo.open_array(stored, path="default/int32", mode="r", fallback="warn")
    assert array.metadata.data_type.name == wanted
    silent = terrazzo.open_array(stored, path="default/int32", mode="r", fallback="use")
    assert silent[...].tobytes() == expected(INT32).tobytes()
    assert "quaternion" in str(silent.info)


@pytest.mark.parametrize("fallback", [None, [], "other", ["other", {"extension": "x", "type": "y"}]])
def test_without_a_known_fallback_it_is_refused(fallback: Any) -> None:
    stored = extended("<quaternion", fallback)
    for how in ("error", "warn", "use"):
        with pytest.raises(MetadataError, match="quaternion"):
            terrazzo.open_array(stored, path="default/int32", mode="r", fallback=how)


#: what Zarr 3 has no data type for, or other bytes: tests/care/test_migrate.py
APART = ("/unknown/", "struct/mixed_orders", "struct/times", "struct/subarray", "fill/struct_list")


@pytest.mark.parametrize("name", [name for name in STORES if name not in ("names", "refuse_arrays")])
@pytest.mark.filterwarnings("ignore::terrazzo.errors.TerrazzoWarning")
def test_every_hierarchy_migrates(name: str, tmp_path: Path) -> None:
    unpacked(name, tmp_path)
    for document in tmp_path.glob("meta/**/*.json"):
        if any(part in str(document) for part in APART):
            document.unlink()
    for folder in [path for path in tmp_path.glob("data/*/*") if any(part in f"{path}/" for part in APART)]:
        shutil.rmtree(folder)
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
        if entry["store"] == name and not any(part in f"{label}/" for part in APART):
            array = terrazzo.open_array(tmp_path, path=entry["path"], mode="r")
            assert array.metadata.dialect == "v3"
            assert same(label, array[...]), label


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
