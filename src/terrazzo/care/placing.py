"""Whole objects put into a store as they are, many of them in one commit.

What it does not do: sync; a caller that works through many objects does so once, at the end (`store.sync()`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from terrazzo.options import Durability
from terrazzo.stores.store import Change, Put, Store

__all__ = ["later", "put_objects"]


def later(durability: Durability) -> Durability:
    """What each step of long work promises that ends with a sync."""
    return "rename" if durability == "fsync" else durability


def put_objects(store: Store, objects: Sequence[tuple[str, Any]], durability: Durability) -> None:
    """Make each (key, bytes) an object; keys are all different."""
    with ExitStack() as held:
        changes: list[Change] = []
        holds = store.hold_all([key for key, _ in objects], blind=[True] * len(objects))
        for hold in holds:
            held.push(hold)
        for hold, (_, body) in zip(holds, objects, strict=True):
            sink = store.sink(hold)
            held.callback(sink.discard)
            sink.write(0, body)
            changes.append(Put(hold, sink))
        store.commit(changes, durability)
