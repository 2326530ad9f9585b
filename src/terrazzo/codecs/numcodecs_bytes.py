"""numcodecs.* codecs from bytes to bytes: compressors, checksums, shuffle, as documents of zarr-python name them.

What it does not do: codecs of arrays (numcodecs_arrays.py). Most of these run in the kernel or on the standard library;
lz4, fletcher32 and jenkins_lookup3 need the package numcodecs.
Specification: https://numcodecs.readthedocs.io/en/stable/ (the configurations; the formats are those of each codec)
"""

from __future__ import annotations

import base64
import binascii
import bz2
import lzma
import zlib
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from terrazzo.codecs.blosc import SHUFFLES, BloscCodec
from terrazzo.codecs.codec import Buffer, BytesBytesCodec, ChunkSpec, Context, Step
from terrazzo.codecs.configuration import choice, from_members, integer
from terrazzo.codecs.native import NativeCodec, called, crc32c, pipe
from terrazzo.codecs.numcodecs_package import numcodecs_codec
from terrazzo.errors import ChecksumError, CodecError
from terrazzo.metadata.problems import describe, refuse

__all__ = ["BYTES_CODECS"]

SUM_NBYTES = 4
LZMA_MEMORY = 1 << 30


class NamedByNumcodecs(BytesBytesCodec):
    """What all of them share: the configuration is the fields, and every field may be left out."""

    members: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Any:
        return from_members(cls, configuration, path, (), cls.members)

    def configuration(self) -> dict[str, Any]:
        return {member: getattr(self, member) for member in self.members if getattr(self, member) is not None}


class NativeByNumcodecs(NamedByNumcodecs, NativeCodec):
    """One that the kernel knows."""


@dataclass(frozen=True, eq=False)
class Zlib(NativeByNumcodecs):
    """zlib streams. level: 0 to 9, or -1 for the library's choice."""

    level: int = 1

    name = "numcodecs.zlib"
    members = ("level",)
    checksums = True

    def __post_init__(self) -> None:
        integer(self.level, "level", -1, 9)

    def step(self) -> Step:
        return ("zlib", 6 if self.level == -1 else self.level)


@dataclass(frozen=True, eq=False)
class Gzip(NativeByNumcodecs):
    """gzip streams."""

    level: int = 1

    name = "numcodecs.gzip"
    members = ("level",)
    checksums = True

    def __post_init__(self) -> None:
        integer(self.level, "level", 0, 9)

    def step(self) -> Step:
        return ("gzip", self.level)


@dataclass(frozen=True, eq=False)
class Zstd(NativeByNumcodecs):
    """Zstandard frames."""

    level: int = 0
    checksum: bool = False

    name = "numcodecs.zstd"
    members = ("level", "checksum")

    def __post_init__(self) -> None:
        integer(self.level, "level", -131072, 22)
        object.__setattr__(self, "checksums", bool(self.checksum))

    def step(self) -> Step:
        return ("zstd", self.level, bool(self.checksum))


@dataclass(frozen=True, eq=False)
class Blosc(NativeByNumcodecs):
    """Blosc frames. shuffle: 0 none, 1 bytes, 2 bits, -1 by the size of elements."""

    cname: str = "lz4"
    clevel: int = 5
    shuffle: int = 1
    blocksize: int = 0
    typesize: int | None = None

    name = "numcodecs.blosc"
    members = ("cname", "clevel", "shuffle", "blocksize", "typesize")

    def __post_init__(self) -> None:
        integer(self.shuffle, "shuffle", -1, 2)
        self._registered(self.typesize)

    def resolve(self, spec: ChunkSpec, context: Context) -> Blosc:
        return self if self.typesize else replace(self, typesize=spec.data_type.itemsize or 1)

    def step(self) -> Step:
        return self._registered(self.typesize or 1).step()

    def _registered(self, typesize: int | None) -> BloscCodec:
        shuffle = self.shuffle if self.shuffle >= 0 else (2 if typesize == 1 else 1)
        return BloscCodec(self.cname, self.clevel, SHUFFLES[shuffle], typesize or None, self.blocksize)


@dataclass(frozen=True, eq=False)
class BZ2(NamedByNumcodecs):
    """bzip2 streams."""

    level: int = 1

    name = "numcodecs.bz2"
    members = ("level",)
    checksums = True

    def __post_init__(self) -> None:
        integer(self.level, "level", 1, 9)

    def encode(self, buffer: Buffer) -> bytes:
        return bz2.compress(buffer, self.level)

    def decode(self, buffer: Buffer, limit: int) -> bytearray:
        return _decompressed(bz2.BZ2Decompressor, buffer, limit)


