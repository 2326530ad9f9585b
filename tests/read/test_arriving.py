"""Bodies that come one by one, in any order, late, of another version or not at all: what is read is what numpy says,
and what came first is decoded while the rest is on its way."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.errors import ChecksumError, CodecError, ConflictError, StoreError
from terrazzo.indexing import project_basic
from terrazzo.read import read
from terrazzo.stores import arrivals
from terrazzo.stores.arrivals import Arrivals
from terrazzo.stores.contract import Cost, Open
from terrazzo.stores.flow import Arriving, Working, run, run_async
from terrazzo.stores.wrappers import PrefixStore, ReadOnlyStore
from tests.read.test_far_oracle import LAYOUTS, check_against_numpy, random_box
from tests.stores.far import FarStore, UnevenStore

SHAPE = (60, 60)
VALUES = np.random.default_rng(7).integers(0, 1 << 30, (128, 128), np.int64)


@pytest.fixture(autouse=True)
def each_byte_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few bytes came, they are worth a call of the kernel."""
    monkeypatch.setattr(arrivals, "WORTH", 1)


@pytest.fixture
def store() -> Iterator[UnevenStore]:
    found = UnevenStore(3)
    yield found
    found.rest()


def unevenly(store: UnevenStore, seed: int) -> None:
    """Some answers are late."""
    chance = random.Random(seed)
    store.before_answer = lambda came: time.sleep(0.001) if chance.random() < 0.2 else None
    store.breaks_off = 0.2


def filled(store: FarStore, **how: Any) -> Any:
    terrazzo.create_array(store, data=VALUES, **({"chunks": (8, 8), "shards": (64, 64)} | how))
    return terrazzo.open_array(store, mode="r")


# numpy is the oracle


@pytest.mark.parametrize(
    ("layout", "memory"),
    [*((layout, 1 << 26) for layout in LAYOUTS), ("shards", 1 << 12), ("plain", 1 << 12)],
)
def test_reads_and_writes_are_numpys(store: UnevenStore, layout: str, memory: int) -> None:
    unevenly(store, len(layout))
    check_against_numpy(store, layout, memory, 6)


@pytest.mark.parametrize("layout", ["shards", "large shards", "plain"])
def test_awaited_reads_are_numpys(store: UnevenStore, layout: str) -> None:
    unevenly(store, 1)
    terrazzo.create_array(store, shape=SHAPE, dtype="int32", fill_value=-7, **LAYOUTS[layout])
    expected = np.full(SHAPE, -7, np.int32)
    expected[7:50, 3:] = np.arange(43 * 57).reshape(43, 57)
    terrazzo.open_array(store, mode="r+")[...] = expected

    async def several() -> None:
        array = (await terrazzo.AsyncArray.open(store)).array
        rng = np.random.default_rng(2)
        boxes = [random_box(rng) for _ in range(30)]
        found = await asyncio.gather(*(terrazzo.AsyncArray(array).getitem(box) for box in boxes))
        for one, box in zip(found, boxes, strict=True):
            np.testing.assert_array_equal(one, expected[box])

    asyncio.run(several())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("compressors", [None, "zstd"])
def test_what_came_before_a_connection_broke_counts_for_nothing(
    monkeypatch: pytest.MonkeyPatch, seed: int, compressors: str | None
) -> None:
    """It may have been of another version, whose chunks decode as well, or do not, each time that one looks."""
    store = UnevenStore(seed)
    store.breaks_off = 1.0
    array = filled(store, shards=(128, 128), compressors=compressors)
    array[0, 0]
    told = Arrivals._arrived

    def slowly(self: Arrivals, number: int, answer: Any, nbytes: int | None = None) -> None:
        told(self, number, answer, nbytes)
        time.sleep(0.002)  # for what came to be taken

    monkeypatch.setattr(Arrivals, "_arrived", slowly)
    for box in (np.s_[8:, :], np.s_[:, 3:60], np.s_[...]):
        np.testing.assert_array_equal(array[box], VALUES[box])
    store.rest()


