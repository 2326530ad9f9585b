"""Names of nodes: the format's rules, and what must never reach a store."""

from __future__ import annotations

import pytest

from terrazzo.errors import KeyRefusedError
from terrazzo.metadata import is_node_name, normalize_path, sort_key, validate_name

GOOD = [
    "a",
    "A",
    "c",
    "temperature_2m",
    "a.b",
    ".a",
    "a.",
    "_a",
    "a__",
    "ü",
    "日本",
    "a b",
    "-",
    "zarr.jsonx",
    "😀",
    " ",
]
BAD = ["", ".", "..", "...", "__a", "__", "__zarr", "zarr.json", "a/b", "/", "a\\b", "a\0b", "\ud800", "../a"]


@pytest.mark.parametrize("name", GOOD)
def test_good_names(name: str) -> None:
    assert validate_name(name) == name
    assert is_node_name(name)
    assert normalize_path(f"/x/{name}/") == f"x/{name}"


@pytest.mark.parametrize("name", BAD)
def test_bad_names(name: str) -> None:
    assert not is_node_name(name)
    with pytest.raises(KeyRefusedError, match="choose another name"):
        validate_name(name)


@pytest.mark.parametrize(
    "path, expected",
    [
        ("", ""),
        ("/", ""),
        ("//", ""),
        ("a", "a"),
        ("/a/b", "a/b"),
        ("a/b/", "a/b"),
        ("a//b", "a/b"),
        ("\\a\\b", "a/b"),
        ("Ａ", "Ａ"),
    ],
)
def test_paths(path: str, expected: str) -> None:
    assert normalize_path(path) == expected
    assert normalize_path(expected) == expected


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "a/../b",
        "a/..",
        "./a",
        "a/./b",
        "..\\..\\etc",
        "a/__b",
        "a/zarr.json",
        "a/zarr.json/b",
        "a/\0",
        1,
        None,
    ],
)
def test_hostile_paths(path: str) -> None:
    with pytest.raises(KeyRefusedError):
        normalize_path(path)


def test_long_names_are_not_repeated_whole() -> None:
    with pytest.raises(KeyRefusedError) as caught:
        validate_name("__" + "x" * 100_000)
    assert len(str(caught.value)) < 300


def test_order_is_by_depth_then_folded_name() -> None:
    paths = ["b/a", "B", "a", "ａ", "Z/z", "b", "a/B", "a/a"]
    assert sorted(paths, key=sort_key) == ["a", "ａ", "B", "b", "a/a", "a/B", "b/a", "Z/z"]
