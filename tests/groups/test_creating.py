"""New nodes: with the groups above them, never below an array, never over what is there unless asked; and races."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.errors import (
    ContainsArrayError,
    ContainsGroupError,
    ContainsNodeError,
    NodeTypeValidationError,
    UnsupportedError,
)
from terrazzo.metadata import GroupMetadata
from terrazzo.storage import LocalStore, MemoryStore, StorePath, ZipStore


def test_the_groups_above_are_made() -> None:
    store = MemoryStore()
    terrazzo.create_array(store, name="a/b/c", shape=1, dtype="i4")
    assert sorted(store.list()) == ["a/b/c/zarr.json", "a/b/zarr.json", "a/zarr.json", "zarr.json"]
    assert json.loads(store.get("a/zarr.json") or b"")["node_type"] == "group"


def test_the_groups_above_are_left_as_they_are() -> None:
    group = terrazzo.create_group({}, path="a", attributes={"kept": 1})
    terrazzo.create_group(group.store, path="a/b/c")
    assert terrazzo.open_group(group.store, path="a").attrs["kept"] == 1


@pytest.mark.parametrize("depth", ["b", "b/c/d"])
def test_nothing_is_made_below_an_array(depth: str) -> None:
    store = MemoryStore()
    terrazzo.create_array(store, name="a", shape=1, dtype="i4")
    before = sorted(store.list())
    with pytest.raises(ContainsArrayError, match="'/a' in .* is an array"):
        terrazzo.create_group(store, path=f"a/{depth}")
    with pytest.raises(ContainsArrayError, match="'/a' in .* is an array"):
        terrazzo.create_array(store, name=f"a/{depth}", shape=1, dtype="i4")
    assert sorted(store.list()) == before


@pytest.mark.parametrize("kind, error", [("array", ContainsArrayError), ("group", ContainsGroupError)])
def test_what_is_there_stays(kind: str, error: type[Exception]) -> None:
    root = terrazzo.create_group({})
    if kind == "array":
        root.create_array("x", data=np.arange(3))
    else:
        root.create_group("x")
    for make in (root.create_group, lambda name: root.create_array(name, shape=5, dtype="i4")):
        with pytest.raises(error, match="overwrite=True"):
            make("x")
    assert isinstance(root["x"], terrazzo.Array) == (kind == "array")


@pytest.mark.parametrize("make", [MemoryStore, dict, "local"])
def test_overwriting_deletes_all_that_was_there(make: Any, tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "o.zarr") if make == "local" else make()
    root = terrazzo.create_group(store)
    root["x/y/z"] = np.arange(5)
    root["xy"] = np.arange(5)
    root.create_array("x", shape=5, dtype="i4", overwrite=True)
    assert sorted(root.members(None), key=str)[0][0] == "x" and root["x"].nchunks_initialized == 0
    assert list(root) == ["x", "xy"] and root.nmembers(None) == 2
    root.create_group("x", overwrite=True)
    assert list(root["x"]) == [] and root["xy"][4] == 4


def test_a_wrong_wish_deletes_nothing() -> None:
    root = terrazzo.create_group({})
    root["x"] = np.arange(5)
    with pytest.raises(ValueError, match="multiple"):
        root.create_array("x", shape=5, dtype="i4", chunks=2, shards=3, overwrite=True)
    with pytest.raises(TypeError, match="object"):
        root["x"] = np.array([1, "a"], dtype=object)
    assert root["x"][4] == 4


def test_an_archive_cannot_replace_but_says_so(tmp_path: Path) -> None:
    with ZipStore(tmp_path / "a.zip", mode="w") as store:
        terrazzo.create_array(store, name="x", shape=3, dtype="i4", overwrite=True)[:] = 1
        with pytest.raises(UnsupportedError, match="cannot delete"):
            terrazzo.create_array(store, name="x", shape=3, dtype="i4", overwrite=True)
    with ZipStore(tmp_path / "a.zip") as store:
        assert terrazzo.open_array(store, path="x")[:].tolist() == [1, 1, 1]


# what a new array needs


def test_shape_type_and_values() -> None:
    with pytest.raises(ValueError, match="needs shape and dtype"):
        terrazzo.create_array(None)
    with pytest.raises(ValueError, match="needs dtype"):
        terrazzo.create_array(None, shape=3)
    with pytest.raises(ValueError, match=r"shape is \(3,\), and data has \(4,\)"):
        terrazzo.create_array(None, shape=3, data=np.zeros(4))
    assert terrazzo.create_array(None, data=[[1.5, 2], [3, 4]])[1].tolist() == [3, 4]
    assert terrazzo.create_array(None, data=np.arange(3), dtype="f4")[:].dtype == "f4"
    assert not terrazzo.create_array(None, data=np.arange(3), write_data=False)[:].any()


def test_the_older_create() -> None:
    array = terrazzo.create((4, 4), chunks=2, compressor="gzip:1", dimension_separator=".", fill_value=3)
    assert array.dtype == "f8" and array.chunks == (2, 2) and [c.name for c in array.compressors] == ["gzip"]
    assert array.metadata.chunk_key_encoding.configuration == {"separator": "."}
    assert terrazzo.create(3, write_empty_chunks=True).options.write_empty_chunks
    assert terrazzo.create(3, read_only=True).read_only
    store: dict[str, Any] = {}
    terrazzo.create(3, store=store, path="x", mode="w-")
    with pytest.raises(ContainsArrayError):
        terrazzo.create(3, store=store, path="x", mode="w-")
    assert terrazzo.create(4, store=store, path="x", mode="w").shape == (4,)
    with pytest.raises(ValueError, match="compressor and compressors"):
        terrazzo.create(3, compressor=None, compressors=None)
    with pytest.raises(ValueError, match="dimension_separator and chunk_key_encoding"):
        terrazzo.create(3, dimension_separator=".", chunk_key_encoding="v2")
    with pytest.warns(UserWarning, match="object_codec has no effect"):
        terrazzo.create(3, object_codec=1)


def test_arrays_like_others_keep_their_layout() -> None:
    source = terrazzo.create_array(
        None,
        shape=(8, 8),
        dtype="i2",
        chunks=2,
        shards=4,
        compressors="gzip:2",
        index_location="start",
        fill_value=7,
    )
    for make, value in (
        (terrazzo.zeros_like, 0),
        (terrazzo.ones_like, 1),
        (terrazzo.full_like, 7),
        (terrazzo.empty_like, 0),
    ):
        made = make(source)
        assert (made.chunks, made.shards, made.dtype, made[0, 0]) == ((2, 2), (4, 4), source.dtype, value)
        assert made.metadata.codecs == source.metadata.codecs
    assert terrazzo.zeros_like(source, chunks=3).shards is None
    assert terrazzo.zeros_like(source, dtype="f8", shape=3, chunks=1).shape == (3,)
    irregular = terrazzo.create_array(None, shape=(6,), dtype="i2", chunks=[[1, 2, 3]])
    assert terrazzo.zeros_like(irregular).write_chunk_sizes == ((1, 2, 3),)
    with pytest.raises(ValueError, match="fill_value"):
        terrazzo.full_like(np.zeros(3))


def test_copies_keep_what_is_not_said_anew() -> None:
    source = terrazzo.create_array(
        None,
        data=np.arange(64).reshape(8, 8),
        chunks=2,
        shards=4,
        filters="transpose" if False else None,
        compressors="zstd:7",
        attributes={"a": 1},
        dimension_names=["y", "x"],
        chunk_key_encoding="v2",
        fill_value=5,
    )
    same = terrazzo.from_array(None, data=source)
    assert same.metadata == source.metadata
    assert (same[:] == source[:]).all()
    assert terrazzo.from_array(None, data=source, attributes={}).attrs.asdict() == {}
    plain = terrazzo.from_array(None, data=source, shards=None, dimension_names=None)
    assert plain.shards is None and plain.dimension_names is None
    assert [c.name for c in terrazzo.from_array(None, data=source, compressors="auto").compressors] == [
        "zstd",
        "crc32c",
    ]
    assert terrazzo.from_array(None, data=source, chunks=4).shards == (4, 4)
    assert terrazzo.from_array(None, data=source, chunks=3).chunks == (3, 3)
    irregular = terrazzo.create_array(None, data=np.arange(6), chunks=[[1, 2, 3]])
    assert terrazzo.from_array(None, data=irregular).write_chunk_sizes == ((1, 2, 3),)


def test_values_that_are_not_in_memory_come_in_pieces() -> None:
    class Lazy:
        shape, dtype = (10, 4), np.dtype("i4")

        def __init__(self) -> None:
            self.asked: list[Any] = []

        def __getitem__(self, region: Any) -> np.ndarray[Any, Any]:
            self.asked.append(region)
            return np.arange(40, dtype="i4").reshape(10, 4)[region]

    lazy = Lazy()
    seen: list[tuple[int, int]] = []
    array = terrazzo.from_array(
        None, data=lazy, chunks=(2, 2), shards=(4, 4), progress=lambda *told: seen.append(told)
    )
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert len(lazy.asked) == 3 and array[9].tolist() == [36, 37, 38, 39]


# hierarchies from documents


def test_hierarchies() -> None:
    array = terrazzo.create_array(None, shape=(3,), dtype="i4").metadata
    store = MemoryStore()
    made = dict(
        terrazzo.create_hierarchy(
            store=store, nodes={"a/b/x": array, "a": GroupMetadata({"k": 1}), "c": GroupMetadata()}
        )
    )
    assert list(made) == ["", "a", "c", "a/b", "a/b/x"]
    assert made["a"].attrs["k"] == 1 and made["a/b/x"].shape == (3,)
    again = terrazzo.create_hierarchy(store=store, nodes={"d": GroupMetadata()})
    assert [path for path, _ in again] == ["d"]
    before = sorted(store.list())
    with pytest.raises(ContainsGroupError):
        terrazzo.create_hierarchy(store=store, nodes={"e": GroupMetadata(), "c": GroupMetadata()})
    with pytest.raises(ContainsArrayError, match="among these nodes"):
        terrazzo.create_hierarchy(store=store, nodes={"f": array, "f/g": GroupMetadata()})
    with pytest.raises(ContainsArrayError):
        terrazzo.create_hierarchy(store=store, nodes={"a/b/x/y": GroupMetadata()})
    assert sorted(store.list()) == before
    terrazzo.create_hierarchy(store=store, nodes={"a": GroupMetadata()}, overwrite=True)
    assert dict(terrazzo.open_group(store)["a"].members(None)) == {}
    below = terrazzo.open_group(store, path="c").create_hierarchy({"x/y": GroupMetadata()})
    assert [path for path, _ in below] == ["x", "x/y"]


def test_requiring() -> None:
    root = terrazzo.create_group({})
    array = root.require_array("x", shape=(3,), dtype="i4", chunks=2)
    array[:] = 1
    assert root.require_array("x", shape=3, dtype="i2")[0] == 1
    with pytest.raises(TypeError, match=r"has shape \(3,\); \(4,\) was asked for"):
        root.require_array("x", shape=4, dtype="i4")
    with pytest.raises(TypeError, match="has type int32; float64 was asked for"):
        root.require_array("x", shape=3, dtype="f8")
    with pytest.raises(TypeError, match="int16"):
        root.require_array("x", shape=3, dtype="i2", exact=True)
    root.require_group("g", attributes={"a": 1})
    assert root.require_group("g").attrs["a"] == 1
    assert root.require_group("g", overwrite=True).attrs.asdict() == {}
    with pytest.raises(ContainsArrayError):
        root.require_group("x")
    with pytest.raises(ContainsGroupError):
        root.require_array("g", shape=1, dtype="i4")
    with pytest.raises(NodeTypeValidationError):
        terrazzo.open_array(StorePath(root.store, "g"))


# races


def race(works: list[Callable[[], Any]]) -> list[Any]:
    """What each answers, or the error it raises, when all start at once."""
    gate = threading.Barrier(len(works))
    results: list[Any] = [None] * len(works)

    def run(number: int) -> None:
        gate.wait()
        try:
            results[number] = works[number]()
        except Exception as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize("make", [MemoryStore, dict, "local"])
@pytest.mark.parametrize("attempt", range(5))
def test_of_two_who_make_one_array_one_wins(make: Any, attempt: int, tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "race.zarr") if make == "local" else make()
    works = [
        lambda n=n: terrazzo.create_array(store, name="deep/x", shape=n + 1, dtype="i4") for n in range(6)
    ]
    results = race(works)
    won = [result for result in results if isinstance(result, terrazzo.Array)]
    assert len(won) == 1, results
    assert all(isinstance(result, terrazzo.Array | ContainsArrayError) for result in results), results
    assert terrazzo.open_array(store, path="deep/x").shape == won[0].shape


def test_those_who_want_it_to_be_there_all_get_it(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "race.zarr")
    root = terrazzo.open_group(store)
    groups = race([lambda: root.require_group("a/b") for _ in range(6)])
    assert all(isinstance(group, terrazzo.Group) for group in groups), groups
    arrays = race([lambda: root.require_array("a/x", shape=3, dtype="i4") for _ in range(6)])
    assert all(isinstance(array, terrazzo.Array) for array in arrays), arrays
    opened = race(
        [lambda: terrazzo.open_array(store, path="a/y", mode="a", shape=3, dtype="i4") for _ in range(6)]
    )
    assert all(isinstance(array, terrazzo.Array) for array in opened), opened
    either = race([lambda: terrazzo.open_group(store, path="z/z", mode="a") for _ in range(6)])
    assert all(isinstance(group, terrazzo.Group) for group in either), either


def test_of_two_processes_one_wins(tmp_path: Path) -> None:
    program = (
        "import sys, terrazzo\n"
        "sys.stdin.read(1)\n"
        "try:\n"
        "    terrazzo.create_array(sys.argv[1], name='x', shape=3, dtype='i4')\n"
        "    print('won')\n"
        "except terrazzo.errors.ContainsArrayError:\n"
        "    print('told')\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "race.zarr")]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    for process in running:
        assert process.stdin is not None
        process.stdin.write("g")
        process.stdin.flush()
    assert sorted(process.communicate()[0].strip() for process in running) == ["told", "told", "won"]


# what a crash left behind


def test_chunks_without_a_document_are_not_taken_for_values(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "left.zarr")
    terrazzo.create_array(store, name="x", shape=6, dtype="i4", chunks=2)[:] = 1
    store.erase("x/zarr.json")
    for make in (
        lambda: terrazzo.create_array(store, name="x", shape=6, dtype="i4"),
        lambda: terrazzo.open_array(store, path="x", mode="a", shape=6, dtype="i4"),
    ):
        with pytest.raises(ContainsNodeError, match="but chunks of one .*overwrite=True to delete them"):
            make()
    array = terrazzo.create_array(store, name="x", shape=6, dtype="i4", overwrite=True)
    assert not array[:].any() and array.nchunks_initialized == 0
    store.erase("x/zarr.json")
    store.set("x/readme.txt", b"not a chunk")
    terrazzo.create_array(store, name="x", shape=6, dtype="i4")


def test_text_of_numpy_2_in_format_2() -> None:
    values = np.array(["a", "", "bcd"], dtype=np.dtypes.StringDType())
    store = MemoryStore()
    terrazzo.create_array(store, data=values, zarr_format=2)
    assert terrazzo.open_array(store, mode="r")[...].tolist() == values.tolist()
    assert b'"id": "vlen-utf8"' in (store.get(".zarray") or b"")
