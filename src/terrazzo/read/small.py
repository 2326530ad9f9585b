"""Small reads of shards whose indexes are remembered: planned in plain integers, a look at each shard, a kernel call.

What it does not do: anything out of the ordinary. Where an index is not remembered, a shard is another version by now,
or bytes do not decode, it leaves the read to `flow.py`, which reads as if nothing had been tried.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any

import numpy as np

from terrazzo import _kernel
from terrazzo.index import IndexCache
from terrazzo.indexing import Projection, SmallBox
from terrazzo.layout import Layout
from terrazzo.options import Options
from terrazzo.read.locate import MAX_OBJECTS, MAX_ROWS, MISSING
from terrazzo.shard import EMPTY
from terrazzo.stores.flow import Opening, Working
from terrazzo.stores.store import Open

__all__ = ["read_small"]

Array = np.ndarray[Any, Any]
Selected = tuple[Projection, Array]


#: no object is longer; an index that says so is read, and refused, by `flow.py`
FARTHEST = (1 << 63) - 1
#: types that every buffer can tell
_TOLD = frozenset("biufc")


class _Lot:
    """Selections that are read together: the shards to look at, and the kernel's tables."""

    __slots__ = ("entries", "jobs", "looks", "numbers", "rows", "selected")

    def __init__(self) -> None:
        self.numbers: dict[tuple[int, ...], int] = {}
        self.looks: list[Open] = []
        self.entries: list[Array] = []
        self.jobs: list[tuple[array[int], tuple[object, ...], Array]] = []
        self.selected: list[Selected] = []
        self.rows = 0

    def add(self, layout: Layout, one: Selected, options: Options, cache: IndexCache) -> bool:
        """Whether this selection could be planned: every shard of it is remembered."""
        box, out = one
        if not isinstance(box, SmallBox):
            return False
        numbers = self.numbers
        table: list[int] = []
        rows = box.rows()
        for cell, (outer, inner) in enumerate(rows):
            number = numbers.get(outer)
            if number is None:
                name = layout.chunk_key(outer)
                known = cache.get(name)
                if known is None or not known.near:
                    return False
                number = numbers[outer] = len(self.looks)
                self.looks.append(Open(name, None, known.tag))
                self.entries.append(known.entries)
            offset, nbytes = self.entries[number][inner].tolist()
            if offset <= FARTHEST and nbytes <= FARTHEST:
                table += (number, offset, nbytes, 0, cell)
            elif offset == EMPTY and options.missing == "fill":
                table += (MISSING, 0, 0, 0, cell)
            else:
                return False
        self.rows += len(rows)
        raw = out if out.dtype.kind in _TOLD else out.view(f"V{out.dtype.itemsize}")
        self.jobs.append((array("q", table), box.placement(), raw))
        self.selected.append(one)
        return True

    def read(
        self, program: _kernel.Program, options: Options, cache: IndexCache
    ) -> Generator[Any, Any, bool]:
        """Whether all of it was read."""
        looks, opened = self.looks, []
        handles: list[Any] = []
        # held here while they are read: another thread may drop them from the cache
        kept = [cache.kept(look.key, look.known) for look in looks] if options.immutable else ()
        if kept and None not in kept:
            handles = [source.handle for source in kept if source is not None]
        else:
            opened = yield Opening(looks)
        try:
            for source, look in zip(opened, looks if opened else (), strict=True):
                if source is None or source.tag != look.known or source.handle is None:
                    return False
                handles.append(source.handle)
            threads = 1 if self.rows == 1 else options.workers
            work: Callable[[], Any]
            if len(self.jobs) == 1:
                work = partial(_kernel.decode, [program], handles, *self.jobs[0], threads)
            else:
                work = partial(_kernel.decode_many, [program], handles, self.jobs, threads)
            return not (yield Working(work))
        finally:
            for source, look in zip(opened, looks if opened else (), strict=True):
                if source is not None and not (options.immutable and cache.keep(look.key, source)):
                    source.close()


def read_small(
    layout: Layout, selected: Sequence[Selected], options: Options, cache: IndexCache
) -> Generator[Any, Any, list[Selected]]:
    """Fill the outputs of the selections that are small; answers those that have to be read in another way."""
    program = layout.chain.native
    if layout.sharding is None or program is None:
        return list(selected)
    left: list[Selected] = []
    lot = _Lot()
    for one in selected:
        if not lot.add(layout, one, options, cache):
            left.append(one)
        elif len(lot.looks) > MAX_OBJECTS // 2 or lot.rows > MAX_ROWS // 2:  # one selection has few of either
            if not (yield from lot.read(program, options, cache)):
                left += lot.selected
            lot = _Lot()
    if lot.jobs and not (yield from lot.read(program, options, cache)):
        left += lot.selected
    return left
