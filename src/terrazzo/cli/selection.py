"""Selections as people type them, and the pieces in which a large one is read.

What it does not do: index by arrays or masks; integers, slices and "..." are what fits on a command line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from terrazzo.errors import BoundsCheckError, SelectionError

__all__ = ["Box", "parse_selection", "pieces"]

NUMBER = re.compile(r"[+-]?[0-9]+")
Entry = int | range


@dataclass(frozen=True)
class Box:
    """One entry per dimension: an index, or the range of indices."""

    entries: tuple[Entry, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(entry) for entry in self.entries if isinstance(entry, range))

    @property
    def key(self) -> tuple[int | slice, ...]:
        """What to index an array with."""
        return tuple(_slice(entry) if isinstance(entry, range) else entry for entry in self.entries)


def parse_selection(text: str, shape: Sequence[int]) -> Box:
    """ "0:10, -1, ..." as the box of an array of `shape`; SelectionError with the place that is wrong."""
    words = text.strip().removeprefix("[").removesuffix("]").strip()
    parts = [part.strip() for part in words.split(",")] if words else []
    if parts and parts[-1] == "":
        parts.pop()
    if parts.count("...") > 1:
        raise SelectionError(f"{text!r} has more than one '...'")
    if "..." not in parts:
        parts.append("...")
    at = parts.index("...")
    given = len(parts) - 1
    if given > len(shape):
        raise SelectionError(f"{text!r} selects along {given} dimensions, and the array has {len(shape)}")
    parts[at : at + 1] = [":"] * (len(shape) - given)
    return Box(
        tuple(_entry(part, extent, d) for d, (part, extent) in enumerate(zip(parts, shape, strict=True)))
    )


def _entry(part: str, extent: int, dimension: int) -> Entry:
    if NUMBER.fullmatch(part):
        index = int(part)
        if not -extent <= index < extent:
            raise BoundsCheckError(
                f"index {index} is outside dimension {dimension}, which has {extent} elements"
            )
        return index % extent
    bounds = part.split(":")
    if not 2 <= len(bounds) <= 3 or not all(
        bound == "" or NUMBER.fullmatch(bound.strip()) for bound in bounds
    ):
        raise SelectionError(f"{part!r} is no selection along dimension {dimension}; use 5, 0:10, ::2 or ...")
    start, stop, step = (int(bound) if bound.strip() else None for bound in [*bounds, ""][:3])
    if step == 0:
        raise SelectionError(f"{part!r} has the step 0 along dimension {dimension}")
    return range(extent)[start:stop:step]


def _slice(entry: range) -> slice:
    if not len(entry):
        return slice(0, 0)
    if entry.step < 0:
        stop = entry[-1] - 1
        return slice(entry[0], None if stop < 0 else stop, entry.step)
    return slice(entry.start, entry[-1] + 1, entry.step)


def pieces(box: Box, chunks: Sequence[int], itemsize: int, memory: int) -> Iterator[tuple[int | slice, ...]]:
    """The box in C order, in pieces of at most `memory` bytes (and one element at least), whole chunks where it goes.

    chunks: the extent of a chunk along every dimension.
    """
    nbytes = prod(box.shape) * itemsize
    longer = [d for d, entry in enumerate(box.entries) if isinstance(entry, range) and len(entry) > 1]
    if nbytes == 0:
        return
    if nbytes <= memory or not longer:
        yield box.key
        return
    d = longer[0]
    entry = box.entries[d]
    assert isinstance(entry, range)
    take = max(1, memory // (nbytes // len(entry)))
    per_chunk = max(1, chunks[d] // abs(entry.step))
    if take > per_chunk:
        take -= take % per_chunk
    for at in range(0, len(entry), take):
        part = entry[at : at + take]
        yield from pieces(Box((*box.entries[:d], part, *box.entries[d + 1 :])), chunks, itemsize, memory)
