"""A shard that is a file of another format too is never rewritten whole unless that is asked for."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.errors import UnsupportedError
from terrazzo.foreign import places_to_look, signature_in
from terrazzo.stores.memory import MemoryStore
from terrazzo.strategy import Append, InPlace


def a_zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("x", b"hello")
    return buffer.getvalue()


def an_npy() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.arange(3))
    return buffer.getvalue()


HEADS = {
    "HDF5": b"\x89HDF\r\n\x1a\n" + bytes(504),
    "HDF5 behind a user block": bytes(1024) + b"\x89HDF\r\n\x1a\n" + bytes(100),
    "TIFF": b"II*\0" + bytes(8),
    "BigTIFF": b"MM\0+" + bytes(12),
    "NIfTI-1": bytes(344) + b"n+1\0" + bytes(4),
    "NIfTI-2": b"\x1c\x02\0\0n+2\0\r\n\x1a\n" + bytes(528),
    "npy": an_npy(),
    "ZIP": a_zip(),
}


def array_in(head: bytes, where: str = "before", **how: Any) -> tuple[terrazzo.Array, bytes]:
    """An array of one shard with other bytes before its chunks (offsets moved), or right before its index."""
    store = MemoryStore()
    array = terrazzo.create_array(
        store, shape=(8,), dtype="i4", chunks=(2,), shards=(8,), compressors="crc32c", **how
    )
    array[:] = np.arange(1, 9)
    body = store.get("c/0")
    assert body is not None
    sharding = array.layout.sharding
    assert sharding is not None
    start, stop = sharding.index_span((4,), len(body))
    entries = sharding.decode_index(body[start:stop], (4,))
    chunks = body[:start] + body[stop:]
    moved = entries.copy()
    if where == "before":
        moved[:, 0] += np.uint64(len(head))
        chunks = head + chunks
    else:
        chunks = chunks + head
    store.set("c/0", chunks + sharding.encode_index(moved, (4,)))
    assert array[:].tolist() == list(range(1, 9))
    return array, chunks


@pytest.mark.parametrize("kind", HEADS)
def test_it_is_found_and_refused(kind: str) -> None:
    array, _ = array_in(HEADS[kind])
    before = array.store.get("c/0")
    with pytest.raises(UnsupportedError, match=f"'c/0' is a {kind.split()[0]} file too"):
        array[0] = 5
    assert array.store.get("c/0") == before
    for change in (
        lambda: array.__setitem__(slice(None), 7),
        lambda: array.put_shard((0,), {(0,): np.full(2, 7, "i4")}),
        lambda: array.using(strategy=Append(dead=1, index_at_end=True)).__setitem__(slice(None), 7),
    ):
        with pytest.raises(UnsupportedError, match=f"'c/0' is a {kind.split()[0]} file too.*erase it first"):
            change()
        assert array.store.get("c/0") == before
    array.store.erase("c/0")
    array[:] = 7
    assert array[:].tolist() == [7] * 8


@pytest.mark.parametrize("kind", HEADS)
def test_a_file_whose_shard_index_is_gone(kind: str) -> None:
    """Another program that opened the file cut the index off; what is left is a file of its format still."""
    array, chunks = array_in(HEADS[kind])
    array.store.set("c/0", chunks)
    with pytest.raises(UnsupportedError, match="erase it first"):
        array[:] = 7
    assert array.store.get("c/0") == chunks


def test_a_damaged_shard_is_overwritten() -> None:
    array, _ = array_in(b"")
    for body in (b"", b"1", bytes(40), b"x" * 500, (array.store.get("c/0") or b"")[:-1]):
        array.store.set("c/0", body)
        array[:] = 7
        assert array[:].tolist() == [7] * 8


def test_a_plain_chunk_is_not_looked_at() -> None:
    store = MemoryStore()
    array = terrazzo.create_array(store, shape=(8,), dtype="i4", chunks=(8,))
    store.set("c/0", HEADS["TIFF"])
    array[:] = 7
    assert array[:].tolist() == [7] * 8


def test_growing_chunks_leave_another_formats_bytes_alone() -> None:
    """Bytes behind a chunk may be somebody's; where a format shows itself, they are not grown over."""
    store = MemoryStore()
    array = terrazzo.create_array(
        store, shape=(64,), dtype="i4", chunks=(32,), shards=(64,), compressors=["zstd", "crc32c"]
    )
    array[:] = 1
    body = store.get("c/0") or b""
    sharding = array.layout.sharding
    assert sharding is not None
    entries = sharding.decode_index(body[-36:], (2,))
    moved = entries + np.array([[12 + 500 * k, 0] for k in range(2)], np.uint64)
    parts = [body[int(a) : int(a + n)] for a, n in entries.tolist()]
    made = HEADS["TIFF"] + parts[0] + b"theirs" + bytes(494) + parts[1] + sharding.encode_index(moved, (2,))
    assert len(HEADS["TIFF"]) == 12
    store.set("c/0", made)
    assert (array[:] == 1).all()
    with pytest.raises(UnsupportedError, match="TIFF"):
        array.using(strategy=InPlace())[:32] = np.arange(32)
    array.using(strategy=InPlace(otherwise="append", dead=1))[:32] = np.arange(32)
    assert array[:32].tolist() == list(range(32))
    assert (store.get("c/0") or b"").startswith(made[:-36])
    store.set("c/0", made.replace(HEADS["TIFF"][:4], b"none"))
    array.using(strategy=InPlace())[:32] = np.arange(32)
    assert array[:32].tolist() == list(range(32))
    assert len(store.get("c/0") or b"") == len(made)


@pytest.mark.parametrize("strategy", [Append(dead=1, index_at_end=True), InPlace(otherwise="append")])
@pytest.mark.parametrize("kind", HEADS)
def test_strategies_that_leave_bytes_where_they_are(kind: str, strategy: Any) -> None:
    array, _ = array_in(HEADS[kind])
    array = array.using(strategy=strategy)
    array[0] = 5
    array[3:5] = 6
    assert array[:].tolist() == [5, 2, 3, 6, 6, 6, 7, 8]
    stored = array.store.get("c/0")
    assert stored is not None and stored.startswith(HEADS[kind])


def test_a_zip_file_before_the_index() -> None:
    array, _ = array_in(a_zip(), "after")
    with pytest.raises(UnsupportedError, match="ZIP"):
        array[0] = 5


def test_dead_bytes_are_no_reason_to_refuse() -> None:
    array, _ = array_in(b"II*no" + bytes(range(256)) * 20)
    array[0] = 5
    stored = array.store.get("c/0")
    assert array[:].tolist() == [5, *range(2, 9)] and stored is not None and len(stored) == 4 * 12 + 68


def test_chunk_bytes_that_look_like_another_format_are_chunks() -> None:
    array = terrazzo.create_array(
        MemoryStore(), shape=(8,), dtype="u1", chunks=(8,), shards=(8,), compressors=None
    )
    array[:] = np.frombuffer(b"\x89HDF\r\n\x1a\n", "u1")
    array[7] = 11
    assert array[7] == 11


def test_where_one_looks() -> None:
    assert places_to_look(np.zeros((0, 2), np.int64), 100) == []
    assert places_to_look(np.array([[50, 20]]), 100) == []
    assert (512, 8) in places_to_look(np.array([[100, 1000]]), 5000)
    assert max(length for _, length in places_to_look(np.array([[0, 10**9]]), 10**9)) == 8
    assert signature_in({(0, 4): b"II*\0"}) == "TIFF"
    assert signature_in({(4, 4): b"II*\0", (0, 8): b"\x89HDF\r\n\x1a "}) is None
