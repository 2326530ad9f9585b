"""bytes, transpose, gzip, zstd, blosc, crc32c: known bytes, round trips, refusals, hostile bytes."""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo import codecs
from terrazzo.codecs import (
    BloscCodec,
    BytesCodec,
    Crc32cCodec,
    GzipCodec,
    TransposeCodec,
    ZstdCodec,
    codec_from,
)
from terrazzo.errors import ChecksumError, CodecError, MetadataError, TerrazzoWarning
from tests.codecs.codec_chunks import DTYPES, build, noise, same, spec_of

RECORD = np.dtype([("a", "i2"), ("b", "f8"), ("c", "u1")])


@pytest.mark.parametrize("endian", ["little", "big"])
@pytest.mark.parametrize(
    "dtype", [*DTYPES, "complex128", "datetime64[ms]", "S5", "U3", RECORD, "V3"], ids=str
)
def test_bytes_are_numpys(dtype: Any, endian: str) -> None:
    spec = spec_of(dtype, (3, 2))
    value = noise(spec)
    if spec.data_type.numpy.kind == "U":
        value = np.array([["abc", ""], ["é", "𝄞"], ["xy", "z"]], spec.data_type.numpy)
    expected = value.astype(value.dtype.newbyteorder("<" if endian == "little" else ">")).tobytes()
    chain = build([BytesCodec(endian)], spec)
    codec = chain.serializer
    for encoded in (chain.encode(value), codec.encode(value, spec)):
        assert bytes(encoded) == expected
    for decoded in (chain.decode(expected), codec.decode(expected, spec)):
        assert same(decoded, value)
        assert decoded.flags.writeable
    assert chain.encoded_nbytes == len(expected)


def test_bytes_by_hand() -> None:
    spec = spec_of("uint16", (2,))
    value = np.array([0x0102, 0xFFFE], np.uint16)
    assert build(["bytes"], spec).encode(value) == b"\x02\x01\xfe\xff"
    assert build(["bytes:big"], spec).encode(value) == b"\x01\x02\xff\xfe"


def test_endianness_is_asked_for_where_it_matters() -> None:
    with pytest.raises(MetadataError, match=r"codecs\[0\]\.configuration\.endian: is missing.*int32"):
        build([{"name": "bytes"}], spec_of("int32"))
    chain = build([{"name": "bytes"}], spec_of("uint8"))
    assert chain.codecs[0].to_dict() == {"name": "bytes"}
    assert build([BytesCodec("big")], spec_of("uint8")).codecs[0].to_dict() == {"name": "bytes"}
    assert build(["endian:big"], spec_of("int32")).codecs[0].to_dict() == {
        "name": "bytes",
        "configuration": {"endian": "big"},
    }


def test_a_legacy_record_is_little_endian() -> None:
    from terrazzo.metadata import data_type_from_json

    document = {"name": "structured", "configuration": {"fields": [["x", "int32"], ["y", "uint8"]]}}
    data_type = data_type_from_json(document)
    spec = spec_of(data_type, (2,))
    chain = build([{"name": "bytes"}], spec)
    value = np.array([(1, 2), (3, 4)], data_type.numpy)
    assert chain.encode(value) == b"\x01\0\0\0\x02\x03\0\0\0\x04"
    assert chain.codecs[0].to_dict()["configuration"] == {"endian": "little"}


def test_bools_are_zero_or_one() -> None:
    spec = spec_of("bool", (4,))
    strict, lenient = build(["bytes"], spec), build(["bytes"], spec, strict=False)
    for decode in (strict.decode, lambda encoded: strict.serializer.decode(encoded, spec)):
        with pytest.raises(CodecError, match=r"a bool is 0 or 1.* 2 is 7"):
            decode(b"\0\1\7\0")
    decoded = lenient.decode(b"\0\1\7\0")
    assert decoded.tolist() == [False, True, True, False]
    assert decoded.tobytes() == b"\0\1\1\0"


