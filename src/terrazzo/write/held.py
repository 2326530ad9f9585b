"""The objects of a write, from the hold to the commit: what is asked of each, what is at hand of it, what it becomes.

What it does not do: merge or encode (flow.py, encoding.py).

Over a network a shard that is changed in part costs two requests: it comes whole when it is held, and goes whole when
it is put, on the condition that it still is what came. One that is replaced whole is not looked at: one request.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import numpy as np

from terrazzo.index import IndexCache, ShardIndex, first_range
from terrazzo.layout import Layout
from terrazzo.options import Options
from terrazzo.stores.emulation import clip
from terrazzo.stores.flow import Committing, Fetching, Holding
from terrazzo.stores.store import ALL, Change, Cost, Hold, Range, Sink, Source

__all__ = ["Fresh", "bytes_of_held", "commit", "given_back", "hold_objects"]

Array = np.ndarray[Any, Any]
#: what becomes of held shards: their entries, and how many bytes they have then
Fresh = dict[Hold, tuple[Array, int]]


def hold_objects(
    layout: Layout,
    names: Sequence[str],
    counts: Sequence[tuple[int, ...]],
    whole: Sequence[bool],
    cost: Cost,
    looked: Sequence[bool] | None = None,
) -> Generator[Any, Any, list[Hold]]:
    """Hold objects, with the indexes of shards; over a network not of those that are replaced `whole`.

    looked: which of these are looked at all the same, as to whether they are there."""
    sharding = layout.sharding
    looked = looked or [False] * len(names)
    blind = [all_new and not look for all_new, look in zip(whole, looked, strict=True)]
    indexes: list[Range | None] = [
        None if sharding is None or (unseen and cost.far) else first_range(sharding, count)
        for count, unseen in zip(counts, blind, strict=True)
    ]
    if (
        not cost.far
    ):  # where a look costs microseconds, a shard that is another format's file too is not lost unseen
        held: list[Hold] = yield Holding(names, indexes, blind=blind if sharding is None else ())
        return held
    firsts = [index if all_new else ALL for all_new, index in zip(whole, indexes, strict=True)]
    held = yield Holding(names, firsts, blind=blind)
    for hold, index, all_new in zip(held, indexes, whole, strict=True):
        source = hold.source
        if all_new or source is None or source.first is None:
            continue
        object_ = source.first
        source.size = memoryview(object_).nbytes
        if source.handle is None:
            source.handle = object_
        source.first = None if index is None else clip(object_, *index)
    return held


def bytes_of_held(
    requests: Sequence[tuple[Source, Sequence[tuple[int, int]]]],
) -> Generator[Any, Any, list[list[Any]]]:
    """Ranges of held objects: of those that are at hand, or else fetched, in one batch."""
    away = [request for request in requests if not _at_hand(request[0])]
    fetched = iter((yield Fetching(away)) if away else ())
    return [
        [clip(source.handle, *one) for one in ranges] if _at_hand(source) else next(fetched)
        for source, ranges in requests
    ]


def _at_hand(source: Source) -> bool:
    return source.handle is not None and not isinstance(source.handle, int)


def commit(
    changes: Sequence[Change],
    fresh: Fresh,
    held: Mapping[str, Hold],
    options: Options,
    cache: IndexCache,
    cost: Cost,
) -> Generator[Any, Any, None]:
    """Make the changes happen. Over a network the new indexes are remembered, by the versions that the store answers:
    the next read of these shards needs no look."""
    tags = (yield Committing(changes, options.durability)) if changes else []
    known = {change.hold: tag for change, tag in zip(changes, tags, strict=True)}
    for name, hold in held.items():
        tag, made = known.get(hold), fresh.get(hold)
        if cost.far and tag is not None and made is not None:
            entries, size = made
            entries.setflags(write=False)
            cache.put(name, ShardIndex(entries, size, tag))
        else:
            cache.drop(name)


@contextmanager
def given_back(holds: Sequence[Hold], sinks: Sequence[Sink]) -> Iterator[None]:
    """Give up, when the block is left, the new objects that were not committed, and every hold."""
    try:
        yield
    finally:
        with ExitStack() as left:
            for hold in holds:
                left.callback(hold.release)
            for sink in sinks:
                left.callback(_discard, sink)


def _discard(sink: Sink) -> None:
    with suppress(OSError):
        sink.discard()
