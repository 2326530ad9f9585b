"""sharding_indexed: bytes by hand, whole shards in every form, indexes that lie, limits."""

from __future__ import annotations

import pickle
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import terrazzo
from terrazzo.codecs import (
    BytesCodec,
    Crc32cCodec,
    GzipCodec,
    ShardingCodec,
    TransposeCodec,
    ZstdCodec,
    codec_from,
)
from terrazzo.codecs.sharding import ShardingIndexed
from terrazzo.errors import ChecksumError, CodecError, LimitError, MetadataError, ShardError
from terrazzo.options import Limits
from terrazzo.shard import EMPTY
from tests.codecs.codec_chunks import build, noise, same, spec_of

PLAIN = ["bytes"]
NO_CRC = [BytesCodec("little")]


def index_of(*entries: tuple[int, int], crc: bool = True) -> bytes:
    table = b"".join(struct.pack("<QQ", *entry) for entry in entries)
    return bytes(Crc32cCodec().encode(table)) if crc else table


def test_a_shard_by_hand() -> None:
    spec = spec_of("uint8", (2, 4))
    value = np.array([[1, 2, 0, 0], [3, 4, 5, 6]], np.uint8)
    body = b"\x01\x02" + b"\x03\x04" + b"\x05\x06"
    at_end = build([ShardingCodec((1, 2), PLAIN)], spec)
    # Morton order: (0,0), (0,1) is all fill, (1,0), (1,1)
    expected = body + index_of((0, 2), (EMPTY, EMPTY), (2, 2), (4, 2))
    assert at_end.encode(value) == expected
    assert same(at_end.decode(expected), value)
    at_start = build([ShardingCodec((1, 2), PLAIN, index_location="start")], spec)
    expected = index_of((68, 2), (EMPTY, EMPTY), (70, 2), (72, 2)) + body
    assert at_start.encode(value) == expected
    assert same(at_start.decode(expected), value)


def test_any_order_gaps_foreign_bytes_and_shared_bytes_are_legal() -> None:
    chain = build([ShardingCodec((2,), PLAIN)], spec_of("uint8", (8,), 9))
    shard = b"HEAD\x01\x02..\x03\x04\x05" + index_of((8, 2), (4, 2), (EMPTY, EMPTY), (9, 2))
    assert chain.decode(shard).tolist() == [3, 4, 1, 2, 9, 9, 4, 5]


def test_nothing_stored() -> None:
    spec = spec_of("float32", (4, 4), np.float32("nan"))
    chain = build([ShardingCodec((2, 2), ["bytes", "zstd"])], spec)
    empty = chain.encode(np.full((4, 4), spec.fill))
    assert empty == index_of(*[(EMPTY, EMPTY)] * 4)
    assert same(chain.decode(empty), np.full((4, 4), spec.fill))


def test_no_dimensions() -> None:
    chain = build([ShardingCodec((), PLAIN)], spec_of("int16", ()))
    assert chain.encode(np.int16(3)) == b"\x03\0" + index_of((0, 2))
    assert chain.decode(chain.encode(np.int16(3))).tolist() == 3
    assert chain.decode(chain.encode(np.int16(0))).tolist() == 0


inner_chains = st.sampled_from(
    [
        ["bytes"],
        ["bytes:big", "crc32c"],
        ["bytes", "zstd:1", "crc32c"],
        [TransposeCodec((1, 0)), "bytes", "blosc:lz4"],
        [ShardingCodec((1, 2), ["bytes", "gzip:1"])],
        [TransposeCodec((1, 0)), ShardingCodec((2, 1), ["bytes"], index_location="start")],
        [{"name": "bitround", "configuration": {"keepbits": 3}}, "bytes", "numcodecs.bz2"],
    ]
)
index_chains = st.sampled_from(
    [
        ["bytes", "crc32c"],
        ["bytes"],
        ["bytes:big"],
        ["bytes:big", "crc32c", "crc32c"],
        [{"name": "transpose", "configuration": {"order": [2, 0, 1]}}, "bytes", "crc32c"],
    ]
)


