"""Stores of other packages, used as they are: obstore's, fsspec's file systems and mappers, UPath, zarr-python's.

What it does not do: import those packages: who passes an object of theirs has them. What can be promised is what they
promise: through fsspec and zarr-python nothing is written conditionally, so only writers that share one store object
here keep each other's updates.
"""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from terrazzo.errors import StoreError, TerrazzoError
from terrazzo.stores.contract import ALL, Buffer, Cost, Range
from terrazzo.stores.emulation import window
from terrazzo.stores.keys import check_key
from terrazzo.stores.local import LocalStore
from terrazzo.stores.store import Store

__all__ = ["FsspecStore", "ZarrPythonStore", "borrow"]

T = TypeVar("T")
#: bytes of a range that is asked for as it is
LONG = 256 << 20
#: a file is no folder, and a folder no file
ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
#: what a request through another package is planned with: nobody measured it
FAR_AWAY = Cost(0.02, 100e6, True, 32)


def borrow(what: Any, options: Mapping[str, Any]) -> Store | None:
    """A store over an object of another package; None where it is of none that is known."""
    found = _known(what)
    if found == "obstore":
        from terrazzo.stores.remote.place import place_of_object
        from terrazzo.stores.remote.store import RemoteStore

        return RemoteStore.at(place_of_object(what, options))
    if found is not None and options:
        raise StoreError(
            f"a store of {found} was opened with its own options; given here: {', '.join(sorted(options))}"
        )
    if found == "fsspec":
        return FsspecStore(what)
    if found == "mapper":
        return FsspecStore(what.fs, what.root)
    if found == "upath":
        if what.protocol in ("", "file", "local"):
            return LocalStore(what.path)
        return FsspecStore(what.fs, what.path)
    if found == "zarr":
        return ZarrPythonStore(what)
    return None


def _known(what: Any) -> str | None:
    """By the names of its classes, so that nothing is imported."""
    for kind in type(what).__mro__:
        package = kind.__module__.partition(".")[0]
        name = kind.__name__
        if package in ("obstore", "builtins", "pyo3_object_store") and name in OBSTORE:
            return "obstore"
        if package == "fsspec" and name == "AbstractFileSystem":
            return "fsspec"
        if package == "fsspec" and name == "FSMap":
            return "mapper"
        if package == "upath" and name == "UPath":
            return "upath"
        if kind.__module__.startswith("zarr.abc.store") and name == "Store":
            return "zarr"
    return None


OBSTORE = frozenset(["S3Store", "GCSStore", "AzureStore", "HTTPStore", "MemoryStore", "LocalStore"])


