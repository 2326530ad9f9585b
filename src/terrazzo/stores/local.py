"""A folder on a local disk: every object a file, replaced whole or not at all, by one writer at a time.

What it does not do: know what lies in an object; write bytes itself (files.py does); lock (locks.py); survive a crash
in the middle of a change in place (journal.py). Windows is refused: the key translation for it is there (keys.py),
locks and folder handles are not.
Specification: "File system store 1.0" (a key's slashes are the system's separators below a base folder).

A replaced object: the lock file is locked, filled, synced, and renamed over the object; then its folder is synced. A
reader opens a file once and so keeps one version from the index to the last chunk.
"""

from __future__ import annotations

import builtins
import errno
import os
import stat
import sys
import threading
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from terrazzo.errors import ConflictError, KeyRefusedError, ReadOnlyError, StoreError, UnsupportedError
from terrazzo.options import Durability
from terrazzo.stores.contract import Buffer, Change, Cost, Erase, Open, Put, Range, Source, Tag
from terrazzo.stores.emulation import exact, window
from terrazzo.stores.files import Files
from terrazzo.stores.folders import Folders
from terrazzo.stores.journal import JOURNAL_SUFFIX, read_exactly, tag_of
from terrazzo.stores.keys import check_key, check_range, path_of_key
from terrazzo.stores.lanes import are_lanes, has_dead
from terrazzo.stores.locks import LOCK_SUFFIX
from terrazzo.stores.replacing import FileHold, FileSink, Unsynced, commit, failure, take_hold
from terrazzo.stores.store import Store

__all__ = ["OWN_SUFFIXES", "FileSource", "LocalStore"]

#: names of files beside objects; never keys, never listed
OWN_SUFFIXES = (LOCK_SUFFIX, JOURNAL_SUFFIX)

# Opening a FIFO must not wait for a writer, and a device must not become this process's terminal.
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_LOOK = getattr(os, "O_PATH", _READ)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_ABSENT = (errno.ENOENT, errno.ENOTDIR)
_ERASED_AT_ONCE = 64
#: what a store has that may be used, in the order in which it gets it
_SET_UP = ("folders", "unsynced", "_open", "_base")
_setting_up = threading.Lock()


class FileSource(Source):
    """One version of a file: its open descriptor is the handle."""

    __slots__ = ()

    def close(self) -> None:
        file, self.handle = self.handle, None
        if file is not None:
            os.close(file)

    def __del__(self) -> None:
        if self.handle is not None:
            self.close()


