"""Parts of chunks through a user's codec: fewer bytes are read, and they are numpy's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import terrazzo
from terrazzo.codecs import PartialReader, register_codec, registry
from terrazzo.errors import CodecError
from terrazzo.stores.local import LocalStore
from terrazzo.stores.memory import MemoryStore
from terrazzo.stores.store import Store
from terrazzo.stores.watching import CountingStore
from tests.codecs.partial_codec import Rows, RowsCodec

SHAPE = (45, 30, 7)
VALUES = np.random.default_rng(5).integers(0, 2**31, SHAPE, dtype=np.int32)


class Remote(Store):
    """A place with ranges, sizes and versions, and nothing to keep open."""

    def __init__(self, values: dict[str, bytes]) -> None:
        self.values = values

    def get_partial_values(self, requests: Any) -> list[bytes | None]:
        answers: list[bytes | None] = []
        for key, (start, length) in requests:
            value = self.values.get(key)
            if value is not None:
                value = value[start:] if length is None else value[start : start + length]
            answers.append(value)
        return answers

    def getsize(self, key: str) -> int | None:
        return len(self.values[key]) if key in self.values else None

    def tag(self, key: str) -> object:
        return hash(self.values[key]) if key in self.values else None

    def list(self) -> Iterator[str]:
        return iter(self.values)


class Sizeless(Remote):
    """The same without sizes and versions."""

    getsize = Store.getsize
    tag = Store.tag


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    known = dict(registry._codecs)
    register_codec(RowsCodec)
    yield
    registry._codecs.clear()
    registry._codecs.update(known)


def written(
    store: Any, shards: tuple[int, ...] | None = None, codec: Any = None, chunks: Any = (20, 10, 7)
) -> Any:
    made = terrazzo.create_array(
        store, shape=SHAPE, dtype="int32", chunks=chunks, shards=shards, serializer=codec or RowsCodec(),
        compressors=None, overwrite=True,
    )  # fmt: skip
    made[...] = VALUES
    return made


def places(tmp_path: Path, shards: tuple[int, ...] | None) -> dict[str, Store]:
    memory = MemoryStore()
    written(memory, shards)
    written(tmp_path / "a.zarr", shards)
    values = {key: bytes(memory.get(key) or b"") for key in memory.list()}
    return {
        "local": LocalStore(tmp_path / "a.zarr"),
        "memory": memory,
        "remote": Remote(values),
        "sizeless": Sizeless(values),
    }


SELECTIONS: Sequence[Any] = [
    (3,),
    (slice(2, 5), slice(None), 2),
    (slice(1, 44, 7), slice(3, 29, 5), slice(None, None, -2)),
    (slice(0, 20), slice(0, 10)),
    (-1, -1, -1),
    (slice(5, 5),),
]


@pytest.mark.parametrize("shards", [None, (40, 20, 7)])
@pytest.mark.parametrize("place", ["local", "memory", "remote", "sizeless"])
def test_parts_equal_numpy(tmp_path: Path, place: str, shards: tuple[int, ...] | None) -> None:
    array = terrazzo.open_array(places(tmp_path, shards)[place], mode="r")
    for selection in SELECTIONS:
        np.testing.assert_array_equal(array[selection], VALUES[selection])
    rows, columns = np.array([3, 44, 3, 20]), np.array([0, 29, 11, 5])
    np.testing.assert_array_equal(array.vindex[rows, columns, 2], VALUES[rows, columns, 2])
    np.testing.assert_array_equal(array.oindex[rows, columns], VALUES[np.ix_(rows, columns)])
    mask = VALUES % 97 == 0
    np.testing.assert_array_equal(array.vindex[mask], VALUES[mask])
    some = array.read_many([(slice(0, 2),), (slice(3, 45), 7), (slice(1, 3), slice(4, 5))])
    expected = [VALUES[0:2], VALUES[3:45, 7], VALUES[1:3, 4:5]]
    for found, told in zip(some, expected, strict=True):
        np.testing.assert_array_equal(found, told)


@pytest.mark.parametrize("shards", [None, (40, 20, 7)])
@pytest.mark.parametrize("place", ["local", "memory", "remote"])
def test_fewer_bytes_are_read(tmp_path: Path, place: str, shards: tuple[int, ...] | None) -> None:
    store = CountingStore(places(tmp_path, shards)[place])
    array = terrazzo.open_array(store, mode="r")
    array[:1, :1, :1]  # remembers the index
    store.reset()
    np.testing.assert_array_equal(array[7, 5:25], VALUES[7, 5:25])
    # three chunks, of each the table and one row of twenty
    encoded = 20 * 10 * 7 * 4
    assert 3 * 80 < store.counts.read_nbytes < 3 * encoded / 4
    store.reset()
    np.testing.assert_array_equal(array[0:20, 0:10], VALUES[0:20, 0:10])  # a whole chunk is decoded whole


def test_a_rectilinear_grid_is_read_in_parts() -> None:
    store = CountingStore(MemoryStore())
    array = written(store, chunks=[[20, 20, 5], [10, 12, 8], [7]])
    store.reset()
    np.testing.assert_array_equal(array[22:30, 9:24, 1], VALUES[22:30, 9:24, 1])
    assert store.counts.read_nbytes < 20 * 30 * 7 * 4


def test_a_write_of_a_part_keeps_the_rest() -> None:
    array = written(MemoryStore(), (40, 20, 7))
    array[3:9, 2:17] = -1
    expected = VALUES.copy()
    expected[3:9, 2:17] = -1
    np.testing.assert_array_equal(array[1:12, 1:19], expected[1:12, 1:19])
    np.testing.assert_array_equal(array[...], expected)


def test_what_is_not_stored_is_fill() -> None:
    array = terrazzo.create_array(
        MemoryStore(), shape=SHAPE, dtype="int32", chunks=(20, 10, 7), serializer=RowsCodec(), compressors=None,
        fill_value=9,
    )  # fmt: skip
    array[:20, :10] = 1
    expected = np.full(SHAPE, 9, np.int32)
    expected[:20, :10] = 1
    np.testing.assert_array_equal(array[18:22, 8:12], expected[18:22, 8:12])


def test_awaited_reads_do_the_same() -> None:
    store = CountingStore(MemoryStore())
    array = written(store)
    store.reset()

    async def read() -> Any:
        return await terrazzo.AsyncArray(array).getitem((slice(1, 3), 4))

    np.testing.assert_array_equal(asyncio.run(read()), VALUES[1:3, 4])
    assert 0 < store.counts.read_nbytes < 20 * 10 * 7


@pytest.mark.parametrize("memory", [1, 3000])
def test_little_memory_means_more_lots(memory: int) -> None:
    store = MemoryStore()
    written(store)
    with terrazzo.config.set({"memory": memory}):
        array = terrazzo.open_array(store, mode="r")
    np.testing.assert_array_equal(array[1:44, 1:29], VALUES[1:44, 1:29])


class Past(Rows):
    def ranges(self, heads: Any, box: Any) -> list[tuple[int, int]]:
        return [(10**6, 4)]


class Narrow(Rows):
    def decode(self, heads: Any, parts: Any, box: Any) -> Any:
        return super().decode(heads, parts, box)[..., :1]


class Failing(Rows):
    def ranges(self, heads: Any, box: Any) -> list[tuple[int, int]]:
        raise KeyError("row")


class Refusing(Rows):
    def heads(self) -> list[tuple[int, int]]:
        raise CodecError("no table")


class Wrong(RowsCodec):
    name = "tests.wrong"
    kind: Any = None

    def partial(self, spec: Any, nbytes: int) -> PartialReader:
        return self.kind(spec)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Past, "asks for 4 bytes at 1000000 of an encoded chunk of"),
        (Narrow, "made int32 of shape (1, 10, 1) of a part of the chunk, must be int32 of shape (1, 10, 7)"),
        (Failing, "KeyError: 'row'"),
        (Refusing, "no table"),
    ],
)
@pytest.mark.parametrize("shards", [None, (40, 20, 7)])
def test_a_reader_that_is_wrong_is_named(
    monkeypatch: pytest.MonkeyPatch, kind: Any, sentence: str, shards: Any
) -> None:
    monkeypatch.setattr(Wrong, "kind", kind)
    register_codec(Wrong)
    array = written(MemoryStore(), shards, Wrong())
    with pytest.raises(CodecError) as caught:
        array[3, :10]
    assert sentence in str(caught.value)
    assert "tests.wrong" in str(caught.value)
    assert ("inner chunk (0, 0, 0)" if shards else "chunk 'c/0/0/0'") in str(caught.value)


class Whole(RowsCodec):
    name = "tests.whole"

    def partial(self, spec: Any, nbytes: int) -> None:
        return None


def test_a_codec_may_say_no() -> None:
    register_codec(Whole)
    array = written(MemoryStore(), None, Whole())
    np.testing.assert_array_equal(array[3:7, 4:6], VALUES[3:7, 4:6])


def test_behind_another_codec_chunks_are_decoded_whole() -> None:
    array = terrazzo.create_array(
        MemoryStore(),
        shape=SHAPE,
        dtype="int32",
        chunks=(20, 10, 7),
        serializer=RowsCodec(),
        compressors="zstd",
    )
    array[...] = VALUES
    np.testing.assert_array_equal(array[3:7, 4:6], VALUES[3:7, 4:6])


@given(st.data())
def test_any_box(data: st.DataObject) -> None:
    shards = data.draw(st.sampled_from([None, (40, 20, 7)]))
    array = written(MemoryStore(), shards)
    selection = tuple(
        data.draw(st.one_of(st.integers(-n, n - 1), st.slices(n)), label=f"dimension {d}")
        for d, n in enumerate(SHAPE)
    )
    np.testing.assert_array_equal(array[selection], VALUES[selection])
