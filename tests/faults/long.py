"""The long searches, with ledgers: `python -m tests.faults.long power --count 50000`, and so on.

What it does not do: run with the suite; there each search has a short form. A ledger in ledgers/ says what was
searched (seeds, counts), at which commit, with what result. A search that finds something prints the seed and ends
with status 1.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import terrazzo
from tests.faults.conftest import SHARED_MEMORY
from tests.faults.ways import WAYS, Way

LEDGERS = Path(__file__).parent / "ledgers"
ROOT = Path(__file__).resolve().parents[2]
STATES_PER_STORY = 100


def power(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """`count` different states per way of writing."""
    from tests.faults.losses import recorded, states, violation_in

    for way in WAYS:
        with folder() as root:
            found: list[Any] = []
            distinct: set[bytes] = set()
            drawn, story_seed = 0, seed
            while len(distinct) < count:
                story = recorded(way, story_seed, root)
                for returned, disk, state in states(story, STATES_PER_STORY, random.Random(story_seed)):
                    drawn += 1
                    name = hashlib.blake2b(
                        repr((story_seed, returned, state)).encode(), digest_size=12
                    ).digest()
                    if name in distinct:
                        continue
                    distinct.add(name)
                    wrong = violation_in(story, returned, disk, state, root / "state")
                    if wrong is not None:
                        found.append({"seed": story_seed, "returned": returned, "what": wrong})
                story_seed += 1
            yield {
                "way": way.name,
                "seeds": [seed, story_seed],
                "states drawn": drawn,
                "different states": len(distinct),
                "violations": found,
            }


def reads(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """`count` reads per way of writing, by two readers, during rewrites."""
    from tests.faults.test_readers import race

    for way in WAYS:
        with folder() as root:
            n, wrong, errors = race(root, way, count)
            yield {
                "way": way.name,
                "reads": n,
                "wrong": wrong,
                "errors": errors,
                "violations": wrong + errors,
            }


def mutations(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """`count` mutations of shards with the default codecs, half of them with the index at the start."""
    from tests.faults.test_mutations import silently_wrong

    terrazzo.read.flow.time.sleep = lambda _: None  # type: ignore[attr-defined]
    for place in ("end", "start"):
        n, errors, wrong = silently_wrong(count // 2, seed, place)
        yield {"index": place, "seed": seed, "mutations": n, "errors": errors, "violations": wrong}


def writers(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """`count` writes per way by 16 processes, each with an inner chunk of its own; the last value of each is there."""
    for way in WAYS:
        with folder() as root:
            n, lost = lost_updates(root, way, count)
            yield {"way": way.name, "processes": 16, "writes": n, "violations": lost}


def lost_updates(root: Path, way: Way, count: int) -> tuple[int, int]:
    from tests.faults.test_writers import in_processes
    from tests.faults.ways import CHUNK, made, noise, opened

    n = 16
    made(root, way, shape=(CHUNK[0] * n, CHUNK[1]), shards=(CHUNK[0] * n, CHUNK[1]))[0, 0] = 1
    rounds = -(-count // n)

    def value(number: int, turn: int) -> Any:
        return noise(number * 100_000 + turn, CHUNK, bits=2 + 5 * (turn % 6))

    def work(number: int) -> None:
        array = opened(root, way).using(durability="rename")
        for turn in range(rounds):
            array[number * CHUNK[0] : (number + 1) * CHUNK[0]] = value(number, turn)

    in_processes([lambda number=number: work(number) for number in range(n)])
    found = opened(root, way)[...]
    lost = sum(
        not (found[number * CHUNK[0] : (number + 1) * CHUNK[0]] == value(number, rounds - 1)).all()
        for number in range(n)
    )
    return n * rounds, lost


def machine(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """`count` examples of 50 steps of the state machine."""
    environment = {**os.environ, "MACHINE_EXAMPLES": str(count), "MACHINE_STEPS": "50"}
    arguments = ["-q", "-p", "no:cacheprovider", f"--hypothesis-seed={seed}", "tests/faults/test_machine.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments],
        cwd=ROOT,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        print(done.stdout)
    yield {"seed": seed, "examples": count, "steps": 50, "violations": int(done.returncode != 0)}


def merges(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """`count` appended steps are merged, cut off at every third operation; at every 2000th one and at the first ones of
    each kind the disk is copied."""
    from tests.faults.merging import search

    with folder() as root:
        yield search(root, count, 3, 2000)


def appends(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Processes that append `count` steps each beside one another, by buffered writers; one is killed forty times."""
    from tests.test_writers_together import killed_among_others

    for layout in ("shards", "plain"):
        with folder() as root:
            died, wrong = killed_among_others(str(root / "a.zarr"), layout, 40, count, seed)
            counts = {"layout": layout, "seed": seed, "processes": 4, "steps of each": count, "deaths": died}
            yield {**counts, "violations": wrong}


