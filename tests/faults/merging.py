"""A merge of many appended steps, cut off at its file operations: what is left on the disk there, opened and read.

What it does not do: kill processes; tests/care/test_merge.py does that at a small size. Here it is seen what a process
that dies there leaves, in two ways. The disk is copied as it is ahead of an operation (and with half of a write done);
finished objects are never written to again, so that copies may share them by hard links. That takes seconds where there
are ten thousand objects. So at most operations nothing is copied: the next opener works on the disk as it is, and what
it changes is kept beside, in memory. What the store itself does about litter is not seen then.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import terrazzo
from terrazzo.care import merge
from terrazzo.errors import TerrazzoError
from terrazzo.stores.local import LocalStore
from terrazzo.stores.store import Store
from tests.faults.layers import Counting
from tests.faults.ways import left_overs

__all__ = ["Beside", "Cutting", "appended", "search"]

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


class Beside(Store):
    """A folder as it is, over which changes lie in memory."""

    durable = True

    def __init__(self, root: Path) -> None:
        self.below = LocalStore(root)
        self.changes: dict[str, bytes | None] = {}

    def get(self, key: str) -> bytes | None:
        return self.changes[key] if key in self.changes else self.below.get(key)

    def set(self, key: str, value: Any) -> None:
        self.changes[key] = bytes(memoryview(value).cast("B"))

    def erase_values(self, keys: Iterable[str]) -> None:
        self.changes.update(dict.fromkeys(keys))

    def list_prefix(self, prefix: str) -> Iterator[str]:
        for key in self.below.list_prefix(prefix):
            if self.changes.get(key, b"") is not None:
                yield key
        for key, value in self.changes.items():
            if value is not None and key.startswith(prefix) and not self.below.exists(key):
                yield key


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


def search(folder: Path, steps: int, every: int, copies: int, firsts: int = 2) -> dict[str, Any]:
    """Cut a merge of so many steps at every `every`-th operation. At every `copies`-th of all, and at the `firsts` ones
    of each kind and phase, the disk is copied.

    A kind is the operation and what it follows; a phase is before or after the document tells of the merge.
    """
    values = appended(folder / "a", steps)
    root, cut = folder / "a", folder / "cut"
    seen: Counter[tuple[Any, ...]] = Counter()
    points: Counter[str] = Counter()
    counts = Counter(points=0, copied=0)
    wrong: list[str] = []
    names = ["-"]

    def look(operation: str, number: int, arguments: tuple[Any, ...]) -> None:
        announced = (root / "zarr.json").read_bytes().find(b"terrazzo_merge") >= 0
        kind = (operation, names[-1], announced)
        names.append(operation)
        seen[kind] += 1
        copy = not number % copies or seen[kind] <= firsts
        if not copy and number % every:
            return
        points[operation] += 1
        counts["points"] += 1
        if not copy:
            problem = values_in(Beside(root), values)
            if problem is not None:
                wrong.append(f"{operation}, number {number}, not copied: {problem}")
            return
        for half in (None, arguments) if operation == "pwrite" else (None,):
            copied(root, cut, half)
            counts["copied"] += 1
            problem = violation_in(cut, values, again=counts["copied"] % 10 == 0)
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
        **counts,
        "kinds": len(seen),
        "points by operation": dict(points),
        "violations": wrong,
    }


def values_in(store: Store, values: Any) -> str | None:
    """What is wrong with an array as it is once it was opened for writing, if anything."""
    try:
        array = terrazzo.open_array(store, mode="r+")
        if not np.array_equal(array[...], values):
            return "other values"
        if "terrazzo_merge" in array.metadata.extra:
            return "opened, and not finished"
    except TerrazzoError as error:
        return f"{type(error).__name__}: {error}"
    return None


def violation_in(root: Path, values: Any, again: bool) -> str | None:
    """What is wrong with an array that a dead merge left, if anything."""
    try:
        problem = values_in(LocalStore(root), values)
        if problem is not None or not again:
            return problem
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
