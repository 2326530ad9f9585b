"""Chunks for the codecs' tests: specifications, arrays with every kind of bits, and a chain of Python codecs alone."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from terrazzo.codecs import Chain, ChunkSpec, codec_from
from terrazzo.codecs.codec import ArrayArrayCodec, ArrayBytesCodec, BytesBytesCodec, Context
from terrazzo.metadata import resolve_data_type

DTYPES = [
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
]


def spec_of(dtype: Any, shape: Sequence[int] = (4, 6), fill: Any = None) -> ChunkSpec:
    data_type = resolve_data_type(dtype)
    return ChunkSpec(
        tuple(shape), data_type, data_type.default_fill() if fill is None else data_type.cast_fill(fill)
    )


def noise(spec: ChunkSpec, seed: int = 0) -> np.ndarray:
    """Any bits at all (for bools: 0 and 1)."""
    random = np.random.default_rng(seed)
    dtype = spec.data_type.numpy
    if dtype.kind == "b":
        return random.integers(0, 2, spec.shape).astype(bool)
    n = int(np.prod(spec.shape)) * dtype.itemsize
    return random.integers(0, 256, n, dtype=np.uint8).view(dtype).reshape(spec.shape)


def same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


class Model:
    """A chain as the specification tells it: codec after codec, in Python, nothing compiled."""

    def __init__(self, codecs: Sequence[Any], spec: ChunkSpec) -> None:
        self.steps = []
        context = Context(build=None)
        for codec in map(codec_from, codecs):
            if isinstance(codec, ArrayArrayCodec):
                self.steps.append((codec, spec))
                spec = codec.resolve(spec, context)
            else:
                assert isinstance(codec, ArrayBytesCodec | BytesBytesCodec)
                self.steps.append((codec.resolve(spec, context), spec))

    def encode(self, value: Any) -> bytes:
        for codec, spec in self.steps:
            value = codec.encode(value) if isinstance(codec, BytesBytesCodec) else codec.encode(value, spec)
        return bytes(value)

    def decode(self, encoded: Any) -> np.ndarray:
        for codec, spec in reversed(self.steps):
            if isinstance(codec, BytesBytesCodec):
                encoded = codec.decode(encoded, 1 << 24)
            else:
                encoded = codec.decode(encoded, spec)
        return encoded


def build(codecs: Sequence[Any], spec: ChunkSpec, **options: Any) -> Chain:
    return Chain.build(codecs, spec, **options)


OTHER_ENDIAN = "big" if sys.byteorder == "little" else "little"
