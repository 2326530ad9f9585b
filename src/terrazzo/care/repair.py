"""Repair: what can be read of a damaged array, into a copy or in place, and a list of exactly what cannot.

What it does not do: guess. A chunk comes back only to a place that an index or a saved manifest gives it; chunks whose
place nothing tells are saved beside, as files. Chunks that are whole keep their encoded bytes.
Specification: sharding_indexed 1.0, "Binary shard format".
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from terrazzo.arrays.array import Array
from terrazzo.arrays.place import StorePath
from terrazzo.arrays.stored import layout_fingerprint, listed
from terrazzo.care.beside import UNPLACED, Beside, Record, digest
from terrazzo.care.placing import later, put_objects
from terrazzo.care.salvage import salvage
from terrazzo.errors import TerrazzoError
from terrazzo.foreign import places_to_look, signature_in
from terrazzo.groups.nodes import create_node
from terrazzo.groups.opening import open_array
from terrazzo.groups.places import StoreLike, place_of
from terrazzo.inventory import Inventory
from terrazzo.progress import Progress, follow
from terrazzo.read import size_of
from terrazzo.shard import EMPTY, dead_ranges, empty_entries, order
from terrazzo.stores.local import LocalStore
from terrazzo.stores.store import Erase, Put

__all__ = ["Lost", "RepairReport", "repair"]

Entries = np.ndarray[Any, np.dtype[np.uint64]]
Rows = tuple[np.ndarray[Any, Any], Entries]


@dataclass(frozen=True, slots=True)
class Lost:
    """A chunk that could not be read, or some of a shard. chunk: its index in the array's grid of (inner) chunks; None:
    which chunks the shard had is not known, but that at most `chunks` of them are lost."""

    key: str
    chunk: tuple[int, ...] | None
    reason: str
    chunks: int = 1

    def to_json(self) -> dict[str, Any]:
        chunk = None if self.chunk is None else list(self.chunk)
        return {"key": self.key, "chunk": chunk, "chunks": self.chunks, "reason": self.reason}


@dataclass(slots=True)
class RepairReport:
    """What a repair did.

    objects: how many there are. damaged: keys of those that were not as they should be, and where the places of their
    chunks come from (as in `Salvaged.source`). kept: chunks that are as they were. lost: those that are not there any
    more, and hold the fill value now. unplaced: files with chunks whose place nothing tells. refused: keys that were
    left as they are, since they are files of another format too. place: the repaired array.
    """

    place: str = ""
    objects: int = 0
    kept: int = 0
    damaged: dict[str, str] = field(default_factory=dict)
    lost: list[Lost] = field(default_factory=list)
    unplaced: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def chunks_lost(self) -> int:
        """How many chunks are lost, at most."""
        return sum(one.chunks for one in self.lost)

    @property
    def ok(self) -> bool:
        """Nothing is lost, and nothing was left as it is."""
        return not self.lost and not self.refused

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "place": self.place,
            "objects": self.objects,
            "chunks_kept": self.kept,
            "chunks_lost_at_most": self.chunks_lost,
            "damaged": self.damaged,
            "lost": [one.to_json() for one in self.lost],
            "unplaced": self.unplaced,
            "refused": self.refused,
        }

    def __str__(self) -> str:
        upto = "up to " if any(one.chunk is None for one in self.lost) else ""
        return (
            f"{self.objects:,} objects, {len(self.damaged):,} of them damaged; {self.kept:,} chunks kept, "
            f"{upto}{self.chunks_lost:,} lost, {len(self.unplaced):,} saved without a place"
        )


def repair(
    node: Any,
    to: StoreLike = None,
    *,
    in_place: bool = False,
    manifest: Inventory | str | os.PathLike[str] | None = None,
    unplaced: str | os.PathLike[str] | None = None,
    progress: Progress = None,
    storage_options: Mapping[str, Any] | None = None,
) -> RepairReport:
    """Repair an array: a copy of all that can be read, or with `in_place` the array itself.

    node: an Array, or anything that `open_array` takes. to: where the copy goes, and nothing may be; by default, for a
    folder, beside it with ".repaired" added. manifest: an inventory saved earlier, for shards that lost their index.
    unplaced: the folder for chunks without a place, by default beside the copy with ".unplaced" added. progress: counts
    objects.

    Every chunk is decoded. In place, a damaged object is saved beside first, whole, and what is to become of it is
    written down; then, under its lock, it becomes the repaired one at once. A crash leaves every object the old or the
    new, and the next repair in place finishes, and reports all of it. Objects that are sound are not touched.
    """
    array = (
        node
        if isinstance(node, Array)
        else open_array(node, mode="r+" if in_place else "r", storage_options=storage_options)
    )
    if in_place and to is not None:
        raise ValueError("in_place=True repairs the array where it is; leave `to` out, or make a copy")
    known = manifest if isinstance(manifest, Inventory) or manifest is None else Inventory.load(manifest)
    if known is not None and known.document != layout_fingerprint(array):
        raise ValueError("the manifest is of another array, or of this one before its document changed")
    target, beside = _target(array, to, in_place, unplaced)
    folder = _folder_of(target)
    report = RepairReport(place=str(target.store_path if folder is None else folder))
    keys = sorted(_objects(array))
    rows = _by_key(known)
    decided = beside.records() if in_place else {}
    with follow(progress, len(keys), "repairing") as step:
        for key, place in keys:
            if in_place:
                _repair_in_place(array, key, place, rows.get(key), beside, decided, report)
            else:
                _repair_copy(array, target, key, place, rows.get(key), beside, report)
            step(1)
    for record in decided.values():
        if record.after is None and array.chunk_store.getsize(record.key) is None:
            array.chunk_store.hold(record.key).release()  # who removed it may have left the lock
            report.objects += 1
            _report(array, record, report)
    target.store.sync()
    if in_place:
        beside.clear()
    return report


def _target(array: Array, to: StoreLike, in_place: bool, unplaced: Any) -> tuple[Array, Beside]:
    """The array to write to, and what is put beside it."""
    target = array
    folder = _folder_of(array)
    if not in_place:
        if to is None:
            if folder is None:
                raise ValueError("where is the repaired copy to go? give `to`, or `in_place=True`")
            to = folder.with_name(folder.name + ".repaired")
        place = place_of(to)
        create_node(StorePath(place.store, place.path), array.metadata, array.options, overwrite=False)
        target = Array(place.store, place.path, array.metadata, array.options)
        folder = _folder_of(target)
    if unplaced is not None:
        folder = Path(unplaced)
    elif folder is not None:
        folder = folder.with_name(folder.name + UNPLACED)
    local = _local_store(target)
    return target, Beside(folder, None if local is None else local.files)


def _local_store(array: Array) -> LocalStore | None:
    store: Any = array.store
    while not isinstance(store, LocalStore) and hasattr(store, "store"):
        store = store.store
    return store if isinstance(store, LocalStore) else None


def _folder_of(array: Array) -> Path | None:
    """Where an array lies on a local disk, if it does."""
    store = _local_store(array)
    return None if store is None else Path(store.root, array.path)


def _objects(array: Array) -> Iterator[tuple[str, tuple[int, ...]]]:
    if array.chunk_store.listable:
        places = [tuple(place) for place in listed(array).tolist()]
    else:
        places = list(np.ndindex(*array.shard_grid_shape))
    for place in places:
        yield array.layout.prefix + array.layout.keys.key(place), place


@dataclass(slots=True)
class _Found:
    """What is to become of one object: `body`, or nothing. whole: as it was; foreign: another format's file too."""

    body: bytes | None
    kept: int
    source: str = "index"
    entries: Entries | None = None
    lost: list[tuple[list[int] | None, str]] = field(default_factory=list)
    unplaced: list[tuple[int, int]] = field(default_factory=list)
    whole: bool = False
    foreign: bool = False


