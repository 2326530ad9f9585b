"""A part that is being filled: its values, and which of them have arrived.

What it does not do: store or encode.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from terrazzo.writer.cuts import Part

__all__ = ["Filling"]

Array = np.ndarray[Any, Any]
Box = tuple[slice, ...]


class Filling:
    """The values of one part. Steps along the axis that arrive whole need one flag each, others one per element.

    fresh: nothing that is stored counts here; what does not arrive holds the fill value.
    """

    def __init__(self, part: Part, axis: int, fill: Array, dtype: np.dtype[Any], fresh: bool) -> None:
        self.part = part
        self.axis = axis
        self.fresh = fresh
        shape = tuple(s.stop - s.start for s in part)
        self.values: Array = np.full(shape, fill, dtype)
        self.steps = np.zeros(shape[axis], np.bool_)
        self.mask: Array | None = None

    @property
    def nbytes(self) -> int:
        return int(self.values.nbytes) + (0 if self.mask is None else int(self.mask.nbytes))

    @property
    def box(self) -> Box:
        """Where the part lies in the array."""
        return tuple(slice(s.start, s.stop) for s in self.part)

    @property
    def last(self) -> int:
        """The last step of which anything has arrived."""
        others = tuple(d for d in range(self.values.ndim) if d != self.axis)
        found = self.steps if self.mask is None else self.steps | self.mask.any(axis=others)
        return int(np.flatnonzero(found)[-1])

    @property
    def complete(self) -> bool:
        return bool(self.steps.all())

    def put(self, box: Box, value: Array) -> None:
        """Take values for a box of the array that lies in this part."""
        here = tuple(slice(b.start - s.start, b.stop - s.start) for b, s in zip(box, self.part, strict=True))
        self.values[here] = value
        steps = here[self.axis]
        across = all(
            (b.stop - b.start) == n
            for d, (b, n) in enumerate(zip(here, self.values.shape, strict=True))
            if d != self.axis
        )
        if across:
            self.steps[steps] = True
            if self.mask is not None:
                self.mask[here] = True
            return
        if self.mask is None:
            self.mask = np.zeros(self.values.shape, np.bool_)
            self.mask[self._along(self.steps)] = True
        self.mask[here] = True
        others = tuple(d for d in range(self.values.ndim) if d != self.axis)
        arrived = self.mask[(slice(None),) * self.axis + (steps,)].all(axis=others)
        self.steps[steps] |= arrived

    def pieces(self) -> Iterator[tuple[list[tuple[int, int]], Array]]:
        """(first and past the last element along each dimension, values) of what has arrived: whole steps together,
        then elements one by one."""
        for box, values in self._whole(self.steps):
            yield [(s.start, s.stop) for s in box], values
        if self.mask is not None:
            single = self.mask.copy()
            single[self._along(self.steps)] = False
            for place in np.argwhere(single).tolist():
                at = [k + s.start for k, s in zip(place, self.part, strict=True)]
                yield [(k, k + 1) for k in at], self.values[tuple(slice(k, k + 1) for k in place)]

    def arrived(self, fill_from: int | None) -> Iterator[tuple[Any, Array]]:
        """(selection in the array, values) of what has arrived, and of the steps from `fill_from` on, as they are."""
        first = len(self.steps) if fill_from is None else max(0, fill_from - self.part[self.axis].start)
        if self.mask is None:
            steps = self.steps.copy()
            steps[first:] = True
            yield from self._whole(steps)
            return
        mask = self.mask.copy()
        mask[(slice(None),) * self.axis + (slice(first, None),)] = True
        places = np.nonzero(mask)
        yield (
            tuple(at + s.start for at, s in zip(places, self.part, strict=True)),
            self.values[places],
        )

    def _whole(self, steps: Array) -> Iterator[tuple[Box, Array]]:
        """Runs of whole steps, as boxes."""
        start = self.part[self.axis].start
        edges = np.flatnonzero(np.diff(np.concatenate([[0], steps.view(np.int8), [0]])))
        for low, high in edges.reshape(-1, 2).tolist():
            box = list(self.box)
            box[self.axis] = slice(start + low, start + high)
            yield tuple(box), self.values[self._along(slice(low, high))]

    def _along(self, steps: Any) -> Any:
        return (slice(None),) * self.axis + (steps,)
