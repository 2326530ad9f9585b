"""Which bytes to ask for: ranges of objects joined to spans, and cut into lots that fit the memory of a call.

What it does not do: ask. It is arithmetic on arrays; nothing here runs once per inner chunk.

A request to a store over a network takes as long as many bytes do. So ranges of one object that touch are always one
request, and ranges with a gap between them become one where the gap is cheaper to read than a request is to make,
smallest gaps first, as long as what nobody asked for stays a small share of what is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from terrazzo.errors import ShardError
from terrazzo.stores.store import Cost

__all__ = ["BEYOND_NEED", "Spans", "joined", "lots"]

Array = np.ndarray[Any, Any]

#: bytes of gaps for each needed byte of an object, at most
BEYOND_NEED = 0.2
#: no object is larger; what claims to lie further on is refused before it is added up
LARGEST_OBJECT = 1 << 52


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """What is asked for: per span its object, start and length, int64, object after object in ascending order.

    span, offset: of each range that was given, the span that holds it and where it begins in that span.
    """

    number: Array
    start: Array
    length: Array
    span: Array
    offset: Array

    def of_objects(self) -> list[tuple[int, list[tuple[int, int]]]]:
        """Each object, and the (start, length) of its spans."""
        ranges = list(zip(self.start.tolist(), self.length.tolist(), strict=True))
        bounds = [*np.flatnonzero(_begins(self.number)).tolist(), len(ranges)]
        return [(int(self.number[a]), ranges[a:b]) for a, b in pairwise(bounds)]


def joined(number: Array, start: Array, length: Array, cost: Cost) -> Spans:
    """The spans that cover ranges of objects, int64 arrays of one length, as cheaply as they can be fetched.

    Ranges may repeat and overlap. Raises ShardError for what lies where no object reaches.
    """
    if not len(number):
        return Spans(number, start, length, number, start)
    sequence = np.lexsort((start, number))
    owner, first = number[sequence], start[sequence]
    _check(first, length[sequence])
    stop = first + length[sequence]
    reach = _reach(owner, stop)
    gap = np.zeros_like(first)
    gap[1:] = first[1:] - reach[:-1]
    new = _begins(owner)
    cut = new | (gap > 0)
    if cost.far:
        cut &= ~_bridged(owner, new, gap, stop - first, cost)
    span = np.cumsum(cut) - 1
    heads = np.flatnonzero(cut)
    tails = np.append(heads[1:], len(owner)) - 1
    begin = first[heads]
    of_range = np.empty_like(span)
    of_range[sequence] = span
    return Spans(owner[heads], begin, reach[tails] - begin, of_range, start - begin[of_range])


def lots(number: Array, start: Array, length: Array, most: int, cost: Cost) -> Iterator[Array]:
    """The numbers of the ranges, neighbours together, in lots whose spans have `most` bytes, or one range, at most."""
    sequence = np.lexsort((length, start, number))
    owner, first = number[sequence], start[sequence]
    _check(first, length[sequence])
    nbytes = length[sequence]
    again = np.zeros(len(owner), np.bool_)  # one chunk, wanted more than once
    again[1:] = (owner[1:] == owner[:-1]) & (first[1:] == first[:-1]) & (nbytes[1:] == nbytes[:-1])
    spent = np.cumsum(np.where(again, 0, nbytes))
    if cost.far:
        most = int(most / (1 + BEYOND_NEED))
    at = 0
    while at < len(sequence):
        before = spent[at] - nbytes[at]
        stop = max(at + 1, int(np.searchsorted(spent, before + most, side="right")))
        yield sequence[at:stop]
        at = stop


def _check(start: Array, length: Array) -> None:
    wrong = (start < 0) | (length < 0) | (start > LARGEST_OBJECT) | (length > LARGEST_OBJECT)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ShardError(
            f"bytes at {int(start[at])}, {int(length[at])} of them, cannot be in an object; the index that says so is "
            "not right"
        )


def _begins(owner: Array) -> Array:
    """Where the ranges of another object begin."""
    new = np.ones(len(owner), np.bool_)
    np.not_equal(owner[1:], owner[:-1], out=new[1:])
    return new


def _reach(owner: Array, stop: Array) -> Array:
    """How far the ranges of an object reach, up to each of them; they are in the order of their starts."""
    # one running maximum for all objects: those of each lie past all of the one before
    place = np.cumsum(_begins(owner)) - 1
    room = int(stop.max()) + 1
    if room * len(place) < 1 << 62:
        lifted = place * room
        return np.asarray(np.maximum.accumulate(stop + lifted) - lifted)
    bounds = [*np.flatnonzero(_begins(owner)).tolist(), len(owner)]
    parts = [np.maximum.accumulate(stop[a:b]) for a, b in pairwise(bounds)]
    return np.concatenate(parts)


def _bridged(owner: Array, new: Array, gap: Array, length: Array, cost: Cost) -> Array:
    """Which gaps are read along: the smallest of each object, each cheaper than a request, within the share allowed."""
    found = np.zeros(len(owner), np.bool_)
    worth = np.flatnonzero(~new & (gap > 0) & (gap < cost.latency * cost.bandwidth))
    if not len(worth):
        return found
    place = np.cumsum(new) - 1
    covered = np.where(new, length, np.minimum(length, np.maximum(length + gap, 0)))
    needed = np.bincount(place, weights=covered)
    worth = worth[np.lexsort((gap[worth], place[worth]))]
    mine = place[worth]
    spent = np.cumsum(gap[worth])
    heads = np.flatnonzero(_begins(mine))
    before = np.repeat(spent[heads] - gap[worth][heads], np.diff(np.append(heads, len(mine))))
    found[worth[spent - before <= BEYOND_NEED * needed[mine]]] = True
    return found
