"""Projections: a selection laid over shards and inner chunks, in windows whose tables stay small.

What it does not do: single elements (`points.py`), bytes, programs.

A window is a product of stretches, one per axis; its rows are the touched inner chunks in C order. Windows are cut at
the edges of shards, and inside a shard only for reading: a shard that is written is written once.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from terrazzo.chunk_grid import ChunkGrid, Ints
from terrazzo.indexing.axes import Axis, Bools, Piece, Pieces, axis_of
from terrazzo.indexing.selection import Box, Run, Selector

__all__ = ["BoxProjection", "BoxWindow", "Boxed", "Projection", "Window", "fitted"]

Array: TypeAlias = np.ndarray[Any, Any]
Place: TypeAlias = tuple[Any, ...]

UNBOUNDED = 2**62
#: inner chunks of one shard from which on columns that say the same are one, since a shard may have millions of them
MANY = 1 << 16


class Window(ABC):
    """A part of a projection: rows, one per touched inner chunk.

    outers: int64 (m, ndim), grid indices of the touched shards, all different. shard_number: int64 (n,), the place of
    each row's shard in `outers`. inner: int64 (n,), C-order number of the inner chunk inside its shard. cell: int64
    (n,), the row's place in the kernel's placement: 0, 1, 2 and so on. They may be one array; nobody writes to them.
    """

    outers: Ints
    shard_number: Ints
    inner: Ints
    cell: Ints

    @abstractmethod
    def placement(self) -> tuple[object, ...]:
        """Where elements lie in chunks and in the buffer, as the kernel takes it."""

    @property
    @abstractmethod
    def whole(self) -> Bools:
        """(n,): the row replaces every element of its chunk that lies inside the array. For writing."""

    @property
    @abstractmethod
    def whole_shard(self) -> Bools:
        """(m,): the window replaces every element of the shard that lies inside the array. For writing."""

    @abstractmethod
    def chunk_selection(self, row: int) -> Place:
        """The row's elements in its chunk: `buffer[out_selection(row)] = chunk[chunk_selection(row)]`."""

    @abstractmethod
    def out_selection(self, row: int) -> Place:
        """The row's elements in the buffer."""


class Projection(ABC):
    """A selection laid over the chunks of an array.

    out_shape: of the result, as numpy has it. buffer_shape: of the array that is filled or taken from chunk by chunk;
    `prepare` and `finish` lead from a value to it and from it to the result. nrows: touched inner chunks, or a little
    more. flips: the axes of the buffer that run against the result.
    """

    kind: Literal["grid", "points"]
    out_shape: tuple[int, ...]
    buffer_shape: tuple[int, ...]
    flips: tuple[int, ...]
    nrows: int

    @abstractmethod
    def finish(self, buffer: Array) -> Any:
        """The result, from a filled buffer: a view of it, or an element where numpy answers one."""

    @abstractmethod
    def prepare(self, value: Array) -> Array:
        """The buffer to write from: `value`, broadcast as in numpy's assignment; ValueError where it does not fit."""

    @abstractmethod
    def windows(self, max_rows: int = UNBOUNDED, max_shards: int = UNBOUNDED) -> Iterator[Window]:
        """Windows of at most so many rows and shards; for writing, of at least one shard however many rows it has."""


class Boxed(Projection):
    """What every product of per-dimension selections has: shapes, and the way between buffer and result."""

    kind = "grid"

    def __init__(self, selectors: Sequence[Selector], scalar: bool) -> None:
        buffer_shape, out_shape, flips, drops = [], [], [], []
        for dim, selector in enumerate(selectors):
            if type(selector) is not Run:
                buffer_shape.append(len(selector))  # type: ignore[arg-type]
                out_shape.append(len(selector))  # type: ignore[arg-type]
                continue
            buffer_shape.append(selector.count)
            if selector.drop:
                drops.append(dim)
                continue
            out_shape.append(selector.count)
            if selector.flip:
                flips.append(dim)
        self.scalar = scalar
        self.buffer_shape = tuple(buffer_shape)
        self.out_shape = tuple(out_shape)
        self.flips = tuple(flips)
        self.drops = tuple(drops)

    def finish(self, buffer: Array) -> Any:
        if self.flips:
            buffer = buffer[self._directions()]
        if self.drops:
            buffer = buffer.reshape(self.out_shape)
        return buffer[()] if self.scalar else buffer

    def prepare(self, value: Array) -> Array:
        value = fitted(value, self.out_shape)
        if self.drops:
            value = value[
                tuple(None if dim in self.drops else slice(None) for dim in range(len(self.buffer_shape)))
            ]
        return value[self._directions()] if self.flips else value

    def _directions(self) -> tuple[slice, ...]:
        return tuple(
            slice(None, None, -1 if dim in self.flips else 1) for dim in range(len(self.buffer_shape))
        )


