"""The statistics that need all points of a cell at once: quantiles, the mode, functions of numpy's and of the caller's.

What it does not do: merge. Quantiles and modes are vectorised; a function is called once per cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from terrazzo.gridding.errors import SchemaError
from terrazzo.gridding.statistics.points import Points
from terrazzo.gridding.statistics.statistic import Array, Statistic

__all__ = ["Function", "Mode", "Quantile", "quantile"]


class Quantile(Statistic):
    """The values below which the given parts of the points lie, interpolated linearly, as in numpy."""

    name, mergeable = "quantile", False

    def __init__(self, source: str, parts: tuple[float, ...], single: bool, skip_nan: bool = False) -> None:
        self.source, self.parts, self.single, self.skip_nan = source, parts, single, skip_nan
        self.columns = frozenset({source})
        self.shape = () if single else (len(parts),)

    def compute(self, points: Points) -> Array:
        found = [quantile(points, self.source, part, self.skip_nan) for part in self.parts]
        return found[0] if self.single else np.stack(found, axis=1)


def quantile(points: Points, source: str, part: float, skip_nan: bool = False) -> Array:
    """One quantile of a column for every cell; float64."""
    return quantile_of(points, points.number(source), part, skip_nan, ("sorted", source))


def quantile_of(points: Points, values: Array, part: float, skip_nan: bool, key: Any) -> Array:
    cells = points.cells
    if not len(cells):
        return np.zeros(0)
    # NaN sorts to the end of its cell
    ordered = points.known(key, lambda: values[np.lexsort((values, cells.repeat(np.arange(len(cells)))))])
    missing = cells.add_whole(np.isnan(ordered))
    counts = cells.counts - missing
    place = np.maximum(counts - 1, 0) * part
    low = np.floor(place).astype(np.int64)
    high = np.minimum(low + 1, np.maximum(counts - 1, 0))
    a, b, t = ordered[cells.starts + low], ordered[cells.starts + high], place - low
    with np.errstate(invalid="ignore"):
        found = np.where(t < 0.5, a + (b - a) * t, b - (b - a) * (1 - t))
    if part == 0.5:
        found = np.where(t == 0.5, (a + b) / 2, found)
    found = np.where(t == 0, a, found)
    return np.where((counts == 0) | ((missing > 0) & (not skip_nan)), math.nan, found)


class Mode(Statistic):
    """The most frequent value; of several, the smallest."""

    name, mergeable = "mode", False

    def __init__(self, source: str) -> None:
        self.source = source
        self.columns = frozenset({source})

    def compute(self, points: Points) -> Array:
        values, cells = points.column(self.source), points.cells
        owner = cells.repeat(np.arange(len(cells)))
        order = np.lexsort((values, owner))
        values, owner = values[order], owner[order]
        new = np.ones(len(values), np.bool_)
        new[1:] = (values[1:] != values[:-1]) | (owner[1:] != owner[:-1])
        runs = np.flatnonzero(new)
        lengths = np.diff(runs, append=len(values))
        # per cell the longest run, and the first of several
        best = np.lexsort((np.arange(len(runs)), -lengths, owner[runs]))
        _, first = np.unique(owner[runs][best], return_index=True)
        return values[runs[best[first]]]


class Function(Statistic):
    """Any function of the values of a cell; called as function(values, **params), once per cell.

    params that name columns are passed as the values of that column in the cell.
    """

    mergeable = False

    def __init__(
        self,
        function: Callable[..., Any],
        source: str | None,
        params: Mapping[str, Any],
        shape: tuple[int, ...],
        where: str,
    ) -> None:
        self.function, self.source, self.where = function, source, where
        self.columns_of = {key: value for key, value in params.items() if isinstance(value, str)}
        self.params = {key: value for key, value in params.items() if not isinstance(value, str)}
        self.columns = frozenset(self.columns_of.values()) | (frozenset() if source is None else {source})
        self.name = getattr(function, "__name__", "function")
        self.shape = shape

    def compute(self, points: Points) -> Array:
        shape = self.shape or ()
        found = np.empty((len(points.cells), *shape), np.float64)
        columns = {key: points.column(name) for key, name in self.columns_of.items()}
        values = None if self.source is None else points.column(self.source)
        for k, (start, count) in enumerate(
            zip(points.cells.starts.tolist(), points.cells.counts.tolist(), strict=True)
        ):
            cut = slice(start, start + count)
            arguments = {key: column[cut] for key, column in columns.items()} | self.params
            value = np.asarray(
                self.function(**arguments) if values is None else self.function(values[cut], **arguments)
            )
            if value.shape != shape:
                raise SchemaError(
                    f"{self.where}: {self.name} answered a value of shape {list(value.shape)}; {list(shape)} "
                    "was declared"
                )
            found[k] = value
        return found
