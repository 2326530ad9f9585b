"""Cuts: the array in parts that the writer buffers, each of them whole inner chunks of one shard.

What it does not do: hold values. Along the writer's axis a part is one chunk long; across it, a part takes as many
chunks as a budget allows, so that thousands of small chunks do not cost a call each. In a plain array a part is a group
of objects, and counts as a shard.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from terrazzo.layout import Layout

__all__ = ["Cuts", "Part", "Stretch"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Elements [start, stop) along one dimension; outer: the shard that they lie in, from outer_start to outer_stop."""

    start: int
    stop: int
    outer: int
    outer_start: int
    outer_stop: int


Part = tuple[Stretch, ...]


class Cuts:
    """The parts of an array that grows along `axis`. part_nbytes: what a part may hold, one chunk at least."""

    def __init__(self, layout: Layout, axis: int, part_nbytes: int) -> None:
        self.axis = axis
        self.layout = layout
        self._taken = _chunks_per_part(layout, axis, part_nbytes)
        self._across = [[] if d == axis else list(self._cut(d, layout.shape[d])) for d in range(layout.ndim)]
        self._starts = [[stretch.start for stretch in cut] for cut in self._across]

    def along(self, coordinate: int) -> Stretch:
        """The stretch of the axis that holds a coordinate, to the end of its chunk, also beyond the array."""
        return self._stretch(self.axis, coordinate)

    def parts(self, stretch: Stretch, box: tuple[tuple[int, int], ...]) -> Iterator[Part]:
        """The parts of one stretch of the axis that a box (first, past the last) of the array touches."""
        axes: list[list[Stretch]] = []
        for d, (first, last) in enumerate(box):
            if d == self.axis:
                axes.append([stretch])
            elif first >= last:
                return
            else:
                low = bisect_right(self._starts[d], first) - 1
                high = bisect_right(self._starts[d], last - 1)
                axes.append(self._across[d][low:high])
        yield from product(*axes)

    def outers_across(self) -> int:
        """How many shards lie side by side across the axis."""
        return prod(len({s.outer for s in cut}) for d, cut in enumerate(self._across) if d != self.axis)

    def grown(self, length: int) -> Layout:
        """The layout of the array once its axis reaches the end of the shard that holds element `length - 1`."""
        layout, axis = self.layout, self.axis
        while layout.shape[axis] < length:
            edges = layout.grid.dims[axis]
            covered = edges.covered
            if covered is None:
                stop = -(-length // (edges.uniform or 1)) * (edges.uniform or 1)
            elif covered > layout.shape[axis]:
                stop = covered
            else:  # a list of edges goes on with its last one
                stop = covered + _last_edge(layout, axis)
            shape = (*layout.shape[:axis], stop, *layout.shape[axis + 1 :])
            layout = layout.resized(shape)
        self.layout = layout
        return layout

    def _cut(self, dimension: int, length: int) -> Iterator[Stretch]:
        at = 0
        while at < length:
            stretch = self._stretch(dimension, at)
            stop = min(stretch.stop, length)
            yield Stretch(stretch.start, stop, stretch.outer, stretch.outer_start, stretch.outer_stop)
            at = stretch.stop

    def _stretch(self, dimension: int, coordinate: int) -> Stretch:
        layout = self.grown(coordinate + 1) if dimension == self.axis else self.layout
        edges = layout.grid.dims[dimension]
        outer, begin = edges.find(coordinate)
        end = begin + (edges.uniform or edges.begin(outer + 1) - begin)
        taken = self._taken[dimension]
        if layout.sharding is None:
            if edges.uniform is None:
                return Stretch(begin, end, outer, begin, end)
            long = taken * edges.uniform
            start = coordinate // long * long
            return Stretch(start, start + long, coordinate // long, start, start + long)
        long = taken * layout.sharding.chunk_shape[dimension]
        start = begin + (coordinate - begin) // long * long
        return Stretch(start, min(start + long, end), outer, begin, end)


def _last_edge(layout: Layout, axis: int) -> int:
    edges = layout.grid.dims[axis]
    covered = edges.covered or 0
    if not covered:  # no edge yet: one inner chunk, or one element
        return layout.sharding.chunk_shape[axis] if layout.sharding is not None else 1
    return covered - edges.find(covered - 1)[1]


def _chunks_per_part(layout: Layout, axis: int, part_nbytes: int) -> list[int]:
    """How many chunks a part takes along each dimension."""
    itemsize = max(1, layout.dtype.itemsize)
    sharding = layout.sharding
    uniform = layout.grid.uniform_shape
    if sharding is not None:
        edge = list(sharding.chunk_shape)
        most = [
            max(1, max(layout.grid.unique_edges(d) or (c,)) // c) for d, c in enumerate(sharding.chunk_shape)
        ]
        most[axis] = 1
    elif uniform is not None:
        edge = list(uniform)
        most = [max(1, -(-n // c)) for n, c in zip(layout.shape, uniform, strict=True)]
        most[axis] = 1
    else:
        return [1] * layout.ndim
    taken = [1] * layout.ndim
    left = part_nbytes // max(1, int(np.prod(edge, dtype=object)) * itemsize)
    for d in [*(d for d in reversed(range(layout.ndim)) if d != axis), axis]:
        taken[d] = max(1, min(most[d], left))
        left //= taken[d]
        if taken[d] < most[d]:
            break
    return taken
