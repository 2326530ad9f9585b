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
from terrazzo.care.placing import later, put_objects
from terrazzo.care.salvage import Salvaged, salvage
from terrazzo.errors import TerrazzoError
from terrazzo.foreign import places_to_look, signature_in
from terrazzo.groups.nodes import create_node
from terrazzo.groups.opening import open_array
from terrazzo.groups.places import StoreLike, place_of
from terrazzo.inventory import Inventory
from terrazzo.progress import Progress, follow
from terrazzo.shard import EMPTY, dead_ranges, empty_entries
from terrazzo.stores.flow import run
from terrazzo.stores.local import LocalStore
from terrazzo.strategy import Replace
from terrazzo.write import EncodedShard, put_encoded

__all__ = ["Lost", "RepairReport", "repair"]

Entries = np.ndarray[Any, np.dtype[np.uint64]]
Rows = tuple[np.ndarray[Any, Any], Entries]


@dataclass(frozen=True, slots=True)
class Lost:
    """A chunk that could not be read. chunk: its index in the array's grid of (inner) chunks; None: which chunks the
    shard had is not known."""

    key: str
    chunk: tuple[int, ...] | None
    reason: str

    def to_json(self) -> dict[str, Any]:
        chunk = None if self.chunk is None else list(self.chunk)
        return {"key": self.key, "chunk": chunk, "reason": self.reason}


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
    def ok(self) -> bool:
        """Nothing is lost, and nothing was left as it is."""
        return not self.lost and not self.refused

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "place": self.place,
            "objects": self.objects,
            "chunks_kept": self.kept,
            "damaged": self.damaged,
            "lost": [one.to_json() for one in self.lost],
            "unplaced": self.unplaced,
            "refused": self.refused,
        }

    def __str__(self) -> str:
        return (
            f"{self.objects:,} objects, {len(self.damaged):,} of them damaged; {self.kept:,} chunks kept, "
            f"{len(self.lost):,} lost, {len(self.unplaced):,} saved without a place"
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

    Every chunk is decoded. In place, a damaged object is saved beside first, whole; then it becomes the repaired one at
    once, so that a crash leaves the old or the new. Objects that are sound are not touched.
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
    with follow(progress, len(keys), "repairing") as step:
        for key, place in keys:
            _repair_object(array, target, key, place, rows, beside, report)
            step(1)
    target.store.sync()
    return report


def _target(array: Array, to: StoreLike, in_place: bool, unplaced: Any) -> tuple[Array, Path | None]:
    """The array to write to, and the folder for chunks without a place."""
    folder = _folder_of(array)
    beside = None if unplaced is None else Path(unplaced)
    if in_place:
        if beside is None and folder is not None:
            beside = folder.with_name(folder.name + ".unplaced")
        return array, beside
    if to is None:
        if folder is None:
            raise ValueError("where is the repaired copy to go? give `to`, or `in_place=True`")
        to = folder.with_name(folder.name + ".repaired")
    place = place_of(to)
    create_node(StorePath(place.store, place.path), array.metadata, array.options, overwrite=False)
    copy = Array(place.store, place.path, array.metadata, array.options)
    path = _folder_of(copy)
    if beside is None and path is not None:
        beside = path.with_name(path.name + ".unplaced")
    return copy, beside


def _folder_of(array: Array) -> Path | None:
    """Where an array lies on a local disk, if it does."""
    store: Any = array.store
    while not isinstance(store, LocalStore) and hasattr(store, "store"):
        store = store.store
    return Path(store.root, array.path) if isinstance(store, LocalStore) else None


def _objects(array: Array) -> Iterator[tuple[str, tuple[int, ...]]]:
    if array.chunk_store.listable:
        places = [tuple(place) for place in listed(array).tolist()]
    else:
        places = list(np.ndindex(*array.shard_grid_shape))
    for place in places:
        yield array.layout.prefix + array.layout.keys.key(place), place


def _repair_object(
    array: Array,
    target: Array,
    key: str,
    place: tuple[int, ...],
    known: Mapping[str, Rows],
    beside: Path | None,
    report: RepairReport,
) -> None:
    try:
        if not array.read_only:
            array.chunk_store.recover(key)  # what a dead writer's journal can finish is no damage
        body = array.chunk_store.get(key)
    except (TerrazzoError, OSError) as error:
        report.objects += 1
        report.lost.append(Lost(key, None, f"the object cannot be read: {error}"))
        return
    if body is None:
        return
    report.objects += 1
    copying = target is not array
    new = target.layout.prefix + key.removeprefix(array.layout.prefix)
    if array.layout.sharding is None:
        chain = array.layout.chain_for(array.layout.grid.chunk_shape(place))
        try:
            chain.decode(body)
        except (TerrazzoError, MemoryError) as error:
            report.lost.append(Lost(key, place, str(error)))
            report.damaged[key] = "nothing"
            if not copying:
                _save_damaged(body, key, beside)
                target.chunk_store.erase(new)
            return
        report.kept += 1
        if copying:
            put_objects(target.chunk_store, [(new, body)], later(target.options.durability))
        return
    outer = np.array([place], np.int64).reshape(1, array.ndim)
    (count,) = array.layout.counts(outer)
    found = salvage(array, count, body, _manifest_entries(known.get(key), place, array, count))
    report.kept += int((found.entries[:, 0] != EMPTY).sum())
    if found.sound:
        if copying:
            put_objects(target.chunk_store, [(new, body)], later(target.options.durability))
        return
    if _is_foreign(array, count, body, found.entries):
        report.refused.append(key)
        if copying:
            put_objects(target.chunk_store, [(new, body)], later(target.options.durability))
        return
    report.damaged[key] = found.source
    if found.source == "nothing" and not found.lost:
        report.lost.append(
            Lost(key, None, "its index is gone, and no older one and no manifest tells its chunks' places")
        )
    for number, reason in found.lost.items():
        report.lost.append(Lost(key, _chunk(array, place, count, number), reason))
    if not copying:
        _save_damaged(body, key, beside)
    if found.unplaced:
        _save(body, array.layout.chain, key, found.unplaced, beside, report)
    _store(target, place, count, body, found)


def _store(
    target: Array, place: tuple[int, ...], count: tuple[int, ...], body: bytes, found: Salvaged
) -> None:
    """The shard made of the chunks that are left; their bytes are copied."""
    inner = np.flatnonzero(found.entries[:, 0] != EMPTY)
    places = np.zeros((len(inner), 3), np.int64)
    places[:, 1:] = found.entries[inner].view(np.int64)
    shard = EncodedShard(place, inner, places, [body], np.zeros(prod(count), np.bool_))
    run(
        put_encoded(target.layout, [shard], target.options, target.index_cache, Replace()),
        target.chunk_store,
    )


def _save_damaged(body: bytes, key: str, beside: Path | None) -> None:
    """The whole object as it was, on the disk before anything of it changes."""
    folder = _folder(key, beside)
    with open(folder / f"{key.replace('/', '-')}.damaged", "wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())


def _folder(key: str, beside: Path | None) -> Path:
    if beside is None:
        raise ValueError(
            f"{key!r} is damaged; say in which folder chunks without a place, and objects before they are repaired "
            "in place, are to be saved: unplaced="
        )
    beside.mkdir(parents=True, exist_ok=True)
    return beside


def _save(
    body: bytes,
    chain: Any,
    key: str,
    pieces: list[tuple[int, int]],
    beside: Path | None,
    report: RepairReport,
) -> None:
    """Each chunk without a place as an npy file, named by its shard and where it lay there."""
    beside = _folder(key, beside)
    for offset, nbytes in pieces:
        path = beside / f"{key.replace('/', '-')}-at-{offset}.npy"
        value = np.asarray(chain.decode(body[offset : offset + nbytes]))
        if value.dtype.kind in "OT":
            path = path.with_suffix(".chunk")
            path.write_bytes(body[offset : offset + nbytes])
        else:
            np.save(path, value, allow_pickle=False)
        report.unplaced.append(str(path))


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
