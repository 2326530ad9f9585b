"""What was understood before is used again for the same bytes only, and nothing of it can be changed by a caller."""

from __future__ import annotations

import numpy as np
import pytest

import terrazzo
from terrazzo.arrays import remembered
from terrazzo.codecs import registry
from terrazzo.errors import UnknownCodecError
from terrazzo.stores.memory import MemoryStore


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "_nodes", remembered._Recent())
    monkeypatch.setattr(remembered, "_layouts", remembered._Recent())


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    array = terrazzo.create_array(
        store, shape=(64, 64), chunks=(8, 8), shards=(32, 32), dtype="u2", attributes={"deep": {"list": [1]}}
    )
    array[...] = np.arange(64 * 64, dtype="u2").reshape(64, 64)
    return store


def test_the_same_bytes_are_understood_once(store: MemoryStore) -> None:
    one, other = terrazzo.open_array(store), terrazzo.open_array(store)
    assert one.layout is other.layout
    assert one.index_cache is not other.index_cache
    np.testing.assert_array_equal(one[...], other[...])


def test_attributes_are_each_array_s_own(store: MemoryStore) -> None:
    one = terrazzo.open_array(store)
    one.metadata.attributes["deep"]["list"].append(2)
    assert terrazzo.open_array(store).attrs["deep"] == {"list": [1]}


def test_a_changed_document_is_seen(store: MemoryStore) -> None:
    one = terrazzo.open_array(store)
    one.resize((96, 64))
    one.attrs["new"] = 1
    other = terrazzo.open_array(store)
    assert (other.shape, other.attrs["new"]) == ((96, 64), 1)
    assert other.layout.edges == ((96, 32, 8), (64, 32, 8))
    assert not other[64:].any()


def test_options_and_places_are_told_apart(store: MemoryStore) -> None:
    store.set("below/zarr.json", store.get("zarr.json") or b"")
    root, below = terrazzo.open_array(store), terrazzo.open_array(store, path="below")
    assert (root.layout.prefix, below.layout.prefix) == ("", "below/")
    assert terrazzo.open_array(store, config={"threads": 1}).layout.options.threads == 1


def test_a_codec_that_is_not_known_any_more_is_not_remembered(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    terrazzo.open_array(store)
    known = {name: codec for name, codec in registry._codecs.items() if name != "zstd"}
    monkeypatch.setattr(registry, "_codecs", known)
    with pytest.raises(UnknownCodecError):
        terrazzo.open_array(store)


def test_few_are_remembered() -> None:
    recent: remembered._Recent[int] = remembered._Recent()
    for number in range(200):
        recent.put(number, number)
    assert [recent.get(number) for number in (0, 135, 136, 199)] == [None, None, 136, 199]
