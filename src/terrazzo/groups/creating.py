"""New arrays: create_array, from_array and zarr-python's older create; the document first, then the values.

What it does not do: choose shapes and codecs (arrays/creation.py), or open what is there (opening.py).
Specification: Zarr core 3.0, "Operations": who creates an array makes the missing groups above it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypedDict, Unpack

import numpy as np

from terrazzo.arrays.array import Array
from terrazzo.arrays.creation import DEFAULT, array_metadata, data_type_of, extents
from terrazzo.arrays.place import StorePath
from terrazzo.config import config as settings
from terrazzo.config import options_from
from terrazzo.errors import DataTypeValidationError, TerrazzoWarning
from terrazzo.groups.formats import making, stored_as, suited
from terrazzo.groups.nodes import create_node, erase_node, refuse_anything, refuse_leftovers
from terrazzo.groups.places import StoreLike, place_of
from terrazzo.layout import Layout
from terrazzo.metadata import ArrayMetadata
from terrazzo.metadata.data_types import NumpyRecord, Objects
from terrazzo.metadata.data_types.objects import OBJECTS_REFUSED
from terrazzo.metadata.draft import FALLBACKS
from terrazzo.options import Durability, Options
from terrazzo.progress import Progress, follow
from terrazzo.strategy import Strategy, strategy_from

__all__ = [
    "IGNORED",
    "About",
    "How",
    "Settings",
    "create",
    "create_array",
    "from_array",
    "resolve_settings",
    "write_values",
]


#: arguments of zarr-python 2 that mean nothing here
IGNORED = ("cache_attrs", "cache_metadata", "chunk_store", "meta_array", "object_codec", "synchronizer")


class Settings(TypedDict, total=False):
    """How work on a node is done: nothing of it is stored."""

    config: Mapping[str, Any] | None
    options: Options | None
    durability: Durability | None
    strategy: str | Strategy | None


class About(Settings, total=False):
    """What else may be said about a new array: the arguments of `create_array` but for chunks and their codecs."""

    codecs: Any
    fill_value: Any
    order: Literal["C", "F"] | None
    zarr_format: int | None
    dialect: str | None
    attributes: Mapping[str, Any] | None
    chunk_key_encoding: Any
    dimension_names: Sequence[str | None] | None
    storage_options: Mapping[str, Any] | None
    storage_transformers: Sequence[Any]
    fallbacks: Sequence[Any]
    overwrite: bool
    index_location: str


class How(About, total=False):
    """What may be said about a new array besides its shape and type."""

    chunks: Any
    shards: Any
    filters: Any
    compressors: Any
    serializer: Any
    write_data: bool
    progress: Progress


def create_array(
    store: StoreLike,
    *,
    name: str | None = None,
    shape: int | Sequence[int] | None = None,
    dtype: Any = None,
    data: Any = None,
    chunks: Any = "auto",
    shards: Any = None,
    filters: Any = "auto",
    compressors: Any = "auto",
    serializer: Any = "auto",
    fill_value: Any = DEFAULT,
    order: Literal["C", "F"] | None = None,
    zarr_format: int | None = None,
    dialect: str | None = None,
    attributes: Mapping[str, Any] | None = None,
    chunk_key_encoding: Any = None,
    dimension_names: Sequence[str | None] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    config: Mapping[str, Any] | None = None,
    write_data: bool = True,
    progress: Progress = None,
    codecs: Any = None,
    index_location: str = "end",
    storage_transformers: Sequence[Any] = (),
    fallbacks: Sequence[Any] | None = None,
    strategy: str | Strategy | None = None,
    options: Options | None = None,
    durability: Durability | None = None,
) -> Array:
    """Make a new array in a store, empty or holding `data`.

    store: a path, a URL, a dictionary, a store, or None for memory. name: the array's path in it.
    shape, dtype: of the array, or those of `data`. write_data: False makes the array of `data`'s shape, empty.
    chunks: the shape that reads touch: "auto", a size ("1MB"), integers with -1 for a whole dimension; or, for chunks
    of several shapes, a list of edges per dimension. shards: None for one object per chunk; "auto", a size, or a
    shape in elements, each a multiple of the chunk's. index_location: of the shards' indexes, "end" or "start".
    filters, serializer, compressors: codecs as objects, strings ("zstd:5", "blosc:lz4:5:shuffle") or a document's
    objects; None for none. Left alone: bytes, zstd and crc32c. codecs: all of them in one list, instead.
    zarr_format, dialect: the format, where it is not that of the group it goes into: 3, or 2; for the draft of 2022
    dialect "P" (as zarr-python 2.12 to 2.18 wrote it) or "D" (to the letter). order: "F" is for those two;
    in Zarr 3 how values lie in memory that reads answer. fallbacks: data types that a reader of the draft may take
    instead, where the array's own is of an extension (dates, text, records); None states those of its kind.
    overwrite: what was there goes, with everything below it. config, options, durability, strategy: how work is done.
    progress: True for a bar, or a function of (done, total); counts stored chunks of data that is not in memory.

    Raises ContainsArrayError or ContainsGroupError where a node is there, MetadataError for what the format forbids.
    Specification: Zarr core 3.0, "Array metadata"; sharding_indexed 1.0.

    >>> array = create_array(None, shape=(1000, 1000), dtype="float32", chunks=(100, 100), shards=(500, 500))
    >>> array[:2, :3] = 1
    >>> array.chunks, array.shards, float(array[0].sum())
    ((100, 100), (500, 500), 3.0)
    """
    shape, dtype = _shape_and_type(shape, dtype, data)
    found, plan = resolve_settings(config=config, options=options, durability=durability, strategy=strategy)
    given = place_of(store, name, storage_options=storage_options)
    place, made = making(given, found, zarr_format, dialect)
    if made == "v3":
        if order is not None:  # of values in memory: Zarr 3 stores no order of its own
            found = replace(found, order=_checked_order(order))
        if isinstance(dtype, NumpyRecord):
            dtype, serializer = dtype.dtype, "auto"  # as a record of Zarr 3, where it can be one
        elif isinstance(dtype, Objects):
            raise DataTypeValidationError(OBJECTS_REFUSED)
    how = suited(
        made,
        len(shape),
        dtype,
        {
            "order": order,
            "filters": filters,
            "compressors": compressors,
            "serializer": serializer,
            "codecs": codecs,
            "chunk_key_encoding": chunk_key_encoding,
        },
    )
    metadata = array_metadata(
        shape,
        dtype,
        chunks=chunks,
        shards=shards,
        fill_value=fill_value,
        attributes=attributes,
        dimension_names=dimension_names,
        index_location=index_location,
        storage_transformers=storage_transformers,
        options=found,
        **how,
    )
    metadata = replace(metadata, dialect=stored_as(made))
    if fallbacks is not None:
        if metadata.dialect != "draft":
            raise ValueError('fallbacks belong to data types of the 2022 draft: dialect="P" or "D"')
        metadata = replace(metadata, extra={FALLBACKS: {"must_understand": False, "types": list(fallbacks)}})
    array = Array(
        place.store, place.path, metadata, found, plan
    )  # checks the document before anything is written
    chunks_at = StorePath(array.chunk_store, place.path)
    if overwrite and place.store is not given.store:
        erase_node(given, found)  # what is there in another format goes too
    create_node(
        place,
        metadata,
        found,
        overwrite=overwrite,
        check=lambda: refuse_leftovers(chunks_at, array.layout, found),
    )
    if data is not None and write_data:
        write_values(array, data, progress)
    return array


def from_array(
    store: StoreLike,
    *,
    data: Any,
    write_data: bool = True,
    name: str | None = None,
    chunks: Any = "keep",
    shards: Any = "keep",
    filters: Any = "keep",
    compressors: Any = "keep",
    serializer: Any = "keep",
    progress: Progress = None,
    **how: Unpack[About],
) -> Array:
    """Make a copy of `data`, an array of ours or any array; "keep" takes over what an array of ours has.

    Further arguments as in `create_array`. Attributes, dimension names, fill value and chunk keys are kept too unless
    they are given. Values are moved one stored chunk at a time; `progress` counts these.

    >>> first = create_array(None, data=np.arange(10), chunks=5, attributes={"unit": "m"})
    >>> second = from_array(None, data=first, chunks=2)
    >>> second.chunks, second.attrs["unit"], second[3:5].tolist()
    ((2,), 'm', [3, 4])
    """
    parts = {
        "chunks": chunks,
        "shards": shards,
        "filters": filters,
        "compressors": compressors,
        "serializer": serializer,
    }
    source = kept(data)
    given: dict[str, Any] = {**source.pop("also"), **how}
    for part, said in parts.items():
        if isinstance(said, str) and said == "keep":
            if part in source and "codecs" not in how:
                given[part] = source[part]
        else:
            given[part] = said
    if _named(chunks) and not _named(shards) and isinstance(data, Array):
        given["shards"] = _fitting(given.get("shards"), given["chunks"])
    return create_array(store, name=name, data=data, write_data=write_data, progress=progress, **given)


def create(
    shape: int | Sequence[int],
    *,
    chunks: Any = None,
    dtype: Any = None,
    compressor: Any = "auto",
    store: StoreLike = None,
    overwrite: bool = False,
    path: str | None = None,
    read_only: bool | None = None,
    dimension_separator: str | None = None,
    write_empty_chunks: bool | None = None,
    chunk_shape: Any = None,
    mode: str | None = None,
    data: Any = None,
    **how: Any,
) -> Array:
    """Make a new array; zarr-python's older spelling of `create_array`, whose other arguments it takes too.

    Without a type elements are float64, without `chunks` they are chosen. compressor: one codec, or None.

    >>> create((3, 4), dtype="i2", fill_value=7)[0].tolist()
    [7, 7, 7, 7]
    """
    for ignored in IGNORED:
        if how.pop(ignored, None) is not None:
            warnings.warn(f"{ignored} has no effect", TerrazzoWarning, stacklevel=2)
    if not (isinstance(compressor, str) and compressor == "auto"):
        if "compressors" in how:
            raise ValueError("compressor and compressors are both given; compressors names all of them")
        how["compressors"] = compressor
    if dimension_separator is not None:
        if how.get("chunk_key_encoding") is not None:
            raise ValueError(
                "dimension_separator and chunk_key_encoding are both given; the second says it all"
            )
        how["chunk_key_encoding"] = {"name": "default", "separator": dimension_separator}
    if write_empty_chunks is not None:
        how["config"] = {"write_empty_chunks": write_empty_chunks, **(how.get("config") or {})}
    edges = chunks if chunk_shape is None else chunk_shape
    place = place_of(store, path, mode=mode, storage_options=how.pop("storage_options", None))
    if mode == "w-":
        refuse_anything(place, resolve_settings()[0])
    array = create_array(
        place,
        shape=extents(shape),
        dtype=(np.float64 if data is None else None) if dtype is None else dtype,
        data=data,
        chunks="auto" if edges is None else edges,
        overwrite=overwrite or mode == "w",
        **how,
    )
    if read_only:
        return Array(array.store, array.path, array.metadata, array.options, array.strategy, read_only=True)
    return array


def resolve_settings(
    *,
    config: Mapping[str, Any] | None = None,
    options: Options | None = None,
    durability: Durability | None = None,
    strategy: str | Strategy | None = None,
) -> tuple[Options, Strategy]:
    """Options and strategy of what is being opened: its own settings over the context's."""
    found = options_from(config) if options is None else options
    if durability is not None:
        if durability not in ("fsync", "rename", "none"):
            raise ValueError(f"durability is {durability!r}; 'fsync', 'rename' and 'none' are allowed")
        found = replace(found, durability=durability)
    return found, strategy_from(settings.strategy if strategy is None else strategy)


