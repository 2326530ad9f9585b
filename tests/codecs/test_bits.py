"""packbits and bitround: bytes by hand, every data type, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from terrazzo.codecs import BitRound, PackBits, codec_from
from terrazzo.errors import CodecError, MetadataError
from tests.codecs.codec_chunks import build, noise, same, spec_of

SMALL = ["int2", "uint2", "int4", "uint4", "float4_e2m1fn", "float6_e2m3fn", "float8_e4m3", "bfloat16"]


def test_bools_fill_bytes_from_the_low_bit() -> None:
    value = np.array([1, 0, 0, 0, 0, 0, 0, 0, 1, 1], bool)
    spec = spec_of("bool", (10,))
    assert build([PackBits()], spec).encode(value) == b"\x01\x03"
    assert build([PackBits("first_byte")], spec).encode(value) == b"\x06\x01\x03"
    assert build([PackBits("last_byte")], spec).encode(value) == b"\x01\x03\x06"
    assert build([PackBits()], spec).decode(b"\x01\x03").tolist() == value.tolist()


def test_integers_by_hand() -> None:
    four = build([PackBits()], spec_of("uint4", (3,)))
    assert four.encode(np.array([1, 2, 15]).astype(four.spec.data_type.numpy)) == b"\x21\x0f"
    # five bits each of 1, 2, 31: 00001 | 00010 | 11111, from the low end
    five = build([PackBits(last_bit=4)], spec_of("uint16", (3,)))
    assert five.encode(np.array([1, 2, 31], np.uint16)) == (1 | 2 << 5 | 31 << 10).to_bytes(2, "little")
    # bits 4..11 are the middle byte
    middle = build([PackBits(first_bit=4, last_bit=11)], spec_of("uint16", (2,)))
    assert middle.encode(np.array([0x1AB2, 0xFCDF], np.uint16)) == b"\xab\xcd"
    assert middle.decode(b"\xab\xcd").tolist() == [0x0AB0, 0x0CD0]
    signed = build([PackBits(last_bit=2)], spec_of("int32", (3,)))
    assert signed.decode(signed.encode(np.array([-4, -1, 3], np.int32))).tolist() == [-4, -1, 3]


def test_wide_elements_are_little_endian() -> None:
    spec = spec_of("float64", (2,))
    value = np.array([1.5, -2.5])
    assert build([PackBits()], spec).encode(value) == value.astype("<f8").tobytes()
    complex_ = spec_of("complex64", (1,))
    packed = build([PackBits(first_bit=16)], complex_).encode(np.array([1 + 2j], np.complex64))
    assert packed == np.array([1], ">f4").tobytes()[1::-1] + np.array([2], ">f4").tobytes()[1::-1]


@pytest.mark.parametrize("padding", ["none", "first_byte", "last_byte"])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float32", "complex128", *SMALL])
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (16,)])
def test_round_trips(dtype: str, padding: str, shape: tuple[int, ...]) -> None:
    spec = spec_of(dtype, shape)
    chain = build([PackBits(padding)], spec)
    codec = chain.serializer
    value = codec.decode(bytes(codec.encode(noise(spec), spec)), spec)  # upper bits of small types fall away
    encoded = chain.encode(value)
    assert len(encoded) == chain.encoded_nbytes
    assert same(chain.decode(encoded), value)


@given(
    st.integers(0, 15), st.integers(0, 15), st.lists(st.integers(-(2**15), 2**15 - 1), min_size=5, max_size=5)
)
def test_bits_outside_fall_away(one: int, other: int, numbers: list[int]) -> None:
    first, last = min(one, other), max(one, other)
    chain = build([PackBits(first_bit=first, last_bit=last)], spec_of("int16", (5,)))
    decoded = chain.decode(chain.encode(np.array(numbers, np.int16)))
    width = last - first + 1
    for number, found in zip(numbers, decoded.tolist(), strict=True):
        kept = (number >> first) & ((1 << width) - 1)
        kept -= (1 << width) if kept >> (width - 1) else 0
        assert found == kept << first


@pytest.mark.parametrize(
    "configuration, fault",
    [
        ({"padding_encoding": "start"}, r"configuration\.padding_encoding: found \"start\""),
        ({"first_bit": -1}, r"configuration\.first_bit: found -1"),
        ({"first_bit": 3, "last_bit": 2}, r"configuration\.last_bit: found 2, must be at least first_bit, 3"),
        ({"start_bit": 1}, r"configuration\.start_bit: is not a member"),
    ],
)
def test_packbits_configurations(configuration: dict[str, Any], fault: str) -> None:
    with pytest.raises(MetadataError, match=rf"codecs\[0\]\.{fault}"):
        codec_from({"name": "packbits", "configuration": configuration}, "codecs[0]")


def test_packbits_refusals() -> None:
    with pytest.raises(MetadataError, match=r"last_bit: found 8, uint8 has the bits 0 to 7"):
        build([PackBits(last_bit=8)], spec_of("uint8"))
    for dtype in ("string", "S3", "datetime64[s]", "V2"):
        with pytest.raises(MetadataError, match="packbits cannot encode"):
            build([PackBits()], spec_of(dtype))
    codec = codec_from({"name": "packbits", "configuration": {"first_bit": None, "last_bit": None}})
    assert codec.configuration() == {"padding_encoding": "none"}


@pytest.mark.parametrize("encoded", [b"", b"\1", b"\1\2\3", b"\1\2\3\4\5"])
def test_packbits_hostile_lengths(encoded: bytes) -> None:
    with pytest.raises(CodecError, match="bytes"):
        build([PackBits()], spec_of("bool", (10,))).decode(encoded)
    with pytest.raises(CodecError, match="packbits"):
        build([PackBits("first_byte"), "gzip"], spec_of("bool", (40,))).decode(
            build(["bytes", "gzip"], spec_of("uint8", (len(encoded),))).encode(
                np.frombuffer(encoded, np.uint8)
            )
        )


def test_the_padding_byte_is_checked() -> None:
    with pytest.raises(CodecError, match="the padding byte says 5 bits, there are 6"):
        build([PackBits("last_byte")], spec_of("bool", (10,))).decode(b"\1\2\5")


def rounded(dtype: str, keepbits: int, values: Any) -> np.ndarray:
    value = np.asarray(values)
    spec = spec_of(dtype, value.shape)
    chain = build([BitRound(keepbits), "bytes"], spec)
    return chain.decode(chain.encode(value.astype(spec.data_type.numpy)))


def test_bitround_floats_by_hand() -> None:
    found = rounded("float32", 3, [0, 0.1, 1.2, 12.3, 123.4, 1234.5, np.nan, np.inf, -np.inf])
    expected = [0, 0.1015625, 1.25, 12, 120, 1280, np.nan, np.inf, -np.inf]
    np.testing.assert_array_equal(found, np.array(expected, np.float32))
    assert rounded("float16", 10, [1.1, 2.2]).tolist() == np.array([1.1, 2.2], np.float16).tolist()
    assert rounded("float64", 1, [1.25, 1.75, -1.25, -1.75]).tolist() == [1.0, 2.0, -1.0, -2.0]
    assert rounded("complex64", 1, [1.25 + 1.75j]).tolist() == [1 + 2j]
    assert rounded("bfloat16", 2, [1.0, 1.125, 1.375]).astype(float).tolist() == [1.0, 1.0, 1.5]


def test_bitround_keeps_nans() -> None:
    value = np.array([0x7FFFFFFF, 0x7F800001, 0xFFC12345], np.uint32).view(np.float32)
    assert rounded("float32", 1, value).tobytes() == value.tobytes()


def test_bitround_integers_by_hand() -> None:
    found = rounded("uint8", 3, [0, 1, 10, 11, 100, 123, 200, 208, 209, 255])
    assert found.tolist() == [0, 1, 10, 12, 96, 128, 192, 192, 224, 224]
    # the sign bit of a negative number is its most significant one; no rounding turns a sign
    assert rounded("int8", 3, [127, 100, 5, -1, -128, -3]).tolist() == [112, 96, 5, -32, -128, -32]
    assert rounded("int64", 2, [2**62 + 1, 7, 6]).tolist() == [2**62, 8, 6]
    assert rounded("uint64", 64, np.array([2**64 - 1, 3], np.uint64)).tolist() == [2**64 - 1, 3]
    times = rounded("datetime64[s]", 3, np.array([0, 11], "datetime64[s]"))
    assert times.astype(int).tolist() == [0, 12]


@given(st.lists(st.integers(0, 2**32 - 1), min_size=4, max_size=4), st.integers(1, 40))
def test_bitround_integers_against_exact_arithmetic(numbers: list[int], keepbits: int) -> None:
    for number, found in zip(
        numbers, rounded("uint32", keepbits, np.array(numbers, np.uint32)).tolist(), strict=True
    ):
        dropped = max(number.bit_length() - keepbits, 0)
        quantum = 1 << dropped
        nearest = quantum * round(number / quantum) if dropped else number  # half to even, exact in 32 bits
        assert found == (nearest if nearest < 2**32 else number >> dropped << dropped)


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=4, max_size=4), st.integers(1, 23))
def test_bitround_is_near_and_stays(numbers: list[float], keepbits: int) -> None:
    value = np.array(numbers, np.float32)
    once = rounded("float32", keepbits, value)
    assert same(rounded("float32", keepbits, once), once)
    finite = np.isfinite(value) & np.isfinite(once) & (np.abs(value) >= np.finfo(np.float32).tiny)
    relative = np.abs(once[finite].astype(float) - value[finite]) / np.abs(value[finite].astype(float))
    assert (relative <= 2.0 ** -(keepbits + 1)).all()


def test_bitround_refusals() -> None:
    for configuration in ({}, {"keepbits": 0}, {"keepbits": 1.5}, {"keepbits": 3, "x": 1}):
        with pytest.raises(MetadataError, match=r"codecs\[0\]\.configuration\."):
            codec_from({"name": "bitround", "configuration": configuration}, "codecs[0]")
    value = np.array([1.1, -2.7], np.float32)  # to keep more bits than there are keeps all
    chain = build([BitRound(24), "bytes"], spec_of("float32", (2,)))
    assert chain.decode(chain.encode(value)).tobytes() == value.tobytes()
    for dtype in ("bool", "string", "S2", "uint4", "float8_e4m3"):
        with pytest.raises(MetadataError, match="bitround cannot round"):
            build([BitRound(1), "bytes"], spec_of(dtype))


def test_bitround_rounds_the_fill_value_for_later_codecs() -> None:
    chain = build([BitRound(1), "bytes"], spec_of("float32", fill=1.3))
    assert chain.specs[1].fill == np.float32(1.5)
    assert chain.specs[0].fill == np.float32(1.3)
