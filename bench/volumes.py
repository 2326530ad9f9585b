"""The arrays that are measured: values made from a seed, and the layouts they are stored in.

What it does not do: measure. The values are smooth noise of two scales with a little grain in the bright half, as even
numbers: about as compressible as images and fields of a climate model. Strings are short words with repetitions.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Shape = tuple[int, ...]
Box = tuple[tuple[int, int], ...]
"""Start and stop per dimension."""

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
PLAIN = {"name": "bytes"}
ZSTD = {"name": "zstd", "configuration": {"level": 3, "checksum": False}}
GZIP = {"name": "gzip", "configuration": {"level": 5}}
STRINGS = {"name": "vlen-utf8"}


def blosc(cname: str) -> dict[str, Any]:
    settings = {"cname": cname, "clevel": 5, "shuffle": "shuffle", "typesize": 2, "blocksize": 0}
    return {"name": "blosc", "configuration": settings}


@dataclass(frozen=True)
class Layout:
    """How an array lies in objects. `shape` empty: the shape the run was asked for."""

    name: str
    chunk: Shape  # the stored object
    inner: Shape = ()  # empty: plain
    codecs: tuple[dict[str, Any], ...] = (LITTLE,)
    shape: Shape = ()
    dtype: str = "uint16"
    made_by: str = "zarr-fused"
    index_codecs: tuple[dict[str, Any], ...] = field(default=(LITTLE, {"name": "crc32c"}))

    @property
    def read_shape(self) -> Shape:
        """Of the chunks that reads touch."""
        return self.inner or self.chunk

    def document(self, shape: Shape) -> dict[str, Any]:
        """Its zarr.json."""
        codecs: list[dict[str, Any]] = list(self.codecs)
        if self.inner:
            settings = {
                "chunk_shape": list(self.inner),
                "codecs": codecs,
                "index_codecs": list(self.index_codecs),
                "index_location": "end",
            }
            codecs = [{"name": "sharding_indexed", "configuration": settings}]
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(shape),
            "data_type": self.dtype,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(self.chunk)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": "" if self.dtype == "string" else 0,
            "codecs": codecs,
            "attributes": {},
        }


def cube(edge: int) -> Shape:
    return (edge, edge, edge)


def _small(edge: int) -> Layout:
    """One shard of 256^3, cut finer and finer."""
    return Layout(f"cut{edge}-zstd", cube(256), cube(edge), (LITTLE, ZSTD), cube(256), made_by="zarr-zarrs")


LAYOUTS: dict[str, Layout] = {
    layout.name: layout
    for layout in (
        Layout("shard32-zstd", cube(256), cube(32), (LITTLE, ZSTD)),
        Layout("shard32-lz4", cube(256), cube(32), (LITTLE, blosc("lz4"))),
        Layout("shard32-gzip", cube(256), cube(32), (LITTLE, GZIP)),
        Layout("shard32-raw", cube(256), cube(32)),
        Layout("shard16-zstd", cube(256), cube(16), (LITTLE, ZSTD)),
        Layout("plain64-zstd", cube(64), (), (LITTLE, blosc("zstd"))),
        Layout("plain64-raw", cube(64)),
        Layout("plain16-zstd", cube(16), (), (LITTLE, ZSTD), cube(256)),
        Layout("million-raw", (8000, 8000), (8, 8), (PLAIN,), (8000, 8000), "uint8", "tensorstore"),
        Layout("strings-zstd", (1 << 18,), (1 << 13,), (STRINGS, ZSTD), (1 << 20,), "string"),
        *(_small(edge) for edge in (128, 64, 32, 16, 8)),
    )
}


def values(shape: Shape, seed: int = 7) -> np.ndarray:
    """A deterministic field of uint16, made slab by slab."""
    rng = np.random.default_rng(seed)
    waves = [_coarse(shape, step, height, rng) for step, height in ((64, 900.0), (16, 120.0))]
    out = np.empty(shape, np.uint16)
    for start in range(0, shape[0], 32):
        stop = min(start + 32, shape[0])
        slab = _stretched(waves[0], shape, start, stop)
        slab += _stretched(waves[1], shape, start, stop)
        slab += 4000.0
        grain = rng.standard_normal(slab.shape, dtype=np.float32)
        grain *= 1.5
        grain[slab < 4000.0] = 0
        slab += grain
        out[start:stop] = (np.clip(slab, 0, 65535) / 2).astype(np.uint16) * np.uint16(2)
    return out


def _coarse(shape: Shape, step: int, height: float, rng: np.random.Generator) -> np.ndarray:
    points = [max(2, n // step + 2) for n in shape]
    return rng.standard_normal(points).astype(np.float32) * height


def _stretched(coarse: np.ndarray, shape: Shape, start: int, stop: int) -> np.ndarray:
    """Rows start to stop of the coarse field, interpolated linearly up to `shape`."""
    found = coarse
    for axis, n in enumerate(shape):
        where = np.linspace(0, coarse.shape[axis] - 1.001, n, dtype=np.float32)
        if axis == 0:
            where = where[start:stop]
        below = where.astype(np.int64)
        weight = (where - below).reshape([-1 if a == axis else 1 for a in range(len(shape))])
        found = np.take(found, below, axis) * (1 - weight) + np.take(found, below + 1, axis) * weight
    return found


def words(count: int, seed: int = 7) -> np.ndarray:
    """A deterministic array of strings, 0 to about 20 letters each."""
    rng = np.random.default_rng(seed)
    stems = ["", "quartz", "feldspar", "mica", "granite", "basalt", "marble", "travertine", "übergang", "石"]
    picks = rng.integers(len(stems), size=count)
    numbers = rng.integers(10_000, size=count)
    made = [f"{stems[p]}-{n}" if p else "" for p, n in zip(picks.tolist(), numbers.tolist(), strict=True)]
    return np.array(made, dtype=np.dtypes.StringDType())


def every(shape: Shape) -> Box:
    return tuple((0, n) for n in shape)


def slices(box: Box) -> tuple[slice, ...]:
    return tuple(slice(start, stop) for start, stop in box)


def tiles(shape: Shape, chunk: Shape) -> Iterator[Box]:
    counts = [-(-n // c) for n, c in zip(shape, chunk, strict=True)]
    for index in np.ndindex(*counts):
        yield tuple((i * c, min((i + 1) * c, n)) for i, c, n in zip(index, chunk, shape, strict=True))


class Quarry:
    """Where values and stored arrays lie during a run: each is made when first asked for, once."""

    def __init__(self, folder: Path, shape: Shape) -> None:
        self.folder = folder
        self.shape = shape

    def shape_of(self, layout: Layout) -> Shape:
        return layout.shape or self.shape

    def values(self, layout: Layout) -> Path:
        """A file of the layout's values (npy; strings as JSON)."""
        shape = self.shape_of(layout)
        tag = "x".join(map(str, shape))
        if layout.dtype == "string":
            path = self.folder / f"words-{tag}.json"
            if not path.exists():
                path.write_text(json.dumps(words(shape[0]).tolist()))
            return path
        path = self.folder / f"values-{layout.dtype}-{tag}.npy"
        if not path.exists():
            made = values(shape)
            np.save(path, made.astype(layout.dtype) if layout.dtype != "uint16" else made)
        return path

    def document(self, layout: Layout) -> Path:
        """A file with the layout's zarr.json."""
        path = self.folder / f"{layout.name}.json"
        path.write_text(json.dumps(layout.document(self.shape_of(layout))))
        return path

    def array(self, layout: Layout) -> Path:
        """The stored array that every library reads."""
        place = self.folder / f"{layout.name}.zarr"
        if place.exists():
            return place
        import libraries

        unfinished = self.folder / f"{layout.name}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        shutil.copy(self.document(layout), unfinished / "zarr.json")
        writer = libraries.LIBRARIES[layout.made_by](str(unfinished), "r+")
        found = load(self.values(layout))
        for box in tiles(self.shape_of(layout), layout.chunk):
            writer.write(box, np.array(found[slices(box)]))
        unfinished.rename(place)
        return place


def load(path: Path) -> np.ndarray:
    if path.suffix == ".json":
        return np.array(json.loads(path.read_text()), dtype=np.dtypes.StringDType())
    return np.load(path, mmap_mode="r")


def stored_nbytes(place: Path) -> int:
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


def warm(place: Path) -> None:
    """Bring every byte of an array into the page cache."""
    scratch = bytearray(4 << 20)
    for path in place.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            while os.readv(descriptor, [scratch]):
                pass
            os.close(descriptor)
