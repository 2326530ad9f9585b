"""Floating point bits from JSON and from Python numbers, and back: no NaN ever passes through arithmetic.

What it does not do: know numpy types by name; a `FloatForm` says how the bits are laid out.

https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html#fill-value
"""

from __future__ import annotations

import math
import re
import struct
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from terrazzo.metadata.problems import describe, doubt, refuse

__all__ = ["FloatForm", "float_from_json", "float_from_python", "float_to_json"]

HEX = re.compile(r"0x[0-9a-fA-F]+")


@dataclass(frozen=True)
class FloatForm:
    """How a floating point type lies in its bits; `nan` and `infinity` are the patterns of those words, or None."""

    dtype: np.dtype[Any]
    bits: int
    nan: int | None
    infinity: int | None
    largest: float
    smallest: float  # the least value; for unsigned forms the least positive one
    zero: bool = True

    @property
    def nbytes(self) -> int:
        return self.dtype.itemsize

    @property
    def native(self) -> bool:
        """Whether numpy itself has the type, and rounds to it in one step."""
        return self.dtype.isbuiltin == 1

    def value(self, bits: int) -> float:
        """The number that a pattern (not of a NaN) stands for; exact, as every form fits into 64 bits."""
        pattern = np.frombuffer(bits.to_bytes(self.nbytes, sys.byteorder), self.dtype)
        with np.errstate(invalid="ignore"):  # a signalling NaN
            return float(pattern.astype(np.float64)[0])


def float_from_json(value: object, form: FloatForm, path: str, *, strict: bool = True) -> int:
    """The bit pattern that a document's number, constant or hex string means."""
    if isinstance(value, str):
        return _from_text(value, form, path)
    if isinstance(value, bool) or not isinstance(value, int | float):
        refuse(path, f"found {describe(value)}, must be a number, {_constants(form)}")
    try:
        number = float(value)
    except OverflowError:
        number = float("inf") if value > 0 else float("-inf")
    if number != number or (isinstance(value, float) and abs(number) == float("inf")):
        # only a lenient reader lets the literals through
        doubt(path, f"found the literal {value}, must be a string", strict=strict)
        return _special(form, number, path)
    return _round(form, number, path)


def float_to_json(bits: int, form: FloatForm) -> float | str:
    """The JSON form of a bit pattern; any NaN but the canonical one is written in hex."""
    if bits == form.nan:
        return "NaN"
    value = form.value(bits)
    if value != value:
        return f"{bits:#0{2 + 2 * form.nbytes}x}"
    if abs(value) == float("inf"):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def float_from_python(value: object, form: FloatForm) -> int | None:
    """The bit pattern of a caller's value; None if it is not one of this form.

    A value of the very type keeps its bits. Other numbers are rounded to nearest; what overflows is not of this form.
    """
    if isinstance(value, np.generic) and value.dtype == form.dtype:
        return int.from_bytes(value.tobytes(), sys.byteorder)
    if isinstance(value, float) and form.dtype == np.float64:
        return int.from_bytes(struct.pack("=d", value), sys.byteorder)
    if isinstance(value, str):
        try:
            return _from_text(value, form, "")
        except ValueError:
            return None
    if isinstance(value, np.generic) and (value.dtype.kind in "iuf" or value.dtype.kind == "V"):
        number_like: Any = value
        try:
            value = int(number_like) if value.dtype.kind in "iu" else float(number_like)
        except (TypeError, ValueError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
        if number - number != 0.0:
            return _special(form, number, "")
        if not form.smallest <= number <= form.largest and not (number == 0.0 and form.zero):
            return None
        return _round(form, number, "")
    except (OverflowError, ValueError):
        return None


def allowed_numbers(form: FloatForm) -> str:
    """For sentences: what a caller may pass."""
    return f"a number from {form.smallest:g} to {form.largest:g}, {_constants(form)}"


def _constants(form: FloatForm) -> str:
    names = ['"NaN"'] if form.nan is not None else []
    names += ['"Infinity"', '"-Infinity"'] if form.infinity is not None else []
    return ", ".join([*names, f'or "0x" and {2 * form.nbytes} hex digits'])


def _from_text(text: str, form: FloatForm, path: str) -> int:
    if text == "NaN":
        return _special(form, float("nan"), path)
    if text in ("Infinity", "+Infinity"):
        return _special(form, float("inf"), path)
    if text == "-Infinity":
        return _special(form, float("-inf"), path)
    if not HEX.fullmatch(text):
        refuse(path, f"found {describe(text)}, must be a number, {_constants(form)}")
    digits = text[2:]
    if len(digits) != 2 * form.nbytes:
        refuse(path, f"found {len(digits)} hex digits, must be exactly {2 * form.nbytes}")
    bits = int(digits, 16)
    if bits >> form.bits:
        refuse(path, f"found {describe(text)}, only the low {form.bits} bits may be set")
    return bits


def _special(form: FloatForm, number: float, path: str) -> int:
    if number != number:
        if form.nan is None:
            refuse(path, "found NaN, which this data type does not have")
        return form.nan
    if form.infinity is None or (number < 0 and form.smallest > 0):
        refuse(path, "found an infinity, which this data type does not have")
    return form.infinity | (1 << (form.bits - 1) if number < 0 else 0)


def _round(form: FloatForm, number: float, path: str) -> int:
    """Round half to even. Numbers that overflow become infinite, and are refused where there is no infinity."""
    if form.smallest > 0.0 and number <= 0.0:
        refuse(path, f"found {number!r}, must be above zero")
    if number == 0.0 and math.copysign(1.0, number) < 0 and not form.native:
        if form.value(1 << (form.bits - 1)) != 0.0:
            return 0  # no negative zero in this form
        return 1 << (form.bits - 1)
    if form.infinity is None and not -form.largest <= number <= form.largest:
        refuse(path, f"found {number!r}, must be at most {form.largest:g} in size")
    with np.errstate(over="ignore", under="ignore"):
        wide: Any = np.array(number, np.float64)
        if not form.native:
            wide = _round_to_odd(number)
        return int.from_bytes(wide.astype(form.dtype).tobytes(), sys.byteorder)


def _round_to_odd(number: float) -> Any:
    """A float32 from which a narrower form can be rounded as if from `number` itself.

    The types of ml_dtypes round by way of float32; rounding twice is only right when the first time sticks to odd.
    """
    nearest = np.float32(number)
    if float(nearest) == number or not np.isfinite(nearest):
        return np.array(nearest)
    bits = int(np.array(nearest).view(np.uint32))
    if abs(float(nearest)) > abs(number):
        bits -= 1  # truncated
    return np.array(bits | 1, np.uint32).view(np.float32)
