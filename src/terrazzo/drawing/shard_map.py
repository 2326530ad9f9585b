"""The map of a shard: which of its bytes are which inner chunk, which are the index, and which are nobody's.

What it does not do: read or judge a shard; it is handed the entries of an index that somebody else decoded, right or
wrong, and draws what can be drawn of them.
Specification: sharding_indexed 1.0, "Binary shard format".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from terrazzo.drawing import svg
from terrazzo.drawing.colours import DEAD, INDEX, SLACK, colour_table, hexadecimal
from terrazzo.drawing.png import png
from terrazzo.drawing.text import nbytes_text, printable

__all__ = ["shard_map_png", "shard_map_svg", "shard_map_text"]

Array = np.ndarray[Any, Any]
Colour = Literal["position", "ratio"]

RECTANGLES = 2000
WIDTH = 640.0
ROW = 15.0
GAP = 3.0
_SYMBOLS = "0123456789abcdefghijklmnopqrstuvwxyz"
_EMPTY = np.uint64(2**64 - 1)


def shard_map_svg(
    entries: Array,
    size: int,
    index_range: tuple[int, int | None] | None,
    chunks_per_shard: Sequence[int],
    *,
    colour: Colour = "position",
    chunk_nbytes: int | None = None,
    slack: Sequence[tuple[int, int]] = (),
    title: str | None = None,
) -> str:
    """The bytes of one shard from its first to its last, in rows like text.

    entries: uint64 (n, 2) of (offset, nbytes) in C order of the inner chunks; both 2**64 - 1 where one is absent.
    size: bytes of the shard. index_range: (start, length) of the index, `start` from the end where it is negative;
    None where the index lies elsewhere. colour: by the inner chunk's place in the grid ("position"), or by how well it
    is compressed ("ratio", needs `chunk_nbytes`, the bytes of a decoded inner chunk). slack: (start, stop) of bytes
    that were left free for chunks to grow. At most 2,000 rectangles are drawn; a larger map shows the mean of what lies
    in each of its cells, and says so.
    """
    spans = _Spans.of(entries, size, index_range, chunks_per_shard, slack)
    values, low, high = _values(spans, colour, chunk_nbytes)
    pieces = len(spans.offsets) + len(spans.slack) + 2
    merged = 2 * pieces + 24 > RECTANGLES
    rows = 24 if merged else max(1, min(24, -(-pieces // 24)))
    per_row = max(1, -(-size // rows))
    left, top = 64.0, 8.0
    elements = []
    if title:
        top += 16
        elements.append(svg.text(4, top - 6, title, more='font-weight="bold"'))
    boxes = (
        [(a, b, fill, _range_words(a, b)) for a, b, fill, _ in _cells(spans, values, rows, 80)]
        if merged
        else _pieces(spans, values)
    )
    drawn = 0
    for start, stop, fill, words in boxes:
        for row in range(start // per_row, -(-stop // per_row)):
            a, b = max(start, row * per_row), min(stop, (row + 1) * per_row)
            x, w = left + (a - row * per_row) / per_row * WIDTH, (b - a) / per_row * WIDTH
            y = top + row * (ROW + GAP)
            # a thin gap tells neighbours of one colour apart
            shown = max(w - (0.6 if w > 3 and not merged else 0.0), 0.25)
            elements.append(svg.rectangle(x, y, shown, ROW, fill=fill, title=words))
            drawn += 1
    used = -(-size // per_row) if size else 1
    for row in range(used):
        y = top + row * (ROW + GAP)
        elements.append(
            svg.text(left - 6, y + ROW - 4, nbytes_text(row * per_row), anchor="end", more='opacity="0.8"')
        )
        full = WIDTH if row < used - 1 else (size - row * per_row) / per_row * WIDTH
        elements.append(
            svg.rectangle(left, y, full, ROW, fill="none", more='stroke="currentColor" stroke-opacity="0.3"')
        )
    y = top + used * (ROW + GAP) + 16
    elements += _legend(left, y, colour, low, high, spans)
    for words in _sentences(spans, merged):
        y += 16
        elements.append(svg.text(left, y + 8, words, more='opacity="0.85"'))
    return svg.document(
        elements, left + WIDTH + 12, y + 18, title or f"map of a shard of {nbytes_text(size)}"
    )


def shard_map_png(
    entries: Array,
    size: int,
    index_range: tuple[int, int | None] | None,
    chunks_per_shard: Sequence[int],
    *,
    colour: Colour = "position",
    chunk_nbytes: int | None = None,
    slack: Sequence[tuple[int, int]] = (),
    title: str | None = None,
) -> bytes:
    """The same picture as pixels, without words in it; they are in the file's description.

    Arguments as for `shard_map_svg`.
    """
    spans = _Spans.of(entries, size, index_range, chunks_per_shard, slack)
    values, low, high = _values(spans, colour, chunk_nbytes)
    rows = max(1, min(24, -(-(len(spans.offsets) + len(spans.slack) + 2) // 24)))
    width, row, gap = int(WIDTH), int(ROW), int(GAP)
    boxes = _cells(spans, values, rows, width)
    fixed = {INDEX: 253, DEAD: 254, SLACK: 255}
    table = colour_table(252)
    palette = np.zeros((256, 3), np.uint8)
    palette[1:253] = table
    for fill, number in fixed.items():
        palette[number] = [int(fill[k : k + 2], 16) for k in (1, 3, 5)]
    per_row = max(1, -(-size // rows))
    used = -(-size // per_row) if size else 1
    pixels = np.zeros((used * (row + gap) + gap, width + 2 * gap), np.uint8)
    for start, stop, fill, share in boxes:
        line, first = divmod(start, per_row)
        top = gap + line * (row + gap)
        left = gap + first * width // per_row
        right = gap + max((stop - line * per_row) * width // per_row, first * width // per_row + 1)
        pixels[top : top + row, left:right] = fixed.get(fill) or 1 + round(share * 251)
    words = [
        f"{title or 'map of a shard'}: colours from {low} (dark) to {high} (light), red the index, grey dead space"
    ]
    if spans.slack:
        words.append("light grey slack")
    return png(pixels, palette, "; ".join([*words, *_sentences(spans, False)]))


def shard_map_text(
    entries: Array,
    size: int,
    index_range: tuple[int, int | None] | None,
    chunks_per_shard: Sequence[int],
    *,
    width: int = 64,
    rows: int = 16,
    slack: Sequence[tuple[int, int]] = (),
    title: str | None = None,
) -> str:
    """The bytes of one shard for a terminal: a character for so many bytes, and what each character means.

    Arguments as for `shard_map_svg`. 0 to z stand for the inner chunks from the first to the last in C order, "#" for
    the index, "." for dead space, "_" for slack.
    """
    spans = _Spans.of(entries, size, index_range, chunks_per_shard, slack)
    values, _, _ = _values(spans, "position", None)
    width, rows = max(1, width), max(1, rows)
    cell = max(1, -(-size // (width * rows)))
    count = -(-size // cell)
    bounds = np.minimum(np.arange(count + 1, dtype=np.float64) * cell, size)
    chunk, index, free, value = _shares(spans, values, bounds)
    if len(spans.numbers):
        # a character that two chunks share belongs to the one in its middle; only of many the mean is shown
        middle = (bounds[:-1] + bounds[1:]) / 2
        owner = np.maximum(np.searchsorted(spans.offsets, middle, side="right") - 1, 0)
        owned = (spans.offsets[owner] <= middle) & (middle < spans.stops[owner])
        value = np.where(owned, values[owner], value)
    lines = [printable(title)] if title else []
    characters = []
    for c, i, f, v in zip(chunk.tolist(), index.tolist(), free.tolist(), value.tolist(), strict=True):
        if max(c, i) == 0:
            characters.append("_" if f > 0.5 else ".")
        elif i >= c:
            characters.append("#")
        else:
            characters.append(_SYMBOLS[round(v * (len(_SYMBOLS) - 1))])
    label = max(len(nbytes_text(at * cell)) for at in range(0, max(count, 1), width))
    for at in range(0, count, width):
        lines.append(f"{nbytes_text(at * cell):>{label}}  {''.join(characters[at : at + width])}")
    n = len(entries)
    lines.append(
        f"0-z inner chunks 0 to {max(n - 1, 0):,} in C order, # index, . dead"
        + (", _ slack" if spans.slack else "")
        + f"; one character is {nbytes_text(cell)}"
    )
    lines += _sentences(spans, False)
    return "\n".join(lines)


@dataclass(frozen=True)
class _Spans:
    """The chunks of one shard in file order, clipped to the object, and what the other bytes are."""

    size: int
    counts: tuple[int, ...]
    numbers: Array
    offsets: Array
    stops: Array
    index: tuple[int, int] | None
    gaps: tuple[tuple[int, int], ...]
    slack: tuple[tuple[int, int], ...]
    overlap: int
    outside: int

    @classmethod
    def of(
        cls,
        entries: Array,
        size: int,
        index_range: tuple[int, int | None] | None,
        chunks_per_shard: Sequence[int],
        slack: Sequence[tuple[int, int]] = (),
    ) -> _Spans:
        table = np.asarray(entries, dtype=np.uint64)
        n = 1
        for count in chunks_per_shard:
            n *= count
        if table.ndim != 2 or table.shape[1] != 2 or len(table) != n:
            raise ValueError(
                f"entries of shape {table.shape}; ({n}, 2) is needed for {tuple(chunks_per_shard)} chunks"
            )
        if size < 0:
            raise ValueError(f"a shard of {size} bytes")
        numbers = np.flatnonzero((table != _EMPTY).any(axis=1))
        # clipped before anything is added: offset + nbytes of a hostile entry does not fit 64 bits
        raw = table[numbers]
        offsets = np.minimum(raw[:, 0], np.uint64(size)).astype(np.int64)
        lengths = np.minimum(raw[:, 1], np.uint64(size) - offsets.astype(np.uint64)).astype(np.int64)
        outside = int((lengths.astype(np.uint64) != raw[:, 1]).sum())
        order = np.argsort(offsets, kind="stable")
        numbers, offsets, stops = numbers[order], offsets[order], (offsets + lengths)[order]
        index = None
        if index_range is not None:
            start, length = index_range
            start = max(0, size + start) if start < 0 else min(start, size)
            index = (start, size if length is None else min(size, start + length))
        gaps, overlap = _gaps(offsets, stops, index, size)
        free = tuple((max(0, start), min(stop, size)) for start, stop in slack)
        gaps = tuple(_without(gaps, free))
        return cls(
            size, tuple(chunks_per_shard), numbers, offsets, stops, index, gaps, free, overlap, outside
        )

    @property
    def dead(self) -> int:
        return sum(stop - start for start, stop in self.gaps)

    @property
    def kept_free(self) -> int:
        return sum(stop - start for start, stop in self.slack)


def _without(gaps: Sequence[tuple[int, int]], slack: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The gaps less the slack at their ends."""
    ends = {stop: start for start, stop in slack}
    for start, stop in gaps:
        first = max(start, ends.get(stop, stop))
        if first > start:
            yield start, first


