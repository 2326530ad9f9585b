"""Which data types there are: names in documents, numpy's types, and those that users register.

What it does not do: describe any of them; every kind has its own file beside this one.

https://github.com/zarr-developers/zarr-extensions/tree/main/data-types
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from terrazzo.errors import DataTypeValidationError
from terrazzo.metadata.data_types.contract import DataType
from terrazzo.metadata.extension import Extension
from terrazzo.metadata.problems import describe, join, refuse

__all__ = [
    "data_type_from_json",
    "data_type_from_numpy",
    "known_data_types",
    "register_data_type",
    "resolve_data_type",
]

Kind = TypeVar("Kind", bound=type[DataType])

_classes: list[type[DataType]] = []

KNOWN_ELSEWHERE = {
    "float8_e4m3fn": "it is not a registered data type; float8_e4m3 and float8_e4m3fnuz are",
}


def register_data_type(cls: Kind) -> Kind:
    """Make a class of data types known by its `names` (and `matches`); usable as a decorator.

    Raises ValueError if another class has one of the names.
    """
    if not (isinstance(cls, type) and issubclass(cls, DataType)):
        raise TypeError(f"found {cls!r}, must be a subclass of terrazzo.metadata.DataType")
    if cls in _classes:
        return cls
    for name in cls.names:
        other = _by_name(name)
        # a module that was loaded anew brings the same class again
        if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(
                f"the data type {name!r} is already registered, by {other.__qualname__}; choose another name"
            )
    _classes[:] = [
        one for one in _classes if (one.__module__, one.__qualname__) != (cls.__module__, cls.__qualname__)
    ]
    _classes.append(cls)
    return cls


def registered() -> tuple[object, ...]:
    """All classes that there are now: for those who remember what a name meant."""
    return tuple(_classes)


def known_data_types() -> tuple[str, ...]:
    """Every name that documents may use, in alphabetical order; families such as `r8`, `r16` are not among them."""
    return tuple(sorted(name for cls in _classes for name in cls.names if not name.startswith("terrazzo.")))


def data_type_from_json(value: object, path: str = "data_type", *, strict: bool = True) -> DataType:
    """The data type that a document's `data_type` member spells; raises DataTypeValidationError with the path."""
    if isinstance(value, DataType):
        return value
    extension = Extension.from_json(value, path, strict=strict)
    cls = _by_name(extension.name)
    if cls is None:
        refuse(
            path if isinstance(value, str) else join(path, "name"),
            _unknown(extension.name),
            DataTypeValidationError,
        )
    return cls.from_json(extension.name, extension.configuration, path)


def data_type_from_numpy(dtype: Any) -> DataType:
    """The data type that holds the values of a numpy type, or of anything numpy.dtype accepts.

    Byte order is dropped: it is a matter of the codec. Raises DataTypeValidationError if there is none.
    """
    if isinstance(dtype, DataType):
        return dtype
    if dtype is str:
        dtype = np.dtypes.StringDType()
    try:
        dtype = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError) as error:
        raise DataTypeValidationError(f"found {dtype!r}, which is not a data type: {error}") from error
    for cls in _classes:
        found = cls.from_numpy(dtype)
        if found is not None:
            return found
    if dtype.kind == "O":
        raise DataTypeValidationError(
            'found the numpy type object, which does not say what its elements are; name "string" or "bytes"'
        )
    raise DataTypeValidationError(f"found the numpy type {dtype}, which no data type holds; {_names()}")


def resolve_data_type(value: Any) -> DataType:
    """What a caller means by `dtype=`: a data type, its name or document form, or anything numpy.dtype accepts."""
    if isinstance(value, DataType):
        return value
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        return data_type_from_json(value, "dtype")
    if isinstance(value, str):
        cls = _by_name(value)
        if cls is not None:
            return data_type_from_json(value, "dtype")
        if value in KNOWN_ELSEWHERE:
            raise DataTypeValidationError(_unknown(value))
        try:
            np.dtype(value)
        except (TypeError, ValueError, SyntaxError) as error:
            raise DataTypeValidationError(_unknown(value)) from error
    return data_type_from_numpy(value)


def _by_name(name: str) -> type[DataType] | None:
    for cls in _classes:
        if name in cls.names:
            return cls
    for cls in _classes:
        if cls.matches(name):
            return cls
    return None


def _unknown(name: str) -> str:
    reason = KNOWN_ELSEWHERE.get(name)
    if reason:
        return f"found {describe(name)}, which is not supported: {reason}"
    return f"found {describe(name)}, which is not a known data type; {_names()}; others can be registered"


def _names() -> str:
    names = [name for cls in _classes for name in cls.names if not name.startswith("terrazzo.")]
    return "known are " + ", ".join([*names, "r8, r16, ..."])
