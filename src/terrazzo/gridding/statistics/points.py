"""Points sorted by cell: one sort for all fields, then every statistic is a few calls over whole columns.

What it does not do: know grids or fields. A cell is a number here.

The sort is stable, so first, last and sums come out the same wherever the points are gridded. Cell and place are packed
into one integer, because numpy sorts those without a comparison function, several times faster than a stable argsort.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

__all__ = ["Cells", "Points", "sort_by_cell"]

Array = np.ndarray[Any, Any]


class Cells:
    """Runs of equal cells: `cells` int64 (m,), where each run starts and how many points it has."""

    __slots__ = ("cells", "counts", "n", "starts")

    def __init__(self, cells: Array, starts: Array, n: int) -> None:
        self.cells = cells
        self.starts = starts
        self.n = n
        self.counts = np.diff(starts, append=n)

    def __len__(self) -> int:
        return len(self.cells)

    def repeat(self, values: Array) -> Array:
        """One value per cell, given to each of its points."""
        return np.repeat(values, self.counts, axis=0)

    def add(self, values: Array) -> Array:
        """Sums over each cell's points, along the first axis."""
        return self.reduce(np.add, values)

    def reduce(self, ufunc: Any, values: Array) -> Array:
        if not len(self):
            return np.zeros((0, *values.shape[1:]), values.dtype)
        found: Array = ufunc.reduceat(values, self.starts, axis=0)
        return found

    def add_whole(self, values: Array) -> Array:
        """Sums of integers or booleans, as int64."""
        return self.add(values.astype(np.int64))


class Points:
    """Columns of points, seen in the order of their cells. A column is taken when it is first asked for."""

    def __init__(self, cells: Cells, order: Array | None, columns: Mapping[str, Array]) -> None:
        self.cells = cells
        self._order = order
        self._columns = columns
        self._taken: dict[Any, Array] = {}

    def column(self, name: str) -> Array:
        """A column in the order of cells, as it is."""
        return self.known(("column", name), lambda: self._take(self._columns[name]))

    def number(self, name: str) -> Array:
        """A column in the order of cells, as float64."""
        return self.known(("number", name), lambda: self.column(name).astype(np.float64, copy=False))

    def known(self, key: Any, make: Callable[[], Array]) -> Array:
        """A value that several statistics share, made once."""
        found = self._taken.get(key)
        if found is None:
            found = self._taken[key] = make()
        return found

    def _take(self, column: Array) -> Array:
        return column if self._order is None else column.take(self._order, axis=0)


def sort_by_cell(numbers: Array) -> tuple[Cells, Array | None]:
    """The cells of points, ascending, and the order that sorts the points (None: they are sorted)."""
    numbers = np.asarray(numbers, np.int64)
    n = len(numbers)
    order: Array | None = None
    ordered = numbers
    if n > 1 and (numbers[1:] < numbers[:-1]).any():
        low, high = int(numbers.min()), int(numbers.max())
        bits = (n - 1).bit_length()
        if (high - low).bit_length() + bits <= 63:
            packed = (numbers - low) << bits
            packed |= np.arange(n)
            packed.sort()
            order = packed & ((1 << bits) - 1)
            packed >>= bits
            packed += low
            ordered = packed
        else:
            order = np.argsort(numbers, kind="stable")
            ordered = numbers[order]
    first = np.empty(n, np.bool_)
    first[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    starts = np.flatnonzero(first)
    return Cells(ordered[starts], starts, n), order