def flips(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """`count` single bits of shards with the default codecs are flipped, one at a time, and `check` looks."""
    import numpy as np

    from terrazzo.care import check
    from terrazzo.stores.memory import MemoryStore

    terrazzo.read.flow.time.sleep = lambda _: None  # type: ignore[attr-defined]
    dice = random.Random(seed)
    for place in ("end", "start"):
        store = MemoryStore()
        values = np.random.default_rng(seed).integers(1, 60, (8, 16), dtype="i4")
        terrazzo.create_array(store, data=values, chunks=(4, 4), shards=(8, 16), index_location=place)
        body = store.get("c/0/0") or b""
        index = range(len(body) - 8 * 16 - 4, len(body)) if place == "end" else range(8 * 16 + 4)
        missed, in_index = [], 0
        for _ in range(count // 2):
            bit = dice.randrange(8 * len(body))
            bad = bytearray(body)
            bad[bit // 8] ^= 1 << bit % 8
            store.set("c/0/0", bytes(bad))
            in_index += bit // 8 in index
            if not check(store, verify_data=True).corrupt:
                missed.append(bit)
        yield {
            "index": place,
            "seed": seed,
            "flips": count // 2,
            "of them in the index": in_index,
            "violations": missed,
        }


def inventories(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """The inventory of `count` inner chunks in 16 shards, from a folder that was not opened before: under 2 seconds."""
    import numpy as np

    from terrazzo.stores.local import LocalStore

    edge = int(count**0.5)
    for place in ("end", "start"):
        with folder() as root:
            how: dict[str, Any] = {"chunks": (1, 1), "shards": (-(-edge // 4), -(-edge // 4))}
            array = terrazzo.create_array(
                LocalStore(root),
                shape=(edge, edge),
                dtype="u1",
                compressors=None,
                index_location=place,
                **how,
            )
            array.using(durability="none")[...] = 1
            start = time.perf_counter()
            found = terrazzo.open_array(LocalStore(root), mode="r").inventory()
            seconds = time.perf_counter() - start
            wrong = len(found) != edge * edge or len(np.unique(found.chunks, axis=0)) != edge * edge
            yield {
                "index": place,
                "inner chunks": len(found),
                "seconds": round(seconds, 3),
                "violations": int(wrong or seconds > 2),
            }


def together(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """`count` rounds per way by 8 writers of ours and 4 of tensorstore, each with an inner chunk of its own."""
    from tests.faults.together import lost

    for way in WAYS:
        with folder() as root:
            found, told = lost(root, way, 8, 4, count)
            counts = {"ours": 8, "tensorstore's": 4, "rounds": count, "errors told to theirs": told}
            yield {"way": way.name, **counts, "violations": found}


SEARCHES = {
    "power": power,
    "reads": reads,
    "mutations": mutations,
    "writers": writers,
    "machine": machine,
    "merges": merges,
    "appends": appends,
    "together": together,
    "flips": flips,
    "inventories": inventories,
}


class folder:
    """A folder in memory, where there is some, for the length of a block."""

    def __enter__(self) -> Path:
        at = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
        self.path = Path(tempfile.mkdtemp(prefix="terrazzo-", dir=at))
        return self.path

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def commit() -> str:
    """The commit that was searched; "+" where the library differs from it."""
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    changed = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "src", "kernel"], cwd=ROOT, check=False)
    return head.strip() + ("+" if changed.returncode else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("search", choices=SEARCHES)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="ways of writing whose names contain this")
    parser.add_argument("--ledgers", type=Path, default=LEDGERS)
    asked = parser.parse_args()
    WAYS[:] = [way for way in WAYS if asked.only in way.name]
    head, start, results, bad = commit(), time.time(), [], 0
    for result in SEARCHES[asked.search](asked.count, asked.seed):
        print(json.dumps(result), flush=True)
        results.append(result)
        bad += bool(result["violations"])
    ledger = {
        "search": asked.search,
        "command": f"python -m tests.faults.long {asked.search} --count {asked.count} --seed {asked.seed}"
        + (f" --only {asked.only}" if asked.only else ""),
        "commit": head,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "seconds": round(time.time() - start),
        "results": results,
    }
    asked.ledgers.mkdir(exist_ok=True, parents=True)
    name = "-".join(filter(None, (asked.search, asked.only)))
    (asked.ledgers / f"{name}.json").write_text(json.dumps(ledger, indent=1) + "\n", encoding="utf-8")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
