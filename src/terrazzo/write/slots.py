"""Chunks of one fixed size, overwritten where they lie by several writers at once.

What it does not do: lay slots (flow.py does, where a shard is written whole), lock or journal (the store's holds).

Under `InPlace`, where every encoded chunk has the same length, a shard is written with a slot for every inner chunk,
those that are all fill value too, and chunks are never left out again. So the index stays as it is, and a writer needs
no more of the shard than the slots it writes to: nobody waits for another's.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np

from terrazzo.index import IndexCache, first_range, parse
from terrazzo.indexing import Window
from terrazzo.layout import Layout
from terrazzo.options import Options
from terrazzo.shard import overlaps
from terrazzo.stores.flow import Claiming, Committing, Holding, Working
from terrazzo.stores.store import Hold, Patch
from terrazzo.strategy import InPlace, Strategy
from terrazzo.write.encoding import encode, old_objects
from terrazzo.write.ends import Cut, Ends, Uncut
from terrazzo.write.patching import Memory
from terrazzo.write.rows import Rows, rows_of

__all__ = ["has_slots", "write_in_slots"]

Array = np.ndarray[Any, Any]


def has_slots(layout: Layout, strategy: Strategy) -> bool:
    """Whether shards of this array are written with a slot for every inner chunk."""
    return (
        isinstance(strategy, InPlace)
        and layout.sharding is not None
        and layout.grid.uniform_shape is not None
        and layout.chain.encoded_nbytes is not None
    )


def write_in_slots(
    layout: Layout,
    window: Window,
    value: Array,
    options: Options,
    cache: IndexCache,
    ends: Ends | None = None,
    cut: Cut | None = None,
) -> Generator[Any, Any, bool]:
    """Overwrite the touched chunks of a window; False, with nothing written, where some shard has to be held alone.

    cut: what of it the array's end cuts, which may be others' too if `ends` finds that they made the array longer.
    """
    sharding, nbytes = layout.sharding, layout.chain.encoded_nbytes
    assert sharding is not None and nbytes is not None
    if window.whole_shard.any():
        return False  # all of it is new: replacing it is one write, and never torn
    names = layout.chunk_keys(window.outers)
    counts = layout.counts(window.outers)
    holds: list[Hold] = yield Holding(
        names, [first_range(sharding, count) for count in counts], exclusive=False
    )
    try:
        olds: list[Array | None] = []
        for k, hold in enumerate(holds):
            touched = window.inner[window.shard_number == k]
            if hold.source is None or not hold.patchable:
                return False
            entries = parse(layout, names[k], counts[k], hold.source, options.strict).entries
            if not (entries[touched, 1] == nbytes).all() or np.isin(overlaps(entries), touched).any():
                return False
            olds.append(entries)
        rows = rows_of(
            layout, window, holds, olds, counts, "unordered", np.ones(len(holds), np.bool_), copies=False
        )
        places = [[(start, nbytes) for start in starts] for starts in _starts(rows, olds)]
        if not (yield Claiming(holds, places)):
            return False
        if ends is not None and ends.concern(window, cut, holds) and (yield Working(ends.look)):
            if ends.refusal is not None or cut is None:
                return False
            window = Uncut(window, cut)
            rows = rows_of(
                layout, window, holds, olds, counts, "unordered", np.ones(len(holds), np.bool_), copies=False
            )
        sources = yield from old_objects(holds, np.zeros(len(holds), np.bool_))
        sinks = [Memory() for _ in holds]
        kept = replace(options, write_empty_chunks=True)
        fresh, _ = yield from encode(
            layout, window, rows, names, sources, sinks, counts, [0] * len(holds), value, kept
        )
        patches = []
        for k, (hold, sink) in enumerate(zip(holds, sinks, strict=True)):
            body = memoryview(sink.body)
            starts = fresh[rows.number == k, 0].tolist()
            pieces = [
                (place, body[start : start + nbytes])
                for (place, _), start in zip(places[k], starts, strict=True)
            ]
            patches.append(Patch(hold, overwrites=pieces))
        yield Committing(patches, options.durability)
        return True
    finally:
        for hold in holds:
            hold.release()


def _starts(rows: Rows, olds: list[Array | None]) -> list[list[int]]:
    """Where the chunk of each row lies in its shard, per shard in the order of the rows."""
    found = []
    for k, entries in enumerate(olds):
        assert entries is not None
        found.append(entries[rows.inner[rows.number == k], 0].tolist())
    return found
