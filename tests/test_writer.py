"""The buffered writer against numpy: any pieces, any order, any strategy; little memory; death at any moment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import terrazzo
from terrazzo.arrays.array import Array
from terrazzo.errors import ReadOnlyError, SelectionError, TerrazzoWarning
from terrazzo.stores.local import LocalStore
from terrazzo.stores.memory import MemoryStore

LAYOUTS: dict[str, dict[str, Any]] = {
    "shards": dict(chunks=(3, 4, 2), shards=(6, 8, 4)),
    "index at the start": dict(chunks=(3, 4, 2), shards=(6, 8, 4), index_location="start"),
    "one chunk across": dict(chunks=(2, 10, 7), shards=(8, 10, 7)),
    "plain": dict(chunks=(3, 4, 2)),
    "rectilinear": dict(chunks=([2, 3], [4, 6], 2)),
    "in place": dict(chunks=(3, 4, 2), shards=(6, 8, 4), compressors="crc32c", strategy="in-place"),
    "append": dict(chunks=(3, 4, 2), shards=(6, 8, 4), index_location="start", strategy="append"),
}
ACROSS = (10, 7)


def made(kind: str, store: Any, length: int = 0, axis: int = 0) -> Array:
    shape = [*ACROSS]
    shape.insert(axis, length)
    how = dict(LAYOUTS[kind])
    if kind == "rectilinear":
        length = max(length, 5)
        return terrazzo.create_array(store, shape=(5, *ACROSS), dtype="i4", fill_value=-1, **how)
    return terrazzo.create_array(store, shape=tuple(shape), dtype="i4", fill_value=-1, **how)


def grown(expected: np.ndarray[Any, Any], stop: int) -> np.ndarray[Any, Any]:
    if stop <= len(expected):
        return expected
    more = np.full((stop - len(expected), *ACROSS), -1, "i4")
    return np.concatenate([expected, more])


@pytest.mark.parametrize("memory", [1, 3000, None])
@pytest.mark.parametrize("kind", LAYOUTS)
@settings(max_examples=8, deadline=None)
@given(st.data())
@pytest.mark.filterwarnings("ignore::terrazzo.errors.TerrazzoWarning")
def test_any_pieces_in_any_order(kind: str, memory: int | None, data: st.DataObject) -> None:
    store = MemoryStore()
    array = made(kind, store, data.draw(st.sampled_from([0, 4, 6])))
    expected = np.full(array.shape, -1, "i4")
    if data.draw(st.booleans()):
        expected[:] = np.arange(expected.size).reshape(expected.shape)
        array[...] = expected
    number = 1000
    for _ in range(data.draw(st.integers(1, 2))):
        array = terrazzo.open_array(store, mode="r+", strategy=array.strategy)
        assert array.shape == expected.shape
        with array.writer(memory=memory) as writer:
            assert writer.position == len(expected)
            for _ in range(data.draw(st.integers(1, 6))):
                what = data.draw(st.sampled_from(["step", "steps", "box", "flush"]))
                if what == "flush":
                    writer.flush()
                    assert writer.stored == writer.position == array.shape[0] == len(expected)
                    np.testing.assert_array_equal(array[...], expected)
                elif what == "box":
                    box = []
                    for n in (len(expected) + 5, *ACROSS):
                        start = data.draw(st.integers(0, n - 1))
                        box.append(slice(start, data.draw(st.integers(start + 1, n))))
                    value = np.arange(number, number + np.prod([b.stop - b.start for b in box]))
                    value = value.reshape([b.stop - b.start for b in box]).astype("i4")
                    number += value.size
                    expected = grown(expected, box[0].stop)
                    expected[tuple(box)] = value
                    writer.write(tuple(box), value)
                else:
                    n = 1 if what == "step" else data.draw(st.integers(0, 13))
                    value = np.arange(number, number + n * 70, dtype="i4").reshape(n, *ACROSS)
                    number += value.size
                    start = len(expected)
                    expected = np.concatenate([expected, value])
                    assert writer.append(value[0] if what == "step" else value) == start + n
                assert writer.position == len(expected)
        assert array.shape == expected.shape
        np.testing.assert_array_equal(array[...], expected)
        np.testing.assert_array_equal(terrazzo.open_array(store, mode="r")[...], expected)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_along_any_axis(axis: int) -> None:
    array = made("shards", MemoryStore(), axis=axis % 3)
    steps = np.random.default_rng(1).integers(0, 100, (23, *ACROSS), dtype="i4")
    with array.writer(axis) as writer:
        for step in steps:
            writer.append(step)
    np.testing.assert_array_equal(array[...], np.moveaxis(steps, 0, axis))


@pytest.mark.parametrize("dtype", ["f4", "V5", "M8[s]", "T", "?"])
def test_any_type(dtype: str) -> None:
    array = terrazzo.create_array(MemoryStore(), shape=(0, 5), dtype=dtype, chunks=(4, 3), shards=(8, 6))
    if dtype == "T":
        values: Any = np.array(
            [[f"text {i} {j}" for j in range(5)] for i in range(30)], np.dtypes.StringDType()
        )
    else:
        size = np.dtype(dtype).itemsize
        raw = np.random.default_rng(2).integers(0, 2, (30, 5 * size), dtype="u1")
        values = raw.view(dtype)
    with array.writer() as writer:
        for value in values:
            writer.append(value)
    np.testing.assert_array_equal(np.asarray(array[...]), values)


def test_ten_thousand_steps(tmp_path: Path) -> None:
    frames = np.random.default_rng(3).integers(0, 50, (10_000, 6, 8), dtype="u2")
    array = terrazzo.create_array(
        tmp_path / "a.zarr", shape=(0, 6, 8), dtype="u2", chunks=(100, 6, 4), shards=(2000, 6, 8)
    )
    with array.writer() as writer:
        for number, frame in enumerate(frames):
            assert writer.append(frame) == number + 1
            if number == 4321:
                writer.flush()
    reopened = terrazzo.open_array(tmp_path / "a.zarr", mode="r")
    np.testing.assert_array_equal(reopened[...], frames)
    assert reopened.nchunks_initialized == reopened.nchunks == 200


def test_whole_shards_are_written_once_and_chunks_encoded_once() -> None:
    """The point of it all, as counts."""

    class Counting(MemoryStore):
        def __init__(self) -> None:
            super().__init__()
            self.puts: list[str] = []

        def commit(self, changes: Any, durability: Any = "fsync") -> Any:
            self.puts += [change.hold.key for change in changes]
            return super().commit(changes, durability)

    store = Counting()
    array = terrazzo.create_array(store, shape=(0, 8), dtype="i4", chunks=(2, 4), shards=(10, 8))
    store.puts.clear()
    with array.writer() as writer:
        for number in range(1, 101):
            writer.append(np.full(8, number, "i4"))
    assert sorted(key for key in store.puts if key.startswith("c/")) == sorted(f"c/{k}/0" for k in range(10))
    assert len(store.puts) == 20  # and the document once for every row of shards


def test_readers_never_see_a_step_that_is_not_stored() -> None:
    store = MemoryStore()
    array = made("shards", store)
    with array.writer() as writer:
        for number in range(20):
            writer.append(np.full(ACROSS, number, "i4"))
            seen = terrazzo.open_array(store, mode="r")
            assert seen.shape[0] == writer.stored == (number + 1) // 6 * 6
            assert (np.asarray(seen[...]) == np.arange(seen.shape[0])[:, None, None]).all()


def test_an_error_in_the_block_loses_nothing_that_was_given() -> None:
    store = MemoryStore()
    array = made("shards", store)
    with pytest.raises(RuntimeError, match="camera"):
        with array.writer() as writer:
            writer.append(np.full((8, *ACROSS), 5))
            raise RuntimeError("camera")
    assert terrazzo.open_array(store)[...].tolist() == np.full((8, *ACROSS), 5).tolist()


def test_a_failing_store_leaves_what_was_flushed() -> None:
    class Full(MemoryStore):
        full = False

        def commit(self, changes: Any, durability: Any = "fsync") -> Any:
            if self.full:
                raise OSError(28, "no space left")
            return super().commit(changes, durability)

    store = Full()
    array = made("shards", store)
    with pytest.raises(OSError, match="no space"):
        with array.writer() as writer:
            writer.append(np.ones((4, *ACROSS)))
            writer.flush()
            store.full = True
            writer.append(np.ones((9, *ACROSS)))
    store.full = False
    assert terrazzo.open_array(store)[...].tolist() == np.ones((4, *ACROSS)).tolist()
    with pytest.raises(RuntimeError) as caught:
        with array.writer() as writer:
            writer.append(np.ones((1, *ACROSS)))
            store.full = True
            raise RuntimeError("first")
    assert "stored up to index 4" in caught.value.__notes__[0]


def test_what_a_dead_writer_left_past_the_end_is_fill_value() -> None:
    array = made("shards", MemoryStore(), 20)
    array[...] = 7
    array.resize((4, *ACROSS), delete_outside_chunks=False)  # as if a writer had died: shards past the end
    with array.writer() as writer:
        writer.append(np.full(ACROSS, 1))
    array.resize((6, *ACROSS))  # to the end of the shard that was written to
    assert (np.asarray(array[:4]) == 7).all() and (np.asarray(array[4]) == 1).all()
    assert (np.asarray(array[5:]) == -1).all()


def test_others_may_write_to_other_chunks_of_the_shard() -> None:
    store = MemoryStore()
    array = terrazzo.create_array(store, shape=(16, 8), dtype="i4", chunks=(2, 4), shards=(16, 8))
    other = terrazzo.open_array(store)
    with array.writer() as writer:
        writer.write(np.s_[0:2, 0:4], 1)
        writer.write(np.s_[2, :2], 2)
        other[4:8] = 3
        other[2:4, 2:4] = 4
    expected = np.zeros((16, 8), "i4")
    expected[0:2, 0:4], expected[2, :2], expected[4:8], expected[2:4, 2:4] = 1, 2, 3, 4
    np.testing.assert_array_equal(array[...], expected)


def test_many_threads_may_give_pieces() -> None:
    array = terrazzo.create_array(MemoryStore(), shape=(0, 6), dtype="i8", chunks=(4, 3), shards=(16, 6))

    def give(first: int) -> None:
        for number in range(first, 200, 4):
            writer.write(number, np.full(6, number))

    with array.writer() as writer:
        threads = [threading.Thread(target=give, args=(first,)) for first in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    np.testing.assert_array_equal(array[...], np.repeat(np.arange(200), 6).reshape(200, 6))


def test_what_is_refused() -> None:
    array = made("shards", MemoryStore())
    with pytest.raises(ValueError, match="there is no axis 3"):
        array.writer(3)
    with pytest.raises(ValueError, match="memory=0"):
        array.writer(memory=0)
    writer = array.writer()
    with pytest.raises(ValueError, match=r"by steps of shape \(10, 7\); data of shape \(3,\)"):
        writer.append(np.zeros(3))
    for selection in (np.s_[::2], np.s_[0, 10], np.s_[-1], np.s_[0, 0, 0, 0], np.s_[[1, 2]]):
        with pytest.raises(SelectionError):
            writer.write(selection, 0)
    with pytest.raises(ValueError, match="does not fit a selection"):
        writer.write(np.s_[0, :3], np.zeros(4))
    writer.close()
    writer.close()
    with pytest.raises(ValueError, match="is closed"):
        writer.append(np.zeros(ACROSS))
    with pytest.raises(ReadOnlyError):
        terrazzo.open_array(array.store, mode="r").writer()
    with pytest.warns(TerrazzoWarning, match="3 steps long, and so many steps take 840 bytes"):
        array.writer(memory=500)
    assert "position=0 stored=0" in repr(writer)


RESUMING = """
import sys
import numpy as np
import terrazzo
from tests.faults.layers import Killing
from terrazzo.stores.local import LocalStore

