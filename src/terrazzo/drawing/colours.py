"""Colours: one table whose lightness rises evenly, computed in Oklab, and the few fixed colours of our pictures.

What it does not do: offer a choice of tables; one that reads in print, on light and dark pages, and for people who
do not see all hues alike is enough.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

__all__ = ["ACCENT", "DEAD", "INDEX", "SLACK", "colour_table", "hexadecimal"]

#: fixed colours, of middle lightness so that they stand on white as well as on black
ACCENT = "#3b8ea5"
INDEX = "#d1495b"
DEAD = "#8a8a8a"
SLACK = "#c3c6cc"

Array = np.ndarray[Any, Any]

# Oklab to linear sRGB, from the colour space's definition
_LMS = np.array(
    [
        [1.0, 0.3963377774, 0.2158037573],
        [1.0, -0.1055613458, -0.0638541728],
        [1.0, -0.0894841775, -1.2914855480],
    ]
)
_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)


@lru_cache(maxsize=8)
def colour_table(n: int = 256) -> Array:
    """`n` colours, uint8 (n, 3), from dark blue over green to light yellow, evenly rising in lightness; read-only."""
    if n < 1:
        raise ValueError(f"a colour table of {n} colours; at least 1 is needed")
    t = np.linspace(0.0, 1.0, 1024)
    lightness = 0.27 + 0.66 * t
    hue = np.deg2rad(285.0 - 180.0 * t)
    wanted = 0.11 + 0.045 * np.sin(np.pi * t)
    # chroma up to what a screen can show (clipping would shift the hue), by bisection, and without kinks: a running
    # minimum and then a running mean over the same window never exceed it
    low, high = np.zeros_like(t), wanted.copy()
    for _ in range(20):
        middle = (low + high) / 2
        rgb = _linear_rgb(lightness, middle, hue)
        inside = (rgb.min(axis=1) >= 0) & (rgb.max(axis=1) <= 1)
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    window = 129
    padded = np.pad(low, window - 1, mode="edge")
    smallest = np.lib.stride_tricks.sliding_window_view(padded, window).min(axis=1)
    chroma = np.lib.stride_tricks.sliding_window_view(smallest, window).mean(axis=1)
    rgb = np.clip(_linear_rgb(lightness, chroma, hue), 0.0, 1.0)
    srgb = np.where(rgb <= 0.0031308, 12.92 * rgb, 1.055 * rgb ** (1 / 2.4) - 0.055)
    chosen = np.rint(np.linspace(0, len(t) - 1, n)).astype(int)
    table: Array = np.rint(srgb[chosen] * 255).astype(np.uint8)
    table.setflags(write=False)
    return table


def hexadecimal(fractions: Array) -> list[str]:
    """Colours of the table, as "#rrggbb", for fractions between 0 and 1."""
    table = colour_table(256)
    rows = table[np.clip(np.rint(np.asarray(fractions, dtype=float) * 255), 0, 255).astype(int)]
    return [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in rows.tolist()]


def _linear_rgb(lightness: Array, chroma: Array, hue: Array) -> Array:
    lab = np.stack([lightness, chroma * np.cos(hue), chroma * np.sin(hue)], axis=1)
    rgb: Array = (lab @ _LMS.T) ** 3 @ _RGB.T
    return rgb
