"""New shards that share blocks with the old one: what they hold, when they are written whole, what they save."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo import strategy as strategies
from terrazzo.care import check
from terrazzo.stores.contract import Put
from terrazzo.stores.files import Files
from terrazzo.stores.local import LocalStore
from terrazzo.strategy import Replace

SHAPE = (64, 64, 64)


class Cloning(Files):
    """A disk whose files can share blocks, as far as anybody can see."""

    def __init__(self) -> None:
        self.cloned: list[int] = []

    def clone(self, file: int, source: int) -> bool:
        size = os.fstat(source).st_size
        os.pwrite(file, os.pread(source, size, 0), 0)
        self.cloned.append(size)
        return True


@pytest.fixture(autouse=True)
def small_copies_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategies, "CLONED_NBYTES", 1)


def noise(seed: int, shape: tuple[int, ...] = SHAPE) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(1, 60000, shape, "u2")


def create(store: Any, codec: str | None, location: str, **how: Any) -> terrazzo.Array:
    return terrazzo.create_array(
        store,
        data=noise(0),
        chunks=(8, 8, 8),
        shards=(64, 32, 64),
        compressors=codec,
        index_location=location,
        overwrite=True,
        **how,
    )


@pytest.mark.parametrize("location", ["start", "end"])
@pytest.mark.parametrize("codec", ["zstd:1", None])
def test_any_sequence_of_changes_reads_back(tmp_path: Path, codec: str | None, location: str) -> None:
    files = Cloning()
    store = LocalStore(tmp_path, durability="none", files=files)
    array, model = create(store, codec, location), noise(0)
    rng = np.random.default_rng(7)
    for turn in range(40):
        start = rng.integers(0, 60, 3)
        box = tuple(slice(int(s), int(s) + int(rng.integers(1, 20))) for s in start)
        value = 0 if turn % 4 == 3 else noise(turn, model[box].shape)
        array[box] = value
        model[box] = value
        np.testing.assert_array_equal(array[...], model)
    assert files.cloned
    assert check(store, verify_data=True).ok
    array[...] = 0
    assert [key for key in store.list() if key != "zarr.json"] == []


def test_dead_bytes_stay_within_the_limit(tmp_path: Path) -> None:
    files = Cloning()
    store = LocalStore(tmp_path, durability="none", files=files)
    array = create(store, None, "end")
    live = store.getsize("c/0/0/0")
    assert live is not None
    sizes, clones = [], []
    for turn in range(60):
        before = len(files.cloned)
        array[:8, :8, :16] = noise(turn, (8, 8, 16))
        sizes.append(store.getsize("c/0/0/0"))
        clones.append(len(files.cloned) > before)
    assert clones.count(True) > 50
    assert clones.count(False) >= 1  # at the limit it is written whole, without a dead byte
    assert sizes[clones.index(False)] == live
    assert max(size for size in sizes if size is not None) <= live / 0.75 + 4096
    whole = array.using(strategy=Replace(dead=0))
    before = len(files.cloned)
    whole[:8, :8, :16] = 5
    assert len(files.cloned) == before
    assert store.getsize("c/0/0/0") == live


def test_what_is_erased_inside_a_copy_is_gone(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, durability="none", files=Cloning())
    array = create(store, "zstd:1", "end")
    array[:, :32] = 0
    assert store.getsize("c/0/0/0") is None
    array[:8, 32:40] = 0
    np.testing.assert_array_equal(array[:8], np.where(np.arange(64)[None, :, None] < 40, 0, noise(0)[:8]))


def test_a_disk_that_cannot_share_writes_whole_shards(tmp_path: Path) -> None:
    class Refusing(Files):
        asked = 0

        def clone(self, file: int, source: int) -> bool:
            self.asked += 1
            return False

    files = Refusing()
    store = LocalStore(tmp_path, durability="none", files=files)
    array = create(store, None, "end")
    size = store.getsize("c/0/0/0")
    array[3, 3, 3] = 9
    assert files.asked == 1
    assert array[3, 3, 3] == 9
    assert store.getsize("c/0/0/0") == size


def test_blocks_are_shared_where_the_system_can(tmp_path: Path) -> None:
    """Whatever the file system of this folder: what is cloned equals its source, or nothing was done."""
    (tmp_path / "a").write_bytes(os.urandom(10_000))
    with open(tmp_path / "a", "rb") as source, open(tmp_path / "b", "wb") as file:
        done = Files().clone(file.fileno(), source.fileno())
    assert (tmp_path / "b").read_bytes() == ((tmp_path / "a").read_bytes() if done else b"")


@pytest.fixture(params=["xfs", "btrfs"])
def sharing_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    make = shutil.which(f"mkfs.{request.param}")
    if make is None:
        pytest.skip(f"mkfs.{request.param} is not installed")
    image, folder = tmp_path / "image", tmp_path / "disk"
    folder.mkdir()
    with open(image, "wb") as file:
        file.truncate(400 << 20)
    subprocess.run([make, "-q", "-f", image], check=True, capture_output=True)
    mounted = subprocess.run(
        ["mount", "-o", "loop", image, folder], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a {request.param} image cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_change_takes_its_own_bytes_alone(sharing_disk: Path) -> None:
    """While a reader keeps the old version, the disk holds both: a copy would take the shard's size again."""
    store = LocalStore(sharing_disk / "a")
    values = np.random.default_rng(0).integers(0, 1 << 16, (256, 128, 256), "u2")  # 16 MiB of noise
    array = terrazzo.create_array(
        store, data=values, chunks=(32,) * 3, shards=values.shape, compressors="zstd:1"
    )

    def used() -> int:
        os.sync()
        found = os.statvfs(sharing_disk)
        return (found.f_blocks - found.f_bfree) * found.f_frsize

    def change() -> int:
        with open(sharing_disk / "a/c/0/0/0", "rb"):
            before = used()
            array[40:50, 40:50, 40:50] = 7
            return used() - before

    shared = change()
    array = array.using(strategy=Replace(dead=0))
    whole = change()
    values[40:50, 40:50, 40:50] = 7
    np.testing.assert_array_equal(array[...], values)
    assert whole > 14 << 20
    assert shared < 4 << 20


def test_room_that_was_made_and_not_used_is_given_back(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with store.hold("key") as hold:
        sink = store.sink(hold)
        sink.expect(8 << 20)
        assert sink.nbytes == 0
        sink.write(0, b"abc")
        store.commit([Put(hold, sink)], "none")
    assert store.get("key") == b"abc"
    assert os.stat(tmp_path / "key").st_blocks * 512 <= 64 << 10
