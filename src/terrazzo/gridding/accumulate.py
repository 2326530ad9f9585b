"""From the batches of one shard to one value per populated cell and field, in bounded memory.

What it does not do: read, or write. Where every field merges, what is held is states, not points; a field that needs
all points of a cell keeps the columns that it reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from terrazzo.gridding.configuration import Config
from terrazzo.gridding.errors import ChunkNotUniformError, SchemaError
from terrazzo.gridding.fields import Field
from terrazzo.gridding.inputs import Batch
from terrazzo.gridding.statistics import Cells, Points, State, sort_by_cell

__all__ = ["Accumulator", "Gridded", "cast", "chunk_runs", "uniform"]

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Gridded:
    """The populated cells of a shard. positions: int64 (m,), ascending; values: of each field, (m, …).

    states: of the fields that coarser grids are made from, where there are to be some.
    """

    positions: Array
    values: dict[str, Array]
    points: int
    states: dict[str, State] = field(default_factory=dict)


class Accumulator:
    """Takes the batches of one shard, in order, and answers its cells."""

    def __init__(self, config: Config, shard: int) -> None:
        self.config, self.shard = config, shard
        self.points = 0
        every = (*config.fields.values(), *config.precomputed.values())
        self._merges = not config.precomputed and all(one.statistic.mergeable for one in every)
        self._columns = config.columns
        self._waiting: list[tuple[Array, Mapping[str, Array]]] = []
        self._waiting_nbytes = 0
        self._cells = np.zeros(0, np.int64)
        self._states: dict[str, State] | None = None

    def add(self, batch: Batch) -> None:
        """Take the points of a batch that fall into the shard."""
        grid = self.config.grid
        cells = batch.cells if batch.cells is not None else grid.locate(batch.longitude, batch.latitude)
        keys = grid.shard_of(cells)
        columns = {name: batch.columns[name] for name in self._columns}
        mine = keys == self.shard
        if not mine.all():
            cells = cells[mine]
            columns = {name: column[mine] for name, column in columns.items()}
        if not len(cells):
            return
        self.points += len(cells)
        positions = grid.position_of(cells)
        self._waiting.append((positions, columns))
        self._waiting_nbytes += positions.nbytes + sum(column.nbytes for column in columns.values())
        if self._merges and self._waiting_nbytes > self.config.execution.memory:
            self._reduce()

    def finish(self) -> Gridded:
        fields = self.config.fields
        nested = [name for name, one in fields.items() if self.config.output.pyramid and one.nests]
        if self._states is None:
            points = self._precomputed(self._take())
            states = {name: fields[name].statistic.begin(points) for name in nested}
            found = {
                name: one.statistic.finish(states[name]) if name in states else one.statistic.compute(points)
                for name, one in fields.items()
            }
            cells = points.cells.cells
        else:
            self._reduce()
            found = {name: one.statistic.finish(self._states[name]) for name, one in fields.items()}
            states, cells = {name: self._states[name] for name in nested}, self._cells
        values = {name: cast(found[name], one) for name, one in fields.items()}
        return Gridded(cells, values, self.points, states)

    def _take(self) -> Points:
        """All waiting points, sorted by cell."""
        waiting, self._waiting, self._waiting_nbytes = self._waiting, [], 0
        if len(waiting) == 1:
            positions, columns = waiting[0]
        else:
            positions = np.concatenate([one for one, _ in waiting]) if waiting else np.zeros(0, np.int64)
            columns = {
                name: np.concatenate([part[name] for _, part in waiting]) if waiting else np.zeros(0)
                for name in self._columns
            }
        cells, order = sort_by_cell(positions)
        return Points(cells, order, columns)

    def _reduce(self) -> None:
        """Turn waiting points into states, and merge them with those of earlier batches."""
        if not self._waiting:
            return
        points = self._take()
        fresh = {name: one.statistic.begin(points) for name, one in self.config.fields.items()}
        if self._states is None:
            self._cells, self._states = points.cells.cells, fresh
            return
        cells, order = sort_by_cell(np.concatenate([self._cells, points.cells.cells]))
        merged = {}
        for name, one in self.config.fields.items():
            joined = {
                key: np.concatenate([column, fresh[name][key]]) for key, column in self._states[name].items()
            }
            if order is not None:
                joined = {key: column[order] for key, column in joined.items()}
            merged[name] = one.statistic.merge(joined, cells)
        self._cells, self._states = cells.cells, merged

    def _precomputed(self, points: Points) -> Points:
        """The points with a column for each number that is computed over the whole inner chunk."""
        if not self.config.precomputed:
            return points
        runs = chunk_runs(points.cells.cells, self.config.grid.cells_per_chunk)
        starts = points.cells.starts[runs.starts]
        chunks = Cells(runs.cells, starts, points.cells.n)
        names = self._columns
        sorted_columns = {name: points.column(name) for name in names}
        around = Points(chunks, None, sorted_columns)
        for name, one in self.config.precomputed.items():
            sorted_columns[name] = chunks.repeat(cast(one.statistic.compute(around), one))
        return Points(points.cells, None, sorted_columns)


def chunk_runs(positions: Array, cells_per_chunk: int) -> Cells:
    """The runs of ascending positions that lie in one inner chunk."""
    chunks = positions // cells_per_chunk
    first = np.ones(len(chunks), np.bool_)
    first[1:] = chunks[1:] != chunks[:-1]
    starts = np.flatnonzero(first)
    return Cells(chunks[starts], starts, len(chunks))


def uniform(
    one: Field, positions: Array, values: Array, cells_per_chunk: int, shard: int
) -> tuple[Array, Array]:
    """One value per populated inner chunk of a field that was declared so: numbers, values; NaN does not count."""
    runs = chunk_runs(positions, cells_per_chunk)
    if not len(runs):
        return runs.cells, values[:0]
    low, high = runs.reduce(np.fmin, values), runs.reduce(np.fmax, values)
    uneven = (low != high) & ~(np.isnan(low) if low.dtype.kind == "f" else np.zeros(low.shape, np.bool_))
    if uneven.any():
        at = int(np.flatnonzero(uneven.reshape(len(runs), -1).any(axis=1))[0])
        part = values[runs.starts[at] : runs.starts[at] + runs.counts[at]]
        found = np.unique(part[~np.isnan(part)] if part.dtype.kind == "f" else part)
        raise ChunkNotUniformError(
            f"field {one.name!r} has resolution chunk, and the cells of inner chunk {int(runs.cells[at])} of shard "
            f"{shard} have {len(found)} distinct values, from {found[0]} to {found[-1]}: make the expression one "
            "value per chunk (chunk_precompute), or the resolution cell"
        )
    return runs.cells, low


def cast(values: Array, one: Field) -> Array:
    """The values in the field's type; NaN in a type without NaN is the fill value.

    Raises SchemaError where an integer type does not hold a value.
    """
    values = np.asarray(values)
    if one.dtype.kind in "iub" and values.dtype.kind == "f":
        missing = np.isnan(values)
        if missing.any():
            values = np.where(missing, np.float64(one.fill_value), values)
    if one.dtype.kind in "iu" and not np.can_cast(values.dtype, one.dtype):
        _check_range(values, one)
    with np.errstate(invalid="ignore", over="ignore"):
        return values.astype(one.dtype)


def _check_range(values: Array, one: Field) -> None:
    """Refuse what would come out of an integer type as another number."""
    limits = np.iinfo(one.dtype)
    if values.dtype.kind == "f":
        # not every greatest integer has a float of its own, but the power of two after it has
        outside = (np.trunc(values) < float(limits.min)) | (values >= float(limits.max + 1))
    else:
        outside = np.zeros(values.shape, np.bool_)
        if values.dtype.kind == "i":
            outside |= values < limits.min
        outside |= values > limits.max
    if outside.any():
        found = values[outside].flat[0]
        raise SchemaError(
            f"field {one.name!r} has the type {one.dtype}, which goes from {limits.min} to {limits.max}, and the "
            f"{one.statistic.name} of a cell is {found}; declare a wider dtype"
        )
