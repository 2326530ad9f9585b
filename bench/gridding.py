"""How long points take to become cells: ten million of them into HEALPix 8/13/19 over 64 shards.

    python bench/gridding.py [POINTS]

Beside a loop over cells with numpy, and beside the least that can be done: one stable sort and one reduceat per field.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from terrazzo import gridding
from terrazzo.gridding.accumulate import Accumulator
from terrazzo.gridding.inputs import ColumnsSource

GRID = {"type": "healpix", "parent_order": 8, "child_order": 19, "chunk_inner": 13, "sharded": True}
FIELDS = {
    "count": {"function": "count"},
    "mean": {"function": "mean", "source": "h"},
    "min": {"function": "min", "source": "h"},
    "max": {"function": "max", "source": "h"},
}


def synthetic(n: int, shards: int = 64, tracks: int = 40) -> dict[str, Any]:
    """Points along lines through neighbouring shards, as a satellite leaves them."""
    grid = gridding.HealpixGrid(8, 19, 13, True)
    random = np.random.default_rng(0)
    shard = random.integers(0, shards, n) + 258_560
    line = random.integers(0, tracks, n) * (2048 // tracks)
    along = random.integers(0, 2048, n)
    from terrazzo.gridding.healpix import interleave

    cells = shard * grid.cells_per_shard + interleave((line + along // 7) % 2048, along)
    longitude, latitude = grid.centres(cells)
    return {"longitude": longitude, "latitude": latitude, "h": random.normal(1000, 50, n).astype(np.float32)}


def best(call: Callable[[], None], times: int = 3) -> float:
    """Seconds of the fastest of some calls."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
    return min(found)


def resident(which: str = "VmRSS") -> int:
    """Kilobytes in memory now, or the most since the last call for the present (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    found = next(int(line.split()[1]) for line in lines if line.startswith(which))
    if which == "VmRSS":
        Path("/proc/self/clear_refs").write_text("5")
    return found


def main() -> None:
    n = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10_000_000
    points = synthetic(n)
    config = gridding.Config.from_dict({"aggregation": {"variables": FIELDS}, "output": {"grid": GRID}})

    began = time.perf_counter()
    source = ColumnsSource(points)
    source.prepare(config.grid)
    located = time.perf_counter() - began

    before = resident()
    with tempfile.TemporaryDirectory() as folder:
        report = gridding.run(
            config.with_execution(engine="threads", receipts="lengths"), source, store=folder
        )
    after = resident("VmHWM")

    keys = gridding.make_plan(config, source).shards.tolist()
    cells = 0

    def statistics() -> None:
        nonlocal cells
        cells = 0
        for shard in keys:
            accumulator = Accumulator(config, shard)
            part = source.part(shard, (0,), config.columns)
            for batch in part.batches(0, config.columns, 1 << 24):
                accumulator.add(batch)
            cells += len(accumulator.finish().positions)

    ours = best(statistics)

    number = config.grid.locate(points["longitude"], points["latitude"])
    values = points["h"].astype(np.float64)
    starts = counts = sorted_values = np.zeros(0, np.int64)

    def least() -> None:
        nonlocal starts, counts, sorted_values
        order = np.argsort(number, kind="stable")
        ordered, sorted_values = number[order], values[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        counts = np.diff(starts, append=n)
        np.add.reduceat(sorted_values, starts) / counts
        np.minimum.reduceat(sorted_values, starts)
        np.maximum.reduceat(sorted_values, starts)

    plain = best(least)

    some = min(len(starts), 100_000)

    def slow() -> None:
        for first, count in zip(starts[:some].tolist(), counts[:some].tolist(), strict=True):
            part = sorted_values[first : first + count]
            len(part), part.mean(), part.min(), part.max()

    loop = best(slow) * len(starts) / some

    assert cells == len(starts) == report.cells and report.points == n
    print(f"{n} points, {len(keys)} shards, {cells} cells")
    print(f"cells of points, points by shard   {located:8.2f} s")
    print(f"statistics of every cell           {ours:8.2f} s")
    print(f"one stable sort and reduceat       {plain:8.2f} s   we take {ours / plain:.2f} times as long")
    print(f"a loop over cells with numpy       {loop:8.2f} s   {loop / ours:.0f} times as long as ours")
    print(f"the whole run, with writing        {report.seconds:8.2f} s   {report.nbytes / 1e6:.0f} MB stored")
    print(f"most memory on top of the points   {(after - before) / 1024:8.0f} MB")


if __name__ == "__main__":
    main()
