"""Covering: the shards of a grid that a region may touch, found without looking at a point or at a store.

What it does not do: miss one. Shards are tried by circles around them, then by circles around their parts.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from terrazzo.gridding.errors import GridConfigError
from terrazzo.gridding.grid import Array, Grid
from terrazzo.gridding.healpix import HealpixGrid
from terrazzo.gridding.regions import Region

__all__ = ["covering"]

#: shards of one region at most; more are a mistake, or a grid whose shards are too small
MOST = 4_000_000
#: so many candidates at most are looked at part by part
_FEW = 50_000


def covering(grid: Grid, region: Region, margin: float = 0.0) -> Array:
    """The keys of the shards that may touch a region, or come within `margin` degrees of it; ascending int64."""
    if isinstance(grid, HealpixGrid):
        return _nested(grid, region, margin)
    keys = np.arange(grid.n_shards, dtype=np.int64)
    lon, lat, radius = _circles(grid, "shard")
    keys = keys[region.may_touch(lon, lat, radius + margin)]
    if grid.k == 1 or len(keys) * grid.k > _FEW:
        return keys
    parts = np.concatenate([grid.children("shard", key) for key in keys.tolist()] or [keys])
    lon, lat, radius = grid.circles("chunk", parts)
    touched = region.may_touch(lon, lat, radius + margin).reshape(len(keys), grid.k)
    found: Array = keys[touched.any(axis=1)]
    return found


def _nested(grid: HealpixGrid, region: Region, margin: float) -> Array:
    keys = np.arange(12, dtype=np.int64)
    for order in range(grid.parent_order + 1):
        keys = keys[_touched(grid, region, margin, order, keys)]
        if order < grid.parent_order:
            keys = _quarters(keys)
            if len(keys) > 4 * MOST:
                raise GridConfigError(
                    f"a region covers more than {MOST} shards of order {grid.parent_order}; make "
                    "output.grid.parent_order smaller, or the region"
                )
    parts = keys
    for deeper in range(1, 4):
        order = grid.parent_order + deeper
        if order > 29 or len(parts) > _FEW:
            break
        parts = _quarters(parts)
        parts = parts[_touched(grid, region, margin, order, parts)]
        keys = np.unique(parts >> (2 * deeper))
    return keys


def _touched(grid: HealpixGrid, region: Region, margin: float, order: int, keys: Array) -> Array:
    coarse = HealpixGrid(order, order, ellipsoid=grid.ellipsoid)
    lon, lat, radius = coarse.circles("shard", keys)
    return region.may_touch(lon, lat, radius + margin)


def _quarters(keys: Array) -> Array:
    return (keys[:, None] * 4 + np.arange(4)).reshape(-1)


@lru_cache(maxsize=4)
def _circles(grid: Grid, level: str) -> tuple[Any, Any, Any]:
    """Circles of all shards, which do not depend on the region."""
    return grid.circles(level, np.arange(grid.n_shards, dtype=np.int64))
