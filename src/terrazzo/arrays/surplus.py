"""Chunks that are stored outside an array's shape: `resize` leaves them there where it is told to.

What it does not do: erase them.
"""

from __future__ import annotations

from collections.abc import Iterator

from terrazzo.layout import Layout
from terrazzo.stores.store import Store

__all__ = ["surplus_keys"]


def surplus_keys(store: Store, old: Layout, new: Layout) -> Iterator[str]:
    """The keys of stored chunks that lie wholly outside the new shape, one by one."""
    inside = new.grid.grid_shape(new.shape)
    if store.listable:
        start = len(old.prefix)
        for key in list(store.list_prefix(old.prefix)):
            index = old.keys.parse(key[start:], old.ndim)
            if index is not None and any(i >= n for i, n in zip(index, inside, strict=True)):
                yield key
        return
    before = old.grid.grid_shape(old.shape)
    # peel the old grid dimension by dimension: each surplus index appears once
    for axis in range(old.ndim):
        kept = [range(min(a, b)) for a, b in zip(before[:axis], inside[:axis], strict=True)]
        rest = [range(n) for n in before[axis + 1 :]]
        for index in _product([*kept, range(inside[axis], before[axis]), *rest]):
            yield old.prefix + old.keys.key(index)


def _product(ranges: list[range]) -> Iterator[tuple[int, ...]]:
    """Like itertools.product, which would first make tuples of the ranges."""
    if not ranges:
        yield ()
        return
    for head in ranges[0]:
        for tail in _product(ranges[1:]):
            yield (head, *tail)
