"""Planned: which shards runs have set out to make, kept beside the receipts, so that nobody has to list objects.

What it does not do: say which of them are there; their indexes do. Written before the first shard, it only grows.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from terrazzo.errors import ConflictError
from terrazzo.gridding.grid import Grid
from terrazzo.gridding.receipts import FOLDER, put_object
from terrazzo.gridding.template import Template
from terrazzo.options import Durability
from terrazzo.stores.store import Store

__all__ = ["NAME", "add_planned", "read_planned"]

NAME = "shards.json"
Array = np.ndarray[Any, Any]
#: other runs may add their shards at the same time
_TRIES = 20
#: shards at most; of more, nobody asks for the indexes of all
MOST = 1 << 26


def _key(group: str) -> str:
    return "/".join(filter(None, (group, FOLDER, NAME)))


def read_planned(store: Store, group: str, grid: Grid) -> Array | None:
    """The keys of the shards of this grid that may be there, ascending int64; None where no run has said."""
    text = store.get(_key(group))
    if text is None:
        return None
    try:
        given = json.loads(bytes(text))
        if given["grid_signature"] != grid.signature:
            return None
        runs = np.array(given["runs"], np.int64).reshape(-1, 2)
        counts = runs[:, 1] - runs[:, 0]
        if (counts <= 0).any() or (runs < 0).any() or (runs > grid.n_shards).any() or counts.sum() > MOST:
            return None
        first = np.repeat(runs[:, 0] - np.append(0, np.cumsum(counts)[:-1]), counts)
        return np.unique(first + np.arange(len(first)))
    except (ValueError, KeyError, TypeError, OverflowError):
        return None


def add_planned(template: Template, shards: Array, durability: Durability) -> None:
    """Add shards to those that may be there, in the groups of all grids; nothing is written where they are known."""
    for part in (template, *template.levels):
        _add(part.store, part.group, part.grid, shards, durability)


def _add(store: Store, group: str, grid: Grid, shards: Array, durability: Durability) -> None:
    known = read_planned(store, group, grid)
    if known is not None and np.isin(shards, known).all():
        return
    for left in reversed(range(_TRIES)):
        with store.hold(_key(group)) as hold:
            before = read_planned(store, group, grid)
            every = np.unique(shards if before is None else np.union1d(before, shards)).astype(np.int64)
            try:
                put_object(store, hold, _text(every, grid), durability)
                return
            except ConflictError:
                if not left:
                    raise


def _text(shards: Array, grid: Grid) -> bytes:
    """Runs of consecutive keys, [first, past the last]."""
    starts = np.flatnonzero(np.diff(shards, prepend=-2) != 1)
    ends = np.append(starts[1:], len(shards))
    runs = (
        np.stack([shards[starts], shards[ends - 1] + 1], axis=1)
        if len(shards)
        else np.zeros((0, 2), np.int64)
    )
    return json.dumps({"version": 1, "grid_signature": grid.signature, "runs": runs.tolist()}).encode()
