"""What writes ask of a store where a request costs twenty milliseconds, and that no writer loses an update."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.errors import ConflictError
from tests.stores.far import FarStore, Seen

SHAPE = (64, 64)
VALUES = np.random.default_rng(3).integers(1, 1 << 30, SHAPE, np.int64)


def made(store: FarStore, *, shards: Any = (32, 32), filled: bool = True, **how: Any) -> Any:
    array = terrazzo.create_array(store, shape=SHAPE, chunks=(8, 8), shards=shards, dtype="int64", **how)
    if filled:
        array[...] = VALUES
    return terrazzo.open_array(store, mode="r+")


def asked(seen: Seen) -> tuple[dict[str, int], int]:
    methods = [method for method, _, _ in seen.requests]
    return {method: methods.count(method) for method in sorted(set(methods))}, seen.round_trips


@pytest.fixture
def store() -> FarStore:
    return FarStore()


def test_a_shard_that_is_replaced_whole_is_one_put(store: FarStore) -> None:
    array = made(store)
    with store.watched() as seen:
        array[:32, :32] = 5
    assert asked(seen) == ({"PUT": 1}, 1)
    with store.watched() as seen:
        array[...] = VALUES
    assert asked(seen) == ({"PUT": 4}, 1)


def test_a_shard_that_is_changed_in_part_is_one_get_and_one_put(store: FarStore) -> None:
    array = made(store)
    with store.watched() as seen:
        array[3:5, 3:5] = 7
    assert asked(seen) == ({"GET": 1, "PUT": 1}, 2)
    expected = VALUES.copy()
    expected[3:5, 3:5] = 7
    np.testing.assert_array_equal(terrazzo.open_array(store, mode="r")[...], expected)


def test_parts_of_four_shards_are_two_round_trips(store: FarStore) -> None:
    array = made(store)
    with store.watched() as seen:
        array[30:34, 30:34] = 7
    assert asked(seen) == ({"GET": 4, "PUT": 4}, 2)


def test_whole_and_changed_shards_go_together(store: FarStore) -> None:
    array = made(store)
    with store.watched() as seen:
        array[:, :40] = 7
    assert asked(seen) == ({"GET": 2, "PUT": 4}, 2)


def test_a_shard_that_is_not_there_is_created(store: FarStore) -> None:
    array = made(store, filled=False)
    with store.watched() as seen:
        array[0, 0] = 7
    assert asked(seen) == ({"GET": 1, "PUT": 1}, 2)


@pytest.mark.parametrize("shards", [(32, 32), None])
def test_what_was_written_is_read_without_a_look(store: FarStore, shards: Any) -> None:
    array = made(store, shards=shards)
    for box in ((slice(0, 8),) * 2, (slice(16, 24),) * 2):
        array[box] = 9
        with store.watched() as seen:
            assert (array[box] == 9).all()
        assert asked(seen) == ({"GET": 1}, 1)
    array[...] = VALUES
    with store.watched() as seen:
        assert (array[:8, :8] == VALUES[:8, :8]).all()
    assert asked(seen) == ({"GET": 1}, 1)


def test_plain_chunks(store: FarStore) -> None:
    array = made(store, shards=None)
    with store.watched() as seen:
        array[:16, :16] = 5
    assert asked(seen) == ({"PUT": 4}, 1)
    with store.watched() as seen:
        array[4:12, 4:12] = 6
    assert asked(seen) == ({"GET": 4, "PUT": 4}, 2)
    expected = VALUES.copy()
    expected[:16, :16] = 5
    expected[4:12, 4:12] = 6
    np.testing.assert_array_equal(terrazzo.open_array(store, mode="r")[...], expected)


@pytest.mark.parametrize("how", [{}, {"index_location": "start"}])
def test_a_shard_that_becomes_empty_stays_as_an_empty_index(store: FarStore, how: Any) -> None:
    """To erase it could take along what another writer stores at the same time."""
    array = made(store, **how)
    array[:32, :16] = 0
    with store.watched() as seen:
        array[:32, 16:32] = 0
    assert seen.of("PUT") == 1 and not seen.of("DELETE")
    assert len(store.objects["c/0/0"][0]) == 16 * 16 + 4
    expected = VALUES.copy()
    expected[:32, :32] = 0
    for each in (array, terrazzo.open_array(store, mode="r")):
        np.testing.assert_array_equal(each[...], expected)
    assert len(array.inventory()) == 48
    array[0, 0] = 1
    assert array[0, 0] == 1 and array[0, 1] == 0
    # replaced whole by nothing, there is nothing of another writer to lose
    with store.watched() as seen:
        array[:32, :32] = 0
    assert asked(seen) == ({"DELETE": 1}, 1)


def test_a_plain_chunk_that_becomes_empty_is_a_chunk_of_the_fill_value(store: FarStore) -> None:
    array = made(store, shards=None, fill_value=-1)
    array[:8, :4] = -1
    with store.watched() as seen:
        array[:8, 4:8] = -1
    assert asked(seen) == ({"GET": 1, "PUT": 1}, 2)
    assert (terrazzo.open_array(store, mode="r")[:8, :8] == -1).all()
    with store.watched() as seen:
        array[8:16, 8:16] = -1
    assert asked(seen) == ({"DELETE": 1}, 1)


@pytest.mark.parametrize("shards", [(32, 32), None])
def test_nothing_written_over_nothing_is_nothing(store: FarStore, shards: Any) -> None:
    array = made(store, shards=shards, filled=False)
    with store.watched() as seen:
        array[:4, :4] = 0
    assert asked(seen) == ({"GET": 1}, 1)


def test_put_shard_is_one_put(store: FarStore) -> None:
    array = made(store)
    with store.watched() as seen:
        array.put_shard((0, 1), {(0, 0): np.full((8, 8), 3)})
    assert asked(seen) == ({"PUT": 1}, 1)
    with store.watched() as seen:
        assert (array[:8, 32:40] == 3).all()
    assert asked(seen) == ({"GET": 1}, 1)


def test_a_writer_of_rows_puts_each_shard_once(store: FarStore) -> None:
    array = made(store, filled=False)
    with store.watched() as seen:
        with array.writer(axis=0) as writer:
            for i, row in enumerate(VALUES):
                writer.write((i, slice(None)), row)
    assert (
        seen.of("PUT") - sum(key == "zarr.json" for method, key, _ in seen.requests if method == "PUT") == 4
    )
    np.testing.assert_array_equal(terrazzo.open_array(store, mode="r")[...], VALUES)


@pytest.mark.parametrize(
    "strategy", [terrazzo.InPlace(torn_reads=True), terrazzo.Append(), terrazzo.Replace()]
)
def test_every_strategy_replaces_here(store: FarStore, strategy: Any) -> None:
    made(store, index_location="start", compressors=None)
    array = terrazzo.open_array(store, mode="r+").using(strategy=strategy)
    with store.watched() as seen:
        array[:8, :8] = 3
    assert asked(seen) == ({"GET": 1, "PUT": 1}, 2)
    assert (array[:8, :8] == 3).all() and (array[8:, 8:] == VALUES[8:, 8:]).all()


# other writers


def test_a_faster_writer_is_merged_with(store: FarStore) -> None:
    array = made(store)
    other = terrazzo.open_array(store, mode="r+")
    pending = [True]

    def strike() -> None:
        if pending:
            pending.clear()
            other[:4, :4] = 1

    store.before_commit = strike
    array[4:8, 4:8] = 2
    assert not pending
    found = terrazzo.open_array(store, mode="r")[...]
    assert (found[:4, :4] == 1).all() and (found[4:8, 4:8] == 2).all()
    expected = VALUES.copy()
    expected[:4, :4], expected[4:8, 4:8] = 1, 2
    np.testing.assert_array_equal(found, expected)


def test_a_chunk_that_another_writer_adds_while_the_shard_is_emptied_stays(store: FarStore) -> None:
    array = made(store, filled=False)
    array[:8, :8] = 4
    other = terrazzo.open_array(store, mode="r+")
    pending = [True]

    def strike() -> None:
        if pending:
            pending.clear()
            other[24:32, 24:32] = 6

    store.before_commit = strike
    array[:8, :8] = 0
    assert (terrazzo.open_array(store, mode="r")[24:32, 24:32] == 6).all()
    assert (array[:8, :8] == 0).all()


def test_a_writer_that_is_always_late_gives_up(store: FarStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("terrazzo.write.flow.TRIES", 3)
    array = made(store)

    def strike() -> None:
        value, tag = store.objects["c/0/0"]
        store.objects["c/0/0"] = (value, tag + 10_000)

    store.before_commit = strike
    with pytest.raises(ConflictError):
        array[0, 0] = 1


def test_many_writers_of_one_shard_lose_nothing(store: FarStore) -> None:
    made(store, filled=False)
    n, each = 6, 12
    errors: list[BaseException] = []

    def add(number: int) -> None:
        try:
            array = terrazzo.open_array(store, mode="r+")
            for step in range(each):
                array[number, step] = 100 * number + step + 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    found = terrazzo.open_array(store, mode="r")[:n, :each]
    np.testing.assert_array_equal(found, 100 * np.arange(n)[:, None] + np.arange(each) + 1)
