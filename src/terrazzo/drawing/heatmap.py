"""A picture of values: two dimensions of numbers as an 8-bit PNG.

What it does not do: scale up, add axes or choose what to show; one element becomes one pixel, or several one pixel.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from terrazzo.drawing.colours import colour_table
from terrazzo.drawing.png import png

__all__ = ["heatmap_png"]

Array = np.ndarray[Any, Any]


def heatmap_png(
    values: Any,
    *,
    low: float | None = None,
    high: float | None = None,
    colours: Literal["table", "grey"] = "table",
    longest: int = 1024,
) -> bytes:
    """A PNG of a two-dimensional array, `values[0, 0]` at the upper left.

    low, high: the values at both ends of the colours; by default the smallest and largest finite ones. Values outside
    take the colour at the end; NaN is transparent. colours: "table" (dark to light, evenly) or "grey". longest: pixels
    of the longer side at most; more elements are averaged in blocks, NaN left out. Raises ValueError for other shapes
    and for values that are not real numbers.
    """
    picture = np.asarray(values)
    if picture.ndim != 2:
        raise ValueError(f"a picture of {picture.ndim} dimensions; choose two, as in array[0, :, :]")
    if picture.dtype.kind not in "biuf":
        raise ValueError(
            f"a picture of {picture.dtype}; real numbers are needed, as in array.real or abs(array)"
        )
    if colours not in ("table", "grey"):
        raise ValueError(f"colours={colours!r}; 'table' or 'grey' are known")
    if longest < 1:
        raise ValueError(f"longest={longest}; at least 1 pixel is needed")
    shown = _reduced(picture, longest)
    finite = shown[np.isfinite(shown)]
    bottom = float(low) if low is not None else float(finite.min()) if finite.size else 0.0
    top = float(high) if high is not None else float(finite.max()) if finite.size else 1.0
    # 0 is the transparent entry, 1 to 255 are the colours
    span = top - bottom
    with np.errstate(invalid="ignore", over="ignore"):
        share = (shown - bottom) / span if span > 0 else np.where(shown > bottom, 1.0, 0.0)
    missing = np.isnan(shown)
    levels = 1 + np.rint(np.clip(np.where(missing, 0.0, share), 0.0, 1.0) * 254)
    pixels = np.where(missing, 0, levels).astype(np.uint8)
    table = (
        colour_table(255)
        if colours == "table"
        else np.repeat(np.arange(1, 256, dtype=np.uint8)[:, None], 3, 1)
    )
    return png(pixels, np.concatenate([np.zeros((1, 3), np.uint8), table]))


def _reduced(picture: Array, longest: int) -> Array:
    """Block means as float64, at most `longest` in both directions, and never without a pixel."""
    if 0 in picture.shape:
        return np.full((1, 1), np.nan)
    step = max(-(-picture.shape[0] // longest), -(-picture.shape[1] // longest))
    if step == 1:
        return picture.astype(np.float64)
    rows = []
    for start in range(0, picture.shape[0], step):  # a strip at a time: the whole would be copied as float64
        strip = picture[start : start + step].astype(np.float64)
        finite = np.isfinite(strip)
        starts = np.arange(0, picture.shape[1], step)
        total = np.add.reduceat(np.where(finite, strip, 0.0).sum(axis=0), starts)
        count = np.add.reduceat(finite.sum(axis=0), starts)
        rows.append(np.divide(total, count, out=np.full(len(starts), np.nan), where=count > 0))
    return np.stack(rows)
