"""HEALPix, nested: a one-dimensional grid of 12 * 4^order cells over the whole sphere.

What it does not do: compute cells itself; `healpix-geo` does, on the sphere or on the authalic sphere of WGS84.
Specification: Górski et al. 2005, "HEALPix"; DGGS convention 1 for Zarr.

A cell's place in the array is its nested number, so shards and inner chunks are runs of consecutive cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from terrazzo.gridding.conventions import dggs, healpix_mapping
from terrazzo.gridding.errors import GridConfigError
from terrazzo.gridding.grid import Array, Grid, check_sharded, refuse
from terrazzo.gridding.optional import required

__all__ = ["HealpixGrid", "deinterleave", "interleave"]

#: a circle of this many degrees, divided by 2^order, around a cell's centre holds the cell (measured: 61.3 at most)
_RADIUS = 62.0


class HealpixGrid(Grid):
    """Nested HEALPix: `parent_order` is the shard, `chunk_inner` the inner chunk, `child_order` the cell."""

    kind = "healpix"
    dimension_names = ("cells",)

    def __init__(
        self,
        parent_order: int,
        child_order: int,
        chunk_inner: int | str | None = None,
        sharded: bool | str = False,
        ellipsoid: str = "WGS84",
        coordinates: str = "none",
    ) -> None:
        _order("parent_order", parent_order)
        _order("child_order", child_order)
        if child_order < parent_order:
            raise refuse(
                "child_order",
                child_order,
                f"a cell cannot be larger than a shard; at least parent_order ({parent_order}) is needed",
            )
        if chunk_inner is None:
            inner = parent_order
        elif chunk_inner == "auto":
            inner = max(parent_order, child_order - 6)
        else:
            _order("chunk_inner", chunk_inner, ' ("auto" means child_order - 6)')
            assert isinstance(chunk_inner, int)
            inner = chunk_inner
            if not parent_order <= inner <= child_order:
                raise refuse(
                    "chunk_inner",
                    inner,
                    f"an inner chunk lies between shard and cell: {parent_order} (parent_order) to {child_order} "
                    "(child_order)",
                )
        if ellipsoid not in ("WGS84", "sphere"):
            raise refuse("ellipsoid", ellipsoid, '"WGS84" or "sphere" are allowed')
        if coordinates not in ("none", "cell_ids"):
            raise refuse("coordinates", coordinates, '"none" or "cell_ids" are allowed')
        self.parent_order, self.child_order, self.chunk_order = parent_order, child_order, inner
        self.ellipsoid, self.coordinate = ellipsoid, coordinates
        self.shape = (12 * 4**child_order,)
        self.shard_shape = (4 ** (child_order - parent_order),)
        self.chunk_shape = (4 ** (child_order - inner),)
        self.sharded = check_sharded(
            sharded,
            self.k,
            f"chunk_inner ({'absent' if chunk_inner is None else inner}) has to be greater than parent_order "
            f"({parent_order}), or leave sharded false",
        )

    @property
    def group(self) -> str:
        return str(self.child_order)

    # points

    def locate(self, longitude: Any, latitude: Any) -> Array:
        nested = _nested()
        lon, lat = np.asarray(longitude, np.float64), np.asarray(latitude, np.float64)
        good = np.isfinite(lon) & np.isfinite(lat) & (np.abs(lat) <= 90.0)
        if good.all():
            found: Array = nested.lonlat_to_healpix(
                lon % 360.0, lat, self.child_order, ellipsoid=self.ellipsoid, num_threads=1
            )
            return found.astype(np.int64)
        cells = np.full(lon.shape, -1, np.int64)
        if good.any():
            cells[good] = self.locate(lon[good], lat[good])
        return cells

    def shard_of(self, cells: Array) -> Array:
        return np.asarray(cells) >> (2 * (self.child_order - self.parent_order))

    def position_of(self, cells: Array) -> Array:
        return np.asarray(cells) & (self.cells_per_shard - 1)

    def cells_of(self, shard: int, positions: Array) -> Array:
        return np.asarray(positions, np.int64) + shard * self.cells_per_shard

    # places

    def centres(self, cells: Array) -> tuple[Array, Array]:
        return self._centres(np.asarray(cells), self.child_order)

    def _centres(self, cells: Array, order: int) -> tuple[Array, Array]:
        lon, lat = _nested().healpix_to_lonlat(
            cells.astype(np.uint64), order, ellipsoid=self.ellipsoid, num_threads=1
        )
        return (lon + 180.0) % 360.0 - 180.0, lat

    def circles(self, level: str, keys: Array) -> tuple[Array, Array, Array]:
        order = self._order_of(level)
        keys = np.asarray(keys, np.int64)
        lon, lat = self._centres(keys, order)
        return lon, lat, np.full(len(keys), _RADIUS / 2**order)

    def outline(self, level: str, key: int) -> Array:
        step = 4 if self._order_of(level) < 6 else 1
        lon, lat = _nested().vertices(
            np.array([key], np.uint64),
            self._order_of(level),
            ellipsoid=self.ellipsoid,
            step=step,
            num_threads=1,
        )
        corners: Array = np.stack([(lon[0] + 180.0) % 360.0 - 180.0, lat[0]], axis=1)
        return corners

    def children(self, level: str, key: int) -> Array:
        return np.arange(key * self.k, (key + 1) * self.k)

    def _order_of(self, level: str) -> int:
        return {"shard": self.parent_order, "chunk": self.chunk_order, "cell": self.child_order}[level]

    def coarser(self) -> HealpixGrid | None:
        if self.child_order == self.parent_order:
            return None
        inner = max(self.parent_order, self.chunk_order - 1)
        return HealpixGrid(
            self.parent_order,
            self.child_order - 1,
            inner,
            self.sharded and inner > self.parent_order,
            self.ellipsoid,
            self.coordinate,
        )

    def coarse_position(self, positions: Array) -> Array:
        return np.asarray(positions) >> 2

    # descriptions

    def describe(self) -> dict[str, Any]:
        return {
            "type": "healpix",
            "parent_order": self.parent_order,
            "child_order": self.child_order,
            "chunk_inner": self.chunk_order,
            "sharded": self.sharded,
            "ellipsoid": self.ellipsoid,
            "coordinates": self.coordinate,
        }

    def spatial(self) -> dict[str, Any]:
        return {
            "type": "healpix",
            "parent_order": self.parent_order,
            "child_order": self.child_order,
            "ellipsoid": self.ellipsoid,
        }

    def attributes(self) -> dict[str, Any]:
        return dggs(self.child_order, self.ellipsoid, "cell_ids" if self.coordinate == "cell_ids" else None)

    def mapping(self) -> dict[str, Any]:
        return healpix_mapping(self.child_order, self.ellipsoid)

    def coordinates(self) -> Mapping[str, tuple[str, int, Mapping[str, Any]]]:
        if self.coordinate == "none":
            return {}
        said = {"standard_name": "healpix_index", "long_name": "nested HEALPix cell", "units": "1"}
        return {"cell_ids": ("cells", self.shape[0], said)}

    def coordinate_values(self, name: str, start: int, stop: int) -> Array:
        return np.arange(start, stop, dtype=np.uint64)


def deinterleave(numbers: Array) -> tuple[Array, Array]:
    """(row, column) of nested numbers inside a square of cells: odd bits are the row, even bits the column.

    >>> rows, columns = deinterleave(np.arange(4))
    >>> rows.tolist(), columns.tolist()
    ([0, 0, 1, 1], [0, 1, 0, 1])
    """
    value = np.asarray(numbers, np.uint64)
    return _even_bits(value >> np.uint64(1)), _even_bits(value)


def interleave(rows: Array, columns: Array) -> Array:
    """Nested numbers of (row, column) inside a square of cells: the inverse of `deinterleave`.

    >>> interleave(np.array([1, 3]), np.array([0, 3])).tolist()
    [2, 15]
    """
    return (_spread(rows) << np.uint64(1) | _spread(columns)).astype(np.int64)


_MASKS = [
    (16, 0x0000FFFF0000FFFF),
    (8, 0x00FF00FF00FF00FF),
    (4, 0x0F0F0F0F0F0F0F0F),
    (2, 0x3333333333333333),
    (1, 0x5555555555555555),
]


def _even_bits(value: Array) -> Array:
    bits = value & np.uint64(0x5555555555555555)
    for (shift, _), (_, mask) in zip(
        reversed(_MASKS), [*reversed(_MASKS[:-1]), (32, 0xFFFFFFFF)], strict=True
    ):
        bits = (bits | bits >> np.uint64(shift)) & np.uint64(mask)
    return bits.astype(np.int64)


def _spread(value: Array) -> Array:
    bits = np.asarray(value, np.uint64) & np.uint64(0xFFFFFFFF)
    for shift, mask in _MASKS:
        bits = (bits | bits << np.uint64(shift)) & np.uint64(mask)
    return bits


def _nested() -> Any:
    return required("healpix_geo.nested", "HEALPix grids", "healpix")


def _order(key: str, value: object, more: str = "") -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise refuse(key, value, f"an integer from 0 to 29 is needed{more}")
    if not 0 <= value <= 29:
        raise GridConfigError(f"output.grid.{key} is {value}: HEALPix orders go from 0 to 29{more}")