def _gaps(
    offsets: Array, stops: Array, index: tuple[int, int] | None, size: int
) -> tuple[tuple[tuple[int, int], ...], int]:
    """The ranges that nothing covers, and how many bytes lie in more than one chunk (or in a chunk and the index)."""
    starts = offsets if index is None else np.append(offsets, index[0])
    ends = stops if index is None else np.append(stops, index[1])
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    reached = np.concatenate([[0], np.maximum.accumulate(ends)]) if len(ends) else np.zeros(1, np.int64)
    after = np.append(starts, size)
    free = np.flatnonzero(after > reached)
    gaps = tuple((int(reached[i]), int(after[i])) for i in free)
    overlap = int(np.clip(np.minimum(reached[:-1], ends) - starts, 0, None).sum())
    return gaps, overlap


def _values(spans: _Spans, colour: Colour, chunk_nbytes: int | None) -> tuple[Array, str, str]:
    """A number between 0 and 1 for every chunk in file order, and words for both ends of the scale."""
    if colour == "position":
        n = 1
        for count in spans.counts:
            n *= count
        return spans.numbers / max(n - 1, 1), "inner chunk 0", f"{max(n - 1, 0):,} (C order)"
    if colour != "ratio":
        raise ValueError(f"colour={colour!r}; 'position' or 'ratio' are known")
    if chunk_nbytes is None:
        raise ValueError("colour='ratio' needs chunk_nbytes, the bytes of a decoded inner chunk")
    if not len(spans.numbers):
        return np.zeros(0), "1×", "1×"
    ratio = chunk_nbytes / np.maximum(spans.stops - spans.offsets, 1)
    logs = np.log(np.maximum(ratio, 1e-9))
    low, high = float(logs.min()), float(logs.max())
    return (logs - low) / max(high - low, 1e-9), f"{np.exp(low):.3g}×", f"{np.exp(high):.3g}×"


