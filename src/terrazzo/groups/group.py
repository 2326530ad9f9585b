"""Group: what a user holds of a place with arrays and groups below it.

What it does not do: read or write elements (arrays), or know stores from URLs (opening.py).
Specification: Zarr core 3.0, "Group metadata", "Operations".

Consolidated metadata. A group that is open for reading answers out of the consolidated metadata in its document, where
there is any: no further request, and no look whether they are still true. A group that is open for writing reads the
documents themselves, since writing to an array whose document is an old one would lose data; it uses the consolidated
ones for listing, and only where that is asked for (`use_consolidated=True`) or the store cannot list.
`use_consolidated=False` never uses them. They are brought up to date by `consolidate_metadata`, and by nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Self, TypeVar, Unpack

from terrazzo.arrays.array import Array
from terrazzo.arrays.attributes import Attributes
from terrazzo.arrays.describe import Lines
from terrazzo.arrays.documents import change_document
from terrazzo.arrays.place import Placed, StorePath
from terrazzo.errors import (
    ArrayNotFoundError,
    ConflictError,
    ContainsArrayError,
    ContainsGroupError,
    GroupNotFoundError,
    NodeNotFoundError,
    ReadOnlyError,
    TerrazzoError,
)
from terrazzo.groups.creating import How, Settings, create_array, resolve_settings
from terrazzo.groups.formats import making, stored_as
from terrazzo.groups.members import Members
from terrazzo.groups.nodes import children, create_node, erase_node, read_node, walk
from terrazzo.groups.places import StoreLike, place_of
from terrazzo.groups.tree import Tree
from terrazzo.metadata import ArrayMetadata, ConsolidatedMetadata, GroupMetadata, Node, normalize_path
from terrazzo.options import Options
from terrazzo.stores.store import Store
from terrazzo.strategy import Strategy

__all__ = ["Group", "node_object"]

D = TypeVar("D")


class Group(Placed, Members):
    """A group of arrays and groups in a store. Get one from `terrazzo.open_group` or `terrazzo.create_group`.

    >>> group = Group.from_store(None, attributes={"title": "measurements"})
    >>> group["rain/hourly"] = np.arange(24.0)
    >>> sorted(group), group["rain"]["hourly"].shape
    (['rain'], (24,))
    """

    def __init__(
        self,
        store: Store,
        path: str,
        metadata: GroupMetadata,
        options: Options,
        strategy: Strategy | None = None,
        read_only: bool = False,
        use_consolidated: bool | None = None,
    ) -> None:
        self._store = store
        self._path = path
        self._metadata = metadata
        self._options = options
        self._strategy = strategy
        self._read_only = read_only or not store.writable
        self._use_consolidated = use_consolidated

    def __getstate__(self) -> tuple[Any, ...]:
        return (
            self._store,
            self._path,
            self._metadata,
            self._options,
            self._strategy,
            self._read_only,
            self._use_consolidated,
        )

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    @classmethod
    def open(cls, store: StoreLike, zarr_format: int | None = None, **how: Unpack[Settings]) -> Group:
        """The group at the root of a store (or at a StorePath), for reading and writing where the store allows it."""
        from terrazzo.groups.opening import open_group

        mode = "r" if place_of(store).read_only else "r+"
        return open_group(store, mode=mode, zarr_format=zarr_format, **how)

    @classmethod
    def from_store(
        cls,
        store: StoreLike,
        *,
        attributes: Mapping[str, Any] | None = None,
        zarr_format: int | None = None,
        dialect: str | None = None,
        overwrite: bool = False,
        **how: Unpack[Settings],
    ) -> Group:
        """Make a group at the root of a store (or at a StorePath)."""
        options, strategy = resolve_settings(**how)
        place, made = making(place_of(store), options, zarr_format, dialect, overwrite=overwrite)
        metadata = GroupMetadata(attributes=dict(attributes or {}), dialect=stored_as(made))
        create_node(place, metadata, options, overwrite=overwrite)
        return cls(place.store, place.path, metadata, options, strategy)

    # what it is

    @property
    def metadata(self) -> GroupMetadata:
        return self._metadata

    @property
    def attrs(self) -> Attributes:
        """The attributes; each change is written at once."""
        return Attributes(lambda: self._metadata.attributes, self._change_attributes)

    def update_attributes(self, new_attributes: Mapping[str, Any]) -> Group:
        """Set several attributes in one write."""
        self.attrs.update(new_attributes)
        return self

    def _change_attributes(self, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
        self._refuse_reading()
        self._metadata = change_document(
            self._store,
            self._path,
            GroupMetadata,
            lambda document: replace(document, attributes=dict(change(document.attributes))),
            self._options,
        )

    @property
    def info(self) -> Lines:
        """What the group is, readable; nothing is read for it."""
        return Lines(
            [
                ("Name", self.name),
                ("Type", "Group"),
                ("Zarr format", self._metadata.zarr_format),
                ("Read-only", self._read_only),
                ("Store type", type(self._store).__name__),
                ("Consolidated metadata", self._metadata.consolidated is not None),
            ]
        )

    def info_complete(self) -> Lines:
        """`info`, and the number of nodes at every depth below."""
        nodes = [node for _, node in self._documents(None)]
        arrays = sum(isinstance(node, ArrayMetadata) for node in nodes)
        counted = [("No. members", len(nodes)), ("No. arrays", arrays), ("No. groups", len(nodes) - arrays)]
        return Lines([*((name, self.info[name]) for name in self.info.keys()), *counted])

    def tree(
        self,
        expand: bool | None = None,
        level: int | None = None,
        *,
        max_nodes: int = 500,
        plain: bool = False,
    ) -> Tree:
        """A picture of what is below, `level` levels deep (None: all)."""
        if level is not None and level < 1:
            return Tree([])
        return Tree(self._documents(None if level is None else level - 1), level=level, max_nodes=max_nodes)

    # nodes below

    def __getitem__(self, path: str) -> Array | Group:
        node = self._find(path)
        if node is None:
            raise NodeNotFoundError(self._absence(path))
        return node

    def get(self, path: str, default: D | None = None) -> Array | Group | D | None:
        """The node at a path below, or `default` where there is none."""
        node = self._find(path)
        return default if node is None else node

    def get_array(self, path: str) -> Array:
        """The array at a path below; ArrayNotFoundError, or ContainsGroupError where it is a group."""
        node = self._find(path)
        if isinstance(node, Group):
            raise ContainsGroupError(f"there is a group at {node.name!r} in {self._store}, not an array")
        if node is None:
            raise ArrayNotFoundError(self._absence(path))
        return node

    def get_group(self, path: str) -> Group:
        """The group at a path below; GroupNotFoundError, or ContainsArrayError where it is an array."""
        node = self._find(path)
        if isinstance(node, Array):
            raise ContainsArrayError(f"there is an array at {node.name!r} in {self._store}, not a group")
        if node is None:
            raise GroupNotFoundError(self._absence(path))
        return node

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and self._look(normalize_path(path)) is not None

    def _find(self, path: str) -> Array | Group | None:
        below = normalize_path(path)
        if not below:
            return self
        node = self._look(below)
        return None if node is None else self._object(below, node)

    def _look(self, below: str) -> Node | None:
        """The document of a node below: out of consolidated metadata where this group is open for reading alone."""
        if self._read_only and self._consolidated is not None:
            return (
                self._metadata.member(below, self._options) if below in self._consolidated.documents else None
            )
        return read_node(self.store_path / below, self._options)

    def _absence(self, path: str) -> str:
        text = f"there is no {path!r} in the group {self.name!r} of {self._store}"
        above, _, wanted = normalize_path(path).rpartition("/")
        try:
            group = self._find(above)
            names = list(group) if isinstance(group, Group) else []
        except (TerrazzoError, OSError):
            return text
        import difflib

        near = difflib.get_close_matches(wanted, names, 1)
        if near:
            return f"{text}; did you mean {near[0]!r}?"
        shown = ", ".join(map(repr, sorted(names)[:8])) + (", …" if len(names) > 8 else "")
        return f"{text}; there are {shown}" if names else text

    def _object(self, below: str, node: Node) -> Array | Group:
        path = f"{self._path}/{below}" if self._path else below
        wanted = False if self._consolidated is None else None
        return node_object(
            StorePath(self._store, path), node, self._options, self._strategy, self._read_only, wanted
        )

    # listing

    @property
    def _consolidated(self) -> ConsolidatedMetadata | None:
        """The consolidated metadata, where this group may use them."""
        found = self._metadata.consolidated
        if found is None or self._use_consolidated is False:
            return None
        wanted = self._read_only or self._use_consolidated or not self._store.listable
        return found if wanted else None

    def _documents(self, max_depth: int | None) -> Iterator[tuple[str, Node]]:
        """The nodes below, level by level."""
        if max_depth is not None and max_depth < 0:
            raise ValueError(
                f"max_depth is {max_depth}; 0 (this group's own members) or more is allowed, or None for all"
            )
        if self._consolidated is None:
            if max_depth == 0:
                yield from children(self._store, self._path, self._options).items()
            else:
                yield from walk(self._store, self._path, self._options, max_depth)
            return
        levels = [""]
        depth = 0
        while levels and (max_depth is None or depth <= max_depth):
            below = []
            for group in levels:
                for name in self._consolidated.children(group):
                    path = f"{group}/{name}" if group else name
                    node = self._metadata.member(path, self._options)
                    yield path, node
                    if isinstance(node, GroupMetadata):
                        below.append(path)
            levels = below
            depth += 1

    def _without_consolidated(self) -> Group:
        return Group(
            self._store, self._path, self._metadata, self._options, self._strategy, self._read_only, False
        )

    def _opened(self, path: str, node: Node) -> Array | Group | None:
        """A member as an object; consolidated documents are read anew where they would be written by."""
        if self._consolidated is not None and not self._read_only:
            found = read_node(self.store_path / path, self._options)
            return None if found is None else self._object(path, found)
        return self._object(path, node)

    # changes

    def __setitem__(self, path: str, value: Any) -> None:
        """Make the array at `path` hold `value`; a node that was there goes."""
        self.create_array(path, data=value, overwrite=True)

    def __delitem__(self, path: str) -> None:
        """Delete the node at `path` with everything below it. The group around it stays: in the 2022 draft, where a
        group may be there for what is below it alone, it gets a document."""
        self._refuse_reading()
        below = normalize_path(path)
        if not below:
            raise ValueError("a group does not delete itself; use the group above it, or mode='w'")
        place = self.store_path / below
        if read_node(place, self._options) is None:
            raise NodeNotFoundError(self._absence(path))
        erase_node(place, self._options)
        around = place.path.rpartition("/")[0]
        if self._metadata.dialect == "draft" and around:
            kept = StorePath(self._store, around)
            if read_node(kept, self._options) is None:
                create_node(kept, GroupMetadata(dialect="draft"), self._options)

    def create_array(
        self, name: str, *, shape: Any = None, dtype: Any = None, data: Any = None, **how: Unpack[How]
    ) -> Array:
        """Make an array below; arguments as in `terrazzo.create_array`."""
        self._refuse_reading()
        compressor: Any = how.pop("compressor", "auto")  # type: ignore[typeddict-item]
        if not (isinstance(compressor, str) and compressor == "auto"):
            how["compressors"] = compressor
        given: dict[str, Any] = {**self._settings(how), **how}
        return create_array(self.store_path, name=name, shape=shape, dtype=dtype, data=data, **given)

    create = create_array

    def create_group(
        self,
        name: str,
        *,
        attributes: Mapping[str, Any] | None = None,
        overwrite: bool = False,
        zarr_format: int | None = None,
    ) -> Group:
        """Make a group below; ContainsGroupError or ContainsArrayError where a node is."""
        self._refuse_reading()
        place, made = making(self.store_path / name, self._options, zarr_format)
        metadata = GroupMetadata(attributes=dict(attributes or {}), dialect=stored_as(made))
        create_node(place, metadata, self._options, overwrite=overwrite)
        return Group(self._store, place.path, metadata, self._options, self._strategy)

    def require_group(self, name: str, *, overwrite: bool = False, **how: Any) -> Group:
        """The group at a path below, made where it is missing; ContainsArrayError where an array is."""
        if overwrite:
            return self.create_group(name, overwrite=True, **how)
        found = self._find(name)
        if found is None:
            try:
                return self.create_group(name, **how)
            except (ContainsGroupError, ConflictError):
                pass  # another writer made it just now
        return self.get_group(name)

    def move(self, source: str, dest: str) -> None:
        """Move a node with everything below it to another path of this group, which must be free."""
        from terrazzo.groups.moving import move

        self._refuse_reading()
        move(self.store_path, source, dest, options=self._options)

    def _settings(self, how: Mapping[str, Any]) -> dict[str, Any]:
        """This group's own options and strategy, where the call brings none."""
        found: dict[str, Any] = {}
        if how.get("config") is None and how.get("options") is None:
            found["options"] = self._options
        if how.get("strategy") is None and self._strategy is not None:
            found["strategy"] = self._strategy
        return {name: value for name, value in found.items() if how.get(name) is None}

    def _refuse_reading(self) -> None:
        if self._read_only:
            raise ReadOnlyError(f"group {self.name!r} was opened for reading; open it with mode='r+' or 'a'")

    # Python's manners

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Group)
            and self._store == other._store
            and self._path == other._path
            and self._metadata == other._metadata
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<terrazzo.Group {self.store_path}>"

    def _repr_html_(self) -> str:
        return self.info._repr_html_()


def node_object(
    place: StorePath,
    node: Node,
    options: Options,
    strategy: Strategy | None,
    read_only: bool,
    use_consolidated: bool | None = None,
) -> Array | Group:
    """A document as what a user holds."""
    if isinstance(node, ArrayMetadata):
        return Array(place.store, place.path, node, options, strategy, read_only)
    return Group(place.store, place.path, node, options, strategy, read_only, use_consolidated)
