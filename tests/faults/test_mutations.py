"""Shards with the default codecs whose bytes were changed at random: an error, or the values that were written.

The long run is `make faults-long`.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import terrazzo
from terrazzo.errors import TerrazzoError
from terrazzo.stores.memory import MemoryStore

MUTATIONS = 1500


def mutated(shard: bytes, dice: random.Random) -> bytes:
    """One to four bytes are others than before, side by side or anywhere."""
    n = dice.randint(1, 4)
    if dice.random() < 0.4:
        start = dice.randrange(len(shard) - n)
        places = list(range(start, start + n))
    else:
        places = dice.sample(range(len(shard)), n)
    changed = bytearray(shard)
    for place in places:
        changed[place] ^= dice.randint(1, 255)
    return bytes(changed)


def silently_wrong(n: int, seed: int, index_location: str = "end", **how: object) -> tuple[int, int, int]:
    """(mutations, errors, silently wrong) over shards of one array with the codecs that are left to us."""
    dice = random.Random(seed)
    store = MemoryStore()
    value = np.random.default_rng(seed).integers(0, 50, (32, 48), dtype="i4")
    value[:8, :12] = 0
    array = terrazzo.create_array(
        store, data=value, chunks=(8, 12), shards=(32, 48), index_location=index_location, **how
    )
    (key,) = [key for key in store.list() if key.startswith("c/")]
    whole = store.get(key)
    assert whole is not None
    errors = wrong = 0
    for _ in range(n):
        store.set(key, mutated(whole, dice))
        try:
            found = array[...]
        except TerrazzoError:
            errors += 1
        else:
            wrong += not np.array_equal(found, value)
    return n, errors, wrong


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("terrazzo.read.flow.time.sleep", lambda _: None)


@pytest.mark.parametrize("index_location", ["start", "end"])
def test_changed_bytes_are_noticed(index_location: str) -> None:
    n, errors, wrong = silently_wrong(MUTATIONS, 1, index_location)
    assert wrong == 0
    assert errors == n, "every byte of a fresh shard counts"


def test_without_checksums_they_are_not() -> None:
    """It is the checksum that notices: the same search finds wrong values where there is none."""
    _, _, wrong = silently_wrong(MUTATIONS // 3, 2, compressors=None)
    assert wrong > MUTATIONS // 6


def test_shards_cut_short_or_made_longer_are_noticed() -> None:
    store = MemoryStore()
    value = np.arange(32 * 48, dtype="i4").reshape(32, 48)
    array = terrazzo.create_array(store, data=value, chunks=(8, 12), shards=(32, 48))
    (key,) = [key for key in store.list() if key.startswith("c/")]
    whole = store.get(key)
    assert whole is not None
    for size in [0, 1, 10, 16 * 16 + 3, 16 * 16 + 4, *range(16 * 16 + 5, len(whole), 97)]:
        store.set(key, whole[:size])
        with pytest.raises(TerrazzoError):
            array[...]
    store.set(key, whole + b"\0")
    with pytest.raises(TerrazzoError):
        array[...]
