"""A reader of the caller's: a function that answers the points of a shard.

What it does not do: choose shards; the caller says which there are. The function has to be importable where workers are
other processes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from terrazzo.gridding.grid import Grid
from terrazzo.gridding.inputs.columns import ColumnsSource
from terrazzo.gridding.inputs.source import Batch, Source, Survey

__all__ = ["FunctionSource"]


class FunctionSource(Source):
    """`function(shard)` answers a table, or an iterator of tables; `shards` are the keys to ask for.

    version: changes when the function would answer something else; part of every receipt.
    """

    names = ("function",)

    def __init__(
        self,
        function: Callable[[int], Any],
        shards: Sequence[int],
        longitude: str = "longitude",
        latitude: str = "latitude",
        version: str = "",
    ) -> None:
        self.function, self.version = function, version
        self.shards = np.asarray(shards, np.int64)
        self.longitude, self.latitude = longitude, latitude
        self._shard: int | None = None

    def survey(self, granule: int, grid: Grid, most: int) -> Survey:
        for shard in self.shards.tolist():
            grid.check_shard(shard)
        return Survey(self.shards, 0, 0, 0)

    def part(self, shard: int, granules: Sequence[int], columns: frozenset[str]) -> FunctionSource:
        part = FunctionSource(self.function, [], self.longitude, self.latitude, self.version)
        part._shard = shard
        return part

    def batches(self, granule: int, columns: frozenset[str], most: int) -> Iterator[Batch]:
        assert self._shard is not None
        answer = self.function(self._shard)
        tables = answer if isinstance(answer, Iterator) else [answer]
        for table in tables:
            yield from ColumnsSource(table, self.longitude, self.latitude).batches(0, columns, most)

    def fingerprint(self, shard: int, granules: Sequence[int]) -> str:
        name = f"{self.function.__module__}.{getattr(self.function, '__qualname__', '')}"
        return hashlib.blake2b(f"{name}:{self.version}:{shard}".encode(), digest_size=16).hexdigest()
