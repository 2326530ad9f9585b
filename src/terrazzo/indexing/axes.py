"""Axes: the part of a selection that lies along one dimension, cut at the edges of shards and inner chunks.

What it does not do: combine dimensions. `Line` is a slice or an integer, `Pick` is an array of positions.

An axis is cut twice: into stretches (ranges in units of its own, so that a window of a huge selection can be planned
alone), and each stretch into `Pieces`, one per touched inner chunk. The number of Python calls does not depend on the
number of pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from terrazzo.chunk_grid import Edges, Ints, RegularEdges
from terrazzo.indexing.selection import Run, Selector

__all__ = ["Axis", "Line", "Pick", "Pieces", "axis_of", "changes"]

Bools: TypeAlias = npt.NDArray[np.bool_]

#: stretches of up to so many pieces are remembered
REMEMBERED = 1024


class Pieces:
    """The touched inner chunks along one dimension, in rising order.

    outer: shard index of each piece. inner: index of the inner chunk inside its shard. places: the kernel's form.
    covered: selected elements of each piece, all different (None where they may repeat). start: of each inner chunk.
    """

    __slots__ = ("axis", "covered", "inner", "outer", "places", "position", "shards", "start")

    def __init__(
        self, axis: Axis, outer: Ints, inner: Ints, start: Ints, covered: Ints | None, places: tuple[Any, ...]
    ) -> None:
        self.axis = axis
        self.outer = outer
        self.inner = inner
        self.start = start
        self.covered = covered
        self.places = places
        #: the different shards, and the place of each piece's shard among them
        self.shards: Ints
        self.position: Ints
        if len(outer) == 1 or outer[0] == outer[-1]:
            self.shards, self.position = outer[:1], np.zeros(len(outer), dtype=np.int64)
        elif axis.inner is None:
            self.shards, self.position = outer, np.arange(len(outer), dtype=np.int64)
        else:
            new = changes(outer)
            self.shards, self.position = outer[new], np.cumsum(new) - 1

    def whole(self) -> Bools:
        """Which pieces hold every element of their chunk that lies inside the array."""
        if self.covered is None:
            return np.zeros(len(self.outer), dtype=np.bool_)
        axis = self.axis
        extent: Ints | int = (
            axis.chunks.edge if isinstance(axis.chunks, RegularEdges) else axis.chunks.extent(self.outer)
        )
        inside: Bools = self.covered == np.minimum(extent, axis.length - self.start)
        return inside

    def whole_shards(self) -> Bools:
        """Which shards are selected to the last element inside the array."""
        if self.covered is None:
            return np.zeros(len(self.shards), dtype=np.bool_)
        axis = self.axis
        inside = np.minimum(axis.edges.extent(self.shards), axis.length - axis.edges.start(self.shards))
        firsts = np.searchsorted(self.position, np.arange(len(self.shards)))
        whole: Bools = np.add.reduceat(self.covered, firsts) == inside
        return whole


class Piece:
    """One inner chunk along one dimension, in plain integers: what a small read consists of."""

    __slots__ = ("axis", "begin", "count", "inner", "inside", "out", "outer")

    def __init__(
        self, axis: Line, outer: int, inner: int, begin: int, inside: int, count: int, out: int
    ) -> None:
        self.axis = axis
        self.outer = outer
        self.inner = inner
        self.begin = begin
        self.inside = inside
        self.count = count
        self.out = out

    @property
    def places(self) -> tuple[Any, ...]:
        return "span", np.array(((self.inside, self.count, self.out),), dtype=np.int64), self.axis.step

    def whole(self) -> bool:
        axis = self.axis
        end = min(self.begin + axis.chunks.unique[-1], axis.length)
        if axis.chunks.uniform is None:
            end = min(axis.chunks.begin(self.outer + 1), axis.length)
        return self.count == end - self.begin

    def whole_shard(self) -> bool:
        axis = self.axis
        return self.count == min(axis.edges.begin(self.outer + 1), axis.length) - axis.edges.begin(self.outer)

    def pieces(self) -> Pieces:
        """The same as arrays of one."""
        outer, inner, begin, count = np.array(
            ((self.outer,), (self.inner,), (self.begin,), (self.count,)), np.int64
        )
        return Pieces(self.axis, outer, inner, begin, count, self.places)


class Line:
    """A slice or an integer along one dimension. Its stretches are ranges of output positions."""

    __slots__ = ("chunks", "count", "edges", "inner", "length", "start", "step")

    def __init__(self, length: int, edges: Edges, inner: int | None, run: Run) -> None:
        self.length = length
        self.edges = edges
        self.inner = inner
        # shard edges are multiples of the inner edge, so inner chunks are regular whatever the shards are
        self.chunks = edges if inner is None else RegularEdges(inner)
        self.start = run.start
        self.step = run.step
        self.count = run.count

    @property
    def whole_stretch(self) -> tuple[int, int]:
        return 0, self.count

    def most_pieces(self, lo: int, hi: int) -> int:
        """The number of inner chunks touched in a stretch, or a little more."""
        return self._most(self.chunks, lo, hi)

    def most_shards(self) -> int:
        return self._most(self.edges, 0, self.count)

    def most_per_shard(self) -> int:
        """The largest number of inner chunks touched in one shard, or a little more."""
        return 1 if self.inner is None else min(self.count, self.edges.unique[-1] // self.inner)

    def shard_stretches(self, taken: int) -> Iterator[tuple[int, int]]:
        """Stretches of `taken` shards each."""
        return self._stretches(self.edges, taken, 0, self.count)

    def chunk_stretches(self, taken: int, lo: int, hi: int) -> Iterator[tuple[int, int]]:
        """Stretches of `taken` inner chunks each."""
        return self._stretches(self.chunks, taken, lo, hi)

    def pieces(self, lo: int, hi: int) -> Piece | Pieces:
        edges, inner = self.edges, self.inner
        if type(edges) is RegularEdges and hi - lo <= REMEMBERED * (edges.edge if inner is None else inner):
            return _regular_pieces(self.length, edges.edge, inner, self.start, self.step, self.count, lo, hi)
        return self.cut(lo, hi)

    def cut(self, lo: int, hi: int) -> Piece | Pieces:
        """The pieces of a stretch."""
        first, count, step = self.start + lo * self.step, hi - lo, self.step
        index, begin = self.chunks.find(first)
        final = self.chunks.find(first + (count - 1) * step)[0] if count > 1 else index
        if index == final:
            if self.inner is None:
                return Piece(self, index, 0, begin, first - begin, count, lo)
            outer, shard = self.edges.find(begin)
            return Piece(self, outer, (begin - shard) // self.inner, begin, first - begin, count, lo)
        table: Ints
        if final - index < count:
            indices = np.arange(index, final + 1, dtype=np.int64)
            starts = self.chunks.start(indices)
            # the first selected element at or after each chunk's start
            reached = starts - first if step == 1 else -((first - starts) // step)
            reached[0] = 0
            counts = np.diff(reached, append=count)
            if step > 1 and not counts.all():  # steps may pass over small chunks
                met = counts > 0
                indices, starts, reached, counts = indices[met], starts[met], reached[met], counts[met]
        else:
            # fewer elements than chunks: ask each where it lies
            positions = first + step * np.arange(count, dtype=np.int64)
            indices, inside = self.chunks.locate(positions)
            reached = np.flatnonzero(changes(indices))
            counts = np.diff(reached, append=count)
            indices, starts = indices[reached], (positions - inside)[reached]
        table = np.empty((len(indices), 3), dtype=np.int64)
        table[:, 0] = first + reached * step - starts
        table[:, 1] = counts
        table[:, 2] = lo + reached
        places = ("span", table, step)
        if self.inner is None:
            return Pieces(self, indices, np.zeros(len(indices), dtype=np.int64), starts, counts, places)
        outers, offsets = self.edges.locate(starts)
        return Pieces(self, outers, offsets // self.inner, starts, counts, places)

    def _most(self, edges: Edges, lo: int, hi: int) -> int:
        if hi <= lo:
            return 0
        first, last = self.start + lo * self.step, self.start + (hi - 1) * self.step
        return min(hi - lo, edges.find(last)[0] - edges.find(first)[0] + 1)

    def _stretches(self, edges: Edges, taken: int, lo: int, hi: int) -> Iterator[tuple[int, int]]:
        if self.step >= edges.unique[-1]:  # no two elements share a chunk
            for place in range(lo, hi, taken):
                yield place, min(hi, place + taken)
            return
        while lo < hi:
            index, _ = edges.find(self.start + lo * self.step)
            place = min(hi, -((self.start - edges.begin(index + taken)) // self.step))
            yield lo, place
            lo = place


@lru_cache(maxsize=64)
def _regular_pieces(
    length: int, edge: int, inner: int | None, start: int, step: int, count: int, lo: int, hi: int
) -> Piece | Pieces:
    """The same stretches come again and again: planes of one array have all of the other dimensions."""
    pieces = Line(length, RegularEdges(edge), inner, Run(start, step, count)).cut(lo, hi)
    if isinstance(pieces, Pieces):
        for shared in (
            pieces.outer,
            pieces.inner,
            pieces.start,
            pieces.covered,
            pieces.shards,
            pieces.position,
        ):
            assert shared is not None
            shared.setflags(write=False)
        pieces.places[1].setflags(write=False)
    return pieces


class Pick:
    """An array of positions along one dimension, in any order. Its stretches are ranges of pieces."""

    __slots__ = ("_all", "_bounds", "_inside", "_outside", "chunks", "edges", "inner", "length")

    def __init__(
        self, length: int, edges: Edges, inner: int | None, positions: Ints, for_write: bool
    ) -> None:
        self.length = length
        self.edges = edges
        self.inner = inner
        self.chunks = edges if inner is None else RegularEdges(inner)
        if (positions[1:] >= positions[:-1]).all():
            order = np.arange(len(positions), dtype=np.int64)
        else:
            order = np.argsort(positions, kind="stable")
            positions = positions[order]
        if for_write:
            last = np.append(
                positions[1:] != positions[:-1], True
            )  # numpy: of equal positions the last one stays
            if not last.all():
                positions, order = positions[last], order[last]
        indices, self._inside = self.chunks.locate(positions)
        self._outside = order
        firsts = np.flatnonzero(changes(indices))
        self._bounds = np.stack([firsts, np.append(firsts[1:], len(positions))], axis=1)
        starts = (positions - self._inside)[firsts]
        counts = self._bounds[:, 1] - self._bounds[:, 0] if for_write else None
        outers, inners = indices[firsts], np.zeros(len(firsts), dtype=np.int64)
        if inner is not None:
            outers, offsets = edges.locate(starts)
            inners = offsets // inner
        places = ("pick", self._bounds, self._inside, self._outside)
        self._all = Pieces(self, outers, inners, starts, counts, places)

    @property
    def whole_stretch(self) -> tuple[int, int]:
        return 0, len(self._bounds)

    def most_pieces(self, lo: int, hi: int) -> int:
        return hi - lo

    def most_shards(self) -> int:
        return len(self._all.shards)

    def most_per_shard(self) -> int:
        return int(np.bincount(self._all.position).max())

    def shard_stretches(self, taken: int) -> Iterator[tuple[int, int]]:
        firsts = np.flatnonzero(changes(self._all.position))[::taken].tolist()
        return zip(firsts, [*firsts[1:], len(self._bounds)], strict=True)

    def chunk_stretches(self, taken: int, lo: int, hi: int) -> Iterator[tuple[int, int]]:
        return ((place, min(hi, place + taken)) for place in range(lo, hi, taken))

    def pieces(self, lo: int, hi: int) -> Pieces:
        full = self._all
        if (lo, hi) == self.whole_stretch:
            return full
        places = ("pick", np.ascontiguousarray(self._bounds[lo:hi]), self._inside, self._outside)
        covered = None if full.covered is None else full.covered[lo:hi]
        return Pieces(self, full.outer[lo:hi], full.inner[lo:hi], full.start[lo:hi], covered, places)


Axis: TypeAlias = Line | Pick


def axis_of(selector: Selector, length: int, edges: Edges, inner: int | None, for_write: bool) -> Axis:
    """The axis of one dimension's selector; positions at equal distances are as good as a slice."""
    if isinstance(selector, Run):
        return Line(length, edges, inner, selector)
    count = len(selector)
    if count == 0:
        return Line(length, edges, inner, Run(0, 1, 0))
    first = int(selector[0])
    step = int(selector[1]) - first if count > 1 else 1
    if step > 0 and int(selector[-1]) - first == step * (count - 1) and (np.diff(selector) == step).all():
        return Line(length, edges, inner, Run(first, step, count))
    return Pick(length, edges, inner, selector, for_write)


def changes(values: Ints) -> Bools:
    """Where a value differs from the one before it; the first does."""
    new = np.empty(len(values), dtype=np.bool_)
    new[:1] = True
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return new
