"""Columns in memory: a mapping of arrays, a pandas or Arrow table, or a structured array, as one granule.

What it does not do: copy what it can use as it is. Points are put in the order of their shards once, in `prepare`, so
that a worker is sent the points of its shard and no others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from terrazzo.gridding.errors import GridConfigError, SchemaError
from terrazzo.gridding.grid import Grid
from terrazzo.gridding.inputs.source import Array, Batch, Source, Survey
from terrazzo.gridding.statistics import Cells, sort_by_cell

__all__ = ["ColumnsSource"]


class ColumnsSource(Source):
    """Points in memory; `longitude` and `latitude` name their columns, in degrees."""

    names = ("points",)

    def __init__(self, table: Any, longitude: str = "longitude", latitude: str = "latitude") -> None:
        given = _given(table)
        columns = _numbers(given)
        self._others = {str(name): str(column.dtype) for name, column in given.items() if name not in columns}
        for name in (longitude, latitude):
            if name not in columns:
                raise GridConfigError(self._missing(name, columns))
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise GridConfigError(f"the columns of the points have different lengths: {lengths}")
        self.columns = columns
        self.longitude, self.latitude = columns[longitude], columns[latitude]
        self._cells: Array | None = None
        self._grid: Grid | None = None
        self._order: Array | None = None
        self._shards: Cells | None = None
        self._shard: int | None = None

    def __len__(self) -> int:
        return len(self.longitude)

    def prepare(self, grid: Grid) -> None:
        """Find the cell of every point, and sort points by shard."""
        if self._grid == grid:
            return
        self._cells = grid.locate(self.longitude, self.latitude)
        self._shards, self._order = sort_by_cell(grid.shard_of(self._cells))
        self._grid = grid

    def survey(self, granule: int, grid: Grid, most: int) -> Survey:
        self.prepare(grid)
        assert self._shards is not None
        keys = self._shards.cells
        outside = int(self._shards.counts[keys < 0].sum())
        return Survey(keys[keys >= 0], len(self), outside, 0)

    def _rows(self, shard: int) -> slice | Array:
        """Where the points of a shard are."""
        assert self._shards is not None
        at = int(np.searchsorted(self._shards.cells, shard))
        if at == len(self._shards) or self._shards.cells[at] != shard:
            return slice(0, 0)
        rows = slice(int(self._shards.starts[at]), int(self._shards.starts[at] + self._shards.counts[at]))
        return rows if self._order is None else self._order[rows]

    def part(self, shard: int, granules: Sequence[int], columns: frozenset[str]) -> ColumnsSource:
        if self._shards is None:
            return self
        rows = self._rows(shard)
        part = ColumnsSource.__new__(ColumnsSource)
        part._others = self._others
        part.columns = {name: column[rows] for name, column in self.columns.items() if name in columns}
        part.longitude, part.latitude = self.longitude[rows], self.latitude[rows]
        part._cells = None if self._cells is None else self._cells[rows]
        part._grid = part._order = part._shards = None
        part._shard = shard
        return part

    def check(self, columns: frozenset[str]) -> None:
        for name in sorted(columns - set(self.columns)):
            raise SchemaError(self._missing(name, self.columns))

    def _missing(self, name: str, columns: Mapping[str, Array]) -> str:
        kind = self._others.get(name)
        if kind is not None:
            return f"column {name!r} of the points holds {kind}; numbers are needed, such as column.astype('float64')"
        return f"the points have no column {name!r}; there are {', '.join(columns) or 'none'}"

    def batches(self, granule: int, columns: frozenset[str], most: int) -> Iterator[Batch]:
        self.check(columns)
        for start in range(0, len(self), most):
            cut = slice(start, start + most)
            yield Batch(
                self.longitude[cut],
                self.latitude[cut],
                {name: self.columns[name][cut] for name in columns},
                None if self._cells is None else self._cells[cut],
            )

    def fingerprint(self, shard: int, granules: Sequence[int]) -> str:
        part = self if self._shard == shard else self.part(shard, granules, frozenset(self.columns))
        seen = hashlib.blake2b(digest_size=16)
        for name, column in [("", part.longitude), ("", part.latitude), *sorted(part.columns.items())]:
            seen.update(f"{name}:{column.dtype.str}:{len(column)};".encode())
            seen.update(np.ascontiguousarray(column).view(np.uint8).data)
        return seen.hexdigest()


def _given(table: Any) -> dict[Any, Array]:
    """Every column of a table, whatever it holds; what is masked is NaN.

    table: a mapping, a pandas DataFrame, anything with Arrow's `column_names` and `column`, a structured array.
    """
    if isinstance(table, Mapping):
        given = dict(table)
    elif isinstance(table, np.ndarray) and table.dtype.names:
        given = {name: table[name] for name in table.dtype.names}
    elif hasattr(table, "column_names") and hasattr(table, "column"):  # pyarrow.Table and RecordBatch
        names = list(table.column_names) if not callable(table.column_names) else list(table.column_names())
        given = {name: _from_arrow(table.column(name)) for name in names}
    elif hasattr(table, "columns") and hasattr(table, "to_numpy"):  # pandas
        given = {str(name): table[name].to_numpy() for name in table.columns}
    else:
        raise GridConfigError(
            "points are a mapping of columns, a pandas or Arrow table or a structured array, not "
            f"{type(table).__name__}"
        )
    return {name: _unmasked(column) for name, column in given.items()}


def _unmasked(column: Any) -> Array:
    if isinstance(column, np.ma.MaskedArray) and column.dtype.kind in "biuf" and np.ma.is_masked(column):
        wide = np.array(column.data, column.dtype if column.dtype.kind == "f" else np.float64)
        wide[np.ma.getmaskarray(column)] = np.nan
        return wide
    return np.asarray(column)


def _numbers(given: Mapping[Any, Array]) -> dict[str, Array]:
    """The columns of numbers, one-dimensional and in the machine's byte order; others are left out."""
    found = {}
    for name, values in given.items():
        if values.dtype.kind not in "biuf":
            continue
        if values.ndim != 1:
            raise GridConfigError(
                f"column {name!r} has {values.ndim} dimensions; points are one-dimensional columns"
            )
        found[str(name)] = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("="), copy=False))
    return found


def _from_arrow(column: Any) -> Array:
    if (
        hasattr(column, "null_count")
        and column.null_count
        and str(column.type).startswith(("int", "uint", "bool"))
    ):
        column = column.cast("float64")  # numpy's integers have no place for a missing value
    try:
        return np.asarray(
            column.to_numpy(zero_copy_only=False) if hasattr(column, "chunk") is False else column.to_numpy()
        )
    except (TypeError, ValueError):
        return np.asarray(column)
