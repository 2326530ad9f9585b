"""The inventory against what was written, Arrow against pyarrow, manifests against changes; costs as counts."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import terrazzo
from terrazzo.arrays.array import Array
from terrazzo.errors import SelectionError, ShardError
from terrazzo.inventory import UNKNOWN, Inventory, fingerprint
from terrazzo.inventory.arrow import BATCH, _kept
from terrazzo.stores.memory import MemoryStore
from terrazzo.strategy import Append


class Counted(MemoryStore):
    """Counts looks at objects and listings."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = self.listings = self.asked = 0

    def open(self, requests: Any) -> Any:
        self.looks += len(requests)
        answers = super().open(requests)
        self.asked += sum(len(s.first) for s in answers if s is not None and s.first is not None)
        return answers

    def list_prefix(self, prefix: str) -> Any:
        self.listings += 1
        return super().list_prefix(prefix)


LAYOUTS: dict[str, dict[str, Any]] = {
    "shards": dict(chunks=(2, 3), shards=(4, 9)),
    "plain": dict(chunks=(2, 3)),
    "rectilinear": dict(chunks=([3, 4, 6], [5, 7, 1, 4])),
    "rectilinear shards": dict(chunks=(2, 3), shards=([4, 2, 8], [9, 9])),
}


def made(kind: str, store: Any = None) -> Array:
    return terrazzo.create_array(
        store if store is not None else MemoryStore(), shape=(13, 17), dtype="i2", **LAYOUTS[kind]
    )


def starts(array: Array, d: int) -> list[int]:
    sizes = np.cumsum([0, *array.read_chunk_sizes[d]])
    return [int(v) for v in sizes]


@pytest.mark.parametrize("kind", LAYOUTS)
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_it_finds_exactly_the_chunks_that_are_stored(kind: str, data: st.DataObject) -> None:
    array = made(kind)
    values = np.zeros(array.shape, "i2")
    for _ in range(data.draw(st.integers(0, 4))):
        i, j = data.draw(st.integers(0, 12)), data.draw(st.integers(0, 16))
        values[i : i + 3, j : j + 4] = 1
        array[i : i + 3, j : j + 4] = 1
    low = [data.draw(st.integers(0, n)) for n in array.shape]
    high = [data.draw(st.integers(a, n)) for a, n in zip(low, array.shape, strict=True)]
    region = tuple(slice(a, b) for a, b in zip(low, high, strict=True))
    found = array.inventory(data.draw(st.sampled_from([None, region])))
    box = found.box
    rows, columns = starts(array, 0), starts(array, 1)
    expected = [
        (i, j)
        for i in range(len(rows) - 1)
        for j in range(len(columns) - 1)
        if values[rows[i] : rows[i + 1], columns[j] : columns[j + 1]].any()
        and max(rows[i], box[0][0]) < min(rows[i + 1], box[0][1])
        and max(columns[j], box[1][0]) < min(columns[j + 1], box[1][1])
    ]
    assert sorted(map(tuple, found.chunks.tolist())) == expected
    assert found.grid == array.cdata_shape
    for index, place in found.boxes():
        assert place == (
            slice(rows[index[0]], rows[index[0] + 1]),
            slice(columns[index[1]], columns[index[1] + 1]),
        )
        assert (np.asarray(array[place]) == values[place]).all()
    # every row leads to bytes that decode to the chunk
    for (index, place), number, offset, nbytes in zip(
        found.boxes(), found.object, found.offset.tolist(), found.nbytes.tolist(), strict=True
    ):
        stored = array.store.get(found.keys[number])
        assert stored is not None
        chain = array.layout.chain
        if kind == "rectilinear":
            chain = array.layout.chain_for(array.layout.grid.chunk_shape(index))
        chunk = chain.decode(stored[offset : offset + nbytes])
        here = values[place]
        np.testing.assert_array_equal(chunk[tuple(slice(0, n) for n in here.shape)], here)
    if found.box == tuple((0, n) for n in array.shape):
        assert len(found) == array.nchunks_initialized
        assert np.unpackbits(np.frombuffer(found.bitmap, "u1")).sum() == len(found)
        assert int(found.sizes.sum()) == found.stored_nbytes + found.dead_nbytes + sum(
            16 * np.prod(array.layout.counts(np.array([array.layout.keys.parse(key, 2)]))[0]) + 4
            for key in (found.keys if array.layout.sharding is not None else [])
        )


