"""StorePath: where a node is, a store and a path in it; Placed: what arrays and groups tell of that alike.

What it does not do: read. A StorePath says nothing of whether a node is there.
Specification: Zarr core 3.0, "Node names", "Hierarchy".
"""

from __future__ import annotations

from terrazzo.metadata import normalize_path
from terrazzo.options import Options
from terrazzo.stores.store import Store

__all__ = ["Placed", "StorePath"]


class StorePath:
    """A place for a node: `store` and the node's `path` in it; `place / "child"` is a place below."""

    __slots__ = ("_path", "_store")

    def __init__(self, store: Store, path: str = "") -> None:
        if not isinstance(store, Store):
            raise TypeError(f"found {store!r} as the store of a StorePath, must be a store object")
        self._store = store
        self._path = normalize_path(path)

    @property
    def store(self) -> Store:
        return self._store

    @property
    def path(self) -> str:
        """Without slashes at its ends; empty for the root."""
        return self._path

    @property
    def name(self) -> str:
        """The path with a leading slash."""
        return "/" + self._path

    @property
    def basename(self) -> str:
        return self._path.rpartition("/")[2]

    @property
    def read_only(self) -> bool:
        return self._store.read_only

    def __truediv__(self, below: str) -> StorePath:
        return StorePath(self._store, f"{self._path}/{below}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorePath) and self._path == other._path and self._store == other._store

    def __hash__(self) -> int:
        return hash((StorePath, self._path, self._store))

    def __reduce__(self) -> tuple[object, ...]:
        return StorePath, (self._store, self._path)

    def __str__(self) -> str:
        return f"{self._store}/{self._path}" if self._path else str(self._store)

    def __repr__(self) -> str:
        return f"StorePath({self._store!r}, {self._path!r})"


class Placed:
    """The part of an array or a group that tells where it is, and how it was opened."""

    _store: Store
    _path: str
    _options: Options
    _read_only: bool

    @property
    def store(self) -> Store:
        return self._store

    @property
    def path(self) -> str:
        """The node's path in the store, without slashes at its ends; empty for the root."""
        return self._path

    @property
    def store_path(self) -> StorePath:
        """The store, and where this node is in it."""
        return StorePath(self._store, self._path)

    @property
    def name(self) -> str:
        """The node's path with a leading slash."""
        return "/" + self._path

    @property
    def basename(self) -> str:
        return self._path.rpartition("/")[2]

    @property
    def read_only(self) -> bool:
        return self._read_only

    @property
    def options(self) -> Options:
        """How this node's work is done, and that of what is opened from it."""
        return self._options
