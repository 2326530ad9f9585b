"""What the numbers of a data type are made of: kind, bits, components; for codecs that look inside elements.

What it does not do: convert anything.
Specification: https://github.com/zarr-developers/zarr-extensions/tree/main/data-types
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from terrazzo.metadata import DataType
from terrazzo.metadata.data_types import (
    Bool,
    Complex,
    ComplexPair,
    Float,
    Integer,
    NumpyTime,
    SmallComplex,
    SmallFloat,
    SmallInteger,
)

__all__ = ["Element", "element_of"]


@dataclass(frozen=True, slots=True)
class Element:
    """kind: of one component; a time is an int. bits: of one component that count. components: 2 for complex."""

    kind: Literal["bool", "int", "uint", "float"]
    bits: int
    components: int = 1

    @property
    def low(self) -> int:
        """The least integer."""
        return -(1 << (self.bits - 1)) if self.kind == "int" else 0

    @property
    def high(self) -> int:
        """The greatest integer."""
        return (1 << (self.bits - (self.kind == "int"))) - 1


def element_of(data_type: DataType) -> Element | None:
    """The make of a number; None for text, bytes and records."""
    if isinstance(data_type, Bool):
        return Element("bool", 1)
    if isinstance(data_type, Integer | SmallInteger):
        return Element("int" if data_type.signed else "uint", data_type.bits)
    if isinstance(data_type, Float | SmallFloat):
        return Element("float", data_type.form.bits)
    if isinstance(data_type, Complex | SmallComplex | ComplexPair):
        return Element("float", data_type.form.bits, 2)
    if isinstance(data_type, NumpyTime):
        return Element("int", 64)
    return None
