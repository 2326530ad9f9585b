"""Shards that are files of another format too are not rewritten: a look at the bytes that nothing covers.

What it does not do: cost anything for shards without dead bytes. For others it is one batch of a few short ranges.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from terrazzo.errors import UnsupportedError
from terrazzo.foreign import places_to_look, signature_in
from terrazzo.layout import Layout
from terrazzo.shard import EMPTY, dead_ranges
from terrazzo.stores.store import Hold, Source
from terrazzo.write.held import bytes_of_held

__all__ = ["foreign_names", "refuse_foreign"]

Array = np.ndarray[Any, Any]


def refuse_foreign(
    layout: Layout, holds: Sequence[Hold], olds: Sequence[Array | None], counts: Sequence[tuple[int, ...]]
) -> Generator[Any, Any, None]:
    """Raise UnsupportedError where a shard (None: not looked at) holds the bytes of another format."""
    for hold, name in zip(holds, (yield from foreign_names(layout, holds, olds, counts)), strict=True):
        if name is not None:
            raise UnsupportedError(
                f"shard {hold.key!r} is a {name} file too, and rewriting it whole would destroy that; write with "
                "strategy Append(dead=1) or InPlace(otherwise='append', dead=1), which leave its bytes in place, or "
                "copy the array"
            )


def foreign_names(
    layout: Layout, holds: Sequence[Hold], olds: Sequence[Array | None], counts: Sequence[tuple[int, ...]]
) -> Generator[Any, Any, list[str | None]]:
    """The other format, if any, that each of these shards (None: not looked at) is a file of too."""
    asked: list[tuple[int, Source, list[tuple[int, int]]]] = []
    names: list[str | None] = [None] * len(holds)
    sharding = layout.sharding
    assert sharding is not None
    for k, (hold, old, count) in enumerate(zip(holds, olds, counts, strict=True)):
        source = hold.source
        if old is None or source is None or source.size is None:
            continue
        span = sharding.index_span(count, source.size)
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