@given(
    inner_chains,
    index_chains,
    st.sampled_from(["start", "end"]),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.sampled_from(["uint8", "int32", "uint16"]),
    st.lists(st.booleans(), min_size=9, max_size=9),
)
def test_whole_shards(
    inner: Any, index: Any, location: str, count: tuple[int, int], dtype: str, full: list[bool]
) -> None:
    shape = (2 * count[0], 4 * count[1])
    spec = spec_of(dtype, shape, 3)
    value = np.full(shape, 3, dtype)
    for number, there in enumerate(full[: count[0] * count[1]]):
        if there:
            row, column = divmod(number, count[1])
            # few significant bits, so that bitround keeps them
            value[2 * row : 2 * row + 2, 4 * column : 4 * column + 4] = (
                np.arange(8).reshape(2, 4) % 5 + number % 2
            )
    chain = build([ShardingCodec((2, 4), inner, index, location)], spec)
    encoded = chain.encode(value)
    assert same(chain.decode(encoded), value)

    # the index says what is stored
    sharding = chain.sharding
    assert sharding is not None
    start, stop = sharding.index_span(count, len(encoded))
    entries = sharding.decode_index(encoded[start:stop], count)
    stored = [value[2 * r : 2 * r + 2, 4 * c : 4 * c + 4] for r in range(count[0]) for c in range(count[1])]
    assert (entries[:, 0] != EMPTY).tolist() == [bool((part != 3).any()) for part in stored]
    for entry, part in zip(entries.tolist(), stored, strict=True):
        if entry[0] != EMPTY:
            assert same(sharding.inner_chain.decode(encoded[entry[0] : sum(entry)]), part)
    assert sharding.encode_index(entries, count) == encoded[start:stop]


def test_native_and_python_shards_are_the_same_bytes() -> None:
    spec = spec_of("float32", (8, 8))
    value = np.where(noise(spec_of("bool", (8, 8))), np.float32(1.5), np.float32(0))
    value[:4, :2] = 0
    native = build([ShardingCodec((4, 2), ["bytes", "crc32c"])], spec)
    python = build([ShardingCodec((4, 2), ["bytes", "numcodecs.crc32c"])], spec)
    indirect = build(
        [ShardingCodec((4, 2), ["bytes", {"name": "numcodecs.crc32c", "configuration": {}}])], spec
    )
    assert native.sharding is not None
    assert native.sharding.inner_chain.native is not None
    assert native.encode(value) == python.encode(value) == indirect.encode(value)
    packed = build([ShardingCodec((4, 2), [{"name": "packbits"}, "crc32c"])], spec)
    assert packed.sharding is not None
    assert packed.sharding.inner_chain.native is None
    assert packed.encode(value) == native.encode(value)
    assert same(packed.decode(native.encode(value)), value)


def test_behind_array_codecs_and_before_a_compressor() -> None:
    spec = spec_of("int16", (4, 6))
    value = noise(spec)
    chain = build([TransposeCodec((1, 0)), ShardingCodec((3, 2), ["bytes", "crc32c"]), "gzip:1"], spec)
    assert chain.sharding is None
    assert chain.native is None
    assert same(chain.decode(chain.encode(value)), value)
    shard = build([ShardingCodec((3, 2), ["bytes", "crc32c"])], spec_of("int16", (6, 4)))
    assert bytes(GzipCodec(1).decode(chain.encode(value), 1 << 16)) == shard.encode(
        np.ascontiguousarray(value.T)
    )


def test_the_inner_shape_divides_what_the_codec_receives() -> None:
    spec = spec_of("u1", (4, 6))
    build([TransposeCodec((1, 0)), ShardingCodec((3, 2), PLAIN)], spec)
    with pytest.raises(
        MetadataError, match=r"codecs\[1\]\.configuration\.chunk_shape: found \[4, 3\].*\[6, 4\]"
    ):
        build([TransposeCodec((1, 0)), ShardingCodec((4, 3), PLAIN)], spec)
    with pytest.raises(MetadataError, match=r"found 1 extents, the shard has 2"):
        build([ShardingCodec((4,), PLAIN)], spec)
    with pytest.raises(MetadataError, match=r"must divide"):
        build([ShardingCodec((8, 6), PLAIN)], spec)


FULL = {"chunk_shape": [2], "codecs": [{"name": "bytes"}], "index_codecs": [{"name": "bytes"}]}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no codecs": ({"codecs": None}, r"configuration\.codecs: is missing"),
    "no index codecs": ({"index_codecs": None}, r"configuration\.index_codecs: is missing"),
    "no chunk shape": ({"chunk_shape": None}, r"configuration\.chunk_shape: is missing"),
    "another member": ({"order": "morton"}, r"configuration\.order: is not a member.*`index_location`"),
    "location": ({"index_location": "middle"}, r'configuration\.index_location: found "middle"'),
    "extent": ({"chunk_shape": [0]}, r"configuration\.chunk_shape\[0\]: found 0, must be an integer >= 1"),
    "extent of another kind": ({"chunk_shape": [2.0]}, r"configuration\.chunk_shape\[0\]: found 2\.0"),
    "shape of another kind": ({"chunk_shape": 2}, r"configuration\.chunk_shape: found 2"),
    "codecs of another kind": ({"codecs": "bytes"}, r'configuration\.codecs: found "bytes", must be a list'),
    "unknown": ({"codecs": [{"name": "byts"}]}, r'configuration\.codecs\[0\]: found the codec "byts"'),
    "deep": (
        {"codecs": [{"name": "sharding_indexed", "configuration": {**FULL, "codecs": [{"name": "gzip"}]}}]},
        r"configuration\.codecs\[0\]\.configuration\.codecs\[0\]\.configuration\.level: is missing",
    ),
}


