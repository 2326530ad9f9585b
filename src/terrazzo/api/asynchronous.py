"""The functions of terrazzo for callers that await: same names, same arguments, AsyncArray and AsyncGroup in the place
of Array and Group.

What it does not do: have any logic of its own; each is the function of `synchronous` in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from terrazzo.api import synchronous
from terrazzo.arrays.asynchronous import AsyncArray
from terrazzo.groups.asynchronous import AsyncGroup, awaited

__all__ = [
    "AsyncArray",
    "AsyncGroup",
    "array",
    "consolidate_metadata",
    "copy",
    "copy_all",
    "copy_store",
    "create",
    "create_array",
    "create_group",
    "create_hierarchy",
    "empty",
    "empty_like",
    "from_array",
    "full",
    "full_like",
    "group",
    "load",
    "move",
    "ones",
    "ones_like",
    "open",
    "open_array",
    "open_consolidated",
    "open_group",
    "open_like",
    "save",
    "save_array",
    "save_group",
    "tree",
    "zeros",
    "zeros_like",
]


def _twin(function: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """The function in a thread; arrays and groups among its arguments may be of either face."""

    @wraps(function)
    async def twin(*args: Any, **how: Any) -> Any:
        given = [_waiting(value) for value in args]
        return awaited(await asyncio.to_thread(function, *given, **{k: _waiting(v) for k, v in how.items()}))

    twin.__doc__ = f"`terrazzo.{function.__name__}`, awaited."
    return twin


def _waiting(value: Any) -> Any:
    if isinstance(value, AsyncArray):
        return value.array
    return value.group if isinstance(value, AsyncGroup) else value


array = _twin(synchronous.array)
consolidate_metadata = _twin(synchronous.consolidate_metadata)
copy = _twin(synchronous.copy)
copy_all = _twin(synchronous.copy_all)
copy_store = _twin(synchronous.copy_store)
create = _twin(synchronous.create)
create_array = _twin(synchronous.create_array)
create_group = _twin(synchronous.create_group)
create_hierarchy = _twin(synchronous.create_hierarchy)
empty = _twin(synchronous.empty)
empty_like = _twin(synchronous.empty_like)
from_array = _twin(synchronous.from_array)
full = _twin(synchronous.full)
full_like = _twin(synchronous.full_like)
group = _twin(synchronous.group)
load = _twin(synchronous.load)
move = _twin(synchronous.move)
ones = _twin(synchronous.ones)
ones_like = _twin(synchronous.ones_like)
open = _twin(synchronous.open)
open_array = _twin(synchronous.open_array)
open_consolidated = _twin(synchronous.open_consolidated)
open_group = _twin(synchronous.open_group)
open_like = _twin(synchronous.open_like)
save = _twin(synchronous.save)
save_array = _twin(synchronous.save_array)
save_group = _twin(synchronous.save_group)
tree = _twin(synchronous.tree)
zeros = _twin(synchronous.zeros)
zeros_like = _twin(synchronous.zeros_like)
