"""Appending to an array: rows are reserved in the document first, then written, so that no two appenders share them;
and the array's end as the buffered writer needs it.

What it does not do: buffer small pieces (the writer room), or say how a grid grows (resizing.py).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from terrazzo.arrays.documents import alone_at_the_end, read_document
from terrazzo.arrays.early import layout_of
from terrazzo.arrays.merging import MEMBER, finish
from terrazzo.arrays.resizing import change_shape, grown, resized
from terrazzo.arrays.transfers import refuse_reading, setting
from terrazzo.arrays.values import as_value
from terrazzo.chunk_grid import chunk_grid_from_extension
from terrazzo.errors import ArrayNotFoundError
from terrazzo.indexing import project_basic
from terrazzo.layout import Layout
from terrazzo.metadata import ArrayMetadata
from terrazzo.stores.flow import run

if TYPE_CHECKING:
    from terrazzo.arrays.array import Array

__all__ = ["ArrayEnd", "append"]

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

    document = change_shape(array, longer)
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


class ArrayEnd:
    """The end of an array along an axis (`terrazzo.writer.end.End`)."""

    def __init__(self, array: Array, axis: int) -> None:
        self._array, self._axis = array, axis % array.ndim
        self.reserves = array.store.exclusion == "versions"

    @contextmanager
    def alone(self) -> Iterator[Layout | None]:
        array = self._array
        if self.reserves:
            yield None
            return
        while True:
            with alone_at_the_end(array.store, array.path):
                document = read_document(array.store, array.path, array.options)
                if not isinstance(document, ArrayMetadata):
                    raise ArrayNotFoundError(f"array {array.name!r} is not there any more: it was deleted")
                if MEMBER not in document.extra:
                    yield layout_of(array.chunk_store, array.path, document, array.options)
                    return
            finish(array.store, array.chunk_store, array.path, document, array.options)

    def grow(self, layout: Layout, known: int, length: int) -> Layout | None:
        array, axis = self._array, self._axis
        others: ArrayMetadata | None = None

        def longer(document: ArrayMetadata) -> ArrayMetadata:
            nonlocal others
            grid = chunk_grid_from_extension(document.chunk_grid, document.shape, array.path)
            across = [n for d, n in enumerate(document.shape) if d != axis]
            same = document.shape[axis] == known and layout.grid.goes_on_as(grid)
            if not same or across != [n for d, n in enumerate(layout.shape) if d != axis]:
                others = document
                raise _OthersFirst
            return grown(document, layout, axis, length)

        try:
            array._metadata = change_shape(array, longer, alone=False)
        except _OthersFirst:
            assert others is not None
            return layout_of(array.chunk_store, array.path, others, array.options)
        array._layout = layout_of(array.chunk_store, array.path, array._metadata, array.options)
        return None


class _OthersFirst(Exception):
    """Somebody else changed the shape."""
