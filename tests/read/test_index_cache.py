"""The cache of shard indexes: what it saves, that it never answers for another version, and its budget."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import terrazzo
from terrazzo import index as indexes
from terrazzo.index import IndexCache, ShardIndex
from terrazzo.stores.local import LocalStore
from terrazzo.stores.memory import MemoryStore
from terrazzo.stores.watching import CountingStore

MODEL = np.arange(32 * 32, dtype="i4").reshape(32, 32)
INDEX_NBYTES = 16 * 16 + 4


def test_a_shard_that_another_process_replaced_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a"
    terrazzo.create_array(path, data=MODEL, chunks=(4, 4), shards=(16, 16))
    array = terrazzo.open_array(path)
    cached = array.using(chunk_cache_nbytes=1 << 20)
    selections = [(5, 5), np.s_[3:9, 3:9], np.s_[:, 7], np.s_[...]]
    for turn in range(3):
        for found in (array, cached):
            for selection in selections:
                np.testing.assert_array_equal(found[selection], MODEL[selection] + turn)
            np.testing.assert_array_equal(found.vindex[[1, 9], [2, 30]], MODEL[[1, 9], [2, 30]] + turn)
            np.testing.assert_array_equal(found.read_many([np.s_[4:8, 4:8]])[0], MODEL[4:8, 4:8] + turn)
        code = f"import terrazzo; a = terrazzo.open_array({str(path)!r}, mode='r+'); a[...] = a[...] + 1"
        subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_an_index_is_looked_at_again_only_where_shards_may_change() -> None:
    store = CountingStore(MemoryStore())
    terrazzo.create_array(store, data=MODEL, chunks=(4, 4), shards=(16, 16), compressors=None)
    array = terrazzo.open_array(store)
    trusting = array.using(immutable=True)
    for found in (array, trusting):
        assert found[0, 0] == MODEL[0, 0]
    writer = terrazzo.open_array(store, mode="r+")
    writer[:16, :16] = MODEL[:16, :16] + 1  # of one size, so that the old index fits
    store.reset()
    assert trusting[0, 0] == MODEL[0, 0] + 1
    trusted = store.counts.read_nbytes
    store.reset()
    assert array[0, 0] == MODEL[0, 0] + 1
    assert store.counts.read_nbytes == trusted + INDEX_NBYTES
    store.reset()
    assert array[0, 0] == MODEL[0, 0] + 1
    assert store.counts.read_nbytes == trusted


def descriptors() -> int:
    return len(os.listdir("/dev/fd"))


def test_shards_that_never_change_stay_open(tmp_path: Path) -> None:
    store = CountingStore(LocalStore(tmp_path))
    terrazzo.create_array(store, data=MODEL, chunks=(4, 4), shards=(16, 16))
    before = descriptors()
    array = terrazzo.open_array(store, mode="r+").using(immutable=True, durability="none")
    array[0, 0], array[1, 1]
    store.reset()
    for place in (np.s_[2, 3], np.s_[4:8, :4]):
        np.testing.assert_array_equal(array[place], MODEL[place])
    assert store.counts.requests == {}
    np.testing.assert_array_equal(array.read_many([np.s_[0, 1], np.s_[5, 6]]), [MODEL[0, 1], MODEL[5, 6]])
    assert store.counts.requests == {}
    array[0, 0] = 7  # what this array changes itself, it looks at again
    assert (array[0, 0], array[1, 1]) == (7, MODEL[1, 1])
    plain = terrazzo.open_array(tmp_path, mode="r").using(immutable=True)
    assert [plain[0, k] for k in range(4)] == [7, 1, 2, 3]
    with terrazzo.open_array(tmp_path, mode="r").using(immutable=True) as closed:
        now = descriptors()
        assert [closed[0, k] for k in range(3)] == [7, 1, 2]
        assert descriptors() == now + 1
    assert descriptors() == now
    again = pickle.loads(pickle.dumps(plain))
    assert [again[0, k] for k in range(4)] == [7, 1, 2, 3]
    del again, plain
    array.index_cache.clear()
    array.chunk_store.close()
    gc.collect()
    assert descriptors() == before


def test_few_shards_stay_open_whatever_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "MOST_KEPT", 2)
    terrazzo.create_array(LocalStore(tmp_path), data=MODEL, chunks=(4, 4), shards=(8, 8))
    before = descriptors()
    arrays = [terrazzo.open_array(LocalStore(tmp_path), mode="r").using(immutable=True) for _ in range(3)]
    for _ in range(2):
        for array in arrays:
            for place in (np.s_[0, 0], np.s_[1, 9], np.s_[9, 1], np.s_[6:10, 6:10]):
                for _ in range(2):
                    np.testing.assert_array_equal(array[place], MODEL[place])
    assert descriptors() <= before + 2
    del array, arrays
    gc.collect()
    assert descriptors() == before


def test_indexes_stay_within_their_budget(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    terrazzo.create_array(store, data=MODEL, chunks=(1, 1), shards=(8, 8))
    one = 8 * 8 * 16
    array = terrazzo.open_array(store).using(index_cache_nbytes=3 * one)
    np.testing.assert_array_equal(array[...], MODEL)
    known = [
        f"c/{i}/{j}" for i in range(4) for j in range(4) if array.index_cache.get(f"c/{i}/{j}") is not None
    ]
    assert known == ["c/3/1", "c/3/2", "c/3/3"]
    cache = IndexCache(2 * one)
    small, large = (ShardIndex(np.zeros((n, 2), np.uint64), 0, n) for n in (64, 1024))
    for key, index in (("a", small), ("b", small), ("a", small), ("large", large), ("c", small)):
        cache.put(key, index)
    assert [key for key in ("a", "b", "large", "c") if cache.get(key) is not None] == ["a", "c"]