def test_sizes_and_what_is_dead() -> None:
    array = terrazzo.create_array(
        MemoryStore(),
        shape=(8, 8),
        dtype="i4",
        chunks=(4, 4),
        shards=(8, 8),
        compressors="crc32c",
        index_location="start",
        strategy=Append(dead=0.9),
    )
    array[...] = 1
    array[:4, :4] = 2
    found = array.inventory()
    assert len(found) == 4 and found.sizes.tolist() == [68 + 5 * 68]
    assert found.dead.tolist() == [68] and found.dead_nbytes == 68
    assert found.stored_nbytes == 4 * 68 and found.decoded_nbytes == 256
    assert found.ratio == 256 / (4 * 68)
    assert found.table["offset"][0] == 68 + 4 * 68 and found.table["nbytes"].tolist() == [68] * 4
    assert repr(found) == "<Inventory of /: 4 of 4 chunks in 1 objects>"


def test_no_dimensions_and_no_elements() -> None:
    scalar = terrazzo.create_array(MemoryStore(), shape=(), dtype="i4")
    assert len(scalar.inventory()) == 0 and scalar.inventory().ratio == 0
    scalar[...] = 4
    found = scalar.inventory()
    assert found.chunks.shape == (1, 0) and found.bitmap == b"\x80" and list(found.boxes()) == [((), ())]
    empty = terrazzo.create_array(MemoryStore(), shape=(0, 5), dtype="i4", chunks=(2, 2))
    assert len(empty.inventory()) == 0 and empty.inventory().bitmap == b""


def test_what_a_region_may_be() -> None:
    array = made("shards")
    array[...] = 1
    assert len(array.inventory(np.s_[-1])) == 6
    assert len(array.inventory(np.s_[..., 0])) == 7
    assert len(array.inventory(np.s_[0, 0])) == 1
    assert len(array.inventory(np.s_[3:3])) == 0
    for region in (np.s_[::2], np.s_[13], np.s_[0, 0, 0], np.s_[..., ...], [1, 2]):
        with pytest.raises(SelectionError):
            array.inventory(region)


def test_keys_are_computed_or_listed_by_what_is_less_work() -> None:
    store = Counted()
    array = terrazzo.create_array(store, shape=(10**6, 10**6), dtype="i1", chunks=(10, 10), shards=(100, 100))
    array[123_456, 654_321] = 1
    array[999_999, 0] = 1
    store.looks = store.listings = store.asked = 0
    assert len(array.inventory()) == 2
    assert (store.looks, store.listings) == (2, 1)  # 10^8 shards: two looks, one listing
    index_nbytes = 100 * 16 + 4
    assert store.asked == 2 * index_nbytes
    store.looks = store.listings = 0
    assert len(array.inventory(np.s_[123_000:123_500, 654_000:654_500])) == 1
    assert (store.looks, store.listings) == (25, 0)  # few enough to be looked for by name


def test_counting_chunks_uses_it() -> None:
    store = Counted()
    array = terrazzo.create_array(store, shape=(40, 40), dtype="i1", chunks=(2, 2), shards=(10, 10))
    array[:10, :10] = 1
    array[20, 20] = 1
    assert array.nchunks_initialized == 26
    assert array.nshards_initialized == 2


def test_a_broken_index_is_an_error_with_its_place() -> None:
    array = made("shards")
    array[...] = 1
    array.store.set("c/1/1", b"short")
    with pytest.raises(ShardError, match="'c/1/1' has 5 bytes"):
        array.inventory()
    assert len(array.inventory(np.s_[:4])) == 12


# -- manifests --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LAYOUTS)
def test_a_manifest_knows_when_it_is_stale(kind: str, tmp_path: Path) -> None:
    array = made(kind, str(tmp_path / "a.zarr"))
    array[:6, :9] = 5
    array.inventory().save(tmp_path / "manifest")
    loaded = Inventory.load(tmp_path / "manifest")
    fresh = array.inventory()
    for name in ("chunks", "object", "offset", "nbytes", "sizes", "dead", "tags"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(fresh, name))
    assert (loaded.keys, loaded.shape, loaded.box, loaded.grid) == (
        fresh.keys,
        fresh.shape,
        fresh.box,
        fresh.grid,
    )
    assert list(loaded.boxes()) == list(fresh.boxes())
    again = terrazzo.open_array(tmp_path / "a.zarr", mode="r+")
    assert not loaded.is_stale(again)
    again[0, 0] = 6  # an object changed
    assert loaded.stale_keys(again) == [again.layout.prefix + again.layout.keys.key((0, 0))]
    part = again.inventory(np.s_[4:6, 9:])
    part.save(tmp_path / "part")
    again[0, 0] = 7  # outside its region
    assert not Inventory.load(tmp_path / "part").is_stale(again)
    again[12, 16] = 1  # a new one
    assert len(again.inventory().stale_keys(again)) == 0 and len(loaded.stale_keys(again)) == 2
    fresh = again.inventory()
    again.store.erase(fresh.keys[0])
    assert fresh.stale_keys(again) == [fresh.keys[0]]
    fresh = again.inventory()
    if kind in ("shards", "plain"):
        again.resize((14, 17))
        assert fresh.is_stale(again)


