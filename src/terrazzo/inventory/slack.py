"""Slack, as far as bytes tell: the zero bytes at the end of a range that no entry covers.

What it does not do: know who left them. Slack is laid as zeros, behind chunks, and what a chunk leaves that moved or
became shorter is hardly ever zero at its end; that is all there is to tell them by.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from terrazzo.stores.flow import Fetching
from terrazzo.stores.store import Source

__all__ = ["zeros_at_end"]

Array = np.ndarray[Any, Any]

#: bytes looked at, at the end of a range, at first; then four times as many
FIRST = 1 << 12
#: bytes asked for in one request
AT_ONCE = 1 << 24
#: ranges that begin closer to one another than this, on the average, are read with what lies between them
CLOSE = 1 << 14


def zeros_at_end(source: Source, ranges: Array) -> Generator[Any, Any, Array]:
    """How many zero bytes end each (offset, nbytes) of an object, int64; ranges are ascending, and do not overlap.

    Reads each backwards to its first other byte, or many that are close to one another in one sweep.
    """
    if len(ranges) > 64 and int(ranges[-1].sum() - ranges[0, 0]) < CLOSE * len(ranges):
        return (yield from _swept(source, ranges))
    zeros = np.zeros(len(ranges), np.int64)
    waiting, step = list(range(len(ranges))), FIRST
    while waiting:
        step = min(step, AT_ONCE)
        many = max(1, AT_ONCE // step)
        left = []
        for first in range(0, len(waiting), many):
            batch = waiting[first : first + many]
            asked = []
            for k in batch:
                offset, nbytes = (int(n) for n in ranges[k])
                length = min(step, nbytes - int(zeros[k]))
                asked.append((offset + nbytes - int(zeros[k]) - length, length))
            (parts,) = yield Fetching([(source, asked)])
            for k, (_, length), part in zip(batch, asked, parts, strict=True):
                others = np.flatnonzero(np.frombuffer(part, np.uint8))
                zeros[k] += length - (int(others[-1]) + 1 if len(others) else 0)
                if not len(others) and zeros[k] < ranges[k, 1]:
                    left.append(k)
        waiting, step = left, step * 4
    return zeros


def _swept(source: Source, ranges: Array) -> Generator[Any, Any, Array]:
    starts, stops = ranges[:, 0], ranges.sum(axis=1)
    zeros = np.zeros(len(ranges), np.int64)
    other = int(starts[0]) - 1  # where the last byte lies that is not zero
    for first in range(int(starts[0]), int(stops[-1]), AT_ONCE):
        length = min(AT_ONCE, int(stops[-1]) - first)
        ((part,),) = yield Fetching([(source, [(first, length)])])
        places = np.arange(first, first + length)
        others = np.maximum.accumulate(np.where(np.frombuffer(part, np.uint8) != 0, places, other))
        low, high = np.searchsorted(stops, [first, first + length], side="right")
        ends = stops[low:high]
        zeros[low:high] = np.minimum(ranges[low:high, 1], ends - 1 - others[ends - 1 - first])
        other = int(others[-1])
    return zeros
