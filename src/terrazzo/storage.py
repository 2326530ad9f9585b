"""`terrazzo.storage`: stores under zarr-python's names.

What it does not do: anything of its own; the contract to write a store by is `Store`.

    >>> from terrazzo.storage import MemoryStore
    >>> store = MemoryStore()
    >>> store.set("a/b", b"bytes")
    >>> list(store.list())
    ['a/b']
"""

from typing import TYPE_CHECKING

from terrazzo.arrays.place import StorePath
from terrazzo.groups.places import StoreLike
from terrazzo.stores.local import LocalStore
from terrazzo.stores.mapping import MappingStore
from terrazzo.stores.memory import MemoryStore
from terrazzo.stores.open import open_store, register_opener
from terrazzo.stores.store import Store
from terrazzo.stores.watching import CountingStore, LoggingStore, Traffic, traffic
from terrazzo.stores.wrappers import PrefixStore, ReadOnlyStore, WrapperStore

if TYPE_CHECKING:
    from terrazzo.stores.borrowed import FsspecStore, ZarrPythonStore
    from terrazzo.stores.cache import CachingStore
    from terrazzo.stores.remote import RemoteStore
    from terrazzo.stores.zip import ZipStore

__all__ = [
    "CachingStore",
    "CountingStore",
    "FsspecStore",
    "LocalStore",
    "LoggingStore",
    "MappingStore",
    "MemoryStore",
    "PrefixStore",
    "ReadOnlyStore",
    "RemoteStore",
    "Store",
    "StoreLike",
    "StorePath",
    "Traffic",
    "WrapperStore",
    "ZarrPythonStore",
    "ZipStore",
    "open_store",
    "register_opener",
    "traffic",
]


#: imported when they are first asked for: zipfile, asyncio and what a cache needs take long to import
_LATER = {
    "CachingStore": "terrazzo.stores.cache",
    "FsspecStore": "terrazzo.stores.borrowed",
    "RemoteStore": "terrazzo.stores.remote",
    "ZarrPythonStore": "terrazzo.stores.borrowed",
    "ZipStore": "terrazzo.stores.zip",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module 'terrazzo.storage' has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(_LATER[name]), name)
    return found
