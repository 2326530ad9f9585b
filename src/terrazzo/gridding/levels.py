"""Levels: the coarser grids of a pyramid, each cell's state merged from those of four cells below.

What it does not do: look at points, or write shards. A state is what a statistic needs to go on (a sum and a count, not
a mean), so a coarser cell has the value that its points would have given it.
Specification: the convention multiscales v0.1 of github.com/zarr-conventions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from terrazzo.gridding.accumulate import Gridded, cast
from terrazzo.gridding.conventions import MULTISCALES
from terrazzo.gridding.fields import Field
from terrazzo.gridding.grid import Array, Grid
from terrazzo.gridding.statistics import State, sort_by_cell
from terrazzo.groups.group import Group

__all__ = ["coarser_cells", "coarser_grids", "describe_levels", "level_names"]


def coarser_grids(grid: Grid, most: int) -> list[Grid]:
    """Up to `most` coarser grids, as far as shards have cells enough."""
    found: list[Grid] = []
    while len(found) < most:
        coarse = (found[-1] if found else grid).coarser()
        if coarse is None:
            break
        found.append(coarse)
    return found


def coarser_cells(
    grid: Grid, levels: int, fields: Mapping[str, Field], gridded: Gridded
) -> Iterator[tuple[Grid, Gridded]]:
    """The cells of a shard in each coarser grid, from `gridded.states`."""
    states, positions = gridded.states, gridded.positions
    for coarse in coarser_grids(grid, levels):
        cells, order = sort_by_cell(grid.coarse_position(positions))
        states = {
            name: fields[name].statistic.merge(_ordered(state, order), cells)
            for name, state in states.items()
        }
        grid, positions = coarse, cells.cells
        values = {
            name: cast(fields[name].statistic.finish(state), fields[name]) for name, state in states.items()
        }
        yield grid, Gridded(positions, values, gridded.points)


def _ordered(state: State, order: Array | None) -> State:
    return state if order is None else {key: np.take(column, order, axis=0) for key, column in state.items()}


def describe_levels(root: Group, grids: Sequence[Grid]) -> None:
    """The multiscales block of the group above, finest grid first; of a rectilinear grid, with proj and spatial."""
    layout: list[dict[str, Any]] = []
    for k, grid in enumerate(grids):
        entry: dict[str, Any] = {"asset": grid.group}
        if k:
            # twice as long edges; of cells in one dimension, a quarter of them
            scale = [2.0, 2.0] if grid.ndim > 1 else [4.0]
            entry |= {"derived_from": grids[k - 1].group, "transform": {"scale": scale}}
        layout.append(entry | _chosen(grid, ("spatial:shape", "spatial:transform")))
    said = _chosen(grids[0], ("spatial:dimensions", "spatial:bbox", "proj:code", "proj:wkt2"))
    others = grids[0].attributes()["zarr_conventions"] if said else []
    block = {"layout": layout, "resampling_method": "merged"}
    attributes = {"zarr_conventions": [MULTISCALES, *others], "multiscales": block, **said}
    before = dict(root.attrs)
    if any(before.get(key) != value for key, value in attributes.items()):
        root.update_attributes(attributes)


def _chosen(grid: Grid, keys: Sequence[str]) -> dict[str, Any]:
    said = grid.attributes()
    return {key: said[key] for key in keys if key in said}


def level_names(root: Group, finest: str) -> list[str]:
    """The groups of the coarser grids that were made from a group, as the group above says."""
    block = dict(root.attrs).get("multiscales")
    layout = block.get("layout") if isinstance(block, Mapping) else None
    found = [finest]
    for entry in layout if isinstance(layout, list) else []:
        if (
            isinstance(entry, Mapping)
            and entry.get("derived_from") in found
            and isinstance(entry.get("asset"), str)
        ):
            found.append(str(entry["asset"]))
    return found[1:]
