"""The numbers of the core specification: bool, integers, floats and complex numbers.

What it does not do: the small types that need ml_dtypes; those are in `small`.

https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html#core-data-types
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from terrazzo.metadata.data_types.contract import DataType, Fill, frozen, frozen_bytes, only_members, scalar
from terrazzo.metadata.data_types.floats import (
    FloatForm,
    allowed_numbers,
    float_from_json,
    float_from_python,
    float_to_json,
)
from terrazzo.metadata.problems import describe, doubt, join, refuse, remark

__all__ = ["Bool", "Complex", "Float", "Integer", "integer_from_json", "integer_from_python"]


@dataclass(frozen=True)
class Bool(DataType):
    """True or false, one byte."""

    names: ClassVar[tuple[str, ...]] = ("bool",)

    @classmethod
    def from_json(cls, name: str, configuration: dict[str, Any], path: str) -> Self:
        only_members(configuration, (), path, name)
        return cls()

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> Self | None:
        return cls() if dtype.kind == "b" else None

    @property
    def name(self) -> str:
        return "bool"

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype(np.bool_)

    @property
    def units(self) -> tuple[int, ...]:
        return ()

    @property
    def check(self) -> Literal["", "bool"]:
        return "bool"

    def default_fill(self) -> Fill:
        return frozen(False, self.numpy)

    def fill_from_json(self, value: object, path: str = "fill_value", *, strict: bool = True) -> Fill:
        if isinstance(value, int) and not isinstance(value, bool) and value in (0, 1):
            doubt(path, f"found {value}, must be true or false", strict=strict)
            value = bool(value)
        if not isinstance(value, bool):
            refuse(path, f"found {describe(value)}, must be true or false")
        return frozen(value, self.numpy)

    def fill_to_json(self, fill: Fill) -> bool:
        return bool(fill[()])

    def cast_fill(self, value: object) -> Fill:
        value = scalar(value)
        if not isinstance(value, bool | np.bool_ | int | np.integer) or value not in (0, 1):
            self.not_a_fill(value, "True or False")
        return frozen(bool(value), self.numpy)


@dataclass(frozen=True)
class Integer(DataType):
    """An integer of 8, 16, 32 or 64 bits."""

    bits: int
    signed: bool

    names: ClassVar[tuple[str, ...]] = tuple(
        f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
    )

    @classmethod
    def from_json(cls, name: str, configuration: dict[str, Any], path: str) -> Self:
        only_members(configuration, (), path, name)
        return cls(int(name.removeprefix("u").removeprefix("int")), not name.startswith("u"))

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> Self | None:
        return cls(8 * dtype.itemsize, dtype.kind == "i") if dtype.kind in "iu" else None

    @property
    def name(self) -> str:
        return f"{'' if self.signed else 'u'}int{self.bits}"

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype(self.name)

    @property
    def units(self) -> tuple[int, ...]:
        return () if self.bits == 8 else (self.bits // 8,)

    def default_fill(self) -> Fill:
        return frozen(0, self.numpy)

    def fill_from_json(self, value: object, path: str = "fill_value", *, strict: bool = True) -> Fill:
        return frozen(integer_from_json(value, path, self.bits, self.signed), self.numpy)

    def fill_to_json(self, fill: Fill) -> int:
        return int(fill[()])

    def cast_fill(self, value: object) -> Fill:
        value = scalar(value)
        number = integer_from_python(value, self.bits, self.signed)
        if number is None:
            low, high = bounds(self.bits, self.signed)
            self.not_a_fill(value, f"an integer from {low} to {high}")
        return frozen(number, self.numpy)


FLOAT_FORMS: dict[int, FloatForm] = {
    bits: FloatForm(
        np.dtype(f"float{bits}"),
        bits,
        nan,
        infinity,
        float(np.finfo(f"float{bits}").max),
        float(np.finfo(f"float{bits}").min),
    )
    for bits, nan, infinity in (
        (16, 0x7E00, 0x7C00),
        (32, 0x7FC00000, 0x7F800000),
        (64, 0x7FF8000000000000, 0x7FF0000000000000),
    )
}


@dataclass(frozen=True)
class Float(DataType):
    """An IEEE 754 number of 16, 32 or 64 bits."""

    bits: int

    names: ClassVar[tuple[str, ...]] = ("float16", "float32", "float64")

    @classmethod
    def from_json(cls, name: str, configuration: dict[str, Any], path: str) -> Self:
        only_members(configuration, (), path, name)
        return cls(int(name.removeprefix("float")))

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> Self | None:
        return cls(8 * dtype.itemsize) if dtype.kind == "f" and dtype.itemsize in (2, 4, 8) else None

    @property
    def form(self) -> FloatForm:
        return FLOAT_FORMS[self.bits]

    @property
    def name(self) -> str:
        return f"float{self.bits}"

    @property
    def numpy(self) -> np.dtype[Any]:
        return self.form.dtype

    @property
    def units(self) -> tuple[int, ...]:
        return (self.bits // 8,)

    def default_fill(self) -> Fill:
        return frozen(0.0, self.numpy)

    def fill_from_json(self, value: object, path: str = "fill_value", *, strict: bool = True) -> Fill:
        return fill_of_bits([float_from_json(value, self.form, path, strict=strict)], self.form, self.numpy)

    def fill_to_json(self, fill: Fill) -> float | str:
        return float_to_json(bits_of_fill(fill, 1)[0], self.form)

    def cast_fill(self, value: object) -> Fill:
        value = scalar(value)
        bits = float_from_python(value, self.form)
        if bits is None:
            self.not_a_fill(value, allowed_numbers(self.form))
        return fill_of_bits([bits], self.form, self.numpy)


class ComplexNumber(DataType):
    """A real and an imaginary part, each a float of `form`: what their fill values are."""

    @property
    @abstractmethod
    def form(self) -> FloatForm:
        """Of each part."""

    def default_fill(self) -> Fill:
        return frozen_bytes(bytes(self.numpy.itemsize), self.numpy)

    def fill_from_json(self, value: object, path: str = "fill_value", *, strict: bool = True) -> Fill:
        return fill_of_bits(complex_from_json(value, self.form, path, strict=strict), self.form, self.numpy)

    def fill_to_json(self, fill: Fill) -> list[float | str]:
        return [float_to_json(bits, self.form) for bits in bits_of_fill(fill, 2)]

    def cast_fill(self, value: object) -> Fill:
        value = scalar(value)
        if isinstance(value, np.generic) and value.dtype == self.numpy:
            return frozen_bytes(value.tobytes(), self.numpy)
        parts = complex_from_python(value, self.form)
        if parts is None:
            self.not_a_fill(value, f"a number or a pair [real, imaginary], each {allowed_numbers(self.form)}")
        return fill_of_bits(parts, self.form, self.numpy)


@dataclass(frozen=True)
class Complex(ComplexNumber):
    """Two floats: the real part, then the imaginary one."""

    bits: int

    names: ClassVar[tuple[str, ...]] = ("complex64", "complex128", "complex_float32", "complex_float64")

    @classmethod
    def from_json(cls, name: str, configuration: dict[str, Any], path: str) -> Self:
        only_members(configuration, (), path, name)
        part = name.removeprefix("complex_float")
        return cls(2 * int(part) if part != name else int(name.removeprefix("complex")))

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> Self | None:
        return cls(8 * dtype.itemsize) if dtype.kind == "c" and dtype.itemsize in (8, 16) else None

    @property
    def form(self) -> FloatForm:
        return FLOAT_FORMS[self.bits // 2]

    @property
    def name(self) -> str:
        return f"complex{self.bits}"

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype(self.name)

    @property
    def units(self) -> tuple[int, ...]:
        return (self.bits // 16,)


def bounds(bits: int, signed: bool) -> tuple[int, int]:
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


def integer_from_json(value: object, path: str, bits: int, signed: bool) -> int:
    """An integer in range; a whole number with a fraction part (1.0, 1e3) is read with a warning, as all peers do."""
    low, high = bounds(bits, signed)
    if isinstance(value, float) and value.is_integer() and abs(value) <= 1 << 53:
        remark(path, f"found {value!r}, should be written {int(value)}")
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        refuse(path, f"found {describe(value)}, must be an integer from {low} to {high}")
    return value


def integer_from_python(value: object, bits: int, signed: bool) -> int | None:
    """A caller's value as an integer in range; None where it is no such thing."""
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    if whole or (isinstance(value, np.bool_ | np.integer) and not isinstance(value, np.timedelta64)):
        number: Any = value
        value = int(number)
    low, high = bounds(bits, signed)
    return value if isinstance(value, int) and low <= value <= high else None