@pytest.mark.parametrize("change, fault", REFUSED.values(), ids=REFUSED)
def test_configurations_that_are_refused(change: dict[str, Any], fault: str) -> None:
    configuration = {name: one for name, one in {**FULL, **change}.items() if one is not None}
    with pytest.raises(MetadataError, match=r"^codecs\[0\]\." + fault):
        codec_from({"name": "sharding_indexed", "configuration": configuration}, "codecs[0]")


CHAINS: dict[str, tuple[dict[str, Any], str]] = {
    "no serializer": ({"codecs": []}, r"codecs\[0\]\.configuration\.codecs: no codec makes bytes"),
    "compressed index": (
        {"index_codecs": ["bytes", "gzip"]},
        r"codecs\[0\]\.configuration\.index_codecs: found bytes, gzip: indexes would differ in length",
    ),
    "sharded index": (
        {"index_codecs": [ShardingCodec((2, 2), ["bytes"])]},
        r"index_codecs: found sharding_indexed: indexes would differ",
    ),
    "endian of the index": (
        {"index_codecs": [{"name": "bytes"}]}, r"index_codecs\[0\]\.configuration\.endian: is missing"
    ),
    "inner endian": ({"codecs": [{"name": "bytes"}]}, r"configuration\.codecs\[0\]\.configuration\.endian"),
}  # fmt: skip


@pytest.mark.parametrize("members, fault", CHAINS.values(), ids=CHAINS)
def test_chains_that_are_refused(members: dict[str, Any], fault: str) -> None:
    with pytest.raises(MetadataError, match=fault):
        build([ShardingCodec(**{"chunk_shape": (2,), "codecs": PLAIN, **members})], spec_of("int32", (8,)))


def test_as_documents_have_it() -> None:
    codec = ShardingCodec(chunk_shape=(2, 4), codecs=["bytes", "zstd:3"])
    document = codec.to_dict()
    assert document == {
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": [2, 4],
            "codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "zstd", "configuration": {"level": 3, "checksum": False}},
            ],
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
            "index_location": "end",
        },
    }
    assert codec_from(document) == codec
    configuration = (
        build([ShardingCodec((2, 3), ["bytes", "blosc"])], spec_of("uint8")).codecs[0].configuration()
    )
    assert configuration["codecs"][0] == {"name": "bytes"}
    assert configuration["codecs"][1]["configuration"]["typesize"] == 1


# two inner chunks of two bytes in front of the index
BODY = b"\x01\x02\x03\x04"
CORRUPT: dict[str, tuple[bytes, type[Exception], str]] = {
    "offset empty alone": (
        BODY + index_of((EMPTY, 0), (2, 2)),
        ShardError,
        r"inner chunk \(0,\).*only one of the two",
    ),
    "nbytes empty alone": (
        BODY + index_of((0, 2), (0, EMPTY)),
        ShardError,
        r"inner chunk \(1,\).*only one of the two",
    ),
    "sum wraps": (BODY + index_of((EMPTY - 1, 4), (2, 2)), ShardError, "past the end"),
    "past the end": (
        BODY + index_of((0, 2), (39, 2)),
        ShardError,
        "past the end of the shard, which has 40 bytes",
    ),
    "in the index": (
        BODY + index_of((0, 2), (3, 2)),
        ShardError,
        "lies in the index, which takes the bytes 4 to 40",
    ),
    "no bytes": (BODY + index_of((0, 2), (2, 0)), ShardError, "at least one byte"),
    "too long": (BODY + index_of((0, 3), (2, 2)), CodecError, r"inner chunk \(0,\)"),
    "too short": (BODY + index_of((0, 2), (2, 1)), CodecError, r"inner chunk \(1,\)"),
    "cut in the index": (index_of((0, 2), (2, 2))[1:], ShardError, "cut short"),
    "nothing at all": (b"", ShardError, "a shard of 0 bytes was found, its index alone has 36"),
    "wrong checksum": (BODY + index_of((0, 2), (2, 2))[:-1] + b"!", ChecksumError, "crc32c"),
}


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("shard, error, fault", CORRUPT.values(), ids=CORRUPT)
def test_indexes_that_lie(shard: bytes, error: type[Exception], fault: str, native: bool) -> None:
    inner = PLAIN if native else [{"name": "packbits"}]
    chain = build([ShardingCodec((2,), inner)], spec_of("uint8", (4,)))
    with pytest.raises(error, match=fault):
        chain.decode(shard)


