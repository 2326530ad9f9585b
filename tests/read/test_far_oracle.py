"""Reads and writes over a distant store answer what numpy does, in every layout, however little memory there is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.stores.contract import Cost
from terrazzo.stores.store import Store
from tests.stores.far import FarStore
from tests.stores.test_stores import PartialValues, WholeValues

LAYOUTS: dict[str, dict[str, Any]] = {
    "shards": {"chunks": (4, 5), "shards": (16, 20)},
    "index at the start": {"chunks": (4, 5), "shards": (16, 20), "index_location": "start"},
    "not compressed": {"chunks": (4, 5), "shards": (16, 20), "compressors": None},
    "large shards": {"chunks": (2, 3), "shards": (64, 60)},
    "plain": {"chunks": (7, 6)},
    "plain, not compressed": {"chunks": (7, 6), "compressors": None},
    "transposed": {
        "chunks": (4, 5),
        "shards": (16, 20),
        "filters": [{"name": "transpose", "configuration": {"order": [1, 0]}}],
    },
    "rectilinear": {"chunks": [[10, 20, 30], [12, 48]]},
}
SHAPE = (60, 60)


def random_box(rng: np.random.Generator) -> tuple[Any, ...]:
    parts: list[Any] = []
    for n in SHAPE:
        kind = rng.integers(0, 4)
        first, last = sorted(rng.integers(0, n + 1, 2).tolist())
        if kind == 0:
            parts.append(int(rng.integers(0, n)))
        elif kind == 1:
            parts.append(slice(first, last))
        elif kind == 2:
            parts.append(slice(first, last, int(rng.integers(1, 5))))
        else:
            parts.append(slice(None))
    return tuple(parts)


class SlowValues(WholeValues):
    """A user's store of whole values that says what a request costs."""

    cost = Cost(0.02, 1e8)


class SlowRanges(PartialValues):
    """The same, of ranges."""

    cost = Cost(0.02, 1e8)


@pytest.mark.parametrize("make", [SlowValues, SlowRanges])
@pytest.mark.parametrize("layout", ["shards", "plain"])
def test_stores_of_a_few_verbs_that_tell_their_cost(layout: str, make: Any) -> None:
    check_against_numpy(make(), layout, 1 << 26, 8)


@pytest.mark.parametrize("memory", [1 << 26, 1 << 11])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_reads_and_writes_are_numpys(layout: str, memory: int) -> None:
    check_against_numpy(FarStore(), layout, memory, 25)


def check_against_numpy(store: Store, layout: str, memory: int, steps: int) -> None:
    rng = np.random.default_rng([len(layout), memory])
    terrazzo.create_array(store, shape=SHAPE, dtype="int32", fill_value=-7, **LAYOUTS[layout])
    expected = np.full(SHAPE, -7, np.int32)
    config = {"memory": memory}
    writer = terrazzo.open_array(store, mode="r+", config=config)
    readers = [
        terrazzo.open_array(store, mode="r", config=config),
        terrazzo.open_array(store, mode="r", config={**config, "index_cache_nbytes": 0}),
        terrazzo.open_array(store, mode="r", config={**config, "chunk_cache_nbytes": 4000}),
    ]
    for step in range(steps):
        box = random_box(rng)
        if step % 3:
            value = rng.integers(-9, 1 << 20, np.empty(SHAPE)[box].shape) if step % 5 else -7
            writer[box] = value
            expected[box] = value
        else:
            where = tuple(rng.integers(0, 60, (2, 20)))
            writer.vindex[where] = step
            expected[where] = step
        for array in (*readers, writer):
            box = random_box(rng)
            np.testing.assert_array_equal(array[box], expected[box])
            where = tuple(rng.integers(0, 60, (2, 30)))
            np.testing.assert_array_equal(array.vindex[where], expected[where])
            rows = np.sort(rng.choice(60, 9, replace=False))
            np.testing.assert_array_equal(array.oindex[rows, 3:50], expected[rows, 3:50])
            boxes = [random_box(rng) for _ in range(4)]
            for found, one in zip(array.read_many(boxes), boxes, strict=True):
                np.testing.assert_array_equal(found, expected[one])
    np.testing.assert_array_equal(readers[0][...], expected)


def test_strings_and_objects_without_dimensions() -> None:
    store = FarStore()
    words = np.array([f"word {i}" * (i % 7) for i in range(300)], np.dtypes.StringDType())
    terrazzo.create_array(store, name="words", data=words, chunks=(10,), shards=(100,))
    array = terrazzo.open_array(store, path="words", mode="r+")
    for _ in range(2):
        assert (array[...] == words).all() and (array[37:205:3] == words[37:205:3]).all()
    array[15:35] = "x"
    words[15:35] = "x"
    assert (terrazzo.open_array(store, path="words", mode="r")[...] == words).all()
    for shards in (None, ()):
        point = terrazzo.create_array(
            store, name=f"point{shards}", shape=(), chunks=(), shards=shards, dtype="f8"
        )
        point[...] = 2.5
        assert terrazzo.open_array(store, path=f"point{shards}", mode="r")[()] == 2.5


def test_missing_chunks_can_be_errors() -> None:
    from terrazzo.errors import ChunkNotFoundError

    store = FarStore()
    array = terrazzo.create_array(store, shape=(64,), chunks=(4,), shards=(32,), dtype="u1")
    array[:4] = 1
    reader = terrazzo.open_array(store, mode="r", config={"missing": "error"})
    for _ in range(2):
        assert (reader[:4] == 1).all()
        with pytest.raises(ChunkNotFoundError):
            reader[:8]
        with pytest.raises(ChunkNotFoundError):
            reader[40:]
    array[4:8] = 2  # what a remembered index does not have may be there by now
    assert reader[:8].tolist() == [1] * 4 + [2] * 4


@pytest.mark.parametrize("damage", ["cut", "empty", "index", "chunk"])
def test_damage_is_told(damage: str) -> None:
    from terrazzo.errors import CodecError, ShardError

    store = FarStore()
    terrazzo.create_array(store, data=np.arange(4096), chunks=(64,), shards=(4096,), compressors="crc32c")
    array = terrazzo.open_array(store, mode="r")
    array[:64]
    value, tag = store.objects["c/0"]
    broken = {
        "cut": value[:-10],
        "empty": b"",
        "index": value[:-20] + b"\0\1\2\3" + value[-16:],
        "chunk": bytes([value[0] ^ 1]) + value[1:],
    }[damage]
    store.objects["c/0"] = (broken, tag + 1000)
    for reader in (array, terrazzo.open_array(store, mode="r")):
        for box in (slice(0, 64), slice(None)):
            with pytest.raises((CodecError, ShardError), match="c/0"):
                reader[box]
