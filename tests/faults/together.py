"""Writers of ours and of tensorstore on one shard, many of them: needs tensorstore beside terrazzo.

Run as a program this file is one of the writers, since tensorstore does not live on in forked processes:
`python -m tests.faults.together FOLDER WAY NUMBER ROUNDS`; the way "theirs" is tensorstore.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import terrazzo
from terrazzo.stores.local import LocalStore
from tests.faults.ways import BY_NAME, Way

__all__ = ["lost"]

EDGE = 64
#: tries of one of their writes that is told of an error
TRIES = 20


def value_of(number: int, turn: int) -> Any:
    return np.random.default_rng(number * 100_000 + turn).integers(1, 4 << (turn % 20), EDGE, dtype="i4")


def lost(root: Path, way: Way, ours: int, theirs: int, rounds: int) -> tuple[int, int]:
    """Of so many writers, each with an inner chunk of its own and so many rounds, those whose last value is not there,
    as we read it or as tensorstore does; and how often tensorstore told of an error and its writer tried again.

    tensorstore takes a file's size, then reads its index: of a shard that was appended to in between it finds entries
    past the end that it knows.
    """
    import tensorstore

    n = ours + theirs
    array = terrazzo.create_array(
        LocalStore(root),
        shape=(n * EDGE,),
        dtype="i4",
        chunks=(EDGE,),
        shards=(n * EDGE,),
        compressors=list(way.compressors),
        index_location=way.index_location,
        strategy=way.strategy,
    )
    array[...] = 1
    writers = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.faults.together", str(root)),
                *(way.name if number < ours else "theirs", str(number), str(rounds)),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(n)
    ]
    told = sum(int(writer.communicate()[0] or 0) for writer in writers)
    failed = sum(writer.returncode != 0 for writer in writers)
    wanted = np.stack([value_of(number, rounds - 1) for number in range(n)])
    spec = {"driver": "zarr3", "kvstore": f"file://{root}/"}
    read = (
        terrazzo.open_array(root, mode="r")[...],
        np.asarray(tensorstore.open(spec, open=True).result().read().result()),
    )
    wrong = [int((found.reshape(n, EDGE) != wanted).any(axis=1).sum()) for found in read]
    return failed + max(wrong), told


def main(root: str, way: str, number: int, rounds: int) -> None:
    mine = slice(number * EDGE, (number + 1) * EDGE)
    if way == "theirs":
        import tensorstore

        spec = {"driver": "zarr3", "kvstore": f"file://{root}/"}
        theirs = tensorstore.open(spec, open=True).result()
        told = 0
        for turn in range(rounds):
            for attempt in range(TRIES):
                try:
                    theirs[mine].write(value_of(number, turn)).result()
                    break
                except ValueError:
                    told += 1
                    if attempt == TRIES - 1:
                        raise
        print(told)
        return
    ours = terrazzo.open_array(LocalStore(root), mode="r+", strategy=BY_NAME[way].strategy)
    for turn in range(rounds):
        ours.using(durability="rename")[mine] = value_of(number, turn)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
