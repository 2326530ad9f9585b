"""The buffered writer: time steps, camera frames or tiles in, whole shards out, in bounded memory.

What it does not do: read an array, or choose where changed chunks go (strategy.py). It drives the write room's flows.

Every inner chunk is encoded once, as soon as it is complete, and waits encoded for its shard. Chunks first, the shape
last: the array grows along the axis once everything before its new end is durable, so that a reader never sees a step
that could go, and after a crash a new writer goes on where the array ends. Whoever stores steps past the end has it for
itself until the array has grown; where others were faster, what waits here moves behind theirs. Where nobody can be
kept out (object stores), rows are reserved first, as those of `append` are.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from terrazzo.errors import TerrazzoWarning
from terrazzo.index import IndexCache
from terrazzo.layout import Layout
from terrazzo.options import Options
from terrazzo.stores.store import Store
from terrazzo.strategy import Outcomes, Strategy
from terrazzo.write import check_strategy
from terrazzo.writer.backlog import Backlog
from terrazzo.writer.boxes import Box, box_of
from terrazzo.writer.cuts import Stretch
from terrazzo.writer.end import End

__all__ = ["ShardWriter"]

Array = np.ndarray[Any, Any]


class ShardWriter(Backlog):
    """Takes pieces of an array and stores whole shards; get one from `array.writer()`.

    Use it in a `with` block: when that ends, also by an error, everything that was given to it is stored. Pieces may
    come in any order and overlap; the last one counts. Elements that never come hold what they held, or the fill value
    where the array grew.

    Others may write and append meanwhile. Where they append first, the steps that wait here move behind theirs, and
    `position` with them; once a place past `position` was named (`write`), steps stay where they were put.
    """

    def __init__(
        self,
        layout: Layout,
        store: Store,
        options: Options,
        cache: IndexCache,
        strategy: Strategy,
        axis: int,
        memory: int | None,
        convert: Callable[[Any], Array],
        end: End,
        outcomes: Outcomes | None = None,
    ) -> None:
        ndim = layout.ndim
        if not -ndim <= axis < ndim:
            raise ValueError(
                f"array {'/' + layout.path!r} has {ndim} dimensions; there is no axis {axis} to write along"
            )
        check_strategy(layout, strategy)
        budget = options.memory if memory is None else int(memory)
        if budget < 1:
            raise ValueError(f"memory={memory}; a number of bytes, or None for the setting, is needed")
        super().__init__(layout, store, options, cache, strategy, axis % ndim, budget, end, outcomes)
        self._convert = convert
        self._lock = threading.RLock()
        self._closed = False
        self._warn_of_small_memory()

    # -- what one does with it ----------------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """The index along the axis at which the next `append` goes; in a new writer, where the array ends."""
        return self._position

    @property
    def stored(self) -> int:
        """The extent of the array along the axis: everything before it is durable."""
        return self._base

    def append(self, data: Any) -> int:
        """Add one step (of the array's shape without the axis) or several (with it) at `position`; the new position.

        Raises ValueError where the shape does not fit.
        """
        with self._lock:
            self._refuse_closed()
            value = self._convert(data)
            shape, axis = self._layout.shape, self.axis
            across = shape[:axis] + shape[axis + 1 :]
            if value.shape == across:
                value = np.expand_dims(value, axis)
            elif value.ndim != len(shape) or value.shape[:axis] + value.shape[axis + 1 :] != across:
                raise ValueError(
                    f"array {'/' + self._layout.path!r} grows along axis {axis} by steps of shape {across}; data of "
                    f"shape {value.shape} was given"
                )
            start = self._position
            box = [slice(0, n) for n in shape]
            box[axis] = slice(start, start + value.shape[axis])
            self._take(tuple(box), value)
            return self._position

    def write(self, selection: Any, value: Any) -> None:
        """Assign `value` to integers and slices (of step 1); along the axis they may reach past the array's end."""
        with self._lock:
            self._refuse_closed()
            box, dropped = box_of(selection, self._layout, self.axis, self._position)
            shape = tuple(b.stop - b.start for b in box)
            kept = tuple(n for d, n in enumerate(shape) if d not in dropped)
            given = self._convert(value)
            try:
                fitted = np.broadcast_to(given, kept).reshape(shape)
            except ValueError:
                raise ValueError(
                    f"a value of shape {given.shape} does not fit a selection of shape {kept}"
                ) from None
            axis, base, shifted = self.axis, self._base, self._shifted
            self._placed |= box[axis].stop > self._position
            before = max(0, min(base, box[axis].stop) - box[axis].start)
            for low, high in ((0, before), (before, fitted.shape[axis])):  # steps before the end never move
                if low < high:
                    start = box[axis].start + low + (self._shifted - shifted if low else 0)
                    part = (*box[:axis], slice(start, start + high - low), *box[axis + 1 :])
                    self._take(part, fitted[(slice(None),) * axis + (slice(low, high),)])

    def flush(self) -> None:
        """Store everything that was given so far; when it returns, it is durable and the array's shape covers it."""
        with self._lock:
            self._flush()

    def close(self) -> None:
        """`flush`, and take nothing more; harmless when repeated."""
        with self._lock:
            if not self._closed:
                self._flush()
                self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close()
        except Exception as second:  # what went wrong first is what the caller has to see
            error.add_note(
                f"the array is stored up to index {self._base} along axis {self.axis}; storing the rest failed too: "
                f"{second}"
            )

    def __repr__(self) -> str:
        return (
            f"<terrazzo.ShardWriter of {self._layout.path or '/'} axis={self.axis} position={self._position} "
            f"stored={self._base} held={self._held}>"
        )

    # -- pieces in ----------------------------------------------------------------------------------------------------

    def _take(self, box: Box, value: Array) -> None:
        """Take values stretch by stretch; those of steps that move go where the steps before them went."""
        axis, at = self.axis, box[self.axis].start
        moves, first = at >= self._base, 0
        while first < value.shape[axis]:
            stretch = self._stretch(at)
            n = min(stretch.stop - at, value.shape[axis] - first)
            here = (*box[:axis], slice(at, at + n), *box[axis + 1 :])
            before = self._shifted
            if self._take_stretch(stretch, here, value[(slice(None),) * axis + (slice(first, first + n),)]):
                first, at = first + n, at + n
            if moves:
                at += self._shifted - before

    def _take_stretch(self, stretch: Stretch, box: Box, value: Array) -> bool:
        """Whether the values were taken; if not, steps have moved, and they belong elsewhere."""
        before, stop = self._shifted, box[self.axis].stop
        parts = self._cuts.parts(stretch, tuple((b.start, b.stop) for b in box))
        wanted = sum(self._nbytes_of(part) for part in parts if part not in self._parts)
        if not self._placed and self._held and self._held + wanted > self.memory:
            self._drain()
            if self._shifted != before:
                return False
        if self._placed or wanted <= self.memory:
            self._give(stretch, box, value)
            self._position = max(self._position, stop)
            self._settle()
            return True
        with self._alone():  # one stretch is more than may be held: it is stored before all of it is here
            if self._shifted != before or not self._reserve(stop):
                return False
            self._give(stretch, box, value)
            self._position = max(self._position, stop)
            self._flush()
        return True

    # -- below --------------------------------------------------------------------------------------------------------

    def _refuse_closed(self) -> None:
        if self._closed:
            raise ValueError(f"the writer of array {'/' + self._layout.path!r} is closed; make another one")

    def _warn_of_small_memory(self) -> None:
        shape, axis = self._layout.shape, self.axis
        step = self._layout.dtype.itemsize * int(np.prod(shape[:axis] + shape[axis + 1 :], dtype=object))
        stretch = self._cuts.along(self._base)
        wanted = step * (stretch.stop - stretch.start)
        if wanted > self.memory:
            warnings.warn(
                f"array {'/' + self._layout.path!r}: chunks are {stretch.stop - stretch.start} steps long, and so many "
                f"steps take {wanted:,} bytes; within memory={self.memory:,} some chunks are stored several times "
                "when steps are appended one by one",
                TerrazzoWarning,
                stacklevel=4,
            )
