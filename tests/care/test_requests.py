"""What care and inventories ask of a store where a request costs twenty milliseconds."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo import care
from tests.stores.far import FarStore

VALUES = np.random.default_rng(7).integers(0, 1 << 16, (64, 64, 64), np.uint16)


@pytest.fixture
def store() -> FarStore:
    found = FarStore()
    terrazzo.save_array(found, VALUES, chunks=(8, 8, 8), shards=(32, 32, 32))
    return found


def chunk_requests(seen: Any) -> Counter[str]:
    return Counter(method for method, key, _ in seen.requests if "c/" in key)


def test_an_inventory_is_one_request_per_shard(store: FarStore) -> None:
    array = terrazzo.open_array(store, mode="r")
    with store.watched() as seen:
        assert len(array.inventory()) == 512
    assert chunk_requests(seen) == {"GET": 8}
    assert seen.round_trips <= 2  # a listing, the indexes


def test_a_check_is_one_request_per_shard(store: FarStore) -> None:
    with store.watched() as seen:
        assert care.check(store).ok
    assert chunk_requests(seen) == {"GET": 8}


def test_a_check_of_the_values_reads_every_shard_once_more(store: FarStore) -> None:
    with store.watched() as seen:
        assert care.check(store, verify_data=True).ok
    assert chunk_requests(seen) == {"GET": 16}


def test_resharding_reads_each_shard_in_one_piece(store: FarStore) -> None:
    for shards in ((64, 64, 64), None):
        target = FarStore()
        with store.watched() as seen:
            care.reshard(store, target, shards=shards)
        requests = chunk_requests(seen)
        assert requests["GET"] + requests["HEAD"] <= 3 * 8
        np.testing.assert_array_equal(terrazzo.open_array(target, mode="r")[...], VALUES)