def _repair_copy(
    array: Array,
    target: Array,
    key: str,
    place: tuple[int, ...],
    known: Rows | None,
    beside: Beside,
    report: RepairReport,
) -> None:
    try:
        if not array.read_only:
            array.chunk_store.recover(key)  # what a dead writer's journal can finish is no damage
        body = array.chunk_store.get(key)
    except (TerrazzoError, OSError) as error:
        report.objects += 1
        _unreadable(array, key, error, report)
        return
    if body is None:
        return
    report.objects += 1
    found = _looked_at(array, place, body, known)
    if not found.whole and not found.foreign:
        _report(array, _record(array, key, body, found, beside), report)
    else:
        report.kept += found.kept
        report.refused += [key] * found.foreign
    if found.body is not None:
        new = target.layout.prefix + key.removeprefix(array.layout.prefix)
        put_objects(target.chunk_store, [(new, found.body)], later(target.options.durability))


def _repair_in_place(
    array: Array,
    key: str,
    place: tuple[int, ...],
    known: Rows | None,
    beside: Beside,
    decided: dict[str, Record],
    report: RepairReport,
) -> None:
    store = array.chunk_store
    with store.hold(key) as hold:  # nobody else changes it between the look and the change
        source = hold.source
        if source is None:
            return
        report.objects += 1
        try:
            ((part,),) = store.fetch([(source, [(0, size_of(source))])])
        except (TerrazzoError, OSError) as error:
            _unreadable(array, key, error, report)
            return
        body = bytes(part)
        record = decided.pop(key, None)
        version = None if record is None else digest(body)
        if record is not None and version == record.after:
            _report(array, record, report)
            return
        if record is not None and version == record.before and _fits(array, place, body, record):
            new = _as_decided(array, place, body, record)
        else:
            found = _looked_at(array, place, body, known)
            if found.whole or found.foreign:
                report.kept += found.kept
                report.refused += [key] * found.foreign
                return
            beside.save_damaged(key, body)
            record = _record(array, key, body, found, beside)
            beside.save_record(record)
            new = found.body
        change: Put | Erase = Erase(hold)
        if new is not None:
            sink = store.sink(hold)
            sink.write(0, new)
            change = Put(hold, sink)
        store.commit([change], array.options.durability)
    array.index_cache.drop(key)
    _report(array, record, report)


