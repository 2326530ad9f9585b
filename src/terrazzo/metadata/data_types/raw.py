"""Elements without arithmetic: raw bits, bytes of a fixed length, and bytes of any length.

What it does not do: text; that is in `text`.

https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html#core-data-types
https://github.com/zarr-developers/zarr-extensions/tree/main/data-types/bytes
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from terrazzo.errors import DataTypeValidationError
from terrazzo.metadata.data_types.contract import (
    ITEM_NBYTES,
    DataType,
    Fill,
    base64_text,
    bytes_from_json,
    check_size,
    frozen,
    frozen_bytes,
    length_from_json,
    only_members,
    scalar,
)
from terrazzo.metadata.problems import describe, refuse

__all__ = ["NullTerminatedBytes", "RawBits", "VariableBytes"]

RAW = re.compile(r"r([1-9][0-9]*)")


@dataclass(frozen=True)
class RawBits(DataType):
    """Bytes of a fixed length that nobody interprets (`r16`, `r128`)."""

    nbytes: int

    names: ClassVar[tuple[str, ...]] = ("raw_bytes",)

    @classmethod
    def matches(cls, name: str) -> bool:
        return name in cls.names or RAW.fullmatch(name) is not None

    @classmethod
    def from_json(cls, name: str, configuration: dict[str, Any], path: str) -> Self:
        if name == "raw_bytes":
            return cls(length_from_json(configuration, path, name))
        only_members(configuration, (), path, "raw bits")
        digits = name[1:]
        if len(digits) > 12 or int(digits) > 8 * ITEM_NBYTES:
            refuse(
                path,
                f"found {describe(name)}, at most {ITEM_NBYTES} bytes are supported",
                DataTypeValidationError,
            )
        if int(digits) % 8:
            refuse(
                path,
                f"found {describe(name)}, the number of bits must be a multiple of 8",
                DataTypeValidationError,
            )
        return cls(int(digits) // 8)

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> Self | None:
        if (
            dtype.type is not np.void
            or dtype.names is not None
            or dtype.subdtype is not None
            or not dtype.itemsize
        ):
            return None
        check_size(dtype.itemsize, "data_type")
        return cls(dtype.itemsize)

    @property
    def name(self) -> str:
        return f"r{8 * self.nbytes}"

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype((np.void, self.nbytes))

    @property
    def units(self) -> tuple[int, ...]:
        return ()

    def default_fill(self) -> Fill:
        return frozen_bytes(bytes(self.nbytes), self.numpy)

    def fill_from_json(self, value: object, path: str = "fill_value", *, strict: bool = True) -> Fill:
        encoded = bytes_from_json(value, path)
        if len(encoded) != self.nbytes:
            refuse(path, f"found {len(encoded)} bytes, must be {self.nbytes}")
        return frozen_bytes(encoded, self.numpy)

    def fill_to_json(self, fill: Fill) -> list[int]:
        return list(fill.tobytes())

    def cast_fill(self, value: object) -> Fill:
        value = scalar(value)
        if isinstance(value, int | np.integer) and value == 0:
            return self.default_fill()
        encoded = value.tobytes() if isinstance(value, np.void) else value
        if not isinstance(encoded, bytes | bytearray) or len(encoded) != self.nbytes:
            self.not_a_fill(value, f"{self.nbytes} bytes, or 0")
        return frozen_bytes(bytes(encoded), self.numpy)


@dataclass(frozen=True)
class NullTerminatedBytes(DataType):
    """Bytes up to a fixed length; zero bytes at the end do not count (numpy's `S`)."""

    nbytes: int

    names: ClassVar[tuple[str, ...]] = ("null_terminated_bytes",)

    @classmethod
    def from_json(cls, name: str, configuration: dict[str, Any], path: str) -> Self:
        return cls(length_from_json(configuration, path, name))

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> Self | None:
        if dtype.kind != "S" or not dtype.itemsize:
            return None
        check_size(dtype.itemsize, "data_type")
        return cls(dtype.itemsize)

    @property
    def name(self) -> str:
        return "null_terminated_bytes"

    @property
    def configuration(self) -> dict[str, Any]:
        return {"length_bytes": self.nbytes}

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype(f"S{self.nbytes}")

    @property
    def units(self) -> tuple[int, ...]:
        return ()

    def default_fill(self) -> Fill:
        return frozen(b"", self.numpy)

    def fill_from_json(self, value: object, path: str = "fill_value", *, strict: bool = True) -> Fill:
        encoded = bytes_from_json(value, path)
        if len(encoded) > self.nbytes:
            refuse(path, f"found {len(encoded)} bytes, must be at most {self.nbytes}")
        return frozen(encoded, self.numpy)

    def fill_to_json(self, fill: Fill) -> str:
        return base64_text(bytes(fill[()]))

    def cast_fill(self, value: object) -> Fill:
        value = scalar(value)
        encoded = value.encode("ascii", "replace") if isinstance(value, str) and value.isascii() else value
        if not isinstance(encoded, bytes | bytearray) or len(encoded) > self.nbytes:
            self.not_a_fill(value, f"at most {self.nbytes} bytes (or ASCII text)")
        return frozen(bytes(encoded), self.numpy)


@dataclass(frozen=True)
class VariableBytes(DataType):
    """Bytes of any length; in memory an object array of `bytes`."""

    names: ClassVar[tuple[str, ...]] = ("bytes", "variable_length_bytes", "binary")

    @classmethod
    def from_json(cls, name: str, configuration: dict[str, Any], path: str) -> Self:
        only_members(configuration, (), path, name)
        return cls()

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> Self | None:
        return cls() if dtype.kind == "S" and not dtype.itemsize else None

    @property
    def name(self) -> str:
        return "bytes"

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype(object)

    @property
    def itemsize(self) -> int | None:
        return None

    @property
    def units(self) -> tuple[int, ...]:
        return ()

    def default_fill(self) -> Fill:
        return frozen(b"", self.numpy)

    def fill_from_json(self, value: object, path: str = "fill_value", *, strict: bool = True) -> Fill:
        return frozen(bytes_from_json(value, path), self.numpy)

    def fill_to_json(self, fill: Fill) -> str:
        return base64_text(bytes(fill[()]))

    def cast_fill(self, value: object) -> Fill:
        value = scalar(value)
        if not isinstance(value, bytes | bytearray | memoryview):
            self.not_a_fill(value, "bytes")
        return frozen(bytes(value), self.numpy)
