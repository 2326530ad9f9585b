"""A merge of chunks that was begun: what the document says of it, and how it is finished.

What it does not do: decide what is merged, or make the merged chunks (care/merge.py).

A merge renames chunks, and a reader cannot be right while half of them are renamed. So the merged chunks are made
beside, below the array's own `__merge/`, and durable; then the document says that a merge is on, in a member that other
libraries may ignore; from then on nobody of ours reads the array before the merged chunks are in their places. Each
step may be done twice, so whoever opens the array next for writing finishes what a dead process began.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from terrazzo.arrays.documents import alone_at_the_end, change_document, read_document
from terrazzo.arrays.surplus import surplus_keys
from terrazzo.errors import MetadataError, ReadOnlyError
from terrazzo.layout import Layout
from terrazzo.metadata import ArrayMetadata, Extension
from terrazzo.options import Options
from terrazzo.stores.store import Store

__all__ = ["MEMBER", "announced", "finish", "merged_keys", "staging"]

#: the member of the document that tells of a merge
MEMBER = "terrazzo_merge"


def staging(path: str) -> str:
    """Below which path merged chunks wait."""
    return f"{path}/__merge" if path else "__merge"


def announced(document: ArrayMetadata, axis: int, first: int, grid: Any) -> ArrayMetadata:
    """The document once merged chunks are ready: from index `first` along `axis` they take the places of others.

    grid: the new grid as an extension.
    """
    told = {"must_understand": False, "axis": axis, "first": first, "chunk_grid": grid}
    return replace(document, extra={**document.extra, MEMBER: told})


def finish(
    store: Store, chunk_store: Store, path: str, document: ArrayMetadata, options: Options
) -> ArrayMetadata:
    """Put merged chunks in their places, and answer the document afterwards.

    Raises ReadOnlyError where that would have to be done and cannot.
    """
    if not store.writable:
        raise ReadOnlyError(
            f"array {path!r}: a merge of its chunks was interrupted; open it once with mode='r+', which finishes it"
        )
    with alone_at_the_end(store, path):
        now = read_document(store, path, options)
        if not isinstance(now, ArrayMetadata) or MEMBER not in now.extra:
            return now if isinstance(now, ArrayMetadata) else document  # finished by another meanwhile
        axis, first, merged = _read(now, path)
        old = Layout.build(replace(now, extra={}), path, options)
        new = Layout.build(merged, path, options)
        beside = replace(new, path=staging(path))
        for waiting, key in merged_keys(beside, new, axis, first):
            body = store.get(waiting)
            if body is None:
                chunk_store.erase(key)
            else:
                chunk_store.set(key, body)
        count = new.grid.grid_shape(new.shape)[axis]
        chunk_store.erase_values(new_key for _, new_key in merged_keys(beside, old, axis, count))
        chunk_store.erase_values(_outside(chunk_store, old, axis, first))
        answer = change_document(store, path, ArrayMetadata, lambda found: _without(found, merged), options)
        store.erase_prefix(staging(path) + "/c/")
    return answer


def merged_keys(beside: Layout, layout: Layout, axis: int, first: int) -> Iterator[tuple[str, str]]:
    """(key beside, key in the array) of every object from index `first` along `axis`."""
    spans = [range(n) for n in layout.grid.grid_shape(layout.shape)]
    spans[axis] = range(first, spans[axis].stop)
    waiting, prefix, key = beside.prefix + "c/", layout.prefix, layout.keys.key
    for index in product(*spans):
        yield waiting + "/".join(map(str, index)), prefix + key(index)


def _outside(store: Store, layout: Layout, axis: int, first: int) -> Iterator[str]:
    """The keys of stored chunks outside the array from index `first` along `axis`: when it grows they would come back
    with other edges than they were made with."""
    start = len(layout.prefix)
    for key in surplus_keys(store, layout, layout):
        index = layout.keys.parse(key[start:], layout.ndim)
        if index is not None and index[axis] >= first:
            yield key


def _read(document: ArrayMetadata, path: str) -> tuple[int, int, ArrayMetadata]:
    """What the document says of the merge, checked: it comes from a file like anything else."""
    told = document.extra[MEMBER]
    try:
        axis, first, grid = told["axis"], told["first"], told["chunk_grid"]
        if not (type(axis) is int and 0 <= axis < len(document.shape) and type(first) is int and first >= 0):
            raise ValueError(f"axis {axis!r}, first {first!r}")
        extra = {name: value for name, value in document.extra.items() if name != MEMBER}
        return axis, first, replace(document, chunk_grid=Extension.from_json(grid), extra=extra)
    except (KeyError, TypeError, ValueError) as error:
        raise MetadataError(f"{path}: the member {MEMBER!r} does not describe a merge: {error}") from error


def _without(found: ArrayMetadata, merged: ArrayMetadata) -> ArrayMetadata:
    extra = {name: value for name, value in found.extra.items() if name != MEMBER}
    return replace(found, chunk_grid=merged.chunk_grid, extra=extra)
