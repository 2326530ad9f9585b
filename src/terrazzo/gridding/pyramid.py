"""Pyramids of stores that are there already: coarser grids made from what is stored, without the points.

What it does not do: know more than is stored. Counts, sums, extremes, histograms and t-digests go on from their values;
means and variances with the help of the fields beside them that count (and average) the same column; a weighted mean, a
median or an expression cannot, and is left out, and named. A run with `output.pyramid` makes all that merge, exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from terrazzo.arrays.array import Array
from terrazzo.gridding.accumulate import Gridded
from terrazzo.gridding.configuration import Output
from terrazzo.gridding.errors import SchemaError
from terrazzo.gridding.fields import Field
from terrazzo.gridding.levels import coarser_cells, coarser_grids, describe_levels, level_names
from terrazzo.gridding.planned import add_planned
from terrazzo.gridding.reader import GridStore, differs, open_grid
from terrazzo.gridding.statistics import Statistic, merging_statistic
from terrazzo.gridding.template import make_part
from terrazzo.gridding.worker import write_part
from terrazzo.groups.group import Group
from terrazzo.groups.opening import open_group
from terrazzo.progress import Progress, follow

__all__ = ["build_pyramid"]

Values = np.ndarray[Any, Any]


def build_pyramid(
    store: Any, levels: int, *, group: str | None = None, progress: Progress = None
) -> tuple[list[str], list[str]]:
    """Make `levels` coarser groups beside a gridded one: the names of the groups, and of the fields left out.

    How a field merges is read from its attributes, which a run writes. Groups of an earlier pyramid are replaced.
    """
    root = store if isinstance(store, Group) else open_group(store, mode="r+")
    base = open_grid(root, group)
    ndim = base.grid.ndim
    statistics = {name: _statistic(array, array.shape[ndim:]) for name, array in base.fields.items()}
    known = {name: one for name, one in statistics.items() if one is not None}
    kept = {
        name: _field(name, base.fields[name], one, ndim)
        for name, one in known.items()
        if one.nests
        and one.restore(_none(one), [(other, _none(other)) for other in known.values()]) is not None
    }
    left = sorted(set(base.fields) - set(kept))
    if not kept:
        raise SchemaError(
            "no field of this store can be merged: counts, sums, extremes, histograms and t-digests can, and means and "
            "variances beside a count"
        )
    for name in level_names(root, base.group.basename):
        if name in root:
            del root[name]
    grids = coarser_grids(base.grid, levels)
    output = _output(next(iter(kept.values())), base)
    parts = [make_part(root, grid, kept, output) for grid in grids]
    shards = base.shards_of_any().tolist()
    for part in parts:
        add_planned(part, np.array(shards, np.int64), "rename")
    with follow(progress, len(shards), "shards") as step:
        for shard in shards:
            gridded = _stored(base, shard, known, kept)
            for part, (_, coarse) in zip(parts, coarser_cells(base.grid, levels, kept, gridded), strict=True):
                write_part(part, shard, coarse, {}, "rename")
            step(1)
    root.store.sync()
    describe_levels(root, [base.grid, *grids])
    return [grid.group for grid in grids], left


def _statistic(array: Array, shape: tuple[int, ...]) -> Statistic | None:
    """What a field was made by, where its attributes name a statistic that merges; nothing they name is imported."""
    said = array.attrs.get("aggregation")
    if not isinstance(said, Mapping):
        return None
    return merging_statistic(said, shape, f"the attributes of {array.path!r}")


def _none(one: Statistic) -> Values:
    """The values of no cells."""
    return np.zeros((0, *(one.shape or ())))


def _field(name: str, array: Array, statistic: Statistic, ndim: int) -> Field:
    trailing = array.shape[ndim:]
    attrs = dict(array.attrs)
    return Field(
        name, statistic, array.dtype, array.fill_value, trailing, "cell", attrs, attrs["aggregation"]
    )


def _output(one: Field, base: GridStore) -> Output:
    """How the finer arrays are stored."""
    array = base.fields[one.name]
    codecs = array.metadata.codecs
    location = codecs[0].configuration.get("index_location", "end") if array.shards is not None else "end"
    return Output(inner_codecs=(array.serializer, *array.compressors), index_location=str(location))


def _stored(
    base: GridStore, shard: int, known: Mapping[str, Statistic], kept: Mapping[str, Field]
) -> Gridded:
    """The populated cells of a stored shard, and the states that their values came from."""
    grid = base.grid
    numbers = [base.chunks_of_shard(shard, name) for name in kept]
    cells: list[Values] = []
    columns: dict[str, list[Values]] = {name: [] for name in known}
    for number in np.unique(np.concatenate(numbers)).tolist():
        there = np.zeros(grid.cells_per_chunk, np.bool_)
        found = {}
        for name in known:
            array = base.fields[name]
            found[name] = base.chunk(number, name).reshape(-1, *array.shape[grid.ndim :])
            there |= differs(found[name], array.fill_value, 1)
        cells.append(base.chunk_cells(number)[there])
        for name, values in found.items():
            columns[name].append(values[there])
    every = np.concatenate(cells) if cells else np.zeros(0, np.int64)
    positions = grid.position_of(every)
    order = np.argsort(positions, kind="stable")
    stored: dict[str, Values] = {
        name: np.concatenate(parts)[order] if parts else np.zeros((0, *base.fields[name].shape[grid.ndim :]))
        for name, parts in columns.items()
    }
    beside = [(one, stored[name]) for name, one in known.items()]
    states = {}
    for name, one in kept.items():
        state = one.statistic.restore(stored[name], beside)
        assert state is not None
        states[name] = state
    return Gridded(positions[order], {name: stored[name] for name in kept}, 0, states)
