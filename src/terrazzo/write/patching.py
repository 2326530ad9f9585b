"""Shards that are patched: changed chunks written in place or after the end, as the strategy plans.

What it does not do: choose places (strategy.py), or journal and sync (the store's patch).

The changed chunks are encoded into memory first, since where they go depends on how long they are. Shards whose plan is
to be replaced are left to the flow.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from terrazzo.indexing import Window
from terrazzo.layout import Layout
from terrazzo.options import Options
from terrazzo.shard import EMPTY
from terrazzo.stores.store import Erase, Hold, Patch, Sink
from terrazzo.strategy import Append, Changed, InPlace, Plan, Replace, Strategy, plan
from terrazzo.write.encoding import encode
from terrazzo.write.rows import rows_of

__all__ = ["Memory", "check_strategy", "patch_of", "patches"]

Array = np.ndarray[Any, Any]


def check_strategy(layout: Layout, strategy: Strategy) -> None:
    """Refuse a strategy that could show a reader, ours or another's, what it does not expect."""
    sharding = layout.sharding
    if sharding is None or isinstance(strategy, Replace):
        return
    if isinstance(strategy, InPlace) and not strategy.torn_reads and not layout.chain.checksummed:
        raise ValueError(
            f"array {layout.path!r}: strategy 'in-place' needs a checksum in each inner chunk (crc32c as its last "
            "codec), so that a reader notices a chunk that is being written; accept torn reads with "
            "InPlace(torn_reads=True), or use strategy 'replace'"
        )
    if isinstance(strategy, Append) and not strategy.index_at_end and sharding.index_location == "end":
        raise ValueError(
            f"array {layout.path!r}: strategy 'append' on shards with their index at the end can leave, after a "
            "crash, a shard that other libraries cannot read until terrazzo opens it; accept that with "
            "Append(index_at_end=True), or create the array with index_location='start'"
        )


class Memory(Sink):
    """Encoded chunks, kept until their places are known."""

    def __init__(self) -> None:
        self.body = bytearray()

    def write(self, position: int, buffer: Any) -> None:
        view = memoryview(buffer).cast("B")
        self.body[position : position + len(view)] = view

    def discard(self) -> None:
        self.body = bytearray()


def patches(
    layout: Layout,
    window: Window,
    value: Array,
    holds: Sequence[Hold],
    olds: Sequence[Array | None],
    counts: Sequence[tuple[int, ...]],
    sources: Sequence[Any],
    strategy: Strategy,
    options: Options,
    done: Array,
) -> Generator[Any, Any, list[Patch | Erase]]:
    """The patches of a window; `done` is set for every shard that needs nothing more."""
    sharding = layout.sharding
    able = np.array([hold.patchable and old is not None for hold, old in zip(holds, olds, strict=True)])
    if sharding is None or not able.any():
        return []
    # the rows of the touched chunks alone: as if the other chunks were not there to be copied
    rows = rows_of(layout, window, holds, olds, counts, "unordered", able, copies=False)
    sinks = [Memory() if able[k] else None for k in range(len(holds))]
    names = [hold.key for hold in holds]
    entries, _ = yield from encode(
        layout, window, rows, names, sources, sinks, counts, [0] * len(holds), value, options
    )
    bounds = np.searchsorted(rows.number, np.arange(len(holds) + 1))
    changes: list[Patch | Erase] = []
    for k in np.flatnonzero(able).tolist():
        old, sink, source = olds[k], sinks[k], holds[k].source
        assert old is not None and sink is not None and source is not None and source.size is not None
        mine = slice(bounds[k], bounds[k + 1])
        fresh = entries[mine].view(np.int64)
        index_nbytes = sharding.index_nbytes(counts[k])
        at_start = sharding.index_location == "start"
        index = (0, index_nbytes) if at_start else (source.size - index_nbytes, source.size)
        changed = Changed(
            old, source.size, index, rows.inner[mine], np.where(fresh[:, 0] == -1, -1, fresh[:, 1])
        )
        found = plan(strategy, changed)
        if found is None:
            continue
        done[k] = True
        if (found.entries[:, 0] == EMPTY).all():
            changes.append(Erase(holds[k]))
            continue
        encoded = None
        if not np.array_equal(found.entries, old) or found.index_start != index[0]:
            encoded = sharding.encode_index(found.entries, counts[k])
        changes.append(patch_of(holds[k], found, fresh, sink.body, encoded, changed))
    return changes


def patch_of(hold: Hold, found: Plan, fresh: Array, body: bytearray, index: Any, changed: Changed) -> Patch:
    """The writes of one plan: appended bytes in one piece, with the index where it follows them."""
    view = memoryview(body)
    tail = bytearray()
    overwrites: list[tuple[int, Any]] = []
    for place, appended, (start, nbytes) in zip(
        found.offsets.tolist(), found.appended.tolist(), fresh.tolist(), strict=True
    ):
        if place < 0:
            continue
        piece = view[start : start + nbytes]
        if appended:
            tail += piece
        else:
            overwrites.append((place, piece))
    moved = index is not None and found.index_start >= changed.size
    if moved:
        tail += index
    elif index is not None:
        overwrites.append((found.index_start, index))
    return Patch(hold, [(changed.size, tail)] if tail else [], overwrites, guard_length=moved)
