"""Further ways to and from an Array: by class, from a document, its face for callers that await, its writer.

What it does not do: look for nodes in a hierarchy (groups).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from terrazzo.arrays.documents import document_key, read_document
from terrazzo.arrays.place import StorePath
from terrazzo.arrays.transfers import refuse_reading
from terrazzo.arrays.values import as_value
from terrazzo.config import options_from
from terrazzo.errors import ArrayNotFoundError, NodeTypeValidationError
from terrazzo.metadata import ArrayMetadata, node_from_json
from terrazzo.stores.open import open_store
from terrazzo.writer import ShardWriter

if TYPE_CHECKING:
    from terrazzo.arrays.array import Array
    from terrazzo.arrays.asynchronous import AsyncArray

__all__ = ["Entrances"]


class Entrances:
    """The part of an Array that leads to it and away from it."""

    @classmethod
    def open(cls, store: Any, config: Mapping[str, Any] | None = None) -> Array:
        """The array at the root of a store, or at a StorePath; `terrazzo.open_array` takes paths and modes too."""
        place = store if isinstance(store, StorePath) else StorePath(*open_store(store))
        options = options_from(config)
        node = read_document(place.store, place.path, options)
        if node is None:
            raise ArrayNotFoundError(f"there is no array at {place.name!r} in {place.store}")
        if not isinstance(node, ArrayMetadata):
            raise NodeTypeValidationError(
                f"there is a group at {place.name!r} in {place.store}, not an array"
            )
        return cast("type[Array]", cls)(place.store, place.path, node, options)

    @classmethod
    def from_dict(cls, store_path: StorePath, data: Mapping[str, Any]) -> Array:
        """An array whose document is `data`, without a look at the store."""
        options = options_from(None)
        node = node_from_json(dict(data), document_key(store_path.path), options, "array")
        assert isinstance(node, ArrayMetadata)
        return cast("type[Array]", cls)(store_path.store, store_path.path, node, options)

    @property
    def async_array(self) -> AsyncArray:
        """The same array for callers that await."""
        from terrazzo.arrays.asynchronous import AsyncArray

        return AsyncArray(cast("Array", self))

    _async_array = async_array

    def writer(self, axis: int = 0, *, memory: int | None = None) -> ShardWriter:
        """A buffered writer for values that come in small pieces along `axis`, in steps, frames or tiles.

        memory: bytes of values that it may hold (by default the setting of that name); best are a chunk's steps.

            >>> array = terrazzo.create_array(
            ...     "frames.zarr", shape=(0, 4, 6), dtype="u1", chunks=(8, 4, 6), shards=(64, 4, 6)
            ... )
            >>> with array.writer() as writer:
            ...     for number in range(100):
            ...         position = writer.append(np.full((4, 6), number, "u1"))
            >>> array.shape
            (100, 4, 6)
        """
        from terrazzo.arrays.appending import ArrayEnd

        array = cast("Array", self)
        refuse_reading(array)
        return ShardWriter(
            array.layout,
            array.chunk_store,
            array.options,
            array.index_cache,
            array.strategy,
            axis,
            memory,
            lambda value: as_value(value, array.dtype),
            ArrayEnd(array, axis),
            array.outcomes,
        )
