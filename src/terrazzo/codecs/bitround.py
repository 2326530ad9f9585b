"""bitround: numbers with their lower bits rounded away, so that compressors find less to keep.

What it does not do: undo it; decoding gives the rounded numbers.
Specification: https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/bitround
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from terrazzo.codecs.codec import Array, ArrayArrayCodec, ChunkSpec, Context
from terrazzo.codecs.configuration import from_members, integer
from terrazzo.codecs.element import Element, element_of
from terrazzo.metadata import DataType
from terrazzo.metadata.data_types import Float, SmallFloat
from terrazzo.metadata.data_types.small import SmallComplex
from terrazzo.metadata.problems import refuse

__all__ = ["BitRound"]

#: stored bits of the mantissa, by the data type of one component
MANTISSAS = {"float16": 10, "float32": 23, "float64": 52, "bfloat16": 7}


@dataclass(frozen=True, eq=False)
class BitRound(ArrayArrayCodec):
    """Rounds half to even. keepbits: of the mantissa for floats; from the most significant set bit on for integers."""

    keepbits: int

    name = "bitround"
    spelling = ("keepbits",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "keepbits", integer(self.keepbits, "keepbits", 1))

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        return from_members(cls, configuration, path, ("keepbits",))

    def configuration(self) -> dict[str, Any]:
        return {"keepbits": self.keepbits}

    def resolve(self, spec: ChunkSpec, context: Context) -> ChunkSpec:
        element = element_of(spec.data_type)
        mantissa = _mantissa(spec.data_type)
        if element is None or element.bits < 8 or (element.kind == "float" and mantissa is None):
            refuse(
                context.path,
                f"bitround cannot round {spec.data_type}; it rounds integers, and floats of 16 bits",
            )
        # codecs behind this one compare chunks with the fill value as it is stored
        return replace(spec, fill=self.encode(spec.fill, spec))

    def encode(self, value: Array, spec: ChunkSpec) -> Array:
        element = element_of(spec.data_type)
        assert element is not None
        unsigned = np.dtype(f"u{element.bits // 8}")
        bits = np.array(value, order="C", ndmin=1).view(unsigned)
        if element.kind == "float":
            rounded = _round_float(bits, self.keepbits, _mantissa(spec.data_type) or 0, element.bits)
        else:
            rounded = _round_integer(bits, self.keepbits, element)
        return rounded.view(spec.data_type.numpy).reshape(value.shape)

    def decode(self, value: Array, spec: ChunkSpec) -> Array:
        return value


def _mantissa(data_type: DataType) -> int | None:
    element = element_of(data_type)
    if element is None or element.kind != "float":
        return None
    if isinstance(data_type, SmallFloat | SmallComplex):
        return MANTISSAS.get(data_type.form.dtype.name)
    name = data_type.name if isinstance(data_type, Float) else f"float{element.bits}"
    return MANTISSAS[name]


def _round_float(bits: Array, keepbits: int, mantissa: int, width: int) -> Array:
    dropped = mantissa - keepbits
    if dropped <= 0:
        return bits  # to keep more than there is keeps all
    one = bits.dtype.type(1)
    half = bits.dtype.type((1 << (dropped - 1)) - 1)
    keep = bits.dtype.type(((1 << width) - 1) >> dropped << dropped)
    exponent = bits.dtype.type(((1 << (width - 1)) - 1) >> mantissa << mantissa)
    rounded = bits + (half + (bits >> bits.dtype.type(dropped) & one)) & keep
    return np.where(bits & exponent == exponent, bits, rounded)  # infinities and NaNs stay


def _round_integer(bits: Array, keepbits: int, element: Element) -> Array:
    """As zarrs has it, sign bit included: the most significant set bit of a negative number is its sign. Where
    rounding up would leave the type (or turn the sign), it rounds down instead."""
    kind = bits.dtype.type
    significant = np.zeros(bits.shape, bits.dtype)
    rest = bits.copy()
    shift = element.bits // 2
    while shift:  # the position of the highest set bit, by halving
        above = rest >> kind(shift)
        found = above > 0
        significant += np.where(found, kind(shift), kind(0))
        rest = np.where(found, above, rest)
        shift //= 2
    significant += rest  # 0 for zero, else the position + 1
    dropped = np.where(significant > keepbits, significant - kind(min(keepbits, element.bits)), kind(0))
    keep = kind((1 << element.bits) - 1) >> dropped << dropped
    half = np.where(dropped > 0, (kind(1) << np.maximum(dropped, 1) - kind(1)) - kind(1), kind(0))
    added = np.where(dropped > 0, half + (bits >> dropped & kind(1)), kind(0))
    top = kind(element.high) if element.kind == "int" else kind((1 << element.bits) - 1)
    negative = bits > top
    limit = np.where(negative, kind((1 << element.bits) - 1), top)
    rounded: Array = (bits + np.minimum(added, limit - bits)) & keep
    return rounded
