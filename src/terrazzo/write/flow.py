"""The write flow: merge, encode, assemble, put.

What it does not do: decide where changed chunks go in an old shard (strategy.py), or lock and sync (the store).

Per window of objects: hold them, in the order of their keys; lay the value over what is there, encode, and write in one
kernel call (untouched inner chunks keep their encoded bytes); then commit all of them together. A chunk that is the
fill value, bit for bit, is left out; an object without chunks is none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from terrazzo.errors import ConflictError
from terrazzo.index import IndexCache, parse
from terrazzo.indexing import Projection, Window
from terrazzo.layout import Layout
from terrazzo.options import Options
from terrazzo.read import MAX_ROWS, max_objects
from terrazzo.shard import EMPTY, empty_entries
from terrazzo.stores.flow import Sinking, Working
from terrazzo.stores.store import NEAR, Cost, Erase, Hold, Patch, Put, Sink
from terrazzo.strategy import Changed, Outcomes, Replace, Strategy, clones
from terrazzo.write.converting import converted, is_converted_late
from terrazzo.write.encoding import encode, old_objects
from terrazzo.write.ends import Cut, Ends, Uncut, cut_by_the_end
from terrazzo.write.held import Fresh, commit, given_back, hold_objects
from terrazzo.write.patching import check_strategy, patches
from terrazzo.write.refusing import refuse_foreign
from terrazzo.write.rows import Rows, rows_of
from terrazzo.write.slack import slack_of
from terrazzo.write.slots import has_slots, write_in_slots

__all__ = ["assemble", "starts_of", "with_patience", "write"]

Array = np.ndarray[Any, Any]
Flow = Generator[Any, Any, None]

#: bytes of fill value written at a time
LAID_AT_ONCE = 1 << 22
#: looks at an object that others keep changing, before giving up
TRIES = 20


def write(
    layout: Layout,
    projection: Projection,
    value: Array,
    options: Options,
    cache: IndexCache,
    strategy: Strategy,
    cost: Cost = NEAR,
    outcomes: Outcomes | None = None,
    ends: Ends | None = None,
) -> Flow:
    """Store `value`, of the projection's buffer shape and the array's type, in the selected elements; numbers that
    take more than the memory of a call may be of another type (`is_converted_late`).

    cost: of a request to the store, and whether it keeps new objects in memory until they are committed. outcomes:
    counts what was committed. ends: how to find out whether others have made the array longer; None: nobody has.
    """
    outcomes = Outcomes() if outcomes is None else outcomes
    check_strategy(layout, strategy)
    most = max_objects(layout, options, cost)
    if cost.buffered:
        most = max(1, min(most, options.memory // max(1, layout.object_nbytes)))
    late = is_converted_late(value, layout.dtype, options.memory)
    if late:
        most = max(1, min(most, options.memory // max(1, layout.object_nbytes)))
    for window in projection.windows(MAX_ROWS, most):
        shown, part = converted(window, value, layout.dtype) if late else (window, value)
        yield from with_patience(
            partial(_write_window, layout, shown, part, options, cache, strategy, cost, outcomes, ends)
        )
        if ends is not None and ends.refusal is not None:
            raise ends.refusal


def with_patience(attempt: Callable[[], Flow]) -> Flow:
    """Run a flow again, after a while, as long as another writer was faster (stores with conditional puts)."""
    for number in range(TRIES):
        try:
            yield from attempt()
            return
        except ConflictError:
            if number == TRIES - 1:
                raise
            from random import uniform  # loads hashlib; here, where somebody waits anyway

            pause = uniform(0, 0.01 * 2 ** min(number, 7))
            yield Working(partial(time.sleep, pause))


def _write_window(
    layout: Layout,
    window: Window,
    value: Array,
    options: Options,
    cache: IndexCache,
    strategy: Strategy,
    cost: Cost,
    outcomes: Outcomes,
    ends: Ends | None,
) -> Flow:
    """Write a window; where it turns out on the way that more is stored than was thought, begin again knowing that."""
    cut = None if ends is None else cut_by_the_end(layout, window)
    if cut is not None and cost.far:  # of what is read anyway, the rest is kept rather than asked for
        read = ~window.whole_shard[window.shard_number] & cut[1]
        window, cut = Uncut(window, (np.zeros_like(cut[0]), read)), (cut[0], cut[1] & ~read)
        cut = cut if cut[0].any() else None
    while True:
        if cut is not None and ends is not None and ends.moved:
            window, cut = Uncut(window, cut), None
        try:
            done = yield from _write_held(
                layout, window, value, options, cache, strategy, cost, outcomes, ends, cut
            )
        except ConflictError:
            if ends is not None:
                ends.found = True
            raise
        if done or (ends is not None and ends.refusal is not None):
            return


def _write_held(
    layout: Layout,
    window: Window,
    value: Array,
    options: Options,
    cache: IndexCache,
    strategy: Strategy,
    cost: Cost,
    outcomes: Outcomes,
    ends: Ends | None,
    cut: Cut | None,
) -> Generator[Any, Any, bool]:
    """Whether the window is written; if not, `ends` knows more than before. cut: what of it the array's end cuts."""
    slots = has_slots(layout, strategy)
    if slots:
        # over a network nothing is written in place
        if not cost.far and (yield from write_in_slots(layout, window, value, options, cache, ends, cut)):
            outcomes.add(Outcomes(in_place=len(window.cell)))
            return True
        options = replace(options, write_empty_chunks=True)
    names = layout.chunk_keys(window.outers)
    sharding = layout.sharding
    counts = layout.counts(window.outers) if sharding is not None else [()] * len(names)
    whole = window.whole_shard
    known = any(cache.get(name) is not None for name in names) if cut is not None and cost.far else False
    hoped = whole & cut[0] if cut is not None else np.zeros(len(names), np.bool_)
    if known or ends is None or not (cost.far and ends.hopes(layout, int(hoped.sum()))):
        hoped = np.zeros(len(names), np.bool_)
    looked = None if cut is None else (cut[0] & ~hoped).tolist()
    holds = yield from hold_objects(layout, names, counts, whole.tolist(), cost, looked)
    sinks: list[Sink] = []
    with given_back(holds, sinks):
        for k in np.flatnonzero(hoped).tolist():
            # a commit to what is there all the same is refused
            holds[k].blind = holds[k].erasable = False
        if ends is not None and ends.concern(window, cut, holds):
            if (yield Working(ends.look)):
                return False
        olds = [
            None
            if whole[k] or hold.source is None or sharding is None
            else parse(layout, names[k], counts[k], hold.source, options.strict).entries
            for k, hold in enumerate(holds)
        ]
        sources = yield from old_objects(holds, whole)
        changes: list[Put | Erase | Patch] = []
        fresh: Fresh = {}
        done = np.zeros(len(holds), np.bool_)
        counted = Outcomes()
        if not isinstance(strategy, Replace):
            changes += yield from patches(
                layout, window, value, holds, olds, counts, sources, strategy, options, done, counted
            )
        if not done.all():
            if sharding is not None:
                left = [None if done[k] else old for k, old in enumerate(olds)]
                yield from refuse_foreign(layout, holds, left, counts, (whole & ~done).tolist())
            sinks += yield Sinking([hold for k, hold in enumerate(holds) if not done[k]])
            every = iter(sinks)
            places = [None if done[k] else next(every) for k in range(len(holds))]
            cloned, starts = yield from cloned_objects(layout, window, holds, places, olds, counts, strategy)
            copies = np.array([old is None for old in cloned])
            if (
                options.durability != "rename"
            ):  # there the system may write the file out before its name is changed
                yield Working(partial(_make_room, layout, window, holds, places, cloned, whole))
            rows = rows_of(layout, window, holds, olds, counts, strategy.order, ~done, copies)
            slack = slack_of(layout, strategy, counts, options)
            entries, stops = yield from encode(
                layout, window, rows, names, sources, places, counts, starts, value, options, slack
            )
            changes += assemble(
                layout, rows, entries, stops, holds, places, counts, fresh, window.outers, cloned, slots
            )
        if (
            ends is not None
            and hoped.any()
            and not {holds[k] for k in np.flatnonzero(hoped)} <= {change.hold for change in changes}
        ):
            ends.found = True  # nothing is to be there: whether something is has to be looked at
            return False
        yield from commit(changes, fresh, dict(zip(names, holds, strict=True)), options, cache, cost)
        outcomes.add(counted)
        return True


