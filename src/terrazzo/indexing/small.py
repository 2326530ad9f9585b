"""Small selections: boxes that touch a handful of inner chunks, planned in plain integers.

What it does not do: large selections, arrays of positions, grids whose chunks differ (`projection.py`); what it answers
is what that file would. A read of one chunk takes microseconds, and tables of one row cost as much as tables of many.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

import numpy as np

from terrazzo.chunk_grid import EqualEdges, Ints
from terrazzo.indexing.axes import Bools
from terrazzo.indexing.projection import UNBOUNDED, Boxed, Place, Window
from terrazzo.indexing.selection import Run

__all__ = ["SMALL", "SmallBox", "SmallWindow"]

#: inner chunks of a selection that is planned here, at most
SMALL = 16

#: along one dimension: number of the shard, of the inner chunk in it, first selected element in it, selected elements,
#: and the first of them in the output
Piece = tuple[int, int, int, int, int]

_ONE = (None, 1)
_ALL = slice(None)


class SmallBox(Boxed):
    """The projection of slices and integers that touch at most SMALL inner chunks of a grid of equal chunks."""

    def __init__(self, edges: EqualEdges, pieces: list[list[Piece]], steps: list[int]) -> None:
        """`Boxed` is left to who makes it: its fields are known in another manner for each way of making one."""
        self.edges = edges
        self.pieces = pieces
        self.steps = steps
        self.nrows = prod(map(len, pieces))

    @classmethod
    def of(cls, selectors: Sequence[Any], scalar: bool, edges: EqualEdges) -> SmallBox | None:
        """The projection, or None where the selection is not small."""
        pieces = []
        rows = 1
        for run, (_, s, c) in zip(selectors, edges, strict=True):
            if type(run) is not Run or not run.count:
                return None
            start, step, count = run.start, run.step, run.count
            index, last = start // c, (start + (count - 1) * step) // c
            rows *= last - index + 1
            if rows > SMALL or (index != last and step > c):
                return None
            pieces.append(_cut(start, step, count, s, c))
        box = cls(edges, pieces, [run.step for run in selectors])
        Boxed.__init__(box, selectors, scalar)
        return box

    @classmethod
    def plainly(cls, selection: Any, edges: EqualEdges) -> SmallBox | None:
        """The same, from what the user wrote, where that is an integer or a slice of step 1 for each dimension and lies
        inside the array; None for anything else, be it right or wrong."""
        items = selection if type(selection) is tuple else (selection,)
        if len(items) != len(edges):
            if len(items) > len(edges):
                return None
            items += (_ALL,) * (len(edges) - len(items))
        runs: list[tuple[int, int]] = []
        drops: tuple[int, ...] = ()
        rows = 1
        # of the one chunk, as long as it is one
        outer: list[int] = []
        inner = 0
        table: list[int] = []
        for item, (n, s, c) in zip(items, edges, strict=True):
            if type(item) is slice:
                start, stop, step = item.start, item.stop, item.step
                if not (type(start) is int and type(stop) is int and 0 <= start < stop <= n and step in _ONE):
                    try:
                        start, stop, step = item.indices(n)
                    except (TypeError, ValueError):
                        return None
                    if step != 1 or start >= stop:
                        return None
                count = stop - start
            elif type(item) is int or isinstance(item, np.integer):
                start = int(item)
                if start < 0:
                    start += n
                if not 0 <= start < n:
                    return None
                count = 1
                drops += (len(runs),)
            else:
                return None
            runs.append((start, count))
            first = start % c
            if first + count > c:
                rows *= (start + count - 1) // c - start // c + 1
                if rows > SMALL:
                    return None
            elif rows == 1:
                outer.append(start // s)
                inner = inner * (s // c) + start % s // c
                table += (1, 1, first, count, 0)
        box: SmallBox
        if rows == 1:
            box = _OneChunk(edges, runs, (tuple(outer), inner), table)
        else:
            box = cls(edges, _cut_all(runs, edges), [1] * len(edges))
        box.buffer_shape = box.out_shape = tuple([run[1] for run in runs])
        if drops:
            box.out_shape = tuple([run[1] for dim, run in enumerate(runs) if dim not in drops])
        box.scalar = len(drops) == len(edges)
        box.flips = ()
        box.drops = drops
        return box

    def rows(self) -> list[tuple[tuple[int, ...], int]]:
        """(grid index of the shard, number of the inner chunk inside it) of each row, as `windows` has them."""
        inner = [0]
        for pieces, (_, s, c) in zip(self.pieces, self.edges, strict=True):
            n = s // c
            inner = [number * n + piece[1] for number in inner for piece in pieces]
        outer = tuple([pieces[0][0] for pieces in self.pieces])
        if outer == tuple([pieces[-1][0] for pieces in self.pieces]):
            return [(outer, number) for number in inner]
        outers = product(*[[piece[0] for piece in pieces] for pieces in self.pieces])
        return list(zip(outers, inner, strict=True))

    def placement(self) -> tuple[object, ...]:
        """Of the one window that holds all rows."""
        return _placement(self.pieces, self.steps)

    def windows(self, max_rows: int = UNBOUNDED, max_shards: int = UNBOUNDED) -> Iterator[Window]:
        if self.nrows <= max_shards:  # shards are at most as many as rows
            return iter((SmallWindow(self, self.pieces),))
        return self._by_shards()

    def _by_shards(self) -> Iterator[Window]:
        """A window for each shard: for shards whose indexes are very large."""
        apart = [
            [
                [piece for piece in found if piece[0] == outer]
                for outer in sorted({piece[0] for piece in found})
            ]
            for found in self.pieces
        ]
        for pieces in product(*apart):
            yield SmallWindow(self, list(pieces))


class _OneChunk(SmallBox):
    """A box inside one chunk, which most small reads are: its row and its table are known at once."""

    nrows = 1

    def __init__(
        self,
        edges: EqualEdges,
        runs: Sequence[tuple[int, int]],
        row: tuple[tuple[int, ...], int],
        table: list[int],
    ) -> None:
        """runs: start and count along each dimension, all in one chunk. row, table: as they are answered below."""
        self.edges = edges
        self._runs = runs
        self._row = row
        self._table = table

    def rows(self) -> list[tuple[tuple[int, ...], int]]:
        return [self._row]

    def placement(self) -> tuple[object, ...]:
        return "spans", array("q", self._table)

    def windows(self, max_rows: int = UNBOUNDED, max_shards: int = UNBOUNDED) -> Iterator[Window]:
        box = SmallBox(self.edges, _cut_all(self._runs, self.edges), [1] * len(self.edges))
        return iter((SmallWindow(box, box.pieces),))


def _cut_all(runs: Sequence[tuple[int, int]], edges: EqualEdges) -> list[list[Piece]]:
    return [_cut(start, 1, count, s, c) for (start, count), (_, s, c) in zip(runs, edges, strict=True)]


def _cut(start: int, step: int, count: int, s: int, c: int) -> list[Piece]:
    """A run along one dimension, cut at the edges of chunks; steps do not pass over chunks."""
    last = (start + (count - 1) * step) // c
    if start // c == last:
        return [(start // s, start % s // c, start % c, count, 0)]
    found = []
    out = 0
    for k in range(start // c, last + 1):
        begin = start + out * step
        reached = count if k == last else -((start - (k + 1) * c) // step)
        outer = k * c // s
        found.append((outer, k - outer * (s // c), begin - k * c, reached - out, out))
        out = reached
    return found


def _placement(pieces: Sequence[Sequence[Piece]], steps: Sequence[int]) -> tuple[object, ...]:
    table = array("q")
    for found, step in zip(pieces, steps, strict=True):
        table.extend((step, len(found)))
        for piece in found:
            table.extend(piece[2:])
    return "spans", table


class SmallWindow(Window):
    """A few pieces per dimension."""

    def __init__(self, box: SmallBox, pieces: list[list[Piece]]) -> None:
        self._box = box
        self._pieces = pieces
        counts = [s // c for _, s, c in box.edges]
        known: dict[tuple[int, ...], int] = {}
        number_of, inner_of = [], []
        for row in product(*pieces):
            outer, inner = [], 0
            for piece, n in zip(row, counts, strict=True):
                outer.append(piece[0])
                inner = inner * n + piece[1]
            number_of.append(known.setdefault(tuple(outer), len(known)))
            inner_of.append(inner)
        self.outers: Ints = np.array(list(known), np.int64)
        self.inner: Ints = np.array(inner_of, np.int64)
        self.shard_number: Ints = np.array(number_of, np.int64)
        self.cell: Ints = np.arange(len(number_of), dtype=np.int64)

    def placement(self) -> tuple[object, ...]:
        return _placement(self._pieces, self._box.steps)

    @cached_property
    def whole(self) -> Bools:
        box = self._box
        flags = []
        for found, (length, s, c) in zip(self._pieces, box.edges, strict=True):
            begins = [outer * s + inner * c for outer, inner, _, _, _ in found]
            flags.append(
                [piece[3] == min(c, length - begin) for piece, begin in zip(found, begins, strict=True)]
            )
        return np.array([all(row) for row in product(*flags)], np.bool_)

    @cached_property
    def whole_shard(self) -> Bools:
        box = self._box
        flags = []
        for found, (length, s, _) in zip(self._pieces, box.edges, strict=True):
            covered: dict[int, int] = {}
            for outer, _, _, count, _ in found:
                covered[outer] = covered.get(outer, 0) + count
            flags.append([count == min(s, length - outer * s) for outer, count in covered.items()])
        return np.array([all(row) for row in product(*flags)], np.bool_)

    def chunk_selection(self, row: int) -> Place:
        place = zip(self._row(row), self._box.steps, strict=True)
        return tuple(slice(p[2], p[2] + (p[3] - 1) * step + 1, step) for p, step in place)

    def out_selection(self, row: int) -> Place:
        return tuple(slice(piece[4], piece[4] + piece[3]) for piece in self._row(row))

    def _row(self, row: int) -> list[Piece]:
        found: list[Piece] = []
        for pieces in reversed(self._pieces):
            row, at = divmod(row, len(pieces))
            found.append(pieces[at])
        return found[::-1]
