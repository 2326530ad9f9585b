"""The async face of writers and inventories: the same as for callers that wait."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import terrazzo
from terrazzo.arrays.asynchronous import AsyncArray
from terrazzo.stores.memory import MemoryStore


def made() -> AsyncArray:
    return terrazzo.create_array(
        MemoryStore(), shape=(0, 6), dtype="i4", chunks=(4, 6), shards=(16, 6)
    ).async_array


def test_a_writer() -> None:
    array = made()

    async def record() -> None:
        async with array.writer() as writer:
            await asyncio.gather(*(writer.write(np.s_[k : k + 1], k) for k in range(20)))
            assert writer.position == 20
            await writer.flush()
            assert writer.stored == 20
            assert await writer.append(np.full((5, 6), 7)) == 25

    asyncio.run(record())
    expected = np.repeat([*range(20), 7, 7, 7, 7, 7], 6).reshape(25, 6)
    np.testing.assert_array_equal(terrazzo.open_array(array.array.store)[...], expected)


def test_an_error_in_the_block_loses_nothing_that_was_given() -> None:
    array = made()

    async def record() -> None:
        async with array.writer() as writer:
            await writer.append(np.ones((3, 6)))
            raise KeyError("elsewhere")

    with pytest.raises(KeyError, match="elsewhere"):
        asyncio.run(record())
    assert terrazzo.open_array(array.array.store).shape == (3, 6)


def test_an_inventory() -> None:
    array = made()
    array.array.append(np.ones((9, 6)))
    found = asyncio.run(array.inventory(np.s_[:5], slack=True))
    assert len(found) == 2
    assert found.slack_nbytes == 0
