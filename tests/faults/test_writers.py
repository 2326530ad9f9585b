"""Many writers of one shard, threads and processes, under every strategy: no update is lost."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.stores.local import LocalStore
from terrazzo.stores.memory import MemoryStore
from tests.faults.ways import CHUNK, SHAPE, WAYS, Way, left_overs, made, noise, opened

N = 4  # inner chunks of the shard, and so writers with one of their own


def place_of(number: int) -> tuple[slice, slice]:
    i, j = divmod(number, SHAPE[1] // CHUNK[1])
    return slice(i * CHUNK[0], (i + 1) * CHUNK[0]), slice(j * CHUNK[1], (j + 1) * CHUNK[1])


def in_processes(works: list[Any]) -> None:
    children = []
    for work in works:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                work()
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(children)


def in_threads(works: list[Any]) -> None:
    failed: list[BaseException] = []

    def guarded(work: Any) -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


@pytest.mark.parametrize("together", [in_threads, in_processes])
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_writers_of_different_chunks_lose_nothing(root: Path, way: Way, together: Any) -> None:
    rounds = 12
    made(root, way)[0, 0] = 1

    def work(number: int) -> None:
        array = opened(root, way)
        for turn in range(rounds):
            # lengths that grow and shrink: chunks outgrow their slots and move
            array[place_of(number)] = noise(number * 1000 + turn, CHUNK, bits=2 + 5 * (turn % 6))

    together([lambda number=number: work(number) for number in range(N)])
    found = opened(root, way)[...]
    for number in range(N):
        np.testing.assert_array_equal(
            found[place_of(number)], noise(number * 1000 + rounds - 1, CHUNK, bits=2 + 5 * ((rounds - 1) % 6))
        )
    opened(root, way)[0, 0] = 1
    assert left_overs(root) == []


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_increments_of_one_chunk_are_not_lost_and_whole(root: Path, way: Way) -> None:
    """Writers of the same chunk: each writes elements of its own, and all of them the rest; the last one wins whole."""
    rounds = 12
    made(root, way)[0, 0] = 1

    def work(number: int) -> None:
        array = opened(root, way)
        for turn in range(1, rounds + 1):
            array[number, : CHUNK[1]] = turn  # a row of its own: laid over what the others left
            array[8 : CHUNK[0], : CHUNK[1]] = number * 100 + turn

    in_processes([lambda number=number: work(number) for number in range(N)])
    found = opened(root, way)[: CHUNK[0], : CHUNK[1]]
    assert (found[:N] == rounds).all()
    assert len(np.unique(found[8:])) == 1
    assert found[8, 0] % 100 == rounds


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_threads_in_memory_lose_nothing(way: Way) -> None:
    array = terrazzo.create_array(
        MemoryStore(),
        shape=SHAPE,
        chunks=CHUNK,
        shards=SHAPE,
        dtype="i4",
        compressors=list(way.compressors),
        index_location=way.index_location,
        strategy=way.strategy,
    )

    def work(number: int) -> None:
        for turn in range(20):
            array[place_of(number)] = number * 100 + turn

    in_threads([lambda number=number: work(number) for number in range(N)])
    assert [int(array[place_of(number)].max()) for number in range(N)] == [
        number * 100 + 19 for number in range(N)
    ]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_dask_stores_blocks_into_shards_without_a_lock(root: Path, way: Way) -> None:
    """Blocks of 25 cubed into shards of 50 cubed: 0 of 10^6 cells wrong."""
    dask_array = pytest.importorskip("dask.array")
    value = np.arange(100**3, dtype="i4").reshape(100, 100, 100)
    array = made(root, way, shape=value.shape, chunks=(25, 25, 25), shards=(50, 50, 50))
    blocks = dask_array.from_array(value, chunks=(25, 25, 25))
    dask_array.store(blocks, array, lock=False, scheduler="threads", num_workers=4)
    assert np.count_nonzero(opened(root, way)[...] != value) == 0
    assert left_overs(root) == []


def test_dask_workers_of_other_processes(root: Path) -> None:
    dask_array = pytest.importorskip("dask.array")
    value = np.arange(50**3, dtype="i4").reshape(50, 50, 50)
    array = made(root, WAYS[0], shape=value.shape, chunks=(25, 25, 25), shards=(50, 50, 50))
    blocks = dask_array.from_array(value, chunks=(25, 25, 25))
    dask_array.store(blocks, array, lock=False, scheduler="processes", num_workers=2)
    assert np.count_nonzero(opened(root, WAYS[0])[...] != value) == 0


def test_several_shards_held_together_never_deadlock(root: Path) -> None:
    """Writers of two shards each, in both orders, and of all of them."""
    way = WAYS[0]
    array = made(root, way, shape=(SHAPE[0], SHAPE[1] * 3))
    width = SHAPE[1]

    def work(first: int, second: int) -> None:
        mine = opened(root, way)
        for turn in range(10):
            mine.oindex[:, [first * width, second * width]] = turn

    in_processes([lambda a=a, b=b: work(a, b) for a, b in [(0, 1), (1, 2), (2, 0), (1, 0)]])
    assert (array[:, ::width] == 9).all()


def test_a_store_in_two_places_is_one(root: Path) -> None:
    """Two stores over the same folder exclude each other, also where one came by another path."""
    way = WAYS[0]
    made(root / "a", way)
    (root / "b").symlink_to(root / "a")
    stores = [LocalStore(root / "a"), LocalStore(root / "b")]
    with stores[0].hold("c/0/0"):
        with pytest.raises(terrazzo.errors.HeldError):
            stores[1].hold("c/0/0", timeout=0)


def test_memory_does_not_travel() -> None:
    """A copy in another process would be written to in vain."""
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(MemoryStore())


@pytest.mark.filterwarnings("ignore")
def test_workers_of_distributed(root: Path) -> None:
    distributed = pytest.importorskip("distributed")
    dask_array = pytest.importorskip("dask.array")
    value = np.arange(100**3, dtype="i4").reshape(100, 100, 100)
    way = WAYS[0]
    array = made(root, way, shape=value.shape, chunks=(25, 25, 25), shards=(50, 50, 50))
    blocks = dask_array.from_array(value, chunks=(25, 25, 25))
    with distributed.Client(n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None):
        dask_array.store(blocks, array, lock=False)
    assert np.count_nonzero(opened(root, way)[...] != value) == 0
