"""Changing an array's shape: the new document, the chunks that end up outside, and what others made of the shape.

What it does not do: store the document (documents.py) or delete chunks (the store).
Specification: Zarr core 3.0, "Resizing" (non-normative).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from terrazzo.arrays.documents import alone_at_the_end, change_document, is_busy_at_the_end, read_document
from terrazzo.arrays.early import layout_of
from terrazzo.arrays.merging import MEMBER, finish
from terrazzo.arrays.surplus import surplus_keys
from terrazzo.chunk_grid import chunk_grid_from_extension
from terrazzo.errors import ConflictError, UnsupportedError
from terrazzo.layout import Layout
from terrazzo.metadata import ArrayMetadata, Extension
from terrazzo.stores.store import Store
from terrazzo.write import Ends

if TYPE_CHECKING:
    from terrazzo.arrays.array import Array

__all__ = ["change_shape", "ends_of", "grown", "resize", "resized"]


def resized(document: ArrayMetadata, shape: tuple[int, ...], layout: Layout) -> ArrayMetadata:
    """The document with another shape; the grid grows with it where its edges are listed, by whole inner chunks.

    layout: of the array as it was opened. Raises MetadataError for what could not be opened any more.
    """
    path = layout.path
    if len(shape) != len(document.shape):
        raise ValueError(
            f"array {'/' + path!r} has {len(document.shape)} dimensions; the new shape {shape} has {len(shape)}"
        )
    if any(n < 0 for n in shape):
        raise ValueError(f"array {'/' + path!r}: the new shape {shape} has a negative extent")
    grid = chunk_grid_from_extension(document.chunk_grid, document.shape, path)
    inner = layout.inner_shape or (1,) * len(shape)
    reach = [_reach(dim.covered, n, step) for dim, n, step in zip(grid.dims, shape, inner, strict=True)]
    found = replace(document, shape=shape, chunk_grid=Extension.from_json(grid.resized(reach).to_extension()))
    if found.chunk_grid != document.chunk_grid:
        Layout.build(found, path, layout.options)  # codecs may not take the edges that came to it
    return found


def resize(array: Array, shape: tuple[int, ...], delete: bool) -> tuple[ArrayMetadata, Layout]:
    """Give the array another shape, and `delete` what lies wholly outside; its document and layout then.

    It shrinks by what is stored, which others may have made longer. Nobody appends before chunks are deleted, where
    anybody can be kept out.
    """
    store, opened = array.chunk_store, array.layout
    shorter = len(shape) == len(opened.shape) and any(n < m for n, m in zip(shape, opened.shape, strict=True))
    if delete and shorter and not store.erasable:
        refuse_surplus(store, opened, shape)
    before: list[ArrayMetadata] = []
    made: list[Layout] = []

    def change(document: ArrayMetadata) -> ArrayMetadata:
        before[:] = [document]
        return resized(document, shape, opened)

    def clear(document: ArrayMetadata) -> None:
        new = layout_of(store, array.path, document, array.options)
        made.append(new)
        if delete and any(n < m for n, m in zip(shape, before[0].shape, strict=True)):
            old = layout_of(store, array.path, before[0], array.options)
            store.erase_values(surplus_keys(store, old, new))

    return change_shape(array, change, then=clear), made[0]


def change_shape(
    array: Array,
    change: Callable[[ArrayMetadata], ArrayMetadata],
    *,
    alone: bool = True,
    then: Callable[[ArrayMetadata], None] = lambda _: None,
) -> ArrayMetadata:
    """`change_document`, for what makes an array longer or shorter: a merge of its chunks that was begun is finished
    first. alone: while nobody else appends; False where that is so already. then: what else is done meanwhile."""
    begun: ArrayMetadata | None = None

    def settled(document: ArrayMetadata) -> ArrayMetadata:
        nonlocal begun
        if MEMBER in document.extra:
            begun = document
            raise _Merging
        return change(document)

    while True:
        try:
            with alone_at_the_end(array.store, array.path) if alone else nullcontext():
                changed = change_document(array.store, array.path, ArrayMetadata, settled, array.options)
                then(changed)
                return changed
        except _Merging:
            assert begun is not None
            finish(array.store, array.chunk_store, array.path, begun, array.options)


class _Merging(Exception):
    """The document says that a merge is on."""


def _reach(covered: int | None, length: int, step: int) -> int:
    """How far the chunks of a dimension go once it is `length` long; covered: how far they go now, None: for ever."""
    if covered is None or length <= covered:
        return length
    return covered + -(-(length - covered) // step) * step


def grown(document: ArrayMetadata, layout: Layout, axis: int, length: int) -> ArrayMetadata:
    """The document with its axis as long as `length`, on the grid of `layout`; as it is where it is longer."""
    if document.shape[axis] >= length:
        return document
    shape = (*document.shape[:axis], length, *document.shape[axis + 1 :])
    return replace(document, shape=shape, chunk_grid=Extension.from_json(layout.grid.to_extension()))


def refuse_surplus(store: Store, layout: Layout, shape: tuple[int, ...]) -> None:
    """Raise UnsupportedError where chunks would have to go from a store that cannot erase, before anything changes."""
    key = next(surplus_keys(store, layout, layout.resized(shape)), None)
    if key is not None and (store.listable or store.exists(key)):
        raise UnsupportedError(
            f"{key!r} lies outside the new shape {shape}, and {store} cannot erase it; delete_outside_chunks=False "
            "keeps such chunks, and their values come back when the array grows"
        )


def ends_of(array: Array, layout: Layout) -> Ends:
    """How a write on this layout finds out whether others have made the array longer."""
    return Ends(
        partial(is_longer, array, layout),
        compares=array.chunk_store.exclusion == "versions",
        listed=not layout.grid.is_regular,
    )


def is_longer(array: Array, layout: Layout) -> bool:
    """Whether the array as it is stored now goes further than the layout, along any axis.

    So it is taken to be while a buffered writer may have stored steps past the end that its document does not tell of
    yet. Raises ConflictError where its chunks lie elsewhere by now: they were merged.
    """
    growing = is_busy_at_the_end(array.store, array.path)  # looked at first: who is done by then has told
    document = read_document(array.store, array.path, array.options)
    if not isinstance(document, ArrayMetadata) or len(document.shape) != layout.ndim:
        return False  # deleted meanwhile: nothing of others is there
    if not layout.grid.is_regular:
        grid = chunk_grid_from_extension(document.chunk_grid, document.shape, layout.path)
        if MEMBER in document.extra or not layout.grid.goes_on_as(grid):
            raise ConflictError(
                f"array {array.name!r}: its chunks were merged since it was opened; open it again to write"
            )
    return growing or any(n > m for n, m in zip(document.shape, layout.shape, strict=True))