class LocalStore(Store):
    """The objects below the folder `root`, which is made at the first write.

    follow_symlinks: links below the root are followed (False: a link is an error; the root itself may be one).
    durability: what `set` and `erase` promise: "fsync" (on the disk when they return), "rename", "none".
    files: the file layer; another one stands in for it in tests.
    """

    patchable = True
    durable = True
    cost = Cost(20e-6, 4e9, buffered=False)

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        follow_symlinks: bool = False,
        durability: Durability = "fsync",
        files: Files | None = None,
    ) -> None:
        if sys.platform == "win32":
            raise UnsupportedError(
                "folders on Windows are not supported yet; MemoryStore and ZipStore work there"
            )
        path = os.fspath(root)
        if not path or "\0" in path:
            raise StoreError(f"a folder is needed, not {path!r}")
        self.root = os.path.realpath(path)
        self.follow_symlinks = follow_symlinks
        self.durability: Durability = durability
        self.files = Files() if files is None else files
        self._set_up()

    def _set_up(self) -> None:
        self.folders = Folders("" if self.root == "/" else self.root, self.files, self.follow_symlinks)
        self.unsynced = Unsynced(self.folders, self.files)
        self._open = self.folders.open
        self._base = self.folders.root + "/"

    def __getattr__(self, name: str) -> Any:
        """One out of a pickle looks for its folder when it is used first: without it all would read as fill values."""
        if name not in _SET_UP or "files" not in self.__dict__:
            raise AttributeError(f"'LocalStore' has no attribute {name!r}")
        if not os.path.isdir(self.root):
            # not ENOENT: that is what an object that is not stored looks like
            why = "it is gone, or not on this machine; it was there where this store was pickled"
            raise failure(OSError(errno.ENXIO, why), self.root, "opened")
        with _setting_up:
            if name not in self.__dict__:
                self._set_up()
        return self.__dict__[name]

    def __repr__(self) -> str:
        return f"LocalStore({self.root!r})"

    def __str__(self) -> str:
        return self.root

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalStore) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __reduce__(self) -> tuple[Any, ...]:
        was_there = "folders" not in self.__dict__ or os.path.isdir(self.root)
        return _again, (self.root, self.follow_symlinks, self.durability, was_there)

    @property
    def identity(self) -> Hashable:
        return ("file", self.root)

    # -- the specification's verbs ------------------------------------------------------------------------------------

    def get(self, key: str) -> bytes | None:
        file = self._open_file(key)
        if file is None:
            return None
        try:
            return read_exactly(file, 0, _regular(key, file).st_size)
        except OSError as error:
            raise failure(error, key, "read") from error
        finally:
            os.close(file)

    def get_partial_values(self, requests: Iterable[tuple[str, Range]]) -> builtins.list[bytes | None]:
        answers: list[bytes | None] = []
        sources: dict[str, Source | None] = {}
        try:
            for key, asked in requests:
                if key not in sources:
                    sources[key] = self.open([Open(key)])[0]
                source = sources[key]
                if source is None:
                    answers.append(None)
                    continue
                assert isinstance(source.handle, int) and source.size is not None
                start, end = window(*asked, source.size)
                answers.append(read_exactly(source.handle, start, end - start))
        finally:
            for source in sources.values():
                if source is not None:
                    source.close()
        return answers

    def exists(self, key: str) -> bool:
        return self.getsize(key) is not None

    def getsize(self, key: str) -> int | None:
        found = self._find(key)
        return None if found is None else found.st_size

    def tag(self, key: str) -> Tag | None:
        found = self._find(key)
        return None if found is None else tag_of(found)

    def set(self, key: str, value: Buffer) -> None:
        with take_hold(self, key, None, blind=True) as hold:
            sink = self.sink(hold)
            sink.write(0, value)
            self.commit([Put(hold, sink)], self.durability)

    def set_if(self, key: str, value: Buffer, tag: Tag | None) -> None:
        with self.hold(key) as hold:
            if (None if hold.source is None else hold.source.tag) != tag:
                raise ConflictError(f"{key!r} is not the version that was asked for; nothing was written")
            sink = self.sink(hold)
            sink.write(0, value)
            self.commit([Put(hold, sink)], self.durability)

    def erase(self, key: str) -> None:
        self.erase_values([key])

    def erase_values(self, keys: Iterable[str]) -> None:
        present = sorted({key for key in keys if self._is_there(key)})
        for i in range(0, len(present), _ERASED_AT_ONCE):
            with ExitStack() as held:
                holds = [
                    held.enter_context(take_hold(self, key, None, blind=True))
                    for key in present[i : i + _ERASED_AT_ONCE]
                ]
                self.commit([Erase(hold) for hold in holds], self.durability)

    def erase_prefix(self, prefix: str) -> None:
        keys: dict[str, None] = {}
        folders = [prefix.rstrip("/")]
        for key, is_folder in self._walk(prefix):
            if is_folder:
                folders.append(key)
            else:
                for suffix in OWN_SUFFIXES:
                    key = key.removesuffix(suffix)
                keys[key] = None
        self.erase_values(keys)
        for folder in sorted(folders, key=len, reverse=True):  # folders that were empty before
            self.folders.prune(folder)

    def list(self) -> Iterator[str]:
        return self.list_prefix("")

    def list_prefix(self, prefix: str) -> Iterator[str]:
        for key, is_folder in self._walk(prefix):
            if not is_folder and not key.endswith(OWN_SUFFIXES):
                yield key

    def list_dir(self, prefix: str) -> tuple[builtins.list[str], builtins.list[str]]:
        keys, prefixes = [], []
        for name, is_folder, _ in self._scan(prefix.rstrip("/")):
            if is_folder:
                prefixes.append(f"{prefix}{name}/")
            elif not name.endswith(OWN_SUFFIXES):
                keys.append(prefix + name)
        return sorted(keys), sorted(prefixes)

    # -- what flows ask for -------------------------------------------------------------------------------------------

    def open(self, requests: Sequence[Open]) -> builtins.list[Source | None]:
        sources: list[Source | None] = []
        try:
            for request in requests:
                key, first, known, or_handle, _ = request
                file = self._open_file(check_key(key))
                if file is None:
                    sources.append(None)
                else:  # every source here has a handle
                    sources.append(self._source_of(key, file, None if or_handle else first, known))
        except BaseException:
            for source in sources:
                if source is not None:
                    source.close()
            raise
        return sources

    def fetch(
        self, requests: Sequence[tuple[Source, Sequence[tuple[int, int]]]]
    ) -> builtins.list[builtins.list[Buffer]]:
        answers: list[list[Buffer]] = []
        for source, ranges in requests:
            file, parts = source.handle, []
            if not isinstance(file, int):
                raise StoreError(f"{source.key!r} was closed, or opened through another store; open it again")
            for start, length in ranges:
                if start < 0 or length < 0:
                    raise StoreError(
                        f"{source.key!r}: range ({start}, {length}) is refused: neither may be negative"
                    )
                if start + length > (source.size or 0):
                    exact(b"", source.key, start, length)  # before allocating what a hostile index asks for
                try:
                    part = read_exactly(file, start, length)
                except OSError as error:
                    raise failure(error, source.key, "read") from error
                parts.append(exact(part, source.key, start, length))
            answers.append(parts)
        return answers

    def hold(
        self,
        key: str,
        first: Range | None = None,
        *,
        exclusive: bool = True,
        timeout: float | None = None,
        blind: bool = False,
    ) -> FileHold:
        blind = blind and exclusive and first is None
        return take_hold(self, key, first, exclusive=exclusive, timeout=timeout, blind=blind)

    def sink(self, hold: Any, nbytes_hint: int | None = None) -> FileSink:
        return FileSink(self.files, hold)

    def commit(
        self, changes: Sequence[Change], durability: Durability = "fsync"
    ) -> builtins.list[Tag | None]:
        return commit(self, changes, durability)

    def recover(self, key: str) -> bool:
        path = self._path(key)
        try:
            file = self._open(path + JOURNAL_SUFFIX, os.O_RDWR | os.O_NONBLOCK)
        except OSError:
            return False
        try:
            if are_lanes(file) and not has_dead(file):
                return (
                    True  # its writers live: nothing is to be mended, and the next look finds what they wrote
                )
        except OSError:
            pass  # a reader may not lock here, or this is no file: the hold below tells
        finally:
            os.close(file)
        try:
            take_hold(self, key, None, blind=True).release()  # every hold mends first
        except ReadOnlyError:
            return False
        return True

    def unsettled(self, key: str) -> bool:
        try:
            os.close(self._open(self._path(check_key(key)) + JOURNAL_SUFFIX, _LOOK))
        except OSError:
            return False
        return True

    def sync(self) -> None:
        try:
            if "unsynced" in self.__dict__:
                self.unsynced.sync()
        except OSError as error:
            raise failure(error, self.root, "synced") from error

    def close(self) -> None:
        if "unsynced" in self.__dict__:
            self.unsynced.close()

    # -- below --------------------------------------------------------------------------------------------------------

    def check_own(self, key: str) -> None:
        """Refuse names that belong to this store itself."""
        if ".__" in key and any(segment.endswith(OWN_SUFFIXES) for segment in key.split("/")):
            raise KeyRefusedError(
                f"key {key!r} is refused: names that end in {' or '.join(OWN_SUFFIXES)} lie beside objects, "
                "to lock and to mend them"
            )

    def source_in(self, folder: int, key: str, name: str, first: Range | None) -> Source | None:
        """The object `name` of an open folder."""
        try:
            follow = 0 if self.follow_symlinks else os.O_NOFOLLOW
            file = os.open(name, _READ | os.O_CLOEXEC | follow, dir_fd=folder)
        except FileNotFoundError:
            return None
        return self._source_of(key, file, first, None)

    def _path(self, key: str) -> str:
        self.check_own(key)
        return self._base + path_of_key(key)

    def _open_file(self, key: str) -> int | None:
        if ".__" in key:
            self.check_own(key)
        try:
            return self._open(self._base + key, _READ)
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise failure(error, key, "opened") from error

    def _source_of(self, key: str, file: int, first: Range | None, known: Tag | None) -> Source:
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                _regular(key, file)
            size = found.st_size
            tag = (found.st_dev, found.st_ino, size, found.st_mtime_ns)
            part = None
            if first is not None and tag != known:
                start, length = first
                if start < 0 or length is None or start + length > size:
                    check_range(key, first)
                    start, end = window(start, length, size)
                    length = end - start
                part = read_exactly(file, start, length)
        except OSError as error:
            os.close(file)
            raise failure(error, key, "read") from error
        except BaseException:
            os.close(file)
            raise
        return FileSource(key, size, tag, file, part)

    def _find(self, key: str) -> os.stat_result | None:
        """What is known of an object without opening it; None also for what is no object."""
        self.check_own(key)
        try:
            file = self._open(self._base + key, _LOOK)
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise failure(error, key, "opened") from error
        try:
            found = os.fstat(file)
        finally:
            os.close(file)
        return found if stat.S_ISREG(found.st_mode) else None

    def _is_there(self, key: str) -> bool:
        """Whether there is anything to erase, be it only what a dead writer left beside an object."""
        self.check_own(key)
        for suffix in ("", *OWN_SUFFIXES):
            try:
                file = self._open(self._base + key + suffix, _LOOK)
            except OSError as error:
                if error.errno in _ABSENT:
                    continue
                raise failure(error, key, "erased") from error
            try:
                if not stat.S_ISDIR(os.fstat(file).st_mode):
                    return True
            finally:
                os.close(file)
        return False

    def _walk(self, prefix: str) -> Iterator[tuple[str, bool]]:
        """(path, whether it is a folder) of everything below a prefix, folders before what lies in them."""
        ahead: list[tuple[str, tuple[object, ...]]] = [(prefix.rstrip("/"), ())]
        while ahead:
            path, above = ahead.pop()
            for name, is_folder, identity in self._scan(path):
                below = f"{path}/{name}" if path else name
                if not is_folder:
                    yield below, False
                elif identity is None or identity not in above:  # a link to a folder above would never end
                    yield below, True
                    ahead.append((below, above if identity is None else (*above, identity)))

    def _scan(self, path: str) -> builtins.list[tuple[str, bool, object]]:
        """(name, whether a folder, identity where links are followed) of what lies in a folder."""
        try:
            folder = self._open(self.folders.absolute(path) or "/", _FOLDER)
        except OSError as error:
            if error.errno in _ABSENT:
                return []
            raise failure(error, path, "listed") from error
        found: list[tuple[str, bool, object]] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    kind = self._kind(entry)
                    if kind is not None and _can_be_key(entry.name):
                        found.append((entry.name, *kind))
        finally:
            os.close(folder)
        return found

    def _kind(self, entry: os.DirEntry[str]) -> tuple[bool, object] | None:
        follow = self.follow_symlinks
        try:
            if entry.is_dir(follow_symlinks=follow):
                return True, (entry.stat().st_dev, entry.inode()) if follow else None
            return (False, None) if entry.is_file(follow_symlinks=follow) else None
        except OSError:
            return None  # it went while it was looked at


def _regular(key: str, file: int) -> os.stat_result:
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode):
        kind = "a folder" if stat.S_ISDIR(found.st_mode) else "a pipe or a device"
        raise StoreError(f"{key!r} is {kind}, not an object")
    return found


def _can_be_key(name: str) -> bool:
    """Whether a name on the disk is one that a key can have; others are not ours."""
    if "\\" in name:
        return False
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _again(root: str, follow_symlinks: bool, durability: Durability, was_there: bool = False) -> LocalStore:
    store = LocalStore(root, follow_symlinks=follow_symlinks, durability=durability)
    for name in _SET_UP if was_there else ():
        del store.__dict__[name]
    return store
