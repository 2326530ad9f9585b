"""The rows of a write: which chunks are laid anew, laid over an old one, or copied as they are, and in what order.

What it does not do: I/O. It turns a window of a projection, and the indexes of the shards it touches, into the kernel's
table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import prod
from typing import Any

import numpy as np

from terrazzo.indexing import Window
from terrazzo.layout import Layout
from terrazzo.read import size_of
from terrazzo.shard import EMPTY, order
from terrazzo.stores.store import Hold
from terrazzo.strategy import Order

__all__ = ["COPY", "MISSING", "OVER_FILL", "OVER_OLD", "Rows", "ranks", "rows_of"]

Array = np.ndarray[Any, Any]

#: what the kernel does for a row: lay the value over the fill value, over the old chunk, or copy the old bytes
OVER_FILL, OVER_OLD, COPY = 0, 1, 2
MISSING = -1


Column = Array | int


@dataclass(slots=True)
class Rows:
    """The rows of a window, object after object, in the order in which chunks will lie.

    number: the object of each row. inner: the inner chunk's number. origin: the window's row, or -1 for a chunk that is
    only copied. action, program, cell, source, offset, nbytes: as in the kernel's table; an integer stands for a column
    of it, since a shard may have millions of inner chunks and the table is made in parts.
    """

    number: Array
    inner: Array
    origin: Array
    action: Column = OVER_FILL
    program: Column = 0
    cell: Column = 0
    source: Column = MISSING
    offset: Column = 0
    nbytes: Column = 0

    def __len__(self) -> int:
        return len(self.number)

    def table(self, start: int, stop: int) -> Array:
        """The kernel's table of some rows, int64 (n, 7)."""
        table = np.empty((min(stop, len(self)) - start, 7), np.int64)
        columns = (self.action, self.program, self.cell, self.number, self.source, self.offset, self.nbytes)
        for k, column in enumerate(columns):
            table[:, k] = column if isinstance(column, int) else column[start:stop]
        return table

    def ordered(self, sequence: Array) -> Rows:
        """These rows in another sequence: they are moved column by column, since they may be millions."""
        names: dict[int, list[str]] = {}  # one array may be two columns
        for field in fields(self):
            names.setdefault(id(getattr(self, field.name)), []).append(field.name)
        for same in names.values():
            column = getattr(self, same[0])
            if not isinstance(column, int):
                # where all of them say one number, a shorter view of it does
                moved = column[sequence] if any(column.strides) else column[: len(sequence)]
                for name in same:
                    setattr(self, name, moved)
        return self

    @staticmethod
    def together(parts: Sequence[Rows]) -> Rows:
        """The rows of several, one after the other."""
        if len(parts) == 1:
            return parts[0]

        def joined(name: str) -> Any:
            found = [getattr(part, name) for part in parts]
            if all(isinstance(column, int) for column in found) and len(set(found)) == 1:
                return found[0]
            return np.concatenate(
                [
                    np.full(len(part), column, np.int32) if isinstance(column, int) else column
                    for part, column in zip(parts, found, strict=True)
                ]
            )

        return Rows(*(joined(column.name) for column in fields(Rows)))


def rows_of(
    layout: Layout,
    window: Window,
    holds: Sequence[Hold],
    olds: Sequence[Array | None],
    counts: Sequence[tuple[int, ...]],
    lying: Order,
    included: Array,
    copies: bool | Array = True,
) -> Rows:
    """The rows of the included objects of a window.

    olds: the entries of each shard as it is, None where nothing of it is needed. lying: how inner chunks lie
    in a shard. copies: whether untouched chunks of the old shard come along (of each).
    """
    origin = window.cell  # one array for two columns
    if not included.all():
        origin = origin[included[window.shard_number]]
        number, inner, cell = window.shard_number[origin], window.inner[origin], window.cell[origin]
        partial = ~window.whole[origin]
    else:
        number, inner, cell, partial = window.shard_number, window.inner, window.cell, ~window.whole
    _, which = layout.chains(window.outers)
    program: Column = 0 if which is None else which[number]
    if layout.sharding is None:
        sizes = np.array([MISSING if h.source is None else size_of(h.source) for h in holds], np.int64)
        old = partial & (sizes[number] >= 0)
        action = np.where(old, OVER_OLD, OVER_FILL).astype(np.int8)
        source, nbytes = np.where(old, number, MISSING), np.where(old, sizes[number], 0)
        return Rows(number, inner, origin, action, program, cell, source, 0, nbytes)

    rows = Rows(number, inner, origin, program=program, cell=cell)
    if not _rising(number):
        rows = rows.ordered(np.argsort(number, kind="stable"))
        partial = ~window.whole[rows.origin]
    pieces = [rows]
    copied = np.broadcast_to(copies, len(holds))
    bounds = np.searchsorted(rows.number, np.arange(len(holds) + 1))
    if any(entries is not None and included[k] for k, entries in enumerate(olds)):
        action = np.zeros(len(rows), np.int8)
        source = np.full(len(rows), MISSING, np.int32)
        places = np.zeros((len(rows), 2), np.int64)
        rows.action, rows.source, rows.offset, rows.nbytes = action, source, places[:, 0], places[:, 1]
    for k, entries in enumerate(olds):
        if entries is None or not included[k]:
            continue
        mine = np.arange(bounds[k], bounds[k + 1])
        touched = rows.inner[mine]
        there = entries[touched].view(np.int64)
        over = partial[mine] & (there[:, 0] != -1)
        at = mine[over]
        action[at] = OVER_OLD
        source[at] = k
        places[at] = there[over]
        if copied[k]:
            pieces.append(_untouched(k, entries, touched))
    several = len(pieces) > 1
    rows = Rows.together(pieces)
    del pieces
    if lying == "unordered":
        return rows.ordered(np.argsort(rows.number, kind="stable")) if several else rows
    alone = len(holds) == 1
    if alone and len(rows) == prod(counts[0]) and _rising(rows.inner):  # all of them, in C order
        return rows.ordered(order(lying, counts[0]))
    rank = _rank(rows, counts, lying)
    return rows.ordered(np.argsort(rank, kind="stable") if alone else np.lexsort((rank, rows.number)))


def _untouched(k: int, entries: Array, touched: Array) -> Rows:
    """The chunks of an old shard that stay as they are."""
    kept = entries[:, 0] != EMPTY
    kept[touched] = False
    inner = np.flatnonzero(kept)
    places = entries[inner].view(np.int64)
    number = np.full(len(inner), k, np.int32)
    origin = np.full(len(inner), -1, np.int64)
    action = np.full(len(inner), COPY, np.int8)
    return Rows(number, inner, origin, action, 0, 0, number, places[:, 0], places[:, 1])


def _rising(numbers: Array) -> bool:
    return bool((numbers[1:] >= numbers[:-1]).all())


def _rank(rows: Rows, counts: Sequence[tuple[int, ...]], lying: Order) -> Array:
    """The place in its shard of each row's chunk."""
    if lying == "C":
        return rows.inner
    distinct = set(counts)
    if len(distinct) == 1:
        return ranks(lying, counts[0])[rows.inner]
    rank = np.empty(len(rows.inner), np.int64)
    for count in distinct:
        of_count = np.array([c == count for c in counts])[rows.number]
        rank[of_count] = ranks(lying, count)[rows.inner[of_count]]
    return rank


def ranks(lying: Order, count: tuple[int, ...]) -> Array:
    """The place in the file of each inner chunk, by its C-order number."""
    sequence = order(lying, count)
    rank = np.empty(len(sequence), np.int64)
    rank[sequence] = np.arange(len(sequence))
    return rank
