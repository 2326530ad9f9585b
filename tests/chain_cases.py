"""What a kernel call can look like: chains to draw from, and tables in the form that the kernel reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from terrazzo import _kernel
from terrazzo._kernel import Program
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


def span(start: int, count: int, to: int, step: int = 1) -> tuple:
    return ("grid", [("span", rows_of([(start, count, to)], 3), step)])


GOOD = span(0, 3, 0)


@contextmanager
def memory_below(nbytes: int) -> Iterator[None]:
    """What the process needs at most within is less than `nbytes` above what it has; Linux can tell."""
    status, peak = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not peak.exists():
        yield
        return

    def line(name: str) -> int:
        (found,) = (text for text in status.read_text().splitlines() if text.startswith(name))
        return int(found.split()[1]) * 1024

    peak.write_text("5")  # the peak becomes what is in use now
    before = line("VmRSS:")
    yield
    assert line("VmHWM:") - before < nbytes
