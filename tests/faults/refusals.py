"""Runs the kernel in a process whose system fails on request (failing_system.c), and prints what came of it, as JSON.

`python -m tests.faults.refusals LIBRARY`, with the library loaded ahead of libc. An abort of this process is what the
tests look for; a wrong value is reported by name.
"""

from __future__ import annotations

import ctypes
import errno
import json
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from terrazzo import _kernel
from terrazzo._kernel import KernelFault, Pipe
from tests.chain_cases import PLAIN, decoded_rows, encoded_rows, program, whole

MODES = {
    "nothing": 0,
    "interrupt": 1,
    "shorten": 2,
    "refuse": 3,
    "end": 4,
    "copy refuse": 5,
    "copy nothing": 6,
    "copy shorten": 7,
    "copy then refuse": 8,
    "allocate": 9,
}
SHAPE, CHUNK = (256, 300), (16, 20)
CHAINS = {
    "raw": [PLAIN],
    "crc": [("bytes", (4,), ""), ("crc32c",)],
    "zstd": [PLAIN, ("zstd", 1, True), ("crc32c",)],
    "gzip": [PLAIN, ("gzip", 1)],
    "blosc": [PLAIN, ("blosc", "lz4", 5, 1, 4, 0)],
    "deep": [("transpose", (1, 0)), PLAIN, ("blosc", "zstd", 5, 2, 4, 0), ("gzip", 1), ("zstd", 1, False)],
}
Failures = list[tuple[int, str, str]]
library = ctypes.CDLL(sys.argv[1]) if __name__ == "__main__" else None


class Case:
    """An array, a file that holds it, and the calls on them."""

    def __init__(self, steps: list[tuple[Any, ...]], threads: int) -> None:
        self.threads = threads
        self.value = np.random.default_rng(1).integers(0, 1 << 20, SHAPE, dtype="u4")
        self.native = program(steps, CHUNK, self.value.dtype)
        self.placement, self.count = whole(SHAPE, CHUNK)
        self.file = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as the case lives
        self.chunk = np.ascontiguousarray(self.value[: CHUNK[0], : CHUNK[1]])
        self.encoded = self.native.encode_chunk(self.chunk)
        entries, bodies, _, failures = self._encoded([None])
        assert not failures
        self.entries, self.body = bytes(entries), bytes(bodies[0])
        self.file.write(self.body)
        self.file.flush()

    def _encoded(self, sinks: list[int | None]) -> tuple[Any, ...]:
        rows = encoded_rows(self.count)
        return _kernel.encode(
            [self.native], [], rows, self.placement, self.value, sinks, [0], False, self.threads
        )

    def decode(self) -> tuple[bool, Failures]:
        rows = decoded_rows(self.entries)
        out = np.zeros_like(self.value)
        failures = _kernel.decode(
            [self.native], [self.file.fileno()], rows, self.placement, out, self.threads
        )
        return np.array_equal(out, self.value), failures

    def points(self) -> tuple[bool, Failures]:
        rows = decoded_rows(self.entries)[:1]
        inside = np.arange(0, CHUNK[0] * CHUNK[1], dtype=np.int64).repeat(40)
        outside = np.arange(len(inside), dtype=np.int64)
        out = np.zeros(len(inside), self.value.dtype)
        placement = ("points", np.array([[0, len(inside)]], np.int64), inside, outside)
        failures = _kernel.decode([self.native], [self.file.fileno()], rows, placement, out, self.threads)
        return np.array_equal(out, self.value[:16, :20].reshape(-1).repeat(40)), failures

    def encode(self) -> tuple[bool, Failures]:
        with tempfile.TemporaryFile() as sink:
            _, _, _, failures = self._encoded([sink.fileno()])
            sink.seek(0)
            return sink.read() == self.body, failures

    def encode_to_memory(self) -> tuple[bool, Failures]:
        _, bodies, _, failures = self._encoded([None])
        return bodies[0] == self.body, failures

    def change(self) -> tuple[bool, Failures]:
        """Copies all chunks but one, which is laid over."""
        rows = encoded_rows(self.count)
        rows[:, 0], rows[:, 5:] = 2, np.frombuffer(self.entries, np.int64).reshape(-1, 2)
        rows[7, 0] = 1
        with tempfile.TemporaryFile() as sink:
            _, _, _, failures = _kernel.encode(
                [self.native],
                [self.file.fileno()],
                rows,
                self.placement,
                self.value,
                [sink.fileno()],
                [0],
                False,
                self.threads,
            )
            sink.seek(0)
            return sink.read() == self.body, failures

    def encode_one(self) -> tuple[bool, Failures]:
        return self.native.encode_chunk(self.chunk) == self.encoded, []

    def decode_one(self) -> tuple[bool, Failures]:
        return self.native.decode_chunk(self.encoded) == self.chunk.tobytes(), []


