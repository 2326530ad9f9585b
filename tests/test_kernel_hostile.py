"""Bytes that lie, to the native kernel: bombs, damage, wrong lengths, ranges and descriptors that are not there."""

from __future__ import annotations

import gzip
import itertools
import os
import struct
import tempfile
from collections.abc import Callable

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
    decoded_rows,
    encoded_rows,
    memory_below,
    program,
    rows_of,
    span,
    whole,
)


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
    with memory_below(64 << 20):
        kind, _ = failure(steps, encoded)
    assert kind == "codec"


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


def test_an_empty_blosc_frame_may_say_anything_of_its_blocks() -> None:
    frame = struct.pack("<BBBBIII", 2, 1, 0, 0, 0, 0, 16)
    assert Pipe([("blosc", "lz4", 5, 1, 1, 0)]).decode(frame, 8) == b""
    assert failure([PLAIN, ("blosc", "lz4", 5, 1, 1, 0), ("blosc", "lz4", 5, 1, 1, 0)], frame)[0] == "codec"


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


def test_spans_in_one_table_are_a_grid_of_spans() -> None:
    value = np.arange(35, dtype="u2").reshape(5, 7)
    native = program([PLAIN], (5, 7), np.dtype("u2"))
    rows = rows_of([(0, 0, value.nbytes, 0, 0)], 5)
    flat = np.array(
        [2, 1, 1, 2, 0, 3, 1, 0, 3, 0]
    )  # step, entries, and start, count, start in the output of each
    grid = ("grid", [("span", rows_of([(1, 2, 0)], 3), 2), ("span", rows_of([(0, 3, 0)], 3), 3)])
    for placement in (("spans", flat), grid):
        out = np.zeros((2, 3), "u2")
        assert _kernel.decode([native], [value.tobytes()], rows, placement, out, 1) == []
        np.testing.assert_array_equal(out, value[1:5:2, ::3])


@pytest.mark.parametrize(
    "flat",
    [
        [],
        [1],
        [1, 1],
        [1, 1, 0, 5],
        [1, -1],
        [1, 2**62],
        [1, 1, 0, 5, 0],
        [1, 1, 0, 5, 0, 1],
        [1, 0, 1, 0, 7],
    ],
)
def test_spans_whose_table_is_not_one_are_refused(flat: list[int]) -> None:
    native, out = program([PLAIN], (5, 7), np.dtype("u2")), np.zeros((5, 7), "u2")
    rows = rows_of([(0, 0, 70, 0, 0)], 5)
    with pytest.raises(ValueError):
        _kernel.decode([native], [bytes(70)], rows, ("spans", np.array(flat, np.int64)), out, 1)
