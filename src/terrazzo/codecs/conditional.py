"""conditional: codecs that are applied to some chunks and not to others; a header of bits says to which.

What it does not do: know the chunk's place; a decision looks at the bytes alone.
Specification: https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/conditional
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from terrazzo.codecs.codec import Buffer, BytesBytesCodec, ChunkSpec, Codec, Context
from terrazzo.codecs.configuration import choice, from_members, integer, only_members
from terrazzo.codecs.registry import codec_from
from terrazzo.errors import CodecError, LimitError
from terrazzo.metadata.problems import describe, join, refuse

__all__ = ["Conditional"]

Apply = Literal["smaller", "always", "never"]
MOST_BITS = 1 << 16


@dataclass(frozen=True, eq=False)
class Conditional(BytesBytesCodec):
    """Applies each of `codecs` or skips it. header_bits: None takes the fewest whole bytes.

    apply (never stored): "smaller" skips a codec whose output is longer than its input, unless it is a checksum or
    the like, whose output is always as long; "always" and "never" do as they say.
    """

    codecs: tuple[BytesBytesCodec, ...]
    header_bits: int | None = None
    apply: Apply = field(default="smaller", kw_only=True)

    name = "conditional"

    def __post_init__(self) -> None:
        object.__setattr__(self, "codecs", _codecs(self.codecs, "codecs"))
        choice(self.apply, "apply", ("smaller", "always", "never"))
        least = 8 * -(-len(self.codecs) // 8)
        bits = least if self.header_bits is None else integer(self.header_bits, "header_bits", 0, MOST_BITS)
        if bits % 8 or bits < len(self.codecs):
            refuse("header_bits", f"found {bits}, must be a multiple of 8 and at least {len(self.codecs)}")
        object.__setattr__(self, "header_bits", bits)

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        at = join(path, "configuration")
        only_members(configuration, at, ("codecs",), ("header_bits",))
        members = {**configuration, "codecs": _codecs(configuration["codecs"], join(at, "codecs"))}
        return from_members(cls, members, path, ("codecs",), ("header_bits",))

    def configuration(self) -> dict[str, Any]:
        return {"codecs": [codec.to_dict() for codec in self.codecs], "header_bits": self.header_bits}

    def resolve(self, spec: ChunkSpec, context: Context) -> Conditional:
        depth = context.depth + 1
        if depth > context.limits.depth:
            raise LimitError(
                f"{context.path}: codecs within codecs more than {context.limits.depth} levels deep"
            )
        at = join(join(context.path, "configuration"), "codecs")
        codecs = tuple(
            codec.resolve(spec, replace(context, path=join(at, i), depth=depth))
            for i, codec in enumerate(self.codecs)
        )
        return replace(self, codecs=codecs)

    def encode(self, buffer: Buffer) -> bytes:
        mask = 0
        for i, codec in enumerate(self.codecs):
            if self.apply == "never":
                break
            nbytes = memoryview(buffer).nbytes
            encoded = codec.encode(buffer)
            shorter = memoryview(encoded).nbytes <= nbytes or codec.encoded_nbytes(nbytes) is not None
            if self.apply == "always" or shorter:
                mask |= 1 << i
                buffer = encoded
        return mask.to_bytes((self.header_bits or 0) // 8, "little") + bytes(buffer)

    def decode(self, buffer: Buffer, limit: int) -> Buffer:
        view = memoryview(buffer).cast("B")
        header = (self.header_bits or 0) // 8
        if len(view) < header:
            raise CodecError(f"found {len(view)} bytes, the header alone has {header}")
        mask = int.from_bytes(view[:header], "little")
        if mask >> len(self.codecs):
            raise CodecError(
                f"the header is {mask:#x}, only the bits of {len(self.codecs)} codecs may be set"
            )
        found: Buffer = view[header:]
        for i in reversed(range(len(self.codecs))):
            if mask >> i & 1:
                # room for what the codecs before it may have added to the chunk
                room = limit if not mask & ((1 << i) - 1) else limit + limit // 4 + (1 << 16)
                found = self.codecs[i].decode(found, room)
        if memoryview(found).nbytes > limit:
            raise CodecError(f"the bytes decode to {memoryview(found).nbytes} bytes, more than {limit}")
        return found


def _codecs(found: Any, path: str) -> tuple[BytesBytesCodec, ...]:
    if not isinstance(found, list | tuple):
        refuse(path, f"found {describe(found)}, must be a list of codecs from bytes to bytes")
    codecs: list[BytesBytesCodec] = []
    for i, one in enumerate(found):
        codec: Codec = codec_from(one, join(path, i))
        if not isinstance(codec, BytesBytesCodec):
            refuse(join(path, i), f"{codec.name} is not a codec from bytes to bytes")
        codecs.append(codec)
    return tuple(codecs)
