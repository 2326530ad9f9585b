"""Pictures of a gridded store: a map of its shards and inner chunks (SVG), a field (PNG), outlines (GeoJSON).

What it does not do: draw coastlines, or fetch anything. Maps are plain: longitude to the right, latitude up.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from terrazzo.drawing import heatmap_png
from terrazzo.drawing.colours import ACCENT, hexadecimal
from terrazzo.drawing.svg import document, polygon, rectangle, text
from terrazzo.gridding.reader import GridStore
from terrazzo.gridding.regions import Region

__all__ = ["field_png", "shards_geojson", "shards_svg"]

Values = np.ndarray[Any, Any]
#: outlines drawn at most; more are drawn as the shards that hold them
MOST = 5000


def shards_geojson(store: GridStore, level: str = "shard", region: Region | None = None) -> str:
    """The outlines of the populated shards (or, level "chunk", inner chunks) as GeoJSON (RFC 7946)."""
    keys = store.shards(region) if level == "shard" else store.chunks(region)
    features = []
    for key in keys.tolist():
        ring = _unwrapped(store.grid.outline(level, key))
        corners = [[round(float(x), 7), round(float(y), 7)] for x, y in [*ring, ring[0]]]
        features.append(
            {
                "type": "Feature",
                "id": key,
                "properties": {level: key},
                "geometry": {"type": "Polygon", "coordinates": [corners]},
            }
        )
    return json.dumps({"type": "FeatureCollection", "features": features})


def shards_svg(store: GridStore, region: Region | None = None, width: float = 640) -> str:
    """A map of the populated shards, with their populated inner chunks inside."""
    shards, chunks = store.shards(region), store.chunks(region)
    shown = chunks[:MOST] if len(chunks) <= MOST else chunks[:0]
    outlines = [
        (_unwrapped(store.grid.outline("shard", key)), "shard", key) for key in shards[:MOST].tolist()
    ]
    if len(shown) and store.grid.k > 1:
        outlines += [(_unwrapped(store.grid.outline("chunk", key)), "chunk", key) for key in shown.tolist()]
    title = f"{len(shards)} shards, {len(chunks)} inner chunks"
    if len(shards) > MOST or len(shown) < len(chunks):
        title += f" (not all are drawn: at most {MOST} outlines)"
    if not outlines:
        return document([text(10, 25, "nothing is stored")], width, 40, "nothing is stored")
    every = np.concatenate([ring for ring, _, _ in outlines])
    (west, south), (east, north) = every.min(axis=0), every.max(axis=0)
    squeeze = max(0.1, math.cos(math.radians((south + north) / 2)))
    span = max(east - west, 1e-9) * squeeze
    high = max(north - south, 1e-9)
    left, top = 60.0, 30.0
    scale = min((width - left - 20) / span, 720 / high)
    elements = [text(left, 18, title)]
    frame = 'fill-opacity="0.15" stroke="currentColor" stroke-width="0.8"'
    solid = f'stroke="{ACCENT}" stroke-width="0.3"'
    for ring, level, _ in outlines:
        points = [(left + (x - west) * squeeze * scale, top + (north - y) * scale) for x, y in ring]
        if level == "shard":
            elements.append(polygon(points, fill=ACCENT, more=frame))
        else:
            elements.append(polygon(points, fill=ACCENT, more=solid))
    bottom = top + high * scale
    for x, anchor in ((west, "start"), (east, "end")):
        elements.append(
            text(left + (x - west) * squeeze * scale, bottom + 16, _degrees(x, "EW"), anchor=anchor)
        )
    for y, shift in ((north, 9), (south, 0)):
        elements.append(text(left - 4, top + (north - y) * scale + shift, _degrees(y, "NS"), anchor="end"))
    return document(elements, left + span * scale + 20, bottom + 26, title)


def field_png(store: GridStore, field: str, region: Region | None = None, longest: int = 800) -> bytes:
    """A picture of a field: the populated cells of a region, averaged per pixel; elsewhere it is transparent."""
    return heatmap_png(field_pixels(store, field, region, longest))


def field_pixels(store: GridStore, field: str, region: Region | None = None, longest: int = 800) -> Values:
    """The mean of a field's cells in each pixel, north up, NaN where there is none; float64 (rows, columns)."""
    found = store.region(region, [field])
    values = found.values[field].astype(np.float64)
    if values.ndim > 1:
        raise ValueError(
            f"field {field!r} has values of shape {values.shape[1:]}; a picture needs one number per cell"
        )
    good = np.isfinite(values)
    values, latitude = values[good], found.latitude[good]
    longitude = found.longitude[good]
    if not len(values):
        return np.full((1, 1), math.nan)
    if longitude.max() - longitude.min() > 180.0 and (np.abs(longitude) > 90.0).all():
        longitude = longitude % 360.0  # over the date line
    squeeze = max(0.1, math.cos(math.radians(float(latitude.min() + latitude.max()) / 2)))
    x, y = longitude * squeeze, latitude
    span = max(float(np.ptp(x)), float(np.ptp(y)), 1e-9)
    # not finer than cells lie, so that a picture of a few hundred cells is not dust
    finest = math.ceil(4 * math.sqrt(len(values))) + 1
    step = span / max(1, min(longest, max(finest, 32)) - 1)
    column = np.rint((x - x.min()) / step).astype(np.int64)
    row = np.rint((y.max() - y) / step).astype(np.int64)
    shape = int(row.max()) + 1, int(column.max()) + 1
    flat = row * shape[1] + column
    total = np.bincount(flat, values, shape[0] * shape[1])
    count = np.bincount(flat, minlength=shape[0] * shape[1])
    mean = np.divide(total, count, out=np.full(len(total), math.nan), where=count > 0).reshape(shape)
    grow = max(1, min(longest // max(shape), 8))
    return np.repeat(np.repeat(mean, grow, axis=0), grow, axis=1)


def legend_svg(low: float, high: float, words: str, width: float = 320) -> str:
    """The colours of a picture, and the values at both ends."""
    steps = 64
    colours = hexadecimal(np.linspace(0, 1, steps))
    bars = [
        rectangle(10 + k * 300 / steps, 24, 300 / steps + 0.5, 14, fill=colour)
        for k, colour in enumerate(colours)
    ]
    ends = [text(10, 52, f"{low:g}"), text(310, 52, f"{high:g}", anchor="end"), text(10, 16, words)]
    return document([*bars, *ends], width, 60, words)


def _unwrapped(ring: Values) -> Values:
    """A ring whose longitudes do not jump at the date line."""
    ring = np.array(ring, np.float64)
    ring[:, 0] = ring[0, 0] + (ring[:, 0] - ring[0, 0] + 180.0) % 360.0 - 180.0
    return ring


def _degrees(value: float, letters: str) -> str:
    return f"{abs(value):.2f}° {letters[0] if value >= 0 else letters[1]}"
