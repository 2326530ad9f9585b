"""The check of one array's objects: keys against the grid, shard indexes against their shards, chunks against codecs.

What it does not do: know other nodes (check.py). It yields once for every object that it looked at.
Specification: sharding_indexed 1.0, "Binary shard format".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from math import prod
from typing import Any

import numpy as np

from terrazzo.arrays.array import Array
from terrazzo.blocks import aligned_blocks
from terrazzo.care.report import Findings
from terrazzo.errors import CodecError, TerrazzoError
from terrazzo.index import first_range
from terrazzo.inventory.slack import zeros_at_end
from terrazzo.read import MAX_FAR_OBJECTS
from terrazzo.shard import EMPTY, dead_ranges, overlaps
from terrazzo.stores.flow import run
from terrazzo.stores.store import Open, Source

__all__ = ["check_objects"]

#: objects opened at a time: local ones hold a descriptor each
BATCH = 64

Place = tuple[int, ...]
Entries = np.ndarray[Any, np.dtype[np.uint64]]


def check_objects(array: Array, findings: Findings, verify_data: bool) -> Iterator[None]:
    """Add every problem of an array's keys and objects to `findings`; yields after every object."""
    waiting = iter(_stored(array, findings))
    while batch := list(islice(waiting, MAX_FAR_OBJECTS if array.chunk_store.cost.far else BATCH)):
        for (key, place), source in zip(batch, _opened(array, batch, findings), strict=True):
            if source is not None:
                with source:
                    whole = _check_object(array, key, place, source, findings)
                    if verify_data and whole is not None and array.layout.sharding is not None:
                        _look_for_slack(array, place, whole, source, findings)
                if verify_data and whole is not None:
                    yield from _decode(array, key, place, whole, findings)
            yield


def _stored(array: Array, findings: Findings) -> Iterator[tuple[str, Place]]:
    """Key and grid index of every object that may be a chunk; problems for keys that are none."""
    layout, name = array.layout, array.name
    grid = layout.grid.grid_shape(layout.shape)
    if not array.chunk_store.listable:
        for place in np.ndindex(*grid):
            yield layout.prefix + layout.keys.key(place), tuple(place)
        return
    for key in array.chunk_store.list_prefix(layout.prefix):
        rest = key.removeprefix(layout.prefix)
        if rest == "zarr.json":
            continue
        found = layout.keys.parse(rest, layout.ndim)
        if found is None:
            what = (
                "a document below an array, where no node can be"
                if rest.endswith("/zarr.json")
                else "no chunk of it"
            )
            findings.add("foreign", name, key, f"{key!r} lies in the array {name!r} and is {what}")
        elif any(i >= n for i, n in zip(found, grid, strict=True)):
            findings.add(
                "outside", name, key, f"{key!r} is outside the grid of {grid}: it is never read", found
            )
        else:
            yield key, found


def _opened(array: Array, batch: list[tuple[str, Place]], findings: Findings) -> Iterable[Source | None]:
    """One version of every object with the bytes of its index; None for what is gone or cannot be read."""
    sharding = array.layout.sharding
    outers = np.array([place for _, place in batch], np.int64).reshape(len(batch), array.ndim)
    counts = array.layout.counts(outers) if sharding is not None else [()] * len(batch)
    requests = [
        Open(key, None if sharding is None else first_range(sharding, count))
        for (key, _), count in zip(batch, counts, strict=True)
    ]
    try:
        return array.chunk_store.open(requests)
    except OSError:
        pass
    sources: list[Source | None] = []
    for request in requests:  # one of them fails: which
        try:
            sources += array.chunk_store.open([request])
        except OSError as error:
            findings.add("unreadable", array.name, request.key, f"{request.key!r} cannot be read: {error}")
            sources.append(None)
    return sources


def _check_object(array: Array, key: str, place: Place, source: Source, findings: Findings) -> Entries | None:
    """The entries of a shard that can be right (a plain chunk counts as one entry); None where nothing can be read."""
    size = source.size if source.size is not None else array.chunk_store.getsize(key)
    if size is None:
        return None
    findings.objects += 1
    findings.nbytes += size
    if array.layout.sharding is None:
        expected = array.layout.chain.encoded_nbytes if array.layout.grid.uniform_shape is not None else None
        if size == 0 or (expected is not None and size != expected):
            wanted = f"{expected:,}" if expected is not None else "some"
            findings.add(
                "chunk", array.name, key, f"{key!r} has {size:,} bytes and must have {wanted}", place
            )
            return None
        findings.chunks += 1
        return np.array([[0, size]], np.uint64)
    return _check_shard(array, key, place, source.first, size, findings)


def _check_shard(
    array: Array, key: str, place: Place, first: Any, size: int, findings: Findings
) -> Entries | None:
    layout, name = array.layout, array.name
    sharding = layout.sharding
    assert sharding is not None
    count = layout.counts(np.array([place], np.int64).reshape(1, array.ndim))[0]
    needed = sharding.index_nbytes(count)
    if size < needed or first is None or memoryview(first).nbytes != needed:
        findings.add(
            "index",
            name,
            key,
            f"shard {key!r} has {size:,} bytes, and the index of its {prod(count):,} inner chunks alone has "
            f"{needed:,}: it was cut short, or belongs to another array",
        )
        return None
    try:
        entries = sharding.decode_index(first, count)
    except CodecError as error:
        findings.add("index", name, key, f"shard {key!r}: the index cannot be read: {error}")
        return None
    start, stop = sharding.index_span(count, size)
    good = _check_entries(array, key, place, count, entries, size, (start, stop), findings)
    kept = np.where(good[:, None], entries, np.uint64(EMPTY))
    findings.chunks += int((kept[:, 0] != EMPTY).sum())
    findings.dead_nbytes += int(dead_ranges(kept, size, (start, stop))[:, 1].sum())
    shared = overlaps(kept)
    if len(shared):
        findings.add(
            "overlap",
            name,
            key,
            f"shard {key!r}: {len(shared):,} inner chunks share bytes with others; rewrite it before writing in place",
            _chunk(array, place, count, int(shared[0])),
        )
    return kept if good.all() else None  # no reader believes an index of which a part is wrong