def test_as_many_requests_as_when_everything_comes_at_once() -> None:
    for how in ({}, {"shards": None, "chunks": (16, 16)}, {"shards": (128, 128)}):
        for memory in (1 << 26, 1 << 13):
            counts = []
            for kind in (FarStore, UnevenStore):
                store = kind()
                filled(store, **how)
                array = terrazzo.open_array(store, mode="r", config={"memory": memory})
                with store.watched() as seen:
                    for box in (np.s_[30:90, 30:90], np.s_[...], np.s_[:, 5], np.s_[30:90, 30:90]):
                        np.testing.assert_array_equal(array[box], VALUES[box])
                counts.append((seen.count, seen.read))
            assert counts[0] == counts[1]


# what is there is decoded while the rest is on its way


class Watched(UnevenStore):
    """Holds the last answer of a batch back until something was decoded. holding: of which verb."""

    def __init__(self) -> None:
        super().__init__(5)
        self.decoded = threading.Event()
        self.holding = self.verb = ""
        self.waited = 0
        self.before_answer = self.hold_back
        self.expected = 0

    def begin(self, verb: Any, requests: Any, arrived: Any = None) -> Any:
        self.verb, self.expected = verb, len(requests)
        return super().begin(verb, requests, arrived)

    def hold_back(self, came: int) -> None:
        if self.verb == self.holding and came == self.expected - 1 > 0:
            self.waited += 1
            assert self.decoded.wait(20)


def noting(flow: Any, decoded: threading.Event) -> Any:
    """The same flow; `decoded` is set when the first of its work is done."""
    answer = None
    request = next(flow)
    while True:
        try:
            answer = yield request
        except BaseException as error:
            request = flow.throw(error)
            continue
        if isinstance(request, Working):
            decoded.set()
        try:
            request = flow.send(answer)
        except StopIteration:
            return


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("how", ["ranges of shards", "whole shards", "plain chunks"])
def test_a_body_is_decoded_while_another_is_on_its_way(how: str, awaited: bool) -> None:
    """The last answer comes only when another one was decoded: a read that waited for all of them would not end."""
    store = Watched()
    layout = {"shards": None, "chunks": (32, 32)} if how == "plain chunks" else {}
    array = filled(store, **layout)
    box = np.s_[...] if how != "ranges of shards" else np.s_[40:90, 40:90]
    if how == "ranges of shards":
        array[::64, ::64]  # their indexes are known
    store.holding = "fetch" if how == "ranges of shards" else "open"
    projection = project_basic(box, array.layout)
    out = np.empty(projection.buffer_shape, np.int64)
    flow = noting(
        read(array.layout, projection, out, array.options, array.index_cache, None, store.cost), store.decoded
    )
    if awaited:
        asyncio.run(run_async(flow, store))
    else:
        run(flow, store)
    np.testing.assert_array_equal(out, VALUES[box])
    assert store.waited == 1
    store.rest()


def test_the_next_lot_is_asked_for_before_the_last_one_came_and_both_fit_the_memory() -> None:
    class Lots(UnevenStore):
        def begin(self, verb: Any, requests: Any, arrived: Any = None) -> Any:
            lots.append(len(requests)) if verb == "fetch" else None
            if len(lots) == 2:
                second.set()
            return super().begin(verb, requests, arrived)

    lots: list[int] = []
    second = threading.Event()
    store = Lots()
    filled(store, shards=(128, 128))
    memory = 1 << 15
    array = terrazzo.open_array(store, mode="r", config={"memory": memory})
    store.before_answer = lambda came: assert_waited(second) if lots else None
    np.testing.assert_array_equal(array[...], VALUES)
    store.rest()
    assert memory / 2 < store.most_wanted <= memory
    assert len(lots) > 3


def test_chunks_that_need_the_memory_alone_are_asked_for_one_after_the_other(store: UnevenStore) -> None:
    filled(store, chunks=(64, 64), shards=(128, 128))
    memory = 20_000
    array = terrazzo.open_array(store, mode="r", config={"memory": memory})
    sizes = array.inventory().nbytes
    assert sizes.min() > memory / 2
    store.before_answer = lambda came: time.sleep(0.002)
    np.testing.assert_array_equal(array[...], VALUES)
    store.rest()
    assert store.most_wanted == sizes.max()


