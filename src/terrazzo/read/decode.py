"""Decoding: rows to elements in the outputs, by one kernel call, or chunk by chunk where it does not know the chain.

What it does not do: find out where chunks lie (locate.py).

What has to be fetched is decoded as it comes: a kernel call takes what is there, while the rest is on the wire.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
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
from terrazzo.layout import Layout
from terrazzo.options import Options
from terrazzo.read.locate import DONE, MISSING, Objects, Rows
from terrazzo.read.spans import BEYOND_NEED, Spans, joined, lots
from terrazzo.stores.arrivals import Arrivals, Came
from terrazzo.stores.flow import Arriving, Working
from terrazzo.stores.store import Source

__all__ = [
    "Job",
    "Some",
    "as_raw",
    "bytes_of",
    "check_stored",
    "decode",
    "decode_held",
    "let_go",
    "place",
    "raise_failures",
]

Array = np.ndarray[Any, Any]
Flow = Generator[Any, Any, None]

#: up to so many rows, a selection among others is decoded by one thread
SMALL_ROWS = 256
#: past the end of every row
EVERYTHING = np.iinfo(np.int64).max


class Some:
    """Some rows of a window, with the places that they have in it."""

    def __init__(self, window: Rows, picked: Array) -> None:
        self.inner, self.cell = window.inner[picked], window.cell[picked]
        self._window, self._picked = window, picked

    def placement(self) -> tuple[object, ...]:
        return self._window.placement()

    def chunk_selection(self, row: int) -> Any:
        return self._window.chunk_selection(int(self._picked[row]))

    def out_selection(self, row: int) -> Any:
        return self._window.out_selection(int(self._picked[row]))


@dataclass(slots=True, eq=False)
class Job:
    """A window's rows, located, on their way into `out`. number: the object of each row."""

    window: Rows
    number: Array
    rows: Array
    out: Array


class _Lot:
    """Rows of the table whose bytes are on their way together, and the span that brings each of them."""

    def __init__(self, rows: Array, spans: Spans, arrivals: Arrivals) -> None:
        self.arrivals = arrivals
        self.nbytes = int(spans.length.sum())
        self._rows, self._spans = rows, spans
        self._taken = np.zeros(len(rows), np.bool_)
        self._from: dict[int, Any] = {}  # the buffers that came in part

    def take(self, came: Sequence[Came], table: Array) -> tuple[list[Any], Array]:
        """The buffers that have something new, and the rows of the table that are whole in them, each once."""
        buffers: list[Any] = []
        place_of, reach = np.full((2, len(self._spans.number)), -1)
        for number, answer, nbytes in came:
            buffer = answer[0] if nbytes is None else answer
            before = self._from.get(number, buffer)
            if before is not buffer:  # it had to be asked for again
                self._taken &= self._spans.span != number
            if nbytes is not None:
                self._from[number] = buffer
            # what came whole is for the kernel to judge, also where it is shorter than it has to be
            place_of[number], reach[number] = len(buffers), EVERYTHING if nbytes is None else nbytes
            buffers.append(buffer if nbytes is None else memoryview(buffer)[:nbytes])
        ends = table[self._rows, 1] + table[self._rows, 2]
        ready = ~self._taken & (ends <= reach[self._spans.span])
        self._taken |= ready
        rows = self._rows[ready]
        table[rows, 0] = place_of[self._spans.span[ready]]
        return buffers, rows


def decode(layout: Layout, jobs: Sequence[Job], objects: Objects, options: Options) -> Flow:
    """Fetch what has no handle, then run the kernel (or the chain, in Python) over the rows."""
    handles = [b"" if source is None else source.handle for source in objects.sources]
    if not any(handle is None for handle in handles):
        yield from decode_held(layout, objects, jobs, handles, options)
    else:
        yield from _fetch_and_decode(layout, jobs, objects, handles, options)


def check_stored(layout: Layout, jobs: Sequence[Job], objects: Objects) -> None:
    """Raise ChunkNotFoundError for the first chunk that is not stored."""
    for job in jobs:
        gone = np.flatnonzero(job.rows[:, 0] == MISSING)
        if len(gone):
            raise ChunkNotFoundError(f"{_place_of(layout, objects, job, int(gone[0]))} is not stored")


def decode_held(
    layout: Layout, objects: Objects, jobs: Sequence[Job], handles: Sequence[Any], options: Options
) -> Flow:
    """Small ones, each by one thread, in one kernel call; those with many rows one after the other, by all threads."""
    programs = layout.programs(layout.chains(objects.outers)[0])
    if programs is None or len(jobs) == 1:
        for job in jobs:
            yield from _decode_job(layout, objects, job, programs, handles, options)
        return
    # a selection that was cut into windows lays several of them into one output, which only one thread may have
    outputs = Counter(id(job.out) for job in jobs)
    small = []
    for job in jobs:
        if len(job.rows) <= SMALL_ROWS and outputs[id(job.out)] == 1:
            small.append(job)
        else:
            yield from _decode_job(layout, objects, job, programs, handles, options)
    if not small:
        return
    work = [(job.rows, job.window.placement(), as_raw(job.out)) for job in small]
    failures = yield Working(partial(_kernel.decode_many, programs, handles, work, options.workers))
    if failures:
        at = failures[0][0]
        found = [(row, kind, text) for number, row, kind, text in failures if number == at]
        _raise_of(layout, objects, small[at], found)


