"""Migration: Zarr 2, the draft of 2022 and the sharding of early 2023 to Zarr 3, and Zarr 3 to Zarr 2 where it can.

What it does not do: move a byte of values that need not move. Where chunks are the same bytes in both formats they
stay where they are, or get a second name by a hard link (elsewhere they are copied); what differs is encoded anew,
into another place only.

In place, the new documents are written beside the old ones, the root's last: with it the migration has happened, and
everything before it leaves the old hierarchy as it was. A journal beside the root's document tells an interrupted
migration, which goes on when it is run again, from one that happened: then only `confirm` is left to do, which removes
the old documents and names, and the journal. Until then do not write in place: a linked chunk is one file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from terrazzo.arrays.array import Array
from terrazzo.arrays.documents import write_document
from terrazzo.arrays.place import StorePath
from terrazzo.care.copy import _nodes, _refuse_nested, below
from terrazzo.chunk_keys import chunk_keys_from_extension
from terrazzo.config import options_from
from terrazzo.dialects import DialectView, DraftView, V2View, dialect_of, is_entry_point
from terrazzo.errors import (
    ContainsNodeError,
    KeyRefusedError,
    MetadataError,
    NodeNotFoundError,
    StoreError,
    UnsupportedError,
)
from terrazzo.groups.creating import create_array, regions
from terrazzo.groups.formats import find, stored_as, wanted_dialect
from terrazzo.groups.moving import copy_objects
from terrazzo.groups.nodes import require_ancestors
from terrazzo.groups.places import StoreLike, place_of
from terrazzo.metadata import (
    ArrayMetadata,
    Extension,
    GroupMetadata,
    Node,
    data_type_from_numpy,
    read_json,
    write_json,
)
from terrazzo.metadata.data_types import NumpyRecord, Objects
from terrazzo.metadata.data_types.objects import OBJECTS_REFUSED
from terrazzo.metadata.draft import FALLBACK
from terrazzo.options import Options
from terrazzo.progress import Progress, Step, follow
from terrazzo.stores.keys import path_of_key
from terrazzo.stores.local import LocalStore
from terrazzo.stores.store import Store

__all__ = ["JOURNAL", "Migration", "migrate"]

#: what lies at the root of a migration in place from its first link to its end
JOURNAL = "__terrazzo_migration.json"


@dataclass
class Migration:
    """What was done, or with `dry_run` would be.

    source, target: dialects. nodes: documents. same: chunks that stay where they are. linked, copied: chunks with a
    second name, and with second bytes. encoded: paths of arrays whose chunks are encoded anew. removed: old keys.
    """

    source: str
    target: str
    in_place: bool
    dry_run: bool
    nodes: int = 0
    same: int = 0
    linked: int = 0
    copied: int = 0
    encoded: list[str] = field(default_factory=list)
    removed: int = 0
    verified: bool = False

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


def migrate(
    source: Any,
    destination: StoreLike = None,
    *,
    zarr_format: int = 3,
    dry_run: bool = False,
    verify: bool = False,
    confirm: bool = False,
    link: bool | None = None,
    dialect: str | None = None,
    chunks_per_shard: Any = None,
    progress: Progress = None,
    source_options: dict[str, Any] | None = None,
    storage_options: dict[str, Any] | None = None,
) -> Migration:
    """Bring a hierarchy, or an array, into another format: Zarr 3, or with zarr_format=2 into Zarr 2.

    destination: None migrates in place. dry_run: look, and change nothing. verify: compare all values afterwards, bit
    for bit. confirm: remove what the old format needs; without it both formats are there, and Zarr 3 is the one found.
    link: chunks with a new name get it by a hard link (in place, unless said otherwise) or are copied (elsewhere).
    dialect, chunks_per_shard: of the source, as in `open_array`. progress: counts stored objects. A source that is open
    already is worked on with its own options (drafts, limits, memory).

    Raises NodeNotFoundError; MetadataError for what the target cannot say, before anything is written; StoreError where
    verified values differ, and then nothing old was removed.
    """
    own = getattr(source, "options", None)
    options = replace(own if isinstance(own, Options) else options_from(None), missing="fill")
    given = place_of(source, storage_options=source_options)
    given = StorePath(_plain(given.store), given.path)
    if destination is None:
        happened = _journal(given)
        if (
            happened is not None
            and happened["target"] == f"v{zarr_format}"
            and _happened(given, zarr_format, options)
        ):
            return _confirm(given, happened, options, confirm and not dry_run)
    origin, node = _source(given, options, zarr_format, dialect, chunks_per_shard)
    if node is None:
        raise NodeNotFoundError(f"there is no array and no group at {given.name!r} in {given.store}")
    view = dialect_of(origin.store)
    in_place = destination is None
    target = given if destination is None else place_of(destination, storage_options=storage_options)
    target = StorePath(_plain(target.store), target.path)
    if not in_place:
        _refuse_nested(given, target)
    if zarr_format == 2:
        target = StorePath(V2View(target.store, options), target.path)
    elif zarr_format != 3:
        raise ValueError(f"zarr_format is {zarr_format!r}; 2 and 3 are allowed")
    if in_place and isinstance(view, DraftView) and given.path:
        raise UnsupportedError(
            "a hierarchy of the draft is migrated whole: name its root, or give a destination"
        )
    report = Migration(
        "v3" if view is None else getattr(view, "way", view.dialect), stored_as("v2" if zarr_format == 2 else "v3"),
        in_place, dry_run,
    )  # fmt: skip
    if isinstance(view, DraftView) and view.store.listable:
        _refuse_unreachable(view, origin.path)
    plans = [_plan(origin, target, path, one, options, in_place) for path, one in _nodes(origin, options)]
    _refuse_clashes(plans, view, in_place)
    if in_place and report.source != report.target and _journal(given) is None:
        _refuse_mixing(given, report.target)
    report.nodes = len(plans)
    report.encoded = [plan.place.path for plan in plans if plan.encode]
    pairs = [(plan, list(_pairs(plan, options))) for plan in plans]
    moves = [
        (plan, [pair for pair in found if plan.encode or pair[0] != pair[1] or not in_place])
        for plan, found in pairs
    ]
    report.same = sum(map(len, (found for _, found in pairs))) - sum(len(found) for _, found in moves)
    linking = in_place if link is None else link
    if dry_run:
        moved = sum(len(found) for plan, found in moves if not plan.encode)
        report.linked, report.copied = (moved, 0) if linking else (0, moved)
        return report
    _carry_out(moves, report, options, progress, given, target, linking)
    if verify:
        for plan in plans:
            if isinstance(plan.node, ArrayMetadata):
                _compare(plan, options)
        report.verified = True
    if confirm and in_place and report.source != report.target:  # else the documents are the new ones
        report.removed = _remove(report.source, [plan.place.path for plan in plans], given)
    return report


@dataclass(frozen=True)
class _Plan:
    """One node: where it was, where it goes, what it says there, and whether its chunks have to be encoded anew."""

    origin: StorePath
    place: StorePath
    node: Node
    made: Node
    encode: bool = False


def _source(
    given: StorePath, options: Options, zarr_format: int, dialect: str | None, chunks_per_shard: Any
) -> tuple[StorePath, Node | None]:
    """In place a finished step of an earlier run must not hide the old format: Zarr 2 is looked for first."""
    if dialect is not None:
        wanted_dialect(None, dialect)
        return find(given, options, dialect=dialect, chunks_per_shard=chunks_per_shard)
    if zarr_format == 3:
        origin, node = find(given, options, zarr_format=2)
        if node is not None:
            return origin, node
    return find(given, options, chunks_per_shard=chunks_per_shard)


def _refuse_unreachable(view: DraftView, path: str) -> None:
    """A node that is not seen would be left out, and in place removed with the rest of the old format."""
    for node in view.unreachable(path):
        raise KeyRefusedError(
            f"found the node {node!r}, whose name the draft allows and Zarr 3 reserves; rename its documents and chunks"
        )


def _plain(store: Store) -> Store:
    view = dialect_of(store)
    return store if view is None else view.store


def _plan(
    origin: StorePath, target: StorePath, path: str, node: Node, options: Options, in_place: bool
) -> _Plan:
    """What a node will say; refused where the target cannot say it."""
    here = StorePath(origin.store, below(origin.path, path))
    there = StorePath(target.store, below(target.path, path))
    view = dialect_of(target.store)
    dialect = "v3" if view is None else view.dialect
    if isinstance(node, GroupMetadata):
        return _Plan(here, there, node, replace(node, consolidated=None, dialect=dialect))
    array = Array(here.store, here.path, node, options, read_only=True)
    codecs = tuple(codec.extension() for codec in array.layout.codecs)
    encoding = node.chunk_key_encoding
    separator = encoding.configuration.get("separator", "/")
    if dialect == "v2":
        encoding = Extension("v2", {"separator": separator})
    elif encoding.name == "terrazzo.draft":
        encoding = Extension("default", {"separator": separator})
    extra = {name: value for name, value in node.extra.items() if name != FALLBACK}
    made = replace(node, codecs=codecs, chunk_key_encoding=encoding, dialect=dialect, extra=extra)
    if view is None:
        if isinstance(node.data_type, Objects):
            raise MetadataError(f"{here.name} cannot be said in Zarr 3: {OBJECTS_REFUSED}")
        if isinstance(node.data_type, NumpyRecord):
            return _Plan(here, there, node, _struct(array, made, in_place), encode=True)
        return _Plan(here, there, node, made)
    try:
        view.written(there.path, made.to_document(), {})
    except MetadataError as error:
        if in_place:
            raise type(error)(
                f"{here.name} cannot stay as it is in this format: {error}; give a destination to encode it anew",
                error.problems,
            ) from None
        return _Plan(here, there, node, _plainer(array, made, view), encode=True)
    return _Plan(here, there, node, made)


def _struct(array: Array, made: ArrayMetadata, in_place: bool) -> ArrayMetadata:
    """Records that only numpy describes as those that Zarr 3 has: packed, in one byte order."""
    try:
        data_type = data_type_from_numpy(array.dtype)
    except MetadataError as error:
        raise type(error)(f"{array.name} cannot be said in Zarr 3: {error}", error.problems) from None
    if in_place:
        raise MetadataError(
            f"{array.name} has records with several byte orders or with padding, which Zarr 3 does not have; give a "
            "destination to encode them anew"
        )
    fill = data_type.cast_fill(tuple(made.fill_value[()]))
    endian = {"endian": "little"} if data_type.needs_endian else {}
    codecs = [one for one in made.codecs if one.name != "bytes"]
    place = next((i for i, one in enumerate(made.codecs) if one.name == "bytes"), 0)
    codecs.insert(place, Extension("bytes", endian))
    return replace(made, data_type=data_type, fill_value=fill, codecs=tuple(codecs))


def _plainer(array: Array, made: ArrayMetadata, view: DialectView) -> ArrayMetadata:
    """The same array without shards, and where that is not enough, with codecs that the format has."""
    chain = array.layout.chain
    grid = Extension("regular", {"chunk_shape": list(array.chunks)})
    names = made.dimension_names
    attributes = made.attributes
    if names is not None and all(isinstance(name, str) for name in names):
        attributes = {**attributes, "_ARRAY_DIMENSIONS": list(names)}  # where xarray looks for them
    made = replace(made, chunk_grid=grid, dimension_names=None, attributes=attributes)
    made = replace(made, codecs=tuple(codec.extension() for codec in chain.codecs))
    try:
        view.written("", made.to_document(), {})
    except MetadataError:
        serializer = chain.serializer.extension()
        if made.data_type.itemsize is not None:
            serializer = Extension("bytes", {"endian": "little"} if made.data_type.needs_endian else {})
        made = replace(made, codecs=(serializer, Extension("zstd", {"level": 3})))
        view.written("", made.to_document(), {})
    return made


def _refuse_clashes(plans: list[_Plan], view: DialectView | None, in_place: bool) -> None:
    if not in_place or not isinstance(view, DraftView):
        return
    taken = sorted({plan.place.path.split("/")[0] for plan in plans} & {"meta", "data"})
    if taken:
        raise ContainsNodeError(
            f"the node {'/' + taken[0]!r} would lie where the draft keeps its own keys; give a destination"
        )


def _pairs(plan: _Plan, options: Options) -> Iterator[tuple[str, str]]:
    """Of every stored chunk inside the grid the key that it has, and the key that it gets, in the stores below."""
    if not isinstance(plan.node, ArrayMetadata) or not isinstance(plan.made, ArrayMetadata):
        return
    array = Array(plan.origin.store, plan.origin.path, plan.node, options, read_only=True)
    keys = chunk_keys_from_extension(plan.made.chunk_key_encoding)
    prefix = f"{plan.place.path}/" if plan.place.path else ""
    grid = array.shard_grid_shape
    for key in plan.origin.store.list_prefix(array.layout.prefix):
        index = array.layout.keys.parse(key[len(array.layout.prefix) :], array.ndim)
        if index is not None and all(i < n for i, n in zip(index, grid, strict=True)):
            yield _below(plan.origin.store, key), _below(plan.place.store, prefix + keys.key(index))


def _below(store: Store, key: str) -> str:
    view = dialect_of(store)
    return key if view is None else view.place(key)


def _carry_out(
    moves: list[tuple[_Plan, list[tuple[str, str]]]],
    report: Migration,
    options: Options,
    progress: Progress,
    given: StorePath,
    target: StorePath,
    link: bool,
) -> None:
    working = replace(options, durability="rename") if options.durability == "fsync" else options
    store = _plain(target.store)
    if report.in_place and report.source != report.target:
        entry = {
            "source": report.source,
            "target": report.target,
            "nodes": [plan.place.path for plan, _ in moves],
        }
        store.set(below(given.path, JOURNAL), write_json(entry, JOURNAL))
    elif not report.in_place:
        require_ancestors(target, working)
    with follow(progress, sum(len(found) for _, found in moves), "migrating") as step:
        for plan, found in moves:
            if plan.encode:
                _encode(plan, working, step, len(found))
            else:
                _name(_plain(plan.origin.store), store, found, working, report, step, link)
    # from the lowest documents up: with the root's the migration has happened
    for plan, _ in sorted(
        moves, key=lambda move: -len(move[0].place.path.split("/")) if move[0].place.path else 1
    ):
        if not plan.encode:
            write_document(plan.place.store, plan.place.path, plan.made, working)
    store.sync()


def _encode(plan: _Plan, options: Options, step: Step, count: int) -> None:
    assert isinstance(plan.made, ArrayMetadata)
    made = plan.made
    source = Array(plan.origin.store, plan.origin.path, _array_of(plan), options, read_only=True)
    array = create_array(
        plan.place,
        shape=made.shape,
        dtype=made.data_type,
        chunks=tuple(made.chunk_grid.configuration["chunk_shape"]),
        codecs=made.codecs,
        fill_value=made.fill_value,
        attributes=made.attributes,
        options=options,
        overwrite=True,
    )
    for region in regions(source):
        array[region] = source[region]
    step(count)


def _name(
    source: Store,
    target: Store,
    pairs: list[tuple[str, str]],
    options: Options,
    report: Migration,
    step: Step,
    link: bool,
) -> None:
    """A second name where that is wanted and both are files of one disk, else a copy."""
    for old, new in pairs:
        if link and _linked(source, target, old, new):
            report.linked += 1
        else:
            copy_objects(source, target, [(old, new)], options)
            report.copied += 1
        step(1)


def _linked(source: Store, target: Store, old: str, new: str) -> bool:
    if not isinstance(source, LocalStore) or not isinstance(target, LocalStore):
        return False
    there, here = (os.path.join(one.root, path_of_key(key)) for one, key in ((source, old), (target, new)))
    try:
        os.makedirs(os.path.dirname(here), exist_ok=True)
        if os.path.lexists(here):
            return os.path.samefile(there, here)
        os.link(there, here)
    except OSError:
        return False  # another disk, or a file system without links
    return True


def _compare(plan: _Plan, options: Options) -> None:
    """Every value of both, shard by shard, bit for bit."""
    found, node = find(
        StorePath(_plain(plan.place.store), plan.place.path), options, **_named(plan.place.store)
    )
    if not isinstance(node, ArrayMetadata):
        raise StoreError(f"{plan.place.name}: there is no array where one was put; nothing old was removed")
    old = Array(plan.origin.store, plan.origin.path, _array_of(plan), options, read_only=True)
    new = Array(found.store, found.path, node, options, read_only=True)
    for region in regions(new):
        one, other = np.asarray(old[region]), np.asarray(new[region])
        if one.dtype != other.dtype:
            one = one.astype(other.dtype)  # records in one byte order now
        same = (
            (one == other).all()
            if one.dtype.hasobject or one.dtype.kind == "T"
            else one.tobytes() == other.tobytes()
        )
        if not same:
            raise StoreError(
                f"{plan.place.name}: values at {region} differ after the migration; nothing old was removed"
            )


def _named(store: Store) -> dict[str, Any]:
    view = dialect_of(store)
    return {"dialect": "v3" if view is None else view.dialect}


def _journal(given: StorePath) -> dict[str, Any] | None:
    content = given.store.get(below(given.path, JOURNAL))
    if content is None:
        return None
    found = read_json(content, JOURNAL)
    known = isinstance(found, dict) and isinstance(found.get("nodes"), list)
    if not known or not {"source", "target"} <= found.keys():
        raise MetadataError(f"{JOURNAL}: is no journal of a migration; look at it, and delete it")
    return dict(found)


def _happened(given: StorePath, zarr_format: int, options: Options) -> bool:
    """Whether the root's new document is there."""
    (content,) = given.store.get_partial_values(
        [(below(given.path, "zarr.json"), (0, options.limits.metadata_nbytes))]
    )
    if zarr_format == 3:
        return content is not None and not is_entry_point(content)
    return any(given.store.exists(below(given.path, name)) for name in (".zarray", ".zgroup"))