def _make_room(
    layout: Layout,
    window: Window,
    holds: Sequence[Hold],
    sinks: Sequence[Sink | None],
    cloned: Sequence[Array | None],
    whole: Array,
) -> None:
    """Tell every new object how long it will be about, where that is known."""
    fixed = layout.chain.encoded_nbytes
    touched = np.bincount(window.shard_number, minlength=len(holds)).tolist()
    for k, (hold, sink) in enumerate(zip(holds, sinks, strict=True)):
        kept = 0 if whole[k] or hold.source is None else hold.source.size or 0
        if sink is not None and cloned[k] is None and (kept or fixed is not None):
            nbytes = (layout.chain.spec.nbytes or 0) if fixed is None else fixed
            sink.expect(kept + touched[k] * nbytes)


def cloned_objects(
    layout: Layout,
    window: Window,
    holds: Sequence[Hold],
    sinks: Sequence[Sink | None],
    olds: Sequence[Array | None],
    counts: Sequence[tuple[int, ...]],
    strategy: Strategy,
) -> Generator[Any, Any, tuple[list[Array | None], list[int]]]:
    """Let new objects start as copies of the old shards, where that pays and the store can; the entries of those that
    do, and where the first new chunk of each object goes."""
    cloned: list[Array | None] = [None] * len(holds)
    starts = starts_of(layout, counts)
    sharding = layout.sharding
    if sharding is None:
        return cloned, starts
    for k, (old, sink, hold) in enumerate(zip(olds, sinks, holds, strict=True)):
        source = hold.source
        if old is None or sink is None or source is None or source.size is None:
            continue
        touched = window.inner[window.shard_number == k]
        index = sharding.index_span(counts[k], source.size)
        changed = Changed(old, source.size, index, touched, np.zeros(len(touched), np.int64))
        if clones(strategy, changed) and (yield Working(partial(sink.clone, source))):
            cloned[k] = old
            starts[k] = (
                index[0] or source.size
            )  # new chunks may lie over the old index, since this is a new file
    return cloned, starts


