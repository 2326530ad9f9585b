"""The picture of a chunk grid: an array cut into shards, and beside it one shard cut into inner chunks.

What it does not do: show which chunks exist (presence.py) or where their bytes lie (shard_map.py).
Specification: Zarr core 3.0, "Regular grids"; rectilinear grids are drawn with the edges they have.

One and two dimensions are flat, three are a block seen from its upper right, and more are drawn as a stack of the last
three, with the others in words. Index 0 is at the top, at the left, and in front.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod

from terrazzo.drawing import svg
from terrazzo.drawing.colours import ACCENT
from terrazzo.drawing.text import nbytes_text, printable

__all__ = ["Edges", "grid_svg"]

#: the chunk extent along one dimension: one number where all are equal, else every one of them
Edges = int | Sequence[int]

LONGEST = 170.0
SHORTEST = 26.0
LINES = 40
SLOPE = (0.62, 0.42)


def grid_svg(
    shape: Sequence[int],
    chunks: Sequence[Edges],
    shards: Sequence[Edges] | None = None,
    names: Sequence[str | None] | None = None,
    *,
    itemsize: int | None = None,
) -> str:
    """The chunks (and, where `shards` is given, the shards around them) of an array, as one SVG.

    shape: elements per dimension. chunks: the extent of what reads touch, per dimension: a number, or all edges of a
    rectilinear grid. shards: the extent of the stored objects, likewise; None for a plain array. names: dimension
    names. itemsize: bytes of an element; with it the captions tell sizes. Raises ValueError where lengths differ.
    """
    ndim = len(shape)
    for what, value in (("chunks", chunks), ("shards", shards), ("names", names)):
        if value is not None and len(value) != ndim:
            raise ValueError(f"{what} has {len(value)} entries for an array of {ndim} dimensions")
    outer = chunks if shards is None else shards
    # a chunk, or one edge of it, may reach past the array; the picture ends where the array ends
    array = _Block.of(shape, outer, names)
    word = "chunk" if shards is None else "shard"
    counts = [_count(extent, edges) for extent, edges in zip(shape, outer, strict=True)]
    first = tuple(_first(edges) for edges in outer)
    captions = [
        ("array " + _times(shape) if ndim else "scalar array") + _size(shape, itemsize),
        _cut_words(counts, word)
        + (f" of {_times(first)}{_size(first, itemsize)}" if shards is None and ndim else ""),
    ]
    panels = [(array, captions)]
    if shards is not None:
        inner = _Block.of(first, chunks, names)
        per_shard = [_count(extent, edges) for extent, edges in zip(first, chunks, strict=True)]
        chunk = tuple(_first(edges) for edges in chunks)
        panels.append(
            (
                inner,
                [
                    "shard " + _times(first) + _size(first, itemsize),
                    _cut_words(per_shard, "inner chunk"),
                    f"inner chunk {_times(chunk)}{_size(chunk, itemsize)}",
                ],
            )
        )
    elements: list[str] = []
    x, height = 0.0, 0.0
    for number, (block, lines) in enumerate(panels):
        drawn, right, bottom = _panel(block, lines, x, ACCENT if number else None)
        elements += drawn
        x, height = right + 12, max(height, bottom)
    label = "; ".join(lines[0] + ", " + lines[1] for _, lines in panels)
    return svg.document(elements, x, height, label)


@dataclass(frozen=True)
class _Block:
    """One block to draw: at most three dimensions, and how many such blocks the others stack."""

    pixels: tuple[float, ...]
    extents: tuple[int, ...]
    labels: tuple[str, ...]
    cuts: tuple[tuple[float, ...], ...]
    first: tuple[float, ...]
    stack: str
    notes: tuple[str, ...]

    @classmethod
    def of(cls, shape: Sequence[int], edges: Sequence[Edges], names: Sequence[str | None] | None) -> _Block:
        ndim = len(shape)
        shown = range(max(0, ndim - 3), ndim)
        longest = max((shape[d] for d in shown), default=0)
        pixels, labels, cuts, first, notes = [], [], [], [], []
        for d in shown:
            # a dimension a thousand times shorter than another must stay visible: lengths grow with a root
            share = (shape[d] / longest) ** 0.6 if longest else 0.0
            length = max(SHORTEST, LONGEST * share)
            name = names[d] if names is not None else None
            labels.append(f"{shape[d]:,}" if not name else f"{printable(name, 14)} {shape[d]:,}")
            lines, step = _cuts(shape[d], edges[d], length)
            if step > 1:
                notes.append(
                    f"one line in {step:,} drawn along {printable(name, 14) if name else f'dimension {d}'}"
                )
            pixels.append(length)
            cuts.append(lines)
            first.append(min(1.0, _first(edges[d]) / shape[d]) if shape[d] else 1.0)
        leading = [
            f"{printable(names[d], 14)} {shape[d]:,}" if names is not None and names[d] else f"{shape[d]:,}"
            for d in range(shown.start)
        ]
        return cls(
            tuple(pixels),
            tuple(shape[d] for d in shown),
            tuple(labels),
            tuple(cuts),
            tuple(first),
            " × ".join(leading) + " × this" if prod(shape[: shown.start]) != 1 else "",
            tuple(notes),
        )


def _panel(
    block: _Block, captions: list[str], left: float, outline: str | None
) -> tuple[list[str], float, float]:
    """Elements of one block with its labels and captions, and the right and lower end of them."""
    ndim = len(block.pixels)
    width = block.pixels[-1] if ndim else 34.0
    height = block.pixels[-2] if ndim > 1 else 34.0
    depth = block.pixels[0] if ndim > 2 else 0.0
    dx, dy = depth * SLOPE[0], depth * SLOPE[1]
    side = _text_width(block.labels[-2]) + 8 if ndim > 1 else 6
    x, y = left + side, 8 + dy + (24 if block.stack else 0)
    behind = 10.0 if block.stack else 0.0
    empty = 0 in block.extents
    elements = []
    if block.stack:
        for far in (behind, behind / 2):  # only what looks out from behind the block
            end, high = x + dx + width + far, y - dy - far
            edges = [((x + dx + far, high), (end, high)), ((end, high), (end, high + height))]
            elements.append(svg.line(edges, stroke="currentColor", width=1, more='stroke-opacity="0.4"'))
        y_text = y - dy - behind - 4
        elements.append(svg.text(x, y_text, block.stack))
    dashed = ' stroke-dasharray="4 3"' if empty else ""
    edge = f'stroke="{outline or "currentColor"}" stroke-width="1.4"{dashed}'
    faces = [[(x, y), (x + width, y), (x + width, y + height), (x, y + height)]]
    if depth:
        faces.append([(x, y), (x + dx, y - dy), (x + dx + width, y - dy), (x + width, y)])
        faces.append(
            [
                (x + width, y),
                (x + width + dx, y - dy),
                (x + width + dx, y - dy + height),
                (x + width, y + height),
            ]
        )
    for face, opacity in zip(faces, (0.10, 0.05, 0.16), strict=False):
        elements.append(svg.polygon(face, fill="currentColor", more=f'fill-opacity="{opacity}"'))
    if not empty:
        fraction = [1.0] * (3 - ndim) + list(block.first)
        elements += _first_cell(x, y, width, height, dx, dy, fraction)
        elements += _lines(block, x, y, width, height, dx, dy)
    for face in faces:
        elements.append(svg.polygon(face, fill="none", more=edge))
    right = x + width + max(dx, behind)
    if ndim:
        elements.append(svg.text(x + width / 2, y + height + 13, block.labels[-1], anchor="middle"))
    if ndim > 1:
        elements.append(svg.text(x - 5, y + height / 2 + 4, block.labels[-2], anchor="end"))
    if depth:
        at = x + width + dx / 2 + 6
        elements.append(svg.text(at, y + height - dy / 2 + 10, block.labels[0]))
        right = max(right, at + _text_width(block.labels[0]))
    bottom = y + height + 18
    for words in [*captions, *block.notes]:
        bottom += 14
        strong = 'font-weight="bold"' if words == captions[0] else 'opacity="0.8"'
        elements.append(svg.text(left + 4, bottom, words, more=strong))
        right = max(right, left + 4 + _text_width(words) * (1.1 if words == captions[0] else 1.0))
    return elements, right + 6, bottom + 6


def _lines(block: _Block, x: float, y: float, width: float, height: float, dx: float, dy: float) -> list[str]:
    ndim = len(block.cuts)
    lines = []
    for f in block.cuts[-1] if ndim else ():
        at = x + f * width
        lines.append(((at, y), (at, y + height)))
        if dx:
            lines.append(((at, y), (at + dx, y - dy)))
    for f in block.cuts[-2] if ndim > 1 else ():
        at = y + f * height
        lines.append(((x, at), (x + width, at)))
        if dx:
            lines.append(((x + width, at), (x + width + dx, at - dy)))
    for f in block.cuts[0] if ndim > 2 else ():
        a, b = x + f * dx, y - f * dy
        lines.append(((a, b), (a + width, b)))
        lines.append(((a + width, b), (a + width, b + height)))
    return [svg.line(lines, stroke="currentColor", width=0.7, more='stroke-opacity="0.55"')] if lines else []


def _first_cell(
    x: float, y: float, width: float, height: float, dx: float, dy: float, fraction: Sequence[float]
) -> list[str]:
    """The chunk with index 0 along every dimension, in colour, on the faces where it shows."""
    deep, down, across = fraction
    w, h, ax, ay = across * width, down * height, deep * dx, deep * dy
    look = 'fill-opacity="0.75"'
    elements = [svg.rectangle(x, y, w, h, fill=ACCENT, more=look)]
    if dx:
        elements.append(
            svg.polygon(
                [(x, y), (x + ax, y - ay), (x + ax + w, y - ay), (x + w, y)],
                fill=ACCENT,
                more='fill-opacity="0.5"',
            )
        )
        if across >= 1:
            e = x + width
            elements.append(
                svg.polygon(
                    [(e, y), (e + ax, y - ay), (e + ax, y - ay + h), (e, y + h)], fill=ACCENT, more=look
                )
            )
    return elements


def _cuts(extent: int, edges: Edges, pixels: float) -> tuple[tuple[float, ...], int]:
    """Where lines are drawn, as fractions of the extent, and how many boundaries there are for each one drawn."""
    if extent == 0:
        return (), 1
    most = max(1, min(LINES, int(pixels / 4)))
    if isinstance(edges, int):
        between = -(-extent // edges) - 1
        step = -(-between // most) if between > most else 1
        return tuple(i * edges / extent for i in range(step, between + 1, step)), step
    inside = [at for at in accumulate(edges) if at < extent]
    step = -(-len(inside) // most) if len(inside) > most else 1
    return tuple(at / extent for at in inside[step - 1 :: step]), step


def _count(extent: int, edges: Edges) -> int:
    if isinstance(edges, int):
        if edges < 1:
            raise ValueError(f"a chunk extent of {edges}; chunk extents are 1 or larger")
        return -(-extent // edges)
    return sum(1 for start in accumulate(edges, initial=0) if start < extent)


def _first(edges: Edges) -> int:
    return edges if isinstance(edges, int) else (edges[0] if edges else 0)


def _times(values: Sequence[int]) -> str:
    return " × ".join(f"{v:,}" for v in values) if values else "scalar"


def _cut_words(counts: Sequence[int], word: str) -> str:
    total = prod(counts)
    plural = word if total == 1 else word + "s"
    return f"{total:,} {plural}" + (f" ({_times(counts)})" if len(counts) > 1 and total > 1 else "")


def _size(shape: Sequence[int], itemsize: int | None) -> str:
    return f", {nbytes_text(prod(shape) * itemsize)}" if itemsize is not None else ""


def _text_width(words: str) -> float:
    """Pixels of 11-pixel sans-serif text, on the large side."""
    return 6.3 * len(words)
