"""Locating: which objects a window needs, one version of each, and where in them every row's chunk lies.

What it does not do: decode (decode.py), or believe an index before it was checked (index.py).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from terrazzo.index import IndexCache, parse
from terrazzo.layout import Layout
from terrazzo.options import Options
from terrazzo.read.looks import looks
from terrazzo.shard import EMPTY
from terrazzo.stores.flow import Opening
from terrazzo.stores.store import ALL, NEAR, Cost, Open, Source, Tag

__all__ = [
    "DONE",
    "MAX_OBJECTS",
    "MAX_ROWS",
    "MISSING",
    "Objects",
    "Part",
    "Rows",
    "counts_of",
    "max_objects",
    "open_objects",
    "rows_in",
    "signed",
    "size_of",
]

Array = np.ndarray[Any, Any]

#: objects open at once in one call, well below the usual limit of descriptors
MAX_OBJECTS = 128
#: the same where objects have no descriptors, and every batch of them costs a round trip
MAX_FAR_OBJECTS = 1024
#: rows of one kernel call: tables of a few MiB, however large the selection is
MAX_ROWS = 1 << 15
#: up to so many rows, plain integers are faster than arrays
FEW_ROWS = 8
#: the source of a row whose chunk is not stored
MISSING = -1
#: the source of a row that has been read already
DONE = -2


class Rows(Protocol):
    """A `Window`, or some rows of one, as reading knows it."""

    inner: Array
    cell: Array

    def placement(self) -> tuple[object, ...]: ...

    def chunk_selection(self, row: int) -> Any: ...

    def out_selection(self, row: int) -> Any: ...


#: rows, the output they are laid into, and the object of each of them
Part = tuple[Rows, Array, Array]


@dataclass(slots=True, eq=False)
class Objects:
    """Stored objects, each held at one version: their grid indices, keys, inner chunks per dimension, sources, entries.

    sources, entries: None for an object that is not stored; entries are empty for a plain array. hurried: what comes of
    them is decoded while the rest is on its way.
    """

    outers: Array
    names: Sequence[str]
    counts: Sequence[tuple[int, ...]]
    sources: list[Source | None]
    entries: list[Array | None]
    cost: Cost = NEAR
    hurried: bool = True

    def close(self) -> None:
        for source in self.sources:
            if source is not None:
                source.close()


def max_objects(layout: Layout, options: Options, cost: Cost = NEAR) -> int:
    """How many objects one window may touch: their indexes have to fit the memory of a call.

    Of a plain array, whose chunks come whole over a network, the chunks.
    """
    most = MAX_FAR_OBJECTS if cost.far else MAX_OBJECTS
    if layout.sharding is None:
        return max(1, min(most, options.memory // max(1, layout.object_nbytes))) if cost.far else most
    largest = layout.grid.uniform_shape or layout.grid.distinct_shapes()[0]
    nbytes = 4 * layout.sharding.index_nbytes(layout.count(largest))
    return most if nbytes * most <= options.memory else max(1, options.memory // nbytes)


def counts_of(layout: Layout, outers: Array) -> list[tuple[int, ...]]:
    """Inner chunks per dimension, for each of these objects; () for the objects of a plain array."""
    return [()] * len(outers) if layout.sharding is None else layout.counts(outers)


def open_objects(
    layout: Layout,
    outers: Array,
    options: Options,
    cache: IndexCache,
    *,
    attempt: int,
    seen: list[Tag | None],
    parts: bool,
) -> Generator[Any, Any, Objects]:
    """Open the objects with these grid indices in one batch, and read the indexes that are not remembered.

    attempt: nothing is remembered from the second one on. seen: takes the version of each, also where its index turns
    out to be wrong. parts: some plain chunk may be read in part.
    """
    names = layout.chunk_keys(outers)
    counts = counts_of(layout, outers)
    if layout.sharding is None:
        first = None if parts else ALL
        sources = yield Opening([Open(name, first, or_handle=True) for name in names])
        seen += [None if source is None else source.tag for source in sources]
        if not parts:
            for source in sources:
                if source is not None and source.handle is None:
                    source.handle = source.first
        return Objects(outers, names, counts, sources, [])
    # Held here until they are used: another thread may change or drop what the cache has of a key meanwhile.
    remembered = [None if attempt else cache.get(name) for name in names]
    requests, _ = looks(layout, names, counts, remembered, options, NEAR, None, attempt)
    found = Objects(outers, names, counts, (yield Opening(requests)), [])
    seen += [None if source is None else source.tag for source in found.sources]
    try:
        for name, count, source, known in zip(names, counts, found.sources, remembered, strict=True):
            if source is None:
                cache.drop(name)
                found.entries.append(None)
                continue
            index = known if source.first is None else None
            if index is None:
                index = parse(layout, name, count, source, options.strict)
                cache.put(name, index)
            found.entries.append(index.entries)
    except BaseException:
        found.close()
        raise
    return found


def rows_in(layout: Layout, window: Rows, objects: Objects, number: Array) -> Array:
    """The kernel's rows of a window: source, offset, nbytes, program, cell. number: the object of each row."""
    if len(number) <= FEW_ROWS and objects.entries:
        return _few_rows(window, objects.entries, number)
    rows = np.empty((len(number), 5), np.int64)
    _, which = layout.chains(objects.outers)
    rows[:, 3] = 0 if which is None else which[number]
    rows[:, 4] = window.cell
    if layout.sharding is None:
        sizes = np.array([MISSING if s is None else size_of(s) for s in objects.sources], np.int64)
        size = sizes[number]
        rows[:, 0] = np.where(size >= 0, number, MISSING)
        rows[:, 1] = 0
        rows[:, 2] = size
        return rows
    taken = _taken(objects.entries, number, window.inner)
    rows[:, 0] = np.where(taken[:, 0] == MISSING, MISSING, number)  # an empty entry is all ones
    rows[:, 1:3] = taken
    return rows


def _few_rows(window: Rows, entries: Sequence[Array | None], number: Array) -> Array:
    """The rows of a selection that touches a few inner chunks, as most small reads do."""
    rows = []
    for k, inner, cell in zip(number.tolist(), window.inner.tolist(), window.cell.tolist(), strict=True):
        known = entries[k]
        offset, nbytes = (EMPTY, EMPTY) if known is None else known[inner].tolist()
        rows.append(
            (MISSING, 0, 0, 0, cell) if offset == EMPTY else (k, signed(offset), signed(nbytes), 0, cell)
        )
    return np.array(rows, np.int64)


def signed(number: int) -> int:
    """A number of an index as the kernel's tables hold it: negative where it is past every file."""
    return number if number < 1 << 63 else number - (1 << 64)


def _taken(entries: Sequence[Array | None], number: Array, inner: Array) -> Array:
    """The entry of each row, int64 (n, 2); all ones where the object or the chunk is not stored."""
    if len(entries) == 1:
        only = entries[0]
        return np.full((len(number), 2), MISSING, np.int64) if only is None else only[inner].view(np.int64)
    taken = np.full((len(number), 2), MISSING, np.int64)
    sequence = np.argsort(number, kind="stable")
    bounds = np.searchsorted(number[sequence], np.arange(len(entries) + 1))
    for k, known in enumerate(entries):
        if known is not None and bounds[k] < bounds[k + 1]:
            mine = sequence[bounds[k] : bounds[k + 1]]
            taken[mine] = known[inner[mine]].view(np.int64)
    return taken


def size_of(source: Source) -> int:
    """Bytes of the object; where they were not known before the first answer, that answer was all of it."""
    if source.size is None:
        assert source.first is not None
        return memoryview(source.first).nbytes
    return source.size
