"""Values on their way in and out of an array: types, fields.

What it does not do: broadcast or place them (indexing).
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["as_value", "with_fields"]

Value = np.ndarray[Any, Any]


def as_value(value: Any, dtype: np.dtype[Any]) -> Value:
    """`value` as an array of `dtype`, converted as numpy's assignment does."""
    if isinstance(value, np.ndarray):
        return value if value.dtype == dtype and value.dtype.isnative else value.astype(dtype)
    if dtype.kind == "O":
        if isinstance(value, bytes | bytearray | memoryview):
            box = np.empty((), dtype)
            box[()] = bytes(value)
            return box
        return np.array(value, dtype=object)
    array = getattr(value, "__array__", None)
    if array is not None:
        return as_value(np.asarray(value), dtype)
    return np.asarray(value, dtype=dtype)


def with_fields(values: Value, fields: str | list[str], out: Value | None) -> Value:
    """The named fields of structured values."""
    found: Value = values[fields]
    if out is None:
        return found
    out[...] = found
    return out
