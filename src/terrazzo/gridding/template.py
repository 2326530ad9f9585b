"""The template of a run: its groups and their arrays, documents only; the coordinates of a rectilinear grid.

What it does not do: write a shard. A template that is there already is used where it is the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from terrazzo.arrays.array import Array
from terrazzo.arrays.creation import array_metadata
from terrazzo.errors import ContainsNodeError, TerrazzoError
from terrazzo.gridding.configuration import Config, Output
from terrazzo.gridding.conventions import MAPPING, field_attributes
from terrazzo.gridding.errors import GridConfigError, GridMismatchError
from terrazzo.gridding.fields import Field
from terrazzo.gridding.grid import Grid
from terrazzo.gridding.levels import coarser_grids, describe_levels, level_names
from terrazzo.groups.consolidating import consolidate_metadata
from terrazzo.groups.group import Group
from terrazzo.groups.opening import open_group
from terrazzo.stores.open import open_store
from terrazzo.stores.store import Store

__all__ = ["Template", "make_part", "make_template"]


@dataclass(frozen=True)
class Template:
    """The arrays of a run, open for writing. group: its path in the store. fresh: no shard was there before.

    levels: the templates of coarser grids, which are written together with this one.
    """

    store: Store
    group: str
    grid: Grid
    arrays: Mapping[str, Array]
    coordinates: Mapping[str, Array]
    fresh: bool = False
    levels: tuple[Template, ...] = ()


def make_template(config: Config, store: Any = None, overwrite: bool = False) -> Template:
    """Make the groups and the arrays of a configuration, or open them where they are.

    Raises GridMismatchError where something else is there; nothing is written then.
    """
    where = config.output.store if store is None else store
    if where is None:
        raise GridConfigError(
            "there is no store: output.store is missing in the configuration, and none was given"
        )
    nested = {name: one for name, one in config.fields.items() if one.nests}
    grids = [config.grid, *coarser_grids(config.grid, config.output.pyramid)]
    parts = [(grid, nested if k else config.fields) for k, grid in enumerate(grids)]
    _check_codecs(config.grid, config.output, config.fields)
    opened, below = open_store(where)
    root = open_group(opened, path=below or None, mode="a")
    if overwrite:
        for name in {one.group for one in grids} | set(level_names(root, config.grid.group)):
            if name in root:
                del root[name]
    for grid, fields in parts:
        _refuse_others(root, grid, fields, config.output)
    base, *levels = (make_part(root, grid, fields, config.output) for grid, fields in parts)
    if levels:
        describe_levels(root, [base.grid, *(one.grid for one in levels)])
    return replace(base, levels=tuple(levels))


def _check_codecs(grid: Grid, output: Output, fields: Mapping[str, Field]) -> None:
    """Refuse codecs that are not known, or do not fit a field, before there is a group."""
    for name, one in fields.items():
        try:
            array_metadata(**_field_document(grid, output, one))
        except (TerrazzoError, TypeError, ValueError) as error:
            raise GridConfigError(
                f"output.storage.inner_codecs is {list(output.inner_codecs)!r}, and the field {name!r} cannot be "
                f"stored so: {error}; first one codec from array to bytes, then any from bytes to bytes, such as "
                "[bytes, zstd, crc32c]"
            ) from None


def _refuse_others(root: Group, grid: Grid, fields: Mapping[str, Field], output: Output) -> None:
    """Refuse a group that holds another grid, and arrays that are declared otherwise."""
    found = root.get(grid.group)
    if found is None:
        return
    path = "/".join(filter(None, (root.path, grid.group)))
    if not isinstance(found, Group):
        raise GridMismatchError(f"{path!r} is an array; the grid needs a group there")
    before = dict(found.attrs).get("gridding")
    if before != _plain(grid.describe()):
        raise GridMismatchError(
            f"group {path!r} holds another grid: {before}, and this one is {grid.describe()}; choose "
            "another store, or overwrite=True to replace it"
        )
    documents = {name: _field_document(grid, output, one) for name, one in fields.items()}
    documents |= {name: _coordinate_document(grid, name) for name in grid.coordinates()}
    for name, document in documents.items():
        there = found.get(name)
        if there is None:
            continue
        if not isinstance(there, Array) or there.metadata.to_bytes() != array_metadata(**document).to_bytes():
            raise GridMismatchError(
                f"{path}/{name} is there already and is declared otherwise; choose another store, or overwrite=True "
                "to replace the group"
            )


def make_part(root: Group, grid: Grid, fields: Mapping[str, Field], output: Output) -> Template:
    """The group of one grid, and its arrays."""
    found = root.get(grid.group)
    fresh = found is None
    if not isinstance(found, Group):
        said = group_attributes(grid)
        if output.product_name:
            said["title"] = output.product_name
        try:
            found = root.create_group(grid.group, attributes=said)
        except ContainsNodeError:  # another run has just made it
            found = root.get_group(grid.group)
    arrays = {name: _array(found, name, _field_document(grid, output, one)) for name, one in fields.items()}
    coordinates = make_coordinates(found, grid, fresh)
    if output.consolidated and fresh:
        consolidate_metadata(found.store, path=found.path)
    return Template(found.store, found.path, grid, arrays, coordinates, fresh)


def group_attributes(grid: Grid) -> dict[str, Any]:
    """What a group says of its grid: the conventions, and the configuration that makes the grid again."""
    return {"Conventions": "CF-1.11", **grid.attributes(), "gridding": grid.describe()}


def make_coordinates(group: Group, grid: Grid, fresh: bool) -> dict[str, Array]:
    """The coordinate arrays of a grid, with their values where they are written once for all, and the grid mapping."""
    coordinates = {}
    for name in grid.coordinates():
        coordinates[name] = _array(group, name, _coordinate_document(grid, name))
        if grid.ndim > 1 and fresh:
            coordinates[name][...] = grid.coordinate_values(name, 0, coordinates[name].shape[0])
    # not compared: its text depends on the version of PROJ
    mapping = {"shape": (), "dtype": np.int32, "fill_value": 0, "attributes": grid.mapping()}
    _array(group, MAPPING, {**mapping, "filters": None, "serializer": "bytes", "compressors": None})
    return coordinates


def _array(group: Group, name: str, document: dict[str, Any]) -> Array:
    found = group.get(name)
    if not isinstance(found, Array):
        try:
            return group.create_array(name, **document)
        except ContainsNodeError:  # another run has just made it
            return group.get_array(name)
    return found


def _field_document(grid: Grid, output: Output, field: Field) -> dict[str, Any]:
    trailing = field.trailing_shape
    document: dict[str, Any] = {"dtype": field.dtype, "fill_value": field.fill_value}
    if field.resolution == "chunk":
        chunks = companion_chunks(grid, output)
        document |= {"shape": grid.chunk_grid + trailing, "chunks": chunks + trailing, "shards": None}
    else:
        shards = grid.shard_shape + trailing if grid.sharded else None
        document |= {"shape": grid.shape + trailing, "chunks": grid.chunk_shape + trailing, "shards": shards}
    serializer, *compressors = output.inner_codecs
    document |= {"filters": None, "serializer": serializer, "compressors": compressors or None}
    if field.resolution == "cell" and grid.sharded:
        document["index_location"] = output.index_location
    dimensions = (
        grid.dimension_names if field.resolution == "cell" else [f"{d}_chunk" for d in grid.dimension_names]
    )
    document["dimension_names"] = [*dimensions, *(f"{field.name}_{k}" for k in range(len(trailing)))]
    cf = field_attributes(field.statistic.name, field.resolution == "cell")
    made = {"statistic": field.statistic.name, "aggregation": made_from(field)}
    document["attributes"] = {**made, **cf, **field.attrs}
    return document


def made_from(field: Field) -> dict[str, Any]:
    """What a field was made from, as it was declared."""
    known = ("function", "expression", "source", "params")
    return {key: field.declared[key] for key in known if field.declared.get(key) is not None}


def companion_chunks(grid: Grid, output: Output) -> tuple[int, ...]:
    """Chunks of a field with one value per inner chunk: one object per shard, or one per value."""
    return grid.chunks_per_shard if output.companion_chunks == "shard" else (1,) * grid.ndim


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
