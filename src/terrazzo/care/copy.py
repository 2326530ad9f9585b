"""The copy of an array or a hierarchy into other chunks, shards or codecs.

What it does not do: change the source, or copy what belongs to no node. Blocks of whole destination shards are moved,
so that no shard is written twice; where nothing of an array changes, its objects are copied as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any

from terrazzo.arrays.array import Array
from terrazzo.arrays.documents import read_document
from terrazzo.arrays.place import StorePath
from terrazzo.blocks import transfer
from terrazzo.config import options_from
from terrazzo.dialects import V2View, dialect_of
from terrazzo.errors import KeyRefusedError, NodeNotFoundError, TerrazzoError
from terrazzo.groups.creating import from_array
from terrazzo.groups.formats import settled
from terrazzo.groups.group import Group
from terrazzo.groups.nodes import create_node, refuse_existing
from terrazzo.groups.places import StoreLike, place_of, trusted
from terrazzo.metadata import ArrayMetadata, GroupMetadata, Node, is_node_name, normalize_path, sort_key
from terrazzo.options import Options
from terrazzo.progress import Progress, Step, follow
from terrazzo.stores.store import Store

__all__ = ["copy"]


def copy(
    source: Any,
    destination: StoreLike,
    *,
    name: str | None = None,
    chunks: Any = "keep",
    shards: Any = "keep",
    filters: Any = "keep",
    compressors: Any = "keep",
    serializer: Any = "keep",
    index_location: str | None = None,
    overwrite: bool = False,
    memory: int | None = None,
    verify: bool = False,
    progress: Progress = None,
    source_options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Array | Group:
    """Copy an array, or a group with all that is below it, and answer the new node.

    source: an Array, a Group, or anything that `open` takes; destination and name: where the copy goes, as in
    `create_array`. chunks, shards, filters, serializer, compressors, index_location: as in `create_array`, for every
    array; "keep" leaves them as they are. Attributes, names, fill values and data types stay.

    At most `memory` bytes of values are held twice (by default the setting of that name), and one shard at least.
    verify: every block is read back and compared, bit for bit. progress: counts bytes of values. source_options,
    storage_options: for the URLs of the source and of the destination. When it returns the copy is durable (in an
    archive once its store is closed); after an error a part of it is there, and `overwrite=True` starts again.

    Raises NodeNotFoundError, ContainsNodeError, ValueError where one place lies in the other, StoreError where a copy
    reads back otherwise. Consolidated metadata are left out: consolidate the copy. Keys that belong to no node stay.
    """
    how = {
        "chunks": chunks,
        "shards": shards,
        "filters": filters,
        "compressors": compressors,
        "serializer": serializer,
    }
    options = trusted(source, options_from(None))
    origin = settled(place_of(source, mode="r", storage_options=source_options), options)
    target = place_of(destination, name, storage_options=storage_options)
    _refuse_nested(origin, target)
    nodes = list(_nodes(origin, options))
    # every document is understood before anything is written
    arrays = {
        path: Array(origin.store, below(origin.path, path), node, options, read_only=True)
        for path, node in nodes
        if isinstance(node, ArrayMetadata)
    }
    if not overwrite:
        refuse_existing(target, options)
    total = sum(array.size * array.dtype.itemsize for array in arrays.values())
    working = replace(options, durability="rename") if options.durability == "fsync" else options
    with follow(progress, total, "copying") as step:
        for path, node in nodes:
            place = StorePath(target.store, below(target.path, path))
            over = overwrite and path == ""  # what lay below the root is gone with it
            if isinstance(node, GroupMetadata):
                create_node(place, replace(node, consolidated=None), working, overwrite=over)
                continue
            changes = dict(how) if index_location is None else {**how, "index_location": index_location}
            _copy_array(arrays[path], place, changes, working, over, memory or options.memory, verify, step)
    target.store.sync()
    root = read_document(target.store, target.path, options)
    if isinstance(root, ArrayMetadata):
        return Array(target.store, target.path, root, options)
    assert isinstance(root, GroupMetadata)
    return Group(target.store, target.path, root, options)


def below(path: str, name: str) -> str:
    """The path of a node from that of a group and the node's path below it."""
    return f"{path}/{name}".strip("/")


def _refuse_unreachable(found: Iterable[str]) -> None:
    """What cannot be seen would be left out."""
    for node in found:
        try:
            normalize_path(node)
        except KeyRefusedError as error:
            raise KeyRefusedError(
                f"'/{node}' is a node of Zarr 2 that Zarr 3 does not allow; rename its folder first: {error}"
            ) from None


