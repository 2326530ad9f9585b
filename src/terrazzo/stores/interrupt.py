"""Ending what a thread waits for, from the caller that waits for the thread.

What it does not do: end anything by itself. `run_async` performs requests in threads; a store that waits for a network
says here how its wait is ended, and a caller that is cancelled ends it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

__all__ = ["Interrupt", "interruptible"]

T = TypeVar("T")


class Interrupt:
    """The waits of one request. After `end` those in progress are ended, and every later one at once."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._ends: list[Callable[[], object]] = []
        self._ended = False

    def end(self) -> None:
        with self._guard:
            self._ended = True
            ends = list(self._ends)
        for end in ends:
            end()

    def around(self, function: Callable[..., T], *arguments: Any) -> T:
        """What `function` returns; the waits inside it can be ended."""
        before = current.set(self)
        try:
            return function(*arguments)
        finally:
            current.reset(before)

    def enter(self, end: Callable[[], object]) -> None:
        with self._guard:
            self._ends.append(end)
            ended = self._ended
        if ended:
            end()

    def leave(self, end: Callable[[], object]) -> None:
        with self._guard:
            self._ends.remove(end)


#: of the request that this thread performs; a thread of `asyncio.to_thread` gets it with the caller's context
current: ContextVar[Interrupt | None] = ContextVar("terrazzo_interrupt", default=None)


@contextmanager
def interruptible(end: Callable[[], object]) -> Iterator[None]:
    """While the block waits, `end()` is what ends its wait."""
    interrupt = current.get()
    if interrupt is None:
        yield
        return
    interrupt.enter(end)
    try:
        yield
    finally:
        interrupt.leave(end)
