"""Indexing: a selection in numpy's manner becomes a projection: integer tables, a row per touched inner chunk.

What it does not do: read, write, know keys, codecs or byte ranges.

Specification: Zarr v3 core, "Regular grids"; the codec `sharding_indexed` (inner chunks); the extension `rectilinear`.

    selection.py   what the user wrote -> one `Run` or position array per dimension, or points; numpy's rules and errors
    axes.py        one dimension: which chunks it touches, and where their elements go; no Python per chunk
    projection.py  all dimensions: `Projection` and its windows, for selections that are a product of dimensions
    small.py       the same for boxes of a few inner chunks, in plain integers
    points.py      the same for single elements (coordinates, masks)
    project.py     the front: `project_fancy` is what `array[...]` does

Everything is stated for inner chunks inside shards; in a plain array every chunk is a shard with one inner chunk.
"""

from terrazzo.indexing.project import (
    Tiles,
    Tiling,
    project_basic,
    project_blocks,
    project_coordinates,
    project_fancy,
    project_mask,
    project_orthogonal,
)
from terrazzo.indexing.projection import Projection, Window
from terrazzo.indexing.small import SmallBox

__all__ = [
    "Projection",
    "SmallBox",
    "Tiles",
    "Tiling",
    "Window",
    "project_basic",
    "project_blocks",
    "project_coordinates",
    "project_fancy",
    "project_mask",
    "project_orthogonal",
]
