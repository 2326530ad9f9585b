"""Plan: which shards there are to make, and from which granules; each shard once. Kept as JSON or Parquet.

What it does not do: compute, or hold points. A plan of a hundred thousand shards is a few arrays.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from terrazzo.gridding.configuration import Config
from terrazzo.gridding.errors import DuplicateShardError, GridMismatchError, NoDataWarning
from terrazzo.gridding.grid import Grid
from terrazzo.gridding.inputs import Source, source_from
from terrazzo.gridding.optional import required

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
    how many points were seen to fall into the grid or not, and how many the filters left out; 0 where no point was
    looked at (`counted` is false), because granules have footprints.
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
    counted: bool = True

    def __post_init__(self) -> None:
        n = len(self.shards)
        if len(self.starts) != n + 1 or self.starts[0] != 0 or self.starts[-1] != len(self.granules):
            raise GridMismatchError(
                f"the plan has {n} shards, and their granules are those of {len(self.starts) - 1}"
            )
        wrong = (self.granules < 0) | (self.granules >= len(self.names))
        if wrong.any() or (np.diff(self.starts) < 0).any():
            raise GridMismatchError(
                f"the plan has {len(self.names)} granules, and a shard is made from number {self.granules[wrong][:1]}"
            )
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

    def of(self, names: Sequence[str]) -> Plan:
        """The same plan, with the numbers that granules have among `names`; refused where one is missing."""
        if tuple(names) == self.names:
            return self
        used = np.unique(self.granules).tolist()
        place = {name: k for k, name in enumerate(names)}
        missing = [self.names[k] for k in used if self.names[k] not in place]
        if missing or len(place) < len(names) or len(set(self.names)) < len(self.names):
            what = f"{missing[0]!r} is none of them" if missing else "some have the same name"
            raise GridMismatchError(
                f"the plan was made from {len(self.names)} granules, and there are {len(names)} now: {what}; make "
                "the plan again"
            )
        number = np.zeros(len(self.names), np.int64)
        for k in used:
            number[k] = place[self.names[k]]
        return replace(self, granules=number[self.granules], names=tuple(names))

    def only(self, shards: Sequence[int], grid: Grid) -> Plan:
        """The part of the plan that makes these shards."""
        for shard in shards:
            grid.check_shard(int(shard))
        chosen = np.isin(self.shards, np.asarray(shards, np.int64))
        counts = np.diff(self.starts)
        return replace(
            self,
            shards=self.shards[chosen],
            starts=np.append(0, np.cumsum(counts[chosen])).astype(np.int64),
            granules=self.granules[np.repeat(chosen, counts)],
        )

    def save(self, path: Any) -> None:
        """Keep the plan in a file: Parquet where its name ends in .parquet, JSON where not."""
        if Path(path).suffix == ".parquet":
            self._to_parquet(path)
        else:
            Path(path).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: Any) -> Plan:
        """A plan that was saved; GridMismatchError where the file holds something else."""
        if Path(path).suffix == ".parquet":
            return cls._from_parquet(path)
        return cls.from_json(Path(path).read_text(encoding="utf-8"))

    def _head(self) -> dict[str, Any]:
        counts = {"points": self.points, "outside": self.outside, "filtered": self.filtered}
        return {
            "metadata": {**counts, "counted": self.counted},
            "grid_signature": self.signature,
            "grid": self.grid,
            "granules": list(self.names),
        }

    def to_json(self) -> str:
        """The plan as text, for another machine or another day."""
        lists = np.split(self.granules, self.starts[1:-1]) if len(self) else []
        shards = {"shard_keys": self.shards.tolist(), "shard_granules": [one.tolist() for one in lists]}
        return json.dumps({**self._head(), **shards})

    @classmethod
    def from_json(cls, text: str) -> Plan:
        try:
            given = json.loads(text)
            lists = given["shard_granules"]
            starts = np.cumsum([0, *map(len, lists)], dtype=np.int64)
            granules = np.array([granule for one in lists for granule in one], np.int64)
            return cls._made(given, np.array(given["shard_keys"], np.int64), starts, granules)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            raise _no_plan(error) from None

    @classmethod
    def _made(cls, head: Mapping[str, Any], shards: Array, starts: Array, granules: Array) -> Plan:
        said = head["metadata"]
        points, outside, filtered = (int(said[name]) for name in ("points", "outside", "filtered"))
        names, counted = tuple(map(str, head["granules"])), bool(said.get("counted", True))
        signature, grid = str(head["grid_signature"]), dict(head["grid"])
        return cls(signature, shards, starts, granules, names, points, outside, filtered, grid, counted)

    def _to_parquet(self, path: Any) -> None:
        arrow = required("pyarrow", "plans in Parquet", "parquet")
        parquet = required("pyarrow.parquet", "plans in Parquet", "parquet")
        lists = arrow.LargeListArray.from_arrays(arrow.array(self.starts), arrow.array(self.granules))
        table = arrow.table({"shard_key": arrow.array(self.shards), "granules": lists})
        parquet.write_table(table.replace_schema_metadata({_HEAD: json.dumps(self._head())}), path)

    @classmethod
    def _from_parquet(cls, path: Any) -> Plan:
        parquet = required("pyarrow.parquet", "plans in Parquet", "parquet")
        arrow = required("pyarrow", "plans in Parquet", "parquet")
        try:
            table = parquet.read_table(path).combine_chunks()
            head = json.loads((table.schema.metadata or {})[_HEAD])
            shards = np.asarray(table["shard_key"].to_numpy(), np.int64)
            starts = np.append(0, np.cumsum(table["granules"].combine_chunks().value_lengths().to_numpy()))
            granules = np.asarray(table["granules"].combine_chunks().flatten().to_numpy(), np.int64)
            return cls._made(head, shards, starts.astype(np.int64), granules)
        except (KeyError, TypeError, ValueError, AttributeError, arrow.ArrowException) as error:
            raise _no_plan(error) from None


_HEAD = b"terrazzo.plan"


def _no_plan(error: Exception) -> Exception:
    if isinstance(error, DuplicateShardError | GridMismatchError):
        return error
    return GridMismatchError(f"this is no plan: {type(error).__name__}: {error}")


def make_plan(
    config: Config,
    points: Any = None,
    *,
    shards: Sequence[int] | None = None,
    longitude: str = "longitude",
    latitude: str = "latitude",
) -> Plan:
    """Say which shards granules fall into: by a look at every point, or, of a catalog, by footprints alone.

    points: as in `run`. shards: only these.
    """
    source = source_from(config, points, longitude, latitude)
    return plan_of(source, config.grid, config.execution.batch_points, shards)


def plan_of(source: Source, grid: Grid, most: int, only: Sequence[int] | None = None) -> Plan:
    keys: list[Array] = []
    numbers: list[Array] = []
    seen = outside = filtered = 0
    counted = True
    for number in range(len(source.names)):
        found = source.survey(number, grid, most)
        keys.append(found.shards)
        numbers.append(np.full(len(found.shards), number, np.int64))
        counted &= found.counted
        seen, outside, filtered = seen + found.points, outside + found.outside, filtered + found.filtered
    for words in source.unseen():
        warnings.warn(words, NoDataWarning, stacklevel=4)
    every = np.concatenate(keys) if keys else np.zeros(0, np.int64)
    owner = np.concatenate(numbers) if numbers else np.zeros(0, np.int64)
    order = np.argsort(every, kind="stable")
    shards, starts = np.unique(every[order], return_index=True)
    if not len(shards):
        what = f"none of {seen} points fall" if counted else f"none of {len(source.names)} footprints falls"
        warnings.warn(f"{what} into the grid", NoDataWarning, stacklevel=3)
    plan = Plan(
        grid.signature,
        shards,
        np.append(starts, len(every)).astype(np.int64),
        owner[order],
        tuple(source.names),
        seen - outside,
        outside,
        filtered,
        grid.spatial(),
        counted,
    )
    return plan if only is None else plan.only(only, grid)
