"""One array under all strategies against a numpy model: written, read, opened again, killed, mended, compacted,
damaged and repaired, and resized.

MACHINE_EXAMPLES and MACHINE_STEPS make it longer (`make faults-long`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import terrazzo
from terrazzo.care import check, compact, repair
from terrazzo.stores.local import LocalStore
from terrazzo.strategy import Append, InPlace, Replace
from tests.faults.conftest import SHARED_MEMORY
from tests.faults.layers import Counting, Killing
from tests.faults.test_crashes import in_child
from tests.faults.ways import left_overs, noise

STRATEGIES = [
    Replace(),
    Replace(order="C"),
    InPlace(torn_reads=True),
    InPlace(otherwise="append", torn_reads=True),
    InPlace(slack=0.5, torn_reads=True),
    InPlace(slack=64, slack_limit=300, otherwise="append", dead=0.7, torn_reads=True),
    Append(index_at_end=True),
    Append(index_at_end=True, dead=1.0),
]
CODECS = [["zstd:1", "crc32c"], ["crc32c"], ["zstd:1"], []]
CHUNKS, SHARDS = (7, 9), (14, 27)
MOST = (30, 60)


class Arrays(RuleBasedStateMachine):
    """The array is opened anew in each rule's way; `model` is what it has to hold."""

    def __init__(self) -> None:
        super().__init__()
        at = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
        self.root = Path(tempfile.mkdtemp(prefix="terrazzo-", dir=at))

    def teardown(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.rmtree(f"{self.root}.unplaced", ignore_errors=True)

    @initialize(
        rows=st.integers(1, MOST[0]),
        columns=st.integers(1, MOST[1]),
        codecs=st.sampled_from(CODECS),
        place=st.sampled_from(["start", "end"]),
        fill=st.sampled_from([0, -7]),
    )
    def make(self, rows: int, columns: int, codecs: list[str], place: str, fill: int) -> None:
        self.codecs = codecs
        self.array = terrazzo.create_array(
            LocalStore(self.root),
            shape=(rows, columns),
            dtype="i4",
            chunks=CHUNKS,
            shards=SHARDS,
            compressors=codecs,
            index_location=place,
            fill_value=fill,
        )
        self.model = np.full((rows, columns), fill, "i4")

    def place(self, data: st.DataObject) -> tuple[slice, ...]:
        edges = [sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n)))) for n in self.model.shape]
        return tuple(slice(a, b) for a, b in edges)

    def value(self, data: st.DataObject, shape: tuple[int, ...]) -> Any:
        how = data.draw(st.sampled_from(["fill", "one", 3, 12, 31]))
        if how == "fill":
            return self.array.fill_value
        return 1 if how == "one" else noise(data.draw(st.integers(0, 1 << 20)), shape, bits=int(how))

    @rule(data=st.data(), strategy=st.sampled_from(STRATEGIES))
    def write(self, data: st.DataObject, strategy: Any) -> None:
        place = self.place(data)
        value = self.value(data, self.model[place].shape)
        self.array.using(strategy=strategy)[place] = value
        self.model[place] = value

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        place = self.place(data)
        np.testing.assert_array_equal(self.array[place], self.model[place])

    @rule(strategy=st.sampled_from(STRATEGIES))
    def open_again(self, strategy: Any) -> None:
        self.array = terrazzo.open_array(LocalStore(self.root), mode="r+", strategy=strategy)

    @rule(data=st.data(), strategy=st.sampled_from(STRATEGIES), at=st.integers(0, 25), half=st.booleans())
    def die(self, data: st.DataObject, strategy: Any, at: int, half: bool) -> None:
        """A process dies while it writes inside one shard."""
        corner = [
            data.draw(st.integers(0, -(-n // s) - 1)) * s
            for n, s in zip(self.model.shape, SHARDS, strict=True)
        ]
        place = tuple(
            slice(c, min(c + data.draw(st.integers(1, s)), n))
            for c, s, n in zip(corner, SHARDS, self.model.shape, strict=True)
        )
        value = self.value(data, self.model[place].shape)
        files = Killing(at, half=half)

        def write() -> None:
            terrazzo.open_array(LocalStore(self.root, files=files), mode="r+", strategy=strategy)[place] = (
                value
            )

        finished = in_child(write) == 0
        key = "c/" + "/".join(str(c // s) for c, s in zip(corner, SHARDS, strict=True))
        self.array.store.recover(key)
        new = self.model.copy()
        new[place] = value
        found = self.array[...]
        assert np.array_equal(found, new) or (not finished and np.array_equal(found, self.model))
        self.model = np.array(found)

    @rule(dead=st.sampled_from([0.0, 0.4]), order=st.sampled_from([None, "C", "F"]), slack=st.booleans())
    def compact(self, dead: float, order: Any, slack: bool) -> None:
        report = compact(self.array, dead=dead, chunk_order=order, slack="keep" if slack else "drop")
        found = self.array.inventory(slack=slack)
        unused = found.dead - found.slack if slack else found.dead
        assert (unused <= dead * found.sizes).all()
        assert report.rewritten <= report.shards == len(found.keys)

    @rule(data=st.data(), at=st.integers(0, 40), half=st.booleans(), known=st.booleans())
    def damage_and_repair(self, data: st.DataObject, at: int, half: bool, known: bool) -> None:
        """A shard is cut short; a process dies while it repairs; the next one brings back what has a place."""
        before = self.array.inventory()
        if not len(before.keys):
            return
        key = data.draw(st.sampled_from(list(before.keys)))
        path = self.root / key
        os.truncate(path, data.draw(st.integers(0, path.stat().st_size)))
        files = Killing(at, half=half)
        manifest = before if known else None

        def die() -> None:
            dying = terrazzo.open_array(LocalStore(self.root, files=files), mode="r+")
            repair(dying, in_place=True, manifest=manifest)

        finished = in_child(die) == 0
        self.array = terrazzo.open_array(LocalStore(self.root), mode="r+")
        report = repair(self.array, in_place=True, manifest=manifest)
        assert not finished or report.ok, "what was told of is not told again"
        found = self.array[...]
        shard = tuple(
            slice(int(i) * s, (int(i) + 1) * s) for i, s in zip(key.split("/")[1:], SHARDS, strict=True)
        )
        if not finished and report.damaged.get(key) in ("index", "manifest"):
            for one in report.lost:
                assert one.chunk is not None
                self.model[
                    tuple(slice(i * c, (i + 1) * c) for i, c in zip(one.chunk, CHUNKS, strict=True))
                ] = self.array.fill_value
        else:  # an older index, no index, or a report that died with its process: that shard alone is another
            self.model[shard] = found[shard]
        assert check(self.array, verify_data=True).ok

    @rule(data=st.data())
    def resize(self, data: st.DataObject) -> None:
        shape = tuple(data.draw(st.integers(1, n)) for n in MOST)
        self.array.resize(shape)
        kept = tuple(slice(0, min(a, b)) for a, b in zip(shape, self.model.shape, strict=True))
        found = self.array[...]
        np.testing.assert_array_equal(found[kept], self.model[kept])
        # What lay outside may come back with the chunk it shares, so new elements are taken as they are.
        self.model = np.array(found)

    @rule()
    def no_litter(self) -> None:
        """After a write to every shard nothing is left beside them; a dead writer's lock of a shard that no longer
        belongs to the array stays until somebody writes there again."""
        files = Counting()
        array = terrazzo.open_array(LocalStore(self.root, files=files), mode="r+")
        array[...] = self.model
        inside = {f"c/{i}/{j}" for i, j in np.ndindex(*array.shard_grid_shape)}
        assert [name for name in left_overs(self.root) if name.rpartition(".__")[0] in inside] == []

    @invariant()
    def it_is_what_the_model_says(self) -> None:
        if hasattr(self, "array"):
            np.testing.assert_array_equal(
                terrazzo.open_array(LocalStore(self.root), mode="r")[...], self.model
            )


TestArrays = Arrays.TestCase
TestArrays.settings = settings(
    max_examples=int(os.environ.get("MACHINE_EXAMPLES", "25")),
    stateful_step_count=int(os.environ.get("MACHINE_STEPS", "20")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
