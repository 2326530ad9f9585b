"""n5_default: blocks of N5 as chunks, each with its own shape before its bytes.

What it does not do: find N5's documents (dialects/n5.py), or blocks of its modes "varlength" and "object".
Specification: https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/n5_default

A block says its shape, so that one at the border may be cut to the array: it is padded with the fill value. What is
written has the full shape, as zarr-python and tensorstore wrote.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from terrazzo.codecs.bytes import BytesCodec
from terrazzo.codecs.codec import Array, ArrayBytesCodec, Buffer, BytesBytesCodec, ChunkSpec, Codec, Context
from terrazzo.codecs.configuration import from_members, only_members
from terrazzo.codecs.registry import codec_from
from terrazzo.codecs.transpose import TransposeCodec
from terrazzo.errors import CodecError, LimitError
from terrazzo.metadata.problems import describe, join, refuse

if TYPE_CHECKING:
    from terrazzo.codecs.chain import Chain

__all__ = ["N5DefaultCodec"]

#: what N5 has names for
TYPES = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64")
MODES = {1: "varlength", 2: "object"}
LARGEST = (1 << 32) - 1


@dataclass(frozen=True, eq=False)
class N5DefaultCodec(ArrayBytesCodec):
    """Blocks of N5. codecs: a transpose that reverses all dimensions, big-endian bytes, at most one compressor."""

    codecs: tuple[Codec, ...]

    name = "n5_default"

    def __post_init__(self) -> None:
        object.__setattr__(self, "codecs", _codecs(self.codecs, "codecs"))

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        at = join(path, "configuration")
        only_members(configuration, at, ("codecs",))
        return from_members(
            cls, {"codecs": _codecs(configuration["codecs"], join(at, "codecs"))}, path, ("codecs",)
        )

    def configuration(self) -> dict[str, Any]:
        return {"codecs": [codec.to_dict() for codec in self.codecs]}

    def resolve(self, spec: ChunkSpec, context: Context) -> N5Default:
        at = join(join(context.path, "configuration"), "codecs")
        depth = context.depth + 1
        if depth > context.limits.depth:
            raise LimitError(
                f"{context.path}: codecs within codecs more than {context.limits.depth} levels deep"
            )
        if spec.data_type.name not in TYPES:
            refuse(context.path, f"N5 has the types {', '.join(TYPES)}, not {spec.data_type}")
        if not spec.shape:
            refuse(context.path, "N5 has no arrays without dimensions")
        if max(spec.shape) > LARGEST or len(spec.shape) > 0xFFFF:
            refuse(context.path, f"blocks of N5 have at most {LARGEST} elements along a dimension")
        transpose, serializer = self.codecs[:2]
        assert isinstance(transpose, TransposeCodec)
        assert isinstance(serializer, BytesCodec)
        reverse = list(reversed(range(len(spec.shape))))
        if list(transpose.order) != reverse:
            refuse(
                join(at, 0), f"found the order {describe(list(transpose.order))}, N5 has {describe(reverse)}"
            )
        if spec.data_type.needs_endian and serializer.endian != "big":
            refuse(
                join(at, 1),
                f"found the endianness {describe(serializer.endian)}, N5 has big-endian bytes alone",
            )
        assert context.build is not None
        inside = replace(context, path=at, depth=depth)
        chain = context.build(self.codecs, spec, inside)
        return N5Default(chain.codecs, inner_chain=chain, context=context)

    def encode(self, value: Array, spec: ChunkSpec) -> Buffer:
        raise TypeError("n5_default encodes as part of a chain")

    def decode(self, encoded: Buffer, spec: ChunkSpec) -> Array:
        raise TypeError("n5_default decodes as part of a chain")


@dataclass(frozen=True, eq=False)
class N5Default(N5DefaultCodec):
    """The codec as a chain holds it, with the chain of a block's bytes."""

    inner_chain: Chain = field(kw_only=True, repr=False)
    context: Context = field(kw_only=True, repr=False)

    def encoded_nbytes(self, spec: ChunkSpec) -> int | None:
        return None  # a block at the border may be cut

    def encode(self, value: Array, spec: ChunkSpec) -> bytes:
        head = struct.pack(f">HH{len(spec.shape)}I", 0, len(spec.shape), *spec.shape)
        return head + bytes(self.inner_chain.encode(value))

    def decode(self, encoded: Buffer, spec: ChunkSpec) -> Array:
        view = memoryview(encoded).cast("B")
        shape = self._shape(view, len(spec.shape))
        body = view[4 + 4 * len(shape) :]
        if shape == spec.shape:
            return self.inner_chain.decode(body)
        nbytes = math.prod(shape) * spec.data_type.numpy.itemsize
        if nbytes > self.context.limits.chunk_nbytes:
            raise LimitError(
                f"a block of shape {shape} takes {nbytes:,} bytes, at most {self.context.limits.chunk_nbytes:,} are "
                "allowed; raise `chunk_nbytes` in the limits for data that you trust"
            )
        block = self.inner_chain.reshaped(shape).decode(body)
        value = np.full(spec.shape, spec.fill)
        both = tuple(slice(min(one, other)) for one, other in zip(shape, spec.shape, strict=True))
        value[both] = block[both]
        return value

    def _shape(self, view: memoryview, ndim: int) -> tuple[int, ...]:
        """What the header says, in the order of the array's dimensions."""
        if len(view) < 4 + 4 * ndim:
            raise CodecError(f"found {len(view)} bytes, the header of a block takes {4 + 4 * ndim}")
        mode, count = struct.unpack_from(">HH", view)
        if mode:
            named = MODES.get(mode, "unknown")
            raise CodecError(f"found a block of the mode {mode} ({named}); only 0 (default) can be read")
        if count != ndim:
            raise CodecError(f"found a block of {count} dimensions, the array has {ndim}")
        shape: tuple[int, ...] = struct.unpack_from(f">{ndim}I", view, 4)
        if 0 in shape:
            raise CodecError(f"found a block of shape {shape}, which has no elements")
        return shape


def _codecs(found: Any, path: str) -> tuple[Codec, ...]:
    if not isinstance(found, Sequence) or isinstance(found, str):
        refuse(path, f"found {describe(found)}, must be a list of codecs")
    codecs = tuple(codec_from(one, join(path, i)) for i, one in enumerate(found))
    kinds = (TransposeCodec, BytesCodec, BytesBytesCodec)
    names = ("a transpose of all dimensions", "`bytes`", "a compressor")
    if not 2 <= len(codecs) <= 3:
        refuse(path, f"found {len(codecs)} codecs, must be {', '.join(names[:2])} and at most one compressor")
    for i, (codec, kind, name) in enumerate(zip(codecs, kinds, names, strict=False)):
        if not isinstance(codec, kind):
            refuse(join(path, i), f"found {codec.name}, must be {name}")
    return codecs
