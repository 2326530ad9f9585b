"""t-digest: quantiles of any number of points from a fixed number of weighted means, which merge.

What it does not do: answer exactly; near both ends it is close, in the middle within about 1 / size.
Specification: Dunning 2019, "Computing extremely accurate quantiles using t-digests", scale function k1.

Points are clustered by the scale's value at the middle of their rank, for all cells at once. A cell's value is an array
(size, 2) of mean and weight, ascending, NaN after the last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from terrazzo.gridding.statistics.points import Cells, Points
from terrazzo.gridding.statistics.statistic import Array, State, Statistic

__all__ = ["Digest", "digest_quantile"]


class Digest(Statistic):
    name, dtype = "tdigest", "float64"

    def __init__(self, source: str, size: int) -> None:
        self.source, self.size = source, size
        self.columns = frozenset({source})
        self.shape = (size, 2)

    def begin(self, points: Points) -> State:
        values = points.number(self.source)
        return self._cluster(values, np.where(np.isnan(values), 0.0, 1.0), points.cells)

    def merge(self, states: State, cells: Cells) -> State:
        digests = states["digest"]
        means, weights = digests[:, :, 0].reshape(-1), digests[:, :, 1].reshape(-1)
        wide = Cells(cells.cells, cells.starts * self.size, cells.n * self.size)
        return self._cluster(means, np.where(np.isnan(weights), 0.0, weights), wide)

    def finish(self, state: State) -> Array:
        return state["digest"]

    def restore(self, values: Array, beside: Sequence[tuple[Statistic, Array]]) -> State | None:
        return {"digest": values.astype(np.float64)}

    def _cluster(self, values: Array, weights: Array, cells: Cells) -> State:
        digest = np.full((len(cells), self.size, 2), math.nan)
        owner = cells.repeat(np.arange(len(cells)))
        there = weights > 0
        owner, values, weights = owner[there], values[there], weights[there]
        if not len(values):
            return {"digest": digest}
        order = np.lexsort((values, owner))
        owner, values, weights = owner[order], values[order], weights[order]
        total = np.bincount(owner, weights, len(cells))
        before = np.cumsum(weights) - weights
        first = np.searchsorted(owner, np.arange(len(cells)))
        # a cell without values has no first of its own
        offset = before[np.minimum(first, len(before) - 1)]
        rank = np.clip((before - offset[owner] + weights / 2) / total[owner], 0.0, 1.0)
        scale = np.floor(self.size * (np.arcsin(2 * rank - 1) / math.pi + 0.5)).astype(np.int64)
        cluster = owner * self.size + np.clip(scale, 0, self.size - 1)
        new = np.flatnonzero(np.diff(cluster, prepend=-1))
        weight = np.add.reduceat(weights, new)
        mean = np.add.reduceat(weights * values, new) / weight
        cell = owner[new]
        place = np.arange(len(new)) - np.searchsorted(cell, cell)
        digest[cell, place, 0], digest[cell, place, 1] = mean, weight
        return {"digest": digest}


def digest_quantile(digest: Any, part: float) -> float:
    """A quantile of one cell's t-digest, (size, 2) of mean and weight, by linear interpolation between clusters.

    >>> digest_quantile(np.array([[1.0, 2], [3, 2], [np.nan, np.nan]]), 0.5)
    2.0
    """
    rows = np.asarray(digest, np.float64)
    rows = rows[~np.isnan(rows[:, 0])]
    if not len(rows):
        return math.nan
    middle = np.cumsum(rows[:, 1]) - rows[:, 1] / 2
    return float(np.interp(part * rows[:, 1].sum(), middle, rows[:, 0]))
