"""numcodecs.* codecs of Python objects, as Zarr 2 stores them: json2, msgpack2, vlen-array, pickle, and categorize.

What it does not do: text and bytes of any length (vlen.py). Unpickle, unless `allow_pickle` was asked for by name: a
pickle runs whatever code it holds.
Specification: https://numcodecs.readthedocs.io/en/stable/
"""

from __future__ import annotations

import json
import math
import pickle
import struct
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from terrazzo.codecs.codec import Array, ArrayArrayCodec, ArrayBytesCodec, Buffer, ChunkSpec, Context
from terrazzo.codecs.configuration import from_members
from terrazzo.errors import CodecError, UnknownCodecError
from terrazzo.metadata import data_type_from_numpy
from terrazzo.metadata.data_types import Objects, String
from terrazzo.metadata.problems import describe, join, refuse

__all__ = ["OBJECT_CODECS", "Categorize"]

COUNT = struct.Struct("<I")
PICKLE_REFUSED = (
    "holds pickled objects, and to read one runs whatever code it holds; allow_pickle=True in the configuration "
    "(terrazzo.config.set, config=) reads those that you trust"
)


@dataclass(frozen=True, eq=False)
class ObjectCodec(ArrayBytesCodec):
    """What they share: chunks of Python objects, and a configuration that is kept as it was found."""

    members: Mapping[str, Any] = field(default_factory=dict)

    allowed: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        return from_members(lambda **members: cls(members), configuration, path, (), cls.allowed)

    def configuration(self) -> dict[str, Any]:
        return dict(self.members)

    def resolve(self, spec: ChunkSpec, context: Context) -> Self:
        if not isinstance(spec.data_type, Objects | String):
            refuse(context.path, f"{self.name} encodes Python objects, not {spec.data_type}")
        return self

    def encode(self, value: Array, spec: ChunkSpec) -> bytes:
        try:
            return self.to_bytes(np.asarray(value, object))
        except (TypeError, ValueError, OverflowError) as error:
            raise CodecError(f"found an object that it cannot hold: {error}") from error

    def decode(self, encoded: Buffer, spec: ChunkSpec) -> Array:
        items = self.from_bytes(memoryview(encoded).cast("B"), math.prod(spec.shape))
        if len(items) != math.prod(spec.shape):
            raise CodecError(f"found {len(items)} elements, a chunk of shape {spec.shape} has others")
        value = np.empty(len(items), spec.data_type.numpy)
        for i, item in enumerate(items):  # one by one: numpy takes lists for dimensions
            value[i] = item
        return value.reshape(spec.shape)

    @abstractmethod
    def to_bytes(self, value: Array) -> bytes: ...

    @abstractmethod
    def from_bytes(self, encoded: memoryview, n: int) -> Sequence[Any]:
        """All elements in C order; n: how many there should be."""


class Listed(ObjectCodec):
    """Elements as nested lists, then numpy's name of their type, then the shape of the chunk."""

    def listed(self, value: Array) -> list[Any]:
        items = value.tolist()
        return [*items, "|O", list(value.shape)] if value.shape else [items, "|O", [1]]

    def flattened(self, found: Any, n: int) -> list[Any]:
        shape = found[-1] if isinstance(found, list) and len(found) >= 2 else None
        if not isinstance(shape, list) or not all(type(extent) is int and extent >= 0 for extent in shape):
            raise CodecError("found no list of elements with a type and a shape behind them")
        if math.prod(shape) != n or len(shape) > 64:
            raise CodecError(f"found a chunk of shape {shape}, must have {n} elements")
        items = found[:-2]
        for extent, following in zip(shape, [*shape[1:], None], strict=True):
            if following is None:
                break
            if len(items) % max(1, extent) or not all(isinstance(item, list) for item in items):
                raise CodecError(f"found no nested lists of shape {shape}")
            items = [one for item in items for one in item]
        return list(items)