def write_values(array: Array, values: Any, progress: Progress = None) -> None:
    """Store values of the array's shape; what is not in memory is moved one stored chunk at a time."""
    if 0 in array.shape:
        return
    if isinstance(values, np.ndarray) or not hasattr(values, "__getitem__") or not hasattr(values, "shape"):
        array[...] = values
        return
    with follow(progress, math.prod(array.shard_grid_shape), "writing") as step:
        for region in regions(array):
            array[region] = np.asarray(values[region])
            step(1)


def regions(array: Array) -> Iterator[tuple[slice, ...]]:
    """The boxes of the stored chunks (shards), in C order."""
    grid = array.layout.grid
    for flat in np.ndindex(*array.shard_grid_shape):
        yield tuple(
            slice(int(start), min(int(start) + int(extent), n))
            for start, extent, n in (
                (
                    grid.chunk_start(d, np.array([i]))[0],
                    grid.chunk_extent(d, np.array([i]))[0],
                    array.shape[d],
                )
                for d, i in enumerate(flat)
            )
        )


def kept(data: Any) -> dict[str, Any]:
    """What a copy of `data` takes over from it; under "also", what goes with it whatever the chunks are."""
    if not isinstance(data, Array):
        chunks = getattr(data, "chunks", None)
        same = isinstance(chunks, tuple) and bool(chunks) and all(isinstance(edge, int) for edge in chunks)
        return {"also": {}, **({"chunks": chunks} if same else {})}
    layout: Layout = data.layout
    document: ArrayMetadata = data.metadata
    sharding = layout.sharding
    found: dict[str, Any] = {
        "filters": data.filters,
        "serializer": data.serializer,
        "compressors": data.compressors,
    }
    if sharding is None:
        found["chunks"], found["shards"] = layout.grid.uniform_shape or layout.grid, None
    else:
        found["chunks"] = sharding.chunk_shape
        found["shards"] = layout.grid.uniform_shape or layout.grid
    also = {
        "attributes": document.attributes,
        "chunk_key_encoding": document.chunk_key_encoding,
        "dimension_names": document.dimension_names,
        "fill_value": document.fill_value,
    }
    if sharding is not None:
        also["index_location"] = sharding.index_location
    return {**found, "also": also}


