"""bytes: the elements in C order, little or big endian.

What it does not do: elements that differ in size; those take vlen-utf8 or vlen-bytes.
Specification: https://zarr-specs.readthedocs.io/en/latest/v3/codecs/bytes/index.html
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from terrazzo.codecs.codec import Array, ArrayBytesCodec, Buffer, ChunkSpec, Context, Step
from terrazzo.codecs.configuration import choice, from_members
from terrazzo.codecs.native import as_bytes
from terrazzo.errors import CodecError
from terrazzo.metadata.problems import join, refuse

__all__ = ["BytesCodec"]


@dataclass(frozen=True, eq=False)
class BytesCodec(ArrayBytesCodec):
    """Elements as bytes. endian: "little", "big", or None for data types of single bytes."""

    endian: str | None = "little"
    #: a bool that is neither 0 nor 1 is refused, else it counts as true
    strict: bool = field(default=True, kw_only=True, repr=False)

    name = "bytes"
    spelling = ("endian",)

    def __post_init__(self) -> None:
        endian = getattr(self.endian, "value", self.endian)
        if endian is not None:
            endian = choice(endian, "endian", ("little", "big"))
        object.__setattr__(self, "endian", endian)

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        return from_members(cls, {"endian": None, **configuration}, path, ("endian",))

    def configuration(self) -> dict[str, Any]:
        return {} if self.endian is None else {"endian": self.endian}

    def resolve(self, spec: ChunkSpec, context: Context) -> BytesCodec:
        data_type = spec.data_type
        if data_type.itemsize is None:
            refuse(
                context.path,
                f"bytes cannot encode {data_type}, whose elements differ in size; use a vlen codec",
            )
        endian = self.endian if data_type.needs_endian else None
        if endian is None and data_type.needs_endian:
            endian = data_type.implied_endian
            if endian is None:
                at = join(join(context.path, "configuration"), "endian")
                refuse(at, f'is missing; {data_type} has elements of several bytes: "little" or "big"')
        return replace(self, endian=endian, strict=context.strict)

    def step(self, spec: ChunkSpec) -> Step | None:
        check = spec.data_type.check
        if check and not self.strict:
            return None  # the kernel refuses; what is lenient is done below
        return ("bytes", self._reversed_units(spec), check)

    def encoded_nbytes(self, spec: ChunkSpec) -> int | None:
        return spec.nbytes

    def encode(self, value: Array, spec: ChunkSpec) -> Buffer:
        return reverse_units(as_bytes(value), self._reversed_units(spec), spec.data_type.itemsize or 1).data

    def decode(self, encoded: Buffer, spec: ChunkSpec) -> Array:
        dtype = spec.data_type.numpy
        elements = np.frombuffer(encoded, np.uint8)
        if elements.nbytes != spec.nbytes:
            raise CodecError(
                f"found {elements.nbytes} bytes, a chunk of shape {spec.shape} has {spec.nbytes}"
            )
        if spec.data_type.check == "bool":
            if self.strict and elements.size and elements.max() > 1:
                first = int(np.argmax(elements > 1))
                raise CodecError(f"a bool is 0 or 1, element {first} is {elements[first]}")
            return np.not_equal(elements, 0).reshape(spec.shape)
        turned = reverse_units(elements, self._reversed_units(spec), dtype.itemsize)
        return turned.copy().view(dtype).reshape(spec.shape)

    def _reversed_units(self, spec: ChunkSpec) -> tuple[int, ...]:
        return () if self.endian in (None, sys.byteorder) else spec.data_type.units


def reverse_units(elements: Array, units: tuple[int, ...], itemsize: int) -> Array:
    """uint8 elements with the bytes of every unit reversed; units are repeated over each element."""
    if not units:
        return elements
    source: list[int] = []
    while len(source) < itemsize:
        for unit in units:
            source += range(len(source) + unit - 1, len(source) - 1, -1)
    return np.ascontiguousarray(elements.reshape(-1, itemsize)[:, source]).reshape(-1)
