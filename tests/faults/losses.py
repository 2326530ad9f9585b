"""Searching the states that a power loss can leave: what is recorded, what must hold in every state, and the search.

Everything follows from a seed: the writes, where the power goes, and what of them reached the disk.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import terrazzo
from terrazzo.errors import TerrazzoError
from terrazzo.stores.local import LocalStore
from tests.faults.power import RETURNED, SYNCS, Disk, Operation, Recording, crash, lay
from tests.faults.ways import CHUNK, SHAPE, Way, left_overs, made, noise

__all__ = ["Story", "Violation", "recorded", "states", "syncs_of", "told", "violation_in"]

Value = np.ndarray[Any, Any]


class Violation(AssertionError):
    """A state in which a promise does not hold."""


@dataclass(frozen=True)
class Story:
    """What was recorded: the disk before, the operations, and the array after 0, 1, 2, ... of the writes.

    unmended: what else may be seen before anything was mended, where the story starts after a power loss.
    """

    way: Way
    base: Disk
    log: list[Operation]
    inodes: dict[int, int]
    values: list[Value]
    unmended: list[Value]


def recorded(way: Way, seed: int, folder: Path, n_writes: int = 3, twice: float = 0.3) -> Story:
    """Some writes to an array. In a share `twice` of the stories, they start where an earlier power loss left it."""
    dice = random.Random(seed)
    root = folder / "recorded"
    shutil.rmtree(root, ignore_errors=True)
    array = made(root, way)
    value = np.zeros(SHAPE, "i4")
    if dice.random() < 0.8:
        value[...] = noise(seed, SHAPE, bits=12)
        if dice.random() < 0.5:
            value[CHUNK[0] :, CHUNK[1] :] = 0
        array[...] = value
    story = _told(way, root, [value], dice, n_writes)
    if dice.random() < twice:
        stop = dice.randrange(len(story.log))
        disk = story.base.at(story.log, stop)
        state = crash(disk, dice)
        before = story.values
        again = folder / "again"
        lay(state, disk, story.inodes, again)
        _array(again, way).store.recover("c/0/0")
        value = np.array(_array(again, way)[...])
        lay(state, disk, story.inodes, root)
        story = replace(_told(way, root, [value], dice, n_writes), unmended=before)
    return story


def _told(way: Way, root: Path, values: list[Value], dice: random.Random, n_writes: int) -> Story:
    files = Recording(root)
    base = files.base
    array = _array(root, way, files)
    for _ in range(n_writes):
        value = values[-1].copy()
        place, fresh = told(dice)
        array[place] = fresh
        value[place] = fresh
        files.returned()
        values.append(value)
    return Story(way, base, files.log, files.inodes, values, [])


def told(dice: random.Random) -> tuple[tuple[slice, ...], Any]:
    """One write: where, and what."""
    how = dice.random()
    bits = dice.choice((2, 12, 20, 31))
    seed = dice.randrange(1 << 30)
    i, j = (dice.randrange(0, n, c) for n, c in zip(SHAPE, CHUNK, strict=True))
    chunk = (slice(i, i + CHUNK[0]), slice(j, j + CHUNK[1]))
    if how < 0.45:
        return chunk, noise(seed, CHUNK, bits)
    if how < 0.6:
        return chunk, 0
    if how < 0.7:
        return (slice(None), slice(None)), noise(seed, SHAPE, bits)
    i, j = dice.randrange(SHAPE[0] - 12), dice.randrange(SHAPE[1] - 16)
    place = (slice(i, i + dice.randint(1, 12)), slice(j, j + dice.randint(1, 16)))
    return place, noise(seed, tuple(s.stop - s.start for s in place), bits)


def _array(root: Path, way: Way, files: Any = None) -> terrazzo.Array:
    return terrazzo.open_array(LocalStore(root, files=files), mode="r+", strategy=way.strategy)


def states(
    story: Story,
    n: int,
    dice: random.Random,
    log: Sequence[Operation] | None = None,
    window: tuple[int, int] | None = None,
) -> Iterator[Any]:
    """(number of returned writes, disk, state) of `n` power losses, at places all over the log, or in a part of it."""
    log = story.log if log is None else log
    first, last = window or (0, len(log))
    stops = sorted(dice.randint(first, min(last, len(log))) for _ in range(n))
    disk, done, returned = story.base.copy(), 0, 0
    for stop in stops:
        for operation in log[done:stop]:
            disk.after(operation)
            returned += operation[0] == RETURNED
        done = max(done, stop)
        yield returned, disk, crash(disk, dice)


def violation_in(story: Story, returned: int, disk: Disk, state: Any, at: Path) -> str | None:
    """What is wrong with a state, if anything."""
    lay(state, disk, story.inodes, at)
    allowed = story.values[returned : returned + 2]
    at_first = allowed if returned else allowed + story.unmended
    try:
        array = _array(at, story.way)
        if story.way.strategy.name != "in-place":
            _one_of(array[...], at_first, "at first sight")
        else:
            found = array[...]
            for i in range(0, SHAPE[0], CHUNK[0]):
                for j in range(0, SHAPE[1], CHUNK[1]):
                    chunk = (slice(i, i + CHUNK[0]), slice(j, j + CHUNK[1]))
                    _one_of(found[chunk], [value[chunk] for value in at_first], f"inner chunk at {i}, {j}")
        array.store.recover("c/0/0")
        value = _one_of(array[...], allowed, "mended").copy()
        array[3:5, 30:34] = 9
        value[3:5, 30:34] = 9
        _one_of(_array(at, story.way)[...], [value], "after the next write")
        if left_overs(at):
            return f"left over: {left_overs(at)}"
    except Violation as wrong:
        return str(wrong)
    except TerrazzoError as error:
        return f"{type(error).__name__}: {error}"
    return None


def _one_of(found: Value, allowed: Sequence[Value], when: str) -> Value:
    for value in allowed:
        if np.array_equal(found, value):
            return value
    raise Violation(f"{when}: neither of the values that may be there")


def syncs_of(story: Story) -> list[int]:
    """Where in the log the syncs are."""
    return [i for i, operation in enumerate(story.log) if operation[0] in SYNCS]
