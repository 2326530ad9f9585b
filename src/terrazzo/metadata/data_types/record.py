"""Records as numpy describes them, byte for byte: array fields, mixed byte orders, padding; what `struct` cannot say.

What it does not do: appear in new documents of Zarr 3. It stands for the records of Zarr 2 and of the 2022 draft that
no registered data type describes; elements stay in memory as they are stored, in their own byte order.

https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html#data-type-encoding
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from terrazzo.errors import DataTypeValidationError
from terrazzo.metadata.data_types.contract import (
    DataType,
    Fill,
    base64_text,
    bytes_from_json,
    check_size,
    frozen_bytes,
    only_members,
    scalar,
)
from terrazzo.metadata.problems import describe, join, refuse

__all__ = ["NumpyRecord", "record_dtype"]


@dataclass(frozen=True)
class NumpyRecord(DataType):
    """A record in numpy's own words; `dtype` is the element as it is stored."""

    dtype: np.dtype[Any]

    names: ClassVar[tuple[str, ...]] = ("terrazzo.numpy_record",)

    @classmethod
    def from_json(cls, name: str, configuration: dict[str, Any], path: str) -> Self:
        only_members(configuration, ("descr",), path, name)
        at = join(join(path, "configuration"), "descr")
        return cls(record_dtype(configuration["descr"], at))

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> Self | None:
        return None  # new arrays get `struct`, or are told why not

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def configuration(self) -> dict[str, Any]:
        return {"descr": _listed(self.dtype.descr)}

    @property
    def numpy(self) -> np.dtype[Any]:
        return self.dtype

    @property
    def units(self) -> tuple[int, ...]:
        return ()

    def default_fill(self) -> Fill:
        return frozen_bytes(bytes(self.dtype.itemsize), self.dtype)

    def fill_from_json(self, value: object, path: str = "fill_value", *, strict: bool = True) -> Fill:
        encoded = bytes_from_json(value, path)
        if len(encoded) != self.dtype.itemsize:
            refuse(path, f"found {len(encoded)} bytes, must be {self.dtype.itemsize}")
        return frozen_bytes(encoded, self.dtype)

    def fill_to_json(self, fill: Fill) -> str:
        return base64_text(fill.tobytes())

    def cast_fill(self, value: object) -> Fill:
        value = scalar(value)
        if isinstance(value, int | np.integer) and value == 0:
            return self.default_fill()
        try:
            cast = np.array(value, self.dtype)
        except (TypeError, ValueError):
            self.not_a_fill(value, "a value for each field, in their order, or 0")
        return frozen_bytes(cast.tobytes(), self.dtype)


def record_dtype(descr: object, path: str) -> np.dtype[Any]:
    """numpy's type for a list of fields as JSON has it; nothing but plain elements, whatever the document says."""
    dtype = np.dtype(_fields(descr, path, 0))
    check_size(dtype.itemsize, path)
    return dtype


def _fields(descr: object, path: str, depth: int) -> list[Any]:
    if not isinstance(descr, list) or not descr or depth > 16:
        refuse(path, f"found {describe(descr)}, must be a list of fields", DataTypeValidationError)
    found: list[Any] = []
    names: set[str] = set()
    for i, entry in enumerate(descr):
        at = join(path, i)
        if not isinstance(entry, list | tuple) or len(entry) not in (2, 3) or not isinstance(entry[0], str):
            refuse(
                at,
                f"found {describe(entry)}, must be [name, type] or [name, type, shape]",
                DataTypeValidationError,
            )
        name = entry[0] or f"f{i}"  # padding has no name
        if name in names:
            refuse(
                at, f"the field {describe(name)} is there twice; names must differ", DataTypeValidationError
            )
        names.add(name)
        kind = (
            _fields(entry[1], join(at, 1), depth + 1) if isinstance(entry[1], list) else _plain(entry[1], at)
        )
        if len(entry) == 3:
            found.append((name, kind, _shape(entry[2], join(at, 2))))
        else:
            found.append((name, kind))
    return found


def _plain(spelled: object, path: str) -> str:
    try:
        dtype = np.dtype(spelled) if isinstance(spelled, str) and len(spelled) < 40 else None
    except (TypeError, ValueError, SyntaxError):
        dtype = None
    if dtype is None or dtype.kind not in "biufcSUVmM" or dtype.names is not None or not dtype.itemsize:
        refuse(
            path,
            f'found the type {describe(spelled)}, must be one of fixed size, such as "<f8"',
            DataTypeValidationError,
        )
    if dtype.subdtype is not None:
        refuse(path, f"found the type {describe(spelled)}, must be a plain one", DataTypeValidationError)
    check_size(dtype.itemsize, path)
    return dtype.str


def _shape(found: object, path: str) -> tuple[int, ...]:
    extents = [found] if isinstance(found, int) else found
    if not isinstance(extents, list | tuple) or len(extents) > 32:
        refuse(path, f"found {describe(found)}, must be a shape", DataTypeValidationError)
    total = 1
    for extent in extents:
        if isinstance(extent, bool) or not isinstance(extent, int) or extent < 1:
            refuse(path, f"found {describe(found)}, must be integers >= 1", DataTypeValidationError)
        total *= extent
        check_size(total, path)
    return tuple(extents)


def _listed(value: Any) -> Any:
    return [_listed(one) for one in value] if isinstance(value, list | tuple) else value