@pytest.mark.parametrize("nbytes", [0, 47, 49, 96])
def test_bytes_of_a_wrong_length(nbytes: int) -> None:
    chain = build(["bytes"], spec_of("int16"))
    with pytest.raises(CodecError, match=f"{nbytes} bytes"):
        chain.decode(bytes(nbytes))
    with pytest.raises(CodecError, match=f"{nbytes} bytes"):
        chain.serializer.decode(bytes(nbytes), chain.spec)


def test_bytes_need_a_fixed_size() -> None:
    with pytest.raises(MetadataError, match="vlen"):
        build(["bytes"], spec_of("string"))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)])
def test_transpose(order: tuple[int, ...]) -> None:
    spec = spec_of("uint8", (2, 3, 4))
    value = noise(spec)
    chain = build([TransposeCodec(order), "bytes"], spec)
    assert chain.specs[1].shape == value.transpose(order).shape
    assert chain.encode(value) == value.transpose(order).tobytes()
    assert same(chain.decode(chain.encode(value)), value)
    python = chain.codecs[0].decode(value.transpose(order), spec)
    assert same(python, value)


def test_transpose_twice_and_of_no_dimensions() -> None:
    spec = spec_of("int16", (2, 3, 4))
    value = noise(spec)
    chain = build([TransposeCodec((1, 2, 0)), TransposeCodec((2, 1, 0)), "bytes"], spec)
    assert chain.encode(value) == value.transpose(1, 2, 0).transpose(2, 1, 0).tobytes()
    assert same(chain.decode(chain.encode(value)), value)
    alone = build([TransposeCodec(()), "bytes"], spec_of("int16", ()))
    assert alone.decode(alone.encode(np.int16(5))).tolist() == 5


CONFIGURATIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"name": "bytes", "configuration": {"endian": "middle"}}, {"endian": r'found "middle", must be one of "little"'}),
    ({"name": "bytes", "configuration": {"endian": "little", "x": 1}}, {"x": "is not a member"}),
    ({"name": "transpose", "configuration": {"order": "F"}}, {"order": 'found "F"'}),
    ({"name": "transpose", "configuration": {"order": [0, 0]}}, {"order": "every dimension from 0 to 1 once"}),
    ({"name": "transpose", "configuration": {"order": [1, 2]}}, {"order": "every dimension"}),
    ({"name": "transpose", "configuration": {"order": [0, True]}}, {"order[1]": "found true"}),
    ({"name": "transpose", "configuration": {}}, {"order": "is missing"}),
    ({"name": "gzip"}, {"level": "is missing"}),
    ({"name": "gzip", "configuration": {"level": 10}}, {"level": "found 10, must be an integer from 0 to 9"}),
    ({"name": "gzip", "configuration": {"level": 1.0}}, {"level": "found 1.0"}),
    ({"name": "zstd", "configuration": {"checksum": False}}, {"level": "is missing"}),
    ({"name": "zstd", "configuration": {"level": 23}}, {"level": "found 23"}),
    ({"name": "zstd", "configuration": {"level": 1, "checksum": 1}}, {"checksum": "must be true or false"}),
    ({"name": "crc32c", "configuration": {"location": "end"}}, {"location": "allowed: none"}),
    ({"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}},
     {"shuffle": r'form of Zarr v2; must be "shuffle"'}),
    ({"name": "blosc", "configuration": {"cname": "zip", "clevel": 5, "shuffle": "shuffle", "blocksize": 0}},
     {"cname": 'found "zip"'}),
    ({"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle"}},
     {"blocksize": "is missing"}),
    ({"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "blocksize": 0,
      "typesize": 0}}, {"typesize": "found 0"}),
]  # fmt: skip


