"""A new array's document, from what a caller says about it: shape, type, chunks, shards, codecs, names, fill value.

What it does not do: write it, or make groups above it (groups). Choices left to us are made here and nowhere else.
Specification: Zarr core 3.0, "Array metadata".

Codecs that the caller names are taken literally. Left to us, chunks are encoded by `bytes` (strings by `vlen-utf8`,
byte strings by `vlen-bytes`), zstd, and crc32c, so that a flipped bit is noticed when it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from terrazzo.chunk_grid import ChunkGrid, RectilinearGrid, RegularGrid
from terrazzo.chunk_keys import ChunkKeys
from terrazzo.codecs import (
    ArrayArrayCodec,
    ArrayBytesCodec,
    BytesBytesCodec,
    Chain,
    ChunkSpec,
    Codec,
    OptionalCodec,
    ShardingCodec,
    codec_from,
)
from terrazzo.errors import MetadataError
from terrazzo.metadata import ArrayMetadata, DataType, Extension, resolve_data_type
from terrazzo.metadata.data_types import Optional
from terrazzo.options import Options
from terrazzo.shapes import chunk_inside, chunk_shape, is_size, shard_shape
from terrazzo.transformers import Transformer, register_transformer

__all__ = ["COMPRESSORS", "DEFAULT", "array_metadata", "data_type_of", "extents"]


class _Default:
    """Stands for "not said", where None says something."""

    def __repr__(self) -> str:
        return "<default>"


#: a fill value nobody named: zero, "", the data type's own
DEFAULT: Final = _Default()
#: what compresses chunks where nobody says
COMPRESSORS: Final = ("zstd:3", "crc32c")
#: what a string or byte string is taken to need where a size in bytes becomes a shape
STRING_NBYTES: Final = 16


def array_metadata(
    shape: int | Sequence[int],
    dtype: Any,
    *,
    chunks: Any = "auto",
    shards: Any = None,
    filters: Any = "auto",
    compressors: Any = "auto",
    serializer: Any = "auto",
    codecs: Any = None,
    fill_value: Any = DEFAULT,
    attributes: Mapping[str, Any] | None = None,
    chunk_key_encoding: Any = None,
    dimension_names: Sequence[str | None] | None = None,
    index_location: str = "end",
    index_codecs: Any = None,
    storage_transformers: Sequence[Any] = (),
    options: Options | None = None,
) -> ArrayMetadata:
    """The document of a new array; raises MetadataError, ValueError or TypeError where something is wrong.

    codecs: all codecs of the stored chunk, literally; the four arguments that name them singly must then be left alone.
    """
    if isinstance(shards, Mapping):
        shards, index_location = _named_shards(shards, index_location)
    if index_location not in ("start", "end"):
        raise ValueError(f"index_location is {index_location!r}; 'end' and 'start' are allowed")
    shape = extents(shape)
    data_type = resolve_data_type(dtype)
    grid, inner = _grid(shape, data_type.itemsize or STRING_NBYTES, chunks, shards)
    if codecs is not None:
        if (
            any(said not in ("auto", None) for said in (filters, compressors, serializer))
            or inner is not None
        ):
            raise ValueError(
                "codecs= names all codecs; leave filters, serializer, compressors and shards out, or codecs"
            )
        chain = _listed(codecs, "codecs", Codec, "a codec")
    else:
        chain = _chain(data_type, filters, serializer, compressors)
        if inner is not None:
            indexed = {} if index_codecs is None else {"index_codecs": tuple(index_codecs)}
            chain = [ShardingCodec(inner, tuple(chain), index_location=index_location, **indexed)]
    fill = (
        data_type.default_fill()
        if fill_value is DEFAULT or fill_value is None
        else data_type.cast_fill(fill_value)
    )
    return ArrayMetadata(
        shape=shape,
        data_type=data_type,
        chunk_grid=Extension.from_json(grid.to_extension()),
        chunk_key_encoding=_key_encoding(chunk_key_encoding),
        fill_value=fill,
        codecs=_resolved(chain, ChunkSpec(grid.distinct_shapes()[0], data_type, fill), options or Options()),
        attributes=dict(attributes or {}),
        storage_transformers=tuple(_transformer(one) for one in storage_transformers),
        dimension_names=_dimension_names(dimension_names, len(shape)),
    )


def _named_shards(shards: Mapping[str, Any], index_location: str) -> tuple[Any, str]:
    """`shards={"shape": ..., "index_location": ...}`, the form that zarr-python has for both."""
    if "shape" not in shards or not set(shards) <= {"shape", "index_location"}:
        raise ValueError(
            f"shards has the keys {sorted(shards)}; 'shape' is needed, 'index_location' is allowed"
        )
    location = shards.get("index_location") or index_location
    return shards["shape"], getattr(location, "value", location)


def extents(shape: object) -> tuple[int, ...]:
    """A shape as callers say it: an integer, or a sequence of them."""
    given = (shape,) if isinstance(shape, int | np.integer) and not isinstance(shape, bool) else shape
    if isinstance(given, str | bytes) or not isinstance(given, Sequence | np.ndarray):
        raise TypeError(f"shape is {shape!r}; an integer or a sequence of integers is allowed")
    for extent in given:
        if isinstance(extent, bool) or not isinstance(extent, int | np.integer):
            raise TypeError(f"shape is {shape!r}; extents are integers, found {extent!r}")
        if extent < 0:
            raise ValueError(f"shape is {shape!r}; extents are not negative, found {int(extent)}")
    return tuple(int(extent) for extent in given)


def data_type_of(values: np.ndarray[Any, Any]) -> Any:
    """What to store numpy values as: their own type; Python objects where all are text or all are bytes."""
    if values.dtype.kind != "O":
        return values.dtype
    kinds = {type(value) for value in values.flat}
    if kinds <= {str}:
        return "string"
    if kinds <= {bytes}:
        return "bytes"
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise TypeError(
        f"an array of Python objects ({names}) has no data type; pass dtype=, or convert the values first "
        "(arrays that hold nothing but str, or nothing but bytes, are stored as they are)"
    )


def _grid(
    shape: tuple[int, ...], itemsize: int, chunks: Any, shards: Any
) -> tuple[ChunkGrid, tuple[int, ...] | None]:
    """The grid of stored chunks, and the inner chunk's shape where they are shards."""
    if isinstance(chunks, ChunkGrid) or _is_nested(chunks):
        if shards is not None and shards is not False:
            raise ValueError(
                "chunks= lists edges, and shards= is given too: the inner chunks of a shard have one shape; "
                "list the edges in shards= and give chunks= one shape"
            )
        return (chunks if isinstance(chunks, ChunkGrid) else _rectilinear(chunks, shape, "chunks")), None
    if is_size(chunks) and isinstance(shards, list | tuple) and len(shards) == len(shape):
        if all(
            (isinstance(edge, int) and edge > 0) or (edge and isinstance(edge, list | tuple))
            for edge in shards
        ):
            chunks = _argument("chunks", lambda: chunk_inside(chunks, shards, itemsize))
    inner = _argument("chunks", lambda: chunk_shape(chunks, shape, itemsize))
    if isinstance(shards, ChunkGrid) or _is_nested(shards):
        return (shards if isinstance(shards, ChunkGrid) else _rectilinear(shards, shape, "shards")), inner
    outer = _argument("shards", lambda: shard_shape(shards, shape, inner, itemsize))
    return (RegularGrid(inner), None) if outer is None else (RegularGrid(outer), inner)