def _unreadable(array: Array, key: str, error: Exception, report: RepairReport) -> None:
    report.lost.append(Lost(key, None, f"the object cannot be read: {error}", _most_chunks(array, key)))


def _most_chunks(array: Array, key: str) -> int:
    """How many chunks an object can have."""
    place = array.layout.keys.parse(key.removeprefix(array.layout.prefix), array.ndim)
    if array.layout.sharding is None or place is None:
        return 1
    return prod(array.layout.counts(np.array([place], np.int64).reshape(1, array.ndim))[0])


def _report(array: Array, record: Record, report: RepairReport) -> None:
    report.kept += record.kept
    report.damaged[record.key] = record.source
    report.unplaced += record.unplaced
    for chunk, reason in record.lost:
        if chunk is not None:
            report.lost.append(Lost(record.key, tuple(chunk), reason))
        else:
            named = sum(one is not None for one, _ in record.lost)
            most = max(1, _most_chunks(array, record.key) - record.kept - named)
            report.lost.append(Lost(record.key, None, reason, most))


def _record(array: Array, key: str, body: bytes, found: _Found, beside: Beside) -> Record:
    """What was decided of a damaged object, once its chunks without a place are saved."""
    chain = array.layout.chain
    files = []
    for offset, nbytes in found.unplaced:
        encoded = body[offset : offset + nbytes]
        files.append(beside.save_chunk(key, offset, np.asarray(chain.decode(encoded)), encoded))
    entries = []
    if found.entries is not None:
        stays = np.flatnonzero(found.entries[:, 0] != EMPTY)
        entries = [(n, *row) for n, row in zip(stays.tolist(), found.entries[stays].tolist(), strict=True)]
    after = None if found.body is None else digest(found.body)
    return Record(key, digest(body), after, found.source, entries, found.lost, found.kept, files)


def _looked_at(array: Array, place: tuple[int, ...], body: bytes, known: Rows | None) -> _Found:
    """Decode every chunk of an object."""
    if array.layout.sharding is None:
        chain = array.layout.chain_for(array.layout.grid.chunk_shape(place))
        try:
            chain.decode(body)
        except (TerrazzoError, MemoryError) as error:
            return _Found(None, 0, "nothing", lost=[(list(place), str(error))])
        return _Found(body, 1, whole=True)
    (count,) = array.layout.counts(np.array([place], np.int64).reshape(1, array.ndim))
    found = salvage(array, count, body, _manifest_entries(known, place, array, count))
    kept = int((found.entries[:, 0] != EMPTY).sum())
    if found.sound:
        return _Found(body, kept, whole=True)
    if _is_foreign(array, count, body, found.entries):
        return _Found(body, kept, foreign=True)
    lost: list[tuple[list[int] | None, str]] = [
        (list(_chunk(array, place, count, number)), reason) for number, reason in found.lost.items()
    ]
    if found.source == "nothing" and not lost:
        lost = [(None, "its index is gone, and no older one and no manifest tells its chunks' places")]
    if found.doubt is not None:
        lost.append((None, found.doubt))
    new = _rebuilt(array, count, body, found.entries)
    return _Found(new, kept, found.source, found.entries, lost, found.unplaced)


