"""Reading parts of chunks: rows whose codec decodes a box of a chunk from some of its bytes.

What it does not do: chains that the kernel knows, and rows that take whole chunks; they are left to decode.py.

Two round trips at most for a lot of rows: the heads of their chunks (tables of offsets, where a codec has them), then
the ranges of their boxes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from terrazzo.codecs.chain import Chain
from terrazzo.codecs.codec import Box, PartialReader
from terrazzo.errors import CodecError, LimitError, ShardError, TerrazzoError
from terrazzo.layout import Layout
from terrazzo.options import Options
from terrazzo.read.decode import Job, place
from terrazzo.read.locate import DONE, Objects, Rows
from terrazzo.read.pieces import fetch_pieces
from terrazzo.stores.flow import Working

__all__ = ["read_parts", "takes_parts"]

T = TypeVar("T")
Array = np.ndarray[Any, Any]
Flow = Generator[Any, Any, None]
Ranges = Sequence[tuple[int, int]]


@dataclass(slots=True, eq=False)
class _Chunk:
    """One encoded chunk: where it lies, what reads parts of it, and the bytes of the heads. place: for errors."""

    number: int
    offset: int
    nbytes: int
    chain: Chain
    reader: PartialReader
    place: str
    heads: Sequence[Any] = ()


@dataclass(slots=True, eq=False)
class _Part:
    """A row on its way into the output: the box of its chunk, and its elements inside the box."""

    job: Job
    row: int
    chunk: _Chunk
    box: Box
    inside: tuple[Any, ...]
    ranges: Ranges = ()


def takes_parts(layout: Layout, batch: Sequence[tuple[Rows, Array]]) -> bool:
    """Whether stored chunks should be opened without reading all of them: some row may do with a part."""
    if layout.sharding is not None or not layout.chain.partial:
        return False
    uniform = layout.grid.uniform_shape
    return uniform is None or any(
        _extents(_boxed(window.chunk_selection(row))[0]) != uniform
        for window, _ in batch
        for row in range(len(window.cell))
    )


def read_parts(layout: Layout, jobs: Sequence[Job], objects: Objects, options: Options) -> Flow:
    """Fill what can be read in part; the rows that were are marked as DONE."""
    lot: list[_Part] = []
    nbytes = 0
    for part in list(_parts(layout, jobs, objects)):
        if lot and nbytes + part.chunk.nbytes > options.memory:
            yield from _read_lot(lot, objects)
            lot, nbytes = [], 0
        lot.append(part)
        nbytes += part.chunk.nbytes
    if lot:
        yield from _read_lot(lot, objects)


def _parts(layout: Layout, jobs: Sequence[Job], objects: Objects) -> Iterator[_Part]:
    chains, _ = layout.chains(objects.outers)
    chunks: dict[tuple[int, int], _Chunk | None] = {}
    for job in jobs:
        for row in np.flatnonzero(job.rows[:, 0] >= 0).tolist():
            number, offset, nbytes, program, _ = job.rows[row].tolist()
            chain = chains[program]
            box, inside = _boxed(job.window.chunk_selection(row))
            if _extents(box) == chain.spec.shape or not chain.partial:
                continue
            if (number, offset) not in chunks:
                where = place(layout, objects.names, objects.counts, number, int(job.window.inner[row]))
                reader = _asked(where, chain, partial(chain.partial_reader, nbytes))
                chunks[number, offset] = reader and _Chunk(number, offset, nbytes, chain, reader, where)
            chunk = chunks[number, offset]
            if chunk is not None:
                yield _Part(job, row, chunk, box, inside)


def _boxed(selection: tuple[Any, ...]) -> tuple[Box, tuple[Any, ...]]:
    """The smallest box around a selection of a chunk, and the selection inside that box."""
    box, inside = [], []
    for part in selection:
        if isinstance(part, slice):
            start, stop = part.start, part.stop
            inside.append(slice(0, stop - start, part.step))
        else:
            start, stop = int(part.min()), int(part.max()) + 1
            inside.append(part - start)
        box.append(slice(start, stop))
    return tuple(box), tuple(inside)


def _extents(box: Box) -> tuple[int, ...]:
    return tuple(part.stop - part.start for part in box)


def _read_lot(lot: Sequence[_Part], objects: Objects) -> Flow:
    chunks = list({id(part.chunk): part.chunk for part in lot}.values())
    wanted = [(chunk, _asked(chunk.place, chunk.chain, chunk.reader.heads)) for chunk in chunks]
    for chunk, heads in zip(chunks, (yield from _fetch(wanted, objects)), strict=True):
        chunk.heads = heads
    for part in lot:
        chunk = part.chunk
        part.ranges = _asked(chunk.place, chunk.chain, partial(chunk.reader.ranges, chunk.heads, part.box))
    fetched = yield from _fetch([(part.chunk, part.ranges) for part in lot], objects)
    yield Working(partial(_decode_lot, lot, fetched))


def _fetch(
    wanted: Sequence[tuple[_Chunk, Ranges]], objects: Objects
) -> Generator[Any, Any, list[Sequence[Any]]]:
    """The bytes of each chunk's ranges, in one batch."""
    asked: list[tuple[int, int, int]] = []
    for chunk, ranges in wanted:
        for start, length in ranges:
            if start < 0 or length < 0 or start + length > chunk.nbytes:
                raise CodecError(
                    f"{chunk.place}: {chunk.chain.serializer.name} asks for {length} bytes at {start} of an encoded "
                    f"chunk of {chunk.nbytes}; ranges are (start, length) inside of it"
                )
            asked.append((chunk.number, chunk.offset + int(start), int(length)))
    pieces = np.array(asked, np.int64).reshape(-1, 3)
    found = iter((yield from fetch_pieces(objects.sources, pieces, objects.cost)))
    return [[next(found) for _ in ranges] for _, ranges in wanted]


def _decode_lot(lot: Sequence[_Part], fetched: Sequence[Sequence[Any]]) -> None:
    for part, buffers in zip(lot, fetched, strict=True):
        chunk, spec = part.chunk, part.chunk.chain.spec
        found = _asked(chunk.place, chunk.chain, partial(chunk.reader.decode, chunk.heads, buffers, part.box))
        shape = _extents(part.box)
        if found.shape != shape or found.dtype != spec.data_type.numpy:
            raise CodecError(
                f"{chunk.place}: {chunk.chain.serializer.name} made {found.dtype} of shape {found.shape} of a part of "
                f"the chunk, must be {spec.data_type.numpy} of shape {shape}"
            )
        part.job.out[part.job.window.out_selection(part.row)] = found[part.inside]
        part.job.rows[part.row, 0] = DONE


def _asked(where: str, chain: Chain, call: Callable[[], T]) -> T:
    """What a codec answers; its errors name the chunk and the codec."""
    try:
        return call()
    except (CodecError, ShardError, LimitError) as error:
        raise type(error)(f"{where}: {chain.serializer.name}: {error}") from error
    except (TerrazzoError, MemoryError):
        raise
    except Exception as error:
        raise CodecError(f"{where}: {chain.serializer.name}: {type(error).__name__}: {error}") from error
