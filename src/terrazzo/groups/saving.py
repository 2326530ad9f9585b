"""Whole arrays in one call: save, save_array, save_group, and load.

What it does not do: work in pieces; for arrays larger than memory open one and assign to parts of it.
What is saved is sharded: few objects, and small reads stay small.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from typing import Any

import numpy as np

from terrazzo.arrays.array import Array
from terrazzo.arrays.creation import data_type_of
from terrazzo.arrays.place import StorePath
from terrazzo.groups.creating import create_array
from terrazzo.groups.group import Group
from terrazzo.groups.opening import open as open_node
from terrazzo.groups.places import StoreLike, place_of
from terrazzo.metadata import normalize_path, resolve_data_type

__all__ = ["load", "save", "save_array", "save_group"]


def save(
    store: StoreLike,
    *args: Any,
    zarr_format: int | None = None,
    path: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> None:
    """Save one array as an array, or several as a group: those without a name as `arr_0`, `arr_1`, ...

    One array is not saved over what is there (ContainsArrayError); a group replaces it.

    >>> save("rain.zarr", np.arange(6).reshape(2, 3))
    >>> load("rain.zarr").tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    if not args and not kwargs:
        raise ValueError("there is nothing to save; give at least one array")
    if len(args) == 1 and not kwargs:
        save_array(store, args[0], zarr_format=zarr_format, path=path, storage_options=storage_options)
    else:
        save_group(
            store, *args, zarr_format=zarr_format, path=path, storage_options=storage_options, **kwargs
        )


def save_array(
    store: StoreLike,
    arr: Any,
    *,
    zarr_format: int | None = None,
    path: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    mode: str | None = None,
    **how: Any,
) -> None:
    """Save one array; further arguments as in `create_array` (`chunks`, `shards`, `compressors`, `overwrite`, ...).

    >>> save_array("level.zarr", np.linspace(0, 1, 5), compressors="zstd:9")
    >>> load("level.zarr")[-1].item()
    1.0
    """
    values = _as_array(arr, "arr")
    how["overwrite"] = bool(how.get("overwrite")) or mode == "w"
    if "chunks" not in how and "codecs" not in how:
        how.setdefault("shards", None if zarr_format == 2 else "auto")
    with _opened(store, path, mode, storage_options) as place:
        create_array(place, data=values, zarr_format=zarr_format, **how)


def save_group(
    store: StoreLike,
    *args: Any,
    zarr_format: int | None = None,
    path: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> None:
    """Save several arrays in one group, which replaces what is there; names may be paths.

    >>> save_group("year.zarr", rain=np.zeros(12), wind=np.ones(12))
    >>> sorted(load("year.zarr"))
    ['rain', 'wind']
    """
    if not args and not kwargs:
        raise ValueError("there is nothing to save; give at least one array")
    named = {f"arr_{i}": value for i, value in enumerate(args)}
    if named.keys() & kwargs.keys():
        raise ValueError(f"{', '.join(sorted(named.keys() & kwargs.keys()))}: given by name and by place")
    values = {normalize_path(name): _as_array(value, name) for name, value in (named | kwargs).items()}
    for value in values.values():  # refuse what cannot be stored before anything is deleted
        resolve_data_type(data_type_of(value) if isinstance(value, np.ndarray) else value.dtype)
    with _opened(store, path, "w", storage_options) as place:
        group = Group.from_store(place, overwrite=True, zarr_format=zarr_format)
        shards = None if zarr_format == 2 else "auto"
        for name, value in values.items():
            group.create_array(name, data=value, shards=shards)


def load(
    store: StoreLike,
    path: str | None = None,
    zarr_format: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Read everything there is into memory: an array as a numpy array, a group as a dictionary of them by path.

    >>> save("pair.zarr", np.zeros(2), np.ones(3))
    >>> {name: values.shape for name, values in load("pair.zarr").items()}
    {'arr_0': (2,), 'arr_1': (3,)}
    """
    with _opened(store, path, "r", storage_options) as place:
        node = open_node(place, mode="r", zarr_format=zarr_format)
        if isinstance(node, Array):
            return node[...]
        return {name: found[...] for name, found in node.walk() if isinstance(found, Array)}


def _as_array(value: Any, name: str) -> Any:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return value
    if isinstance(value, str | bytes | dict) or value is None:
        raise TypeError(f"{name} is {type(value).__name__}; an array is needed")
    found = np.asarray(value)
    if found.dtype.kind == "O":
        raise TypeError(f"{name} is {type(value).__name__}, which makes no array of one type")
    return found


@contextmanager
def _opened(
    store: StoreLike, path: str | None, mode: str | None, storage_options: Mapping[str, Any] | None
) -> Iterator[StorePath]:
    """A place; a store that was opened for this call is closed after it (an archive is written then)."""
    place = place_of(store, path, mode=mode, storage_options=storage_options)
    if isinstance(store, str | PathLike):
        with place.store:
            yield place
    else:
        yield place
