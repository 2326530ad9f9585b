"""What is left of an index: every length a shard can be cut to, and every bit of its index flipped. What comes back is
what was there, or is said to be in doubt; and as much comes back as the entries that are left tell."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.arrays.array import Array
from terrazzo.care.remains import read_remains
from terrazzo.care.repair import repair
from terrazzo.care.salvage import Salvaged, salvage
from terrazzo.codecs import ShardingCodec
from terrazzo.shard import EMPTY
from terrazzo.stores.memory import MemoryStore
from terrazzo.strategy import Append, InPlace

COUNT, CHUNKS, SHARD = (2, 4), (4, 4), (8, 16)
N = 8
#: bytes of the index's table
TABLE = 16 * N
VALUES = np.random.default_rng(11).integers(1, 60, SHARD, dtype="i4")
SPARSE = VALUES.copy()
SPARSE[:4, :8] = SPARSE[4:, 12:] = 0

CASES = 150
#: which inner chunks tell their end, and which only how long they are
TELLING = ["auto", "crc32c", "zstd", "zstd+checksum", "gzip", "blosc", "gzip+crc32c", "nested"]
SILENT = ["raw"]
CODECS: dict[str, Any] = {
    "crc32c": ["crc32c"],
    "zstd+checksum": [{"name": "zstd", "configuration": {"level": 1, "checksum": True}}],
    "gzip+crc32c": ["gzip:1", "crc32c"],
    "raw": None,
}
NO_CHECKSUM = [{"name": "bytes", "configuration": {"endian": "little"}}]


@cache
def made(codec: str, location: str, sparse: bool = False, checked: bool = True) -> tuple[Array, bytes]:
    """An array of one shard, and the shard."""
    store = MemoryStore()
    inner: tuple[Any, ...]
    if codec == "nested":
        inner = (ShardingCodec((2, 2), ("bytes", "zstd")),)
    elif codec == "auto":
        inner = ("bytes", "zstd", "crc32c")
    else:
        more = CODECS.get(codec, [codec])
        inner = ("bytes", *(more or ()))
    more_index: dict[str, Any] = {} if checked else {"index_codecs": NO_CHECKSUM}
    serializer = ShardingCodec(CHUNKS, inner, index_location=location, **more_index)
    array = terrazzo.create_array(
        store, shape=SHARD, dtype="i4", chunks=SHARD, serializer=serializer, compressors=None
    )
    array[...] = SPARSE if sparse else VALUES
    assert array.layout.sharding is not None
    return array, store.get("c/0/0") or b""


def blocks(sparse: bool = False) -> list[np.ndarray[Any, Any]]:
    values = SPARSE if sparse else VALUES
    return [values[i : i + 4, j : j + 4] for i in (0, 4) for j in (0, 4, 8, 12)]


def back(array: Array, body: bytes, sparse: bool = False) -> Salvaged:
    """What comes back, once it is seen to be right: chunks at their places, nothing missing that is not told of."""
    found = salvage(array, COUNT, body)
    for number, block in enumerate(blocks(sparse)):
        offset, nbytes = found.entries[number].tolist()
        if offset != EMPTY:
            value = array.layout.chain.decode(body[offset : offset + nbytes])
            np.testing.assert_array_equal(value, block)
        elif found.source != "nothing":
            assert number in found.lost or found.doubt or not block.any(), number
    return found


def kept(found: Salvaged) -> int:
    return int((found.entries[:, 0] != EMPTY).sum())


def cuts(body: bytes, index: range) -> Iterator[int]:
    """Every length that cuts the index, and every seventh other one."""
    yield from (length for length in range(len(body)) if length in index or length % 7 == 0)


@pytest.mark.parametrize("checked", [True, False], ids=["checksum", "draft"])
@pytest.mark.parametrize("codec", [*TELLING, *SILENT])
def test_every_length_with_the_index_at_the_end(codec: str, checked: bool) -> None:
    array, body = made(codec, "end", checked=checked)
    begin = len(body) - TABLE - 4 * checked
    for length in cuts(body, range(begin, len(body))):
        found = back(array, body[:length])
        whole, rest = divmod(max(0, length - begin), 16)
        placed = min(N, whole + (rest >= 8 and whole > 0))
        assert kept(found) == placed, (length, found.source)
        if placed == N:
            assert found.source == "rest of the index" and not found.lost and not found.unplaced
        elif placed:
            assert sorted(found.lost) == list(range(placed, N))
        if codec in TELLING and length >= begin:
            assert len(found.unplaced) == N - placed


@pytest.mark.parametrize("checked", [True, False], ids=["checksum", "draft"])
@pytest.mark.parametrize("codec", [*TELLING, *SILENT])
def test_every_length_with_the_index_at_the_start(codec: str, checked: bool) -> None:
    array, body = made(codec, "start", checked=checked)
    index = TABLE + 4 * checked
    ends = np.sort(array.inventory().offset + array.inventory().nbytes)
    for length in cuts(body, range(index + 20)):
        found = back(array, body[:length])
        there = int((ends <= length).sum())
        if length >= index and (checked or there):
            assert kept(found) == there and len(found.lost) == N - there
        else:
            assert kept(found) == 0


@pytest.mark.parametrize("location", ["start", "end"])
@pytest.mark.parametrize("codec", [*TELLING, *SILENT])
def test_where_chunks_are_not_stored(codec: str, location: str) -> None:
    """Of a shard with gaps, cut short in its index, what comes back is right, and what was there is told of."""
    array, body = made(codec, location, sparse=True)
    for length in range(max(0, len(body) - TABLE - 24), len(body)):
        back(array, body[:length], sparse=True)
    if location == "end":
        assert kept(back(array, body[:-1], sparse=True)) == 5


@pytest.mark.parametrize("checked", [True, False], ids=["checksum", "draft"])
@pytest.mark.parametrize("sparse", [False, True], ids=["full", "sparse"])
@pytest.mark.parametrize("location", ["start", "end"])
@pytest.mark.parametrize("codec", ["auto", "crc32c", "zstd", "gzip", "nested", "raw"])
def test_flipped_bits_of_the_index(codec: str, location: str, sparse: bool, checked: bool) -> None:
    """A flipped bit costs its own chunk, and where it makes an entry that of another chunk, that one too."""
    if codec == "raw" and not checked:
        return  # nothing tells
    array, body = made(codec, location, sparse, checked)
    index = TABLE + 4 * checked
    begin = 0 if location == "start" else len(body) - index
    stored = sum(bool(block.any()) for block in blocks(sparse))
    for bit in range(0, 8 * index, 3):
        bad = bytearray(body)
        bad[begin + bit // 8] ^= 1 << bit % 8
        found = back(array, bytes(bad), sparse)
        if bit >= 8 * TABLE:
            assert kept(found) == stored and not found.lost and found.doubt is None
        elif codec == "raw" and location == "end" and bit >= 8 * (TABLE - 16):
            continue  # the last entry may be bytes behind the index: then it would begin elsewhere
        elif checked or found.source == "rest of the index":
            assert kept(found) >= stored - (3 if codec == "raw" else 2), bit


def harmed(rng: np.random.Generator, body: bytes, index: tuple[int, int]) -> bytes:
    """One thing that happens to an index: a bit flipped, a part overwritten, bytes cut off, or zeros behind the end;
    and, often, one to a chunk."""
    bad = bytearray(body)
    at, length = int(rng.integers(*index)), int(rng.integers(1, 70))
    if rng.random() < 0.5:
        other = int(rng.integers(0, len(bad)))
        if not index[0] <= other < index[1]:
            bad[other] ^= 1 << int(rng.integers(8))
    stop = min(index[1], at + length)
    match int(rng.integers(5)):
        case 0:
            bad[at] ^= 1 << int(rng.integers(8))
        case 1:
            bad[at:stop] = bytes(stop - at)
        case 2:
            bad[at:stop] = rng.integers(0, 256, stop - at, np.uint8).tobytes()
        case 3:
            del bad[len(bad) - (length if rng.random() < 0.5 else 16 * (1 + length // 16)) :]
        case _:
            bad += bytes(length)
    return bytes(bad)


@pytest.mark.parametrize("location", ["start", "end"])
@pytest.mark.parametrize("codec", ["auto", "crc32c", "gzip+crc32c"])
def test_whatever_happens_to_an_index_what_comes_back_is_right(codec: str, location: str) -> None:
    rng = np.random.default_rng(sum(map(ord, codec + location)))
    for sparse in (False, True):
        array, body = made(codec, location, sparse)
        begin = len(body) - TABLE - 4 if location == "end" else 0
        for _ in range(CASES):
            back(array, harmed(rng, body, (begin, begin + TABLE + 4)), sparse)


def test_a_hostile_index_costs_no_more_than_the_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries that all name the whole shard, or nearly, are not all decoded."""
    store, n = MemoryStore(), 64
    array = terrazzo.create_array(
        store, data=np.arange(1, n * n + 1, dtype="i4").reshape(n, n), chunks=(2, 2), shards=(n, n)
    )
    body = bytearray(store.get("c/0/0") or b"")
    entries = np.frombuffer(body, "<u8", 2 * 1024, len(body) - 16 * 1024 - 4).reshape(-1, 2).copy()
    data = len(body) - 16 * 1024 - 4
    entries[1:, 0] = np.arange(1023)
    entries[1:, 1] = data - 1023
    body[data:-4] = entries.astype("<u8").tobytes()
    decoded = 0
    decode = type(array.layout.chain).decode

    def counted(chain: Any, encoded: Any) -> Any:
        nonlocal decoded
        decoded += len(encoded)
        return decode(chain, encoded)

    monkeypatch.setattr(type(array.layout.chain), "decode", counted)
    chunks = read_remains(bytes(body), (32, 32), array.layout.sharding, array.layout.chain)
    assert chunks is not None and int((chunks.entries[:, 0] != EMPTY).sum()) == 1
    assert len(chunks.unplaced) == 1023 and decoded < 18 * len(body)


