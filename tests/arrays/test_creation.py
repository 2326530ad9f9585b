"""New arrays' documents: what callers may say, what is chosen where they say nothing, and what they are told."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import terrazzo
from terrazzo.arrays.creation import array_metadata
from terrazzo.chunk_grid import RectilinearGrid, RegularGrid
from terrazzo.chunk_keys import V2Keys
from terrazzo.codecs import BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec
from terrazzo.errors import (
    DataTypeValidationError,
    LimitError,
    MetadataError,
    UnknownCodecError,
)
from terrazzo.metadata import ArrayMetadata, parse_node
from terrazzo.stores.memory import MemoryStore


def document(shape: Any = (10,), dtype: Any = "i4", **how: Any) -> dict[str, Any]:
    return array_metadata(shape, dtype, **how).to_document()


def names(codecs: list[dict[str, Any]]) -> list[str]:
    return [codec["name"] for codec in codecs]


# codecs


def test_codecs_left_to_us_end_with_a_checksum() -> None:
    assert document()["codecs"] == [
        {"name": "bytes", "configuration": {"endian": "little"}},
        {"name": "zstd", "configuration": {"level": 3, "checksum": False}},
        {"name": "crc32c"},
    ]


def test_codecs_left_to_us_lie_inside_the_shard() -> None:
    (codec,) = document((100,), chunks=(10,), shards=(50,))["codecs"]
    assert codec["name"] == "sharding_indexed"
    configuration = codec["configuration"]
    assert configuration["chunk_shape"] == [10]
    assert names(configuration["codecs"]) == ["bytes", "zstd", "crc32c"]
    assert names(configuration["index_codecs"]) == ["bytes", "crc32c"]
    assert configuration["index_location"] == "end"


@pytest.mark.parametrize(
    "dtype, serializer", [("string", "vlen-utf8"), ("bytes", "vlen-bytes"), ("u1", "bytes")]
)
def test_the_serializer_follows_from_the_type(dtype: str, serializer: str) -> None:
    assert document(dtype=dtype)["codecs"][0]["name"] == serializer


@pytest.mark.parametrize("none", [None, (), [], ""])
def test_no_compressor_is_no_compressor(none: Any) -> None:
    assert names(document(compressors=none)["codecs"]) == ["bytes"]


@pytest.mark.parametrize(
    "said",
    [
        "zstd:5",
        ["zstd:5"],
        ZstdCodec(5),
        (ZstdCodec(level=5),),
        {"name": "zstd", "configuration": {"level": 5, "checksum": False}},
        [{"id": "zstd", "level": 5}],
    ],
)
def test_a_compressor_may_be_said_in_many_ways(said: Any) -> None:
    assert document(compressors=said)["codecs"][1:] == [
        {"name": "zstd", "configuration": {"level": 5, "checksum": False}}
    ]


def test_codecs_of_other_libraries_are_taken() -> None:
    class Theirs:
        def to_dict(self) -> dict[str, Any]:
            return {"name": "gzip", "configuration": {"level": 4}}

    class Numcodec:
        def get_config(self) -> dict[str, Any]:
            return {"id": "zstd", "level": 7, "checksum": True}

    codecs = document(compressors=[Theirs(), Numcodec()])["codecs"]
    assert codecs[1:] == [
        {"name": "gzip", "configuration": {"level": 4}},
        {"name": "zstd", "configuration": {"level": 7, "checksum": True}},
    ]


def test_several_compressors_in_one_string() -> None:
    assert names(document(compressors="gzip:1, crc32c")["codecs"]) == ["bytes", "gzip", "crc32c"]


def test_what_follows_from_the_chunk_is_in_the_document() -> None:
    blosc = document(dtype="i2", compressors="blosc:lz4:5:shuffle")["codecs"][1]
    assert blosc["configuration"]["typesize"] == 2
    inner = document((8, 8), "f8", chunks=2, shards=4, compressors="blosc:zstd:3:bitshuffle")["codecs"][0]
    assert inner["configuration"]["codecs"][1]["configuration"]["typesize"] == 8


def test_named_filters_and_serializer() -> None:
    codecs = document(
        (4, 6), filters=TransposeCodec((1, 0)), serializer=BytesCodec("big"), compressors=GzipCodec(1)
    )
    assert names(codecs["codecs"]) == ["transpose", "bytes", "gzip"]
    assert codecs["codecs"][1]["configuration"] == {"endian": "big"}


def test_all_codecs_in_one_list_are_taken_literally() -> None:
    chain = [ShardingCodec((2,), ("bytes", "crc32c")), Crc32cCodec()]
    assert names(document((8,), chunks=4, codecs=chain)["codecs"]) == ["sharding_indexed", "crc32c"]
    with pytest.raises(ValueError, match="codecs= names all codecs"):
        document(codecs=["bytes"], compressors="zstd")
    with pytest.raises(ValueError, match="codecs= names all codecs"):
        document(codecs=["bytes"], chunks=1, shards=2)


@pytest.mark.parametrize(
    "argument, said, place",
    [
        ("compressors", "bytes", "serializer="),
        ("compressors", TransposeCodec((0,)), "filters="),
        ("filters", "zstd", "compressors="),
        ("serializer", "crc32c", "compressors="),
    ],
)
def test_a_codec_of_the_wrong_kind_is_told_its_place(argument: str, said: Any, place: str) -> None:
    with pytest.raises(TypeError, match=re.escape(place)):
        document(**{argument: said})


def test_an_unknown_codec_is_told_what_is_near() -> None:
    with pytest.raises(UnknownCodecError, match="compressors.*zstt.*zstd"):
        document(compressors="zstt")
    with pytest.raises(TypeError, match="compressors.*is no codec"):
        document(compressors=5)


def test_the_order_of_codecs_is_checked() -> None:
    with pytest.raises(MetadataError, match="bytes"):
        document(codecs=["zstd", "bytes"])


# chunks


def test_chunks_and_shards_as_people_say_them() -> None:
    grid = document((10_000, 10_000), "u1", chunks="1MiB", shards="auto")
    assert grid["codecs"][0]["configuration"]["chunk_shape"] == [1024, 1024]
    assert document((4, 6), chunks=(-1, 2))["chunk_grid"]["configuration"] == {"chunk_shape": [4, 2]}
    assert document((4, 6), chunks=3)["chunk_grid"]["configuration"] == {"chunk_shape": [3, 3]}
    assert document(6)["shape"] == [6]
    assert document((100,), chunks=RegularGrid((7,)))["chunk_grid"]["configuration"] == {"chunk_shape": [7]}


def test_lists_of_edges_make_a_rectilinear_grid() -> None:
    grid = document((60, 10), chunks=[[10, 20, 30], 5])["chunk_grid"]
    assert grid == {
        "name": "rectilinear",
        "configuration": {"kind": "inline", "chunk_shapes": [[10, 20, 30], 5]},
    }
    grid = document((60, 10), chunks=([[10, 6]], None))["chunk_grid"]
    assert RectilinearGrid(*grid["configuration"]["chunk_shapes"]).grid_shape((60, 10)) == (6, 1)
    sharded = document((60,), chunks=(5,), shards=[[10, 20, 30]])
    assert sharded["chunk_grid"]["name"] == "rectilinear"
    assert sharded["codecs"][0]["configuration"]["chunk_shape"] == [5]


@pytest.mark.parametrize(
    "how, words",
    [
        (dict(chunks=(3,), shards=(7,)), "multiple of the chunk's 3"),
        (dict(chunks=(0,)), "at least 1"),
        (dict(chunks="10 apples"), "chunks: .*size looks like"),
        (dict(chunks=(1, 2)), "chunks: .*1 dimensions"),
        (dict(chunks=[[5, 5]], shards=(10,)), "inner chunks of a shard have one shape"),
        (dict(chunks=[[5, 5], [2]]), "chunks lists the edges of 2 dimensions; the array has 1"),
        (dict(chunks=[[5, 0, 5]]), "at least 1"),
    ],
)
def test_chunks_that_cannot_be_are_refused(how: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        document(**how)


def test_edges_that_do_not_cover_the_array_are_refused_when_it_is_made() -> None:
    with pytest.raises(MetadataError, match="cover 5 of a dimension of length 10"):
        terrazzo.create_array(None, shape=(10,), dtype="i4", chunks=[[2, 3]])
    with pytest.raises(MetadataError, match="must divide"):
        terrazzo.create_array(None, shape=(10,), dtype="i4", chunks=2, shards=[[4, 3, 3]])


# the rest


@pytest.mark.parametrize(
    "said, expected",
    [
        (None, {"name": "default", "configuration": {"separator": "/"}}),
        ("v2", {"name": "v2", "configuration": {"separator": "."}}),
        (("default", "."), {"name": "default", "configuration": {"separator": "."}}),
        ({"name": "v2", "separator": "/"}, {"name": "v2", "configuration": {"separator": "/"}}),
        (
            {"name": "v2", "configuration": {"separator": "/"}},
            {"name": "v2", "configuration": {"separator": "/"}},
        ),
        (V2Keys("/"), {"name": "v2", "configuration": {"separator": "/"}}),
    ],
)
def test_key_encodings(said: Any, expected: dict[str, Any]) -> None:
    assert document(chunk_key_encoding=said)["chunk_key_encoding"] == expected


def test_wrong_key_encodings() -> None:
    with pytest.raises(TypeError, match="chunk_key_encoding is 5"):
        document(chunk_key_encoding=5)
    with pytest.raises(MetadataError, match="separator"):
        terrazzo.create_array(None, shape=1, dtype="i4", chunk_key_encoding=("default", "-"))


@pytest.mark.parametrize(
    "shape, error",
    [((-1,), ValueError), ("3", TypeError), ((1.5,), TypeError), ((True,), TypeError), (None, TypeError)],
)
def test_shapes_that_are_none(shape: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="shape is"):
        document(shape)


def test_fill_values() -> None:
    assert document()["fill_value"] == 0
    assert document(fill_value=None)["fill_value"] == 0
    assert document(dtype="f4", fill_value=np.nan)["fill_value"] == "NaN"
    assert document(dtype=bool, fill_value=True)["fill_value"] is True
    with pytest.raises(DataTypeValidationError, match="'x' is not a int32"):
        document(fill_value="x")
    with pytest.raises(DataTypeValidationError, match="300"):
        document(dtype="u1", fill_value=300)


def test_dimension_names() -> None:
    assert document((2, 3), dimension_names=["y", None])["dimension_names"] == ["y", None]
    assert "dimension_names" not in document((2, 3))
    with pytest.raises(MetadataError, match="2 names, the array 1 dimensions"):
        document(dimension_names=["y", "x"])
    with pytest.raises(TypeError, match="sequence of names"):
        document(dimension_names="x")


def test_other_wrong_words() -> None:
    with pytest.raises(ValueError, match="index_location is 'middle'; 'end' and 'start'"):
        document(chunks=2, shards=4, index_location="middle")
    with pytest.raises(DataTypeValidationError, match="int31"):
        document(dtype="int31")
    with pytest.raises(ValueError, match="zarr_format is 4"):
        terrazzo.create_array(None, shape=1, dtype="i4", zarr_format=4)
    with pytest.raises(ValueError, match="order is 'Z'"):
        terrazzo.create_array(None, shape=1, dtype="i4", order="Z")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="order is 'Z'"):
        terrazzo.create_array(None, shape=1, dtype="i4", config={"order": "Z"})


def test_values_come_in_the_order_that_is_asked_for() -> None:
    """As zarr-python has it: the setting is of values in memory, and not of what is stored."""
    values = np.arange(24).reshape(4, 6)
    store = MemoryStore()
    how: dict[str, object] = {"data": values, "chunks": (2, 3), "shards": (4, 6)}
    array = terrazzo.create_array(store, config={"order": "F"}, **how)  # type: ignore[arg-type]
    assert array.order == "F"
    assert terrazzo.create_array(None, order="F", **how).order == "F"  # type: ignore[arg-type]
    found = [
        array[...],
        array[1:3, :5],
        array.oindex[[0, 2], :],
        array.blocks[0, 0],
        array.read_many([np.s_[:]])[0],
    ]
    found.append(asyncio.run(array.async_array.getitem(...)))
    for one in found:
        assert one.flags.f_contiguous
        assert not one.flags.c_contiguous
    np.testing.assert_array_equal(found[0], values)
    np.testing.assert_array_equal(found[1], values[1:3, :5])
    assert array[1].shape == (6,)
    assert array[1, 1] == 7
    out = np.empty((4, 6), "i8")
    assert array.get_basic_selection(..., out=out) is out
    np.testing.assert_array_equal(out, values)
    assert terrazzo.open_array(store)[...].flags.c_contiguous
    with terrazzo.config.set({"array.order": "F"}):
        assert terrazzo.config.get("array.order") == "F"
        assert terrazzo.open_array(store)[...].flags.f_contiguous


def test_limits_of_the_context_hold_and_may_be_raised() -> None:
    with terrazzo.config.set({"limits.chunk_nbytes": 100}):
        with pytest.raises(LimitError, match=r"limits\.chunk_nbytes|limit"):
            terrazzo.create_array(None, shape=1000, dtype="i4", chunks=1000)
    with terrazzo.config.set({"limits.chunk_nbytes": 1 << 40}):
        terrazzo.create_array(None, shape=(1 << 20, 1 << 12), dtype="u1", chunks=-1)


def test_objects_are_stored_as_what_they_are() -> None:
    words = np.array(["a", "bc"], dtype=object)
    assert terrazzo.array(words)[:].tolist() == ["a", "bc"]
    pieces = np.array([b"a", b"\0bc"], dtype=object)
    assert terrazzo.array(pieces)[:].tolist() == [b"a", b"\0bc"]
    with pytest.raises(TypeError, match="int, str"):
        terrazzo.array(np.array(["a", 1], dtype=object))


@given(
    shape=st.lists(st.integers(0, 50), max_size=3),
    edges=st.lists(st.integers(1, 20), min_size=3, max_size=3),
    factor=st.integers(1, 3) | st.none(),
    dtype=st.sampled_from(["bool", "i2", "f8", "c8", "U3", "string", "M8[s]"]),
    compressors=st.sampled_from(["auto", None, "gzip:1", "blosc:lz4", "zstd,crc32c"]),
    location=st.sampled_from(["start", "end"]),
)
def test_every_document_we_make_is_read_as_the_same(
    shape: list[int], edges: list[int], factor: int | None, dtype: str, compressors: Any, location: str
) -> None:
    chunks = tuple(edges[: len(shape)])
    shards = None if factor is None else tuple(edge * factor for edge in chunks)
    said: dict[str, Any] = {"compressors": compressors, "index_location": location}
    if dtype == "string" and compressors == "blosc:lz4":
        said["compressors"] = None  # blosc is told an element's size, and strings have none
    made = array_metadata(shape, dtype, chunks=chunks, shards=shards, **said)
    read = parse_node(made.to_bytes())
    assert isinstance(read, ArrayMetadata)
    assert read == made and read.shape == tuple(shape)
