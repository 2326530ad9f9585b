"""Decoding: rows to elements in the outputs, by one kernel call, or chunk by chunk where it does not know the chain.

What it does not do: find out where chunks lie (locate.py).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from terrazzo import _kernel
from terrazzo.errors import (
    ChecksumError,
    ChunkNotFoundError,
    CodecError,
    LimitError,
    ShardError,
    StoreError,
)
from terrazzo.indexing import Window
from terrazzo.layout import Layout
from terrazzo.options import Options
from terrazzo.read.locate import DONE, MISSING, Objects
from terrazzo.read.spans import joined, lots
from terrazzo.stores.flow import Fetching, Working
from terrazzo.stores.store import Source

__all__ = ["Job", "as_raw", "bytes_of", "check_stored", "decode", "place", "raise_failures"]

Array = np.ndarray[Any, Any]
Flow = Generator[Any, Any, None]

#: up to so many rows, a selection among others is decoded by one thread
SMALL_ROWS = 256


@dataclass(slots=True, eq=False)
class Job:
    """A window's rows, located, on their way into `out`. number: the object of each row."""

    window: Window
    number: Array
    rows: Array
    out: Array


@dataclass(slots=True, eq=False)
class _Piece:
    """Rows of a job, on their way into its output. picked: which of the job's rows they are (None: all)."""

    job: Job
    rows: Array
    picked: Array | None = None


def decode(layout: Layout, jobs: Sequence[Job], objects: Objects, options: Options) -> Flow:
    """Fetch what has no handle, then run the kernel (or the chain, in Python) over the rows."""
    handles = [b"" if source is None else source.handle for source in objects.sources]
    if not any(handle is None for handle in handles):
        yield from _decode_pieces(layout, objects, [_Piece(job, job.rows) for job in jobs], handles, options)
    else:
        yield from _fetch_and_decode(layout, jobs, objects, handles, options)


def check_stored(layout: Layout, jobs: Sequence[Job], objects: Objects) -> None:
    """Raise ChunkNotFoundError for the first chunk that is not stored."""
    for job in jobs:
        gone = np.flatnonzero(job.rows[:, 0] == MISSING)
        if len(gone):
            raise ChunkNotFoundError(f"{_place_of(layout, objects, job, int(gone[0]))} is not stored")


def _decode_pieces(
    layout: Layout, objects: Objects, pieces: Sequence[_Piece], handles: Sequence[Any], options: Options
) -> Flow:
    """Small ones, each by one thread, in one kernel call; those with many rows one after the other, by all threads."""
    programs = layout.programs(layout.chains(objects.outers)[0])
    if programs is None or len(pieces) == 1:
        for piece in pieces:
            yield from _decode_piece(layout, objects, piece, programs, handles, options)
        return
    # a selection that was cut into windows lays several of them into one output, which only one thread may have
    outputs = Counter(id(piece.job.out) for piece in pieces)
    small = []
    for piece in pieces:
        if len(piece.rows) <= SMALL_ROWS and outputs[id(piece.job.out)] == 1:
            small.append(piece)
        else:
            yield from _decode_piece(layout, objects, piece, programs, handles, options)
    if not small:
        return
    work = [(piece.rows, piece.job.window.placement(), as_raw(piece.job.out)) for piece in small]
    failures = yield Working(partial(_kernel.decode_many, programs, handles, work, options.workers))
    if failures:
        at = failures[0][0]
        found = [(row, kind, text) for number, row, kind, text in failures if number == at]
        _raise_of(layout, objects, small[at], found)


def _raise_of(
    layout: Layout, objects: Objects, piece: _Piece, failures: Sequence[tuple[int, str, str]]
) -> None:
    numbers, inners = piece.job.number, piece.job.window.inner
    if piece.picked is not None:
        numbers, inners = numbers[piece.picked], inners[piece.picked]
    raise_failures(layout, objects.names, objects.counts, numbers, inners, failures)


def as_raw(out: Array) -> Array:
    """The same memory, as elements that every buffer can tell."""
    return out.view(f"V{out.dtype.itemsize}") if out.dtype.itemsize else out