class FsspecStore(Store):
    """The files below `root` of an fsspec file system.

    Sources are told apart by the bytes that are read first: a rewrite that leaves those as they are goes unseen.
    """

    def __init__(self, fs: Any, root: str = "") -> None:
        self.fs = fs
        self.root = str(fs._strip_protocol(root)).rstrip("/") if root else ""
        near = type(fs).__name__ in ("LocalFileSystem", "MemoryFileSystem")
        self._cost = Cost() if near else FAR_AWAY

    def __repr__(self) -> str:
        return f"FsspecStore({type(self.fs).__name__}, {self.root!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FsspecStore) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    @property
    def identity(self) -> Hashable:
        return ("fsspec", id(self.fs), self.root)

    @property
    def cost(self) -> Cost:
        return self._cost

    def get_partial_values(self, requests: Iterable[tuple[str, Range]]) -> builtins.list[bytes | None]:
        asked = list(requests)
        if not asked:
            return []
        # suffixes, and ranges that may be far longer than the file, need its size
        whole = [
            i
            for i, (_, (start, length)) in enumerate(asked)
            if start >= 0 and (length is None or 0 < length <= LONG)
        ]
        answers: list[bytes | None] = [None] * len(asked)
        paths = [self._path(asked[i][0]) for i in whole]
        starts = [asked[i][1][0] for i in whole]
        ends = [
            None if length is None else start + length for _, (start, length) in (asked[i] for i in whole)
        ]
        for i, found in zip(
            whole, self._ask("reading", paths, self._ranges, paths, starts, ends), strict=True
        ):
            answers[i] = self._found(found, asked[i])
        for i, (key, (start, length)) in enumerate(asked):
            if i in whole:
                continue
            size = self.getsize(key)
            if size is not None:
                begin, end = window(start, length, size)
                path = self._path(key)
                answers[i] = (
                    self._ask("reading", [path], self.fs.cat_file, path, begin, end) if begin < end else b""
                )
        return answers

    def getsize(self, key: str) -> int | None:
        try:
            found = self._ask("asking for its size", [key], self.fs.info, self._path(key))
        except ABSENT:
            return None
        return int(found["size"]) if found.get("type") == "file" else None

    def set(self, key: str, value: Buffer) -> None:
        path = self._path(key)
        if "/" in path:
            self._ask("writing", [key], self.fs.makedirs, path.rpartition("/")[0], exist_ok=True)
        self._ask("writing", [key], self.fs.pipe_file, path, bytes(memoryview(value).cast("B")))

    def erase(self, key: str) -> None:
        try:
            self._ask("erasing", [key], self.fs.rm_file, self._path(key))
        except ABSENT:
            pass

    def list_prefix(self, prefix: str) -> Iterator[str]:
        below = self._path(prefix.rstrip("/")) if prefix or self.root else ""
        self.fs.invalidate_cache()
        try:
            found = self._ask("listing", [prefix], self.fs.find, below)
        except ABSENT:
            return
        for path in found:
            key = self._key(str(path))
            if key is not None and key.startswith(prefix):
                yield key

    def list_dir(self, prefix: str) -> tuple[builtins.list[str], builtins.list[str]]:
        below = self._path(prefix.rstrip("/")) if prefix or self.root else ""
        self.fs.invalidate_cache()
        try:
            found = self._ask("listing", [prefix], self.fs.ls, below, detail=True)
        except ABSENT:
            return [], []
        keys: list[str] = []
        prefixes: list[str] = []
        for entry in found:
            key = self._key(str(entry["name"]).rstrip("/"))
            if key is None or not key.startswith(prefix) or "/" in key[len(prefix) :]:
                continue
            if entry["type"] == "directory":
                prefixes.append(f"{key}/")
            else:
                keys.append(key)
        # a file system with folders lists those whose last file went, too; only what holds a key is a prefix
        return sorted(keys), sorted(name for name in prefixes if self._holds_a_file(name))

    def _holds_a_file(self, prefix: str) -> bool:
        return next(iter(self.list_prefix(prefix)), None) is not None

    def _ranges(
        self, paths: builtins.list[str], starts: builtins.list[int], ends: builtins.list[int | None]
    ) -> builtins.list[Any]:
        found: list[Any] = self.fs.cat_ranges(paths, starts, ends, on_error="return")
        return found

    def _found(self, found: Any, asked: tuple[str, Range]) -> bytes | None:
        if isinstance(found, ABSENT):
            return None
        if isinstance(found, BaseException):
            if asked[1] != ALL and (size := self.getsize(asked[0])) is not None and asked[1][0] >= size:
                return b""  # some refuse a range that starts past the end
            raise _told(found, "reading", asked[0], repr(self)) from None
        return bytes(found)

    def _path(self, key: str) -> str:
        return f"{self.root}/{key}".rstrip("/") if self.root else key

    def _key(self, path: str) -> str | None:
        start = f"{self.root}/" if self.root else ""
        path = path if self.root.startswith("/") or start else path.lstrip("/")
        if not path.startswith(start):
            return None
        try:
            return check_key(path[len(start) :])
        except StoreError:
            return None

    def _ask(
        self, what: str, keys: Sequence[str], function: Callable[..., T], *args: Any, **kwargs: Any
    ) -> T:
        try:
            return function(*args, **kwargs)
        except (*ABSENT, TerrazzoError):
            raise
        except Exception as error:
            raise _told(error, what, keys[0] if keys else "", repr(self)) from None