@pytest.mark.parametrize("document, fault", CONFIGURATIONS, ids=lambda one: json.dumps(one)[:70])
def test_configurations_that_are_refused(document: dict[str, Any], fault: dict[str, str]) -> None:
    ((member, sentence),) = fault.items()
    with pytest.raises(MetadataError, match=sentence) as caught:
        codec_from(document, "codecs[3]")
    assert str(caught.value).startswith(f"codecs[3].configuration.{member}: ")
    assert caught.value.problems[0][0] == f"codecs[3].configuration.{member}"


def test_constructors_refuse_as_documents_do() -> None:
    for make in (
        lambda: GzipCodec(10), lambda: ZstdCodec(99), lambda: BloscCodec(cname="x"), lambda: BytesCodec("x"),
        lambda: TransposeCodec((1, 1)), lambda: BloscCodec(shuffle="x"), lambda: BloscCodec(clevel=-1),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="found"):
            make()


def test_a_transpose_of_another_rank() -> None:
    with pytest.raises(
        MetadataError, match=r"codecs\[0\]\.configuration\.order: found \[1, 0\].*3 dimensions"
    ):
        build([TransposeCodec((1, 0)), "bytes"], spec_of("u1", (2, 2, 2)))


COMPRESSORS = [
    *(GzipCodec(level) for level in (0, 1, 9)),
    *(ZstdCodec(level, checksum) for level, checksum in ((-5, False), (0, True), (19, False))),
    *(BloscCodec(cname=cname) for cname in ("lz4", "lz4hc", "blosclz", "zstd", "snappy", "zlib")),
    *(BloscCodec(shuffle=shuffle) for shuffle in ("noshuffle", "shuffle", "bitshuffle")),
    BloscCodec(clevel=0),
    BloscCodec(blocksize=256, typesize=2),
    Crc32cCodec(),
]


@pytest.mark.parametrize("codec", COMPRESSORS, ids=lambda codec: json.dumps(codec.configuration()))
@pytest.mark.parametrize("dtype", ["uint8", "float64"])
def test_compressors_round_trip(codec: Any, dtype: str) -> None:
    spec = spec_of(dtype, (33, 17))
    for value in (np.zeros(spec.shape, dtype), np.arange(33 * 17).astype(dtype).reshape(33, 17), noise(spec)):
        chain = build(["bytes", codec], spec)
        encoded = chain.encode(value)
        assert same(chain.decode(encoded), value)
        alone = chain.compressors[0]
        assert bytes(alone.decode(alone.encode(value.tobytes()), value.nbytes)) == value.tobytes()


def test_others_read_what_we_write_and_we_what_they_write() -> None:
    text = b"tesserae " * 100
    assert gzip.decompress(GzipCodec(5).encode(text)) == text
    assert bytes(GzipCodec(5).decode(gzip.compress(text) + gzip.compress(b"more"), 2000)) == text + b"more"


def test_crc32c_by_hand() -> None:
    # the check value of the polynomial, RFC 3720
    assert Crc32cCodec().encode(b"123456789") == b"123456789" + struct.pack("<I", 0xE3069283)
    assert Crc32cCodec().encode(b"") == bytes(4)
    assert bytes(Crc32cCodec().decode(b"123456789" + struct.pack("<I", 0xE3069283), 9)) == b"123456789"


@pytest.mark.parametrize("place", [0, 3, 8, 12])
def test_crc32c_notices(place: int) -> None:
    encoded = bytearray(Crc32cCodec().encode(b"123456789"))
    encoded[place] ^= 4
    with pytest.raises(ChecksumError, match="crc32c"):
        Crc32cCodec().decode(encoded, 9)
    with pytest.raises(ChecksumError, match="crc32c"):
        build(["bytes", "crc32c"], spec_of("u1", (9,))).decode(encoded)
    with pytest.raises(CodecError):
        Crc32cCodec().decode(b"123", 9)


