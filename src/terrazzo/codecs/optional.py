"""optional: which elements there are, and those alone; a codec that is only proposed (see options.DRAFTS).

What it does not do: any data type but `optional`.
https://github.com/zarr-developers/zarr-extensions/pull/33

A chunk: the lengths of both parts as little-endian uint64, the mask through its codecs, then the elements that are
there, in C order and as one dimension, through theirs; nothing where there is none.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from terrazzo.codecs.codec import Array, ArrayBytesCodec, Buffer, ChunkSpec, Codec, Context
from terrazzo.codecs.configuration import from_members, only_members
from terrazzo.codecs.registry import codec_from
from terrazzo.errors import CodecError, LimitError
from terrazzo.metadata import data_type_from_numpy
from terrazzo.metadata.data_types import Optional
from terrazzo.metadata.problems import describe, join, refuse

if TYPE_CHECKING:
    from terrazzo.codecs.chain import Chain

__all__ = ["OptionalCodec"]

LENGTHS = struct.Struct("<QQ")


@dataclass(frozen=True, eq=False)
class OptionalCodec(ArrayBytesCodec):
    """Elements that may be absent. mask_codecs: of bools in the chunk's shape. data_codecs: of those that are there."""

    mask_codecs: tuple[Codec, ...]
    data_codecs: tuple[Codec, ...]

    name = "optional"

    def __post_init__(self) -> None:
        for member in ("mask_codecs", "data_codecs"):
            object.__setattr__(self, member, _codecs(getattr(self, member), member))

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        at = join(path, "configuration")
        only_members(configuration, at, ("mask_codecs", "data_codecs"))
        members = {member: _codecs(found, join(at, member)) for member, found in configuration.items()}
        return from_members(cls, members, path, ("mask_codecs", "data_codecs"))

    def configuration(self) -> dict[str, Any]:
        return {
            "mask_codecs": [codec.to_dict() for codec in self.mask_codecs],
            "data_codecs": [codec.to_dict() for codec in self.data_codecs],
        }

    def resolve(self, spec: ChunkSpec, context: Context) -> ResolvedOptional:
        data_type = spec.data_type
        if not isinstance(data_type, Optional):
            refuse(context.path, f"optional encodes the data type optional alone, not {data_type}")
        depth = context.depth + 1
        if depth > context.limits.depth:
            raise LimitError(
                f"{context.path}: codecs within codecs more than {context.limits.depth} levels deep"
            )
        nbytes = data_type.numpy.itemsize
        for extent in spec.shape:
            nbytes *= extent
        if nbytes > context.limits.chunk_nbytes:
            raise LimitError(
                f"{context.path}: chunks of shape {spec.shape} take {nbytes:,} bytes, at most "
                f"{context.limits.chunk_nbytes:,} are allowed; raise `chunk_nbytes` in the limits for data you trust"
            )
        assert context.build is not None
        at = join(context.path, "configuration")
        masks = replace(context, path=join(at, "mask_codecs"), depth=depth)
        values = replace(context, path=join(at, "data_codecs"), depth=depth)
        flag = data_type_from_numpy(np.dtype(np.bool_))
        mask_chain = context.build(self.mask_codecs, ChunkSpec(spec.shape, flag, flag.default_fill()), masks)
        inner = data_type.data_type
        data_chain = context.build(self.data_codecs, ChunkSpec((1,), inner, inner.default_fill()), values)
        return ResolvedOptional(
            mask_chain.codecs, data_chain.codecs, mask_chain=mask_chain, data_chain=data_chain
        )

    def encode(self, value: Array, spec: ChunkSpec) -> Buffer:
        raise TypeError("optional encodes as part of a chain")

    def decode(self, encoded: Buffer, spec: ChunkSpec) -> Array:
        raise TypeError("optional decodes as part of a chain")


@dataclass(frozen=True, eq=False)
class ResolvedOptional(OptionalCodec):
    """The codec as a chain holds it, with the chains of both parts."""

    mask_chain: Chain = field(kw_only=True, repr=False)
    data_chain: Chain = field(kw_only=True, repr=False)

    def encode(self, value: Array, spec: ChunkSpec) -> bytes:
        present = value["present"]
        mask = bytes(self.mask_chain.encode(np.ascontiguousarray(present)))
        values = np.ascontiguousarray(value["value"][present])
        parts = bytes(self.data_chain.reshaped(values.shape).encode(values)) if values.size else b""
        return LENGTHS.pack(len(mask), len(parts)) + mask + parts

    def decode(self, encoded: Buffer, spec: ChunkSpec) -> Array:
        view = memoryview(encoded).cast("B")
        if len(view) < LENGTHS.size:
            raise CodecError(f"found {len(view)} bytes, the lengths alone take {LENGTHS.size}")
        mask_nbytes, nbytes = LENGTHS.unpack_from(view)
        if LENGTHS.size + mask_nbytes + nbytes != len(view):
            raise CodecError(
                f"the parts have {mask_nbytes} and {nbytes} bytes, {len(view) - LENGTHS.size} bytes are there"
            )
        body = view[LENGTHS.size :]
        value = np.zeros(spec.shape, spec.data_type.numpy)
        present = self.mask_chain.decode(body[:mask_nbytes])
        value["present"] = present
        count = int(np.count_nonzero(present))
        if count:
            value["value"][present] = self.data_chain.reshaped((count,)).decode(body[mask_nbytes:])
        elif nbytes:
            raise CodecError(f"no element is there, and {nbytes} bytes of elements are")
        return value


def _codecs(found: Any, path: str) -> tuple[Codec, ...]:
    if not isinstance(found, list | tuple):
        refuse(path, f"found {describe(found)}, must be a list of codecs")
    return tuple(codec_from(one, join(path, i)) for i, one in enumerate(found))
