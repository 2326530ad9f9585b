"""Consolidated metadata: what they save, when they are believed, and how they are brought up to date."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.storage import CountingStore, MemoryStore, Store


class Unlisted(Store):
    listable = False

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def set(self, key: str, value: bytes) -> None:
        self.values[key] = bytes(value)


def filled(store: Any = None) -> terrazzo.Group:
    root = terrazzo.create_group(store, attributes={"title": "all"})
    root["b"] = np.arange(3)
    root["a/x"] = np.arange(4)
    root["a/deep/y"] = np.arange(5)
    return root


def paths(group: terrazzo.Group) -> list[str]:
    return [path for path, _ in group.members(None)]


ALL = ["a", "b", "a/deep", "a/x", "a/deep/y"]


def test_a_reader_needs_one_request() -> None:
    store = CountingStore(MemoryStore())
    filled(store)
    terrazzo.consolidate_metadata(store)
    store.reset()
    root = terrazzo.open_group(store, mode="r")
    assert store.round_trips == 1
    assert (
        paths(root) == ALL and root["a/deep/y"].shape == (5,) and "nope" not in root and len(root["a"]) == 2
    )
    assert [path for path, _ in root["a"].members(None)] == ["deep", "x", "deep/y"]
    assert str(root.tree()) and root.info_complete()["No. arrays"] == 3
    assert root.get("zzz") is None
    assert store.round_trips == 1
    with pytest.raises(KeyError, match="did you mean 'deep'"):
        root["a/dep"]
    assert store.round_trips == 1


def test_they_may_be_left_alone() -> None:
    root = filled({})
    terrazzo.consolidate_metadata(root.store)
    root["new"] = np.arange(2)
    assert "new" not in terrazzo.open_group(root.store, mode="r")
    assert "new" in terrazzo.open_group(root.store, mode="r", use_consolidated=False)
    assert "new" in terrazzo.open_group(root.store)
    fresh = terrazzo.open_group(root.store, mode="r", use_consolidated=False)
    assert "new/zzz" not in fresh and paths(fresh["a"]) == ["deep", "x", "deep/y"]


def test_they_may_be_required() -> None:
    root = filled({})
    for mode in ("r", "r+", "a"):
        with pytest.raises(ValueError, match="has no consolidated metadata; consolidate_metadata makes them"):
            terrazzo.open_group(root.store, mode=mode, use_consolidated=True)
    with pytest.raises(FileNotFoundError):
        terrazzo.open_consolidated({}, mode="r")
    with pytest.raises(TypeError, match="open_group"):
        terrazzo.open_consolidated(root.store, use_consolidated=False)
    terrazzo.consolidate_metadata(root.store)
    assert paths(terrazzo.open_consolidated(root.store, mode="r")) == ALL


def test_a_writer_is_not_led_by_an_old_document() -> None:
    root = filled({})
    terrazzo.consolidate_metadata(root.store)
    root["b"].resize(6)
    root["b"][3:] = 9
    for use in (None, True):
        group = terrazzo.open_group(root.store, use_consolidated=use)
        assert group["b"].shape == dict(group.arrays())["b"].shape == dict(group.members())["b"].shape == (6,)
        group["b"].append([1])
        group["b"].resize(6)
    assert terrazzo.open_group(root.store, mode="r")["b"].shape == (
        3,
    )  # a reader believes what is consolidated
    assert root["b"][:].tolist() == [0, 1, 2, 9, 9, 9]


def test_a_writer_who_asks_for_them_lists_by_them() -> None:
    root = filled({})
    terrazzo.consolidate_metadata(root.store)
    root["new"] = np.arange(2)
    del root["b"]
    group = terrazzo.open_consolidated(root.store)
    assert list(group) == ["a", "b"] and [name for name, _ in group.members()] == ["a"]
    assert "new" in group and "b" not in group  # by path the documents themselves are asked


def test_where_nothing_lists_they_do() -> None:
    listed = filled(MemoryStore())
    terrazzo.consolidate_metadata(listed.store)
    store = Unlisted()
    store.values = {key: listed.store.get(key) or b"" for key in listed.store.list()}
    for mode in ("r", "r+"):
        assert paths(terrazzo.open_group(store, mode=mode)) == ALL


def test_consolidating_again_brings_them_up_to_date() -> None:
    root = filled({})
    first = terrazzo.consolidate_metadata(root.store)
    assert paths(first) == ALL
    root["new"] = np.arange(2)
    del root["a"]
    root["b"].attrs["unit"] = "m"
    again = terrazzo.consolidate_metadata(root.store)
    assert paths(again) == ["b", "new"]
    reader = terrazzo.open_group(root.store, mode="r")
    assert (
        paths(reader) == ["b", "new"] and reader["b"].attrs["unit"] == "m" and reader.attrs["title"] == "all"
    )
    assert "fresh" not in again
    again["fresh"] = np.arange(2)
    assert "fresh" in list(again)


def test_they_are_written_as_zarr_python_does() -> None:
    root = filled(MemoryStore())
    terrazzo.consolidate_metadata(root.store, path="a")
    terrazzo.consolidate_metadata(root.store)
    found = json.loads(root.store.get("zarr.json") or b"")["consolidated_metadata"]
    assert found["kind"] == "inline" and found["must_understand"] is False
    assert list(found["metadata"]) == ALL
    assert found["metadata"]["a"]["consolidated_metadata"]["metadata"] == {}
    assert found["metadata"]["a/x"]["shape"] == [4]
    below = terrazzo.open_group(root.store, path="a", mode="r")
    assert below.metadata.consolidated_metadata is below.metadata.consolidated is not None and paths(
        below
    ) == ["deep", "x", "deep/y"]


def test_attributes_change_without_losing_them() -> None:
    root = filled({})
    group = terrazzo.consolidate_metadata(root.store)
    group.attrs["more"] = 1
    reader = terrazzo.open_group(root.store, mode="r", use_consolidated=True)
    assert reader.attrs["more"] == 1 and paths(reader) == ALL


def test_only_groups_have_them() -> None:
    store: dict[str, Any] = {}
    terrazzo.create_array(store, shape=1, dtype="i4")
    with pytest.raises(ValueError, match="there is an array at '/'"):
        terrazzo.consolidate_metadata(store)
    with pytest.raises(FileNotFoundError, match="there is no group at '/'"):
        terrazzo.consolidate_metadata({})
