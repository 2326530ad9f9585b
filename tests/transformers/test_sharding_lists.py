"""Every form in which the sharding transformer lists and erases, in both places of the draft and with both separators;
and configurations and shards that are hostile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terrazzo.dialects.draft import DraftKeys
from terrazzo.errors import LimitError, MetadataError, TerrazzoError
from terrazzo.storage import MemoryStore
from terrazzo.stores.watching import CountingStore
from terrazzo.transformers import Sharding, ShardingStore

#: where chunks lie: of zarr-python, of the letter, of an array at the root in either
PREFIXES = ("data/root/foo/baz/", "data/foo/baz/", "data/root/", "data/")
STORED = [(0, 0, 0), (0, 0, 1), (1, 2, 3), (5, 0, 2)]


def filled(
    prefix: str, separator: str, counts: tuple[int, ...] = (2, 2, 2)
) -> tuple[MemoryStore, ShardingStore]:
    below = MemoryStore()
    store = ShardingStore(below, prefix, DraftKeys(separator), counts)
    store.set_values([(key(prefix, separator, index), bytes(index)) for index in STORED])
    below.set("zarr.json", b"{}")
    below.set("meta/foo/baz.array.json", b"{}")
    return below, store


def key(prefix: str, separator: str, index: tuple[int, ...]) -> str:
    return prefix + "c" + separator.join(map(str, index))


@pytest.mark.parametrize("separator", ["/", "."])
@pytest.mark.parametrize("prefix", PREFIXES)
def test_list_and_list_prefix(prefix: str, separator: str) -> None:
    _, store = filled(prefix, separator)
    chunks = sorted(key(prefix, separator, index) for index in STORED)
    assert sorted(store.list()) == sorted([*chunks, "zarr.json", "meta/foo/baz.array.json"])
    assert sorted(store.list_prefix("data/")) == chunks
    assert sorted(store.list_prefix(prefix)) == chunks
    assert sorted(store.list_prefix("meta/")) == ["meta/foo/baz.array.json"]
    if separator == "/":
        assert sorted(store.list_prefix(f"{prefix}c0/")) == chunks[:2]
        assert sorted(store.list_prefix(f"{prefix}c0/0/")) == chunks[:2]
        assert sorted(store.list_prefix(f"{prefix}c1/2/")) == [chunks[2]]
        for nothing in ("c4/", "c0/1/", "c9/", "c1/3/"):
            assert list(store.list_prefix(prefix + nothing)) == []


@pytest.mark.parametrize("prefix", PREFIXES)
def test_list_dir_tells_prefixes_that_may_be_empty_and_keys_that_are(prefix: str) -> None:
    below, store = filled(prefix, "/")
    # whole shards are told by their range of chunks, without a look at an index
    assert below.list_dir(prefix)[1] == [f"{prefix}c0/", f"{prefix}c2/"]
    counting = CountingStore(below)
    store = ShardingStore(counting, prefix, DraftKeys("/"), (2, 2, 2))
    assert store.list_dir(prefix) == ([], [f"{prefix}c{i}/" for i in (0, 1, 4, 5)])
    assert counting.counts.read_nbytes == 0
    assert store.list_dir(f"{prefix}c0/") == ([], [f"{prefix}c0/{j}/" for j in range(4)])
    assert store.list_dir(f"{prefix}c0/0/") == ([f"{prefix}c0/0/0", f"{prefix}c0/0/1"], [])
    assert store.list_dir(f"{prefix}c0/1/") == ([], [])
    assert store.list_dir(f"{prefix}c5/0/") == ([f"{prefix}c5/0/2"], [])
    assert store.list_dir("") == (["zarr.json"], ["data/", "meta/"])


@pytest.mark.parametrize("prefix", PREFIXES)
def test_list_dir_of_keys_without_folders(prefix: str) -> None:
    _, store = filled(prefix, ".")
    assert store.list_dir(prefix) == (sorted(key(prefix, ".", index) for index in STORED), [])


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(
    ("part", "left"),
    [
        ("", []),
        ("c0/", [(1, 2, 3), (5, 0, 2)]),
        ("c0/0/", [(1, 2, 3), (5, 0, 2)]),
        ("c1/", [(0, 0, 0), (0, 0, 1), (5, 0, 2)]),
        ("c4/", STORED),
        ("c5/0/", STORED[:3]),
    ],
)
def test_erase_prefix(prefix: str, part: str, left: list[tuple[int, ...]]) -> None:
    below, store = filled(prefix, "/")
    store.erase_prefix(prefix + part)
    assert sorted(store.list_prefix("data/")) == sorted(key(prefix, "/", index) for index in left)
    assert below.exists("zarr.json")
    assert below.exists("meta/foo/baz.array.json")
    shards = {tuple(i // 2 for i in index) for index in left}
    assert sorted(below.list_prefix("data/")) == sorted(key(prefix, "/", shard) for shard in shards)


def test_a_scalar_has_one_chunk() -> None:
    below = MemoryStore()
    store = ShardingStore(below, "data/root/a/", DraftKeys("/", "c0"), ())
    store.set("data/root/a/c0", b"x")
    assert list(store.list()) == ["data/root/a/c0"]
    assert store.list_dir("data/root/a/") == (["data/root/a/c0"], [])
    assert len(below.get("data/root/a/c0") or b"") == 17
    store.erase("data/root/a/c0")
    assert list(below.list()) == []


# hostile


@pytest.mark.parametrize(
    "configuration",
    [
        {},
        {"chunks_per_shard": 3},
        {"chunks_per_shard": "22"},
        {"chunks_per_shard": [2, 0]},
        {"chunks_per_shard": [2, -1]},
        {"chunks_per_shard": [True]},
        {"chunks_per_shard": [1.0]},
        {"chunks_per_shard": [1 << 40]},
        {"chunks_per_shard": [2], "type": "linear"},
        {"chunks_per_shard": [2], "more": 1},
        {"chunks_per_shard": None},
    ],
)
def test_wrong_configurations(configuration: dict[str, Any]) -> None:
    with pytest.raises(MetadataError):
        Sharding.from_configuration(configuration, "storage_transformers[0]")


def test_shards_of_more_chunks_than_an_index_may_have() -> None:
    with pytest.raises(LimitError, match="entry for each"):
        ShardingStore(MemoryStore(), "", DraftKeys("/"), (1 << 20, 1 << 20))


@settings(max_examples=100, deadline=None)
@given(
    shard=st.binary(max_size=150),
    entries=st.lists(
        st.tuples(*[st.integers(0, 100) | st.integers(2**63 - 3, 2**64 - 1)] * 2), min_size=4, max_size=4
    ),
)
def test_any_shard_is_read_changed_and_listed_or_refused(
    shard: bytes, entries: list[tuple[int, int]]
) -> None:
    for content in (shard, shard + np.array(entries, np.uint64).astype("<u8").tobytes()):
        below = MemoryStore()
        below.set("a/c0/0", content)
        _use(ShardingStore(below, "a/", DraftKeys("/"), (2, 2)))


def _use(store: ShardingStore) -> None:
    for work in (
        lambda: store.get("a/c0/1"),
        lambda: store.getsize("a/c1/1"),
        lambda: list(store.list()),
        lambda: store.list_dir("a/c0/"),
        lambda: store.erase("a/c0/0"),
        lambda: store.set("a/c0/1", b"new"),
        lambda: store.erase_prefix("a/c1/"),
    ):
        try:
            work()
        except TerrazzoError:
            continue
