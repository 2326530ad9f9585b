"""Documents of Zarr 2: `.zarray`, `.zgroup`, `.zattrs` to the document that Zarr 3 would have, and back.

What it does not do: touch a store, or consolidated metadata (those are the store's view of a hierarchy). Whatever is
unknown in a `.zarray` is ignored, as the format says.

https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html
"""

from __future__ import annotations

from typing import Any

from terrazzo.metadata.data_types import data_type_from_json
from terrazzo.metadata.numcodecs_names import chain_from_numcodecs, chain_to_numcodecs, objects_of
from terrazzo.metadata.numpy_types import element_type, fill_from_numpy, fill_to_numpy, numpy_spelling
from terrazzo.metadata.problems import Problems, describe, doubt, refuse, remark

__all__ = ["array_from_v2", "array_to_v2", "group_from_v2", "group_to_v2"]

Json = dict[str, Any]
MEMBERS = ("shape", "chunks", "dtype", "compressor", "fill_value", "order", "filters")


def array_from_v2(found: object, attributes: Json, *, strict: bool = True) -> Json:
    """What Zarr 3 says where Zarr 2 says `found`; raises MetadataValidationError with every problem and its path.

    A fill value of null leaves the values of missing chunks open: they are read as zeros here.
    """
    problems = Problems()
    if not isinstance(found, dict):
        refuse("", f"found {describe(found)}, must be an object")
    with problems.collected():
        _check_format(found, strict)
    for member in MEMBERS:
        if member not in found and member not in ("filters", "order", "compressor"):
            problems.add(member, "is missing")
    filters = found.get("filters") or []
    if not isinstance(filters, list):
        problems.add("filters", f"found {describe(filters)}, must be a list or null")
        filters = []
    order = found.get("order", "C")
    if order not in ("C", "F"):
        problems.add("order", f'found {describe(order)}, must be "C" or "F"')
    separator = found.get("dimension_separator", ".")
    if separator not in (".", "/"):
        problems.add("dimension_separator", f'found {describe(separator)}, must be "." or "/"')
    problems.raise_any("")
    name = objects_of(filters)
    objects = None if name is None else data_type_from_json(name)
    element = codecs = fill = None
    with problems.collected():
        element = element_type(_dtype(found["dtype"], name), "dtype", objects, strict=strict)
    shape = found["shape"]
    ndim = len(shape) if isinstance(shape, list) else 0
    if element is not None:
        with problems.collected():
            fill = fill_from_numpy(found["fill_value"], element, "fill_value", strict=strict)
        with problems.collected():
            codecs = chain_from_numcodecs(filters, found.get("compressor"), element, order, ndim)
    problems.raise_any("")
    assert element is not None
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": element.data_type.to_json(),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": found["chunks"]}},
        "chunk_key_encoding": {"name": "v2", "configuration": {"separator": separator}},
        "fill_value": fill,
        "codecs": codecs,
        "attributes": attributes,
    }


def _dtype(spelled: Any, objects: str | None) -> Any:
    """zarr-python 3.0 put text and bytes of a fixed size through the filters of objects: they are of any size then."""
    if (
        objects in ("string", "bytes")
        and isinstance(spelled, str)
        and spelled.lstrip("<>|=")[:1] in ("S", "U")
    ):
        remark(
            "dtype",
            f"found {describe(spelled)} behind a filter of objects, as zarr-python 3.0 wrote; read as those",
        )
        return "|O"
    return spelled


def array_to_v2(document: Json) -> Json:
    """The `.zarray` that says what a document of Zarr 3 says; refused with the reason where none does."""
    problems = Problems()
    if document.get("dimension_names"):
        problems.add(
            "dimension_names", "Zarr 2 has no names of dimensions; leave them out (attributes may hold them)"
        )
    if document.get("storage_transformers"):
        problems.add("storage_transformers", "Zarr 2 has none")
    grid = document["chunk_grid"]
    if grid["name"] != "regular":
        problems.add("chunk_grid", f"Zarr 2 has regular chunks alone, not {describe(grid['name'])}")
    encoding = document["chunk_key_encoding"]
    if encoding["name"] != "v2":
        problems.add(
            "chunk_key_encoding", f'Zarr 2 names chunks as "v2" does, not as {describe(encoding["name"])}'
        )
    problems.raise_any("")
    data_type = data_type_from_json(document["data_type"])
    ndim = len(document["shape"])
    plain = None if data_type.itemsize is None else numpy_spelling(data_type, "little")
    filters, compressor, order, endian = chain_to_numcodecs(
        document["codecs"], ndim, plain if isinstance(plain, str) else None
    )
    fill = data_type.fill_from_json(document["fill_value"])
    return {
        "zarr_format": 2,
        "shape": document["shape"],
        "chunks": grid["configuration"]["chunk_shape"],
        "dtype": numpy_spelling(data_type, endian),
        "compressor": compressor,
        "fill_value": fill_to_numpy(fill, data_type, endian),
        "order": order,
        "filters": filters or None,
        "dimension_separator": encoding.get("configuration", {}).get("separator", "."),
    }


def group_from_v2(found: object, attributes: Json, *, strict: bool = True) -> Json:
    """The same for a `.zgroup`."""
    if not isinstance(found, dict):
        refuse("", f"found {describe(found)}, must be an object")
    _check_format(found, strict)
    return {"zarr_format": 3, "node_type": "group", "attributes": attributes}


def group_to_v2() -> Json:
    return {"zarr_format": 2}


def _check_format(found: Json, strict: bool) -> None:
    zarr_format = found.get("zarr_format")
    if zarr_format != 2 or isinstance(zarr_format, bool):
        sentence = f"found {describe(zarr_format)}, must be 2"
        if isinstance(zarr_format, str) and zarr_format.strip() == "2":
            doubt("zarr_format", sentence, strict=strict)
        else:
            refuse("zarr_format", sentence)
