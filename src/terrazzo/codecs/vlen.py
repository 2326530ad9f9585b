"""vlen-utf8 and vlen-bytes: a count, then each element as its length and its bytes.

What it does not do: elements of a fixed size; those take `bytes`.
Specification: https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/vlen-utf8 (and vlen-bytes)

The count and all lengths are little-endian uint32, so an element has less than 4 GiB.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from terrazzo.codecs.codec import Array, ArrayBytesCodec, Buffer, ChunkSpec, Context
from terrazzo.codecs.configuration import from_members
from terrazzo.codecs.native import join_elements, split_elements
from terrazzo.errors import CodecError
from terrazzo.metadata.data_types import DataType, String, VariableBytes
from terrazzo.metadata.problems import refuse

__all__ = ["VLenBytesCodec", "VLenUTF8Codec"]


class VLenCodec(ArrayBytesCodec):
    """The form that both share."""

    data_type: type[DataType]
    #: whether elements are text
    text: bool

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
        try:
            return join_elements(value.reshape(-1).tolist(), self.text)
        except UnicodeEncodeError as error:
            raise CodecError(f"{error.object!r} has a character that UTF-8 cannot hold") from error

    def decode(self, encoded: Buffer, spec: ChunkSpec) -> Array:
        n = math.prod(spec.shape)
        value = np.empty(n, spec.data_type.numpy)
        value[:] = split_elements(encoded, n, self.text)
        return value.reshape(spec.shape)


@dataclass(frozen=True, eq=False)
class VLenUTF8Codec(VLenCodec):
    """Text of any length, as UTF-8."""

    name = "vlen-utf8"
    data_type = String
    text = True


@dataclass(frozen=True, eq=False)
class VLenBytesCodec(VLenCodec):
    """Bytes of any length."""

    name = "vlen-bytes"
    data_type = VariableBytes
    text = False