def starts_of(layout: Layout, counts: Sequence[tuple[int, ...]]) -> list[int]:
    """Where the first chunk of each object goes: after the index, where that lies at the start."""
    sharding = layout.sharding
    if sharding is None or sharding.index_location != "start":
        return [0] * len(counts)
    return [sharding.index_nbytes(count) for count in counts]


def assemble(
    layout: Layout,
    rows: Rows,
    entries: Array,
    ends: Sequence[int],
    holds: Sequence[Hold],
    sinks: Sequence[Sink | None],
    counts: Sequence[tuple[int, ...]],
    fresh: Fresh,
    outers: Array,
    cloned: Sequence[Array | None] | None = None,
    slots: bool = False,
) -> list[Put | Erase]:
    """Close each object with its index, where it has one; objects without a chunk are erased.

    Where to erase could take along what another writer stores meanwhile, they hold nothing but the fill value instead.

    fresh: takes the entries of the shards that are made. outers: the grid indices of the objects.
    cloned: the entries of the old shard, for an object that started as a copy of it.
    slots: inner chunks that are not stored get one, with the fill value in it, after the others.
    """
    sharding = layout.sharding
    changes: list[Put | Erase] = []
    full = entries[:, 0] != EMPTY
    kept = [full.any()] if len(holds) == 1 else np.bincount(rows.number[full], minlength=len(holds))
    bounds = np.searchsorted(rows.number, np.arange(len(holds) + 1))  # rows are in the order of their objects
    for k, (hold, sink) in enumerate(zip(holds, sinks, strict=True)):
        if sink is None:
            continue
        before = None if cloned is None else cloned[k]
        if not kept[k] and before is None:  # a copy keeps chunks that are not among the rows
            if hold.erasable:
                changes.append(Erase(hold))
                continue
            if hold.source is None:
                continue  # nothing was there, and nothing is to be
            if sharding is None:
                sink.write(0, _fill_chunk(layout, outers[k]))
        if sharding is not None:
            mine = slice(bounds[k], bounds[k + 1])
            index = (
                empty_entries(int(np.prod(counts[k], dtype=np.int64))) if before is None else before.copy()
            )
            index[rows.inner[mine]] = entries[mine]
            end = _lay_slots(layout, sink, index, ends[k]) if slots else ends[k]
            at_start = sharding.index_location == "start"
            place = 0 if at_start else end
            for piece in sharding.index_pieces(index, counts[k]):
                sink.write(place, piece)
                place += memoryview(piece).nbytes
            fresh[hold] = index, end if at_start else place
        changes.append(Put(hold, sink))
    return changes


def _lay_slots(layout: Layout, sink: Sink, index: Array, end: int) -> int:
    """Write the fill value's chunk for every inner chunk that is not stored; where the last one ends."""
    missing = np.flatnonzero(index[:, 0] == EMPTY)
    if not len(missing):
        return end
    fill = _fill_chunk(layout)
    index[missing, 0] = end + np.arange(len(missing), dtype=np.uint64) * np.uint64(len(fill))
    index[missing, 1] = len(fill)
    at_once = max(1, LAID_AT_ONCE // len(fill))
    for first in range(0, len(missing), at_once):
        n = min(at_once, len(missing) - first)
        sink.write(end, fill * n)
        end += n * len(fill)
    return end


def _fill_chunk(layout: Layout, outer: Array | None = None) -> bytes:
    """The encoded chunk that holds the fill value alone: an inner one, or the plain one at a grid index."""
    chain = layout.chain
    if outer is not None:
        chain = layout.chain_for(layout.grid.chunk_shape(tuple(outer.tolist())))
    return bytes(chain.encode(np.full(chain.spec.shape, layout.fill, layout.dtype)))