def complex_from_json(value: object, form: FloatForm, path: str, *, strict: bool) -> list[int]:
    if not isinstance(value, list) or len(value) != 2:
        refuse(path, f"found {describe(value)}, must be a pair [real, imaginary]")
    return [float_from_json(part, form, join(path, i), strict=strict) for i, part in enumerate(value)]


def complex_from_python(value: object, form: FloatForm) -> list[int] | None:
    if isinstance(value, list | tuple):
        parts = list(value)
    elif isinstance(value, complex | np.complexfloating):
        parts = [value.real, value.imag]
    else:
        parts = [value, 0.0]
    if len(parts) != 2:
        return None
    bits = [float_from_python(scalar(part), form) for part in parts]
    return [one for one in bits if one is not None] if None not in bits else None


def fill_of_bits(parts: list[int], form: FloatForm, dtype: np.dtype[Any]) -> Fill:
    """The fill value made of one or two bit patterns."""
    return frozen_bytes(b"".join(bits.to_bytes(form.nbytes, sys.byteorder) for bits in parts), dtype)


def bits_of_fill(fill: Fill, parts: int) -> list[int]:
    encoded = fill.tobytes()
    size = len(encoded) // parts
    return [int.from_bytes(encoded[i * size : (i + 1) * size], sys.byteorder) for i in range(parts)]