def _pieces(spans: _Spans, values: Array) -> list[tuple[int, int, str, str]]:
    """(start, stop, colour, words) of every chunk, of the index, of dead space and of slack."""
    boxes = [(start, stop, DEAD, f"dead space: {_range_words(start, stop)}") for start, stop in spans.gaps]
    boxes += [(start, stop, SLACK, f"slack: {_range_words(start, stop)}") for start, stop in spans.slack]
    colours = hexadecimal(values)
    places = np.stack(np.unravel_index(spans.numbers, spans.counts), axis=1) if spans.counts else None
    for i, (start, stop) in enumerate(zip(spans.offsets.tolist(), spans.stops.tolist(), strict=True)):
        place = () if places is None else tuple(places[i].tolist())
        boxes.append((start, stop, colours[i], f"inner chunk {place}: {_range_words(start, stop)}"))
    if spans.index is not None:
        boxes.append((*spans.index, INDEX, f"index: {_range_words(*spans.index)}"))
    return boxes


def _cells(spans: _Spans, values: Array, rows: int, columns: int) -> list[tuple[int, int, str, float]]:
    """(start, stop, colour, value) of cells of equal length, each with the mean value of the chunks in it."""
    per_row = max(1, -(-spans.size // rows))
    starts = np.minimum(
        np.arange(rows)[:, None] * per_row + np.arange(columns) * per_row // columns, spans.size
    )
    bounds = np.append(starts.reshape(-1), spans.size).astype(np.float64)
    chunk, index, free, value = _shares(spans, values, bounds)
    dead = 1.0 - chunk - index - free
    colours = hexadecimal(value)
    boxes = []
    for i, (start, stop) in enumerate(
        zip(bounds[:-1].astype(int).tolist(), bounds[1:].astype(int).tolist(), strict=True)
    ):
        if stop <= start:
            continue
        unused = max(dead[i], free[i])
        fill = colours[i]
        if index[i] >= max(chunk[i], unused):
            fill = INDEX
        elif dead[i] + free[i] > 0.5:
            fill = DEAD if dead[i] >= free[i] else SLACK
        boxes.append((start, stop, fill, float(value[i])))
    return boxes


def _shares(spans: _Spans, values: Array, bounds: Array) -> tuple[Array, Array, Array, Array]:
    """For each cell between two bounds: shares of chunk, index and slack bytes, and the mean value of its chunks."""
    covered = _integral(spans.offsets, spans.stops, np.ones(len(spans.offsets)), bounds)
    weighted = _integral(spans.offsets, spans.stops, values, bounds)
    lengths = np.maximum(np.diff(bounds), 1e-9)
    ends = spans.index if spans.index is not None else (0, 0)
    index = np.clip(np.diff(np.clip(bounds, *ends)), 0, None) if ends[1] > ends[0] else np.zeros(len(lengths))
    value = np.divide(weighted, covered, out=np.zeros(len(lengths)), where=covered > 0)
    starts, stops = np.array(spans.slack, np.int64).reshape(-1, 2).T
    free = _integral(starts, stops, np.ones(len(starts)), bounds)
    return (
        np.minimum(covered / lengths, 1.0),
        index / lengths,
        np.minimum(free / lengths, 1.0),
        np.clip(value, 0, 1),
    )


def _integral(starts: Array, stops: Array, weights: Array, bounds: Array) -> Array:
    """The sum of weight times bytes inside each cell; spans may overlap."""
    if not len(starts):
        return np.zeros(len(bounds) - 1)

    # the integral up to x is the sum of w * (clip(x, start, stop) - start): two sorted prefix sums give it
    def upto(edges: Array) -> Array:
        order = np.argsort(edges, kind="stable")
        sorted_edges, w = edges[order].astype(np.float64), weights[order]
        count = np.searchsorted(sorted_edges, bounds, side="right")
        slope = np.concatenate([[0.0], np.cumsum(w)])[count]
        shift = np.concatenate([[0.0], np.cumsum(w * sorted_edges)])[count]
        return np.asarray(slope * bounds - shift)

    return np.diff(upto(starts) - upto(stops))


def _legend(x: float, y: float, colour: Colour, low: str, high: str, spans: _Spans) -> list[str]:
    elements = [svg.text(x, y, low)]
    at = x + 6.3 * len(low) + 6
    for i, fill in enumerate(hexadecimal(np.linspace(0, 1, 24))):
        elements.append(svg.rectangle(at + 4 * i, y - 9, 4.2, 10, fill=fill))
    at += 24 * 4 + 6
    words = high if colour == "position" else f"{high} compressed"
    elements.append(svg.text(at, y, words))
    at += 6.3 * len(words) + 18
    for fill, word, there in (
        (INDEX, "index", spans.index is not None),
        (DEAD, "dead space", bool(spans.gaps)),
        (SLACK, "slack", bool(spans.slack)),
    ):
        if there:
            elements.append(svg.rectangle(at, y - 9, 10, 10, fill=fill))
            elements.append(svg.text(at + 14, y, word))
            at += 14 + 6.3 * len(word) + 14
    return elements


def _sentences(spans: _Spans, merged: bool) -> list[str]:
    n = 1
    for count in spans.counts:
        n *= count
    chunk_bytes = int((spans.stops - spans.offsets).sum())
    share = spans.dead / spans.size if spans.size else 0.0
    parts = [
        f"{len(spans.numbers):,} of {n:,} inner chunks, {nbytes_text(chunk_bytes)} of {nbytes_text(spans.size)}",
        f"dead space {nbytes_text(spans.dead)} ({share:.0%})",
    ]
    if spans.slack:
        parts.append(f"slack {nbytes_text(spans.kept_free)}")
    if spans.index is not None:
        place = "start" if spans.index[0] == 0 and spans.index[1] < spans.size else "end"
        parts.append(f"index {nbytes_text(spans.index[1] - spans.index[0])} at the {place}")
    lines = ["; ".join(parts)]
    if spans.overlap:
        lines.append(f"{nbytes_text(spans.overlap)} belong to more than one")
    if spans.outside:
        lines.append(f"{spans.outside:,} entries reach past the end of the shard")
    if merged:
        lines.append("many chunks share one cell: its colour is their mean")
    return lines


def _range_words(start: int, stop: int) -> str:
    return f"bytes {start:,} to {stop:,} ({nbytes_text(stop - start)})"
