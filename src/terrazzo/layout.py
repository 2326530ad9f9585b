"""Layout: how an array's elements lie in objects, resolved once from its document when the array is opened.

What it does not do: read, write or plan; it is the value that those rooms are handed. No dialect below this line:
whatever the document was written in, a Layout is the same.

Two levels of chunks: the grid's chunk is one stored object. Where the chain is a sharding codec and nothing else, that
object is a shard, `sharding` is set, and the flows touch inner chunks. A sharding codec in any other place of a chain
is read and written right, whole, by the codec itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from terrazzo._kernel import Program
from terrazzo.chunk_grid import ChunkGrid, EqualEdges, chunk_grid_from_extension
from terrazzo.chunk_keys import ChunkKeys, chunk_keys_from_extension
from terrazzo.codecs.chain import Chain
from terrazzo.codecs.codec import ChunkSpec
from terrazzo.codecs.early import completed
from terrazzo.codecs.sharding import ShardingIndexed
from terrazzo.errors import MetadataError
from terrazzo.metadata import ArrayMetadata, DataType
from terrazzo.metadata.data_types import Optional
from terrazzo.options import DRAFTS, Options

__all__ = ["Layout"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """How the elements of one array lie in objects.

    path: of the node, without slashes at its ends. chain: of the chunk that reads touch (the inner chunk where
    `sharding` is set); for grids with several chunk shapes, of the first of them. edges: what small selections are
    planned by.
    """

    path: str
    shape: tuple[int, ...]
    data_type: DataType
    dtype: np.dtype[Any]
    fill: Array
    grid: ChunkGrid
    keys: ChunkKeys
    chain: Chain
    sharding: ShardingIndexed | None
    codecs: Sequence[Any]
    options: Options
    edges: EqualEdges | None = None
    _chains: dict[tuple[int, ...], Chain] = field(default_factory=dict)
    _counts: dict[tuple[int, ...], tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def build(cls, document: ArrayMetadata, path: str, options: Options) -> Layout:
        """Resolve a document; raises MetadataError, UnknownCodecError or LimitError with its path in the document."""
        where = f"{path}/zarr.json" if path else "zarr.json"
        _refuse_drafts(document, where, options)
        grid = chunk_grid_from_extension(document.chunk_grid, document.shape, where)
        keys = chunk_keys_from_extension(document.chunk_key_encoding, where)
        shapes = grid.distinct_shapes()
        chains = {shape: _chain(document, shape, where, options) for shape in shapes}
        outer = chains[shapes[0]]
        # where some shards are cut by their inner chunks, all are read and written as chunks of one piece
        sharding = outer.sharding if all(chain.sharding is not None for chain in chains.values()) else None
        return cls(
            path=path,
            shape=document.shape,
            data_type=document.data_type,
            dtype=document.data_type.numpy,
            fill=document.fill_value,
            grid=grid,
            keys=keys,
            chain=outer if sharding is None else sharding.inner_chain,
            sharding=sharding,
            codecs=outer.codecs,
            options=options,
            edges=grid.edges(document.shape, None if sharding is None else sharding.chunk_shape),
            _chains=chains,
        )

    def resized(self, shape: tuple[int, ...]) -> Layout:
        """The layout of the array once it has this shape; chunks keep their places."""
        grid = self.grid.resized(shape)
        uniform = grid.uniform_shape
        chain = self.chain if self.sharding is not None or uniform is None else self.chain_for(uniform)
        return replace(self, shape=shape, grid=grid, chain=chain, edges=grid.edges(shape, self.inner_shape))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def object_nbytes(self) -> int:
        """Decoded bytes of a stored object; of the largest, where they differ."""
        edges = [dim.unique[-1] for dim in self.grid.dims]
        return prod(edges) * self.dtype.itemsize

    @property
    def inner_shape(self) -> tuple[int, ...] | None:
        """The inner chunk's shape; None for a plain array."""
        return None if self.sharding is None else self.sharding.chunk_shape

    # keys

    @property
    def prefix(self) -> str:
        return f"{self.path}/" if self.path else ""

    def chunk_key(self, outer: tuple[int, ...]) -> str:
        """The key of the object with this grid index."""
        key = self.keys.key(outer)
        return f"{self.path}/{key}" if self.path else key

    def chunk_keys(self, outers: Array) -> list[str]:
        """The keys of the objects with the given grid indices, int64 (m, ndim)."""
        prefix = self.prefix
        return [prefix + key for key in self.keys.keys(outers)] if prefix else self.keys.keys(outers)

    # chains

    def chain_for(self, shape: tuple[int, ...]) -> Chain:
        """The chain of a stored chunk of this shape (for a sharded array, the one around the shard)."""
        chain = self._chains.get(shape)
        if chain is None:
            first = next(iter(self._chains.values()))
            chain = first.reshaped(shape)
            self._chains[shape] = chain
        return chain

    def chains(self, outers: Array) -> tuple[list[Chain], Array | None]:
        """The chains that the chunks of these objects use, and which of them each object uses (None: all the first)."""
        if self.sharding is not None or self.grid.uniform_shape is not None:
            return [self.chain], None
        extents = np.stack([self.grid.chunk_extent(d, outers[:, d]) for d in range(self.ndim)], axis=1)
        shapes, numbers = np.unique(extents, axis=0, return_inverse=True)
        return [self.chain_for(tuple(int(v) for v in shape)) for shape in shapes], numbers.reshape(-1)

    def programs(self, chains: Sequence[Chain]) -> list[Program] | None:
        """The kernel's programs, where it knows every chain."""
        found = [chain.native for chain in chains]
        known = [program for program in found if program is not None]
        return known if len(known) == len(found) else None

    # shards

    def counts(self, outers: Array) -> list[tuple[int, ...]]:
        """Inner chunks per dimension, for each of these shards."""
        assert self.sharding is not None
        uniform = self.grid.uniform_shape
        if uniform is not None:
            return [self.count(uniform)] * len(outers)
        return [self.count(self.grid.chunk_shape(tuple(int(v) for v in outer))) for outer in outers]

    def count(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Inner chunks per dimension of a shard of this shape."""
        count = self._counts.get(shape)
        if count is None:
            assert self.sharding is not None
            count = tuple(s // c for s, c in zip(shape, self.sharding.chunk_shape, strict=True))
            self._counts[shape] = count
        return count


def _chain(document: ArrayMetadata, shape: tuple[int, ...], where: str, options: Options) -> Chain:
    spec = ChunkSpec(shape, document.data_type, document.fill_value)
    codecs = completed(document.codecs, document.data_type, len(document.shape))
    return Chain.build(
        codecs,
        spec,
        limits=options.limits,
        path=f"{where}: codecs",
        strict=options.strict,
        drafts=options.drafts,
        allow_pickle=options.allow_pickle,
    )


def _refuse_drafts(document: ArrayMetadata, where: str, options: Options) -> None:
    """Extensions that are only proposed are refused, with the setting that takes them."""
    found = []
    if document.chunk_key_encoding.name in DRAFTS:
        found.append(("chunk_key_encoding.name", document.chunk_key_encoding.name))
    if isinstance(document.data_type, Optional):
        found.append(("data_type.name", "optional"))
    for path, name in found:
        sentence = options.without_draft(name)
        if sentence is not None:
            raise MetadataError(f"{where}: {path}: {name!r} {sentence}", ((path, sentence),))