root, at = sys.argv[1], int(sys.argv[2])
store = LocalStore(root, files=Killing(at))
array = terrazzo.open_array(store, mode="r+")
with array.writer() as writer:
    for number in range(writer.position, 30):
        writer.append(np.full((4, 4), number + 1, "i4"))
        if number % 7 == 6:
            writer.flush()
            print(writer.stored, flush=True)
"""


@pytest.mark.parametrize("kind", ["shards", "plain"])
def test_killed_again_and_again_and_resumed(tmp_path: Path, kind: str) -> None:
    """Every process dies a few operations on; what it said was stored is there, and the end equals numpy."""
    how: dict[str, Any] = dict(shards=(8, 4, 4)) if kind == "shards" else {}
    terrazzo.create_array(tmp_path / "a", shape=(0, 4, 4), dtype="i4", chunks=(2, 4, 2), **how)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    promised, deaths, at = 0, 0, 3
    while True:
        done = subprocess.run(
            [sys.executable, "-c", RESUMING, str(tmp_path / "a"), str(at)],
            env=environment,
            capture_output=True,
            text=True,
        )
        said = [int(line) for line in done.stdout.split()]
        promised = max([promised, *said])
        array = terrazzo.open_array(LocalStore(tmp_path / "a"), mode="r")
        assert array.shape[0] >= promised
        values = np.asarray(array[...])
        assert (values == np.arange(1, len(values) + 1)[:, None, None]).all()
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        deaths += 1
        at += 9
    assert array.shape[0] == 30 and deaths >= 5


MEMORY = """
import json, resource, sys
import numpy as np
import terrazzo

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024

array = terrazzo.create_array(sys.argv[1], shape=(0, 512, 512), dtype="f4", chunks=(8, 64, 64), shards=(64, 512, 512))
rng = np.random.default_rng(0)
with array.writer(memory=int(sys.argv[2])) as writer:
    writer.append(rng.random((512, 512), "f4"))
    writer.flush()
    before = peak()
    for number in range(1, 200):
        writer.append(rng.random((512, 512), "f4"))
print(json.dumps([before, peak(), array.nbytes]))
"""


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the peak of memory is read from Linux's /proc"
)
def test_memory_stays_within_the_budget(tmp_path: Path) -> None:
    budget = 32 << 20
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(MEMORY), str(tmp_path / "a"), str(budget)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TERRAZZO_THREADS": "2"},
    )
    before, after, nbytes = json.loads(done.stdout)
    assert nbytes > 6 * budget
    assert after - before < 2 * budget, (after - before) / budget
