"""Rectilinear: square or oblong cells in a projected coordinate system, north up.

What it does not do: project; `pyproj` does. Row 0 lies at the greatest y, the origin is (xmin, ymax).
Specification: CF 1.11, "projection_x_coordinate"; the width and height are rounded up to whole shards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from terrazzo.gridding.conventions import axis_attributes, placed, projected, projected_mapping
from terrazzo.gridding.errors import GridConfigError
from terrazzo.gridding.grid import Array, Grid, check_sharded, refuse
from terrazzo.gridding.optional import required

__all__ = ["RectilinearGrid"]


class RectilinearGrid(Grid):
    """Cells of `resolution` over `bounds` of a `crs`: a shard is `chunk_shape`, an inner chunk `chunk_inner`."""

    kind = "rectilinear"
    dimension_names = ("y", "x")

    def __init__(
        self,
        crs: str | int,
        resolution: float | Sequence[float],
        bounds: Sequence[float],
        chunk_shape: Sequence[int] = (256, 256),
        chunk_inner: Sequence[int] | None = None,
        sharded: bool | str = False,
        group: str = "rectilinear",
    ) -> None:
        self.crs = _crs_name(crs)
        self.bounds = _bounds(bounds)
        self.resolution = _resolution(resolution, self.bounds)
        self.shard_shape = _pair("chunk_shape", chunk_shape)
        self.chunk_shape = self.shard_shape if chunk_inner is None else _pair("chunk_inner", chunk_inner)
        if any(s % c for s, c in zip(self.shard_shape, self.chunk_shape, strict=True)):
            raise refuse(
                "chunk_inner",
                list(self.chunk_shape),
                f"it has to divide chunk_shape {list(self.shard_shape)}",
            )
        # what was asked for, before it is filled up to whole shards
        xmin, ymin, xmax, ymax = self.bounds
        self.unpadded = (
            _ceil((ymax - ymin) / self.resolution[1]),
            _ceil((xmax - xmin) / self.resolution[0]),
        )
        self.shape = tuple(-(-n // s) * s for n, s in zip(self.unpadded, self.shard_shape, strict=True))
        self.sharded = check_sharded(
            sharded,
            self.k,
            f"chunk_inner {list(self.chunk_shape)} has to be smaller than chunk_shape {list(self.shard_shape)}, "
            "or leave sharded false",
        )
        self._group = group

    @property
    def group(self) -> str:
        return self._group

    def named(self, group: str) -> RectilinearGrid:
        """The same grid, in a group of another name."""
        bounds, resolution = self.bounds, self.resolution
        return RectilinearGrid(
            self.crs,
            resolution,
            bounds,
            self.shard_shape,
            self.chunk_shape,
            self.sharded,
            group or self._group,
        )

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """(xmin, ymin, xmax, ymax) with the far bounds moved out to whole shards."""
        xmin, _, _, ymax = self.bounds
        height, width = self.shape
        return xmin, ymax - height * self.resolution[1], xmin + width * self.resolution[0], ymax

    # points

    def locate(self, longitude: Any, latitude: Any) -> Array:
        x, y = _transformer(self.crs, True).transform(
            np.asarray(longitude, np.float64), np.asarray(latitude, np.float64)
        )
        return self.locate_projected(x, y)

    def locate_projected(self, x: Any, y: Any) -> Array:
        """The cell of each point given in the grid's own coordinates."""
        xmin, _, _, ymax = self.bounds
        height, width = self.shape
        with np.errstate(invalid="ignore"):
            column = np.floor((np.asarray(x, np.float64) - xmin) / self.resolution[0])
            row = np.floor((ymax - np.asarray(y, np.float64)) / self.resolution[1])
            inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
            cells = np.where(inside, row, 0).astype(np.int64) * width + np.where(inside, column, 0).astype(
                np.int64
            )
        found: Array = np.where(inside, cells, -1)
        return found

    def shard_of(self, cells: Array) -> Array:
        cells = np.asarray(cells, np.int64)
        row, column = np.divmod(cells, self.shape[1])
        keys = row // self.shard_shape[0] * self.shard_grid[1] + column // self.shard_shape[1]
        found: Array = np.where(cells < 0, -1, keys)
        return found

    def position_of(self, cells: Array) -> Array:
        row, column = np.divmod(np.asarray(cells, np.int64), self.shape[1])
        row, column = row % self.shard_shape[0], column % self.shard_shape[1]
        (h, w), per_row = self.chunk_shape, self.chunks_per_shard[1]
        chunk = row // h * per_row + column // w
        found: Array = chunk * (h * w) + row % h * w + column % w
        return found

    def cells_of(self, shard: int, positions: Array) -> Array:
        (h, w), per_row = self.chunk_shape, self.chunks_per_shard[1]
        chunk, inside = np.divmod(np.asarray(positions, np.int64), h * w)
        chunk_row, chunk_column = np.divmod(chunk, per_row)
        first = self.shard_index(shard)
        row = first[0] * self.shard_shape[0] + chunk_row * h + inside // w
        column = first[1] * self.shard_shape[1] + chunk_column * w + inside % w
        found: Array = row * self.shape[1] + column
        return found

    # places

    def centres(self, cells: Array) -> tuple[Array, Array]:
        row, column = np.divmod(np.asarray(cells, np.int64), self.shape[1])
        return self._degrees(self.coordinate_of("x", column), self.coordinate_of("y", row))

    def coordinate_of(self, name: str, index: Array) -> Array:
        """x of columns or y of rows, at their middle."""
        if name == "x":
            return self.bounds[0] + (np.asarray(index) + 0.5) * self.resolution[0]
        return self.bounds[3] - (np.asarray(index) + 0.5) * self.resolution[1]

    def circles(self, level: str, keys: Array) -> tuple[Array, Array, Array]:
        x, y, width, height = self._boxes(level, np.asarray(keys, np.int64))
        lon, lat = self._degrees(x + width / 2, y - height / 2)
        radius = np.zeros(len(lon))
        steps = np.linspace(0.0, 1.0, 5)
        for fx in steps:
            for fy in steps:
                radius = np.maximum(radius, _angle(lon, lat, *self._degrees(x + fx * width, y - fy * height)))
        # half of a step further than any point that was looked at
        return lon, lat, np.where(np.isfinite(radius), radius * 1.3 + 1e-9, 180.0)

    def outline(self, level: str, key: int) -> Array:
        x, y, width, height = (v[0] for v in self._boxes(level, np.array([key])))
        t = np.linspace(0.0, 1.0, 5)[:-1]
        o, e = np.zeros(4), np.ones(4)
        lon, lat = self._degrees(
            x + width * np.concatenate([t, e, 1 - t, o]), y - height * np.concatenate([o, t, e, 1 - t])
        )
        return np.stack([lon, lat], axis=1)

    def children(self, level: str, key: int) -> Array:
        row, column = self.shard_index(key)
        kr, kc = self.chunks_per_shard
        rows, columns = np.arange(row * kr, (row + 1) * kr), np.arange(column * kc, (column + 1) * kc)
        found: Array = (rows[:, None] * self.chunk_grid[1] + columns).reshape(-1)
        return found

    def _boxes(self, level: str, keys: Array) -> tuple[Array, Array, Array, Array]:
        """x and y of the upper left corner, width and height, in the grid's coordinates."""
        shape, across = {
            "shard": (self.shard_shape, self.shard_grid[1]),
            "chunk": (self.chunk_shape, self.chunk_grid[1]),
            "cell": ((1, 1), self.shape[1]),
        }[level]
        row, column = np.divmod(keys, across)
        width = np.full(len(keys), shape[1] * self.resolution[0])
        height = np.full(len(keys), shape[0] * self.resolution[1])
        return self.bounds[0] + column * width, self.bounds[3] - row * height, width, height

    def _degrees(self, x: Array, y: Array) -> tuple[Array, Array]:
        lon, lat = _transformer(self.crs, False).transform(
            np.asarray(x, np.float64), np.asarray(y, np.float64)
        )
        return np.asarray(lon), np.asarray(lat)

    def coarser(self) -> RectilinearGrid | None:
        if any(n % 2 for n in (*self.shard_shape, *self.chunk_shape)):
            return None
        shard = [n // 2 for n in self.shard_shape]
        xmin, ymin, xmax, ymax = self.extent
        return RectilinearGrid(
            self.crs,
            [r * 2 for r in self.resolution],
            (xmin, ymin, xmax, ymax),
            shard,
            [n // 2 for n in self.chunk_shape],
            self.sharded,
            _doubled(self._group),
        )

    def coarse_position(self, positions: Array) -> Array:
        h, w = self.chunk_shape
        chunk, inside = np.divmod(np.asarray(positions, np.int64), h * w)
        row, column = np.divmod(inside, w)
        found: Array = chunk * (h * w // 4) + row // 2 * (w // 2) + column // 2
        return found

    # descriptions

    def describe(self) -> dict[str, Any]:
        return {
            "type": "rectilinear",
            "crs": self.crs,
            "resolution": list(self.resolution),
            "bounds": list(self.bounds),
            "chunk_shape": list(self.shard_shape),
            "chunk_inner": list(self.chunk_shape),
            "sharded": self.sharded,
        }

    def spatial(self) -> dict[str, Any]:
        return {key: self.describe()[key] for key in ("type", "crs", "resolution", "bounds", "chunk_shape")}

    def attributes(self) -> dict[str, Any]:
        # the first three are what zagg writes and reads
        own = {"crs": self.crs, "resolution": list(self.resolution), "bounds": list(self.extent)}
        place = placed(self.dimension_names, self.extent, self.resolution, self.shape)
        return {**own, **projected(self.crs), **place}

    def mapping(self) -> dict[str, Any]:
        return projected_mapping(self.crs, self.extent, self.resolution)

    def coordinates(self) -> Mapping[str, tuple[str, int, Mapping[str, Any]]]:
        return {
            name: (name, extent, axis_attributes(self.crs, name))
            for name, extent in (("y", self.shape[0]), ("x", self.shape[1]))
        }

    def coordinate_values(self, name: str, start: int, stop: int) -> Array:
        return self.coordinate_of(name, np.arange(start, stop))


def _doubled(group: str) -> str:
    """The name of the grid whose cells are twice as long: rectilinear, rectilinear_2, rectilinear_4."""
    name, _, factor = group.rpartition("_")
    return f"{name}_{int(factor) * 2}" if name and factor.isdigit() else f"{group}_2"


@lru_cache(maxsize=16)
def _transformer(crs: str, forward: bool) -> Any:
    pyproj = required("pyproj", "rectilinear grids", "geo")
    ends = ("EPSG:4326", crs) if forward else (crs, "EPSG:4326")
    return pyproj.Transformer.from_crs(*ends, always_xy=True)


def _crs_name(crs: object) -> str:
    if crs is None or isinstance(crs, bool) or not isinstance(crs, str | int):
        raise refuse("crs", crs, 'a name such as "EPSG:3031" is needed')
    name = f"EPSG:{crs}" if isinstance(crs, int) else crs
    pyproj = required("pyproj", "rectilinear grids", "geo")
    try:
        pyproj.CRS.from_user_input(name)
    except pyproj.exceptions.CRSError as error:
        raise refuse(
            "crs", crs, f'no such coordinate system is known; a name such as "EPSG:3031" is needed ({error})'
        ) from None
    return name


def _bounds(bounds: object) -> tuple[float, float, float, float]:
    rule = "four finite numbers are needed: [xmin, ymin, xmax, ymax]"
    if isinstance(bounds, str | bytes) or not isinstance(bounds, Sequence) or len(bounds) != 4:
        raise refuse("bounds", bounds, rule)
    if not all(_is_number(v) for v in bounds):
        raise refuse("bounds", bounds, rule)
    xmin, ymin, xmax, ymax = (float(v) for v in bounds)
    if xmin >= xmax or ymin >= ymax:
        raise refuse("bounds", bounds, "xmin has to be less than xmax, and ymin less than ymax")
    return xmin, ymin, xmax, ymax


def _resolution(resolution: object, bounds: tuple[float, ...]) -> tuple[float, float]:
    pair: list[Any] = (
        list(resolution)
        if isinstance(resolution, Sequence) and not isinstance(resolution, str)
        else [resolution] * 2
    )
    if len(pair) != 2 or not all(_is_number(v) and float(v) > 0 for v in pair):
        raise refuse("resolution", resolution, "a positive number, or two: [x, y], are needed")
    x, y = float(pair[0]), float(pair[1])
    if x > bounds[2] - bounds[0] or y > bounds[3] - bounds[1]:
        raise refuse("resolution", resolution, f"one cell would be larger than bounds {list(bounds)}")
    return x, y


def _pair(key: str, value: object) -> tuple[int, int]:
    whole = isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2
    if not whole or not all(isinstance(v, int) and not isinstance(v, bool) and v > 0 for v in value):  # type: ignore[attr-defined]
        raise refuse(key, value, "two positive integers are needed: [rows, columns]")
    return int(value[0]), int(value[1])  # type: ignore[index]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _ceil(ratio: float) -> int:
    """Up to a whole number, where 3.0000000001 from a division means 3."""
    nearest = round(ratio)
    return nearest if abs(ratio - nearest) < 1e-9 * max(1.0, abs(ratio)) else math.ceil(ratio)


def _angle(lon: Array, lat: Array, lon2: Array, lat2: Array) -> Array:
    """Degrees between points on a sphere."""
    a, b = np.radians(lat), np.radians(lat2)
    with np.errstate(invalid="ignore"):
        half = np.sin((b - a) / 2) ** 2 + np.cos(a) * np.cos(b) * np.sin(np.radians(lon2 - lon) / 2) ** 2
        return np.asarray(np.degrees(2 * np.arcsin(np.sqrt(np.clip(half, 0.0, 1.0)))))


def check_keys(given: Mapping[str, Any]) -> None:
    """The keys that a rectilinear grid cannot do without."""
    for key in ("crs", "resolution", "bounds"):
        if given.get(key) is None:
            raise GridConfigError(
                f"output.grid.{key} is missing: a rectilinear grid needs crs, resolution and bounds"
            )
