"""The encoded chunks of a shard that is not complete yet.

What it does not do: encode or store. It knows which inner chunks the shard still waits for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from terrazzo.layout import Layout
from terrazzo.write import EncodedShard
from terrazzo.writer.cuts import Part

__all__ = ["Pending"]

Array = np.ndarray[Any, Any]


class Pending:
    """One shard. base: where the array ended along the axis when it was last made longer.

    touched: parts that are encoded here or stored, so that their values here are not the only ones. left: inner chunks
    that have not arrived.
    """

    def __init__(self, layout: Layout, part: Part, axis: int, base: int, closed: bool) -> None:
        assert layout.sharding is not None
        self.layout = layout
        self.outer = tuple(stretch.outer for stretch in part)
        edges = layout.sharding.chunk_shape
        self.count = tuple((s.outer_stop - s.outer_start) // c for s, c in zip(part, edges, strict=True))
        along = part[axis]
        starts = along.outer_start + np.arange(self.count[axis], dtype=np.int64) * edges[axis]
        old = base >= along.outer_stop
        wanted = np.ones(self.count, np.bool_)
        for d, (stretch, c) in enumerate(zip(part, edges, strict=True)):
            if d != axis:
                inside = -(-(min(layout.shape[d], stretch.outer_stop) - stretch.outer_start) // c)
                wanted[(slice(None),) * d + (slice(inside, None),)] = False
        before = np.zeros(self.count, np.bool_)
        before[(slice(None),) * axis + (starts < base,)] = True
        if not old:
            wanted[(slice(None),) * axis + (starts + edges[axis] <= base,)] = False
        self._waiting = wanted.reshape(-1)
        self.left = int(self._waiting.sum())
        #: inner chunks that are stored and count
        self.stored: Array = before.reshape(-1)
        if closed:
            self.stored[:] = True
        self.touched: set[Part] = set()
        self.closed = closed
        self.nbytes = 0
        self._buffers: list[Any] = []
        self._places: dict[int, tuple[int, int, int]] = {}

    def arrived(self, part: Part, inner: Array) -> None:
        """Inner chunks of a part that need not be waited for any more."""
        self.touched.add(part)
        self.left -= int(self._waiting[inner].sum())
        self._waiting[inner] = False

    def add(self, part: Part, inner: Array, entries: Array, body: Any) -> None:
        """The encoded chunks of a part: entries of (offset, nbytes) in body, all ones where a chunk is all fill."""
        number = len(self._buffers)
        self._buffers.append(body)
        self.nbytes += len(body)
        for chunk, (offset, nbytes) in zip(inner.tolist(), entries.view(np.int64).tolist(), strict=True):
            self._places[chunk] = (-1, 0, 0) if offset < 0 else (number, offset, nbytes)
        self.arrived(part, inner)

    @property
    def filled(self) -> bool:
        """Whether there is anything to store."""
        return bool(self._places)

    def take(self) -> EncodedShard:
        """What is to be stored now; it is not kept any more."""
        inner = np.array(sorted(self._places), np.int64)
        places = np.array([self._places[chunk] for chunk in inner.tolist()], np.int64).reshape(-1, 3)
        shard = EncodedShard(self.outer, inner, places, self._buffers, self.stored.copy())
        self.stored[inner] = True
        self._buffers, self._places, self.nbytes = [], {}, 0
        return shard
