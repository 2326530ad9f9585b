"""The array's end, as its document has it: what a writer needs of it, and what a writer holds that has to move when
others were there first.

What it does not do: read documents; who makes a writer brings an End.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from terrazzo.layout import Layout
from terrazzo.writer.boxes import Box
from terrazzo.writer.cuts import Part
from terrazzo.writer.parts import Filling
from terrazzo.writer.pending import Pending

__all__ = ["End", "pieces_of"]

Array = np.ndarray[Any, Any]


class End(Protocol):
    """The end of one array along one axis.

    reserves: nobody can be kept out, so rows are reserved before they are written, and are fill value until then.
    Otherwise the array grows when its rows are durable, and nobody else makes it longer in between.
    """

    reserves: bool

    def alone(self) -> AbstractContextManager[Layout | None]:
        """Keep others from the end; the array's layout as it is then, or None where nobody can be kept out."""

    def grow(self, layout: Layout, known: int, length: int) -> Layout | None:
        """Make the array `length` long on the grid of `layout`, if it is `known` long now; else its layout as it is."""


def pieces_of(
    layout: Layout,
    axis: int,
    end: int,
    delta: int,
    position: int,
    gathered: Sequence[tuple[Part, Array]],
    pending: Sequence[Pending],
    filling: Sequence[Filling],
) -> Iterator[tuple[Box, Array]]:
    """Boxes, and their values, of all that a writer holds and has not stored, once what lies past the end has moved.

    end: where the array ended. delta: how far it moved. position: of the next step. What was given later comes later.
    """

    def moved(box: Sequence[tuple[int, int]], values: Array) -> Iterator[tuple[Box, Array]]:
        first = box[axis][0]
        for low, high, shift in ((first, min(end, box[axis][1]), 0), (max(end, first), box[axis][1], delta)):
            stop = min(high, position)
            if low < stop:
                stops = [stop if d == axis else min(last, layout.shape[d]) for d, (_, last) in enumerate(box)]
                starts = [low if d == axis else at for d, (at, _) in enumerate(box)]
                inside = tuple(
                    slice(a - at, b - at) for a, b, (at, _) in zip(starts, stops, box, strict=True)
                )
                place = [slice(a, b) for a, b in zip(starts, stops, strict=True)]
                place[axis] = slice(low + shift, stop + shift)
                yield tuple(place), values[inside]

    for part, values in gathered:
        yield from moved([(s.start, s.stop) for s in part], values)
    shape = layout.inner_shape or ()
    for shard in pending:
        for corner, encoded in shard.chunks():
            chunk = (
                np.full(shape, layout.fill, layout.dtype) if encoded is None else layout.chain.decode(encoded)
            )
            yield from moved([(a, a + n) for a, n in zip(corner, shape, strict=True)], chunk)
    for known in filling:
        for box, values in known.pieces():
            yield from moved(box, values)
