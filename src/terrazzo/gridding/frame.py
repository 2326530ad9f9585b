"""Frame: the rectangle of a map: which cell lies under a pixel, which pixel over a cell, and the ticks of both axes.

What it does not do: colours, or letters.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from terrazzo.gridding.grid import Grid
from terrazzo.gridding.rectilinear import RectilinearGrid

__all__ = ["Frame", "corner_cells", "degree_ticks", "frame_around", "nice_step"]

Values = np.ndarray[Any, Any]
#: the longer side is at most so many times the shorter one
_NARROWEST = 2.2


class Frame:
    """`west`, `south`, `east`, `north` of a map: degrees, or the coordinates of a projected grid."""

    def __init__(
        self, grid: Grid, box: tuple[float, float, float, float], squeeze: float, longest: int
    ) -> None:
        self.grid = grid
        west, south, east, north = box
        wide, high = (east - west) * squeeze, north - south
        # so narrow a strip that nothing can be read gets some of what lies beside it
        if wide < high / _NARROWEST:
            more = (high / _NARROWEST - wide) / squeeze / 2
            west, east, wide = west - more, east + more, high / _NARROWEST
        if high < wide / _NARROWEST:
            more = (wide / _NARROWEST - high) / 2
            south, north, high = south - more, north + more, wide / _NARROWEST
        self.west, self.south, self.east, self.north = west, south, east, north
        self.step = max(wide, high) / longest
        self.shape = max(1, round(high / self.step)), max(1, round(wide / self.step))

    @property
    def projected(self) -> bool:
        return isinstance(self.grid, RectilinearGrid)

    @property
    def grid_name(self) -> str:
        """The grid in words."""
        said = self.grid.describe()
        if isinstance(self.grid, RectilinearGrid):
            return f"{self.grid.crs[:20]}, {self.grid.resolution[0]:g} x {self.grid.resolution[1]:g}"
        return f"HEALPix order {said['child_order']}, {said['ellipsoid']}"

    # pixels and cells

    def _places(self) -> tuple[Values, Values]:
        """x and y of the middle of every pixel."""
        rows, columns = self.shape
        x = self.west + (np.arange(columns) + 0.5) * (self.east - self.west) / columns
        y = self.north - (np.arange(rows) + 0.5) * (self.north - self.south) / rows
        across, down = np.meshgrid(x, y)
        return across.reshape(-1), down.reshape(-1)

    def cells(self) -> Values:
        """The cell under every pixel, int64 (rows, columns); -1 outside the grid."""
        x, y = self._places()
        found: Values
        if isinstance(self.grid, RectilinearGrid):
            found = self.grid.locate_projected(x, y)
        else:
            found = np.where(np.abs(y) <= 90.0, self.grid.locate(x, np.clip(y, -90.0, 90.0)), -1)
        return found.reshape(self.shape)

    def owners(self) -> tuple[Values, Values]:
        """The shard and the inner chunk (its number in the grid of chunks) under every pixel; -1 outside."""
        cells = self.cells()
        flat = np.maximum(cells.reshape(-1), 0)
        index = self.grid.cell_index(flat)
        chunk_index = tuple(i // c for i, c in zip(index, self.grid.chunk_shape, strict=True))
        chunk = np.ravel_multi_index(chunk_index, self.grid.chunk_grid).reshape(self.shape)
        shard = self.grid.shard_of(flat).reshape(self.shape)
        return np.where(cells < 0, -1, shard), np.where(cells < 0, -1, chunk)

    def pixels(self, cells: Values) -> tuple[Values, Values]:
        """The row and column of the middle of each cell; they may lie outside."""
        x, y = places_of(self.grid, cells, (self.west + self.east) / 2)
        rows, columns = self.shape
        column = np.floor((x - self.west) / (self.east - self.west) * columns).astype(np.int64)
        row = np.floor((self.north - y) / (self.north - self.south) * rows).astype(np.int64)
        return row, column

    def average(self, cells: Values, values: Values) -> Values:
        """The mean of the cells of every pixel, float64; where cells are larger than pixels, the cell under it."""
        row, column = self.pixels(cells)
        rows, columns = self.shape
        inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
        flat = row[inside] * columns + column[inside]
        total = np.bincount(flat, values[inside], rows * columns)
        count = np.bincount(flat, minlength=rows * columns)
        mean = np.divide(total, count, out=np.full(rows * columns, math.nan), where=count > 0)
        order = np.argsort(cells, kind="stable")
        known = cells[order]
        under = self.cells().reshape(-1)
        at = np.minimum(np.searchsorted(known, under), len(known) - 1)
        match = (known[at] == under) & np.isnan(mean)
        mean[match] = values[order][at[match]]
        return (
            _thicker(mean.reshape(self.shape)) if match.sum() < 2 * len(cells) else mean.reshape(self.shape)
        )

    # axes

    def ruled(self, plain: int, line: int) -> Values:
        """Palette numbers of an empty map with lines at its ticks."""
        pixels = np.full(self.shape, plain, np.uint8)
        for at, _ in self.x_ticks():
            pixels[:, min(self.shape[1] - 1, round(at))] = line
        for at, _ in self.y_ticks():
            pixels[min(self.shape[0] - 1, round(at))] = line
        return pixels

    def x_ticks(self) -> list[tuple[float, str]]:
        """(pixel from the left, label)."""
        columns = self.shape[1]
        return [
            ((value - self.west) / (self.east - self.west) * columns, label)
            for value, label in self._ticks(self.west, self.east, "EW", max(3, columns // 90))
        ]

    def y_ticks(self) -> list[tuple[float, str]]:
        """(pixel from the top, label)."""
        rows = self.shape[0]
        return [
            ((self.north - value) / (self.north - self.south) * rows, label)
            for value, label in self._ticks(self.south, self.north, "NS", max(2, rows // 80))
        ]

    def _ticks(self, low: float, high: float, letters: str, most: int) -> list[tuple[float, str]]:
        if not self.projected:
            return degree_ticks(low, high, letters, most)
        step = _tick_step(low, high, most)
        unit, name = (1000.0, " km") if step >= 1000 else (1.0, "")
        digits = _digits(step / unit)
        values = (k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1))
        return [(value, f"{value / unit:.{digits}f}{name}") for value in values]


def degree_ticks(low: float, high: float, letters: str, most: int) -> list[tuple[float, str]]:
    """(value, label) along an axis of degrees; letters: of its positive and negative side, "EW" or "NS"."""
    step = _tick_step(low, high, most)
    digits = _digits(step)
    found = []
    for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1):
        value = k * step
        turned = (value + 180.0) % 360.0 - 180.0 if letters == "EW" else value
        if abs(turned) <= 90.0 or letters == "EW":
            side = "" if abs(turned) < step / 2 else letters[turned < 0]
            found.append((value, f"{abs(turned):.{digits}f}°{side}"))
    return found


def _tick_step(low: float, high: float, most: int) -> float:
    """A step that has at least two multiples in an interval."""
    if not high > low:
        return 1.0
    while True:
        step = nice_step(high - low, most)
        if math.floor(high / step) > math.ceil(low / step):
            return step
        most += 1


def _digits(step: float) -> int:
    """Decimals that tell multiples of a step apart."""
    return max(0, -math.floor(math.log10(step) + 1e-9))


def places_of(grid: Grid, cells: Values, middle: float) -> tuple[Values, Values]:
    """x and y of the centres of cells: degrees, longitudes around `middle`; or the grid's own coordinates."""
    if isinstance(grid, RectilinearGrid):
        row, column = np.divmod(np.asarray(cells, np.int64), grid.shape[1])
        return grid.coordinate_of("x", column), grid.coordinate_of("y", row)
    longitude, latitude = grid.centres(cells)
    return (longitude - middle + 180.0) % 360.0 - 180.0 + middle, latitude


