"""The codec contract: three kinds, each a pure transformation of one chunk.

What it does not do: order codecs (chain.py), find them by name (registry.py), touch stores or threads.
Specification: Zarr core 3.0, "Codecs"; names and configurations as registered in zarr-extensions.

A codec is an immutable value: equal configurations are equal codecs, and it pickles. It is checked once, by
`resolve`, against the chunk it will be given; `encode` and `decode` then trust the specification and distrust the
encoded bytes. A codec that the kernel knows also offers `step`; encode and decode must give the same bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from terrazzo.metadata import DataType, Extension

__all__ = ["ArrayArrayCodec", "ArrayBytesCodec", "BytesBytesCodec", "ChunkSpec", "Codec", "PartialReader"]

Buffer = Any  # anything with the buffer protocol
Step = tuple[object, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ChunkSpec:
    """What a codec is given: the shape of a chunk, its data type, and the fill value (0-d, exact bits)."""

    shape: tuple[int, ...]
    data_type: DataType
    fill: np.ndarray[Any, Any]

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


class Codec(ABC):
    """Any codec."""

    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        """Build from a document; `path` goes into every error. Unknown keys are refused."""

    @abstractmethod
    def configuration(self) -> dict[str, Any]:
        """The configuration, in the form that peers accept."""

    def extension(self) -> Extension:
        return Extension(self.name, self.configuration())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Codec) and self.extension() == other.extension()

    def __hash__(self) -> int:
        return hash((self.name, repr(self.configuration())))


class ArrayArrayCodec(Codec):
    """array -> array."""

    @abstractmethod
    def resolve(self, spec: ChunkSpec) -> ChunkSpec:
        """What the next codec is given; raises MetadataError where the chunk cannot be encoded."""

    @abstractmethod
    def encode(self, value: np.ndarray[Any, Any], spec: ChunkSpec) -> np.ndarray[Any, Any]: ...

    @abstractmethod
    def decode(self, value: np.ndarray[Any, Any], spec: ChunkSpec) -> np.ndarray[Any, Any]:
        """`spec` is the specification on the array side, as in `resolve`; the answer has its shape and type."""

    def step(self, spec: ChunkSpec) -> Step | None:
        """The kernel's name for this, or None."""
        return None


class ArrayBytesCodec(Codec):
    """array -> bytes."""

    def resolve(self, spec: ChunkSpec) -> Self:
        """This codec, checked against the chunk (with derived settings filled in, where it has any)."""
        return self

    def encoded_nbytes(self, spec: ChunkSpec) -> int | None:
        """The length of every encoded chunk, where it is the same for all."""
        return None

    @abstractmethod
    def encode(self, value: np.ndarray[Any, Any], spec: ChunkSpec) -> Buffer: ...

    @abstractmethod
    def decode(self, encoded: Buffer, spec: ChunkSpec) -> np.ndarray[Any, Any]:
        """An array of the specification's shape and type; raises CodecError on anything else."""

    def step(self, spec: ChunkSpec) -> Step | None:
        return None

    def partial(self, spec: ChunkSpec) -> PartialReader | None:
        """A reader of parts of an encoded chunk, for codecs that need not read all of it."""
        return None


class PartialReader(ABC):
    """Reads a part of one encoded chunk in rounds of byte ranges (relative to the encoded chunk)."""

    @abstractmethod
    def first(self) -> tuple[int, int | None]:
        """The range to read first; a negative start counts from the end."""

    @abstractmethod
    def ranges(self, first: Buffer, selection: tuple[slice, ...]) -> Sequence[tuple[int, int]]:
        """The ranges that the selection needs, given the bytes of `first`."""

    @abstractmethod
    def decode(self, first: Buffer, parts: Sequence[Buffer], selection: tuple[slice, ...]) -> np.ndarray[Any, Any]:
        """The selected part of the chunk."""


class BytesBytesCodec(Codec):
    """bytes -> bytes."""

    def resolve(self, spec: ChunkSpec) -> Self:
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
