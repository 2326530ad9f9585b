"""Places: anything that stands for a store, with a path -> a StorePath, opened as the mode asks.

What it does not do: know URLs (stores/open.py), or look whether a node is there.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import replace
from os import PathLike
from typing import Any, Literal, TypeAlias

from terrazzo.arrays.place import StorePath
from terrazzo.errors import StoreError
from terrazzo.options import Options
from terrazzo.stores.open import open_store
from terrazzo.stores.store import Store

__all__ = ["Mode", "StoreLike", "check_mode", "place_of", "trusted"]

#: r: read, must exist; r+: read and write, must exist; a: make it where it is missing; w: delete what is there, make
#: it; w-: make it, nothing may be there
Mode: TypeAlias = Literal["r", "r+", "a", "w", "w-"]
#: a path, a URL, a dictionary of keys to bytes, a store, a place in one, or None for memory
StoreLike: TypeAlias = "str | PathLike[str] | MutableMapping[str, Any] | Store | StorePath | None"

MODES = ("r", "r+", "a", "w", "w-")


def check_mode(mode: object) -> None:
    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}; allowed are {', '.join(map(repr, MODES))}")


def place_of(
    store: Any,
    path: str | PathLike[str] | None = None,
    *,
    mode: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> StorePath:
    """Where `path` is in what `store` stands for; with mode "r" a place that refuses every change."""
    if mode is not None:
        check_mode(mode)
    if storage_options is not None and not isinstance(storage_options, Mapping):
        raise StoreError(f"storage_options is a dictionary of options, not {type(storage_options).__name__}")
    place = _root(store, mode, dict(storage_options or {}))
    if path:
        place = place / str(path)
    if mode == "r" and not place.read_only:
        place = StorePath(place.store.with_read_only(), place.path)
    return place


def trusted(node: Any, options: Options) -> Options:
    """`options`, and what an array or a group that is open already was allowed to read: drafts, limits, pickles.

    What is refused elsewhere in the format stays refused.
    """
    given = getattr(node, "options", None)
    if not isinstance(given, Options):
        return options
    return replace(options, drafts=given.drafts, limits=given.limits, allow_pickle=given.allow_pickle)


def _root(store: Any, mode: Any, storage_options: dict[str, Any]) -> StorePath:
    if isinstance(store, StorePath):
        place: Any = store
    else:
        place = getattr(store, "store_path", None)  # an array or a group stands for its place
    if isinstance(place, StorePath):
        if storage_options:
            raise ValueError(
                f"storage_options belong to a URL, and {store!r} is open already; leave them out"
            )
        return place
    if mode is None:
        mode = "a"
    for name in ("mode", "what"):
        if name in storage_options:
            raise StoreError(f"{name!r} is no option of a store; leave it out of storage_options")
    opened, path = open_store(store, mode=mode, **storage_options)
    return StorePath(opened, path)
