"""Locating, while other threads use the same array: its cache of indexes is shared."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.stores.memory import MemoryStore
from terrazzo.stores.wrappers import WrapperStore


class Meddling(WrapperStore):
    """Between a look at the cache and its use, somebody else changes the cache."""

    meddle: Any = None

    def open(self, requests: Any) -> Any:
        found = super().open(requests)
        if self.meddle is not None:
            self.meddle()
        return found


@pytest.mark.parametrize("what", ["drop", "newer"])
def test_what_another_thread_does_to_the_cache_does_no_harm(what: str) -> None:
    place = MemoryStore()
    terrazzo.create_array(place, shape=(8,), chunks=(2,), shards=(4,), dtype="int32")[:] = np.arange(8)
    store = Meddling(place)
    array = terrazzo.open_array(store, mode="r")
    assert array[:].tolist() == list(range(8))

    def meddle() -> None:
        store.meddle = None
        if what == "drop":
            array.index_cache.clear()
        else:
            terrazzo.open_array(place, mode="r+")[0] = 9
            assert array[0] == 9  # as a read in another thread: the cache knows the newer version now

    store.meddle = meddle
    assert array[1:].tolist() == list(range(1, 8))
    assert array[0] == (0 if what == "drop" else 9)


def test_readers_of_one_array_beside_a_writer() -> None:
    store = MemoryStore()
    writer = terrazzo.create_array(store, shape=(32, 32), chunks=(8, 8), shards=(32, 32), dtype="int32")
    reader = terrazzo.open_array(store, mode="r")
    writer[...] = 0
    mixed: list[Any] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                found = np.unique(reader[...])
                if len(found) != 1:
                    mixed.append(found)
        except BaseException as error:
            mixed.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for thread in readers:
        thread.start()
    for number in range(100):
        writer[...] = number
    done.set()
    for thread in readers:
        thread.join()
    assert mixed == []
