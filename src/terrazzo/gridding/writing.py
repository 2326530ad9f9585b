"""Writing one shard: each array's object once, whole, by one writer.

What it does not do: change a part of a shard. Memory is that of the populated inner chunks that are being encoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from terrazzo.arrays.array import Array
from terrazzo.gridding.accumulate import chunk_runs
from terrazzo.gridding.errors import DuplicateShardError, NotWholeShardError
from terrazzo.gridding.grid import Grid
from terrazzo.strategy import Replace

__all__ = ["CellChunks", "ShardWriter"]

Values = np.ndarray[Any, Any]


class CellChunks(Mapping[tuple[int, ...], Values]):
    """The populated inner chunks of a shard, made dense one by one when they are asked for.

    positions: int64 (m,), ascending; values: (m, …) of those cells; fill: of all others.
    """

    def __init__(self, grid: Grid, positions: Values, values: Values, fill: Any) -> None:
        self._runs = chunk_runs(positions, grid.cells_per_chunk)
        self._grid, self._positions, self._values, self._fill = grid, positions, values, fill
        self._trailing = (0,) * (values.ndim - 1)
        self._place = {int(chunk): k for k, chunk in enumerate(self._runs.cells)}

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        per_shard = self._grid.chunks_per_shard
        for number in self._runs.cells.tolist():
            yield tuple(int(i) for i in np.unravel_index(number, per_shard)) + self._trailing

    def __getitem__(self, index: tuple[int, ...]) -> Values:
        number = int(np.ravel_multi_index(index[: self._grid.ndim], self._grid.chunks_per_shard))
        k = self._place[number]
        cut = slice(int(self._runs.starts[k]), int(self._runs.starts[k] + self._runs.counts[k]))
        chunk = np.full((self._grid.cells_per_chunk, *self._values.shape[1:]), self._fill, self._values.dtype)
        chunk[self._positions[cut] - number * self._grid.cells_per_chunk] = self._values[cut]
        return chunk.reshape(self._grid.chunk_shape + self._values.shape[1:])


class ShardWriter:
    """Writes one shard of each array of a run; refuses anything but exactly one whole shard, once.

    Make one for each shard that is written.
    """

    def __init__(self, grid: Grid, shard: int) -> None:
        grid.check_shard(shard)
        self.grid, self.shard = grid, shard
        self._written: set[str] = set()

    def put(self, array: Array, shard: int, chunks: Mapping[tuple[int, ...], Values]) -> None:
        """Make the inner chunks `chunks` all that this shard of `array` holds.

        chunks: from an inner chunk's index inside the shard to values of its whole shape.
        """
        grid = self.grid
        trailing = array.shape[grid.ndim :]
        expected = (grid.shard_shape if grid.sharded else grid.chunk_shape) + trailing
        stored = array.shards or array.chunks
        if (
            array.shape != grid.shape + trailing
            or stored != expected
            or array.chunks != grid.chunk_shape + trailing
        ):
            raise NotWholeShardError(
                f"array {array.path!r} has shape {array.shape}, stored in {stored}, read in {array.chunks}; the grid's "
                f"shards would be {expected} of {grid.shape + trailing}: the write would not be one whole shard"
            )
        self._claim(array, shard)
        for index in chunks:
            if len(index) != array.ndim or any(
                not 0 <= i < n
                for i, n in zip(index, (*grid.chunks_per_shard, *(1 for _ in trailing)), strict=True)
            ):
                self._written.discard(array.path)
                raise NotWholeShardError(
                    f"array {array.path!r}: a shard has {grid.chunks_per_shard} inner chunks, and {tuple(index)} is "
                    "none of them"
                )
        if grid.sharded:
            array.using(strategy=Replace(order="C")).put_shard(
                self.grid.shard_index(shard) + (0,) * len(trailing),
                _Checked(chunks, grid.chunk_shape + trailing, array),
            )
            return
        for index in chunks:
            number = int(np.ravel_multi_index(index[: grid.ndim], grid.chunks_per_shard))
            array[self._box(number)] = _whole(chunks[index], grid.chunk_shape + trailing, array)

    def put_companion(self, array: Array, shard: int, numbers: Values, values: Values) -> None:
        """The values of a field with one value per inner chunk: `numbers` are those of the inner chunks."""
        grid = self.grid
        self._claim(array, shard)
        block = np.full((grid.k, *array.shape[grid.ndim :]), array.fill_value, array.dtype)
        block[numbers] = values
        first = grid.shard_index(shard)
        region = tuple(slice(i * k, (i + 1) * k) for i, k in zip(first, grid.chunks_per_shard, strict=True))
        array[region] = block.reshape(grid.chunks_per_shard + array.shape[grid.ndim :])

    def put_coordinate(self, array: Array, shard: int) -> None:
        """The numbers of all cells of the shard, in a one-dimensional grid."""
        self._claim(array, shard)
        n = self.grid.cells_per_shard
        array[shard * n : (shard + 1) * n] = self.grid.coordinate_values(
            array.basename, shard * n, (shard + 1) * n
        )

    def keys(self, array: Array) -> list[str]:
        """The keys of the objects that this shard of `array` may have."""
        grid = self.grid
        trailing = array.ndim - grid.ndim
        if (
            array.shape[: grid.ndim] == grid.shape
            and not grid.sharded
            and array.chunks[: grid.ndim] == grid.chunk_shape
        ) or (
            array.shape[: grid.ndim] == grid.chunk_grid
            and prod(array.chunks[: grid.ndim]) == 1
            and grid.k > 1
        ):
            outers = [grid.chunk_index(self.shard, number) + (0,) * trailing for number in range(grid.k)]
        else:
            outers = [grid.shard_index(self.shard) + (0,) * trailing]
        return array.layout.chunk_keys(np.array(outers, np.int64))

    def _claim(self, array: Array, shard: int) -> None:
        if shard != self.shard:
            raise NotWholeShardError(
                f"array {array.path!r}: this writer is for shard {self.shard}, and shard {shard} was to be written"
            )
        if array.path in self._written:
            raise DuplicateShardError(
                f"array {array.path!r}: shard {shard} was written by this writer already"
            )
        self._written.add(array.path)

    def _box(self, number: int) -> tuple[slice, ...]:
        index = self.grid.chunk_index(self.shard, number)
        return tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, self.grid.chunk_shape, strict=True))


class _Checked(Mapping[tuple[int, ...], Values]):
    """Chunks whose shapes are looked at when they are used."""

    def __init__(
        self, chunks: Mapping[tuple[int, ...], Values], shape: tuple[int, ...], array: Array
    ) -> None:
        self._chunks, self._shape, self._array = chunks, shape, array

    def __len__(self) -> int:
        return len(self._chunks)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return iter(self._chunks)

    def __getitem__(self, index: tuple[int, ...]) -> Values:
        return _whole(self._chunks[index], self._shape, self._array)


def _whole(chunk: Values, shape: tuple[int, ...], array: Array) -> Values:
    if np.shape(chunk) != shape:
        raise NotWholeShardError(
            f"array {array.path!r}: an inner chunk has shape {shape}, and values of shape {np.shape(chunk)} were "
            "given: a part of a chunk is never written"
        )
    return chunk
