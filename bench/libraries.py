"""Every library behind the same few verbs, each by the best call that it has for them.

What it does not do: configure anything beyond what a user of the library would find in its documentation. Where a
library cannot do something it raises `Lacking` with the reason, and the table says so.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from contract import Lacking, Library
from floor import Floor, FloorOneThread
from volumes import Box, slices


class Terrazzo(Library):
    label = "terrazzo"
    packages = ("terrazzo",)
    syncs = True
    strategy: str | None = None

    def __init__(self, path: str, mode: str) -> None:
        import terrazzo

        opened = terrazzo.open_array(path, mode=mode)
        if mode != "r":
            strategy: Any = self.strategy
            if strategy == "append":
                strategy = terrazzo.Append(index_at_end=True)
            elif strategy == "in-place":
                strategy = terrazzo.InPlace(otherwise="append", torn_reads=True)
            opened = opened.using(strategy=strategy, durability="fsync" if self.sync else "none")
        self.array = opened

    def read_many(self, boxes: list[Box], *, chunks: bool) -> list[Any]:
        many = getattr(self.array, "read_many", None)
        if many is None:
            return super().read_many(boxes, chunks=chunks)
        return list(many([slices(box) for box in boxes]))


class TerrazzoInPlace(Terrazzo):
    label = "terrazzo, in place"
    strategy = "in-place"


class TerrazzoAppend(Terrazzo):
    label = "terrazzo, append"
    strategy = "append"


class TerrazzoImmutable(Terrazzo):
    """For shards that are known not to change: none is looked at again."""

    label = "terrazzo, immutable"

    def __init__(self, path: str, mode: str) -> None:
        super().__init__(path, mode)
        self.array = self.array.using(immutable=True)


class TerrazzoCached(Terrazzo):
    """With a cache of decoded chunks, and shards that are known not to change: for random reads only."""

    label = "terrazzo, cache"

    def __init__(self, path: str, mode: str) -> None:
        super().__init__(path, mode)
        self.array = self.array.using(chunk_cache_nbytes=1 << 30, immutable=True)


class ZarrPython(Library):
    label = "zarr-python"
    packages = ("zarr", "numcodecs")
    settings: dict[str, Any] = {}

    def __init__(self, path: str, mode: str) -> None:
        import zarr

        zarr.config.set(self.settings)
        self.array = zarr.open_array(path, mode=mode)

    def read_many(self, boxes: list[Box], *, chunks: bool) -> list[Any]:
        from zarr.core.sync import sync

        async def gather() -> list[Any]:
            array = self.array.async_array
            return await asyncio.gather(*(array.getitem(slices(box)) for box in boxes))

        return sync(gather())


class ZarrFused(ZarrPython):
    label = "zarr-python, fused"
    settings = {"codec_pipeline.path": "zarr.core.codec_pipeline.FusedCodecPipeline"}


class ZarrZarrs(ZarrPython):
    label = "zarr-python + zarrs"
    packages = ("zarr", "zarrs")
    settings = {"codec_pipeline.path": "zarrs.ZarrsCodecPipeline", "codec_pipeline.strict": True}

    def __init__(self, path: str, mode: str) -> None:
        import zarrs  # noqa: F401

        super().__init__(path, mode)


class Tensorstore(Library):
    label = "tensorstore"
    packages = ("tensorstore",)
    syncs = True
    cache_nbytes = 0

    def __init__(self, path: str, mode: str) -> None:
        import tensorstore

        context: dict[str, Any] = {}
        spec: dict[str, Any] = {
            "driver": "zarr3",
            "kvstore": {"driver": "file", "path": path},
            "open": True,
            "context": context,
        }
        if mode != "r" and not self.sync:
            context["file_io_sync"] = False
        if self.cache_nbytes:
            context["cache_pool"] = {"total_bytes_limit": self.cache_nbytes}
            spec["recheck_cached_data"] = False
        try:
            self.array = tensorstore.open(spec).result()
        except ValueError as error:
            if "data_type" in str(error):
                raise Lacking("this data type") from error
            raise

    def read(self, box: Box) -> Any:
        return self.array[slices(box)].read().result()

    def write(self, box: Box, value: np.ndarray) -> None:
        self.array[slices(box)].write(value).result()

    def read_many(self, boxes: list[Box], *, chunks: bool) -> list[Any]:
        futures = [self.array[slices(box)].read() for box in boxes]
        return [future.result() for future in futures]


class TensorstoreCached(Tensorstore):
    """With a cache of decoded chunks and indexes that it does not look at again: for random reads only."""

    label = "tensorstore, cache"
    cache_nbytes = 1 << 30


class Zarrista(Library):
    label = "zarrista"
    packages = ("zarrista",)

    def __init__(self, path: str, mode: str) -> None:
        from zarrista import Array
        from zarrista.store import FilesystemStore

        self.array = Array.open(FilesystemStore(path), "/")
        self.cache = self.array.shard_cache() if self.array.is_sharded else None

    def read(self, box: Box) -> Any:
        found = self.array.retrieve_array_subset(slices(box))
        if not hasattr(found, "to_numpy"):
            raise Lacking(f"answers a {type(found).__name__}")
        return found.to_numpy()

    def write(self, box: Box, value: np.ndarray) -> None:
        self.array.store_array_subset(slices(box), np.ascontiguousarray(value))

    def read_chunk(self, box: Box, cache: Any = None) -> Any:
        index = [start // (stop - start) for start, stop in box]
        if self.cache is None:
            return self.array.retrieve_chunk(index).to_numpy()
        return self.array.retrieve_subchunk(index, shard_cache=cache or self.cache).to_numpy()

    def read_many(self, boxes: list[Box], *, chunks: bool) -> list[Any]:
        if not chunks or self.cache is None:
            return super().read_many(boxes, chunks=chunks)
        workers = os.cpu_count() or 1  # a cache holds one lock: each thread has its own
        answers: list[Any] = [None] * len(boxes)

        def part(k: int) -> None:
            cache = self.array.shard_cache()
            answers[k::workers] = [self.read_chunk(box, cache) for box in boxes[k::workers]]

        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(part, range(workers)))
        return answers


LIBRARIES: dict[str, type[Library]] = {
    "terrazzo": Terrazzo,
    "terrazzo-in-place": TerrazzoInPlace,
    "terrazzo-append": TerrazzoAppend,
    "terrazzo-immutable": TerrazzoImmutable,
    "terrazzo-cache": TerrazzoCached,
    "zarr": ZarrPython,
    "zarr-fused": ZarrFused,
    "zarr-zarrs": ZarrZarrs,
    "zarrista": Zarrista,
    "tensorstore": Tensorstore,
    "tensorstore-cache": TensorstoreCached,
    "floor": Floor,
    "floor-1": FloorOneThread,
}

OURS = ("terrazzo", "terrazzo-in-place", "terrazzo-append")
FLOORS = ("floor", "floor-1")
#: these answer a part of what they are asked from memory: only among themselves do they compare
CACHES = ("terrazzo-cache", "tensorstore-cache")
#: everything that other people wrote, in the form a user meets first
PEERS = ("zarr", "zarr-fused", "zarr-zarrs", "zarrista", "tensorstore")
