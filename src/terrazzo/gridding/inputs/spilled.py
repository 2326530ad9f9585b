"""Batches from an iterator, seen once: each is sorted by shard and put into a temporary folder.

What it does not do: hold more than one batch in memory, or survive: the folder goes when the source is closed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from terrazzo.gridding.grid import Grid
from terrazzo.gridding.inputs.columns import ColumnsSource
from terrazzo.gridding.inputs.source import Array, Batch, Source, Survey
from terrazzo.gridding.statistics import sort_by_cell

__all__ = ["SpilledSource"]


class SpilledSource(Source):
    """An iterator of tables; batch k becomes granule k. Workers read their part of a batch through a memory map."""

    def __init__(
        self,
        tables: Iterable[Any],
        grid: Grid,
        longitude: str = "longitude",
        latitude: str = "latitude",
        folder: str | None = None,
    ) -> None:
        self.folder = tempfile.mkdtemp(prefix="terrazzo-points-", dir=folder)
        self._finalizer: Any = weakref.finalize(self, shutil.rmtree, self.folder, True)
        self._surveys: list[Survey] = []
        self._rows: list[tuple[Array, Array, Array]] = []
        self._hashes: list[str] = []
        self._columns: list[list[str]] = []
        self._shard: int | None = None
        for table in tables:
            self._spill(len(self._surveys), ColumnsSource(table, longitude, latitude), grid)

    def _spill(self, number: int, points: ColumnsSource, grid: Grid) -> None:
        cells = grid.locate(points.longitude, points.latitude)
        shards, order = sort_by_cell(grid.shard_of(cells))
        columns = {
            "longitude ": points.longitude,
            "latitude ": points.latitude,
            "cells ": cells,
            **points.columns,
        }
        seen = hashlib.blake2b(digest_size=16)
        for k, (name, column) in enumerate(columns.items()):
            ordered = column if order is None else column[order]
            np.save(self._file(number, k), ordered)
            seen.update(name.encode() + ordered.tobytes())
        inside = shards.cells >= 0
        outside = int(shards.counts[~inside].sum())
        self._surveys.append(Survey(shards.cells[inside], len(points), outside, 0))
        self._rows.append((shards.cells, shards.starts, shards.counts))
        self._hashes.append(seen.hexdigest())
        self._columns.append(list(columns))

    def _file(self, batch: int, column: int) -> str:
        return os.path.join(self.folder, f"{batch}-{column}.npy")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_finalizer": None}  # who made the folder removes it

    def close(self) -> None:
        """Remove the temporary folder."""
        if self._finalizer is not None:
            self._finalizer()

    @property
    def names(self) -> Sequence[str]:
        return [f"batch {k}" for k in range(len(self._surveys))]

    def survey(self, granule: int, grid: Grid, most: int) -> Survey:
        return self._surveys[granule]

    def part(self, shard: int, granules: Sequence[int], columns: frozenset[str]) -> SpilledSource:
        part = SpilledSource.__new__(SpilledSource)
        part.__dict__.update(self.__dict__)
        part._finalizer, part._shard = None, shard
        part._surveys = []
        part._rows = [
            tuple(values[keys == shard] for values in (keys, starts, counts))
            for keys, starts, counts in self._rows
        ]
        return part

    def batches(self, granule: int, columns: frozenset[str], most: int) -> Iterator[Batch]:
        keys, starts, counts = self._rows[granule]
        names = self._columns[granule]
        for key, first, count in zip(keys.tolist(), starts.tolist(), counts.tolist(), strict=True):
            if key < 0 or (self._shard is not None and key != self._shard):
                continue
            wanted = {name: k for k, name in enumerate(names) if name.endswith(" ") or name in columns}
            open_ = {name: np.load(self._file(granule, k), mmap_mode="r") for name, k in wanted.items()}
            for start in range(first, first + count, most):
                cut = {
                    name: np.array(column[start : min(start + most, first + count)])
                    for name, column in open_.items()
                }
                yield Batch(cut.pop("longitude "), cut.pop("latitude "), cut_columns(cut), cut.get("cells "))

    def fingerprint(self, shard: int, granules: Sequence[int]) -> str:
        seen = hashlib.blake2b(digest_size=16)
        for granule in granules:
            seen.update(self._hashes[granule].encode())
        return seen.hexdigest()


def cut_columns(found: dict[str, Array]) -> dict[str, Array]:
    return {name: column for name, column in found.items() if not name.endswith(" ")}
