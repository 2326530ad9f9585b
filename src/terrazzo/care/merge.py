"""The merge of small chunks at the end of an array, which appending leaves behind, into chunks made for reading.

What it does not do: touch chunks before the small ones, or arrays whose chunks are all of one shape: there an append
fills a chunk that is there, and `compact` drops what that leaves.
Specification: registered extension `rectilinear` (chunk grids with edges of their own).

Shards are put together by copying encoded inner chunks; chunks of plain arrays are decoded and encoded once. The merged
ones are made beside; from the moment the document tells of them, the next open finishes what a crash interrupts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from terrazzo.arrays.array import Array
from terrazzo.arrays.documents import alone_at_the_end, change_document
from terrazzo.arrays.merging import announced, finish, staging
from terrazzo.arrays.stored import stored_versions
from terrazzo.care.reshard import as_shards
from terrazzo.chunk_grid import RectilinearGrid
from terrazzo.chunk_keys import DefaultKeys
from terrazzo.errors import ConflictError, ReadOnlyError
from terrazzo.groups.opening import open_array
from terrazzo.indexing import project_basic
from terrazzo.layout import Layout
from terrazzo.metadata import ArrayMetadata, Extension
from terrazzo.progress import Progress, Step, follow
from terrazzo.stores.flow import run
from terrazzo.strategy import Replace
from terrazzo.write import write

__all__ = ["merge"]


def merge(
    node: Any,
    axis: int = 0,
    *,
    edge: int | None = None,
    progress: Progress = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Array:
    """Merge the small stored chunks (shards) at the end of a rectilinear axis; answers the array as it is then.

    node: an Array, or anything that `open_array` takes. edge: how long the merged ones are along the axis, by default
    as the longest that is there; what is left over becomes one more. Nothing happens where nothing is smaller.
    progress: counts steps of the axis.

    Nobody else may write to the merged part meanwhile (ConflictError where it is noticed); readers that opened the
    array before have to open it again. Raises ValueError for an axis whose chunks all have one length.
    """
    array = node if isinstance(node, Array) else open_array(node, mode="r+", storage_options=storage_options)
    if array.read_only:
        raise ReadOnlyError(f"array {array.name!r} was opened for reading; open it with mode='r+'")
    if not -array.ndim <= axis < array.ndim:
        raise ValueError(f"array {array.name!r} has {array.ndim} dimensions; there is no axis {axis}")
    axis %= array.ndim
    old = array.layout
    edges, first, merged = _plan(array, axis, edge)
    if merged == edges[first:]:
        with alone_at_the_end(array.store, array.path):  # who finished a merge may have died before this
            array.store.erase_prefix(staging(array.path) + "/")
        return array
    new = _with_edges(array, axis, [*edges[:first], *merged])
    beside = replace(new, path=staging(array.path))
    array.store.erase_prefix(staging(array.path) + "/c/")  # what a dead merge left before it was announced
    start = sum(edges[:first])
    tail = tuple((start, n) if d == axis else (0, n) for d, n in enumerate(array.shape))
    before = stored_versions(array, tail)
    with follow(progress, array.shape[axis] - start, "merging") as step:
        if old.sharding is not None:
            region = tuple(slice(low, high) for low, high in tail)
            for _ in as_shards(array, _keyed(beside), array.store, array.inventory(region)):
                pass
            step(array.shape[axis] - start)
        else:
            _merge_plain(array, new, _keyed(beside), axis, first, step)
    array.store.sync()
    if stored_versions(array, tail) != before:
        raise ConflictError(
            f"array {array.name!r}: chunks changed while they were merged; nothing was changed, begin again"
        )

    def announce(document: ArrayMetadata) -> ArrayMetadata:
        if document.chunk_grid != array.metadata.chunk_grid or document.shape != array.shape:
            raise ConflictError(f"array {array.name!r} was resized while its chunks were merged; begin again")
        return announced(document, axis, first, new.grid.to_extension())

    with alone_at_the_end(array.store, array.path):
        document = change_document(array.store, array.path, ArrayMetadata, announce, array.options)
    done = finish(array.store, array.chunk_store, array.path, document, array.options)
    return Array(array.store, array.path, done, array.options, array.strategy)


def _plan(array: Array, axis: int, edge: int | None) -> tuple[list[int], int, list[int]]:
    """The edges along the axis, which of them is the first to be merged, and what these become."""
    dim = array.layout.grid.dims[axis]
    count = dim.count(array.shape[axis])
    if dim.covered is None:
        raise ValueError(
            f"array {array.name!r}: all chunks along axis {axis} have one length, so appending fills them; merging is "
            "for grids whose edges are listed ('rectilinear')"
        )
    edges = [dim.begin(i + 1) - dim.begin(i) for i in range(count)]
    longest = max(edges, default=1)
    target = longest if edge is None else int(edge)
    inner = array.layout.inner_shape
    if target < 1 or (inner is not None and target % inner[axis]):
        raise ValueError(
            f"edge={edge}; a positive number is needed"
            + ("" if inner is None else f", and a multiple of the inner chunk's {inner[axis]}")
        )
    first = count
    while first and edges[first - 1] < target:
        first -= 1
    total = sum(edges[first:])
    merged = [target] * (total // target) + ([total % target] if total % target else [])
    return edges, first, merged


def _with_edges(array: Array, axis: int, edges: list[int]) -> Layout:
    """The layout of the array on the merged grid."""
    entries: list[Any] = []
    for d, dim in enumerate(array.layout.grid.dims):
        if d == axis:
            entries.append(edges)
        elif dim.covered is None:
            entries.append(dim.uniform)
        else:
            entries.append([dim.begin(i + 1) - dim.begin(i) for i in range(dim.count(array.shape[d]))])
    grid = Extension.from_json(RectilinearGrid(*entries).to_extension())
    return Layout.build(replace(array.metadata, chunk_grid=grid), array.path, array.options)


def _keyed(beside: Layout) -> Layout:
    """Merged chunks wait under keys of one form, whatever form the array's have."""
    return replace(beside, keys=DefaultKeys("/"))


def _merge_plain(array: Array, new: Layout, beside: Layout, axis: int, first: int, step: Step) -> None:
    for index in _chunks_from(new, axis, first):
        box = []
        for d, i in enumerate(index):
            dim = new.grid.dims[d]
            box.append(slice(dim.begin(i), min(dim.begin(i + 1), new.shape[d])))
        value = array.get_basic_selection(tuple(box))
        projection = project_basic(tuple(box), beside, for_write=True)
        run(
            write(
                beside,
                projection,
                projection.prepare(value),
                array.options,
                array.index_cache,
                Replace(),
                array.store.cost,
            ),
            array.store,
        )
        if all(i == 0 for d, i in enumerate(index) if d != axis):
            step(box[axis].stop - box[axis].start)


def _chunks_from(layout: Layout, axis: int, first: int) -> Iterator[tuple[int, ...]]:
    spans = [range(n) for n in layout.grid.grid_shape(layout.shape)]
    spans[axis] = range(first, spans[axis].stop)
    return product(*spans)
