"""Group: its members in every way of asking, changes, attributes, manners."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.errors import (
    ArrayNotFoundError,
    ContainsArrayError,
    ContainsGroupError,
    GroupNotFoundError,
    LimitError,
    NodeNotFoundError,
    TerrazzoWarning,
    UnsupportedError,
)
from terrazzo.storage import CountingStore, LocalStore, MemoryStore, Store, ZipStore


@pytest.fixture(params=["memory", "mapping", "local", "zip"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "zip":
        with ZipStore(tmp_path / "g.zip", mode="w") as archive:
            yield archive
    elif request.param == "local":
        yield LocalStore(tmp_path / "g.zarr")
    else:
        yield MemoryStore() if request.param == "memory" else {}


def filled(store: Any) -> terrazzo.Group:
    root = terrazzo.create_group(store, attributes={"title": "all"})
    root.create_array("b", shape=(2,), dtype="i4")
    root.create_group("a").create_array("x", shape=(3,), dtype="f4")
    root.create_array("a/deep/y", shape=(4, 5), dtype="u1", dimension_names=["u", "v"])
    return root


def test_members(store: Any) -> None:
    root = filled(store)
    assert list(root) == list(root.keys()) == ["a", "b"]
    assert len(root) == root.nmembers() == 2 and root.nmembers(None) == 5 and root.nmembers(1) == 4
    assert [path for path, _ in root.members(None)] == ["a", "b", "a/deep", "a/x", "a/deep/y"]
    assert [path for path, _ in root.walk()] == ["a", "b", "a/deep", "a/x", "a/deep/y"]
    assert [path for path, _ in root.members(max_depth=1)] == ["a", "b", "a/deep", "a/x"]
    assert list(root.array_keys()) == ["b"] and list(root.group_keys()) == ["a"]
    assert [array.path for array in root["a"].array_values()] == ["a/x"]
    assert [group.path for group in root["a"].group_values()] == ["a/deep"]
    assert dict(root.arrays())["b"].shape == (2,) and dict(root.groups())["a"].path == "a"
    with pytest.raises(ValueError, match="max_depth is -1"):
        root.members(-1)


def test_getting(store: Any) -> None:
    root = filled(store)
    assert root["a/deep/y"].shape == root["a"]["deep"]["y"].shape == (4, 5)
    assert root["/a/"].name == "/a" and root[""] is root
    assert "a/deep" in root and "a/nope" not in root and "b/x" not in root and 5 not in root
    assert root.get("nope") is None and root.get("nope", 3) == 3
    assert root.get_array("b").shape == (2,) and root.get_group("a").path == "a"
    with pytest.raises(ArrayNotFoundError):
        root.get_array("nope")
    with pytest.raises(GroupNotFoundError):
        root.get_group("nope")
    with pytest.raises(ContainsGroupError):
        root.get_array("a")
    with pytest.raises(ContainsArrayError):
        root.get_group("b")
    for error in (KeyError, FileNotFoundError, NodeNotFoundError):
        with pytest.raises(error, match="there is no 'nope'"):
            root["nope"]


def test_changing() -> None:
    root = filled(MemoryStore())
    root["b"] = np.arange(7)
    assert root["b"].shape == (7,)
    root["new/one"] = [1.5, 2]
    assert root["new/one"].dtype == "f8"
    root["copied"] = root["b"]
    assert root["copied"][6] == 6
    del root["a"]
    assert "a/deep/y" not in root and not [key for key in root.store.list() if key.startswith("a/")]
    with pytest.raises(KeyError, match="there is no 'a'"):
        del root["a"]
    with pytest.raises(ValueError, match="does not delete itself"):
        del root[""]


def test_deleting_does_not_touch_names_that_begin_alike() -> None:
    root = terrazzo.create_group({})
    for name in ("x", "xy", "x-1", "x.zarr"):
        root[name] = np.arange(3)
    del root["x"]
    assert list(root) == ["x-1", "x.zarr", "xy"]


def test_filled_makers() -> None:
    root = terrazzo.create_group({})
    assert root.zeros(name="z", shape=3)[0] == 0 and root.ones(name="o", shape=3)[0] == 1
    assert root.full(name="f", shape=(2, 2), fill_value=5, dtype="i2")[1, 1] == 5
    assert root.empty(name="e", shape=3).path == "e"
    like = np.ones((2, 3), "u2")
    assert (
        root.zeros_like(name="zl", data=like).dtype == "u2"
        and root.ones_like(name="ol", data=like)[0, 0] == 1
    )
    assert root.full_like(name="fl", data=like, fill_value=9)[0, 0] == 9
    assert root.empty_like(name="el", data=like).shape == (2, 3)
    assert root.create("c", shape=3, dtype="i4", compressor=None).compressors == ()
    assert len(root) == 9


def test_attributes_are_written_at_once() -> None:
    root = filled({})
    root.attrs["more"] = [1, None]
    root["b"].attrs["unit"] = "K"
    again = terrazzo.open_group(root.store)
    assert again.attrs == {"title": "all", "more": [1, None]} and again["b"].attrs == {"unit": "K"}
    again.update_attributes({"x": 1, "title": "none"})
    again.attrs["y"] = 2  # by now `root` holds an old document; a change goes over what is stored
    root.attrs["z"] = 3
    assert terrazzo.open_group(root.store).attrs == {
        "title": "none",
        "more": [1, None],
        "x": 1,
        "y": 2,
        "z": 3,
    }
    with pytest.raises(ValueError, match="attributes"):
        root.attrs["bad"] = object()
    assert "bad" not in terrazzo.open_group(root.store).attrs


def test_what_is_no_node_is_left_out(tmp_path: Path) -> None:
    root = filled(tmp_path / "g.zarr")
    folder = tmp_path / "g.zarr"
    (folder / "notes").mkdir()
    (folder / "notes" / "readme.txt").write_text("a note")
    (folder / "__hidden").mkdir()
    (folder / "__hidden" / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    assert list(root) == ["a", "b"]


def test_a_broken_document_does_not_hide_its_neighbours(tmp_path: Path) -> None:
    root = filled(tmp_path / "g.zarr")
    (tmp_path / "g.zarr" / "a" / "zarr.json").write_text("{")
    with pytest.warns(TerrazzoWarning, match="left out: a/zarr.json"):
        assert list(root) == ["b"]
    with pytest.raises(ValueError, match=r"a/zarr\.json"):
        root["a"]


def test_nesting_is_bounded() -> None:
    root = terrazzo.create_group({}, path="/".join("abcdefgh"))
    with terrazzo.config.set({"limits.depth": 4}):
        group = terrazzo.open_group(root.store)
        with pytest.raises(LimitError, match="more than 4 levels"):
            group.members(None)
        assert len(group.members(2)) == 3


def test_listing_takes_two_rounds_for_each_level() -> None:
    store = CountingStore(MemoryStore())
    root = filled(store)
    store.reset()
    assert [*root.keys()] == ["a", "b"]
    assert store.round_trips == 2
    store.reset()
    root.members(None)
    # list_dir per group (root, a, a/deep), one batch of documents per level
    assert store.round_trips == 3 + 3


class Unlisted(Store):
    listable = False

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def set(self, key: str, value: bytes) -> None:
        self.values[key] = bytes(value)

    def erase(self, key: str) -> None:
        self.values.pop(key, None)


def test_a_store_that_cannot_list_says_so_and_opens_by_path() -> None:
    root = filled(Unlisted())
    for listing in (root.members, lambda: list(root), root.tree, lambda: len(root), root.info_complete):
        with pytest.raises(
            UnsupportedError, match="cannot list what is below '/'; open nodes by their paths"
        ):
            listing()
    assert root["a/deep/y"].shape == (4, 5)
    with pytest.raises(KeyError, match="there is no 'nope' in the group"):
        root["nope"]
    root["b"][:] = 5
    del root["b"]
    assert "b" not in root and "b/c/0" not in root.store.values
    with pytest.raises(UnsupportedError, match="so it cannot be deleted"):
        del root["a"]
    assert "a/x" in root
    root.create_array("b", shape=3, dtype="i4")
    root.create_array("b", shape=4, dtype="i4", overwrite=True)
    assert root["b"].shape == (4,)


def test_trees() -> None:
    root = filled({})
    text = str(root.tree())
    assert (
        text == "/\n├── a\n│   ├── deep\n│   │   └── y (4, 5) uint8\n│   └── x (3,) float32\n└── b (2,) int32"
    )
    assert str(root.tree(level=1)) == "/\n├── a\n└── b (2,) int32"
    assert str(root["a/deep"].tree()) == "/\n└── y (4, 5) uint8"
    assert "… and 3 more" in str(root.tree(max_nodes=2))
    assert str(terrazzo.tree(root.store)) == text and repr(root.tree()) == text
    root.create_group("<b>")
    html = root.tree()._repr_html_()
    assert "<b>a</b>" in html and "&lt;b&gt;" in html
    assert str(terrazzo.create_group({}).tree()) == "/"


def test_telling() -> None:
    root = filled({})
    assert repr(root).startswith("<terrazzo.Group ") and "Name" in repr(root.info)
    complete = root.info_complete()
    assert (complete["No. members"], complete["No. arrays"], complete["No. groups"]) == (5, 3, 2)
    assert "<table" in root._repr_html_()
    assert bool(terrazzo.create_group({}))


def test_pickling(tmp_path: Path) -> None:
    root = terrazzo.open_group(tmp_path / "g.zarr", durability="none", strategy="append")
    root["a/x"] = np.arange(4)
    copied = pickle.loads(pickle.dumps(root))
    assert copied == root and copied["a/x"][3] == 3
    assert copied.options == root.options and copied["a/x"].strategy.name == "append"
    assert pickle.loads(pickle.dumps(terrazzo.open_group(tmp_path / "g.zarr", mode="r"))).read_only


def test_with_closes_the_store(tmp_path: Path) -> None:
    path = tmp_path / "g.zip"
    with terrazzo.open_group(path, mode="w") as root:
        root["x"] = np.arange(3)
    with terrazzo.open(path, mode="r") as again:
        assert again["x"][2] == 2


def test_equality() -> None:
    store: dict[str, Any] = {}
    root = filled(store)
    assert root == terrazzo.open_group(store) and root != root["a"] and root != 5
    with pytest.raises(TypeError):
        hash(root)


def test_opening_by_class() -> None:
    root = filled(MemoryStore())
    assert terrazzo.Group.open(root.store) == root
    assert terrazzo.Array.open(root["a/x"].store_path).shape == (3,)
    with pytest.raises(GroupNotFoundError):
        terrazzo.Group.open(MemoryStore())
    with pytest.raises(ArrayNotFoundError):
        terrazzo.Array.open(MemoryStore())
    made = terrazzo.Array.from_dict(root["b"].store_path, root["b"].metadata.to_document())
    assert made == root["b"]
