"""The same table over a real protocol: requests as a proxy in front of moto's S3 writes them down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

pytest.importorskip("obstore")
pytest.importorskip("moto")

import terrazzo
from terrazzo.storage import traffic
from terrazzo.stores.contract import Cost
from terrazzo.stores.open import open_store
from tests.remote import servers
from tests.remote.proxy import FaultProxy

INNER, SHARD, EDGE = 8, 64, 128
INDEX = 512 * 16 + 4
VALUES = np.random.default_rng(5).integers(0, 1 << 16, (EDGE,) * 3, np.uint16)
CORNER = (slice(32, 96),) * 3


@dataclass
class Bucket:
    """A bucket behind a proxy."""

    server: servers.Server
    proxy: FaultProxy
    path: str = "table"
    options: dict[str, Any] = field(default_factory=dict)

    def store(self) -> Any:
        options = self.server.options(self.proxy.port)
        address = self.server.address(self.path)
        return open_store(address, cost=Cost(0.02, 1e8, requests=64), **options)[0]


@dataclass
class Asked:
    """What reached the bucket, and how often the flow waited."""

    methods: Counter[str]
    nbytes: int
    round_trips: int

    @property
    def count(self) -> int:
        return sum(self.methods.values())


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with servers.start("moto") as server, FaultProxy(server.port) as proxy:
        found = Bucket(server, proxy)
        array = terrazzo.create_array(
            found.store(), shape=VALUES.shape, chunks=(INNER,) * 3, shards=(SHARD,) * 3, dtype="uint16"
        )
        array[...] = VALUES
        yield found


def asked(bucket: Bucket, work: Callable[[], Any]) -> Asked:
    """The requests of `work`, which are those that its store believes to send."""
    start, sent = len(bucket.proxy.told), bucket.proxy.sent_nbytes
    with traffic() as seen:
        work()
    told = bucket.proxy.told[start:]
    assert all(status in (200, 206, 204) for _, _, _, status in told)
    assert seen.requests == len(told)
    return Asked(
        Counter(method for _, method, _, _ in told), bucket.proxy.sent_nbytes - sent, seen.round_trips
    )


def opened(bucket: Bucket, known: bool = False) -> Any:
    array = terrazzo.open_array(bucket.store(), mode="r")
    if known:
        array.vindex[tuple(SHARD * np.indices((2, 2, 2)).reshape(3, -1))]
    return array


def reading(bucket: Bucket, array: Any, box: Any) -> Asked:
    found: list[Any] = []
    seen = asked(bucket, lambda: found.append(array[box]))
    np.testing.assert_array_equal(found[0], VALUES[box])
    return seen


def test_open(bucket: Bucket) -> None:
    store = bucket.store()
    assert asked(bucket, lambda: terrazzo.open_array(store, mode="r")).count == 1


def test_an_inner_chunk_of_a_new_shard_and_of_a_known_one(bucket: Bucket) -> None:
    array = opened(bucket)
    seen = reading(bucket, array, (slice(8, 16),) * 3)
    assert (seen.count, seen.round_trips) == (2, 2)
    assert seen.nbytes <= INDEX + 1100
    seen = reading(bucket, array, (slice(16, 24), slice(0, 8), slice(8, 16)))
    assert (seen.count, seen.round_trips) == (1, 1)
    assert seen.nbytes <= 1100


def test_a_block_of_eight(bucket: Bucket) -> None:
    seen = reading(bucket, opened(bucket, known=True), (slice(16, 32),) * 3)
    assert (seen.count, seen.round_trips) == (1, 1)
    assert seen.nbytes <= 8 * 1100


@pytest.mark.parametrize("known", [False, True])
def test_a_whole_shard(bucket: Bucket, known: bool) -> None:
    seen = reading(bucket, opened(bucket, known), (slice(64, 128), slice(0, 64), slice(0, 64)))
    assert (seen.count, seen.round_trips) == (1, 1)


def test_a_block_over_eight_shards(bucket: Bucket) -> None:
    array = opened(bucket)
    seen = reading(bucket, array, CORNER)
    assert (seen.count, seen.round_trips) == (16, 2)
    seen = reading(bucket, array, CORNER)
    assert (seen.count, seen.round_trips) == (8, 1)
    assert seen.nbytes <= 512 * 1100


@pytest.mark.parametrize(("plane", "most"), [((40, slice(None), slice(None)), 68), ((..., 40), 260)])
def test_a_plane(bucket: Bucket, plane: Any, most: int) -> None:
    array = opened(bucket)
    seen = reading(bucket, array, plane)
    assert seen.count <= most and seen.round_trips == 2
    assert seen.nbytes <= 1.2 * 256 * 1100 + 4 * INDEX


def test_fifty_inner_chunks(bucket: Bucket) -> None:
    chosen = np.random.default_rng(1).choice(4096, 50, replace=False)
    starts = INNER * np.stack(np.unravel_index(chosen, (16, 16, 16)), axis=1)
    boxes = [tuple(slice(s, s + INNER) for s in start) for start in starts.tolist()]
    array = opened(bucket)

    def one_by_one() -> None:
        for box in boxes:
            np.testing.assert_array_equal(array[box], VALUES[box])

    assert asked(bucket, one_by_one).count <= 58

    def at_once() -> None:
        for found, box in zip(array.read_many(boxes), boxes, strict=True):
            np.testing.assert_array_equal(found, VALUES[box])

    seen = asked(bucket, at_once)
    assert seen.count <= 50 and seen.round_trips == 1
    assert seen.nbytes <= 1.2 * 50 * 1100


def test_writes(bucket: Bucket) -> None:
    below = Bucket(bucket.server, bucket.proxy, "written")
    array = terrazzo.create_array(
        below.store(), shape=(64, 64), chunks=(8, 8), shards=(32, 32), dtype="int64"
    )
    array[0, 0] = 1  # the service is asked once whether it can be trusted
    assert asked(below, lambda: array.__setitem__(..., 5)).methods == {"PUT": 4}
    seen = asked(below, lambda: array.__setitem__((slice(30, 34),) * 2, 6))
    assert (seen.methods, seen.round_trips) == ({"GET": 4, "PUT": 4}, 2)
    seen = asked(below, lambda: array[28:36, 28:36])
    assert (seen.methods, seen.round_trips) == ({"GET": 4}, 1)
    other = terrazzo.open_array(below.store(), mode="r+")
    other[:8, :8] = 7
    expected = np.full((64, 64), 5)
    expected[30:34, 30:34], expected[:8, :8] = 6, 7
    np.testing.assert_array_equal(array[...], expected)
    array[:32, :32] = 0
    array[32:, :24] = 0
    seen = asked(below, lambda: array.__setitem__((slice(32, 64), slice(24, 32)), 0))
    assert seen.methods == {"GET": 1, "PUT": 1}  # an empty index: nothing of another writer is taken along
    expected[:32, :32] = 0
    expected[32:, :32] = 0
    np.testing.assert_array_equal(terrazzo.open_array(below.store(), mode="r")[...], expected)


def test_a_shard_rewritten_under_a_reader(bucket: Bucket) -> None:
    below = Bucket(bucket.server, bucket.proxy, "rewritten")
    terrazzo.save_array(below.store(), VALUES[:64, :64, :64], chunks=(8,) * 3, shards=(64,) * 3)
    reader = terrazzo.open_array(below.store(), mode="r")
    reader[:8, :8, :8]
    terrazzo.open_array(below.store(), mode="r+")[...] = VALUES[64:, 64:, 64:]
    np.testing.assert_array_equal(reader[8:16, :8, :8], VALUES[72:80, 64:72, 64:72])
