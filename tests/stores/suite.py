"""What every store keeps: one suite, run on each of them by a class of a few lines.

A subclass gives the fixture `store`: an empty store that can be written to. What a store declares it cannot do is
checked to be refused, and the rest is left out.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from terrazzo.errors import (
    ConflictError,
    HeldError,
    KeyRefusedError,
    ReadOnlyError,
    StoreError,
    UnsupportedError,
)
from terrazzo.stores.contract import ALL, Erase, Open, Patch, Put, Source
from terrazzo.stores.flow import Committing, Fetching, Holding, Opening, Working, run, run_async
from terrazzo.stores.store import Store

HOSTILE = [
    "",
    "/a",
    "a/",
    "a//b",
    "..",
    "../a",
    "a/../b",
    "a/..",
    ".",
    "./a",
    "a/./b",
    "a\\b",
    "..\\a",
    "a\0b",
    "C:/a",
    "c:a",
    "a\ud800",
]
HARMLESS = [
    "a",
    "zarr.json",
    "a/c/0/0",
    "...",
    "a..b",
    "%2e%2e/a",
    ".zarray",
    "é/ü",
    "with space",
    "a~1",
    "日本",
    "+-=,@",
]
TEN = b"0123456789"


def put(store: Store, key: str, value: bytes, first: Any = None) -> Any:
    """Replace a whole object the flows' way."""
    with store.hold(key, first) as hold:
        sink = store.sink(hold)
        sink.write(0, value)
        return store.commit([Put(hold, sink)])[0]


def opened(store: Store, key: str, first: Any = None, known: Any = None) -> Source:
    source = store.open([Open(key, first, known)])[0]
    assert source is not None
    return source


