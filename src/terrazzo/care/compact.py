"""Compaction: shards written anew without their dead bytes, chunks in Morton order, as they are encoded.

What it does not do: decode or compress anything; a chunk that is damaged stays as damaged as it was.
Specification: sharding_indexed 1.0, "Implementation notes" (dead space of shards that are appended to).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal

import numpy as np

from terrazzo.arrays.array import Array
from terrazzo.care.hierarchy import arrays_of, opened
from terrazzo.errors import ReadOnlyError, UnsupportedError
from terrazzo.inventory import Inventory
from terrazzo.progress import Progress, follow
from terrazzo.shard import order
from terrazzo.stores.flow import run
from terrazzo.strategy import Order, Replace
from terrazzo.write import EncodedShard, put_encoded

__all__ = ["CompactReport", "compact"]


@dataclass(slots=True)
class CompactReport:
    """shards: how many are stored; rewritten: how many of them were. before, after: bytes of all of them. foreign:
    keys that were left alone, since they are files of another format too."""

    shards: int = 0
    rewritten: int = 0
    before: int = 0
    after: int = 0
    foreign: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "shards": self.shards,
            "rewritten": self.rewritten,
            "nbytes_before": self.before,
            "nbytes_after": self.after,
            "foreign": self.foreign,
        }


def compact(
    node: Any,
    region: Any = None,
    *,
    dead: float = 0.0,
    chunk_order: Order | None = None,
    foreign: Literal["refuse", "keep"] = "refuse",
    slack: Literal["drop", "keep"] = "drop",
    progress: Progress = None,
    storage_options: Mapping[str, Any] | None = None,
) -> CompactReport:
    """Write the shards of an array anew whose share of dead bytes is above `dead`.

    node: an Array, a Group with all arrays below it, or anything that `open` takes. region: as in `array.inventory`, of
    an array. chunk_order: "morton", "C" or
    "F"; given, shards whose chunks lie otherwise are rewritten too. foreign: what becomes of shards that are files of
    another format too: UnsupportedError, or they are kept as they are. slack: whether zero bytes behind chunks count as
    dead; "keep" leaves shards alone that have no more than `dead` of others, and a rewritten one has none. progress:
    counts shards that are rewritten.

    Each shard is replaced as by any other writer: at once, under its lock. Raises ShardError where an index is damaged.
    """
    node = opened(node, "r+", storage_options)
    arrays = [array for _, array in arrays_of(node)]
    if region is not None and not isinstance(node, Array):
        raise ValueError("a region is of one array; name the array, or compact all of the group")
    for array in arrays:
        if array.read_only:
            raise ReadOnlyError(f"array {array.name!r} was opened for reading; open it with mode='r+'")
    if chunk_order not in (None, "morton", "C", "F"):
        raise ValueError(f"chunk_order={chunk_order!r}; 'morton', 'C', 'F' or None is allowed")
    if not 0 <= dead <= 1:
        raise ValueError(f"dead={dead}; a share between 0 and 1 is needed")
    if slack not in ("drop", "keep"):
        raise ValueError(f"slack={slack!r}; 'drop' or 'keep' is allowed")
    report = CompactReport()
    sharded = [array for array in arrays if array.layout.sharding is not None]
    found = [array.inventory(region, slack=slack == "keep") for array in sharded]
    wanting = [_wanting(array, one, dead, chunk_order) for array, one in zip(sharded, found, strict=True)]
    with follow(progress, sum(map(len, wanting)), "compacting") as step:
        for array, stored, keys in zip(sharded, found, wanting, strict=True):
            rewritten = report.rewritten
            for key in keys:
                _rewrite(array, key, chunk_order, foreign, report)
                step(1)
            nbytes = int(stored.sizes.sum())
            report.shards += len(stored.keys)
            report.before += nbytes
            report.after += (
                nbytes if rewritten == report.rewritten else int(array.inventory(region).sizes.sum())
            )
    return report


def _wanting(array: Array, found: Inventory, dead: float, chunk_order: Order | None) -> list[str]:
    """The keys of the shards to rewrite."""
    unused = found.dead if found.slack is None else found.dead - found.slack
    lying = [False] * len(found.keys) if chunk_order is None else _lies_otherwise(array, found, chunk_order)
    return [key for k, key in enumerate(found.keys) if lying[k] or unused[k] > dead * found.sizes[k]]


def _rewrite(array: Array, key: str, chunk_order: Order | None, foreign: str, report: CompactReport) -> None:
    place = array.layout.keys.parse(key[len(array.layout.prefix) :], array.ndim)
    assert place is not None
    shard = EncodedShard(place, np.zeros(0, np.int64), np.zeros((0, 3), np.int64), [])
    strategy, store = Replace(chunk_order or "morton"), array.chunk_store
    try:
        run(put_encoded(array.layout, [shard], array.options, array.index_cache, strategy, store.cost), store)
    except UnsupportedError:
        if foreign == "refuse":
            raise
        report.foreign.append(key)
    else:
        report.rewritten += 1


def _lies_otherwise(array: Array, found: Any, kind: str) -> list[bool]:
    """For each shard, whether its chunks lie in another order."""
    sharding = array.layout.sharding
    assert sharding is not None
    answers = []
    bounds = np.searchsorted(found.object, np.arange(len(found.keys) + 1))
    prefix = len(array.layout.prefix)
    for k, key in enumerate(found.keys):
        mine = slice(bounds[k], bounds[k + 1])
        place = array.layout.keys.parse(key[prefix:], array.ndim)
        assert place is not None
        (count,) = array.layout.counts(np.array([place], np.int64).reshape(1, array.ndim))
        first = np.array(
            [
                dim.begin(i) // c
                for dim, i, c in zip(array.layout.grid.dims, place, sharding.chunk_shape, strict=True)
            ],
            np.int64,
        )
        inner = found.chunks[mine] - first
        numbers = np.ravel_multi_index(tuple(inner.T), count) if count else np.zeros(len(inner), np.int64)
        rank = np.empty(prod(count), np.int64)
        rank[order(kind, count)] = np.arange(prod(count))
        by_place = numbers[np.argsort(found.offset[mine], kind="stable")]
        answers.append(bool((np.diff(rank[by_place]) < 0).any()))
    return answers
