"""Changing files: the right to change one, a new one under construction, and the commit of many at once.

What it does not do: read for users, or list (local.py does).

One commit syncs all new files, renames them, and syncs each folder once. Until its rename an object is the old one;
whatever fails before it leaves the old one, and no file beside it once the hold is released.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from terrazzo.errors import ConflictError, ReadOnlyError, StoreError
from terrazzo.options import Durability
from terrazzo.stores.contract import Buffer, Change, Erase, Hold, Patch, Put, Range, Sink, Source, Tag
from terrazzo.stores.emulation import partly
from terrazzo.stores.exclusion import Turn, is_own, take_turn
from terrazzo.stores.files import Files, sync_many, write_all
from terrazzo.stores.folders import FOLDER, Folder, Folders
from terrazzo.stores.journal import JOURNAL_SUFFIX, apply_patch, mend, tag_of
from terrazzo.stores.keys import check_key, check_range
from terrazzo.stores.locks import LOCK_SUFFIX, lock, lock_again, share_alone, unlock
from terrazzo.stores.slots import Slots, needs_mending

if TYPE_CHECKING:
    from terrazzo.stores.local import LocalStore

__all__ = ["FileHold", "FileSink", "Unsynced", "commit", "failure", "take_hold"]


#: bytes of a new object from which on its blocks are reserved: for fewer that costs more than it saves
RESERVED = 1 << 18


class FileHold(Hold):
    """The locked lock file of one object, and the folder both lie in."""

    patchable = True

    def __init__(
        self,
        folders: Folders,
        key: str,
        folder: Folder,
        name: str,
        file: int,
        exclusive: bool,
        turn: Turn | None,
        filled: bool = False,
    ) -> None:
        super().__init__(key, None)
        self.folders = folders
        self.folder = folder
        self.name = name
        self.exclusive = exclusive
        #: the lock file, which is the next version under construction; None once it is neither
        self.file: int | None = file
        #: the version found under the lock; `checked` where a commit insists on it
        self.tag: Tag | None = None
        self.checked = True
        #: the lock file lies there under its own name
        self.named = True
        #: a dead writer's bytes lie in it, or a first try
        self.filled = filled
        self.slots: Slots | None = None
        self._turn = turn
        self._process = os.getpid()
        self._released = False

    @property
    def held(self) -> bool:
        return self.named and self.file is not None

    def claim(self, ranges: Sequence[tuple[int, int]], timeout: float | None = None) -> bool:
        if self.exclusive or self.tag is None or self.slots is not None or not self.held:
            return False
        try:
            self.slots = Slots.claim(self.folder.file, self.name, ranges, self.tag, timeout)
        except OSError as error:
            raise failure(error, self.key, "opened under its lock") from error
        return self.slots is not None

    def unclaim(self) -> None:
        slots, self.slots = self.slots, None
        if slots is not None:
            slots.give()

    def release(self) -> None:
        # Whatever interrupts this, the file's lock and the turn are given back.
        try:
            super().release()
        finally:
            if not self._released:
                try:
                    self.unclaim()
                finally:
                    self._give_back()

    def _give_back(self) -> None:
        try:
            self.drop_file()
        finally:
            self._released = True
            try:
                self.folders.give(self.folder)
            finally:
                if self._turn is not None:
                    self._turn.end()

    def drop_file(self) -> None:
        """Give the lock back; remove its file where it did not become the object."""
        file = self.file
        if file is None:
            return
        ours = self._process == os.getpid()
        try:
            if not ours:
                return  # a forked child's copy: the lock and the file are the parent's
            # The file may only be removed by who alone holds it: others share it otherwise.
            if self.named and (self.exclusive or share_alone(file)):
                self._tidy()
        finally:
            self.file = None
            (unlock if ours else os.close)(file)
        if not self.exclusive and self.named:
            # Two who shared it may have hindered each other: the last of them finds it free.
            last = lock_again(self.folder.file, self.name)
            if last is not None:
                try:
                    self._tidy()
                finally:
                    unlock(last)

    def _tidy(self) -> None:
        """Remove what lies beside the object, as its sole holder. What cannot be removed is left to the next one."""
        self.named = False
        files, folder = self.folders.files, self.folder.file
        if not self.exclusive:
            with suppress(OSError):
                mend(files, folder, self.name)
        with suppress(OSError):
            files.unlink(self.name + LOCK_SUFFIX, folder)
            if self.tag is None:
                self.folders.prune(self.folder.path)


class FileSink(Sink):
    """The lock file of a hold, being filled."""

    def __init__(self, files: Files, hold: FileHold) -> None:
        check_ours(hold)
        assert hold.file is not None
        if hold.filled:
            try:
                files.truncate(hold.file, 0)
            except OSError as error:
                raise failure(error, hold.key, "written") from error
        hold.filled = True
        self.hold = hold
        self.handle = hold.file if files.direct else None
        self._files = files
        self._reserved = 0

    @property
    def nbytes(self) -> int | None:
        return None if self.hold.file is None else os.fstat(self.hold.file).st_size

    def expect(self, nbytes: int) -> None:
        if self.handle is not None and nbytes >= RESERVED and self._files.reserve(self.handle, nbytes):
            self._reserved = nbytes

    def settle(self) -> None:
        """Give back what was reserved and not used."""
        file = self.hold.file
        if self._reserved and file is not None:
            size = os.fstat(file).st_size
            if size < self._reserved:
                self._files.truncate(file, size)
            self._reserved = 0

    def clone(self, source: Source) -> bool:
        if self.handle is None or not isinstance(source.handle, int):
            return False
        try:
            return self._files.clone(self.handle, source.handle)
        except OSError as error:
            raise failure(error, self.hold.key, "written") from error

    def write(self, position: int, buffer: Buffer) -> None:
        if self.hold.file is None:
            raise StoreError(f"{self.hold.key!r}: this new object was stored or given up; take a new hold")
        try:
            write_all(self._files, self.hold.file, position, buffer)
        except OSError as error:
            raise failure(error, self.hold.key, "written") from error

    def discard(self) -> None:
        self.handle = None


def take_hold(
    store: LocalStore,
    key: str,
    first: Range | None,
    *,
    exclusive: bool = True,
    timeout: float | None = None,
    blind: bool = False,
) -> FileHold:
    """The hold of `key`, mended where a dead writer left it half way; `blind` does not look at the present object."""
    store.check_own(check_key(key))
    if first is not None:
        check_range(key, first)
    path, _, name = key.rpartition("/")
    # Who shares an object takes no turn: the lock itself keeps threads apart.
    turn = take_turn(store.identity, key, timeout) if exclusive else None
    if not exclusive and is_own(store.identity, key):
        raise StoreError(
            f"{key!r} is held by this thread already; release that hold first (it would wait for itself)"
        )
    try:
        hold = _locked(store, key, path, name, exclusive, timeout, turn)
    except BaseException as error:
        if turn is not None:
            turn.end()
        if isinstance(error, OSError):
            raise failure(error, key, "locked for writing") from error
        raise
    try:
        if exclusive:
            mend(store.files, hold.folder.file, name)
        elif needs_mending(hold.folder.file, name):
            hold.release()
            take_hold(store, key, None, timeout=timeout, blind=True).release()
            return take_hold(store, key, first, exclusive=False, timeout=timeout, blind=blind)
        if blind:
            hold.blind = True
            hold.checked = False
            hold.tag = ()  # something may be there: the folder is not tidied up
        else:
            hold.source = store.source_in(hold.folder.file, key, name, first)
            hold.tag = None if hold.source is None else hold.source.tag
    except OSError as error:
        hold.release()
        raise failure(error, key, "opened under its lock") from error
    except BaseException:
        hold.release()
        raise
    return hold


def _locked(
    store: LocalStore,
    key: str,
    path: str,
    name: str,
    exclusive: bool,
    timeout: float | None,
    turn: Turn | None,
) -> FileHold:
    for _ in range(100):
        folder = store.folders.take(path)
        try:
            file, found = lock(store.files, folder.file, name, exclusive, timeout)
        except FileNotFoundError:  # the folder was removed, being empty, before the lock file lay in it
            store.folders.forget(folder)
            store.folders.give(folder)
        except BaseException:
            store.folders.give(folder)
            raise
        else:
            filled = found.st_size > 0
            return FileHold(store.folders, key, folder, name, file, exclusive, turn, filled)
    raise StoreError(f"{key!r}: another program removes the folder whenever it is made")


def commit(store: LocalStore, changes: Sequence[Change], durability: Durability) -> list[Tag | None]:
    files, sync = store.files, durability == "fsync"
    holds = [_checked(change) for change in changes]
    if len({id(hold) for hold in holds}) != len(holds):
        raise StoreError("two changes of one object in one commit; their order is not defined")
    if not sync:
        store.unsynced.note(hold.key for hold in holds)
    puts = [(change, hold) for change, hold in zip(changes, holds, strict=True) if isinstance(change, Put)]
    new = [hold.file for _, hold in puts if hold.file is not None]
    try:
        for put, _ in puts:
            assert isinstance(put.sink, FileSink)
            put.sink.settle()
        for file in new:
            files.stamp(file)
        if sync and new:
            sync_many(files, new)
    except OSError as error:
        for _, hold in puts:  # what was not synced now is never synced: these files are lost
            hold.drop_file()
        raise failure(error, ", ".join(repr(hold.key) for _, hold in puts[:3]), "written") from error
    tags: list[Tag | None] = []
    done: list[str] = []
    folders: dict[int, Folder] = {}
    for change, hold in zip(changes, holds, strict=True):
        try:
            tags.append(_change(files, change, hold, sync, durability != "none"))
        except (OSError, StoreError) as error:
            told = error if isinstance(error, StoreError) else failure(error, hold.key, "changed")
            raise partly(told, hold.key, done) from error
        done.append(hold.key)
        if not isinstance(change, Patch):  # a patch syncs its folder itself, as often as it needs
            folders[hold.folder.file] = hold.folder
    try:
        if sync:
            for folder in folders.values():
                files.sync_folder(folder.file)
            store.folders.sync_grown()
    except OSError as error:
        raise failure(
            error, ", ".join(map(repr, done[:3])), "made durable; stored, but it may not survive a crash"
        ) from error
    finally:
        for change, hold in zip(changes, holds, strict=True):
            if isinstance(change, Erase):
                store.folders.prune(hold.folder.path)
            if not isinstance(change, Patch):
                hold.drop_file()
    if not sync:
        store.unsynced.note(hold.key for hold in holds)
    return tags


def _change(files: Files, change: Change, hold: FileHold, sync: bool, journal: bool) -> Tag | None:
    folder, name, file = hold.folder.file, hold.name, hold.file
    if file is None:
        raise StoreError(f"{hold.key!r} is not held any more; take a new hold to change it")
    if isinstance(change, Patch):
        if hold.slots is not None:
            return hold.slots.write(files, folder, name, change, sync, journal)
        hold.tag = apply_patch(files, folder, name, change, hold.tag if hold.checked else None, sync, journal)
        return hold.tag
    if hold.checked and _tag_now(folder, name) != hold.tag:
        raise ConflictError(
            f"{hold.key!r} was changed by a writer without the lock; nothing was written, read it again"
        )
    if isinstance(change, Put):
        files.rename(name + LOCK_SUFFIX, name, folder)
        hold.named = False
        change.sink.discard()
        hold.tag = tag_of(os.fstat(file))
        return hold.tag
    for gone in (name, name + JOURNAL_SUFFIX, name + LOCK_SUFFIX):
        try:
            files.unlink(gone, folder)
        except FileNotFoundError:
            pass
    hold.named = False
    hold.tag = None
    return None


def _tag_now(folder: int, name: str) -> Tag | None:
    try:
        return tag_of(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        return None


def check_ours(hold: Hold, slots: bool = False) -> FileHold:
    if not isinstance(hold, FileHold):
        raise StoreError(f"{hold.key!r}: a hold of another store was given")
    if not hold.held:
        raise StoreError(f"{hold.key!r} is not held any more; take a new hold to change it")
    if not hold.exclusive and not (slots and hold.slots is not None):
        raise StoreError(f"{hold.key!r} is shared (exclusive=False); who shares an object cannot change it")
    return hold


def _checked(change: Change) -> FileHold:
    hold = check_ours(change.hold, slots=isinstance(change, Patch))
    if isinstance(change, Put) and not (isinstance(change.sink, FileSink) and change.sink.hold is hold):
        raise StoreError(f"{hold.key!r}: the sink was not made for this hold")
    return hold


class Unsynced:
    """What was committed without a sync, until `sync`."""

    def __init__(self, folders: Folders, files: Files) -> None:
        self._folders = folders
        self._files = files
        self._guard = threading.Lock()
        self._keys: set[str] = set()
        self._file_system: int | None = None

    def note(self, keys: Any) -> None:
        """Called before and after a commit: the descriptor tells of errors only since it was opened."""
        with self._guard:
            self._keys.update(keys)
            if self._file_system is None:
                try:
                    self._file_system = self._folders.open(self._folders.absolute("") or "/", FOLDER)
                except OSError:
                    pass  # then each key is synced for itself

    def sync(self) -> None:
        with self._guard:
            keys, self._keys = self._keys, set()
            file_system, self._file_system = self._file_system, None
        try:
            if keys and not (file_system is not None and self._files.sync_file_system(file_system)):
                self._one_by_one(keys)
            self._folders.sync_grown()
        except BaseException:
            with self._guard:
                self._keys |= keys
            raise
        finally:
            if file_system is not None:
                os.close(file_system)

    def _one_by_one(self, keys: set[str]) -> None:
        above = {key.rpartition("/")[0] for key in keys}
        for path, is_folder in [*((key, False) for key in keys), *((path, True) for path in above)]:
            try:
                file = self._folders.open(self._folders.absolute(path), FOLDER if is_folder else os.O_RDONLY)
            except (FileNotFoundError, NotADirectoryError):
                continue  # erased since
            try:
                (self._files.sync_folder if is_folder else self._files.sync)(file)
            finally:
                os.close(file)

    def close(self) -> None:
        with self._guard:
            file_system, self._file_system = self._file_system, None
        if file_system is not None:
            os.close(file_system)

    def __del__(self) -> None:
        if self._file_system is not None:
            os.close(self._file_system)


_WHY = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.ELOOP: "a symbolic link lies on the way to it; open the store with follow_symlinks=True to follow links",
    errno.ENOTDIR: "a part of its path is an object, so nothing can lie below it",
    errno.EISDIR: "it is a folder, so other objects lie below it",
    errno.ENOTEMPTY: "it is a folder, so other objects lie below it",
    errno.ENAMETOOLONG: "its name is longer than the file system allows",
    errno.EMFILE: "this process has too many files open (`ulimit -n`)",
    errno.EROFS: "the file system is mounted read-only",
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.EIO: "the disk reported an error",
}
_FORBIDDEN = (errno.EROFS, errno.EACCES, errno.EPERM)


def failure(error: OSError, key: str, what: str) -> StoreError:
    """The same failure as a StoreError that says which object and what to do; ours pass as they are."""
    if isinstance(error, StoreError):
        return error
    number = error.errno or errno.EIO
    why = _WHY.get(number, error.strerror or str(error))
    shown = key if key.startswith("'") else repr(key)
    reading = what in ("read", "opened")
    kind = ReadOnlyError if number in _FORBIDDEN and not reading else StoreError
    told = kind(f"{shown} could not be {what}: {why}")
    told.errno = number
    return told