PIPE, PAYLOAD = Pipe([("zstd", 1, False), ("crc32c",), ("gzip", 1)]), bytes(range(256)) * 2000
PACKED = PIPE.encode(PAYLOAD)


def pack() -> tuple[bool, Failures]:
    return PIPE.encode(PAYLOAD) == PACKED, []


def unpack() -> tuple[bool, Failures]:
    return PIPE.decode(PACKED, len(PAYLOAD)) == PAYLOAD, []


def outcome(
    call: Callable[[], tuple[bool, Failures]], mode: str, number: int = 0, error: int = 0
) -> tuple[str, int]:
    """("right" | "wrong" | the kind of the first fault | the class of the exception, calls that were counted)."""
    assert library is not None
    library.disarm.restype = ctypes.c_long
    library.arm(MODES[mode], number, error)
    try:
        is_right, failures = call()
    except KernelFault as fault:
        return fault.kind, library.disarm()
    except MemoryError:
        return "memory", library.disarm()
    except Exception as other:
        return f"{type(other).__name__}: {other}", library.disarm()
    finally:
        calls = library.disarm()
    if failures:
        return failures[0][1], calls
    return ("right" if is_right else "wrong"), calls


def file_trouble() -> dict[str, str]:
    answers = {}
    for name, steps in CHAINS.items():
        for threads in (1, 2):
            case = Case(steps, threads)
            for call in (case.decode, case.points, case.encode, case.change):
                at = f"{name} {call.__name__} {threads}"
                for mode in ("nothing", "interrupt", "shorten", "copy nothing", "copy shorten"):
                    answers[f"{at}: {mode}"] = outcome(call, mode)[0]
                for number in (errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM):
                    answers[f"{at}: copy refuse {errno.errorcode[number]}"] = outcome(
                        call, "copy refuse", 0, number
                    )[0]
                answers[f"{at}: copy then refuse"] = outcome(call, "copy then refuse", 0, errno.EXDEV)[0]
            _, calls = outcome(case.change, "nothing")
            for number in (errno.ENOSPC, errno.EIO):
                answers[f"{name} change {threads}: copy fails {errno.errorcode[number]}"] = outcome(
                    case.change, "copy refuse", 0, number
                )[0]
            for call in (case.decode, case.encode):
                _, calls = outcome(call, "nothing")
                for which in sorted({1, 2, calls // 2, calls} - {0}):
                    for mode, number in (("refuse", errno.EIO), ("end", 0)):
                        answers[f"{name} {call.__name__} {threads}: {mode} call {which}"] = outcome(
                            call, mode, which, number
                        )[0]
    return answers


def allocation_trouble() -> dict[str, str]:
    """Every large allocation of every call fails once."""
    answers = {}
    for name, steps in CHAINS.items():
        for threads in (1, 2):
            case = Case(steps, threads)
            calls = [case.decode, case.points, case.encode, case.encode_to_memory, case.change]
            if threads == 1:
                calls += [case.encode_one, case.decode_one, pack, unpack]
            for call in calls:
                for number in range(1, 500):
                    found, counted = outcome(call, "allocate", number)
                    answers[f"{name} {threads} {call.__name__}: allocation {number}"] = found
                    if counted < number:
                        break
    return answers


if __name__ == "__main__":
    print(json.dumps(file_trouble() if sys.argv[2] == "files" else allocation_trouble()))
