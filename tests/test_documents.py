"""Metadata documents that zarr-metadata and zarrs test themselves with: each is read, or refused for a stated reason.

The documents are data, with their licences, in tests/fixtures/documents. What holds a part of a document (a codec, a
grid, a fill value) is put into an array that can have it.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import terrazzo
from terrazzo.errors import MetadataError
from terrazzo.metadata import ConsolidatedMetadata

DOCUMENTS = Path(__file__).resolve().parent / "fixtures" / "documents"
SPEC, ZARRS = DOCUMENTS / "zarr-metadata", DOCUMENTS / "zarrs"
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}

#: what is refused, and a part of the reason; everything else has to be read
REFUSED = {
    "zarrs/v3/array_optional.zarr/array/zarr.json": r"drafts=.'optional'",
    "zarrs/v3/array_optional_nested.zarr/array/zarr.json": r"drafts=.'optional'",
    # rightly written, but for no array of the data type that such a codec could be given
    "v3/codec/cast_value: named_config_dtype": "must be an integer or a float",
    "v3/codec/scale_offset: string_encoded_scalar": "must be",
}
#: extents for parts that have to fit an array
SHAPES = {1: [100], 2: [100, 50], 3: [10, 20, 30]}


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def array(ndim: int = 1, **members: Any) -> dict[str, Any]:
    shape = SHAPES[ndim]
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": "int32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0,
        "codecs": [LITTLE],
        **members,
    }


def stores() -> Iterator[tuple[str, dict[str, bytes]]]:
    """Every whole document as a store of one node."""
    for path in sorted([*SPEC.glob("v3/array/*"), *SPEC.glob("v3/group/*"), *ZARRS.rglob("*.json")]):
        yield path.relative_to(DOCUMENTS).as_posix(), {"zarr.json": path.read_bytes()}
    for path in sorted([*SPEC.glob("v2/array/*"), *ZARRS.rglob(".zarray")]):
        found = {".zarray": path.read_bytes()}
        beside = path.with_name(".zattrs")
        if beside.exists():
            found[".zattrs"] = beside.read_bytes()
        yield path.relative_to(DOCUMENTS).as_posix(), found
    for path in sorted(SPEC.glob("v2/group/*")):
        yield path.relative_to(DOCUMENTS).as_posix(), {".zgroup": path.read_bytes()}


def parts() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every part of a document inside an array that can have it."""
    for path in sorted(SPEC.glob("v3/*/*/cases.json")):
        kind, name = path.parts[-3:-1]
        for label, part in load(path).items():
            configuration = part.get("configuration", {}) if isinstance(part, dict) else {}
            found = array()
            if kind == "chunk_grid":
                shapes = configuration.get("chunk_shape", configuration.get("chunk_shapes"))
                found = array(len(shapes), chunk_grid=part)
                if "chunk_shapes" in configuration:
                    found["shape"] = [30] * len(shapes)
            elif kind == "chunk_key_encoding":
                found = array(chunk_key_encoding=part)
            elif name == "bytes":
                single = {"data_type": "uint8"} if not configuration else {}
                found = array(codecs=[part], **single)
            elif name == "transpose":
                found = array(3, codecs=[part, LITTLE])
            elif name == "sharding_indexed":
                edges = configuration["chunk_shape"]
                grid = {"name": "regular", "configuration": {"chunk_shape": edges}}
                found = array(len(edges), chunk_grid=grid, codecs=[part])
            elif name in ("cast_value", "scale_offset"):
                made = configuration.get("data_type", "float32")
                single = isinstance(made, str) and made.endswith("int8")
                found = array(data_type="float32", codecs=[part, {"name": "bytes"} if single else LITTLE])
            else:
                found = array(codecs=[LITTLE, part])
            yield f"v3/{kind}/{name}: {label}", found
    for path in sorted(SPEC.glob("v3/data_type/*/fill_values.json")):
        name = path.parent.name
        own = path.with_name("data_type.json")
        data_type = load(own) if own.exists() else {"raw": "r32"}.get(name, name)
        codec = {"string": {"name": "vlen-utf8"}, "bytes": {"name": "vlen-bytes"}}.get(name, LITTLE)
        for label, value in load(path).items():
            yield (
                f"v3/data_type/{name}: {label}",
                array(data_type=data_type, fill_value=value, codecs=[codec]),
            )


WHOLE = dict(stores())
PARTS = dict(parts())


@pytest.mark.parametrize("name", WHOLE)
def test_whole_documents(name: str) -> None:
    check(name, WHOLE[name])


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_documents(name: str) -> None:
    check(name, {"zarr.json": json.dumps(PARTS[name]).encode()})


def check(name: str, store: dict[str, bytes]) -> None:
    """Read, and read again as what we would write; or refused for the reason in the table."""
    reason = REFUSED.get(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if reason is not None:
            with pytest.raises(MetadataError, match=reason):
                terrazzo.open(store, mode="r")
            return
        node = terrazzo.open(store, mode="r")
        again = terrazzo.open({"zarr.json": node.metadata.to_bytes()}, mode="r")
    assert again.metadata.to_document() == node.metadata.to_document()
    if isinstance(node, terrazzo.Array):
        said = json.loads(store.get("zarr.json") or store[".zarray"])
        assert list(node.shape) == said["shape"]


@pytest.mark.parametrize("name", ["minimal", "with_array_and_group"])
def test_consolidated_metadata_of_zarr_3(name: str) -> None:
    document = load(SPEC / f"v3/consolidated/{name}.json")
    found = ConsolidatedMetadata.from_json(document)
    assert found is not None
    assert set(found.documents) == set(document["metadata"])
    group = {"zarr_format": 3, "node_type": "group", "consolidated_metadata": document}
    opened = terrazzo.open_group({"zarr.json": json.dumps(group).encode()}, mode="r")
    assert sorted(opened) == sorted(document["metadata"])


@pytest.mark.parametrize("name", ["minimal", "with_array_and_group"])
def test_consolidated_metadata_of_zarr_2(name: str) -> None:
    document = load(SPEC / f"v2/consolidated/{name}.json")
    store = {".zgroup": b'{"zarr_format": 2}', ".zmetadata": json.dumps(document).encode()}
    opened = terrazzo.open_consolidated(store, mode="r")
    arrays = [key.removesuffix("/.zarray") for key in document["metadata"] if key.endswith("/.zarray")]
    assert sorted(opened) == arrays
    for path in arrays:
        assert opened[path].attrs.asdict() == document["metadata"][f"{path}/.zattrs"]


def test_no_document_is_left_out() -> None:
    """Guards the tests above against files that no pattern finds, and the table against names that are none."""
    files = [path for path in DOCUMENTS.rglob("*") if path.suffix == ".json" or path.name == ".zarray"]
    tables = {"cases.json", "fill_values.json", "data_type.json"}
    whole = [path for path in files if path.name not in tables and "consolidated" not in path.parts]
    assert len(whole) == len(WHOLE)
    assert len(WHOLE) > 100
    assert len(PARTS) > 80
    assert {*WHOLE, *PARTS} >= REFUSED.keys()
