"""Nodes of a hierarchy: found, listed, made with the groups above them, and deleted; as documents, in few requests.

What it does not do: make Array or Group objects (opening.py), or use consolidated metadata (group.py).
Specification: Zarr core 3.0, "Hierarchy", "Operations": a group has a document of its own, always; who makes a node
makes the missing groups above it; nothing lies below an array.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from terrazzo.arrays.documents import (
    change_document,
    create_document,
    document_key,
    erase_document,
    node_from_content,
    read_contents,
    read_document,
)
from terrazzo.arrays.place import StorePath
from terrazzo.errors import (
    ConflictError,
    ContainsArrayError,
    ContainsGroupError,
    ContainsNodeError,
    GroupNotFoundError,
    LimitError,
    MetadataError,
    ReadOnlyError,
    TerrazzoWarning,
    UnsupportedError,
)
from terrazzo.layout import Layout
from terrazzo.metadata import ArrayMetadata, GroupMetadata, Node, is_node_name, sort_key
from terrazzo.options import Options
from terrazzo.stores.store import Store

__all__ = [
    "ancestors",
    "anything_at",
    "children",
    "create_node",
    "erase_node",
    "leftovers",
    "read_node",
    "read_nodes",
    "refuse_existing",
    "refuse_leftovers",
    "require_ancestors",
    "walk",
]


def read_node(place: StorePath, options: Options) -> Node | None:
    """What the document at this place says; None where there is none."""
    return read_document(place.store, place.path, options)


def read_nodes(store: Store, paths: Sequence[str], options: Options) -> list[Node | None]:
    """The nodes at many paths, in one round. A document that cannot be read is a warning and counts as none, so
    that it does not hide its neighbours; opening its node by its path says what is wrong."""
    nodes: list[Node | None] = []
    for path, content in zip(paths, read_contents(store, paths, options), strict=True):
        node = None
        if content is not None:
            try:
                node = node_from_content(store, path, content, options)
            except (MetadataError, LimitError) as error:
                warnings.warn(f"left out: {error}", TerrazzoWarning, stacklevel=3)
        nodes.append(node)
    return nodes


def children(store: Store, path: str, options: Options) -> dict[str, Node]:
    """The nodes directly below a group, by name and in order; two rounds of requests."""
    prefix = _prefix(path)
    _refuse_unlistable(store, path)
    names = [found[len(prefix) : -1] for found in store.list_dir(prefix)[1]]
    names = sorted((name for name in names if is_node_name(name)), key=sort_key)
    nodes = read_nodes(store, [prefix + name for name in names], options)
    return {name: node for name, node in zip(names, nodes, strict=True) if node is not None}


def walk(
    store: Store, path: str, options: Options, max_depth: int | None = None
) -> Iterator[tuple[str, Node]]:
    """Every node below a group with its path relative to it, level by level; `max_depth` 0: the first level alone."""
    _refuse_unlistable(store, path)
    start = _prefix(path)
    level = [""]
    depth = 0
    while level and (max_depth is None or depth <= max_depth):
        if depth >= options.limits.depth:
            raise LimitError(
                f"groups below {'/' + path!r} are nested more than {options.limits.depth} levels deep "
                "(limits.depth in the configuration)"
            )
        paths = []
        for group in level:
            prefix = start + _prefix(group)
            names = (found[len(prefix) : -1] for found in store.list_dir(prefix)[1])
            paths += [_prefix(group) + name for name in names if is_node_name(name)]
        paths.sort(key=sort_key)
        level = []
        nodes = read_nodes(store, [start + one for one in paths], options) if paths else []
        for one, node in zip(paths, nodes, strict=True):
            if node is None:
                continue
            yield one, node
            if isinstance(node, GroupMetadata):
                level.append(one)
        depth += 1


def _refuse_unlistable(store: Store, path: str) -> None:
    if not store.listable:
        raise UnsupportedError(
            f"{store!r} cannot list what is below {'/' + path!r}; open nodes by their paths, "
            "or use consolidated metadata (open_consolidated)"
        )


def ancestors(path: str) -> list[str]:
    """The paths of the groups above a node, the root first."""
    parts = path.split("/") if path else []
    return ["/".join(parts[:n]) for n in range(len(parts))]


def require_ancestors(place: StorePath, options: Options) -> None:
    """Make the missing groups above a node; ContainsArrayError where one of them is an array."""
    above = ancestors(place.path)
    if above:
        _make_missing(place, above, read_contents(place.store, above, options), options)


def _make_missing(
    place: StorePath, above: Sequence[str], contents: Sequence[bytes | None], options: Options
) -> None:
    for path, content in zip(above, contents, strict=True):
        node = None
        if content is not None:
            node = node_from_content(place.store, path, content, options)
        else:
            try:
                create_document(place.store, path, GroupMetadata(), options)
            except ConflictError:  # another writer made it just now
                node = read_document(place.store, path, options)
        if isinstance(node, ArrayMetadata):
            raise ContainsArrayError(
                f"{place.name!r} cannot be made: {'/' + path!r} in {place.store} is an array; nothing lies below it"
            )


def create_node(
    place: StorePath,
    node: Node,
    options: Options,
    *,
    overwrite: bool = False,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Make a node, and the groups above it; of two who make one at a time, one is told that it is there.

    Raises ContainsArrayError or ContainsGroupError; with `overwrite` what was there is deleted, with all below it.
    Without it, `check` is called once no node was found, before anything is made.
    """
    refuse_read_only(place)
    above = ancestors(place.path)
    if overwrite:
        erase_node(place, options)
        require_ancestors(place, options)
    elif not above and place.store.exclusion == "versions":
        check()  # whether a node is there, the write tells
    else:
        content, *contents = read_contents(place.store, [place.path, *above], options)
        if content is not None:
            _refuse(place, node_from_content(place.store, place.path, content, options))
        check()
        _make_missing(place, above, contents, options)
    try:
        create_document(place.store, place.path, node, options)
    except ConflictError:
        refuse_existing(place, options)
        raise


