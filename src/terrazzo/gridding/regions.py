"""Regions to read: boxes and polygons of longitude and latitude, and which circles they may touch.

What it does not do: know grids. A cell is inside where its centre is; edges of a polygon are straight in degrees.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["Box", "Polygon", "Region"]

Array = np.ndarray[Any, Any]


class Region(ABC):
    """A part of the Earth."""

    west: float
    width: float
    south: float
    north: float

    @abstractmethod
    def contains(self, longitude: Array, latitude: Array) -> Array:
        """Which points lie inside, edges included; bool."""

    def may_touch(self, longitude: Array, latitude: Array, radius: Array) -> Array:
        """Which circles (degrees) could touch the region: never false for one that does."""
        near = (latitude + radius >= self.south) & (latitude - radius <= self.north)
        # how far a circle reaches in longitude; around a pole it reaches everywhere
        top = np.abs(latitude) + radius
        with np.errstate(invalid="ignore", divide="ignore"):
            sine = np.sin(np.radians(np.minimum(radius, 90.0))) / np.cos(np.radians(latitude))
            reach = np.where(
                (top >= 90.0) | (sine >= 1.0), 360.0, np.degrees(np.arcsin(np.clip(sine, 0.0, 1.0)))
            )
        off = (longitude - self.west) % 360.0
        beside = (off <= self.width + reach) | (off >= 360.0 - reach)
        found: Array = near & (beside | (self.width + 2 * reach >= 360.0))
        return found


class Box(Region):
    """Longitudes from `west` eastward to `east` (over the date line where `west` is greater), and latitudes."""

    def __init__(self, west: float, south: float, east: float, north: float) -> None:
        if not all(np.isfinite(v) for v in (west, south, east, north)) or south > north:
            raise ValueError(
                f"box ({west}, {south}, {east}, {north}): degrees, west, south, east, north, are needed"
            )
        self.west, self.south, self.north = float(west), float(south), float(north)
        self.width = 360.0 if east - west >= 360.0 else (east - west) % 360.0

    def contains(self, longitude: Array, latitude: Array) -> Array:
        inside: Array = (latitude >= self.south) & (latitude <= self.north)
        return inside & ((longitude - self.west) % 360.0 <= self.width)


class Polygon(Region):
    """A ring of (longitude, latitude) corners, closed or not, at most 180 degrees from side to side."""

    def __init__(self, corners: Sequence[Sequence[float]]) -> None:
        ring = np.asarray(corners, np.float64)
        if ring.ndim != 2 or ring.shape[1] != 2 or len(ring) < 3 or not np.isfinite(ring).all():
            raise ValueError("a polygon is a list of at least three finite (longitude, latitude) pairs")
        if (ring[0] == ring[-1]).all():
            ring = ring[:-1]
        steps = (np.diff(ring[:, 0], append=ring[0, 0]) + 180.0) % 360.0 - 180.0
        x = ring[0, 0] + np.concatenate([[0.0], np.cumsum(steps[:-1])])
        if abs(steps.sum()) > 1e-9 or x.max() - x.min() > 180.0:
            raise ValueError(
                "a polygon around a pole, or wider than 180 degrees of longitude, is not supported; cut it"
            )
        self.x, self.y = x - x.min(), ring[:, 1]
        self.west, self.width = float(x.min()), float(x.max() - x.min())
        self.south, self.north = float(self.y.min()), float(self.y.max())

    def contains(self, longitude: Array, latitude: Array) -> Array:
        x, y = (np.asarray(longitude) - self.west) % 360.0, np.asarray(latitude)
        x = np.where(x > 360.0 - 1e-9, 0.0, x)
        inside = np.zeros(x.shape, np.bool_)
        x0, y0 = self.x[-1], self.y[-1]
        for x1, y1 in zip(self.x, self.y, strict=True):
            crosses = (y1 > y) != (y0 > y)
            if y0 != y1:
                inside ^= crosses & (x < (x0 - x1) * (y - y1) / (y0 - y1) + x1)
            x0, y0 = x1, y1
        return inside
