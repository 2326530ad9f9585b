"""Several objects of one array, none of which knows what the others do: appends, writes, resizes and merges in any
order, with numpy as the oracle.

Of cells that lay outside the array at some time it is not told what they hold (docs of `resize`), until somebody writes
to them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import terrazzo
from terrazzo.care import merge
from terrazzo.errors import ConflictError
from terrazzo.storage import LocalStore, MemoryStore
from terrazzo.stores.contract import Cost
from tests.stores.far import FarStore

LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {"chunks": (4, 3)},
    "shards": {"chunks": (2, 3), "shards": (6, 3)},
    "slots": {"chunks": (2, 2), "shards": (4, 4), "compressors": "crc32c"},
    "start": {"chunks": (2, 2), "shards": (8, 4), "index_location": "start"},
    "listed": {"chunks": ([5], 3)},
    "listed shards": {"chunks": (2, 2), "shards": ([4, 2], 4)},
}
STRATEGIES: dict[str, Any] = {
    "replace": terrazzo.Replace(),
    "in place": terrazzo.InPlace(),
    "slack": terrazzo.InPlace(slack=40, otherwise="append"),
    "append": terrazzo.Append(index_at_end=True),
}
#: longest the array becomes, along each axis
MOST = 48
HANDLES = 3


class Machine(RuleBasedStateMachine):
    @initialize(
        layout=st.sampled_from(sorted(LAYOUTS)),
        strategy=st.sampled_from(sorted(STRATEGIES)),
        where=st.sampled_from(["memory", "far", "local"]),
        empty=st.booleans(),
    )
    def begin(self, layout: str, strategy: str, where: str, empty: bool) -> None:
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
        self.store: Any = {
            "memory": MemoryStore,
            "far": lambda: FarStore(cost=Cost(0.0015, 1e9, requests=8)),
            "local": lambda: LocalStore(self.folder / "a"),
        }[where]()
        self.listed = layout.startswith("listed")
        self.strategy = STRATEGIES[strategy] if "chunks" in LAYOUTS[layout] else "replace"
        first = 0 if empty and not self.listed else 5
        terrazzo.create_array(self.store, shape=(first, 4), dtype="i4", fill_value=-1, **LAYOUTS[layout])
        self.shape = (first, 4)
        self.values = np.full((MOST, MOST), -1, "i4")
        self.sure = np.ones((MOST, MOST), np.bool_)
        self.handles = [self.opened() for _ in range(HANDLES)]
        self.number = 0

    def opened(self) -> terrazzo.Array:
        return terrazzo.open_array(self.store, mode="r+").using(strategy=self.strategy, durability="none")

    def inside(self) -> tuple[slice, ...]:
        return tuple(slice(0, n) for n in self.shape)

    def doubt_outside(self) -> None:
        kept = self.sure[self.inside()].copy()
        self.sure[:] = False
        self.sure[self.inside()] = kept

    def value(self) -> int:
        self.number += 1
        return self.number if self.number % 5 else -1

    @rule(which=st.integers(0, HANDLES - 1), axis=st.integers(0, 1), count=st.integers(0, 7))
    def append(self, which: int, axis: int, count: int) -> None:
        if self.shape[axis] + count > MOST:
            return
        value, rows = self.value(), list(self.shape)
        rows[axis] = count
        handle = self.handles[which]
        across = handle.shape[:axis] + handle.shape[axis + 1 :]
        if across != self.shape[:axis] + self.shape[axis + 1 :]:
            handle = self.handles[which] = self.opened()  # data of the old extent would not fit
        place = tuple(slice(n, n + count) if d == axis else slice(0, n) for d, n in enumerate(self.shape))
        shape = list(self.shape)
        shape[axis] += count
        self.shape = (shape[0], shape[1])
        assert handle.append(np.full(rows, value, "i4"), axis=axis) == self.shape
        self.values[place], self.sure[place] = value, True

    @rule(
        which=st.integers(0, HANDLES - 1),
        cut=st.tuples(*[st.tuples(st.integers(0, 9), st.integers(0, 9))] * 2),
        kind=st.sampled_from(["all", "box", "head", "tail", "points", "chunk"]),
    )
    def write(self, which: int, cut: Any, kind: str) -> None:
        handle, value = self.handles[which], self.value()
        box = []
        for n, (a, b) in zip(handle.shape, cut, strict=True):
            low, high = sorted((a * n // 9, b * n // 9))
            if kind == "all" or (kind == "tail" and n):
                low, high = 0 if kind == "all" else low, n
            elif kind == "head":
                low = 0
            elif kind == "chunk":
                low, high = low // 4 * 4, min(n, low // 4 * 4 + 4)
            box.append(slice(low, high))
        place = tuple(box)
        try:
            if kind == "points":
                mask = np.zeros(handle.shape, np.bool_)
                mask[place] = True
                handle.vindex[mask] = value
            else:
                handle[place] = value
        except ConflictError:  # its chunks were merged
            if not self.listed:
                raise
            self.handles[which] = self.opened()
            return
        if handle.shape != self.shape:
            self.doubt_outside()
        seen = tuple(
            slice(p.start, max(p.start, min(p.stop, n))) for p, n in zip(place, self.shape, strict=True)
        )
        self.values[seen] = value
        self.sure[seen] = True

    @rule(
        which=st.integers(0, HANDLES - 1),
        shape=st.tuples(st.integers(0, 24), st.integers(1, 9)),
        keep=st.booleans(),
    )
    def resize(self, which: int, shape: tuple[int, int], keep: bool) -> None:
        smaller = any(n < m for n, m in zip(shape, self.shape, strict=True))
        self.handles[which].resize(shape, delete_outside_chunks=not keep)
        self.shape = shape
        if smaller:
            self.doubt_outside()

    @rule(which=st.integers(0, HANDLES - 1))
    def open_again(self, which: int) -> None:
        self.handles[which] = self.opened()

    @rule(which=st.integers(0, HANDLES - 1), name=st.sampled_from("ab"))
    def describe(self, which: int, name: str) -> None:
        self.handles[which].attrs[name] = which

    @precondition(lambda self: self.listed)
    @rule(edge=st.sampled_from([2, 4, 8, None]))
    def merge(self, edge: int | None) -> None:
        merge(terrazzo.open_array(self.store, mode="r+"), edge=edge)

    @invariant()
    def equals(self) -> None:
        if not hasattr(self, "values"):
            return
        array = terrazzo.open_array(self.store, mode="r")
        assert array.shape == self.shape
        found, sure = array[...], self.sure[self.inside()]
        np.testing.assert_array_equal(found[sure], self.values[self.inside()][sure])
        # what was not sure is what was found, from now on
        self.values[self.inside()] = found
        self.sure[self.inside()] = True

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder, ignore_errors=True)


TestStale = Machine.TestCase
TestStale.settings = settings(
    max_examples=int(os.environ.get("MACHINE_EXAMPLES", "25")),
    stateful_step_count=int(os.environ.get("MACHINE_STEPS", "20")),
    deadline=None,
)
