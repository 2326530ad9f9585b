"""Many small reads, many at a time, from a server that takes its time: does memory, do descriptors, do threads grow?

What it does not do: measure how fast. The reading is done in a process of its own (`python -m tests.remote.endurance`),
the server is in another.
"""

from __future__ import annotations

import gc
import json
import os
import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import terrazzo
from tests.remote.place import Place
from tests.remote.wire import LOOPBACK

__all__ = ["endurance", "grown"]

ROOT = Path(__file__).resolve().parents[2]
SHAPE, CHUNK, SHARD = (256, 256), (8, 8), (64, 64)
PATH = "array"
#: connections that were not needed in the first tenth
SLACK_DESCRIPTORS = 16


def endurance(
    n: int, *, protocol: str, latency: float = 0.02, at_once: int = 16, rest: float = 0.0
) -> dict[str, Any]:
    """What a process that made `n` reads says of itself: after a tenth of them, after all, and `rest` seconds later
    (the runtime of obstore keeps a thread for ten seconds after its last work)."""
    with Place(latency=latency) as place:
        array = terrazzo.create_array(
            f"s3://b/{PATH}",
            shape=SHAPE,
            chunks=CHUNK,
            shards=SHARD,
            dtype="i4",
            storage_options={"endpoint": place.origin, "access_key_id": "a", "secret_access_key": "b"},
        )
        array[...] = np.arange(SHAPE[0] * SHAPE[1]).reshape(SHAPE)
        place.counts.clear()
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.remote.endurance",
                str(place.port),
                protocol,
                str(n),
                str(at_once),
                str(rest),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        told: dict[str, Any] = json.loads(done.stdout)
        return {**told, "requests": sum(place.counts.values()), "on their way at once": place.most_at_once}


def grown(told: dict[str, Any], slack_kib: int) -> list[str]:
    """What of it grew between the first tenth of the reads and the end, or is left: one thread of ours for all stores
    of a process, and the few that obstore's runtime has, stay."""
    first, last, rest = told["after a tenth"], told["after all"], told["at rest"]
    found = [] if last["resident KiB"] <= first["resident KiB"] + slack_kib else ["memory"]
    found += [] if last["descriptors"] <= first["descriptors"] + SLACK_DESCRIPTORS else ["descriptors"]
    found += [] if rest["python threads"] <= told["started"]["python threads"] + 1 else ["threads of Python"]
    found += [] if rest["threads"] <= told["started"]["threads"] + 2 + (os.cpu_count() or 1) else ["threads"]
    return found


def itself() -> dict[str, int]:
    """Memory in KiB, descriptors, threads of Python and of the system."""
    gc.collect()
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return {
        "resident KiB": int(status.split("VmRSS:")[1].split()[0]),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "python threads": threading.active_count(),
        "threads": len(os.listdir("/proc/self/task")),
    }


def reading(port: int, protocol: str, n: int, at_once: int, rest: float) -> dict[str, Any]:
    started = itself()
    origin = f"http://{LOOPBACK}:{port}"
    options = {"endpoint": origin, "access_key_id": "a", "secret_access_key": "b"} if protocol == "s3" else {}
    address = f"s3://b/{PATH}" if protocol == "s3" else f"{origin}/b/{PATH}"
    array = terrazzo.open_array(address, mode="r", storage_options=options)
    expected = np.arange(SHAPE[0] * SHAPE[1], dtype="i4").reshape(SHAPE)
    wrong = 0

    def one(seed: int) -> bool:
        dice = random.Random(seed)
        i, j = (dice.randrange(0, extent, size) for extent, size in zip(SHAPE, CHUNK, strict=True))
        found = array[i : i + CHUNK[0], j : j + CHUNK[1]]
        return not (found == expected[i : i + CHUNK[0], j : j + CHUNK[1]]).all()

    def some(first: int, last: int) -> int:
        return sum(map(one, range(first, last)))

    marks = []
    with ThreadPoolExecutor(at_once) as pool:
        for first, last in ((0, n // 10), (n // 10, n)):
            edges = [first + (last - first) * k // at_once for k in range(at_once + 1)]
            wrong += sum(pool.map(some, edges[:-1], edges[1:]))
            marks.append(itself())
    array.store.close()
    time.sleep(rest)
    return {
        "reads": n,
        "wrong": wrong,
        "started": started,
        "after a tenth": marks[0],
        "after all": marks[1],
        "at rest": itself(),
    }


if __name__ == "__main__":
    port, protocol, n, at_once, rest = sys.argv[1:]
    print(json.dumps(reading(int(port), protocol, int(n), int(at_once), float(rest))))
