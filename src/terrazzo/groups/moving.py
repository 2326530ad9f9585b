"""Copying and moving nodes, with everything below them: copy, copy_all, copy_store, move.

What it does not do: keep several objects in step. A node's chunks are copied before its document, and a source is
deleted last and its document first: what is half done is either no node yet or no node any more, and can be repeated.
Specification: Zarr core 3.0, "Operations".

Where nothing about an array changes its objects are copied as they are, byte for byte, without decoding.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from terrazzo.arrays.array import Array
from terrazzo.arrays.documents import create_document, document_key
from terrazzo.arrays.place import StorePath
from terrazzo.dialects import dialect_of
from terrazzo.errors import ConflictError, ContainsNodeError, NodeNotFoundError
from terrazzo.groups.creating import from_array, resolve_settings
from terrazzo.groups.group import Group
from terrazzo.groups.nodes import (
    erase_node,
    leftovers,
    read_node,
    refuse_existing,
    refuse_read_only,
    require_ancestors,
    walk,
)
from terrazzo.groups.places import StoreLike, place_of
from terrazzo.metadata import ArrayMetadata, GroupMetadata, Node, normalize_path
from terrazzo.options import Options
from terrazzo.progress import Progress, follow
from terrazzo.stores.store import Open, Put, Store

__all__ = ["Copied", "copy", "copy_all", "copy_store", "move"]

#: bytes of an object that are in memory at once
PIECE_NBYTES = 16 << 20
IfExists = Literal["raise", "replace", "skip", "skip_initialized"]


class Copied(NamedTuple):
    """What a copy did: nodes (or objects) copied, left as they were, and bytes written."""

    copied: int
    skipped: int
    nbytes: int


def copy(
    source: Array | Group,
    dest: Group | StoreLike,
    name: str | None = None,
    shallow: bool = False,
    without_attrs: bool = False,
    if_exists: IfExists = "raise",
    dry_run: bool = False,
    **create_kws: Any,
) -> Copied:
    """Copy an array, or a group with everything below it, into the group `dest` under `name` (its own, unless given).

    shallow: of a group only its own arrays. without_attrs: leave attributes behind. if_exists: "raise", "replace"
    (what is there goes), "skip", "skip_initialized" (skip arrays that hold a chunk already). dry_run: count only.
    create_kws: as in `from_array`: another layout, other codecs for the arrays.

    >>> from terrazzo import create_array, open_group
    >>> first, second = create_array({}, data=np.arange(4)), open_group({})
    >>> copy(first, second, "numbers", compressors="gzip:9").copied, second["numbers"][-1].item()
    (1, 3)
    """
    _check(if_exists)
    wanted = normalize_path(source.basename if name is None else name)
    if not wanted:
        raise TypeError(
            "the copy needs a name: what is copied is the root of its store and has none; pass name="
        )
    return _copy(source, _place(dest) / wanted, shallow, without_attrs, if_exists, dry_run, create_kws)


def copy_all(
    source: Group,
    dest: Group | StoreLike,
    shallow: bool = False,
    without_attrs: bool = False,
    if_exists: IfExists = "raise",
    dry_run: bool = False,
    **create_kws: Any,
) -> Copied:
    """Copy everything that is in the group `source` into the group `dest`; arguments as in `copy`.

    >>> from terrazzo import open_group
    >>> first, second = open_group({}), open_group({})
    >>> first["a/b"] = np.arange(4)
    >>> copy_all(first, second).copied, second["a/b"].shape
    (2, (4,))
    """
    _check(if_exists)
    place = _place(dest)
    total = Copied(0, 0, 0)
    for name, node in source.members():
        done = _copy(node, place / name, shallow, without_attrs, if_exists, dry_run, create_kws)
        total = Copied(*(a + b for a, b in zip(total, done, strict=True)))
    return total


def copy_store(
    source: StoreLike,
    dest: StoreLike,
    source_path: str = "",
    dest_path: str = "",
    excludes: str | Sequence[str] = (),
    includes: str | Sequence[str] = (),
    flags: int = 0,
    if_exists: IfExists = "raise",
    dry_run: bool = False,
    progress: Progress = None,
) -> Copied:
    """Copy objects from store to store, byte for byte, without a look at what they are.

    source_path, dest_path: copy only what lies below a path, to below another. excludes, includes: regular
    expressions (with `flags`) searched in keys; an included key is copied though it is excluded.
    progress: True for a bar, or a function of (done, total); counts objects.

    >>> from terrazzo import create_array
    >>> there = {}
    >>> copy_store(create_array({}, data=np.ones(3)).store, there).copied
    2
    """
    _check(if_exists, ("raise", "replace", "skip"))
    below, above = place_of(source, source_path, mode="r"), place_of(dest, dest_path)
    kept = _filter(excludes, includes, flags)
    start, end = _prefix(below.path), _prefix(above.path)
    pairs = [
        (key, end + key[len(start) :])
        for key in sorted(below.store.list_prefix(start))
        if kept(key[len(start) :])
    ]
    # documents last: a copy that was cut short holds no node without its chunks
    pairs.sort(key=lambda pair: pair[0].endswith("zarr.json"))
    present = {new for _, new in pairs if above.store.exists(new)} if if_exists != "replace" else set()
    if present and if_exists == "raise":
        raise ContainsNodeError(
            f"{len(present)} of the keys are in {above.store} already, {min(present)!r} first; nothing was copied; "
            "if_exists='skip' leaves them, 'replace' replaces them"
        )
    options, _ = resolve_settings()
    pairs = [pair for pair in pairs if pair[1] not in present]
    if not dry_run:
        refuse_read_only(above)
    nbytes = 0
    with follow(progress, len(pairs), "copying") as step:
        for pair in pairs:
            nbytes += copy_objects(below.store, above.store, [pair], options, dry_run=dry_run)
            step(1)
    return Copied(len(pairs), len(present), nbytes)


def move(store: StoreLike | Group, source: str, dest: str, *, options: Options | None = None) -> None:
    """Move a node with everything below it to another path of its store, which must be free.

    All is copied before the source goes; who is interrupted finds the source whole, or the copy.

    >>> from terrazzo import open_group
    >>> root = open_group({})
    >>> root["old"] = np.arange(3)
    >>> move(root, "old", "new/place")
    >>> root["new/place"][:].tolist(), "old" in root
    ([0, 1, 2], False)
    """
    options = resolve_settings(options=options)[0]
    place = _place(store)
    old, new = place / normalize_path(source), place / normalize_path(dest)
    if not normalize_path(source) or not normalize_path(dest):
        raise ValueError("a group is not moved into or out of itself; name a node below it")
    if old.path == new.path:
        return
    if f"{new.path}/".startswith(f"{old.path}/"):
        raise ValueError(f"{old.name!r} cannot be moved to {new.name!r}, a place below itself")
    node = read_node(old, options)
    if node is None:
        raise NodeNotFoundError(f"there is nothing at {old.name!r} in {old.store} to move")
    refuse_read_only(new)
    refuse_existing(new, options)
    require_ancestors(new, options)
    _copy_tree(old, new, options)
    erase_node(old, options)


def _place(dest: Any) -> StorePath:
    return place_of(dest)


def _check(
    if_exists: str, allowed: tuple[str, ...] = ("raise", "replace", "skip", "skip_initialized")
) -> None:
    if if_exists not in allowed:
        raise ValueError(f"if_exists is {if_exists!r}; allowed are {', '.join(map(repr, allowed))}")


def _copy(
    source: Array | Group,
    place: StorePath,
    shallow: bool,
    without_attrs: bool,
    if_exists: str,
    dry_run: bool,
    create_kws: Mapping[str, Any],
) -> Copied:
    if _same(source, place):
        raise ValueError(f"{source.name!r} of {source.store} cannot be copied onto or into itself")
    if isinstance(source, Array):
        return _copy_array(source, place, without_attrs, if_exists, dry_run, create_kws)
    options = source.options
    there = read_node(place, options)
    copied, skipped, nbytes = 0, 0, 0
    if isinstance(there, ArrayMetadata) or (there is not None and if_exists == "raise"):
        if if_exists in ("skip", "skip_initialized"):
            return Copied(0, 1, 0)
        if if_exists == "raise":
            refuse_existing(place, options)
    if dry_run:
        copied += there is None
    elif there is None or if_exists == "replace":
        if isinstance(there, ArrayMetadata):
            erase_node(place, options)
            there = None
        if there is None:
            document = GroupMetadata({} if without_attrs else dict(source.attrs))
            require_ancestors(place, options)
            _create(place, document, options)
            copied += 1
        else:
            Group(place.store, place.path, there, options).attrs.put(
                {} if without_attrs else dict(source.attrs)
            )
    for name, node in source.members():
        if shallow and isinstance(node, Group):
            continue
        done = _copy(node, place / name, shallow, without_attrs, if_exists, dry_run, create_kws)
        copied, skipped, nbytes = copied + done.copied, skipped + done.skipped, nbytes + done.nbytes
    return Copied(copied, skipped, nbytes)


def _copy_array(
    source: Array,
    place: StorePath,
    without_attrs: bool,
    if_exists: str,
    dry_run: bool,
    create_kws: Mapping[str, Any],
) -> Copied:
    options = source.options
    there = read_node(place, options)
    if there is not None:
        if if_exists == "raise":
            refuse_existing(place, options)
        initialized = (
            not isinstance(there, ArrayMetadata)
            or Array(place.store, place.path, there, options).nshards_initialized > 0
        )
        if if_exists == "skip" or (if_exists == "skip_initialized" and initialized):
            return Copied(0, 1, 0)
    if dry_run:
        return Copied(1, 0, 0 if create_kws else source.nbytes_stored())
    if there is not None:
        erase_node(place, options)
    foreign = _dialect(source.store) != _dialect(place.store)  # its documents and keys would not do there
    if create_kws or source.metadata.storage_transformers or foreign:
        given = {"attributes": {}, **create_kws} if without_attrs else dict(create_kws)
        array = from_array(place, data=source, **given)
        return Copied(1, 0, array.nbytes_stored())
    require_ancestors(place, options)
    place.store.erase_values(
        leftovers(place.store, Array(place.store, place.path, source.metadata, options).layout)
    )
    document = replace(source.metadata, attributes={}) if without_attrs else source.metadata
    nbytes = _copy_values(source.store_path, place, options)
    _create(place, document, options)
    return Copied(1, 0, nbytes + len(document.to_bytes()))


def _same(source: Array | Group, place: StorePath) -> bool:
    if source.store.identity != place.store.identity:
        return False
    return f"{place.path}/".startswith(_prefix(source.path))


def _create(place: StorePath, node: Node, options: Options) -> None:
    try:
        create_document(place.store, place.path, node, options)
    except ConflictError:
        refuse_existing(place, options)
        raise


def _copy_tree(old: StorePath, new: StorePath, options: Options) -> None:
    """A node with all below it, chunks before documents, the lowest documents first, the node's own last."""
    start, end = _prefix(old.path), _prefix(new.path)
    keys = sorted(old.store.list_prefix(start))
    documents = {document_key(old.path)}
    documents |= {document_key(start + path) for path, _ in walk(old.store, old.path, options)}
    pairs = [(key, end + key[len(start) :]) for key in keys if key not in documents]
    expected = {end + key[len(start) :] for key in keys}
    other = next((key for key in new.store.list_prefix(end) if key not in expected), None)
    if other is not None:
        raise ContainsNodeError(
            f"{old.name!r} cannot be moved to {new.name!r}: {other!r} is stored there; choose another place"
        )
    copy_objects(old.store, new.store, pairs, options)
    last = sorted((key for key in keys if key in documents), key=lambda key: -key.count("/"))
    for key in last:
        copy_objects(old.store, new.store, [(key, end + key[len(start) :])], options)


