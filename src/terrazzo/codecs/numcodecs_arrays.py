"""numcodecs.* codecs of arrays, run by the package numcodecs, as documents of zarr-python name them.

What it does not do: codecs from bytes to bytes (numcodecs_bytes.py); codecs that run code or need objects.
Specification: https://numcodecs.readthedocs.io/en/stable/

numcodecs works on arrays of the type it is told; the byte order in it is dropped, as elements in memory are native and
order is a matter of the `bytes` codec.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from terrazzo.codecs.bitround import BitRound
from terrazzo.codecs.codec import Array, ArrayArrayCodec, ArrayBytesCodec, Buffer, ChunkSpec, Codec, Context
from terrazzo.codecs.configuration import from_members, integer
from terrazzo.codecs.numcodecs_bytes import BYTES_CODECS
from terrazzo.codecs.numcodecs_objects import OBJECT_CODECS
from terrazzo.codecs.numcodecs_package import numcodecs_codec
from terrazzo.errors import CodecError, UnknownCodecError
from terrazzo.metadata import data_type_from_numpy
from terrazzo.metadata.problems import describe, join, refuse

__all__ = ["NumcodecsBitRound", "NumcodecsFilter", "NumcodecsSerializer"]

PREFIX = "numcodecs."
#: the spellings of numbers, so that no document can name objects or huge records
DTYPE = re.compile(
    r"[<>|=]?(b1|[iu][1248]|f[248]|c(8|16)|[mM]8(\[[a-zA-Z0-9]{1,12}\])?)|bool|u?int(8|16|32|64)|float(16|32|64)"
)
DTYPES = ("dtype", "astype", "encode_dtype", "decode_dtype")

#: identity -> members
FILTERS: dict[str, tuple[str, ...]] = {
    "astype": ("encode_dtype", "decode_dtype"),
    "delta": ("dtype", "astype"),
    "fixedscaleoffset": ("offset", "scale", "dtype", "astype"),
    "packbits": (),
    "quantize": ("digits", "dtype", "astype"),
}
SERIALIZERS: dict[str, tuple[str, ...]] = {
    "pcodec": (
        "level",
        "mode_spec",
        "delta_spec",
        "paging_spec",
        "delta_encoding_order",
        "equal_pages_up_to",
    ),
    "zfpy": ("mode", "tolerance", "rate", "precision", "compression_kwargs"),
}


@dataclass(frozen=True, eq=False)
class NumcodecsFilter(ArrayArrayCodec):
    """astype, delta, fixedscaleoffset, packbits or quantize."""

    identity: str
    members: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", PREFIX + self.identity)
        _check_members(self.members)

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> NumcodecsFilter:
        raise TypeError("a filter of numcodecs is made by its name")

    def configuration(self) -> dict[str, Any]:
        return dict(self.members)

    def resolve(self, spec: ChunkSpec, context: Context) -> ChunkSpec:
        numcodecs_codec(self.identity, self._complete(spec), context.path)
        before = spec.data_type.numpy
        if before.kind not in "biufcmM" or (self.identity == "packbits" and before.kind != "b"):
            allowed = "bool alone" if self.identity == "packbits" else "numbers"
            refuse(context.path, f"{self.name} encodes {allowed}, not {spec.data_type}")
        taken = self._taken(spec)
        if taken.itemsize != before.itemsize:
            at = join(join(context.path, "configuration"), "dtype")
            refuse(at, f"found {taken}, the chunk has elements of {before}")
        after, shape = self._made(spec)
        data_type = data_type_from_numpy(after)
        if self.identity == "packbits":
            fill = np.zeros((), np.uint8)
        elif self.identity == "delta":
            with np.errstate(all="ignore"):
                fill = spec.fill.view(taken).astype(after)
        else:
            one = replace(spec, shape=(1,))
            try:
                fill = self.encode(spec.fill.reshape(1), one).reshape(())
            except (TypeError, ValueError, ArithmeticError) as error:
                refuse(
                    join(context.path, "configuration"),
                    f"cannot be worked with: {type(error).__name__}: {error}",
                )
        fill.setflags(write=False)
        return ChunkSpec(shape, data_type, fill)

    def stated(self, spec: ChunkSpec) -> NumcodecsFilter:
        own = self.members.items()
        return NumcodecsFilter(
            self.identity, {**self._complete(spec), **{k: v for k, v in own if v is not None}}
        )

    def encode(self, value: Array, spec: ChunkSpec) -> Array:
        codec = numcodecs_codec(self.identity, self._complete(spec))
        after, shape = self._made(spec)
        with np.errstate(all="ignore"):
            made = codec.encode(np.ascontiguousarray(value).reshape(-1).view(self._taken(spec)))
        return np.asarray(made).reshape(-1).view(after).reshape(shape)

    def decode(self, value: Array, spec: ChunkSpec) -> Array:
        codec = numcodecs_codec(self.identity, self._complete(spec))
        with np.errstate(all="ignore"):
            made = np.asarray(codec.decode(np.ascontiguousarray(value).reshape(-1)))
        return made.reshape(-1).view(spec.data_type.numpy).reshape(spec.shape)

    def _complete(self, spec: ChunkSpec) -> dict[str, Any]:
        """The members as numcodecs wants them: all of them, in native byte order."""
        given = {name: one for name, one in self.members.items() if one is not None}
        members = {name: _native(one).str if name in DTYPES else one for name, one in given.items()}
        own = spec.data_type.numpy.str
        if self.identity == "astype":
            members.setdefault("encode_dtype", own)
            members.setdefault("decode_dtype", own)
        elif self.identity != "packbits":
            members.setdefault("dtype", own)
        if self.identity == "fixedscaleoffset":
            members = {"offset": 0, "scale": 1, **members}
        return members

    def _taken(self, spec: ChunkSpec) -> np.dtype[Any]:
        """The numpy type that numcodecs is given."""
        members = self._complete(spec)
        found = members.get("decode_dtype" if self.identity == "astype" else "dtype")
        return spec.data_type.numpy if found is None else np.dtype(found)

    def _made(self, spec: ChunkSpec) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """The numpy type and shape that come out."""
        if self.identity == "packbits":
            return np.dtype(np.uint8), (1 + -(-math.prod(spec.shape) // 8),)
        members = self._complete(spec)
        made = (
            members["encode_dtype"] if self.identity == "astype" else members.get("astype", members["dtype"])
        )
        return np.dtype(made), spec.shape


@dataclass(frozen=True, eq=False)
class NumcodecsSerializer(ArrayBytesCodec):
    """pcodec or zfpy; both need a package beside numcodecs."""

    identity: str
    members: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", PREFIX + self.identity)
        _check_members(self.members)

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> NumcodecsSerializer:
        raise TypeError("a serializer of numcodecs is made by its name")

    def configuration(self) -> dict[str, Any]:
        return dict(self.members)

    def resolve(self, spec: ChunkSpec, context: Context) -> NumcodecsSerializer:
        if spec.data_type.numpy.kind not in "iuf":
            refuse(context.path, f"{self.name} encodes integers and floats, not {spec.data_type}")
        numcodecs_codec(self.identity, self.members, context.path)
        return self

    def encode(self, value: Array, spec: ChunkSpec) -> bytes:
        return bytes(numcodecs_codec(self.identity, self.members).encode(np.ascontiguousarray(value)))

    def decode(self, encoded: Buffer, spec: ChunkSpec) -> Array:
        codec = numcodecs_codec(self.identity, self.members)
        n, dtype = math.prod(spec.shape), spec.data_type.numpy
        try:
            if self.identity == "pcodec":
                return _decode_pcodec(bytes(encoded), n, dtype).reshape(spec.shape)
            found = np.asarray(codec.decode(bytes(encoded))).reshape(-1)
        except CodecError:
            raise
        except Exception as error:
            raise CodecError(f"the bytes do not decode: {error}") from error
        if found.dtype != dtype or found.size != n:
            raise CodecError(f"found {found.size} elements of {found.dtype}, must be {n} of {dtype}")
        return found.reshape(spec.shape)


def _decode_pcodec(encoded: bytes, n: int, dtype: np.dtype[Any]) -> Array:
    """Into memory of the right size: numcodecs would believe the header, and not tell how much was found."""
    from pcodec import standalone

    out = np.zeros(n, dtype)
    progress = standalone.simple_decompress_into(encoded, out)
    if progress.n_processed != n or not progress.finished:
        raise CodecError(f"found {progress.n_processed} elements or more, must be {n}")
    return out


@dataclass(frozen=True, eq=False)
class NumcodecsBitRound(BitRound):
    """bitround under the name that zarr-python knows."""

    name: ClassVar[str] = PREFIX + "bitround"  # type: ignore[misc]


def make(name: str, configuration: Mapping[str, Any], path: str) -> Codec:
    """The codec of a document's `numcodecs.*` name."""
    identity = name.removeprefix(PREFIX)
    known: Any = BYTES_CODECS.get(name) or OBJECT_CODECS.get(name)
    if known is not None:
        codec: Codec = known.from_configuration(configuration, path)
        return codec
    if identity == "bitround":
        return NumcodecsBitRound.from_configuration(configuration, path)
    for kind, table in ((NumcodecsFilter, FILTERS), (NumcodecsSerializer, SERIALIZERS)):
        if identity in table:
            required = ("digits",) if identity == "quantize" else ()
            optional = tuple(name for name in table[identity] if name not in required)
            return from_members(partial(_with, kind, identity), configuration, path, required, optional)
    sentence = f"found the codec {describe(name)}, which is not supported; known are {', '.join(names())}"
    raise UnknownCodecError(f"{path}: {sentence}" if path else sentence, ((path, sentence),))


def names() -> tuple[str, ...]:
    return (
        *BYTES_CODECS,
        *OBJECT_CODECS,
        *(PREFIX + identity for identity in ("bitround", *FILTERS, *SERIALIZERS)),
    )


def _with(kind: Callable[[str, Mapping[str, Any]], Codec], identity: str, **members: Any) -> Codec:
    return kind(identity, members)


def _native(spelling: str) -> np.dtype[Any]:
    return np.dtype(spelling).newbyteorder("=")


def _check_members(members: Mapping[str, Any]) -> None:
    for name, found in members.items():
        if name in DTYPES:
            if found is None and name == "astype":
                continue  # as zarrs and numcodecs write what is left out
            if not isinstance(found, str) or not DTYPE.fullmatch(found):
                refuse(name, f'found {describe(found)}, must be the numpy type of a number, such as "<i4"')
        elif name == "digits":
            integer(found, name, -400, 400)
        elif not isinstance(found, int | float | str | dict | None):
            refuse(name, f"found {describe(found)}, must be a number or a name")
