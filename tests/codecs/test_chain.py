"""Chains: kinds and order, one program equal to its model, native and Python runs mixed, bounds, pickling."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from terrazzo.codecs import (
    ArrayArrayCodec,
    ArrayBytesCodec,
    BytesBytesCodec,
    BytesCodec,
    Chain,
    ChunkSpec,
    Context,
    Crc32cCodec,
    GzipCodec,
    ShardingCodec,
    TransposeCodec,
    ZstdCodec,
)
from terrazzo.errors import ChecksumError, CodecError, LimitError, MetadataError, UnknownCodecError
from terrazzo.metadata import Extension
from terrazzo.options import Limits
from tests.codecs.codec_chunks import DTYPES, OTHER_ENDIAN, Model, build, noise, same, spec_of


class Plain:
    """What a user's codec has to write of the registry's side."""

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        return cls(**configuration)

    def configuration(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True, eq=False)
class Negate(Plain, ArrayArrayCodec):
    name = "test.negate"

    def resolve(self, spec: ChunkSpec, context: Context) -> ChunkSpec:
        return ChunkSpec(spec.shape, spec.data_type, np.asarray(~spec.fill))

    def encode(self, value: np.ndarray, spec: ChunkSpec) -> np.ndarray:
        return ~value

    def decode(self, value: np.ndarray, spec: ChunkSpec) -> np.ndarray:
        return ~value


@dataclass(frozen=True, eq=False)
class Text(Plain, ArrayBytesCodec):
    """Numbers as text: an array -> bytes codec without native step and of no fixed size."""

    name = "test.text"

    def encode(self, value: np.ndarray, spec: ChunkSpec) -> bytes:
        return " ".join(map(str, value.reshape(-1).tolist())).encode()

    def decode(self, encoded: Any, spec: ChunkSpec) -> np.ndarray:
        numbers = [int(part) for part in bytes(encoded).split()]
        return np.array(numbers, spec.data_type.numpy).reshape(spec.shape)


@dataclass(frozen=True, eq=False)
class Xor(Plain, BytesBytesCodec):
    key: int = 0x5A

    name = "test.xor"

    def encode(self, buffer: Any) -> bytes:
        return (np.frombuffer(buffer, np.uint8) ^ np.uint8(self.key)).tobytes()

    def decode(self, buffer: Any, limit: int) -> bytes:
        return self.encode(buffer)


transposes = st.permutations([0, 1, 2]).map(lambda order: TransposeCodec(tuple(order)))
compressors = st.sampled_from(["gzip:1", "zstd:1", "blosc:lz4", "blosc:zstd:1:bitshuffle", "crc32c"])
chains = st.tuples(
    st.lists(transposes, max_size=2),
    st.sampled_from([BytesCodec("little"), BytesCodec("big")]),
    st.lists(compressors, max_size=3),
).map(lambda parts: [*parts[0], parts[1], *parts[2]])


@given(chains, st.sampled_from(DTYPES), st.tuples(*[st.integers(1, 5)] * 3), st.integers(0, 5))
def test_a_program_equals_its_model(codecs: list[Any], dtype: str, shape: tuple[int, ...], seed: int) -> None:
    spec = spec_of(dtype, shape)
    value = noise(spec, seed)
    chain, model = build(codecs, spec), Model(codecs, spec)
    assert chain.native is not None
    encoded = bytes(chain.encode(value))
    assert encoded == model.encode(value)
    assert same(chain.decode(encoded), value)
    assert same(model.decode(encoded), value)
    assert chain.encoded_nbytes in (None, len(encoded))


mixed = st.tuples(
    st.lists(st.one_of(transposes, st.just(Negate())), max_size=3),
    st.sampled_from([BytesCodec("big"), Text()]),
    st.lists(st.one_of(compressors, st.just(Xor())), max_size=4),
).map(lambda parts: [*parts[0], parts[1], *parts[2]])


@given(mixed, st.tuples(*[st.integers(1, 4)] * 3), st.integers(0, 5))
def test_native_and_python_runs_mix(codecs: list[Any], shape: tuple[int, ...], seed: int) -> None:
    spec = spec_of("int16", shape)
    value = noise(spec, seed)
    chain, model = build(codecs, spec), Model(codecs, spec)
    assert (chain.native is None) == any(isinstance(codec, Negate | Text | Xor) for codec in codecs)
    encoded = bytes(chain.encode(value))
    assert encoded == model.encode(value)
    assert same(chain.decode(encoded), value)
    assert same(chain.decode(memoryview(encoded)), value)
    assert chain.encoded_nbytes in (None, len(encoded))


WRONG_ORDER = {
    "nothing": ([], "codecs: no codec makes bytes of the array"),
    "no serializer": (["transpose"], "codecs: no codec makes bytes"),
    "two serializers": (["bytes", "bytes"], r"codecs\[1\]: bytes makes bytes of an array, but so does bytes"),
    "array codec late": (
        ["bytes", "transpose"],
        r"codecs\[1\]: transpose takes an array, but bytes before it",
    ),
    "bytes codec early": (["gzip", "bytes"], r"codecs\[0\]: gzip takes bytes, but no codec before it"),
}


@pytest.mark.parametrize("codecs, fault", WRONG_ORDER.values(), ids=WRONG_ORDER)
def test_the_order_of_kinds(codecs: list[str], fault: str) -> None:
    made = [TransposeCodec((1, 0)) if codec == "transpose" else codec for codec in codecs]
    with pytest.raises(MetadataError, match=fault):
        build(made, spec_of("u1"))


def test_errors_carry_the_path() -> None:
    with pytest.raises(
        UnknownCodecError, match=r"^a/zarr\.json: codecs\[1\]: found the codec .zstdd.*near it: zstd"
    ):
        build(["bytes", {"name": "zstdd"}], spec_of("u1"), path="a/zarr.json: codecs")


def test_attributes() -> None:
    spec = spec_of("float32", (2, 3))
    chain = build([TransposeCodec((1, 0)), "bytes", "zstd:3", "crc32c"], spec)
    assert chain.spec is spec
    assert [one.shape for one in chain.specs] == [(2, 3), (3, 2)]
    assert chain.filters == (TransposeCodec((1, 0)),)
    assert chain.serializer == BytesCodec("little")
    assert chain.compressors == (ZstdCodec(3), Crc32cCodec())
    assert chain.sharding is None
    assert chain.encoded_nbytes is None
    assert chain.checksummed
    assert not build(["bytes", "zstd"], spec).checksummed
    assert build(["bytes", "crc32c"], spec).encoded_nbytes == 28
    assert not build(["bytes", "crc32c", "zstd"], spec).checksummed
    assert build(["bytes", ZstdCodec(1, True)], spec).checksummed


def test_reshaped() -> None:
    chain = build([TransposeCodec((1, 0)), "bytes"], spec_of("u1", (2, 3))).reshaped((5, 1))
    assert chain.specs[1].shape == (1, 5)
    assert chain.encoded_nbytes == 5
    assert chain.reshaped((0, 4)).encode(np.empty((0, 4), "u1")) in (b"", memoryview(b""))


@pytest.mark.parametrize(
    "codecs", [["bytes", "zstd"], [Negate(), "bytes", Xor(3)], [ShardingCodec((2, 3), ["bytes"])]]
)
def test_a_chain_pickles(codecs: list[Any]) -> None:
    spec = spec_of("int32", (4, 6), 7)
    chain = build(codecs, spec, path="here")
    again: Chain = pickle.loads(pickle.dumps(chain))
    value = noise(spec)
    assert again.encode(value) == chain.encode(value)
    assert same(again.decode(chain.encode(value)), value)
    assert again.codecs == chain.codecs
    assert again.context.path == "here"
    assert again.is_fill(np.full((4, 6), 7, "i4"))


FILLS = [
    ("float32", np.float32("nan"), np.array(0x7FC00001, "u4").view("f4"), False),
    ("float64", 0.0, np.float64(-0.0), False),
    ("float64", -0.0, np.float64(-0.0), True),
    ("complex64", 0, np.complex64(-0.0), False),
    ("int16", 5, np.int16(5), True),
    ("bool", True, np.True_, True),
    ("string", "é", "é", True),
    ("string", "é", "e", False),
]


@pytest.mark.parametrize("dtype, fill, element, expected", FILLS)
def test_is_fill_compares_bits(dtype: str, fill: Any, element: Any, expected: bool) -> None:
    spec = spec_of(dtype, (3, 2), fill)
    chain = build(["vlen-utf8" if dtype == "string" else "bytes"], spec)
    assert chain.is_fill(np.full((3, 2), spec.fill, spec.data_type.numpy))
    value = np.full((3, 2), spec.fill, spec.data_type.numpy)
    value[2, 1] = element
    assert chain.is_fill(value) is expected
    assert chain.is_fill(np.broadcast_to(value[2, 1], (3, 2))) is expected


def test_a_value_of_another_shape_or_order() -> None:
    chain = build(["bytes"], spec_of("int32", (2, 3)))
    with pytest.raises(ValueError, match=r"shape \(3, 2\).*\(2, 3\)"):
        chain.encode(np.zeros((3, 2), "i4"))
    value = np.arange(6, dtype=">i4").reshape(3, 2).T
    assert chain.encode(value) == np.ascontiguousarray(value, "<i4").tobytes()
    assert chain.encode(np.broadcast_to(np.int32(1), (2, 3))) == b"\x01\0\0\0" * 6


def test_large_chunks_are_refused_before_anything_is_allocated() -> None:
    with pytest.raises(LimitError, match=r"codecs.*chunk_nbytes"):
        build(["bytes"], spec_of("float64", (1 << 20, 1 << 20)))
    build(["bytes"], spec_of("u1", (100,)), limits=Limits(chunk_nbytes=100))
    with pytest.raises(LimitError):
        build(["bytes"], spec_of("u1", (101,)), limits=Limits(chunk_nbytes=100))


def test_a_bomb_of_unknown_length_stops_at_the_limit() -> None:
    bomb = GzipCodec(9).encode(bytes(1 << 20))
    chain = build(["vlen-utf8", "gzip"], spec_of("string", (2,)), limits=Limits(chunk_nbytes=1 << 16))
    with pytest.raises(CodecError, match="gzip"):
        chain.decode(bomb)


def test_errors_name_the_codec() -> None:
    spec = spec_of("int16", (4,))

    class Careless(Xor):
        name = "test.careless"

        def decode(self, buffer: Any, limit: int) -> bytes:
            return b"too short" if len(bytes(buffer)) < 100 else bytes(100)

    with pytest.raises(CodecError, match=r"test\.text: ValueError: invalid literal"):
        build([Text()], spec).decode(b"1 2 x 4")
    with pytest.raises(CodecError, match=r"test\.text"):
        build([Text()], spec).decode(b"1 2 3")
    with pytest.raises(CodecError, match=r"test\.careless: .* 9 bytes, must be exactly 8"):
        build(["bytes", Careless()], spec).decode(bytes(8))
    with pytest.raises(ChecksumError, match="crc32c"):
        build([Negate(), "bytes", Xor(), "crc32c"], spec).decode(bytes(12))


def test_codecs_may_be_given_in_every_form() -> None:
    spec = spec_of("int32")
    forms: list[Any] = [
        GzipCodec(5),
        "gzip",
        "gzip:5",
        {"name": "gzip", "configuration": {"level": 5}},
        Extension("gzip", {"level": 5}),
        {"id": "gzip", "level": 5},
    ]
    for form in forms:
        assert build(["bytes", form], spec).codecs[1] == GzipCodec(5)


def test_big_endian_is_native_too() -> None:
    chain = build([BytesCodec(OTHER_ENDIAN), "zstd"], spec_of("int32"))
    assert chain.native is not None
