"""Opening: every mode on every kind of place, as zarr-python has it, and the words of every refusal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.errors import (
    ArrayNotFoundError,
    ContainsArrayError,
    ContainsGroupError,
    ContainsNodeError,
    GroupNotFoundError,
    MetadataError,
    NodeNotFoundError,
    NodeTypeValidationError,
    ReadOnlyError,
)
from terrazzo.storage import LocalStore, MemoryStore, StorePath

NEW = {"shape": (3,), "dtype": "i4"}


def place(kind: str, folder: Path) -> str:
    """A folder that holds nothing, an array of fours ones, a group with an array x, or something else."""
    path = folder / "place.zarr"
    if kind == "array":
        terrazzo.create_array(path, shape=(4,), dtype="i4", chunks=2)[:] = 1
    elif kind == "group":
        terrazzo.create_group(path).create_array("x", shape=(4,), dtype="i4")[:] = 2
    elif kind == "other":
        path.mkdir()
        (path / "readme.txt").write_text("not a node")
    return str(path)


def seen(node: Any) -> str:
    way = "r" if node.read_only else "w"
    if isinstance(node, terrazzo.Array):
        return f"array {way} {int(node[...].sum())} of {node.shape[0]}"
    return f"group {way} {','.join(node)}"


OPEN: dict[str, Callable[..., Any]] = {
    "open": terrazzo.open,
    "open shape": lambda store, **mode: terrazzo.open(store, **NEW, **mode),
    "array": terrazzo.open_array,
    "array shape": lambda store, **mode: terrazzo.open_array(store, **NEW, **mode),
    "group": terrazzo.open_group,
}
NEW_ARRAY, NEW_GROUP = "array w 0 of 3", "group w "
#: kind of place -> mode -> what each way of opening gives, in the order of OPEN
EXPECTED: dict[str, dict[str | None, list[Any]]] = {
    "nothing": {
        None: [NEW_GROUP, NEW_ARRAY, ArrayNotFoundError, ArrayNotFoundError, NEW_GROUP],
        "r": [
            GroupNotFoundError,
            ArrayNotFoundError,
            ArrayNotFoundError,
            ArrayNotFoundError,
            GroupNotFoundError,
        ],
        "r+": [
            GroupNotFoundError,
            ArrayNotFoundError,
            ArrayNotFoundError,
            ArrayNotFoundError,
            GroupNotFoundError,
        ],
        "a": [NEW_GROUP, NEW_ARRAY, TypeError, NEW_ARRAY, NEW_GROUP],
        "w": [NEW_GROUP, NEW_ARRAY, TypeError, NEW_ARRAY, NEW_GROUP],
        "w-": [NEW_GROUP, NEW_ARRAY, TypeError, NEW_ARRAY, NEW_GROUP],
    },
    "array": {
        None: [*["array w 4 of 4"] * 4, ContainsArrayError],
        "r": [*["array r 4 of 4"] * 4, ContainsArrayError],
        "r+": [*["array w 4 of 4"] * 4, ContainsArrayError],
        "a": [*["array w 4 of 4"] * 4, ContainsArrayError],
        "w": [NEW_GROUP, NEW_ARRAY, TypeError, NEW_ARRAY, NEW_GROUP],
        "w-": [ContainsArrayError] * 5,
    },
    "group": {
        None: ["group w x", *[NodeTypeValidationError] * 3, "group w x"],
        "r": ["group r x", *[NodeTypeValidationError] * 3, "group r x"],
        "r+": ["group w x", *[NodeTypeValidationError] * 3, "group w x"],
        "a": ["group w x", *[NodeTypeValidationError] * 3, "group w x"],
        "w": [NEW_GROUP, NEW_ARRAY, TypeError, NEW_ARRAY, NEW_GROUP],
        "w-": [ContainsGroupError] * 5,
    },
    "other": {
        None: [NEW_GROUP, NEW_ARRAY, ArrayNotFoundError, ArrayNotFoundError, NEW_GROUP],
        "r": [
            GroupNotFoundError,
            ArrayNotFoundError,
            ArrayNotFoundError,
            ArrayNotFoundError,
            GroupNotFoundError,
        ],
        "r+": [
            GroupNotFoundError,
            ArrayNotFoundError,
            ArrayNotFoundError,
            ArrayNotFoundError,
            GroupNotFoundError,
        ],
        "a": [NEW_GROUP, NEW_ARRAY, TypeError, NEW_ARRAY, NEW_GROUP],
        "w": [NEW_GROUP, NEW_ARRAY, TypeError, NEW_ARRAY, NEW_GROUP],
        "w-": [ContainsNodeError] * 5,
    },
}
CASES = [
    (kind, mode, way, expected)
    for kind, modes in EXPECTED.items()
    for mode, row in modes.items()
    for way, expected in zip(OPEN, row, strict=True)
]


@pytest.mark.parametrize("kind, mode, way, expected", CASES)
def test_modes(kind: str, mode: str | None, way: str, expected: Any, tmp_path: Path) -> None:
    store = place(kind, tmp_path)
    given = {} if mode is None else {"mode": mode}
    if isinstance(expected, str):
        assert seen(OPEN[way](store, **given)) == expected
        return
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(expected):
        OPEN[way](store, **given)
    if mode not in ("w", "w-"):
        assert sorted(tmp_path.rglob("*")) == before


def test_mode_w_leaves_nothing_of_what_was_there(tmp_path: Path) -> None:
    for kind in ("array", "group", "other"):
        folder = tmp_path / kind
        folder.mkdir()
        store = place(kind, folder)
        terrazzo.open_group(store, mode="w")
        assert [path.name for path in (folder / "place.zarr").rglob("*") if path.is_file()] == ["zarr.json"]


def test_mode_w_without_a_shape_deletes_nothing(tmp_path: Path) -> None:
    store = place("array", tmp_path)
    with pytest.raises(TypeError, match="shape"):
        terrazzo.open_array(store, mode="w")
    assert terrazzo.open_array(store)[0] == 1


def test_an_unknown_mode_names_the_known() -> None:
    for function in OPEN.values():
        with pytest.raises(ValueError, match="'x'.*'r', 'r\\+', 'a', 'w'"):
            function({}, mode="x")


def test_a_place_may_be_said_in_many_ways(tmp_path: Path) -> None:
    folder = tmp_path / "p.zarr"
    terrazzo.create_array(folder, name="a/b", shape=3, dtype="u1")
    store = LocalStore(folder)
    mapping: dict[str, Any] = {}
    terrazzo.create_array(mapping, name="a/b", shape=3, dtype="u1")
    group = terrazzo.open_group(folder)
    for one in (folder, str(folder), folder.as_uri(), store, StorePath(store), mapping, group):
        assert terrazzo.open_array(one, path="a/b").shape == (3,)
        assert terrazzo.open_array(one, path="/a//b/").path == "a/b"
    assert terrazzo.open_array(StorePath(store, "a") / "b").name == "/a/b"
    assert terrazzo.open_array(group["a/b"]).basename == "b"


def test_memory_by_name_is_one_place() -> None:
    terrazzo.create_array("memory://opening-test/inside", shape=2, dtype="i4")
    assert "inside" in terrazzo.open_group("memory://opening-test")


def test_what_stands_for_no_store_is_refused() -> None:
    with pytest.raises(Exception, match="a store is named by"):
        terrazzo.open_group(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="open already"):
        terrazzo.open_group(StorePath(MemoryStore()), storage_options={"a": 1})
    with pytest.raises(Exception, match="takes no options"):
        terrazzo.open_group(MemoryStore(), storage_options={"a": 1})
    with pytest.raises(Exception, match="ftp"):
        terrazzo.open("ftp://somewhere/x.zarr")


@pytest.mark.parametrize("path", ["..", "a/../b", "__hidden", "a/zarr.json", "a/."])
def test_paths_that_name_no_node_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match="node name"):
        terrazzo.open({}, path=path)


def test_reading_is_only_reading(tmp_path: Path) -> None:
    store = place("group", tmp_path)
    group = terrazzo.open_group(store, mode="r")
    array = group["x"]
    assert group.read_only and array.read_only
    for write in (
        lambda: array.__setitem__(0, 1),
        lambda: array.attrs.update({"a": 1}),
        lambda: array.resize(9),
        lambda: array.append([1]),
        lambda: group.attrs.update({"a": 1}),
        lambda: group.create_group("y"),
        lambda: group.create_array("y", shape=1, dtype="i4"),
        lambda: group.zeros(name="y", shape=1),
        lambda: group.require_group("y"),
        lambda: group.move("x", "y"),
        lambda: group.__delitem__("x"),
        lambda: group.__setitem__("x", np.ones(3)),
        lambda: terrazzo.create_group(group.store_path, path="y"),
        lambda: terrazzo.consolidate_metadata(group.store_path),
    ):
        with pytest.raises(ReadOnlyError, match="opened for reading"):
            write()
    assert array[0] == 2


def test_a_document_that_is_wrong_says_what_is(tmp_path: Path) -> None:
    store = {"zarr.json": b'{"zarr_format": 3, "node_type": "array", "shape": [-1]}'}
    with pytest.raises(MetadataError, match=r"zarr\.json.*shape"):
        terrazzo.open(store)
    with pytest.raises(MetadataError, match=r"zarr\.json"):
        terrazzo.open({"zarr.json": b"{"})


def test_missing_things_say_what_is_there(tmp_path: Path) -> None:
    group = terrazzo.open_group(place("group", tmp_path))
    group.create_group("temperature")
    with pytest.raises(KeyError, match="did you mean 'temperature'"):
        group["temperatur"]
    with pytest.raises(NodeNotFoundError, match="there are 'temperature', 'x'"):
        group["zzz"]
    with pytest.raises(FileNotFoundError, match="mode='a' or 'w' makes it"):
        terrazzo.open_array(tmp_path / "none.zarr")


def test_array_arguments_without_an_array_are_refused() -> None:
    with pytest.raises(TypeError, match="chunks belong to an array"):
        terrazzo.open({}, mode="w", chunks=3)


def test_settings_reach_the_array_and_its_siblings() -> None:
    group = terrazzo.open_group({}, durability="none", strategy="append")
    array = group.create_array("x", shape=3, dtype="i4")
    for one in (array, group["x"], group.zeros(name="y", shape=2), next(group.array_values())):
        assert one.options.durability == "none" and one.strategy.name == "append"
    assert terrazzo.open_array(group.store, path="x").options.durability == "fsync"
    assert group.create_array("z", shape=1, dtype="i4", durability="rename").options.durability == "rename"
    with pytest.raises(ValueError, match="durability is 'hope'"):
        terrazzo.open_group({}, durability="hope")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="strategy 'hope' is not known"):
        terrazzo.open_group({}, strategy="hope")


def test_config_of_the_call_goes_over_the_context() -> None:
    with terrazzo.config.set({"write_empty_chunks": True}):
        assert terrazzo.open_array({}, mode="w", **NEW).options.write_empty_chunks
        given = terrazzo.open_array({}, mode="w", config={"write_empty_chunks": False}, **NEW)
    assert not given.options.write_empty_chunks


def test_old_arguments_are_taken_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="synchronizer has no effect"):
        terrazzo.open_group({}, synchronizer=object())
    with pytest.warns(UserWarning, match="cache_attrs has no effect"):
        terrazzo.group({}, cache_attrs=True)
    with pytest.raises(ValueError, match="zarr_format is 4"):
        terrazzo.open_group({}, zarr_format=4)


def test_open_like_and_group() -> None:
    store: dict[str, Any] = {}
    first = terrazzo.open_like(np.ones((3, 4), "f4"), "x", store=store)
    assert first.shape == (3, 4) and first.dtype == "f4"
    first[0, 0] = 5
    assert terrazzo.open_like(np.ones((1,)), "x", store=store)[0, 0] == 5
    assert list(terrazzo.group(store)) == ["x"]
    assert list(terrazzo.group(store, overwrite=True)) == []
