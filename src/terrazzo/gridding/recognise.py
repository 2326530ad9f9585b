"""From a stored group to its grid: by our own attributes, or by those that others write: dggs, zagg's, GeoZarr's.

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

__all__ = ["grid_of", "says_grid"]


def says_grid(attributes: Mapping[str, Any]) -> bool:
    """Whether attributes say anything of a grid."""
    names = set(attributes)
    return bool(names & {"gridding", "dggs"}) or names >= _PLAIN or _geozarr(attributes)


_PLAIN = {"crs", "resolution", "bounds"}


def _geozarr(attributes: Mapping[str, Any]) -> bool:
    return "spatial:transform" in attributes and bool({"proj:code", "proj:wkt2"} & set(attributes))


def grid_of(
    attributes: Mapping[str, Any], arrays: Mapping[str, Array], where: str, ellipsoid: str | None = None
) -> Grid:
    """The grid of a group with these attributes and arrays; ellipsoid: instead of the one that they say."""
    own = attributes.get("gridding")
    if isinstance(own, Mapping):
        grid = grid_from(own)
        if isinstance(grid, RectilinearGrid):
            grid = grid.named(where.strip("/").rpartition("/")[2])
    elif isinstance(attributes.get("dggs"), Mapping):
        grid = _healpix(attributes["dggs"], arrays, where)
    elif set(attributes) >= _PLAIN:
        grid = _rectilinear(attributes, arrays, where)
    elif _geozarr(attributes):
        grid = _rectilinear(_plain(attributes, arrays, where), arrays, where)
    else:
        raise GridMismatchError(
            f"group {where!r} says nothing of a grid: neither gridding nor dggs, nor crs, resolution and bounds, nor "
            "proj: and spatial:"
        )
    if ellipsoid is not None:
        if not isinstance(grid, HealpixGrid):
            raise GridMismatchError(f"group {where!r}: only HEALPix grids have an ellipsoid")
        grid = grid_from({**grid.describe(), "ellipsoid": ellipsoid})
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
    ellipsoid = _ellipsoid(dggs.get("ellipsoid"), where)
    return HealpixGrid(parent, order, chunk, array.shards is not None and chunk > parent, ellipsoid)


def _ellipsoid(given: Any, where: str) -> str:
    """The ellipsoid by its numbers, else by its name; none means a sphere."""
    if given is None:
        return "sphere"
    said = given if isinstance(given, Mapping) else {"name": given}
    axis = said.get("semimajor_axis", said.get("semi_major_axis"))
    flattening = said.get("inverse_flattening")
    minor = said.get("semiminor_axis", said.get("semi_minor_axis"))
    if isinstance(axis, int | float) and isinstance(minor, int | float) and axis > minor:
        flattening = axis / (axis - minor)
    if isinstance(axis, int | float):
        if not flattening:
            return "sphere"
        if abs(axis - 6378137.0) < 1e-3 and abs(float(flattening) - 298.257223563) < 1e-5:
            return "WGS84"
    else:
        name = str(said.get("name", "")).upper().replace(" ", "").replace("_", "")
        if name in ("WGS84", "WGS1984"):
            return "WGS84"
        if name == "SPHERE":
            return "sphere"
    raise GridMismatchError(
        f"group {where!r}: its cells are on the ellipsoid {given!r}; WGS84 and spheres are supported; "
        "open_grid(…, ellipsoid=…) reads it as one of them"
    )


def _plain(attributes: Mapping[str, Any], arrays: Mapping[str, Array], where: str) -> dict[str, Any]:
    """crs, resolution and bounds, from proj: and spatial:."""
    affine = attributes["spatial:transform"]
    flat = [a for a in arrays.values() if a.ndim >= 2]
    six = isinstance(affine, list) and len(affine) == 6
    if not six or not all(type(v) in (int, float) for v in affine) or not flat:
        raise GridMismatchError(f"group {where!r}: spatial:transform is {affine!r}; six numbers are needed")
    a, b, c, d, e, f = (float(v) for v in affine)
    if b or d or not a > 0 > e or attributes.get("spatial:registration", "pixel") != "pixel":
        raise GridMismatchError(
            f"group {where!r}: spatial:transform is {affine}; grids with north up, by cells, are supported"
        )
    height, width = max(flat, key=lambda one: one.size).shape[:2]
    return {
        "crs": attributes.get("proj:code", attributes.get("proj:wkt2")),
        "resolution": [a, -e],
        "bounds": [c, f + e * height, c + a * width, f],
    }


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