@pytest.mark.parametrize("form", [{}, {"zarr_format": 2}, {"dialect": "P"}, {"dialect": "D"}])
def test_attributes_make_no_manifest_stale(form: dict[str, Any]) -> None:
    place: dict[str, bytes] = {}
    array = terrazzo.create_array(place, data=np.ones((6, 4)), chunks=(2, 2), **form)
    found = array.inventory()
    array.attrs["title"] = "t"
    assert not found.is_stale(array)
    assert not found.is_stale(terrazzo.open_array(place, mode="r"))


def test_a_version_without_a_lasting_form_counts_as_changed() -> None:
    assert fingerprint(object()) == UNKNOWN == fingerprint(None)
    assert fingerprint((1, 2)) == fingerprint((1, 2)) != fingerprint((1, 3))


def test_files_that_are_no_manifests_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"something else")
    with pytest.raises(ValueError, match="not a manifest"):
        Inventory.load(path)
    with pytest.raises(FileNotFoundError):
        Inventory.load(tmp_path / "missing")
    array = made("shards")
    array[...] = 1
    array.inventory().save(path)
    with np.load(path) as parts:
        good = dict(parts)
    head = json.loads(bytes(good["head"]))
    bad: list[dict[str, Any]] = [
        {"object": good["object"] + 100},
        {"chunks": good["chunks"][:3]},
        {"offset": good["offset"].astype("f8")},
        {"head": np.frombuffer(json.dumps({**head, "format": "other"}).encode(), "u1")},
        {"head": np.frombuffer(b"{", "u1")},
        {"sizes": np.array([object()])},
    ]
    for change in bad:
        with open(path, "wb") as file:
            np.savez(file, **{**good, **change})
        with pytest.raises(ValueError, match="not a manifest"):
            Inventory.load(path)


# -- Arrow ------------------------------------------------------------------------------------------------------------


def test_arrow_takes_it() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    array = terrazzo.create_array(
        MemoryStore(), shape=(400, 500), dtype="i1", chunks=(1, 2), shards=(200, 500)
    )
    array[...] = 1
    found = array.inventory()
    assert len(found) == 100_000 > BATCH
    before = len(_kept)
    table = pyarrow.table(found)
    assert table.num_rows == len(found) and table["offset"].num_chunks == 2
    assert table.column_names == ["chunk_0", "chunk_1", "key", "offset", "nbytes"]
    assert table.schema == pyarrow.schema(found)
    np.testing.assert_array_equal(table["chunk_1"].to_numpy(), found.chunks[:, 1])
    np.testing.assert_array_equal(table["offset"].to_numpy(), found.offset)
    np.testing.assert_array_equal(table["nbytes"].to_numpy(), found.nbytes)
    assert set(table["key"].to_pylist()) == set(found.keys)
    assert table["key"][99_999].as_py() == found.keys[found.object[99_999]]
    del table
    gc.collect()
    assert len(_kept) == before  # everything was given back


def test_arrow_may_look_and_go_away() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    array = made("plain")
    empty = pyarrow.table(array.inventory())
    assert empty.num_rows == 0 and empty.column_names[2] == "key"
    array[...] = 1
    found = array.inventory()
    before = len(_kept)
    capsule = found.__arrow_c_stream__()
    del capsule  # nobody took it
    reader = pyarrow.RecordBatchReader.from_stream(found)
    batch = reader.read_next_batch()
    del reader, found
    gc.collect()
    assert batch["chunk_0"].to_pylist()[-1] == 6  # a batch outlives its stream
    del batch
    gc.collect()
    assert len(_kept) == before
