"""Decoding: rows to elements in the outputs, by one kernel call, or chunk by chunk where it does not know the chain.

What it does not do: find out where chunks lie (locate.py).
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
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
from terrazzo.indexing import Window
from terrazzo.layout import Layout
from terrazzo.options import Options
from terrazzo.read.locate import DONE, MISSING, Objects
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


def decode(layout: Layout, jobs: Sequence[Job], objects: Objects, options: Options) -> Flow:
    """Fetch what has no handle, then run the kernel (or the chain, in Python) over the rows."""
    handles = [b"" if source is None else _handle_of(source) for source in objects.sources]
    lacking = [number for number, handle in enumerate(handles) if handle is None]
    if not lacking:
        if len(jobs) > 1 and (programs := layout.programs(layout.chains(objects.outers)[0])) is not None:
            yield from _decode_jobs(layout, objects, jobs, programs, handles, options)
            return
        for job in jobs:
            yield from _decode_rows(layout, objects, job, job.rows, handles, options)
        return
    yield from _fetch_and_decode(layout, jobs, objects, handles, lacking, options)


def check_stored(layout: Layout, jobs: Sequence[Job], objects: Objects) -> None:
    """Raise ChunkNotFoundError for the first chunk that is not stored."""
    for job in jobs:
        gone = np.flatnonzero(job.rows[:, 0] == MISSING)
        if len(gone):
            raise ChunkNotFoundError(f"{_place_of(layout, objects, job, int(gone[0]))} is not stored")


def _decode_jobs(
    layout: Layout,
    objects: Objects,
    jobs: Sequence[Job],
    programs: Sequence[_kernel.Program],
    handles: Sequence[Any],
    options: Options,
) -> Flow:
    """Small jobs, each by one thread, in one kernel call; those with many rows one after the other, by all threads."""
    small = [job for job in jobs if len(job.rows) <= SMALL_ROWS]
    for job in jobs:
        if len(job.rows) > SMALL_ROWS:
            yield from _decode_rows(layout, objects, job, job.rows, handles, options)
    work = [(job.rows, job.window.placement(), as_raw(job.out)) for job in small]
    failures = yield Working(partial(_kernel.decode_many, programs, handles, work, options.workers))
    if failures:
        at = failures[0][0]
        found = [(row, kind, text) for number, row, kind, text in failures if number == at]
        raise_failures(layout, objects.names, objects.counts, small[at].number, small[at].window.inner, found)


def as_raw(out: Array) -> Array:
    """The same memory, as elements that every buffer can tell."""
    return out.view(f"V{out.dtype.itemsize}") if out.dtype.itemsize else out


def _handle_of(source: Source) -> Any:
    """What the kernel can read from: a descriptor or a buffer; None where bytes have to be fetched."""
    if source.handle is not None:
        return source.handle
    if source.first is not None and (source.size is None or memoryview(source.first).nbytes == source.size):
        return source.first
    return None


def _fetch_and_decode(
    layout: Layout,
    jobs: Sequence[Job],
    objects: Objects,
    handles: list[Any],
    lacking: Sequence[int],
    options: Options,
) -> Flow:
    """Ranges that have to be fetched, of all jobs together, in lots that fit the memory of a call."""
    sizes = np.concatenate([np.where(np.isin(job.rows[:, 0], lacking), job.rows[:, 2], 0) for job in jobs])
    owner = np.repeat(np.arange(len(jobs)), [len(job.rows) for job in jobs])
    within = np.concatenate([np.arange(len(job.rows)) for job in jobs])
    spent = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        before = spent[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(spent, before + options.memory, side="right")))
        parts = []
        for k in range(int(owner[start]), int(owner[stop - 1]) + 1):
            picked = within[start:stop][owner[start:stop] == k]
            parts.append((jobs[k], picked, jobs[k].rows[picked]))
        fetched = yield from _fetch([rows for _, _, rows in parts], objects.sources, lacking, len(handles))
        for job, picked, rows in parts:
            yield from _decode_rows(layout, objects, job, rows, [*handles, *fetched], options, picked)
        start = stop


def _fetch(
    tables: Sequence[Array], sources: Sequence[Source | None], lacking: Sequence[int], base: int
) -> Generator[Any, Any, list[Any]]:
    """Fetch the ranges of the lacking objects; the rows are changed to point into the buffers that are answered."""
    asked: dict[int, list[tuple[int, int]]] = {number: [] for number in lacking}
    where: dict[int, list[tuple[Array, int]]] = {number: [] for number in lacking}
    for rows in tables:
        for row in np.flatnonzero(np.isin(rows[:, 0], lacking)).tolist():
            number, offset, nbytes = rows[row, :3].tolist()
            asked[number].append((offset, nbytes))
            where[number].append((rows, row))
    held = {n: source for n in lacking if asked[n] and (source := sources[n]) is not None}
    answers = yield Fetching([(source, asked[number]) for number, source in held.items()])
    buffers: list[Any] = []
    for number, parts in zip(held, answers, strict=True):
        for (rows, row), part in zip(where[number], parts, strict=True):
            rows[row, :2] = (base + len(buffers), 0)
            buffers.append(part)
    return buffers


def _decode_rows(
    layout: Layout,
    objects: Objects,
    job: Job,
    rows: Array,
    handles: Sequence[Any],
    options: Options,
    picked: Array | None = None,
) -> Flow:
    chains, _ = layout.chains(objects.outers)
    programs = layout.programs(chains)
    if programs is None:
        yield Working(partial(_decode_in_python, layout, objects, job, rows, handles, picked))
        return
    target = as_raw(job.out)
    handles = [b"" if handle is None else handle for handle in handles]
    failures = yield Working(
        partial(_kernel.decode, programs, handles, rows, job.window.placement(), target, options.workers)
    )
    if failures:
        numbers = job.number if picked is None else job.number[picked]
        inners = job.window.inner if picked is None else job.window.inner[picked]
        raise_failures(layout, objects.names, objects.counts, numbers, inners, failures)


def _decode_in_python(
    layout: Layout,
    objects: Objects,
    job: Job,
    rows: Array,
    handles: Sequence[Any],
    picked: Array | None,
) -> None:
    """For chains that the kernel does not know: one chunk after the other."""
    chains, _ = layout.chains(objects.outers)
    for k, (number, offset, nbytes, program, _) in enumerate(rows.tolist()):
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
