"""The contract of storage transformers, and the table of those that are known by name.

What it does not do: transform. An array's `storage_transformers` member lists them, the first nearest the array.
Specification: Zarr core 3.0, "Storage transformers".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeVar

from terrazzo.errors import MetadataError
from terrazzo.metadata import ArrayMetadata, Extension
from terrazzo.stores.store import Store

__all__ = [
    "Transformer",
    "known_transformers",
    "register_transformer",
    "transformed",
    "transformer_from_extension",
]


class Transformer(ABC):
    """Shows one array's chunks as a store of its own; keeps no state but its configuration.

    To write one: subclass, set `name`, write the three methods, and pass the class to `register_transformer`.
    """

    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        """Build from a document; `path` goes into every error. Unknown keys are refused."""

    @abstractmethod
    def configuration(self) -> dict[str, Any]:
        """The `configuration` member of the document."""

    @abstractmethod
    def wrap(self, store: Store, path: str, metadata: ArrayMetadata) -> Store:
        """The store through which the chunks of the array at `path` are read and written; keys stay whole, as in
        `store`. It pickles where `store` does."""


T = TypeVar("T", bound=Transformer)

_known: dict[str, type[Transformer]] = {}


def register_transformer(transformer: type[T]) -> type[T]:
    """Make a storage transformer known by its name; also a decorator. A later class of a name replaces the earlier."""
    name = getattr(transformer, "name", None)
    if not (isinstance(transformer, type) and issubclass(transformer, Transformer)) or not isinstance(
        name, str
    ):
        raise TypeError(
            f"{transformer!r} is no storage transformer: it must be a Transformer class with a `name`"
        )
    _known[name] = transformer
    return transformer


def known_transformers() -> tuple[str, ...]:
    """Every name that documents may use, in alphabetical order."""
    return tuple(sorted(_known))


def transformer_from_extension(extension: Extension, path: str) -> Transformer:
    """The transformer that a document's member means; MetadataError where its name is not known."""
    found = _known.get(extension.name)
    if found is None:
        known = f"known are {', '.join(known_transformers())}" if _known else "none is registered"
        raise MetadataError(
            f"{path}: found the storage transformer {extension.name!r:.80}, which is not known, and without it chunks "
            f"cannot be found; {known} (terrazzo.register_transformer)",
            ((path, f"{extension.name!r:.80} is not known"),),
        )
    return found.from_configuration(extension.configuration, path)


def transformed(store: Store, path: str, metadata: ArrayMetadata) -> Store:
    """The store through which the chunks of an array are read and written: `store` or what stands before it."""
    where = f"{path}/zarr.json: storage_transformers" if path else "zarr.json: storage_transformers"
    wanted = [
        transformer_from_extension(extension, f"{where}[{i}]")
        for i, extension in enumerate(metadata.storage_transformers)
    ]
    for transformer in reversed(wanted):  # the first is nearest the array, the last nearest the store
        store = transformer.wrap(store, path, metadata)
    return store
