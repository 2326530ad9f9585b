"""blosc: blocks, shuffled and compressed by one of several compressors; frames of c-blosc 1.

What it does not do: frames of c-blosc 2.
Specification: https://zarr-specs.readthedocs.io/en/latest/v3/codecs/blosc/index.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from terrazzo.codecs.codec import ChunkSpec, Context, Step
from terrazzo.codecs.configuration import choice, from_members, integer
from terrazzo.codecs.native import NativeCodec
from terrazzo.metadata.problems import describe, doubt, join, refuse

__all__ = ["BloscCodec"]

CNAMES = ("lz4", "lz4hc", "blosclz", "zstd", "snappy", "zlib")
SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")
#: the header of a frame has one byte for it
LARGEST_TYPESIZE = 255


@dataclass(frozen=True, eq=False)
class BloscCodec(NativeCodec):
    """Blosc. clevel: 0 to 9. shuffle, typesize: None takes them from the data type. blocksize: 0 leaves it open."""

    cname: str = "zstd"
    clevel: int = 5
    shuffle: str | None = None
    typesize: int | None = None
    blocksize: int = 0
    #: from a document, which has to state everything
    stated: bool = field(default=False, kw_only=True, repr=False)

    name = "blosc"
    spelling = ("cname", "clevel", "shuffle", "typesize", "blocksize")

    def __post_init__(self) -> None:
        cname = getattr(self.cname, "value", self.cname)
        shuffle = getattr(self.shuffle, "value", self.shuffle)
        object.__setattr__(self, "cname", choice(cname, "cname", CNAMES))
        object.__setattr__(self, "clevel", integer(self.clevel, "clevel", 0, 9))
        if shuffle is not None:
            if isinstance(shuffle, int) and not isinstance(shuffle, bool) and 0 <= shuffle <= 2:
                sentence = (
                    f"found {shuffle}, which is the form of Zarr v2; must be {describe(SHUFFLES[shuffle])}"
                )
                refuse("shuffle", sentence)
            object.__setattr__(self, "shuffle", choice(shuffle, "shuffle", SHUFFLES))
        if self.typesize is not None:
            object.__setattr__(self, "typesize", integer(self.typesize, "typesize", 1))
        object.__setattr__(self, "blocksize", integer(self.blocksize, "blocksize", 0, (1 << 31) - 1))

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        codec = from_members(
            cls, configuration, path, ("cname", "clevel", "shuffle", "blocksize"), ("typesize",)
        )
        return replace(codec, stated=True)

    def configuration(self) -> dict[str, Any]:
        members: dict[str, Any] = {"cname": self.cname, "clevel": self.clevel}
        if self.shuffle is not None:
            members["shuffle"] = self.shuffle
        if self.typesize is not None:
            members["typesize"] = self.typesize
        return {**members, "blocksize": self.blocksize}

    def resolve(self, spec: ChunkSpec, context: Context) -> BloscCodec:
        itemsize = spec.data_type.itemsize or 1
        shuffle, typesize = self.shuffle, self.typesize
        if shuffle is None:
            shuffle = "bitshuffle" if itemsize == 1 else "shuffle"
        if typesize is None:
            if self.stated and shuffle != "noshuffle":
                at = join(join(context.path, "configuration"), "typesize")
                sentence = f"is missing, but {shuffle} needs it; {itemsize} follows from the data type"
                doubt(at, sentence, strict=context.strict)
            typesize = itemsize
        return replace(self, shuffle=shuffle, typesize=typesize)

    def step(self) -> Step:
        typesize = self.typesize or 1
        shuffle = SHUFFLES.index(self.shuffle or "noshuffle")
        typesize = typesize if typesize <= LARGEST_TYPESIZE else 1
        return ("blosc", self.cname, self.clevel, shuffle, typesize, self.blocksize)
