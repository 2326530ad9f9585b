"""Writers of ours and of tensorstore on one shard at once: they take the same lock, and lose nothing.

Run as a program, this file is one of the writers: tensorstore does not live on in forked processes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.stores.files import Files
from terrazzo.stores.local import LocalStore

tensorstore = pytest.importorskip("tensorstore")

N, ROUNDS = 4, 30
EDGE = 64


def value_of(number: int, turn: int) -> Any:
    return np.random.default_rng(number * 1000 + turn).integers(1, 4 << (turn % 20), EDGE, dtype="i4")


STRATEGIES: dict[str, Any] = {
    "replace": terrazzo.Replace(),
    "in-place": terrazzo.InPlace(otherwise="append"),
    "append": terrazzo.Append(index_at_end=True),
}


def ours(root: str, strategy: str, number: int) -> None:
    array = terrazzo.open_array(LocalStore(root), mode="r+", strategy=STRATEGIES[strategy])
    for turn in range(ROUNDS):
        array[number * EDGE : (number + 1) * EDGE] = value_of(number, turn)


def theirs(root: str, number: int) -> None:
    array = tensorstore.open({"driver": "zarr3", "kvstore": f"file://{root}/"}, open=True).result()
    for turn in range(ROUNDS):
        array[number * EDGE : (number + 1) * EDGE].write(value_of(number, turn)).result()


class Dying(Files):
    """The process is killed in the middle of its write to the object."""

    direct = False

    def __init__(self, path: Path) -> None:
        self.inode = path.stat().st_ino

    def pwrite(self, file: int, buffer: Any, offset: int) -> int:
        if os.fstat(file).st_ino == self.inode:
            Files.pwrite(self, file, memoryview(buffer).cast("B")[:100], offset)
            os.kill(os.getpid(), signal.SIGKILL)
        return Files.pwrite(self, file, buffer, offset)


def dying(root: str) -> None:
    store = LocalStore(root, files=Dying(Path(root) / "c/0"))
    terrazzo.open_array(store, mode="r+", strategy=terrazzo.InPlace())[:64] = 2


@pytest.mark.parametrize("index_location", ["end", "start"])
@pytest.mark.parametrize("compressors", [["zstd:1", "crc32c"], ["crc32c"]], ids=["zstd", "slots"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nothing_is_lost(tmp_path: Path, strategy: str, compressors: list[str], index_location: str) -> None:
    array = terrazzo.create_array(
        LocalStore(tmp_path),
        shape=(N * EDGE,),
        dtype="i4",
        chunks=(EDGE,),
        shards=(N * EDGE,),
        compressors=compressors,
        index_location=index_location,
    )
    array[...] = 1
    writers = [
        subprocess.Popen(
            [sys.executable, __file__, str(tmp_path), strategy if number % 2 else "theirs", str(number)]
        )
        for number in range(N)
    ]
    assert [writer.wait() for writer in writers] == [0] * N
    wanted = np.concatenate([value_of(number, ROUNDS - 1) for number in range(N)])
    np.testing.assert_array_equal(terrazzo.open_array(tmp_path, mode="r")[...], wanted)
    found = tensorstore.open({"driver": "zarr3", "kvstore": f"file://{tmp_path}/"}, open=True).result()
    np.testing.assert_array_equal(found.read().result(), wanted)


def test_a_dead_writer_of_ours_does_not_stop_theirs(tmp_path: Path) -> None:
    """What we leave of an in-place write is whole again after they replaced the shard, or is told by its checksum."""
    array = terrazzo.create_array(
        LocalStore(tmp_path), shape=(256,), dtype="i4", chunks=(64,), shards=(256,), compressors=["crc32c"]
    )
    array[...] = 1

    writer = subprocess.run([sys.executable, __file__, str(tmp_path), "dying", "0"], check=False)
    assert writer.returncode == -signal.SIGKILL
    theirs_now = tensorstore.open({"driver": "zarr3", "kvstore": f"file://{tmp_path}/"}, open=True).result()
    theirs_now[64:128].write(np.full(64, 3, "i4")).result()
    found = terrazzo.open_array(tmp_path, mode="r+")
    assert (found[64:128] == 3).all()
    assert (found[128:] == 1).all()
    with pytest.raises(terrazzo.errors.ChecksumError):
        found[:64]
    found[:64] = 4  # all of the chunk is written, so nothing of the torn one is needed
    assert (terrazzo.open_array(tmp_path, mode="r")[:64] == 4).all()


if __name__ == "__main__":
    _, folder, who, which = sys.argv
    if who == "theirs":
        theirs(folder, int(which))
    elif who == "dying":
        dying(folder)
    else:
        ours(folder, who, int(which))
