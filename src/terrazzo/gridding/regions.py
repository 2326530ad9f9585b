"""Regions: boxes and polygons of longitude and latitude: which points lie inside, and which circles they may touch.

What it does not do: know grids. Edges of a polygon are straight in degrees, as in GeoJSON (RFC 7946).

A ring may cross the date line, and may go around a pole: then the pole that it lies nearer to is inside.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["Box", "Polygon", "Region", "Regions"]

Array = np.ndarray[Any, Any]
#: edges are cut into pieces of so many degrees, and a piece is at most so far from a great circle
_PIECE, _SLACK = 1.0, 2e-3


class Region(ABC):
    """A part of the Earth."""

    @abstractmethod
    def contains(self, longitude: Array, latitude: Array) -> Array:
        """Which points lie inside, bool."""

    @abstractmethod
    def may_touch(self, longitude: Array, latitude: Array, radius: Array) -> Array:
        """Which circles (degrees) could touch the region: never false for one that does."""


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
        return inside & (((longitude - self.west) % 360.0 <= self.width) | _poles(latitude))

    def may_touch(self, longitude: Array, latitude: Array, radius: Array) -> Array:
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


class Polygon(Region):
    """A ring of (longitude, latitude) corners, closed or not, and rings that are holes in it."""

    def __init__(
        self, corners: Sequence[Sequence[float]], holes: Sequence[Sequence[Sequence[float]]] = ()
    ) -> None:
        rings = [_Ring(one) for one in (corners, *holes)]
        self.outer, self.holes = rings[0], rings[1:]
        starts = np.concatenate([ring.pieces()[0] for ring in rings])
        ends = np.concatenate([ring.pieces()[1] for ring in rings])
        self._edges = _unit(*starts.T), _unit(*ends.T)

    def contains(self, longitude: Array, latitude: Array) -> Array:
        inside = self.outer.contains(longitude, latitude)
        for hole in self.holes:
            inside &= ~hole.contains(longitude, latitude)
        return inside

    def may_touch(self, longitude: Array, latitude: Array, radius: Array) -> Array:
        longitude, latitude = np.asarray(longitude, np.float64), np.asarray(latitude, np.float64)
        found = self.contains(longitude, latitude) | (np.asarray(radius) >= 90.0)
        left = np.flatnonzero(~found)
        reach = np.broadcast_to(np.asarray(radius, np.float64), found.shape)
        step = max(1, 2_000_000 // len(self._edges[0]))
        for start in range(0, len(left), step):
            part = left[start : start + step]
            distance = _distance(_unit(longitude[part], latitude[part]), *self._edges)
            found[part] = distance <= reach[part] + _SLACK
        return found


class Regions(Region):
    """Several regions as one: what lies in any of them."""

    def __init__(self, parts: Sequence[Region]) -> None:
        if not parts:
            raise ValueError("no region: at least one box or polygon is needed")
        self.parts = tuple(parts)

    def contains(self, longitude: Array, latitude: Array) -> Array:
        return np.asarray(np.logical_or.reduce([one.contains(longitude, latitude) for one in self.parts]))

    def may_touch(self, longitude: Array, latitude: Array, radius: Array) -> Array:
        found = [one.may_touch(longitude, latitude, radius) for one in self.parts]
        return np.asarray(np.logical_or.reduce(found))


class _Ring:
    """Corners with longitudes that do not jump: an edge goes the shorter way, unless it is a whole turn."""

    def __init__(self, corners: Sequence[Sequence[float]]) -> None:
        ring = np.asarray(corners, np.float64)
        if ring.ndim != 2 or ring.shape[1] < 2 or len(ring) < 3 or not np.isfinite(ring).all():
            raise ValueError("a polygon is a list of at least three finite (longitude, latitude) pairs")
        ring = ring[:, :2]
        if (np.abs(ring[:, 1]) > 90.0).any():
            raise ValueError(
                f"a polygon has a latitude of {ring[np.abs(ring[:, 1]).argmax(), 1]}; -90 to 90 are allowed"
            )
        if (ring[0] == ring[-1]).all():
            ring = ring[:-1]
        step = np.diff(ring[:, 0], append=ring[0, 0])
        turn = (step + 180.0) % 360.0 - 180.0
        whole = (np.abs(np.abs(step) - 360.0) < 1e-9) & (step != 0)
        self.steps = np.where(whole, step, turn)
        x = ring[0, 0] + np.concatenate([[0.0], np.cumsum(self.steps)])
        x[-1] = x[0] + 360.0 * round(self.steps.sum() / 360.0)
        # neighbouring edges share their corner to the last bit, so that no point falls between them
        self.x, self.x_next, self.y = x[:-1], x[1:], ring[:, 1]
        self.y_next = np.roll(self.y, -1)
        around = abs(self.steps.sum()) > 180.0
        self.north_inside = bool(around and self.y.mean() > 0)
        self.south_inside = bool(around and not self.north_inside)

    def contains(self, longitude: Array, latitude: Array) -> Array:
        """Whether the way north from a point meets the ring an odd number of times; even, where the pole is inside."""
        # the poles themselves are looked at from a little below
        y = np.clip(np.asarray(latitude, np.float64), -90.0 + 1e-12, 90.0 - 1e-12)
        west, east = min(self.x.min(), self.x_next.min()), max(self.x.max(), self.x_next.max())
        x = (np.asarray(longitude, np.float64) - west) % 360.0 + west
        x = np.where(x >= west + 360.0, west, x)
        inside = np.full(x.shape, self.north_inside)
        for turn in range(int((east - west) // 360.0) + 1):
            for x0, x1, y0, y1 in zip(self.x, self.x_next, self.y, self.y_next, strict=True):
                if x0 == x1:
                    continue
                from_, to, low, high = (y0, y1, x0, x1) if x0 < x1 else (y1, y0, x1, x0)
                along = x + 360.0 * turn
                height = from_ + (to - from_) * ((along - low) / (high - low))
                inside ^= (along >= low) & (along < high) & (height > y)
        return inside

    def pieces(self) -> tuple[Array, Array]:
        """Starts and ends, (n, 2), of short pieces of the edges."""
        counts = np.maximum(
            1, np.ceil(np.maximum(np.abs(self.steps), np.abs(self.y_next - self.y)) / _PIECE)
        ).astype(int)
        starts, ends = [], []
        for x, step, y0, y1, n in zip(self.x, self.steps, self.y, self.y_next, counts, strict=True):
            t = np.linspace(0.0, 1.0, n + 1)
            line = np.stack([x + step * t, y0 + (y1 - y0) * t], axis=1)
            starts.append(line[:-1])
            ends.append(line[1:])
        return np.concatenate(starts), np.concatenate(ends)


def _poles(latitude: Array) -> Array:
    """A pole lies on every meridian."""
    found: Array = np.abs(latitude) == 90.0
    return found


def _unit(longitude: Array, latitude: Array) -> Array:
    """Points on the unit sphere, (n, 3)."""
    x, y = np.radians(longitude), np.radians(latitude)
    return np.stack([np.cos(y) * np.cos(x), np.cos(y) * np.sin(x), np.sin(y)], axis=1)


def _distance(points: Array, starts: Array, ends: Array) -> Array:
    """Degrees from each point to the nearest of some short great circle arcs."""
    chord = ends - starts
    length = (chord * chord).sum(axis=1)
    # the nearest point of the chord; the arc is as good as the chord where pieces are short
    along = points @ chord.T - (starts * chord).sum(axis=1)
    t = np.clip(np.divide(along, length, out=np.zeros_like(along), where=length > 0), 0.0, 1.0)
    nearest = starts[None, :, :] + t[:, :, None] * chord[None, :, :]
    squared = ((points[:, None, :] - nearest) ** 2).sum(axis=2).min(axis=1)
    found: Array = np.degrees(2 * np.arcsin(np.clip(np.sqrt(squared) / 2, 0.0, 1.0)))
    return found
