"""Arrays in many processes and threads: worker processes of every kind, a loader's loop, and how many threads help."""

from __future__ import annotations

import multiprocessing
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo import _kernel
from terrazzo.options import Options

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

MODEL = np.arange(64 * 48 * 40, dtype="u2").reshape(64, 48, 40)
#: seconds after which a worker counts as hung
PATIENCE = 120
METHODS = [
    name for name in ("fork", "spawn", "forkserver") if name in multiprocessing.get_all_start_methods()
]


@pytest.fixture
def stored(tmp_path: Path) -> terrazzo.Array:
    array = terrazzo.create_array(tmp_path / "a", data=MODEL, chunks=(8, 8, 8), shards=(32, 24, 40))
    np.testing.assert_array_equal(
        array.using(threads=3)[...], MODEL
    )  # the parent has threads before it forks
    assert _kernel.threads_alive() >= 2
    return array


def boxes(seed: int, count: int) -> Iterator[tuple[slice, ...]]:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        starts = [int(rng.integers(0, n - 8)) for n in MODEL.shape]
        yield tuple(slice(s, s + int(rng.integers(1, 9))) for s in starts)


def read_all(array: terrazzo.Array, seed: int) -> bool:
    whole = np.array_equal(array[...], MODEL)
    return whole and all(np.array_equal(array[box], MODEL[box]) for box in boxes(seed, 20))


def answer(array: terrazzo.Array, answers: Any) -> None:
    answers.put((array.options.workers, array.using(threads=3).options.workers, read_all(array, 1)))


@pytest.mark.parametrize("method", METHODS)
def test_a_worker_process_reads_with_one_thread_unless_told(stored: terrazzo.Array, method: str) -> None:
    context = multiprocessing.get_context(method)
    answers = context.Queue()
    worker = context.Process(target=answer, args=(stored, answers), daemon=True)
    worker.start()
    try:
        assert answers.get(timeout=PATIENCE) == (1, 3, True)
        worker.join(PATIENCE)
        assert worker.exitcode == 0
    finally:
        worker.kill()
    assert read_all(stored, 2)


def load(array: terrazzo.Array, tasks: Any, batches: Any) -> None:
    """What a loader's worker does: sample by sample, until there is no more."""
    for seed in iter(tasks.get, None):
        batches.put((seed, [array.using(threads=2)[box] for box in boxes(seed, 8)]))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("cached", [0, 1 << 20])
def test_persistent_workers_of_a_loader_never_hang(stored: terrazzo.Array, cached: int) -> None:
    context = multiprocessing.get_context("fork")
    array = stored.using(chunk_cache_nbytes=cached)
    array[:9, :9, :9]
    tasks, batches = context.Queue(), context.Queue()
    stop = threading.Event()
    beside = threading.Thread(target=lambda: [read_all(array, 5) for _ in iter(stop.is_set, True)])
    beside.start()  # forks happen while another thread is in the middle of a read
    workers = [context.Process(target=load, args=(array, tasks, batches), daemon=True) for _ in range(3)]
    try:
        for worker in workers:
            worker.start()
        for epoch in range(3):
            seeds = range(10 * epoch, 10 * epoch + 10)
            for seed in seeds:
                tasks.put(seed)
            found = dict(batches.get(timeout=PATIENCE) for _ in seeds)
            assert sorted(found) == list(seeds)
            for seed, values in found.items():
                for box, value in zip(boxes(seed, 8), values, strict=True):
                    np.testing.assert_array_equal(value, MODEL[box])
        for _ in workers:
            tasks.put(None)
        for worker in workers:
            worker.join(PATIENCE)
            assert worker.exitcode == 0
    except queue.Empty:
        pytest.fail("a worker hangs")
    finally:
        stop.set()
        beside.join()
        for worker in workers:
            worker.kill()


def workers_in(**environment: str) -> int:
    """What a fresh process takes for its number of threads."""
    clean = {k: v for k, v in os.environ.items() if k not in ("OMP_NUM_THREADS", "TERRAZZO_THREADS")}
    code = "import terrazzo; print(terrazzo.config.options().workers)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    return int(done.stdout)


def test_the_environment_limits_threads() -> None:
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert workers_in() == cpus
    assert workers_in(OMP_NUM_THREADS="1") == 1
    assert workers_in(OMP_NUM_THREADS="1,4") == 1
    assert workers_in(OMP_NUM_THREADS="many") == cpus
    assert workers_in(OMP_NUM_THREADS="1", TERRAZZO_THREADS="5") == 5
    assert Options(threads=7).workers == 7


def test_callers_share_one_pool(stored: terrazzo.Array) -> None:
    before = _kernel.threads_alive()
    array = stored.using(threads=4)
    right: list[bool] = []
    callers = [
        threading.Thread(target=lambda k=k: right.append(read_all(array, k)), daemon=True)  # type: ignore[misc]
        for k in range(8)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(PATIENCE)
    assert right == [True] * 8
    assert _kernel.threads_alive() <= max(
        before, 3
    )  # as many as the largest call asked for, however many call


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs /proc")
def test_helpers_sleep_when_nobody_calls(stored: terrazzo.Array) -> None:
    """Helpers never run between calls: what the system counts as their switches and their time stands still."""

    def seen() -> dict[str, list[str]]:
        found = {}
        for task in os.listdir("/proc/self/task"):
            stat = Path(f"/proc/self/task/{task}/stat").read_text()
            if "(terrazzo)" in stat:
                status = Path(f"/proc/self/task/{task}/status").read_text().splitlines()
                found[task] = [line for line in status if "ctxt_switches" in line]
        return found

    stored.using(threads=3)[...]
    still = []
    for _ in range(100):  # they may still be on their way to sleep
        before = seen()
        threading.Event().wait(0.1)
        still.append(seen() == before)
        if still[-3:] == [True] * 3:
            break
    assert len(before) >= 2
    assert still[-3:] == [True] * 3
