"""Chunk keys: the forms of the specification, and parsing as a strict inverse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terrazzo import chunk_keys
from terrazzo.chunk_keys import ChunkKeys, DefaultKeys, V2Keys, chunk_keys_from_extension, register_chunk_keys
from terrazzo.errors import MetadataError

ENCODINGS = [DefaultKeys("/"), DefaultKeys("."), V2Keys("."), V2Keys("/")]


@dataclass
class Extension:
    name: str
    configuration: Mapping[str, Any] | None = field(default_factory=dict)


def test_forms() -> None:
    assert DefaultKeys().key((1, 23, 45)) == "c/1/23/45"
    assert DefaultKeys(".").key((1, 23, 45)) == "c.1.23.45"
    assert V2Keys().key((1, 23, 45)) == "1.23.45"
    assert V2Keys("/").key((1, 23, 45)) == "1/23/45"
    assert [encoding.key(()) for encoding in ENCODINGS] == ["c", "c", "0", "0"]
    assert [encoding.key((0,)) for encoding in ENCODINGS] == ["c/0", "c.0", "0", "0"]


@given(st.sampled_from(ENCODINGS), st.lists(st.integers(0, 2**63 - 1), max_size=5), st.integers(0, 3))
@settings(max_examples=100, deadline=None)
def test_parse_is_the_inverse(encoding: ChunkKeys, numbers: list[int], count: int) -> None:
    index = tuple(numbers)
    key = encoding.key(index)
    assert encoding.parse(key, len(index)) == index
    assert (
        encoding.keys(np.array([index] * count, dtype=np.int64).reshape(count, len(index))) == [key] * count
    )
    assert encoding.parse(key, len(index) + 1) is None or index == ()


@given(st.sampled_from(ENCODINGS), st.text("c0123./ -+_٣", max_size=8), st.integers(0, 3))
@settings(max_examples=100, deadline=None)
def test_parse_takes_nothing_else(encoding: ChunkKeys, text: str, ndim: int) -> None:
    index = encoding.parse(text, ndim)
    assert index is None or encoding.key(index) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "c",
        "c/",
        "c/01",
        "c/+1",
        "c/-1",
        "c/1/",
        "c//1",
        "c/1_0",
        "c/٣",
        "C/1",
        "c/9223372036854775808",
        " c/1",
    ],
)
def test_not_keys(text: str) -> None:
    assert DefaultKeys().parse(text, 1) is None


def test_from_documents() -> None:
    assert chunk_keys_from_extension(Extension("default")) == DefaultKeys("/")
    assert chunk_keys_from_extension(Extension("default", None)) == DefaultKeys("/")
    assert chunk_keys_from_extension(Extension("v2")) == V2Keys(".")
    for encoding in ENCODINGS:
        member = encoding.to_extension()
        assert chunk_keys_from_extension(Extension(**member)) == encoding
    assert len({*ENCODINGS, DefaultKeys()}) == 4


@pytest.mark.parametrize(
    "configuration, paths",
    [
        ({"separator": "-"}, ["separator"]),
        ({"separator": None}, ["separator"]),
        ({"separator": ["/"]}, ["separator"]),
        ({"separator": "", "extra": 1}, ["extra", "separator"]),
    ],
)
def test_refused(configuration: dict[str, Any], paths: list[str]) -> None:
    with pytest.raises(MetadataError, match=r"a/zarr.json: chunk_key_encoding") as caught:
        chunk_keys_from_extension(Extension("default", configuration), "a/zarr.json")
    assert [path for path, _ in caught.value.problems] == [
        f"chunk_key_encoding.configuration.{p}" for p in paths
    ]
    with pytest.raises(MetadataError, match="separator"):
        DefaultKeys("x")


def test_an_encoding_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    class Suffixed(ChunkKeys):
        name = "suffixed"

        def key(self, index: Any) -> str:
            return "_".join(map(str, index)) + ".tile"

        def parse(self, key: str, ndim: int) -> tuple[int, ...] | None:
            index = tuple(map(int, key.removesuffix(".tile").split("_")))
            return index if len(index) == ndim else None

        def configuration(self) -> dict[str, Any]:
            return {}

    monkeypatch.setattr(chunk_keys, "_builders", dict(chunk_keys._builders))
    with pytest.raises(MetadataError, match="'suffixed' is not known; known: default, .*fanout, suffix, v2"):
        chunk_keys_from_extension(Extension("suffixed"))
    register_chunk_keys("suffixed", lambda configuration, path: Suffixed())
    encoding = chunk_keys_from_extension(Extension("suffixed"))
    assert encoding.keys(np.array([[1, 2], [3, 4]])) == ["1_2.tile", "3_4.tile"]
