"""AsyncGroup: a Group for callers that await.

What it does not do: have any logic of its own; every method is the Group's in a thread, every generator its list.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeVar

from terrazzo.arrays.array import Array
from terrazzo.arrays.asynchronous import AsyncArray
from terrazzo.groups.group import Group

__all__ = ["AsyncGroup", "awaited"]

T = TypeVar("T")


class AsyncGroup:
    """A group in a store, for callers that await. What needs no store (`attrs`, `path`, ...) is the Group's.

    >>> import asyncio
    >>> group = AsyncGroup(Group.from_store(None))
    >>> array = asyncio.run(group.create_array("x", shape=3, dtype="i4"))
    >>> asyncio.run(group.contains("x")), array.shape
    (True, (3,))
    """

    def __init__(self, group: Group) -> None:
        self._group = group

    @property
    def group(self) -> Group:
        """The same group for callers that wait."""
        return self._group

    @classmethod
    async def open(cls, store: Any, zarr_format: int | None = None) -> AsyncGroup:
        return cls(await asyncio.to_thread(Group.open, store, zarr_format))

    @classmethod
    async def from_store(cls, store: Any, **how: Any) -> AsyncGroup:
        return cls(await asyncio.to_thread(Group.from_store, store, **how))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not isinstance(getattr(Group, name, None), property):
            raise AttributeError(f"AsyncGroup has no {name!r}; the Group itself is at .group")
        return getattr(self._group, name)

    def __repr__(self) -> str:
        return repr(self._group).replace("<terrazzo.Group", "<terrazzo.AsyncGroup", 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsyncGroup) and self._group == other._group

    __hash__ = None  # type: ignore[assignment]

    async def _do(self, method: Callable[..., Any], *args: Any, **how: Any) -> Any:
        return awaited(await asyncio.to_thread(method, *args, **how))

    async def _each(self, method: Callable[..., Any], *args: Any, **how: Any) -> AsyncIterator[Any]:
        for found in await asyncio.to_thread(lambda: list(method(*args, **how))):
            yield awaited(found)

    async def getitem(self, key: str) -> AsyncArray | AsyncGroup:
        """The node at a path below."""
        found: AsyncArray | AsyncGroup = await self._do(self._group.__getitem__, key)
        return found

    async def setitem(self, key: str, value: Any) -> None:
        """Make the array at a path hold `value`."""
        await self._do(self._group.__setitem__, key, value)

    async def delitem(self, key: str) -> None:
        """Delete the node at a path with everything below it."""
        await self._do(self._group.__delitem__, key)

    async def contains(self, member: str) -> bool:
        """Whether there is a node at a path."""
        return bool(await self._do(self._group.__contains__, member))

    async def get(self, key: str, default: Any = None) -> Any:
        return await self._do(self._group.get, key, default)

    async def get_array(self, path: str) -> AsyncArray:
        found: AsyncArray = await self._do(self._group.get_array, path)
        return found

    async def get_group(self, path: str) -> AsyncGroup:
        found: AsyncGroup = await self._do(self._group.get_group, path)
        return found

    async def create_array(self, name: str, **how: Any) -> AsyncArray:
        found: AsyncArray = await self._do(self._group.create_array, name, **how)
        return found

    create = create_array

    async def create_group(self, name: str, **how: Any) -> AsyncGroup:
        found: AsyncGroup = await self._do(self._group.create_group, name, **how)
        return found

    def create_hierarchy(
        self, nodes: Mapping[str, Any], *, overwrite: bool = False
    ) -> AsyncIterator[tuple[str, AsyncArray | AsyncGroup]]:
        return self._each(self._group.create_hierarchy, nodes, overwrite=overwrite)

    async def require_array(self, name: str, **how: Any) -> AsyncArray:
        found: AsyncArray = await self._do(self._group.require_array, name, **how)
        return found

    async def require_group(self, name: str, **how: Any) -> AsyncGroup:
        found: AsyncGroup = await self._do(self._group.require_group, name, **how)
        return found

    async def require_groups(self, *names: str) -> tuple[AsyncGroup, ...]:
        found = await asyncio.to_thread(self._group.require_groups, *names)
        return tuple(AsyncGroup(one) for one in found)

    async def empty(self, **how: Any) -> AsyncArray:
        found: AsyncArray = await self._do(self._group.empty, **how)
        return found

    async def zeros(self, **how: Any) -> AsyncArray:
        found: AsyncArray = await self._do(self._group.zeros, **how)
        return found

    async def ones(self, **how: Any) -> AsyncArray:
        found: AsyncArray = await self._do(self._group.ones, **how)
        return found

    async def full(self, **how: Any) -> AsyncArray:
        found: AsyncArray = await self._do(self._group.full, **how)
        return found

    async def empty_like(self, **how: Any) -> AsyncArray:
        found: AsyncArray = await self._do(self._group.empty_like, **how)
        return found

    async def zeros_like(self, **how: Any) -> AsyncArray:
        found: AsyncArray = await self._do(self._group.zeros_like, **how)
        return found

    async def ones_like(self, **how: Any) -> AsyncArray:
        found: AsyncArray = await self._do(self._group.ones_like, **how)
        return found

    async def full_like(self, **how: Any) -> AsyncArray:
        found: AsyncArray = await self._do(self._group.full_like, **how)
        return found

    async def move(self, source: str, dest: str) -> None:
        await self._do(self._group.move, source, dest)

    async def tree(self, expand: bool | None = None, level: int | None = None, **how: Any) -> Any:
        return await self._do(self._group.tree, expand, level, **how)

    async def update_attributes(self, new_attributes: Mapping[str, Any]) -> AsyncGroup:
        await self._do(self._group.update_attributes, new_attributes)
        return self

    async def info_complete(self) -> Any:
        return await self._do(self._group.info_complete)

    async def nmembers(self, max_depth: int | None = 0) -> int:
        return int(await self._do(self._group.nmembers, max_depth))

    def members(
        self, max_depth: int | None = 0, **how: Any
    ) -> AsyncIterator[tuple[str, AsyncArray | AsyncGroup]]:
        return self._each(self._group.members, max_depth, **how)

    def keys(self) -> AsyncIterator[str]:
        return self._each(self._group.keys)

    def arrays(self) -> AsyncIterator[tuple[str, AsyncArray]]:
        return self._each(self._group.arrays)

    def groups(self) -> AsyncIterator[tuple[str, AsyncGroup]]:
        return self._each(self._group.groups)

    def array_keys(self) -> AsyncIterator[str]:
        return self._each(self._group.array_keys)

    def group_keys(self) -> AsyncIterator[str]:
        return self._each(self._group.group_keys)

    def array_values(self) -> AsyncIterator[AsyncArray]:
        return self._each(self._group.array_values)

    def group_values(self) -> AsyncIterator[AsyncGroup]:
        return self._each(self._group.group_values)


def awaited(found: Any) -> Any:
    """What a function answered, with the faces for callers that await instead of arrays and groups."""
    if isinstance(found, Array):
        return AsyncArray(found)
    if isinstance(found, Group):
        return AsyncGroup(found)
    if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], Array | Group):
        return found[0], awaited(found[1])
    return found
