"""The copy of a file of another format into an array, block by block.

What it does not do: know formats; whatever `open_source` opens can be imported.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from terrazzo.arrays.array import Array
from terrazzo.arrays.creation import DEFAULT
from terrazzo.blocks import pour, transfer
from terrazzo.config import options_from
from terrazzo.groups.creating import create_array
from terrazzo.groups.places import StoreLike
from terrazzo.importing.formats import open_source
from terrazzo.importing.source import Imported
from terrazzo.options import Options
from terrazzo.progress import Progress, follow

__all__ = ["import_array"]


def import_array(
    source: str | os.PathLike[str] | Imported,
    destination: StoreLike,
    *,
    name: str | None = None,
    variable: str | None = None,
    format: str | None = None,
    chunks: Any = "auto",
    shards: Any = "auto",
    filters: Any = "auto",
    compressors: Any = "auto",
    serializer: Any = "auto",
    fill_value: Any = DEFAULT,
    attributes: Mapping[str, Any] | None = None,
    dimension_names: Sequence[str | None] | None = None,
    index_location: str = "end",
    overwrite: bool = False,
    memory: int | None = None,
    verify: bool = False,
    progress: Progress = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Array:
    """Copy one array out of a file of another format, and answer the new array.

    source: a local file, or what `open_source` opened. destination, name: as in `create_array`. variable, format: as
    in `open_source`. chunks: as in `create_array`, or "source" for the shape of the pieces that the file is stored in.
    Values are those of the file; scale and offset stay in the attributes. `attributes` are added to those of the file;
    fill_value and dimension_names go before those of the file.

    Blocks of whole shards are copied, as many as fit into `memory` bytes (by default the setting of that name) and one
    at least, unless the file's pieces fit into the inner chunks: then a shard takes no more than `memory` either.
    verify: every block is read back. progress: counts bytes. When it returns the array is durable (in an archive once
    its store is closed); after an error a part of it is there, and `overwrite=True` starts again.
    """
    options = options_from(None)
    with (
        nullcontext(source)
        if isinstance(source, Imported)
        else open_source(source, variable, format) as opened
    ):
        if isinstance(chunks, str) and chunks == "source":
            chunks = opened.chunks if opened.chunks is not None else "auto"
        if fill_value is DEFAULT and opened.fill_value is not None:
            fill_value = opened.fill_value
        array = create_array(
            destination,
            name=name,
            shape=opened.shape,
            dtype=opened.dtype,
            chunks=chunks,
            shards=shards,
            filters=filters,
            compressors=compressors,
            serializer=serializer,
            fill_value=fill_value,
            attributes={**opened.attributes, **(attributes or {})},
            dimension_names=opened.dimension_names if dimension_names is None else dimension_names,
            index_location=index_location,
            overwrite=overwrite,
            storage_options=storage_options,
            options=_together(options),
        )
        total = array.size * array.dtype.itemsize
        with follow(progress, total, f"importing {os.path.basename(opened.path)}") as step:
            layout, memory = array.layout, memory or options.memory
            shard = layout.grid.uniform_shape
            words = f"the array {array.name!r}"
            inner = layout.inner_shape
            if inner and shard and layout.object_nbytes > memory and _divides(opened.chunks, inner):
                pour(opened.read, array, shard, inner, memory, step=step, verify=verify, words=words)
            else:
                unit = shard or array.write_chunk_sizes
                transfer(opened.read, array, unit, memory, step=step, verify=verify, words=words)
    array.store.sync()
    return Array(array.store, array.path, array.metadata, options, array.strategy)


def _divides(stored: Sequence[int] | None, inner: Sequence[int]) -> bool:
    """Whether reading inner chunk by inner chunk decodes no piece of the file twice."""
    return stored is None or all(c % s == 0 for c, s in zip(inner, stored, strict=True))


def _together(options: Options) -> Options:
    """Durable at the end, all objects together, rather than each block on its own."""
    return replace(options, durability="rename") if options.durability == "fsync" else options