@dataclass(frozen=True, eq=False)
class LZMA(NamedByNumcodecs):
    """xz or lzma streams. format: 1 xz, 2 lzma, 3 raw; check, preset and filters as in Python's lzma."""

    format: int = lzma.FORMAT_XZ
    check: int = -1
    preset: int | None = None
    filters: list[dict[str, Any]] | None = None

    name = "numcodecs.lzma"
    members = ("format", "check", "preset", "filters")

    def __post_init__(self) -> None:
        integer(self.format, "format", lzma.FORMAT_XZ, lzma.FORMAT_RAW)
        integer(self.check, "check", -1, lzma.CHECK_ID_MAX)
        if self.preset is not None:
            integer(self.preset, "preset", 0, 9 | lzma.PRESET_EXTREME)
        if self.filters is not None and not (
            isinstance(self.filters, list) and all(isinstance(one, dict) for one in self.filters)
        ):
            refuse(
                "filters", f"found {describe(self.filters)}, must be a list of objects, as in Python's lzma"
            )
        if self.format == lzma.FORMAT_RAW and not self.filters:
            refuse("filters", "is missing; raw streams do not say themselves how they were made")

    def encode(self, buffer: Buffer) -> bytes:
        return lzma.compress(
            buffer, format=self.format, check=self.check, preset=self.preset, filters=self.filters
        )

    def decode(self, buffer: Buffer, limit: int) -> bytearray:
        raw = self.format == lzma.FORMAT_RAW
        memory = None if raw else max(LZMA_MEMORY, limit)
        filters = self.filters if raw else None
        return _decompressed(lambda: lzma.LZMADecompressor(self.format, memory, filters), buffer, limit)


@dataclass(frozen=True, eq=False)
class Shuffle(NamedByNumcodecs):
    """First bytes of all elements, then second bytes, and so on. elementsize: None is that of the data type."""

    elementsize: int | None = None

    name = "numcodecs.shuffle"
    members = ("elementsize",)

    def __post_init__(self) -> None:
        if self.elementsize is not None:
            integer(self.elementsize, "elementsize", 0)

    def resolve(self, spec: ChunkSpec, context: Context) -> Shuffle:
        return self if self.elementsize is not None else Shuffle(spec.data_type.itemsize or 1)

    def encoded_nbytes(self, nbytes: int) -> int:
        return nbytes

    def encode(self, buffer: Buffer) -> bytes:
        return self._elements(buffer).T.tobytes()

    def decode(self, buffer: Buffer, limit: int) -> bytes:
        elements = self._elements(buffer)
        return elements.reshape(elements.shape[1], elements.shape[0]).T.tobytes()

    def _elements(self, buffer: Buffer) -> np.ndarray[Any, Any]:
        size = max(self.elementsize or 1, 1)
        found = np.frombuffer(buffer, np.uint8)
        if found.nbytes % size:
            raise CodecError(f"found {found.nbytes} bytes, must be a multiple of the element size {size}")
        return found.reshape(-1, size)


class Checksum(NamedByNumcodecs):
    """Four bytes before or behind the bytes they check."""

    checksums = True
    at: ClassVar[str] = "end"

    @abstractmethod
    def summed(self, view: memoryview) -> int: ...

    def encoded_nbytes(self, nbytes: int) -> int:
        return nbytes + SUM_NBYTES

    def encode(self, buffer: Buffer) -> bytes:
        view = memoryview(buffer).cast("B")
        stored = self.summed(view).to_bytes(SUM_NBYTES, "little")
        return b"".join((stored, view) if self._at_start else (view, stored))

    def decode(self, buffer: Buffer, limit: int) -> memoryview:
        view = memoryview(buffer).cast("B")
        if len(view) < SUM_NBYTES:
            raise CodecError(f"{len(view)} bytes do not hold a checksum of {SUM_NBYTES}")
        cut = SUM_NBYTES if self._at_start else len(view) - SUM_NBYTES
        first, rest = view[:cut], view[cut:]
        stored, checked = (first, rest) if self._at_start else (rest, first)
        found, expected = self.summed(checked), int.from_bytes(stored, "little")
        if found != expected:
            raise ChecksumError(f"the bytes have {found:#010x}, stored is {expected:#010x}")
        return checked

    @property
    def _at_start(self) -> bool:
        return (getattr(self, "location", None) or self.at) == "start"


@dataclass(frozen=True, eq=False)
class PlacedChecksum(Checksum):
    """location: "start" or "end"; each has its own where nobody says."""

    location: str | None = None

    members = ("location",)

    def __post_init__(self) -> None:
        if self.location is not None:
            choice(self.location, "location", ("start", "end"))


class CRC32(PlacedChecksum):
    name = "numcodecs.crc32"
    at = "start"

    def summed(self, view: memoryview) -> int:
        return zlib.crc32(view)


class Adler32(PlacedChecksum):
    name = "numcodecs.adler32"
    at = "start"

    def summed(self, view: memoryview) -> int:
        return zlib.adler32(view)