def _copy_values(old: StorePath, new: StorePath, options: Options) -> int:
    start, end = _prefix(old.path), _prefix(new.path)
    document = document_key(old.path)
    keys = (key for key in old.store.list_prefix(start) if key != document)
    return copy_objects(old.store, new.store, [(key, end + key[len(start) :]) for key in keys], options)


def copy_objects(
    source: Store, dest: Store, pairs: Iterable[tuple[str, str]], options: Options, *, dry_run: bool = False
) -> int:
    """Copy (key, new key) objects as they are, in pieces; the bytes that were copied."""
    nbytes = 0
    for key, new in pairs:
        if dry_run:
            nbytes += source.getsize(key) or 0
            continue
        (found,) = source.open([Open(key, (0, PIECE_NBYTES))])
        if found is None:
            continue  # deleted since it was listed
        with found, dest.hold(new) as hold:
            sink = dest.sink(hold)
            try:
                first = memoryview(found.first or b"")
                sink.write(0, first)
                position = first.nbytes
                if position == PIECE_NBYTES:
                    size = found.size if found.size is not None else source.getsize(key) or position
                    while position < size:
                        length = min(PIECE_NBYTES, size - position)
                        ((piece,),) = source.fetch([(found, [(position, length)])])
                        sink.write(position, piece)
                        position += length
                dest.commit([Put(hold, sink)], options.durability)
            finally:
                sink.discard()
            nbytes += position
    return nbytes


def _filter(
    excludes: str | Sequence[str], includes: str | Sequence[str], flags: int
) -> Callable[[str], bool]:
    out, inside = (
        [re.compile(one, flags) for one in ([patterns] if isinstance(patterns, str) else patterns)]
        for patterns in (excludes, includes)
    )
    return lambda key: not any(one.search(key) for one in out) or any(one.search(key) for one in inside)


def _prefix(path: str) -> str:
    return f"{path}/" if path else ""


def _dialect(store: Store) -> str:
    view = dialect_of(store)
    return "v3" if view is None else getattr(view, "way", view.dialect)
