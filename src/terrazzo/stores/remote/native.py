"""The obstore package: imported when the first store needs it, and once more in a process that was forked.

What it does not do: send a request (client.py does).

obstore keeps its sockets and threads in a runtime that a fork does not survive: in the child every call would wait for
ever, and merely closing a socket there reaches into the event queue that the parent still uses. So a child never
touches what it inherited, not even to free it: it loads the native library a second time, from a copy, with a runtime
of its own.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

from terrazzo.errors import StoreError, UnsupportedError

__all__ = ["Recipe", "build", "forked", "keep_for_ever", "library"]


class Recipe(NamedTuple):
    """How a store object of obstore is made: the name of its class, and what its class is called with."""

    kind: str
    positional: tuple[Any, ...]
    named: Mapping[str, Any]


_guard = threading.Lock()
#: the process that loaded the library, and the library
_loaded: tuple[int, Any] | None = None


def library() -> Any:
    """The native module of obstore, safe to call in this process."""
    global _loaded
    known = _loaded
    if known is not None and known[0] == os.getpid():
        return known[1]
    with _guard:
        known = _loaded
        if known is None:
            _loaded = (os.getpid(), _import())
        elif known[0] != os.getpid():
            keep_for_ever(known[1])
            _loaded = (os.getpid(), _load_again(known[1].__file__))
        assert _loaded is not None
        return _loaded[1]


def forked() -> bool:
    """Whether this process inherited a library that only its parent may use."""
    return _loaded is not None and _loaded[0] != os.getpid()


def build(recipe: Recipe) -> Any:
    """A store object, made in this process."""
    return getattr(library()._store, recipe.kind)(*recipe.positional, **recipe.named)


def keep_for_ever(what: Any) -> None:
    """Never free `what` in this process: its sockets belong to the parent."""
    if sys.implementation.name == "cpython":
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(what))


def _import() -> Any:
    try:
        import obstore._obstore as native
    except ImportError as error:
        raise UnsupportedError(
            "stores on s3://, gs:// and az:// need the package obstore; install it with: pip install 'terrazzo[remote]'"
        ) from error
    return native


def _load_again(path: str) -> Any:
    import importlib.machinery
    import importlib.util

    name = "obstore._forked._obstore"  # its last part is what the library calls its own entry
    try:
        copy = _copy_of(path)
        loader = importlib.machinery.ExtensionFileLoader(name, copy)
        spec = importlib.util.spec_from_file_location(name, copy, loader=loader)
        assert spec is not None
        native = importlib.util.module_from_spec(spec)
        loader.exec_module(native)
    except (OSError, ImportError) as error:
        raise StoreError(
            "this process was forked from one that used object stores already, and their native library could not be "
            f"loaded a second time ({error}); start processes with multiprocessing's 'spawn' or 'forkserver' instead"
        ) from error
    native.__file__ = path  # a child of this child copies from the same place
    return native


def _copy_of(path: str) -> str:
    """The library under another name, without which the system would hand out the one that is loaded."""
    import shutil

    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("obstore")
        with open(path, "rb") as original, open(descriptor, "wb", closefd=False) as copy:
            shutil.copyfileobj(original, copy, 1 << 20)
        return f"/proc/self/fd/{descriptor}"
    import tempfile

    with open(path, "rb") as original, tempfile.NamedTemporaryFile(suffix=".so", delete=False) as file:
        shutil.copyfileobj(original, file, 1 << 20)
    return file.name


def _after_fork() -> None:
    global _guard
    _guard = threading.Lock()  # a thread that is not in this process may have had it


if hasattr(os, "register_at_fork"):  # Windows has none
    os.register_at_fork(after_in_child=_after_fork)
