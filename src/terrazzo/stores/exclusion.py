"""Exclusion inside one process: who may change which object now.

What it does not do: keep other processes out (stores/locks.py does, on local disks).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable
from typing import Final

from terrazzo.errors import HeldError, StoreError

__all__ = ["Turn", "is_own", "take_turn"]

Name = tuple[Hashable, str]


class _Entry:
    """One object that somebody holds or waits for; it leaves the table with the last of them."""

    __slots__ = ("lock", "owner", "users")

    def __init__(self) -> None:
        self.lock: Final = threading.Lock()
        self.owner: int | None = None
        self.users = 0


_guard = threading.Lock()
_entries: dict[Name, _Entry] = {}


class Turn:
    """The sole right, within this process, to change one object; `end` gives it back, from any thread, once."""

    __slots__ = ("_entry", "_name")

    def __init__(self, name: Name, entry: _Entry) -> None:
        self._name = name
        self._entry: _Entry | None = entry

    @property
    def held(self) -> bool:
        return self._entry is not None

    def __enter__(self) -> Turn:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        with _guard:
            entry, self._entry = self._entry, None
            if entry is None:
                return
            entry.owner = None
            entry.lock.release()
            _leave(self._name, entry)


def take_turn(identity: Hashable, key: str, timeout: float | None) -> Turn:
    """Wait for the right to change `key`; HeldError after `timeout` seconds (None waits for ever, 0 not at all).

    A thread that holds the object already and would wait for itself is refused with StoreError.
    """
    name = (identity, key)
    with _guard:
        entry = _entries.get(name)
        if entry is None:
            entry = _entries[name] = _Entry()
        entry.users += 1
        taken = entry.lock.acquire(blocking=False)
        if taken:
            entry.owner = threading.get_ident()
            return Turn(name, entry)
        if timeout is None and entry.owner == threading.get_ident():
            _leave(name, entry)
            raise StoreError(
                f"{key!r} is held by this thread already; release that hold first (it would wait for itself)"
            )
    taken = False
    try:
        taken = _wait(entry.lock, timeout)
    finally:
        with _guard:
            if taken:
                entry.owner = threading.get_ident()
            else:
                _leave(name, entry)
    if not taken:
        raise HeldError(f"{key!r} is being changed by another writer in this process; tried for {timeout} s")
    return Turn(name, entry)


def is_own(identity: Hashable, key: str) -> bool:
    """Whether this thread has the turn of `key`."""
    with _guard:
        entry = _entries.get((identity, key))
        return entry is not None and entry.owner == threading.get_ident()


def _wait(lock: threading.Lock, timeout: float | None) -> bool:
    if timeout is None:
        return lock.acquire()
    return lock.acquire(timeout=max(0.0, min(timeout, threading.TIMEOUT_MAX)))


def _leave(name: Name, entry: _Entry) -> None:
    entry.users -= 1
    if entry.users == 0 and _entries.get(name) is entry:  # a forked child starts with an empty table
        del _entries[name]


def _after_fork() -> None:
    # In a child no other thread lives on: holds taken by them belong to the parent.
    global _guard
    _guard = threading.Lock()
    _entries.clear()


if hasattr(os, "register_at_fork"):  # Windows has none
    os.register_at_fork(after_in_child=_after_fork)