def refuse_existing(place: StorePath, options: Options) -> None:
    """Raise ContainsArrayError or ContainsGroupError where a node is."""
    _refuse(place, read_node(place, options))


def _refuse(place: StorePath, node: Node | None) -> None:
    if isinstance(node, ArrayMetadata):
        raise ContainsArrayError(f"there is an array at {place.name!r} in {place.store} already; {_HINT}")
    if isinstance(node, GroupMetadata):
        raise ContainsGroupError(f"there is a group at {place.name!r} in {place.store} already; {_HINT}")


_HINT = "pass overwrite=True to replace it with all that is below it, or choose another name"


def refuse_read_only(place: StorePath) -> None:
    if place.read_only:
        raise ReadOnlyError(
            f"{place.store} was opened for reading; open it with mode='r+' or 'a' to write {place.name!r}"
        )


def anything_at(place: StorePath) -> bool:
    """Whether any object is stored at or below a place, a node's or another's."""
    store = place.store
    if not (store.listable and store.exclusion != "locks") and store.exists(document_key(place.path)):
        return True
    return store.listable and next(iter(store.list_prefix(_prefix(place.path))), None) is not None


def refuse_anything(place: StorePath, options: Options) -> None:
    """What mode "w-" asks for: nothing may be there."""
    if place.store.exclusion != "locks" and place.store.listable and not anything_at(place):
        return
    refuse_existing(place, options)
    if anything_at(place):
        raise ContainsNodeError(
            f"mode='w-' makes a new node, and something is stored at {place.name!r} in {place.store} already; "
            "choose another place, or mode='w' to delete it"
        )


def leftovers(store: Store, layout: Layout) -> Iterator[str]:
    """The keys of chunks that lie where an array is about to be: of one that was deleted by halves, or never ended."""
    if not store.listable:
        return
    start = len(layout.prefix)
    for key in store.list_prefix(layout.prefix):
        if layout.keys.parse(key[start:], layout.ndim) is not None:
            yield key


def refuse_leftovers(place: StorePath, layout: Layout, options: Options) -> None:
    """Chunks without a document would show up as values of the array that is made over them."""
    first = next(leftovers(place.store, layout), None)
    if first is not None:
        refuse_existing(place, options)  # another writer made the array just now, and writes already
        raise ContainsNodeError(
            f"there is no array at {place.name!r} in {place.store}, but chunks of one ({first!r}), left by a "
            "deletion or a copy that was cut short; pass overwrite=True to delete them"
        )


def erase_node(place: StorePath, options: Options) -> None:
    """Delete a node with everything below it; absence is no error. The document goes first: what is half deleted is
    no node any more."""
    refuse_read_only(place)
    store, path = place.store, place.path
    if not store.erasable:
        if anything_at(place):
            raise UnsupportedError(
                f"{store!r} cannot delete, so what is at {place.name!r} cannot be replaced; make a new store beside it"
            )
        return
    if store.listable:
        # far away a look costs as much as the deletion
        if store.exclusion != "locks" or store.exists(document_key(path)):
            erase_document(store, path, options)
        store.erase_prefix(_prefix(path))
        return
    node = read_node(place, options)
    if isinstance(node, GroupMetadata):
        raise UnsupportedError(
            f"{store!r} cannot list what is below the group {place.name!r}, so it cannot be deleted; "
            "delete its arrays by their paths"
        )
    if node is not None:
        erase_document(store, path, options)
        store.erase_values(_computed_keys(Layout.build(node, path, options)))


def _computed_keys(layout: Layout) -> Iterator[str]:
    """The keys of every chunk that an array could have, for stores that cannot list."""
    count = layout.grid.grid_shape(layout.shape)
    index = [0] * len(count)
    if 0 in count:
        return
    while True:
        yield layout.prefix + layout.keys.key(index)
        for axis in reversed(range(len(count))):
            index[axis] += 1
            if index[axis] < count[axis]:
                break
            index[axis] = 0
        else:
            return


def change_group(place: StorePath, attributes: dict[str, object], options: Options) -> GroupMetadata:
    """Replace a group's attributes."""
    return change_document(
        place.store, place.path, GroupMetadata, lambda node: replace(node, attributes=attributes), options
    )


def group_at(place: StorePath, options: Options) -> GroupMetadata:
    """The group's document at a place; GroupNotFoundError, or ContainsArrayError where it is an array."""
    node = read_node(place, options)
    if isinstance(node, ArrayMetadata):
        raise ContainsArrayError(f"there is an array at {place.name!r} in {place.store}, not a group")
    if node is None:
        raise GroupNotFoundError(f"there is no group at {place.name!r} in {place.store}")
    return node


def _prefix(path: str) -> str:
    return f"{path}/" if path else ""
