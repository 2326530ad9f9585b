"""Writes through objects that were opened before others made the array longer: nothing else changes."""

from __future__ import annotations

import itertools
import multiprocessing
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
from terrazzo.arrays.appending import ArrayEnd
from terrazzo.care import merge
from terrazzo.errors import ConflictError
from terrazzo.storage import LocalStore, MemoryStore
from terrazzo.stores.contract import Cost
from tests.stores.far import FarStore

STORES: dict[str, Callable[[Path], Any]] = {
    "memory": lambda _: MemoryStore(),
    "local": lambda folder: LocalStore(folder / "a.zarr"),
    "far": lambda _: FarStore(cost=Cost(0.002, 1e9, requests=8)),
}
LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {"chunks": (8, 4)},
    "sharded": {"chunks": (4, 2), "shards": (16, 4)},
    "raw": {"chunks": (4, 2), "shards": (16, 4), "compressors": ["crc32c"], "index_location": "start"},
    "listed": {"chunks": [[3, 8, 8], [4]]},
    "listed shards": {"chunks": (2, 2), "shards": [[4, 8, 8], [4]]},
}
STRATEGIES: dict[str, Any] = {
    "replace": terrazzo.Replace(),
    "in place": terrazzo.InPlace(),
    "slack": terrazzo.InPlace(slack=100),
    "append": terrazzo.Append(index_at_end=True),
}
SHARDED = ("sharded", "raw", "listed shards")


def made(place: Any, layout: str, rows: int = 10, strategy: str = "replace") -> terrazzo.Array:
    array = terrazzo.create_array(
        place, shape=(rows, 4), dtype="i4", fill_value=-1, strategy=STRATEGIES[strategy], **LAYOUTS[layout]
    )
    array[...] = np.arange(rows * 4).reshape(rows, 4)
    return array


SELECTIONS: dict[str, Callable[[terrazzo.Array, int], None]] = {
    "all": lambda array, value: array.__setitem__(..., value),
    "rows": lambda array, value: array.set_basic_selection(slice(0, 10), value),
    "the last chunk": lambda array, value: array.__setitem__((slice(8, None), slice(2, 4)), value),
    "oindex": lambda array, value: array.oindex.__setitem__(([*range(9), 9], [0, 1, 3]), value),
    "points": lambda array, value: array.vindex.__setitem__(np.ones((10, 4), bool), value),
    "blocks": lambda array, value: array.blocks.__setitem__(..., value),
}


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize(
    ("layout", "strategy"),
    [(layout, "replace") for layout in LAYOUTS]
    + [(layout, strategy) for layout in SHARDED for strategy in ("in place", "slack", "append")],
)
@pytest.mark.parametrize("store", STORES)
def test_what_others_appended_stays(
    store: str, layout: str, strategy: str, selection: str, tmp_path: Path
) -> None:
    place = STORES[store](tmp_path)
    made(place, layout, strategy=strategy)
    stale = terrazzo.open_array(place, mode="r+").using(strategy=STRATEGIES[strategy])
    other = terrazzo.open_array(place, mode="r+")
    other.append(np.full((3, 4), 7))
    other.append(np.full((9, 4), 8))
    expected = other[...]
    SELECTIONS[selection](stale, 100)
    model = expected[:10]
    if selection == "the last chunk":
        model[8:, 2:4] = 100
    elif selection == "oindex":
        model[:, [0, 1, 3]] = 100
    else:
        model[...] = 100
    np.testing.assert_array_equal(terrazzo.open_array(place, mode="r")[...], expected)
    np.testing.assert_array_equal(other[...], expected)
    SELECTIONS[selection](stale, -1)  # the fill value: chunks and shards go, but not others' rows
    model[model == 100] = -1
    np.testing.assert_array_equal(terrazzo.open_array(place, mode="r")[...], expected)


def test_another_axis_that_grew(tmp_path: Path) -> None:
    array = terrazzo.create_array(tmp_path / "a", shape=(6, 6), dtype="i4", chunks=(4, 4), fill_value=0)
    stale = terrazzo.open_array(tmp_path / "a", mode="r+")
    array.append(np.full((6, 1), 5), axis=1)
    array.append(np.full((1, 7), 6), axis=0)
    stale[...] = 1
    expected = np.ones((7, 7), "i4")
    expected[:6, 6], expected[6] = 5, 6
    np.testing.assert_array_equal(terrazzo.open_array(tmp_path / "a")[...], expected)


