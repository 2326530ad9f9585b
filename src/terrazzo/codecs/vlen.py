"""vlen-utf8 and vlen-bytes: a count, then each element as its length and its bytes.

What it does not do: elements of a fixed size; those take `bytes`.
Specification: https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/vlen-utf8 (and vlen-bytes)

The count and all lengths are little-endian uint32, so an element has less than 4 GiB.
"""

from __future__ import annotations

import math
import struct
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self

import numpy as np

from terrazzo.codecs.codec import Array, ArrayBytesCodec, Buffer, ChunkSpec, Context
from terrazzo.codecs.configuration import from_members
from terrazzo.errors import CodecError
from terrazzo.metadata.data_types import DataType, String, VariableBytes
from terrazzo.metadata.problems import refuse

__all__ = ["VLenBytesCodec", "VLenUTF8Codec"]

LENGTH = struct.Struct("<I")
LONGEST = (1 << 32) - 1


class VLenCodec(ArrayBytesCodec):
    """The form that both share; a subclass turns elements into bytes and back."""

    data_type: type[DataType]

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        return from_members(cls, configuration, path)

    def configuration(self) -> dict[str, Any]:
        return {}

    def resolve(self, spec: ChunkSpec, context: Context) -> Self:
        if not isinstance(spec.data_type, self.data_type):
            allowed = self.data_type.names[0]
            refuse(context.path, f"{self.name} encodes the data type {allowed} alone, not {spec.data_type}")
        return self

    def encode(self, value: Array, spec: ChunkSpec) -> bytes:
        elements = self.to_bytes(value.reshape(-1).tolist())
        lengths = list(map(len, elements))
        if len(lengths) > LONGEST or max(lengths, default=0) > LONGEST:
            raise CodecError(f"at most {LONGEST} elements of at most {LONGEST} bytes can be encoded")
        heads = map(LENGTH.pack, lengths)
        return LENGTH.pack(len(lengths)) + b"".join(chain.from_iterable(zip(heads, elements, strict=True)))

    def decode(self, encoded: Buffer, spec: ChunkSpec) -> Array:
        view = memoryview(encoded).cast("B")
        n = math.prod(spec.shape)
        if len(view) < LENGTH.size * (n + 1):
            raise CodecError(
                f"found {len(view)} bytes, the lengths of {n} elements alone take {LENGTH.size * (n + 1)}"
            )
        (count,) = LENGTH.unpack_from(view)
        if count != n:
            raise CodecError(f"found {count} elements, a chunk of shape {spec.shape} has {n}")
        elements = []
        length_at, size, place = LENGTH.unpack_from, LENGTH.size, LENGTH.size
        end = len(view)
        for number in range(n):
            if end - place < size:
                raise CodecError(
                    f"cut short: element {number} of {n} should start at {place}, there are {end} bytes"
                )
            start = place + size
            place = start + length_at(view, place)[0]
            if place > end:
                raise CodecError(f"element {number} claims {place - start} bytes, {end - start} are left")
            elements.append(view[start:place])
        if place != end:
            raise CodecError(f"{end - place} bytes follow the last element")
        value = np.empty(n, spec.data_type.numpy)
        value[:] = self.from_bytes(elements)
        return value.reshape(spec.shape)

    @abstractmethod
    def to_bytes(self, elements: list[Any]) -> list[bytes]: ...

    @abstractmethod
    def from_bytes(self, elements: list[memoryview]) -> list[Any]: ...


@dataclass(frozen=True, eq=False)
class VLenUTF8Codec(VLenCodec):
    """Text of any length, as UTF-8."""

    name = "vlen-utf8"
    data_type = String

    def to_bytes(self, elements: list[Any]) -> list[bytes]:
        try:
            return [element.encode() for element in elements]
        except UnicodeEncodeError as error:
            raise CodecError(f"{error.object!r} has a character that UTF-8 cannot hold") from error

    def from_bytes(self, elements: list[memoryview]) -> list[str]:
        try:
            return [str(element, "utf-8") for element in elements]
        except UnicodeDecodeError as error:
            raise CodecError(f"found {error.object[:40]!r}, which is not UTF-8: {error.reason}") from error


@dataclass(frozen=True, eq=False)
class VLenBytesCodec(VLenCodec):
    """Bytes of any length."""

    name = "vlen-bytes"
    data_type = VariableBytes

    def to_bytes(self, elements: list[Any]) -> list[bytes]:
        for number, element in enumerate(elements):
            if not isinstance(element, bytes | bytearray | memoryview):
                raise CodecError(f"element {number} is a {type(element).__name__}, must be bytes")
        return [bytes(element) for element in elements]

    def from_bytes(self, elements: list[memoryview]) -> list[bytes]:
        return [bytes(element) for element in elements]
