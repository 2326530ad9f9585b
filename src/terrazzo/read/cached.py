"""Reading through the cache of decoded chunks: what is not there is decoded whole, kept, and taken from there.

What it does not do: help large reads. A selection that touches more chunks than the cache holds goes past it, so that
one sweep does not empty it; so does one of uncompressed chunks, which the kernel reads in part, and one of shards that
only their indexes tell apart: a chunk that changed in place may have left its index as it was.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from terrazzo import _kernel
from terrazzo.layout import Layout
from terrazzo.options import Options
from terrazzo.read.chunk_cache import ChunkCache
from terrazzo.read.decode import Job, as_raw, decode
from terrazzo.read.locate import MISSING, Objects
from terrazzo.stores.emulation import RangeTag
from terrazzo.stores.flow import Working

__all__ = ["decode_cached"]

Array = np.ndarray[Any, Any]
Flow = Generator[Any, Any, None]


class _Whole:
    """A window of one chunk, whole, into an array of its shape."""

    def __init__(self, inner: int, shape: tuple[int, ...]) -> None:
        self.inner = np.array([inner])
        self.cell = np.zeros(1, np.int64)
        self.shape = shape

    def placement(self) -> tuple[object, ...]:
        return "grid", tuple(("span", np.array([[0, extent, 0]], np.int64), 1) for extent in self.shape)


def decode_cached(
    layout: Layout, jobs: Sequence[Job], objects: Objects, options: Options, chunks: ChunkCache
) -> Flow:
    """`decode`, with chunks remembered where that helps."""
    chain = layout.chain
    program = chain.native
    rows = sum(len(job.rows) for job in jobs)
    if (
        program is None
        or chain.encoded_nbytes == program.nbytes
        or (layout.sharding is None and layout.grid.uniform_shape is None)
        or rows * program.nbytes > chunks.nbytes
        or any(source is not None and isinstance(source.tag, RangeTag) for source in objects.sources)
    ):
        yield from decode(layout, jobs, objects, options)
        return
    known = yield from _load(layout, jobs, objects, options, chunks)
    programs = [_raw(chain.spec.shape, layout.dtype.itemsize, layout.fill.tobytes())]
    place = {name: number for number, name in enumerate(known)}
    sources = [as_raw(chunk) for chunk in known.values()]
    work = []
    for job in jobs:
        moved = job.rows.copy()
        stored = np.flatnonzero(moved[:, 0] != MISSING)
        inner = job.window.inner
        moved[stored, 0] = [place[int(job.number[row]), int(inner[row])] for row in stored.tolist()]
        moved[stored, 1] = 0
        moved[stored, 2] = program.nbytes
        work.append((moved, job.window.placement(), as_raw(job.out)))
    if len({id(job.out) for job in jobs}) == len(jobs) > 1:
        yield Working(partial(_kernel.decode_many, programs, sources, work, options.workers))
        return
    for one in work:  # alone, or windows of one output
        yield Working(partial(_kernel.decode, programs, sources, *one, options.workers))


@lru_cache(maxsize=64)
def _raw(shape: tuple[int, ...], itemsize: int, fill: bytes) -> _kernel.Program:
    """What takes elements from decoded chunks."""
    return _kernel.Program([("bytes", (), "")], shape, itemsize, fill)


def _load(
    layout: Layout, jobs: Sequence[Job], objects: Objects, options: Options, chunks: ChunkCache
) -> Generator[Any, Any, dict[tuple[int, int], Array]]:
    """Every stored chunk that the jobs touch, decoded: by (number of the object, number of the inner chunk)."""
    known: dict[tuple[int, int], Array] = {}
    loading: list[tuple[tuple[int, int], Job]] = []
    shape = layout.chain.spec.shape
    for job in jobs:
        for row in np.flatnonzero(job.rows[:, 0] != MISSING).tolist():
            name = int(job.number[row]), int(job.window.inner[row])
            if name in known:
                continue
            source = objects.sources[name[0]]
            assert source is not None
            found = chunks.get((objects.names[name[0]], name[1]), source.tag)
            if found is None:
                found = np.empty(shape, layout.dtype)
                table = job.rows[row : row + 1].copy()
                table[0, 4] = 0
                window: Any = _Whole(name[1], shape)
                loading.append((name, Job(window, np.array([name[0]]), table, found)))
            known[name] = found
    if loading:
        yield from decode(layout, [job for _, job in loading], objects, options)
        for name, job in loading:
            job.out.setflags(write=False)
            source = objects.sources[name[0]]
            assert source is not None
            chunks.put((objects.names[name[0]], name[1]), source.tag, job.out)
    return known
