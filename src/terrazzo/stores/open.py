"""What a user names a store by, to a store: paths, `file://`, `memory://`, archives, mappings, stores.

What it does not do: look whether an array or a group is there (groups.py does).
Specification: Zarr core 3.0 leaves it open; `file://` as in RFC 8089, a string without a scheme is a path.

A table of openers by scheme: other rooms add theirs with `register_opener`.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Literal
from urllib.parse import unquote

from terrazzo.errors import ReadOnlyError, StoreError, UnsupportedError
from terrazzo.stores.borrowed import borrow
from terrazzo.stores.keys import check_prefix
from terrazzo.stores.local import LocalStore
from terrazzo.stores.mapping import MappingStore
from terrazzo.stores.memory import MemoryStore
from terrazzo.stores.pipes import Pipe, parse_pipe
from terrazzo.stores.store import Store

__all__ = ["AccessMode", "StoreLike", "known_schemes", "open_store", "register_opener"]

#: as in zarr-python: "r" read; "r+" read and write what exists; "a" also create; "w" replace; "w-" only create
AccessMode = Literal["r", "r+", "a", "w", "w-"]
StoreLike = Any  # Store | str | os.PathLike[str] | MutableMapping[str, bytes] | None
#: (what follows the scheme and "://", mode, options) -> (store, path below its root)
Opener = Callable[[str, AccessMode, Mapping[str, Any]], tuple[Store, str]]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+)://").match  # one letter is a drive
#: options of every store, and what CachingStore calls them
_KEEPING = {"cache": "folder", "cache_nbytes": "nbytes", "cache_fresh": "fresh"}
_ARCHIVE_MODES: dict[str, Literal["r", "w", "a", "x"]] = {"r": "r", "r+": "a", "a": "a", "w": "w", "w-": "x"}


def open_store(what: StoreLike, *, mode: AccessMode = "a", **options: Any) -> tuple[Store, str]:
    """The store that `what` names, and the path below its root, without slashes around it.

    what: a path, an address, a Store, a mutable mapping of keys to bytes, or None (a new MemoryStore).
    options: go to the store's class (for a folder: follow_symlinks, durability), save `cache`: a folder in which what
    is read is kept, with `cache_nbytes` and `cache_fresh` as in CachingStore. With mode "r" the store refuses writing.
    Nothing is erased here, whatever the mode.
    """
    if mode not in _ARCHIVE_MODES:
        raise StoreError(f"mode {mode!r} is unknown; there are 'r', 'r+', 'a', 'w' and 'w-'")
    keeping = {name: options.pop(name) for name in _KEEPING if name in options}
    store, path = _open(what, mode, options)
    if keeping:
        store = _cached(store, keeping)
    if mode == "r" and store.writable:
        store = store.with_read_only()
    return store, path


def register_opener(scheme: str, opener: Opener, *, replace: bool = False) -> None:
    """Open addresses that start with `scheme://` by `opener`."""
    if not re.fullmatch(r"[a-z][a-z0-9+.\-]+", scheme):
        raise StoreError(
            f"{scheme!r} is not a scheme: lower-case letters, digits, '+', '.' and '-', two at least"
        )
    if scheme in _OPENERS and not replace:
        raise StoreError(f"{scheme}:// has an opener already; pass replace=True to replace it")
    _OPENERS[scheme] = opener


def known_schemes() -> list[str]:
    """The schemes that `open_store` takes, sorted."""
    return sorted(_OPENERS)


def _cached(store: Store, keeping: Mapping[str, Any]) -> Store:
    from terrazzo.stores.cache import CachingStore  # what few need waits until then

    if "cache" not in keeping:
        raise StoreError(
            f"{', '.join(map(repr, sorted(keeping)))} says how to keep; cache='folder' says where"
        )
    how = {_KEEPING[name]: value for name, value in keeping.items() if name != "cache"}
    return CachingStore(store, keeping["cache"], **how)


def _open(what: StoreLike, mode: AccessMode, options: Mapping[str, Any]) -> tuple[Store, str]:
    if isinstance(what, Store):
        _no_options(options, "a store")
        return what, ""
    if what is None:
        _no_options(options, "a new store in memory")
        return MemoryStore(), ""
    if not isinstance(what, str):
        borrowed = borrow(what, options)
        if borrowed is not None:
            return borrowed, ""
    if isinstance(what, MutableMapping):
        _no_options(options, "a mapping")
        return MappingStore(what), ""
    if isinstance(what, os.PathLike):
        what = os.fspath(what)
        if isinstance(what, str):
            return _open_path(what, mode, options)
    if not isinstance(what, str):
        raise StoreError(
            f"a store is named by a path, an address, a Store, a mutable mapping, or a store of obstore, fsspec or "
            f"zarr-python, not by {type(what).__name__}"
        )
    pipe = parse_pipe(what)
    if pipe is not None:
        return _open_pipe(pipe, mode, options)
    found = _SCHEME(what)
    if found is None:
        return _open_path(what, mode, options)
    scheme = found[1].lower()
    opener = _OPENERS.get(scheme)
    if opener is None:
        raise UnsupportedError(
            f"no store is known for {scheme}://; known are {', '.join(f'{name}://' for name in known_schemes())}, "
            "paths and .zip archives. For a place that another package reaches, pass a mutable mapping "
            "(`fsspec.get_mapper(address)` makes one) or a Store of your own"
        )
    return opener(what[found.end() :], mode, options)


def _open_pipe(pipe: Pipe, mode: AccessMode, options: Mapping[str, Any]) -> tuple[Store, str]:
    if not pipe.zipped:
        store, path = _open(pipe.root, mode, options)
        return store, "/".join(part for part in (path, pipe.path) if part)
    found = _SCHEME(pipe.root)
    if found is None or found[1].lower() == "file":
        path = os.path.expanduser(pipe.root) if found is None else _path_of_file(pipe.root[found.end() :])
        return _open_archive(path, mode, options), pipe.path
    if mode != "r" and mode != "a":
        raise UnsupportedError("an archive in a remote place is read, not written; open it with mode='r'")
    from terrazzo.stores.remote.archive import RemoteZipStore

    mine = {name: value for name, value in options.items() if name in _TAKEN["ZipStore"]}
    address, question, query = pipe.root.partition("?")
    folder, _, name = address.rpartition("/")
    if found[1].lower() in ("http", "https"):
        name = unquote(name)  # keys are escaped when they are asked for
    store, below = _open(
        f"{folder}{question}{query}", "r", {name: options[name] for name in options if name not in mine}
    )
    return RemoteZipStore(store, f"{below}/{name}" if below else name, **mine), pipe.path


def _open_archive(path: str, mode: AccessMode, options: Mapping[str, Any]) -> Store:
    if mode == "r+" and not os.path.isfile(path):
        absent = StoreError(f"{path!r} does not exist; mode 'a' makes it")
        absent.errno = errno.ENOENT
        raise absent
    from terrazzo.stores.zip import ZipStore  # zipfile takes long to import

    return ZipStore(path, _ARCHIVE_MODES[mode], **_fitting(options, ZipStore, path))


def _open_path(path: str, mode: AccessMode, options: Mapping[str, Any]) -> tuple[Store, str]:
    if not path:
        raise StoreError("an empty path names no store")
    archive, inner = _split_archive(path)
    if archive is None:
        return LocalStore(os.path.expanduser(path), **_fitting(options, LocalStore, path)), ""
    return _open_archive(archive, mode, options), inner


def _split_archive(path: str) -> tuple[str | None, str]:
    """The archive in a path, and the path inside it; a folder may be called .zip too."""
    path = os.path.expanduser(path)
    if path.endswith(".zip") and not os.path.isdir(path):
        return path, ""
    at = path.find(".zip/")
    while at >= 0:
        archive = path[: at + 4]
        if os.path.isfile(archive):
            inner = path[at + 5 :].strip("/")
            return archive, check_prefix(inner + "/")[:-1] if inner else ""
        at = path.find(".zip/", at + 1)
    return None, ""


def _open_file(rest: str, mode: AccessMode, options: Mapping[str, Any]) -> tuple[Store, str]:
    return _open_path(_path_of_file(rest), mode, options)


def _path_of_file(rest: str) -> str:
    """The path that follows `file://`."""
    host, slash, path = rest.partition("/")
    if host not in ("", "localhost") or not slash:
        from terrazzo.stores.remote.address import shown  # the room of remote stores takes long to import

        raise StoreError(
            f"{shown(f'file://{rest}')!r} names a file on another host, {host.rpartition('@')[2]!r}; local files are "
            "file:///path"
        )
    path = unquote("/" + path)
    if os.name == "nt" and re.match(r"/[A-Za-z]:", path):
        path = path[1:]
    return path


def _open_memory(rest: str, mode: AccessMode, options: Mapping[str, Any]) -> tuple[Store, str]:
    _no_options(options, f"memory://{rest}")
    name, _, path = rest.partition("/")
    path = path.strip("/")
    return MemoryStore(name), check_prefix(path + "/")[:-1] if path else ""


def _open_remote(scheme: str) -> Opener:
    def opener(rest: str, mode: AccessMode, options: Mapping[str, Any]) -> tuple[Store, str]:
        from terrazzo.stores.remote import RemoteStore  # asyncio takes long to import

        store = RemoteStore(f"{scheme}://{rest}", **options)
        if mode in ("r+", "w", "w-") and not store.writable:
            raise ReadOnlyError(f"{store} can only be read; open it with mode='r', not {mode!r}")
        return store, ""

    return opener


_OPENERS: dict[str, Opener] = {"file": _open_file, "memory": _open_memory}
for _scheme in ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "http", "https"):
    _OPENERS[_scheme] = _open_remote(_scheme)
_TAKEN: dict[str, frozenset[str]] = {
    "LocalStore": frozenset({"follow_symlinks", "durability", "files"}),
    "ZipStore": frozenset({"max_members", "max_member_nbytes", "allow_duplicates"}),
}


def _fitting(options: Mapping[str, Any], kind: type, what: str) -> dict[str, Any]:
    taken = _TAKEN[kind.__name__]
    unknown = sorted(set(options) - taken)
    if unknown:
        raise StoreError(
            f"{what!r}: unknown option {', '.join(map(repr, unknown))}; "
            f"{kind.__name__} takes {', '.join(sorted(taken))}"
        )
    return dict(options)


def _no_options(options: Mapping[str, Any], what: str) -> None:
    if options:
        raise StoreError(f"{what} takes no options; given: {', '.join(sorted(options))}")
