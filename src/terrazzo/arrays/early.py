"""Shards of early 2023, whose documents do not say how their indexes are encoded: one look at one of them tells.

What it does not do: change the document.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from terrazzo.arrays.remembered import layout_from
from terrazzo.codecs.early import PLAIN_INDEX, completed, lacks_index_codecs
from terrazzo.layout import Layout
from terrazzo.metadata import ArrayMetadata
from terrazzo.options import Options
from terrazzo.stores.store import Store

__all__ = ["layout_of"]

#: shards that are looked at; an empty one tells as much as a full one
LOOKS = 4


def layout_of(store: Store, path: str, metadata: ArrayMetadata, options: Options) -> Layout:
    """The layout of an array; where only the bytes can tell how shard indexes are encoded, they are asked.

    An index of 16 bytes an entry and a valid CRC-32C behind it is that of May 2023, any other one that of March. Where
    nothing is stored yet, indexes get their checksum.
    """
    layout = layout_from(metadata, path, options)
    if layout.sharding is None or not lacks_index_codecs(metadata.codecs):
        return layout
    count = layout.sharding.chunks_per_shard(layout.grid.distinct_shapes()[0])
    nbytes = layout.sharding.index_nbytes(count)
    keys = (
        (
            key
            for key in store.list_prefix(layout.prefix)
            if layout.keys.parse(key[len(layout.prefix) :], layout.ndim) is not None
        )
        if store.listable
        else iter([layout.prefix + layout.keys.key((0,) * layout.ndim)])
    )
    found = store.get_partial_values([(key, (-nbytes, None)) for key in islice(keys, LOOKS)])
    tails = [tail for tail in found if tail is not None]
    if not tails or any(_is_checked(layout, tail, count) for tail in tails):
        return layout
    codecs = completed(metadata.codecs, metadata.data_type, len(metadata.shape), PLAIN_INDEX)
    return Layout.build(replace(metadata, codecs=codecs), path, options)


def _is_checked(layout: Layout, tail: bytes, count: tuple[int, ...]) -> bool:
    assert layout.sharding is not None
    try:
        layout.sharding.decode_index(tail, count)
    except ValueError:
        return False
    return True
