"""The native kernel against the model: every step, every placement, every kind of source and sink."""

from __future__ import annotations

import array
import ast
import gzip
import itertools
import os
import struct
import tempfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terrazzo import _kernel
from terrazzo._kernel import KernelFault, Pipe, Program
from tests import chain_model as model
from tests.chain_cases import (
    BLOSC_NAMES,
    GOOD,
    PLAIN,
    byte_steps,
    chains,
    decoded_rows,
    encoded_rows,
    program,
    rows_of,
    span,
    whole,
)

# --- chains -----------------------------------------------------------------------------------------------------


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
