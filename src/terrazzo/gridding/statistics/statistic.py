"""Statistic: the contract of everything that can be computed for a cell.

What it does not do: sort, or cast to the output's type.

A mergeable statistic turns points into a *state*, columns of a few numbers per cell; states of several batches are laid
after one another, sorted by cell, and merged, so that a shard of any number of points fits into memory. One that is not
mergeable (a median) computes from all points of a cell at once, and keeps its columns until they are there.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Any

import numpy as np

from terrazzo.gridding.statistics.points import Cells, Points

__all__ = ["State", "Statistic"]

Array = np.ndarray[Any, Any]
#: columns with one row per cell
State = dict[str, Array]


class Statistic(ABC):
    """Computes one value per cell. Instances are immutable and can be pickled."""

    name: str = ""
    #: columns of the points that it reads
    columns: frozenset[str] = frozenset()
    #: of the output, where nothing else is declared
    dtype: str = "float32"
    #: of one cell's value; None where any is fine
    shape: tuple[int, ...] | None = ()
    mergeable: bool = True
    #: whether the states of neighbouring cells merge, too, to the state of the cell around them
    nests: bool = True

    def compute(self, points: Points) -> Array:
        """The value of every cell, from all of its points."""
        return self.finish(self.begin(points))

    def begin(self, points: Points) -> State:
        """The state of every cell."""
        raise TypeError(f"{self.name} needs all points of a cell at once")

    def merge(self, states: State, cells: Cells) -> State:
        """One state per cell, from the states of batches in the order of the batches."""
        raise TypeError(f"{self.name} needs all points of a cell at once")

    def finish(self, state: State) -> Array:
        """The value of every cell."""
        raise TypeError(f"{self.name} needs all points of a cell at once")

    def restore(self, values: Array, beside: Sequence[tuple[Statistic, Array]]) -> State | None:
        """The state that stored values came from, with the help of other fields of the same cells; None where there is
        none to be had.
        """
        return None
