"""The rows of a write: which chunks are laid anew, laid over an old one, or copied as they are, and in what order.

What it does not do: I/O. It turns a window of a projection, and the indexes of the shards it touches, into the kernel's
table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(slots=True)
class Rows:
    """The rows of a window, object after object, in the order in which chunks will lie.

    table: the kernel's, int64 (n, 7). number: the object of each row. inner: the inner chunk's number. origin: the
    window's row, or -1 for a chunk that is only copied.
    """

    table: Array
    number: Array
    inner: Array
    origin: Array

    def ordered(self, sequence: Array) -> Rows:
        return Rows(
            np.ascontiguousarray(self.table[sequence]),
            self.number[sequence],
            self.inner[sequence],
            self.origin[sequence],
        )


def rows_of(
    layout: Layout,
    window: Window,
    holds: Sequence[Hold],
    olds: Sequence[Array | None],
    counts: Sequence[tuple[int, ...]],
    lying: Order,
    included: Array,
    copies: bool = True,
) -> Rows:
    """The rows of the included objects of a window.

    olds: the entries of each shard as it is, None where nothing of it is needed. lying: how inner chunks lie
    in a shard. copies: whether untouched chunks of the old shard come along.
    """
    origin = np.arange(len(window.cell))
    if not included.all():
        origin = origin[included[window.shard_number]]
    number = window.shard_number[origin]
    table = np.zeros((len(origin), 7), np.int64)
    table[:, 2] = window.cell[origin]
    table[:, 3] = number
    table[:, 4] = MISSING
    _, which = layout.chains(window.outers)
    if which is not None:
        table[:, 1] = which[number]
    partial = ~window.whole[origin]
    if layout.sharding is None:
        sizes = np.array([MISSING if h.source is None else size_of(h.source) for h in holds], np.int64)
        old = partial & (sizes[number] >= 0)
        table[old, 0] = OVER_OLD
        table[old, 4] = number[old]
        table[old, 6] = sizes[number[old]]
        return Rows(table, number, np.zeros(len(origin), np.int64), origin)

    inner = window.inner[origin]
    rows = Rows(table, number, inner, origin)
    if not _rising(number):
        rows = rows.ordered(np.argsort(number, kind="stable"))
        partial = ~window.whole[rows.origin]
    pieces = [rows]
    bounds = np.searchsorted(rows.number, np.arange(len(holds) + 1))
    for k, entries in enumerate(olds):
        if entries is None or not included[k]:
            continue
        mine = np.arange(bounds[k], bounds[k + 1])
        touched = rows.inner[mine]
        there = entries[touched].view(np.int64)
        over = partial[mine] & (there[:, 0] != -1)
        at = mine[over]
        rows.table[at, 0] = OVER_OLD
        rows.table[at, 4] = k
        rows.table[at, 5:7] = there[over]
        if copies:
            pieces.append(_untouched(k, entries, touched))
    if len(pieces) > 1:
        rows = Rows(
            np.concatenate([p.table for p in pieces]),
            np.concatenate([p.number for p in pieces]),
            np.concatenate([p.inner for p in pieces]),
            np.concatenate([p.origin for p in pieces]),
        )
    if lying == "unordered":
        return rows if len(pieces) == 1 else rows.ordered(np.argsort(rows.number, kind="stable"))
    return rows.ordered(np.lexsort((_rank(rows, counts, lying), rows.number)))


def _untouched(k: int, entries: Array, touched: Array) -> Rows:
    """The chunks of an old shard that stay as they are."""
    kept = entries[:, 0] != EMPTY
    kept[touched] = False
    inner = np.flatnonzero(kept)
    table = np.zeros((len(inner), 7), np.int64)
    table[:, 0] = COPY
    table[:, 3] = k
    table[:, 4] = k
    table[:, 5:7] = entries[inner].view(np.int64)
    return Rows(table, np.full(len(inner), k, np.int64), inner, np.full(len(inner), -1, np.int64))


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
