"""Arrays whose grids list their edges grow to what can be opened again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.errors import MetadataError
from terrazzo.storage import MemoryStore

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}


def sharded(*inner: int, before: tuple[Any, ...] = ()) -> list[Any]:
    configuration = {"chunk_shape": list(inner), "codecs": [LITTLE], "index_codecs": [LITTLE]}
    return [*before, {"name": "sharding_indexed", "configuration": configuration}]


@pytest.mark.parametrize("length", [7, 8, 9, 10, 12])
def test_shards_that_a_growing_array_gets_hold_whole_inner_chunks(length: int) -> None:
    store = MemoryStore()
    made = {"chunks": [[3, 3], [4]], "dtype": "i4", "codecs": sharded(3, 2)}
    array = terrazzo.create_array(store, shape=(6, 4), **made)
    expected = np.arange(4 * length, dtype="i4").reshape(length, 4)
    array[...] = expected[:6]
    array.append(expected[6:])
    for one in (array, terrazzo.open_array(store, mode="r")):
        np.testing.assert_array_equal(one[...], expected)
    terrazzo.open_array(store, mode="r+").resize((length + 1, 5))
    grown = terrazzo.open_array(store, mode="r")[...]
    np.testing.assert_array_equal(grown[:length, :4], expected)
    assert not grown[length:].any() and not grown[:, 4:].any()


def test_a_shape_that_could_not_be_opened_again_is_refused_before_anything_changes() -> None:
    store = MemoryStore()
    turned = {"name": "transpose", "configuration": {"order": [1, 0]}}
    codecs = sharded(2, 3, before=(turned,))  # inside, dimensions have changed places
    array = terrazzo.create_array(store, shape=(6, 4), chunks=[[3, 3], [4]], dtype="i4", codecs=codecs)
    array[...] = 1
    before = store.get("zarr.json")
    with pytest.raises(MetadataError, match="chunk_shape"):
        array.resize((7, 4))
    assert store.get("zarr.json") == before and array.shape == (6, 4)
    array.resize((9, 4))
    assert terrazzo.open_array(store, mode="r")[...].sum() == 24
