"""Strict JSON: what is read, what is refused (and that refusing hostile bytes is quick and tidy), what is written."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terrazzo.errors import LimitError, MetadataError, MetadataValidationError, TerrazzoWarning
from terrazzo.metadata import plain, read_json, write_json
from terrazzo.options import Limits

LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
TREES = st.recursive(
    LEAVES, lambda one: st.lists(one, max_size=4) | st.dictionaries(st.text(), one, max_size=4)
)


@given(st.dictionaries(st.text(), TREES, max_size=5))
@settings(max_examples=100)
def test_what_is_written_is_read_back(document: dict[str, Any]) -> None:
    encoded = write_json(document)
    assert read_json(encoded, "zarr.json") == document
    assert write_json(read_json(encoded, "zarr.json")) == encoded
    assert json.loads(encoded) == document
    assert plain(document, "") == document


@pytest.mark.parametrize(
    "document, sentence",
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON.*line 1, column 2"),
        (b"{} {}", "Extra data"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        ('{"a": 1}'.encode("utf-16"), "byte order mark"),
        ('{"a": 1}'.encode("utf-16-le"), "is not JSON"),
        (b'{"a": "\xff"}', "is not UTF-8: byte 0xff at position 7"),
        (b'{"a": "\xed\xa0\x80"}', "is not UTF-8"),
        (b'{"a": NaN}', "literal NaN"),
        (b'{"a": [Infinity]}', "literal Infinity"),
        (b'{"a": -Infinity}', "literal -Infinity"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', 'member "c" is there more than once'),
        (b'{"a": 1e400}', "beyond a 64-bit float"),
        (b'{"a": "\\ud800"}', "a: found a lone surrogate"),
        (b'{"a": ["x", {"b": "\\uDC00\\uD800"}]}', r"a\[1\]\.b: found a lone surrogate"),
        (b'{"\\udfff": 1}', "lone surrogate in a member name"),
        (b'{"a": 01}', "is not JSON"),
        (b'{"a": +1}', "is not JSON"),
        (b'{"a": 0x10}', "is not JSON"),
        (b"{'a': 1}", "is not JSON"),
        (b'{"a": "\n"}', "is not JSON"),
        (b'{"a": 1,}', "is not JSON"),
        (b"// remark\n{}", "is not JSON"),
    ],
)
def test_what_is_not_strict_json_is_refused(document: bytes, sentence: str) -> None:
    with pytest.raises(MetadataValidationError, match=sentence) as caught:
        read_json(document, "a/zarr.json")
    assert str(caught.value).startswith("a/zarr.json: ")


def test_surrogate_pairs_are_characters() -> None:
    assert read_json(b'{"a": "\\ud83d\\ude00"}', "k") == {"a": "\U0001f600"}


def test_every_fault_of_the_text_is_told() -> None:
    with pytest.raises(MetadataValidationError) as caught:
        read_json(b'{"a": NaN, "a": 1e999, "b": "\\ud800"}', "zarr.json")
    assert len(caught.value.problems) == 4


def test_nan_literals_pass_with_a_warning_when_lenient() -> None:
    with pytest.warns(TerrazzoWarning, match="literal NaN"):
        value = read_json(b'{"a": NaN}', "zarr.json", strict=False)
    assert value["a"] != value["a"]


@pytest.mark.parametrize("opening, closing", [(b"[", b"]"), (b'{"a":', b"}")])
@pytest.mark.parametrize("closed", [True, False])
def test_deep_nesting_is_refused_without_recursion(opening: bytes, closing: bytes, closed: bool) -> None:
    document = opening * 100_000 + b"1" + closing * (100_000 * closed)
    with pytest.raises(LimitError, match="nested more than 64 levels deep; raise `depth`"):
        read_json(document, "zarr.json")


def test_the_depth_limit_is_exact() -> None:
    limits = Limits(depth=5)
    assert read_json(b"[" * 5 + b"]" * 5, "k", limits) == [[[[[]]]]]
    with pytest.raises(LimitError):
        read_json(b"[" * 6 + b"]" * 6, "k", limits)
    # many brackets side by side, and brackets inside strings, are not deep
    assert read_json(b"[" + b"[]," * 1000 + b"[]]", "k", limits)
    assert read_json(b'["' + b"[{" * 100 + b'\\"[[[[[[[[[[\\\\"]', "k", limits)


@pytest.mark.parametrize("tail", [b"", b"\\", b'\\"'])
def test_unfinished_strings_take_linear_time(tail: bytes) -> None:
    document = b"[" * 65 + b"]" * 65 + b'"' + b'\\"[' * 200_000 + tail
    with pytest.raises((LimitError, MetadataValidationError)):
        read_json(document, "k")
    with pytest.raises(MetadataValidationError, match="is not JSON"):
        read_json(b'"' + b'\\"[' * 200_000 + tail, "k")


def test_integers_are_exact_and_bounded() -> None:
    for number in (2**64 - 1, -(2**63), 2**53 + 1, 10**999, 0):
        assert read_json(b'{"a": %d}' % number, "k") == {"a": number}
    with pytest.raises(MetadataValidationError, match="an integer of 1000000 digits, at most 1000"):
        read_json(b'{"a": ' + b"9" * 1_000_000 + b"}", "k")
    assert read_json(b'{"a": 0.' + b"3" * 1_000_000 + b"}", "k") == {"a": 1 / 3}


def test_the_size_limit_names_the_way_out() -> None:
    with pytest.raises(LimitError, match="raise `metadata_nbytes`"):
        read_json(b"{" + b" " * 100 + b"}", "k", Limits(metadata_nbytes=100))


def test_writing_is_indented_and_keeps_characters() -> None:
    assert write_json({"b": 1, "a": [1, "é"]}) == '{\n  "b": 1,\n  "a": [\n    1,\n    "é"\n  ]\n}'.encode()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x", "\ud800"])
def test_what_json_cannot_hold_is_not_written(value: Any) -> None:
    with pytest.raises(MetadataError):
        write_json({"a": value})
    with pytest.raises(MetadataValidationError, match=r"^attributes\.a\[1\]: "):
        plain({"a": [1, value]}, "attributes")


def test_plain_turns_numpy_into_json() -> None:
    value = {"i": np.int64(3), "f": np.float32(0.5), "b": np.bool_(True), "a": np.arange(3), "t": (1, "x")}
    copy = plain(value, "attributes")
    assert copy == {"i": 3, "f": 0.5, "b": True, "a": [0, 1, 2], "t": [1, "x"]}
    assert type(copy["i"]) is int and type(copy["b"]) is bool
    with pytest.raises(MetadataValidationError, match=r"attributes\.a\[1\]: found nan"):
        plain({"a": np.array([1.0, np.nan])}, "attributes")


def test_plain_refuses_circles_and_odd_names() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(MetadataValidationError, match="nested too deeply"):
        plain(circle, "attributes")
    with pytest.raises(MetadataValidationError, match="member name 1, must be a string"):
        plain({1: 2}, "attributes")
    with pytest.raises(MetadataValidationError, match="bits in an integer"):
        plain(10**5000, "attributes")
