"""Small reads of known shards: the same values, errors and requests as any read, and nothing that is out of date."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import terrazzo
from terrazzo.errors import ChecksumError, ChunkNotFoundError, TerrazzoError
from terrazzo.read import flow
from terrazzo.stores.local import LocalStore
from terrazzo.stores.memory import MemoryStore
from terrazzo.stores.watching import CountingStore

SHAPE = (48, 40)
VALUES = np.arange(48 * 40, dtype="u4").reshape(SHAPE)
VALUES[8:16, 8:24] = 0  # inner chunks that are not stored
VALUES[:16, 32:] = 0


def made(store: Any, **how: Any) -> Any:
    array = terrazzo.create_array(store, shape=SHAPE, chunks=(8, 8), shards=(16, 16), dtype="u4", **how)
    array[...] = VALUES
    array[...]
    return array


KNOWN = made(MemoryStore())


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The flow for everything else is not there."""

    def refuse(*_: Any) -> Any:
        raise AssertionError("this is not read as a small selection")

    monkeypatch.setattr(flow, "_with_second_looks", refuse)


@st.composite
def places(draw: st.DrawFn) -> tuple[Any, ...]:
    found: list[Any] = []
    for n in SHAPE:
        if draw(st.booleans()):
            found.append(draw(st.integers(-n, n - 1)))
        else:
            start = draw(st.integers(0, n - 1))
            found.append(
                slice(
                    start, draw(st.integers(start + 1, min(n, start + 20))), draw(st.sampled_from([None, 1]))
                )
            )
    return tuple(found)


@given(place=places())
def test_a_small_selection_is_numpys(place: tuple[Any, ...]) -> None:
    found = KNOWN[place]
    np.testing.assert_array_equal(found, VALUES[place])
    assert np.shape(found) == np.shape(VALUES[place])


@given(chosen=st.lists(places(), max_size=12))
def test_many_small_selections_are_single_ones(chosen: list[tuple[Any, ...]]) -> None:
    for found, place in zip(KNOWN.read_many(chosen), chosen, strict=True):
        np.testing.assert_array_equal(found, VALUES[place])


@pytest.mark.usefixtures("refused")
def test_known_shards_need_no_other_flow() -> None:
    np.testing.assert_array_equal(KNOWN[4:20, 6:20], VALUES[4:20, 6:20])
    with pytest.raises(AssertionError):
        terrazzo.open_array(KNOWN.store)[:3, :3]  # its index is not known yet
    with pytest.raises(AssertionError):
        KNOWN[:, ::2]


def test_a_shard_that_was_changed_or_erased_is_seen(tmp_path: Path) -> None:
    array, other = made(LocalStore(tmp_path)), terrazzo.open_array(tmp_path, mode="r+")
    chosen = [(slice(0, 8), slice(0, 8)), (slice(16, 24), slice(0, 8))]
    other[:8, :8] = 7
    assert (array[:8, :8] == 7).all()
    other[:8, :8] = 8
    first, second = array.read_many(chosen)
    assert (first == 8).all()
    np.testing.assert_array_equal(second, VALUES[16:24, :8])
    other[:16, :16] = 0
    assert not array[:8, :8].any()


def test_a_chunk_that_does_not_decode_is_told_as_by_any_read(tmp_path: Path) -> None:
    array = made(LocalStore(tmp_path))
    path = tmp_path / "c/1/1"
    array[17, 17]
    with open(path, "r+b") as file:
        entry = array.index_cache.get("c/1/1").entries[0].tolist()
        file.seek(entry[0] + entry[1] - 2)
        file.write(b"\xff\xff")
    told = []
    for read in (lambda: array[17, 17], lambda: array.read_many([(17, 17), (3, 3)]), lambda: array[16:32, :]):
        with pytest.raises(TerrazzoError) as caught:
            read()
        told.append((type(caught.value), str(caught.value).split(":")[0]))
    assert len(set(told)) == 1
    assert told[0][0] is ChecksumError


def test_what_is_not_stored_can_be_an_error() -> None:
    array = made(MemoryStore()).using(missing="error")
    array[0, 0]
    array[0, 1]
    with pytest.raises(ChunkNotFoundError):
        array[9, 9]


def test_a_look_at_each_shard_and_nothing_else() -> None:
    store = CountingStore(MemoryStore())
    array = made(store)
    store.reset()
    array[12:20, 12:20]
    assert dict(store.counts.requests) == {"open": 4}
    assert dict(store.counts.round_trips) == {"open": 1}
    store.reset()
    array.read_many([(slice(0, 8), slice(0, 8)), (slice(8, 9), slice(4, 12)), (20, 20)])
    assert dict(store.counts.requests) == {"open": 2}
    assert dict(store.counts.round_trips) == {"open": 1}
