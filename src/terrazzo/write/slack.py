"""Slack: free bytes behind the chunks of a shard that is written whole, so that they can grow where they lie.

What it does not do: grow them (strategy.py plans that), or tell slack from other bytes that no entry covers; it is zero
bytes when it is laid, and nothing more is known of it.
Specification: sharding_indexed 1.0, "Binary shard format" (there may be bytes that no entry covers).

Zeros are written, not left out: a chunk that grows later needs no new blocks of the disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from terrazzo.layout import Layout
from terrazzo.options import Options
from terrazzo.read import MAX_ROWS
from terrazzo.shard import EMPTY
from terrazzo.strategy import InPlace, Strategy

__all__ = ["Slack", "slack_of"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Slack:
    """amount: as `InPlace.slack`. most: int64, per object what one of its chunks gets at most. rows_at_once: chunks
    that are held in memory until they were moved apart."""

    amount: float | int
    most: Array
    rows_at_once: int

    def behind(self, number: Any, nbytes: Any) -> Any:
        """Free bytes behind chunks of these encoded lengths in these objects."""
        wanted = (
            self.amount if isinstance(self.amount, int) else np.asarray(nbytes * self.amount).astype(np.int64)
        )
        return np.minimum(wanted, self.most[number])

    def spread(
        self, number: Array, entries: Array, bodies: Sequence[Any], starts: Sequence[int]
    ) -> tuple[Array, list[Any], list[int]]:
        """Move chunks apart that lie back to back from `starts` on: the new entries, bodies and ends.

        number: the object of each entry. bodies: per object its chunks, or nothing.
        """
        moved = entries.copy()
        spread: list[Any] = []
        ends: list[int] = []
        for k, (body, start) in enumerate(zip(bodies, starts, strict=True)):
            mine = np.flatnonzero((number == k) & (entries[:, 0] != EMPTY))
            mine = mine[np.argsort(entries[mine, 0], kind="stable")]
            old, nbytes = entries[mine].view(np.int64).T
            room = nbytes + self.behind(k, nbytes)
            new = start + np.cumsum(room) - room
            moved[mine, 0] = new.view(np.uint64)
            view, wide = memoryview(body or b""), bytearray(int(room.sum()))
            for at, to, n in zip(
                (old - start).tolist(), (new - start).tolist(), nbytes.tolist(), strict=True
            ):
                wide[to : to + n] = view[at : at + n]
            spread.append(wide)
            ends.append(start + len(wide))
        return moved, spread, ends


def slack_of(
    layout: Layout, strategy: Strategy, counts: Sequence[tuple[int, ...]], options: Options
) -> Slack | None:
    """The slack of shards with these numbers of inner chunks per dimension; None where chunks lie back to back, also
    where all have one encoded length and so never grow."""
    if not isinstance(strategy, InPlace) or not strategy.slack or layout.sharding is None:
        return None
    if layout.chain.encoded_nbytes is not None:
        return None
    most = np.array([max(0, strategy.slack_limit) // max(1, prod(count)) for count in counts], np.int64)
    nbytes = max(1, layout.chain.spec.nbytes or 1 << 16)
    return Slack(strategy.slack, most, max(1, min(MAX_ROWS, options.memory // (2 * nbytes))))
