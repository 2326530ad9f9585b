"""Opening what is there, and making it where the mode says so: open, open_array, open_group, group, create_group.

What it does not do: know stores by their names (stores/open.py), or make documents of arrays (arrays/creation.py).

Modes, as in zarr-python: "r" reads, "r+" reads and writes, both need the node to be there; "a" makes it where it is
missing; "w" deletes what is there, with everything below, and makes it; "w-" makes it where nothing is.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Unpack

from terrazzo.arrays.array import Array
from terrazzo.arrays.place import StorePath
from terrazzo.errors import (
    ArrayNotFoundError,
    ContainsArrayError,
    ContainsGroupError,
    GroupNotFoundError,
    NodeTypeValidationError,
    TerrazzoWarning,
)
from terrazzo.groups.creating import IGNORED, Settings, create, create_array, resolve_settings
from terrazzo.groups.filled import like
from terrazzo.groups.formats import Format, find, making, stored_as, wanted_dialect
from terrazzo.groups.group import Group, node_object
from terrazzo.groups.nodes import create_node, erase_node, read_node, refuse_anything, refuse_existing
from terrazzo.groups.places import StoreLike, check_mode, place_of
from terrazzo.metadata import ArrayMetadata, GroupMetadata, Node, normalize_path, sort_key
from terrazzo.metadata.draft_types import Fallback
from terrazzo.options import Options
from terrazzo.strategy import Strategy

__all__ = [
    "create_group",
    "create_hierarchy",
    "group",
    "open",
    "open_array",
    "open_consolidated",
    "open_group",
    "open_like",
]


def open(
    store: StoreLike = None,
    *,
    mode: str | None = None,
    zarr_format: int | None = None,
    path: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **how: Any,
) -> Array | Group:
    """Open the array or group that is there; where nothing is, make a group, or, with `shape`, an array.

    mode: "a" unless given ("r" for a store that cannot be written to). zarr_format, dialect: the format, found out
    where nobody says; see `open_array`. Further arguments as in `open_array` or `open_group`.

    >>> root = open({}, mode="w")
    >>> open(root.store, path="a/b", shape=5, dtype="i2").shape
    (5,)
    >>> open(root.store, mode="r")["a"]
    <terrazzo.Group ...>
    """
    _refuse_unknown("open", how, "use_consolidated")
    form = _format(zarr_format, how)
    place = place_of(store, path, mode=mode, storage_options=storage_options)
    if mode is None:
        mode = "r" if place.read_only else "a"
    if "shape" in how or "data" in how or (mode == "w-" and "dtype" in how):
        return open_array(place, mode=mode, **form, **how)
    settings: Settings = {name: how.pop(name) for name in Settings.__annotations__ if name in how}  # type: ignore[assignment]
    if mode in ("r", "r+", "a"):
        options, strategy = resolve_settings(**settings)
        place, node = find(place, options, **form)
        if isinstance(node, ArrayMetadata):
            return Array(place.store, place.path, node, options, strategy, mode == "r")
        if node is not None and not how.keys() - {"attributes", "use_consolidated"}:
            return _group(place, node, options, strategy, mode, how.get("use_consolidated"))
        if node is None and mode != "a":
            raise GroupNotFoundError(
                f"there is no array or group at {place.name!r} in {place.store}{_hint(mode)}"
            )
    allowed = {"attributes", "use_consolidated"}
    if how.keys() - allowed:
        raise TypeError(
            f"{', '.join(sorted(how.keys() - allowed))} belong to an array; to make one, give shape too"
        )
    return open_group(place, mode=mode, **form, **settings, **how)


def open_array(
    store: StoreLike = None,
    *,
    mode: str | None = None,
    zarr_format: int | None = None,
    path: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    **how: Any,
) -> Array:
    """Open an array, or make it where the mode says so; then further arguments as in `create`, `shape` foremost.

    mode: without one the array must be there, and is open for writing where the store is. strategy, options,
    durability, config: how work is done. Raises ArrayNotFoundError, NodeTypeValidationError where a group is.
    zarr_format: 2 or 3, where both are in one place or a new array is made. dialect: the same, and for the draft of
    2022 "P" (as zarr-python 2.12 to 2.18 wrote it) or "D" (to the letter). fallback: "error", "warn" or "use" the
    fallback of a data type of the draft that is not known. chunks_per_shard: of an array of the draft that lost it.

    >>> store = {}
    >>> open_array(store, mode="w", shape=(2, 2), dtype="u1")[0].tolist()
    [0, 0]
    >>> open_array(store).dtype
    dtype('uint8')
    """
    _refuse_unknown("open_array", how)
    form = _format(zarr_format, how)
    place = place_of(store, path, mode=mode, storage_options=storage_options)
    settings: Any = {name: how.pop(name) for name in ("options", "durability", "strategy") if name in how}
    settings["config"] = config
    options, strategy = resolve_settings(**settings)
    if mode == "w-":
        refuse_anything(place, options)
    elif mode != "w":
        place, node = find(place, options, **form)
        if isinstance(node, ArrayMetadata):
            return Array(place.store, place.path, node, options, strategy, mode == "r")
        if node is not None:
            raise NodeTypeValidationError(
                f"there is a group at {place.name!r} in {place.store}, not an array"
            )
        if mode != "a":
            raise ArrayNotFoundError(f"there is no array at {place.name!r} in {place.store}{_hint(mode)}")
    if "shape" not in how:
        if "data" not in how:
            raise TypeError(
                f"there is no array at {place.name!r} in {place.store} yet, and to make one, shape is needed"
            )
        how["shape"] = how["data"].shape
    try:
        said: Any = {name: form[name] for name in ("zarr_format", "dialect") if name in form}
        return create(store=place, overwrite=mode == "w", **said, **settings, **how)
    except ContainsArrayError:
        if mode != "a":
            raise
    return open_array(place, mode="r+", **form, **settings)  # another writer made it just now


def open_group(
    store: StoreLike = None,
    *,
    mode: str = "a",
    path: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    zarr_format: int | None = None,
    dialect: str | None = None,
    fallback: Fallback = "error",
    chunks_per_shard: Any = None,
    attributes: Mapping[str, Any] | None = None,
    use_consolidated: bool | None = None,
    cache_attrs: Any = None,
    synchronizer: Any = None,
    chunk_store: Any = None,
    meta_array: Any = None,
    **how: Unpack[Settings],
) -> Group:
    """Open a group, or make it where the mode says so, with `attributes`.

    use_consolidated: None uses consolidated metadata where the group is open for reading, or the store cannot list;
    True needs them to be there; False leaves them alone. Raises GroupNotFoundError, ContainsArrayError.
    zarr_format, dialect, fallback, chunks_per_shard: the format, see `open_array`; for all that is below.

    >>> measurements = open_group({}, attributes={"title": "rain"})
    >>> measurements.attrs["title"]
    'rain'
    """
    _ignored(
        cache_attrs=cache_attrs, synchronizer=synchronizer, chunk_store=chunk_store, meta_array=meta_array
    )
    check_mode(mode)
    form: Format = {
        **({} if zarr_format is None else {"zarr_format": zarr_format}),
        **({} if dialect is None else {"dialect": dialect}),
        "fallback": fallback,
        "chunks_per_shard": chunks_per_shard,
    }
    wanted_dialect(zarr_format, dialect)
    place = place_of(store, path, mode=mode, storage_options=storage_options)
    options, strategy = resolve_settings(**how)
    if mode == "w-":
        refuse_anything(place, options)
    elif mode != "w":
        place, node = find(place, options, **form)
        if isinstance(node, ArrayMetadata):
            raise ContainsArrayError(f"there is an array at {place.name!r} in {place.store}, not a group")
        if node is not None:
            return _group(place, node, options, strategy, mode, use_consolidated)
        if mode != "a" or place.read_only:
            raise GroupNotFoundError(f"there is no group at {place.name!r} in {place.store}{_hint(mode)}")
    if use_consolidated:
        raise GroupNotFoundError(
            f"there is no group with consolidated metadata at {place.name!r} in {place.store}"
        )
    place, made = making(place, options, zarr_format, dialect, overwrite=mode == "w")
    metadata = GroupMetadata(attributes=dict(attributes or {}), dialect=stored_as(made))
    try:
        create_node(place, metadata, options, overwrite=mode == "w")
    except ContainsGroupError:
        if mode != "a":
            raise
        return open_group(place, mode="r+", **how)  # another writer made it just now
    return Group(place.store, place.path, metadata, options, strategy)


def open_consolidated(*args: Any, use_consolidated: bool = True, **how: Any) -> Group:
    """Open a group that has consolidated metadata, by which its members are listed without further requests.

    >>> root = open_group({})
    >>> _ = root.create_array("x", shape=3, dtype="f4")
    >>> from terrazzo import consolidate_metadata
    >>> _ = consolidate_metadata(root.store)
    >>> list(open_consolidated(root.store, mode="r"))
    ['x']
    """
    if use_consolidated is not True:
        raise TypeError(
            "open_consolidated uses consolidated metadata; for any other wish there is open_group"
        )
    return open_group(*args, use_consolidated=True, **how)


def open_like(a: Any, path: str, **how: Any) -> Array:
    """Open the array at `path`, or make it like `a`; further arguments as in `open_array`.

    >>> open_like(open_array({}, mode="w", shape=4, dtype="i8"), "", store={}).shape
    (4,)
    """
    return open_array(path=path, **{"mode": "a", **like(a, how)})


def create_group(
    store: StoreLike,
    *,
    path: str | None = None,
    zarr_format: int | None = None,
    dialect: str | None = None,
    overwrite: bool = False,
    attributes: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **how: Unpack[Settings],
) -> Group:
    """Make a group; ContainsGroupError or ContainsArrayError where a node is, unless `overwrite` deletes it.

    >>> create_group({}, path="a/b").name
    '/a/b'
    """
    place = place_of(store, path, storage_options=storage_options)
    return Group.from_store(
        place, attributes=attributes, overwrite=overwrite, zarr_format=zarr_format, dialect=dialect, **how
    )


def group(
    store: StoreLike = None,
    *,
    overwrite: bool = False,
    path: str | None = None,
    zarr_format: int | None = None,
    dialect: str | None = None,
    attributes: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache_attrs: Any = None,
    synchronizer: Any = None,
    chunk_store: Any = None,
    meta_array: Any = None,
    **how: Unpack[Settings],
) -> Group:
    """The group that is there, or a new one.

    >>> group(attributes={"a": 1}).attrs.asdict()
    {'a': 1}
    """
    _ignored(
        cache_attrs=cache_attrs, synchronizer=synchronizer, chunk_store=chunk_store, meta_array=meta_array
    )
    form: Any = {"zarr_format": zarr_format, "dialect": dialect}
    place = place_of(store, path, storage_options=storage_options)
    if overwrite:
        return Group.from_store(place, attributes=attributes, overwrite=True, **form, **how)
    return open_group(place, mode="r" if place.read_only else "a", attributes=attributes, **form, **how)


def create_hierarchy(
    *, store: StoreLike, nodes: Mapping[str, Node], overwrite: bool = False, **how: Unpack[Settings]
) -> Iterator[tuple[str, Array | Group]]:
    """Make many nodes at once from their documents, by path, and the groups above them; answers what was made.

    All of them are checked before the first is written. With `overwrite` what is at one of the paths is deleted.

    >>> from terrazzo.metadata import GroupMetadata
    >>> [
    ...     path
    ...     for path, _ in create_hierarchy(store={}, nodes={"a/b": GroupMetadata(), "a/c": GroupMetadata()})
    ... ]
    ['', 'a', 'a/b', 'a/c']
    """
    place = place_of(store)
    options, strategy = resolve_settings(**how)
    wanted = _with_groups_between({normalize_path(path): node for path, node in nodes.items()})
    paths = sorted(wanted, key=lambda path: (path.count("/") + bool(path), sort_key(path)))
    implied = wanted.keys() - {normalize_path(path) for path in nodes}
    for path in paths:
        node, here = wanted[path], _at(place, path)
        if isinstance(node, ArrayMetadata):
            Array(here.store, here.path, node, options)  # checks the document
        if not overwrite and path not in implied:
            refuse_existing(here, options)
    if overwrite:
        for path in paths:
            if path not in implied and not _below_another(path, nodes):
                erase_node(_at(place, path), options)
    made: list[tuple[str, Array | Group]] = []
    for path in paths:
        node, here = wanted[path], _at(place, path)
        if path in implied:
            found = read_node(here, options)
            if found is not None:
                if isinstance(found, ArrayMetadata):
                    raise ContainsArrayError(
                        f"there is an array at {here.name!r} in {here.store}; nothing lies below one"
                    )
                continue
        create_node(here, node, options)
        made.append((path, node_object(here, node, options, strategy, False)))
    return iter(made)


def _group(
    place: StorePath,
    node: GroupMetadata,
    options: Options,
    strategy: Strategy,
    mode: str,
    use_consolidated: bool | None,
) -> Group:
    if use_consolidated and node.consolidated is None:
        raise ValueError(
            f"the group at {place.name!r} in {place.store} has no consolidated metadata; "
            "consolidate_metadata makes them, use_consolidated=False does without"
        )
    return Group(place.store, place.path, node, options, strategy, mode == "r", use_consolidated)


def _refuse_unknown(function: str, how: Mapping[str, Any], *also: str) -> None:
    """A misspelt argument is an error before anything is asked, and also where nothing has to be made."""
    known = {*also, *IGNORED, *Format.__annotations__, "storage_options"}
    for maker in (create, create_array):
        code = maker.__code__
        known.update(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    for name in how.keys() - known:
        from difflib import get_close_matches

        close = get_close_matches(name, known, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")


def _format(zarr_format: int | None, how: dict[str, Any]) -> Format:
    """What was said about the format, taken out of the other arguments."""
    form: Any = {name: how.pop(name) for name in Format.__annotations__ if name in how}
    if zarr_format is not None:
        form["zarr_format"] = zarr_format
    wanted_dialect(zarr_format, form.get("dialect"))
    found: Format = form
    return found


def _with_groups_between(nodes: Mapping[str, Node]) -> dict[str, Node]:
    """The nodes, and the groups above them that nobody named."""
    found = dict(nodes)
    for path in nodes:
        while path:
            path = path.rpartition("/")[0]
            above = found.setdefault(path, GroupMetadata())
            if isinstance(above, ArrayMetadata):
                raise ContainsArrayError(
                    f"{'/' + path!r} is an array among these nodes, and nothing lies below one"
                )
    return found


def _below_another(path: str, nodes: Mapping[str, Node]) -> bool:
    wanted = {normalize_path(one) for one in nodes}
    while path:
        path = path.rpartition("/")[0]
        if path in wanted:
            return True
    return False


def _at(place: StorePath, path: str) -> StorePath:
    return place / path if path else place


def _hint(mode: str | None) -> str:
    if mode == "r":
        return ""
    return "; mode='a' makes it" if mode == "r+" else "; mode='a' or 'w' makes it"


def _ignored(**arguments: Any) -> None:
    for name, value in arguments.items():
        if value is not None:
            warnings.warn(f"{name} has no effect", TerrazzoWarning, stacklevel=3)