@pytest.mark.parametrize("layout", ["plain", "sharded"])
def test_an_appender_that_comes_between_the_look_and_the_commit(layout: str) -> None:
    """Where holds are no locks, the commit is refused, and the write is made again over what is there then."""
    for moment in range(4):
        store = FarStore(cost=Cost(0.002, 1e9, requests=8))
        made(store, layout)
        stale = terrazzo.open_array(store, mode="r+")
        calls = itertools.count()

        def late(store: FarStore = store, moment: int = moment, calls: Any = calls) -> None:
            if next(calls) == moment:
                terrazzo.open_array(store, mode="r+").append(np.full((3, 4), 7))

        store.before_commit = late
        stale[...] = 100
        stale[...] = 200
        stale[...] = 300
        store.before_commit = lambda: None
        found = terrazzo.open_array(store, mode="r")[...]
        assert (found[:10] == 300).all() and len(found) in (10, 13)
        assert (found[10:] == 7).all()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("store", STORES)
def test_a_buffered_writer_that_has_stored_steps_and_not_told_of_them(
    store: str, layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its steps are stored ahead of the document: who finds it between the two keeps what lies past the end."""
    place = STORES[store](tmp_path)
    made(place, layout)
    stale = terrazzo.open_array(place, mode="r+")
    before = ArrayEnd.grow

    def late(end: ArrayEnd, *what: Any) -> Any:
        stale[...] = 100
        return before(end, *what)

    monkeypatch.setattr(ArrayEnd, "grow", late)
    with terrazzo.open_array(place, mode="r+").writer(axis=0) as writer:
        writer.append(np.full((9, 4), 7))
    found = terrazzo.open_array(place, mode="r")[...]
    assert (found[:10] == 100).all() and len(found) == 19
    assert (found[10:] == 7).all()


def test_what_it_costs_far_away() -> None:
    """Nothing where nothing is there; a look at what is there, and one at the document, where something is."""
    store = FarStore(cost=Cost(0.02, 1e8, requests=64))
    array = terrazzo.create_array(store, shape=(60, 60), dtype="i4", chunks=(8, 8), shards=(32, 32))
    with store.watched() as seen:
        array[...] = 1
    assert (seen.of("PUT"), seen.count, seen.round_trips) == (4, 4, 1)
    with store.watched() as seen:
        array[...] = 2  # three of the shards are cut by the end
    assert (seen.of("PUT"), seen.of("GET"), seen.count, seen.round_trips) == (4, 4, 8, 3)
    again = terrazzo.open_array(store, mode="r+")
    with store.watched() as seen:
        again[...] = 3  # one try too many
    assert (seen.of("PUT"), seen.of("GET"), seen.round_trips) == (8, 4, 4)
    with store.watched() as seen:
        again[:32, :32] = 4
    assert (seen.of("PUT"), seen.count) == (1, 1)
    with store.watched() as seen:
        again[...] = 0
    assert (again[...] == 0).all()


def test_what_it_costs_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The document is looked at where chunks that the end cuts are there already, and only then."""
    from terrazzo.arrays import resizing

    looks = 0
    look = resizing.read_document

    def counted(*what: Any) -> Any:
        nonlocal looks
        looks += 1
        return look(*what)

    monkeypatch.setattr(resizing, "read_document", counted)
    array = terrazzo.create_array(tmp_path / "a", shape=(60, 64), dtype="i4", chunks=(8, 8), shards=(32, 32))
    array[...] = 1
    array[:32] = 2
    array[40:50, 3:9] = 3
    assert looks == 0
    array[...] = 2
    assert looks == 1
    array[56:, 8:16] = 2
    assert looks == 2


def test_a_damaged_chunk_at_the_end_is_mended_by_what_replaces_it(tmp_path: Path) -> None:
    array = made(LocalStore(tmp_path / "a"), "sharded")
    for path in (tmp_path / "a" / "c").rglob("*"):
        if path.is_file():
            path.write_bytes(b"\xff" * path.stat().st_size)
    array[...] = 5
    assert (terrazzo.open_array(tmp_path / "a")[...] == 5).all()


@pytest.mark.parametrize("selection", [..., slice(0, 2)])
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("layout", ["listed", "listed shards"])
def test_after_a_merge_it_is_refused(layout: str, store: str, selection: Any, tmp_path: Path) -> None:
    place = STORES[store](tmp_path)
    made(place, layout)
    other = terrazzo.open_array(place, mode="r+")
    for number in range(4):
        other.append(np.full((2, 4), number))
    stale = terrazzo.open_array(place, mode="r+")
    expected = stale[...]
    merge(terrazzo.open_array(place, mode="r+"), edge=4 if layout == "listed shards" else 30)
    if terrazzo.open_array(place).metadata.chunk_grid == stale.metadata.chunk_grid:
        merge(terrazzo.open_array(place, mode="r+"), edge=30)
    with pytest.raises(ConflictError, match="merged"):
        stale[selection] = 1
    np.testing.assert_array_equal(terrazzo.open_array(place, mode="r")[...], expected)
    assert stale.append(np.full((1, 4), 9)) == (len(expected) + 1, 4)
    stale[-1] = 10
    found = terrazzo.open_array(place, mode="r")[...]
    np.testing.assert_array_equal(found[:-1], expected)
    assert (found[-1] == 10).all()


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("layout", ["plain", "sharded", "raw"])
def test_threads_that_write_all_they_know_while_others_append(
    store: str, layout: str, tmp_path: Path
) -> None:
    place, errors = STORES[store](tmp_path), []
    strategy = "in place" if layout == "raw" else "replace"
    made(place, layout, strategy=strategy)

    def work(number: int) -> None:
        try:
            mine = terrazzo.open_array(place, mode="r+").using(strategy=STRATEGIES[strategy])
            for turn in range(6):
                if number % 2:
                    mine.append(np.full((1 + turn % 3, 4), 1000 * number + turn))
                else:
                    mine[:10] = -5
                    terrazzo.open_array(place, mode="r+")[:10] = -6
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors and not any(thread.is_alive() for thread in threads)
    holds_every_row(terrazzo.open_array(place, mode="r"), [1, 3])


def holds_every_row(array: terrazzo.Array, appenders: list[int]) -> None:
    found = array[10:]
    assert (found == found[:, :1]).all()
    for number in appenders:
        expected = np.concatenate([np.full(1 + turn % 3, 1000 * number + turn) for turn in range(6)])
        assert found[found[:, 0] // 1000 == number][:, 0].tolist() == expected.tolist()
    assert len(found) == 12 * len(appenders)


@pytest.mark.skipif(sys.platform == "win32", reason="the test needs fork")
def test_processes_that_write_all_they_know_while_others_append(tmp_path: Path) -> None:
    place = str(tmp_path / "a.zarr")
    made(LocalStore(place), "sharded")
    with multiprocessing.get_context("fork").Pool(3) as pool:
        pool.map_async(one_process, [(place, number) for number in range(3)], chunksize=1).get(60)
    holds_every_row(terrazzo.open_array(place, mode="r"), [1])


def one_process(what: tuple[str, int]) -> None:
    place, number = what
    mine = terrazzo.open_array(place, mode="r+")
    for turn in range(6):
        if number % 2:
            mine.append(np.full((1 + turn % 3, 4), 1000 * number + turn))
        else:
            mine[:10] = -5


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_selection_of_any_layout(data: st.DataObject) -> None:
    """Whatever the layout, what a stale object assigns changes what numpy says, and nothing else."""
    ndim = data.draw(st.integers(1, 3))
    shape = data.draw(st.tuples(*[st.integers(1, 9)] * ndim))
    chunks = data.draw(st.tuples(*[st.integers(1, 5)] * ndim))
    shards = data.draw(st.none() | st.tuples(*[st.sampled_from([c, 2 * c, 3 * c]) for c in chunks]))
    store: Any = data.draw(st.sampled_from([MemoryStore, FarStore]))()
    array = terrazzo.create_array(store, shape=shape, dtype="i4", chunks=chunks, shards=shards, fill_value=-1)
    strategy = data.draw(st.sampled_from(sorted(STRATEGIES))) if shards else "replace"
    stale = terrazzo.open_array(store, mode="r+").using(strategy=STRATEGIES[strategy])
    model = np.full(shape, -1, "i4")
    for number in range(data.draw(st.integers(1, 4))):
        if data.draw(st.booleans()):
            axis = data.draw(st.integers(0, ndim - 1))
            rows = (*model.shape[:axis], data.draw(st.integers(1, 4)), *model.shape[axis + 1 :])
            array.append(np.full(rows, number), axis=axis)
            model = np.concatenate([model, np.full(rows, number, "i4")], axis=axis)
        box = tuple(
            slice(*sorted((data.draw(st.integers(0, n)), data.draw(st.sampled_from([n, n // 2, 0])))))
            for n in shape
        )
        value = data.draw(st.sampled_from([-1, 50 + number]))
        stale[box] = value
        model[box] = value
        np.testing.assert_array_equal(terrazzo.open_array(store, mode="r")[...], model)
