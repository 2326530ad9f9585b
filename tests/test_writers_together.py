"""Several buffered writers, and appenders, at one array: every step is there once, in each one's order."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import terrazzo
from terrazzo.care import merge
from terrazzo.errors import ConflictError
from terrazzo.storage import LocalStore, MemoryStore
from terrazzo.stores.contract import Cost
from tests.stores.far import FarStore

STORES: dict[str, Callable[[Path], Any]] = {
    "memory": lambda _: MemoryStore(),
    "local": lambda folder: LocalStore(folder / "a.zarr"),
    "far": lambda _: FarStore(cost=Cost(0.0015, 1e9, requests=8)),
}
LAYOUTS: dict[str, dict[str, Any]] = {
    "shards": {"chunks": (4, 2), "shards": (16, 4)},
    "plain": {"chunks": (4, 2)},
    "listed": {"chunks": ([4], 2)},
    "listed shards": {"chunks": (2, 2), "shards": ([4, 8], [4])},
    "in place": {"chunks": (4, 2), "shards": (8, 4), "compressors": "crc32c", "strategy": "in-place"},
}
WIDTH = 4


def made(place: Any, layout: str) -> terrazzo.Array:
    listed = {"listed": 4, "listed shards": 12}
    shape = (listed.get(layout, 0), WIDTH)
    array = terrazzo.create_array(place, shape=shape, dtype="i4", fill_value=-1, **LAYOUTS[layout])
    array[...] = 0
    return array


def steps(who: int, first: int, count: int) -> Any:
    return np.repeat(np.arange(first, first + count) + 10_000 * who, WIDTH).reshape(count, WIDTH)


def check_all(array: terrazzo.Array, given: dict[int, int], base: int = 0) -> None:
    """`given[who]` steps of each are there, whole, in their order, and nothing else past `base`."""
    values = np.asarray(array[...])
    assert (values == values[:, :1]).all()
    assert (values[:base] == 0).all()
    rows = values[base:, 0]
    for who, count in given.items():
        assert rows[rows // 10_000 == who].tolist() == list(range(10_000 * who, 10_000 * who + count))
    assert len(rows) == sum(given.values())


@pytest.mark.parametrize("memory", [1, 400, None])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("far", [False, True])
@settings(max_examples=10, deadline=None)
@given(st.data())
@pytest.mark.filterwarnings("ignore::terrazzo.errors.TerrazzoWarning")
def test_in_any_order(far: bool, layout: str, memory: int | None, data: st.DataObject) -> None:
    """Two writers and two appenders take turns; each knows only what it saw itself."""
    store: Any = FarStore(cost=Cost(0.0015, 1e9, requests=8)) if far else MemoryStore()
    base = len(made(store, layout))
    handles = [terrazzo.open_array(store, mode="r+", strategy=made_with(layout)) for _ in range(4)]
    writers = [handle.writer(memory=memory) for handle in handles[:2]]
    given = dict.fromkeys(range(1, 5), 0)
    for _ in range(data.draw(st.integers(3, 14))):
        who = data.draw(st.integers(1, 4))
        if who <= 2 and data.draw(st.integers(0, 4)) == 0:
            writers[who - 1].flush()
            continue
        n = data.draw(st.sampled_from([1, 1, 2, 3, 5, 17]))
        value = steps(who, given[who], n)
        if who <= 2:
            before = writers[who - 1].position
            writers[who - 1].append(value)
            assert writers[who - 1].position >= before + n
        else:
            handles[who - 1].append(value)
        given[who] += n
        if layout.startswith("listed") and data.draw(st.integers(0, 5)) == 0:
            merge(terrazzo.open_array(store, mode="r+"))
    for writer in writers:
        writer.close()
        assert writer.position == writer.stored
    check_all(terrazzo.open_array(store, mode="r"), given, base)


@pytest.mark.parametrize("memory", [1, 100, 400, None])
@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=15, deadline=None)
@given(st.data())
@pytest.mark.filterwarnings("ignore::terrazzo.errors.TerrazzoWarning")
def test_named_places_and_whole_assignments(layout: str, memory: int | None, data: st.DataObject) -> None:
    """What is stored early past the end stays, though others write all of the array that they know of."""
    store = MemoryStore()
    made(store, layout).append(np.zeros((data.draw(st.integers(1, 9)), WIDTH)))
    writing = terrazzo.open_array(store, mode="r+", strategy=made_with(layout))
    base, known = len(writing), 0
    wanted = np.full((base + 40, WIDTH), -1)
    wanted[:base] = 0
    with writing.writer(memory=memory) as writer:
        for n in range(data.draw(st.integers(1, 10))):
            first, left = data.draw(st.integers(base, base + 30)), data.draw(st.sampled_from([0, 0, 2, 3]))
            box = (
                slice(first, first + data.draw(st.integers(1, 9))),
                slice(left, data.draw(st.sampled_from([4, left + 1]))),
            )
            writer.write(box, n + 1)
            wanted[box] = n + 1
            if data.draw(st.booleans()):
                other = terrazzo.open_array(store, mode="r+", strategy=made_with(layout))
                other[...] = 100
                known = max(known, len(other))
    values = np.asarray(terrazzo.open_array(store, mode="r")[...])
    wanted = wanted[: len(values)]
    assert (values[known:] == wanted[known:]).all()
    assert ((values[:known] == wanted[:known]) | (values[:known] == 100)).all()
    assert (values[:known][wanted[:known] <= 0] == 100).all()


@pytest.mark.filterwarnings("ignore::terrazzo.errors.TerrazzoWarning")
def test_what_is_stored_early_in_a_chunk_that_the_end_cuts_stays() -> None:
    store = MemoryStore()
    array = terrazzo.create_array(store, shape=(5, 6), dtype="i4", fill_value=0, chunks=(4, 2))
    other = terrazzo.open_array(store, mode="r+")
    with array.writer(memory=20) as writer:
        writer.write(slice(6, 8), 3)
        assert writer.stored == len(terrazzo.open_array(store)) == 8
        other[...] = 7
        writer.write(slice(8, 9), 4)
    assert np.asarray(terrazzo.open_array(store)[...])[:, 0].tolist() == [7] * 5 + [0, 3, 3, 4]


def made_with(layout: str) -> Any:
    return LAYOUTS[layout].get("strategy", "replace")


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("layout", ["shards", "plain"])
def test_in_threads(store: str, layout: str, tmp_path: Path) -> None:
    place = STORES[store](tmp_path)
    made(place, layout)
    errors: list[BaseException] = []

    def work(who: int) -> None:
        try:
            one_of_them(place, who, 40)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(who,)) for who in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not errors and not any(thread.is_alive() for thread in threads)
    check_all(terrazzo.open_array(place, mode="r"), dict.fromkeys(range(1, 5), 40))


def one_of_them(place: Any, who: int, count: int) -> None:
    """Odd ones append by themselves, even ones through a buffered writer, in pieces of one to five steps."""
    dice, first = random.Random(who), 0
    array = terrazzo.open_array(place, mode="r+").using(durability="rename")
    with array.writer() as writer:
        while first < count:
            n = min(dice.randint(1, 5), count - first)
            (array if who % 2 else writer).append(steps(who, first, n))
            if dice.random() < 0.2:
                writer.flush()
            first += n


@pytest.mark.skipif(sys.platform == "win32", reason="the test needs fork")
@pytest.mark.parametrize("layout", ["shards", "plain"])
def test_in_processes(layout: str, tmp_path: Path) -> None:
    place = str(tmp_path / "a.zarr")
    made(LocalStore(place), layout)
    in_processes(place, 3, 30)
    check_all(terrazzo.open_array(place, mode="r"), dict.fromkeys(range(2, 5), 30))


def in_processes(place: str, processes: int, count: int) -> None:
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        asked = [(place, who, count) for who in range(2, 2 + processes)]
        pool.starmap_async(one_of_them, asked, chunksize=1).get(600)


@pytest.mark.skipif(sys.platform == "win32", reason="the test needs fork")
@pytest.mark.parametrize("layout", ["shards", "plain"])
def test_killed_among_others(layout: str, tmp_path: Path) -> None:
    """A writer that dies, and is made again, goes on behind what it stored; the others lose nothing, and wait for no
    dead one."""
    died, wrong = killed_among_others(str(tmp_path / "a.zarr"), layout, deaths=6, count=40, seed=1)
    assert died == 6 and not wrong


def killed_among_others(place: str, layout: str, deaths: int, count: int, seed: int) -> tuple[int, list[str]]:
    """How often one writer died and was made again, beside three others, and what is wrong afterwards."""
    made(LocalStore(place), layout)
    context = multiprocessing.get_context("fork")
    others = [context.Process(target=one_of_them, args=(place, who, count)) for who in (2, 3, 4)]
    for other in others:
        other.start()
    dice, died, wrong = random.Random(seed), 0, []
    for death in range(deaths + 1):
        at = dice.randrange(3, 120) if death < deaths else 10**9
        child = context.Process(target=one_that_dies, args=(place, count, at))
        child.start()
        child.join(120)
        died += child.exitcode == -signal.SIGKILL
        if child.exitcode not in (0, -signal.SIGKILL):
            wrong.append(f"the writer that dies, the {death}. time: exit code {child.exitcode}")
    for other in others:
        other.join(300)
        if other.exitcode:
            wrong.append(f"another one: exit code {other.exitcode}")
    try:
        check_all(terrazzo.open_array(place, mode="r"), dict.fromkeys(range(1, 5), count))
    except AssertionError as error:
        wrong.append(str(error))
    return died, wrong


def one_that_dies(place: str, count: int, at: int) -> None:
    """Go on with the steps that are not stored yet; the process is killed at the `at`-th operation of the disk, or when
    it has nothing more to do."""
    from tests.faults.layers import Killing

    last = at == 10**9
    array = terrazzo.open_array(LocalStore(place, files=Killing(at)), mode="r+").using(durability="rename")
    with array.writer() as writer:
        rows = np.asarray(terrazzo.open_array(LocalStore(place), mode="r")[:, 0])
        for number in range(int((rows // 10_000 == 1).sum()), count):
            writer.append(steps(1, number, 1)[0])
            if number % 7 == 6:
                writer.flush()
        if not last:
            os.kill(os.getpid(), signal.SIGKILL)


def test_steps_whose_place_was_named_stay() -> None:
    store = MemoryStore()
    made(store, "shards")
    first, second = (terrazzo.open_array(store, mode="r+").writer() for _ in range(2))
    first.write(np.s_[0:3], 1)
    second.write(np.s_[3:6], 2)
    second.write(np.s_[20:22], 3)
    first.close()
    second.close()
    found = terrazzo.open_array(store, mode="r")[:, 0]
    assert found.tolist() == [1] * 3 + [2] * 3 + [-1] * 14 + [3] * 2


def test_a_step_that_waits_may_be_mended_wherever_it_goes() -> None:
    store = MemoryStore()
    made(store, "shards")
    writer = terrazzo.open_array(store, mode="r+").writer()
    for number in range(10):
        writer.append(np.full(WIDTH, number))
    writer.write(np.s_[2, 1:3], 50)
    writer.write(np.s_[9], 51)
    terrazzo.open_array(store, mode="r+").append(steps(1, 0, 7))
    writer.append(np.full(WIDTH, 10))
    writer.flush()
    assert writer.position == writer.stored == 18
    expected = np.repeat(np.arange(11), WIDTH).reshape(11, WIDTH)
    expected[2, 1:3], expected[9] = 50, 51
    found = terrazzo.open_array(store, mode="r")[...]
    np.testing.assert_array_equal(found[7:], expected)
    np.testing.assert_array_equal(found[:7], steps(1, 0, 7))


def test_an_array_that_becomes_shorter_or_wider_meanwhile() -> None:
    store = MemoryStore()
    array = made(store, "shards")
    array.append(steps(1, 0, 20))
    writer = terrazzo.open_array(store, mode="r+").writer()
    writer.append(steps(2, 0, 3))
    array.resize((5, WIDTH))
    writer.flush()
    np.testing.assert_array_equal(
        terrazzo.open_array(store, mode="r")[...], np.concatenate([steps(1, 0, 5), steps(2, 0, 3)])
    )
    writer.append(steps(2, 3, 1))
    terrazzo.open_array(store, mode="r+").resize((8, WIDTH + 1))
    with pytest.raises(ConflictError, match="resized across"):
        writer.close()


def test_what_it_costs_far_away() -> None:
    """Documents are changed as often as ever; a shard that is complete is still one request."""
    store = FarStore(cost=Cost(0.02, 1e8, requests=64))
    made(store, "shards")
    writer = terrazzo.open_array(store, mode="r+").writer()
    with store.watched() as seen:
        for number in range(32):
            writer.append(np.full(WIDTH, number + 1))
    assert sorted(method for method, _, _ in seen.requests) == ["GET"] * 2 + ["PUT"] * 4
    writer.close()
