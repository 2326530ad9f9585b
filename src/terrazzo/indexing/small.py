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

from terrazzo.chunk_grid import Ints
from terrazzo.indexing.axes import Bools
from terrazzo.indexing.projection import UNBOUNDED, Boxed, Place, Window
from terrazzo.indexing.selection import Run

__all__ = ["SMALL", "SmallBox", "SmallWindow"]

#: inner chunks of a selection that is planned here, at most
SMALL = 16

#: along one dimension: number of the shard, of the inner chunk in it, first selected element in it, selected elements,
#: and the first of them in the output
Piece = tuple[int, int, int, int, int]


class SmallBox(Boxed):
    """The projection of slices and integers that touch at most SMALL inner chunks of a grid of equal chunks."""

    def __init__(
        self,
        runs: Sequence[Run],
        pieces: list[list[Piece]],
        scalar: bool,
        shape: tuple[int, ...],
        shard: tuple[int, ...],
        inner: tuple[int, ...],
    ) -> None:
        super().__init__(runs, scalar)
        self.nrows = prod([len(found) for found in pieces])
        self.runs = runs
        self.pieces = pieces
        self.shape = shape
        self.shard = shard
        self.inner = inner

    @classmethod
    def of(
        cls,
        selectors: Sequence[Any],
        scalar: bool,
        shape: tuple[int, ...],
        shard: tuple[int, ...],
        inner: tuple[int, ...],
    ) -> SmallBox | None:
        """The projection, or None where the selection is not small."""
        pieces = []
        rows = 1
        for run, s, c in zip(selectors, shard, inner, strict=True):
            if type(run) is not Run or not run.count:
                return None
            start, step, count = run.start, run.step, run.count
            index, last = start // c, (start + (count - 1) * step) // c
            if index == last:
                outer = start // s
                pieces.append([(outer, index - outer * (s // c), start - index * c, count, 0)])
                continue
            rows *= last - index + 1
            if rows > SMALL or step > c:
                return None
            found = []
            out = 0
            for k in range(index, last + 1):
                begin = start + out * step  # steps do not pass over chunks
                reached = count if k == last else -((start - (k + 1) * c) // step)
                outer = k * c // s
                found.append((outer, k - outer * (s // c), begin - k * c, reached - out, out))
                out = reached
            pieces.append(found)
        return cls(selectors, pieces, scalar, shape, shard, inner)

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


class SmallWindow(Window):
    """A few pieces per dimension."""

    def __init__(self, box: SmallBox, pieces: list[list[Piece]]) -> None:
        self._box = box
        self._pieces = pieces
        if box.nrows == 1:
            number, shard = 0, []
            for (piece,), s, c in zip(pieces, box.shard, box.inner, strict=True):
                shard.append(piece[0])
                number = number * (s // c) + piece[1]
            self.outers: Ints = np.array([shard], np.int64)
            self.inner: Ints = np.array([number], np.int64)
            self.shard_number = self.cell = _ZERO
            return
        counts = [s // c for s, c in zip(box.shard, box.inner, strict=True)]
        known: dict[tuple[int, ...], int] = {}
        number_of, inner_of = [], []
        for row in product(*pieces):
            outer, inner = [], 0
            for piece, n in zip(row, counts, strict=True):
                outer.append(piece[0])
                inner = inner * n + piece[1]
            number_of.append(known.setdefault(tuple(outer), len(known)))
            inner_of.append(inner)
        self.outers = np.array(list(known), np.int64)
        self.inner = np.array(inner_of, np.int64)
        self.shard_number = np.array(number_of, np.int64)
        self.cell = np.arange(len(number_of), dtype=np.int64)

    def placement(self) -> tuple[object, ...]:
        return "grid", tuple(
            [
                ("span", array("q", [v for piece in found for v in piece[2:]]), run.step)
                for found, run in zip(self._pieces, self._box.runs, strict=True)
            ]
        )

    @cached_property
    def whole(self) -> Bools:
        box = self._box
        flags = []
        for found, length, s, c in zip(self._pieces, box.shape, box.shard, box.inner, strict=True):
            begins = [outer * s + inner * c for outer, inner, _, _, _ in found]
            flags.append(
                [piece[3] == min(c, length - begin) for piece, begin in zip(found, begins, strict=True)]
            )
        return np.array([all(row) for row in product(*flags)], np.bool_)

    @cached_property
    def whole_shard(self) -> Bools:
        box = self._box
        flags = []
        for found, length, s in zip(self._pieces, box.shape, box.shard, strict=True):
            covered: dict[int, int] = {}
            for outer, _, _, count, _ in found:
                covered[outer] = covered.get(outer, 0) + count
            flags.append([count == min(s, length - outer * s) for outer, count in covered.items()])
        return np.array([all(row) for row in product(*flags)], np.bool_)

    def chunk_selection(self, row: int) -> Place:
        place = zip(self._row(row), self._box.runs, strict=True)
        return tuple(slice(p[2], p[2] + (p[3] - 1) * run.step + 1, run.step) for p, run in place)

    def out_selection(self, row: int) -> Place:
        return tuple(slice(piece[4], piece[4] + piece[3]) for piece in self._row(row))

    def _row(self, row: int) -> list[Piece]:
        found: list[Piece] = []
        for pieces in reversed(self._pieces):
            row, at = divmod(row, len(pieces))
            found.append(pieces[at])
        return found[::-1]


_ZERO = np.zeros(1, np.int64)
_ZERO.setflags(write=False)