@pytest.mark.parametrize("strategy", [InPlace(slack=40), Append(dead=1, index_at_end=True)], ids=repr)
def test_shards_that_were_changed_where_they_lie(strategy: Any) -> None:
    """Dead chunks, older indexes and room to grow lie between: never an older value without a word."""
    store = MemoryStore()
    array = terrazzo.create_array(store, shape=SHARD, dtype="i4", chunks=CHUNKS, shards=SHARD)
    array = array.using(strategy=strategy)
    array[...] = VALUES
    states = [VALUES.copy()]
    for at in (0, 5, 2):
        i, j = divmod(at, 4)
        array[4 * i : 4 * i + 4, 4 * j : 4 * j + 4] = 70 + at
        states.append(array[...].copy())
    body = store.get("c/0/0") or b""
    for length in range(len(body) - TABLE - 4, len(body)):
        found = salvage(array, COUNT, body[:length])
        for number in np.flatnonzero(found.entries[:, 0] != EMPTY).tolist():
            offset, nbytes = found.entries[number].tolist()
            i, j = divmod(number, 4)
            value = array.layout.chain.decode(body[offset : offset + nbytes])
            told = states if found.source == "older index" else states[-1:]
            cell = np.s_[4 * i : 4 * i + 4, 4 * j : 4 * j + 4]
            assert any(np.array_equal(value, state[cell]) for state in told), (length, number, found.source)


