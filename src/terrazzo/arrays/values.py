"""Values on their way in and out of an array: types, fields.

What it does not do: broadcast or place them (indexing).
"""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np

__all__ = ["as_value", "with_fields"]

Value = np.ndarray[Any, Any]

#: what numpy raises where values cannot be converted
ERRORS = (ValueError, TypeError, OverflowError)


def as_value(value: Any, dtype: np.dtype[Any]) -> Value:
    """`value` as an array of `dtype`, converted as numpy's assignment does."""
    if isinstance(value, np.ndarray):
        if value.dtype == dtype and value.dtype.isnative:
            return value
        try:
            return value.astype(dtype)
        except ERRORS as error:
            raise _told(error, f"values of {value.dtype}", dtype) from error
    if dtype.kind == "O":
        if isinstance(value, bytes | bytearray | memoryview):
            box = np.empty((), dtype)
            box[()] = bytes(value)
            return box
        return np.array(value, dtype=object)
    array = getattr(value, "__array__", None)
    if array is not None:
        return as_value(np.asarray(value), dtype)
    try:
        return np.asarray(value, dtype=dtype)
    except ERRORS as error:
        raise _told(error, reprlib.repr(value), dtype) from error


def _told(error: Exception, found: str, dtype: np.dtype[Any]) -> Exception:
    """An error of numpy's conversion that says what was given and what is needed, of the same kind."""
    kind = next(one for one in ERRORS if isinstance(error, one))
    return kind(f"found {found}, must be values of {dtype}: {error}")


def with_fields(values: Value, fields: str | list[str], out: Value | None) -> Value:
    """The named fields of structured values."""
    found: Value = values[fields]
    if out is None:
        return found
    out[...] = found
    return out