def _fetch_and_decode(
    layout: Layout, jobs: Sequence[Job], objects: Objects, handles: list[Any], options: Options
) -> Flow:
    """What is at hand first; then ranges that have to be fetched, of all jobs together, in lots that fit the memory."""
    sources, cost = objects.sources, objects.cost
    # two more, that are False: MISSING and DONE count from the end
    lacking = np.array([*(handle is None for handle in handles), False, False])
    table = np.concatenate([job.rows for job in jobs])
    first = np.cumsum([0, *(len(job.rows) for job in jobs)])

    def pieces(picked: Array) -> list[_Piece]:
        bounds = np.searchsorted(picked, first).tolist()
        mine = [picked[a:b] for a, b in pairwise(bounds)]
        return [
            _Piece(job, table[rows], rows - at)
            for job, rows, at in zip(jobs, mine, first.tolist(), strict=False)
            if len(rows)
        ]

    away = lacking[table[:, 0]]
    nothing = away & (table[:, 2] == 0)
    table[nothing, 1] = 0  # no bytes are nowhere
    away &= ~nothing
    handles = [b"" if handle is None else handle for handle in handles]
    if not away.all():
        yield from _decode_pieces(layout, objects, pieces(np.flatnonzero(~away)), handles, options)
        if cost.far:  # shards that were read whole have been decoded: others need their memory
            handles = [handle if isinstance(handle, int) else b"" for handle in handles]
            _let_go(sources)
    left = np.flatnonzero(away)
    number, start, nbytes = (table[left, column] for column in range(3))
    for lot in lots(number, start, nbytes, options.memory, cost):
        lot.sort()
        spans = joined(number[lot], start[lot], nbytes[lot], cost)
        asked = [(sources[of], ranges) for of, ranges in spans.of_objects()]
        answers = yield Fetching(asked)  # type: ignore[arg-type]  # rows are of objects that are there
        table[left[lot], 0] = len(handles) + spans.span
        table[left[lot], 1] = spans.offset
        buffers = [part for parts in answers for part in parts]
        yield from _decode_pieces(layout, objects, pieces(left[lot]), [*handles, *buffers], options)


def _let_go(sources: Sequence[Source | None]) -> None:
    for source in sources:
        if source is not None and not isinstance(source.handle, int):
            source.handle = source.first = None


def _decode_piece(
    layout: Layout,
    objects: Objects,
    piece: _Piece,
    programs: Sequence[_kernel.Program] | None,
    handles: Sequence[Any],
    options: Options,
) -> Flow:
    job = piece.job
    if programs is None:
        yield Working(partial(_decode_in_python, layout, objects, piece, handles))
        return
    failures = yield Working(
        partial(
            _kernel.decode,
            *(programs, handles, piece.rows, job.window.placement(), as_raw(job.out), options.workers),
        )
    )
    if failures:
        _raise_of(layout, objects, piece, failures)


def _decode_in_python(layout: Layout, objects: Objects, piece: _Piece, handles: Sequence[Any]) -> None:
    """For chains that the kernel does not know: one chunk after the other."""
    job, picked = piece.job, piece.picked
    chains, _ = layout.chains(objects.outers)
    for k, (number, offset, nbytes, program, _) in enumerate(piece.rows.tolist()):
        row = k if picked is None else int(picked[k])
        target = job.window.out_selection(row)
        if number == DONE:
            continue
        if number == MISSING:
            # an object array would take the 0-d array itself for a value
            job.out[target] = layout.fill.item() if layout.fill.dtype == object else layout.fill
            continue
        try:
            encoded = bytes_of(handles[number], offset, nbytes)
            job.out[target] = chains[program].decode(encoded)[job.window.chunk_selection(row)]
        except (CodecError, ShardError, LimitError) as error:
            raise type(error)(f"{_place_of(layout, objects, job, row)}: {error}") from error


def bytes_of(handle: Any, offset: int, nbytes: int) -> Any:
    """The bytes of one chunk from a descriptor or a buffer."""
    if isinstance(handle, int):
        found = os.pread(handle, nbytes, offset)
        if len(found) != nbytes:
            raise CodecError(f"{nbytes} bytes at {offset} are past the end of the object")
        return found
    return memoryview(handle).cast("B")[offset : offset + nbytes]


def _place_of(layout: Layout, objects: Objects, job: Job, row: int) -> str:
    return place(layout, objects.names, objects.counts, int(job.number[row]), int(job.window.inner[row]))


def place(
    layout: Layout, names: Sequence[str], counts: Sequence[tuple[int, ...]], number: int, inner: int
) -> str:
    """How an error names a chunk: array, key, inner chunk."""
    array = f"array {layout.path!r}" if layout.path else "array at the root"
    if layout.sharding is None:
        return f"{array}: chunk {names[number]!r}"
    index = tuple(int(v) for v in np.unravel_index(inner, counts[number])) if counts[number] else ()
    return f"{array}: shard {names[number]!r}, inner chunk {index}"


def raise_failures(
    layout: Layout,
    names: Sequence[str],
    counts: Sequence[tuple[int, ...]],
    numbers: Array,
    inners: Array,
    failures: Sequence[tuple[int, str, str]],
) -> None:
    """Turn what the kernel reports into the error of its kind, with the place of the first and the number of all."""
    row, kind, sentence = min(failures)
    more = f" (and {len(failures) - 1} more chunks)" if len(failures) > 1 else ""
    text = f"{place(layout, names, counts, int(numbers[row]), int(inners[row]))}: {sentence}{more}"
    if kind == "memory":
        raise MemoryError(text)
    errors = {"checksum": ChecksumError, "codec": CodecError, "range": ShardError, "io": StoreError}
    raise errors[kind](text)
