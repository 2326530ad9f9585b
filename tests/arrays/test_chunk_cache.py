"""The cache of decoded chunks: what it saves, and what it must never answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import terrazzo
from terrazzo.stores.local import LocalStore
from terrazzo.stores.memory import MemoryStore
from tests.stores.test_stores import SizedValues

MODEL = np.arange(64 * 64, dtype="i4").reshape(64, 64)


def cached(store: object, nbytes: int = 1 << 20) -> terrazzo.Array:
    terrazzo.create_array(store, data=MODEL, chunks=(8, 8), shards=(32, 32), overwrite=True)
    return terrazzo.open_array(store, mode="r+").using(chunk_cache_nbytes=nbytes)


def test_chunks_that_come_back_are_not_decoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    array = cached(MemoryStore())
    np.testing.assert_array_equal(array[3:20, 5:9], MODEL[3:20, 5:9])
    assert array._chunks is not None
    assert len(array._chunks) == 6
    decoded: list[int] = []
    many = terrazzo._kernel.decode_many

    def counted(*arguments: object) -> object:
        decoded.append(len(arguments[2]))  # type: ignore[arg-type]
        return many(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("terrazzo._kernel.decode_many", counted)
    np.testing.assert_array_equal(array[0:24, 0:16], MODEL[0:24, 0:16])
    assert not decoded
    np.testing.assert_array_equal(array[0:24, 0:32], MODEL[0:24, 0:32])
    assert decoded == [6]


def test_any_selection_equals_the_uncached_one() -> None:
    array = cached(MemoryStore())
    for place in (np.s_[::3, 5], np.s_[-1], np.s_[10:40, ::-1], np.s_[...], np.s_[5, 7]):
        np.testing.assert_array_equal(array[place], MODEL[place])
    picks = [3, 60, 3, 12]
    np.testing.assert_array_equal(array.oindex[picks, :], MODEL[picks, :])
    np.testing.assert_array_equal(array.vindex[picks, picks], MODEL[picks, picks])
    for got, row in zip(array.read_many([np.s_[i, 3:50] for i in range(64)]), MODEL, strict=True):
        np.testing.assert_array_equal(got, row[3:50])


def test_the_budget_holds_and_large_reads_go_past_it() -> None:
    array = cached(MemoryStore(), nbytes=5 * 8 * 8 * 4)
    assert array._chunks is not None
    for k in range(0, 64, 8):
        array[k, 0]
    assert len(array._chunks) == 5
    np.testing.assert_array_equal(array[...], MODEL)
    assert len(array._chunks) == 5


def test_a_write_by_another_is_seen(tmp_path: Path) -> None:
    for store in (MemoryStore(), LocalStore(tmp_path / "a")):
        array = cached(store)
        assert array[4, 4] == MODEL[4, 4]
        terrazzo.open_array(store, mode="r+")[4, 4] = -1
        assert array[4, 4] == -1
        array[4, 4] = -2
        assert array[4, 4] == -2


def test_an_absent_chunk_is_an_error_where_that_was_asked_for() -> None:
    store = MemoryStore()
    terrazzo.create_array(store, shape=8, dtype="i4", chunks=2, shards=4)
    array = terrazzo.open_array(store).using(chunk_cache_nbytes=1 << 20, missing="error")
    with pytest.raises(terrazzo.errors.ChunkNotFoundError, match="chunk"):
        array[0]


def test_a_shard_whose_index_stays_as_it_was() -> None:
    """Chunks of one length each: where a store has no versions, nothing tells that one of them is another now."""
    store = SizedValues()
    array = terrazzo.create_array(
        store, shape=(8,), dtype="i4", chunks=(2,), shards=(8,), compressors=["crc32c"]
    ).using(chunk_cache_nbytes=1 << 20)
    other = terrazzo.open_array(store, mode="r").using(chunk_cache_nbytes=1 << 20)
    array[...] = 1
    for value in (2, 3):
        np.testing.assert_array_equal(array[2:4], other[2:4])
        array[3] = value
        assert array[3] == other[3] == value
