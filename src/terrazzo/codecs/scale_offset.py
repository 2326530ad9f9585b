"""scale_offset: (x - offset) * scale, in the arithmetic of the data type.

What it does not do: change the data type; `cast_value` behind it does.
Specification: https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/scale_offset
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np

from terrazzo.codecs.codec import Array, ArrayArrayCodec, ChunkSpec, Context
from terrazzo.codecs.configuration import from_members
from terrazzo.codecs.element import Element, element_of
from terrazzo.errors import CodecError
from terrazzo.metadata import DataType
from terrazzo.metadata.data_types import NumpyTime
from terrazzo.metadata.problems import describe, join, refuse

__all__ = ["ScaleOffset"]


@dataclass(frozen=True, eq=False)
class ScaleOffset(ArrayArrayCodec):
    """offset, scale: scalars of the array's data type, as fill values are written. Integers that do not come out
    exactly, and floats that leave their range, are errors."""

    offset: Any = 0
    scale: Any = 1

    name = "scale_offset"
    spelling = ("offset", "scale")

    def __post_init__(self) -> None:
        for member in ("offset", "scale"):
            found = getattr(self, member)
            found = found.item() if isinstance(found, np.generic) else found
            if isinstance(found, bool) or not isinstance(found, int | float | str):
                refuse(member, f"found {describe(found)}, must be a number as a fill value is written")
            object.__setattr__(self, member, found)

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        return from_members(cls, configuration, path, (), ("offset", "scale"))

    def configuration(self) -> dict[str, Any]:
        members = {}
        if self.offset != 0:
            members["offset"] = self.offset
        if self.scale != 1:
            members["scale"] = self.scale
        return members

    def resolve(self, spec: ChunkSpec, context: Context) -> ChunkSpec:
        element = element_of(spec.data_type)
        if (
            element is None
            or element.kind == "bool"
            or element.components > 1
            or isinstance(spec.data_type, NumpyTime)
        ):
            refuse(context.path, f"scale_offset cannot scale {spec.data_type}; it scales integers and floats")
        at = join(context.path, "configuration")
        for member in ("offset", "scale"):
            number = spec.data_type.fill_from_json(
                getattr(self, member), join(at, member), strict=context.strict
            )
            wide = number.astype(np.float64)
            if not np.isfinite(wide):
                refuse(join(at, member), f"found {describe(getattr(self, member))}, must be finite")
            if member == "scale" and wide == 0:
                refuse(join(at, member), "found 0, with which nothing could be decoded")
        try:
            fill = self.encode(spec.fill, spec)
        except CodecError as error:
            refuse(context.path, f"the fill value {spec.fill} cannot be scaled: {error}")
        fill.setflags(write=False)
        return replace(spec, fill=fill)

    def encode(self, value: Array, spec: ChunkSpec) -> Array:
        element, offset, scale = _terms(self, spec.data_type)
        if element.kind != "float":
            numbers = _plain(value, element)
            return _multiplied(_shifted(numbers, -offset, element), scale, element).astype(
                spec.data_type.numpy
            )
        with np.errstate(all="ignore"):
            shifted = np.asarray(value - offset)
            scaled = np.asarray(shifted * scale)
        _check_finite(value, shifted, scaled, spec.data_type)
        return scaled

    def decode(self, value: Array, spec: ChunkSpec) -> Array:
        element, offset, scale = _terms(self, spec.data_type)
        if element.kind != "float":
            numbers = _plain(value, element)
            return _shifted(_divided(numbers, scale, element), offset, element).astype(spec.data_type.numpy)
        with np.errstate(all="ignore"):
            divided = np.asarray(value / scale)
            shifted = np.asarray(divided + offset)
        _check_finite(value, divided, shifted, spec.data_type)
        return shifted


@lru_cache(maxsize=64)
def _terms(codec: ScaleOffset, data_type: DataType) -> tuple[Element, Any, Any]:
    """Python integers for integers, 0-d arrays of the data type for floats."""
    element = element_of(data_type)
    assert element is not None
    offset, scale = data_type.fill_from_json(codec.offset), data_type.fill_from_json(codec.scale)
    if element.kind == "float":
        return element, offset, scale
    return element, int(offset.astype(object)[()]), int(scale.astype(object)[()])


def _plain(value: Array, element: Element) -> Array:
    """Integers as numpy itself knows them."""
    return value if element.bits >= 8 else value.astype(np.int8 if element.kind == "int" else np.uint8)


def _within(numbers: Array, low: int, high: int, element: Element, doing: str) -> None:
    """Numbers outside low..high would leave the data type; the comparison with Python's integers is exact."""
    wrong = (numbers < low) | (numbers > high)
    if wrong.any():
        found = numbers.reshape(-1)[int(np.argmax(wrong))]
        raise CodecError(f"{doing} {found} leaves the range {element.low} to {element.high} of the data type")


def _shifted(numbers: Array, by: int, element: Element) -> Array:
    _within(numbers, element.low - by, element.high - by, element, f"adding {by} to")
    # the sum is in range, so it is right although its terms wrap around
    bits = numbers.dtype.itemsize * 8
    unsigned = np.dtype(f"u{numbers.dtype.itemsize}")
    moved = np.ascontiguousarray(numbers).view(unsigned) + unsigned.type(by % (1 << bits))
    return np.asarray(moved).view(numbers.dtype).reshape(numbers.shape)


def _multiplied(numbers: Array, by: int, element: Element) -> Array:
    ends = sorted((element.low * by, element.high * by))
    if ends != sorted((element.low, element.high)):
        # numbers whose product stays in range: low / by .. high / by, rounded inwards
        low, high = (element.low, element.high) if by > 0 else (-element.high, -element.low)
        _within(numbers, -(-low // abs(by)), high // abs(by), element, f"multiplying by {by} the number")
    return np.asarray(numbers * numbers.dtype.type(by))


def _divided(numbers: Array, by: int, element: Element) -> Array:
    if by == -1:
        return _multiplied(numbers, -1, element)
    quotient, rest = np.divmod(numbers, numbers.dtype.type(by))
    if np.any(rest):
        found = numbers.reshape(-1)[int(np.argmax(rest != 0))]
        raise CodecError(f"{found} is not a multiple of the scale {by}, so it was not encoded with it")
    return np.asarray(quotient)


def _check_finite(value: Array, between: Array, made: Array, data_type: DataType) -> None:
    """Infinities and NaNs pass; a finite number must stay one."""
    lost = np.isfinite(value.astype(np.float64)) & ~(
        np.isfinite(between.astype(np.float64)) & np.isfinite(made.astype(np.float64))
    )
    if lost.any():
        found = np.asarray(value).reshape(-1)[int(np.argmax(lost))]
        raise CodecError(f"{found} cannot be scaled within {data_type}")
