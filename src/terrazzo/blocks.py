"""Blocks: the pieces in which long work goes over an array, aligned to what is stored and within a memory budget.

What it does not do: know where values come from, or what a store is. Copies and imports of every kind go through here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import prod
from typing import Any, Protocol

import numpy as np

from terrazzo.errors import StoreError

__all__ = ["Edges", "aligned_blocks", "count_blocks", "pour", "same_bits", "transfer"]

#: the extent of the stored chunks along one dimension: one number where all are equal, else every one of them
Edges = int | Sequence[int]
Values = np.ndarray[Any, Any]
Block = tuple[slice, ...]


class Target(Protocol):
    """What values are poured into: an array of ours."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def __getitem__(self, selection: Any) -> Any: ...

    def __setitem__(self, selection: Any, value: Any) -> None: ...


class Shards(Target, Protocol):
    """A target of shards, which can be written from their inner chunks."""

    @property
    def fill_value(self) -> Any: ...

    def put_shard(self, index: Sequence[int], chunks: Mapping[tuple[int, ...], Any]) -> None: ...


def transfer(
    read: Callable[[Block], Any],
    target: Target,
    unit: Sequence[Edges],
    memory: int,
    *,
    step: Callable[[int], None],
    verify: bool = False,
    words: str = "the array",
) -> None:
    """Assign `read(block)` to every block of `target`, each aligned to `unit`, within about twice `memory` bytes.

    step: called with the bytes of every block. verify: read every block back, and raise StoreError where its bits are
    not those that were written; `words` name the target then.
    """
    itemsize = target.dtype.itemsize
    for block in aligned_blocks(target.shape, unit, itemsize, memory):
        values = np.asarray(read(block))
        target[block] = values
        if verify:
            _check(values, target, block, words)
        nbytes = values.size * itemsize
        del values  # before the next block is read
        step(nbytes)


