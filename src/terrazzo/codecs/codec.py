"""The codec contract: three kinds, each a pure transformation of one chunk.

What it does not do: order codecs (chain.py), find them by name (registry.py), touch stores or threads.
Specification: Zarr core 3.0, "Codecs"; names and configurations as registered in zarr-extensions.

A codec is an immutable value: equal configurations are equal codecs, and it pickles. It is checked once, by
`resolve`, against the chunk it will be given; `encode` and `decode` then trust the specification and distrust the
encoded bytes. A codec that the kernel knows also offers `step`; encode and decode must give the same bytes.

To write one: subclass a kind, set `name`, write `from_configuration`, `configuration`, `encode` and `decode`, and pass
the class to `register_codec`, or an object of it wherever codecs are named. An array -> bytes codec that can decode a
part of a chunk from a part of its bytes offers a `PartialReader` besides.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from terrazzo.metadata import DataType, Extension
from terrazzo.options import Limits

if TYPE_CHECKING:
    from terrazzo.codecs.chain import Chain

__all__ = [
    "ArrayArrayCodec",
    "ArrayBytesCodec",
    "Box",
    "BytesBytesCodec",
    "ChunkSpec",
    "Codec",
    "Context",
    "PartialReader",
]

Array = np.ndarray[Any, Any]
#: a part of a chunk: one slice per dimension, with 0 <= start < stop <= extent and no step
Box = tuple[slice, ...]
Buffer = Any  # anything with the buffer protocol
Step = tuple[object, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ChunkSpec:
    """What a codec is given: the shape of a chunk, its data type, and the fill value (0-d, exact bits)."""

    shape: tuple[int, ...]
    data_type: DataType
    fill: Array

    @property
    def nbytes(self) -> int | None:
        """Bytes of the chunk in memory; None for types of variable size."""
        itemsize = self.data_type.itemsize
        if itemsize is None:
            return None
        n = itemsize
        for extent in self.shape:
            n *= extent
        return n


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """Where a codec stands while a chain is built: `path` for errors, limits and strictness for its decisions.

    depth: how many codecs hold this one. drafts, allow_pickle: as in Options. build: makes a chain, for codecs that
    hold codecs of their own.
    """

    path: str = ""
    limits: Limits = field(default_factory=Limits)
    strict: bool = True
    depth: int = 0
    drafts: tuple[str, ...] = ()
    allow_pickle: bool = False
    build: Callable[[Sequence[Codec], ChunkSpec, Context], Chain] | None = None


class Codec(ABC):
    """Any codec."""

    #: as documents spell it
    name: str
    #: the constructor's arguments that a string such as "zstd:5" states, in order
    spelling: ClassVar[tuple[str, ...]] = ()
    #: whether decoding notices that bytes were changed
    checksums: bool = False

    @classmethod
    @abstractmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        """Build from a document; `path` goes into every error. Unknown keys are refused."""

    @abstractmethod
    def configuration(self) -> dict[str, Any]:
        """The configuration, in the form that peers accept."""

    def extension(self) -> Extension:
        return Extension(self.name, self.configuration())

    def to_dict(self) -> dict[str, Any]:
        """The codec as documents hold it."""
        return self.extension().to_json()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Codec) and self.extension() == other.extension()

    def __hash__(self) -> int:
        return hash((self.name, repr(self.configuration())))


class ArrayArrayCodec(Codec):
    """array -> array."""

    @abstractmethod
    def resolve(self, spec: ChunkSpec, context: Context) -> ChunkSpec:
        """What the next codec is given; raises MetadataError where the chunk cannot be encoded."""

    def stated(self, spec: ChunkSpec) -> ArrayArrayCodec:
        """Itself, with whatever follows from `spec` said too; new documents state that."""
        return self

    @abstractmethod
    def encode(self, value: Array, spec: ChunkSpec) -> Array: ...

    @abstractmethod
    def decode(self, value: Array, spec: ChunkSpec) -> Array:
        """`spec` is the specification on the array side, as in `resolve`; the answer has its shape and type."""

    def step(self, spec: ChunkSpec) -> Step | None:
        """The kernel's name for this, or None."""
        return None


class ArrayBytesCodec(Codec):
    """array -> bytes."""

    def resolve(self, spec: ChunkSpec, context: Context) -> ArrayBytesCodec:
        """This codec, checked against the chunk (with derived settings filled in, where it has any)."""
        return self

    def encoded_nbytes(self, spec: ChunkSpec) -> int | None:
        """The length of every encoded chunk, where it is the same for all."""
        return None

    @abstractmethod
    def encode(self, value: Array, spec: ChunkSpec) -> Buffer: ...

    @abstractmethod
    def decode(self, encoded: Buffer, spec: ChunkSpec) -> Array:
        """An array of the specification's shape and type; raises CodecError on anything else."""

    def partial(self, spec: ChunkSpec, nbytes: int) -> PartialReader | None:
        """What reads parts of an encoded chunk of `nbytes` bytes; None: it has to be decoded whole.

        Asked where this codec is the whole chain, for selections that leave out some of the chunk.
        """
        return None

    def step(self, spec: ChunkSpec) -> Step | None:
        return None


class PartialReader(ABC):
    """Decodes a box of one encoded chunk from some of its bytes; safe to use for many boxes.

    Byte ranges are (start, length) in the encoded chunk. Those that lie outside of it are refused, and so is an answer
    of another shape or data type than the box has.
    """

    def heads(self) -> Sequence[tuple[int, int]]:
        """The ranges that tell where the rest lies, as a table of offsets does; none where arithmetic is enough."""
        return ()

    @abstractmethod
    def ranges(self, heads: Sequence[Buffer], box: Box) -> Sequence[tuple[int, int]]:
        """The ranges that this box takes; `heads` holds the bytes of the ranges asked for by `heads()`."""

    @abstractmethod
    def decode(self, heads: Sequence[Buffer], parts: Sequence[Buffer], box: Box) -> Array:
        """The elements of the box, from the bytes of its ranges, in the order in which they were asked for."""


class BytesBytesCodec(Codec):
    """bytes -> bytes."""

    def resolve(self, spec: ChunkSpec, context: Context) -> BytesBytesCodec:
        """This codec with settings that follow from the array -> bytes codec's input (blosc's typesize)."""
        return self

    def encoded_nbytes(self, nbytes: int) -> int | None:
        """The encoded length of `nbytes` bytes, where it follows from it."""
        return None

    @abstractmethod
    def encode(self, buffer: Buffer) -> Buffer: ...

    @abstractmethod
    def decode(self, buffer: Buffer, limit: int) -> Buffer:
        """Never produces more than `limit` bytes: raises CodecError instead, before allocating them."""

    def step(self) -> Step | None:
        return None
