"""Inventory: which chunks exist, in which object, where in it, and how large; from shard indexes, without decoding.

What it does not do: read values, or list prefixes where keys can be computed. Empty shards and absent ones count alike.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from terrazzo.index import IndexCache, first_range, parse
from terrazzo.layout import Layout
from terrazzo.options import Options
from terrazzo.read import max_objects
from terrazzo.shard import EMPTY, dead_ranges, index_range
from terrazzo.stores.flow import Opening
from terrazzo.stores.store import Open

__all__ = ["Inventory", "inventory"]

Array = np.ndarray[Any, Any]
Region = tuple[slice, ...]


@dataclass(frozen=True, eq=False)
class Inventory:
    """The chunks of a region that are stored.

    chunk_shape: of the chunks counted (inner chunks where there are shards). grid: chunks per dimension in the array.
    chunks: int64 (n, ndim), their indices in that grid. object: int64 (n,), which of `keys` holds each. offset, nbytes:
    uint64 (n,). keys, sizes: the objects that exist in the region and their bytes. dead: int64 per object, bytes that
    neither its index nor any of its chunks uses.
    """

    chunk_shape: tuple[int, ...]
    shape: tuple[int, ...]
    itemsize: int
    grid: tuple[int, ...]
    chunks: Array
    object: Array
    offset: Array
    nbytes: Array
    keys: list[str]
    sizes: Array
    dead: Array

    def __len__(self) -> int:
        return len(self.chunks)

    @cached_property
    def table(self) -> Array:
        """One row per chunk as a numpy structured array: chunk, key number, offset, nbytes."""
        kinds = [
            ("chunk", np.int64, (len(self.grid),)),
            ("object", np.int64),
            ("offset", np.uint64),
            ("nbytes", np.uint64),
        ]
        rows = np.empty(len(self), kinds)
        rows["chunk"], rows["object"] = self.chunks, self.object
        rows["offset"], rows["nbytes"] = self.offset, self.nbytes
        return rows

    @property
    def stored_nbytes(self) -> int:
        """Bytes of all chunks as they are encoded."""
        return int(self.nbytes.sum(dtype=np.uint64))

    @property
    def ratio(self) -> float:
        """Decoded bytes of the stored chunks for each encoded byte."""
        return (
            len(self) * prod(self.chunk_shape) * self.itemsize / self.stored_nbytes
            if self.stored_nbytes
            else 0.0
        )

    @property
    def bitmap(self) -> bytes:
        """One bit per chunk of the array's grid in C order, the first in the highest bit; 1 where it is stored."""
        bits = np.zeros(prod(self.grid), np.bool_)
        if len(self):
            bits[np.ravel_multi_index(tuple(self.chunks.T), self.grid) if self.grid else 0] = True
        return np.packbits(bits).tobytes()

    def boxes(self) -> Iterator[tuple[tuple[int, ...], Region]]:
        """Each stored chunk's index, and the box of the array that it covers."""
        for index in self.chunks.tolist():
            yield (
                tuple(index),
                tuple(
                    slice(i * c, min((i + 1) * c, n))
                    for i, c, n in zip(index, self.chunk_shape, self.shape, strict=True)
                ),
            )


def inventory(
    layout: Layout, region: tuple[tuple[int, int], ...], options: Options, cache: IndexCache
) -> Generator[Any, Any, Inventory]:
    """Survey the objects whose grid indices lie in `region`: (first, past the last) per dimension of the grid."""
    spans = [np.arange(first, last, dtype=np.int64) for first, last in region]
    most = max_objects(layout, options)
    total = prod(len(span) for span in spans)
    found: list[tuple[Array, Array, Array]] = []
    keys: list[str] = []
    sizes: list[int] = []
    dead: list[int] = []
    owners: list[Array] = []
    for start in range(0, total, most):
        flat = np.arange(start, min(start + most, total))
        outers = (
            np.stack(
                [
                    span[i]
                    for span, i in zip(spans, np.unravel_index(flat, [len(s) for s in spans]), strict=True)
                ],
                axis=1,
            )
            if spans
            else np.zeros((1, 0), np.int64)
        )
        names = layout.chunk_keys(outers)
        for name, chunks, entries, size, unused in (yield from _look(layout, outers, names, options, cache)):
            owners.append(np.full(len(chunks), len(keys), np.int64))
            found.append((chunks, entries[:, 0], entries[:, 1]))
            keys.append(name)
            sizes.append(size)
            dead.append(unused)
    ndim = layout.ndim
    inner = layout.inner_shape
    outer_shape = layout.grid.uniform_shape or (0,) * ndim
    edge = inner if inner is not None else outer_shape
    grid = (
        layout.grid.grid_shape(layout.shape)
        if inner is None
        else tuple(-(-n // c) for n, c in zip(layout.shape, inner, strict=True))
    )
    return Inventory(
        chunk_shape=edge,
        shape=layout.shape,
        itemsize=layout.dtype.itemsize,
        grid=grid,
        chunks=np.concatenate([f[0] for f in found]) if found else np.zeros((0, ndim), np.int64),
        object=np.concatenate(owners) if owners else np.zeros(0, np.int64),
        offset=np.concatenate([f[1] for f in found]) if found else np.zeros(0, np.uint64),
        nbytes=np.concatenate([f[2] for f in found]) if found else np.zeros(0, np.uint64),
        keys=keys,
        sizes=np.array(sizes, np.int64),
        dead=np.array(dead, np.int64),
    )


def _look(
    layout: Layout, outers: Array, names: list[str], options: Options, cache: IndexCache
) -> Generator[Any, Any, list[tuple[str, Array, Array, int, int]]]:
    """The stored chunks of one batch of objects."""
    sharding = layout.sharding
    answers: list[tuple[str, Array, Array, int, int]] = []
    counts = layout.counts(outers) if sharding is not None else [()] * len(names)
    known = [cache.get(name) for name in names]
    requests = [
        Open(
            name, None if sharding is None else first_range(sharding, count), None if old is None else old.tag
        )
        for name, count, old in zip(names, counts, known, strict=True)
    ]
    sources = yield Opening(requests)
    try:
        for k, source in enumerate(sources):
            if source is None:
                continue
            if sharding is None:
                size = source.size or 0
                entries = np.array([[0, size]], np.uint64)
                answers.append((names[k], outers[k : k + 1], entries, size, 0))
                continue
            index = known[k] if source.first is None else None
            if index is None:
                index = parse(layout, names[k], counts[k], source, options.strict)
                cache.put(names[k], index)
            full = np.flatnonzero(index.entries[:, 0] != EMPTY)
            first = [
                layout.grid.chunk_start(d, outers[k : k + 1, d])[0] // c
                for d, c in enumerate(sharding.chunk_shape)
            ]
            inner = (
                np.stack(np.unravel_index(full, counts[k]), axis=1)
                if counts[k]
                else np.zeros((len(full), 0), np.int64)
            )
            chunks = inner + np.array(first, np.int64)
            inside = (chunks * np.array(sharding.chunk_shape) < np.array(layout.shape)).all(axis=1)
            start, length = index_range(sharding.index_location, sharding.index_nbytes(counts[k]))
            span = (index.size + start, index.size) if start < 0 else (0, length or 0)
            unused = dead_ranges(index.entries, index.size, span)[:, 1].sum()
            answers.append((names[k], chunks[inside], index.entries[full[inside]], index.size, int(unused)))
    finally:
        for source in sources:
            if source is not None:
                source.close()
    return answers
