"""Replaced files, let go of by a thread: the system frees a file's pages and blocks when its last descriptor is closed.

What it does not do: close what somebody still reads, or keep more than a few files waiting.

Freeing a file of 15 MB takes milliseconds, more where others write too, and whoever replaced it needs nothing of that.
What waits still takes space on the disk. So only a few files may wait, and none where space is short; who finds no
space waits for them (`settled`). A process that ends closes them all, and so does one that forks, before it does.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from contextlib import suppress

from terrazzo.stores.contract import Source

__all__ = ["LARGE", "MOST", "leave", "settled"]

#: bytes of a file from which on it is left to the thread
LARGE = 1 << 20
#: files that wait, or are being closed, at most
MOST = 4
#: how many times its own length must be free on the disk for a file to wait
ROOM = 16
#: seconds that the thread waits for another file before it ends
PATIENCE = 2.0

_changed = threading.Condition(threading.Lock())
_waiting: deque[Source] = deque()
_closing = False
_thread: threading.Thread | None = None


def leave(source: Source) -> None:
    """Close the source of a file that bears no name any more: soon, where that pays."""
    if not _may_wait(source):
        source.close()
        return
    with _changed:
        if len(_waiting) + _closing < MOST and _is_served():
            _waiting.append(source)
            _changed.notify_all()
            return
    source.close()


def settled() -> bool:
    """Wait until every file is let go of; whether there were any."""
    with _changed:
        return _settle()


def _settle() -> bool:
    some = False
    while _waiting or _closing:
        some = True
        _changed.wait()
    return some


def _may_wait(source: Source) -> bool:
    if not isinstance(source.handle, int) or (source.size or 0) < LARGE:
        return False
    try:
        disk = os.fstatvfs(source.handle)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize > ROOM * (source.size or 0)


def _is_served() -> bool:
    """Whether a thread is there to close what waits."""
    global _thread
    if _thread is None:
        thread = threading.Thread(target=_close_all, name="terrazzo-leaving", daemon=True)
        with suppress(RuntimeError):  # no more threads, or the interpreter ends
            thread.start()
            _thread = thread
    return _thread is not None


def _close_all() -> None:
    global _closing, _thread
    while True:
        with _changed:
            if not _waiting and not _changed.wait_for(lambda: len(_waiting) > 0, PATIENCE):
                _thread = None
                return
            source = _waiting.popleft()
            _closing = True
        try:
            with suppress(OSError):
                source.close()
        finally:
            with _changed:
                _closing = False
                _changed.notify_all()


def _before_fork() -> None:
    # A child would inherit what waits, and keep its space for as long as it lives.
    _changed.acquire()
    _settle()


def _after_fork() -> None:
    _changed.release()


def _after_fork_in_child() -> None:
    global _changed, _thread
    _changed = threading.Condition(threading.Lock())
    _thread = None


if hasattr(os, "register_at_fork"):  # Windows has none
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
