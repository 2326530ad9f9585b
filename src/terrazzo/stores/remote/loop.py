"""The event loop that requests to remote stores run on: one per process, in a thread of its own, made when needed.

What it does not do: know what a request is. `wait_for` is called from any thread, and by the threads that asynchronous
callers wait with.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from terrazzo.errors import StoreError
from terrazzo.stores.interrupt import interruptible
from terrazzo.stores.remote.native import keep_for_ever

__all__ = ["on_the_loop", "start", "together", "wait_for"]

T = TypeVar("T")

_guard = threading.Lock()
_running: tuple[int, asyncio.AbstractEventLoop, threading.Thread] | None = None


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, run on the loop. An interrupt (Ctrl-C, or a caller that was cancelled) ends it too."""
    future = start(work)
    with interruptible(future.cancel):
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


def start(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Begin `work` on the loop."""
    if on_the_loop():
        work.close()
        raise StoreError(
            "a remote store cannot be waited for in its own event loop; this is a fault of the caller"
        )
    return asyncio.run_coroutine_threadsafe(work, _loop())


def on_the_loop() -> bool:
    return _running is not None and threading.current_thread() is _running[2]


async def together(works: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """The results in order. The first that fails ends the others; its error is raised when all of them have ended."""
    if len(works) == 1:
        return [await works[0]()]
    tasks = [asyncio.ensure_future(work()) for work in works]
    if not tasks:
        return []
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for one in ended:
        if isinstance(one, BaseException) and not isinstance(one, asyncio.CancelledError):
            raise one
    return [task.result() for task in tasks]


def _loop() -> asyncio.AbstractEventLoop:
    global _running
    known = _running
    if known is not None and known[0] == os.getpid():
        return known[1]
    with _guard:
        known = _running
        if known is not None and known[0] == os.getpid():
            return known[1]
        if known is not None:
            keep_for_ever(known[1])  # its selector is shared with the parent
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=_run, args=(loop,), name="terrazzo-remote", daemon=True)
        thread.start()
        _running = (os.getpid(), loop, thread)
        return loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()


def _after_fork() -> None:
    global _guard
    _guard = threading.Lock()  # a thread that is not in this process may have had it


if hasattr(os, "register_at_fork"):  # Windows has none
    os.register_at_fork(after_in_child=_after_fork)
