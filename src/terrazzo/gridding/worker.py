"""The worker: makes one shard, from its granules to its receipt. Runs in threads, in processes, on other machines.

What it does not do: choose its shard, or know of other workers. Done twice, it writes the same bytes twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from terrazzo.arrays.array import Array
from terrazzo.gridding.accumulate import Accumulator, Gridded, uniform
from terrazzo.gridding.configuration import Config
from terrazzo.gridding.errors import DuplicateShardError
from terrazzo.gridding.inputs import Source
from terrazzo.gridding.levels import coarser_cells
from terrazzo.gridding.plan import Task
from terrazzo.gridding.receipts import Receipt, current, describe_objects, read_receipt, write_receipt
from terrazzo.gridding.template import Template
from terrazzo.gridding.writing import CellChunks, ShardWriter
from terrazzo.options import Durability

__all__ = ["Job", "arrive", "make_shard", "write_part"]

Values = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Job:
    """What all tasks of a run share. before_write: called with the shard's key before anything is written (tests)."""

    config: Config
    template: Template
    before_write: Callable[[int], Any] | None = None


def arrive(job: Job) -> None:
    """Look at the store from where shards will be made, before one is: a store may have come without its secrets."""
    job.template.store.exists("/".join(filter(None, (job.template.group, "zarr.json"))))


def make_shard(job: Job, task: Task, source: Source) -> Receipt:
    """Make one shard. Nothing is written where an error is raised before the first array is."""
    config, template = job.config, job.template
    execution = config.execution
    inputs = source.fingerprint(task.shard, task.granules)
    before = (
        read_receipt(template.store, template.group, task.shard) if execution.receipts != "none" else None
    )
    if execution.resume and current(template.store, before, inputs, config.signature):
        assert before is not None
        return before
    if execution.create_only:
        _refuse_existing(job, task.shard)
    accumulator = Accumulator(config, task.shard)
    for granule in task.granules:
        for batch in source.batches(granule, config.columns, execution.batch_points):
            accumulator.add(batch)
    gridded = accumulator.finish()
    if job.before_write is not None:
        job.before_write(task.shard)
    return _write(job, task.shard, gridded, inputs)


def _refuse_existing(job: Job, shard: int) -> None:
    for template in (job.template, *job.template.levels):
        writer = ShardWriter(template.grid, shard)
        for array in template.arrays.values():
            for key in writer.keys(array):
                if template.store.getsize(key) is not None:
                    raise DuplicateShardError(
                        f"shard {shard} is there already ({key!r}), made by another run or from other points, and "
                        "create_only is set; nothing was written"
                    )


def _write(job: Job, shard: int, gridded: Gridded, inputs: str) -> Receipt:
    config, template = job.config, job.template
    execution = config.execution
    # every companion is looked at before anything is written
    companions = {
        name: uniform(one, gridded.positions, gridded.values[name], config.grid.cells_per_chunk, shard)
        for name, one in config.fields.items()
        if one.resolution == "chunk"
    }
    durability: Durability = "rename" if execution.durability == "fsync" else execution.durability
    chunks, keys = write_part(template, shard, gridded, companions, durability)
    levels = coarser_cells(config.grid, config.output.pyramid, config.fields, gridded)
    for level, (_, coarse) in zip(template.levels, levels, strict=True):
        keys += write_part(level, shard, coarse, {}, durability)[1]
    if execution.durability == "fsync":
        template.store.sync()  # one barrier for all of them; the receipt comes after it
    state = "written" if len(gridded.positions) else "empty"
    checked = execution.receipts != "none"
    objects = describe_objects(template.store, keys, execution.receipts == "checksums") if checked else {}
    receipt = Receipt(
        shard, inputs, config.signature, gridded.points, len(gridded.positions), chunks, objects, state
    )
    if checked:
        write_receipt(template.store, template.group, receipt, execution.durability)
    return receipt


def write_part(
    template: Template,
    shard: int,
    gridded: Gridded,
    companions: Mapping[str, tuple[Values, Values]],
    durability: Durability,
) -> tuple[int, list[str]]:
    """Write a shard of every array of one grid: how many inner chunks are populated, and the keys of all objects."""
    grid = template.grid
    writer = ShardWriter(grid, shard)
    written: list[Array] = []
    chunks = 0
    for name, made in template.arrays.items():
        array = made.using(durability=durability)
        written.append(array)
        if name in companions:
            writer.put_companion(array, shard, *companions[name])
            continue
        parts = CellChunks(grid, gridded.positions, gridded.values[name], array.fill_value)
        chunks = len(parts)
        if not (grid.sharded or template.fresh):  # a shard of many objects: those of earlier points go
            kept = {key for index in parts for key in _chunk_keys(writer, array, index)}
            template.store.erase_values([key for key in writer.keys(array) if key not in kept])
        writer.put(array, shard, parts)
    if grid.ndim == 1 and len(gridded.positions):
        for array in template.coordinates.values():
            written.append(array)
            writer.put_coordinate(array.using(durability=durability), shard)
    return chunks, [key for array in written for key in writer.keys(array)]


def _chunk_keys(writer: ShardWriter, array: Array, index: tuple[int, ...]) -> list[str]:
    grid = writer.grid
    number = int(np.ravel_multi_index(index[: grid.ndim], grid.chunks_per_shard))
    outer = grid.chunk_index(writer.shard, number) + (0,) * (array.ndim - grid.ndim)
    return array.layout.chunk_keys(np.array([outer], np.int64))
