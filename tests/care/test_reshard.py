"""Shards are put together and taken apart by copying: no chunk is decoded, and none has other bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo import _kernel
from terrazzo.arrays.array import Array
from terrazzo.care.reshard import reshard
from terrazzo.codecs.chain import Chain
from terrazzo.errors import ContainsArrayError, StoreError
from terrazzo.stores.memory import MemoryStore
from tests.stores.test_stores import SizedValues

VALUES = np.random.default_rng(1).integers(0, 100, (21, 34), dtype="i4")
VALUES[4:8, 6:24] = 0


def made(shards: Any, **how: Any) -> Array:
    array = terrazzo.create_array(
        MemoryStore(),
        shape=VALUES.shape,
        dtype="i4",
        chunks=(2, 3),
        shards=shards,
        attributes={"unit": "m"},
        dimension_names=["y", "x"],
        **{"compressors": ["zstd:3", "crc32c"], **how},
    )
    array[...] = VALUES
    return array


def encoded(array: Array) -> dict[tuple[int, ...], bytes]:
    found = array.inventory()
    stored = {key: array.store.get(key) or b"" for key in found.keys}
    return {
        tuple(chunk): stored[found.keys[number]][offset : offset + nbytes]
        for chunk, number, offset, nbytes in zip(
            found.chunks.tolist(),
            found.object.tolist(),
            found.offset.tolist(),
            found.nbytes.tolist(),
            strict=True,
        )
    }


@pytest.mark.parametrize("after", [None, (2, 3), (4, 6), (8, 18), (22, 36), "auto"])
@pytest.mark.parametrize("before", [None, (4, 6), (6, 9)])
def test_any_shards_from_any(before: Any, after: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    array = made(before)
    chunks = encoded(array)
    target = MemoryStore()
    calls = {"decoded": 0, "encoded": 0}

    def counted(kind: str) -> Any:
        def call(*_: Any, **__: Any) -> Any:
            calls[kind] += 1
            raise AssertionError(kind)

        return call

    encode = _kernel.encode

    def copying(programs: Any, sources: Any, rows: Any, *rest: Any) -> Any:
        calls["encoded"] += int((np.asarray(rows).reshape(-1, 7)[:, 0] != 2).sum())
        return encode(programs, sources, rows, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(_kernel, "decode", counted("decoded"))
        patch.setattr(_kernel, "decode_many", counted("decoded"))
        patch.setattr(Chain, "decode", counted("decoded"))
        patch.setattr(Chain, "encode", counted("encoded"))
        patch.setattr(_kernel, "encode", copying)
        made_of_copies = reshard(array, target, after)
    assert calls == {"decoded": 0, "encoded": 0}
    if after != "auto":
        assert made_of_copies.shards == after
    assert encoded(made_of_copies) == chunks
    again = terrazzo.open_array(target, mode="r")
    np.testing.assert_array_equal(again[...], VALUES)
    assert again.attrs["unit"] == "m" and again.dimension_names == ("y", "x")
    assert again.inventory().dead_nbytes == 0


def test_there_and_back_is_the_same_object_for_object() -> None:
    array = made((4, 6))
    plain = reshard(array, MemoryStore(), None)
    back = reshard(plain, MemoryStore(), (4, 6))
    for key in array.store.list():
        assert back.store.get(key) == array.store.get(key), key


def test_places_of_the_index_and_progress() -> None:
    array = made((4, 6))
    seen: list[tuple[int, int]] = []
    moved = reshard(
        array, MemoryStore(), (8, 6), index_location="start", progress=lambda *done: seen.append(done)
    )
    assert moved.layout.sharding is not None and moved.layout.sharding.index_location == "start"
    assert seen[0] == (0, len(array.inventory())) and seen[-1][0] == seen[-1][1]
    np.testing.assert_array_equal(moved[...], VALUES)


def test_no_dimensions() -> None:
    scalar = terrazzo.create_array(MemoryStore(), shape=(), dtype="i4")
    scalar[...] = 5
    assert reshard(scalar, MemoryStore(), ())[()] == 5


def test_what_is_refused() -> None:
    array = made((4, 6))
    target = MemoryStore()
    reshard(array, target, None)
    with pytest.raises(ContainsArrayError):
        reshard(array, target, None)
    reshard(array, target, None, overwrite=True)
    with pytest.raises(ValueError, match="shard"):
        reshard(array, MemoryStore(), (5, 6))
    various = terrazzo.create_array(MemoryStore(), shape=(9,), dtype="i4", chunks=([4, 5],))
    with pytest.raises(ValueError, match="chunks of several shapes"):
        reshard(various, MemoryStore(), None)


def test_from_a_store_without_versions() -> None:
    store = SizedValues()
    array = terrazzo.create_array(store, shape=VALUES.shape, dtype="i4", chunks=(2, 3), shards=(4, 6))
    array[...] = VALUES
    for shards in ((8, 6), None):
        copy = reshard(terrazzo.open_array(store), MemoryStore(), shards)
        np.testing.assert_array_equal(copy[...], VALUES)


def test_an_object_that_changes_meanwhile_is_an_error() -> None:
    array = made((4, 6))
    other = terrazzo.open_array(array.store)

    def meddle(done: int, total: int) -> None:
        if done:
            other[20, 33] = done

    with pytest.raises(StoreError, match="changed while it was copied"):
        reshard(array, MemoryStore(), (4, 6), progress=meddle)
