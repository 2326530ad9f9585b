"""The survey: shard indexes and sizes of objects, batch by batch, into an inventory. Nothing is decoded.

What it does not do: find objects by listing; the caller says which of them to look at, by their places in the grid.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import numpy as np

from terrazzo.index import IndexCache, first_range, parse
from terrazzo.inventory.slack import zeros_at_end
from terrazzo.inventory.table import UNKNOWN, Inventory, fingerprint
from terrazzo.layout import Layout
from terrazzo.options import Options
from terrazzo.read import MAX_FAR_OBJECTS, max_objects, size_of
from terrazzo.read.locate import counts_of
from terrazzo.shard import EMPTY, dead_ranges
from terrazzo.stores.flow import Opening
from terrazzo.stores.store import ALL, NEAR, Cost, Open

__all__ = ["survey"]

Array = np.ndarray[Any, Any]
Region = tuple[tuple[int, int], ...]


def survey(
    layout: Layout,
    outers: Array | None,
    region: Region,
    options: Options,
    cache: IndexCache,
    document: int = UNKNOWN,
    slack: bool = False,
    cost: Cost = NEAR,
) -> Generator[Any, Any, Inventory]:
    """Look at the objects with these grid indices, int64 (m, ndim); None: at all that a region touches.

    region: (first, past the last) element per dimension; only chunks that lie in it, in part at least, count.
    slack: read the bytes that no chunk covers, too, to tell slack from others. cost: of a request to the store.
    """
    ndim = layout.ndim
    inner = layout.inner_shape
    edges = tuple(inner) if inner is not None else _edges(layout)
    spans = chunk_spans(edges, region)
    found: list[tuple[Array, Array, Array]] = []
    keys: list[str] = []
    sizes: list[int] = []
    dead: list[int] = []
    free: list[int] = []
    tags: list[int] = []
    plain_and_far = cost.far and layout.sharding is None
    most = MAX_FAR_OBJECTS if plain_and_far else max_objects(layout, options, cost)
    for batch in _batches(layout, outers, region, most):
        names, counts = layout.chunk_keys(batch), counts_of(layout, batch)
        remembered = [cache.get(name) for name in names]
        sources = yield Opening(
            [
                Open(
                    name,
                    None if layout.sharding is None else first_range(layout.sharding, count),
                    None if old is None else old.tag,
                )
                for name, count, old in zip(names, counts, remembered, strict=True)
            ]
        )
        try:
            for k, source in enumerate(sources):
                if source is None:
                    continue
                number = len(keys)
                keys.append(names[k])
                tags.append(fingerprint(source.tag))
                if layout.sharding is None:
                    size = source.size
                    if size is None:  # a store that tells no sizes has to give the bytes
                        (whole,) = yield Opening([Open(names[k], ALL)])
                        size = 0 if whole is None else size_of(whole)
                        if whole is not None:
                            whole.close()
                    sizes.append(size)
                    dead.append(0)
                    free.append(0)
                    chunk = batch[k : k + 1]
                    found.append((chunk, np.array([number]), np.array([[0, size]], np.uint64)))
                    continue
                index = remembered[k] if source.first is None else None
                if index is None:
                    index = parse(layout, names[k], counts[k], source, options.strict)
                    cache.put(names[k], index)
                sizes.append(index.size)
                unused = dead_ranges(index.entries, index.size, _span(layout, counts[k], index.size))
                dead.append(int(unused[:, 1].sum()))
                if slack:
                    free.append(int((yield from zeros_at_end(source, unused)).sum()))
                chunks, entries = _rows(layout, batch[k], counts[k], index.entries, spans)
                found.append((chunks, np.full(len(chunks), number, np.int64), entries))
        finally:
            for source in sources:
                if source is not None:
                    source.close()
    entries = np.concatenate([f[2] for f in found]) if found else np.zeros((0, 2), np.uint64)
    return Inventory(
        name=layout.path,
        shape=layout.shape,
        itemsize=layout.dtype.itemsize,
        box=region,
        edges=edges,
        chunks=np.concatenate([f[0] for f in found]) if found else np.zeros((0, ndim), np.int64),
        object=np.concatenate([f[1] for f in found]) if found else np.zeros(0, np.int64),
        offset=np.ascontiguousarray(entries[:, 0]),
        nbytes=np.ascontiguousarray(entries[:, 1]),
        keys=keys,
        sizes=np.array(sizes, np.int64),
        dead=np.array(dead, np.int64),
        tags=np.array(tags, np.uint64),
        document=document,
        slack=np.array(free, np.int64) if slack else None,
    )


def chunk_spans(edges: tuple[Any, ...], region: Region) -> list[tuple[int, int]]:
    """(first, past the last) chunk per dimension that a region touches."""
    spans = []
    for edge, (first, stop) in zip(edges, region, strict=True):
        if stop <= first:
            spans.append((0, 0))
        elif isinstance(edge, int):
            spans.append((first // edge, -(-stop // edge)))
        else:
            low = int(np.searchsorted(edge, first, side="right")) - 1
            spans.append((low, int(np.searchsorted(edge, stop, side="left"))))
    return spans


def outer_spans(layout: Layout, region: Region) -> list[tuple[int, int]]:
    """(first, past the last) object per dimension that a region touches."""
    return [
        (0, 0) if stop <= first else (dim.find(first)[0], dim.find(stop - 1)[0] + 1)
        for dim, (first, stop) in zip(layout.grid.dims, region, strict=True)
    ]


def _edges(layout: Layout) -> tuple[Any, ...]:
    """Extents of the grid's chunks, or their boundaries."""
    edges: list[Any] = []
    for dim, n in zip(layout.grid.dims, layout.shape, strict=True):
        if dim.uniform is not None:
            edges.append(dim.uniform)
            continue
        count = dim.count(n)
        starts = dim.start(np.arange(count, dtype=np.int64))
        edges.append(np.append(starts, dim.begin(count)))
    return tuple(edges)


