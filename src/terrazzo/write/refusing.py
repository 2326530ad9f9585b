"""Shards that are files of another format too are not rewritten: a look at the bytes that nothing covers.

What it does not do: cost anything for shards without dead bytes. For others it is one batch of a few short ranges.
Shards that are overwritten as a whole are looked at too, but over a network, where that would be a request of its own.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from terrazzo.errors import CodecError, ShardError, UnsupportedError
from terrazzo.foreign import places_to_look, signature_in
from terrazzo.index import parse
from terrazzo.layout import Layout
from terrazzo.shard import EMPTY, dead_ranges
from terrazzo.stores.store import Hold, Source
from terrazzo.write.held import bytes_of_held

__all__ = ["foreign_names", "refuse_foreign"]

Array = np.ndarray[Any, Any]


def refuse_foreign(
    layout: Layout,
    holds: Sequence[Hold],
    olds: Sequence[Array | None],
    counts: Sequence[tuple[int, ...]],
    whole: Sequence[bool],
) -> Generator[Any, Any, None]:
    """Raise UnsupportedError where a shard (None: not looked at) holds the bytes of another format.

    whole: those that are replaced whatever they are; over a network they were not looked at.
    """
    names = yield from foreign_names(layout, [hold.source for hold in holds], olds, counts)
    for hold, name in zip(holds, names, strict=True):
        _refuse(
            hold.key,
            name,
            "write with strategy Append(dead=1) or InPlace(otherwise='append', dead=1), which leave its bytes in place",
        )
    found = [
        None
        if not all_new or hold.source is None or _is_full(layout, hold.source)
        else _entries(layout, hold.source, count)
        for hold, count, all_new in zip(holds, counts, whole, strict=True)
    ]
    names = yield from foreign_names(layout, [hold.source for hold in holds], found, counts)
    for hold, name in zip(holds, names, strict=True):
        _refuse(
            hold.key, name, "assign less than the whole shard at once, or erase it first if that is meant"
        )


def _refuse(key: str, name: str | None, advice: str) -> None:
    if name is not None:
        raise UnsupportedError(
            f"shard {key!r} is a {name} file too, and rewriting it whole would destroy that; "
            f"{advice}, or copy the array"
        )


def _is_full(layout: Layout, source: Source) -> bool:
    """Whether the bytes of an index say that its chunks and it take all of the shard, as in one that was written
    whole; a look that costs a tenth of reading the index."""
    assert layout.sharding is not None
    if source.first is None or [codec.name for codec in layout.sharding.index_codecs] != ["bytes", "crc32c"]:
        return False
    first = memoryview(source.first)
    lengths = np.frombuffer(first, "<u8", first.nbytes // 16 * 2)[1::2]
    return int(lengths[lengths != EMPTY].sum()) + first.nbytes == source.size


def _entries(layout: Layout, source: Source, count: tuple[int, ...]) -> Array:
    """The entries of a shard that may be damaged; none at all where they cannot be read: then nothing is covered."""
    try:
        return parse(layout, source.key, count, source, strict=False).entries
    except (ShardError, CodecError):
        return np.empty((0, 2), np.uint64)


def foreign_names(
    layout: Layout,
    sources: Sequence[Source | None],
    olds: Sequence[Array | None],
    counts: Sequence[tuple[int, ...]],
) -> Generator[Any, Any, list[str | None]]:
    """The other format, if any, that each of these shards (None: not looked at) is a file of too."""
    asked: list[tuple[int, Source, list[tuple[int, int]]]] = []
    names: list[str | None] = [None] * len(sources)
    sharding = layout.sharding
    assert sharding is not None
    for k, (source, old, count) in enumerate(zip(sources, olds, counts, strict=True)):
        if old is None or source is None or source.size is None:
            continue
        span = sharding.index_span(count, source.size) if len(old) else (source.size, source.size)
        lengths = old[:, 1]
        used = int(lengths[lengths != EMPTY].sum()) + span[1] - span[0]
        if used >= source.size:
            continue
        places = places_to_look(dead_ranges(old, source.size, span), source.size)
        if places:
            asked.append((k, source, places))
    if asked:
        answers = yield from bytes_of_held([(source, places) for _, source, places in asked])
        for (k, _, places), parts in zip(asked, answers, strict=True):
            names[k] = signature_in(dict(zip(places, parts, strict=True)))
    return names
