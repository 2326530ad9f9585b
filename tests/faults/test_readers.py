"""Readers while a shard is rewritten: every read is a value that was written, whole; no error is shown.

The unit is the write for `Replace` and `Append`, and the inner chunk for `InPlace`. Here each reader also finds that
time does not go backwards. The long run is `make faults-long`.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest

import terrazzo
from tests.faults.ways import CHUNK, SHAPE, WAYS, Way, made, opened

READS = 400


def rewriting(root: Path, way: Way) -> None:
    """Write turn after turn: all chunks the same number, in lengths that change, so that they move about."""
    array = opened(root, way).using(durability="rename")
    dice = np.random.default_rng(os.getpid())
    turn, parent = 0, os.getppid()
    while os.getppid() == parent:  # not for ever, where whoever counts was killed
        turn += 1
        for i in range(0, SHAPE[0], CHUNK[0]):
            for j in range(0, SHAPE[1], CHUNK[1]):
                # The upper half tells the turn; the lower one is noise that compresses well or badly.
                value = np.full(CHUNK, turn << 12, "i4")
                value += dice.integers(0, 1 << (turn % 12), CHUNK, dtype="i4")
                array[i : i + CHUNK[0], j : j + CHUNK[1]] = value


def checked_reads(root: Path, way: Way, n: int) -> tuple[int, int]:
    """(wrong, errors) of n reads of one chunk or of all."""
    array = terrazzo.open_array(root, mode="r")
    seen = np.zeros((2, 2), "i8")
    wrong = errors = 0
    for k in range(n):
        i, j = divmod(k % 4, 2)
        place = (slice(i * CHUNK[0], (i + 1) * CHUNK[0]), slice(j * CHUNK[1], (j + 1) * CHUNK[1]))
        try:
            found = array[place] if k % 5 else array[...][place]
        except terrazzo.errors.TerrazzoError:
            errors += 1
            continue
        turns = np.unique(found >> 12)
        if len(turns) != 1 or turns[0] < seen[i, j]:
            wrong += 1
        seen[i, j] = max(seen[i, j], turns.max())
    return wrong, errors


def race(root: Path, way: Way, n: int, readers: int = 2) -> tuple[int, int, int]:
    """(reads, wrong, errors) of several readers in processes of their own against one writer in another."""
    made(root, way)[...] = 1 << 12
    writer = os.fork()
    if writer == 0:
        try:
            rewriting(root, way)
        finally:
            os._exit(1)
    pipes = []
    for _ in range(readers):
        ours, theirs = os.pipe()
        if os.fork() == 0:
            try:
                os.write(theirs, struct.pack("qq", *checked_reads(root, way, n // readers)))
            finally:
                os._exit(0)
        os.close(theirs)
        pipes.append(ours)
    counts = [struct.unpack("qq", os.read(pipe, 16) or struct.pack("qq", -1, -1)) for pipe in pipes]
    for pipe in pipes:
        os.close(pipe)
        os.wait()
    os.kill(writer, 9)
    _, status = os.waitpid(writer, 0)
    assert os.WIFSIGNALED(status), "the writer was at work until the end"
    return n, sum(wrong for wrong, _ in counts), sum(errors for _, errors in counts)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_reads_during_rewrites(root: Path, way: Way) -> None:
    assert race(root, way, READS) == (READS, 0, 0)
    opened(root, way)[...] = 3
    assert (opened(root, way)[...] == 3).all()


def test_an_open_source_stays_the_version_it_was(root: Path) -> None:
    """What a reader opened is read to the end, however often the shard was replaced since."""
    from terrazzo.stores.local import LocalStore
    from terrazzo.stores.store import Open

    way = WAYS[0]
    array = made(root, way)
    array[...] = 5
    store = LocalStore(root)
    (source,) = store.open([Open("c/0/0", (-68, None))])
    assert source is not None and source.size is not None
    whole = (root / "c/0/0").read_bytes()
    for turn in range(20):
        array[...] = turn + 6
    ((found,),) = store.fetch([(source, [(0, source.size)])])
    assert bytes(found) == whole
    source.close()