def _batches(layout: Layout, outers: Array | None, region: Region, most: int) -> Iterator[Array]:
    if outers is not None:
        for start in range(0, len(outers), most):
            yield outers[start : start + most]
        return
    spans = outer_spans(layout, region)
    extents = [stop - first for first, stop in spans]
    total = int(np.prod(extents, dtype=object)) if extents else 1
    for start in range(0, total, most):
        flat = np.arange(start, min(start + most, total), dtype=np.int64)
        if not extents:
            yield np.zeros((1, 0), np.int64)
            continue
        places = np.unravel_index(flat, extents)
        yield np.stack([p + first for p, (first, _) in zip(places, spans, strict=True)], axis=1)


def _span(layout: Layout, count: tuple[int, ...], size: int) -> tuple[int, int]:
    assert layout.sharding is not None
    return layout.sharding.index_span(count, size)


def _rows(
    layout: Layout, outer: Array, count: tuple[int, ...], entries: Array, spans: list[tuple[int, int]]
) -> tuple[Array, Array]:
    """The stored chunks of one shard that lie in the region: their indices in the grid, and their entries."""
    assert layout.sharding is not None
    full = np.flatnonzero(entries[:, 0] != EMPTY)
    if not count:
        return np.zeros((len(full), 0), np.int64), entries[full]
    places = np.unravel_index(full, count)
    chunks = np.empty((len(full), len(count)), np.int64)
    inside = None
    for d, (edge, (low, high)) in enumerate(zip(layout.sharding.chunk_shape, spans, strict=True)):
        first = layout.grid.dims[d].begin(int(outer[d])) // edge
        np.add(places[d], first, out=chunks[:, d])
        if first < low or first + count[d] > high:
            here = (chunks[:, d] >= low) & (chunks[:, d] < high)
            inside = here if inside is None else inside & here
    return (chunks, entries[full]) if inside is None else (chunks[inside], entries[full[inside]])
