"""cast_value: numbers as those of another data type, by stated rules for what does not fit.

What it does not do: reinterpret bits, or cast complex numbers, bools and times.
Specification: https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/cast_value

The rules, in order: what `scalar_map` names; what the other type holds exactly; rounding; `out_of_range`; an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np

from terrazzo.codecs.codec import Array, ArrayArrayCodec, ChunkSpec, Context
from terrazzo.codecs.configuration import choice, from_members, only_members
from terrazzo.codecs.element import Element, element_of
from terrazzo.codecs.rounding import ROUNDINGS, round_to_float, round_to_integer
from terrazzo.errors import CodecError
from terrazzo.metadata import DataType, data_type_from_json, resolve_data_type
from terrazzo.metadata.data_types import Float, NumpyTime
from terrazzo.metadata.problems import describe, join, refuse

__all__ = ["CastValue"]

DIRECTIONS = ("encode", "decode")


@dataclass(frozen=True, eq=False)
class CastValue(ArrayArrayCodec):
    """Numbers of another data type.

    out_of_range: "clamp", "wrap" (integers only), or None for an error. scalar_map: {"encode": [[from, to], ...],
    "decode": [...]}, scalars as fill values are written.
    """

    data_type: DataType
    rounding: str = "nearest-even"
    out_of_range: str | None = None
    scalar_map: Mapping[str, Any] | None = None

    name = "cast_value"

    def __post_init__(self) -> None:
        target = self.data_type
        if isinstance(target, str | Mapping) and not isinstance(target, DataType):
            target = data_type_from_json(target, "data_type")
        elif not isinstance(target, DataType):
            target = resolve_data_type(target)
        object.__setattr__(self, "data_type", target)
        element = _real(target)
        if element is None:
            refuse("data_type", f"found {target}, must be an integer or a float")
        choice(self.rounding, "rounding", ROUNDINGS)
        if self.out_of_range is not None:
            choice(self.out_of_range, "out_of_range", ("clamp", "wrap"))
            if self.out_of_range == "wrap" and element.kind == "float":
                refuse("out_of_range", f"found wrap, which only integers do; {target} is a float")
        if self.scalar_map is not None:
            _check_map(self.scalar_map)

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        return from_members(
            cls, configuration, path, ("data_type",), ("rounding", "out_of_range", "scalar_map")
        )

    def configuration(self) -> dict[str, Any]:
        members: dict[str, Any] = {"data_type": self.data_type.to_json(), "rounding": self.rounding}
        if self.out_of_range is not None:
            members["out_of_range"] = self.out_of_range
        if self.scalar_map is not None:
            pairs = {side: [list(pair) for pair in found] for side, found in self.scalar_map.items()}
            members["scalar_map"] = pairs
        return members

    def resolve(self, spec: ChunkSpec, context: Context) -> ChunkSpec:
        if _real(spec.data_type) is None:
            refuse(context.path, f"cast_value cannot cast {spec.data_type}; it casts integers and floats")
        at = join(join(context.path, "configuration"), "scalar_map")
        for side in DIRECTIONS:
            source, target = self._sides(side, spec.data_type)
            for i, pair in enumerate((self.scalar_map or {}).get(side, ())):
                where = join(join(at, side), i)
                source.fill_from_json(pair[0], join(where, 0), strict=context.strict)
                target.fill_from_json(pair[1], join(where, 1), strict=context.strict)
        try:
            fill = self.encode(spec.fill, spec)
            back = self.decode(fill, spec)
        except CodecError as error:
            refuse(
                context.path,
                f"the fill value {spec.fill} cannot be cast to {self.data_type} and back: {error}",
            )
        if not _same(back, spec.fill):
            sentence = f"the fill value {spec.fill} becomes {fill} as {self.data_type}"
            refuse(context.path, f"{sentence}, and {back} again; it must survive")
        fill.setflags(write=False)
        return replace(spec, data_type=self.data_type, fill=fill)

    def encode(self, value: Array, spec: ChunkSpec) -> Array:
        return self._cast("encode", value, spec.data_type)

    def decode(self, value: Array, spec: ChunkSpec) -> Array:
        return self._cast("decode", value, spec.data_type)

    def _cast(self, side: str, value: Array, outer: DataType) -> Array:
        source, target = self._sides(side, outer)
        flat = np.ascontiguousarray(value).reshape(-1)
        made = np.empty(flat.shape, target.numpy)
        left = np.ones(flat.shape, bool)
        for key, mapped in _pairs(self, side, source, target):
            found = left & _equals(flat, key)
            made[found] = mapped
            left &= ~found
        if left.all():
            made = _cast_numbers(flat, source, target, self.rounding, self.out_of_range)
        elif left.any():
            made[left] = _cast_numbers(flat[left], source, target, self.rounding, self.out_of_range)
        return made.reshape(value.shape)

    def _sides(self, side: str, outer: DataType) -> tuple[DataType, DataType]:
        return (outer, self.data_type) if side == "encode" else (self.data_type, outer)


def _real(data_type: DataType) -> Element | None:
    element = element_of(data_type)
    if (
        element is None
        or element.kind == "bool"
        or element.components > 1
        or isinstance(data_type, NumpyTime)
    ):
        return None
    return element


def _check_map(found: object) -> None:
    if not isinstance(found, Mapping):
        refuse("scalar_map", f"found {describe(found)}, must be an object with `encode`, `decode` or both")
    only_members(found, "scalar_map", (), DIRECTIONS)
    for side, pairs in found.items():
        if not isinstance(pairs, list | tuple):
            refuse(f"scalar_map.{side}", f"found {describe(pairs)}, must be a list of pairs [from, to]")
        for i, pair in enumerate(pairs):
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                refuse(f"scalar_map.{side}[{i}]", f"found {describe(pair)}, must be a pair [from, to]")


@lru_cache(maxsize=64)
def _pairs(
    codec: CastValue, side: str, source: DataType, target: DataType
) -> tuple[tuple[Array, Array], ...]:
    pairs = (codec.scalar_map or {}).get(side, ())
    return tuple((source.fill_from_json(pair[0]), target.fill_from_json(pair[1])) for pair in pairs)


def _equals(values: Array, key: Array) -> Array:
    """Equal numbers; any NaN equals NaN."""
    if bool(key != key):
        return np.asarray(values != values)
    return np.asarray(values == key)


def _same(one: Array, other: Array) -> bool:
    both_nan = bool(one != one) and bool(other != other)
    return both_nan or bool(one == other)


def _plain(values: Array, element: Element) -> Array:
    """Numbers as numpy itself knows them: integers of 8 bits or more, or float64."""
    if element.kind == "float":
        return values.astype(np.float64)
    return values if element.bits >= 8 else values.astype(np.int8 if element.kind == "int" else np.uint8)


def _cast_numbers(
    values: Array, source: DataType, target: DataType, rounding: str, out_of_range: str | None
) -> Array:
    before, after = element_of(source), element_of(target)
    assert before is not None
    assert after is not None
    if source == target:
        return values.copy()
    if isinstance(source, Float) and isinstance(target, Float):
        if rounding == "nearest-even" or target.bits > source.bits:
            return _as_the_machine_rounds(values, target, out_of_range)
    numbers = _plain(values, before)
    if after.kind == "float":
        return _to_float(values, numbers, target, rounding, out_of_range)
    if before.kind == "float":
        finite = np.isfinite(numbers)
        if not finite.all():
            raise CodecError(f"{_first(values, ~finite)} has no place in {target}; `scalar_map` can name one")
        numbers = round_to_integer(numbers, rounding)
    # the ends are compared as powers of two, which are exact in every type
    outside = (numbers < after.low) | (numbers >= after.high + 1)
    wide = np.int64 if after.kind == "int" else np.uint64
    if not outside.any():
        return numbers.astype(wide).astype(target.numpy)
    if out_of_range is None:
        raise CodecError(
            f"{_first(values, outside)} is not within {target}, which has {after.low} to {after.high}"
        )
    if out_of_range == "clamp":
        inside = np.where(outside, numbers.dtype.type(0), numbers).astype(wide)
        clamped = np.where(outside, np.where(numbers < 0, wide(after.low), wide(after.high)), inside)
        return clamped.astype(target.numpy)
    return _wrapped(numbers, after).astype(target.numpy)


def _as_the_machine_rounds(values: Array, target: Float, out_of_range: str | None) -> Array:
    """IEEE 754 types to nearest-even: what numpy does in one step, and what overflows becomes infinite."""
    with np.errstate(over="ignore", under="ignore"):
        made = values.astype(target.numpy)
    if out_of_range != "clamp":
        outside = np.isinf(made) & np.isfinite(values)
        if outside.any():
            low, high = target.form.smallest, target.form.largest
            raise CodecError(
                f"{_first(values, outside)} is not within {target}, which has {low:g} to {high:g}"
            )
    return made


def _to_float(
    values: Array, numbers: Array, target: DataType, rounding: str, out_of_range: str | None
) -> Array:
    special = ~np.isfinite(numbers) if numbers.dtype.kind == "f" else np.zeros(numbers.shape, bool)
    rounded, outside = round_to_float(np.where(special, numbers.dtype.type(0), numbers), target, rounding)
    form = target.form  # type: ignore[attr-defined]
    if special.any():
        lost = (np.isnan(numbers) if form.nan is None else np.zeros(special.shape, bool)) | (
            np.isinf(numbers) if form.infinity is None else np.zeros(special.shape, bool)
        )
        if lost.any():
            raise CodecError(f"{_first(values, lost)} has no place in {target}; `scalar_map` can name one")
    if not form.zero:
        void = ~special & (numbers <= 0)
        outside = outside | void
        rounded = np.where(void, -np.inf, rounded)
    if outside.any():
        if out_of_range != "clamp":
            raise CodecError(
                f"{_first(values, outside)} is not within {target}, which has {form.smallest:g} to {form.largest:g}"
            )
        if form.infinity is None:
            rounded = np.where(outside, np.where(rounded < 0, form.smallest, form.largest), rounded)
    with np.errstate(over="ignore", under="ignore"):
        made = rounded.astype(target.numpy)
        if special.any():
            made[special] = values[special].astype(target.numpy)
    return np.asarray(made)


def _wrapped(numbers: Array, after: Element) -> Array:
    """Modulo 2^bits, in two's complement, as int64 or uint64."""
    if numbers.dtype.kind == "f":
        rest = np.fmod(numbers, float(1 << after.bits))  # exact
        magnitude = np.abs(rest).astype(np.uint64)
        bits = np.where(rest < 0, ~magnitude + np.uint64(1), magnitude)
    elif numbers.dtype.kind == "i":
        bits = numbers.astype(np.int64).view(np.uint64)
    else:
        bits = numbers.astype(np.uint64)
    spare = np.uint64(64 - after.bits)
    bits = bits << spare
    return np.asarray(bits.view(np.int64) >> np.int64(spare) if after.kind == "int" else bits >> spare)


def _first(values: Array, mask: Array) -> str:
    number = int(np.argmax(mask))
    return f"{values[number]} (element {number})"