@pytest.mark.parametrize("codec", [GzipCodec(5), ZstdCodec(), BloscCodec()], ids=lambda codec: codec.name)
def test_hostile_bytes(codec: Any) -> None:
    spec = spec_of("uint8", (1000,))
    chain = build(["bytes", codec], spec)
    value = np.arange(1000).astype(np.uint8)
    encoded = bytes(chain.encode(value))
    compressor = chain.compressors[0]
    for bad in (b"", b"\0", encoded[:-1], encoded[: len(encoded) // 2], bytes(len(encoded)), b"\xff" * 100):
        with pytest.raises(CodecError, match=codec.name):
            chain.decode(bad)
        with pytest.raises(CodecError, match=codec.name):
            compressor.decode(bad, 1000)
    with pytest.raises(CodecError):
        compressor.decode(encoded, 999)
    larger = compressor.encode(bytes(1 << 20))
    for limit in (0, 1000, (1 << 20) - 1):
        with pytest.raises(CodecError):
            compressor.decode(larger, limit)
    with pytest.raises(CodecError, match="1000"):
        chain.decode(larger)
    with pytest.raises(CodecError):
        chain.decode(compressor.encode(bytes(999)))


def test_zlib_is_not_gzip() -> None:
    with pytest.raises(CodecError, match="gzip"):
        GzipCodec(5).decode(zlib.compress(b"abc"), 3)


def test_blosc_takes_what_is_not_stated_from_the_data_type() -> None:
    def configured(dtype: str, codec: BloscCodec) -> dict[str, Any]:
        return build(["bytes", codec], spec_of(dtype)).codecs[1].configuration()

    assert configured("float64", BloscCodec()) == {
        "cname": "zstd", "clevel": 5, "shuffle": "shuffle", "typesize": 8, "blocksize": 0,
    }  # fmt: skip
    assert configured("uint8", BloscCodec())["shuffle"] == "bitshuffle"
    assert configured("float64", BloscCodec(typesize=2, shuffle="noshuffle"))["typesize"] == 2


def test_a_document_states_the_typesize() -> None:
    document = {
        "name": "blosc",
        "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "blocksize": 0},
    }
    with pytest.raises(MetadataError, match=r"codecs\[1\]\.configuration\.typesize: is missing"):
        build(["bytes", document], spec_of("int32"))
    with pytest.warns(TerrazzoWarning, match="typesize"):
        chain = build(["bytes", document], spec_of("int32"), strict=False)
    assert chain.codecs[1].configuration()["typesize"] == 4
    document["configuration"]["shuffle"] = "noshuffle"
    build(["bytes", document], spec_of("int32"))


def test_elements_larger_than_blosc_knows() -> None:
    spec = spec_of("V300", (7,))
    chain = build(["bytes", BloscCodec()], spec)
    assert chain.codecs[1].configuration()["typesize"] == 300
    value = noise(spec)
    assert same(chain.decode(chain.encode(value)), value)


def test_settings_may_be_members_of_enumerations() -> None:
    """As scripts for zarr-python have them; documents say plain text."""
    stored: dict[str, bytes] = {}
    array = terrazzo.create_array(
        stored,
        data=np.arange(16, dtype="i4"),
        chunks=4,
        shards={"shape": (8,), "index_location": codecs.ShardingCodecIndexLocation.start},
        serializer=codecs.BytesCodec(endian=codecs.Endian.big),
        compressors=codecs.BloscCodec(cname=codecs.BloscCname.lz4, shuffle=codecs.BloscShuffle.bitshuffle),
    )
    said = json.loads(stored["zarr.json"])["codecs"][0]["configuration"]
    assert said["index_location"] == "start"
    assert said["codecs"][0] == {"name": "bytes", "configuration": {"endian": "big"}}
    assert said["codecs"][1]["configuration"]["cname"] == "lz4"
    assert said["codecs"][1]["configuration"]["shuffle"] == "bitshuffle"
    assert array[...].tolist() == list(range(16))
