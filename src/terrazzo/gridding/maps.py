"""Maps: a field of a gridded store, or its shards and inner chunks, with axes, a legend and units, as PNG or SVG.

What it does not do: draw coastlines, or fetch anything. HEALPix is drawn over longitude and latitude, squeezed so that
shapes in the middle are right; a projected grid over its own coordinates.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from terrazzo.drawing.colours import colour_table, hexadecimal
from terrazzo.drawing.lettering import HEIGHT, WIDTH, lettering
from terrazzo.drawing.png import png
from terrazzo.drawing.svg import document, rectangle, text
from terrazzo.gridding.frame import corner_cells, frame_around, nice_step
from terrazzo.gridding.reader import GridStore
from terrazzo.gridding.regions import Region

__all__ = ["Map", "field_map", "shard_map"]

Values = np.ndarray[Any, Any]
#: palette: 0 is left transparent, then white, ink, pale lines, and the two tints of shards; the rest are colours
_WHITE, _INK, _PALE, _SHARD, _CHUNK, _FIRST = 1, 2, 3, 4, 5, 6
_TINTS = [(0, 0, 0), (255, 255, 255), (40, 40, 40), (222, 222, 222), (216, 233, 238), (59, 142, 165)]
_SIZE = 2  # pixels of a letter's dot


@dataclass(frozen=True)
class Map:
    """A picture with axes. pixels: uint8 (rows, columns) of palette numbers; ticks: (pixel, label) along each axis.

    bar: the values at the ends of the colours, None where there are none to explain; legend: tints and their names.
    """

    pixels: Values
    title: str
    caption: str
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    bar: tuple[float, float] | None = None
    unit: str = ""
    legend: Sequence[tuple[int, str]] = field(default=())

    @property
    def _ends(self) -> list[tuple[float, str]]:
        """Ticks of the colour bar: share from the bottom, label."""
        if self.bar is None:
            return []
        low, high = self.bar
        if not high > low:
            return [(0.5, _short(low, 1.0))]
        step = nice_step(high - low, 5)
        first = math.ceil(low / step - 1e-9)
        found = [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]
        return [((value - low) / (high - low), _short(value, step)) for value in found]

    def to_png(self) -> bytes:
        """The map as an 8-bit PNG on white."""
        rows, columns = self.pixels.shape
        letter, line = WIDTH * _SIZE, HEIGHT * _SIZE
        left = max([letter * len(label) for _, label in self.y_ticks] or [0]) + 18
        labels = [label for _, label in self._ends] + [name for _, name in self.legend]
        beside = letter * max([len(one) for one in labels] or [0])
        right = 60 + beside if labels else 20
        words = max(len(self.title), len(self.caption))
        width = max(left + columns + right, letter * words + 20)
        top, bottom = 2 * line + 30, line + 24
        canvas = np.full((top + rows + bottom, width), _WHITE, np.uint8)
        canvas[top - 1 : top + rows + 1, left - 1 : left + columns + 1] = _INK
        canvas[top : top + rows, left : left + columns] = self.pixels
        _write(canvas, 10, 10, self.title)
        _write(canvas, 10, 10 + line + 8, self.caption)
        for at, label in self.x_ticks:
            x = left + round(at)
            canvas[top + rows : top + rows + 6, x] = _INK
            _write(canvas, x - letter * len(label) // 2, top + rows + 10, label)
        for at, label in self.y_ticks:
            y = top + round(at)
            canvas[y, left - 6 : left] = _INK
            _write(canvas, left - 10 - letter * len(label), y - line // 2, label)
        x = left + columns + 20
        if self.bar is not None:
            high = min(rows, 300)
            ramp = np.linspace(255, _FIRST, high).round().astype(np.uint8)
            canvas[top - 1 : top + high + 1, x - 1 : x + 17] = _INK
            canvas[top : top + high, x : x + 16] = ramp[:, None]
            for share, label in self._ends:
                y = top + round((1 - share) * (high - 1))
                canvas[y, x + 16 : x + 21] = _INK
                _write(canvas, x + 26, y - line // 2, label)
        for k, (tint, name) in enumerate(self.legend):
            y = top + k * (line + 12)
            canvas[y : y + line, x : x + line] = _INK
            canvas[y + 1 : y + line - 1, x + 1 : x + line - 1] = tint
            _write(canvas, x + line + 8, y, name)
        return png(canvas, _palette())

    def to_svg(self) -> str:
        """The map as SVG: the same pixels, and letters that scale."""
        rows, columns = self.pixels.shape
        left, top = 62.0, 44.0
        embedded = base64.b64encode(png(self.pixels, _palette())).decode()
        elements = [
            text(10, 16, self.title, more='font-size="13" font-weight="bold"'),
            text(10, 32, self.caption),
            f'<image x="{left:g}" y="{top:g}" width="{columns}" height="{rows}" image-rendering="pixelated" '
            f'href="data:image/png;base64,{embedded}"/>',
            rectangle(left, top, columns, rows, fill="none", more='stroke="currentColor"'),
        ]
        for at, label in self.x_ticks:
            elements.append(rectangle(left + at, top + rows, 1, 5, fill="currentColor"))
            elements.append(text(left + at, top + rows + 17, label, anchor="middle"))
        for at, label in self.y_ticks:
            elements.append(rectangle(left - 5, top + at, 5, 1, fill="currentColor"))
            elements.append(text(left - 8, top + at + 4, label, anchor="end"))
        x, high = left + columns + 16, min(rows, 300)
        if self.bar is not None:
            steps = 64
            for k, colour in enumerate(hexadecimal(np.linspace(1, 0, steps))):
                elements.append(rectangle(x, top + k * high / steps, 14, high / steps + 0.3, fill=colour))
            for share, label in self._ends:
                y = top + (1 - share) * high
                elements.append(rectangle(x + 14, y, 4, 1, fill="currentColor"))
                elements.append(text(x + 21, y + 4, label))
        for k, (tint, name) in enumerate(self.legend):
            colour = f"#{bytes(_TINTS[tint]).hex()}"
            elements.append(rectangle(x, top + k * 20, 12, 12, fill=colour, more='stroke="currentColor"'))
            elements.append(text(x + 18, top + k * 20 + 10, name))
        wide = max([len(label) for _, label in self._ends] + [len(name) for _, name in self.legend] or [0])
        width = max(x + 30 + 7 * wide, 7.0 * max(len(self.title), len(self.caption)) + 20)
        return document(elements, width, top + rows + 28, self.title)


def field_map(store: GridStore, name: str, region: Region | None = None, longest: int = 720) -> Map:
    """A map of one field: every populated cell of a region in its place; several in one pixel are averaged."""
    found = store.region(region, [name])
    values = found.values[name].astype(np.float64)
    if values.ndim > 1:
        raise ValueError(
            f"field {name!r} has values of shape {values.shape[1:]}; a map needs one number per cell"
        )
    good = np.isfinite(values)
    cells, values = found.cells[good], values[good]
    frame = frame_around(store.grid, cells, longest)
    pixels = np.full(frame.shape, _WHITE, np.uint8)
    attributes = store.fields[name].attrs
    unit = str(attributes.get("units", ""))
    title = str(attributes.get("long_name", name)) + (f" ({unit})" if unit not in ("", "1") else "")
    caption = f"{len(cells)} cells of {frame.grid_name}"
    if not len(cells):
        return Map(pixels, title, caption, frame.x_ticks(), frame.y_ticks())
    low, high = float(values.min()), float(values.max())
    mean = frame.average(cells, values)
    there = np.isfinite(mean)
    share = (mean[there] - low) / (high - low) if high > low else np.full(int(there.sum()), 0.5)
    pixels = frame.ruled(_WHITE, _PALE)
    pixels[there] = _FIRST + np.rint(np.clip(share, 0, 1) * (255 - _FIRST)).astype(np.uint8)
    return Map(pixels, title, caption, frame.x_ticks(), frame.y_ticks(), (low, high), unit)


def shard_map(store: GridStore, region: Region | None = None, longest: int = 720) -> Map:
    """A map of the populated shards, with the populated inner chunks in them."""
    shards, chunks = store.shards(region), store.chunks(region)
    title = f"{len(shards)} shards, {len(chunks)} populated inner chunks"
    cells = corner_cells(store.grid, shards)
    frame = frame_around(store.grid, cells, longest)
    pixels = frame.ruled(_WHITE, _PALE)
    legend = [(_SHARD, "shard"), (_CHUNK, "inner chunk")]
    if len(shards):
        shard, chunk = frame.owners()
        known = np.isin(shard, shards)
        pixels[known] = _SHARD
        pixels[known & np.isin(chunk, chunks)] = _CHUNK
        pixels[_borders(np.where(known, shard, -1))] = _INK
    return Map(pixels, title, f"of {frame.grid_name}", frame.x_ticks(), frame.y_ticks(), legend=legend)


def _borders(owner: Values) -> Values:
    """Pixels whose neighbour to the right or below belongs to another."""
    edge = np.zeros(owner.shape, np.bool_)
    edge[:, :-1] |= owner[:, :-1] != owner[:, 1:]
    edge[:-1] |= owner[:-1] != owner[1:]
    return edge


def _palette() -> Values:
    return np.concatenate([np.array(_TINTS, np.uint8), colour_table(256 - _FIRST)])


def _write(canvas: Values, x: int, y: int, words: str) -> None:
    """Letters with their upper left corner at a pixel; what does not fit is cut."""
    ink = lettering(words, _SIZE)
    x, y = max(0, x), max(0, y)
    part = canvas[y : y + ink.shape[0], x : x + ink.shape[1]]
    part[ink[: part.shape[0], : part.shape[1]]] = _INK


def _short(value: float, step: float) -> str:
    if value != 0 and not 1e-4 <= abs(value) < 1e7:
        return f"{value:.3g}"
    return f"{value:.{max(0, -math.floor(math.log10(step) + 1e-9))}f}"
