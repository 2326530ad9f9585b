"""The statistics that merge: count, sum, extremes, means, variance, first and last, histogram.

What it does not do: keep points. Sums are float64, whatever the column is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from terrazzo.gridding.statistics.points import Cells, Points
from terrazzo.gridding.statistics.statistic import Array, State, Statistic

__all__ = ["Count", "End", "Extreme", "Histogram", "Mean", "Spread", "Sum", "WeightedMean"]


#: other fields of the same cells: what they are, and their stored values
Beside = Sequence[tuple[Statistic, Array]]


class OfColumn(Statistic):
    """A statistic of one column; `skip_nan` leaves values out that are NaN."""

    def __init__(self, name: str, source: str, skip_nan: bool = False) -> None:
        self.name, self.source, self.skip_nan = name, source, skip_nan
        self.columns = frozenset({source})

    def values(self, points: Points, instead: float) -> tuple[Array, Array]:
        """The column, and how many of its values count in each cell; what does not is `instead`."""
        values = points.number(self.source)
        if not self.skip_nan:
            return values, points.cells.counts
        missing = np.isnan(values)
        return np.where(missing, instead, values), points.cells.add_whole(~missing)

    def counts(self, beside: Beside) -> Array | None:
        """How many values counted in each cell, where a field beside this one has it; int64."""
        for one, found in beside:
            if isinstance(one, Count) and (
                one.source == self.source or (one.source is None and not self.skip_nan)
            ):
                return found.astype(np.int64)
        return None


class Count(Statistic):
    """How many points there are; of a column, how many of its values are not NaN."""

    name, dtype = "count", "int32"

    def __init__(self, source: str | None = None) -> None:
        self.source = source
        self.columns = frozenset() if source is None else frozenset({source})

    def begin(self, points: Points) -> State:
        if self.source is None:
            return {"n": points.cells.counts}
        return {"n": points.cells.add_whole(~np.isnan(points.number(self.source)))}

    def merge(self, states: State, cells: Cells) -> State:
        return {"n": cells.add(states["n"])}

    def finish(self, state: State) -> Array:
        return state["n"]

    def restore(self, values: Array, beside: Beside) -> State | None:
        return {"n": values.astype(np.int64)}


class Sum(OfColumn):
    def begin(self, points: Points) -> State:
        values, _ = self.values(points, 0.0)
        return {"sum": points.known(("sum", self.source, self.skip_nan), lambda: points.cells.add(values))}

    def merge(self, states: State, cells: Cells) -> State:
        return {"sum": cells.add(states["sum"])}

    def finish(self, state: State) -> Array:
        return state["sum"]

    def restore(self, values: Array, beside: Beside) -> State | None:
        return {"sum": values.astype(np.float64)}


class Mean(Sum):
    def begin(self, points: Points) -> State:
        _, counts = self.values(points, 0.0)
        return {**super().begin(points), "n": counts}

    def merge(self, states: State, cells: Cells) -> State:
        return {name: cells.add(column) for name, column in states.items()}

    def finish(self, state: State) -> Array:
        return _ratio(state["sum"], state["n"])

    def restore(self, values: Array, beside: Beside) -> State | None:
        n = self.counts(beside)
        return None if n is None else {"sum": np.where(n > 0, values.astype(np.float64) * n, 0.0), "n": n}


class Extreme(OfColumn):
    """The smallest ("min") or the largest ("max") value."""

    def __init__(self, name: str, source: str, skip_nan: bool = False) -> None:
        super().__init__(name, source, skip_nan)
        self.ufunc: Any = np.minimum if name == "min" else np.maximum
        if skip_nan:
            self.ufunc = np.fmin if name == "min" else np.fmax

    def begin(self, points: Points) -> State:
        return {"value": points.cells.reduce(self.ufunc, points.column(self.source))}

    def merge(self, states: State, cells: Cells) -> State:
        return {"value": cells.reduce(self.ufunc, states["value"])}

    def finish(self, state: State) -> Array:
        return state["value"]

    def restore(self, values: Array, beside: Beside) -> State | None:
        return {"value": values}


class Spread(OfColumn):
    """Variance ("var") or standard deviation ("std") with `ddof`; two passes, and means with their errors, so that
    large means cost no digits.
    """

    def __init__(self, name: str, source: str, skip_nan: bool = False, ddof: int = 0) -> None:
        super().__init__(name, source, skip_nan)
        self.ddof = ddof

    def begin(self, points: Points) -> State:
        values, counts = self.values(points, 0.0)
        cells = points.cells
        mean = _ratio(cells.add(values), counts)
        deviation = values - cells.repeat(mean)
        if self.skip_nan:
            deviation[np.isnan(points.number(self.source))] = 0.0
        # a mean has an error, the mean of the deviations; it is kept beside it, and taken out of the squares
        there = counts > 0
        with np.errstate(over="ignore", invalid="ignore"):
            low = np.where(there, _ratio(cells.add(deviation), counts), 0.0)
            m2 = cells.add(deviation * deviation)
            m2 = np.where(np.isfinite(m2), np.maximum(m2 - counts * low * low, 0.0), m2)
        return {"n": counts, "mean": np.where(there, mean, 0.0), "low": low, "m2": m2}

    def merge(self, states: State, cells: Cells) -> State:
        n = cells.add(states["n"])
        mean = _ratio(cells.add(states["n"] * states["mean"]), n)
        mean = np.where(n > 0, mean, 0.0)
        # differences of means that are close are exact, and their errors are known
        apart = (states["mean"] - cells.repeat(mean)) + states["low"]
        low = np.where(n > 0, _ratio(cells.add(states["n"] * apart), n), 0.0)
        between = states["n"] * (apart - cells.repeat(low)) ** 2
        return {"n": n, "mean": mean, "low": low, "m2": cells.add(states["m2"] + between)}

    def finish(self, state: State) -> Array:
        n = state["n"] - self.ddof
        variance = _ratio(state["m2"], np.maximum(n, 0))
        return np.sqrt(variance) if self.name == "std" else variance

    def restore(self, values: Array, beside: Beside) -> State | None:
        n = self.counts(beside)
        means = [
            found
            for one, found in beside
            if type(one) is Mean and (one.source, one.skip_nan) == (self.source, self.skip_nan)
        ]
        if n is None or not means:
            return None
        variance = values.astype(np.float64) ** (2 if self.name == "std" else 1)
        # a cell with too few points for ddof has no deviation of its own, or one that nobody stored
        known = np.where(n > self.ddof, variance * (n - self.ddof), np.where(n > 1, math.nan, 0.0))
        mean = np.where(n > 0, means[0].astype(np.float64), 0.0)
        return {"n": n, "mean": mean, "low": np.zeros_like(mean), "m2": known}


class WeightedMean(Statistic):
    """The sum of weight times value over the sum of weights; weights are a column or an expression over columns."""

    name = "average"

    def __init__(self, source: str, weights: Any) -> None:
        self.source, self.weights = source, weights
        self.columns = frozenset({source}) | weights.columns

    def begin(self, points: Points) -> State:
        weights = self.weights.per_point(points)
        return {
            "weighted": points.cells.add(points.number(self.source) * weights),
            "weight": points.cells.add(weights),
        }

    def merge(self, states: State, cells: Cells) -> State:
        return {name: cells.add(column) for name, column in states.items()}

    def finish(self, state: State) -> Array:
        return _ratio(state["weighted"], state["weight"])


class End(Statistic):
    """The first or the last value, in the order of the input; with `by`, of the smallest or greatest `by`."""

    def __init__(self, name: str, source: str, by: str | None = None) -> None:
        self.name, self.source, self.by = name, source, by
        self.columns = frozenset({source} | ({by} if by else set()))
        # without `by` the order of points decides, and states of cells have none
        self.nests = by is not None

    def begin(self, points: Points) -> State:
        state = {"value": points.column(self.source)}
        if self.by is not None:
            state["by"] = points.number(self.by)
        return self.merge(state, points.cells)

    def merge(self, states: State, cells: Cells) -> State:
        first = self.name == "first"
        if self.by is None or not len(cells):
            at = cells.starts if first else cells.starts + cells.counts - 1
        else:
            best = cells.reduce(np.fmin if first else np.fmax, states["by"])
            there = np.flatnonzero((states["by"] == cells.repeat(best)) | np.isnan(cells.repeat(best)))
            owner = np.searchsorted(cells.starts, there, "right") - 1
            at = there[np.searchsorted(owner, np.arange(len(cells)))]
        return {name: column[at] for name, column in states.items()}

    def finish(self, state: State) -> Array:
        return state["value"]


class Histogram(Statistic):
    """How many values lie between consecutive edges; the last interval holds its upper edge too, as in numpy."""

    name, dtype = "histogram", "int32"

    def __init__(self, source: str, edges: Array) -> None:
        self.source, self.edges = source, edges
        self.columns = frozenset({source})
        self.shape = (len(edges) - 1,)

    def begin(self, points: Points) -> State:
        values, bins = points.number(self.source), len(self.edges) - 1
        bin_ = np.searchsorted(self.edges, values, "right") - 1
        bin_[values == self.edges[-1]] = bins - 1
        inside = (bin_ >= 0) & (bin_ < bins) & ~np.isnan(values)
        owner = points.cells.repeat(np.arange(len(points.cells)))
        flat = owner[inside] * bins + bin_[inside]
        return {"n": np.bincount(flat, minlength=len(points.cells) * bins).reshape(-1, bins)}

    def merge(self, states: State, cells: Cells) -> State:
        return {"n": cells.add(states["n"])}

    def finish(self, state: State) -> Array:
        return state["n"]

    def restore(self, values: Array, beside: Beside) -> State | None:
        return {"n": values.astype(np.int64)}


def _ratio(above: Array, below: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Array = np.asarray(above / below, np.float64)
    found[np.asarray(below) == 0] = math.nan
    return found
