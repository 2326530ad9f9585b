"""Wrappers count, log, refuse and shift; stores of a few verbs say what they cannot do."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import numpy as np
import pytest

import terrazzo
from stores.test_stores import PartialValues, WholeValues
from terrazzo.errors import StoreError, UnsupportedError
from terrazzo.stores.contract import ALL, Open, Patch, Put
from terrazzo.stores.mapping import MappingStore
from terrazzo.stores.memory import MemoryStore
from terrazzo.stores.store import Store
from terrazzo.stores.watching import CountingStore, LoggingStore, Traffic, traffic
from terrazzo.stores.wrappers import PrefixStore, ReadOnlyStore


def test_counts() -> None:
    store = CountingStore(MemoryStore())
    store.set("a", b"0123456789")
    assert store.get("a") == b"0123456789"
    store.reset()
    sources = store.open([Open("a", (0, 4)), Open("x", ALL), Open("a")])
    assert sources[0] is not None
    store.fetch([(sources[0], [(0, 2), (5, 1), (9, 1)]), (sources[0], [])])
    store.get_partial_values([("a", (0, 1)), ("a", (-2, None))])
    store.open([])
    counts = store.counts
    assert counts.requests == {"open": 3, "fetch": 3, "get_partial_values": 2}
    assert counts.round_trips == {"open": 1, "fetch": 1, "get_partial_values": 1}
    assert (counts.read_nbytes, counts.written_nbytes) == (4 + 4 + 3, 0)
    assert (store.requests, store.round_trips) == (8, 3)
    store.reset()
    with store.hold("a", (0, 5)) as hold:
        sink = store.sink(hold)
        sink.write(2, b"1234")
        store.commit([Put(hold, sink)])
    with store.hold("a") as hold:
        store.commit([Patch(hold, [(6, b"xy")], [(0, b"z")])])
    store.set_partial_values([("a", 0, b"q"), ("b", 0, b"rs")])
    counts = store.counts
    assert counts.requests == {"hold": 2, "commit": 2, "set_partial_values": 2}
    assert (counts.read_nbytes, counts.written_nbytes) == (5, 6 + 3 + 3)
    store.reset()
    assert store.requests == store.round_trips == 0


def test_a_log_line_per_request(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="terrazzo")
    store = LoggingStore(MemoryStore())
    store.set("a\nb", b"0123")
    store.get("a\nb")
    store.open([Open(key, ALL) for key in "abcde"])
    with pytest.raises(StoreError):
        store.get_partial_values([("a", (-1, 1))])
    with store.hold("a") as hold:
        sink = store.sink(hold)
        store.commit([Put(hold, sink)])
    assert [record.levelname for record in caplog.records] == ["DEBUG"] * len(caplog.records)
    lines = [record.getMessage() for record in caplog.records]
    assert not any("\n" in line for line in lines)
    assert lines[:3] == [
        "set 'a\\nb' (4 bytes): 0 bytes read",
        "get 'a\\nb': 4 bytes read",
        "open 'a' (0, None), 'b' (0, None), 'c' (0, None) and 2 more: 0 bytes read",
    ]
    assert lines[-1].startswith("commit put 'a'")
    caplog.clear()
    caplog.set_level(logging.INFO, logger="terrazzo")
    store.get("a")
    assert caplog.records == []


def test_a_prefix_is_a_store_of_its_own() -> None:
    below = MemoryStore()
    below.set("g/a", b"1")
    below.set("ga", b"2")
    store = PrefixStore(PrefixStore(below, "g/"), "")
    assert list(store.list()) == ["a"]
    store.set("b/c", b"3")
    assert sorted(below.list()) == ["g/a", "g/b/c", "ga"]
    store.erase_prefix("")
    assert list(below.list()) == ["ga"]
    for bad in ("g", "/", "../"):
        with pytest.raises(StoreError):
            PrefixStore(below, bad)


def test_faces_compare_and_show() -> None:
    memory = MemoryStore("shown")
    assert repr(ReadOnlyStore(memory)) == "ReadOnlyStore(MemoryStore('shown'))"
    assert repr(PrefixStore(memory, "a/")) == "PrefixStore(MemoryStore('shown'), 'a/')"
    assert ReadOnlyStore(memory) == ReadOnlyStore(MemoryStore("shown"))
    assert ReadOnlyStore(memory) != CountingStore(memory)
    assert len({ReadOnlyStore(memory), ReadOnlyStore(memory)}) == 1
    assert MappingStore({}) != MappingStore({})


def test_memory_does_not_pretend_to_travel() -> None:
    with pytest.raises(TypeError, match="LocalStore"):
        pickle.dumps(MemoryStore())


def test_memory_gives_its_own_bytes() -> None:
    store = MemoryStore()
    value = b"x" * 1000
    store.set("a", value)
    assert store.get("a") is value
    (source,) = store.open([Open("a", ALL)])
    assert source is not None
    assert source.handle is value


# -- stores of a few verbs --------------------------------------------------------------------------------------------


class Nothing(Store):
    """Brings no verb at all."""


class OnlyReads(Store):
    def get(self, key: str) -> bytes | None:
        return b"0123" if key == "a" else None


class OnlyWrites(Store):
    def __init__(self) -> None:
        self.written: list[Any] = []

    def set(self, key: str, value: Any) -> None:
        self.written.append((key, value))


class CallsItsParent(Store):
    """As somebody writes it who expects the parent to do the work."""

    def get(self, key: str) -> bytes | None:
        return super().get(key)

    def set(self, key: str, value: Any) -> None:
        super().set(key, value)

    def erase(self, key: str) -> None:
        super().erase(key)

    def list(self) -> Any:
        return super().list()


def test_what_a_store_can_follows_from_its_verbs() -> None:
    def can(store: Store) -> list[bool]:
        return [store.readable, store.writable, store.erasable, store.listable]

    assert can(Nothing()) == [False, False, False, False]
    assert can(OnlyReads()) == [True, False, False, False]
    assert can(OnlyWrites()) == [False, True, False, False]
    assert can(WholeValues()) == can(PartialValues()) == [True, True, True, True]

    class Grown(OnlyReads):
        def set(self, key: str, value: Any) -> None: ...

    class Declared(WholeValues):
        erasable = False

    assert can(Grown()) == [True, True, False, False]
    assert can(Declared()) == [True, True, False, True]
    assert can(type("Child", (Declared,), {})()) == [True, True, False, True]


@pytest.mark.parametrize("kind", [Nothing, CallsItsParent])
def test_no_verb_waits_for_another_for_ever(kind: Any) -> None:
    store = kind()
    attempts = [
        lambda: store.get("a"),
        lambda: store.get_partial_values([("a", ALL)]),
        lambda: store.exists("a"),
        lambda: store.getsize("a"),
        lambda: store.tag("a"),
        lambda: store.open([Open("a")]),
        lambda: store.hold("a"),
        lambda: store.set("a", b""),
        lambda: store.set_partial_values([("a", 0, b"")]),
        lambda: store.set_if("a", b"", None),
        lambda: store.erase("a"),
        lambda: store.erase_values(["a"]),
        lambda: store.erase_prefix(""),
        lambda: list(store.list()),
        lambda: list(store.list_prefix("")),
        lambda: store.list_dir(""),
    ]
    for attempt in attempts:
        with pytest.raises(UnsupportedError, match=kind.__name__):
            attempt()


def test_a_store_that_only_reads() -> None:
    store = OnlyReads()
    assert store.get_partial_values([("a", (1, 2)), ("b", ALL)]) == [b"12", None]
    assert (store.exists("a"), store.exists("b"), store.getsize("a")) == (True, False, 4)
    with store.hold("a") as hold:
        with pytest.raises(UnsupportedError, match="written"):
            store.commit([Put(hold, store.sink(hold))])
    assert store.read_only


def test_a_partial_store_without_erase_cannot_shorten() -> None:
    class Growing(PartialValues):
        erase_values = Store.erase_values

    store = Growing()
    assert not store.erasable
    store.set("a", b"0123")
    store.set("a", b"456789")
    with pytest.raises(UnsupportedError, match="shorten"):
        store.set("a", b"0")
    assert store.get("a") == b"456789"


def test_a_conditional_store_commits_on_condition() -> None:
    """A store with tags and conditions, as servers have them: a commit never overwrites what was not seen."""

    class Server(WholeValues):
        def tag(self, key: str) -> Any:
            return None if key not in self.values else ("etag", self.values[key])

        def set_if(self, key: str, value: Any, tag: Any) -> None:
            from terrazzo.errors import ConflictError

            if self.tag(key) != tag:
                raise ConflictError(f"{key!r} changed")
            self.values[key] = bytes(value)

    store = Server()
    for before in (None, b"old"):
        if before is not None:
            store.values["a"] = before
        with store.hold("a", ALL) as hold:
            store.values["a"] = b"somebody else's"
            sink = store.sink(hold)
            sink.write(0, b"mine")
            with pytest.raises(StoreError, match="'a'"):
                store.commit([Put(hold, sink)])
        assert store.values["a"] == b"somebody else's"
        del store.values["a"]


class SizedPartialValues(PartialValues):
    def getsize(self, key: str) -> int | None:
        return len(self.values[key]) if key in self.values else None


def test_a_store_of_ranges_without_sizes_is_opened_whole() -> None:
    store = PartialValues()
    store.set("a", b"0123456789index")
    (source,) = store.open([Open("a", (-5, None))])
    assert source is not None
    assert (source.size, bytes(source.first)) == (15, b"index")
    store.set("a", b"abcdefghijINDEX")
    assert bytes(store.fetch([(source, [(0, 2)])])[0][0]) == b"01"


@pytest.mark.parametrize("kind", [PartialValues, SizedPartialValues])
@pytest.mark.parametrize("location", ["start", "end"])
def test_shards_in_a_store_of_ranges(kind: type[PartialValues], location: str) -> None:
    values = np.arange(100, dtype="int32")
    array = terrazzo.create_array(
        kind(), shape=(100,), chunks=(10,), shards={"shape": (50,), "index_location": location}, dtype="int32"
    )
    array[:] = values
    array[7:13] = values[7:13] = -1
    np.testing.assert_array_equal(terrazzo.open_array(array.store, mode="r")[5:60], values[5:60])
    np.testing.assert_array_equal(array[:], values)


def test_ranges_of_a_partial_store_are_pinned_by_what_was_read_first() -> None:
    store = SizedPartialValues()
    store.set("a", b"0123456789index")
    (source,) = store.open([Open("a", (-5, None))])
    assert source is not None
    assert bytes(store.fetch([(source, [(0, 2)])])[0][0]) == b"01"
    store.set("a", b"abcdefghijINDEX")
    with pytest.raises(StoreError, match="another version"):
        store.fetch([(source, [(0, 2)])])


# -- traffic ----------------------------------------------------------------------------------------------------------


def test_traffic_of_a_block_is_counted_whatever_the_store() -> None:
    values = np.arange(4096, dtype="int32").reshape(64, 64)
    one = terrazzo.create_array(MemoryStore(), data=values, chunks=(8, 8), shards=(32, 32))
    two = terrazzo.create_array(MemoryStore(), data=values, chunks=(32, 32))
    with traffic() as seen:
        one[...]
        with traffic() as inner:
            two[:8, :8]
        two[:8, :8] = 1
    assert inner.counts.requests == {"open": 1}
    assert seen.counts.requests == {"open": 5, "hold": 1, "commit": 1}
    assert (seen.requests, seen.round_trips) == (7, 4)
    assert seen.read_nbytes > inner.read_nbytes > 0 < seen.written_nbytes
    with traffic() as opening:
        terrazzo.open_array(one.store)
    assert opening.counts.requests == {"open": 1}
    before = seen.requests
    one[...]
    assert seen.requests == before
    assert repr(seen).startswith(f"Traffic(requests={before}, ")


def test_looks_that_are_left_out_are_no_requests() -> None:
    from tests.stores.far import FarStore

    far = FarStore()
    array = terrazzo.create_array(far, shape=(64, 64), chunks=(8, 8), shards=(64, 64), dtype="int64")
    for work in (
        lambda: array.__setitem__(..., 1),
        lambda: array[:8, :8],
        lambda: array.__setitem__((3, 3), 2),
    ):
        with far.watched() as really, traffic() as seen:
            work()
        assert (seen.requests, seen.round_trips) == (really.count, really.round_trips)
        assert (seen.read_nbytes, seen.written_nbytes) == (really.read, really.written)


def test_traffic_of_other_threads_is_not_counted_and_of_tasks_is() -> None:
    import asyncio
    import threading

    array = terrazzo.create_array(MemoryStore(), data=np.arange(16), chunks=(4,))
    with traffic() as seen:
        thread = threading.Thread(target=lambda: array[...])
        thread.start()
        thread.join()
        assert seen.requests == 0
        asyncio.run(terrazzo.AsyncArray(array).getitem(slice(0, 8)))
    assert seen.counts.requests == {"open": 2}


def test_one_traffic_of_several_stores() -> None:
    seen = Traffic()
    for store in (CountingStore(MemoryStore(), seen), CountingStore(MemoryStore(), seen)):
        store.set("a", b"123")
    assert (seen.requests, seen.written_nbytes) == (2, 6)
    seen.reset()
    assert seen.requests == seen.written_nbytes == 0
