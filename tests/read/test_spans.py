"""Which bytes are asked for: every range lies in its span, gaps cost less than requests, and lots fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terrazzo.errors import ShardError
from terrazzo.read.pieces import fetch_pieces
from terrazzo.read.spans import BEYOND_NEED, joined, lots
from terrazzo.stores.contract import Cost, Source

NEAR, FAR = Cost(0.0, 1e9), Cost(0.02, 1e8)
Array = np.ndarray[Any, Any]


def columns(ranges: list[tuple[int, int, int]]) -> tuple[Array, Array, Array]:
    number, start, length = np.array(ranges, np.int64).reshape(-1, 3).T
    return number, start, length


ranges = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 5000), st.integers(0, 300)), min_size=1, max_size=60
)


@given(ranges, st.sampled_from([NEAR, FAR, Cost(0.02, 1e3), Cost(1.0, 1e12)]))
@settings(max_examples=100, deadline=None)
def test_spans_cover_what_is_asked_for_and_little_else(asked: list[tuple[int, int, int]], cost: Cost) -> None:
    number, start, length = columns(asked)
    spans = joined(number, start, length, cost)
    assert (spans.number[spans.span] == number).all()
    assert (spans.start[spans.span] + spans.offset == start).all()
    assert (spans.offset >= 0).all() and (spans.offset + length <= spans.length[spans.span]).all()
    for k in range(5):
        needed = np.zeros(6000, np.bool_)
        read = np.zeros(6000, np.int64)
        for one, begin, n in asked:
            if one == k:
                needed[begin : begin + n] = True
        mine = spans.number == k
        for begin, n in zip(spans.start[mine].tolist(), spans.length[mine].tolist(), strict=True):
            read[begin : begin + n] += 1
        assert read.max() <= 1  # nothing twice
        beyond = int((read.astype(bool) & ~needed).sum())
        if not cost.far:
            assert beyond == 0
        assert beyond <= BEYOND_NEED * needed.sum()
        stops = spans.start[mine] + spans.length[mine]
        assert (spans.start[mine][1:] > stops[:-1]).all()  # what touches is one
    grouped = dict(spans.of_objects())
    assert sorted(grouped) == sorted(set(number.tolist()))
    assert [one for of in sorted(grouped) for one in grouped[of]] == list(
        zip(spans.start.tolist(), spans.length.tolist(), strict=True)
    )


@given(ranges, st.integers(1, 2000), st.sampled_from([NEAR, FAR]))
@settings(max_examples=100, deadline=None)
def test_lots_hold_every_range_once_and_fit(asked: list[tuple[int, int, int]], most: int, cost: Cost) -> None:
    number, start, length = columns(asked)
    found = list(lots(number, start, length, most, cost))
    assert sorted(np.concatenate(found).tolist()) == list(range(len(asked)))
    for lot in found:
        spans = joined(number[lot], start[lot], length[lot], cost)
        alike = set(zip(number[lot].tolist(), start[lot].tolist(), length[lot].tolist(), strict=True))
        assert len(alike) == 1 or spans.length.sum() <= most
    assert len(found) <= 1 + 3 * (int(length.sum()) // most + 1)


def test_the_smallest_gaps_are_read_along() -> None:
    # 4 ranges of 100: gaps of 30, 10 and 50; a fifth of 400 is 80
    spans = joined(*columns([(0, 0, 100), (0, 130, 100), (0, 240, 100), (0, 390, 100)]), FAR)
    assert list(zip(spans.start.tolist(), spans.length.tolist(), strict=True)) == [(0, 340), (390, 100)]
    # where bytes are dear, a gap is no cheaper than a request
    spans = joined(*columns([(0, 0, 100), (0, 130, 100), (0, 240, 100), (0, 390, 100)]), Cost(0.02, 1000))
    assert spans.length.tolist() == [100, 210, 100]


def test_each_object_has_its_own_share() -> None:
    spans = joined(*columns([(0, 0, 1000), (1, 0, 10), (1, 13, 10), (2, 0, 10), (2, 11, 10)]), FAR)
    assert spans.of_objects() == [(0, [(0, 1000)]), (1, [(0, 23)]), (2, [(0, 21)])]
    spans = joined(*columns([(0, 0, 1000), (1, 0, 10), (1, 20, 10)]), FAR)
    assert spans.of_objects() == [(0, [(0, 1000)]), (1, [(0, 10), (20, 10)])]


@pytest.mark.parametrize("wrong", [(-1, 5), (5, -1), (1 << 60, 5), (5, 1 << 62), (-(1 << 63), 1)])
def test_what_no_object_has_is_refused(wrong: tuple[int, int]) -> None:
    number, start, length = columns([(0, 0, 5), (0, *wrong)])
    with pytest.raises(ShardError, match="cannot be in an object"):
        joined(number, start, length, FAR)
    with pytest.raises(ShardError, match="cannot be in an object"):
        list(lots(number, start, length, 100, FAR))


def test_ranges_far_apart_in_many_objects_do_not_overflow() -> None:
    asked = [(k, (1 << 51) - 100 * k, 50) for k in range(3000)] + [(k, 0, 10) for k in range(3000)]
    spans = joined(*columns(asked), FAR)
    assert len(spans.number) == 6000
    assert set(spans.length.tolist()) == {10, 50}


def test_no_ranges_are_no_spans() -> None:
    nothing = np.zeros(0, np.int64)
    spans = joined(nothing, nothing, nothing, FAR)
    assert spans.of_objects() == [] and list(lots(nothing, nothing, nothing, 10, FAR)) == []


def test_pieces_are_cut_out_of_what_is_fetched() -> None:
    content = bytes(range(200))
    sources = [None, Source("a", 200, 1), Source("b", 200, 1)]
    pieces = np.array([(2, 50, 10), (1, 0, 4), (1, 4, 4), (2, 50, 3), (1, 8, 0)], np.int64)
    flow = fetch_pieces(sources, pieces, FAR)
    asked = next(flow)
    assert [(source.key, ranges) for source, ranges in asked.requests] == [("a", [(0, 8)]), ("b", [(50, 10)])]
    with pytest.raises(StopIteration) as end:
        flow.send([[content[a : a + n] for a, n in ranges] for _, ranges in asked.requests])
    expected = [content[a : a + n] for _, a, n in pieces.tolist()]
    assert [bytes(one) for one in end.value.value] == expected
    with pytest.raises(StopIteration):
        next(fetch_pieces(sources, pieces[:0], FAR))
