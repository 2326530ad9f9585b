"""Text: strings of any length, and UTF-32 of a fixed one.

What it does not do: normalise. Characters are kept as they are.

https://github.com/zarr-developers/zarr-extensions/tree/main/data-types/string
https://github.com/zarr-developers/zarr-extensions/tree/main/data-types/fixed_length_utf32
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from terrazzo.metadata.data_types.contract import (
    DataType,
    Fill,
    check_size,
    frozen,
    length_from_json,
    only_members,
    scalar,
)
from terrazzo.metadata.problems import describe, refuse

__all__ = ["FixedLengthUTF32", "String"]


@dataclass(frozen=True)
class String(DataType):
    """Text of any length; in memory numpy's StringDType."""

    names: ClassVar[tuple[str, ...]] = ("string",)

    @classmethod
    def from_json(cls, name: str, configuration: dict[str, Any], path: str) -> Self:
        only_members(configuration, (), path, name)
        return cls()

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> Self | None:
        return cls() if dtype.kind == "T" or (dtype.kind == "U" and not dtype.itemsize) else None

    @property
    def name(self) -> str:
        return "string"

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtypes.StringDType()

    @property
    def itemsize(self) -> int | None:
        return None

    @property
    def units(self) -> tuple[int, ...]:
        return ()

    def default_fill(self) -> Fill:
        return frozen("", self.numpy)

    def fill_from_json(self, value: object, path: str = "fill_value", *, strict: bool = True) -> Fill:
        if not isinstance(value, str):
            refuse(path, f"found {describe(value)}, must be a string")
        return frozen(value, self.numpy)

    def fill_to_json(self, fill: Fill) -> str:
        return str(fill[()])

    def cast_fill(self, value: object) -> Fill:
        value = scalar(value)
        if not isinstance(value, str) or not encodable(value):
            self.not_a_fill(value, "text")
        return frozen(str(value), self.numpy)


@dataclass(frozen=True)
class FixedLengthUTF32(DataType):
    """Text of at most `nbytes / 4` code points, padded with zeros (numpy's `U`)."""

    nbytes: int

    names: ClassVar[tuple[str, ...]] = ("fixed_length_utf32",)

    @classmethod
    def from_json(cls, name: str, configuration: dict[str, Any], path: str) -> Self:
        return cls(length_from_json(configuration, path, name, 4))

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> Self | None:
        if dtype.kind != "U" or not dtype.itemsize:
            return None
        check_size(dtype.itemsize, "data_type")
        return cls(dtype.itemsize)

    @property
    def name(self) -> str:
        return "fixed_length_utf32"

    @property
    def configuration(self) -> dict[str, Any]:
        return {"length_bytes": self.nbytes}

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype(f"U{self.nbytes // 4}")

    @property
    def units(self) -> tuple[int, ...]:
        return (4,)

    def default_fill(self) -> Fill:
        return frozen("", self.numpy)

    def fill_from_json(self, value: object, path: str = "fill_value", *, strict: bool = True) -> Fill:
        if not isinstance(value, str):
            refuse(path, f"found {describe(value)}, must be a string")
        if len(value) > self.nbytes // 4:
            refuse(path, f"found {len(value)} characters, must be at most {self.nbytes // 4}")
        return frozen(value, self.numpy)

    def fill_to_json(self, fill: Fill) -> str:
        return str(fill[()])

    def cast_fill(self, value: object) -> Fill:
        value = scalar(value)
        if not isinstance(value, str) or len(value) > self.nbytes // 4 or not encodable(value):
            self.not_a_fill(value, f"text of at most {self.nbytes // 4} characters")
        return frozen(str(value), self.numpy)


def encodable(text: str) -> bool:
    """Whether UTF-8 can hold it: no lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in text)
