"""Values of another data type than the array's, converted a window at a time.

What it does not do: convert small values (whoever assigns them has), or those whose places in the selection are not
ranges: these are converted whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from terrazzo.indexing import Window

__all__ = ["converted", "is_converted_late"]

Array = np.ndarray[Any, Any]

#: kinds of numbers that numpy converts without looking at anything but the value
NUMBERS = "biufc"


def is_converted_late(value: Array, dtype: np.dtype[Any], memory: int) -> bool:
    """Whether a value is so large that its conversion has to wait for the windows."""
    large = value.size * dtype.itemsize > memory
    return large and value.dtype != dtype and value.dtype.kind in NUMBERS and dtype.kind in NUMBERS


def converted(window: Window, value: Array, dtype: np.dtype[Any]) -> tuple[Window, Array]:
    """The window, and what it takes from the value, as `dtype`."""
    rows = len(window.cell)
    first, last = window.out_selection(0), window.out_selection(rows - 1)
    axes = window.placement()
    spans = axes[0] == "grid" and all(isinstance(part, slice) for part in (*first, *last))
    if not spans:
        return window, value.astype(dtype)
    # rows are a product in C order, so that the first one starts all dimensions and the last one ends them
    box = tuple(slice(low.start, high.stop) for low, high in zip(first, last, strict=True))
    return _Moved(window, tuple(part.start for part in box)), value[box].astype(dtype)


class _Moved(Window):
    """A window over a part of the buffer, which starts at `start`."""

    def __init__(self, window: Window, start: tuple[int, ...]) -> None:
        self.outers = window.outers
        self.shard_number = window.shard_number
        self.inner = window.inner
        self.cell = window.cell
        self._window = window
        self._start = start

    def placement(self) -> tuple[object, ...]:
        name, axes = self._window.placement()
        assert isinstance(axes, tuple)
        return name, tuple(
            (form, table - np.array([0, 0, start]), step)
            for (form, table, step), start in zip(axes, self._start, strict=True)
        )

    @property
    def whole(self) -> Any:
        return self._window.whole

    @property
    def whole_shard(self) -> Any:
        return self._window.whole_shard

    def chunk_selection(self, row: int) -> tuple[Any, ...]:
        return self._window.chunk_selection(row)

    def out_selection(self, row: int) -> tuple[Any, ...]:
        place = zip(self._window.out_selection(row), self._start, strict=True)
        return tuple(slice(part.start - start, part.stop - start) for part, start in place)
