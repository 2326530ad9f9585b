"""Pyramids: coarser grids of the same shards, each cell merged from four, as far down as is asked for.

What it does not do: look at points again. Counts and sums add, extremes stay extremes, means are weighted by the counts
of their cells, variances merge; a field that its stored values do not determine (a median) is left out, and named.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from terrazzo.gridding.accumulate import Gridded
from terrazzo.gridding.conventions import MULTISCALES
from terrazzo.gridding.errors import SchemaError
from terrazzo.gridding.grid import Grid
from terrazzo.gridding.reader import GridStore, open_grid
from terrazzo.gridding.statistics import sort_by_cell
from terrazzo.gridding.template import Template
from terrazzo.gridding.writing import CellChunks, ShardWriter
from terrazzo.groups.group import Group
from terrazzo.groups.opening import open_group
from terrazzo.progress import Progress, follow
from terrazzo.strategy import Replace

__all__ = ["build_pyramid"]

Values = np.ndarray[Any, Any]
_ADD, _LOW, _HIGH, _MEAN = "add", "min", "max", "mean"


def build_pyramid(
    store: Any, levels: int, *, group: str | None = None, progress: Progress = None
) -> tuple[list[str], list[str]]:
    """Make `levels` coarser groups beside a gridded one: the names of the groups, and of the fields left out.

    How a field merges is read from its attribute `statistic` (count, sum, min, max, mean), which a run writes.
    """
    root = store if isinstance(store, Group) else open_group(store, mode="r+")
    base = open_grid(root, group)
    rules = {name: _rule(array.attrs.get("statistic")) for name, array in base.fields.items()}
    count = next(
        (name for name, array in base.fields.items() if array.attrs.get("statistic") == "count"), None
    )
    kept = [
        name
        for name, rule in rules.items()
        if rule is not None
        and (rule != _MEAN or count is not None)
        and base.fields[name].ndim == base.grid.ndim
    ]
    left = sorted(set(rules) - set(kept))
    if not kept:
        raise SchemaError(
            "no field of this store can be merged: counts, sums, extremes, and means beside a count can"
        )
    made: list[str] = []
    shards = base.shards().tolist()
    fine, finest = base, base
    with follow(progress, levels * len(shards), "shards") as step:
        for _ in range(levels):
            grid = fine.grid.coarser()
            if grid is None:
                break
            coarse = _template(root, fine, grid, kept)
            for shard in shards:
                gridded = _merged(fine, shard, kept, rules, count)
                writer = ShardWriter(grid, shard)
                for name in kept:
                    array = coarse.arrays[name]
                    parts = CellChunks(grid, gridded.positions, gridded.values[name], array.fill_value)
                    writer.put(array.using(durability="rename", strategy=Replace(order="C")), shard, parts)
                step(1)
            coarse.store.sync()
            made.append(grid.group)
            fine = open_grid(root, grid.group)
    _describe(root, finest, made)
    return made, left


def _rule(statistic: Any) -> str | None:
    known = {"count": _ADD, "sum": _ADD, "nansum": _ADD, "min": _LOW, "max": _HIGH, "mean": _MEAN}
    return known.get(statistic) if isinstance(statistic, str) else None


def _merged(
    fine: GridStore, shard: int, names: list[str], rules: dict[str, str | None], count: str | None
) -> Gridded:
    """The cells of a shard of the coarser grid, from the populated chunks of the same shard of the finer one."""
    grid = fine.grid
    chunks = np.intersect1d(fine.chunks(None), grid.children("shard", shard))
    cells: list[Values] = []
    columns: dict[str, list[Values]] = {name: [] for name in names}
    for number in chunks.tolist():
        populated = np.zeros(grid.cells_per_chunk, np.bool_)
        found = {name: fine.chunk(number, name).reshape(-1) for name in names}
        for name, values in found.items():
            fill = fine.fields[name].fill_value
            populated |= ~np.isnan(values) if fill != fill else values != fill
        cells.append(fine.chunk_cells(number)[populated])
        for name, values in found.items():
            columns[name].append(values[populated])
    every = np.concatenate(cells) if cells else np.zeros(0, np.int64)
    positions = grid.coarse_position(grid.position_of(every))
    runs, order = sort_by_cell(positions)
    merged = {}
    weights = _ordered(columns[count], order).astype(np.float64) if count in columns else None
    for name in names:
        values = _ordered(columns[name], order)
        if rules[name] == _ADD:
            merged[name] = runs.add(values)
        elif rules[name] == _MEAN:
            assert weights is not None
            missing = np.isnan(values)
            total = runs.add(np.where(missing, 0.0, values.astype(np.float64) * weights))
            below = runs.add(np.where(missing, 0.0, weights))
            merged[name] = np.divide(total, below, out=np.full(len(runs), math.nan), where=below > 0)
        else:
            merged[name] = runs.reduce(np.fmin if rules[name] == _LOW else np.fmax, values)
        merged[name] = merged[name].astype(values.dtype)
    return Gridded(runs.cells, merged, 0)


def _ordered(parts: list[Values], order: Values | None) -> Values:
    values = np.concatenate(parts) if parts else np.zeros(0)
    return values if order is None else values[order]


def _template(root: Group, fine: GridStore, grid: Grid, names: list[str]) -> Template:
    if grid.group in root:
        del root[grid.group]
    attributes = {**grid.attributes(), "gridding": grid.describe()}
    group = root.create_group(grid.group, attributes=attributes)
    arrays = {}
    for name in names:
        array = fine.fields[name]
        arrays[name] = group.create_array(
            name,
            shape=grid.shape,
            dtype=array.dtype,
            chunks=grid.chunk_shape,
            shards=grid.shard_shape if grid.sharded else None,
            filters=None,
            serializer=array.serializer,
            compressors=array.compressors or None,
            fill_value=array.fill_value,
            dimension_names=grid.dimension_names,
            attributes=dict(array.attrs),
        )
    for name, (dimension, extent, said) in grid.coordinates().items():
        if grid.ndim > 1:
            values = grid.coordinate_values(name, 0, extent)
            group.create_array(
                name,
                data=values,
                chunks=(extent,),
                compressors=None,
                dimension_names=[dimension],
                attributes=dict(said),
            )
    return Template(group.store, group.path, arrays, {})


def _describe(root: Group, finest: GridStore, made: list[str]) -> None:
    """The multiscales block of the group above."""
    layout: list[dict[str, Any]] = []
    above = finest.group.basename
    for name in (above, *made):
        entry: dict[str, Any] = {"asset": name}
        if name != above:
            scale = 2.0 ** (1 + made.index(name))
            entry |= {
                "derived_from": above,
                "transform": {"scale": [scale] * 2 if finest.grid.ndim > 1 else [scale**2]},
            }
        layout.append(entry)
    conventions = [MULTISCALES, *finest.grid.attributes().get("zarr_conventions", [])]
    root.update_attributes(
        {"zarr_conventions": conventions, "multiscales": {"layout": layout, "resampling_method": "average"}}
    )
