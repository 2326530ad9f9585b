"""The native kernel against the model: every step, every placement, every kind of source and sink, hostile bytes."""

from __future__ import annotations

import array
import ast
import gzip
import itertools
import os
import resource
import struct
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terrazzo import _kernel
from terrazzo._kernel import KernelFault, Pipe, Program
from tests import chain_model as model

BLOSC_NAMES = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"]
PLAIN = ("bytes", (), "")


def opaque(values: np.ndarray) -> np.ndarray:
    return values.view(f"V{values.itemsize}")


def rows_of(table: list[tuple[int, ...]], columns: int) -> np.ndarray:
    return np.array(table, np.int64).reshape(-1, columns)


def program(
    steps: list[tuple], shape: tuple[int, ...], dtype: np.dtype, fill: bytes | None = None
) -> Program:
    return Program(steps, shape, dtype.itemsize, bytes(dtype.itemsize) if fill is None else fill)


# --- chains -----------------------------------------------------------------------------------------------------


@st.composite
def byte_steps(
    draw: st.DrawFn, names: tuple[str, ...] = ("gzip", "zlib", "zstd", "blosc", "crc32c")
) -> list[tuple]:
    steps = []
    for name in draw(st.lists(st.sampled_from(names), max_size=4)):
        if name in ("gzip", "zlib"):
            steps.append((name, draw(st.integers(0, 9))))
        elif name == "zstd":
            steps.append((name, draw(st.integers(-7, 9)), draw(st.booleans())))
        elif name == "blosc":
            cname = draw(st.sampled_from(BLOSC_NAMES))
            typesize, blocksize = (
                draw(st.sampled_from([1, 2, 4, 7, 8, 16, 255])),
                draw(st.sampled_from([0, 128, 999])),
            )
            steps.append((name, cname, draw(st.integers(0, 9)), draw(st.integers(0, 2)), typesize, blocksize))
        else:
            steps.append(("crc32c",))
    return steps


@st.composite
def chains(draw: st.DrawFn, **names: tuple[str, ...]) -> tuple[list[tuple], tuple[int, ...], np.dtype]:
    shape = tuple(draw(st.lists(st.integers(1, 9), max_size=4)))
    itemsize = draw(st.sampled_from([1, 2, 3, 4, 7, 8, 16]))
    patterns = {
        1: [()],
        2: [(2,)],
        3: [(3,), (1, 2)],
        4: [(4,), (2,)],
        7: [(4, 2, 1)],
        8: [(8,), (4,)],
        16: [(8,), (16,)],
    }
    orders = st.permutations(range(len(shape))).map(tuple)
    steps: list[tuple] = [("transpose", draw(orders)) for _ in range(draw(st.integers(0, 2)))]
    steps.append(("bytes", draw(st.sampled_from([(), (1,), *patterns[itemsize]])), ""))
    return steps + draw(byte_steps(**names)), shape, np.dtype(f"V{itemsize}")


