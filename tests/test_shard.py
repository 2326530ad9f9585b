"""The bytes of a shard: what an index may claim, which bytes are alive, and in which order chunks lie."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terrazzo import shard
from terrazzo.errors import ShardError
from terrazzo.shard import (
    EMPTY,
    check_entries,
    dead_ranges,
    empty_entries,
    index_range,
    order,
    overlaps,
)


def entries(*pairs: tuple[int, int]) -> np.ndarray:
    return np.array(pairs, np.uint64).reshape(-1, 2)


def test_index_range() -> None:
    assert index_range("end", 36) == (-36, None)
    assert index_range("start", 36) == (0, 36)


def test_empty_entries() -> None:
    empty = empty_entries(3)
    assert empty.dtype == np.uint64
    assert empty.tolist() == [[EMPTY, EMPTY]] * 3
    check_entries(empty, 52, (0, 52), True, "shard")


WRONG = {
    "offset empty alone": ((EMPTY, 0), "only one of the two"),
    "nbytes empty alone": ((0, EMPTY), "only one of the two"),
    "sum wraps": ((2**63, 2**63 + 50), "past the end"),
    "sum wraps to inside": ((EMPTY - 1, 12), "past the end"),
    "largest nbytes": ((0, EMPTY - 1), "past the end"),
    "one byte too many": ((60, 41), "past the end"),
    "offset past the end": ((101, 1), "past the end"),
}
DOUBTFUL = {
    "no bytes": ((10, 0), "at least one byte"),
    "no bytes at the very end": ((100, 0), "at least one byte"),
    "in the index": ((70, 10), "lies in the index"),
    "into the index": ((60, 9), "lies in the index"),
    "around the index": ((0, 100), "lies in the index"),
    "last byte": ((99, 1), "lies in the index"),
}


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("entry, fault", WRONG.values(), ids=WRONG)
def test_entries_that_are_always_wrong(entry: tuple[int, int], fault: str, strict: bool) -> None:
    table = entries((0, 5), (EMPTY, EMPTY), entry)
    with pytest.raises(ShardError, match=fault) as caught:
        check_entries(table, 100, (64, 100), strict, "shard 'a/c/0'")
    assert "shard 'a/c/0'" in str(caught.value)
    assert "inner chunk number 2" in str(caught.value)


@pytest.mark.parametrize("entry, fault", DOUBTFUL.values(), ids=DOUBTFUL)
def test_entries_that_strictness_refuses(entry: tuple[int, int], fault: str) -> None:
    table = entries((0, 5), entry)
    with pytest.raises(ShardError, match=fault):
        check_entries(table, 100, (64, 100), True, "shard")
    check_entries(table, 100, (64, 100), False, "shard")


def test_the_message_names_coordinates_and_counts() -> None:
    table = empty_entries(6)
    table[4] = (7, EMPTY)
    table[5] = (0, 1000)
    with pytest.raises(
        ShardError, match=r"inner chunk \(1, 1\).*offset 7, nbytes 2\^64-1.*1 more entries of 6"
    ):
        check_entries(table, 100, (4, 100), True, "shard", (2, 3))
    with pytest.raises(ShardError, match=r"inner chunk \(\)"):
        check_entries(table[4:5], 100, (80, 100), True, "shard", ())


def test_entries_that_are_right() -> None:
    check_entries(entries((0, 64)), 100, (64, 100), True, "shard")
    check_entries(entries((36, 64)), 100, (0, 36), True, "shard")
    check_entries(entries((0, 5), (0, 5), (3, 4)), 100, (64, 100), True, "shard")  # sharing bytes is legal


spans = st.tuples(st.integers(0, 30), st.integers(0, 10))


@settings(max_examples=80)
@given(st.lists(spans, max_size=7), st.integers(0, 12), st.booleans())
def test_dead_ranges_and_overlaps_by_counting_bytes(
    pairs: list[tuple[int, int]], gap: int, at_start: bool
) -> None:
    index_nbytes = 6
    if at_start:
        pairs = [(offset + index_nbytes, nbytes) for offset, nbytes in pairs]
    end = max([offset + nbytes for offset, nbytes in pairs], default=index_nbytes if at_start else 0) + gap
    span = (0, index_nbytes) if at_start else (end, end + index_nbytes)
    size = max(end, span[1])
    table = entries(*pairs, (EMPTY, EMPTY))

    alive = np.zeros(size, int)
    for offset, nbytes in pairs:
        alive[offset : offset + nbytes] += 1
    shared = [i for i, (offset, nbytes) in enumerate(pairs) if (alive[offset : offset + nbytes] > 1).any()]
    assert overlaps(table).tolist() == shared

    alive[span[0] : span[1]] += 1
    dead = dead_ranges(table, size, span)
    assert (dead[:, 1] > 0).all()
    found = np.zeros(size, bool)
    for offset, nbytes in dead:
        assert not found[offset : offset + nbytes].any()
        found[offset : offset + nbytes] = True
    np.testing.assert_array_equal(found, alive == 0)
    assert (np.diff(dead[:, 0]) > 0).all()


@pytest.mark.parametrize("kind", ["C", "F", "morton"])
@pytest.mark.parametrize("count", [(), (1,), (7,), (4, 4), (3, 5), (1, 6, 1), (2, 3, 5), (8, 2)])
def test_orders_are_permutations(kind: str, count: tuple[int, ...]) -> None:
    sequence = order(kind, count)
    assert sequence.dtype == np.int64
    assert sorted(sequence.tolist()) == list(range(int(np.prod(count))))


def test_orders_by_hand() -> None:
    assert order("C", (2, 3)).tolist() == [0, 1, 2, 3, 4, 5]
    assert order("F", (2, 3)).tolist() == [0, 3, 1, 4, 2, 5]
    assert order("morton", (4, 4)).tolist() == [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15]
    assert order("morton", (3, 3)).tolist() == [0, 1, 3, 4, 2, 5, 6, 7, 8]
    assert order("morton", (2, 5)).tolist() == [0, 1, 5, 6, 2, 3, 7, 8, 4, 9]


def test_morton_keeps_blocks_together() -> None:
    sequence = order("morton", (8, 8, 8)).tolist()
    corner = {i * 64 + j * 8 + k for i, j, k in itertools.product(range(4), repeat=3)}
    assert set(sequence[:64]) == corner


def test_orders_are_shared_and_protected() -> None:
    assert order("morton", (4, 6)) is order("morton", (4, 6))
    with pytest.raises(ValueError, match="read-only"):
        order("morton", (4, 6))[0] = 1


def test_an_unknown_order() -> None:
    with pytest.raises(ValueError, match=r"'hilbert'.*'morton'"):
        order("hilbert", (2, 2))


@given(
    entries=st.lists(
        st.tuples(
            st.sampled_from([0, 1, 15, 16, 20, 99, 100, 101, 2**63, 2**64 - 1, 2**64 - 2]),
            st.sampled_from([0, 1, 4, 16, 80, 84, 100, 101, 2**63, 2**64 - 1, 2**64 - 16]),
        ),
        max_size=6,
    ),
    span=st.sampled_from([(0, 16), (84, 100), (0, 100), (100, 100), (0, 0)]),
)
def test_what_passes_at_a_glance_passes_every_check(
    entries: list[tuple[int, int]], span: tuple[int, int]
) -> None:
    table = np.array(entries, np.uint64).reshape(-1, 2)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shard, "_are_right", lambda *_: False)
            check_entries(table, 100, span, True, "shard")
    except ShardError:
        assert not shard._are_right(table, 100, span)
    else:
        assert span != (84, 100) or shard._are_right(table, 100, span)