def pour(
    read: Callable[[Block], Any],
    target: Shards,
    shard: Sequence[int],
    inner: Sequence[int],
    memory: int,
    *,
    step: Callable[[int], None],
    verify: bool = False,
    words: str = "the array",
) -> None:
    """`transfer` for shards that are larger than `memory`: each is put together from its inner chunks as they are read.

    shard, inner: shapes of the shards and of their inner chunks.
    """
    shape = target.shape
    for block in aligned_blocks(shape, shard, target.dtype.itemsize, 1):
        index = tuple(s.start // edge for s, edge in zip(block, shard, strict=True))
        target.put_shard(index, _InnerChunks(read, block, inner, target))
        if verify:
            extents = [s.stop - s.start for s in block]
            for part in aligned_blocks(extents, inner, target.dtype.itemsize, memory // 2):
                box = tuple(
                    slice(b.start + p.start, b.start + p.stop) for b, p in zip(block, part, strict=True)
                )
                _check(np.asarray(read(box)), target, box, words)
        step(prod(s.stop - s.start for s in block) * target.dtype.itemsize)


class _InnerChunks(Mapping[tuple[int, ...], Values]):
    """The inner chunks of one shard, read when they are asked for; what lies past the array is the fill value."""

    def __init__(
        self, read: Callable[[Block], Any], block: Block, inner: Sequence[int], target: Shards
    ) -> None:
        self._read = read
        self._block = block
        self._inner = tuple(inner)
        self._target = target
        self._counts = [-(-(s.stop - s.start) // c) for s, c in zip(block, inner, strict=True)]

    def __len__(self) -> int:
        return prod(self._counts)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return np.ndindex(*self._counts)

    def __getitem__(self, index: tuple[int, ...]) -> Values:
        box = []
        for s, c, k in zip(self._block, self._inner, index, strict=True):
            start = s.start + k * c
            box.append(slice(start, min(start + c, s.stop)))
        found = np.asarray(self._read(tuple(box)))
        if found.shape == self._inner:
            return found
        chunk = np.full(self._inner, self._target.fill_value, self._target.dtype)
        chunk[tuple(slice(n) for n in found.shape)] = found
        return chunk


def _check(values: Values, target: Target, block: Block, words: str) -> None:
    if not same_bits(values.astype(target.dtype, copy=False), np.asarray(target[block])):
        box = ", ".join(f"{s.start}:{s.stop}" for s in block)
        raise StoreError(
            f"{words} reads back otherwise than it was written at [{box}]; a lossy codec does that, "
            "and so does a failing disk"
        )


def same_bits(first: Values, second: Values) -> bool:
    """Whether two arrays hold the same bits: NaN equals itself, and 0.0 is not -0.0."""
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if first.dtype.kind in "TO":
        return bool((first == second).all())
    here, there = (np.ascontiguousarray(values).reshape(-1).view(np.uint8) for values in (first, second))
    return bool(np.array_equal(here, there))


def aligned_blocks(
    shape: Sequence[int], unit: Sequence[Edges], itemsize: int, memory: int
) -> Iterator[tuple[slice, ...]]:
    """Slices that cover an array of `shape` once, in C order, none of which cuts a stored chunk (shard).

    unit: extents of the stored chunks. itemsize: bytes of an element. memory: bytes that a block may have; a block is
    one stored chunk at least, however large that is. Nothing comes where a dimension has length zero.
    """
    grown = _grown(shape, unit, itemsize, memory)

    def below(d: int) -> Iterator[tuple[slice, ...]]:
        if d == len(shape):
            yield ()
            return
        for here in _slices(shape[d], grown[d]):
            for rest in below(d + 1):
                yield here, *rest

    if 0 not in shape:
        yield from below(0)


def count_blocks(shape: Sequence[int], unit: Sequence[Edges], itemsize: int, memory: int) -> int:
    """How many slices `aligned_blocks` gives."""
    grown = _grown(shape, unit, itemsize, memory)
    return prod(_count(extent, edges) for extent, edges in zip(shape, grown, strict=True))


def _grown(shape: Sequence[int], unit: Sequence[Edges], itemsize: int, memory: int) -> list[Edges]:
    """Extents of blocks: of as many chunks as fit, more along the last dimension first.

    Neighbours in C order share the chunks and pages of the source, so that less is decoded twice.
    """
    if len(unit) != len(shape):
        raise ValueError(f"{len(unit)} chunk extents for an array of {len(shape)} dimensions")
    grown = list(unit)
    for d in reversed(range(len(shape))):
        rest = prod(_longest(shape[k], grown[k]) for k in range(len(shape)) if k != d) * itemsize
        whole = _count(shape[d], grown[d])
        if whole < 2 or rest == 0:
            continue
        taken = max(1, min(whole, memory // (rest * _longest(shape[d], grown[d]))))
        grown[d] = _merged(grown[d], taken)
        if taken < whole:
            break
    return grown


def _merged(edges: Edges, taken: int) -> Edges:
    if isinstance(edges, int):
        return edges * taken
    return [sum(edges[at : at + taken]) for at in range(0, len(edges), taken)]


def _longest(extent: int, edges: Edges) -> int:
    return min(extent, edges if isinstance(edges, int) else max(edges, default=0))


def _count(extent: int, edges: Edges) -> int:
    if isinstance(edges, int):
        if edges < 1:
            raise ValueError(f"a chunk extent of {edges}; chunk extents are 1 or larger")
        return -(-extent // edges)
    return sum(1 for start in accumulate(edges, initial=0) if start < extent)


def _slices(extent: int, edges: Edges) -> Iterator[slice]:
    if isinstance(edges, int):
        for start in range(0, extent, edges):
            yield slice(start, min(start + edges, extent))
        return
    start = 0
    for edge in edges:
        stop = min(start + edge, extent)
        if stop > start:
            yield slice(start, stop)
        start = stop
