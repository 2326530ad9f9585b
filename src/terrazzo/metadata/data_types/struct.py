"""Records: elements made of named fields, packed one after another.

What it does not do: padding or alignment; numpy's aligned records are stored packed. The older spelling `structured` is
read, and always written as `struct`.

https://github.com/zarr-developers/zarr-extensions/tree/main/data-types/struct
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

import numpy as np

from terrazzo.errors import DataTypeValidationError, MetadataError
from terrazzo.metadata.data_types import registry
from terrazzo.metadata.data_types.contract import (
    DataType,
    Fill,
    bytes_from_json,
    check_size,
    frozen_bytes,
    only_members,
    scalar,
)
from terrazzo.metadata.problems import Problems, describe, join, refuse

__all__ = ["Struct"]


@dataclass(frozen=True)
class Struct(DataType):
    """A record; `fields` are its names with their data types, in the order in which they lie."""

    fields: tuple[tuple[str, DataType], ...]
    # read as `structured`: a `bytes` codec without endianness means little
    legacy: bool = field(default=False, compare=False)

    names: ClassVar[tuple[str, ...]] = ("struct", "structured")

    @classmethod
    def from_json(cls, name: str, configuration: dict[str, Any], path: str) -> Self:
        only_members(configuration, ("fields",), path, name)
        at = join(join(path, "configuration"), "fields")
        entries = configuration["fields"]
        legacy = name == "structured"
        if not isinstance(entries, list) or not entries:
            refuse(
                at,
                f"found {describe(entries)}, must be a list of at least one field",
                DataTypeValidationError,
            )
        problems = Problems()
        fields: list[tuple[str, DataType]] = []
        for i, entry in enumerate(entries):
            with problems.collected():
                fields.append(_field(entry, join(at, i), legacy))
        seen: set[str] = set()
        for i, (name, _) in enumerate(fields):
            if name in seen:
                problems.add(join(at, i), f"the field {describe(name)} is there twice; names must differ")
            seen.add(name)
        problems.raise_any("", DataTypeValidationError)
        check_size(sum(_nbytes(data_type) for _, data_type in fields), at)
        return cls(tuple(fields), legacy)

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> Self | None:
        if dtype.names is None or dtype.fields is None:
            return None
        fields = []
        for name in dtype.names:
            part: np.dtype[Any] = dtype.fields[name][0]
            if part.subdtype is not None:
                raise DataTypeValidationError(
                    f"the field {name!r} is an array of {part.shape} inside the record, which no data type describes; "
                    "give every element a field of its own, or the array another dimension"
                )
            data_type = registry.data_type_from_numpy(part)
            if data_type.itemsize is None:
                raise DataTypeValidationError(
                    f"the field {name!r} is a {data_type.name} of any length; fields must be of a fixed size"
                )
            fields.append((name, data_type))
        if not fields:
            raise DataTypeValidationError("found a record without fields, must have at least one")
        check_size(sum(_nbytes(data_type) for _, data_type in fields), "data_type")
        return cls(tuple(fields))

    @property
    def name(self) -> str:
        return "struct"

    @property
    def configuration(self) -> dict[str, Any]:
        return {
            "fields": [{"name": name, "data_type": data_type.to_json()} for name, data_type in self.fields]
        }

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype([(name, data_type.numpy) for name, data_type in self.fields])

    @property
    def units(self) -> tuple[int, ...]:
        counts: list[int] = []
        for _, data_type in self.fields:
            part = data_type.units or (1,)
            counts += part * (_nbytes(data_type) // sum(part))
        if set(counts) == {1}:
            return ()
        return (counts[0],) if len(set(counts)) == 1 else tuple(counts)

    @property
    def implied_endian(self) -> Literal["little", "big"] | None:
        return "little" if self.legacy else None

    def default_fill(self) -> Fill:
        return self._packed([data_type.default_fill() for _, data_type in self.fields])

    def fill_from_json(self, value: object, path: str = "fill_value", *, strict: bool = True) -> Fill:
        if isinstance(value, str) and self.legacy:
            return self._from_base64(value, path)
        if not isinstance(value, dict):
            refuse(path, f"found {describe(value)}, must be an object with a fill value for every field")
        problems = Problems()
        parts = []
        for name, data_type in self.fields:
            if name not in value:
                problems.add(join(path, name), "is missing; every field needs its fill value")
                continue
            with problems.collected():
                parts.append(data_type.fill_from_json(value[name], join(path, name), strict=strict))
        known = {name for name, _ in self.fields}
        for name in value:
            if name not in known:
                problems.add(join(path, name), "is not a field of the data type")
        problems.raise_any("")
        return self._packed(parts)

    def fill_to_json(self, fill: Fill) -> dict[str, Any]:
        return {
            name: data_type.fill_to_json(frozen_bytes(encoded, data_type.numpy))
            for (name, data_type), encoded in zip(self.fields, self._cut(fill.tobytes()), strict=True)
        }

    def cast_fill(self, value: object) -> Fill:
        value = scalar(value)
        if isinstance(value, int | np.integer) and value == 0:
            return frozen_bytes(bytes(self.numpy.itemsize), self.numpy)
        if isinstance(value, np.void) and value.dtype.names is not None:
            if value.dtype == self.numpy:
                return frozen_bytes(value.tobytes(), self.numpy)
            value = {name: value[name] for name in value.dtype.names}
        names = [name for name, _ in self.fields]
        if isinstance(value, tuple | list) and len(value) == len(names):
            value = dict(zip(names, value, strict=True))
        if not isinstance(value, dict) or set(value) != set(names):
            self.not_a_fill(value, f"a value for each of the fields {', '.join(names)}, or 0")
        parts = []
        for name, data_type in self.fields:
            try:
                parts.append(data_type.cast_fill(value[name]))
            except MetadataError as error:
                raise DataTypeValidationError(f"field {name!r}: {error}") from error
        return self._packed(parts)

    def _packed(self, parts: list[Fill]) -> Fill:
        return frozen_bytes(b"".join(part.tobytes() for part in parts), self.numpy)

    def _cut(self, encoded: bytes) -> list[bytes]:
        parts, start = [], 0
        for _, data_type in self.fields:
            parts.append(encoded[start : start + _nbytes(data_type)])
            start += _nbytes(data_type)
        return parts

    def _from_base64(self, value: str, path: str) -> Fill:
        """The older form: the packed little-endian element."""
        encoded = bytes_from_json(value, path)
        little = self.numpy.newbyteorder("<")
        if len(encoded) != little.itemsize:
            refuse(path, f"found {len(encoded)} bytes, must be {little.itemsize}")
        return frozen_bytes(np.frombuffer(encoded, little).astype(self.numpy).tobytes(), self.numpy)


def _field(entry: object, path: str, legacy: bool) -> tuple[str, DataType]:
    if legacy and isinstance(entry, list) and len(entry) == 2:
        entry = {"name": entry[0], "data_type": entry[1]}
    if not isinstance(entry, dict) or set(entry) != {"name", "data_type"}:
        refuse(
            path,
            f'found {describe(entry)}, must be {{"name": ..., "data_type": ...}}',
            DataTypeValidationError,
        )
    name = entry["name"]
    if not isinstance(name, str) or not name:
        sentence = f"found {describe(name)}, must be a string of at least one character"
        refuse(join(path, "name"), sentence, DataTypeValidationError)
    data_type = registry.data_type_from_json(entry["data_type"], join(path, "data_type"))
    if data_type.itemsize is None:
        sentence = f"found {data_type.name}, must be of a fixed size"
        refuse(join(path, "data_type"), sentence, DataTypeValidationError)
    return name, data_type


def _nbytes(data_type: DataType) -> int:
    assert data_type.itemsize is not None  # checked when the record was read
    return data_type.itemsize
