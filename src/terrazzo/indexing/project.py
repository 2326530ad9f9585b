"""The front of indexing: a selection and the array's tiles become a projection.

What it does not do: anything but parse and project.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from terrazzo.chunk_grid import ChunkGrid, EqualEdges
from terrazzo.indexing.points import PointProjection
from terrazzo.indexing.projection import BoxProjection, Projection
from terrazzo.indexing.selection import (
    Box,
    Points,
    parse_basic,
    parse_blocks,
    parse_coordinates,
    parse_fancy,
    parse_mask,
    parse_orthogonal,
)
from terrazzo.indexing.small import SmallBox

__all__ = [
    "Tiles",
    "Tiling",
    "project_basic",
    "project_blocks",
    "project_coordinates",
    "project_fancy",
    "project_mask",
    "project_orthogonal",
]


class Tiling(Protocol):
    """What indexing knows of an array: its shape, the grid of its stored chunks, and the inner chunk's shape or None.

    Every edge of the grid is a multiple of the inner chunk's; that was checked when the array was opened.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def grid(self) -> ChunkGrid: ...

    @property
    def inner_shape(self) -> tuple[int, ...] | None: ...

    @property
    def edges(self) -> EqualEdges | None:
        """`ChunkGrid.edges` of these."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """A tiling by itself: shape, grid of stored chunks, inner chunk shape of a sharded array."""

    shape: tuple[int, ...]
    grid: ChunkGrid
    inner_shape: tuple[int, ...] | None = None

    @property
    def edges(self) -> EqualEdges | None:
        return self.grid.edges(self.shape, self.inner_shape)


def project_fancy(selection: Any, tiles: Tiling, *, for_write: bool = False) -> Projection:
    """`array[selection]`: integers and slices; a mask; coordinates; one array among integers and slices."""
    return _plainly(selection, tiles) or _project(parse_fancy(selection, tiles.shape), tiles, for_write)


def project_basic(selection: Any, tiles: Tiling, *, for_write: bool = False) -> Projection:
    """Integers, slices (of any step but 0) and Ellipsis."""
    return _plainly(selection, tiles) or _project(parse_basic(selection, tiles.shape), tiles, for_write)


def project_orthogonal(selection: Any, tiles: Tiling, *, for_write: bool = False) -> Projection:
    """`array.oindex[selection]`: each dimension on its own."""
    return _plainly(selection, tiles) or _project(parse_orthogonal(selection, tiles.shape), tiles, for_write)


def project_coordinates(selection: Any, tiles: Tiling, *, for_write: bool = False) -> Projection:
    """`array.vindex[selection]`: one integer array per dimension, broadcast together."""
    return _project(parse_coordinates(selection, tiles.shape), tiles, for_write)


def project_mask(mask: Any, tiles: Tiling, *, for_write: bool = False) -> Projection:
    """A boolean array of the array's shape; the result is 1-D."""
    return _project(parse_mask(mask, tiles.shape), tiles, for_write)


def project_blocks(selection: Any, tiles: Tiling, *, for_write: bool = False) -> Projection:
    """`array.blocks[selection]`: whole stored chunks (shards), as far as they lie inside the array."""
    return _project(parse_blocks(selection, tiles.shape, tiles.grid), tiles, for_write)


def _plainly(selection: Any, tiles: Tiling) -> SmallBox | None:
    """What integers and slices mean in every manner of indexing, where they are few and inside."""
    edges = tiles.edges
    return None if edges is None else SmallBox.plainly(selection, edges)


def _project(found: Box | Points, tiles: Tiling, for_write: bool) -> Projection:
    if isinstance(found, Box):
        edges = tiles.edges
        if edges is not None:
            small = SmallBox.of(found.selectors, found.scalar, edges)
            if small is not None:
                return small
        return BoxProjection(found, tiles.shape, tiles.grid, tiles.inner_shape, for_write)
    return PointProjection(found, tiles.shape, tiles.grid, tiles.inner_shape, for_write)
