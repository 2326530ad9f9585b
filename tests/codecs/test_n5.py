"""n5_default: blocks made byte by byte, blocks cut to the array, and what is no such block."""

from __future__ import annotations

import gzip
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terrazzo.codecs import Chain, ChunkSpec, codec_from
from terrazzo.errors import CodecError, LimitError, MetadataError
from terrazzo.metadata import data_type_from_json
from terrazzo.options import Limits

REVERSE = {"name": "transpose", "configuration": {"order": [1, 0]}}
BIG = {"name": "bytes", "configuration": {"endian": "big"}}
GZIP = {"name": "gzip", "configuration": {"level": 1}}
SHAPE = (3, 5)
VALUES = np.arange(15, dtype=np.int16).reshape(SHAPE) * 100


def n5(*codecs: Any) -> dict[str, Any]:
    return {"name": "n5_default", "configuration": {"codecs": list(codecs)}}


def chain(*codecs: Any, shape: tuple[int, ...] = SHAPE, dtype: str = "int16", **limits: Any) -> Chain:
    data_type = data_type_from_json(dtype)
    spec = ChunkSpec(shape, data_type, data_type.cast_fill(7))
    return Chain.build([n5(*codecs)], spec, limits=Limits(**limits))


def block(values: np.ndarray[Any, Any], mode: int = 0) -> bytes:
    """As N5 states it: mode, dimensions, extents; then the elements, the first dimension fastest, big-endian."""
    head = struct.pack(f">HH{values.ndim}I", mode, values.ndim, *values.shape)
    return head + values.astype(values.dtype.newbyteorder(">")).tobytes(order="F")


def test_a_block_is_what_n5_says() -> None:
    codec = chain(REVERSE, BIG)
    assert codec.encode(VALUES) == block(VALUES)
    np.testing.assert_array_equal(codec.decode(block(VALUES)), VALUES)


def test_a_compressor_takes_what_follows_the_header() -> None:
    codec = chain(REVERSE, BIG, GZIP)
    raw = block(VALUES)
    np.testing.assert_array_equal(codec.decode(raw[:12] + gzip.compress(raw[12:])), VALUES)
    assert gzip.decompress(codec.encode(VALUES)[12:]) == raw[12:]


def test_blocks_at_the_border_are_padded_and_larger_ones_cut() -> None:
    codec = chain(REVERSE, BIG)
    found = codec.decode(block(VALUES[:2, :3]))
    np.testing.assert_array_equal(found[:2, :3], VALUES[:2, :3])
    assert (found[2:] == 7).all()
    assert (found[:, 3:] == 7).all()
    larger = np.pad(VALUES, ((0, 1), (0, 2)))
    np.testing.assert_array_equal(codec.decode(block(larger)), VALUES)


def test_single_bytes_need_no_endianness() -> None:
    values = VALUES.astype(np.uint8)
    np.testing.assert_array_equal(
        chain(REVERSE, {"name": "bytes"}, dtype="uint8").decode(block(values)), values
    )


@pytest.mark.parametrize(
    ("encoded", "reason"),
    [
        (b"", "header of a block"),
        (block(VALUES)[:11], "header of a block"),
        (block(VALUES, mode=1), "varlength"),
        (block(VALUES, mode=2), "object"),
        (block(VALUES, mode=77), "unknown"),
        (block(VALUES[0]), "of 1 dimensions"),
        (block(VALUES[:0]), "no elements"),
        (block(VALUES)[:-1], "bytes"),
        (block(VALUES) + b"x", "bytes"),
    ],
)
def test_what_is_no_block(encoded: bytes, reason: str) -> None:
    with pytest.raises(CodecError, match=reason):
        chain(REVERSE, BIG).decode(encoded)


def test_a_block_may_not_claim_more_than_the_limit() -> None:
    head = struct.pack(">HHII", 0, 2, 1 << 31, 1 << 31)
    with pytest.raises(LimitError, match="chunk_nbytes"):
        chain(REVERSE, BIG, GZIP).decode(head + gzip.compress(b""))


@pytest.mark.parametrize(
    ("codecs", "place"),
    [
        ([], "codecs"),
        ([BIG], "codecs"),
        ([REVERSE, BIG, GZIP, GZIP], "codecs"),
        ([BIG, REVERSE], r"codecs\[0\]"),
        ([REVERSE, GZIP], r"codecs\[1\]"),
        ([REVERSE, BIG, BIG], r"codecs\[2\]"),
        ([{"name": "transpose", "configuration": {"order": [0, 1]}}, BIG], r"codecs\[0\]"),
        ([REVERSE, {"name": "bytes", "configuration": {"endian": "little"}}], r"codecs\[1\]"),
    ],
)
def test_other_codecs_are_refused(codecs: list[Any], place: str) -> None:
    with pytest.raises(MetadataError, match=rf"codecs\[0\]\.configuration\.{place}"):
        chain(*codecs)


@pytest.mark.parametrize(("dtype", "shape"), [("bool", SHAPE), ("complex64", SHAPE), ("int16", ())])
def test_arrays_that_n5_does_not_have(dtype: str, shape: tuple[int, ...]) -> None:
    reverse = {"name": "transpose", "configuration": {"order": list(reversed(range(len(shape))))}}
    with pytest.raises(MetadataError, match="N5 has"):
        data_type = data_type_from_json(dtype)
        Chain.build([n5(reverse, BIG)], ChunkSpec(shape, data_type, data_type.default_fill()))


def test_inside_shards() -> None:
    sharding = {
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": [3, 5],
            "codecs": [n5(REVERSE, BIG, GZIP)],
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        },
    }
    data_type = data_type_from_json("int16")
    codec = Chain.build([sharding], ChunkSpec((6, 5), data_type, data_type.default_fill()))
    values = np.concatenate([VALUES, VALUES + 1])
    np.testing.assert_array_equal(codec.decode(codec.encode(values)), values)


def test_the_document_comes_back() -> None:
    document = n5(REVERSE, BIG, GZIP)
    assert codec_from(document).to_dict() == document


@settings(max_examples=80, deadline=None)
@given(encoded=st.binary(max_size=80), compressed=st.booleans())
def test_any_bytes_decode_or_are_refused(encoded: bytes, compressed: bool) -> None:
    codec = chain(REVERSE, BIG, *([GZIP] if compressed else []), chunk_nbytes=1 << 16)
    for given_bytes in (encoded, block(VALUES)[:4] + encoded):
        try:
            found = codec.decode(given_bytes)
        except (CodecError, LimitError):
            continue
        assert found.shape == SHAPE
