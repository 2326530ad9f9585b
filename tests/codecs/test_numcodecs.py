"""numcodecs.* names: the same bytes as the package, both ways; bounds; what is refused."""

from __future__ import annotations

import builtins
import warnings
from typing import Any

import numpy as np
import pytest

from terrazzo.codecs import codec_from, known_codecs
from terrazzo.codecs.numcodecs_package import _made
from terrazzo.errors import ChecksumError, CodecError, MetadataError, UnknownCodecError
from tests.codecs.codec_chunks import build, noise, same, spec_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what the package says about packages of its own
    numcodecs = pytest.importorskip("numcodecs")

TEXT = b"opus tessellatum, " * 50

BYTES: list[tuple[str, dict[str, Any]]] = [
    ("zlib", {}),
    ("zlib", {"level": 9}),
    ("gzip", {"level": 1}),
    ("zstd", {"level": 3}),
    ("zstd", {"level": 1, "checksum": True}),
    ("blosc", {"cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}),
    ("blosc", {"cname": "zstd", "shuffle": -1}),
    ("blosc", {"cname": "zlib", "shuffle": 2, "typesize": 4}),
    ("bz2", {"level": 9}),
    ("lzma", {}),
    ("lzma", {"format": 2, "preset": 1}),
    ("lzma", {"format": 3, "filters": [{"id": 0x21, "preset": 1}]}),
    ("lz4", {}),
    ("lz4", {"acceleration": 5}),
    ("shuffle", {"elementsize": 4}),
    ("shuffle", {"elementsize": 1}),
    ("crc32", {}),
    ("crc32", {"location": "end"}),
    ("crc32c", {}),
    ("crc32c", {"location": "start"}),
    ("adler32", {}),
    ("adler32", {"location": "end"}),
    ("fletcher32", {}),
    ("jenkins_lookup3", {"initval": 7}),
]
#: the same bytes whoever encodes; the others may compress in their own ways
EXACT = {"shuffle", "crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3", "bz2", "lzma", "lz4"}


def theirs(identity: str, configuration: dict[str, Any]) -> Any:
    if identity == "crc32c":
        pytest.importorskip("google_crc32c")
    return numcodecs.get_codec({"id": identity, **configuration})


@pytest.mark.parametrize("identity, configuration", BYTES, ids=str)
def test_bytes_to_bytes(identity: str, configuration: dict[str, Any]) -> None:
    document = {"name": f"numcodecs.{identity}", "configuration": configuration}
    chain = build(["bytes", document], spec_of("uint8", (len(TEXT),)))
    codec = chain.compressors[0]
    encoded = bytes(codec.encode(TEXT))
    assert bytes(codec.decode(encoded, len(TEXT))) == TEXT
    value = np.frombuffer(TEXT, np.uint8)
    assert same(chain.decode(chain.encode(value)), value)
    assert codec.encoded_nbytes(len(TEXT)) in (None, len(encoded))
    written = chain.codecs[1].to_dict()
    assert written["name"] == f"numcodecs.{identity}"
    assert configuration.items() <= written.get("configuration", {}).items()
    assert codec_from(written) == chain.codecs[1]

    other = theirs(identity, configuration)
    assert bytes(other.decode(encoded)) == TEXT
    their_bytes = bytes(other.encode(np.frombuffer(TEXT, np.uint8)))
    assert bytes(codec.decode(their_bytes, len(TEXT))) == TEXT
    if identity in EXACT:
        assert their_bytes == encoded


@pytest.mark.parametrize("identity, configuration", BYTES, ids=str)
def test_hostile_bytes(identity: str, configuration: dict[str, Any]) -> None:
    document = {"name": f"numcodecs.{identity}", "configuration": configuration}
    chain = build(["bytes", document], spec_of("uint8", (len(TEXT),)))
    good = bytes(chain.compressors[0].encode(TEXT))
    for bad in (b"", b"\0", good[:-1], good[: len(good) // 2], good + b"x", b"\xff" * 64):
        with pytest.raises(CodecError):
            chain.decode(bad)
    if chain.encoded_nbytes is None:
        for limit in (0, 10, len(TEXT) - 1):
            with pytest.raises(CodecError):
                chain.compressors[0].decode(good, limit)


@pytest.mark.parametrize("identity", ["crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3"])
def test_checksums_notice(identity: str) -> None:
    chain = build(["bytes", {"name": f"numcodecs.{identity}"}], spec_of("uint8", (9,)))
    assert chain.checksummed
    encoded = bytearray(chain.encode(np.arange(9, dtype=np.uint8)))
    encoded[6] ^= 8
    with pytest.raises(ChecksumError):
        chain.decode(encoded)


def test_known_to_the_kernel() -> None:
    for name in ("zlib", "gzip", "zstd", "blosc", "crc32c"):
        assert build(["bytes", {"name": f"numcodecs.{name}"}], spec_of("int32")).native is not None


FILTERS: list[tuple[str, dict[str, Any], str]] = [
    ("delta", {"dtype": "<i4"}, "int32"),
    ("delta", {"dtype": ">i4", "astype": ">i8"}, "int32"),
    ("delta", {}, "uint8"),
    ("delta", {"dtype": "<f8", "astype": "<f4"}, "float64"),
    ("delta", {"dtype": "<i8"}, "datetime64[s]"),
    ("fixedscaleoffset", {"offset": 10, "scale": 10, "dtype": "<f8", "astype": "u1"}, "float64"),
    ("fixedscaleoffset", {"offset": 0, "scale": 1}, "float32"),
    ("quantize", {"digits": 1, "dtype": "<f8"}, "float64"),
    ("quantize", {"digits": 2, "dtype": "<f8", "astype": "<f4"}, "float64"),
    ("astype", {"encode_dtype": "<i2", "decode_dtype": "<i4"}, "int32"),
    ("astype", {"encode_dtype": "float32"}, "float64"),
    ("packbits", {}, "bool"),
    ("bitround", {"keepbits": 3}, "float32"),
]


@pytest.mark.parametrize("identity, configuration, dtype", FILTERS, ids=str)
def test_filters(identity: str, configuration: dict[str, Any], dtype: str) -> None:
    spec = spec_of(dtype, (3, 5))
    value = (np.arange(15) % 7 + 10).astype(spec.data_type.numpy).reshape(3, 5)
    document = {"name": f"numcodecs.{identity}", "configuration": configuration}
    chain = build([document, "bytes"], spec)
    stated = chain.codecs[0].to_dict()
    # what follows from the type of the array is said too: zarr-python needs it
    follows = {"delta": "dtype", "fixedscaleoffset": "dtype", "quantize": "dtype", "astype": "decode_dtype"}
    assert stated["name"] == document["name"] and configuration.items() <= stated["configuration"].items()
    assert identity not in follows or follows[identity] in stated["configuration"]
    assert build([stated, "bytes"], spec).codecs[0].to_dict() == stated
    complete = {
        name: one.replace(">", "<") if isinstance(one, str) else one for name, one in configuration.items()
    }
    own = spec.data_type.numpy.str
    if identity == "astype":
        complete = {"encode_dtype": own, "decode_dtype": own, **complete}
    elif identity not in ("packbits", "bitround"):
        complete = {"dtype": own, **complete}
    other = theirs(identity, complete)
    expected = np.asarray(other.encode(value.reshape(-1)))
    encoded = chain.encode(value)
    assert bytes(encoded) == expected.tobytes()
    assert chain.encoded_nbytes == expected.nbytes
    decoded = np.asarray(other.decode(expected)).view(spec.data_type.numpy).reshape(value.shape)
    assert same(chain.decode(encoded), decoded)
    assert chain.specs[1].fill.dtype == chain.specs[1].data_type.numpy


def test_packbits_of_v2_by_hand() -> None:
    chain = build([{"name": "numcodecs.packbits"}, "bytes"], spec_of("bool", (9,)))
    assert bytes(chain.encode(np.array([1, 0, 0, 0, 0, 0, 0, 0, 1], bool))) == b"\x07\x80\x80"
    with pytest.raises(CodecError, match=r"numcodecs\.packbits"):
        chain.decode(b"\x01\x80\x80")


def test_pcodec() -> None:
    pytest.importorskip("pcodec")
    spec = spec_of("float64", (4, 25))
    chain = build([{"name": "numcodecs.pcodec", "configuration": {"level": 8}}, "crc32c"], spec)
    value = np.arange(100.0).reshape(4, 25)
    encoded = bytes(chain.encode(value))
    assert same(chain.decode(encoded), value)
    alone = build([{"name": "numcodecs.pcodec"}], spec)
    smaller = build([{"name": "numcodecs.pcodec"}], spec_of("float64", (4, 24)))
    for bad in (b"", b"\0" * 30, bytes(alone.encode(value))[:20], smaller.encode(value[:, :24])):
        with pytest.raises(CodecError, match=r"numcodecs\.pcodec"):
            alone.decode(bad)
    with pytest.raises(MetadataError, match="integers and floats"):
        build([{"name": "numcodecs.pcodec"}], spec_of("bool"))


def test_names_that_are_refused() -> None:
    with pytest.raises(UnknownCodecError, match=r"codecs\[0\]: found the codec \"numcodecs\.nothing\""):
        codec_from({"name": "numcodecs.nothing"}, "codecs[0]")


REFUSED = [
    ("delta", {"dtype": "O"}, r"configuration\.dtype: found \"O\""),
    ("delta", {"dtype": "(9999999,)f8"}, r"configuration\.dtype"),
    ("delta", {"dtype": [["a", "<i4"]]}, r"configuration\.dtype"),
    ("astype", {"encode_dtype": "i4,i4"}, r"configuration\.encode_dtype"),
    ("delta", {"unit": 1}, r"configuration\.unit: is not a member"),
    ("quantize", {"digits": 1e9, "dtype": "<f8"}, r"configuration\.digits"),
    ("shuffle", {"elementsize": -1}, r"configuration\.elementsize"),
    ("zlib", {"level": 10}, r"configuration\.level"),
    ("blosc", {"shuffle": "shuffle"}, r"configuration\.shuffle"),
    ("blosc", {"cname": "x"}, r"configuration\.cname"),
    ("lzma", {"format": 3}, r"configuration\.filters: is missing"),
    ("lzma", {"filters": "x"}, r"configuration\.filters"),
    ("crc32", {"location": "middle"}, r"configuration\.location"),
    ("jenkins_lookup3", {"initval": -1}, r"configuration\.initval"),
    ("packbits", {"x": 1}, r"configuration\.x"),
]


@pytest.mark.parametrize("identity, configuration, fault", REFUSED, ids=str)
def test_configurations_that_are_refused(identity: str, configuration: dict[str, Any], fault: str) -> None:
    with pytest.raises(MetadataError, match=rf"^codecs\[0\]\.{fault}"):
        codec_from({"name": f"numcodecs.{identity}", "configuration": configuration}, "codecs[0]")


def test_chunks_that_are_refused() -> None:
    for identity, dtype in (("packbits", "uint8"), ("delta", "S3"), ("bitround", "bool")):
        configuration = {"keepbits": 1} if identity == "bitround" else {}
        with pytest.raises(MetadataError, match=r"codecs\[0\]"):
            build(
                [{"name": f"numcodecs.{identity}", "configuration": configuration}, "bytes"], spec_of(dtype)
            )
    with pytest.raises(
        MetadataError, match=r"configuration\.dtype: found int64, the chunk has elements of int32"
    ):
        build([{"name": "numcodecs.delta", "configuration": {"dtype": "<i8"}}, "bytes"], spec_of("int32"))


def test_objects_of_the_package() -> None:
    import numcodecs as package

    spec = spec_of("int32")
    given = [
        (package.Zstd(level=3), "zstd"),
        (package.GZip(level=2), "gzip"),
        (package.Blosc(cname="zstd", shuffle=2), "blosc"),
        (package.Zlib(level=4), "numcodecs.zlib"),
        (package.LZ4(), "numcodecs.lz4"),
        (package.Shuffle(elementsize=4), "numcodecs.shuffle"),
        (package.BZ2(), "numcodecs.bz2"),
        (package.LZMA(), "numcodecs.lzma"),
        (package.CRC32(), "numcodecs.crc32"),
        (package.JenkinsLookup3(), "numcodecs.jenkins_lookup3"),
    ]
    value = noise(spec)
    for codec, name in given:
        chain = build(["bytes", codec], spec)
        assert chain.codecs[1].name == name
        assert same(chain.decode(chain.encode(value)), value)
    assert build(["bytes", package.Blosc(shuffle=-1)], spec).codecs[1].configuration()["shuffle"] == "shuffle"
    filters = [package.Delta(dtype="<i4"), "bytes"]
    assert same(build(filters, spec).decode(build(filters, spec).encode(value)), value)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *arguments: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "numcodecs":
            raise ImportError(name)
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    _made.cache_clear()
    for name, dtype in (("lz4", "uint8"), ("delta", "int32"), ("pcodec", "int32")):
        serializer = [] if name == "pcodec" else ["bytes"]
        codecs = [*serializer, {"name": f"numcodecs.{name}"}]
        codecs = codecs[::-1] if name == "delta" else codecs
        with pytest.raises(UnknownCodecError, match=r"pip install 'terrazzo\[numcodecs\]'"):
            build(codecs, spec_of(dtype))
    build(["bytes", {"name": "numcodecs.bz2"}], spec_of("uint8"))
    _made.cache_clear()


def test_all_names_are_known() -> None:
    assert {"numcodecs.zlib", "numcodecs.delta", "numcodecs.bitround", "numcodecs.pcodec"} <= set(
        known_codecs()
    )
