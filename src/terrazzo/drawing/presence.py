"""The map of an array's objects: which shards exist, and how many of their inner chunks.

What it does not do: list a store or read an index; it is handed the counts.
Specification: Zarr core 3.0, "Stored representation": an absent chunk holds the fill value.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from terrazzo.drawing import svg
from terrazzo.drawing.colours import ACCENT
from terrazzo.drawing.text import printable

__all__ = ["presence_svg"]

Array = np.ndarray[Any, Any]
CELLS = 2000
ACROSS = 620.0


def presence_svg(
    counts: Any,
    chunks_per_shard: int = 1,
    names: Sequence[str | None] | None = None,
    *,
    title: str | None = None,
) -> str:
    """The shards of an array, each coloured by the share of its inner chunks that exist.

    counts: inner chunks present in every shard, in the shape of the grid; 0 where the shard is empty or no object.
    chunks_per_shard: inner chunks of a full shard, 1 for a plain array. names: dimension names. The last two dimensions
    are a picture, and the others make a row of pictures. At most 2,000 cells are drawn: of a larger grid, each cell is
    the mean of a block, and the caption says so. Raises ValueError for counts outside 0 to `chunks_per_shard`.
    """
    present = np.asarray(counts)
    if chunks_per_shard < 1:
        raise ValueError(f"chunks_per_shard={chunks_per_shard}; at least 1 is needed")
    if present.size and (present.min() < 0 or present.max() > chunks_per_shard):
        raise ValueError(
            f"counts between {present.min()} and {present.max()}; 0 to {chunks_per_shard} are possible"
        )
    if names is not None and len(names) != present.ndim:
        raise ValueError(f"names has {len(names)} entries for a grid of {present.ndim} dimensions")
    share = present.astype(np.float64) / chunks_per_shard
    panels, labels, block, wrapped = _panels(share, names)
    n, rows, columns = panels.shape
    # all panels in a rectangle about as wide as a page
    side = max(1, min(n, int(np.ceil(np.sqrt(n * max(rows, 1) / max(columns, 1) * 2)))))
    cell = min(26.0, max(2.5, (ACROSS / side - 12) / max(columns, 1)))
    gap = 1.0 if cell > 5 else 0.0
    top = 24.0 if title else 6.0
    elements = [svg.text(4, 15, title, more='font-weight="bold"')] if title else []
    panel_width = max(columns * cell + 12, max((6.3 * len(label) + 10 for label in labels), default=0.0))
    panel_height = rows * cell + (18 if any(labels) else 6)
    for i in range(n):
        x0, y0 = 6 + (i % side) * panel_width, top + (i // side) * panel_height
        if labels[i]:
            elements.append(svg.text(x0, y0 + 10, labels[i], more='opacity="0.8"'))
            y0 += 14
        for r in range(rows):
            for c in range(columns):
                value = panels[i, r, c]
                if np.isnan(value):
                    continue
                x, y = x0 + c * cell, y0 + r * cell
                if value == 0:
                    look = 'stroke="currentColor" stroke-opacity="0.35" stroke-width="0.6"'
                    elements.append(
                        svg.rectangle(
                            x + 0.3, y + 0.3, cell - gap - 0.6, cell - gap - 0.6, fill="none", more=look
                        )
                    )
                else:
                    elements.append(
                        svg.rectangle(x, y, cell - gap, cell - gap, fill=ACCENT, more=_opacity(value))
                    )
    y = top + -(-n // side) * panel_height + 14
    words = _sentence(present, chunks_per_shard)
    lines = [words]
    if names is not None and any(names) and present.ndim > 1:
        lines.append(
            f"down: {printable(names[-2] or 'dimension ' + str(present.ndim - 2), 30)}, "
            f"across: {printable(names[-1] or 'dimension ' + str(present.ndim - 1), 30)}"
        )
    if wrapped:
        lines.append("one dimension, row after row")
    if any(step > 1 for step in block):
        objects = "chunks" if chunks_per_shard == 1 else "shards"
        lines.append(f"a cell is the mean of {' × '.join(f'{b:,}' for b in block)} {objects}")
    elements += _legend(6, y)
    for line in lines:
        y += 15
        elements.append(svg.text(6, y, line, more='opacity="0.85"'))
    width = max(6 + side * panel_width + 6, 6.3 * max(len(line) for line in lines) + 16, 250.0)
    return svg.document(elements, width, y + 8, title or words)


def _panels(share: Array, names: Sequence[str | None] | None) -> tuple[Array, list[str], list[int], bool]:
    """(panel, row, column) shares, a label per panel, the extent of a block per dimension, and whether 1-D wraps."""
    if share.size == 0:
        return np.full((1, 1, 1), np.nan), [""], [1] * share.ndim, False
    if share.ndim < 2:
        line = share.reshape(-1)
        step = -(-len(line) // CELLS)
        line = _block_mean(line, [step])
        columns = min(len(line), 50)
        padded = np.full(-(-len(line) // columns) * columns, np.nan)
        padded[: len(line)] = line
        return padded.reshape(1, -1, columns), [""], [step] * share.ndim, len(line) > columns
    steps = [1] * share.ndim
    while prod(-(-extent // step) for extent, step in zip(share.shape, steps, strict=True)) > CELLS:
        # halve what is longest now, the panels first: a long row of pictures says less than one good picture
        left = [
            -(-extent // step) * (2 if d < share.ndim - 2 else 1)
            for d, (extent, step) in enumerate(zip(share.shape, steps, strict=True))
        ]
        steps[int(np.argmax(left))] *= 2
    reduced = _block_mean(share, steps)
    leading = reduced.shape[:-2]
    labels = []
    for place in np.ndindex(*leading):
        at = [
            _span(p * step, min((p + 1) * step, extent))
            for p, step, extent in zip(place, steps, share.shape, strict=False)
        ]
        names_at = [
            f"{printable(names[d], 10)} {w}" if names is not None and names[d] else w
            for d, w in enumerate(at)
        ]
        labels.append(", ".join(names_at))
    return reduced.reshape(-1, *reduced.shape[-2:]), labels or [""], steps, False


def _block_mean(share: Array, steps: Sequence[int]) -> Array:
    for axis, step in enumerate(steps):
        if step > 1:
            starts = np.arange(0, share.shape[axis], step)
            sizes = np.minimum(starts + step, share.shape[axis]) - starts
            shape = [1] * share.ndim
            shape[axis] = -1
            share = np.add.reduceat(share, starts, axis=axis) / sizes.reshape(shape)
    return share


def _span(start: int, stop: int) -> str:
    return f"{start}" if stop - start == 1 else f"{start}-{stop - 1}"


def _sentence(present: Array, chunks_per_shard: int) -> str:
    there = int((present > 0).sum())
    if chunks_per_shard == 1:
        return f"{there:,} of {present.size:,} chunks exist"
    full = int((present == chunks_per_shard).sum())
    chunks = int(present.sum(dtype=np.int64))
    return (
        f"{there:,} of {present.size:,} shards exist, {full:,} of them full; "
        f"{chunks:,} of {present.size * chunks_per_shard:,} inner chunks"
    )


def _opacity(share: float) -> str:
    """One colour, more or less of it: on a light page as on a dark one, full stands out and little is faint."""
    return f'fill-opacity="{0.2 + 0.8 * share:.2f}"'


def _legend(x: float, y: float) -> list[str]:
    look = 'stroke="currentColor" stroke-opacity="0.35" stroke-width="0.6"'
    elements = [svg.rectangle(x + 0.3, y - 9, 10, 10, fill="none", more=look), svg.text(x + 15, y, "none")]
    at = x + 52
    for i in range(16):
        elements.append(svg.rectangle(at + 5 * i, y - 9, 5, 10, fill=ACCENT, more=_opacity((i + 1) / 16)))
    return [*elements, svg.text(at + 86, y, "all of a cell")]
