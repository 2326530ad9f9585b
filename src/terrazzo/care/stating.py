"""Shards that a document of the 2022 draft does not state any more: said again, when they are seen to be right.

What it does not do: guess how many chunks a shard holds. zarr-python 2.14 to 2.18 lost the statement when it resized an
array; the chunks are all there, and the shape of one tells the count to who knows how the array was made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from terrazzo.arrays.array import Array
from terrazzo.care.check import check
from terrazzo.errors import ShardError, UnsupportedError
from terrazzo.groups.opening import open_array
from terrazzo.shard import EMPTY

__all__ = ["state_shards"]

SHOWN = 3
ENTRY_NBYTES = 16


def state_shards(
    node: Any,
    chunks_per_shard: Sequence[int],
    *,
    path: str | None = None,
    verify_data: bool = True,
    storage_options: Mapping[str, Any] | None = None,
) -> Array:
    """Write into an array's document how many chunks its shards hold, in each dimension, where that was lost.

    node: the root of the hierarchy, with the array's `path` in it. verify_data: decode every chunk first, not the
    indexes alone. Raises UnsupportedError where nothing was lost, ShardError where the shards are not of that kind;
    nothing is written then.
    """
    plain = open_array(node, path=path, mode="r", storage_options=storage_options)
    if plain.metadata.dialect != "draft":
        raise UnsupportedError(
            f"{plain.name} is not of the 2022 draft, whose arrays alone can lose their shards"
        )
    if plain.shards is not None:
        raise UnsupportedError(f"{plain.name} states its shards, {plain.shards}: nothing was lost")
    array = open_array(
        node, path=path, mode="r+", chunks_per_shard=tuple(chunks_per_shard), storage_options=storage_options
    )
    _refuse_parts_of_indexes(array)
    report = check(array, verify_data=verify_data)
    if not report.ok:
        found = "; ".join(str(problem) for problem in report.problems[:SHOWN])
        raise ShardError(
            f"{array.name}: what is stored are no shards of {tuple(chunks_per_shard)} chunks, and nothing was written: "
            f"{found}"
        )
    array.update_attributes({})  # a change of the document states them
    return array


def _refuse_parts_of_indexes(array: Array) -> None:
    """The end of an index reads as an index of fewer chunks; what is before it then is an entry, and no chunk's."""
    layout, store = array.layout, array.chunk_store
    assert layout.sharding is not None
    count = layout.count(layout.grid.distinct_shapes()[0])
    nbytes = layout.sharding.index_nbytes(count)
    keys = store.list_prefix(layout.prefix) if store.listable else ()
    for key in keys:
        if layout.keys.parse(key[len(layout.prefix) :], layout.ndim) is None:
            continue
        (tail,) = store.get_partial_values([(key, (-(nbytes + ENTRY_NBYTES), None))])
        size = store.getsize(key)
        if tail is None or size is None or len(tail) < nbytes + ENTRY_NBYTES:
            continue
        place = size - len(tail)
        entries = layout.sharding.decode_index(tail[ENTRY_NBYTES:], count).tolist()
        if any(offset <= place < offset + length for offset, length in entries if offset != EMPTY):
            continue
        offset, length = np.frombuffer(tail[:ENTRY_NBYTES], "<u8").tolist()
        if offset == length == EMPTY or (length and offset + length <= place):
            raise ShardError(
                f"{array.name}: the index of {key!r} has more entries than a shard of {count} chunks, and nothing was "
                "written; the shards hold more"
            )
