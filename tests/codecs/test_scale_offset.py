"""scale_offset, reshape, conditional: by hand, against exact integers, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from terrazzo.codecs import Conditional, Crc32cCodec, GzipCodec, Reshape, ScaleOffset, ZstdCodec, codec_from
from terrazzo.errors import ChecksumError, CodecError, MetadataError
from terrazzo.options import Limits
from tests.codecs.codec_chunks import Model, build, noise, same, spec_of


def test_scaled_floats() -> None:
    spec = spec_of("float32", (3,), 5)
    chain = build([ScaleOffset(offset=5, scale=0.5), "bytes"], spec)
    assert chain.encode(np.array([5, 6, 4], "f4")) == np.array([0, 0.5, -0.5], "<f4").tobytes()
    assert chain.decode(chain.encode(np.array([5, 6, 4], "f4"))).tolist() == [5, 6, 4]
    assert chain.specs[1].fill == 0
    special = np.array([np.nan, np.inf, -np.inf], "f4")
    np.testing.assert_array_equal(chain.decode(chain.encode(special)), special)


def test_the_registrys_example() -> None:
    codecs = [
        {"name": "scale_offset", "configuration": {"offset": -10, "scale": 0.1}},
        {
            "name": "cast_value",
            "configuration": {
                "data_type": "uint8",
                "rounding": "nearest-even",
                "scalar_map": {"encode": [["NaN", 0]], "decode": [[0, "NaN"]]},
            },
        },
        "bytes",
    ]
    chain = build(codecs, spec_of("float64", (4,), "NaN"))
    assert chain.encode(np.array([0.0, 2540.0, np.nan, 100.0])) == bytes([1, 255, 0, 11])
    np.testing.assert_array_equal(chain.decode(bytes([1, 255, 0, 11])), [0.0, 2540.0, np.nan, 100.0])


def test_integers_stay_exact() -> None:
    spec = spec_of("uint16", (3,), 1000)
    chain = build([ScaleOffset(offset=1000, scale=2), "bytes"], spec)
    value = np.array([1000, 1255, 2000], np.uint16)
    assert chain.encode(value) == np.array([0, 510, 2000], "<u2").tobytes()
    assert same(chain.decode(chain.encode(value)), value)
    with pytest.raises(CodecError, match="scale_offset: adding -1000 to 999 leaves the range 0 to 65535"):
        chain.encode(np.array([1000, 999, 1000], np.uint16))
    with pytest.raises(CodecError, match="multiplying by 2 the number 40000 leaves"):
        chain.encode(np.array([41000, 1000, 1000], np.uint16))
    with pytest.raises(CodecError, match="7 is not a multiple of the scale 2"):
        chain.decode(np.array([7, 0, 0], "<u2").tobytes())
    with pytest.raises(CodecError, match="adding 1000 to 65000 leaves"):
        build([ScaleOffset(1000), "bytes"], spec).decode(np.array([65000, 0, 0], "<u2").tobytes())


integers = st.sampled_from(["int8", "uint8", "int16", "int64", "uint64", "int4"])


@given(integers, st.data())
def test_integers_against_python(dtype: str, data: Any) -> None:
    bits, signed = int(dtype.strip("uint")), not dtype.startswith("u")
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    near = st.one_of(st.integers(low, high), st.sampled_from([low, high, 0, 1]), st.integers(max(low, -3), 3))
    number, offset, scale = data.draw(near), data.draw(near), data.draw(near.filter(bool))
    # a fill value that scales to zero, so that the chain itself is always fine
    spec = spec_of(dtype, (1,), offset)
    chain = build([ScaleOffset(offset, scale), "bytes"], spec)
    value = np.array([number]).astype(spec.data_type.numpy) if bits < 8 else np.array([number], dtype)
    shifted, made = number - offset, (number - offset) * scale
    codec = chain.filters[0]
    if low <= shifted <= high and low <= made <= high:
        encoded = codec.encode(value, spec)
        assert int(encoded.astype(object)[0]) == made
        assert same(codec.decode(encoded, spec), value)
    else:
        with pytest.raises(CodecError, match="leaves the range"):
            codec.encode(value, spec)
    divided, rest = divmod(number, scale)
    if rest == 0 and low <= divided <= high and low <= divided + offset <= high:
        assert int(codec.decode(value, spec).astype(object)[0]) == divided + offset
    else:
        with pytest.raises(CodecError, match=r"leaves the range|not a multiple"):
            codec.decode(value, spec)


def test_floats_that_leave_their_range() -> None:
    chain = build([ScaleOffset(0, 1e30), "bytes"], spec_of("float32", (1,)))
    with pytest.raises(CodecError, match="cannot be scaled within float32"):
        chain.encode(np.array([1e30], "f4"))
    half = build([ScaleOffset(0, 100), "bytes"], spec_of("float16", (1,)))
    with pytest.raises(CodecError, match="scale_offset"):
        half.encode(np.array([6e4], "f2"))
    assert half.specs[1].data_type.name == "float16"
    small = build([ScaleOffset(1, 2), "bytes"], spec_of("bfloat16", (1,)))
    value = np.array([3]).astype(small.spec.data_type.numpy)
    assert same(small.decode(small.encode(value)), value)


def test_scale_offset_as_documents_have_it() -> None:
    assert ScaleOffset().to_dict() == {"name": "scale_offset"}
    assert codec_from({"name": "scale_offset"}) == ScaleOffset()
    assert ScaleOffset(2, 0.5).to_dict()["configuration"] == {"offset": 2, "scale": 0.5}
    hexed = build([ScaleOffset("0x40a00000"), "bytes"], spec_of("float32", (1,)))
    assert hexed.encode(np.array([6], "f4")) == np.array([1], "<f4").tobytes()


@pytest.mark.parametrize(
    "configuration, dtype, fault",
    [
        ({"scale": 0}, "float32", r"configuration\.scale: found 0"),
        ({"scale": "NaN"}, "float32", r"configuration\.scale: found \"NaN\", must be finite"),
        ({"scale": 0.5}, "int32", r"configuration\.scale: found 0\.5"),
        ({"offset": -1}, "uint8", r"configuration\.offset: found -1"),
        ({"offset": True}, "uint8", r"configuration\.offset: found true"),
        ({"add": 1}, "uint8", r"configuration\.add: is not a member"),
        ({}, "bool", r"?: scale_offset cannot scale bool"),
        ({}, "complex64", r"?: scale_offset cannot scale"),
        ({"offset": 1}, "uint8", r"?: the fill value 0 cannot be scaled"),
    ],
)
def test_scale_offset_refusals(configuration: dict[str, Any], dtype: str, fault: str) -> None:
    document = {"name": "scale_offset", "configuration": configuration}
    with pytest.raises(MetadataError, match=rf"^codecs\[0\]\.{fault}"):
        build([document, "bytes"], spec_of(dtype))


SHAPES: list[tuple[tuple[int, ...], list[Any], tuple[int, ...]]] = [
    ((4, 6), [24], (24,)),
    ((4, 6), [-1], (24,)),
    ((4, 6), [2, -1, 3], (2, 4, 3)),
    ((10, 5, 6, 3), [[0, 1], [2], 3], (50, 6, 3)),
    ((10, 5, 6, 3), [[0, 1], 2, 3, [3]], (50, 2, 3, 3)),
    ((), [1, 1], (1, 1)),
    ((1,), [], ()),
    ((2, 3), [[0], [], [1]], (2, 1, 3)),
]


@pytest.mark.parametrize("before, shape, after", SHAPES)
def test_reshape(before: tuple[int, ...], shape: list[Any], after: tuple[int, ...]) -> None:
    spec = spec_of("int16", before)
    value = noise(spec)
    chain = build([Reshape(shape), "bytes", "zstd"], spec)
    assert chain.specs[1].shape == after
    assert same(chain.decode(chain.encode(value)), value)
    assert build([Reshape(shape), "bytes"], spec).encode(value) == value.tobytes()
    document = {"name": "reshape", "configuration": {"shape": shape}}
    assert codec_from(document).to_dict() == document


@pytest.mark.parametrize(
    "shape, fault",
    [
        ([-1, -1], "-1 may be there once"),
        ([0], r"shape\[0\]: found 0"),
        ([-2], r"shape\[0\]: found -2"),
        ("x", 'found "x"'),
        ([[1], [0]], "must increase"),
        ([[1, 0], 2], "must increase"),
        ([[0, 0]], "must increase"),
        ([5, -1], "cannot hold the 24 elements"),
        ([5, 5], "which are 25 elements, must be the 24"),
        ([[2], 12], r"shape\[0\]: found the dimension 2, the chunk has 2"),
        ([4, 3, [1], 1], "elements"),
        ([6, [0]], "would lie at different places"),
        ([[1], 4], "would lie at different places"),
    ],
)
def test_reshape_refusals(shape: Any, fault: str) -> None:
    document = {"name": "reshape", "configuration": {"shape": shape}}
    with pytest.raises(
        MetadataError, match=rf"codecs\[0\]\.configuration\.shape.*{fault.split(': ', 1)[-1]}"
    ):
        build([document, "bytes"], spec_of("u1", (4, 6)))


def test_conditional_by_hand() -> None:
    text = b"a" * 50
    both = Conditional([ZstdCodec(1), Crc32cCodec()])
    encoded = both.encode(text)
    assert encoded[:1] == b"\x03"
    assert encoded[1:] == Crc32cCodec().encode(ZstdCodec(1).encode(text))
    noisy = np.random.default_rng(0).integers(0, 256, 50, dtype=np.uint8).tobytes()
    assert both.encode(noisy) == b"\x02" + Crc32cCodec().encode(noisy)
    assert Conditional([GzipCodec(1)], apply="never").encode(text) == b"\0" + text
    assert Conditional([GzipCodec(1)], apply="always").encode(b"") == b"\x01" + GzipCodec(1).encode(b"")
    assert Conditional([GzipCodec(1)], 32, apply="never").encode(text) == b"\0\0\0\0" + text
    for codec in (both, Conditional([GzipCodec(1)], 16), Conditional([]), Conditional(["gzip"] * 9)):
        for found in (text, noisy, b""):
            assert bytes(codec.decode(codec.encode(found), 50)) == found
    assert Conditional(["gzip"] * 9).header_bits == 16


def test_conditional_in_a_chain() -> None:
    document = {
        "name": "conditional",
        "configuration": {
            "codecs": [
                {"name": "numcodecs.shuffle", "configuration": {"elementsize": 4}},
                {"name": "zstd", "configuration": {"level": 5, "checksum": False}},
            ],
            "header_bits": 8,
        },
    }
    spec = spec_of("float32", (30, 10))
    chain = build(["bytes", document, "crc32c"], spec)
    assert chain.codecs[1].to_dict() == document
    for value in (np.zeros(spec.shape, "f4"), noise(spec)):
        encoded = bytes(chain.encode(value))
        assert same(chain.decode(encoded), value)
        assert encoded == Model(["bytes", document, "crc32c"], spec).encode(value)
        assert len(encoded) <= 1 + 1200 + 4
    blosc = build(["bytes", Conditional(["blosc"])], spec).codecs[1].configuration()
    assert blosc["codecs"][0]["configuration"]["typesize"] == 4


def test_conditional_hostile_bytes() -> None:
    codec = Conditional([GzipCodec(1), Crc32cCodec()], 16)
    good = codec.encode(b"a" * 100)
    for bad in (b"", b"\0", b"\x04\0" + b"a" * 100, b"\0\x80" + b"a" * 100, b"\x01\0" + b"a" * 100):
        with pytest.raises(CodecError):
            codec.decode(bad, 100)
    with pytest.raises(ChecksumError):
        codec.decode(good[:-1] + bytes([good[-1] ^ 1]), 100)
    for limit in (0, 99):
        with pytest.raises(CodecError):
            codec.decode(good, limit)
    with pytest.raises(CodecError, match="more than 99"):
        codec.decode(b"\0\0" + b"a" * 100, 99)


@pytest.mark.parametrize(
    "configuration, fault",
    [
        ({}, r"codecs: is missing"),
        ({"codecs": [{"name": "bytes"}]}, r"codecs\[0\]: bytes is not a codec from bytes to bytes"),
        ({"codecs": "gzip"}, r"codecs: found \"gzip\""),
        (
            {"codecs": [{"name": "gzip", "configuration": {"level": 10}}]},
            r"codecs\[0\]\.configuration\.level",
        ),
        ({"codecs": [], "header_bits": 4}, r"header_bits: found 4, must be a multiple of 8"),
        ({"codecs": [{"name": "crc32c"}] * 9, "header_bits": 8}, r"header_bits: found 8.*at least 9"),
        ({"codecs": [], "apply": "always"}, r"apply: is not a member"),
    ],
)
def test_conditional_refusals(configuration: dict[str, Any], fault: str) -> None:
    with pytest.raises(MetadataError, match=rf"^codecs\[1\]\.configuration\.{fault}"):
        codec_from({"name": "conditional", "configuration": configuration}, "codecs[1]")


def test_conditional_within_limits() -> None:
    codec: Any = "gzip"
    for _ in range(4):
        codec = Conditional([codec])
    build(["bytes", codec], spec_of("u1"), limits=Limits(depth=4))
    with pytest.raises(ValueError, match="3 levels"):
        build(["bytes", codec], spec_of("u1"), limits=Limits(depth=3))
