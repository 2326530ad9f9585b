"""Corners of the format where libraries differ: what each means here, on stores made byte by byte.

A row each: a name, a store, and our answer: the values, or the error and a part of its sentence. The rows follow the
parts of the specification: shard indexes, where the index lies, chains around shards, shapes, fill values, documents.
"""

from __future__ import annotations

import gzip
import json
import warnings
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.codecs.native import crc32c
from terrazzo.errors import CodecError, MetadataError, ShardError, TerrazzoError

MAX = 2**64 - 1
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
BIG = {"name": "bytes", "configuration": {"endian": "big"}}
CRC = {"name": "crc32c"}
GZIP = {"name": "gzip", "configuration": {"level": 1}}
VALUES = np.arange(8, dtype=np.int32)
FILL = -1

Store = dict[str, bytes]


def document(**members: Any) -> dict[str, Any]:
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [8],
        "data_type": "int32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": FILL,
        "codecs": [LITTLE],
        "attributes": {},
        **members,
    }


def sharded(
    chunk_shape: Any = (4,), codecs: Any = (LITTLE,), index: Any = (LITTLE, CRC), where: str = "end"
) -> Any:
    configuration = {
        "chunk_shape": list(chunk_shape),
        "codecs": list(codecs),
        "index_codecs": list(index),
        "index_location": where,
    }
    return {"name": "sharding_indexed", "configuration": configuration}


def index_bytes(entries: Any, *, checked: bool = True, order: str = "<") -> bytes:
    table = np.array(entries, f"{order}u8").tobytes()
    return table + (crc32c(table).to_bytes(4, "little") if checked else b"")


BODY = VALUES.tobytes()
RIGHT = [[0, 16], [16, 16]]


def store(chunk: bytes | None, codec: Any = None, key: str = "c/0", **members: Any) -> Store:
    made = document(codecs=[sharded() if codec is None else codec], **members)
    found = {"zarr.json": json.dumps(made).encode()}
    if chunk is not None:
        found[key] = chunk
    return found


def plain(chunk: bytes | None = None, key: str = "c/0", **members: Any) -> Store:
    found = {"zarr.json": json.dumps(document(**members)).encode()}
    return found if chunk is None else {**found, key: chunk}


def entries(*found: Any) -> Store:
    return store(BODY + index_bytes(found))


def at_start(first: int) -> Store:
    return store(index_bytes([[first, 16], [first + 16, 16]]) + BODY, sharded(where="start"))


def without(member: str) -> Store:
    codec = sharded()
    del codec["configuration"][member]
    return store(BODY + index_bytes(RIGHT), codec)


def changed(**members: Any) -> Store:
    codec = sharded()
    codec["configuration"].update(members)
    return store(BODY + index_bytes(RIGHT), codec)


def transposed(chunk_shape: Any) -> Store:
    """A transpose before shards of 2 x 4: the codec receives 4 x 2."""
    values = np.arange(8, dtype=np.int32).reshape(2, 4).T
    first, second = values[:2], values[2:]
    codecs = [{"name": "transpose", "configuration": {"order": [1, 0]}}, sharded(chunk_shape)]
    made = document(
        shape=[2, 4], chunk_grid={"name": "regular", "configuration": {"chunk_shape": [2, 4]}}, codecs=codecs
    )
    shard = first.tobytes() + second.tobytes() + index_bytes(RIGHT)
    return {"zarr.json": json.dumps(made).encode(), "c/0/0": shard}


def nested(where: str = "end") -> Store:
    inner = sharded((2,), where=where)
    parts = []
    for half in (VALUES[:4], VALUES[4:]):
        lead = 36 if where == "start" else 0
        table = index_bytes([[lead, 8], [lead + 8, 8]])
        parts.append(table + half.tobytes() if where == "start" else half.tobytes() + table)
    size = len(parts[0])
    return store(b"".join(parts) + index_bytes([[0, size], [size, size]]), sharded((4,), [inner]))


