"""The draft's sharding transformer: the same as a store without it, in as many requests as the draft says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import terrazzo
from terrazzo.chunk_keys import ChunkKeys, DefaultKeys, V2Keys
from terrazzo.dialects.draft import DraftKeys
from terrazzo.errors import MetadataError, ShardError
from terrazzo.storage import MemoryStore
from terrazzo.stores.watching import CountingStore
from terrazzo.transformers import Sharding, ShardingStore

KEYS = [DraftKeys("/"), DraftKeys("."), DefaultKeys("/"), V2Keys(".")]
P = "data/root/a/"


def key(*index: int, keys: ChunkKeys = KEYS[0]) -> str:
    return P + keys.key(index)


def made(counts: tuple[int, ...] = (2, 2), **how: Any) -> tuple[CountingStore, ShardingStore]:
    below = CountingStore(MemoryStore())
    return below, ShardingStore(below, P, KEYS[0], counts, **how)


def entries(shard: bytes, n: int = 4) -> Any:
    return np.frombuffer(shard[-16 * n :], "<u8").reshape(-1, 2).tolist()


EMPTY = [2**64 - 1, 2**64 - 1]


def test_a_chunk_lies_in_the_shard_of_the_drafts_example() -> None:
    store = ShardingStore(MemoryStore(), "data/root/foo/baz/", DraftKeys("/"), (32, 2))
    store.set("data/root/foo/baz/c96/18", b"x")
    assert list(store.store.list()) == ["data/root/foo/baz/c3/9"]
    shard = store.store.get("data/root/foo/baz/c3/9") or b""
    assert len(shard) == 1 + 16 * 64
    assert entries(shard, 64)[0] == [0, 1]
    assert list(store.list()) == ["data/root/foo/baz/c96/18"]


def test_other_keys_are_handed_on() -> None:
    below, store = made()
    store.set("meta/root/a.array.json", b"{}")
    store.set("data/root/b/c0/0", b"other")
    assert below.get("data/root/b/c0/0") == b"other"
    assert store.get_partial_values([("data/root/b/c0/0", (1, 2)), (key(0, 0), (0, None))]) == [b"th", None]
    assert sorted(store.list()) == ["data/root/b/c0/0", "meta/root/a.array.json"]
    assert store.getsize("data/root/b/c0/0") == 5
    store.erase("data/root/b/c0/0")
    assert not store.exists("data/root/b/c0/0")


def test_reads_take_two_calls() -> None:
    below, store = made()
    wanted = {key(i, j): bytes([i, j]) * (i + 1) for i in range(4) for j in range(4) if (i, j) != (3, 3)}
    store.set_values(wanted.items())
    below.reset()
    asked = [*wanted, key(3, 3), key(9, 9)]
    assert store.get_partial_values([(one, (0, None)) for one in asked]) == [*wanted.values(), None, None]
    assert below.round_trips == 2
    below.reset()
    assert store.get_partial_values([(key(2, 1), (1, 3)), (key(2, 1), (-2, None))]) == [b"\1\2\1", b"\2\1"]
    assert below.round_trips == 2


def test_a_whole_shard_is_written_without_a_read() -> None:
    for verb in ("set_values", "set_partial_values"):
        below, store = made()
        below.set(key(0, 0), b"what was there, even where it is no shard")
        below.reset()
        chunks = [(key(i, j), bytes([i, j])) for i in range(2) for j in range(2)]
        if verb == "set_values":
            store.set_values(chunks)
        else:
            store.set_partial_values([(one, 0, value) for one, value in chunks])
        assert below.counts.read_nbytes == 0
        assert [store.get(one) for one, _ in chunks] == [value for _, value in chunks]


def test_an_erased_chunk_is_one_write_into_the_index() -> None:
    below, store = made()
    store.set_values([(key(i, j), b"12345678") for i in range(2) for j in range(2)])
    before = below.get(key(0, 0)) or b""
    below.reset()
    store.erase(key(0, 1))
    assert below.counts.written_nbytes == 64
    after = below.get(key(0, 0)) or b""
    assert after[:32] == before[:32]
    assert entries(after) == [[0, 8], EMPTY, [16, 8], [24, 8]]
    assert store.get(key(0, 1)) is None
    store.erase(key(0, 1))
    store.erase_values([key(0, 0), key(1, 0)])
    assert below.exists(key(0, 0))
    store.erase(key(1, 1))
    assert not below.exists(key(0, 0))
    store.set_values([(key(i, j), b"1") for i in range(2) for j in range(2)])
    below.reset()
    store.erase_values([key(i, j) for i in range(2) for j in range(2)])
    assert below.counts.read_nbytes == 0
    assert not below.exists(key(0, 0))


def test_appending_reads_the_index_alone() -> None:
    below, store = made(writing="append")
    store.set(key(0, 0), bytes(1000))
    below.reset()
    store.set(key(0, 1), b"new")
    assert below.counts.read_nbytes == 64
    shard = below.get(key(0, 0)) or b""
    assert len(shard) == 1000 + 64 + 3 + 64
    assert entries(shard) == [[0, 1000], [1064, 3], EMPTY, EMPTY]
    store.set(key(0, 0), b"short")
    assert (store.get(key(0, 0)), store.get(key(0, 1))) == (b"short", b"new")


def test_listing_translates_prefixes() -> None:
    below, store = made()
    for index in ((0, 0), (1, 3), (5, 2)):
        store.set(key(*index), b"x")
    assert sorted(store.list_prefix(P)) == [key(0, 0), key(1, 3), key(5, 2)]
    assert list(store.list_prefix(P + "c1/")) == [key(1, 3)]
    assert store.list_dir("data/root/") == ([], [P])
    # every chunk that the shards c0/ and c2/ may hold
    assert store.list_dir(P) == ([], [P + f"c{i}/" for i in (0, 1, 4, 5)])
    assert store.list_dir(P + "c1/") == ([key(1, 3)], [])
    assert store.list_dir(P + "c4/") == ([], [])
    assert below.list_dir(P) == ([], [P + "c0/", P + "c2/"])


def test_prefixes_are_erased_by_chunks() -> None:
    below, store = made()
    for index in ((0, 0), (1, 0), (1, 3), (5, 2)):
        store.set(key(*index), b"x")
    store.erase_prefix(P + "c1/")
    assert sorted(store.list()) == [key(0, 0), key(5, 2)]
    assert sorted(below.list()) == [key(0, 0), key(2, 1)]
    store.erase_prefix(P)
    assert list(below.list()) == []


@pytest.mark.parametrize("writing", ["replace", "append"])
def test_a_value_may_be_empty(writing: Any) -> None:
    below = MemoryStore()
    store = ShardingStore(below, P, KEYS[0], (2, 2), writing)
    store.set(key(0, 0), b"")
    store.set(key(0, 1), b"x")
    store.set(key(1, 1), b"")
    assert (store.get(key(0, 0)), store.get(key(0, 1)), store.get(key(1, 0))) == (b"", b"x", None)
    assert store.exists(key(0, 0)) and store.getsize(key(1, 1)) == 0
    store.erase(key(0, 1))
    assert sorted(store.list()) == [key(0, 0), key(1, 1)]


def test_damaged_shards_are_told() -> None:
    below, store = made()
    below.set(key(0, 0), b"short")
    with pytest.raises(ShardError, match="fewer than the 64"):
        store.get(key(0, 0))
    index = np.array([[0, 500], EMPTY, [1 << 63, 1], EMPTY], "<u8").tobytes()
    below.set(key(0, 0), index)
    with pytest.raises(ShardError, match="past its end"):
        store.get(key(0, 0))
    with pytest.raises(ShardError, match="cannot be right"):
        store.get(key(1, 0))
    with pytest.raises(ShardError, match="past the end"):
        store.set(key(0, 1), b"x")


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["set", "partial", "erase", "erase many", "prefix"]),
        st.tuples(st.integers(0, 4), st.integers(0, 4)),
        st.binary(max_size=6),
        st.integers(0, 4),
    ),
    max_size=20,
)


@pytest.mark.parametrize("kind", ["replace", "append", "stacked", "plain store", "v2", "default", "dots"])
@given(operations=OPERATIONS)
@settings(max_examples=40, deadline=None)
def test_it_is_a_store_like_any_other(kind: str, operations: list[Any]) -> None:
    """Whatever is done to it, it holds what a store without shards would."""
    keys = {"v2": KEYS[3], "default": KEYS[2], "dots": KEYS[1]}.get(kind, KEYS[0])
    below: Any = {} if kind == "plain store" else MemoryStore()
    if kind == "plain store":  # a mapping: nothing can be changed in place there
        below = terrazzo.open_group(below).store
        below.erase("zarr.json")
    if kind == "stacked":
        below = ShardingStore(below, P, keys, (3, 1))
    store = ShardingStore(below, P, keys, (2, 3), writing="append" if kind == "append" else "replace")
    model = MemoryStore()
    for verb, index, value, start in operations:
        one = key(*index, keys=keys)
        for each in (store, model):
            if verb == "set":
                each.set(one, value)
            elif verb == "partial":
                each.set_partial_values(
                    [(one, start, value), (key(0, 0, keys=keys), 0, b"first")][
                        : 1 + (one != key(0, 0, keys=keys))
                    ]
                )
            elif verb == "erase":
                each.erase(one)
            elif verb == "erase many":
                each.erase_values([key(i, index[1], keys=keys) for i in range(5)])
            elif verb == "prefix" and kind in ("replace", "append", "stacked", "plain store"):
                each.erase_prefix(P + f"c{index[0]}/")
        assert sorted(store.list()) == sorted(model.list())
        assert sorted(store.list_prefix(P)) == sorted(model.list_prefix(P))
    found = sorted(model.list())
    assert store.get_partial_values([(one, (0, None)) for one in found]) == [model.get(one) for one in found]
    assert [store.getsize(one) for one in found] == [model.getsize(one) for one in found]
    if kind in ("replace", "append", "stacked", "plain store"):
        for row in range(5):
            assert store.list_dir(P + f"c{row}/")[0] == model.list_dir(P + f"c{row}/")[0]
        assert set(store.list_dir(P)[1]) >= set(model.list_dir(P)[1])


def test_both_ways_to_read_shards_agree() -> None:
    """The transformer over an array of the draft, and the codec that such an array is read by."""
    values = np.arange(63.0).reshape(9, 7)
    store: dict[str, bytes] = {}
    array = terrazzo.create_array(
        store, name="a", data=values, chunks=(2, 3), shards=(4, 6), compressors=None, dialect="P"
    )
    below = array.store.store
    chunks = ShardingStore(below, P, DraftKeys("/"), (2, 2))
    assert chunks.get(key(3, 1)) == values[6:8, 3:6].tobytes()
    chunks.set(key(1, 0), (-values[2:4, :3]).tobytes())
    changed = values.copy()
    changed[2:4, :3] *= -1
    np.testing.assert_array_equal(terrazzo.open(store, path="a", mode="r")[...], changed)


def test_documents_may_name_it_as_a_transformer() -> None:
    values = np.arange(63).reshape(9, 7)
    store: dict[str, bytes] = {}
    array = terrazzo.create_array(store, data=values, chunks=(2, 3), storage_transformers=[Sharding((2, 2))])
    assert len([one for one in store if one.startswith("c/")]) == 6
    array[3, :] = -1
    again = terrazzo.open_array(store, mode="r")
    assert again[3].tolist() == [-1] * 7
    np.testing.assert_array_equal(again[4:], values[4:])
    for wrong in (
        {"chunks_per_shard": [0, 2]},
        {"chunks_per_shard": [2, 2], "type": "x"},
        {},
        {"chunks_per_shard": [2], "y": 1},
    ):
        with pytest.raises(MetadataError):
            Sharding.from_configuration(wrong, "storage_transformers[0]")
