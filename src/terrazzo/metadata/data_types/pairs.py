"""Complex numbers of 4, 6 and 8 bit floats, which no numpy type holds: records of a real and an imaginary part.

What it does not do: arithmetic. The parts are types of the package ml_dtypes, as those of `small`; one takes a whole
byte, and its low bits count.

https://github.com/zarr-developers/zarr-extensions/tree/main/data-types
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from terrazzo.metadata.data_types.contract import only_members
from terrazzo.metadata.data_types.floats import FloatForm
from terrazzo.metadata.data_types.numeric import ComplexNumber
from terrazzo.metadata.data_types.small import FLOATS, float_form, ml_dtype

__all__ = ["ComplexPair"]

PARTS = tuple(name for name, (bits, _, _) in FLOATS.items() if bits <= 8)


@dataclass(frozen=True)
class ComplexPair(ComplexNumber):
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