def _look_for_slack(array: Array, place: Place, entries: Entries, source: Source, findings: Findings) -> None:
    """Count, of the bytes that nothing covers, those that look like slack."""
    assert array.layout.sharding is not None
    if source.size is None:
        return
    count = array.layout.counts(np.array([place], np.int64).reshape(1, array.ndim))[0]
    unused = dead_ranges(entries, source.size, array.layout.sharding.index_span(count, source.size))
    try:
        findings.slack_nbytes += int(run(zeros_at_end(source, unused), array.chunk_store).sum())
    except OSError as error:
        findings.add("unreadable", array.name, source.key, f"{source.key!r} cannot be read: {error}")


def _check_entries(
    array: Array,
    key: str,
    place: Place,
    count: Place,
    entries: Entries,
    size: int,
    index: tuple[int, int],
    findings: Findings,
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which entries can be right; a problem for every other one."""
    offset, nbytes = entries[:, 0], entries[:, 1]
    void = (offset == EMPTY) & (nbytes == EMPTY)
    half = (offset == EMPTY) ^ (nbytes == EMPTY)
    # offset + nbytes may wrap: compare with what is left of the shard instead
    past = (
        ~void & ~half & ((offset > size) | (nbytes > np.uint64(size) - np.minimum(offset, np.uint64(size))))
    )
    sound = ~void & ~half & ~past
    none = sound & (nbytes == 0)
    ends = np.where(sound, offset, 0) + np.where(sound, nbytes, 0)
    inside = sound & ~none & (offset < index[1]) & (ends > index[0])
    for bad, words in (
        (half, "only one of the two marks it as not stored"),
        (past, f"it reaches past the end of the shard, which has {size:,} bytes"),
        (none, "a stored chunk has at least one byte"),
        (inside, f"it lies in the index, which has the bytes {index[0]:,} to {index[1]:,}"),
    ):
        for number in np.flatnonzero(bad).tolist():
            chunk = _chunk(array, place, count, number)
            found = f"offset {_shown(offset[number])}, nbytes {_shown(nbytes[number])}"
            findings.add(
                "entry", array.name, key, f"shard {key!r}, inner chunk {chunk}: {found}: {words}", chunk
            )
    good: np.ndarray[Any, np.dtype[np.bool_]] = void | (sound & ~none & ~inside)
    return good


def _shown(value: Any) -> str:
    return "2**64 - 1" if value == EMPTY else f"{int(value):,}"


def _chunk(array: Array, place: Place, count: Place, number: int) -> Place:
    """The index of an inner chunk in the array's grid of inner chunks."""
    inner = array.layout.inner_shape
    if inner is None:
        return place
    within = np.unravel_index(number, count) if count else ()
    starts = [int(array.layout.grid.chunk_start(d, np.array([i], np.int64))[0]) for d, i in enumerate(place)]
    return tuple(s // c + int(w) for s, c, w in zip(starts, inner, within, strict=True))


def _decode(array: Array, key: str, place: Place, entries: Entries, findings: Findings) -> Iterator[None]:
    """Read all stored chunks of one object; where a block does not decode, each of its chunks on its own."""
    layout = array.layout
    starts, extents = [], []
    for d, i in enumerate(place):
        at = np.array([i], np.int64)
        start = int(layout.grid.chunk_start(d, at)[0])
        starts.append(start)
        extents.append(max(0, min(int(layout.grid.chunk_extent(d, at)[0]), layout.shape[d] - start)))
    inner = layout.inner_shape or tuple(max(1, extent) for extent in extents)
    count = tuple(-(-extent // c) for extent, c in zip(extents, inner, strict=True))
    per_shard = (
        layout.counts(np.array([place], np.int64).reshape(1, array.ndim))[0] if layout.sharding else count
    )
    stored = (entries[:, 0] != EMPTY).reshape(per_shard)
    stored = stored[tuple(slice(0, n) for n in count)]
    itemsize = array.dtype.itemsize
    for block in aligned_blocks(extents, inner, itemsize, array.options.memory):
        if findings.late():
            return
        within = tuple(slice(b.start // c, -(-b.stop // c)) for b, c in zip(block, inner, strict=True))
        here = stored[within]
        if not here.any():
            continue
        region = tuple(slice(s + b.start, s + b.stop) for s, b in zip(starts, block, strict=True))
        if _reads(array, region) is None:
            findings.decoded += int(here.sum())
            continue
        for place_in_block in np.argwhere(here).tolist():
            chunk = tuple(w.start + i for w, i in zip(within, place_in_block, strict=True))
            box = tuple(
                slice(s + i * c, s + min((i + 1) * c, n))
                for s, i, c, n in zip(starts, chunk, inner, extents, strict=True)
            )
            error = _reads(array, box)
            if error is None:
                findings.decoded += 1
                continue
            whole = (
                tuple(s // c + i for s, c, i in zip(starts, inner, chunk, strict=True))
                if layout.sharding
                else place
            )
            findings.add("chunk", array.name, key, f"{error}", whole)
    yield from ()


def _reads(array: Array, region: tuple[slice, ...]) -> Exception | None:
    """None where a region can be read; the error otherwise."""
    try:
        array.get_basic_selection(region)
    except (TerrazzoError, OSError, MemoryError) as error:
        return error
    return None
