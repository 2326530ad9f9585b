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
    from terrazzo.stores.zip import ZipStore

__all__ = [
    "CountingStore",
    "LocalStore",
    "LoggingStore",
    "MappingStore",
    "MemoryStore",
    "PrefixStore",
    "ReadOnlyStore",
    "Store",
    "StoreLike",
    "StorePath",
    "Traffic",
    "WrapperStore",
    "ZipStore",
    "open_store",
    "register_opener",
    "traffic",
]


def __getattr__(name: str) -> object:
    if name != "ZipStore":
        raise AttributeError(f"module 'terrazzo.storage' has no attribute {name!r}")
    from terrazzo.stores.zip import ZipStore  # zipfile takes long to import

    globals()[name] = ZipStore
    return ZipStore
