"""First looks: what is asked of each object before its chunks are fetched.

What it does not do: ask (locate.py), or plan where a request costs next to nothing: there every index is looked at.

Over a network a look is a request, and a round trip before the chunks. It is left out where the remembered index can be
checked by the chunks themselves, and where it can bring them along: most of a shard is wanted, or the shard is so small
that its bytes cost less than another request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from terrazzo.index import ShardIndex, first_range
from terrazzo.layout import Layout
from terrazzo.options import Options
from terrazzo.stores.store import Cost, Open

__all__ = ["Wanted", "looks"]

Array = np.ndarray[Any, Any]

#: share of a shard's inner chunks from which on the whole of it is read at once
MOST = 0.8
#: bytes of a shard that is always read whole: less than any network carries while it answers a request
SMALL = 1 << 16
#: after so many versions in one read, shards that somebody keeps writing to are read whole, index and chunks at once
HURRIED = 2


@dataclass(slots=True, eq=False)
class Wanted:
    """The inner chunks that a call wants, object after object.

    fetched: none of them may come from a cache, so that to fetch them checks the version of their shard.
    """

    inner: Array
    bounds: Array
    fetched: bool

    @classmethod
    def of(cls, number: Array, inner: Array, objects: int, fetched: bool) -> Wanted:
        """number: the object of each inner chunk."""
        sequence = np.argsort(number, kind="stable")
        bounds = np.searchsorted(number[sequence], np.arange(objects + 1))
        return cls(inner[sequence], bounds, fetched)

    def of_object(self, number: int) -> Array:
        """The numbers of the inner chunks wanted of one object; they may repeat."""
        return self.inner[self.bounds[number] : self.bounds[number + 1]]


def looks(
    layout: Layout,
    names: Sequence[str],
    counts: Sequence[tuple[int, ...]],
    remembered: Sequence[ShardIndex | None],
    options: Options,
    cost: Cost,
    wanted: Wanted | None,
    attempt: int,
) -> tuple[list[Open], list[bool]]:
    """One look per shard, and whether it asks for the whole shard, in as many bytes as that has at most.

    wanted: None where a request costs nothing worth planning.
    """
    sharding = layout.sharding
    assert sharding is not None
    requests: list[Open] = []
    whole = [False] * len(names)
    left = options.memory
    chunk_nbytes = layout.chain.spec.nbytes
    for k, (name, count, known) in enumerate(zip(names, counts, remembered, strict=True)):
        first = first_range(sharding, count)
        if known is not None:
            tag = known.tag
            if options.immutable:
                requests.append(Open(name, None, tag, pinned=wanted is not None))
            else:
                pinned = (
                    wanted is not None and wanted.fetched and _is_checked(known, wanted.of_object(k), options)
                )
                requests.append(Open(name, first, tag, pinned=pinned))
            continue
        if wanted is not None and chunk_nbytes is not None:
            n = prod(count)
            most = n * chunk_nbytes + sharding.index_nbytes(count)
            if most <= left and (
                attempt >= HURRIED
                or most <= min(SMALL, cost.latency * cost.bandwidth)
                or _is_most(wanted.of_object(k), n)
            ):
                whole[k] = True
                left -= most
                # Compressors add a little to what they cannot compress; a shard with more has dead bytes.
                first = (0, most + most // 8 + SMALL)
        requests.append(Open(name, first))
    return requests, whole


def _is_checked(known: ShardIndex, inner: Array, options: Options) -> bool:
    """Whether the version of an index is checked before what follows from it is believed: where no wanted chunk is
    stored, nothing is fetched; where a missing one is an error, it is told before anything is."""
    stored, _ = known.stored(inner)
    return stored == len(inner) if options.missing == "error" else stored > 0


def _is_most(inner: Array, count: int) -> bool:
    if len(inner) < MOST * count:
        return False
    seen = np.zeros(count, np.bool_)  # np.unique imports numpy.ma at its first call: 7 ms
    seen[inner] = True
    return int(np.count_nonzero(seen)) >= MOST * count
