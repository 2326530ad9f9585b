"""zfp: every type and mode, streams that were cut short, and those of another library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terrazzo.codecs import Chain, ChunkSpec, ZfpCodec, codec_from
from terrazzo.codecs.zfp import HELD
from terrazzo.errors import CodecError, MetadataError
from terrazzo.metadata import data_type_from_json

zfpy = pytest.importorskip("zfpy")

SHAPES = [(), (1,), (5,), (7, 10), (3, 5, 6), (2, 3, 4, 5)]
LOSSY: list[dict[str, Any]] = [
    {"mode": "fixed_rate", "rate": 7.5},
    {"mode": "fixed_rate", "rate": 100},
    {"mode": "fixed_precision", "precision": 9},
    {"mode": "fixed_precision", "precision": 0},
]


def chain(codec: Any, dtype: str, shape: tuple[int, ...]) -> Chain:
    data_type = data_type_from_json(dtype)
    return Chain.build([codec], ChunkSpec(shape, data_type, data_type.default_fill()))


def values(dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    kind = data_type_from_json(dtype).numpy
    waves = np.sin(np.arange(int(np.prod(shape)), dtype=float)).reshape(shape) * 50 + 60
    return np.asarray(waves).astype(kind)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", HELD)
def test_reversible_keeps_every_bit_and_the_others_do_as_the_library(
    dtype: str, shape: tuple[int, ...]
) -> None:
    value = values(dtype, shape)
    whole = chain(ZfpCodec("reversible"), dtype, shape)
    assert whole.decode(whole.encode(value)).tobytes() == value.tobytes()
    for members in LOSSY:
        near = chain(ZfpCodec(**members), dtype, shape)
        found = near.decode(near.encode(value))
        assert (found.shape, found.dtype) == (value.shape, value.dtype)
        if shape and dtype in ("int32", "int64", "float32", "float64"):
            said = {name: one for name, one in members.items() if name != "mode"}
            np.testing.assert_array_equal(found, zfpy.decompress_numpy(zfpy.compress_numpy(value, **said)))


def test_what_fixed_accuracy_promises() -> None:
    value = values("float64", (7, 10))
    codec = chain(ZfpCodec("fixed_accuracy", tolerance=0.05), "float64", (7, 10))
    assert abs(codec.decode(codec.encode(value)) - value).max() <= 0.05


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("shape", [(5,), (7, 10), (3, 5, 6), (2, 3, 4, 5)], ids=str)
def test_expert_reads_what_other_modes_are_short_for(dtype: str, shape: tuple[int, ...]) -> None:
    value = values(dtype, shape)
    stream = zfpy.compress_numpy(value, precision=9, write_header=False)
    wanted = zfpy.decompress_numpy(zfpy.compress_numpy(value, precision=9, write_header=True))
    expert = ZfpCodec("expert", minbits=1, maxbits=16658, maxprec=9, minexp=-1074)
    codec = chain(expert, dtype, shape)
    np.testing.assert_array_equal(codec.decode(stream), wanted)
    with pytest.raises(CodecError, match="expert"):
        codec.encode(value)


def test_dates_are_their_integers() -> None:
    data_type = data_type_from_json(
        {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}}
    )
    codec = Chain.build([ZfpCodec("reversible")], ChunkSpec((9,), data_type, data_type.default_fill()))
    value = np.arange(9).astype("M8[s]")
    assert codec.decode(codec.encode(value)).tobytes() == value.tobytes()


def test_unsigned_integers_that_zfp_cannot_hold() -> None:
    codec = chain(ZfpCodec("reversible"), "uint32", (3,))
    with pytest.raises(CodecError, match="up to 2147483647"):
        codec.encode(np.array([1, 2, 1 << 31], np.uint32))


@pytest.mark.parametrize(
    ("configuration", "path"),
    [
        ({}, "mode"),
        ({"mode": "best"}, "mode"),
        ({"mode": "fixed_rate"}, "rate"),
        ({"mode": "fixed_rate", "rate": 1e9}, "rate"),
        ({"mode": "fixed_rate", "rate": True}, "rate"),
        ({"mode": "fixed_accuracy", "tolerance": -1}, "tolerance"),
        ({"mode": "reversible", "rate": 3}, "rate"),
        ({"mode": "fixed_precision", "precision": 1.5}, "precision"),
        ({"mode": "expert", "minbits": 1, "maxbits": 1 << 40, "maxprec": 3, "minexp": 0}, "maxbits"),
        ({"mode": "reversible", "write_header": True}, "write_header"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(configuration: dict[str, Any], path: str) -> None:
    with pytest.raises(MetadataError, match=rf"codecs\[0\]\.configuration\.{path}"):
        codec_from({"name": "zfp", "configuration": configuration}, "codecs[0]")


@pytest.mark.parametrize("dtype", ["bool", "complex64", "float8_e5m2"])
def test_types_that_zfp_does_not_have(dtype: str) -> None:
    with pytest.raises(MetadataError, match="zfp encodes"):
        chain(ZfpCodec("reversible"), dtype, (4,))


def test_at_most_four_dimensions() -> None:
    with pytest.raises(MetadataError, match="at most 4"):
        chain(ZfpCodec("reversible"), "float32", (1, 1, 1, 1, 4))


CUT: list[dict[str, Any]] = [
    {"mode": "reversible"},
    {"mode": "fixed_rate", "rate": 40},
    {"mode": "expert", "minbits": 0, "maxbits": 4000, "maxprec": 64, "minexp": -1074},
]


@pytest.mark.parametrize("members", CUT, ids=lambda members: members["mode"])
@pytest.mark.parametrize("dtype", ["int8", "float32", "float64", "int64"])
@settings(max_examples=40, deadline=None)
@given(stream=st.binary(max_size=4000), shape=st.sampled_from([(), (1,), (9,), (5, 9), (4, 4, 5)]))
def test_any_bytes_decode_or_are_refused(
    dtype: str, members: dict[str, Any], stream: bytes, shape: tuple[int, ...]
) -> None:
    """zfp itself reads past the end of what it is given; here it meets zeros."""
    codec = chain(ZfpCodec(**members), dtype, shape)
    try:
        found = codec.decode(stream)
    except CodecError:
        return
    assert found.shape == shape
