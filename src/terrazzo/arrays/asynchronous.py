"""AsyncArray: an Array for callers that await; the same flows, driven without blocking the event loop.

What it does not do: have any logic of its own. Selections run the flows by `run_async`; all else is the Array's method
in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from terrazzo.arrays.array import Array
from terrazzo.arrays.describe import Lines
from terrazzo.arrays.selections import is_mask, without_fields
from terrazzo.arrays.transfers import getting, setting
from terrazzo.indexing import (
    Projection,
    project_basic,
    project_blocks,
    project_coordinates,
    project_fancy,
    project_mask,
    project_orthogonal,
)
from terrazzo.inventory import Inventory
from terrazzo.stores.flow import run_async
from terrazzo.writer import ShardWriter

__all__ = ["AsyncArray", "AsyncShardWriter"]

Project = Callable[..., Projection]


class AsyncArray:
    """An array in a store, for callers that await. What needs no store (`shape`, `dtype`, ...) is the Array's.

    >>> import asyncio
    >>> from terrazzo import create_array
    >>> array = create_array(None, data=np.arange(10)).async_array
    >>> asyncio.run(array.getitem(slice(2, 4))).tolist()
    [2, 3]
    """

    def __init__(self, array: Array) -> None:
        self._array = array

    @property
    def array(self) -> Array:
        """The same array for callers that wait."""
        return self._array

    @classmethod
    async def open(cls, store: Any, config: Mapping[str, Any] | None = None) -> AsyncArray:
        """The array at the root of a store, or at a StorePath."""
        return cls(await asyncio.to_thread(Array.open, store, config))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(Array, name, None)
        if not isinstance(found, property) or name in ("nchunks_initialized", "nshards_initialized"):
            raise AttributeError(f"AsyncArray has no {name!r}; the Array itself is at .array")
        return getattr(self._array, name)

    def __repr__(self) -> str:
        return repr(self._array).replace("<terrazzo.Array", "<terrazzo.AsyncArray", 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsyncArray) and self._array == other._array

    __hash__ = None  # type: ignore[assignment]

    # selections

    async def _get(self, project: Project, selection: Any, out: Any = None, fields: Any = None) -> Any:
        flow, finish = getting(self._array, project(selection, self._array.layout), out, fields)
        await run_async(flow, self._array.chunk_store)
        return finish()

    async def _set(self, project: Project, selection: Any, value: Any, fields: Any = None) -> None:
        layout = self._array.layout
        flow = setting(self._array, lambda write: project(selection, layout, for_write=write), value, fields)
        await run_async(flow, self._array.chunk_store)

    async def getitem(self, selection: Any, *, prototype: Any = None) -> Any:
        """`array[selection]`."""
        fields, rest = without_fields(selection)
        return await self._get(project_fancy, rest, fields=fields)

    async def setitem(self, selection: Any, value: Any, *, prototype: Any = None) -> None:
        """`array[selection] = value`."""
        fields, rest = without_fields(selection)
        await self._set(project_fancy, rest, value, fields)

    async def get_basic_selection(
        self, selection: Any = ..., *, out: Any = None, fields: Any = None, prototype: Any = None
    ) -> Any:
        return await self._get(project_basic, selection, out, fields)

    async def get_orthogonal_selection(
        self, selection: Any, *, out: Any = None, fields: Any = None, prototype: Any = None
    ) -> Any:
        return await self._get(project_orthogonal, selection, out, fields)

    async def get_coordinate_selection(
        self, selection: Any, *, out: Any = None, fields: Any = None, prototype: Any = None
    ) -> Any:
        return await self._get(project_coordinates, selection, out, fields)

    async def get_mask_selection(
        self, mask: Any, *, out: Any = None, fields: Any = None, prototype: Any = None
    ) -> Any:
        return await self._get(project_mask, mask, out, fields)

    async def get_block_selection(
        self, selection: Any, *, out: Any = None, fields: Any = None, prototype: Any = None
    ) -> Any:
        return await self._get(project_blocks, selection, out, fields)

    @property
    def oindex(self) -> _View:
        """`await array.oindex.getitem(selection)`: each dimension on its own."""
        return _View(self, lambda _: project_orthogonal)

    @property
    def vindex(self) -> _View:
        """`await array.vindex.getitem(selection)`: element by element."""
        shape = self._array.shape
        return _View(self, lambda rest: project_mask if is_mask(rest, shape) else project_coordinates)

    @property
    def blocks(self) -> _View:
        """`await array.blocks.getitem(selection)`: whole stored chunks."""
        return _View(self, lambda _: project_blocks)

    # everything else: the Array's, in a thread

    async def resize(self, new_shape: Sequence[int] | int, delete_outside_chunks: bool = True) -> None:
        await asyncio.to_thread(self._array.resize, new_shape, delete_outside_chunks=delete_outside_chunks)

    async def append(self, data: Any, axis: int = 0) -> tuple[int, ...]:
        return await asyncio.to_thread(self._array.append, data, axis)

    async def update_attributes(self, new_attributes: Mapping[str, Any]) -> AsyncArray:
        await asyncio.to_thread(self._array.update_attributes, new_attributes)
        return self

    async def info_complete(self) -> Lines:
        return await asyncio.to_thread(self._array.info_complete)

    async def nchunks_initialized(self) -> int:
        return await asyncio.to_thread(lambda: self._array.nchunks_initialized)

    async def nshards_initialized(self) -> int:
        return await asyncio.to_thread(lambda: self._array.nshards_initialized)

    async def nbytes_stored(self) -> int:
        return await asyncio.to_thread(self._array.nbytes_stored)

    async def inventory(self, region: Any = None, *, slack: bool = False) -> Inventory:
        return await asyncio.to_thread(self._array.inventory, region, slack=slack)

    def writer(self, axis: int = 0, *, memory: int | None = None) -> AsyncShardWriter:
        """The buffered writer, in an `async with` block.

        >>> import asyncio
        >>> from terrazzo import create_array
        >>> array = create_array(None, shape=(0, 6), dtype="u1", chunks=(8, 6), shards=(64, 6)).async_array
        >>> async def record():
        ...     async with array.writer() as writer:
        ...         for number in range(100):
        ...             await writer.append(np.full(6, number, "u1"))
        >>> asyncio.run(record())
        >>> array.array.shape
        (100, 6)
        """
        return AsyncShardWriter(self._array.writer(axis, memory=memory))


class AsyncShardWriter:
    """A ShardWriter for callers that await; pieces of several tasks go in one after the other."""

    def __init__(self, writer: ShardWriter) -> None:
        self._writer = writer

    @property
    def position(self) -> int:
        """Where the next `append` goes."""
        return self._writer.position

    @property
    def stored(self) -> int:
        """The extent of the array along the axis: everything before it is durable."""
        return self._writer.stored

    async def append(self, data: Any) -> int:
        return await asyncio.to_thread(self._writer.append, data)

    async def write(self, selection: Any, value: Any) -> None:
        await asyncio.to_thread(self._writer.write, selection, value)

    async def flush(self) -> None:
        await asyncio.to_thread(self._writer.flush)

    async def close(self) -> None:
        await asyncio.to_thread(self._writer.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: Any) -> None:
        await asyncio.to_thread(self._writer.__exit__, *error)


class _View:
    def __init__(self, owner: AsyncArray, choose: Callable[[Any], Project]) -> None:
        self._owner = owner
        self._choose = choose

    async def getitem(self, selection: Any) -> Any:
        fields, rest = without_fields(selection)
        return await self._owner._get(self._choose(rest), rest, fields=fields)

    async def setitem(self, selection: Any, value: Any) -> None:
        fields, rest = without_fields(selection)
        await self._owner._set(self._choose(rest), rest, value, fields)
