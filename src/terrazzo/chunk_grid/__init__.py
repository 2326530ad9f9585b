"""Chunk grids: where the chunks of an array begin and end, one dimension at a time.

What it does not do: name chunks (that is `chunk_keys`), read selections, or know about shards: the grid of a sharded
array is the grid of its shards.

Specification: Zarr v3 core, "Chunk grids", "Regular grids"; registered extension `rectilinear`.

A grid is a tuple of `Edges`, one per dimension. The edges of a rectilinear dimension stay run-length coded however many
chunks they stand for, so a hostile count costs nothing. A grid of your own is a subclass of `ChunkGrid` over `Edges`,
made known with `register_chunk_grid(name, build)`.
"""

from terrazzo.chunk_grid.edges import Edges, Ints, RegularEdges, RunEdges
from terrazzo.chunk_grid.grid import (
    ChunkGrid,
    EqualEdges,
    RectilinearGrid,
    RegularGrid,
    chunk_grid_from_extension,
    register_chunk_grid,
)

__all__ = [
    "ChunkGrid",
    "Edges",
    "EqualEdges",
    "Ints",
    "RectilinearGrid",
    "RegularEdges",
    "RegularGrid",
    "RunEdges",
    "chunk_grid_from_extension",
    "register_chunk_grid",
]