def _nodes(place: StorePath, options: Options) -> Iterator[tuple[str, Node]]:
    """The node at a place and every node below it, with paths relative to it, groups before what is in them."""
    node = read_document(place.store, place.path, options)
    if node is None:
        raise NodeNotFoundError(f"there is no array and no group at {place.name!r} in {place.store}")
    yield "", node
    if isinstance(node, ArrayMetadata):
        return
    view = dialect_of(place.store)
    if not place.store.listable and node.consolidated is not None:
        if isinstance(view, V2View):
            _refuse_unreachable(view.unreachable_consolidated(place.path))
        for path in sorted(node.consolidated.documents, key=sort_key):
            yield path, node.member(path, options)
        return
    waiting = [""]
    while waiting:
        group = waiting.pop()
        if group.count("/") >= options.limits.depth:
            raise TerrazzoError(
                f"groups below {place.name!r} are nested more than {options.limits.depth} levels deep"
            )
        full = below(place.path, group)
        prefix = f"{full}/" if full else ""
        names = [found[len(prefix) : -1] for found in place.store.list_dir(prefix)[1]]
        if isinstance(view, V2View):
            _refuse_unreachable(view.unreachable(full, names))
        for name in sorted(filter(is_node_name, names), key=sort_key):
            path = below(group, name)
            found = read_document(place.store, below(place.path, path), options)
            if found is None:
                continue  # keys without a document belong to no node
            yield path, found
            if isinstance(found, GroupMetadata):
                waiting.append(path)


def _refuse_nested(origin: StorePath, target: StorePath) -> None:
    one, other = _absolute(origin), _absolute(target)
    if one[0] != other[0]:
        return
    first, second = (f"{path}/".lstrip("/") for _, path in (one, other))
    if first.startswith(second) or second.startswith(first):
        raise ValueError(
            f"{origin} and {target} are the same place, or one lies in the other; copy to a place outside, and move "
            "or delete then"
        )


def _absolute(place: StorePath) -> tuple[object, str]:
    """What tells a place from others: a store below all faces and its path there; for files, the whole path.

    Stores of nested folders do not know of one another.
    """
    store, path = place.store, place.path
    while isinstance(inner := getattr(store, "store", None), Store):
        store, path = inner, f"{getattr(store, 'prefix', '')}{path}"
    root = getattr(store, "root", None)
    if isinstance(root, str):
        return "file", f"{root}/{path}".rstrip("/")
    return store.identity, path


def _copy_array(
    source: Array,
    place: StorePath,
    how: dict[str, Any],
    options: Options,
    overwrite: bool,
    memory: int,
    verify: bool,
    step: Step,
) -> None:
    if (
        how["chunks"] == "keep"
        and how["shards"] not in ("keep", None)
        and source.layout.grid.uniform_shape is not None
    ):
        how["chunks"] = source.chunks  # the stored chunks of a plain array become the inner chunks of shards
    array = from_array(place, data=source, write_data=False, overwrite=overwrite, options=options, **how)
    if not verify and _same_objects(source, array):
        _copy_objects(source, array, step)
        return
    transfer(
        source.get_basic_selection,
        array,
        array.layout.grid.uniform_shape or array.write_chunk_sizes,
        memory,
        step=step,
        verify=verify,
        words=f"the array {array.name!r}",
    )


def _same_objects(source: Array, array: Array) -> bool:
    """Whether the stored chunks of one array are those of the other, byte for byte."""
    return (
        source.store.listable
        and source.metadata.to_document() == array.metadata.to_document()
        and not source.metadata.storage_transformers
    )


def _copy_objects(source: Array, array: Array, step: Step) -> None:
    """Every chunk or shard as it is, one at a time."""
    grid = source.shard_grid_shape
    left = source.size * source.dtype.itemsize
    share = left // max(1, prod(grid))
    for key in source.store.list_prefix(source.layout.prefix):
        rest = key.removeprefix(source.layout.prefix)
        index = source.layout.keys.parse(rest, source.ndim)
        if index is None or any(i >= n for i, n in zip(index, grid, strict=True)):
            continue
        stored = source.store.get(key)
        if stored is not None:
            array.store.set(array.layout.prefix + rest, stored)
        step(min(share, left))
        left -= min(share, left)
    step(left)
