"""Complex numbers of 4, 6 and 8 bit floats, which no numpy type holds: records of a real and an imaginary part.

What it does not do: arithmetic. The parts are types of the package ml_dtypes, as those of `small`; one takes a whole
byte, and its low bits count.

https://github.com/zarr-developers/zarr-extensions/tree/main/data-types
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from terrazzo.metadata.data_types.contract import DataType, Fill, frozen_bytes, only_members, scalar
from terrazzo.metadata.data_types.floats import FloatForm, allowed_numbers, float_to_json
from terrazzo.metadata.data_types.numeric import (
    bits_of_fill,
    complex_from_json,
    complex_from_python,
    fill_of_bits,
)
from terrazzo.metadata.data_types.small import FLOATS, float_form, ml_dtype

__all__ = ["ComplexPair"]

PARTS = tuple(name for name, (bits, _, _) in FLOATS.items() if bits <= 8)


@dataclass(frozen=True)
class ComplexPair(DataType):
    """`real` and `imag`, each a float of `part`."""

    part: str

    names: ClassVar[tuple[str, ...]] = tuple(f"complex_{part}" for part in PARTS)

    @classmethod
    def from_json(cls, name: str, configuration: dict[str, Any], path: str) -> Self:
        only_members(configuration, (), path, name)
        part = name.removeprefix("complex_")
        ml_dtype(part, path)
        return cls(part)

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> Self | None:
        if dtype.names != ("real", "imag") or dtype.fields is None:
            return None
        real, imag = (dtype.fields[name][0] for name in dtype.names)
        return cls(real.name) if real == imag and real.name in PARTS else None

    @property
    def form(self) -> FloatForm:
        return float_form(self.part)

    @property
    def name(self) -> str:
        return f"complex_{self.part}"

    @property
    def numpy(self) -> np.dtype[Any]:
        part = ml_dtype(self.part)
        return np.dtype([("real", part), ("imag", part)])

    @property
    def units(self) -> tuple[int, ...]:
        return ()

    def default_fill(self) -> Fill:
        return frozen_bytes(bytes(2), self.numpy)

    def fill_from_json(self, value: object, path: str = "fill_value", *, strict: bool = True) -> Fill:
        return fill_of_bits(complex_from_json(value, self.form, path, strict=strict), self.form, self.numpy)

    def fill_to_json(self, fill: Fill) -> list[float | str]:
        return [float_to_json(bits, self.form) for bits in bits_of_fill(fill, 2)]

    def cast_fill(self, value: object) -> Fill:
        value = scalar(value)
        if isinstance(value, np.void) and value.dtype == self.numpy:
            return frozen_bytes(value.tobytes(), self.numpy)
        parts = complex_from_python(value, self.form)
        if parts is None:
            self.not_a_fill(value, f"a number or a pair [real, imaginary], each {allowed_numbers(self.form)}")
        return fill_of_bits(parts, self.form, self.numpy)
