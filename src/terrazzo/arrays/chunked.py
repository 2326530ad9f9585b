"""What follows from an array's layout: shapes, types, codecs, and how it is cut into chunks and shards.

What it does not do: I/O. Everything here is answered from the layout.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from terrazzo.errors import SelectionError
from terrazzo.layout import Layout
from terrazzo.metadata import ArrayMetadata
from terrazzo.options import Options

__all__ = ["Chunked"]


class Chunked:
    """The part of an array that its layout tells."""

    _layout: Layout
    _options: Options
    _metadata: ArrayMetadata
    _path: str

    @property
    def shape(self) -> tuple[int, ...]:
        return self._layout.shape

    @property
    def ndim(self) -> int:
        return len(self._layout.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._layout.dtype

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the whole array in memory (16 per element for strings)."""
        return self.size * self.dtype.itemsize

    @property
    def fill_value(self) -> Any:
        return self._layout.fill[()]

    @property
    def order(self) -> str:
        """How values lie in memory that reads answer; the setting of that name."""
        return self._options.order

    @property
    def dimension_names(self) -> tuple[str | None, ...] | None:
        return self._metadata.dimension_names

    @property
    def chunks(self) -> tuple[int, ...]:
        """The shape of the chunks that reads touch: inner chunks where there are shards."""
        inner = self._layout.inner_shape
        return inner if inner is not None else self._outer_shape()

    @property
    def shards(self) -> tuple[int, ...] | None:
        """The shape of the shards; None for a plain array."""
        return self._outer_shape() if self._layout.sharding is not None else None

    def _outer_shape(self) -> tuple[int, ...]:
        uniform = self._layout.grid.uniform_shape
        if uniform is None:
            raise SelectionError(
                f"array {self._path!r} has chunks of several shapes; see read_chunk_sizes and write_chunk_sizes"
            )
        return uniform

    @property
    def read_chunk_sizes(self) -> tuple[tuple[int, ...], ...]:
        """Per dimension, the extents inside the array of the chunks that reads touch."""
        inner = self._layout.inner_shape
        if inner is None:
            return self.write_chunk_sizes
        return tuple(
            tuple(min(edge, n - start) for start in range(0, n, edge))
            for n, edge in zip(self.shape, inner, strict=True)
        )

    @property
    def write_chunk_sizes(self) -> tuple[tuple[int, ...], ...]:
        """Per dimension, the extents inside the array of the stored chunks (shards)."""
        sizes = []
        for d, (n, count) in enumerate(
            zip(self.shape, self._layout.grid.grid_shape(self.shape), strict=True)
        ):
            indices = np.arange(count, dtype=np.int64)
            starts = self._layout.grid.chunk_start(d, indices)
            extents = np.minimum(self._layout.grid.chunk_extent(d, indices), n - starts)
            sizes.append(tuple(int(v) for v in extents if v > 0))
        return tuple(sizes)

    @property
    def cdata_shape(self) -> tuple[int, ...]:
        """The number of chunks that reads touch, per dimension."""
        inner = self._layout.inner_shape
        if inner is None:
            return self.shard_grid_shape
        return tuple(-(-n // c) for n, c in zip(self.shape, inner, strict=True))

    @property
    def shard_grid_shape(self) -> tuple[int, ...]:
        """The number of stored chunks (shards), per dimension."""
        return self._layout.grid.grid_shape(self.shape)

    @property
    def nchunks(self) -> int:
        """The number of chunks that reads touch (inner chunks where there are shards)."""
        return math.prod(self.cdata_shape)

    @property
    def filters(self) -> tuple[Any, ...]:
        """array -> array codecs of the chunks that reads touch."""
        return self._layout.chain.filters

    @property
    def serializer(self) -> Any:
        """The array -> bytes codec of the chunks that reads touch."""
        return self._layout.chain.serializer

    @property
    def compressors(self) -> tuple[Any, ...]:
        """bytes -> bytes codecs of the chunks that reads touch."""
        return self._layout.chain.compressors