class BoxProjection(Boxed):
    """The projection of any product of per-dimension selections."""

    def __init__(
        self,
        box: Box,
        shape: Sequence[int],
        grid: ChunkGrid,
        inner_shape: tuple[int, ...] | None,
        for_write: bool = False,
    ) -> None:
        super().__init__(box.selectors, box.scalar)
        self.for_write = for_write
        self.inner_shape = inner_shape
        inners = inner_shape or (None,) * len(shape)
        self.axes: tuple[Axis, ...] = tuple(
            axis_of(selector, shape[dim], grid.dims[dim], inners[dim], for_write)
            for dim, selector in enumerate(box.selectors)
        )
        self.nrows = math.prod([axis.most_pieces(*axis.whole_stretch) for axis in self.axes])

    def windows(self, max_rows: int = UNBOUNDED, max_shards: int = UNBOUNDED) -> Iterator[Window]:
        if not all(self.buffer_shape):
            return
        stretches = [axis.whole_stretch for axis in self.axes]
        # shards are at most as many as rows
        if self.nrows <= max_rows and self.nrows <= max_shards:
            yield self._window(stretches)
            return
        rows = [axis.most_pieces(*stretch) for axis, stretch in zip(self.axes, stretches, strict=True)]
        shards = [axis.most_shards() for axis in self.axes]
        least = [min(axis.most_per_shard(), most) for axis, most in zip(self.axes, rows, strict=True)]
        takes = _takes(rows, shards, least, max_rows, max_shards)
        split = not self.for_write and math.prod(least) > max_rows
        for box in self._shard_boxes(takes, 0):
            if split:
                yield from self._split(box, max_rows)
            else:
                yield self._window(box)

    def _window(self, stretches: Sequence[tuple[int, int]]) -> Window:
        return BoxWindow(
            [axis.pieces(lo, hi) for axis, (lo, hi) in zip(self.axes, stretches, strict=True)], self
        )

    def _shard_boxes(self, takes: Sequence[int | None], dim: int) -> Iterator[list[tuple[int, int]]]:
        if dim == len(self.axes):
            yield []
            return
        axis, taken = self.axes[dim], takes[dim]
        for stretch in [axis.whole_stretch] if taken is None else axis.shard_stretches(taken):
            for rest in self._shard_boxes(takes, dim + 1):
                yield [stretch, *rest]

    def _split(self, box: Sequence[tuple[int, int]], max_rows: int) -> Iterator[Window]:
        rows = [axis.most_pieces(*stretch) for axis, stretch in zip(self.axes, box, strict=True)]
        takes = _takes(rows, rows, [1] * len(rows), max_rows, UNBOUNDED)

        def boxes(dim: int) -> Iterator[list[tuple[int, int]]]:
            if dim == len(box):
                yield []
                return
            taken = takes[dim]
            for stretch in [box[dim]] if taken is None else self.axes[dim].chunk_stretches(taken, *box[dim]):
                for rest in boxes(dim + 1):
                    yield [stretch, *rest]

        for part in boxes(0):
            yield self._window(part)