def _argument(name: str, shape: Callable[[], Any]) -> Any:
    try:
        return shape()
    except ValueError as error:
        text = str(error)
        raise ValueError(text if text.startswith(name) else f"{name}: {text}") from None


def _is_nested(spec: Any) -> bool:
    return isinstance(spec, list | tuple) and any(
        isinstance(edges, list | tuple | np.ndarray) for edges in spec
    )


def _rectilinear(spec: Sequence[Any], shape: tuple[int, ...], argument: str) -> ChunkGrid:
    if len(spec) != len(shape):
        raise ValueError(
            f"{argument} lists the edges of {len(spec)} dimensions; the array has {len(shape)}, shape {shape}"
        )
    whole = (None, -1)
    return RectilinearGrid(
        *(
            max(1, extent)
            if not isinstance(edges, list | tuple | np.ndarray) and edges in whole
            else _plain(edges)
            for edges, extent in zip(spec, shape, strict=True)
        )
    )


def _plain(edges: Any) -> Any:
    return edges.tolist() if isinstance(edges, np.ndarray) else edges


def _chain(data_type: DataType, filters: Any, serializer: Any, compressors: Any) -> list[Codec]:
    """The codecs of the chunk that reads touch."""
    left_to_us = compressors == "auto" if isinstance(compressors, str) else False
    return [
        *_listed(
            () if isinstance(filters, str) and filters == "auto" else filters,
            "filters",
            ArrayArrayCodec,
            "a codec from array to array",
        ),
        _serializer(data_type, serializer),
        *_listed(
            COMPRESSORS if left_to_us else compressors,
            "compressors",
            BytesBytesCodec,
            "a codec from bytes to bytes",
        ),
    ]