def test_lenient_readers_look_into_the_index() -> None:
    shard = BODY + index_of((0, 2), (4, 2))
    spec = spec_of("uint8", (4,))
    assert build([ShardingCodec((2,), PLAIN)], spec, strict=False).decode(shard).tolist() == [1, 2, 0, 0]
    with pytest.raises(ShardError):
        build([ShardingCodec((2,), PLAIN)], spec).decode(shard)


def test_damage_inside_an_inner_shard_is_found() -> None:
    spec = spec_of("uint8", (8,))
    chain = build([ShardingCodec((4,), [ShardingCodec((2,), ["bytes", "crc32c"])])], spec)
    encoded = bytearray(chain.encode(np.arange(1, 9, dtype=np.uint8)))
    assert same(chain.decode(encoded), np.arange(1, 9, dtype=np.uint8))
    encoded[1] ^= 1
    with pytest.raises(
        ChecksumError, match=r"inner chunk \(0,\): sharding_indexed: inner chunk \(0,\): .*crc32c"
    ):
        chain.decode(encoded)


@given(st.binary(max_size=120), st.sampled_from(["start", "end"]))
def test_any_bytes_are_a_shard_or_an_error(noise: bytes, location: str) -> None:
    chain = build([ShardingCodec((2,), ["bytes", "zstd"], NO_CRC, location)], spec_of("uint8", (4,)))
    try:
        decoded = chain.decode(noise)
    except (ShardError, CodecError):
        return
    assert decoded.shape == (4,)


def test_limits() -> None:
    spec = spec_of("uint8", (1 << 20, 1 << 20))
    with pytest.raises(LimitError, match="index_entries"):
        build([ShardingCodec((1, 1), PLAIN)], spec)
    with pytest.raises(LimitError, match="index_entries"):
        build([ShardingCodec((1, 1), PLAIN, ["bytes:big"])], spec)
    huge = build([ShardingCodec((1 << 19, 1 << 20), PLAIN)], spec, limits=Limits(chunk_nbytes=1 << 40))
    assert huge.sharding is not None
    with pytest.raises(LimitError, match="chunk_nbytes"):
        build([ShardingCodec((1 << 19, 1 << 20), PLAIN)], spec)
    parts = build([ShardingCodec((1 << 14, 1 << 14), PLAIN)], spec)
    with pytest.raises(LimitError, match="whole"):
        parts.decode(bytes(100))
    codec: Any = "bytes"
    for _ in range(5):
        codec = ShardingCodec((2,), [codec])
    build([codec], spec_of("u1", (2,)), limits=Limits(depth=5))
    with pytest.raises(LimitError, match="4 levels"):
        build([codec], spec_of("u1", (2,)), limits=Limits(depth=4))


def test_functions_for_the_flows() -> None:
    chain = build([ShardingCodec((2, 2), ["bytes", ZstdCodec(1)])], spec_of("float32", (4, 8)))
    sharding = chain.sharding
    assert isinstance(sharding, ShardingIndexed)
    count = sharding.chunks_per_shard((4, 8))
    assert count == (2, 4)
    assert sharding.index_nbytes(count) == 8 * 16 + 4
    assert sharding.index_range(count) == (-132, None)
    assert sharding.index_span(count, 1000) == (868, 1000)
    assert sharding.inner_chain.spec.shape == (2, 2)
    assert sharding.index_nbytes((3, 4)) == 12 * 16 + 4
    start = build([ShardingCodec((2, 2), PLAIN, NO_CRC, "start")], spec_of("float32", (4, 8))).sharding
    assert start is not None
    assert start.index_range(count) == (0, 128)
    assert start.index_span(count, 1000) == (0, 128)
    again = pickle.loads(pickle.dumps(sharding))
    assert again.index_nbytes(count) == 132
    with pytest.raises(CodecError, match="131 bytes was found, 8 chunks take 132"):
        sharding.decode_index(bytes(131), count)


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
@pytest.mark.parametrize(("dtype", "value"), [("bytes", b"\0\0"), ("string", "ab"), ("int16", 7)])
def test_one_element_in_nested_shards(depth: int, dtype: str, value: object) -> None:
    codec: dict[str, object] = {"name": {"bytes": "vlen-bytes", "string": "vlen-utf8"}.get(dtype, "bytes")}
    if dtype == "int16":
        codec["configuration"] = {"endian": "little"}
    for _ in range(depth):
        index: list[object] = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
        configuration = {"chunk_shape": [], "codecs": [codec], "index_codecs": index}
        codec = {"name": "sharding_indexed", "configuration": configuration}
    array = terrazzo.create_array({}, shape=(), chunks=(), dtype=dtype, serializer=codec, compressors=None)
    array[()] = np.array(value, array.dtype)
    assert array[()] == value
    assert array[...].item() == value
