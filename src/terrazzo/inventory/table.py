"""An inventory: one row for every stored chunk, as plain arrays, and what can be asked of them.

What it does not do: look (survey.py). Empty shards and absent ones count alike: they have no row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from os import PathLike
from typing import Any

import numpy as np

from terrazzo.inventory.arrow import Column, stream_capsule

__all__ = ["UNKNOWN", "Inventory", "fingerprint"]

Array = np.ndarray[Any, Any]
Box = tuple[slice, ...]

#: the fingerprint of a version that cannot be told from others
UNKNOWN = 0


def fingerprint(tag: object) -> int:
    """64 bits that stand for a version tag in a file; UNKNOWN where it has no form that lasts."""
    words = repr(tag)
    if tag is None or " at 0x" in words or " object>" in words:
        return UNKNOWN
    import hashlib  # loads a library of its own

    return int.from_bytes(hashlib.blake2b(words.encode(), digest_size=8).digest(), "little") or 1


@dataclass(frozen=True, eq=False)
class Inventory:
    """The chunks of a region of an array that are stored.

    Chunks are inner chunks where there are shards. box: the region, (first, past the last) element per dimension.
    edges: per dimension the extent of a chunk, or where chunks differ int64 (n + 1,): their starts, and where the last
    one ends. chunks: int64 (n, ndim), indices in the grid of chunks. object: int64 (n,), which of `keys` holds each.
    offset, nbytes: uint64 (n,), where its bytes lie in that object. keys: the stored objects that the region touches;
    per object sizes (bytes), dead (bytes that neither its index nor any of its chunks covers) and tags (fingerprints
    of versions). name: the array's path. document: fingerprint of what decides where chunks lie. slack: per object,
    of its dead bytes, those that look like slack, left free for chunks to grow; None where the bytes were not read,
    since the index cannot tell.
    """

    name: str
    shape: tuple[int, ...]
    itemsize: int
    box: tuple[tuple[int, int], ...]
    edges: tuple[Any, ...]
    chunks: Array
    object: Array
    offset: Array
    nbytes: Array
    keys: Sequence[str]
    sizes: Array
    dead: Array
    tags: Array
    document: int = UNKNOWN
    slack: Array | None = None

    def __len__(self) -> int:
        return len(self.chunks)

    @property
    def chunk_shape(self) -> tuple[int, ...] | None:
        """The shape of every chunk; None where they differ."""
        return tuple(self.edges) if all(isinstance(edge, int) for edge in self.edges) else None

    @property
    def grid(self) -> tuple[int, ...]:
        """Chunks per dimension in the whole array."""
        return tuple(
            -(-n // edge) if isinstance(edge, int) else int(np.searchsorted(edge, n, side="left"))
            for n, edge in zip(self.shape, self.edges, strict=True)
        )

    @cached_property
    def table(self) -> Array:
        """One row per chunk as a numpy structured array: chunk, object (number in `keys`), offset, nbytes."""
        kinds = [
            ("chunk", np.int64, (len(self.shape),)),
            ("object", np.int64),
            ("offset", np.uint64),
            ("nbytes", np.uint64),
        ]
        rows = np.empty(len(self), kinds)
        rows["chunk"], rows["object"] = self.chunks, self.object
        rows["offset"], rows["nbytes"] = self.offset, self.nbytes
        return rows

    @property
    def stored_nbytes(self) -> int:
        """Bytes of all chunks as they are encoded."""
        return int(self.nbytes.sum(dtype=np.uint64))

    @property
    def dead_nbytes(self) -> int:
        """Bytes of the objects that nothing uses, slack among them."""
        return int(self.dead.sum())

    @property
    def slack_nbytes(self) -> int | None:
        """Of `dead_nbytes`, those that look like slack; None where the bytes were not read."""
        return None if self.slack is None else int(self.slack.sum())

    @property
    def decoded_nbytes(self) -> int:
        """Bytes of all stored chunks once they are decoded, those past the array's end included."""
        if (shape := self.chunk_shape) is not None:
            return len(self) * prod(shape) * self.itemsize
        extents = np.ones(len(self), np.int64)
        for d, edge in enumerate(self.edges):
            extents *= edge if isinstance(edge, int) else np.diff(edge)[self.chunks[:, d]]
        return int(extents.sum()) * self.itemsize

    @property
    def ratio(self) -> float:
        """Decoded bytes of the stored chunks for each encoded byte; 0 where nothing is stored."""
        stored = self.stored_nbytes
        return self.decoded_nbytes / stored if stored else 0.0

    @property
    def bitmap(self) -> bytes:
        """One bit per chunk of the array's grid in C order, the first in the highest bit; 1 where it is stored."""
        bits = np.zeros(prod(self.grid), np.bool_)
        if len(self):
            bits[np.ravel_multi_index(tuple(self.chunks.T), self.grid) if self.grid else 0] = True
        return np.packbits(bits).tobytes()

    def boxes(self) -> Iterator[tuple[tuple[int, ...], Box]]:
        """Each stored chunk's index, and the box of the array that it covers."""
        edges = [e if isinstance(e, int) else e.tolist() for e in self.edges]
        for index in self.chunks.tolist():
            box = []
            for i, edge, n in zip(index, edges, self.shape, strict=True):
                low, high = (i * edge, (i + 1) * edge) if isinstance(edge, int) else (edge[i], edge[i + 1])
                box.append(slice(low, min(high, n)))
            yield tuple(index), tuple(box)

    # other forms

    def __arrow_c_schema__(self) -> Any:
        return stream_capsule(self._columns(), schema_only=True)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Arrow's columns chunk_0, chunk_1, ..., key, offset, nbytes, in batches: `pyarrow.table(inventory)`."""
        return stream_capsule(self._columns())

    def _columns(self) -> list[Column]:
        across = [
            Column(f"chunk_{d}", np.ascontiguousarray(self.chunks[:, d])) for d in range(len(self.shape))
        ]
        return [
            *across,
            Column("key", self.object, self.keys),
            Column("offset", self.offset),
            Column("nbytes", self.nbytes),
        ]

    def save(self, path: str | PathLike[str]) -> None:
        """Write it to a local file, a manifest; `Inventory.load` reads it, `is_stale` tells whether it still holds."""
        from terrazzo.inventory.manifest import save

        save(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Inventory:
        """Read a manifest; ValueError where the file is none."""
        from terrazzo.inventory.manifest import load

        return load(path)

    def stale_keys(self, array: Any) -> list[str]:
        """The keys of objects that are not what they were: changed, gone or new; all, where the array itself changed.

        Asks the store for the version of every object, and reads no byte of them. An object whose store has no lasting
        versions counts as changed.
        """
        now: dict[str, int] = array.stored_versions(self.box)
        before = dict(zip(self.keys, self.tags.tolist(), strict=True))
        if array.layout_fingerprint() != self.document:
            return sorted(before.keys() | now.keys())
        return sorted(
            key
            for key in before.keys() | now.keys()
            if before.get(key) != now.get(key) or before[key] == UNKNOWN
        )

    def is_stale(self, array: Any) -> bool:
        """Whether any object of the region, or the array itself, changed since; costs one look at each object."""
        return bool(self.stale_keys(array))

    def __repr__(self) -> str:
        return (
            f"<Inventory of {'/' + self.name}: {len(self):,} of {prod(self.grid):,} chunks in "
            f"{len(self.keys):,} objects>"
        )
