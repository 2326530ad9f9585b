"""The template of a run: a group and its arrays, documents only; the coordinates of a rectilinear grid.

What it does not do: write a shard. A template that is there already is used where it is the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from terrazzo.arrays.array import Array
from terrazzo.arrays.creation import array_metadata
from terrazzo.gridding.configuration import Config
from terrazzo.gridding.conventions import MAPPING, field_attributes
from terrazzo.gridding.errors import GridConfigError, GridMismatchError
from terrazzo.gridding.fields import Field
from terrazzo.gridding.grid import Grid
from terrazzo.groups.consolidating import consolidate_metadata
from terrazzo.groups.group import Group
from terrazzo.groups.opening import open_group
from terrazzo.stores.open import open_store
from terrazzo.stores.store import Store

__all__ = ["Template", "companion_chunks", "group_attributes", "make_coordinates", "make_template"]


@dataclass(frozen=True)
class Template:
    """The arrays of a run, open for writing. group: its path in the store. fresh: no shard was there before."""

    store: Store
    group: str
    arrays: Mapping[str, Array]
    coordinates: Mapping[str, Array]
    fresh: bool = False


def make_template(config: Config, store: Any = None, overwrite: bool = False) -> Template:
    """Make the group and the arrays of a configuration, or open them where they are.

    Raises GridMismatchError where something else is there.
    """
    where = config.output.store if store is None else store
    if where is None:
        raise GridConfigError(
            "there is no store: output.store is missing in the configuration, and none was given"
        )
    opened, below = open_store(where)
    path = "/".join(filter(None, (below, config.grid.group)))
    root = _group(opened, below)
    if overwrite and config.grid.group in root:
        del root[config.grid.group]
    said = group_attributes(config.grid)
    if config.output.product_name:
        said["title"] = config.output.product_name
    found = root.get(config.grid.group)
    if found is None:
        group = root.create_group(config.grid.group, attributes=said)
        fresh = True
    elif isinstance(found, Group):
        group, fresh = found, False
        before = dict(group.attrs).get("gridding")
        if before != _plain(config.grid.describe()):
            raise GridMismatchError(
                f"group {path!r} holds another grid: {before}, and this one is {config.grid.describe()}; choose "
                "another store, or overwrite=True to replace it"
            )
    else:
        raise GridMismatchError(f"{path!r} is an array; the grid needs a group there")
    arrays = {
        name: _array(group, name, _field_document(config, one), path) for name, one in config.fields.items()
    }
    coordinates = make_coordinates(group, config.grid, path, fresh)
    if config.output.consolidated and fresh:
        consolidate_metadata(opened, path=path)
    return Template(opened, path, arrays, coordinates, fresh)


def group_attributes(grid: Grid) -> dict[str, Any]:
    """What a group says of its grid: the conventions, and the configuration that makes the grid again."""
    return {"Conventions": "CF-1.11", **grid.attributes(), "gridding": grid.describe()}


def make_coordinates(group: Group, grid: Grid, path: str, fresh: bool) -> dict[str, Array]:
    """The coordinate arrays of a grid, with their values where they are written once for all, and the grid mapping."""
    coordinates = {}
    for name in grid.coordinates():
        coordinates[name] = _array(group, name, _coordinate_document(grid, name), path)
        if grid.ndim > 1 and fresh:
            coordinates[name][...] = grid.coordinate_values(name, 0, coordinates[name].shape[0])
    if MAPPING not in group:  # not compared: its text depends on the version of PROJ
        group.create_array(
            MAPPING,
            shape=(),
            dtype=np.int32,
            fill_value=0,
            filters=None,
            serializer="bytes",
            compressors=None,
            attributes=grid.mapping(),
        )
    return coordinates


def _group(store: Store, path: str) -> Group:
    return open_group(store, path=path or None, mode="a")


def _array(group: Group, name: str, document: dict[str, Any], path: str) -> Array:
    found = group.get(name)
    if found is None:
        return group.create_array(name, **document)
    wanted = array_metadata(**document).to_bytes()
    if not isinstance(found, Array) or found.metadata.to_bytes() != wanted:
        raise GridMismatchError(
            f"{path}/{name} is there already and is declared otherwise; choose another store, or overwrite=True to "
            "replace the group"
        )
    return found


def _field_document(config: Config, field: Field) -> dict[str, Any]:
    grid, output = config.grid, config.output
    trailing = field.trailing_shape
    document: dict[str, Any] = {"dtype": field.dtype, "fill_value": field.fill_value}
    if field.resolution == "chunk":
        chunks = companion_chunks(config)
        document |= {"shape": grid.chunk_grid + trailing, "chunks": chunks + trailing, "shards": None}
    else:
        shards = grid.shard_shape + trailing if grid.sharded else None
        document |= {"shape": grid.shape + trailing, "chunks": grid.chunk_shape + trailing, "shards": shards}
    codecs = output.inner_codecs
    names = [codecs] if isinstance(codecs, str) else list(codecs)
    serializer, compressors = names[0], names[1:]
    document |= {"filters": None, "serializer": serializer, "compressors": compressors or None}
    if field.resolution == "cell" and grid.sharded:
        document["index_location"] = output.index_location
    dimensions = (
        grid.dimension_names if field.resolution == "cell" else [f"{d}_chunk" for d in grid.dimension_names]
    )
    document["dimension_names"] = [*dimensions, *(f"{field.name}_{k}" for k in range(len(trailing)))]
    cf = field_attributes(field.statistic.name, field.resolution == "cell")
    document["attributes"] = {"statistic": field.statistic.name, **cf, **field.attrs}
    return document


def companion_chunks(config: Config) -> tuple[int, ...]:
    """Chunks of a field with one value per inner chunk: one object per shard, or one per value."""
    grid = config.grid
    return grid.chunks_per_shard if config.output.companion_chunks == "shard" else (1,) * grid.ndim


def _coordinate_document(grid: Grid, name: str) -> dict[str, Any]:
    dimension, extent, attributes = grid.coordinates()[name]
    whole = grid.ndim > 1
    return {
        "shape": (extent,),
        "dtype": np.float64 if whole else np.uint64,
        "chunks": (extent,) if whole else grid.shard_shape,
        "shards": None,
        "filters": None,
        "serializer": "bytes",
        "compressors": None,
        "fill_value": np.nan if whole else 0,
        "dimension_names": [dimension],
        "attributes": dict(attributes),
    }


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))
