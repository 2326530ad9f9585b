"""Appending to an array: rows are reserved in the document first, then written, so that no two appenders share them.

What it does not do: buffer small pieces (the writer room), or say how a grid grows (resizing.py).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from terrazzo.arrays.documents import change_document
from terrazzo.arrays.early import layout_of
from terrazzo.arrays.resizing import resized
from terrazzo.arrays.transfers import refuse_reading, setting
from terrazzo.arrays.values import as_value
from terrazzo.indexing import project_basic
from terrazzo.layout import Layout
from terrazzo.metadata import ArrayMetadata
from terrazzo.stores.flow import run

if TYPE_CHECKING:
    from terrazzo.arrays.array import Array

__all__ = ["append"]

#: of threads that append through one object, each leaves it at least as long as it was
_growing = threading.Lock()


def append(array: Array, data: Any, axis: int) -> tuple[int, ...]:
    """Reserve rows behind the array's end as it is stored now, and write them; the shape after that."""
    refuse_reading(array)
    value = as_value(data, array.dtype)
    before, path = array.layout, array.path
    first = 0

    def longer(document: ArrayMetadata) -> ArrayMetadata:
        nonlocal first  # called again where another writer was faster
        shape = appended_shape(document.shape, value.shape, axis, path)
        first = document.shape[axis]
        return resized(document, shape, before)

    document = change_document(array.store, path, ArrayMetadata, longer, array.options)
    layout = layout_of(array.chunk_store, path, document, array.options)
    with _growing:
        if all(n >= m for n, m in zip(layout.shape, array.shape, strict=True)):
            array._metadata, array._layout = document, layout
    if first < document.shape[axis]:
        place = [slice(None)] * layout.ndim
        place[axis] = slice(first, document.shape[axis])
        _write(array, _to_the_end_of_chunks(layout, axis), tuple(place), value)
    array.index_cache.clear()
    return document.shape


def _write(array: Array, layout: Layout, place: tuple[slice, ...], value: Any) -> None:
    here = array._like(options=array.options)
    here._layout, here._outcomes = layout, array.outcomes
    run(setting(here, lambda write: project_basic(place, layout, for_write=write), value), array.chunk_store)


def _to_the_end_of_chunks(layout: Layout, axis: int) -> Layout:
    """The layout as if the last chunks were full: what lies past these rows may be another appender's already, and
    stays, where a chunk that ends with the array would be written without a look at it."""
    edges, shape = layout.grid.dims[axis], list(layout.shape)
    index, start = edges.find(shape[axis] - 1)
    shape[axis] = start + int(edges.extent(np.array([index]))[0])
    return layout.resized(tuple(shape))


def appended_shape(old: tuple[int, ...], data: tuple[int, ...], axis: int, path: str) -> tuple[int, ...]:
    """The shape after appending data of a shape along an axis."""
    if not -len(old) <= axis < len(old):
        raise ValueError(f"array {'/' + path!r} has {len(old)} dimensions; there is no axis {axis}")
    axis %= len(old)
    expected = old[:axis] + old[axis + 1 :]
    if len(data) != len(old) or data[:axis] + data[axis + 1 :] != expected:
        raise ValueError(
            f"array {'/' + path!r} has shape {old}; data of shape {data} does not fit it along axis {axis}: "
            "all other extents must be equal"
        )
    return (*old[:axis], old[axis] + data[axis], *old[axis + 1 :])