class CRC32C(PlacedChecksum):
    name = "numcodecs.crc32c"

    def summed(self, view: memoryview) -> int:
        return crc32c(view)

    def step(self) -> Step | None:
        return None if self._at_start else ("crc32c",)

    def decode(self, buffer: Buffer, limit: int) -> Any:
        if self._at_start:
            return super().decode(buffer, limit)
        return called(pipe([("crc32c",)]).decode, buffer, limit)


@dataclass(frozen=True, eq=False)
class Fletcher32(Checksum):
    """The checksum of HDF5 and netCDF."""

    name = "numcodecs.fletcher32"

    def summed(self, view: memoryview) -> int:
        return _appended(numcodecs_codec("fletcher32", {}), view)


@dataclass(frozen=True, eq=False)
class JenkinsLookup3(Checksum):
    """The checksum of HDF5's own structures."""

    initval: int = 0
    prefix: list[int] | None = None

    name = "numcodecs.jenkins_lookup3"
    members = ("initval", "prefix")

    def __post_init__(self) -> None:
        integer(self.initval, "initval", 0, (1 << 32) - 1)
        if self.prefix is not None:
            found = list(self.prefix) if isinstance(self.prefix, list | bytes) else [self.prefix]
            prefix = [integer(one, "prefix", 0, 255) for one in found]
            object.__setattr__(self, "prefix", prefix)

    def summed(self, view: memoryview) -> int:
        prefix = None if self.prefix is None else bytes(self.prefix)
        return _appended(
            numcodecs_codec("jenkins_lookup3", {"initval": self.initval, "prefix": prefix}), view
        )


@dataclass(frozen=True, eq=False)
class LZ4(NamedByNumcodecs):
    """One LZ4 block behind the number of bytes that it decodes to."""

    acceleration: int = 1

    name = "numcodecs.lz4"
    members = ("acceleration",)

    def __post_init__(self) -> None:
        integer(self.acceleration, "acceleration", -(1 << 31), (1 << 31) - 1)

    def resolve(self, spec: ChunkSpec, context: Context) -> LZ4:
        numcodecs_codec("lz4", {}, context.path)
        return self

    def encode(self, buffer: Buffer) -> bytes:
        codec = numcodecs_codec("lz4", {"acceleration": self.acceleration})
        return bytes(codec.encode(np.frombuffer(buffer, np.uint8)))

    def decode(self, buffer: Buffer, limit: int) -> bytes:
        view = memoryview(buffer).cast("B")
        claimed = int.from_bytes(view[:SUM_NBYTES], "little")
        if len(view) < SUM_NBYTES or claimed > limit:
            raise CodecError(f"{len(view)} bytes claim to decode to {claimed}, at most {limit} are allowed")
        return bytes(numcodecs_codec("lz4", {}).decode(np.frombuffer(buffer, np.uint8)))


#: by the name in documents
@dataclass(frozen=True, eq=False)
class Base64(NamedByNumcodecs):
    """Bytes as the letters of base64."""

    name = "numcodecs.base64"

    def encode(self, buffer: Buffer) -> bytes:
        return base64.b64encode(memoryview(buffer).cast("B"))

    def encoded_nbytes(self, nbytes: int) -> int | None:
        return 4 * -(-nbytes // 3)

    def decode(self, buffer: Buffer, limit: int) -> bytes:
        try:
            return base64.b64decode(bytes(buffer), validate=True)
        except binascii.Error as error:
            raise CodecError(f"the bytes are no base64: {error}") from error


BYTES_CODECS: dict[str, type[NamedByNumcodecs]] = {
    codec.name: codec
    for codec in (
        *(Zlib, Gzip, Zstd, Blosc, BZ2, LZMA, LZ4, Shuffle, Base64),
        *(CRC32, CRC32C, Adler32, Fletcher32, JenkinsLookup3),
    )
}


def _appended(codec: Any, view: memoryview) -> int:
    """The sum that numcodecs puts behind the bytes."""
    encoded = codec.encode(np.frombuffer(view, np.uint8))
    return int.from_bytes(bytes(memoryview(encoded).cast("B")[-SUM_NBYTES:]), "little")


def _decompressed(make: Callable[[], Any], buffer: Buffer, limit: int) -> bytearray:
    """All streams, one behind the other, as far as `limit` allows."""
    out = bytearray()
    rest = bytes(buffer)
    while True:
        stream = make()
        try:
            out += stream.decompress(rest, limit - len(out) + 1)
        except (OSError, EOFError, lzma.LZMAError) as error:
            raise CodecError(f"the bytes do not decode: {error}") from error
        if len(out) > limit:
            raise CodecError(f"the bytes decode to more than {limit} bytes")
        if not stream.eof:
            raise CodecError(f"the bytes are cut short after {len(out)} decoded ones")
        rest = stream.unused_data
        if not rest:
            return out
