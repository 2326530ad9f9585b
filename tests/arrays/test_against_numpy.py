"""Arrays against numpy: whatever is written and read through any layout equals the same on a plain ndarray."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import terrazzo
from terrazzo.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec
from terrazzo.stores.memory import MemoryStore
from terrazzo.strategy import Append, InPlace, Replace

TYPES = ["u1", "i2", "f4", "f8", "c8", "bool", "M8[s]", "S3", "U2", [("a", "<i2"), ("b", "<f8")]]


@dataclass
class Case:
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    dtype: np.dtype[Any]
    options: dict[str, Any]
    strategy: Any


@st.composite
def cases(draw: st.DrawFn) -> Case:
    ndim = draw(st.integers(0, 3))
    shape = tuple(draw(st.integers(0, 9)) for _ in range(ndim))
    chunks = tuple(draw(st.integers(1, 4)) for _ in range(ndim))
    shards = None
    if draw(st.booleans()):
        shards = tuple(c * draw(st.integers(1, 3)) for c in chunks)
    dtype = np.dtype(draw(st.sampled_from(TYPES)))
    endian = draw(st.sampled_from(["little", "big"]))
    filters = []
    if ndim and draw(st.booleans()):
        filters = [TransposeCodec(order=tuple(draw(st.permutations(range(ndim)))))]
    compressors = draw(
        st.sampled_from(
            [
                [],
                [ZstdCodec(level=1)],
                [ZstdCodec(level=1), Crc32cCodec()],
                [Crc32cCodec()],
                [GzipCodec(level=1)],
                [BloscCodec(cname="lz4", clevel=3, shuffle="shuffle", typesize=dtype.itemsize)],
            ]
        )
    )
    options: dict[str, Any] = {
        "filters": filters,
        "serializer": BytesCodec(endian=endian),
        "compressors": compressors,
        "chunk_key_encoding": draw(
            st.sampled_from([None, {"name": "v2", "separator": "."}, {"name": "default", "separator": "."}])
        ),
    }
    strategy: Any = Replace(order=draw(st.sampled_from(["morton", "C", "F", "unordered"])))
    if shards is not None:
        options["index_location"] = draw(st.sampled_from(["start", "end"]))
        strategy = draw(
            st.sampled_from(
                [
                    strategy,
                    InPlace(torn_reads=True),
                    InPlace(otherwise="append", torn_reads=True),
                    Append(index_at_end=True),
                    Append(index_at_end=True, dead=1.0),
                ]
            )
        )
    return Case(shape, chunks, shards, dtype, options, strategy)


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Values with runs of zeros, so that chunks of nothing but the fill value happen."""
    raw = rng.integers(0, 100, shape) * (rng.random(shape) < 0.5)
    if dtype.names:
        out = np.zeros(shape, dtype)
        for name in dtype.names:
            out[name] = raw
        return out
    if dtype.kind in "SU":
        return np.where(raw == 0, "", raw.astype("U2")).astype(dtype)
    if dtype.kind == "M":
        return raw.astype("i8").view("M8[s]") if raw.shape else np.array(int(raw), "M8[s]")
    return np.asarray(raw).astype(dtype)


def make(case: Case, store: Any) -> tuple[terrazzo.Array, np.ndarray[Any, Any]]:
    array = terrazzo.create_array(
        store,
        shape=case.shape,
        dtype=case.dtype,
        chunks=case.chunks,
        shards=case.shards,
        strategy=case.strategy,
        **{k: v for k, v in case.options.items() if v is not None},
    )
    return array, np.full(case.shape, array.fill_value, case.dtype)