class JSON2(Listed):
    """JSON texts; the configuration is that of Python's encoder."""

    name = "numcodecs.json2"
    allowed = (
        *("encoding", "skipkeys", "ensure_ascii", "check_circular", "allow_nan", "sort_keys", "indent"),
        *("separators", "strict"),
    )

    def to_bytes(self, value: Array) -> bytes:
        options: dict[str, Any] = {"separators": [",", ":"], "sort_keys": True, **self.members}
        options = {name: found for name, found in options.items() if name not in ("encoding", "strict")}
        if options["separators"] is not None:
            options["separators"] = tuple(options["separators"])
        return json.dumps(self.listed(value), **options).encode(self.members.get("encoding", "utf-8"))

    def from_bytes(self, encoded: memoryview, n: int) -> list[Any]:
        try:
            text = str(encoded, self.members.get("encoding", "utf-8"))
            found = json.loads(text, strict=bool(self.members.get("strict", True)))
        except (ValueError, LookupError, RecursionError) as error:
            raise CodecError(f"the bytes are no JSON: {error}") from error
        return self.flattened(found, n)


class MsgPack2(Listed):
    """MessagePack; needs the package msgpack."""

    name = "numcodecs.msgpack2"
    allowed = ("use_single_float", "use_bin_type", "raw")

    def resolve(self, spec: ChunkSpec, context: Context) -> Self:
        _msgpack(context.path)
        return super().resolve(spec, context)

    def to_bytes(self, value: Array) -> bytes:
        options = {"use_bin_type": True, **self.members}
        return bytes(_msgpack().packb(self.listed(value), **{k: v for k, v in options.items() if k != "raw"}))

    def from_bytes(self, encoded: memoryview, n: int) -> list[Any]:
        try:
            found = _msgpack().unpackb(
                bytes(encoded), raw=bool(self.members.get("raw", False)), strict_map_key=False
            )
        except Exception as error:
            raise CodecError(f"the bytes are no MessagePack: {error}") from error
        return self.flattened(found, n)


class VLenArray(ObjectCodec):
    """Arrays of one type and any length: a count, then each as its number of bytes and its bytes."""

    name = "numcodecs.vlen-array"
    allowed = ("dtype",)

    def resolve(self, spec: ChunkSpec, context: Context) -> Self:
        at = join(join(context.path, "configuration"), "dtype")
        found = self.members.get("dtype")
        try:
            dtype = np.dtype(found) if isinstance(found, str) and len(found) < 16 else None
        except (TypeError, ValueError):
            dtype = None
        if dtype is None or dtype.kind not in "biufcmM":
            refuse(at, f'found {describe(found)}, must be the numpy type of a number, such as "<i4"')
        return super().resolve(spec, context)

    def to_bytes(self, value: Array) -> bytes:
        dtype = np.dtype(self.members["dtype"])
        parts = [np.asarray([] if one is None else one, dtype).reshape(-1).tobytes() for one in value.ravel()]
        return COUNT.pack(len(parts)) + b"".join(COUNT.pack(len(part)) + part for part in parts)

    def from_bytes(self, encoded: memoryview, n: int) -> list[Any]:
        dtype = np.dtype(self.members["dtype"])
        if len(encoded) < COUNT.size or COUNT.unpack_from(encoded)[0] != n:
            raise CodecError(f"found no count of {n} elements")
        items: list[Any] = []
        place = COUNT.size
        for number in range(n):
            if len(encoded) - place < COUNT.size:
                raise CodecError(f"cut short: element {number} of {n} should start at {place}")
            start = place + COUNT.size
            place = start + COUNT.unpack_from(encoded, place)[0]
            if place > len(encoded) or (place - start) % dtype.itemsize:
                raise CodecError(f"element {number} claims {place - start} bytes of {dtype}")
            items.append(np.frombuffer(encoded[start:place], dtype).astype(dtype.newbyteorder("=")))
        if place != len(encoded):
            raise CodecError(f"{len(encoded) - place} bytes follow the last element")
        return items


