"""Names, strings and foreign objects that stand for codecs; users' own codecs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pytest

import terrazzo.codecs as codecs
from terrazzo.codecs import (
    ArrayBytesCodec,
    BitRound,
    BloscCodec,
    BytesBytesCodec,
    BytesCodec,
    CastValue,
    ChunkSpec,
    Conditional,
    Crc32cCodec,
    GzipCodec,
    PackBits,
    Reshape,
    ScaleOffset,
    ShardingCodec,
    TransposeCodec,
    VLenBytesCodec,
    VLenUTF8Codec,
    ZstdCodec,
    codec_from,
    codec_from_string,
    known_codecs,
    register_codec,
    registry,
)
from terrazzo.errors import MetadataError, UnknownCodecError
from tests.codecs.codec_chunks import build, same, spec_of


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    known, aliases = dict(registry._codecs), dict(registry._aliases)
    yield
    for table, kept in ((registry._codecs, known), (registry._aliases, aliases)):
        table.clear()
        table.update(kept)


STRINGS: list[tuple[str, Any]] = [
    ("bytes", BytesCodec("little")),
    ("bytes:big", BytesCodec("big")),
    ("zstd", ZstdCodec()),
    ("zstd:5", ZstdCodec(5)),
    ("zstd:-7:true", ZstdCodec(-7, True)),
    (" gzip ", GzipCodec()),
    ("gzip:9", GzipCodec(9)),
    ("blosc", BloscCodec()),
    ("blosc:lz4:5:shuffle", BloscCodec("lz4", 5, "shuffle")),
    ("blosc::9", BloscCodec(clevel=9)),
    ("crc32c", Crc32cCodec()),
    ("vlen-utf8", VLenUTF8Codec()),
    ("packbits:first_byte", PackBits("first_byte")),
    ("bitround:3", BitRound(3)),
]


@pytest.mark.parametrize("text, codec", STRINGS)
def test_strings(text: str, codec: Any) -> None:
    assert codec_from_string(text) == codec
    assert codec_from(text) == codec


@pytest.mark.parametrize(
    "text, error, fault",
    [
        ("zstd:1:true:2", MetadataError, 'at most "zstd:<level>:<checksum>"'),
        ("zstd:high", MetadataError, 'found "zstd:high": level: found "high"'),
        ("gzip:10", MetadataError, "from 0 to 9"),
        ("transpose", MetadataError, "does not state order"),
        ("bitround", MetadataError, "does not state keepbits"),
        ("zip", UnknownCodecError, "gzip"),
        ("lz4", UnknownCodecError, r"numcodecs\.lz4"),
        ("", UnknownCodecError, "known are: "),
        ("crc32c:4", MetadataError, 'at most "crc32c"'),
    ],
)
def test_strings_that_are_refused(text: str, error: type[Exception], fault: str) -> None:
    with pytest.raises(error, match=fault):
        codec_from_string(text)


def test_what_is_no_codec() -> None:
    for value in (5, None, GzipCodec, object()):
        with pytest.raises(TypeError, match=r"compressors: .* is no codec"):
            codec_from(value, "compressors")


def test_documents() -> None:
    assert codec_from({"name": "crc32c"}) == Crc32cCodec()
    assert codec_from({"name": "crc32c", "configuration": {}, "must_understand": True}) == Crc32cCodec()
    with pytest.raises(MetadataError, match="is not a member of an extension"):
        codec_from({"name": "crc32c", "level": 1})
    with pytest.raises(UnknownCodecError, match="`must_understand` is false, but without this codec"):
        codec_from({"name": "secret", "must_understand": False})
    with pytest.raises(MetadataError):
        codec_from({"configuration": {}})
    with pytest.raises(MetadataError, match="without an `id`"):
        codec_from({"id": 5})


def test_objects_of_other_libraries() -> None:
    class Theirs:
        def __init__(self, name: str, **configuration: Any) -> None:
            self.found = {"name": name, "configuration": configuration}

        def to_dict(self) -> dict[str, Any]:
            return self.found

    from enum import Enum

    class Endian(Enum):
        big = "big"

    assert codec_from(Theirs("transpose", order=(1, 0))) == TransposeCodec((1, 0))
    assert codec_from(Theirs("bytes", endian=Endian.big)) == BytesCodec("big")
    assert BytesCodec(Endian.big) == BytesCodec("big")  # type: ignore[arg-type]
    sharding = ShardingCodec(
        chunk_shape=(2,), codecs=[Theirs("bytes", endian="little"), Theirs("gzip", level=1)]
    )
    assert sharding.codecs == (BytesCodec("little"), GzipCodec(1))
    assert codec_from(Theirs("sharding_indexed", **sharding.configuration())) == sharding


def test_every_codec_writes_what_it_reads() -> None:
    for codec in (
        BloscCodec("lz4", 3, "shuffle", 4, 0), BytesCodec(), CastValue("int8", "towards-zero", "wrap"), Crc32cCodec(),
        GzipCodec(3), ScaleOffset(1, 2), ShardingCodec((2, 2), ["bytes"]), TransposeCodec((1, 0)), VLenBytesCodec(),
        VLenUTF8Codec(), ZstdCodec(3, True), PackBits("last_byte", 1, 3), BitRound(4), Reshape([[0], -1]),
        Conditional(["gzip:1"]),
    ):  # fmt: skip
        again = codec_from(codec.to_dict())
        assert again == codec
        assert hash(again) == hash(codec)
        assert type(again) is type(codec)
        assert again.extension() == codec.extension()
        assert codec != Crc32cCodec() or isinstance(codec, Crc32cCodec)


def test_zarr_pythons_keywords() -> None:
    assert ZstdCodec(level=0, checksum=False) == ZstdCodec()
    assert (
        BloscCodec(cname="zstd", clevel=5, shuffle="bitshuffle", typesize=None, blocksize=0).shuffle
        == "bitshuffle"
    )
    assert BytesCodec(endian="little") == BytesCodec()
    assert ShardingCodec(
        chunk_shape=(1,), codecs=[BytesCodec()], index_codecs=["bytes"], index_location="start"
    )
    assert TransposeCodec(order=(0,)).order == (0,)


@dataclass(frozen=True, eq=False)
class Reverse(BytesBytesCodec):
    name = "test.reverse"

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        return cls(**configuration)

    def configuration(self) -> dict[str, Any]:
        return {}

    def encode(self, buffer: Any) -> bytes:
        return bytes(buffer)[::-1]

    def decode(self, buffer: Any, limit: int) -> bytes:
        return bytes(buffer)[::-1]


class Pieces(ArrayBytesCodec):
    """As little as a codec can be."""

    name = "test.pieces"

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        return cls()

    def configuration(self) -> dict[str, Any]:
        return {}

    def encode(self, value: np.ndarray, spec: ChunkSpec) -> bytes:
        return value.astype(">i4").tobytes()

    def decode(self, encoded: Any, spec: ChunkSpec) -> np.ndarray:
        return np.frombuffer(encoded, ">i4").astype(spec.data_type.numpy).reshape(spec.shape)


def test_codecs_of_users() -> None:
    spec = spec_of("int32", (2, 3))
    value = np.arange(6, dtype="i4").reshape(2, 3)
    with pytest.raises(UnknownCodecError, match=r"test\.reverse"):
        codec_from("test.reverse")
    as_objects = build([Pieces(), Reverse(), "zstd"], spec)
    assert same(as_objects.decode(as_objects.encode(value)), value)
    assert register_codec(Reverse, aliases=("test.backwards",)) is Reverse
    register_codec(Pieces)
    assert {"test.reverse", "test.backwards", "test.pieces"} <= set(known_codecs())
    by_name = build(["test.pieces", {"name": "test.backwards"}, "zstd"], spec)
    assert by_name.encode(value) == as_objects.encode(value)
    assert [codec.name for codec in by_name.codecs] == ["test.pieces", "test.reverse", "zstd"]


def test_what_cannot_be_registered() -> None:
    class Nameless(Reverse):
        name = ""

    for wrong in (Nameless, Reverse(), int):
        with pytest.raises(TypeError, match="no codec"):
            register_codec(wrong)  # type: ignore[type-var, arg-type]


def test_public_names() -> None:
    for name in codecs.__all__:
        assert getattr(codecs, name).__doc__
