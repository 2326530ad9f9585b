"""A merge of many appended steps, cut off at its file operations: what is left on the disk there, opened and read.

What it does not do: kill processes; tests/care/test_merge.py does that at a small size. Here the disk is copied as it
is ahead of an operation (and with half of a write done), which is what a process that dies there leaves. Finished
objects are never written to again, so that copies may share them by hard links.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import terrazzo
from terrazzo.care import merge
from terrazzo.errors import TerrazzoError
from terrazzo.stores.local import LocalStore
from tests.faults.layers import Counting
from tests.faults.ways import left_overs

__all__ = ["Cutting", "appended", "search"]

WIDTH = 8
EDGE = 100


def appended(root: Path, steps: int) -> Any:
    """An array in `root` to which so many steps were appended one by one, each a shard of its own; its values."""
    values = np.random.default_rng(3).integers(1, 1000, (steps, WIDTH), dtype="i4")
    values[steps // 3 : steps // 2, :] = 0
    array = terrazzo.create_array(
        LocalStore(root), data=values[:1], chunks=(1, WIDTH), shards=([1], WIDTH)
    ).using(durability="none")
    for step in range(1, steps):
        array.append(values[step : step + 1])
    return values


class Cutting(Counting):
    """Calls `look(operation, number, half)` where a process may die: `half` puts half of a write into a copy."""

    def __init__(self, look: Callable[[str, int, tuple[Any, ...]], None]) -> None:
        super().__init__()
        self.look = look

    def before(self, operation: str, arguments: tuple[Any, ...]) -> None:
        self.look(operation, len(self.calls) - 1, arguments)


def copied(root: Path, to: Path, write: tuple[Any, ...] | None) -> None:
    """The folder as it is, with half of a write (file, buffer, offset) done."""
    inode = None if write is None else os.fstat(write[0]).st_ino
    for path in root.rglob("*"):
        there = to / path.relative_to(root)
        if path.is_dir():
            there.mkdir(parents=True, exist_ok=True)
            continue
        there.parent.mkdir(parents=True, exist_ok=True)
        if path.name.endswith((".__lock", ".__redo")) or path.stat().st_ino == inode:
            shutil.copy(path, there)
            if write is not None and path.stat().st_ino == inode:
                _, buffer, offset = write
                half = memoryview(buffer).cast("B")[: memoryview(buffer).nbytes // 2]
                with open(there, "r+b") as file:
                    file.seek(offset)
                    file.write(half)
        else:
            os.link(path, there)


def search(folder: Path, steps: int, every: int) -> dict[str, Any]:
    """Cut a merge of so many steps at every `every`-th operation, and at the first ones of each kind and phase.

    A kind is the operation and what it follows; a phase is before or after the document tells of the merge.
    """
    values = appended(folder / "a", steps)
    root, cut = folder / "a", folder / "cut"
    seen: Counter[tuple[Any, ...]] = Counter()
    points: Counter[str] = Counter()
    wrong: list[str] = []
    names = ["-"]

    def look(operation: str, number: int, arguments: tuple[Any, ...]) -> None:
        announced = (root / "zarr.json").read_bytes().find(b"terrazzo_merge") >= 0
        kind = (operation, names[-1], announced)
        names.append(operation)
        seen[kind] += 1
        if number % every and seen[kind] > 2:
            return
        halves = (None, arguments) if operation == "pwrite" else (None,)
        for half in halves:
            copied(root, cut, half)
            points[operation] += 1
            problem = violation_in(cut, values, again=points.total() % 10 == 0)
            if problem is not None:
                wrong.append(f"{operation}, number {number}, half={half is not None}: {problem}")
            shutil.rmtree(cut)

    files = Cutting(look)
    merge(terrazzo.open_array(LocalStore(root, files=files), mode="r+"), edge=EDGE)
    problem = violation_in(root, values, again=True)
    if problem is not None:
        wrong.append(f"the merge itself: {problem}")
    return {
        "steps": steps,
        "operations": len(files.calls),
        "every": every,
        "points": points.total(),
        "kinds": len(seen),
        "points by operation": dict(points),
        "violations": wrong,
    }


def violation_in(root: Path, values: Any, again: bool) -> str | None:
    """What is wrong with an array that a dead merge left, if anything."""
    try:
        if not np.array_equal(terrazzo.open_array(LocalStore(root), mode="r+")[...], values):
            return "other values"
        if not again:
            return None
        merged = merge(terrazzo.open_array(LocalStore(root), mode="r+"), edge=EDGE)
        if not np.array_equal(terrazzo.open_array(LocalStore(root), mode="r")[...], values):
            return "other values once it is merged again"
    except TerrazzoError as error:
        return f"{type(error).__name__}: {error}"
    whole, rest = divmod(len(values), EDGE)
    if merged.write_chunk_sizes[0] != (EDGE,) * whole + ((rest,) if rest else ()):
        return f"edges {merged.write_chunk_sizes[0][:5]}..."
    found = {path.name for path in root.iterdir()}
    if left_overs(root) or found != {"c", "zarr.json"}:
        return f"left over: {found}, {left_overs(root)[:5]}"
    return None