def _resolved(chain: Sequence[Codec], spec: ChunkSpec, options: Options) -> tuple[Extension, ...]:
    """The codecs with every setting that follows from the chunk filled in, as documents have to state them."""
    built = Chain.build(
        chain,
        spec,
        limits=options.limits,
        path="codecs",
        drafts=options.drafts,
        allow_pickle=options.allow_pickle,
    )
    return tuple(codec.extension() for codec in built.codecs)


def _serializer(data_type: DataType, serializer: Any) -> Codec:
    if not (isinstance(serializer, str) and serializer == "auto") and serializer is not None:
        (codec,) = _listed(serializer, "serializer", ArrayBytesCodec, "a codec from array to bytes")
        return codec
    if isinstance(data_type, Optional):
        inner = _serializer(data_type.data_type, "auto")
        return OptionalCodec((codec_from("packbits"),), (inner,))
    if data_type.itemsize is None:
        return codec_from("vlen-utf8" if data_type.numpy.kind == "T" else "vlen-bytes", "serializer")
    endian = {"endian": "little"} if data_type.needs_endian else {}
    return codec_from(Extension("bytes", endian), "serializer")


def _listed(value: Any, argument: str, kind: Any, wanted: str) -> list[Codec]:
    """None, one codec or several, in any form that stands for a codec."""
    given: list[Any]
    if value is None or (isinstance(value, str) and not value.strip()):
        given = []
    elif isinstance(value, str):
        given = [part for part in value.split(",") if part.strip()]
    elif isinstance(value, Sequence):
        given = list(value)
    else:
        given = [value]
    codecs = []
    for i, one in enumerate(given):
        codec = codec_from(one, argument if len(given) == 1 else f"{argument}[{i}]")
        if not isinstance(codec, kind):
            raise TypeError(
                f"{argument}: found {codec.name!r}, which is not {wanted}; give it to {_place(codec)}"
            )
        codecs.append(codec)
    return codecs


def _place(codec: Codec) -> str:
    kinds = (
        (ArrayArrayCodec, "filters="),
        (ArrayBytesCodec, "serializer="),
        (BytesBytesCodec, "compressors="),
    )
    return next((argument for kind, argument in kinds if isinstance(codec, kind)), "codecs=")


def _key_encoding(value: Any) -> Extension:
    """None, a name, ("default", "."), {"name": "v2", "separator": "."}, the document's object, or an encoding."""
    if value is None:
        return Extension("default", {"separator": "/"})
    if isinstance(value, ChunkKeys):
        return Extension.from_json(value.to_extension())
    if isinstance(value, Extension):
        return value
    if isinstance(value, str):
        value = {"name": value}
    elif isinstance(value, tuple | list) and len(value) == 2:
        value = {"name": value[0], "separator": value[1]}
    elif not isinstance(value, Mapping):
        raise TypeError(
            f"chunk_key_encoding is {value!r}; a name, a pair such as ('default', '.'), "
            "or a dictionary with name and separator is allowed"
        )
    found = dict(value)
    if "separator" in found:
        found["configuration"] = {**found.get("configuration", {}), "separator": found.pop("separator")}
    extension = Extension.from_json(found, "chunk_key_encoding")
    usual = {"default": "/", "v2": "."}
    if not extension.configuration and extension.name in usual:
        return Extension(extension.name, {"separator": usual[extension.name]})
    return extension


def _transformer(value: Any) -> Extension:
    """A transformer's name, the document's object, or a transformer, whose class is made known."""
    if isinstance(value, Transformer):
        register_transformer(type(value))
        return Extension(value.name, value.configuration())
    return Extension.from_json(value, "storage_transformers")


def _dimension_names(names: Sequence[str | None] | None, ndim: int) -> tuple[str | None, ...] | None:
    if names is None:
        return None
    if isinstance(names, str) or not all(name is None or isinstance(name, str) for name in names):
        raise TypeError(
            f"dimension_names is {names!r}; a sequence of names, one per dimension (or None), is allowed"
        )
    if len(names) != ndim:
        raise MetadataError(
            f"dimension_names has {len(names)} names, the array {ndim} dimensions; give one per dimension "
            "(None for a dimension without a name)"
        )
    return tuple(names)
