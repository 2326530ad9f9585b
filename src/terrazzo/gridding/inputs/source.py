"""Source: the contract of every input: granules that can be read one by one, in batches of columns.

What it does not do: know cells. A source is small enough to be sent to a worker, or makes a small part of itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from terrazzo.gridding.grid import Grid

__all__ = ["Batch", "Source", "Survey"]

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Batch:
    """Points: degrees, and columns of the same length. cells: of a grid, where they are known already.

    filtered: how many points were left out by filters, beside these.
    """

    longitude: Array
    latitude: Array
    columns: Mapping[str, Array]
    cells: Array | None = None
    filtered: int = 0

    def __len__(self) -> int:
        return len(self.longitude)

    def select(self, chosen: Array) -> Batch:
        return Batch(
            self.longitude[chosen],
            self.latitude[chosen],
            {name: column[chosen] for name, column in self.columns.items()},
            None if self.cells is None else self.cells[chosen],
        )


@dataclass(slots=True)
class Survey:
    """Which shards the points of one granule fall into, and how many points did not count.

    counted: whether points were looked at; else the shards are those that the granule may have points in.
    """

    shards: Array
    points: int
    outside: int
    filtered: int
    counted: bool = True


class Source(ABC):
    """Points in granules. `names` are stable: they stand in plans and receipts."""

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """One name per granule."""

    @abstractmethod
    def batches(self, granule: int, columns: frozenset[str], most: int) -> Iterator[Batch]:
        """The points of a granule, at most `most` at a time, always in the same order."""

    @abstractmethod
    def fingerprint(self, shard: int, granules: Sequence[int]) -> str:
        """What changes when the points of these granules (in this shard) change."""

    def check(self, columns: frozenset[str]) -> None:
        """Raise SchemaError where a column is known to be missing."""

    def unseen(self) -> Sequence[str]:
        """Sentences about what was asked for and is in none of the granules that were looked at."""
        return ()

    def prepare(self, grid: Grid) -> None:
        """Get ready to answer parts of this grid, where no survey was made; nothing, for most."""

    def part(self, shard: int, granules: Sequence[int], columns: frozenset[str]) -> Source:
        """What a worker needs for one shard; by default the whole source."""
        return self

    def survey(self, granule: int, grid: Grid, most: int) -> Survey:
        """Look at every point of a granule, once."""
        seen = Survey(np.zeros(0, np.int64), 0, 0, 0)
        found: list[Array] = []
        for batch in self.batches(granule, frozenset(), most):
            keys = grid.shard_of(grid.locate(batch.longitude, batch.latitude))
            found.append(np.unique(keys[keys >= 0]))
            seen.points += len(batch)
            seen.outside += int((keys < 0).sum())
            seen.filtered += batch.filtered
        if found:
            seen.shards = np.unique(np.concatenate(found))
        return seen