def elements(draw_bytes: bytes, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    nbytes = int(np.prod(shape)) * dtype.itemsize
    repeated = (draw_bytes or b"\0") * (nbytes // max(1, len(draw_bytes)) + 1)
    return np.frombuffer(repeated[:nbytes], dtype).reshape(shape)


@given(chains(), st.binary(max_size=300))
def test_a_chunk_comes_back(chain: tuple, payload: bytes) -> None:
    steps, shape, dtype = chain
    chunk = elements(payload, shape, dtype)
    native = program(steps, shape, dtype)
    encoded = native.encode_chunk(chunk)
    assert native.nbytes == chunk.nbytes
    assert native.encoded_nbytes in (None, len(encoded))
    assert native.decode_chunk(encoded) == chunk.tobytes()
    assert native.encode_chunk(chunk) == encoded


@given(chains(names=("gzip", "zlib", "crc32c")), st.binary(max_size=300))
def test_the_model_reads_what_the_kernel_encodes(chain: tuple, payload: bytes) -> None:
    steps, shape, dtype = chain
    chunk = elements(payload, shape, dtype)
    encoded = program(steps, shape, dtype).encode_chunk(chunk)
    assert model.decode(encoded, steps, shape, dtype).tobytes() == chunk.tobytes()


@given(chains(), st.binary(max_size=300))
def test_the_kernel_reads_what_the_model_encodes(chain: tuple, payload: bytes) -> None:
    steps, shape, dtype = chain
    chunk = elements(payload, shape, dtype)
    assert program(steps, shape, dtype).decode_chunk(model.encode(chunk, steps)) == chunk.tobytes()


@given(byte_steps(), st.binary(max_size=2000))
def test_a_pipe_comes_back_within_its_limit(steps: list[tuple], payload: bytes) -> None:
    pipe = Pipe(steps)
    encoded = pipe.encode(payload)
    assert pipe.decode(encoded, len(payload)) == payload
    assert pipe.decode(encoded, len(payload) + 1000) == payload
    assert pipe.decode(model.encode_bytes(payload, steps), len(payload)) == payload
    if payload:
        with pytest.raises(KernelFault, match="more than"):
            pipe.decode(encoded, len(payload) - 1)


def test_fixed_lengths_are_told() -> None:
    dtype = np.dtype("u4")
    assert program([PLAIN], (3, 5), dtype).encoded_nbytes == 60
    assert program([PLAIN, ("crc32c",), ("crc32c",)], (3, 5), dtype).encoded_nbytes == 68
    assert program([PLAIN, ("zstd", 1, False)], (3, 5), dtype).encoded_nbytes is None


def test_crc32c_is_the_models() -> None:
    assert _kernel.crc32c(b"123456789") == 0xE3069283 == model.crc32c(b"123456789")
    payload = bytes(range(256)) * 400
    half = _kernel.crc32c(payload[:1000])
    assert _kernel.crc32c(payload[1000:], half) == _kernel.crc32c(payload) == model.crc32c(payload)
    assert _kernel.crc32c(np.arange(12, dtype="u2").reshape(3, 4)) == model.crc32c(
        np.arange(12, dtype="u2").tobytes()
    )


@pytest.mark.parametrize(
    "cname", [name for name in BLOSC_NAMES if name != "snappy"]
)  # which that library lacks
@pytest.mark.parametrize("shuffle", [0, 1, 2])
def test_blosc_agrees_with_an_independent_library(cname: str, shuffle: int) -> None:
    blosc = pytest.importorskip("numcodecs.blosc", reason="numcodecs is not installed")
    random = np.random.default_rng(5)
    for typesize, count in itertools.product([1, 2, 3, 4, 8, 12, 16, 17], [1, 7, 1000, 50_001]):
        chunk = (random.integers(0, 40, typesize * count) * (np.arange(typesize * count) % 3)).astype("u1")
        native = program([PLAIN, ("blosc", cname, 5, shuffle, typesize, 0)], chunk.shape, chunk.dtype)
        values = chunk.view(f"V{typesize}") if typesize > 1 else chunk
        theirs = blosc.compress(values.tobytes(), cname.encode(), 5, shuffle, 0, typesize)
        assert native.decode_chunk(theirs) == chunk.tobytes()
        assert blosc.decompress(native.encode_chunk(chunk)) == chunk.tobytes()


def test_zstd_agrees_with_an_independent_library() -> None:
    zstd = pytest.importorskip("numcodecs.zstd", reason="numcodecs is not installed")
    chunk = np.random.default_rng(6).integers(0, 9, 70_000).astype("u1")
    for level, checksum in itertools.product([-5, 0, 1, 9, 22], [False, True]):
        native = program([PLAIN, ("zstd", level, checksum)], chunk.shape, chunk.dtype)
        encoded = native.encode_chunk(chunk)
        assert zstd.Zstd().decode(encoded) == chunk.tobytes()
        assert native.decode_chunk(zstd.Zstd(level=level, checksum=checksum).encode(chunk)) == chunk.tobytes()
        assert bool(encoded[4] & 4) == checksum


def test_several_members_and_frames_are_one_value() -> None:
    payload = bytes(range(200)) * 50
    members = gzip.compress(payload[:3000]) + gzip.compress(b"") + gzip.compress(payload[3000:])
    frames = model.zstd_frame(payload[:10], sized=False) + struct.pack("<II", 0x184D2A53, 3) + b"abc"
    frames += Pipe([("zstd", 3, True)]).encode(payload[10:])
    for step, encoded in (
        (("gzip", 5), members),
        (("gzip", 5), members + bytes(9)),
        (("zstd", 3, False), frames),
    ):
        assert Pipe([step]).decode(encoded, len(payload)) == payload
        assert program([PLAIN, step], (len(payload),), np.dtype("u1")).decode_chunk(encoded) == payload


def test_gzip_bytes_hold_no_time() -> None:
    encoded = Pipe([("gzip", 6)]).encode(b"terrazzo")
    assert encoded[:8] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00"
    assert len(Pipe([("gzip", 0)]).encode(bytes(5000))) > 5000


def test_bools_are_checked() -> None:
    native = program([("bytes", (), "bool"), ("crc32c",)], (3,), np.dtype("?"))
    assert native.decode_chunk(Pipe([("crc32c",)]).encode(b"\0\1\1")) == b"\0\1\1"
    with pytest.raises(KernelFault, match="byte 2 is 255") as caught:
        native.decode_chunk(Pipe([("crc32c",)]).encode(b"\0\1\xff"))
    assert caught.value.kind == "codec"


@pytest.mark.parametrize(
    "steps, shape, itemsize, fill, words",
    [
        ([], (2,), 1, b"\0", "bytes step"),
        ([PLAIN, PLAIN], (2,), 1, b"\0", "once"),
        ([PLAIN, ("transpose", (0,))], (2,), 1, b"\0", "before bytes"),
        ([("transpose", (0, 0)), PLAIN], (2, 2), 1, b"\0", "order"),
        ([("transpose", (1, 2)), PLAIN], (2, 2), 1, b"\0", "order"),
        ([("transpose", (0,)), PLAIN], (2, 2), 1, b"\0", "order"),
        ([("gzip", 1), PLAIN], (2,), 1, b"\0", "after bytes"),
        ([PLAIN, ("gzip", 10)], (2,), 1, b"\0", "level 10"),
        ([PLAIN, ("gzip",)], (2,), 1, b"\0", "values"),
        ([PLAIN, ("zstd", 23, False)], (2,), 1, b"\0", "level 23"),
        ([PLAIN, ("blosc", "lzo", 5, 1, 2, 0)], (2,), 1, b"\0", "lzo"),
        ([PLAIN, ("blosc", "lz4", 5, 1, 256, 0)], (2,), 1, b"\0", "typesize"),
        ([PLAIN, ("lzma",)], (2,), 1, b"\0", "lzma"),
        ([("bytes", (3,), "")], (2,), 4, bytes(4), "units"),
        ([("bytes", (0,), "")], (2,), 4, bytes(4), "units"),
        ([("bytes", (), "float")], (2,), 4, bytes(4), "check"),
        ([("bytes", (), "bool")], (2,), 4, bytes(4), "bool"),
        ([PLAIN], (2,), 4, b"\0", "fill value"),
        ([PLAIN], (2,), 0, b"", "at least 1"),
        ([PLAIN], (2, 0), 1, b"\0", "at least one"),
        ([PLAIN], (2**40, 2**40), 1, b"\0", "too large"),
        ([PLAIN], (2**62,), 8, bytes(8), "too large"),
    ],
)
def test_programs_that_cannot_be(steps: list, shape: tuple, itemsize: int, fill: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Program(steps, shape, itemsize, fill)


# --- placements -------------------------------------------------------------------------------------------------


@st.composite
def axes(draw: st.DrawFn, chunk: int) -> tuple[tuple, int]:
    """One dimension's table and the array's extent."""
    count = draw(st.integers(1, 3))
    if draw(st.booleans()):
        step, table, to = draw(st.integers(1, 3)), [], draw(st.integers(0, 2))
        for _ in range(count):
            start = draw(st.integers(0, chunk - 1))
            taken = draw(st.integers(0, (chunk - 1 - start) // step + 1))
            table.append((start, taken, to))
            to += taken + draw(st.integers(0, 1))
        return ("span", rows_of(table, 3), step), to + draw(st.integers(0, 2))
    lists = [draw(st.lists(st.integers(0, chunk - 1), max_size=5)) for _ in range(count)]
    inside = [at for positions in lists for at in positions]
    extent = len(inside) + draw(st.integers(0, 2))
    outside = draw(st.permutations(range(extent)))[: len(inside)]
    ends = np.cumsum([0] + [len(positions) for positions in lists])
    bounds = rows_of(list(itertools.pairwise(map(int, ends))), 2)
    return ("pick", bounds, np.array(inside, np.int64), np.array(outside, np.int64)), extent


@st.composite
def grids(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[tuple, tuple[int, ...], int]:
    drawn = [draw(axes(extent)) for extent in shape]
    count = int(np.prod([len(axis[1]) for axis, _ in drawn]))
    return ("grid", [axis for axis, _ in drawn]), tuple(extent for _, extent in drawn), count


@st.composite
def point_lists(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[tuple, tuple[int, ...], int]:
    axis, extent = draw(axes(int(np.prod(shape))).filter(lambda drawn: drawn[0][0] == "pick"))
    return ("points", *axis[1:]), (extent,), len(axis[1])


@st.composite
def arrays(draw: st.DrawFn, shape: tuple[int, ...], dtype: np.dtype, writable: bool) -> np.ndarray:
    """An array with strides of all kinds: steps, turned round, in another order, and zero where it is only read."""
    order = draw(st.permutations(range(len(shape))))
    gaps = [draw(st.integers(1, 2)) for _ in shape]
    base = np.zeros([shape[dimension] * gaps[dimension] for dimension in order], dtype)
    flat = base.reshape(-1).view("u1")
    flat[:] = np.arange(flat.size, dtype="u4").view("u1")[: flat.size] * 7 + np.arange(flat.size) % 251
    view = base.transpose(np.argsort(order)) if shape else base
    view = view[(..., *(slice(None, None, draw(st.sampled_from([1, -1])) * gap) for gap in gaps))]
    if not writable and shape and draw(st.booleans()):
        dimension = draw(st.integers(0, len(shape) - 1))
        if shape[dimension]:
            view = np.broadcast_to(view.take([0], dimension), shape)
    return view


@st.composite
def calls(draw: st.DrawFn, writable: bool) -> tuple:
    steps, shape, dtype = draw(chains())
    placement, extents, count = draw(st.one_of(grids(shape), point_lists(shape)))
    cells = draw(st.lists(st.sampled_from(range(count)), unique=True, max_size=6))
    return steps, shape, dtype, placement, draw(arrays(extents, dtype, writable)), cells


def chunk_of(number: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    size = int(np.prod(shape)) * dtype.itemsize
    return ((np.arange(size) * (number + 3) + number) % 253).astype("u1").view(dtype).reshape(shape)


@settings(max_examples=150)
@given(calls(writable=True), st.integers(1, 4), st.sampled_from(["buffer", "file"]), st.data())
def test_decode_scatters_as_the_model(call: tuple, threads: int, kind: str, data: st.DataObject) -> None:
    steps, shape, dtype, placement, out, cells = call
    fill = bytes(range(1, dtype.itemsize + 1)) if data.draw(st.booleans()) else b"\7" * dtype.itemsize
    native = program(steps, shape, dtype, fill)
    body, table, expected = b"\xee" * 5, [], out.copy()
    for number, cell in enumerate(cells):
        if data.draw(st.booleans()):
            table.append((_kernel.MISSING, 0, 0, 0, cell))
            chunk = np.frombuffer(fill * int(np.prod(shape)), dtype).reshape(shape)
        else:
            chunk = chunk_of(number, shape, dtype)
            encoded = native.encode_chunk(chunk)
            table.append((0, len(body), len(encoded), 0, cell))
            body += encoded + b"\xee" * data.draw(st.integers(0, 9))
        model.scatter(chunk, placement, cell, expected)
    table = data.draw(st.permutations(table))
    with tempfile.TemporaryFile() as file:
        file.write(body)
        file.flush()
        source = file.fileno() if kind == "file" else body
        assert _kernel.decode([native], [source], rows_of(table, 5), placement, out, threads) == []
    assert out.tobytes() == expected.tobytes()


@settings(max_examples=150)
@given(calls(writable=False), st.integers(1, 4), st.data())
def test_encode_gathers_as_the_model(call: tuple, threads: int, data: st.DataObject) -> None:
    steps, shape, dtype, placement, value, cells = call
    fill = bytes(range(dtype.itemsize))
    native = program(steps, shape, dtype, fill)
    drop_fill, start = data.draw(st.booleans()), data.draw(st.sampled_from([0, 13]))
    old_body, table, expected = b"", [], []
    for number, cell in enumerate(cells):
        action, missing = data.draw(st.integers(0, 2)), data.draw(st.booleans())
        chunk = np.frombuffer(fill * int(np.prod(shape)), dtype).reshape(shape).copy()
        old = (_kernel.MISSING if missing else 0, 0, 0)
        if action and not missing:
            chunk = chunk_of(number, shape, dtype).copy()
            encoded = native.encode_chunk(chunk)
            old = (0, len(old_body), len(encoded))
            old_body += encoded
        if action != 2:
            model.gather(chunk, placement, cell, value)
        dropped = missing if action == 2 else drop_fill and chunk.tobytes() == fill * chunk.size
        expected.append(None if dropped else native.encode_chunk(chunk))
        table.append((action, 0, cell, number % 2, *old))
    with tempfile.TemporaryFile() as file, tempfile.TemporaryFile() as target:
        file.write(old_body)
        file.flush()
        source = data.draw(st.sampled_from([old_body, file.fileno()]))
        entries, bodies, ends, failures = _kernel.encode(
            [native],
            [source],
            rows_of(table, 7),
            placement,
            value,
            [None, target.fileno()],
            [start, start],
            drop_fill,
            threads,
        )
        assert failures == []
        assert bodies[1] is None
        bodies = [bytes(start) + bodies[0], os.pread(target.fileno(), 10**6, 0)]
    position = [start, start]
    found = np.frombuffer(entries, np.uint64).reshape(-1, 2)
    for number, ((offset, nbytes), chunk) in enumerate(zip(found, expected, strict=True)):
        if chunk is None:
            assert (offset, nbytes) == model.MISSING_ENTRY
            continue
        assert (offset, nbytes) == (position[number % 2], len(chunk))
        position[number % 2] += len(chunk)
        assert bodies[number % 2][int(offset) : position[number % 2]] == chunk
    assert ends == position
    assert len(bodies[0]) == position[0]


def whole(shape: tuple[int, ...], chunk: tuple[int, ...]) -> tuple[tuple, int]:
    tables = [model.grid(*pair) for pair in zip(shape, chunk, strict=True)]
    return ("grid", [("span", table, 1) for table in tables]), int(np.prod([len(table) for table in tables]))


def encoded_rows(count: int) -> np.ndarray:
    rows = np.zeros((count, 7), np.int64)
    rows[:, 2] = np.arange(count)
    return rows


def decoded_rows(entries: bytes | bytearray) -> np.ndarray:
    entries_table = np.frombuffer(entries, np.int64).reshape(-1, 2)
    rows = np.zeros((len(entries_table), 5), np.int64)
    rows[:, 1:3], rows[:, 4] = entries_table, np.arange(len(entries_table))
    rows[entries_table[:, 0] < 0, 0] = _kernel.MISSING
    return rows


LARGE = [
    [PLAIN],
    [("bytes", (4,), "")],
    [("transpose", (2, 0, 1)), PLAIN],
    [PLAIN, ("zstd", 1, True), ("crc32c",)],
    [("transpose", (1, 2, 0)), ("bytes", (4,), ""), ("gzip", 1)],
    [PLAIN, ("blosc", "lz4", 5, 1, 4, 0)],
]


@pytest.mark.parametrize("steps", LARGE, ids=lambda steps: "-".join(step[0] for step in steps))
@pytest.mark.parametrize("order", ["C", "F"])
def test_large_arrays_are_the_same_on_any_number_of_threads(steps: list[tuple], order: str) -> None:
    shape, chunk = (70, 90, 110), (16, 20, 50)
    value = np.arange(np.prod(shape), dtype="u4").reshape(shape, order=order) // 50
    value[:16, :40] = 0
    native = program(steps, chunk, value.dtype)
    placement, count = whole(shape, chunk)
    seen = set()
    for threads in (1, 2, 4):
        with tempfile.TemporaryFile() as file:
            entries, _, ends, failures = _kernel.encode(
                [native], [], encoded_rows(count), placement, value, [file.fileno()], [7], True, threads
            )
            assert failures == []
            body = os.pread(file.fileno(), ends[0], 0)
            seen.add((bytes(entries), body))
            for source in (file.fileno(), body):
                out = np.full(shape, 99, "u4", order=order)
                rows = decoded_rows(entries)[::-1].copy()
                assert _kernel.decode([native], [source], rows, placement, out, threads) == []
                assert np.array_equal(out, value)
    assert len(seen) == 1
    (entries, _), *_ = seen
    assert b"\xff" * 16 in entries


def test_parts_of_large_raw_chunks_are_read_from_files_alone() -> None:
    value = np.arange(2 * 64 * 96 * 128, dtype="u4").reshape(2 * 64, 96, 128)
    for steps in ([PLAIN], [("bytes", (4,), "")], [("transpose", (1, 0, 2)), PLAIN]):
        native = program(steps, (64, 96, 128), value.dtype)
        with tempfile.TemporaryFile() as file:
            for part in (value[:64], value[64:]):
                file.write(native.encode_chunk(part))
            file.flush()
            rows = rows_of([(0, 0, native.nbytes, 0, 0), (0, native.nbytes, native.nbytes, 0, 1)], 5)
            picks = [slice(None), slice(5, 6), slice(3, 60, 7)]
            for first, second, third in itertools.product(picks, picks, picks):
                expected = value[:, second, third].reshape(2, 64, *value[:, second, third].shape[1:])[
                    :, first
                ]
                taken = [
                    range(*part.indices(extent))
                    for part, extent in zip((first, second, third), (64, 96, 128), strict=True)
                ]
                spans = [[(rng[0], len(rng), 0)] for rng in taken]
                spans[0] = [(taken[0][0], len(taken[0]), 0), (taken[0][0], len(taken[0]), len(taken[0]))]
                placement = (
                    "grid",
                    [("span", rows_of(s, 3), rng.step) for s, rng in zip(spans, taken, strict=True)],
                )
                out = np.zeros((2 * len(taken[0]), *expected.shape[2:]), "u4")
                assert _kernel.decode([native], [file.fileno()], rows, placement, out, 2) == []
                assert np.array_equal(out, expected.reshape(out.shape))


def test_programs_of_several_shapes_share_a_call() -> None:
    small, large = program([PLAIN], (2,), np.dtype("u1")), program([PLAIN, ("crc32c",)], (4,), np.dtype("u1"))
    placement = ("grid", [("span", rows_of([(0, 2, 0), (0, 4, 2)], 3), 1)])
    out = np.zeros(6, "u1")
    sources = [b"ab", large.encode_chunk(b"cdef")]
    rows = rows_of([(1, 0, 8, 1, 1), (0, 0, 2, 0, 0)], 5)
    assert _kernel.decode([small, large], sources, rows, placement, out, 1) == []
    assert out.tobytes() == b"abcdef"
    with pytest.raises(ValueError, match="leaves the chunk's shape"):
        _kernel.decode([small, large], sources, rows_of([(0, 0, 2, 0, 1)], 5), placement, out, 1)


def test_arrays_without_dimensions() -> None:
    native = program([PLAIN, ("zlib", 1)], (), np.dtype("f8"))
    entries, bodies, ends, failures = _kernel.encode(
        [native], [], encoded_rows(1), ("grid", []), np.array(2.5), [None], [0], False, 1
    )
    assert not failures
    assert len(bodies[0]) == ends[0]
    out = np.zeros((), "f8")
    assert _kernel.decode([native], [bodies[0]], decoded_rows(entries), ("grid", []), out, 1) == []
    assert out == 2.5


def test_tables_may_be_any_buffer() -> None:
    native, out = program([PLAIN], (3,), np.dtype("u1")), bytearray(3)
    placement = ("grid", [("span", array.array("q", [0, 3, 0]), 1)])
    assert _kernel.decode([native], [b"xyz"], array.array("q", [0, 0, 3, 0, 0]), placement, out, 1) == []
    assert out == b"xyz"
    assert _kernel.decode([native], [], np.zeros((0, 5), np.int64), placement, out, 1) == []


GOOD = ("grid", [("span", rows_of([(0, 3, 0)], 3), 1)])


def span(start: int, count: int, to: int, step: int = 1) -> tuple:
    return ("grid", [("span", rows_of([(start, count, to)], 3), step)])


@pytest.mark.parametrize(
    "row, placement, words",
    [
        ((1, 0, 3, 0, 0), GOOD, "source"),
        ((-2, 0, 3, 0, 0), GOOD, "source"),
        ((0, 0, 3, 1, 0), GOOD, "program"),
        ((0, 0, 3, -1, 0), GOOD, "program"),
        ((0, 0, 3, 0, 1), GOOD, "cell"),
        ((0, 0, 3, 0, -1), GOOD, "cell"),
        ((0, 0, 3, 0, 0), span(1, 3, 0), "leaves"),
        ((0, 0, 3, 0, 0), span(0, 2, 0, 3), "leaves"),
        ((0, 0, 3, 0, 0), span(0, 2, 0, 0), "step"),
        ((0, 0, 3, 0, 0), span(0, 3, 1), "leaves"),
        ((0, 0, 3, 0, 0), span(0, 3, -1), "leaves"),
        ((0, 0, 3, 0, 0), span(-1, 3, 0), "leaves"),
        ((0, 0, 3, 0, 0), span(0, -1, 0), "leaves"),
        ((0, 0, 3, 0, 0), span(0, 3, 2**63 - 1), "leaves"),
        ((0, 0, 3, 0, 0), span(2**63 - 1, 1, 0), "leaves"),
        ((0, 0, 3, 0, 0), span(0, 3, 0, 2**63 - 1), "leaves"),
        ((0, 0, 3, 0, 0), ("grid", []), "dimensions"),
        ((0, 0, 3, 0, 0), ("grid", [("span", np.zeros((1, 2), np.int64), 1)]), "columns"),
        ((0, 0, 3, 0, 0), ("grid", [("span", np.zeros((1, 3), np.float64), 1)]), "int64"),
        ((0, 0, 3, 0, 0), ("grid", [("slice", 1)]), "slice"),
        ((0, 0, 3, 0, 0), ("cube", []), "cube"),
        *(
            ((0, 0, 3, 0, 0), form(rows_of([bounds], 2), np.array(inside), np.array(outside)), words)
            for form in (lambda *lists: ("points", *lists), lambda *lists: ("grid", [("pick", *lists)]))
            for bounds, inside, outside, words in [
                ((0, 2), [0], [0], "bounds"),
                ((1, 0), [0], [0], "bounds"),
                ((-1, 1), [0], [0], "bounds"),
                ((0, 1), [3], [0], "leaves"),
                ((0, 1), [-1], [0], "position -1"),
                ((0, 1), [2**63 - 1], [0], "position"),
                ((0, 1), [0], [3], "position 3"),
                ((0, 1), [0], [-1], "position -1"),
                ((0, 1), [0, 1], [0], "inside"),
            ]
        ),
    ],
)
def test_wrong_tables_are_refused_before_any_work(row: tuple, placement: tuple, words: str) -> None:
    native, out = program([PLAIN], (3,), np.dtype("u1")), np.zeros(3, "u1")
    with pytest.raises(ValueError, match=words):
        _kernel.decode([native], [b"abc"], rows_of([row], 5), placement, out, 1)
    assert not out.any()
    if "source" not in words:
        encoding = (1, row[3], row[4], 0, row[0], row[1], row[2])
        with pytest.raises(ValueError, match=words):
            _kernel.encode([native], [b"abc"], rows_of([encoding], 7), placement, out, [None], [0], False, 1)


def test_other_arguments_that_cannot_be() -> None:
    native, out = program([PLAIN], (3,), np.dtype("u1")), np.zeros(3, "u1")
    row = rows_of([(0, 0, 3, 0, 0)], 5)
    with pytest.raises(ValueError, match="bytes"):
        _kernel.decode([native], [b"abc"], row, GOOD, np.zeros(3, "u2"), 1)
    with pytest.raises(ValueError, match="twice"):
        _kernel.decode([native], [b"abc"], np.concatenate([row, row]), GOOD, out, 1)
    with pytest.raises(ValueError, match="shares memory"):
        _kernel.decode([native], [out], row, GOOD, out, 1)
    with pytest.raises(ValueError, match="descriptor"):
        _kernel.decode([native], [-1], row, GOOD, out, 1)
    with pytest.raises((ValueError, BufferError)):
        _kernel.decode([native], [b"abc"], row, GOOD, b"abc", 1)
    with pytest.raises(TypeError):
        _kernel.decode([native], ["abc"], row, GOOD, out, 1)
    for change, words in [
        ((3, 0, 0, 0, 0, 0, 0), "action"),
        ((0, 0, 0, 1, 0, 0, 0), "sink"),
        ((2, 0, 0, 0, 5, 0, 0), "source"),
    ]:
        with pytest.raises(ValueError, match=words):
            _kernel.encode([native], [], rows_of([change], 7), GOOD, out, [None], [0], False, 1)
    with pytest.raises(ValueError, match="positions"):
        _kernel.encode([native], [], encoded_rows(1), GOOD, out, [None], [], False, 1)


# --- hostile bytes ----------------------------------------------------------------------------------------------


def failure(steps: list[tuple], encoded: bytes, nbytes: int = 8) -> tuple[str, str]:
    """The kind and the sentence with which a chunk is refused, the same by both doors."""
    native, out = program(steps, (nbytes,), np.dtype("u1")), np.zeros(nbytes, "u1")
    placement = span(0, nbytes, 0)
    ((row, kind, text),) = _kernel.decode(
        [native], [encoded], rows_of([(0, 0, len(encoded), 0, 0)], 5), placement, out, 1
    )
    assert row == 0
    with pytest.raises(KernelFault) as caught:
        native.decode_chunk(encoded)
    assert (caught.value.kind, str(caught.value)) == (kind, text)
    return kind, text


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


ZSTD, GZIP, BLOSC = ("zstd", 3, False), ("gzip", 5), ("blosc", "lz4", 5, 1, 1, 0)


@pytest.mark.parametrize(
    "steps, encoded",
    [
        ([PLAIN, GZIP], gzip.compress(bytes(1 << 25))),
        ([PLAIN, GZIP, GZIP], gzip.compress(gzip.compress(bytes(1 << 27), 9), 9)),
        ([PLAIN, GZIP, GZIP], gzip.compress(bytes(1 << 25), 9)),
        ([PLAIN, ZSTD], model.zstd_bomb(16000)),
        ([PLAIN, ZSTD], model.zstd_bomb(100, sized=2**60)),
        ([PLAIN, ZSTD], model.zstd_bomb(16000, sized=16000 << 17)),
        ([PLAIN, ZSTD], model.zstd_bomb(1, sized=8)),
        ([PLAIN, GZIP, ZSTD], model.zstd_bomb(16000)),
        ([PLAIN, BLOSC], model.blosc_frame(b"12345678", claimed=500_000_000)),
        ([PLAIN, BLOSC, BLOSC], model.blosc_frame(b"12345678", claimed=2**31 - 20)),
    ],
)
def test_bombs_are_refused_without_their_memory(steps: list[tuple], encoded: bytes) -> None:
    before = peak_bytes()
    kind, _ = failure(steps, encoded)
    assert kind == "codec"
    assert peak_bytes() - before < 64 << 20


@pytest.mark.parametrize(
    "step",
    [ZSTD, GZIP, ("zlib", 5), ("zstd", 3, True), *(("blosc", name, 5, 1, 2, 0) for name in BLOSC_NAMES)],
)
def test_wrong_lengths_are_refused(step: tuple) -> None:
    payload = bytes(range(100)) * 7
    encoded = Pipe([step]).encode(payload)
    for nbytes in (699, 701, 1, 10_000):
        kind, text = failure([PLAIN, step], encoded, nbytes)
        assert kind == "codec"
        assert str(nbytes) in text
    for cut in (0, 1, 5, len(encoded) // 2, len(encoded) - 1):
        assert failure([PLAIN, step], encoded[:cut], 700)[0] == "codec"
    for tail in (b"x", b"\1" * 30):
        assert failure([PLAIN, step], encoded + tail, 700)[0] == "codec"


def kind_or_length(work: Callable[..., bytearray], *arguments: object) -> str | int:
    try:
        return len(work(*arguments))
    except KernelFault as fault:
        return fault.kind


@settings(max_examples=100)
@given(byte_steps().filter(len), st.data())
def test_mutated_bytes_never_do_harm(steps: list[tuple], data: st.DataObject) -> None:
    payload = (np.arange(700) // 9).astype("u2").tobytes()
    native = program([PLAIN, *steps], (len(payload),), np.dtype("u1"))
    encoded = bytearray(native.encode_chunk(payload))
    for _ in range(data.draw(st.integers(1, 3))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    assert kind_or_length(native.decode_chunk, encoded) in ("codec", "checksum", len(payload))
    found = kind_or_length(Pipe(steps).decode, encoded, 5000)
    assert found in ("codec", "checksum") or found <= 5000


@pytest.mark.parametrize("cname", BLOSC_NAMES)
def test_every_byte_of_a_blosc_frame_may_be_wrong(cname: str) -> None:
    chunk = (np.arange(3000) // 7 % 50).astype("u2")
    for shuffle, blocksize in itertools.product([0, 1, 2], [0, 512]):
        native = program([PLAIN, ("blosc", cname, 5, shuffle, 2, blocksize)], chunk.shape, chunk.dtype)
        good = native.encode_chunk(chunk)
        for at in [*range(min(len(good), 60)), *range(60, len(good), 7)]:
            for value in (0, 255, good[at] ^ 1, good[at] ^ 128):
                bad = good[:at] + bytes([value]) + good[at + 1 :]
                assert kind_or_length(native.decode_chunk, bad) in ("codec", chunk.nbytes)


def test_checksums_say_what_they_found() -> None:
    good = Pipe([("crc32c",)]).encode(b"12345678")
    bad = good[:-1] + bytes([good[-1] ^ 1])
    kind, text = failure([PLAIN, ("crc32c",)], bad)
    assert kind == "checksum"
    assert f"{int.from_bytes(good[-4:], 'little'):#010x}" in text
    assert f"{int.from_bytes(bad[-4:], 'little'):#010x}" in text
    assert failure([PLAIN, ("crc32c",)], b"abc")[0] == "codec"
    assert failure([PLAIN, ZSTD, ("crc32c",)], b"abc")[0] == "codec"


def test_other_formats_of_zstd_are_refused() -> None:
    for magic in (0xFD2FB527, 0xFD2FB522, 0xFD2FB51E, 0x00000000):
        assert failure([PLAIN, ZSTD], struct.pack("<I", magic) + bytes(40))[0] == "codec"


@pytest.mark.parametrize("kind", ["buffer", "file"])
@pytest.mark.parametrize("steps", [[PLAIN], [PLAIN, ZSTD]])
def test_ranges_that_are_not_there(kind: str, steps: list[tuple]) -> None:
    native = program(steps, (8,), np.dtype("u1"))
    good = native.encode_chunk(b"abcdefgh")
    table = [
        (0, 0, len(good), 0),
        (0, len(good), 0, 0),
        (0, 0, len(good) + 30, 0),
        (0, 2**62, len(good), 0),
        (0, 2**63 - 1, 2**63 - 1, 0),
        (0, -1, 8, 0),
        (0, -2, -2, 0),
        (0, 0, 2**62, 0),
    ]
    rows = rows_of([(*row, cell) for cell, row in enumerate(table)], 5)
    placement = ("grid", [("span", rows_of([(0, 8, 8 * cell) for cell in range(len(table))], 3), 1)])
    out = np.zeros(8 * len(table), "u1")
    with tempfile.TemporaryFile() as file:
        file.write(good)
        file.flush()
        failures = _kernel.decode(
            [native], [file.fileno() if kind == "file" else good], rows, placement, out, 2
        )
    assert [row for row, _, _ in failures] == list(range(1, len(table)))
    assert {found for row, found, _ in failures if row > 1} == {"range"}
    assert out[:8].tobytes() == b"abcdefgh"


def test_one_damaged_row_does_not_stop_the_others() -> None:
    value = np.arange(64 * 40, dtype="u2").reshape(64, 40)
    native = program([PLAIN, ZSTD, ("crc32c",)], (4, 40), value.dtype)
    placement, count = whole(value.shape, (4, 40))
    entries, bodies, _, _ = _kernel.encode(
        [native], [], encoded_rows(count), placement, value, [None], [0], False, 1
    )
    rows, body = decoded_rows(entries), bodies[0]
    body[int(rows[3, 1]) + 9] ^= 1
    out = np.zeros_like(value)
    failures = _kernel.decode([native], [body], rows, placement, out, 2)
    assert [(row, kind) for row, kind, _ in failures] == [(3, "checksum")]
    kept = np.delete(np.arange(64), range(12, 16))
    assert np.array_equal(out[kept], value[kept])


def test_descriptors_that_cannot_be_read_or_written() -> None:
    native, out = program([PLAIN], (3,), np.dtype("u1")), np.zeros(3, "u1")
    row = rows_of([(0, 0, 3, 0, 0)], 5)
    reading, writing = os.pipe()
    try:
        ((_, kind, text),) = _kernel.decode([native], [reading], row, GOOD, out, 1)
        assert (kind, "regular file" in text) == ("io", True)
        *_, failures = _kernel.encode([native], [], encoded_rows(1), GOOD, out, [writing], [0], False, 1)
        assert failures[0][:2] == (0, "io")
        assert "os error" in failures[0][2]
    finally:
        os.close(reading)
        os.close(writing)
    with tempfile.NamedTemporaryFile() as file:
        closed = os.open(file.name, os.O_RDONLY)
        *_, failures = _kernel.encode([native], [], encoded_rows(1), GOOD, out, [closed], [0], False, 1)
        assert failures[0][:2] == (0, "io")
        os.close(closed)
        ((_, kind, _),) = _kernel.decode([native], [closed], row, GOOD, out, 1)
        assert kind == "io"


def test_memory_that_cannot_be_had_is_a_failure() -> None:
    native = Program([PLAIN, ZSTD], (2**56,), 1, b"\0")
    with pytest.raises(KernelFault) as caught:
        native.decode_chunk(model.zstd_bomb(1))
    assert caught.value.kind == "memory"


# --- copies, threads, processes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_old_bytes_are_copied_as_they_are(threads: int) -> None:
    native, value = program([PLAIN], (10,), np.dtype("u1")), np.arange(1000, dtype="u4").astype("u1")
    placement, count = whole(value.shape, (10,))
    old = os.urandom(3_000_000)
    random = np.random.default_rng(3)
    rows, expected, at = encoded_rows(count), b"", 0
    for number in range(count):
        if number % 7:
            nbytes = int(random.integers(0, 50_000))
            at = at if number % 5 else int(random.integers(0, 1_000_000))
            rows[number] = (2, 0, 0, 0, 0, at, nbytes)
            expected += old[at : at + nbytes]
            at = (at + nbytes) % 2_000_000
        else:
            expected += value[10 * number : 10 * number + 10].tobytes()
    past = rows_of([(2, 0, 0, 0, 0, 2_999_999, 2)], 7)
    with tempfile.TemporaryFile() as file, tempfile.TemporaryFile() as target:
        file.write(old)
        file.flush()
        for source, sink in itertools.product((old, file.fileno()), (None, target.fileno())):
            target.truncate(0)
            _, bodies, ends, failures = _kernel.encode(
                [native], [source], rows, placement, value, [sink], [0], False, threads
            )
            assert failures == []
            assert ends == [len(expected)]
            assert (os.pread(target.fileno(), len(expected) + 1, 0) if sink else bodies[0]) == expected
        failures = _kernel.encode(
            [native],
            [file.fileno()],
            past,
            placement,
            value,
            [None],
            [0],
            False,
            1,
        )[3]
    assert failures[0][:2] == (0, "range")


def task() -> tuple:
    value = np.arange(64 * 64 * 64, dtype="u2").reshape(64, 64, 64)
    native = program([PLAIN, ("zstd", 1, False)], (16, 16, 16), value.dtype)
    placement, count = whole(value.shape, (16, 16, 16))
    entries, bodies, _, failures = _kernel.encode(
        [native], [], encoded_rows(count), placement, value, [None], [0], False, 3
    )
    assert failures == []
    return native, bytes(bodies[0]), decoded_rows(entries), placement, value


def read_task(native: Program, body: bytes, rows: np.ndarray, placement: tuple, value: np.ndarray) -> bool:
    out = np.zeros_like(value)
    failures = _kernel.decode([native], [body], rows, placement, out, 3)
    return failures == [] and np.array_equal(out, value)


def test_several_python_threads_call_at_once() -> None:
    made, right = task(), []
    callers = [
        threading.Thread(target=lambda: right.extend(read_task(*made) for _ in range(10))) for _ in range(4)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert right == [True] * 40
    assert _kernel.threads_alive() >= 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_has_its_own_threads() -> None:
    made = task()
    assert read_task(*made)
    assert _kernel.threads_alive() >= 2
    child = os.fork()
    if child == 0:
        alive = _kernel.threads_alive()
        right = alive == 0 and read_task(*made) and _kernel.threads_alive() >= 1
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert read_task(*made)


def test_memory_does_not_grow_with_the_rows() -> None:
    chunk, count = 1 << 16, 2000
    native = program([PLAIN, ("zstd", 1, False)], (1, chunk), np.dtype("u1"))
    placement, _ = whole((count, chunk), (1, chunk))
    random = np.random.default_rng(1).integers(0, 99, chunk).astype("u1")
    value = np.lib.stride_tricks.as_strided(random, (count, chunk), (0, 1))
    with tempfile.TemporaryFile() as file:
        before = peak_bytes()
        *_, failures = _kernel.encode(
            [native], [], encoded_rows(count), placement, value, [file.fileno()], [0], False, 2
        )
        assert failures == []
        assert peak_bytes() - before < 32 << 20


# --- the stub ---------------------------------------------------------------------------------------------------


def test_the_stub_and_the_binary_have_the_same_names_and_parameters() -> None:
    stub = ast.parse(Path(_kernel.__file__).with_name("_kernel.pyi").read_text())
    names = {node.name: node for node in stub.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    public = {name for name in dir(_kernel) if not name.startswith("_")}
    assert public == set(names) | {"MISSING"}
    assert _kernel.MISSING == -1
    for name, node in names.items():
        native = getattr(_kernel, name)
        members = [(native, node)]
        if isinstance(node, ast.ClassDef):
            members = [
                (getattr(native, part.name), part) for part in node.body if isinstance(part, ast.FunctionDef)
            ]
            members = [
                pair for pair in members if pair[1].name not in ("__new__", "nbytes", "encoded_nbytes")
            ]
        for member, part in members:
            parameters = [argument.arg for argument in part.args.args]
            signature = member.__text_signature__.strip("()").replace("$", "").split(", ")
            signature = [parameter.split("=")[0] for parameter in signature if parameter not in ("", "/")]
            assert parameters == signature, name


def test_zlib_is_the_standard_librarys_format() -> None:
    payload = b"terrazzo" * 100
    assert zlib.decompress(Pipe([("zlib", 6)]).encode(payload)) == payload
