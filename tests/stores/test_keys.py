"""Keys and their names on disks: pure functions, against properties."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terrazzo.errors import KeyRefusedError, StoreError
from terrazzo.stores.keys import check_key, check_prefix, check_range, key_of_path, path_of_key

segments = st.text(
    st.one_of(
        st.sampled_from(string.ascii_letters + string.digits + '._-%:<>"|?* ~'),
        st.characters(codec="utf-8", exclude_characters="/\\\0"),
    ),
    min_size=1,
    max_size=12,
).filter(lambda segment: segment not in (".", ".."))
keys = st.lists(segments, min_size=1, max_size=4).map("/".join).filter(lambda key: key[1:2] != ":")


@given(keys)
def test_keys_pass_unchanged(key: str) -> None:
    assert check_key(key) == key
    assert check_prefix(key + "/") == key + "/"
    assert path_of_key(key) == key
    assert key_of_path(key) == key


@given(key=keys)
@pytest.mark.parametrize("windows", [False, True])
@pytest.mark.parametrize("fold_case", [False, True])
def test_names_on_disks_lead_back(key: str, windows: bool, fold_case: bool) -> None:
    path = path_of_key(key, windows=windows, fold_case=fold_case)
    assert key_of_path(path, windows=windows, fold_case=fold_case) == key
    if windows:
        for name in path.split("\\"):
            assert not set(name) & set('<>:"|?*/\0')
            assert not name.endswith((".", " "))
    if fold_case:
        escapes = path.replace("%", "\0")
        assert not any(c in string.ascii_uppercase for c in _outside_escapes(escapes))


@given(st.lists(keys, min_size=2, max_size=6, unique=True))
def test_folded_names_stay_apart(many: list[str]) -> None:
    names = [path_of_key(key, windows=True, fold_case=True) for key in many]
    folded = {"".join(c.lower() if c.isascii() else c for c in name) for name in names}
    assert len(folded) == len(many)


def _outside_escapes(text: str) -> str:
    pieces = text.split("\0")
    return pieces[0] + "".join(piece[2:] for piece in pieces[1:])


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("zarr.json", "zarr.json"),
        ("a/c/0/0", "a\\c\\0\\0"),
        ("con", "%63on"),
        ("a/NUL.txt", "a\\%4EUL.txt"),
        ("com1", "%63om1"),
        ("console", "console"),
        ("a:b", "a%3Ab"),
        ("50%", "50%25"),
        ("end.", "end%2E"),
        ("end ", "end%20"),
        ("a\nb", "a%0Ab"),
    ],
)
def test_windows_names(key: str, path: str) -> None:
    if key == "a:b":  # at the start of a key it would be a drive
        key, path = "x/" + key, "x\\" + path
    assert path_of_key(key, windows=True) == path
    assert key_of_path(path, windows=True) == key


def test_capitals_fold() -> None:
    assert path_of_key("Temp/c/0", fold_case=True) == "%54emp/c/0"
    assert key_of_path("%54emp/c/0", fold_case=True) == "Temp/c/0"


def test_an_escape_cannot_smuggle_a_separator() -> None:
    with pytest.raises(KeyRefusedError):
        key_of_path("%2E%2E", windows=True)
    with pytest.raises(KeyRefusedError):
        key_of_path("a%5Cb", windows=True)


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("", "empty"),
        ("/a", "relative"),
        ("a/", "prefix"),
        ("a//b", "empty segment"),
        ("a/../b", "leave"),
        ("a\\b", "backslash"),
        ("a\0", "NUL"),
        ("c:/x", "drive"),
        ("\udcff", "Unicode"),
    ],
)
def test_a_refusal_says_why(key: str, why: str) -> None:
    with pytest.raises(KeyRefusedError, match=why) as found:
        check_key(key)
    assert isinstance(found.value, ValueError)
    assert isinstance(found.value, OSError)


@pytest.mark.parametrize("window", [(0, None), (0, 0), (5, 3), (-1, None), [1, 2]])
def test_ranges(window: object) -> None:
    check_range("a", window)


@pytest.mark.parametrize("window", [(-1, 1), (0, -1), (None, 1), (0, 1, 2), "01", (0, 1.5), (False, 1)])
def test_what_is_no_range(window: object) -> None:
    with pytest.raises(StoreError, match="'a'"):
        check_range("a", window)
