"""Folders below a root: found without following symbolic links, made when needed, removed when empty.

What it does not do: touch what lies in them (local.py does).

A path is resolved by the operating system in one step that refuses every symbolic link (openat2 on Linux,
O_NOFOLLOW_ANY on macOS, segment by segment elsewhere). So nothing outside the root can be reached, also while
somebody swaps folders for links. The root itself is resolved once, when the store is made: it may be a link.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import sys
import threading
from typing import Any
from weakref import WeakSet

from terrazzo.stores.files import Files

__all__ = ["Folder", "Folders", "open_path", "open_plainly"]

FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)

_AT_FDCWD = -100
_OPENAT2 = 437
_RESOLVE_NO_SYMLINKS = 0x04
_ENCODING, _ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
_O_NOFOLLOW_ANY = 0x20000000  # macOS


def open_plainly(path: str, flags: int) -> int:
    """Open a path, symbolic links followed."""
    return os.open(path, flags | os.O_CLOEXEC)


def _open_by_system(path: str, flags: int) -> int:
    how = _how.get(flags)
    if how is None:
        how = _how[flags] = struct.pack("QQQ", flags | os.O_CLOEXEC, 0, _RESOLVE_NO_SYMLINKS)
    while True:
        file: int = _openat2(_OPENAT2, _AT_FDCWD, path.encode(_ENCODING, _ERRORS), how, 24)
        if file >= 0:
            return file
        number = ctypes.get_errno()
        if number not in (errno.EINTR, errno.EAGAIN):
            raise OSError(number, os.strerror(number), path)


def _open_by_flag(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC | _O_NOFOLLOW_ANY)


def _open_by_segment(path: str, flags: int) -> int:
    way = os.O_NOFOLLOW | FOLDER | getattr(os, "O_PATH", 0)
    *folders, name = path.strip("/").split("/")
    folder = os.open("/", FOLDER)
    try:
        for segment in folders:
            try:
                below = os.open(segment, way, dir_fd=folder)
            except NotADirectoryError:
                if stat.S_ISLNK(os.stat(segment, dir_fd=folder, follow_symlinks=False).st_mode):
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path) from None
                raise
            os.close(folder)
            folder = below
        if name and stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)  # O_PATH would open the link itself
        return os.open(name or ".", flags | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder)
    finally:
        os.close(folder)


_how: dict[int, bytes] = {}
_openat2: Any = None


def _choose() -> Any:
    global _openat2
    if sys.platform == "darwin":
        return _open_by_flag
    if sys.platform.startswith("linux"):
        try:
            _openat2 = ctypes.CDLL(None, use_errno=True).syscall
            _openat2.restype = ctypes.c_long
            _openat2.argtypes = [
                ctypes.c_long,
                ctypes.c_int,
                ctypes.c_char_p,
                ctypes.c_char_p,
                ctypes.c_size_t,
            ]
            os.close(_open_by_system("/", FOLDER))  # older kernels and some sandboxes refuse the call
        except (OSError, AttributeError):
            return _open_by_segment
        return _open_by_system
    return _open_by_segment


#: open an absolute path, refusing every symbolic link in it with OSError(ELOOP) or OSError(ENOTDIR)
open_path = _choose()


class Folder:
    """An open folder below the root, shared by all who change something in it."""

    __slots__ = ("file", "path", "users")

    def __init__(self, path: str, file: int) -> None:
        self.path = path
        self.file = file
        self.users = 0


class Folders:
    """The folders of one store that are in use, and those whose names may not have reached the disk."""

    def __init__(self, root: str, files: Files, follow_symlinks: bool) -> None:
        self.root = root
        self.files = files
        self.open = open_plainly if follow_symlinks else open_path
        self._guard = threading.Lock()
        self._in_use: dict[str, Folder] = {}
        # Absolute paths of folders in which folders were made; a name leaves once it was synced.
        self._grown: set[str] = set()
        _all.add(self)

    def begin_again(self) -> None:
        """In a forked child: a thread of the parent may have had the guard, and folders that nobody gives back here."""
        self._guard = threading.Lock()
        self._in_use = {}

    def take(self, path: str) -> Folder:
        """The folder at `path` (relative to the root), made with its parents where missing. `give` it back."""
        with self._guard:
            folder = self._in_use.get(path)
            if folder is None:
                folder = self._in_use[path] = Folder(path, self._make(self.absolute(path)))
            folder.users += 1
            return folder

    def give(self, folder: Folder) -> None:
        with self._guard:
            folder.users -= 1
            if folder.users == 0:
                if self._in_use.get(folder.path) is folder:
                    del self._in_use[folder.path]
                os.close(folder.file)

    def forget(self, folder: Folder) -> None:
        """Somebody removed it from the disk: the next to take its path gets a new one."""
        with self._guard:
            if self._in_use.get(folder.path) is folder:
                del self._in_use[folder.path]

    def absolute(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def prune(self, path: str) -> None:
        """Remove the folder at `path` and its parents below the root, as far as they are empty."""
        while path:
            parent, _, name = path.rpartition("/")
            try:
                above = self.open(self.absolute(parent), FOLDER)
            except OSError:
                return
            try:
                self.files.rmdir(name, above)
            except OSError:  # not empty, or gone: somebody else's
                return
            finally:
                os.close(above)
            path = parent

    def sync_grown(self) -> None:
        """Make the names of all folders durable that this store has made."""
        for path in list(self._grown):
            try:
                file = self.open(path, FOLDER)
            except (FileNotFoundError, NotADirectoryError):
                self._grown.discard(path)
                continue
            try:
                self.files.sync_folder(file)
            finally:
                os.close(file)
            self._grown.discard(path)

    def _make(self, path: str) -> int:
        """An open folder at an absolute path; what others remove meanwhile is made again."""
        for _ in range(100):
            below: list[str] = []
            above = path
            while True:
                try:
                    file = self.open(above or "/", FOLDER)
                    break
                except FileNotFoundError:
                    above, _, name = above.rpartition("/")
                    below.append(name)
            try:
                while below:
                    name = below.pop()
                    try:
                        self.files.mkdir(name, file)
                        self._grown.add(above or "/")
                    except FileExistsError:
                        pass
                    above = f"{above}/{name}"
                    deeper = self.open(above, FOLDER)
                    os.close(file)
                    file = deeper
                return file
            except FileNotFoundError:
                os.close(file)
            except BaseException:
                os.close(file)
                raise
        raise OSError(errno.ENOENT, "another program removes the folder whenever it is made", path)


_all: WeakSet[Folders] = WeakSet()


def _after_fork() -> None:
    for folders in list(_all):
        folders.begin_again()


if hasattr(os, "register_at_fork"):  # Windows has none
    os.register_at_fork(after_in_child=_after_fork)