def _raise_of(layout: Layout, objects: Objects, job: Job, failures: Sequence[tuple[int, str, str]]) -> None:
    raise_failures(layout, objects.names, objects.counts, job.number, job.window.inner, failures)


def as_raw(out: Array) -> Array:
    """The same memory, as elements that every buffer can tell."""
    return out.view(f"V{out.dtype.itemsize}") if out.dtype.itemsize else out


def _fetch_and_decode(
    layout: Layout, jobs: Sequence[Job], objects: Objects, handles: list[Any], options: Options
) -> Flow:
    """What is at hand first; then ranges that have to be fetched, of all jobs together, in lots that fit the memory."""
    # two more, that are False: MISSING and DONE count from the end
    lacking = np.array([*(handle is None for handle in handles), False, False])
    table = np.concatenate([job.rows for job in jobs])
    first = np.cumsum([0, *(len(job.rows) for job in jobs)])

    def some(picked: Array) -> list[Job]:
        bounds = np.searchsorted(picked, first)
        found = []
        for k in np.flatnonzero(np.diff(bounds)).tolist():
            job, rows = jobs[k], picked[bounds[k] : bounds[k + 1]]
            mine = rows - first[k]
            found.append(Job(Some(job.window, mine), job.number[mine], table[rows], job.out))
        return found

    away = lacking[table[:, 0]]
    nothing = away & (table[:, 2] == 0)
    table[nothing, 1] = 0  # no bytes are nowhere
    away &= ~nothing
    if not away.all():
        held = [b"" if handle is None else handle for handle in handles]
        yield from decode_held(layout, objects, some(np.flatnonzero(~away)), held, options)
        del held
        if objects.cost.far:  # shards that were read whole have been decoded: others need their memory
            handles.clear()
            let_go(objects.sources)
    coming = _lots(table, np.flatnonzero(away), objects, options)
    lot, following = next(coming, None), None
    try:
        while lot is not None:
            following, ahead = next(coming, None), None
            if following is not None and lot.nbytes + following.nbytes <= options.memory:
                ahead = following.arrivals
            while lot.arrivals.left:
                came = yield Arriving(lot.arrivals, ahead)
                buffers, rows = lot.take(came, table)
                if len(rows):
                    yield from decode_held(layout, objects, some(rows), buffers, options)
            lot = following
    finally:
        for one in (lot, following):
            if one is not None:
                one.arrivals.close()


def _lots(table: Array, rows: Array, objects: Objects, options: Options) -> Iterator[_Lot]:
    """Rows that are fetched together; over a network the next lot is asked for while one is decoded, so that two of
    them have to fit the memory."""
    cost = objects.cost
    number, start, nbytes = (table[rows, column] for column in range(3))
    most = options.memory
    if cost.far and int(nbytes.sum()) * (1 + BEYOND_NEED) > most:
        most //= 2
    for lot in lots(number, start, nbytes, most, cost):
        lot.sort()
        spans = joined(number[lot], start[lot], nbytes[lot], cost)
        table[rows[lot], 1] = spans.offset
        asked = [(objects.sources[of], [one]) for of, ranges in spans.of_objects() for one in ranges]
        yield _Lot(rows[lot], spans, Arrivals("fetch", asked, at_once=not objects.hurried))


def let_go(sources: Sequence[Source | None]) -> None:
    """Give up the bytes of objects that were read whole; descriptors are closed with their sources."""
    for source in sources:
        if source is not None and not isinstance(source.handle, int):
            source.handle = source.first = None


def _decode_job(
    layout: Layout,
    objects: Objects,
    job: Job,
    programs: Sequence[_kernel.Program] | None,
    handles: Sequence[Any],
    options: Options,
) -> Flow:
    if programs is None:
        yield Working(partial(_decode_in_python, layout, objects, job, handles))
        return
    failures = yield Working(
        partial(
            _kernel.decode,
            *(programs, handles, job.rows, job.window.placement(), as_raw(job.out), options.workers),
        )
    )
    if failures:
        _raise_of(layout, objects, job, failures)


def _decode_in_python(layout: Layout, objects: Objects, job: Job, handles: Sequence[Any]) -> None:
    """For chains that the kernel does not know: one chunk after the other."""
    chains, _ = layout.chains(objects.outers)
    for row, (number, offset, nbytes, program, _) in enumerate(job.rows.tolist()):
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
