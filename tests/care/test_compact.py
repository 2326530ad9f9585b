"""Compaction drops what is dead, and neither decodes nor encodes a chunk."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo import _kernel
from terrazzo.arrays.array import Array
from terrazzo.care.compact import compact
from terrazzo.codecs.chain import Chain
from terrazzo.errors import ReadOnlyError, ShardError, UnsupportedError
from terrazzo.shard import order
from terrazzo.stores.memory import MemoryStore
from terrazzo.strategy import Append, Replace


@pytest.fixture
def only_copies(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """From now on a chunk that is decoded or encoded is an error; the list takes the chunks of every copy."""
    encode = _kernel.encode
    copied: list[int] = []

    def copying(programs: Any, sources: Any, rows: Any, *rest: Any) -> Any:
        table = np.asarray(rows).reshape(-1, 7)
        assert (table[:, 0] == 2).all(), "a chunk was encoded"
        copied.append(len(table))
        return encode(programs, sources, rows, *rest)

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a chunk was decoded or encoded")

    monkeypatch.setattr(_kernel, "encode", copying)
    monkeypatch.setattr(_kernel, "decode", refuse)
    monkeypatch.setattr(_kernel, "decode_many", refuse)
    monkeypatch.setattr(Chain, "decode", refuse)
    monkeypatch.setattr(Chain, "encode", refuse)
    return copied


def appended(**how: Any) -> tuple[Array, np.ndarray[Any, Any]]:
    """Two shards, half of the first dead, nothing of the second."""
    rng = np.random.default_rng(0)
    values = rng.integers(1, 100, (16, 8), dtype="i4")
    array = terrazzo.create_array(
        MemoryStore(), shape=(16, 8), dtype="i4", chunks=(2, 2), shards=(8, 8), index_location="start", **how
    )
    array[...] = values
    array = array.using(strategy=Append(dead=1))
    for _ in range(3):
        values[:4, :4] = rng.integers(1, 100, (4, 4))
        array[:4, :4] = values[:4, :4]
    values[4:6, 4:6] = 0
    array[4:6, 4:6] = 0
    return array, values


def bytes_of_chunks(array: Array) -> dict[tuple[int, ...], bytes]:
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


@pytest.mark.parametrize("compressors", ["auto", "crc32c"])
def test_compact(compressors: Any, request: pytest.FixtureRequest) -> None:
    array, values = appended(compressors=compressors)
    before, chunks = array.inventory(), bytes_of_chunks(array)
    second = array.store.get("c/1/0")
    assert before.dead[0] > 0 and before.dead[1] == 0
    copied = request.getfixturevalue("only_copies")
    report = compact(array)
    assert report.to_json() == {
        "shards": 2,
        "rewritten": 1,
        "nbytes_before": int(before.sizes.sum()),
        "nbytes_after": int(before.sizes.sum() - before.dead.sum()),
        "foreign": [],
    }
    assert copied == [15]
    after = array.inventory()
    assert after.dead_nbytes == 0 and array.store.get("c/1/0") == second
    assert bytes_of_chunks(array) == chunks
    assert compact(array).rewritten == 0
    request.getfixturevalue("monkeypatch").undo()
    np.testing.assert_array_equal(array[...], values)


def test_chunks_come_to_lie_in_order() -> None:
    array, values = appended()
    compact(array, chunk_order="morton")
    found = array.inventory(np.s_[8:])
    inner = found.chunks - np.array([4, 0])
    numbers = np.ravel_multi_index(tuple(inner.T), (4, 4))
    assert numbers[np.argsort(found.offset)].tolist() == order("morton", (4, 4)).tolist()
    assert compact(array, chunk_order="morton").rewritten == 0
    assert compact(array, chunk_order="C").rewritten == 2
    assert compact(array, chunk_order="C").rewritten == 0
    found = array.inventory(np.s_[8:])
    assert (np.diff(found.offset.astype("i8")) > 0).all()
    np.testing.assert_array_equal(array[...], values)


def test_only_above_a_share_and_in_a_region() -> None:
    array, _ = appended()
    share = float(array.inventory().dead[0] / array.inventory().sizes[0])
    assert compact(array, dead=share + 0.01).rewritten == 0
    assert compact(array, np.s_[8:]).shards == 1
    seen: list[tuple[int, int]] = []
    assert (
        compact(array, dead=share - 0.01, progress=lambda done, total: seen.append((done, total))).rewritten
        == 1
    )
    assert seen == [(0, 1), (1, 1)]


def test_what_is_refused() -> None:
    array, _ = appended()
    with pytest.raises(ReadOnlyError):
        compact(terrazzo.open_array(array.store, mode="r"))
    with pytest.raises(ValueError, match="chunk_order"):
        compact(array, chunk_order="Z")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="dead=2"):
        compact(array, dead=2)
    plain = terrazzo.create_array(MemoryStore(), shape=(4,), dtype="i4")
    assert compact(plain).shards == 0
    array.store.set("c/0/0", b"x")
    with pytest.raises(ShardError):
        compact(array)


def test_a_foreign_shard_is_refused_or_kept() -> None:
    array = terrazzo.create_array(
        MemoryStore(), shape=(8,), dtype="i4", chunks=(2,), shards=(8,), strategy=Replace()
    )
    array[:] = np.arange(1, 9)
    body = array.store.get("c/0") or b""
    sharding = array.layout.sharding
    assert sharding is not None
    entries = sharding.decode_index(body[-68:], (4,)).copy()
    entries[:, 0] += np.uint64(16)
    body = b"\x93NUMPY" + bytes(10) + body[:-68] + sharding.encode_index(entries, (4,))
    array.store.set("c/0", body)
    with pytest.raises(UnsupportedError, match="npy file too"):
        compact(array)
    assert compact(array, foreign="keep").foreign == ["c/0"]
    assert array.store.get("c/0") == body
