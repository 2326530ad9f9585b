"""Appenders in many threads, processes and handles: every row is there once, in each appender's order."""

from __future__ import annotations

import multiprocessing
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.storage import LocalStore, MemoryStore
from terrazzo.stores.contract import Cost
from tests.stores.far import FarStore

STORES: dict[str, Callable[[Path], Any]] = {
    "memory": lambda _: MemoryStore(),
    "local": lambda folder: LocalStore(folder / "a.zarr"),
    "far": lambda _: FarStore(cost=Cost(0.0005, 1e9, requests=8)),
}
LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {"chunks": (7, 2)},
    "sharded": {"chunks": (4, 2), "shards": (16, 4)},
    "listed": {"chunks": [[4], [4]]},
}


def made(store: Any, layout: str, rows: int = 0) -> terrazzo.Array:
    shape = (4, 4) if layout == "listed" else (rows, 4)
    return terrazzo.create_array(store, shape=shape, dtype="i4", fill_value=-1, **LAYOUTS[layout])


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_stale_handle_appends_behind_what_another_one_appended(
    store: str, layout: str, tmp_path: Path
) -> None:
    place = STORES[store](tmp_path)
    first = made(place, layout)
    base = len(first)
    second, third = terrazzo.open_array(place, mode="r+"), terrazzo.open_array(place, mode="r+")
    assert first.append(np.full((3, 4), 1)) == (base + 3, 4)
    assert second.append(np.full((2, 4), 2)) == (base + 5, 4)
    third.attrs["unit"] = "m"
    assert first.append(np.full((1, 4), 3)) == (base + 6, 4) == first.shape
    assert first.attrs["unit"] == "m"
    assert third.append(np.empty((0, 4), "i4")) == (base + 6, 4)
    for one in (first, third, terrazzo.open_array(place, mode="r")):
        assert one[base:, 1].tolist() == [1, 1, 1, 2, 2, 3]
        assert (one[:base] == -1).all()


def test_rows_of_another_appender_in_the_same_chunk_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one reserves and writes between the first one's reservation and its values."""
    from terrazzo.arrays import appending

    store = MemoryStore()
    first = terrazzo.create_array(store, shape=(0, 4), dtype="i4", chunks=(8, 4))
    write, done = appending._write, threading.Event()

    def later(*what: Any) -> None:
        if not done.is_set():
            done.set()
            terrazzo.open_array(store, mode="r+").append(np.full((3, 4), 2))
        write(*what)

    monkeypatch.setattr(appending, "_write", later)
    assert first.append(np.full((4, 4), 1)) == (4, 4)
    assert terrazzo.open_array(store, mode="r")[:, 0].tolist() == [1] * 4 + [2] * 3


@pytest.mark.parametrize("shared", [False, True], ids=["handles", "one handle"])
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("layout", ["plain", "sharded"])
def test_many_threads_append(store: str, layout: str, shared: bool, tmp_path: Path) -> None:
    place = STORES[store](tmp_path)
    array, errors = made(place, layout), []

    def work(number: int) -> None:
        try:
            mine = array if shared else terrazzo.open_array(place, mode="r+")
            for turn in range(6):
                mine.append(steps(number, turn))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors and not any(thread.is_alive() for thread in threads)
    holds_all_of(terrazzo.open_array(place, mode="r"), 8)
    if shared:
        holds_all_of(array, 8)


@pytest.mark.skipif(sys.platform == "win32", reason="the test needs fork")
def test_many_processes_append(tmp_path: Path) -> None:
    place = str(tmp_path / "a.zarr")
    made(place, "sharded")
    with multiprocessing.get_context("fork").Pool(3) as pool:
        pool.map_async(append_some, [(place, number) for number in range(3)], chunksize=1).get(60)
    holds_all_of(terrazzo.open_array(place, mode="r"), 3)


def append_some(what: tuple[str, int]) -> None:
    place, number = what
    array = terrazzo.open_array(place, mode="r+")
    for turn in range(6):
        array.append(steps(number, turn))


def steps(number: int, turn: int) -> Any:
    """One to three rows that tell who appended them, and when."""
    return np.full((1 + (number + turn) % 3, 4), 100 * number + turn, "i4")


def holds_all_of(array: terrazzo.Array, appenders: int) -> None:
    values = array[...]
    assert (values == values[:, :1]).all()
    found = values[:, 0]
    for number in range(appenders):
        expected = np.concatenate([steps(number, turn)[:, 0] for turn in range(6)])
        assert found[found // 100 == number].tolist() == expected.tolist()
    assert len(found) == sum(len(steps(number, turn)) for number in range(appenders) for turn in range(6))
