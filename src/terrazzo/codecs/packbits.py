"""packbits: elements of any number of bits, one behind the other without gaps.

What it does not do: numcodecs' own codec of that name, which fills bytes from the other end (numcodecs.packbits).
Specification: https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/packbits

Bits are taken from the least significant end, in elements as in bytes: what zarrs writes; the text leaves it open.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from terrazzo.codecs.bytes import reverse_units
from terrazzo.codecs.codec import Array, ArrayBytesCodec, Buffer, ChunkSpec, Context
from terrazzo.codecs.configuration import choice, from_members, integer
from terrazzo.codecs.element import Element, element_of
from terrazzo.codecs.native import as_bytes
from terrazzo.errors import CodecError
from terrazzo.metadata import DataType
from terrazzo.metadata.data_types import NumpyTime
from terrazzo.metadata.problems import join, refuse

__all__ = ["PackBits"]

PADDINGS = ("none", "first_byte", "last_byte")


@dataclass(frozen=True, eq=False)
class PackBits(ArrayBytesCodec):
    """Elements bit by bit. padding_encoding: where the number of padding bits is told. first_bit, last_bit: the bits
    of each component that are kept, counted from the least significant one; None keeps all."""

    padding_encoding: str = "none"
    first_bit: int | None = None
    last_bit: int | None = None

    name = "packbits"
    spelling = ("padding_encoding", "first_bit", "last_bit")

    def __post_init__(self) -> None:
        choice(self.padding_encoding, "padding_encoding", PADDINGS)
        for member in ("first_bit", "last_bit"):
            if getattr(self, member) is not None:
                object.__setattr__(self, member, integer(getattr(self, member), member, 0))
        if self.last_bit is not None and self.last_bit < (self.first_bit or 0):
            refuse("last_bit", f"found {self.last_bit}, must be at least first_bit, {self.first_bit or 0}")

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        return from_members(cls, configuration, path, (), ("padding_encoding", "first_bit", "last_bit"))

    def configuration(self) -> dict[str, Any]:
        members: dict[str, Any] = {"padding_encoding": self.padding_encoding}
        if self.first_bit is not None:
            members["first_bit"] = self.first_bit
        if self.last_bit is not None:
            members["last_bit"] = self.last_bit
        return members

    def resolve(self, spec: ChunkSpec, context: Context) -> Self:
        element = element_of(spec.data_type)
        if element is None or isinstance(spec.data_type, NumpyTime):
            refuse(
                context.path, f"packbits cannot encode {spec.data_type}; it encodes bool, integers and floats"
            )
        at = join(context.path, "configuration")
        for member in ("first_bit", "last_bit"):
            bit = getattr(self, member)
            if bit is not None and bit >= element.bits:
                refuse(
                    join(at, member), f"found {bit}, {spec.data_type} has the bits 0 to {element.bits - 1}"
                )
        return self

    def encoded_nbytes(self, spec: ChunkSpec) -> int:
        return (self._nbits(spec) + 7) // 8 + (self.padding_encoding != "none")

    def encode(self, value: Array, spec: ChunkSpec) -> bytes:
        element = _element(spec.data_type)
        first, last = self._kept(element)
        stored = _little(as_bytes(value), spec.data_type).reshape(-1, _component_nbytes(spec.data_type))
        bits = np.unpackbits(stored, axis=1, bitorder="little")[:, first : last + 1]
        packed = np.packbits(bits.reshape(-1), bitorder="little").tobytes()
        padding = bytes([-self._nbits(spec) % 8])
        if self.padding_encoding == "first_byte":
            return padding + packed
        return packed + padding if self.padding_encoding == "last_byte" else packed

    def decode(self, encoded: Buffer, spec: ChunkSpec) -> Array:
        element = _element(spec.data_type)
        first, last = self._kept(element)
        packed = np.frombuffer(encoded, np.uint8)
        if packed.nbytes != self.encoded_nbytes(spec):
            expected = self.encoded_nbytes(spec)
            raise CodecError(f"found {packed.nbytes} bytes, a chunk of shape {spec.shape} has {expected}")
        nbits = self._nbits(spec)
        if self.padding_encoding != "none":
            in_front = self.padding_encoding == "first_byte"
            told, packed = (packed[0], packed[1:]) if in_front else (packed[-1], packed[:-1])
            if told != -nbits % 8:
                raise CodecError(f"the padding byte says {told} bits, there are {-nbits % 8}")
        width = 8 * _component_nbytes(spec.data_type)
        kept = np.unpackbits(packed, count=nbits, bitorder="little").reshape(-1, last - first + 1)
        bits = np.zeros((len(kept), width), np.uint8)
        bits[:, first : last + 1] = kept
        if element.kind == "int":
            bits[:, last + 1 :] = kept[:, -1:]
        stored = np.packbits(bits, axis=1, bitorder="little").reshape(-1)
        return _little(stored, spec.data_type).view(spec.data_type.numpy).reshape(spec.shape)

    def _kept(self, element: Element) -> tuple[int, int]:
        return self.first_bit or 0, element.bits - 1 if self.last_bit is None else self.last_bit

    def _nbits(self, spec: ChunkSpec) -> int:
        element = _element(spec.data_type)
        first, last = self._kept(element)
        return math.prod(spec.shape) * element.components * (last - first + 1)


def _element(data_type: DataType) -> Element:
    element = element_of(data_type)
    assert element is not None
    return element


def _component_nbytes(data_type: DataType) -> int:
    return data_type.numpy.itemsize // _element(data_type).components


def _little(stored: Array, data_type: DataType) -> Array:
    """Bytes of elements between the order of memory and little-endian order."""
    return (
        stored
        if sys.byteorder == "little"
        else reverse_units(stored, data_type.units, data_type.numpy.itemsize)
    )