def empty_inner() -> Store:
    nothing = index_bytes([[MAX, MAX]] * 2)
    shard = nothing + nothing + index_bytes([[0, 36], [36, 36]])
    return store(shard, sharded((4,), [sharded((2,))]))


def with_fill(data_type: str, fill: Any) -> Store:
    return plain(
        data_type=data_type, fill_value=fill, codecs=[LITTLE] if data_type != "bool" else [{"name": "bytes"}]
    )


def bits(value: Any) -> bytes:
    return np.asarray(value).tobytes()


def member(**members: Any) -> Store:
    return plain(BODY, **members)


ROWS: dict[str, tuple[Store, Any]] = {
    # shard indexes
    "only the nbytes are empty": (entries([0, 16], [MAX, 0]), (ShardError, "only one of the two")),
    "only the offset is empty": (entries([0, MAX], [16, 16]), (ShardError, "only one of the two")),
    "offset and nbytes wrap": (entries([2**64 - 8, 16], [16, 16]), (ShardError, "past the end")),
    "a chunk of no bytes": (entries([0, 0], [16, 16]), (ShardError, "at least one byte")),
    "a range past the end": (entries([0, 16], [60, 16]), (ShardError, "past the end")),
    "a range inside the index": (entries([0, 16], [30, 16]), (ShardError, "lies in the index")),
    "the same range twice": (entries([0, 16], [0, 16]), np.tile(VALUES[:4], 2)),
    "overlapping ranges": (entries([0, 16], [4, 16]), [0, 1, 2, 3, 1, 2, 3, 4]),
    "both empty": (entries([MAX, MAX], [16, 16]), [FILL] * 4 + [4, 5, 6, 7]),
    "a shard shorter than its index": (store(BODY[:20]), (ShardError, "cut short")),
    "a shard of no bytes": (store(b""), (ShardError, "cut short")),
    "no shard": (store(None), [FILL] * 8),
    "a wrong checksum": (store(BODY + index_bytes(RIGHT)[:-1] + b"!"), (CodecError, "not what was written")),
    "a big-endian index": (
        store(BODY + index_bytes(RIGHT, checked=False, order=">"), sharded(index=[BIG])),
        VALUES,
    ),
    "an index without a checksum": (
        store(BODY + index_bytes(RIGHT, checked=False), sharded(index=[LITTLE])),
        VALUES,
    ),
    "a transposed index": (
        store(
            BODY + index_bytes(np.array(RIGHT).T.copy(), checked=False),
            sharded(index=[{"name": "transpose", "configuration": {"order": [1, 0]}}, LITTLE]),
        ),
        VALUES,
    ),
    "a compressed index": (store(BODY, sharded(index=[LITTLE, GZIP])), (MetadataError, "differ in length")),
    "shards in the index": (
        store(BODY, sharded(index=[sharded((1, 2))])),
        (MetadataError, "differ in length"),
    ),
    # where the index lies
    "an index at the start": (at_start(36), VALUES),
    "offsets that leave out the index": (at_start(0), (ShardError, "lies in the index")),
    "no index_codecs": (without("index_codecs"), VALUES),
    "no inner codecs": (without("codecs"), VALUES),
    "an unknown member": (changed(order="morton"), (MetadataError, "order: is not a member")),
    "chunks that do not divide the shard": (changed(chunk_shape=[3]), (MetadataError, "must divide")),
    # chains around shards
    "a transpose before shards": (transposed((2, 2)), np.arange(8).reshape(2, 4)),
    "a transpose before shards, of the wrong shape": (transposed((1, 4)), (MetadataError, "must divide")),
    "nested shards": (nested(), VALUES),
    "nested shards with the index at the start": (nested("start"), VALUES),
    "an inner shard without chunks": (empty_inner(), [FILL] * 8),
    "a compressor after shards": (
        {
            "zarr.json": json.dumps(document(codecs=[sharded(), GZIP])).encode(),
            "c/0": gzip.compress(BODY + index_bytes(RIGHT)),
        },
        VALUES,
    ),
    # shapes
    "a shard without dimensions": (
        store(
            np.int32(7).tobytes() + index_bytes([[0, 4]]),
            sharded(()),
            key="c",
            shape=[],
            chunk_grid={"name": "regular", "configuration": {"chunk_shape": []}},
        ),
        7,
    ),
    "no dimensions, keys of Zarr 2": (
        plain(
            np.int32(7).tobytes(),
            key="0",
            shape=[],
            chunk_grid={"name": "regular", "configuration": {"chunk_shape": []}},
            chunk_key_encoding={"name": "v2", "configuration": {"separator": "."}},
        ),
        7,
    ),
    "no elements": (plain(shape=[0]), np.zeros(0, np.int32)),
    "no elements, chunks of 0": (
        plain(shape=[0], chunk_grid={"name": "regular", "configuration": {"chunk_shape": [0]}}),
        np.zeros(0, np.int32),
    ),
    "chunks of 0": (
        plain(chunk_grid={"name": "regular", "configuration": {"chunk_shape": [0]}}),
        (MetadataError, "must be an integer >= 1"),
    ),
    "a short chunk": (plain(BODY[:-4]), (CodecError, "here are 28")),
    "a long chunk": (plain(BODY + b"1234"), (CodecError, "here are 36")),
    "an empty chunk": (plain(b""), (CodecError, "here are 0")),
    # fill values, bit for bit
    "a NaN with a payload": (with_fill("float32", "0x7fc00001"), np.array([0x7FC00001] * 8, "u4").view("f4")),
    "a signalling NaN": (with_fill("float32", "0x7f800001"), np.array([0x7F800001] * 8, "u4").view("f4")),
    "a NaN of 16 bits": (with_fill("float16", "0x7e01"), np.array([0x7E01] * 8, "u2").view("f2")),
    "minus zero": (with_fill("float64", -0.0), np.full(8, -0.0)),
    "hex digits of another width": (with_fill("float32", "0x7e01"), (MetadataError, "hex digits")),
    "+Infinity": (with_fill("float32", "+Infinity"), np.full(8, np.inf, "f4")),
    "a number as text": (with_fill("float32", "1.5"), (MetadataError, "fill_value")),
    # documents
    "an extension that need not be understood": (member(other={"must_understand": False}), VALUES),
    'must_understand "false"': (member(other={"must_understand": "false"}), (MetadataError, "other")),
    "must_understand null": (member(other={"must_understand": None}), (MetadataError, "other")),
    "must_understand 0": (member(other={"must_understand": 0}), (MetadataError, "other")),
    "a codec with must_understand": (member(codecs=[{**LITTLE, "must_understand": True}]), VALUES),
    "a codec with another member": (member(codecs=[{**LITTLE, "more": 1}]), (MetadataError, "more")),
    "no endian for int32": (member(codecs=[{"name": "bytes"}]), (MetadataError, "endian")),
    "an endian for uint8": (
        plain(bytes(range(8)), data_type="uint8", fill_value=0),
        np.arange(8, dtype=np.uint8),
    ),
    "a bool of 2": (
        plain(b"\2" * 8, data_type="bool", fill_value=False, codecs=[{"name": "bytes"}]),
        (CodecError, "bool"),
    ),
    "no dimension names": (member(dimension_names=None), VALUES),
    "a dimension name twice": (
        plain(
            BODY,
            key="c/0/0",
            shape=[4, 2],
            dimension_names=["x", "x"],
            chunk_grid={"name": "regular", "configuration": {"chunk_shape": [4, 2]}},
        ),
        VALUES.reshape(4, 2),
    ),
    "an unknown storage transformer": (member(storage_transformers=[{"name": "x"}]), (MetadataError, "'x'")),
    "a grid with another member": (
        member(chunk_grid={"name": "regular", "configuration": {"chunk_shape": [8], "more": 1}}),
        (MetadataError, "more"),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row(name: str) -> None:
    made, answer = ROWS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(answer, tuple):
            kind, words = answer
            with pytest.raises(TerrazzoError) as caught:
                terrazzo.open_array(made, mode="r")[...]
            assert isinstance(caught.value, kind), repr(caught.value)
            assert words in str(caught.value)
            return
        found = np.asarray(terrazzo.open_array(made, mode="r")[...])
    wanted = np.asarray(answer, found.dtype)
    assert found.shape == wanted.shape
    assert found.tobytes() == wanted.tobytes()


def test_a_bool_of_2_is_true_where_that_is_asked_for() -> None:
    made = ROWS["a bool of 2"][0]
    assert terrazzo.open_array(made, mode="r", config={"strict": False})[...].all()


@pytest.mark.parametrize(("fill", "kept"), [("NaN", True), ("0x7fc00001", False)])
def test_a_chunk_of_another_nan_than_the_fill_value_is_kept(fill: str, kept: bool) -> None:
    made = plain(data_type="float32", fill_value=fill)
    payload = np.array([0x7FC00001] * 8, "u4").view("f4")
    terrazzo.open_array(made)[...] = payload
    assert ("c/0" in made) is kept
    assert bits(terrazzo.open_array(made, mode="r")[...]) == bits(payload)


def test_a_chunk_of_minus_zero_is_not_the_fill_value_zero() -> None:
    made = plain(data_type="float64", fill_value=0.0)
    terrazzo.open_array(made)[...] = -0.0
    assert made["c/0"] == bits(np.full(8, -0.0))


def test_offsets_are_absolute_with_the_index_at_the_start() -> None:
    made = store(None, sharded(where="start"))
    terrazzo.open_array(made)[:] = VALUES
    found = np.frombuffer(made["c/0"][:32], "<u8").reshape(2, 2)
    assert found[:, 0].min() == 36
    terrazzo.open_array(made)[:4] = FILL
    assert np.frombuffer(made["c/0"][:16], "<u8").tolist() == [MAX, MAX]


def test_an_inner_chunk_of_fill_values_is_an_empty_entry_and_such_a_shard_is_no_object() -> None:
    made = store(None)
    array = terrazzo.open_array(made)
    array[:4] = 5
    assert np.frombuffer(made["c/0"][-20:-4], "<u8").tolist() == [MAX, MAX]
    array[:4] = FILL
    if "c/0" in made:  # a store may keep an index in which nothing is stored
        assert set(made["c/0"][-36:-4]) == {255}
    assert terrazzo.open_array(made, mode="r")[...].tolist() == [FILL] * 8


def test_the_fill_value_is_compared_as_the_codecs_before_leave_it() -> None:
    """scale_offset makes 7 of the fill value -1: a chunk of it is left out."""
    scaled = {"name": "scale_offset", "configuration": {"offset": -8, "scale": 1}}
    made = store(None, sharded(codecs=[scaled, LITTLE]))
    array = terrazzo.open_array(made)
    array[:] = [FILL] * 4 + [1, 2, 3, 4]
    assert np.frombuffer(made["c/0"][-36:-20], "<u8").tolist() == [MAX, MAX]
    assert array[...].tolist() == [FILL] * 4 + [1, 2, 3, 4]


def test_a_group_with_null_as_consolidated_metadata() -> None:
    group = {"zarr_format": 3, "node_type": "group", "attributes": {}, "consolidated_metadata": None}
    assert terrazzo.open({"zarr.json": json.dumps(group).encode()}, mode="r").metadata.consolidated is None
    with pytest.raises(MetadataError, match="consolidated_metadata"):
        terrazzo.open(member(consolidated_metadata=None), mode="r")
