"""zfp: chunks of 1 to 4 dimensions as streams of the zfp library, without its header.

What it does not do: numcodecs' codec, whose streams have one (numcodecs.zfpy). Compress in expert mode: the package
zfpy has no door to it; such chunks are read.
Specification: https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/zfp

zfp reads past the end of a stream that was cut short. It is given a buffer with room for the longest stream that its
parameters allow, so it meets zeros there and never another's memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from terrazzo.codecs.codec import Array, ArrayBytesCodec, Buffer, ChunkSpec, Context
from terrazzo.codecs.configuration import choice, from_members, integer, only_members
from terrazzo.errors import CodecError, UnknownCodecError
from terrazzo.metadata.data_types import DataType, NumpyTime
from terrazzo.metadata.problems import describe, join, refuse

__all__ = ["ZfpCodec"]

#: what each mode has to state
MODES: dict[str, tuple[str, ...]] = {
    "reversible": (),
    "expert": ("minbits", "maxbits", "maxprec", "minexp"),
    "fixed_accuracy": ("tolerance",),
    "fixed_rate": ("rate",),
    "fixed_precision": ("precision",),
}
#: the library's own: the number of each type in a header, the bits of its values, and of what describes a block
TYPES = {"i4": (1, 32, 0), "i8": (2, 64, 0), "f4": (3, 32, 8), "f8": (4, 64, 11)}
MAGIC = int.from_bytes(b"zfp\x05", "little")
WORD_NBITS = 64
#: bits that the length of a header's field of sizes has, for 1 to 4 dimensions
SIZES = {1: 48, 2: 24, 3: 16, 4: 12}
MOST_BITS, LEAST_EXPONENT = 16658, -1074
#: what hostile parameters may ask for at most: bits of a block, exponents, and bits per value
MOST, MOST_RATE = 1 << 18, 1024.0


class Held(NamedTuple):
    """What the library is given for elements of a data type: a type, and how elements become such values."""

    dtype: str
    shift: int = 0
    offset: int = 0
    kind: str = "same"


HELD = {
    "int8": Held("i4", 23),
    "uint8": Held("i4", 23, 1 << 7),
    "int16": Held("i4", 15),
    "uint16": Held("i4", 15, 1 << 15),
    "int32": Held("i4"),
    "int64": Held("i8"),
    "uint32": Held("i4", kind="unsigned"),
    "uint64": Held("i8", kind="unsigned"),
    "float16": Held("f4", kind="wider"),
    "bfloat16": Held("f4", kind="wider"),
    "float32": Held("f4"),
    "float64": Held("f8"),
}


@dataclass(frozen=True, eq=False)
class ZfpCodec(ArrayBytesCodec):
    """Numbers compressed by zfp. mode: "reversible" (lossless), "fixed_accuracy" (tolerance: largest error),
    "fixed_rate" (rate: bits per value), "fixed_precision" (precision: bits kept of each), or "expert"."""

    mode: str
    tolerance: float | None = None
    rate: float | None = None
    precision: int | None = None
    minbits: int | None = None
    maxbits: int | None = None
    maxprec: int | None = None
    minexp: int | None = None

    name = "zfp"
    spelling = ("mode",)

    def __post_init__(self) -> None:
        choice(self.mode, "mode", tuple(MODES))
        for members in MODES.values():
            for member in members:
                found = getattr(self, member)
                if (found is None) == (member in MODES[self.mode]):
                    sentence = "is missing" if found is None else f"is not a member of the mode {self.mode}"
                    refuse(member, f"{sentence}; {self.mode} has {', '.join(MODES[self.mode]) or 'none'}")
        for member in ("precision", "minbits", "maxbits", "maxprec", "minexp"):
            if getattr(self, member) is not None:
                least = -MOST if member == "minexp" else 0
                object.__setattr__(self, member, integer(getattr(self, member), member, least, MOST))
        for member, most in (("tolerance", math.inf), ("rate", MOST_RATE)):
            if getattr(self, member) is not None:
                _check_number(getattr(self, member), member, most)

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        at = join(path, "configuration")
        mode = configuration.get("mode")
        if isinstance(mode, str) and mode in MODES:
            only_members(configuration, at, ("mode", *MODES[mode]))
        return from_members(cls, configuration, path, ("mode",), tuple(configuration.keys() - {"mode"}))

    def configuration(self) -> dict[str, Any]:
        return {"mode": self.mode, **{member: getattr(self, member) for member in MODES[self.mode]}}

    def resolve(self, spec: ChunkSpec, context: Context) -> Self:
        _zfpy(context.path)
        if _held(spec.data_type) is None:
            refuse(context.path, f"zfp encodes {', '.join(HELD)} and dates, not {spec.data_type}")
        if len(spec.shape) > 4:
            sentence = f"zfp encodes chunks of at most 4 dimensions, this one has {len(spec.shape)}"
            refuse(context.path, f"{sentence}; put `reshape` before it")
        return self

    def encode(self, value: Array, spec: ChunkSpec) -> bytes:
        if self.mode == "expert":
            raise CodecError(
                'the package zfpy cannot compress in expert mode; choose another mode, such as "fixed_rate"'
            )
        prepared = np.ascontiguousarray(_promoted(value, spec).reshape(spec.shape or (1,)))
        if prepared.size == 0:
            return b""
        return bytes(_zfpy().compress_numpy(prepared, **self._arguments(), write_header=False))

    def decode(self, encoded: Buffer, spec: ChunkSpec) -> Array:
        held = _held(spec.data_type)
        assert held is not None
        shape = spec.shape or (1,)
        if 0 in shape:
            return np.empty(spec.shape, spec.data_type.numpy)
        longest = self._longest(held, shape)
        stream = bytes(encoded)
        if not stream or len(stream) > longest:
            raise CodecError(f"found {len(stream)} bytes, a chunk of shape {spec.shape} takes 1 to {longest}")
        if self.mode == "expert":
            stream = self._headed(stream, held, shape)
            found = _zfpy().decompress_numpy(stream + bytes(longest + 64))
        else:
            number = TYPES[held.dtype][0]
            found = _zfpy()._decompress(stream.ljust(longest, b"\0"), number, shape, **self._arguments())
        found = np.asarray(found)
        if found.shape != shape or found.dtype != np.dtype(held.dtype):
            raise CodecError(f"found {found.dtype} of shape {found.shape}, must be {held.dtype} of {shape}")
        return _demoted(found, held, spec).reshape(spec.shape)

    def _arguments(self) -> dict[str, float]:
        """As zfpy takes them; without any it is reversible."""
        members = {member: getattr(self, member) for member in MODES[self.mode]}
        return {name: found for name, found in members.items() if found is not None}

    def _parameters(self, held: Held, ndim: int) -> tuple[int, int, int, int]:
        """minbits, maxbits, maxprec and minexp, which every mode comes down to, as bounds."""
        if self.mode == "expert":
            assert self.minbits is not None
            assert self.maxbits is not None
            assert self.maxprec is not None
            assert self.minexp is not None
            return self.minbits, self.maxbits, max(1, self.maxprec), self.minexp
        precision = self.precision or WORD_NBITS  # for the library, 0 is all
        least = 0
        if self.rate is not None:
            # every block gets as many, or what its head takes
            least = math.ceil(self.rate * 4**ndim) + WORD_NBITS
        return least, MOST_BITS, precision, LEAST_EXPONENT

    def _longest(self, held: Held, shape: tuple[int, ...]) -> int:
        """Bytes that no stream of such a chunk is longer than, in whole words of the library."""
        minbits, maxbits, maxprec, _ = self._parameters(held, len(shape))
        _, width, exponent = TYPES[held.dtype]
        values = 4 ** len(shape)
        blocks = math.prod(-(-extent // 4) for extent in shape)
        # a block: whether it is zero, its exponent, the mode of a lossless one and its precision, bit planes with a
        # bit for each group test
        head = 2 + exponent + 8
        nbits = max(min(maxbits, head + values - 1 + values * min(maxprec, width)), minbits)
        words: int = -(-(blocks * nbits) // WORD_NBITS) + 1
        return 8 * words

    def _headed(self, stream: bytes, held: Held, shape: tuple[int, ...]) -> bytes:
        """The stream behind the header that the library would have written: the only way to tell it four parameters."""
        minbits, maxbits, maxprec, minexp = self._parameters(held, len(shape))
        sizes = 0
        for extent in shape:
            if extent > 1 << SIZES[len(shape)]:
                raise CodecError(f"chunks of shape {shape} are too large for a header of zfp")
            sizes = sizes << SIZES[len(shape)] | extent - 1
        sizes = sizes << 2 | len(shape) - 1
        sizes = sizes << 2 | TYPES[held.dtype][0] - 1
        mode = max(0, min(minexp + 16495, 0x7FFF))
        mode = mode << 7 | max(1, min(maxprec, 0x80)) - 1
        mode = mode << 15 | max(1, min(maxbits, 0x8000)) - 1
        mode = mode << 15 | max(1, min(minbits, 0x8000)) - 1
        mode = mode << 12 | 0xFFF
        head = MAGIC | sizes << 32 | mode << 84
        whole = int.from_bytes(stream, "little") << 148 | head
        return whole.to_bytes(len(stream) + 19, "little")


def _held(data_type: DataType) -> Held | None:
    return HELD["int64"] if isinstance(data_type, NumpyTime) else HELD.get(data_type.name)


def _promoted(value: Array, spec: ChunkSpec) -> Array:
    """Elements as the library takes them, after its own functions of that name."""
    held = _held(spec.data_type)
    assert held is not None
    made = np.dtype(held.dtype)
    if held.shift:
        return (value.astype(made) - held.offset) << held.shift
    if held.kind == "wider":
        return value.astype(made)
    if held.kind == "unsigned" and value.size and int(value.max()) > np.iinfo(made).max:
        largest = np.iinfo(made).max
        raise CodecError(f"zfp has no unsigned integers: {spec.data_type} is held up to {largest}")
    return np.ascontiguousarray(value).view(made)


def _demoted(found: Array, held: Held, spec: ChunkSpec) -> Array:
    dtype = spec.data_type.numpy
    if held.shift:
        limits = np.iinfo(dtype)
        values = (found >> held.shift) + held.offset
        return values.clip(limits.min, limits.max).astype(dtype)
    if held.kind == "wider":
        with np.errstate(over="ignore"):
            return found.astype(dtype)
    if held.kind == "unsigned":
        return np.maximum(found, 0).view(dtype)
    return found.view(dtype)


def _check_number(value: object, member: str, most: float) -> None:
    least = 0.0 if member == "tolerance" else 2.0**-20
    known = not isinstance(value, bool) and isinstance(value, int | float)
    if not known or not math.isfinite(value) or not least <= value <= most:  # type: ignore[arg-type,operator]
        allowed = "" if most == math.inf else f", at most {most:g}"
        refuse(member, f"found {describe(value)}, must be a number above 0{allowed}")


def _zfpy(path: str = "") -> Any:
    try:
        import zfpy
    except ImportError as error:
        sentence = "zfp needs the package zfpy: pip install 'terrazzo[zfp]'"
        raise UnknownCodecError(f"{path}: {sentence}" if path else sentence, ((path, sentence),)) from error
    return zfpy
