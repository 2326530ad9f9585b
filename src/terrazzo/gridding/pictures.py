"""The outlines of a gridded store's shards and inner chunks, as SVG and as GeoJSON.

What it does not do: draw values (maps.py does), coastlines, or fetch anything. Longitude to the right, latitude up.
Specification: GeoJSON (RFC 7946), SVG 1.1.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from terrazzo.drawing.colours import ACCENT
from terrazzo.drawing.svg import document, line, polygon, text
from terrazzo.gridding.frame import degree_ticks
from terrazzo.gridding.reader import GridStore
from terrazzo.gridding.regions import Region

__all__ = ["shards_geojson", "shards_svg"]

Values = np.ndarray[Any, Any]
#: outlines drawn at most; more are drawn as the shards that hold them
MOST = 5000


def shards_geojson(store: GridStore, level: str = "shard", region: Region | None = None) -> str:
    """The outlines of the populated shards (or, level "chunk", inner chunks) as GeoJSON (RFC 7946)."""
    keys = store.shards(region) if level == "shard" else store.chunks(region)
    features = []
    for key in keys.tolist():
        ring = _eastward(_unwrapped(store.grid.outline(level, key)))
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
    bottom, far = top + high * scale, left + span * scale
    frame_ = [((left, top), (far, top)), ((far, top), (far, bottom)), ((far, bottom), (left, bottom))]
    frame_.append(((left, bottom), (left, top)))
    for value, label in degree_ticks(west, east, "EW", max(3, int(span * scale / 90))):
        x = left + (value - west) * squeeze * scale
        frame_.append(((x, bottom), (x, bottom + 5)))
        elements.append(text(x, bottom + 17, label, anchor="middle"))
    for value, label in degree_ticks(south, north, "NS", max(2, int(high * scale / 70))):
        y = top + (north - value) * scale
        frame_.append(((left, y), (left - 5, y)))
        elements.append(text(left - 8, y + 4, label, anchor="end"))
    elements.append(line(frame_, stroke="currentColor", width=0.8))
    return document(elements, left + span * scale + 20, bottom + 26, title)


def _unwrapped(ring: Values) -> Values:
    """A ring whose longitudes do not jump at the date line."""
    ring = np.array(ring, np.float64)
    ring[:, 0] = ring[0, 0] + (ring[:, 0] - ring[0, 0] + 180.0) % 360.0 - 180.0
    return ring


def _eastward(ring: Values) -> Values:
    """A ring against the clock, as RFC 7946 wants the outer ones."""
    x, y = ring.T
    turning = float((x * np.roll(y, -1) - np.roll(x, -1) * y).sum())
    return ring if turning >= 0 else ring[::-1]
