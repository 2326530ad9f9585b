"""From a stored group to its grid: by our own attributes, or by those that other writers leave.

What it does not do: believe them: shapes and chunks of the arrays have to fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from terrazzo.arrays.array import Array
from terrazzo.gridding.configuration import grid_from
from terrazzo.gridding.errors import GridMismatchError
from terrazzo.gridding.grid import Grid
from terrazzo.gridding.healpix import HealpixGrid
from terrazzo.gridding.rectilinear import RectilinearGrid

__all__ = ["grid_of"]


def grid_of(attributes: Mapping[str, Any], arrays: Mapping[str, Array], where: str) -> Grid:
    """The grid of a group with these attributes and arrays."""
    own = attributes.get("gridding")
    if isinstance(own, Mapping):
        grid = grid_from(own)
        if isinstance(grid, RectilinearGrid):
            grid = grid.named(where.strip("/").rpartition("/")[2])
    elif isinstance(attributes.get("dggs"), Mapping):
        grid = _healpix(attributes["dggs"], arrays, where)
    elif {"crs", "resolution", "bounds"} <= set(attributes):
        grid = _rectilinear(attributes, arrays, where)
    else:
        raise GridMismatchError(
            f"group {where!r} says nothing of a grid: neither gridding nor dggs, nor crs, resolution and bounds"
        )
    shapes = {array.shape[: grid.ndim] for array in arrays.values()}
    if grid.shape not in shapes:
        raise GridMismatchError(f"group {where!r}: the grid has shape {grid.shape}, and no array has it")
    return grid


def _healpix(dggs: Mapping[str, Any], arrays: Mapping[str, Array], where: str) -> HealpixGrid:
    order = dggs.get("refinement_level")
    named = dggs.get("name") in ("healpix", "morton") and dggs.get("indexing_scheme", "nested") == "nested"
    if not named or not isinstance(order, int) or not 0 <= order <= 29:
        raise GridMismatchError(
            f"group {where!r}: dggs is {dict(dggs)}; nested healpix of an order 0 to 29 is supported"
        )
    ellipsoid = dggs.get("ellipsoid")
    name = ellipsoid.get("name") if isinstance(ellipsoid, Mapping) else ellipsoid
    whole = [a for a in arrays.values() if a.shape == (12 * 4**order,)]
    if not whole:
        raise GridMismatchError(f"group {where!r}: no array has the {12 * 4**order} cells of order {order}")
    array = max(whole, key=lambda one: one.shards is not None)
    (stored,) = array.shards or array.chunks
    (inner,) = array.chunks
    steps = []
    for cells in (stored, inner):
        step = (cells.bit_length() - 1) // 2
        if 4**step != cells or step > order:
            raise GridMismatchError(f"{array.path!r}: chunks of {cells} cells are no power of four")
        steps.append(order - step)
    parent, chunk = steps
    wgs84 = isinstance(name, str) and name.upper().replace(" ", "") in ("WGS84", "WGS1984")
    return HealpixGrid(
        parent, order, chunk, array.shards is not None and chunk > parent, "WGS84" if wgs84 else "sphere"
    )


def _rectilinear(attributes: Mapping[str, Any], arrays: Mapping[str, Array], where: str) -> RectilinearGrid:
    bounds = attributes["bounds"]
    flat = [a for a in arrays.values() if a.ndim >= 2]
    if not flat:
        raise GridMismatchError(f"group {where!r} has no array of two dimensions")
    array = max(flat, key=lambda one: (one.shards is not None, one.size))
    stored, inner = (array.shards or array.chunks)[:2], array.chunks[:2]
    return RectilinearGrid(
        attributes["crs"],
        attributes["resolution"],
        bounds,
        stored,
        inner,
        array.shards is not None and stored != inner,
        where.strip("/").rpartition("/")[2] or "rectilinear",
    )
