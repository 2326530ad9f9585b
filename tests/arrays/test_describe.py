"""What arrays tell about themselves, and that telling reads nothing; counting what is stored reads only indexes."""

from __future__ import annotations

import numpy as np
import pytest

import terrazzo
from terrazzo.storage import CountingStore, MemoryStore, Store


class Unlisted(Store):
    """A store that finds what it is asked for, and cannot list."""

    listable = False

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def set(self, key: str, value: bytes) -> None:
        self.values[key] = bytes(value)

    def erase(self, key: str) -> None:
        self.values.pop(key, None)


def sharded(store: Store | None = None) -> terrazzo.Array:
    array = terrazzo.create_array(
        store, shape=(100, 100), dtype="f4", chunks=(10, 10), shards=(50, 50), dimension_names=["y", "x"]
    )
    array[5:15, 7] = 1  # two inner chunks of the first shard
    array[99, 99] = 2  # one of the last
    return array


def test_info_says_what_the_document_says() -> None:
    info = sharded().info
    assert info["Shard shape"] == (50, 50) and info["Chunk shape"] == (10, 10)
    assert info["Dimension names"] == ("y", "x") and info["Index location"] == "end"
    text = repr(info)
    assert "Data type" in text and "float32" in text and "No. chunks" in text
    assert text.count("\n") == len(dict(info))


def test_nothing_is_read_for_it() -> None:
    store = CountingStore(MemoryStore())
    array = sharded(store)
    store.reset()
    repr(array), repr(array.info), array.info._repr_html_(), array._repr_html_(), str(array.metadata)
    assert store.requests == 0


def test_the_picture_shows_shards_and_chunks() -> None:
    html = sharded()._repr_html_()
    assert "<svg" in html and "<table" in html and "(50, 50)" in html
    assert "<script" not in html
    plain = terrazzo.create_array(None, shape=(30,), dtype="i4", chunks=[[10, 20]])
    assert "<svg" in plain._repr_html_() and "[10, 20]" in repr(plain.info)
    assert "<svg" in terrazzo.create_array(None, shape=(), dtype="i4")._repr_html_()
    assert "<svg" in terrazzo.create_array(None, shape=(0, 5), dtype="i4")._repr_html_()


def test_one_line_tells_the_layout() -> None:
    text = repr(sharded())
    assert text.endswith(
        " shape=(100, 100) dtype=float32 chunks=(10, 10) shards=(50, 50) codecs=bytes+zstd+crc32c>"
    )
    plain = terrazzo.create_array(None, shape=3, dtype="string", chunks=[[1, 2]], compressors=None)
    assert "chunks=varied codecs=vlen-utf8>" in repr(plain)


def test_names_are_escaped() -> None:
    array = terrazzo.create_array(None, shape=(3,), dtype="i4", dimension_names=["<script>"])
    assert "<script>" not in array._repr_html_()


@pytest.mark.parametrize("make", [MemoryStore, Unlisted])
def test_chunks_are_counted_truly(make: type[Store]) -> None:
    array = sharded(make())
    assert (array.nchunks_initialized, array.nshards_initialized) == (3, 2)
    array[5:15, 7] = 0  # all fill again: the inner chunks go
    assert (array.nchunks_initialized, array.nshards_initialized) == (1, 1)
    plain = terrazzo.create_array(make(), shape=(10, 10), dtype="i4", chunks=(5, 5))
    assert (plain.nchunks_initialized, plain.nshards_initialized) == (0, 0)
    plain[7, 7] = 1
    assert (plain.nchunks_initialized, plain.nshards_initialized) == (1, 1)


@pytest.mark.parametrize("make", [MemoryStore, Unlisted])
def test_stored_bytes_are_those_of_the_objects(make: type[Store]) -> None:
    store = make()
    array = sharded(store)
    keys = ["zarr.json", "c/0/0", "c/1/1"]
    assert array.nbytes_stored() == sum(store.getsize(key) or 0 for key in keys)
    info = array.info_complete()
    assert info["Chunks initialized"] == "3/100" and info["Shards initialized"] == "2/4"


def test_counting_reads_no_chunk() -> None:
    store = CountingStore(MemoryStore())
    array = terrazzo.create_array(
        store, shape=(1 << 20,), dtype="u1", chunks=(1 << 16,), shards=(1 << 19,), compressors=None
    )
    array[:] = 1
    again = terrazzo.open_array(store, mode="r")
    store.reset()
    assert again.nchunks_initialized == 16
    assert store.counts.read_nbytes < 10_000


def test_leftovers_outside_the_grid_do_not_count() -> None:
    store = MemoryStore()
    array = terrazzo.create_array(store, shape=(4,), dtype="i4", chunks=(2,))
    array[:] = 1
    store.set("c/7", b"left over")
    store.set("c/x", b"not a chunk")
    store.set("note.txt", b"a note")
    assert array.nchunks_initialized == 2
    assert np.isfinite(array.nbytes_stored())


def test_the_inventory_of_a_huge_empty_array_is_quick() -> None:
    array = terrazzo.create_array(None, shape=(1 << 40, 1 << 20), dtype="u1", chunks=(1024, 1024))
    assert array.nchunks_initialized == 0 and array.nshards_initialized == 0
    array[1 << 39, 5] = 1
    assert array.nchunks_initialized == 1
    assert len(array.inventory()) == 1