def frame_around(grid: Grid, cells: Values, longest: int) -> Frame:
    """The frame of a map of these cells, with some room around them."""
    if not len(cells):
        return Frame(grid, (-180.0, -90.0, 180.0, 90.0), 1.0, longest)
    middle = 0.0
    if not isinstance(grid, RectilinearGrid):
        middle = _middle(grid.centres(cells)[0])
    x, y = places_of(grid, cells, middle)
    west, east, south, north = float(x.min()), float(x.max()), float(y.min()), float(y.max())
    edge = (
        grid.resolution[0]
        if isinstance(grid, RectilinearGrid)
        else 58.6 * math.sqrt(12 / math.prod(grid.shape))
    )
    squeeze = 1.0
    if not isinstance(grid, RectilinearGrid):
        squeeze = max(0.1, math.cos(math.radians((south + north) / 2)))
    room = max(edge, 0.04 * max((east - west) * squeeze, north - south))
    box = (west - room / squeeze, south - room, east + room / squeeze, north + room)
    if not isinstance(grid, RectilinearGrid):
        box = (box[0], max(-90.0, box[1]), box[2], min(90.0, box[3]))
        if box[2] - box[0] > 360.0:
            box = (middle - 180.0, box[1], middle + 180.0, box[3])
    return Frame(grid, box, squeeze, longest)


def nice_step(span: float, most: int) -> float:
    """A step of 1, 2 or 5 times a power of ten, so that `span` has at most about `most` of them."""
    rough = span / most
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * k for k in (1, 2, 5, 10) if power * k >= rough * (1 - 1e-9))


def corner_cells(grid: Grid, shards: Values) -> Values:
    """The four cells at the corners of each shard."""
    if isinstance(grid, RectilinearGrid):
        (h, w), across = grid.shard_shape, grid.shape[1]
        row, column = np.divmod(np.asarray(shards, np.int64), grid.shard_grid[1])
        inside = [0, w - 1, (h - 1) * across, (h - 1) * across + w - 1]
        first = row * h * across + column * w
        found: Values = (first[:, None] + np.array(inside)).reshape(-1)
        return found
    n = grid.cells_per_shard
    # south, east (even bits), west (odd bits), north
    inside = [0, (n - 1) // 3, (n - 1) // 3 * 2, n - 1]
    corners: Values = (np.asarray(shards, np.int64)[:, None] * n + np.array(inside)).reshape(-1)
    return corners


def _middle(longitude: Values) -> float:
    """The longitude opposite to the widest gap."""
    ordered = np.unique(longitude % 360.0)
    gaps = np.diff(ordered, append=ordered[0] + 360.0)
    at = int(gaps.argmax())
    start = float(ordered[(at + 1) % len(ordered)])
    width = 360.0 - float(gaps[at])
    return (start + width / 2 + 180.0) % 360.0 - 180.0


def _thicker(mean: Values) -> Values:
    """Lone pixels with a value give it to their neighbours that have none, so that thin tracks can be seen."""
    wide = mean.copy()
    for shift, axis in ((1, 0), (-1, 0), (1, 1), (-1, 1)):
        moved = np.roll(mean, shift, axis)
        edge = (slice(0, 1) if shift > 0 else slice(-1, None),)
        moved[edge if axis == 0 else (slice(None), *edge)] = math.nan
        wide = np.where(np.isnan(wide), moved, wide)
    return wide
