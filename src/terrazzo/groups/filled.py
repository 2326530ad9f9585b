"""Arrays full of one value, and arrays like another: zeros, ones, empty, full, array, and the `_like` of each.

What it does not do: store that value; an array that was never written to is its document.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from terrazzo.arrays.array import Array
from terrazzo.arrays.creation import data_type_of
from terrazzo.groups.creating import create, kept

__all__ = [
    "array",
    "empty",
    "empty_like",
    "full",
    "full_like",
    "like",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]


def array(data: Any, **how: Any) -> Array:
    """Make an array that holds `data`; further arguments as in `create` (`store`, `path`, `chunks`, ...).

    >>> array([[1, 2], [3, 4]], chunks=1).shape
    (2, 2)
    """
    if not hasattr(data, "shape") or not hasattr(data, "dtype"):
        data = np.asanyarray(data)
    if "chunks" not in how and "chunk_shape" not in how:
        edges = kept(data).get("chunks")
        if edges is not None:
            how["chunks"] = edges
    return create(tuple(data.shape), data=data, **how)


def zeros(shape: int | Sequence[int], **how: Any) -> Array:
    """Make an array of zeros; further arguments as in `create`.

    >>> zeros((2, 3), dtype="i4")[:].tolist()
    [[0, 0, 0], [0, 0, 0]]
    """
    return create(shape, **{"fill_value": 0, **how})


def ones(shape: int | Sequence[int], **how: Any) -> Array:
    """Make an array of ones; further arguments as in `create`.

    >>> ones(3)[:].tolist()
    [1.0, 1.0, 1.0]
    """
    return create(shape, **{"fill_value": 1, **how})


def empty(shape: int | Sequence[int], **how: Any) -> Array:
    """Make an array whose values do not matter yet (they are the fill value); further arguments as in `create`.

    >>> empty((10, 10), dtype="u1").shape
    (10, 10)
    """
    return create(shape, **how)


def full(shape: int | Sequence[int], fill_value: Any, **how: Any) -> Array:
    """Make an array of one value; further arguments as in `create`.

    >>> full((2, 2), 42, dtype="u2")[0].tolist()
    [42, 42]
    """
    return create(shape, fill_value=fill_value, **how)


def zeros_like(a: Any, **how: Any) -> Array:
    """Make an array of zeros of the shape, type, chunks and codecs of `a`, in memory unless `store` is given.

    >>> zeros_like(np.ones((2, 2))).shape
    (2, 2)
    """
    return zeros(**like(a, how))


def ones_like(a: Any, **how: Any) -> Array:
    """Make an array of ones of the shape, type, chunks and codecs of `a`, in memory unless `store` is given."""
    return ones(**like(a, how))


def empty_like(a: Any, **how: Any) -> Array:
    """Make an array of the shape, type, chunks and codecs of `a`, in memory unless `store` is given."""
    return empty(**like(a, how))


def full_like(a: Any, **how: Any) -> Array:
    """Make an array of one value (`fill_value`; that of `a` unless given) of the shape, type, chunks and codecs of `a`.

    >>> full_like(np.zeros(3), fill_value=2.5)[:].tolist()
    [2.5, 2.5, 2.5]
    """
    arguments = like(a, how)
    if "fill_value" not in arguments:
        if not isinstance(a, Array):
            raise ValueError("full_like needs fill_value, since the other array has none")
        arguments["fill_value"] = a.metadata.fill_value
    return full(**arguments)


def like(a: Any, how: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `create` for an array like `a`; what is in `how` goes first."""
    if not hasattr(a, "shape") or not hasattr(a, "dtype"):
        a = np.asanyarray(a)
    found = kept(a)
    also = found.pop("also")
    if "index_location" in also:
        found["index_location"] = also["index_location"]
    if "chunks" in how or "chunk_shape" in how or "codecs" in how:
        found.pop("chunks", None)
        found.pop("shards", None)
        found.pop("index_location", None)
    if "codecs" in how:
        found = {}
    elif "compressor" in how:
        found.pop("compressors", None)
    found["shape"] = tuple(a.shape)
    found["dtype"] = (
        a.metadata.data_type
        if isinstance(a, Array)
        else data_type_of(a)
        if isinstance(a, np.ndarray)
        else a.dtype
    )
    return {**found, **how}