class ZarrPythonStore(Store):
    """A store object of zarr-python; its coroutines run on the loop of the remote stores."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.writable = self.erasable = not getattr(store, "read_only", False)
        if not getattr(store, "supports_deletes", True):
            self.erasable = False
        if not getattr(store, "supports_listing", True):
            self.listable = False
        near = type(store).__name__ in ("LocalStore", "MemoryStore", "ZipStore")
        self._cost = Cost() if near else FAR_AWAY

    def __repr__(self) -> str:
        return f"ZarrPythonStore({type(self.store).__name__})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ZarrPythonStore) and bool(self.store == other.store)

    def __hash__(self) -> int:
        return hash(type(self.store).__name__)

    @property
    def identity(self) -> Hashable:
        return ("zarr", id(self.store))

    @property
    def cost(self) -> Cost:
        return self._cost

    def get_partial_values(self, requests: Iterable[tuple[str, Range]]) -> builtins.list[bytes | None]:
        from terrazzo.stores.remote.loop import together

        asked = list(requests)
        if not asked:
            return []
        return self._wait(asked[0][0], "reading", together([partial(self._get, *one) for one in asked]))

    def getsize(self, key: str) -> int | None:
        async def size() -> int | None:
            try:
                return int(await self.store.getsize(key))
            except FileNotFoundError:
                return None

        return self._wait(key, "asking for its size", size())

    def exists(self, key: str) -> bool:
        return bool(self._wait(key, "looking for it", self.store.exists(key)))

    def set(self, key: str, value: Buffer) -> None:
        from zarr.core.buffer import default_buffer_prototype

        buffer = default_buffer_prototype().buffer.from_bytes(bytes(memoryview(value).cast("B")))
        self._wait(key, "writing", self.store.set(key, buffer))

    def erase(self, key: str) -> None:
        self._wait(key, "erasing", self.store.delete(key))

    def list_prefix(self, prefix: str) -> Iterator[str]:
        from terrazzo.stores.remote.loop import wait_for

        keys = self.store.list_prefix(prefix)
        while True:
            batch = wait_for(_some(keys, 1000))
            yield from (key for key in batch if _is_key(key))
            if len(batch) < 1000:
                return

    def list_dir(self, prefix: str) -> tuple[builtins.list[str], builtins.list[str]]:
        names = self._wait(prefix, "listing", _some(self.store.list_dir(prefix.rstrip("/")), 1 << 62))
        keys: list[str] = []
        prefixes: list[str] = []
        for name in dict.fromkeys(names):  # it tells names, and not which of them are keys
            key = prefix + name.strip("/")
            if not _is_key(key):
                continue
            if self.exists(key):
                keys.append(key)
            if next(iter(self.list_prefix(f"{key}/")), None) is not None:
                prefixes.append(f"{key}/")
        return sorted(keys), sorted(prefixes)

    async def _get(self, key: str, asked: Range) -> bytes | None:
        from zarr.abc.store import RangeByteRequest
        from zarr.core.buffer import default_buffer_prototype

        part: Any = None
        if asked != ALL:
            # its stores differ in what they do with ranges past the end, so none is asked for
            try:
                size = int(await self.store.getsize(key))
            except FileNotFoundError:
                return None
            begin, end = window(*asked, size)
            if begin >= end:
                return b""
            part = RangeByteRequest(begin, end)
        found = await self.store.get(key, prototype=default_buffer_prototype(), byte_range=part)
        return None if found is None else bytes(found.to_bytes())

    def _wait(self, key: str, what: str, work: Coroutine[Any, Any, T] | Awaitable[T]) -> T:
        from terrazzo.stores.remote.loop import wait_for

        async def asked() -> T:
            return await work

        try:
            return wait_for(asked())
        except TerrazzoError:
            raise
        except Exception as error:
            raise _told(error, what, key, repr(self)) from None


async def _some(keys: Any, most: int) -> builtins.list[str]:
    found: list[str] = []
    async for key in keys:
        found.append(key)
        if len(found) == most:
            break
    return found


def _is_key(key: str) -> bool:
    try:
        check_key(key)
    except StoreError:
        return False
    return True


def _told(error: BaseException, what: str, key: str, where: str) -> StoreError:
    from terrazzo.stores.remote.policy import plain

    return StoreError(f"{key!r} in {where}: {what} failed: {type(error).__name__}: {plain(str(error))}")
