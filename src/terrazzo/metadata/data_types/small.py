"""The small numbers that numpy itself does not have: 2 and 4 bit integers, floats of 4 to 16 bits, their complex pairs.

What it does not do: arithmetic. In memory they are the types of the package ml_dtypes, an extra that is imported when
a document or a caller names one of them. One element takes whole bytes; the low bits count.

https://github.com/zarr-developers/zarr-extensions/tree/main/data-types
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np

from terrazzo.errors import DataTypeValidationError
from terrazzo.metadata.data_types.contract import DataType, Fill, frozen_bytes, only_members, scalar
from terrazzo.metadata.data_types.floats import (
    FloatForm,
    allowed_numbers,
    float_from_json,
    float_from_python,
    float_to_json,
)
from terrazzo.metadata.data_types.numeric import (
    ComplexNumber,
    bits_of_fill,
    bounds,
    fill_of_bits,
    integer_from_json,
    integer_from_python,
)
from terrazzo.metadata.problems import refuse

__all__ = ["SmallComplex", "SmallFloat", "SmallInteger"]

# name: bits, the pattern of "NaN", the pattern of "Infinity"
FLOATS: dict[str, tuple[int, int | None, int | None]] = {
    "bfloat16": (16, 0x7FC0, 0x7F80),
    "float8_e3m4": (8, 0x78, 0x70),
    "float8_e4m3": (8, 0x7C, 0x78),
    "float8_e5m2": (8, 0x7E, 0x7C),
    "float8_e4m3b11fnuz": (8, 0x80, None),
    "float8_e4m3fnuz": (8, 0x80, None),
    "float8_e5m2fnuz": (8, 0x80, None),
    "float8_e8m0fnu": (8, 0xFF, None),
    "float6_e2m3fn": (6, None, None),
    "float6_e3m2fn": (6, None, None),
    "float4_e2m1fn": (4, None, None),
}
COMPLEX = {"complex_float16": ("complex32", "float16"), "complex_bfloat16": ("bcomplex32", "bfloat16")}


@dataclass(frozen=True)
class SmallInteger(DataType):
    """An integer of 2 or 4 bits, one to a byte."""

    bits: int
    signed: bool

    names: ClassVar[tuple[str, ...]] = ("int2", "int4", "uint2", "uint4")

    @classmethod
    def from_json(cls, name: str, configuration: dict[str, Any], path: str) -> Self:
        only_members(configuration, (), path, name)
        ml_dtype(name, path)
        return cls(int(name[-1]), not name.startswith("u"))

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> Self | None:
        if not is_ml_dtype(dtype) or dtype.name not in cls.names:
            return None
        return cls(int(dtype.name[-1]), not dtype.name.startswith("u"))

    @property
    def name(self) -> str:
        return f"{'' if self.signed else 'u'}int{self.bits}"

    @property
    def numpy(self) -> np.dtype[Any]:
        return ml_dtype(self.name)

    @property
    def units(self) -> tuple[int, ...]:
        return ()

    def default_fill(self) -> Fill:
        return self._fill(0)

    def fill_from_json(self, value: object, path: str = "fill_value", *, strict: bool = True) -> Fill:
        return self._fill(integer_from_json(value, path, self.bits, self.signed))

    def fill_to_json(self, fill: Fill) -> int:
        return int(fill.astype(np.int64)[()])

    def cast_fill(self, value: object) -> Fill:
        value = scalar(value)
        if isinstance(value, np.generic) and is_ml_dtype(value.dtype):
            value = value.astype(np.float64)
        number = integer_from_python(value, self.bits, self.signed)
        if number is None:
            low, high = bounds(self.bits, self.signed)
            self.not_a_fill(value, f"an integer from {low} to {high}")
        return self._fill(number)

    def _fill(self, number: int) -> Fill:
        return frozen_bytes(np.array(number, np.int64).astype(self.numpy).tobytes(), self.numpy)


@dataclass(frozen=True)
class SmallFloat(DataType):
    """A float of 4, 6, 8 or 16 bits other than IEEE's float16."""

    kind: str

    names: ClassVar[tuple[str, ...]] = tuple(FLOATS)

    @classmethod
    def from_json(cls, name: str, configuration: dict[str, Any], path: str) -> Self:
        only_members(configuration, (), path, name)
        ml_dtype(name, path)
        return cls(name)

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> Self | None:
        return cls(dtype.name) if is_ml_dtype(dtype) and dtype.name in FLOATS else None

    @property
    def form(self) -> FloatForm:
        return float_form(self.kind)

    @property
    def name(self) -> str:
        return self.kind

    @property
    def numpy(self) -> np.dtype[Any]:
        return ml_dtype(self.kind)

    @property
    def units(self) -> tuple[int, ...]:
        return (2,) if FLOATS[self.kind][0] == 16 else ()

    def default_fill(self) -> Fill:
        return self.cast_fill(0.0 if self.form.zero else 1.0)

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


@dataclass(frozen=True)
class SmallComplex(ComplexNumber):
    """Two float16 or two bfloat16: the real part, then the imaginary one."""

    kind: str

    names: ClassVar[tuple[str, ...]] = tuple(COMPLEX)

    @classmethod
    def from_json(cls, name: str, configuration: dict[str, Any], path: str) -> Self:
        only_members(configuration, (), path, name)
        ml_dtype(COMPLEX[name][0], path)
        return cls(name)

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> Self | None:
        for name, (known, _) in COMPLEX.items():
            if is_ml_dtype(dtype) and dtype.name == known:
                return cls(name)
        return None

    @property
    def form(self) -> FloatForm:
        return float_form(COMPLEX[self.kind][1])

    @property
    def name(self) -> str:
        return self.kind

    @property
    def numpy(self) -> np.dtype[Any]:
        return ml_dtype(COMPLEX[self.kind][0])

    @property
    def units(self) -> tuple[int, ...]:
        return (2,)


def is_ml_dtype(dtype: np.dtype[Any]) -> bool:
    return dtype.type.__module__.partition(".")[0] == "ml_dtypes"


def ml_dtype(name: str, path: str = "data_type") -> np.dtype[Any]:
    """The numpy type of this name out of ml_dtypes; an error that says what to install if it is not there."""
    try:
        import ml_dtypes
    except ImportError:
        sentence = f"{name} needs the package ml_dtypes: pip install 'terrazzo[ml-dtypes]' (or pip install ml_dtypes)"
        refuse(path, sentence, DataTypeValidationError)
    found: Any = getattr(ml_dtypes, name, None)
    if found is None:
        sentence = (
            f"{name} needs a newer ml_dtypes than {ml_dtypes.__version__}: pip install --upgrade ml_dtypes"
        )
        refuse(path, sentence, DataTypeValidationError)
    dtype: np.dtype[Any] = np.dtype(found)
    return dtype


@lru_cache
def float_form(name: str) -> FloatForm:
    if name == "float16":
        largest = float(np.finfo(np.float16).max)
        return FloatForm(np.dtype(np.float16), 16, 0x7E00, 0x7C00, largest, -largest)
    bits, nan, infinity = FLOATS[name]
    dtype = ml_dtype(name)
    patterns = np.arange(1 << bits, dtype=np.uint16 if bits > 8 else np.uint8).view(dtype)
    with np.errstate(invalid="ignore"):
        values = patterns.astype(np.float64)
    finite = values[np.isfinite(values)]
    zero = bool((finite == 0).any())
    return FloatForm(dtype, bits, nan, infinity, float(finite.max()), float(finite.min()), zero)