class Pickle(ObjectCodec):
    """Pickled arrays of objects."""

    name = "numcodecs.pickle"
    allowed = ("protocol",)

    def resolve(self, spec: ChunkSpec, context: Context) -> Self:
        if not context.allow_pickle:
            where = f"{context.path}: " if context.path else ""
            sentence = f"{self.name} {PICKLE_REFUSED}"
            raise UnknownCodecError(f"{where}{sentence}", ((context.path, sentence),))
        return super().resolve(spec, context)

    def to_bytes(self, value: Array) -> bytes:
        return pickle.dumps(value, protocol=self.members.get("protocol", 5))

    def from_bytes(self, encoded: memoryview, n: int) -> list[Any]:
        try:
            found = pickle.loads(encoded)
        except Exception as error:
            raise CodecError(f"the bytes are no pickle: {type(error).__name__}: {error}") from error
        if not isinstance(found, np.ndarray) or found.size != n:
            raise CodecError(f"found a pickled {type(found).__name__}, must be an array of {n} elements")
        return list(found.reshape(-1))


@dataclass(frozen=True, eq=False)
class Categorize(ArrayArrayCodec):
    """Text out of a few labels as their numbers, from 1; any other text is 0."""

    members: Mapping[str, Any] = field(default_factory=dict)

    name = "numcodecs.categorize"

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        return from_members(lambda **found: cls(found), configuration, path, ("labels",), ("dtype", "astype"))

    def configuration(self) -> dict[str, Any]:
        return dict(self.members)

    def resolve(self, spec: ChunkSpec, context: Context) -> ChunkSpec:
        at = join(context.path, "configuration")
        labels, made = self.members["labels"], self.members.get("astype", "u1")
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            refuse(join(at, "labels"), f"found {describe(labels)}, must be a list of texts")
        if made not in ("u1", "|u1", "<u1", "u2", "<u2", "<u4", "u4", "<i2", "<i4", "<i8", "|i1", "i1"):
            refuse(
                join(at, "astype"),
                f'found {describe(made)}, must be the numpy type of a number, such as "u1"',
            )
        dtype = np.dtype(made).newbyteorder("=")
        if len(labels) > np.iinfo(dtype).max:
            refuse(join(at, "labels"), f"found {len(labels)} labels, more than {dtype} has numbers")
        if spec.data_type.numpy.kind not in "TU":
            refuse(context.path, f"{self.name} encodes text, not {spec.data_type}")
        fill = self.encode(spec.fill.reshape(1), spec).reshape(())
        fill.setflags(write=False)
        return replace(spec, data_type=data_type_from_numpy(dtype), fill=fill)

    def encode(self, value: Array, spec: ChunkSpec) -> Array:
        numbers = {label: i + 1 for i, label in enumerate(self.members["labels"])}
        dtype = np.dtype(self.members.get("astype", "u1")).newbyteorder("=")
        flat = [numbers.get(str(text), 0) for text in value.reshape(-1).tolist()]
        return np.array(flat, dtype).reshape(value.shape)

    def decode(self, value: Array, spec: ChunkSpec) -> Array:
        labels = ["", *self.members["labels"]]
        if value.size and not 0 <= int(value.min()) <= int(value.max()) < len(labels):
            raise CodecError(f"found the label {int(value.max())}, there are {len(labels) - 1}")
        made = np.empty(value.size, spec.data_type.numpy)
        made[:] = [labels[number] for number in value.reshape(-1).tolist()]
        return made.reshape(spec.shape)


def _msgpack(path: str = "") -> Any:
    try:
        import msgpack
    except ImportError as error:
        sentence = "numcodecs.msgpack2 needs the package msgpack: pip install msgpack"
        raise UnknownCodecError(f"{path}: {sentence}" if path else sentence, ((path, sentence),)) from error
    return msgpack


OBJECT_CODECS: dict[str, type[ObjectCodec] | type[Categorize]] = {
    codec.name: codec for codec in (JSON2, MsgPack2, VLenArray, Pickle, Categorize)
}
