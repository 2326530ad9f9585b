"""What one changed inner chunk of a large compressed shard costs: bytes counted at the file layer."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.stores.local import LocalStore
from terrazzo.strategy import Append, InPlace, Replace
from tests.faults import ways
from tests.faults.layers import Counting
from tests.faults.ways import BY_NAME, made, noise, opened

MIB = 1 << 20
N = 150  # inner chunks of one MiB
EDGE = 512
SHAPE = (N * EDGE, EDGE)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A shard of 150 MiB that zstd makes no smaller, with its index at the end and at the start."""
    value = np.random.default_rng(0).integers(0, 1 << 32, SHAPE, dtype="u4")
    made = {}
    for place in ("end", "start"):
        made[place] = tmp_path_factory.mktemp(place)
        array = terrazzo.create_array(
            LocalStore(made[place]),
            shape=SHAPE,
            dtype="u4",
            chunks=(EDGE, EDGE),
            shards=SHAPE,
            compressors=["zstd:1", "crc32c"],
            index_location=place,
        )
        array.using(durability="none")[...] = value
    return made


def written(root: Path, strategy: Any, value: Any) -> tuple[int, terrazzo.Array]:
    files = Counting()
    array = terrazzo.open_array(LocalStore(root, files=files), mode="r+", strategy=strategy)
    array.using(durability="rename", strategy=strategy)[EDGE : 2 * EDGE] = value
    return files.nbytes, array


@pytest.mark.parametrize("place", ["end", "start"])
@pytest.mark.parametrize(
    "strategy",
    [Append(index_at_end=True), InPlace(), InPlace(otherwise="append")],
    ids=["append", "in-place", "in-place-or-append"],
)
def test_a_small_change_writes_little(large: dict[str, Path], place: str, strategy: Any) -> None:
    root = large[place]
    seed = zlib.crc32(f"{place} {strategy}".encode()) % 1000
    # compresses to a little less than what is there, so that it fits the slot
    value = np.random.default_rng(seed).integers(0, 1 << 31, (EDGE, EDGE), dtype="u4")
    size = (root / "c/0/0").stat().st_size
    assert size > N * MIB * 0.95
    index_nbytes = N * 16 + 4
    nbytes, array = written(root, strategy, value)
    assert nbytes <= 2 * (MIB + 64 + index_nbytes) + 4096
    np.testing.assert_array_equal(array[EDGE : 2 * EDGE], value)
    assert (root / "c/0/0").stat().st_size <= size + MIB + 64 + index_nbytes


def test_a_replaced_shard_decodes_no_neighbour(tmp_path: Path) -> None:
    """Neighbours that cannot be decoded any more are carried along, byte for byte."""
    array = terrazzo.create_array(
        LocalStore(tmp_path),
        shape=(64,),
        dtype="i4",
        chunks=(16,),
        shards=(64,),
        compressors=["zstd", "crc32c"],
    )
    array[...] = np.arange(64)
    path = tmp_path / "c/0"
    shard = bytearray(path.read_bytes())
    entries = np.frombuffer(shard[-68:-4], "<u8").reshape(4, 2)
    for start, nbytes in entries[[0, 3]].tolist():
        shard[start : start + nbytes] = os.urandom(nbytes)
    path.write_bytes(shard)
    array = terrazzo.open_array(LocalStore(tmp_path), mode="r+", strategy=Replace())
    array[16:32] = 5
    after = path.read_bytes()
    moved = np.frombuffer(after[-68:-4], "<u8").reshape(4, 2)
    for number in (0, 2, 3):
        (start, nbytes), (to, same) = entries[number].tolist(), moved[number].tolist()
        assert nbytes == same
        assert after[to : to + same] == shard[start : start + nbytes]
    assert (array[16:32] == 5).all()
    with pytest.raises(terrazzo.errors.ChecksumError):
        array[:16]


def test_neighbours_in_whole_are_copied_by_the_system(tmp_path: Path) -> None:
    """A replaced shard asks the disk for one sync of the file and one of the folder, however many chunks it has."""
    files = Counting()
    store = LocalStore(tmp_path, files=files)
    array = terrazzo.create_array(store, shape=(4096,), dtype="i4", chunks=(16,), shards=(4096,))
    array[...] = np.arange(4096)
    files.calls.clear()
    array[5] = 1
    assert files.calls.count("sync") == 1
    assert files.calls.count("sync_folder") == 1
    assert files.calls.count("rename") == 1


@pytest.mark.parametrize(
    ("name", "syncs"),
    [
        ("replace-index-at-end", ["sync", "sync_folder"]),  # the new shard, its name
        ("slots-index-at-end", ["sync", "sync_folder", "sync"]),  # the record, its file's name, the shard
        ("in-place-index-at-start", ["sync", "sync_folder", "sync"]),  # the journal, its name, the shard
        ("append-index-at-end", ["sync", "sync_folder", "sync"]),  # the old length, its name, the new end
        (
            "append-index-at-start",
            ["sync", "sync", "sync_folder", "sync"],
        ),  # the end, the journal, its name, the index
    ],
)
def test_what_a_changed_chunk_waits_for(tmp_path: Path, name: str, syncs: list[str]) -> None:
    way = BY_NAME[name]
    made(tmp_path, way)[...] = noise(1, ways.SHAPE)
    files = Counting()
    opened(tmp_path, way, files)[: ways.CHUNK[0], : ways.CHUNK[1]] = noise(2, ways.CHUNK, bits=20)
    assert [call for call in files.calls if call.startswith("sync")] == syncs
