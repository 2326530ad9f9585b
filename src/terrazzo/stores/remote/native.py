"""The obstore package: imported when the first store needs it, and once more in a process that was forked.

What it does not do: send a request (client.py does).

obstore keeps its sockets and threads in a runtime that a fork does not survive: in the child every call would wait for
ever, and merely closing a socket there reaches into the event queue that the parent still uses. So a child never
touches what it inherited, not even to free it: it loads the native library a second time, from a copy, with a runtime
of its own.
"""

from __future__ import annotations

import ctypes
import hmac
import os
import secrets
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from terrazzo.errors import StoreError, UnsupportedError

__all__ = ["Recipe", "build", "forked", "keep_for_ever", "library"]


class Recipe(NamedTuple):
    """How a store object of obstore is made: the name of its class, and what its class is called with."""

    kind: str
    positional: tuple[Any, ...]
    named: Mapping[str, Any]


#: store objects that are kept: making one takes 10 ms of CPU (the system's certificates), and a new connection
MOST_KEPT = 16
#: seconds after which one is made anew: certificates change, and other files that it read
LONGEST_KEPT = 300.0
#: what a recipe is compared by; of anything else nobody knows whether it is the same again
_PLAIN = (str, bytes, int, float, bool, type(None), timedelta)

_guard = threading.Lock()
#: by a digest of recipe and environment that means nothing outside this process; see `build`
_kept: OrderedDict[bytes, tuple[float, Any]] = OrderedDict()
_key = secrets.token_bytes(32)
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
    """A store object, made in this process: the same one for the same recipe in the same environment, for a while.

    Google's is made anew each time, as it holds what it read from a file of credentials."""
    native = library()
    name = _digest(recipe)
    if name is not None:
        with _guard:
            since, made = _kept.get(name, (0.0, None))
            if made is not None and time.monotonic() - since < LONGEST_KEPT:
                _kept.move_to_end(name)
                return made
    made = getattr(native._store, recipe.kind)(*recipe.positional, **recipe.named)
    if name is not None:
        with _guard:
            before = _kept.pop(name, None)
            _kept[name] = (time.monotonic(), made)
            oldest = _kept.popitem(last=False) if len(_kept) > MOST_KEPT else None
        del before, oldest  # outside of the lock: to free them may close connections
    return made


def _digest(recipe: Recipe) -> bytes | None:
    """Equal where the same store object would be made; None where that is not known. obstore reads the environment."""
    if recipe.kind == "GCSStore" or not _is_plain(recipe):
        return None
    parts = repr((recipe.kind, recipe.positional, recipe.named, sorted(os.environ.items())))
    return hmac.digest(_key, parts.encode("utf-8", "surrogateescape"), "sha256")


def _is_plain(value: Any) -> bool:
    if type(value) is dict:
        return all(_is_plain(part) for item in value.items() for part in item)
    if type(value) in (tuple, list, Recipe):
        return all(map(_is_plain, value))
    return type(value) in _PLAIN


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
    global _guard, _kept
    _guard = threading.Lock()  # a thread that is not in this process may have had it
    for _, made in _kept.values():
        keep_for_ever(made)
    _kept = OrderedDict()


if hasattr(os, "register_at_fork"):  # Windows has none
    os.register_at_fork(after_in_child=_after_fork)
