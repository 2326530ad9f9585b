"""Clients that write to one shard at once, in processes of their own, through a network that fails: what is lost?

What it does not do: run with the suite at length; test_soak.py runs it small, long.py at full size with a ledger.

A client adds one, again and again: to numbers of its own in an inner chunk of its own (every other turn), to a
number of its own in an inner chunk that all of them write, and, by compare-and-swap at the store, to a counter that
all of them share. Readers look meanwhile.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import terrazzo
from terrazzo.errors import ConflictError, TerrazzoError
from terrazzo.stores.open import open_store
from tests.remote.proxy import FaultProxy
from tests.remote.servers import Server

__all__ = ["FIVE_PERCENT", "soak"]

ROOT = Path(__file__).resolve().parents[2]
#: 5 % of each fault
FIVE_PERCENT = dict.fromkeys(("lost", "late 500", "reset", "cut", "500", "503", "429", "drip"), 0.05)
WIDTH = 64


def soak(
    server: Server, *, clients: int, turns: int, readers: int, faults: dict[str, float], seed: int, path: str
) -> dict[str, Any]:
    """Counts, and what was wrong."""
    address, direct = server.address(path), server.options()
    array = terrazzo.create_array(
        address,
        shape=(clients + 1, WIDTH),
        chunks=(1, WIDTH),
        shards=(clients + 1, WIDTH),
        dtype="i8",
        fill_value=-1,
        storage_options=direct,
    )
    array[...] = 0
    open_store(address, **direct)[0].set("counter", b"0")
    with FaultProxy(server.port, faults, seed=seed, drip=0.02) as proxy:
        # a third of the requests fail: more tries than usual
        options = {**server.options(proxy.port), "tries": 30}
        started = time.time()
        writing = [_start("write", address, options, i, turns, clients) for i in range(clients)]
        reading = [_start("read", address, options, i, turns, clients) for i in range(readers)]
        told = [_ended(one) for one in writing]
        for one in reading:
            assert one.stdin is not None
            one.stdin.close()
        seen = [_ended(one) for one in reading]
        done = dict(sorted(proxy.done.items()))
    found = terrazzo.open_array(address, mode="r", storage_options=direct)[...]
    counter = open_store(address, **direct)[0].get("counter")
    assert counter is not None
    own = turns - turns // 2
    expected = np.zeros((clients + 1, WIDTH), "i8")
    for number in range(clients):
        expected[number] = own
        expected[clients, number] = turns // 2
    errors = [error for one in told + seen for error in one["errors"]]
    return {
        "server": server.name,
        "clients": clients,
        "compare-and-swaps": clients * turns * 2,
        "seed": seed,
        "faults": faults,
        "requests": done,
        "conflicts of the counter": sum(one["conflicts"] for one in told),
        "reads": sum(one["reads"] for one in seen),
        "reads that were wrong": sum(one["wrong"] for one in seen),
        "errors": errors[:10],
        "lost": int((found != expected).sum()) + int(int(counter) != clients * turns),
        "counter": [int(counter), clients * turns],
        "seconds": round(time.time() - started),
        "violations": int((found != expected).sum())
        + int(int(counter) != clients * turns)
        + sum(one["wrong"] for one in seen)
        + len(errors),
    }


def _start(*what: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.remote.soak", json.dumps(what)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None and process.stdin is not None
    with process.stdout:
        text = process.stdout.read()
    process.stdin.close()
    assert process.wait() == 0, "a client ended early"
    told: dict[str, Any] = json.loads(text)
    return told


def write(address: str, options: dict[str, Any], number: int, turns: int, clients: int) -> dict[str, Any]:
    """A client that writes. What it wrote it wrote once: an error is not made good by another try."""
    array = terrazzo.open_array(address, mode="r+", storage_options=options)
    store, path = open_store(address, **options)
    key = f"{path}/counter".lstrip("/")
    errors: list[str] = []
    conflicts = 0
    dice = random.Random(number)
    for turn in range(turns):
        try:
            if turn % 2 == 0:
                array[number] = array[number] + 1
            else:
                array[clients, number] = array[clients, number] + 1
        except TerrazzoError as error:
            errors.append(f"array: {type(error).__name__}: {error}")
        while True:
            try:
                tag, value = _with_tag(store, key)
                store.set_if(key, b"%d" % (value + 1), tag)
                break
            except ConflictError:
                conflicts += 1
                time.sleep(dice.random() * 0.02)
            except TerrazzoError as error:
                errors.append(f"counter: {type(error).__name__}: {error}")
                break
    return {"errors": errors, "conflicts": conflicts}


def _with_tag(store: Any, key: str) -> tuple[Any, int]:
    """The version of the counter, and its value in that version."""
    (source,) = store.open([terrazzo.stores.store.Open(key, terrazzo.stores.store.ALL)])
    with source:
        return source.tag, int(bytes(source.first))


def read(address: str, options: dict[str, Any], number: int, turns: int, clients: int) -> dict[str, Any]:
    """A client that reads until its input ends: each number is one that was written, and none goes back."""
    import threading

    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    array = terrazzo.open_array(address, mode="r", storage_options=options)
    last = np.zeros((clients + 1, WIDTH), "i8")
    reads = wrong = 0
    errors: list[str] = []
    dice = random.Random(1000 + number)
    while not over.is_set() or not reads:
        rows = slice(None) if dice.random() < 0.3 else slice(row := dice.randrange(clients + 1), row + 1)
        try:
            found = array[rows]
        except TerrazzoError as error:
            errors.append(f"read: {type(error).__name__}: {error}")
            continue
        reads += 1
        own = found[: clients if rows == slice(None) or rows.start < clients else 0]
        wrong += bool((own != own[:, :1]).any() or (found < last[rows]).any() or (found > turns).any())
        last[rows] = np.maximum(last[rows], found)
    return {"errors": errors, "reads": reads, "wrong": wrong}


def main() -> None:
    kind, *what = json.loads(sys.argv[1])
    print(json.dumps({"write": write, "read": read}[kind](*what)))


if __name__ == "__main__":
    main()
