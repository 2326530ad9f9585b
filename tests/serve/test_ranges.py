"""Ranges, against slices of bytes: the parser alone, and over a connection."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from terrazzo.serve import serve
from terrazzo.serve.ranges import UnsatisfiableError, wanted_range
from terrazzo.stores.memory import MemoryStore
from tests.serve.asking import Client

VALUE = bytes(range(200))


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    store = MemoryStore()
    store.set("x", VALUE)
    store.set("empty", b"")
    with serve(store) as server:
        client = Client(server)
        yield client
        client.close()


@given(first=st.integers(0, 300), last=st.none() | st.integers(0, 10**30), size=st.integers(0, 300))
@settings(max_examples=100)
def test_from_the_front(first: int, last: int | None, size: int) -> None:
    value = VALUE[:1] * size
    header = f"bytes={first}-{'' if last is None else last}"
    if last is not None and last < first:
        assert wanted_range(header, size) is None
    elif first >= size:
        with pytest.raises(UnsatisfiableError):
            wanted_range(header, size)
    else:
        found = wanted_range(header, size)
        assert found is not None
        assert value[found[0] :][: found[1]] == value[first : None if last is None else last + 1]
        assert found[0] + found[1] <= size and found[0] == first


@given(suffix=st.integers(0, 10**30), size=st.integers(1, 300))
@settings(max_examples=100)
def test_from_the_end(suffix: int, size: int) -> None:
    if suffix:
        found = wanted_range(f"bytes=-{suffix}", size)
        assert found == (max(0, size - suffix), min(suffix, size))
    else:
        with pytest.raises(UnsatisfiableError):
            wanted_range("bytes=-0", size)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "bytes",
        "bytes=",
        "bytes=-",
        "bytes=a-b",
        "bytes=5",
        "bytes=5-3",
        "bytes=0-1,5-6",
        "bytes=0-0,-1",
        "bytes= 0 - 1",
        "bytes=+1-2",
        "bytes=0x1-0x2",
        "bytes=١-٢",
        "bytes=--1",
        "bytes=1-2-3",
        "items=0-1",
        "bytes:0-1",
    ],
)
def test_what_is_no_single_range_means_all(header: str | None) -> None:
    assert wanted_range(header, 100) is None


@pytest.mark.parametrize("header", ["bytes=0-1", "Bytes=0-1", "bytes=,0-1,", "bytes= 0-1", "bytes=000-001"])
def test_forms_of_one_range(header: str) -> None:
    assert wanted_range(header, 100) == (0, 2)


def test_numbers_without_end() -> None:
    assert wanted_range("bytes=1-" + "9" * 50_000, 10) == (1, 9)
    with pytest.raises(UnsatisfiableError):
        wanted_range("bytes=" + "9" * 50_000 + "-", 10)
    assert wanted_range("bytes=-" + "9" * 50_000, 10) == (0, 10)


def test_nothing_has_no_last_bytes() -> None:
    assert wanted_range("bytes=-5", 0) is None
    with pytest.raises(UnsatisfiableError):
        wanted_range("bytes=0-", 0)


@given(text=st.text(max_size=30))
@settings(max_examples=100)
@example("bytes=0-0, ")
def test_any_text_is_a_range_within_or_none(text: str) -> None:
    for header in (text, f"bytes={text}"):
        try:
            found = wanted_range(header, 10)
        except UnsatisfiableError:
            continue
        assert found is None or (found[0] >= 0 and found[1] > 0 and sum(found) <= 10)


@given(start=st.integers(-220, 220), length=st.none() | st.integers(1, 220))
@settings(max_examples=60)
def test_over_a_connection(client: Client, start: int, length: int | None) -> None:
    if start < 0:
        asked, expected = f"bytes={start}", VALUE[start:]
    elif length is None:
        asked, expected = f"bytes={start}-", VALUE[start:]
    else:
        asked, expected = f"bytes={start}-{start + length - 1}", VALUE[start : start + length]
    answer = client("GET", "/x", Range=asked)
    if expected:
        begin = max(0, len(VALUE) + start) if start < 0 else start
        assert answer.status == 206 and answer.body == expected
        assert answer.headers["content-range"] == f"bytes {begin}-{begin + len(expected) - 1}/{len(VALUE)}"
        assert answer.headers["content-length"] == str(len(expected))
    else:
        assert answer.status == 416
        assert answer.headers["content-range"] == f"bytes */{len(VALUE)}"


def test_several_ranges_get_all_of_it(client: Client) -> None:
    answer = client("GET", "/x", Range="bytes=0-1,5-6")
    assert answer.status == 200 and answer.body == VALUE and "content-range" not in answer.headers


def test_a_head_has_no_range(client: Client) -> None:
    answer = client("HEAD", "/x", Range="bytes=0-1")
    assert answer.status == 200 and answer.body == b"" and answer.headers["content-length"] == "200"


def test_an_empty_object(client: Client) -> None:
    for headers in ({}, {"Range": "bytes=-5"}):
        answer = client("GET", "/empty", **headers)
        assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "0")
    assert client("GET", "/empty", Range="bytes=0-").status == 416
