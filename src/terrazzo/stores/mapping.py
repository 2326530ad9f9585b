"""Any MutableMapping of keys to bytes as a store: a dict, a shelf, an object of the user's.

What it does not do: make the mapping safer than it is. Holds exclude writers of this process only.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, MutableMapping
from typing import Any

from terrazzo.stores.contract import Buffer
from terrazzo.stores.store import Store

__all__ = ["MappingStore"]


class MappingStore(Store):
    """The objects of `mapping`: its keys are keys, its values bytes (or anything with the buffer protocol)."""

    def __init__(self, mapping: MutableMapping[str, Any]) -> None:
        self.mapping = mapping

    def __repr__(self) -> str:
        return f"MappingStore({type(self.mapping).__name__} at {id(self.mapping):#x})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MappingStore) and self.mapping is other.mapping

    def __hash__(self) -> int:
        return id(self.mapping)

    @property
    def identity(self) -> Hashable:
        return id(self.mapping)

    def get(self, key: str) -> bytes | None:
        try:
            value = self.mapping[key]
        except KeyError:
            return None
        return value if type(value) is bytes else bytes(memoryview(value).cast("B"))

    def exists(self, key: str) -> bool:
        return key in self.mapping

    def set(self, key: str, value: Buffer) -> None:
        self.mapping[key] = value if type(value) is bytes else bytes(memoryview(value).cast("B"))

    def erase(self, key: str) -> None:
        self.mapping.pop(key, None)

    def list(self) -> Iterator[str]:
        return iter(list(self.mapping))
