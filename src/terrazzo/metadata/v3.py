"""Documents of Zarr 3: `zarr.json` <-> frozen values, every rule of the core specification checked on the way in.

What it does not do: know codecs, storage transformers or unknown grids; they stay `Extension`, whoever needs them reads
them. Version 2 and the drafts are other files of this room.

https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html#metadata
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from terrazzo.errors import NodeNotFoundError, NodeTypeValidationError
from terrazzo.metadata.consolidated import ConsolidatedMetadata
from terrazzo.metadata.data_types import DataType, Fill, data_type_from_json
from terrazzo.metadata.extension import Extension
from terrazzo.metadata.grids import EXTENT_END, checked_grid, checked_key_encoding
from terrazzo.metadata.json import plain, read_json, write_json
from terrazzo.metadata.problems import Problems, describe, doubt, join, refuse, remark
from terrazzo.options import Options

__all__ = ["ArrayMetadata", "GroupMetadata", "Node", "node_from_json", "parse_node"]


@dataclass(frozen=True, eq=False)
class ArrayMetadata:
    """What a document says of an array; equal when the documents say the same, bit for bit."""

    shape: tuple[int, ...]
    data_type: DataType
    chunk_grid: Extension
    chunk_key_encoding: Extension
    fill_value: Fill
    codecs: tuple[Extension, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    storage_transformers: tuple[Extension, ...] = ()
    dimension_names: tuple[str | None, ...] | None = None
    extra: dict[str, Any] = field(default_factory=dict)  # unknown members that need not be understood
    dialect: str = "v3"  # the format it is stored in: "v3", "v2" or "draft"; who stores it knows

    node_type = "array"

    @property
    def zarr_format(self) -> int:
        return 2 if self.dialect == "v2" else 3

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def to_document(self) -> dict[str, Any]:
        """The document, in the forms that every known reader accepts."""
        document: dict[str, Any] = {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(self.shape),
            "data_type": self.data_type.to_json(),
            "chunk_grid": self.chunk_grid.to_json(),
            "chunk_key_encoding": self.chunk_key_encoding.to_json(),
            "fill_value": self.data_type.fill_to_json(self.fill_value),
            "codecs": [codec.to_json() for codec in self.codecs],
            "attributes": plain(self.attributes, "attributes"),
        }
        if self.dimension_names is not None:
            document["dimension_names"] = list(self.dimension_names)
        if self.storage_transformers:
            document["storage_transformers"] = [one.to_json() for one in self.storage_transformers]
        document.update(plain(self.extra, ""))
        return document

    def to_bytes(self) -> bytes:
        return write_json(self.to_document())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArrayMetadata) and self._compared() == other._compared()

    def _compared(self) -> tuple[object, ...]:
        fill = self.data_type.fill_to_json(self.fill_value)  # a NaN equals itself, 0.0 is not -0.0
        members = (
            self.shape,
            self.data_type,
            self.chunk_grid,
            self.chunk_key_encoding,
            repr(fill),
            self.codecs,
        )
        return members + (self.attributes, self.storage_transformers, self.dimension_names, self.extra)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class GroupMetadata:
    """What a document says of a group."""

    attributes: dict[str, Any] = field(default_factory=dict)
    consolidated: ConsolidatedMetadata | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    dialect: str = "v3"  # as of an array

    node_type = "group"

    @property
    def zarr_format(self) -> int:
        return 2 if self.dialect == "v2" else 3

    @property
    def consolidated_metadata(self) -> ConsolidatedMetadata | None:
        """`consolidated`, as the document and zarr-python call it."""
        return self.consolidated

    def member(self, path: str, options: Options | None = None) -> Node:
        """The node at a path below this group, out of the consolidated metadata; groups bring their own part of it.

        Raises NodeNotFoundError if there is none, MetadataValidationError if its document is wrong.
        """
        document = self.consolidated.documents.get(path) if self.consolidated is not None else None
        if self.consolidated is None or document is None:
            raise NodeNotFoundError(f"there is no node {path!r} in the consolidated metadata")
        node = node_from_json(document, f"{path}/zarr.json (consolidated)", options)
        if isinstance(node, GroupMetadata):
            return replace(node, consolidated=self.consolidated.below(path), dialect=self.dialect)
        return replace(node, dialect=self.dialect)

    def to_document(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": plain(self.attributes, "attributes"),
        }
        if self.consolidated is not None:
            document["consolidated_metadata"] = self.consolidated.to_json()
        document.update(plain(self.extra, ""))
        return document

    def to_bytes(self) -> bytes:
        return write_json(self.to_document())


Node = ArrayMetadata | GroupMetadata


def parse_node(
    document: bytes,
    key: str = "zarr.json",
    options: Options | None = None,
    expect: Literal["array", "group"] | None = None,
) -> Node:
    """The node that the bytes at a store's `key` describe.

    Raises MetadataValidationError with every problem and its path, LimitError for documents beyond the limits,
    NodeTypeValidationError for a node of another kind than `expect`. With `options.strict` False, faults that leave
    the values certain are warnings.
    """
    options = options or Options()
    return node_from_json(
        read_json(document, key, options.limits, strict=options.strict), key, options, expect
    )


def node_from_json(
    document: object,
    key: str = "zarr.json",
    options: Options | None = None,
    expect: Literal["array", "group"] | None = None,
) -> Node:
    """The same for a document that is an object already."""
    options = options or Options()
    reader = _Reader(document, options)
    with reader.problems.collected():
        reader.check_head()
    node_type = reader.members.get("node_type")
    if expect is not None and node_type in ("array", "group") and node_type != expect:
        raise NodeTypeValidationError(
            f"{key}: found the node type {describe(node_type)}, must be {describe(expect)}"
        )
    node = reader.array() if node_type == "array" else reader.group() if node_type == "group" else None
    reader.problems.raise_any(key)
    assert node is not None  # every way to None has told a problem
    return node


class _Reader:
    """Reads one document member by member; a problem in one does not keep the others from being read."""

    def __init__(self, document: object, options: Options) -> None:
        self.problems = Problems()
        self.members: dict[str, Any] = document if isinstance(document, dict) else {}
        self.document = document
        self.limits = options.limits
        self.strict = options.strict

    def check_head(self) -> None:
        if not isinstance(self.document, dict):
            refuse("", f"found {describe(self.document)}, must be an object")
        zarr_format = self.require("zarr_format")
        if isinstance(zarr_format, float) and zarr_format == 3:
            with self.problems.collected():
                doubt("zarr_format", "found 3.0, must be the integer 3", strict=self.strict)
        elif zarr_format != 3 or isinstance(zarr_format, bool):
            self.problems.add("zarr_format", f"found {describe(zarr_format)}, must be 3")
        node_type = self.require("node_type")
        if node_type not in ("array", "group"):
            self.problems.add("node_type", f'found {describe(node_type)}, must be "array" or "group"')

    def array(self) -> ArrayMetadata | None:
        shape = self.shape()
        data_type = fill = grid = encoding = None
        with self.problems.collected():
            data_type = data_type_from_json(self.require("data_type"), "data_type", strict=self.strict)
        with self.problems.collected():
            grid = checked_grid(self.extension("chunk_grid"), shape)
        with self.problems.collected():
            encoding = checked_key_encoding(self.extension("chunk_key_encoding"))
        with self.problems.collected():
            value = self.require("fill_value")
            if data_type is not None:
                fill = data_type.fill_from_json(value, "fill_value", strict=self.strict)
        codecs = self.extensions("codecs", self.members.get("codecs", []))
        if self.members.get("codecs", []) == []:
            sentence = "is missing or empty, must have exactly one codec from array to bytes (drafts of 2023 had none)"
            with self.problems.collected():
                doubt("codecs", sentence, strict=self.strict)
        transformers = self.extensions("storage_transformers", self.members.get("storage_transformers", []))
        names = self.dimension_names(shape)
        attributes = self.attributes()
        if "consolidated_metadata" in self.members:
            self.problems.add("consolidated_metadata", "is not allowed in an array's document")
        extra = self.extra(ARRAY_MEMBERS)
        if shape is None or data_type is None or fill is None or grid is None or encoding is None:
            return None
        if data_type.implied_endian is not None:
            codecs = tuple(_with_endian(codec, data_type.implied_endian) for codec in codecs)
        return ArrayMetadata(
            shape, data_type, grid, encoding, fill, codecs, attributes, transformers, names, extra
        )

    def group(self) -> GroupMetadata:
        consolidated = None
        with self.problems.collected():
            consolidated = ConsolidatedMetadata.from_json(self.members.get("consolidated_metadata"))
        return GroupMetadata(self.attributes(), consolidated, self.extra(GROUP_MEMBERS))

    def require(self, member: str) -> Any:
        if member not in self.members:
            refuse(member, "is missing")
        return self.members[member]

    def shape(self) -> tuple[int, ...] | None:
        shape = None
        with self.problems.collected():
            shape = self.require("shape")
            if not isinstance(shape, list):
                refuse("shape", f"found {describe(shape)}, must be a list of integers >= 0")
            if len(shape) > self.limits.ndim:
                refuse(
                    "shape",
                    f"found {len(shape)} dimensions, at most {self.limits.ndim} are read (limit `ndim`)",
                )
            problems = Problems()
            for i, extent in enumerate(shape):
                if isinstance(extent, bool) or not isinstance(extent, int) or not 0 <= extent < EXTENT_END:
                    problems.add(
                        join("shape", i), f"found {describe(extent)}, must be an integer from 0 to 2^63 - 1"
                    )
            problems.raise_any("")
            return tuple(shape)
        return None

    def extension(self, member: str) -> Extension:
        return Extension.from_json(self.require(member), member, strict=self.strict)

    def extensions(self, member: str, value: object) -> tuple[Extension, ...]:
        if not isinstance(value, list):
            self.problems.add(member, f"found {describe(value)}, must be a list")
            return ()
        found = []
        for i, one in enumerate(value):
            with self.problems.collected():
                found.append(Extension.from_json(one, join(member, i), ignorable=True, strict=self.strict))
        return tuple(found)

    def attributes(self) -> dict[str, Any]:
        attributes = self.members.get("attributes", {})
        if attributes is None:
            with self.problems.collected():
                doubt("attributes", "found null, must be an object or absent", strict=self.strict)
            return {}
        if not isinstance(attributes, dict):
            self.problems.add("attributes", f"found {describe(attributes)}, must be an object")
            return {}
        return attributes

    def dimension_names(self, shape: tuple[int, ...] | None) -> tuple[str | None, ...] | None:
        names = self.members.get("dimension_names")
        if names is None:  # null is not allowed, and every zarr-python wrote it once
            return None
        if not isinstance(names, list):
            self.problems.add(
                "dimension_names", f"found {describe(names)}, must be a list of strings and nulls"
            )
            return None
        for i, name in enumerate(names):
            if name is not None and not isinstance(name, str):
                self.problems.add(
                    join("dimension_names", i), f"found {describe(name)}, must be a string or null"
                )
                return None
        if shape is not None and len(names) != len(shape):
            self.problems.add(
                "dimension_names", f"found {len(names)} names, must be {len(shape)}, as many as dimensions"
            )
        given = [name for name in names if name is not None]
        twice = (
            sorted({name for name in given if given.count(name) > 1})[:1]
            if len(names) <= self.limits.ndim
            else []
        )
        if twice:
            remark(
                "dimension_names",
                f"found {describe(twice[0])} more than once; dimensions are hard to tell apart",
            )
        return tuple(names)

    def extra(self, known: frozenset[str]) -> dict[str, Any]:
        """Unknown members; each must say that it need not be understood."""
        found = {}
        for name, value in self.members.items():
            if name in known:
                continue
            if isinstance(value, dict) and value.get("must_understand") is False:
                found[name] = value
            else:
                sentence = f"found {describe(value)} under an unknown name; only an object with "
                self.problems.add(join("", name), sentence + '"must_understand": false could be ignored')
        return found


GROUP_MEMBERS = frozenset({"zarr_format", "node_type", "attributes", "consolidated_metadata"})
ARRAY_MEMBERS = GROUP_MEMBERS | {
    "shape",
    "data_type",
    "chunk_grid",
    "chunk_key_encoding",
    "fill_value",
    "codecs",
    "storage_transformers",
    "dimension_names",
}


def _with_endian(codec: Extension, endian: str) -> Extension:
    """State the endianness that a `bytes` codec left out, also inside shards (where the data type implies one)."""
    if codec.name == "bytes" and "endian" not in codec.configuration:
        return replace(codec, configuration=codec.configuration | {"endian": endian})
    inner = codec.configuration.get("codecs")
    if codec.name == "sharding_indexed" and isinstance(inner, list):
        try:
            stated = [_with_endian(Extension.from_json(one), endian).to_json() for one in inner]
        except ValueError:
            return codec  # the codec itself tells what is wrong with its configuration
        return replace(codec, configuration=codec.configuration | {"codecs": stated})
    return codec
