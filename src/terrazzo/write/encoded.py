"""Shards put together from chunks that are encoded already: nothing is decoded, nothing is compressed again.

What it does not do: encode, or believe that the bytes fit the array's codecs; whoever calls knows where they come from.
Specification: sharding_indexed 1.0, "Binary shard format".
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from terrazzo.index import IndexCache, parse
from terrazzo.layout import Layout
from terrazzo.options import Options
from terrazzo.shard import EMPTY
from terrazzo.stores.flow import Sinking
from terrazzo.stores.store import NEAR, Cost, Erase, Hold, Patch, Put, Sink
from terrazzo.strategy import Changed, Outcomes, Replace, Strategy
from terrazzo.write.encoding import copy_encoded, old_objects
from terrazzo.write.flow import assemble, starts_of, with_patience
from terrazzo.write.held import Fresh, commit, given_back, hold_objects
from terrazzo.write.patching import patch_of, planned
from terrazzo.write.refusing import refuse_foreign
from terrazzo.write.rows import COPY, MISSING, Rows, ranks
from terrazzo.write.slack import slack_of
from terrazzo.write.slots import has_slots

__all__ = ["EncodedShard", "put_encoded"]

Array = np.ndarray[Any, Any]
Flow = Generator[Any, Any, None]


@dataclass(slots=True, eq=False)
class EncodedShard:
    """New inner chunks of one shard, as they will be stored.

    outer: the shard's index in the grid. inner: int64 (n,), C-order numbers of the inner chunks, all different.
    places: int64 (n, 3), buffer, offset, nbytes of each; buffer -1: the chunk is all fill value and not stored.
    buffers: open descriptors, or anything with the buffer protocol. kept: bool, one per inner chunk: what the shard
    stores of the others stays (None: all of it; all False: it is not looked at).
    """

    outer: tuple[int, ...]
    inner: Array
    places: Array
    buffers: Sequence[Any]
    kept: Array | None = None

    @property
    def replaces_all(self) -> bool:
        """Whether nothing of what is stored stays."""
        if self.kept is None:
            return False
        left = self.kept.copy()
        left[self.inner] = False
        return not left.any()


def put_encoded(
    layout: Layout,
    shards: Sequence[EncodedShard],
    options: Options,
    cache: IndexCache,
    strategy: Strategy,
    cost: Cost = NEAR,
    outcomes: Outcomes | None = None,
) -> Flow:
    """Store the chunks of these shards (all different), in one commit, in the strategy's manner.

    cost: of a request to the store. outcomes: counts what was committed.
    """
    if shards:
        counts = Outcomes() if outcomes is None else outcomes
        yield from with_patience(lambda: _put(layout, shards, options, cache, strategy, cost, counts))


def _put(
    layout: Layout,
    shards: Sequence[EncodedShard],
    options: Options,
    cache: IndexCache,
    strategy: Strategy,
    cost: Cost,
    outcomes: Outcomes,
) -> Flow:
    sharding = layout.sharding
    assert sharding is not None
    outers = np.array([shard.outer for shard in shards], np.int64).reshape(len(shards), layout.ndim)
    names = layout.chunk_keys(outers)
    counts = layout.counts(outers)
    whole = np.array([shard.replaces_all for shard in shards])
    holds = yield from hold_objects(layout, names, counts, whole.tolist(), cost)
    sinks: list[Sink] = []
    with given_back(holds, sinks):
        olds: list[Array | None] = [
            None
            if whole[k] or hold.source is None
            else parse(layout, names[k], counts[k], hold.source, options.strict).entries
            for k, hold in enumerate(holds)
        ]
        changes: list[Put | Erase | Patch] = []
        made: Fresh = {}
        counted = Outcomes()
        prepared = [
            None
            if old is None or not hold.patchable or isinstance(strategy, Replace)
            else _prepared(layout, hold, old, counts[k], shards[k])
            for k, (hold, old) in enumerate(zip(holds, olds, strict=True))
        ]
        changed = [None if piece is None else piece[0] for piece in prepared]
        plans = yield from planned(layout, strategy, holds, counts, changed)
        replaced: list[int] = []
        for k, (piece, found) in enumerate(zip(prepared, plans, strict=True)):
            if piece is not None:
                counted.planned(piece[0], found)
            if piece is None or found is None:
                replaced.append(k)
            else:
                change, fresh, body = piece
                changes.append(patch_of(layout, holds[k], found, fresh, body, change, counts[k]))
        if replaced:
            left = set(replaced)
            looked_at = [old if k in left else None for k, old in enumerate(olds)]
            yield from refuse_foreign(layout, holds, looked_at, counts, whole.tolist())
            needed = np.array([k not in left or whole[k] for k in range(len(holds))])
            handles = yield from old_objects(holds, needed)
            sinks += yield Sinking([holds[k] for k in replaced])
            rows, sources = _rows(shards, olds, counts, handles, replaced, strategy)
            entries, ends = yield from copy_encoded(
                rows,
                sources,
                sinks,
                starts_of(layout, [counts[k] for k in replaced]),
                options,
                slack_of(layout, strategy, [counts[k] for k in replaced], options),
            )
            changes += assemble(
                layout,
                rows,
                entries,
                ends,
                [holds[k] for k in replaced],
                sinks,
                [counts[k] for k in replaced],
                made,
                outers[replaced],
                slots=has_slots(layout, strategy),
            )
        yield from commit(changes, made, dict(zip(names, holds, strict=True)), options, cache, cost)
        outcomes.add(counted)


def _rows(
    shards: Sequence[EncodedShard],
    olds: Sequence[Array | None],
    counts: Sequence[tuple[int, ...]],
    handles: Sequence[Any],
    replaced: Sequence[int],
    strategy: Strategy,
) -> tuple[Rows, list[Any]]:
    """The copies that make each shard, in the order in which its chunks will lie, and what they are copied from."""
    sources: list[Any] = []
    pieces: list[Rows] = []
    for number, k in enumerate(replaced):
        shard, old = shards[k], olds[k]
        inner, places = shard.inner, shard.places.copy()
        stored = places[:, 0] >= 0
        places[stored, 0] += len(sources)
        places[~stored, 0] = MISSING
        sources += shard.buffers
        if old is not None:
            stays = old[:, 0] != EMPTY
            if shard.kept is not None:
                stays &= shard.kept
            stays[shard.inner] = False
            mine = np.flatnonzero(stays)
            inner = np.concatenate([inner, mine])
            before = np.column_stack([np.full(len(mine), len(sources)), old[mine].view(np.int64)])
            places = np.concatenate([places, before])
            sources.append(handles[k])
        rows = Rows(
            np.full(len(inner), number, np.int64),
            inner,
            np.full(len(inner), -1, np.int64),
            COPY,
            source=places[:, 0],
            offset=places[:, 1],
            nbytes=places[:, 2],
        )
        if strategy.order != "unordered":
            rows = rows.ordered(np.argsort(ranks(strategy.order, counts[k])[inner], kind="stable"))
        pieces.append(rows)
    return Rows.together(pieces), sources


def _prepared(
    layout: Layout, hold: Hold, old: Array, count: tuple[int, ...], shard: EncodedShard
) -> tuple[Changed, Array, bytearray] | None:
    """What changes in a shard, where each changed chunk lies in which bytes; None where they are not at hand."""
    sharding = layout.sharding
    assert sharding is not None and hold.source is not None and hold.source.size is not None
    inner, places = shard.inner, shard.places
    if not all(memory_like(buffer) for buffer in shard.buffers):
        return None
    if shard.kept is not None:  # what goes counts as changed, too
        goes = ~shard.kept & (old[:, 0] != EMPTY)
        goes[inner] = False
        gone = np.flatnonzero(goes)
        inner = np.concatenate([inner, gone])
        places = np.concatenate([places, np.tile(np.array([[-1, 0, 0]], np.int64), (len(gone), 1))])
    body = bytearray()
    fresh = np.full((len(inner), 2), -1, np.int64)
    for row, (buffer, offset, nbytes) in enumerate(places.tolist()):
        if buffer >= 0:
            fresh[row] = len(body), nbytes
            body += memoryview(shard.buffers[buffer]).cast("B")[offset : offset + nbytes]
    size = hold.source.size
    nbytes = np.where(fresh[:, 0] < 0, -1, fresh[:, 1])
    return Changed(old, size, sharding.index_span(count, size), inner, nbytes), fresh, body


def memory_like(buffer: Any) -> bool:
    """Whether the bytes are at hand, and not behind a descriptor."""
    return not isinstance(buffer, int)
