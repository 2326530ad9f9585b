"""vlen-utf8 and vlen-bytes: known bytes, round trips, hostile lengths."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from terrazzo.errors import CodecError, MetadataError
from tests.codecs.codec_chunks import build, spec_of


def u32(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


def test_text_by_hand() -> None:
    chain = build(["vlen-utf8"], spec_of("string", (2, 2)))
    value = np.array([["a", ""], ["é", "𝄞!"]], np.dtypes.StringDType())
    expected = u32(4) + u32(1) + b"a" + u32(0) + u32(2) + "é".encode() + u32(5) + "𝄞!".encode()
    assert chain.encode(value) == expected
    decoded = chain.decode(expected)
    assert decoded.dtype == np.dtypes.StringDType()
    assert decoded.tolist() == value.tolist()


def test_bytes_by_hand() -> None:
    chain = build(["vlen-bytes"], spec_of({"name": "bytes"}, (3,)))
    value = np.array([b"\0\1", b"", b"xyz"], object)
    expected = u32(3) + u32(2) + b"\0\1" + u32(0) + u32(3) + b"xyz"
    assert chain.encode(value) == expected
    assert chain.decode(expected).tolist() == value.tolist()


@given(
    st.lists(st.text(max_size=12), min_size=6, max_size=6),
    st.sampled_from([["zstd"], ["gzip:1", "crc32c"], []]),
)
def test_text_round_trips(texts: list[str], compressors: list[str]) -> None:
    chain = build(["vlen-utf8", *compressors], spec_of("string", (2, 3)))
    value = np.array(texts, np.dtypes.StringDType()).reshape(2, 3)
    assert chain.decode(chain.encode(value)).tolist() == value.tolist()
    assert chain.decode(chain.encode(value.astype(object))).tolist() == value.tolist()


@given(st.lists(st.binary(max_size=12), min_size=4, max_size=4))
def test_bytes_round_trip(elements: list[bytes]) -> None:
    chain = build(["vlen-bytes", "zstd"], spec_of({"name": "bytes"}, (4,)))
    value = np.empty(4, object)
    value[:] = elements
    assert chain.decode(chain.encode(value)).tolist() == elements


def test_inside_a_shard() -> None:
    from terrazzo.codecs import ShardingCodec

    chain = build([ShardingCodec((2,), ["vlen-utf8", "zstd"])], spec_of("string", (6,), "-"))
    value = np.array(["one", "two", "-", "-", "-", "six"], np.dtypes.StringDType())
    assert chain.decode(chain.encode(value)).tolist() == value.tolist()
    assert chain.sharding is not None
    entries = chain.sharding.decode_index(chain.encode(value)[-52:], (3,))
    assert (entries[:, 0] == 2**64 - 1).tolist() == [False, True, False]


HOSTILE = {
    "nothing": b"",
    "no lengths": u32(2),
    "count too large": u32(2**32 - 1) + bytes(8),
    "count too small": u32(1) + bytes(8),
    "length past the end": u32(2) + u32(5) + u32(0),
    "largest length": u32(2) + u32(2**32 - 1) + u32(0),
    "second cut short": u32(2) + u32(2) + b"ab" + b"\0\0",
    "trailing bytes": u32(2) + u32(0) + u32(0) + b"x",
}


@pytest.mark.parametrize("encoded", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("codec, dtype", [("vlen-utf8", "string"), ("vlen-bytes", {"name": "bytes"})])
def test_hostile_bytes(codec: str, dtype: Any, encoded: bytes) -> None:
    with pytest.raises(CodecError, match=f"^{codec}: "):
        build([codec], spec_of(dtype, (2,))).decode(encoded)


@given(st.binary(max_size=40))
def test_any_bytes_decode_or_raise(encoded: bytes) -> None:
    try:
        assert build(["vlen-utf8"], spec_of("string", (2,))).decode(encoded).shape == (2,)
    except CodecError:
        pass


def test_text_that_is_no_text() -> None:
    chain = build(["vlen-utf8"], spec_of("string", (1,)))
    with pytest.raises(CodecError, match="not UTF-8"):
        chain.decode(u32(1) + u32(2) + b"\xc3\x28")


def test_elements_that_are_no_bytes() -> None:
    chain = build(["vlen-bytes"], spec_of({"name": "bytes"}, (2,)))
    with pytest.raises(CodecError, match="element 1 is a str"):
        chain.encode(np.array([b"a", "b"], object))


@pytest.mark.parametrize(
    "codec, dtype", [("vlen-utf8", "int32"), ("vlen-bytes", "string"), ("vlen-utf8", "S3")]
)
def test_data_types_that_are_refused(codec: str, dtype: str) -> None:
    with pytest.raises(MetadataError, match=rf"codecs\[0\]: {codec} encodes the data type"):
        build([codec], spec_of(dtype))
    with pytest.raises(MetadataError, match="is not a member"):
        build([{"name": codec, "configuration": {"x": 1}}], spec_of(dtype))
