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


def zeros_at_end(source: Source, ranges: Array) -> Generator[Any, Any, Array]:
    """How many zero bytes end each (offset, nbytes) of an object, int64; reads backwards to the first other byte."""
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