class StoreSuite:
    #: what the keys of sources, holds and errors start with
    below = ""

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        raise NotImplementedError("a subclass gives the store")

    @pytest.fixture
    def erasable(self, store: Store) -> Store:
        if not store.erasable:
            pytest.skip("this store cannot erase")
        return store

    @pytest.fixture
    def patchable(self, store: Store) -> Store:
        if not store.patchable:
            pytest.skip("this store cannot patch")
        store.set("p", TEN)
        return store

    @pytest.fixture
    def tree(self, store: Store) -> Store:
        for key in ("zarr.json", "a/zarr.json", "a/c/0/0", "a/c/0/1", "ab/zarr.json", "b/x/y/z"):
            store.set(key, key.encode())
        return store

    # -- whole values ---------------------------------------------------------------------------------------------

    def test_absent_is_none(self, store: Store) -> None:
        assert store.get("a") is None
        assert store.get("a/b/c") is None
        assert not store.exists("a")
        assert store.getsize("a") is None
        assert store.tag("a") is None

    @pytest.mark.parametrize(
        "value", [b"", b"x", TEN, bytes(range(256)) * 20_000], ids=["0", "1", "10", "5M"]
    )
    def test_set_then_get(self, store: Store, value: bytes) -> None:
        store.set("a/b", value)
        got = store.get("a/b")
        assert type(got) is bytes
        assert got == value
        assert store.exists("a/b")
        assert store.getsize("a/b") == len(value)

    @pytest.mark.parametrize("new", [b"", b"ab", b"much longer than before"])
    def test_set_replaces_the_whole(self, store: Store, new: bytes) -> None:
        store.set("a", TEN)
        store.set("a", new)
        assert store.get("a") == new

    @pytest.mark.parametrize("make", [bytearray, memoryview, lambda b: np.frombuffer(b, "<u2")])
    def test_any_buffer_is_a_value(self, store: Store, make: Any) -> None:
        store.set("a", make(TEN))
        assert store.get("a") == TEN

    def test_a_value_is_not_the_callers_buffer(self, store: Store) -> None:
        mine = bytearray(TEN)
        store.set("a", mine)
        mine[0] = 0
        assert store.get("a") == TEN

    @pytest.mark.parametrize("key", HARMLESS)
    def test_harmless_keys(self, store: Store, key: str) -> None:
        store.set(key, TEN)
        assert store.get(key) == TEN
        if store.listable:
            assert list(store.list()) == [key]

    def test_keys_tell_case_apart(self, store: Store) -> None:
        store.set("a", b"small")
        store.set("A", b"large")
        assert (store.get("a"), store.get("A")) == (b"small", b"large")

    # -- partial values -------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("window", "expected"),
        [
            ((0, None), TEN),
            ((0, 10), TEN),
            ((0, 3), b"012"),
            ((3, 4), b"3456"),
            ((3, None), b"3456789"),
            ((9, 1), b"9"),
            ((8, 100), b"89"),
            ((0, 0), b""),
            ((5, 0), b""),
            ((10, None), b""),
            ((11, 5), b""),
            ((-1, None), b"9"),
            ((-10, None), TEN),
            ((-4, None), b"6789"),
            ((-100, None), TEN),
        ],
    )
    def test_ranges_are_clipped(self, store: Store, window: Any, expected: bytes) -> None:
        store.set("a", TEN)
        assert store.get_partial_values([("a", window)]) == [expected]
        source = opened(store, "a", window)
        assert bytes(source.first) == expected
        source.close()

    def test_partial_values_keep_their_order(self, store: Store) -> None:
        store.set("a", TEN)
        store.set("b", b"abc")
        answers = store.get_partial_values(
            [("b", (1, 1)), ("a", (0, 2)), ("x", ALL), ("b", ALL), ("a", (-1, None))]
        )
        assert answers == [b"b", b"01", None, b"abc", b"9"]
        assert store.get_partial_values([]) == []

    @pytest.mark.parametrize("window", [(-2, 1), (0, -1), (0.0, 1), ("0", 1), (True, 1), (0,), None])
    def test_what_is_no_range_is_refused(self, store: Store, window: Any) -> None:
        store.set("a", TEN)
        with pytest.raises(StoreError, match="a'"):
            store.get_partial_values([("a", window)])

    def test_set_partial_values(self, store: Store) -> None:
        store.set("a", TEN)
        store.set_partial_values([("a", 8, b"XYZ"), ("a", 0, b"ab"), ("b", 2, b"new"), ("a", 2, b"")])
        assert store.get("a") == b"ab234567XYZ"
        assert store.get("b") == b"\0\0new"
        store.set_partial_values([])

    @pytest.mark.parametrize(
        "writes",
        [
            [("a", 0, b"abc"), ("a", 2, b"x")],
            [("a", 1, b"x"), ("a", 0, b"abc")],
            [("a", -1, b"x")],
            [("a", 1.0, b"x")],
        ],
    )
    def test_partial_writes_that_mean_nothing_are_refused(self, store: Store, writes: Any) -> None:
        store.set("a", TEN)
        with pytest.raises(StoreError, match="a'"):
            store.set_partial_values(writes)
        assert store.get("a") == TEN

    # -- erasing --------------------------------------------------------------------------------------------------

    def test_erase(self, erasable: Store) -> None:
        store = erasable
        store.set("a/b", TEN)
        store.set("a/c", TEN)
        store.erase("a/b")
        assert store.get("a/b") is None
        assert store.get("a/c") == TEN
        store.erase("a/b")
        store.erase("never/there")
        store.set("a/b", b"again")
        assert store.get("a/b") == b"again"

    def test_erase_values(self, erasable: Store) -> None:
        for key in "abc":
            erasable.set(key, TEN)
        erasable.erase_values(["a", "c", "x", "a"])
        assert [erasable.exists(key) for key in "abc"] == [False, True, False]
        erasable.erase_values([])

    @pytest.mark.parametrize("prefix", ["a/", "a/c/", "b/", "x/", ""])
    def test_erase_prefix(self, tree: Store, erasable: Store, prefix: str) -> None:
        keys = list(tree.list())
        tree.erase_prefix(prefix)
        assert sorted(tree.list()) == sorted(key for key in keys if not key.startswith(prefix))

    def test_a_store_without_erase_says_so(self, store: Store) -> None:
        if store.erasable:
            pytest.skip("this store can erase")
        store.set("a", TEN)
        with pytest.raises(UnsupportedError):
            store.erase("a")

    # -- listing --------------------------------------------------------------------------------------------------

    def test_list(self, store: Store) -> None:
        assert list(store.list()) == []
        assert store.list_dir("") == ([], [])
        store.set("b/c", TEN)
        store.set("a", TEN)
        assert sorted(store.list()) == ["a", "b/c"]

    @pytest.mark.parametrize("prefix", ["", "a/", "a/c/", "a/c/0/", "b/", "b/x/y/", "c/", "zarr.json/"])
    def test_list_prefix(self, tree: Store, prefix: str) -> None:
        assert sorted(tree.list_prefix(prefix)) == sorted(
            key for key in tree.list() if key.startswith(prefix)
        )

    @pytest.mark.parametrize(
        ("prefix", "keys", "prefixes"),
        [
            ("", ["zarr.json"], ["a/", "ab/", "b/"]),
            ("a/", ["a/zarr.json"], ["a/c/"]),
            ("a/c/", [], ["a/c/0/"]),
            ("a/c/0/", ["a/c/0/0", "a/c/0/1"], []),
            ("b/", [], ["b/x/"]),
            ("c/", [], []),
        ],
    )
    def test_list_dir(self, tree: Store, prefix: str, keys: list[str], prefixes: list[str]) -> None:
        assert tree.list_dir(prefix) == (keys, prefixes)

    @pytest.mark.parametrize("prefix", ["a", "/", "/a/", "../", "a/../", "a//", "a\\/", "\0/"])
    def test_what_is_no_prefix_is_refused(self, tree: Store, prefix: str) -> None:
        for verb in (tree.list_prefix, tree.list_dir, tree.erase_prefix):
            with pytest.raises(KeyRefusedError):
                verb(prefix)

    # -- versions -------------------------------------------------------------------------------------------------

    def test_a_tag_tells_versions_apart(self, store: Store) -> None:
        store.set("a", b"one")
        one = store.tag("a")
        assert one
        assert store.tag("a") == one
        store.set("a", b"two")
        two = store.tag("a")
        assert two != one
        store.set("b", b"other")
        assert store.tag("a") == two

    def test_set_if(self, store: Store) -> None:
        store.set_if("a", b"one", None)
        with pytest.raises(ConflictError, match="a'"):
            store.set_if("a", b"two", None)
        one = store.tag("a")
        store.set_if("a", b"two", one)
        with pytest.raises(ConflictError, match="a'"):
            store.set_if("a", b"three", one)
        with pytest.raises(ConflictError):
            store.set_if("b", b"x", one)
        assert store.get("a") == b"two"
        assert store.get("b") is None

    # -- open and fetch -------------------------------------------------------------------------------------------

    def test_open_gives_none_for_what_is_absent(self, store: Store) -> None:
        store.set("a", TEN)
        answers = store.open([Open("x"), Open("a", (-3, None)), Open("a/b", ALL), Open("a", (0, 2))])
        assert [answer is not None for answer in answers] == [False, True, False, True]
        assert [bytes(answer.first) for answer in answers if answer is not None] == [b"789", b"01"]
        for answer in answers:
            if answer is not None:
                assert answer.key == self.below + "a"
                assert answer.size in (10, None)
                answer.close()
                answer.close()
        assert store.open([]) == []

    def test_open_without_first_reads_nothing(self, store: Store) -> None:
        store.set("a", TEN)
        with opened(store, "a") as source:
            assert source.first is None
            assert bytes(store.fetch([(source, [(2, 3)])])[0][0]) == b"234"

    def test_open_of_the_whole_tells_its_size(self, store: Store) -> None:
        store.set("a", TEN)
        with opened(store, "a", ALL) as source:
            assert source.size == 10
            assert bytes(source.first) == TEN

    @pytest.mark.parametrize("first", [(0, 4), (-4, None), ALL])
    def test_first_is_skipped_for_the_known_version(self, store: Store, first: Any) -> None:
        store.set("a", TEN)
        with opened(store, "a", first) as source:
            tag = source.tag
        with opened(store, "a", first, tag) as source:
            assert source.first is None
            assert source.tag == tag
            assert bytes(store.fetch([(source, [(0, 1)])])[0][0]) == b"0"
        store.set("a", b"abcdefghij")
        with opened(store, "a", first, tag) as source:
            assert source.first is not None
            assert source.tag != tag

    def test_fetch_is_exact(self, store: Store) -> None:
        store.set("a", TEN)
        store.set("b", b"abc")
        with opened(store, "a", (0, 1)) as a, opened(store, "b", ALL) as b:
            answers = store.fetch([(a, [(9, 1), (0, 10), (3, 0)]), (b, []), (b, [(1, 2)])])
            assert [[bytes(part) for part in parts] for parts in answers] == [[b"9", TEN, b""], [], [b"bc"]]
            assert store.fetch([]) == []

    @pytest.mark.parametrize(
        "window", [(10, 1), (0, 11), (5, 6), (2**62, 8), (0, 2**62), (2**63 - 1, 2**63 - 1)]
    )
    def test_fetch_past_the_end_names_the_key(self, store: Store, window: tuple[int, int]) -> None:
        store.set("a/b", TEN)
        with opened(store, "a/b", (0, 1)) as source, pytest.raises(StoreError, match=rf"a/b'.*{window[0]}"):
            store.fetch([(source, [(0, 1), window])])

    @pytest.mark.parametrize("window", [(-1, 1), (0, -1)])
    def test_fetch_takes_no_negative_numbers(self, store: Store, window: tuple[int, int]) -> None:
        store.set("a", TEN)
        with opened(store, "a", (0, 1)) as source, pytest.raises(StoreError, match="negative"):
            store.fetch([(source, [window])])

    @pytest.mark.parametrize("change", ["set", "put", "erase"])
    def test_a_source_never_mixes_versions(self, store: Store, change: str) -> None:
        if change == "erase" and not store.erasable:
            pytest.skip("this store cannot erase")
        store.set("a", TEN)
        with opened(store, "a", (-4, None)) as source:
            if change == "set":
                store.set("a", b"abcdefghij")
            elif change == "put":
                put(store, "a", b"abcdefghijk")
            else:
                store.erase("a")
            try:
                answers = store.fetch([(source, [(0, 4)])])
            except ConflictError:
                return
            assert bytes(answers[0][0]) == b"0123"

    # -- holds and commits ----------------------------------------------------------------------------------------

    def test_hold_shows_what_is_there(self, store: Store) -> None:
        with store.hold("a", (-2, None)) as hold:
            assert hold.key == self.below + "a"
            assert hold.source is None
        store.set("a", TEN)
        with store.hold("a", (-2, None)) as hold:
            assert hold.source is not None
            assert bytes(hold.source.first) == b"89"
            assert bytes(store.fetch([(hold.source, [(0, 2)])])[0][0]) == b"01"
        assert store.get("a") == TEN

    def test_a_hold_leaves_nothing_behind(self, store: Store) -> None:
        with store.hold("a/b/c"):
            pass
        assert list(store.list()) == []

    def test_put(self, store: Store) -> None:
        assert put(store, "a/b", TEN) in (store.tag("a/b"), None)
        assert store.get("a/b") == TEN
        tag = put(store, "a/b", b"new", (0, 1))
        assert tag in (store.tag("a/b"), None)
        assert store.get("a/b") == b"new"

    def test_put_of_nothing_is_an_empty_object(self, store: Store) -> None:
        with store.hold("a") as hold:
            store.commit([Put(hold, store.sink(hold))])
        assert store.get("a") == b""

    def test_a_sink_takes_pieces_in_any_order(self, store: Store) -> None:
        with store.hold("a") as hold:
            sink = store.sink(hold, 10)
            sink.write(6, b"6789")
            sink.write(0, memoryview(b"012"))
            sink.write(3, bytearray(b"345"))
            assert sink.nbytes in (10, None)
            store.commit([Put(hold, sink)])
            sink.discard()
        assert store.get("a") == TEN

    def test_a_sink_can_be_started_over(self, store: Store) -> None:
        with store.hold("a") as hold:
            store.sink(hold).write(0, b"much longer than the second try")
            sink = store.sink(hold)
            sink.write(0, TEN)
            store.commit([Put(hold, sink)])
        assert store.get("a") == TEN

    def test_nobody_sees_a_sink_before_its_commit(self, store: Store) -> None:
        store.set("a", TEN)
        with store.hold("a") as hold:
            sink = store.sink(hold)
            sink.write(0, b"half")
            assert store.get("a") == TEN
            assert list(store.list()) == ["a"]
            sink.discard()
        assert store.get("a") == TEN

    def test_many_changes_in_one_commit(self, store: Store) -> None:
        keys = [f"c/{i}/{j}" for i in range(5) for j in range(8)]
        if store.erasable:
            store.set("gone", TEN)
        holds = {key: store.hold(key) for key in sorted(keys)}
        changes: list[Any] = []
        for key, hold in holds.items():
            sink = store.sink(hold)
            sink.write(0, key.encode())
            changes.append(Put(hold, sink))
        if store.erasable:
            holds["gone"] = store.hold("gone")
            changes.append(Erase(holds["gone"]))
        tags = store.commit(changes, "rename")
        assert len(tags) == len(changes)
        for hold in holds.values():
            hold.release()
        store.sync()
        assert sorted(store.list()) == sorted(keys)
        assert all(store.get(key) == key.encode() for key in keys)

    def test_holds_of_several_keys_come_in_the_order_asked_for(self, store: Store) -> None:
        store.set("b", TEN)
        holds = store.hold_all(["c", "b", "a"], [None, (-2, None), ALL])
        assert [hold.key for hold in holds] == [self.below + key for key in "cba"]
        assert [hold.source is None for hold in holds] == [True, False, True]
        assert holds[1].source is not None
        assert bytes(holds[1].source.first) == b"89"
        changes = []
        for hold in holds:
            sink = store.sink(hold)
            sink.write(0, hold.key.encode())
            changes.append(Put(hold, sink))
        store.commit(changes)
        for hold in holds:
            hold.release()
        assert all(store.get(key) == (self.below + key).encode() for key in "abc")
        assert store.hold_all([]) == []

    def test_a_blind_hold_replaces_whatever_is_there(self, store: Store) -> None:
        store.set("a", TEN)
        for value in (b"new", b"newer"):
            with store.hold("a", blind=True) as hold:
                sink = store.sink(hold)
                sink.write(0, value)
                tag = store.commit([Put(hold, sink)])[0]
            assert store.get("a") == value
            assert tag in (store.tag("a"), None)
        blind, looked = store.hold_all(["b", "a"], [None, ALL], blind=[True, False])
        assert blind.source is None
        assert looked.source is not None and bytes(looked.source.first) == b"newer"
        sink = store.sink(blind)
        sink.write(0, TEN)
        store.commit([Put(blind, sink)])
        blind.release()
        looked.release()
        assert (store.get("a"), store.get("b")) == (b"newer", TEN)

    def test_a_pinned_look_reads_the_known_version_or_says_so(self, store: Store) -> None:
        """Either the look tells that the object is another one, or the fetch does."""
        store.set("a", TEN)
        known = opened(store, "a", (0, 1)).tag
        with store.open([Open("a", (0, 1), known, pinned=True)])[0] as source:  # type: ignore[union-attr]
            assert source.first is None and source.tag == known
            assert bytes(store.fetch([(source, [(2, 3)])])[0][0]) == b"234"
        store.set("a", b"rewritten, and longer")
        found = store.open([Open("a", (0, 1), known, pinned=True)])[0]
        assert found is not None
        with found:
            if store.fetches_conditionally:
                with pytest.raises(ConflictError):
                    store.fetch([(found, [(2, 3)])])
            else:
                assert found.tag != known
                assert bytes(found.first) == b"r"

    @pytest.mark.parametrize("durability", ["fsync", "rename", "none"])
    def test_erase_through_a_commit(self, erasable: Store, durability: Any) -> None:
        erasable.set("a/b", TEN)
        with erasable.hold("a/b") as hold:
            assert erasable.commit([Erase(hold)], durability) == [None]
        with erasable.hold("a/x") as hold:
            erasable.commit([Erase(hold)], durability)
        erasable.sync()
        assert list(erasable.list()) == []

    def test_a_released_hold_changes_nothing(self, store: Store) -> None:
        store.set("a", TEN)
        hold = store.hold("a")
        sink = store.sink(hold)
        sink.write(0, b"late")
        hold.release()
        hold.release()
        with pytest.raises(StoreError, match="a'"):
            store.commit([Put(hold, sink)])
        assert store.get("a") == TEN

    def test_a_hold_is_used_up_by_a_put(self, store: Store) -> None:
        with store.hold("a") as hold:
            sink = store.sink(hold)
            sink.write(0, TEN)
            store.commit([Put(hold, sink)])
            with pytest.raises(StoreError):
                store.commit([Put(hold, sink)])
        assert store.get("a") == TEN

    def test_holds_exclude_one_another(self, store: Store) -> None:
        store.set("n", b"0")

        def count() -> None:
            for _ in range(25):
                with store.hold("n", ALL) as hold:
                    assert hold.source is not None
                    sink = store.sink(hold)
                    sink.write(0, str(int(bytes(hold.source.first)) + 1).encode())
                    store.commit([Put(hold, sink)], "none")

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.get("n") == b"100"

    def test_a_hold_can_be_waited_for_in_vain(self, store: Store) -> None:
        errors: list[BaseException] = []

        def other(timeout: float) -> None:
            try:
                store.hold("a", timeout=timeout).release()
            except BaseException as error:
                errors.append(error)

        with store.hold("a"), store.hold("b"):
            for timeout in (0, 0.02):
                thread = threading.Thread(target=other, args=(timeout,))
                thread.start()
                thread.join()
        assert [type(error) for error in errors] == [HeldError, HeldError]
        assert isinstance(errors[0], TimeoutError)
        other(0)
        assert len(errors) == 2

    def test_a_thread_does_not_wait_for_itself(self, store: Store) -> None:
        with store.hold("a"):
            with pytest.raises(StoreError, match="this thread"):
                store.hold("a")
            store.hold("b").release()
        store.hold("a").release()

    def test_recover_has_nothing_to_do(self, store: Store) -> None:
        store.set("a", TEN)
        assert store.recover("a") is False
        assert store.recover("x") is False
        assert store.get("a") == TEN

    # -- patches --------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("durability", ["fsync", "rename", "none"])
    @pytest.mark.parametrize("guard", [False, True])
    @pytest.mark.parametrize(
        ("appends", "overwrites", "expected"),
        [
            ([(10, b"ab")], [], TEN + b"ab"),
            ([(12, b"d"), (10, b"ab")], [], TEN + b"ab" + b"d"),
            ([(11, b"b")], [], TEN + b"\0b"),
            ([], [(0, b"AB"), (9, b"Z")], b"AB2345678Z"),
            ([(10, b"ab")], [(3, b"XY")], b"012XY56789ab"),
            ([], [], TEN),
        ],
    )
    def test_patch(
        self, patchable: Store, appends: Any, overwrites: Any, expected: bytes, guard: bool, durability: Any
    ) -> None:
        store = patchable
        with store.hold("p") as hold:
            tag = store.commit([Patch(hold, appends, overwrites, guard)], durability)[0]
            assert store.get("p") == expected
            assert tag == store.tag("p")
            store.commit([Patch(hold, [(len(expected), b"more")], (), guard)], durability)
        assert store.get("p") == expected + b"more"
        assert list(store.list()) == ["p"]
        store.sync()

    @pytest.mark.parametrize(
        ("appends", "overwrites"),
        [([(9, b"x")], []), ([], [(9, b"xy")]), ([], [(-1, b"x")]), ([(0, b"x")], []), ([], [(10, b"x")])],
    )
    def test_patches_at_wrong_places_are_refused(
        self, patchable: Store, appends: Any, overwrites: Any
    ) -> None:
        with patchable.hold("p") as hold:
            with pytest.raises(StoreError, match="p'"):
                patchable.commit([Patch(hold, appends, overwrites)])
        assert patchable.get("p") == TEN
        assert list(patchable.list()) == ["p"]

    def test_what_is_absent_is_not_patched(self, patchable: Store) -> None:
        with patchable.hold("x") as hold, pytest.raises(StoreError, match="x'"):
            patchable.commit([Patch(hold, [(0, b"x")])])
        assert list(patchable.list()) == ["p"]

    def test_a_store_without_patches_says_so(self, store: Store) -> None:
        if store.patchable:
            pytest.skip("this store can patch")
        store.set("p", TEN)
        with store.hold("p") as hold, pytest.raises(UnsupportedError):
            store.commit([Patch(hold, [(10, b"x")])])
        assert store.get("p") == TEN

    # -- the border -----------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("key", HOSTILE, ids=repr)
    def test_hostile_keys_reach_no_verb(self, store: Store, key: str) -> None:
        attempts = [
            lambda: store.get(key),
            lambda: store.get_partial_values([(key, ALL)]),
            lambda: store.exists(key),
            lambda: store.getsize(key),
            lambda: store.tag(key),
            lambda: store.set(key, b"x"),
            lambda: store.set_partial_values([(key, 0, b"x")]),
            lambda: store.set_if(key, b"x", None),
            lambda: store.erase(key),
            lambda: store.erase_values([key]),
            lambda: store.open([Open(key, ALL)]),
            lambda: store.hold(key),
        ]
        for attempt in attempts:
            with pytest.raises(KeyRefusedError):
                attempt()
        assert list(store.list()) == []

    @pytest.mark.parametrize("key", [None, 1, b"a", ("a",)])
    def test_a_key_is_a_string(self, store: Store, key: Any) -> None:
        with pytest.raises(KeyRefusedError):
            store.get(key)
        with pytest.raises(KeyRefusedError):
            store.hold(key)

    # -- faces ----------------------------------------------------------------------------------------------------

    def test_the_read_only_face(self, store: Store) -> None:
        store.set("a", TEN)
        face = store.with_read_only()
        assert face.read_only and not face.writable and not face.erasable
        assert face.get("a") == TEN
        with opened(face, "a", ALL) as source:
            assert bytes(source.first) == TEN
        attempts = [
            lambda: face.set("a", b""),
            lambda: face.set_partial_values([("a", 0, b"x")]),
            lambda: face.set_if("b", b"", None),
            lambda: face.erase("a"),
            lambda: face.erase_prefix(""),
            lambda: face.hold("a"),
            lambda: face.commit([]),
        ]
        for attempt in attempts:
            with pytest.raises(ReadOnlyError):
                attempt()
        assert store.get("a") == TEN

    def test_one_flow_two_drivers(self, store: Store) -> None:
        def double(key: str) -> Any:
            (hold,) = yield Holding([key], [ALL])
            try:
                value = bytes(hold.source.first) if hold.source else b"start"
                grown = yield Working(lambda: value * 2)
                sink = store.sink(hold)
                sink.write(0, grown)
                yield Committing([Put(hold, sink)])
            finally:
                hold.release()
            (source,) = yield Opening([Open(key, (0, 1))])
            ((part,),) = yield Fetching([(source, [(0, len(grown))])])
            source.close()
            return bytes(part)

        assert run(double("a"), store) == b"startstart"
        assert asyncio.run(run_async(double("a"), store)) == b"startstart" * 2

    def test_a_store_closes(self, store: Store) -> None:
        with store as same:
            same.set("a", TEN)
            assert same is store
        store.close()