def _fits(array: Array, place: tuple[int, ...], body: bytes, record: Record) -> bool:
    """Whether what a record tells of an object can be: it comes from a file like anything else."""
    if array.layout.sharding is None or record.after is None:
        return True
    (count,) = array.layout.counts(np.array([place], np.int64).reshape(1, array.ndim))
    n, size = prod(count), len(body)
    return all(
        0 <= number < n and offset >= 0 and 0 < nbytes <= size - offset
        for number, offset, nbytes in record.entries
    )


def _as_decided(array: Array, place: tuple[int, ...], body: bytes, record: Record) -> bytes | None:
    """The object that an earlier repair of the same bytes was about to make."""
    if array.layout.sharding is None or record.after is None:
        return None
    (count,) = array.layout.counts(np.array([place], np.int64).reshape(1, array.ndim))
    entries = empty_entries(prod(count))
    for number, offset, nbytes in record.entries:
        entries[number] = offset, nbytes
    return _rebuilt(array, count, body, entries)


def _rebuilt(array: Array, count: tuple[int, ...], body: bytes, entries: Entries) -> bytes | None:
    """A shard of these chunks of `body`, in Morton order, as they are encoded; None without any."""
    sharding = array.layout.sharding
    assert sharding is not None
    at_start = sharding.index_location == "start"
    made = bytearray(sharding.index_nbytes(count) if at_start else 0)
    moved = empty_entries(len(entries))
    for number in order("morton", count).tolist():
        if entries[number, 0] != EMPTY:
            offset, nbytes = entries[number].tolist()
            moved[number] = len(made), nbytes
            made += memoryview(body)[offset : offset + nbytes]
    if (moved[:, 0] == EMPTY).all():
        return None
    index = bytes(sharding.encode_index(moved, count))
    if at_start:
        made[: len(index)] = index
    else:
        made += index
    return bytes(made)


def _is_foreign(array: Array, count: tuple[int, ...], body: bytes, entries: Entries) -> bool:
    assert array.layout.sharding is not None
    span = array.layout.sharding.index_span(count, len(body))
    if span[0] < 0:
        return False
    places = places_to_look(dead_ranges(entries, len(body), span), len(body))
    return signature_in({(at, n): body[at : at + n] for at, n in places}) is not None


def _by_key(known: Inventory | None) -> dict[str, Rows]:
    """The rows of a manifest, per object: chunk indices, and (offset, nbytes)."""
    if known is None:
        return {}
    sequence = np.argsort(known.object, kind="stable")
    bounds = np.searchsorted(known.object[sequence], np.arange(len(known.keys) + 1))
    places = np.stack([known.offset, known.nbytes], axis=1)
    return {
        key: (known.chunks[mine], places[mine])
        for k, key in enumerate(known.keys)
        for mine in [sequence[bounds[k] : bounds[k + 1]]]
    }


def _manifest_entries(
    rows: Rows | None, place: tuple[int, ...], array: Array, count: tuple[int, ...]
) -> Entries | None:
    if rows is None:
        return None
    chunks, places = rows
    entries = empty_entries(prod(count))
    inner = chunks - np.array(_first_chunk(array, place), np.int64)
    entries[np.ravel_multi_index(tuple(inner.T), count) if count else 0] = places
    return entries


def _first_chunk(array: Array, place: tuple[int, ...]) -> tuple[int, ...]:
    assert array.layout.sharding is not None
    return tuple(
        dim.begin(i) // c
        for dim, i, c in zip(array.layout.grid.dims, place, array.layout.sharding.chunk_shape, strict=True)
    )


def _chunk(array: Array, place: tuple[int, ...], count: tuple[int, ...], number: int) -> tuple[int, ...]:
    within = np.unravel_index(number, count) if count else ()
    return tuple(first + int(w) for first, w in zip(_first_chunk(array, place), within, strict=True))