class BoxWindow(Window):
    """A product of pieces."""

    def __init__(self, found: Sequence[Piece | Pieces], projection: BoxProjection) -> None:
        self._found = found
        self._projection = projection
        ones = [piece for piece in found if isinstance(piece, Piece)]
        if len(ones) == len(found):
            # one chunk: plain integers all the way, since most small reads end here
            self.outers = np.array([[piece.outer for piece in ones]], dtype=np.int64)
            self.shard_number = self.cell = np.zeros(1, dtype=np.int64)
            number = 0
            for piece in ones:
                axis = piece.axis
                if axis.inner is not None:
                    edge = axis.edges.uniform or axis.edges.begin(piece.outer + 1) - axis.edges.begin(
                        piece.outer
                    )
                    number = number * (edge // axis.inner) + piece.inner
            self.inner = np.array([number], dtype=np.int64)
            return
        pieces = self._pieces
        self.outers = _product([axis.shards for axis in pieces])
        number_of = inner_of = np.zeros(1, dtype=np.int64)
        for part in pieces:
            number_of = _horner(number_of, len(part.shards), part.position)
            inner, edges = part.axis.inner, part.axis.edges
            if inner is not None:
                inner_of = _horner(inner_of, (edges.uniform or edges.extent(part.outer)) // inner, part.inner)
        sharded = projection.inner_shape is not None
        n = len(number_of)
        self.shard_number = number_of
        self.inner = inner_of if sharded else np.zeros(n, dtype=np.int64)
        self.cell = np.arange(n, dtype=np.int64)
        if len(self.outers) == 1 and n >= MANY:
            self.shard_number = np.broadcast_to(np.zeros(1, dtype=np.int64), n)
            if np.array_equal(self.inner, self.cell):
                self.inner = self.cell

    def placement(self) -> tuple[object, ...]:
        return "grid", tuple(piece.places for piece in self._found)

    @cached_property
    def whole(self) -> Bools:
        return self._every([piece.whole() for piece in self._found])

    @cached_property
    def whole_shard(self) -> Bools:
        return self._every(
            [
                piece.whole_shard() if isinstance(piece, Piece) else piece.whole_shards()
                for piece in self._found
            ]
        )

    def chunk_selection(self, row: int) -> Place:
        return self._place(row, inside=True)

    def out_selection(self, row: int) -> Place:
        return self._place(row, inside=False)

    @cached_property
    def _pieces(self) -> list[Pieces]:
        return [piece.pieces() if isinstance(piece, Piece) else piece for piece in self._found]

    @staticmethod
    def _every(flags: Sequence[bool | Bools]) -> Bools:
        every = np.ones(1, dtype=np.bool_)
        for flag in flags:
            every = (every[:, None] & flag).reshape(-1)
        return every

    def _place(self, row: int, inside: bool) -> Place:
        counts = [1 if isinstance(piece, Piece) else len(piece.outer) for piece in self._found]
        place: list[Any] = []
        for piece, k in zip(self._found, np.unravel_index(row, counts) if counts else (), strict=True):
            form = piece.places
            if form[0] == "span":
                start, count, out = form[1][k].tolist()
                step = form[2]
                place.append(
                    slice(start, start + (count - 1) * step + 1, step) if inside else slice(out, out + count)
                )
            else:
                lo, hi = form[1][k].tolist()
                place.append(form[2 if inside else 3][lo:hi])
        if all(isinstance(part, slice) for part in place):
            return tuple(place)
        return np.ix_(
            *[np.arange(p.start, p.stop, p.step or 1) if isinstance(p, slice) else p for p in place]
        )


def fitted(value: Array, shape: tuple[int, ...]) -> Array:
    """A value broadcast to a shape by the rules of numpy's assignment: leading dimensions of 1 are left out."""
    value = np.asarray(value)
    if value.shape == shape:
        return value
    surplus = value.ndim - len(shape)
    trimmed = value.shape[surplus:] if surplus > 0 and set(value.shape[:surplus]) == {1} else value.shape
    try:
        return np.broadcast_to(value.reshape(trimmed), shape)
    except ValueError:
        raise ValueError(
            f"a value of shape {value.shape} does not fit a selection of shape {shape}"
        ) from None


def _takes(
    rows: Sequence[int], shards: Sequence[int], least: Sequence[int], max_rows: int, max_shards: int
) -> list[int | None]:
    """How many shards of each axis one window takes: all (None) of the last axes, some of one, one of the first."""
    takes: list[int | None] = [1] * len(rows)
    others, objects = math.prod(least), 1
    for dim in reversed(range(len(rows))):
        others //= least[dim]
        if others * rows[dim] <= max_rows and objects * shards[dim] <= max_shards:
            takes[dim] = None
            others, objects = others * rows[dim], objects * shards[dim]
        else:
            takes[dim] = max(1, min(max_rows // (others * least[dim]), max_shards // objects))
            break
    return takes


def _horner(number: Ints, size: int | Ints, digit: Ints) -> Ints:
    """One more dimension of C-order numbers: every number so far with every digit."""
    return (number[:, None] * size + digit).reshape(-1)


def _product(columns: Sequence[Ints]) -> Ints:
    """Every combination of the columns' values, in C order: (m, ndim)."""
    shape = tuple(map(len, columns))
    combined = np.empty((*shape, len(columns)), dtype=np.int64)
    for dim, column in enumerate(columns):
        combined[..., dim] = column.reshape([-1 if d == dim else 1 for d in range(len(columns))])
    return combined.reshape(-1, len(columns))