def _confirm(given: StorePath, journal: dict[str, Any], options: Options, confirm: bool) -> Migration:
    """What is left of a migration that happened."""
    report = Migration(journal["source"], journal["target"], True, not confirm, nodes=len(journal["nodes"]))
    if confirm:
        report.removed = _remove(journal["source"], journal["nodes"], given)
    return report


def _refuse_mixing(given: StorePath, target: str) -> None:
    names = (".zarray", ".zgroup") if target == "v2" else ("zarr.json",)
    for name in names:
        content = given.store.get(below(given.path, name))
        if content is not None and not is_entry_point(content):
            raise ContainsNodeError(
                f"{given.name!r} in {given.store} has a {name} already, and not from a migration; delete one of the two"
            )


def _remove(source: str, nodes: list[str], given: StorePath) -> int:
    """The old documents, of the draft also the old names of chunks, and at last the journal."""
    store = given.store
    gone: list[str] = []
    if source in ("P", "D"):
        gone = [*store.list_prefix("meta/"), *store.list_prefix("data/")]
        store.erase_prefix("meta/")
        store.erase_prefix("data/")
    else:
        names = (".zarray", ".zgroup", ".zattrs", ".zmetadata") if source == "v2" else ("zarr.json",)
        gone = [key for node in nodes for key in (below(node, name) for name in names) if store.exists(key)]
        store.erase_values(gone)
    store.erase(below(given.path, JOURNAL))
    return len(gone)


def _array_of(plan: _Plan) -> ArrayMetadata:
    assert isinstance(plan.node, ArrayMetadata)
    return plan.node
