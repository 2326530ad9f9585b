"""What a call needs beyond its input and output: the budget, and not more for larger shards or arrays.

Each case runs in a process of its own, which asks the system for its peak.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="needs /proc")

MIB = 1 << 20

#: what a process does first: `peak(work)` answers the bytes that `work` needed beyond what was there
HEAD = """
import sys
import numpy as np
import terrazzo

def status(name):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))

def peak(work):
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = status("VmRSS")
    work()
    return status("VmHWM") - before

def values(shape):
    out = np.empty(shape, "u2")
    out[...] = np.random.default_rng(0).integers(0, 900, shape[1:], "u2")
    return out

path, SHAPE = sys.argv[1], (256, 512, 512)  # 128 MiB
"""


def peak(path: Path, code: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", HEAD + code, str(path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize(
    "shards", [None, (64, 256, 256), (256, 512, 512)], ids=["plain", "shards", "one shard"]
)
@pytest.mark.parametrize("codec", ["zstd:1", None])
def test_whole_and_partial_transfers_stay_within_a_few_mebibytes(
    tmp_path: Path, shards: tuple[int, ...] | None, codec: str | None
) -> None:
    create = f"""
array = terrazzo.create_array(path, shape=SHAPE, chunks=(32,) * 3, shards={shards}, dtype="u2", compressors={codec!r})
array = array.using(durability="none", threads=2, memory=8 << 20)
array[:32, :32, :32] = 1
array[:32, :32, :32]
"""
    opened = (
        'array = terrazzo.open_array(path, mode="r+").using(durability="none", threads=2, memory=8 << 20)\n'
    )
    steps = {
        "write": create + "given = values(SHAPE)\nprint(peak(lambda: array.__setitem__(..., given)))",
        "read": opened + "out = values(SHAPE)\nprint(peak(lambda: array.get_basic_selection(..., out=out)))",
        "change": opened
        + "given = values((90,) * 3)\nprint(peak(lambda: array.__setitem__((slice(5, 95),) * 3, given)))",
        "boxes": opened
        + "print(peak(lambda: [array[i:i + 40, i:i + 40, i:i + 40] for i in range(0, 200, 7)]))",
    }
    found = {name: peak(tmp_path / "a", code) for name, code in steps.items()}
    assert max(found.values()) < 32 * MIB, found


def test_a_shard_of_a_million_inner_chunks_costs_tables_and_no_more(tmp_path: Path) -> None:
    """The index has 16 bytes for each inner chunk; planning takes a few times as much."""
    index = 16 << 20
    create = """
array = terrazzo.create_array(path, shape=(256, 256, 256), chunks=(4, 2, 2), shards=(256,) * 3, dtype="u1")
array = array.using(durability="none")
given = values((256,) * 3).astype("u1")
print(peak(lambda: array.__setitem__(..., given)))
"""
    opened = 'array = terrazzo.open_array(path, mode="r+").using(durability="none")\n'
    assert peak(tmp_path / "a", create) < 4 * index  # 64 MiB
    read = 'out = np.ones((256,) * 3, "u1")\nprint(peak(lambda: array.get_basic_selection(..., out=out)))'
    assert peak(tmp_path / "a", opened + read) < 6 * index
    change = "print(peak(lambda: array.__setitem__((slice(5, 9),) * 3, 3)))"
    assert peak(tmp_path / "a", opened + change) < 9 * index


def test_an_array_far_larger_than_memory_is_streamed(tmp_path: Path) -> None:
    code = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
array = terrazzo.create_array(
    path, shape=(32768, 1024, 1024), chunks=(64,) * 3, shards=(256,) * 3, dtype="u2"
).using(durability="none", threads=2)

def work():
    for k in range(5):
        array[6000 * k : 6000 * k + 100, 50:150, 60:160] = k + 1
    array[32767, 1023, 1023] = 9
    found = 0
    for start in range(0, 32768, 2000):  # some blocks of 64 GiB
        found += int(np.count_nonzero(array[start : start + 100, :256]))
    assert found == 5 * 100 * 100 * 100, found
    for number, plane in enumerate(array):
        assert bool(plane.any()) == (number < 100)
        if number == 300:
            break
    assert array[-1, -1, -1] == 9

print(peak(work))
"""
    assert peak(tmp_path / "a", code) < 512 * MIB


def test_stores_in_memory_take_a_few_objects_at_a_time(tmp_path: Path) -> None:
    """New objects of such a store are memory until they are committed: not all of a whole write's at once."""
    code = """
from terrazzo.stores.memory import MemoryStore

class Noting(MemoryStore):
    def commit(self, changes, durability="fsync"):
        self.most = max(getattr(self, "most", 0), len(changes))
        return super().commit(changes, durability)

store = Noting()
array = terrazzo.create_array(store, shape=SHAPE, chunks=(32,) * 3, shards=(64,) * 3, dtype="u2").using(memory=4 << 20)
array[...] = values(SHAPE)
print(store.most)
"""
    assert peak(tmp_path, code) == (4 << 20) // (64**3 * 2)


def test_values_of_another_type_are_converted_as_they_are_written(tmp_path: Path) -> None:
    code = """
array = terrazzo.create_array(
    path, shape=(512, 256, 256), chunks=(32,) * 3, shards=(64,) * 3, dtype="f4", compressors=None
).using(durability="none", memory=8 << 20, threads=2)
given = np.arange(512 * 256 * 256, dtype="u4").reshape(512, 256, 256) % 60000
print(peak(lambda: array.__setitem__(..., given)))
assert np.array_equal(array[...], given)
"""
    assert peak(tmp_path / "a", code) < 40 * MIB  # of 128
