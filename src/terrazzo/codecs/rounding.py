"""Numbers of one type as the nearest of another: rounding in five directions, exactly.

What it does not do: decide what happens to numbers out of range; it tells where they are.
Specification: https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/cast_value, "rounding"

Floats of 16 bits and less are looked up in the sorted list of all their values; float32 and float64 are rounded by
scaling to integers. No number passes through a rounding other than the one asked for.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from terrazzo.codecs.codec import Array
from terrazzo.codecs.element import Element, element_of
from terrazzo.metadata import DataType

__all__ = ["ROUNDINGS", "round_to_float", "round_to_integer", "widened"]

ROUNDINGS = ("nearest-even", "towards-zero", "towards-positive", "towards-negative", "nearest-away")

#: stored bits of the mantissa plus the implicit one, and the exponent of the least normal number
FORMS = {32: (24, -126), 64: (53, -1022)}


def round_to_integer(value: Array, rounding: str) -> Array:
    """Finite float64 numbers as whole ones, still as float64."""
    if rounding == "nearest-even":
        return np.asarray(np.rint(value))
    if rounding == "towards-positive":
        return np.asarray(np.ceil(value))
    if rounding == "towards-negative":
        return np.asarray(np.floor(value))
    whole = np.trunc(value)
    if rounding == "towards-zero":
        return np.asarray(whole)
    return np.asarray(whole + np.copysign(np.abs(value - whole) >= 0.5, value))


def round_to_float(value: Array, target: DataType, rounding: str) -> tuple[Array, Array]:
    """Finite numbers (integers of any size, or float64) -> (float64 numbers that the target holds, out of range).

    A number out of range is answered as an infinity of its sign.
    """
    element = element_of(target)
    assert element is not None
    if value.dtype.kind in "iu":
        if element.bits == 64:
            return _round_integers(value, rounding), np.zeros(value.shape, bool)
        value = widened(value)
    if element.bits == 64:
        return value, np.zeros(value.shape, bool)
    return (
        _round_scaled(value, element, rounding) if element.bits == 32 else _look_up(value, target, rounding)
    )


def widened(value: Array) -> Array:
    """Integers as float64: exact up to 2^53, beyond it with a last bit that says there was more (rounding to odd), so
    that rounding to any type of less than 52 bits comes out as if from the integer itself."""
    magnitude, negative = _magnitude(value)
    dropped = np.maximum(_bit_length(magnitude) - 53, 0).astype(np.uint64)
    kept = magnitude >> dropped
    kept |= (kept << dropped != magnitude).astype(np.uint64)
    number = np.ldexp(kept.astype(np.float64), dropped.astype(np.int32))
    return np.asarray(np.where(negative, -number, number))


def _round_integers(value: Array, rounding: str) -> Array:
    """Integers of up to 64 bits -> float64."""
    magnitude, negative = _magnitude(value)
    dropped = np.maximum(_bit_length(magnitude) - 53, 0).astype(np.uint64)
    kept = magnitude >> dropped
    rest = magnitude - (kept << dropped)
    half = np.where(dropped > 0, np.uint64(1) << np.maximum(dropped, 1) - np.uint64(1), np.uint64(1))
    if rounding == "nearest-even":
        up = (rest > half) | ((rest == half) & (kept & np.uint64(1) == 1))
    elif rounding == "nearest-away":
        up = rest >= half
    elif rounding == "towards-zero":
        up = np.zeros(kept.shape, bool)
    else:
        up = (rest > 0) & (negative == (rounding == "towards-negative"))
    number = np.ldexp((kept + up.astype(np.uint64)).astype(np.float64), dropped.astype(np.int32))
    return np.asarray(np.where(negative, -number, number))


def _magnitude(value: Array) -> tuple[Array, Array]:
    if value.dtype.kind == "u":
        return value.astype(np.uint64), np.zeros(value.shape, bool)
    negative = np.less(value, 0)
    bits = value.astype(np.int64).view(np.uint64)
    return np.where(negative, ~bits + np.uint64(1), bits), negative


def _bit_length(magnitude: Array) -> Array:
    # the halves are exact in float64, whose exponent tells the length
    high, low = magnitude >> np.uint64(32), magnitude & np.uint64(0xFFFFFFFF)
    return np.where(high > 0, np.frexp(high.astype(np.float64))[1] + 32, np.frexp(low.astype(np.float64))[1])


def _round_scaled(value: Array, element: Element, rounding: str) -> tuple[Array, Array]:
    """float64 -> float32, as if its exponents had no upper end."""
    digits, least = FORMS[element.bits]
    exponent = np.maximum(np.frexp(value)[1] - 1, least) - (digits - 1)
    rounded = np.ldexp(round_to_integer(np.ldexp(value, -exponent), rounding), exponent)
    outside = np.abs(rounded) > np.finfo(np.float32).max
    return np.where(outside, np.copysign(np.inf, value), rounded), outside


@lru_cache(maxsize=16)
def _grid(target: DataType) -> tuple[Array, Array]:
    """All finite values in order, with one more step at each end, and whether the pattern of each is even."""
    element = element_of(target)
    assert element is not None
    patterns = np.arange(1 << element.bits, dtype=np.uint16 if element.bits > 8 else np.uint8)
    with np.errstate(invalid="ignore"):
        values = patterns.view(target.numpy).astype(np.float64)
    finite = np.isfinite(values)
    values, first = np.unique(values[finite], return_index=True)
    even = patterns[finite][first] % 2 == 0
    below = 2 * values[0] - values[1] if values[0] <= 0 else 0.0
    above = 2 * values[-1] - values[-2]
    if values[0] > 0:  # powers of two alone: the next is twice as large
        above = 2 * values[-1]
    ends: Any = np.concatenate([[below], values, [above]])
    return ends, np.concatenate([[not even[0]], even, [not even[-1]]])


def _look_up(value: Array, target: DataType, rounding: str) -> tuple[Array, Array]:
    grid, even = _grid(target)
    last = len(grid) - 1
    upper = np.clip(np.searchsorted(grid, value, side="left"), 1, last)
    lower = np.where(grid[upper] == value, upper, upper - 1)
    low, high = grid[lower], grid[upper]
    if rounding == "towards-negative":
        choose_upper = np.zeros(value.shape, bool)
    elif rounding == "towards-positive":
        choose_upper = np.ones(value.shape, bool)
    elif rounding == "towards-zero":
        choose_upper = value < 0
    else:
        # the numbers are at most 16 bits long, so both distances are exact or not near each other
        below, above = value - low, high - value
        ties = value >= 0 if rounding == "nearest-away" else even[upper]
        choose_upper = (above < below) | ((above == below) & ties)
    chosen = np.where(choose_upper, upper, lower)
    chosen = np.where(value < grid[0], 0, np.where(value > grid[-1], last, chosen))
    outside = (chosen == 0) | (chosen == last)
    number = np.where(grid[chosen] == 0, np.copysign(0.0, value), grid[chosen])
    return np.where(outside, np.where(chosen == 0, -np.inf, np.inf), number), outside
