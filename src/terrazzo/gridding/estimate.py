"""Estimate: what a run would do, before it does anything: shards, objects, bytes, time, and what it would cost.

What it does not do: write. Upper bounds come from the grid alone; what is expected, from a few shards made in memory.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from math import prod

from terrazzo.gridding.configuration import Config
from terrazzo.gridding.inputs import Source
from terrazzo.gridding.levels import coarser_grids
from terrazzo.gridding.plan import Plan
from terrazzo.gridding.template import make_template
from terrazzo.gridding.worker import Job, make_shard
from terrazzo.stores.memory import MemoryStore

__all__ = ["Estimate", "Expected", "estimate"]


@dataclass(frozen=True)
class Expected:
    """What some shards, made in memory, say of all. work: seconds of one worker; seconds: with all workers.

    cost: by `execution.prices`; None without them. The storage's own time is not in it.
    """

    probed: int
    objects: int
    nbytes: int
    work: float
    seconds: float
    cost: float | None


@dataclass(frozen=True)
class Estimate:
    """What a run would do. tasks: how often a granule is read. objects, nbytes: at most."""

    shards: int
    tasks: int
    points: int
    outside: int
    filtered: int
    granules: int
    objects: int
    nbytes: int
    expected: Expected | None = None


def estimate(config: Config, plan: Plan, source: Source | None = None) -> Estimate:
    """What `run` would do with a plan: tasks, points, at most how many objects and bytes.

    source: make up to three of its shards in memory, and say from them what all would take.
    """
    objects = nbytes = 0
    for k, grid in enumerate([config.grid, *coarser_grids(config.grid, config.output.pyramid)]):
        for one in config.fields.values():
            if k and not one.nests:
                continue
            values = grid.k if one.resolution == "chunk" else grid.cells_per_shard
            nbytes += values * one.dtype.itemsize * prod(one.trailing_shape)
            whole = grid.sharded if one.resolution == "cell" else config.output.companion_chunks == "shard"
            objects += 1 if whole else grid.k
            if one.resolution == "cell" and grid.sharded:
                nbytes += 16 * grid.k + 4
        if grid.ndim == 1:
            objects += len(grid.coordinates())
            nbytes += 8 * grid.cells_per_shard * len(grid.coordinates())
    found = Estimate(
        shards=len(plan),
        tasks=len(plan.granules),
        points=plan.points,
        outside=plan.outside,
        filtered=plan.filtered,
        granules=len(plan.names),
        objects=objects * len(plan),
        nbytes=nbytes * len(plan),
    )
    return (
        found if source is None or not len(plan) else replace(found, expected=_expected(config, plan, source))
    )


def _expected(config: Config, plan: Plan, source: Source) -> Expected:
    """Some shards made in memory, and multiplied."""
    quiet = config.with_execution(receipts="lengths", resume=False, create_only=False, durability="none")
    template = make_template(quiet, MemoryStore())
    source.prepare(config.grid)
    chosen = sorted({round(k * (len(plan) - 1) / 2) for k in range(3)})
    began = time.monotonic()
    receipts = []
    for k in chosen:
        task = plan.task(k)
        part = source.part(task.shard, task.granules, config.columns)
        receipts.append(make_shard(Job(quiet, template), task, part))
    scale = len(plan) / len(chosen)
    work = (time.monotonic() - began) * scale
    objects = round(sum(len(one.objects) for one in receipts) * scale)
    nbytes = round(sum(n for one in receipts for n, _ in one.objects.values()) * scale)
    workers = 1 if config.execution.engine == "serial" else config.execution.workers or os.cpu_count() or 1
    prices = config.execution.prices
    cost = work / 3600 * prices.get("worker_hour", 0.0) + objects / 1000 * prices.get("thousand_writes", 0.0)
    seconds = work / min(workers, len(plan))
    return Expected(len(chosen), objects, nbytes, work, seconds, cost if prices else None)
