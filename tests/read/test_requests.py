"""What reads ask of a store where a request costs twenty milliseconds: requests, round trips, and bytes beyond need."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.errors import ConflictError
from terrazzo.stores.contract import Cost
from tests.stores.far import FarStore, Seen

#: inner chunks of 1 KiB, 512 of them in a shard, 8 shards
INNER, SHARD, EDGE = 8, 64, 128
INDEX = 512 * 16 + 4
VALUES = np.random.default_rng(5).integers(0, 1 << 16, (EDGE,) * 3, np.uint16)
CORNER = tuple(slice(SHARD - 4 * INNER, SHARD + 4 * INNER) for _ in range(3))


@pytest.fixture(scope="module")
def filled() -> dict[str, Any]:
    """The objects of one array, to be looked at by many stores."""
    store = FarStore()
    array = terrazzo.create_array(
        store, shape=VALUES.shape, chunks=(INNER,) * 3, shards=(SHARD,) * 3, dtype="uint16"
    )
    array[...] = VALUES
    return dict(store.objects)


@pytest.fixture
def store(filled: dict[str, Any]) -> FarStore:
    found = FarStore()
    found.objects.update(filled)
    return found


def opened(store: FarStore, *, known: bool = False, **how: Any) -> Any:
    array = terrazzo.open_array(store, mode="r", **how)
    if known:
        for corner in np.ndindex(2, 2, 2):
            array[tuple(SHARD * i for i in corner)]
    return array


def reading(store: FarStore, work: Callable[[], Any], expected: Any) -> Seen:
    with store.watched() as seen:
        found = work()
    np.testing.assert_array_equal(found, expected)
    return seen


def needed(store: FarStore, array: Any, box: tuple[slice, ...]) -> int:
    """Bytes of the encoded inner chunks that a box touches."""
    rows = array.inventory()
    inside = np.ones(len(rows), np.bool_)
    for d, part in enumerate(box):
        first, stop, _ = part.indices(EDGE)
        inside &= (rows.chunks[:, d] >= first // INNER) & (rows.chunks[:, d] <= (stop - 1) // INNER)
    return int(rows.nbytes[inside].sum())


def test_an_array_is_opened_by_one_request(store: FarStore) -> None:
    with store.watched() as seen:
        opened(store)
    assert (seen.count, seen.round_trips) == (1, 1)


def test_an_inner_chunk_of_a_new_shard_takes_two_requests_and_of_a_known_one_takes_one(
    store: FarStore,
) -> None:
    array = opened(store)
    box = (slice(8, 16), slice(0, 8), slice(16, 24))
    seen = reading(store, lambda: array[box], VALUES[box])
    assert (seen.count, seen.round_trips) == (2, 2)
    assert seen.read == INDEX + needed(store, array, box)
    array = opened(store)
    array[:8, :8, :8]
    seen = reading(store, lambda: array[box], VALUES[box])
    assert (seen.count, seen.round_trips) == (1, 1)
    assert seen.read == needed(store, array, box)


@pytest.mark.parametrize("at", [0, 16, 24, 40])
def test_a_block_of_eight_neighbours_takes_one_request_or_two(store: FarStore, at: int) -> None:
    """Even places lie together on the curve; others lie in at most eight pieces, read in one round trip."""
    array = opened(store, known=True)
    box = (slice(at, at + 16),) * 3
    seen = reading(store, lambda: array[box], VALUES[box])
    assert seen.round_trips == 1
    assert seen.count <= (2 if at % 16 == 0 else 8)
    assert seen.read <= 1.2 * needed(store, array, box)


@pytest.mark.parametrize("known", [False, True])
def test_a_whole_shard_is_one_request(store: FarStore, known: bool) -> None:
    array = opened(store, known=known)
    box = (slice(0, 64), slice(64, 128), slice(0, 64))
    seen = reading(store, lambda: array[box], VALUES[box])
    assert (seen.count, seen.round_trips) == (1, 1)
    assert seen.read <= 1.2 * needed(store, array, box)
    # and its index was remembered on the way
    seen = reading(store, lambda: array[:8, 64:72, :8], VALUES[:8, 64:72, :8])
    assert (seen.count, seen.round_trips) == (1, 1)


def test_most_of_a_shard_is_read_whole_and_much_of_it_is_not(store: FarStore) -> None:
    most = (slice(0, 64), slice(0, 64), slice(0, 56))  # seven eighths
    seen = reading(store, lambda: opened(store)[most], VALUES[most])
    assert (seen.count, seen.round_trips) == (2, 2)  # the document, the shard
    assert seen.read <= 1.2 * needed(store, opened(store), most)
    much = (slice(0, 64), slice(0, 64), slice(0, 48))  # three quarters
    array = opened(store)
    seen = reading(store, lambda: array[much], VALUES[much])
    assert seen.round_trips == 2
    assert seen.read <= 1.2 * needed(store, array, much) + INDEX


def test_a_block_over_eight_shards(store: FarStore) -> None:
    array = opened(store)
    seen = reading(store, lambda: array[CORNER], VALUES[CORNER])
    assert (seen.count, seen.round_trips) == (16, 2)
    seen = reading(store, lambda: array[CORNER], VALUES[CORNER])
    assert (seen.count, seen.round_trips) == (8, 1)
    assert seen.read == needed(store, array, CORNER)


@pytest.mark.parametrize("k", [0, 31, 100, 127])
@pytest.mark.parametrize(
    ("order", "axis", "most"), [("morton", 0, 64), ("morton", 2, 256), ("F", 2, 4), ("C", 0, 4)]
)
def test_a_plane(store: FarStore, order: Any, axis: int, most: int, k: int) -> None:
    """Four shards; along the curve their chunks lie in runs of four of one kind of plane, and alone of another."""
    if order != "morton":
        rewrite(store, VALUES, strategy=terrazzo.Replace(order=order))
    array = opened(store)
    plane = tuple(k if d == axis else slice(None) for d in range(3))
    need = needed(store, array, tuple(slice(k, k + 1) if d == axis else slice(None) for d in range(3)))
    array = opened(store)
    for known in (False, True):
        seen = reading(store, lambda: array[plane], VALUES[plane])
        assert seen.round_trips == (1 if known else 2)
        assert seen.count <= (most if known else most + 4)
        assert need <= seen.read <= 1.2 * need + (0 if known else 4 * INDEX)


def places(n: int = 50) -> list[tuple[slice, ...]]:
    chosen = np.random.default_rng(1).choice((EDGE // INNER) ** 3, n, replace=False)
    starts = INNER * np.stack(np.unravel_index(chosen, (EDGE // INNER,) * 3), axis=1)
    return [tuple(slice(s, s + INNER) for s in start) for start in starts.tolist()]


def test_fifty_inner_chunks_one_by_one(store: FarStore) -> None:
    array = opened(store)
    with store.watched() as seen:
        for box in places():
            np.testing.assert_array_equal(array[box], VALUES[box])
    assert seen.count <= 58
    assert seen.read <= 50 * 1100 + 8 * INDEX


def test_fifty_inner_chunks_at_once(store: FarStore) -> None:
    array = opened(store)
    for known in (False, True):
        with store.watched() as seen:
            found = array.read_many(places())
        for box, values in zip(places(), found, strict=True):
            np.testing.assert_array_equal(values, VALUES[box])
        assert seen.count <= (50 if known else 58)
        assert seen.round_trips == (1 if known else 2)
        assert seen.read <= 1.2 * 50 * 1100 + (0 if known else 8 * INDEX)


def test_points_of_many_shards(store: FarStore) -> None:
    array = opened(store, known=True)
    where = np.random.default_rng(2).integers(0, EDGE, (3, 300))
    seen = reading(store, lambda: array.vindex[tuple(where)], VALUES[tuple(where)])
    assert seen.round_trips == 1
    chunks = len(np.unique(where // INNER, axis=1).T)
    assert seen.count <= chunks
    assert seen.read <= 1.2 * chunks * 1100


def test_everything_is_one_request_per_shard(store: FarStore) -> None:
    array = opened(store)
    seen = reading(store, lambda: array[...], VALUES)
    assert (seen.count, seen.round_trips) == (8, 1)


def test_small_shards_are_read_with_their_index() -> None:
    store = FarStore()
    array = terrazzo.create_array(store, data=VALUES[:32, :32, :32], chunks=(8,) * 3, shards=(16,) * 3)
    array = opened(store)
    seen = reading(store, lambda: array[0, 0, :], VALUES[0, 0, :32])
    assert (seen.count, seen.round_trips) == (2, 1)
    seen = reading(store, lambda: array[1, 1, :], VALUES[1, 1, :32])
    assert (seen.count, seen.round_trips) == (2, 1)


# plain chunks


def test_plain_chunks_are_one_request_each_in_one_round_trip() -> None:
    store = FarStore()
    terrazzo.create_array(store, data=VALUES, chunks=(32,) * 3)
    array = opened(store)
    seen = reading(store, lambda: array[:64, :64, 5], VALUES[:64, :64, 5])
    assert (seen.count, seen.round_trips) == (4, 1)
    boxes = [(slice(i, i + 2), slice(0, 64), slice(64, 128)) for i in range(0, 32, 4)]
    with store.watched() as seen:
        found = array.read_many(boxes)
    assert all(np.array_equal(one, VALUES[box]) for one, box in zip(found, boxes, strict=True))
    assert (seen.count, seen.round_trips) == (4, 1)


def test_parts_of_uncompressed_plain_chunks_are_fetched_together() -> None:
    store = FarStore()
    terrazzo.create_array(store, data=VALUES, chunks=(64,) * 3, compressors=None)
    array = opened(store)
    seen = reading(store, lambda: array[40:100, 3, 5], VALUES[40:100, 3, 5])
    assert seen.round_trips <= 2


# what is not stored


def test_chunks_that_are_not_stored() -> None:
    store = FarStore()
    array = terrazzo.create_array(
        store, shape=(128, 128), chunks=(8, 8), shards=(64, 64), dtype="float64", fill_value=-1
    )
    array[:8, :8] = np.ones((8, 8))
    array = opened(store)
    expected = np.full((128, 128), -1.0)
    expected[:8, :8] = 1
    for _ in range(2):  # a remembered index that wants nothing has to be looked at again
        np.testing.assert_array_equal(array[...], expected)
        np.testing.assert_array_equal(array[8:16, 8:16], expected[8:16, 8:16])
    # another writer fills what was missing: the old index must not be believed
    terrazzo.open_array(store, mode="r+")[8:16, 8:16] = 5
    expected[8:16, 8:16] = 5
    np.testing.assert_array_equal(array[8:16, 8:16], expected[8:16, 8:16])
    np.testing.assert_array_equal(array[:16, :16], expected[:16, :16])


def test_immutable_shards_are_not_looked_at_again(store: FarStore) -> None:
    array = opened(store, known=True, config={"immutable": True})
    box = (slice(8, 16),) * 3
    assert reading(store, lambda: array[box], VALUES[box]).count == 1


# shards that are rewritten


def rewrite(store: FarStore, values: np.ndarray[Any, Any], **how: Any) -> None:
    terrazzo.open_array(store, mode="r+").using(**how)[...] = values


@pytest.mark.parametrize(
    "what", [CORNER, (slice(0, 8),) * 3, (slice(None), slice(None), 3), (slice(0, 64),) * 3]
)
def test_a_remembered_index_that_is_stale_is_noticed(store: FarStore, what: Any) -> None:
    array = opened(store, known=True)
    other = VALUES[::-1].copy()
    other[:16] = 0
    rewrite(store, other)
    np.testing.assert_array_equal(array[what], other[what])
    with store.watched() as seen:
        np.testing.assert_array_equal(array[what], other[what])
    assert seen.round_trips == 1


def test_a_shard_that_is_rewritten_between_its_index_and_its_chunks(store: FarStore) -> None:
    array = opened(store)
    other = VALUES[::-1].copy()
    pending = [True]

    def strike() -> None:
        if pending:
            pending.clear()
            rewrite(store, other)

    store.before_fetch = strike
    found = array[CORNER]
    assert np.array_equal(found, other[CORNER])
    assert not pending


def test_a_shard_that_goes_and_comes_back(store: FarStore, filled: dict[str, Any]) -> None:
    array = opened(store, known=True)
    key = "c/0/0/0"
    del store.objects[key]
    box = (slice(0, 8),) * 3
    assert (array[box] == 0).all()
    store.objects[key] = filled[key]
    np.testing.assert_array_equal(array[box], VALUES[box])


def test_a_shard_that_is_rewritten_all_the_time_is_read_whole(store: FarStore) -> None:
    """No pause between two writes is long enough for an index and a chunk; one request has both."""
    array = opened(store, known=True)
    count = [0]

    def strike() -> None:
        count[0] += 1
        key = "c/0/0/0"
        store.objects[key] = (store.objects[key][0], 10_000 + count[0])

    store.before_fetch = strike
    box = (slice(0, 8),) * 3
    np.testing.assert_array_equal(array[box], VALUES[box])
    assert count[0] <= 3


def test_a_shard_too_large_for_the_memory_that_is_rewritten_all_the_time_is_given_up(
    store: FarStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("terrazzo.read.flow.PATIENT_TRIES", 4)
    array = opened(store, known=True, config={"memory": 1 << 16})

    def strike() -> None:
        key = "c/0/0/0"
        store.objects[key] = (store.objects[key][0], store.objects[key][1] + 10_000)

    store.before_fetch = strike
    with pytest.raises(ConflictError, match="another version"):
        array[:8, :8, :8]


def test_readers_never_see_a_mixture(store: FarStore) -> None:
    """Versions of a shard hold one number everywhere; a reader sees one number per shard, whatever the writer does."""
    small = FarStore()
    array = terrazzo.create_array(small, shape=(64, 64), chunks=(8, 8), shards=(64, 64), dtype="int64")
    array[...] = 0
    over = threading.Event()
    wrong: list[Any] = []

    def write() -> None:
        mine = terrazzo.open_array(small, mode="r+")
        for number in range(1, 400):
            mine[...] = number
        over.set()

    def read() -> None:
        mine = terrazzo.open_array(small, mode="r")
        last = 0
        while not over.is_set():
            found = mine[::9, 3:60:8]
            if found.min() != found.max() or found.min() < last:
                wrong.append(found)
            last = int(found.max())

    threads = [threading.Thread(target=work) for work in (write, read, read, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# memory


def test_lots_keep_the_memory_bound(store: FarStore) -> None:
    """However much is wanted, no batch brings more than the memory of a call."""
    memory = 1 << 17
    array = opened(store, known=True, config={"memory": memory})
    for box in (CORNER, (slice(None), slice(None), slice(0, 20)), (slice(0, 64),) * 3):
        with store.watched() as seen:
            np.testing.assert_array_equal(array[box], VALUES[box])
        assert seen.read <= 1.2 * needed(store, array, box) + 8 * INDEX
        assert max(seen.read_at_once) <= memory


def test_a_shard_that_does_not_fit_is_read_by_its_chunks(store: FarStore) -> None:
    array = opened(store, config={"memory": 1 << 18})
    box = (slice(0, 64),) * 3
    seen = reading(store, lambda: array[box], VALUES[box])
    assert seen.round_trips >= 4
    assert seen.read <= 1.2 * needed(store, array, box) + INDEX


def test_a_shard_with_much_dead_space_is_not_read_whole(store: FarStore) -> None:
    key = "c/0/0/0"
    value, tag = store.objects[key]
    store.objects[key] = (value[:-INDEX] + bytes(1 << 20) + value[-INDEX:], tag)
    array = opened(store)
    box = (slice(0, 64),) * 3
    seen = reading(store, lambda: array[box], VALUES[box])
    assert seen.read < len(value) * 2.5
    with store.watched() as seen:
        np.testing.assert_array_equal(array[box], VALUES[box])
    assert seen.read <= len(value)


# cost that is not far


def test_a_near_store_without_handles_is_read_as_before(store: FarStore) -> None:
    store._cost = Cost(0.0, 1e9)
    array = opened(store)
    seen = reading(store, lambda: array[:8, :8, :8], VALUES[:8, :8, :8])
    assert (seen.count, seen.round_trips) == (2, 2)
    seen = reading(store, lambda: array[:8, :8, :8], VALUES[:8, :8, :8])
    assert (seen.count, seen.round_trips) == (2, 2)


# other ways to read


def test_reading_with_a_cache_of_chunks_looks_at_every_shard(store: FarStore) -> None:
    array = opened(store, config={"chunk_cache_nbytes": 1 << 20})
    box = (slice(0, 8),) * 3
    for _ in range(3):
        np.testing.assert_array_equal(array[box], VALUES[box])
    rewrite(store, VALUES[::-1].copy())
    np.testing.assert_array_equal(array[box], VALUES[::-1][box])


async def awaited(array: Any, box: Any) -> Any:
    return await terrazzo.AsyncArray(array).getitem(box)


def test_immutable_shards_whose_chunks_are_remembered_are_not_asked_for(store: FarStore) -> None:
    how = {"chunk_cache_nbytes": 1 << 20}
    box = (slice(0, 8), slice(4, 40), slice(0, 8))
    for immutable, requests in ((False, 1), (True, 0)):
        array = opened(store, config={**how, "immutable": immutable})
        array[box]
        for part in (box, box, (slice(3, 5), slice(4, 20), slice(7, 8))):
            with store.watched() as seen:
                np.testing.assert_array_equal(array[part], VALUES[part])
            assert seen.count == requests


def test_awaiting_costs_the_same(store: FarStore) -> None:
    import asyncio

    array = opened(store)
    seen = reading(store, lambda: asyncio.run(awaited(array, CORNER)), VALUES[CORNER])
    assert (seen.count, seen.round_trips) == (16, 2)


def test_chains_that_the_kernel_does_not_know() -> None:
    pytest.importorskip("numcodecs")
    store = FarStore()
    terrazzo.create_array(
        store,
        data=VALUES[:64, :64, :64],
        chunks=(8,) * 3,
        shards=(64,) * 3,
        compressors=[{"name": "numcodecs.bz2", "configuration": {}}],
    )
    array = opened(store)
    box = (slice(0, 32), slice(8, 24), slice(0, 8))
    seen = reading(store, lambda: array[box], VALUES[box])
    assert seen.round_trips == 2
