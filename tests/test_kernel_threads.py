"""The native kernel with several threads, after a fork, and copying what it need not decode."""

from __future__ import annotations

import itertools
import os
import tempfile
import threading

import numpy as np
import pytest

from terrazzo import _kernel
from terrazzo._kernel import Program
from tests.chain_cases import (
    PLAIN,
    decoded_rows,
    encoded_rows,
    memory_below,
    program,
    rows_of,
    whole,
)


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
        with memory_below(32 << 20):
            *_, failures = _kernel.encode(
                [native], [], encoded_rows(count), placement, value, [file.fileno()], [0], False, 2
            )
        assert failures == []