def test_an_entry_that_names_a_dead_chunk_is_said_to_be_in_doubt(tmp_path: Path) -> None:
    store = MemoryStore()
    array = terrazzo.create_array(
        store, shape=SHARD, dtype="i4", chunks=CHUNKS, shards=SHARD, compressors="crc32c"
    )
    array = array.using(strategy=Append(dead=1, index_at_end=True))
    array[...] = VALUES
    array[:4, :4] = 77
    body = bytearray(store.get("c/0/0") or b"")
    inside = array.inventory()
    first = int(np.flatnonzero((inside.chunks == 0).all(axis=1))[0])
    body[-TABLE - 4 : -TABLE + 4] = bytes(8)  # the first chunk's old place
    assert int(inside.offset[first]) != 0
    store.set("c/0/0", bytes(body))
    found = salvage(array, COUNT, bytes(body))
    assert found.source == "older index" and kept(found) == N  # the values of before, all of them
    # where none of the older ones is whole
    old = bytes(body).rfind(body[-TABLE + 12 : -4], 0, len(body) - TABLE)
    body[old] ^= 1
    store.set("c/0/0", bytes(body))
    report = repair(array, MemoryStore(), unplaced=tmp_path / "u")
    assert report.damaged == {"c/0/0": "rest of the index"} and not report.ok
    assert [one.chunk for one in report.lost] == [None] and "older ones" in report.lost[0].reason
