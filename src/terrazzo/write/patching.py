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
from terrazzo.strategy import Append, Changed, InPlace, Outcomes, Plan, Replace, Strategy, plan
from terrazzo.write.encoding import encode
from terrazzo.write.refusing import foreign_names
from terrazzo.write.rows import rows_of

__all__ = ["Memory", "check_strategy", "patch_of", "patches", "planned"]

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
    outcomes: Outcomes,
) -> Generator[Any, Any, list[Patch | Erase]]:
    """The patches of a window; `done` is set for every shard that needs nothing more, and all is counted."""
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
    changed: list[Changed | None] = [None] * len(holds)
    for k in np.flatnonzero(able).tolist():
        old, source = olds[k], holds[k].source
        assert old is not None and source is not None and source.size is not None
        mine = slice(bounds[k], bounds[k + 1])
        fresh = entries[mine].view(np.int64)
        index = sharding.index_span(counts[k], source.size)
        nbytes = np.where(fresh[:, 0] == -1, -1, fresh[:, 1])
        changed[k] = Changed(old, source.size, index, rows.inner[mine], nbytes)
    plans = yield from planned(layout, strategy, holds, counts, changed)
    changes: list[Patch | Erase] = []
    for k, (change, found) in enumerate(zip(changed, plans, strict=True)):
        if change is None:
            continue
        outcomes.planned(change, found)
        if found is None:
            continue
        done[k] = True
        sink = sinks[k]
        assert sink is not None
        fresh = entries[bounds[k] : bounds[k + 1]].view(np.int64)
        changes.append(patch_of(layout, holds[k], found, fresh, sink.body, change, counts[k]))
    return changes


def planned(
    layout: Layout,
    strategy: Strategy,
    holds: Sequence[Hold],
    counts: Sequence[tuple[int, ...]],
    changed: Sequence[Changed | None],
) -> Generator[Any, Any, list[Plan | None]]:
    """The plan of every shard that changes; chunks grow only over bytes that are no other format's."""
    plans = [None if change is None else plan(strategy, change) for change in changed]
    growing = [found is not None and bool(found.grown.any()) for found in plans]
    if any(growing):
        looked_at = [
            change.entries if grows and change is not None else None
            for change, grows in zip(changed, growing, strict=True)
        ]
        names = yield from foreign_names(layout, [hold.source for hold in holds], looked_at, counts)
        for k, (change, name) in enumerate(zip(changed, names, strict=True)):
            if change is not None and name is not None:
                plans[k] = plan(strategy, change, grow=False)
    return plans


def patch_of(
    layout: Layout,
    hold: Hold,
    found: Plan,
    fresh: Array,
    body: bytearray,
    changed: Changed,
    count: tuple[int, ...],
) -> Patch | Erase:
    """The writes of one plan: appended bytes in one piece, with the index where it follows them.

    fresh: int64 (n, 2), where each changed chunk lies in `body`, and its length. A shard without chunks goes.
    """
    assert layout.sharding is not None
    if (found.entries[:, 0] == EMPTY).all():
        return Erase(hold)
    index = None
    if not np.array_equal(found.entries, changed.entries) or found.index_start != changed.index[0]:
        index = layout.sharding.encode_index(found.entries, count)
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
    if index is not None and moved:
        tail += index
    elif index is not None:
        overwrites.append((found.index_start, index))
    return Patch(hold, [(changed.size, tail)] if tail else [], overwrites, guard_length=moved)
