"""Shapes: every automatic shape stays within its bounds, and every way to say one means what it says."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import terrazzo
from terrazzo.shapes import chunk_inside, chunk_shape, parse_nbytes, shard_shape

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

#: array shape, bytes of an element, chunk, shard
TABLE: list[tuple[tuple[int, ...], int, tuple[int, ...], tuple[int, ...]]] = [
    ((), 8, (), ()),
    ((1,), 8, (1,), (1,)),
    ((0,), 8, (131072,), (16777216,)),
    ((10,), 1, (10,), (10,)),
    ((10**6,), 4, (262144,), (1048576,)),
    ((10**9,), 1, (1048576,), (125829120,)),
    ((2**62,), 1, (1048576,), (134217728,)),
    ((10**6,), 10**7, (1,), (8,)),
    ((10, 10), 8, (10, 10), (10, 10)),
    ((0, 0), 8, (256, 512), (4096, 4096)),
    ((600, 600), 8, (256, 600), (768, 600)),
    ((1000, 1000), 8, (256, 512), (1024, 1024)),
    ((1300, 1300), 8, (256, 512), (1536, 1536)),
    ((98, 10**7), 4, (98, 2048), (98, 258048)),
    ((10**7, 98), 4, (2048, 98), (258048, 98)),
    ((10**7, 3), 4, (65536, 3), (10027008, 3)),
    ((129, 10**9), 8, (129, 512), (129, 65536)),
    ((2**20, 2**20), 2, (512, 1024), (8192, 8192)),
    ((2**40, 2**20), 16, (256, 256), (2048, 4096)),
    ((4, 512, 512), 2, (4, 256, 512), (4, 512, 512)),
    ((3, 10**5, 10**5), 1, (3, 512, 512), (3, 4096, 8192)),
    ((1000, 1000, 1000), 4, (64, 64, 64), (256, 256, 512)),
    ((130, 130, 130), 8, (32, 64, 64), (160, 192, 192)),
    ((1025, 1025, 1025), 2, (64, 64, 128), (256, 384, 384)),
    ((14600, 721, 1440), 4, (64, 64, 64), (256, 256, 512)),
    ((8760, 721, 1440), 4, (64, 64, 64), (256, 256, 512)),
    ((0, 721, 1440), 4, (64, 64, 64), (256, 256, 512)),
    ((60000, 28, 28), 1, (1024, 28, 28), (60416, 28, 28)),
    ((10, 20, 30), 2 * 10**6, (1, 1, 1), (4, 4, 4)),
    ((100, 3, 5000, 5000), 1, (64, 3, 64, 64), (128, 3, 512, 512)),
    ((50000, 32, 32, 3), 1, (256, 32, 32, 3), (25088, 32, 32, 3)),
    ((200, 200, 200, 200), 4, (16, 16, 32, 32), (64, 64, 64, 128)),
    ((7, 7, 7, 7, 7, 7), 8, (7, 7, 7, 7, 7, 7), (7, 7, 7, 7, 7, 7)),
    ((1, 1, 1, 1, 1, 10**8), 2, (1, 1, 1, 1, 1, 524288), (1, 1, 1, 1, 1, 50331648)),
]


@pytest.mark.parametrize("shape, itemsize, chunk, shard", TABLE)
def test_automatic_shapes(
    shape: tuple[int, ...], itemsize: int, chunk: tuple[int, ...], shard: tuple[int, ...]
) -> None:
    assert chunk_shape("auto", shape, itemsize) == chunk
    assert shard_shape("auto", shape, chunk, itemsize) == shard


@given(
    st.lists(
        st.one_of(st.just(0), st.integers(1, 50), st.integers(1, 10**7), st.integers(1, 2**62)), max_size=6
    ),
    st.sampled_from([1, 2, 3, 4, 8, 16, 100, 4096]),
)
@settings(max_examples=100, deadline=None)
def test_automatic_bounds(lengths: list[int], itemsize: int) -> None:
    shape = tuple(lengths)
    chunk = chunk_shape("auto", shape, itemsize)
    shard = shard_shape("auto", shape, chunk, itemsize)
    assert shard is not None
    assert chunk_shape(True, shape, itemsize) == chunk
    held = math.prod(shape) * itemsize
    nbytes = math.prod(chunk) * itemsize
    assert nbytes <= 4 * MIB
    if shape and held:
        assert nbytes >= min(held, 128 * KIB)
    assert all(c <= max(n, 1) for c, n in zip(chunk, shape, strict=True) if n)
    # no slivers: an edge is shorter than half of another only where the array is
    for edge, length in zip(chunk, shape, strict=True):
        assert (
            edge == length
            or edge * 2 >= max(chunk[d] for d in range(len(chunk)) if chunk[d] != shape[d]) // 2
        )
    assert all(s % c == 0 for s, c in zip(shard, chunk, strict=True))
    assert math.prod(shard) * itemsize <= GIB
    assert math.prod(s // c for s, c in zip(shard, chunk, strict=True)) <= 4096
    assert all(s - c < n for s, c, n in zip(shard, chunk, shape, strict=True) if n)


@pytest.mark.parametrize(
    "spec, shape, chunk",
    [
        (100, (1000, 1000), (100, 100)),
        ((100, -1), (1000, 1000), (100, 1000)),
        ((100, None), (1000, 50), (100, 50)),
        ((100,), (1000, 50), (100, 50)),
        ([7, 8], (1000, 50), (7, 8)),
        (-1, (1000, 0), (1000, 1)),
        (None, (3, 4), (3, 4)),
        (False, (3, 4), (3, 4)),
        ("full", (3, 4), (3, 4)),
        ((2000,), (1000,), (2000,)),
        ("64KiB", (1000, 1000), (64, 128)),
        ("1kB", (1000,), (64,)),
        (" AUTO ", (10, 10), (10, 10)),
        ((), (), ()),
    ],
)
def test_chunks_as_said(spec: Any, shape: tuple[int, ...], chunk: tuple[int, ...]) -> None:
    assert chunk_shape(spec, shape, 8) == chunk


@pytest.mark.parametrize(
    "spec, shard",
    [
        (None, None),
        (False, None),
        (100, (100, 100)),
        ((100, -1), (100, 50)),
        ((20, None), (20, 50)),
        ("full", (1000, 50)),
        (-1, (1000, 50)),
        ("16kB", (40, 50)),
        ("1B", (10, 10)),
    ],
)
def test_shards_as_said(spec: Any, shard: tuple[int, ...] | None) -> None:
    assert shard_shape(spec, (995, 41), (10, 10), 8) == shard


@pytest.mark.parametrize(
    "spec", [0, -2, 1.5, "big", "1XB", (1, 2, 3), (0, 1), (True, 1), ("a", 1), {}, "0B", "-1MB"]
)
def test_refused(spec: Any) -> None:
    with pytest.raises(ValueError, match="found"):
        chunk_shape(spec, (10, 10), 8)
    with pytest.raises(ValueError, match="found"):
        shard_shape(spec, (10, 10), (1, 1), 8)


def test_shard_that_is_no_multiple_names_its_neighbours() -> None:
    with pytest.raises(
        ValueError, match="dimension 1: found 25, not a multiple of the chunk's 10; nearest: 20 and 30"
    ):
        shard_shape((20, 25), (100, 100), (10, 10), 8)
    with pytest.raises(ValueError, match="nearest: 10"):
        shard_shape((20, 5), (100, 100), (10, 10), 8)


@pytest.mark.parametrize(
    "said, nbytes",
    [
        (5, 5),
        ("5", 5),
        ("1kB", 1000),
        ("1MB", 10**6),
        ("1 MiB", MIB),
        ("64 mib", 64 * MIB),
        ("1.5 GiB", 3 * GIB // 2),
        ("2G", 2 * 10**9),
        (".5KiB", 512),
        ("1.TB", 10**12),
        ("9007199254740993", 9007199254740993),
    ],
)
def test_sizes(said: str | int, nbytes: int) -> None:
    assert parse_nbytes(said) == nbytes


@pytest.mark.parametrize("said", ["", "MB", "1 M B", "1e6", "0", 0, -1, "٣MB", True, 1.5, None])
def test_sizes_refused(said: Any) -> None:
    with pytest.raises(ValueError, match="found"):
        parse_nbytes(said)


@pytest.mark.parametrize("spec", ["auto", "100KB", "1KiB"])
@pytest.mark.parametrize(
    "shards", [(50, 50), (360, 90), (1000, 10), (1,), (64, 64, 64), (96, 90), ([10, 20], [30, 45])]
)
def test_chunks_that_are_left_to_us_divide_shards_that_are_named(spec: str, shards: tuple[Any, ...]) -> None:
    chunks = chunk_inside(spec, shards, 4)
    for edges, chunk in zip(shards, chunks, strict=True):
        assert all(edge % chunk == 0 for edge in (edges if isinstance(edges, list) else [edges]))
    shape = tuple(sum(edges) if isinstance(edges, list) else 3 * edges for edges in shards)
    array = terrazzo.create_array({}, shape=shape, dtype="i4", chunks=spec, shards=shards)
    assert array.chunks == chunks


def test_a_shard_that_cannot_be_cut_says_so() -> None:
    with pytest.raises(ValueError, match="no number near 262144 divides the shard's 1000003; name chunks="):
        terrazzo.create_array({}, shape=(2000006,), dtype="i4", shards=(1000003,))
