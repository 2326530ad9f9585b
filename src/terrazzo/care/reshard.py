"""Resharding: other shards, or none, or for the first time, made of the chunks as they are encoded.

What it does not do: decode or compress a chunk (`copy` does, into other chunks or codecs too).
Specification: sharding_indexed 1.0, "Binary shard format".

A chunk of a plain array, and an inner chunk of a sharded one, are the same bytes when they have one shape and one chain
of codecs; so shards are put together, and taken apart, by copying.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from terrazzo.arrays.array import Array
from terrazzo.care.placing import later, put_objects
from terrazzo.errors import StoreError
from terrazzo.groups.creating import from_array
from terrazzo.groups.opening import open_array
from terrazzo.groups.places import StoreLike, place_of
from terrazzo.index import IndexCache
from terrazzo.inventory import Inventory
from terrazzo.layout import Layout
from terrazzo.progress import Progress, follow
from terrazzo.read import fetch_pieces
from terrazzo.stores.flow import run
from terrazzo.stores.store import Open, Store
from terrazzo.strategy import Replace
from terrazzo.write import EncodedShard, put_encoded

__all__ = ["as_shards", "reshard"]

#: objects put in one commit
OBJECTS_AT_ONCE = 64


def reshard(
    node: Any,
    to: StoreLike,
    shards: Any,
    *,
    name: str | None = None,
    index_location: str | None = None,
    overwrite: bool = False,
    progress: Progress = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Array:
    """A copy of an array in other shards, whose chunks keep the bytes they have; answers the new array.

    node: an Array, or anything that `open_array` takes. shards: the new shape of shards, "auto" or a size as in
    `create_array`, or None for a plain array: every chunk becomes an object. to, name, overwrite: as in `create_array`.
    index_location: "start" or "end", by default as it was. progress: counts chunks.

    Memory holds the encoded chunks of one new shard. Raises ValueError for grids whose chunks differ in shape.
    """
    source = node if isinstance(node, Array) else open_array(node, mode="r", storage_options=storage_options)
    if source.layout.grid.uniform_shape is None:
        raise ValueError(
            f"array {source.name!r} has chunks of several shapes; `copy` writes them into other shards"
        )
    place = place_of(to, name)
    target = from_array(
        place,
        data=source,
        write_data=False,
        overwrite=overwrite,
        options=source.options,
        chunks=source.chunks,
        shards=shards,
        filters="keep",
        compressors="keep",
        serializer="keep",
        index_location=index_location
        or ("end" if source.layout.sharding is None else source.layout.sharding.index_location),
    )
    if not _same_chunks(source, target):
        raise ValueError(
            f"array {source.name!r}: chunks would not keep their bytes in shards of {target.shards}; `copy` decodes "
            "and encodes them"
        )
    found = source.inventory()
    with follow(progress, len(found), "resharding") as step:
        if target.layout.sharding is None:
            for n in _as_objects(source, target, found):
                step(n)
        else:
            for n in as_shards(source, target.layout, target.chunk_store, found):
                step(n)
    target.store.sync()
    return target


def _same_chunks(source: Array, target: Array) -> bool:
    """Whether an encoded chunk of one array is one of the other."""
    one, other = source.layout.chain, target.layout.chain
    return (
        source.chunks == target.chunks
        and one.spec.data_type == other.spec.data_type
        and [(codec.name, codec.configuration()) for codec in one.codecs]
        == [(codec.name, codec.configuration()) for codec in other.codecs]
    )


def _as_objects(source: Array, target: Array, found: Inventory) -> Iterator[int]:
    """Every chunk an object; answers how many were put at a time."""
    names = target.layout.chunk_keys(found.chunks)
    durability = later(target.options.durability)
    waiting: list[tuple[str, bytes]] = []
    for row, encoded in _encoded(source, found, range(len(found))):
        waiting.append((names[row], encoded))
        if len(waiting) == OBJECTS_AT_ONCE:
            put_objects(target.chunk_store, waiting, durability)
            yield len(waiting)
            waiting = []
    put_objects(target.chunk_store, waiting, durability)
    yield len(waiting)


def as_shards(source: Array, layout: Layout, store: Store, found: Inventory) -> Iterator[int]:
    """Put the chunks of an inventory together to shards of a layout, one after the other; how many chunks each has."""
    sharding = layout.sharding
    assert sharding is not None
    options = replace(source.options, durability=later(source.options.durability))
    outers = np.empty_like(found.chunks)
    for d, c in enumerate(sharding.chunk_shape):
        outers[:, d] = layout.grid.locate(d, found.chunks[:, d] * c)[0]
    sequence = np.lexsort(outers.T[::-1]) if outers.shape[1] else np.arange(len(outers))
    changes = np.flatnonzero((np.diff(outers[sequence], axis=0) != 0).any(axis=1)) + 1
    for mine in np.split(sequence, changes) if len(sequence) else []:
        outer = outers[mine[:1]]
        (count,) = layout.counts(outer)
        first = [
            dim.begin(i) // c
            for dim, i, c in zip(layout.grid.dims, outer[0].tolist(), sharding.chunk_shape, strict=True)
        ]
        inner = found.chunks[mine] - np.array(first, np.int64)
        numbers = np.ravel_multi_index(tuple(inner.T), count) if count else np.zeros(len(mine), np.int64)
        buffers = [b""] * len(mine)
        where = {int(row): k for k, row in enumerate(mine)}
        for row, encoded in _encoded(source, found, mine.tolist()):
            buffers[where[row]] = encoded
        places = np.zeros((len(mine), 3), np.int64)
        places[:, 0] = np.arange(len(mine))
        places[:, 2] = [len(buffer) for buffer in buffers]
        shard = EncodedShard(
            tuple(outer[0].tolist()), numbers, places, buffers, np.zeros(prod(count), np.bool_)
        )
        run(put_encoded(layout, [shard], options, IndexCache(0), Replace(), store.cost), store)
        yield len(mine)


def _encoded(source: Array, found: Inventory, rows: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """(row of the inventory, the chunk's bytes), object after object; each object at the version that was surveyed."""
    numbers = found.object[rows]
    for number in np.unique(numbers).tolist():
        mine = [row for row, n in zip(rows, numbers.tolist(), strict=True) if n == number]
        key = found.keys[number]
        known = source.index_cache.get(key)
        (held,) = source.chunk_store.open([Open(key, None, None if known is None else known.tag)])
        if held is None:
            raise _changed(key)
        with held:
            if known is not None and known.tag != held.tag:
                raise _changed(key)
            places = np.stack([found.offset[mine], found.nbytes[mine]], axis=1).astype(np.int64)
            pieces = np.pad(places, ((0, 0), (1, 0)))
            store = source.chunk_store
            parts = run(fetch_pieces([held], pieces, store.cost), store)
        for row, part in zip(mine, parts, strict=True):
            yield row, bytes(part)


def _changed(key: str) -> StoreError:
    return StoreError(f"{key!r} changed while it was copied; nothing of it was written, begin again")
