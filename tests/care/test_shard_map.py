"""The map of a shard shows what its index says."""

from __future__ import annotations

import numpy as np
import pytest

from terrazzo.care import shard_map
from terrazzo.errors import BoundsCheckError, ChunkNotFoundError, ShardError
from terrazzo.groups.creating import create_array
from terrazzo.stores.memory import MemoryStore


@pytest.mark.parametrize("location", ["end", "start"])
def test_a_map(location: str) -> None:
    store = MemoryStore()
    array = create_array(
        store,
        shape=(40, 40),
        dtype="i4",
        chunks=(5, 5),
        shards=(20, 20),
        compressors="crc32c",
        index_location=location,
    )
    array[20:30, :20] = 1
    found = shard_map(store)
    assert (found.key, found.index, found.chunks_per_shard, found.chunk_nbytes) == (
        "c/1/0",
        (1, 0),
        (4, 4),
        100,
    )
    assert found.size == 8 * 104 + 16 * 16 + 4
    assert "8 of 16 inner chunks, 832 B of 1.1 kB; dead space 0 B (0%)" in str(found)
    assert f"index 260 B at the {location}" in str(found)
    assert found.svg().startswith("<svg") and "compressed" in found.svg("ratio")
    assert found._repr_html_() == found.svg()
    assert shard_map(array, [1, 0]).size == found.size


def test_maps_that_cannot_be() -> None:
    store = MemoryStore()
    array = create_array(store, shape=(40,), dtype="i4", chunks=5, shards=20)
    with pytest.raises(ChunkNotFoundError, match="no shard of the array '/' is stored"):
        shard_map(array)
    with pytest.raises(ChunkNotFoundError, match=r"no shard is stored at \(1,\)"):
        shard_map(array, (1,))
    with pytest.raises(BoundsCheckError, match=r"a grid of \(2,\) shards; there is none at \(2,\)"):
        shard_map(array, (2,))
    store.set("c/0", b"short")
    with pytest.raises(ShardError, match="has 5 bytes, fewer than the 68 of its index"):
        shard_map(array)
    with pytest.raises(ValueError, match="has no shards"):
        shard_map(create_array(None, data=np.arange(3)))
