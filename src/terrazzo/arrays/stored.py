"""What is stored of an array: which objects to look at, and what a look at them tells.

What it does not do: read chunks. Objects are named by their places in the grid where a region touches few of them, and
found by listing where that is less work: a listing tells about a thousand keys at once, a look at an object only one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from terrazzo.errors import SelectionError
from terrazzo.inventory import Inventory, fingerprint, survey
from terrazzo.inventory.survey import outer_spans
from terrazzo.stores.flow import run
from terrazzo.stores.store import Open

if TYPE_CHECKING:
    from terrazzo.arrays.array import Array

__all__ = ["inventory_of", "layout_fingerprint", "listed", "region_of", "stored_versions"]

Places = np.ndarray[Any, np.dtype[np.int64]]
Region = tuple[tuple[int, int], ...]

#: up to so many objects are looked for one by one, be they stored or not; beyond it the store is listed
LOOKED_FOR = 1000
#: objects opened at a time: local ones hold a descriptor each
BATCH = 128


def inventory_of(array: Array, region: Any = None, slack: bool = False) -> Inventory:
    """The inventory of the chunks that a region touches; with `slack`, bytes that nothing covers are read, too."""
    box = region_of(array, region)
    return run(
        survey(
            array.layout,
            _places(array, box),
            box,
            array.options,
            array.index_cache,
            layout_fingerprint(array),
            slack,
            array.chunk_store.cost,
        ),
        array.chunk_store,
    )


def region_of(array: Array, region: Any = None) -> Region:
    """Slices (of step 1) and integers as (first, past the last) element per dimension; None: the whole array."""
    given: list[Any] = [...] if region is None else list(region) if isinstance(region, tuple) else [region]
    if sum(entry is Ellipsis for entry in given) > 1:
        raise SelectionError("a region has more than one `...`")
    at = next((k for k, entry in enumerate(given) if entry is Ellipsis), None)
    if at is None:
        at = len(given)
        given.append(Ellipsis)
    if len(given) - 1 > array.ndim:
        raise SelectionError(
            f"array {array.path!r} has {array.ndim} dimensions; {len(given) - 1} were selected"
        )
    given[at : at + 1] = [slice(None)] * (array.ndim - len(given) + 1)
    box = []
    for d, (entry, n) in enumerate(zip(given, array.shape, strict=True)):
        if isinstance(entry, int | np.integer) and not isinstance(entry, bool):
            index = int(entry) + (n if entry < 0 else 0)
            if not 0 <= index < n:
                raise SelectionError(f"index {int(entry)} is outside dimension {d}, which has {n} elements")
            box.append((index, index + 1))
        elif isinstance(entry, slice) and entry.step in (None, 1):
            start, stop, _ = entry.indices(n)
            box.append((start, max(start, stop)))
        else:
            raise SelectionError(
                f"{entry!r} along dimension {d}: a region takes integers and slices of step 1"
            )
    return tuple(box)


def _places(array: Array, region: Region) -> Places | None:
    """The grid indices of the objects to look at; None: all that the region touches."""
    spans = outer_spans(array.layout, region)
    if prod(stop - first for first, stop in spans) <= LOOKED_FOR or not array.chunk_store.listable:
        return None
    found = listed(array)
    for d, (first, stop) in enumerate(spans):
        found = found[(found[:, d] >= first) & (found[:, d] < stop)]
    return found[np.lexsort(found.T[::-1])] if found.shape[1] else found


def listed(array: Array) -> Places:
    """The grid indices of the objects that a listing finds, int64 (n, ndim)."""
    layout, grid = array.layout, array.shard_grid_shape
    start = len(layout.prefix)
    found = []
    for key in array.chunk_store.list_prefix(layout.prefix):
        index = layout.keys.parse(key[start:], layout.ndim)
        if index is not None and all(i < n for i, n in zip(index, grid, strict=True)):
            found.append(index)
    return np.array(found, np.int64).reshape(len(found), layout.ndim)


def stored_versions(array: Array, region: Region) -> dict[str, int]:
    """The fingerprint of the version of every stored object that a region touches, by key; no byte is read."""
    inside = tuple((first, min(stop, n)) for (first, stop), n in zip(region, array.shape, strict=True))
    places = _places(array, inside)
    if places is None:
        spans = outer_spans(array.layout, inside)
        indices = np.indices([stop - first for first, stop in spans], np.int64)
        places = indices.reshape(len(spans), -1).T + np.array([first for first, _ in spans], np.int64)
    versions: dict[str, int] = {}
    for start in range(0, len(places), BATCH):
        names = array.layout.chunk_keys(places[start : start + BATCH])
        for name, source in zip(names, array.chunk_store.open([Open(name) for name in names]), strict=True):
            if source is not None:
                versions[name] = fingerprint(source.tag)
                source.close()
    return versions


def layout_fingerprint(array: Array) -> int:
    """What stands for the parts of the document that decide where chunks lie and how they are encoded."""
    document = array.metadata.to_document()
    parts: Sequence[str] = ("shape", "data_type", "chunk_grid", "chunk_key_encoding", "codecs", "fill_value")
    words = json.dumps({part: document.get(part) for part in parts}, sort_keys=True, default=str)
    import hashlib  # loads a library of its own

    return int.from_bytes(hashlib.blake2b(words.encode(), digest_size=8).digest(), "little") or 1