def _named(said: Any) -> bool:
    return not (isinstance(said, str) and said == "keep")


def _fitting(shards: Any, chunks: Any) -> Any:
    """Shards that were kept while chunks were not: kept where the new chunks divide them, else chosen anew."""
    if shards is None:
        return None
    edges = (chunks,) * len(shards) if isinstance(chunks, int) else chunks
    whole = isinstance(shards, tuple) and isinstance(edges, tuple | list) and len(edges) == len(shards)
    if whole and all(isinstance(c, int) and c > 0 and s % c == 0 for s, c in zip(shards, edges, strict=True)):
        return shards
    return "auto"


def _shape_and_type(shape: Any, dtype: Any, data: Any) -> tuple[tuple[int, ...], Any]:
    if data is None:
        if shape is None or dtype is None:
            missing = " and ".join(n for n, v in (("shape", shape), ("dtype", dtype)) if v is None)
            raise ValueError(f"a new array needs {missing}; give it, or data= to take it from")
        return extents(shape), dtype
    if not hasattr(data, "shape") or not hasattr(data, "dtype"):
        data = np.asarray(data)
    found = tuple(int(n) for n in data.shape)
    if shape is not None and extents(shape) != found:
        raise ValueError(
            f"shape is {extents(shape)}, and data has {found}; leave shape out, or make them equal"
        )
    if dtype is None:
        dtype = data.metadata.data_type if isinstance(data, Array) else data_type_of(data)
    return found, dtype


def _checked_order(order: object) -> Any:
    if order not in ("C", "F"):
        raise ValueError(f"order is {order!r}; 'C' and 'F' are allowed")
    return order