@st.composite
def basic(draw: st.DrawFn, shape: tuple[int, ...], steps: bool) -> tuple[Any, ...]:
    picks: list[Any] = []
    for n in shape:
        kind = draw(st.sampled_from(["all", "slice", "int"] if n else ["all", "slice"]))
        if kind == "all":
            picks.append(slice(None))
        elif kind == "int":
            picks.append(draw(st.integers(-n, n - 1)))
        else:
            step = draw(st.sampled_from([None, 1, 2, 3, -1, -2])) if steps else None
            picks.append(slice(draw(st.integers(-n - 1, n + 1)), draw(st.integers(-n - 1, n + 1)), step))
    return tuple(picks)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_basic_selections_write_and_read_like_numpy(data: st.DataObject) -> None:
    case = data.draw(cases())
    array, model = make(case, MemoryStore())
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(basic(case.shape, steps=True))
        value = values(rng, model[place].shape, case.dtype)
        array[place] = value
        model[place] = value
        np.testing.assert_array_equal(array[...], model)
        place = data.draw(basic(case.shape, steps=True))
        got = array[place]
        np.testing.assert_array_equal(got, model[place])
        assert np.shape(got) == np.shape(model[place])
        assert not isinstance(got, np.ndarray) or got.dtype == model.dtype


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_fancy_selections_write_and_read_like_numpy(data: st.DataObject) -> None:
    case = data.draw(cases().filter(lambda case: case.shape and all(case.shape)))
    array, model = make(case, MemoryStore())
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    array[...] = model[...] = values(rng, case.shape, case.dtype)
    for _ in range(2):
        picks = tuple(rng.integers(0, n, rng.integers(1, 6)) for n in case.shape)
        np.testing.assert_array_equal(array.oindex[picks], model[np.ix_(*picks)])
        unique = tuple(np.unique(p) for p in picks)
        new = values(rng, tuple(len(u) for u in unique), case.dtype)
        array.oindex[unique] = new
        model[np.ix_(*unique)] = new
        points = tuple(rng.integers(0, n, 5) for n in case.shape)
        np.testing.assert_array_equal(array.vindex[points], model[points])
        new = values(rng, (5,), case.dtype)
        array.vindex[points] = new
        model[points] = new
        mask = rng.random(case.shape) < 0.3
        np.testing.assert_array_equal(array.vindex[mask], model[mask])
        new = values(rng, (int(mask.sum()),), case.dtype)
        array.vindex[mask] = new
        model[mask] = new
        np.testing.assert_array_equal(array[...], model)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_put_shard_stores_exactly_the_given_chunks(data: st.DataObject) -> None:
    case = data.draw(cases().filter(lambda case: case.shards is not None and all(case.shape)))
    array, model = make(case, MemoryStore())
    assert case.shards is not None
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    array[...] = values(rng, case.shape, case.dtype)
    model[...] = array[...]
    shard = tuple(int(rng.integers(0, n)) for n in array.shard_grid_shape)
    counts = tuple(s // c for s, c in zip(case.shards, case.chunks, strict=True))
    chunks = {}
    place = tuple(slice(i * s, (i + 1) * s) for i, s in zip(shard, case.shards, strict=True))
    model[place] = array.fill_value
    for inner in np.ndindex(*counts):
        if rng.random() < 0.5:
            value = values(rng, case.chunks, case.dtype)
            chunks[inner] = value
            start = [i * s + j * c for i, s, j, c in zip(shard, case.shards, inner, case.chunks, strict=True)]
            box = tuple(slice(b, b + c) for b, c in zip(start, case.chunks, strict=True))
            seen = model[box].shape
            model[box] = value[tuple(slice(0, n) for n in seen)]
    array.put_shard(shard, chunks)
    np.testing.assert_array_equal(array[...], model)


@pytest.mark.parametrize("shards", [None, (6, 8)])
def test_blocks_count_stored_chunks(shards: tuple[int, int] | None) -> None:
    model = np.arange(12 * 16).reshape(12, 16)
    array = terrazzo.create_array(MemoryStore(), data=model, chunks=(3, 4), shards=shards)
    edge = shards or (3, 4)
    np.testing.assert_array_equal(array.blocks[1, 1], model[edge[0] : 2 * edge[0], edge[1] : 2 * edge[1]])
    array.blocks[0] = -1
    model[: edge[0]] = -1
    np.testing.assert_array_equal(array[...], model)


def test_a_chunk_of_fill_values_is_not_stored_and_bits_decide() -> None:
    store = MemoryStore()
    array = terrazzo.create_array(store, shape=(8,), dtype="f8", chunks=(2,), shards=(8,), fill_value=0.0)
    array[...] = np.array([0.0, 0.0, -0.0, 0.0, 1.0, 2.0, 0.0, 0.0])
    assert array.nchunks_initialized == 2
    assert np.signbit(array[2])
    array[...] = 0.0
    assert array.nchunks_initialized == 0
    assert not store.exists("c/0")


def test_strings_and_bytes_of_any_length() -> None:
    words = np.array(["", "zarr", "größer", "🙂"] * 3, dtype=np.dtypes.StringDType())
    array = terrazzo.create_array(MemoryStore(), data=words, chunks=(4,), shards=(8,))
    assert array[...].tolist() == words.tolist()
    array[1:3] = ["x" * 1000, ""]
    words[1:3] = ["x" * 1000, ""]
    assert array[::-1].tolist() == words[::-1].tolist()


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_many_selections_at_once_equal_single_reads(data: st.DataObject) -> None:
    case = data.draw(cases())
    array, model = make(case, MemoryStore())
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    array[...] = model[...] = values(rng, case.shape, case.dtype)
    places = [data.draw(basic(case.shape, steps=True)) for _ in range(data.draw(st.integers(0, 6)))]
    for got, place in zip(array.read_many(places), places, strict=True):
        np.testing.assert_array_equal(got, model[place])
        assert np.shape(got) == np.shape(model[place])


@pytest.mark.parametrize("edges", [[[3, 4, 3], [5, 5]], [[3, 4, 3], 5]])
def test_many_selections_of_irregular_chunks(edges: list[Any]) -> None:
    model = np.arange(100).reshape(10, 10)
    array = terrazzo.create_array(MemoryStore(), data=model, chunks=edges)
    places = [np.s_[i : i + 4, j] for i in range(8) for j in range(10)]
    for got, place in zip(array.read_many(places), places, strict=True):
        np.testing.assert_array_equal(got, model[place])


def test_many_selections_fill_the_given_arrays() -> None:
    model = np.arange(64).reshape(8, 8)
    array = terrazzo.create_array(MemoryStore(), data=model, chunks=(2, 2), shards=(4, 4))
    outs = [np.zeros((2, 8), model.dtype), np.zeros((8, 3), model.dtype)]
    found = array.read_many([np.s_[1:3], np.s_[:, 2:5]], out=outs)
    assert found[0] is outs[0]
    np.testing.assert_array_equal(outs[0], model[1:3])
    np.testing.assert_array_equal(outs[1], model[:, 2:5])
    with pytest.raises(ValueError, match="2 selections were given, and 1 arrays"):
        array.read_many([np.s_[0], np.s_[1]], out=[outs[0]])
    with pytest.raises(ValueError, match="share memory"):
        array.read_many([np.s_[1:3], np.s_[3:5]], out=[outs[0], outs[0]])
