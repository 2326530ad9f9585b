"""The ways of writing whose promises are tested: each strategy, both places of the index, compressed or not.

Chunks are several disk sectors long, so that each of them can be torn.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import terrazzo
from terrazzo.stores.files import Files
from terrazzo.stores.local import LocalStore
from terrazzo.strategy import Append, InPlace, Replace, Strategy

__all__ = ["BY_NAME", "CHUNK", "SHAPE", "WAYS", "Way", "left_overs", "made", "noise", "opened"]

SHAPE = (48, 64)
CHUNK = (24, 32)  # 3,072 bytes of int32: six sectors


@dataclass(frozen=True)
class Way:
    """A strategy on shards with their index in one place."""

    name: str
    strategy: Strategy
    index_location: str
    compressors: tuple[str, ...]

    def __str__(self) -> str:
        return self.name


WAYS = [
    Way(f"{name}-index-at-{place}", strategy, place, compressors)
    for name, strategy, compressors in [
        ("replace", Replace(), ("zstd:1", "crc32c")),
        ("slots", InPlace(), ("crc32c",)),
        ("in-place", InPlace(), ("zstd:1", "crc32c")),
        ("in-place-or-append", InPlace(otherwise="append"), ("zstd:1", "crc32c")),
        ("slack", InPlace(slack=0.6, otherwise="append"), ("zstd:1", "crc32c")),
        ("append", Append(dead=0.9, index_at_end=True), ("zstd:1", "crc32c")),
    ]
    for place in ("end", "start")
]
BY_NAME = {way.name: way for way in WAYS}


def made(root: Path, way: Way, shape: tuple[int, ...] = SHAPE, **how: Any) -> terrazzo.Array:
    """A new array of one shard (unless `shape` or `shards` says otherwise) in the folder `root`."""
    how = {"chunks": CHUNK, "shards": SHAPE, **how}
    return terrazzo.create_array(
        LocalStore(root),
        shape=shape,
        dtype="i4",
        compressors=list(way.compressors),
        index_location=way.index_location,
        strategy=way.strategy,
        **how,
    )


def opened(root: Path, way: Way, files: Files | None = None) -> terrazzo.Array:
    """The array in `root`, with a store, and so caches, of its own."""
    return terrazzo.open_array(LocalStore(root, files=files), mode="r+", strategy=way.strategy)


def noise(seed: int, shape: tuple[int, ...], bits: int = 31) -> np.ndarray[Any, Any]:
    """Values that compress by as much as `bits` leaves them, none of them the fill value."""
    return np.random.default_rng(seed).integers(1, 1 << bits, shape, dtype="i4")


def left_overs(root: Path) -> list[str]:
    """Files beside objects that a writer made and did not remove."""
    return sorted(
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.name.endswith((".__lock", ".__redo"))
    )
