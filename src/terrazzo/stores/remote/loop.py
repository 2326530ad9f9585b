"""The event loop that requests to remote stores run on: one per process, in a thread of its own, made when needed.

What it does not do: know what a request is. `wait_for` is called from any thread, and by the threads that asynchronous
callers wait with.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from terrazzo.errors import StoreError
from terrazzo.stores.interrupt import interruptible
from terrazzo.stores.remote.native import keep_for_ever

__all__ = ["launch", "on_the_loop", "together", "wait_for"]

T = TypeVar("T")

#: references to a loop that nobody uses: the tuple, the thread that ran it, the name, and the call that counts
AT_REST = 4
#: seconds that a process waits at its end for answers that are being handed over
LAST_WAIT = 0.25

_guard = threading.Lock()
_running: tuple[int, asyncio.AbstractEventLoop, threading.Thread] | None = None


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, run on the loop. An interrupt (Ctrl-C, or a caller that was cancelled) ends it too."""
    future = launch(work)
    with interruptible(future.cancel):
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


def launch(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Begin `work` on the loop."""
    if on_the_loop():
        work.close()
        raise StoreError(
            "a remote store cannot be waited for in its own event loop; this is a fault of the caller"
        )
    return asyncio.run_coroutine_threadsafe(work, _loop())


def on_the_loop() -> bool:
    return _running is not None and threading.current_thread() is _running[2]


async def together(
    works: Sequence[Callable[[], Awaitable[T]]], came: Callable[[int, T], None] | None = None
) -> list[T]:
    """The results in order. The first that fails ends the others; its error is raised when all of them have ended.

    came: is given each result, with its number, as soon as it is there."""

    async def one(number: int, work: Callable[[], Awaitable[T]]) -> T:
        found = await work()
        if came is not None:
            came(number, found)
        return found

    if len(works) == 1:
        return [await one(0, works[0])]
    tasks = [asyncio.ensure_future(one(number, work)) for number, work in enumerate(works)]
    if not tasks:
        return []
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        failed = None if task.cancelled() else task.exception()
        if failed is not None:
            raise failed
    return [task.result() for task in tasks]


def _loop() -> asyncio.AbstractEventLoop:
    global _running
    known = _running
    if known is not None and known[0] == os.getpid() and not known[1].is_closed():
        return known[1]
    with _guard:
        known = _running
        if known is not None and known[0] == os.getpid() and not known[1].is_closed():
            return known[1]
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=_run, args=(loop,), name="terrazzo-remote", daemon=True)
        thread.start()
        _running = (os.getpid(), loop, thread)
        return loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    loop.close()


@atexit.register
def _stop() -> None:
    """End what is on its way, and let obstore's threads out of the interpreter: one that still hands over an answer
    while the interpreter goes would abort the process."""
    known = _running
    if known is None or known[0] != os.getpid() or known[1].is_closed():
        return
    _, loop, thread = known
    try:
        asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result(2.0)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(2.0)
    except (Exception, asyncio.CancelledError):
        return
    # each answer on its way holds a reference to the loop until its thread is done with it
    gc.collect()
    end = time.monotonic() + LAST_WAIT
    while sys.getrefcount(loop) > AT_REST and time.monotonic() < end:
        time.sleep(0.001)


async def _cancel_all() -> None:
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _after_fork() -> None:
    global _guard
    _guard = threading.Lock()  # a thread that is not in this process may have had it
    if _running is not None:
        # its selector, and what is on its way, are shared with the parent
        keep_for_ever(_running[1])
        for task in asyncio.all_tasks(_running[1]):
            keep_for_ever(task)


if hasattr(os, "register_at_fork"):  # Windows has none
    os.register_at_fork(after_in_child=_after_fork)