# what changes or fails in between


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("how", [{}, {"shards": None}, {"shards": (32, 32)}])
def test_every_shard_is_of_one_version_whatever_changes_in_between(how: dict[str, Any], seed: int) -> None:
    store = UnevenStore(seed)
    filled(store, **how)
    writer = FarStore()
    writer.objects, writer._guard, writer._numbers = store.objects, store._guard, store._numbers
    mine = terrazzo.open_array(writer, mode="r+")
    mine[...] = 0
    reader = terrazzo.open_array(store, mode="r")
    chance, version = random.Random(seed), 0
    turn = threading.Lock()

    def change(came: int) -> None:
        nonlocal version
        with turn:
            if version < 25 and chance.random() < 0.3:
                version += 1
                edge = chance.choice([0, 64])
                mine[edge : edge + 64, :] = version

    store.before_answer = change
    edge = {"shards": (64, 64), **how}["shards"] or (8, 8)
    for _ in range(6):
        found = reader[3:120, ::5] if chance.random() < 0.3 else reader[...]
        if found.shape == SHAPE or found.shape == (128, 128):
            whole = found.reshape(128 // edge[0], edge[0], 128 // edge[1], edge[1]).transpose(0, 2, 1, 3)
            whole = whole.reshape(-1, edge[0] * edge[1])
            assert (whole.min(axis=1) == whole.max(axis=1)).all()
    store.before_answer = lambda came: None
    np.testing.assert_array_equal(reader[...], mine[...])
    store.rest()


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("at", range(4))
def test_a_failure_in_between_is_raised_and_the_next_read_is_right(
    store: UnevenStore, at: int, awaited: bool
) -> None:
    array = filled(store)

    def fail(came: int) -> None:
        if came == at:
            raise StoreError("the wire was cut")

    def reading() -> Any:
        return asyncio.run(terrazzo.AsyncArray(array).getitem(...)) if awaited else array[...]

    for _ in range(2):
        store.before_answer = fail
        with pytest.raises(StoreError, match="the wire was cut"):
            reading()
        store.before_answer = lambda came: None
        np.testing.assert_array_equal(reading(), VALUES)


def test_a_chunk_that_does_not_decode_is_looked_at_a_few_times_and_told(store: UnevenStore) -> None:
    array = filled(store)
    key = "c/0/1"
    value, _ = store.objects[key]
    store.objects[key] = (value[:100] + bytes(60) + value[160:], 99)
    with store.watched() as seen, pytest.raises((CodecError, ChecksumError), match=key):
        array[...]
    assert seen.count <= 5 * 8
    np.testing.assert_array_equal(array[64:], VALUES[64:])


def test_a_shard_that_changes_with_every_look_is_given_up(store: UnevenStore) -> None:
    array = filled(store)
    array[::64, ::64]

    def change(came: int) -> None:
        value, tag = store.objects["c/0/0"]
        store.objects["c/0/0"] = (value, tag + 1)

    store.before_answer = change
    with store.watched() as seen:
        np.testing.assert_array_equal(
            array[:50, :50], VALUES[:50, :50]
        )  # in the end: index and chunks at once
    assert seen.count <= 12
    array = terrazzo.open_array(store, mode="r", config={"memory": 1 << 13})
    with pytest.raises(ConflictError, match="c/0/0"):
        array[:50, :50]


def test_a_missing_chunk_is_told_before_anything_is_decoded(store: UnevenStore) -> None:
    filled(store)
    store.objects.pop("c/1/1")
    array = terrazzo.open_array(store, mode="r", config={"missing": "error"})
    out = np.full(VALUES.shape, -1)
    with pytest.raises(terrazzo.errors.ChunkNotFoundError):
        array.get_basic_selection(..., out=out)
    assert (out == -1).all()
    filled_in = terrazzo.open_array(store, mode="r")[...]
    np.testing.assert_array_equal(filled_in[:64], VALUES[:64])
    assert (filled_in[64:, 64:] == 0).all()


# nobody waits any more


def test_a_cancelled_read_ends_what_is_on_its_way(store: UnevenStore) -> None:
    array = filled(store)
    on_its_way, over = threading.Event(), threading.Event()

    def wait(came: int) -> None:
        if came == 2:
            on_its_way.set()
            over.wait(20)

    store.before_answer = wait

    async def cancelled() -> None:
        task = asyncio.ensure_future(terrazzo.AsyncArray(array).getitem(...))
        while not on_its_way.is_set():
            await asyncio.sleep(0.001)
        with store.watched() as seen:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            over.set()
            await asyncio.to_thread(store.rest)
        assert seen.count == 0

    asyncio.run(cancelled())


def test_a_flow_that_is_closed_ends_what_is_on_its_way(store: UnevenStore) -> None:
    array = filled(store)
    projection = project_basic(..., array.layout)
    out = np.empty(projection.buffer_shape, np.int64)
    flow = read(array.layout, projection, out, array.options, array.index_cache, None, store.cost)
    request = next(flow)
    assert isinstance(request, Arriving)
    gate = threading.Event()
    store.before_answer = lambda came: None if came == 0 else assert_waited(gate)
    assert request.arrivals.begin(store)
    flow.close()
    gate.set()
    store.rest()
    assert sum(key.startswith("c/") and method == "GET" for method, key, _ in store.seen.requests) <= 2
    request.arrivals.close()


def assert_waited(gate: threading.Event) -> None:
    assert gate.wait(20)


# the batch itself


def fetching(store: Any, n: int) -> Arrivals:
    sources = store.open([Open(f"k{i}") for i in range(n)])
    return Arrivals("fetch", [(source, [(i, 2)]) for i, source in enumerate(sources)])


@pytest.mark.parametrize("tells", [False, True])
@pytest.mark.parametrize("n", [0, 1, 7])
@pytest.mark.parametrize("wrap", [lambda s: s, ReadOnlyStore, lambda s: PrefixStore(s, "")])
def test_every_answer_is_taken_once(wrap: Callable[[Any], Any], n: int, tells: bool) -> None:
    for kind in (FarStore, UnevenStore):
        below = kind()
        if isinstance(below, UnevenStore):
            below.tells = tells
        for i in range(n):
            below.set(f"k{i}", bytes(range(i, i + 20)))
        store = wrap(below)
        batch = fetching(store, n)
        taken: dict[int, Any] = {}
        while batch.left:
            for number, answer, nbytes in batch.take(store):
                assert number not in taken
                if nbytes is None:
                    taken[number] = bytes(answer[0])
                else:
                    assert bytes(answer[:nbytes]) == bytes([2 * number, 2 * number + 1])[:nbytes]
        assert taken == {i: bytes([2 * i, 2 * i + 1]) for i in range(n)}
        batch.close()


def test_what_stands_under_a_prefix_is_opened_there(store: UnevenStore) -> None:
    store.set("a/b", b"0123")
    below = PrefixStore(store, "a/")
    batch = Arrivals("open", [Open("b", (1, 2)), Open("c", (0, 1))])
    taken = {}
    while batch.left:
        taken.update({one.number: one.answer for one in batch.take(below)})
    assert (taken[0].key, bytes(taken[0].first), taken[1]) == ("a/b", b"12", None)
    with pytest.raises(StoreError):
        Arrivals("open", [Open("../b")]).take(below)


def test_a_store_that_answers_too_few_is_told_of(store: UnevenStore) -> None:
    class Short(UnevenStore):
        def fetch(self, requests: Any) -> Any:
            return super().fetch(requests)[1:]

        def begin(self, verb: Any, requests: Any, arrived: Any = None) -> Any:
            return None

    short = Short()
    short.set("k0", b"01234")
    with pytest.raises(StoreError, match="answers"):
        fetching(short, 1).take(short)


def test_few_bytes_wait_for_more(store: UnevenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "WORTH", 5)
    for i in range(8):
        store.set(f"k{i}", bytes(20))
    batch = fetching(store, 8)
    sizes = []
    while batch.left:
        sizes.append(len(batch.take(store)))
    assert sum(sizes) == 8 and min(sizes[:-1], default=3) >= 3


def test_a_cost_that_is_near_is_read_in_one_batch() -> None:
    store = UnevenStore(cost=Cost())
    array = filled(store)
    np.testing.assert_array_equal(array[...], VALUES)
    store.rest()
