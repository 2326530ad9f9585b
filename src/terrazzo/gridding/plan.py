"""Plan: which shards there are to make, and from which granules; each shard once.

What it does not do: compute, or hold points. A plan of a hundred thousand shards is a few arrays.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from terrazzo.gridding.configuration import Config
from terrazzo.gridding.errors import DuplicateShardError, GridMismatchError, NoDataWarning
from terrazzo.gridding.grid import Grid
from terrazzo.gridding.inputs import Source, source_from

__all__ = ["Plan", "Task", "make_plan"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Task:
    """One shard, and the numbers of the granules that have points in it."""

    shard: int
    granules: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Plan:
    """Shards in ascending order, and their granules.

    shards: int64 (n,). starts: int64 (n + 1,) into `granules`, int64, numbers into `names`. points, outside, filtered:
    how many points were seen to fall into the grid or not, and how many the filters left out.
    """

    signature: str
    shards: Array
    starts: Array
    granules: Array
    names: tuple[str, ...]
    points: int = 0
    outside: int = 0
    filtered: int = 0
    grid: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        keys, counts = np.unique(self.shards, return_counts=True)
        if len(keys) != len(self.shards):
            twice = keys[counts > 1].tolist()
            raise DuplicateShardError(
                f"the plan has {len(twice)} shards more than once, the first is {twice[0]}: a shard has one writer; "
                "join their granules"
            )

    def __len__(self) -> int:
        return len(self.shards)

    def __iter__(self) -> Iterator[Task]:
        for k in range(len(self)):
            yield self.task(k)

    def task(self, k: int) -> Task:
        inside = self.granules[self.starts[k] : self.starts[k + 1]]
        return Task(int(self.shards[k]), tuple(inside.tolist()))

    def check(self, grid: Grid) -> None:
        """Refuse a plan that was made for another grid."""
        if self.signature != grid.signature:
            raise GridMismatchError(
                f"the plan was made for another grid: {self.grid or self.signature}, and this one is {grid.spatial()}; "
                "make the plan again"
            )
        if len(self) and not 0 <= int(self.shards.min()) <= int(self.shards.max()) < grid.n_shards:
            raise GridMismatchError(
                f"the plan has shards outside the grid, whose shards are 0 to {grid.n_shards - 1}"
            )

    def to_json(self) -> str:
        """The plan as text, for another machine or another day."""
        return json.dumps(
            {
                "metadata": {"points": self.points, "outside": self.outside, "filtered": self.filtered},
                "grid_signature": self.signature,
                "grid": self.grid,
                "granules": list(self.names),
                "shard_keys": self.shards.tolist(),
                "shard_granules": [list(task.granules) for task in self],
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Plan:
        try:
            given = json.loads(text)
            lists = given["shard_granules"]
            return cls(
                given["grid_signature"],
                np.array(given["shard_keys"], np.int64),
                np.cumsum([0, *map(len, lists)], dtype=np.int64),
                np.array([granule for one in lists for granule in one], np.int64),
                tuple(given["granules"]),
                **{name: int(given["metadata"][name]) for name in ("points", "outside", "filtered")},
                grid=given["grid"],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, DuplicateShardError):
                raise
            raise GridMismatchError(f"this is no plan: {type(error).__name__}: {error}") from None


def make_plan(
    config: Config,
    points: Any = None,
    *,
    shards: Sequence[int] | None = None,
    longitude: str = "longitude",
    latitude: str = "latitude",
) -> Plan:
    """Look at every point once, and say which shards its granules fall into.

    points: as in `run`. shards: only these.
    """
    source = source_from(config, points, longitude, latitude)
    return plan_of(source, config.grid, config.execution.batch_points, shards)


def plan_of(source: Source, grid: Grid, most: int, only: Sequence[int] | None = None) -> Plan:
    keys: list[Array] = []
    numbers: list[Array] = []
    seen = outside = filtered = 0
    for number in range(len(source.names)):
        found = source.survey(number, grid, most)
        keys.append(found.shards)
        numbers.append(np.full(len(found.shards), number, np.int64))
        seen, outside, filtered = seen + found.points, outside + found.outside, filtered + found.filtered
    every = np.concatenate(keys) if keys else np.zeros(0, np.int64)
    owner = np.concatenate(numbers) if numbers else np.zeros(0, np.int64)
    if only is not None:
        for shard in only:
            grid.check_shard(int(shard))
        chosen = np.isin(every, np.asarray(only, np.int64))
        every, owner = every[chosen], owner[chosen]
    order = np.argsort(every, kind="stable")
    shards, starts = np.unique(every[order], return_index=True)
    if not len(shards):
        warnings.warn(f"none of {seen} points fall into the grid", NoDataWarning, stacklevel=3)
    return Plan(
        grid.signature,
        shards,
        np.append(starts, len(every)).astype(np.int64),
        owner[order],
        tuple(source.names),
        seen - outside,
        outside,
        filtered,
        grid.spatial(),
    )
