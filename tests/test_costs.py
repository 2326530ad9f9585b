"""What things cost, in counts: calls of Python functions, requests and round trips of a store, bytes. Never time.

The kernel does what has to be done for each inner chunk; Python plans a selection as a whole. So four thousand inner
chunks cost Python what sixty-four cost, and a constant. Time is watched in bench/.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.stores.local import LocalStore
from terrazzo.stores.memory import MemoryStore
from terrazzo.stores.store import Store
from terrazzo.stores.watching import CountingStore

SHAPE = (64, 64, 64)
#: calls that a selection may cost more when it is cut into 4,096 inner chunks instead of 64
MORE = 100
#: and more than that for selections that touch so few of the 64 that they are planned in a cheaper way of their own
PLANNED_SMALL = {"plane along the first axis": 150, "plane along the last axis": 150, "read of many": 150}
VALUES = np.arange(np.prod(SHAPE), dtype=np.uint16).reshape(SHAPE)
PART = (slice(1, 60),) * 3


def calls(work: Callable[[], object]) -> int:
    """Python functions and C functions that Python calls while `work` runs (the kernel's own do not count)."""
    count = 0

    def seen(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def stored(store: Store, *, inner: int, shard: int | None = 64, **how: Any) -> Any:
    chunks = (inner,) * 3
    array = terrazzo.create_array(
        store,
        shape=SHAPE,
        chunks=chunks,
        shards=None if shard is None else (shard,) * 3,
        dtype="uint16",
        **how,
    ).using(durability="none")
    array[...] = VALUES
    return array


SELECTIONS: dict[str, Callable[[Any], object]] = {
    "whole read": lambda array: array[...],
    "plane along the first axis": lambda array: array[3],
    "plane along the last axis": lambda array: array[:, :, 3],
    "box": lambda array: array[PART],
    "strided box": lambda array: array[1:60:3, ::2, 5:],
    "read of many": lambda array: array.read_many([(slice(0, 16),) * 3, (slice(40, 64),) * 3]),
    "whole write": lambda array: array.__setitem__(..., VALUES),
    "partial write": lambda array: array.__setitem__(PART, VALUES[PART]),
}


@pytest.mark.parametrize("codec", ["zstd", None])
@pytest.mark.parametrize("name", SELECTIONS)
def test_calls_do_not_grow_with_the_number_of_inner_chunks(
    tmp_path: Path, name: str, codec: str | None
) -> None:
    found = []
    for inner in (16, 4):  # 64 inner chunks, and 4,096
        array = stored(LocalStore(tmp_path / str(inner)), inner=inner, compressors=codec)
        SELECTIONS[name](array)  # what is made once does not count
        found.append(calls(lambda array=array: SELECTIONS[name](array)))  # type: ignore[misc]
    few, many = found
    lots = 2 if name == "read of many" else 1
    assert many <= few + (2 * lots - 1) * MORE + PLANNED_SMALL.get(name, 0)


def test_fancy_selections_cost_as_many_calls_for_many_elements_as_for_few(tmp_path: Path) -> None:
    array = stored(LocalStore(tmp_path), inner=4)
    few = (np.arange(4), np.arange(4), np.arange(4))
    many = tuple(np.arange(4000) % 64 for _ in range(3))
    array.vindex[few]
    assert calls(lambda: array.vindex[many]) <= calls(lambda: array.vindex[few]) + MORE


def test_one_inner_chunk_is_read_in_a_hundred_calls(tmp_path: Path) -> None:
    array = stored(LocalStore(tmp_path), inner=16)
    array[:16, :16, :16]
    assert calls(lambda: array[16:32, :16, 32:48]) <= 103


def test_a_batch_costs_less_for_each_selection_than_one_by_one(tmp_path: Path) -> None:
    array = stored(LocalStore(tmp_path), inner=16)
    chosen = [tuple(slice(16 * i, 16 * i + 16) for i in np.unravel_index(k, (4, 4, 4))) for k in range(64)]
    array.read_many(chosen)
    batched = calls(lambda: array.read_many(chosen))
    alone = sum(calls(lambda one=one: array[one]) for one in chosen)  # type: ignore[misc]
    assert batched < 0.45 * alone


def test_a_shard_more_costs_a_constant_more(tmp_path: Path) -> None:
    found = []
    for shard in (64, 32, 16):  # 1, 8 and 64 shards
        array = stored(LocalStore(tmp_path / str(shard)), inner=8, shard=shard)
        array[...]
        found.append(calls(lambda array=array: array[...]))  # type: ignore[misc]
    one, eight, sixty_four = found
    assert eight - one <= 7 * 35 + MORE
    assert sixty_four - one <= 63 * 35 + MORE


def test_a_plain_chunk_more_costs_a_constant_more(tmp_path: Path) -> None:
    found = []
    for chunk in (64, 8):  # 1 and 512 chunks
        array = stored(LocalStore(tmp_path / str(chunk)), inner=chunk, shard=None)
        array[...]
        found.append(calls(lambda array=array: array[...]))  # type: ignore[misc]
    one, many = found
    assert many - one <= 511 * 25 + MORE


# requests


@pytest.fixture(params=["memory", "local"])
def counting(request: pytest.FixtureRequest, tmp_path: Path) -> CountingStore:
    return CountingStore(MemoryStore() if request.param == "memory" else LocalStore(tmp_path))


def requests(store: CountingStore, work: Callable[[], object]) -> tuple[dict[str, int], dict[str, int]]:
    """Requests and round trips of every verb that `work` needs."""
    store.reset()
    work()
    counts = store.counts
    return dict(counts.requests), dict(counts.round_trips)


def test_an_array_is_opened_by_one_request(counting: CountingStore) -> None:
    stored(counting, inner=8, shard=32)
    for mode in ("r", "r+"):
        assert requests(counting, lambda mode=mode: terrazzo.open_array(counting, mode=mode)) == (  # type: ignore[misc]
            {"open": 1},
            {"open": 1},
        )


def test_a_read_opens_every_shard_once_and_all_of_them_at_once(counting: CountingStore) -> None:
    array = stored(counting, inner=8, shard=32)
    assert requests(counting, lambda: array[...]) == ({"open": 8}, {"open": 1})
    assert requests(counting, lambda: array[:, :, 3]) == ({"open": 4}, {"open": 1})
    assert requests(counting, lambda: array[:8, :8, :8]) == ({"open": 1}, {"open": 1})


def test_a_batch_of_reads_opens_every_shard_once(counting: CountingStore) -> None:
    array = stored(counting, inner=8, shard=32)
    chosen = [(slice(8 * i, 8 * i + 8), slice(0, 8), slice(0, 8)) for i in range(8)]  # over two shards
    assert requests(counting, lambda: array.read_many(chosen)) == ({"open": 2}, {"open": 1})


def test_an_index_is_fetched_once(counting: CountingStore) -> None:
    stored(counting, inner=8, shard=32)
    array = terrazzo.open_array(counting, mode="r")
    index_nbytes = 64 * 16 + 4
    counting.reset()
    array[:8, :8, :8]
    assert counting.counts.read_nbytes == index_nbytes
    array[8:16, :8, :8]
    assert counting.counts.read_nbytes == index_nbytes


def test_a_plain_read_opens_the_chunks_it_touches_at_once(counting: CountingStore) -> None:
    array = stored(counting, inner=32, shard=None)
    assert requests(counting, lambda: array[...]) == ({"open": 8}, {"open": 1})
    assert requests(counting, lambda: array[40]) == ({"open": 4}, {"open": 1})


def test_what_is_whole_is_not_read_before_it_is_written(counting: CountingStore) -> None:
    array = stored(counting, inner=8, shard=32)
    counting.reset()
    array[...] = VALUES
    counts = counting.counts
    # but for its index, which tells whether it is a file of another format too
    assert counts.read_nbytes <= 8 * (64 * 16 + 4)
    assert dict(counts.requests) == {"hold": 8, "commit": 8}
    assert counts.round_trips["commit"] == 1
    array.store.erase_prefix("c/")
    counting.reset()
    array[...] = VALUES
    assert counting.counts.read_nbytes == 0


def test_a_change_of_one_inner_chunk_touches_one_shard(counting: CountingStore) -> None:
    array = stored(counting, inner=8, shard=32)
    changed = requests(counting, lambda: array.__setitem__((slice(0, 8),) * 3, 7))
    assert changed == ({"hold": 1, "commit": 1}, {"hold": 1, "commit": 1})


def test_a_document_is_created_by_two_looks_and_a_write(counting: CountingStore) -> None:
    """Whether a document is there, whether anything else is (it would become the array's), and the write."""
    how = {"shape": (8,), "chunks": (8,), "dtype": "uint8"}
    _, round_trips = requests(counting, lambda: terrazzo.create_array(counting, **how))
    assert round_trips == {"open": 1, "list_prefix": 1, "hold": 1, "commit": 1}
