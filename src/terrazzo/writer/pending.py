"""The encoded chunks of a shard that is not complete yet.

What it does not do: encode or store. It knows which inner chunks the shard still waits for.
"""

from __future__ import annotations

from collections.abc import Iterator
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
        #: where the shard ends along the axis
        self.stop = part[axis].outer_stop
        self._corner = tuple(stretch.outer_start for stretch in part)
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
        self._starts = np.broadcast_to(
            starts.reshape([-1 if d == axis else 1 for d in range(len(self.count))]), self.count
        ).reshape(-1)
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

    def keep_from(self, reserved: int) -> None:
        """What is stored from this element of the axis on is others', and stays."""
        self.stored[self._starts >= reserved] = True

    def keep_before(self, length: int) -> None:
        """What is stored before this element of the axis counts, and stays."""
        self.stored[self._starts < length] = True

    def chunks(self) -> Iterator[tuple[tuple[int, ...], Any]]:
        """(first element, encoded bytes or None for the fill value) of every chunk that waits here, in C order."""
        assert self.layout.sharding is not None
        edges = self.layout.sharding.chunk_shape
        for chunk in sorted(self._places):
            number, offset, nbytes = self._places[chunk]
            index = np.unravel_index(chunk, self.count) if self.count else ()
            corner = tuple(at + int(k) * edge for at, k, edge in zip(self._corner, index, edges, strict=True))
            encoded = None if number < 0 else memoryview(self._buffers[number])[offset : offset + nbytes]
            yield corner, encoded

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
