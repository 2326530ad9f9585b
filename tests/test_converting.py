"""Large values of another type: what is written is what numpy's assignment makes of them, window by window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.stores.memory import MemoryStore

SHAPE = (48, 40, 36)


@pytest.mark.parametrize(
    "selection",
    [
        ...,
        (slice(3, 45), slice(1, 39), slice(2, 35)),
        (slice(44, 2, -1), slice(None), slice(35, None, -2)),
        (slice(1, 47, 3), slice(None), slice(None)),
        (slice(None), 7, slice(None)),
        (slice(None), slice(None), np.array([35, 1, 1, 20])),
    ],
    ids=str,
)
@pytest.mark.parametrize("given", [">i4", "f8", "u1", "c8"])
@pytest.mark.parametrize("shards", [None, (16, 16, 16)])
def test_conversion_by_windows(selection: Any, given: str, shards: tuple[int, ...] | None) -> None:
    array = terrazzo.create_array(
        MemoryStore(), shape=SHAPE, chunks=(8, 8, 8), shards=shards, dtype="f4", fill_value=-1
    ).using(memory=1 << 13)
    wanted = np.full(SHAPE, -1, "f4")
    view = wanted[selection]
    value = (np.arange(view.size) % 251).astype(given).reshape(view.shape)
    with np.errstate(all="ignore"), pytest.warns() if given == "c8" else np.errstate():
        wanted[selection] = value
        array[selection] = value
    np.testing.assert_array_equal(array[...], wanted)


def test_values_that_broadcast_are_converted_where_they_lie() -> None:
    array = terrazzo.create_array(
        MemoryStore(), shape=SHAPE, chunks=(8, 8, 8), shards=(16, 16, 16), dtype="f4"
    ).using(memory=1 << 10)
    value = np.arange(40 * 36, dtype="i8").reshape(40, 36)
    array[...] = value
    np.testing.assert_array_equal(array[...], np.broadcast_to(value.astype("f4"), SHAPE))
