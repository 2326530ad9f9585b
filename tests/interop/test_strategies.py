"""Shards as every strategy leaves them, read by the other libraries: after each write, and for the strategies that
promise it at every moment of a write."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import Case
from exchange import LIVE

import terrazzo
from terrazzo.stores.files import Files
from terrazzo.stores.local import LocalStore
from terrazzo.strategy import Append, InPlace, Replace

SHAPE, CHUNK = (32, 48), (8, 12)
CASE = Case("int32", {"data_type": "int32", "shape": SHAPE}, np.dtype("int32"))

ZSTD = ["zstd:1", "crc32c"]
WAYS: dict[str, tuple[Any, list[str]]] = {
    "replace": (Replace(), ZSTD),
    "replace, chunks in C order": (Replace(order="C"), ZSTD),
    "slots": (InPlace(), ["crc32c"]),
    "in-place": (InPlace(), ZSTD),
    "in-place or append": (InPlace(otherwise="append"), ZSTD),
    "slack": (InPlace(slack=0.5), ZSTD),
    "slack or append": (InPlace(slack=40, otherwise="append", dead=0.8), ZSTD),
    "append": (Append(index_at_end=True), ZSTD),
    "append, never compacted": (Append(index_at_end=True, dead=1.0), ZSTD),
}


def noise(seed: int, shape: tuple[int, ...], bits: int) -> Any:
    return np.random.default_rng(seed).integers(1, 1 << bits, shape, dtype="i4")


def made(root: Path, way: str, place: str) -> tuple[terrazzo.Array, Any]:
    strategy, codecs = WAYS[way]
    array = terrazzo.create_array(
        LocalStore(root),
        shape=SHAPE,
        dtype="i4",
        chunks=CHUNK,
        shards=SHAPE,
        compressors=codecs,
        index_location=place,
        strategy=strategy,
    )
    value = noise(1, SHAPE, 8)
    value[:8, :12] = 0
    array[...] = value
    return array, value


def read_by_all(root: Path) -> list[tuple[str, Any]]:
    return [(peer.name, peer.read(root, CASE)) for peer in LIVE]


@pytest.mark.parametrize("place", ["start", "end"])
@pytest.mark.parametrize("way", WAYS)
def test_after_every_write(tmp_path: Path, way: str, place: str) -> None:
    array, value = made(tmp_path, way, place)
    dice = np.random.default_rng(7)
    for turn in range(8):
        i, j = (int(dice.integers(0, n - 9)) for n in SHAPE)
        box = (slice(i, i + 1 + turn), slice(j, j + 9))
        fresh = 0 if turn == 5 else noise(turn, value[box].shape, int(dice.integers(2, 31)))
        array[box] = fresh
        value[box] = fresh
        for name, found in read_by_all(tmp_path):
            assert np.array_equal(found, value), f"{name}, after write {turn}"


class Watched(Files):
    """Calls `look` ahead of every operation: between them the disk is as a reader may find it."""

    direct = False

    def __init__(self, look: Callable[[], None]) -> None:
        self.look = look


def _watched(operation: str) -> Callable[..., Any]:
    plain = getattr(Files, operation)

    def perform(self: Watched, *arguments: Any) -> Any:
        self.look()
        return plain(self, *arguments)

    return perform


for _name in ("create", "pwrite", "truncate", "rename", "unlink"):
    setattr(Watched, _name, _watched(_name))


@pytest.mark.parametrize(("way", "place"), [("replace", "end"), ("replace", "start"), ("append", "start")])
def test_between_any_two_operations_of_a_write(tmp_path: Path, way: str, place: str) -> None:
    """Old or new, whole, also where the writer died there."""
    array, value = made(tmp_path / "a", way, place)
    new = value.copy()
    new[4:20, 4:20] = noise(3, (16, 16), 20)
    seen: list[bool] = []

    def look() -> None:
        copied = tmp_path / "seen"
        shutil.copytree(tmp_path / "a", copied)
        for name, found in read_by_all(copied):
            is_new = np.array_equal(found, new)
            assert is_new or np.array_equal(found, value), name
            seen.append(is_new)
        shutil.rmtree(copied)

    watched = terrazzo.open_array(
        LocalStore(tmp_path / "a", files=Watched(look)), mode="r+", strategy=array.strategy
    )
    watched[4:20, 4:20] = new[4:20, 4:20]
    assert len(seen) >= 3 * len(LIVE)
    assert not seen[0]
    for name, found in read_by_all(tmp_path / "a"):
        assert np.array_equal(found, new), name
