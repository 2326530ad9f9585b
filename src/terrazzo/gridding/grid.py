"""Grid: the contract of healpix.py and rectilinear.py. Cells, inner chunks, shards, and where a point falls.

What it does not do: statistics, or storage. A grid is plain numbers, can be pickled, and is equal to its like.

A *cell* holds one value per field; a *shard* is what one worker writes; its inner chunks are what a reader touches.
Inside a shard, a *position* counts cells in the order in which they are stored: inner chunk after inner chunk, C order.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import prod
from typing import Any, ClassVar

import numpy as np

from terrazzo.gridding.errors import GridConfigError

__all__ = ["Grid", "check_sharded", "refuse"]

Array = np.ndarray[Any, Any]


class Grid(ABC):
    """Cells on the Earth, in inner chunks, in shards. Longitudes and latitudes are geodetic degrees."""

    kind: ClassVar[str]
    #: cells per dimension, of the whole grid, of a shard, of an inner chunk
    shape: tuple[int, ...]
    shard_shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]
    dimension_names: tuple[str, ...]
    #: whether inner chunks are stored as one shard object (else each is an object of its own)
    sharded: bool

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def chunks_per_shard(self) -> tuple[int, ...]:
        return tuple(s // c for s, c in zip(self.shard_shape, self.chunk_shape, strict=True))

    @property
    def k(self) -> int:
        """Inner chunks of one shard."""
        return prod(self.chunks_per_shard)

    @property
    def cells_per_chunk(self) -> int:
        return prod(self.chunk_shape)

    @property
    def cells_per_shard(self) -> int:
        return prod(self.shard_shape)

    @property
    def shard_grid(self) -> tuple[int, ...]:
        """Shards per dimension."""
        return tuple(n // s for n, s in zip(self.shape, self.shard_shape, strict=True))

    @property
    def chunk_grid(self) -> tuple[int, ...]:
        """Inner chunks per dimension of the whole grid: the shape of fields with one value per chunk."""
        return tuple(n // c for n, c in zip(self.shape, self.chunk_shape, strict=True))

    @property
    def n_shards(self) -> int:
        return prod(self.shard_grid)

    @property
    @abstractmethod
    def group(self) -> str:
        """The path of the group that holds this grid's arrays."""

    # points

    @abstractmethod
    def locate(self, longitude: Any, latitude: Any) -> Array:
        """The cell of each point, int64; -1 outside the grid or where a coordinate is not finite."""

    @abstractmethod
    def shard_of(self, cells: Array) -> Array:
        """The key of the shard of each cell, int64; -1 stays -1."""

    @abstractmethod
    def position_of(self, cells: Array) -> Array:
        """The position of each cell in its shard, int64."""

    @abstractmethod
    def cells_of(self, shard: int, positions: Array) -> Array:
        """The cells at these positions of a shard: the inverse of `position_of`."""

    def shard_index(self, shard: int) -> tuple[int, ...]:
        """The index of a shard in the grid of shards."""
        return tuple(int(i) for i in np.unravel_index(shard, self.shard_grid))

    def check_shard(self, shard: int) -> None:
        if not 0 <= shard < self.n_shards:
            raise GridConfigError(
                f"shard {shard} is not in this grid: its shards are 0 to {self.n_shards - 1}"
            )

    def cell_index(self, cells: Array) -> tuple[Array, ...]:
        """The index of each cell in an array of the grid's shape."""
        return tuple(np.unravel_index(cells, self.shape)) if self.ndim > 1 else (cells,)

    def chunk_index(self, shard: int, number: int) -> tuple[int, ...]:
        """The index, in the grid of all inner chunks, of inner chunk `number` (C order) of a shard."""
        inside = np.unravel_index(number, self.chunks_per_shard)
        first = self.shard_index(shard)
        return tuple(
            int(i) * k + int(j) for i, k, j in zip(first, self.chunks_per_shard, inside, strict=True)
        )

    # places

    @abstractmethod
    def centres(self, cells: Array) -> tuple[Array, Array]:
        """Longitude (-180 to 180) and latitude of the centres of cells."""

    @abstractmethod
    def circles(self, level: str, keys: Array) -> tuple[Array, Array, Array]:
        """A circle around each shard, or inner chunk, that holds all of it: longitude, latitude, radius in degrees.

        level: "shard" or "chunk"; a chunk's key is its index in the grid of all inner chunks, in C order.
        """

    @abstractmethod
    def outline(self, level: str, key: int) -> Array:
        """The corners of a shard or an inner chunk, float64 (n, 2) of longitude and latitude, n at least 4."""

    @abstractmethod
    def children(self, level: str, key: int) -> Array:
        """The keys of the inner chunks of a shard ("shard")."""

    @abstractmethod
    def coarser(self) -> Grid | None:
        """The grid whose cells are four of these, in the same shards; None where there is none."""

    @abstractmethod
    def coarse_position(self, positions: Array) -> Array:
        """Where cells at these positions of a shard lie in the same shard of `coarser()`."""

    # descriptions

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """The grid as the keys of `output.grid`."""

    @abstractmethod
    def spatial(self) -> dict[str, Any]:
        """What decides which shard and cell a point falls into, and nothing else."""

    @abstractmethod
    def attributes(self) -> dict[str, Any]:
        """What the group's attributes say of the grid, by the conventions."""

    @abstractmethod
    def mapping(self) -> dict[str, Any]:
        """The attributes of CF's grid mapping."""

    @abstractmethod
    def coordinates(self) -> Mapping[str, tuple[str, int, Mapping[str, Any]]]:
        """Coordinate arrays: name -> (dimension, extent, attributes)."""

    @abstractmethod
    def coordinate_values(self, name: str, start: int, stop: int) -> Array:
        """Values of a coordinate array from `start` to `stop`."""

    @property
    def signature(self) -> str:
        """Names the spatial part of the grid: two grids of one signature send every point to the same shard."""
        text = json.dumps(self.spatial(), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grid) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash(self.signature)

    def __repr__(self) -> str:
        words = ", ".join(f"{key}={value!r}" for key, value in self.describe().items() if key != "type")
        return f"{type(self).__name__}({words})"


def refuse(key: str, value: object, rule: str) -> GridConfigError:
    """The error for a key of the configuration: what was found, and what is allowed."""
    return GridConfigError(f"output.grid.{key} is {value!r}: {rule}")


def check_sharded(sharded: object, k: int, remedy: str) -> bool:
    """`sharded` as a boolean; "auto" means where there is more than one inner chunk."""
    if sharded == "auto":
        return k > 1
    if not isinstance(sharded, bool):
        raise refuse("sharded", sharded, 'true, false or "auto" are allowed')
    if sharded and k == 1:
        raise GridConfigError(
            f"output.grid.sharded is true, and a shard would hold K = 1 inner chunk, a shard for nothing: {remedy}"
        )
    return sharded
