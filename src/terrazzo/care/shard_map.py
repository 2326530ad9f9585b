"""The map of one shard: where its inner chunks lie, what is dead or left free, and where the index is.

What it does not do: decode chunks, or judge entries: a broken shard is drawn as it is.
Specification: sharding_indexed 1.0, "Binary shard format".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from terrazzo.arrays.array import Array
from terrazzo.drawing import shard_map_png, shard_map_svg, shard_map_text
from terrazzo.errors import BoundsCheckError, ChunkNotFoundError, CodecError, ShardError
from terrazzo.groups.opening import open_array
from terrazzo.index import first_range
from terrazzo.inventory.slack import zeros_at_end
from terrazzo.shard import EMPTY, dead_ranges
from terrazzo.stores.flow import run
from terrazzo.stores.store import Open, Source

__all__ = ["ShardMap", "shard_map"]


@dataclass(frozen=True, slots=True, eq=False)
class ShardMap:
    """The bytes of one shard; `print` draws it with characters, a notebook as SVG.

    entries: uint64 (n, 2) of (offset, nbytes) as the index has them, in C order of the inner chunks.
    index_range: (start, length) of the index, `start` from the end where it is negative. slack: (start, stop) of the
    bytes that look like they were left free for chunks to grow: zeros at the end of what nothing covers.
    """

    key: str
    index: tuple[int, ...]
    entries: np.ndarray[Any, np.dtype[np.uint64]]
    size: int
    index_range: tuple[int, int | None]
    chunks_per_shard: tuple[int, ...]
    chunk_nbytes: int | None
    slack: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        return shard_map_text(*self._bytes(), slack=self.slack, title=self.key)

    def svg(self, colour: Literal["position", "ratio"] = "position") -> str:
        """A picture; chunks coloured by their place in the grid, or by how well they are compressed."""
        return shard_map_svg(
            *self._bytes(), colour=colour, chunk_nbytes=self.chunk_nbytes, slack=self.slack, title=self.key
        )

    def png(self, colour: Literal["position", "ratio"] = "position") -> bytes:
        """The same as pixels, without words: the index is red, dead space grey, slack light grey."""
        return shard_map_png(
            *self._bytes(), colour=colour, chunk_nbytes=self.chunk_nbytes, slack=self.slack, title=self.key
        )

    def _bytes(self) -> tuple[Any, ...]:
        return self.entries, self.size, self.index_range, self.chunks_per_shard

    def _repr_html_(self) -> str:
        return self.svg()


def shard_map(
    node: Any, index: Sequence[int] | None = None, *, storage_options: Mapping[str, Any] | None = None
) -> ShardMap:
    """Read the index of one shard, and answer the map of its bytes.

    node: an Array, or anything that `open_array` takes. index: of the shard in the grid of shards; by default the
    first that is stored. Raises ValueError for a plain array, ChunkNotFoundError where no shard is stored there,
    ShardError or CodecError where the index cannot be read.
    """
    array = node if isinstance(node, Array) else open_array(node, mode="r", storage_options=storage_options)
    layout = array.layout
    sharding = layout.sharding
    if sharding is None:
        raise ValueError(f"the array {array.name!r} has no shards; every chunk is an object of its own")
    place = _first_stored(array) if index is None else _checked(array, index)
    outer = np.array([place], np.int64).reshape(1, array.ndim)
    (key,), (count,) = layout.chunk_keys(outer), layout.counts(outer)
    asked = first_range(sharding, count)
    (source,) = array.chunk_store.open([Open(key, asked)])
    if source is None:
        raise ChunkNotFoundError(
            f"no shard is stored at {place} of the array {array.name!r}: it is all fill value"
        )
    with source:
        first = source.first
        size = source.size if source.size is not None else array.chunk_store.getsize(key) or 0
        needed = sharding.index_nbytes(count)
        if first is None or memoryview(first).nbytes != needed:
            raise ShardError(
                f"shard {key!r} has {size:,} bytes, fewer than the {needed:,} of its index: it was cut short"
            )
        try:
            entries = sharding.decode_index(first, count)
        except (CodecError, ShardError) as error:
            raise type(error)(f"shard {key!r}: the index cannot be read: {error}") from error
        slack = _slack(array, source, entries, size, sharding.index_span(count, size))
    return ShardMap(key, place, entries, size, asked, count, layout.chain.spec.nbytes, slack)


def _slack(
    array: Array, source: Source, entries: Any, size: int, index: tuple[int, int]
) -> tuple[tuple[int, int], ...]:
    """(start, stop) of what looks like slack; nothing where entries are wrong."""
    stored = entries[entries[:, 0] != EMPTY]
    if ((stored > size) | (stored[:, :1] + stored[:, 1:] > size)).any():
        return ()
    unused = dead_ranges(entries, size, index)
    zeros = run(zeros_at_end(source, unused), array.chunk_store)
    stops = unused.sum(axis=1)
    return tuple((int(stop - n), int(stop)) for stop, n in zip(stops, zeros, strict=True) if n)


def _checked(array: Array, index: Sequence[int]) -> tuple[int, ...]:
    grid = array.shard_grid_shape
    place = tuple(int(i) for i in index)
    if len(place) != len(grid) or any(not 0 <= i < n for i, n in zip(place, grid, strict=True)):
        raise BoundsCheckError(
            f"the array {array.name!r} has a grid of {grid} shards; there is none at {place}"
        )
    return place


def _first_stored(array: Array) -> tuple[int, ...]:
    layout, grid = array.layout, array.shard_grid_shape
    if not array.chunk_store.listable:
        return (0,) * array.ndim
    stored = (
        layout.keys.parse(key.removeprefix(layout.prefix), array.ndim)
        for key in array.chunk_store.list_prefix(layout.prefix)
    )
    inside = [p for p in stored if p is not None and all(i < n for i, n in zip(p, grid, strict=True))]
    if not inside:
        raise ChunkNotFoundError(f"no shard of the array {array.name!r} is stored: it is all fill value")
    return min(inside)
