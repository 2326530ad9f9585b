"""Merging small chunks at the end: equal to numpy, tail only, and whole wherever a process dies."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.arrays.array import Array
from terrazzo.arrays.merging import MEMBER
from terrazzo.care.check import check
from terrazzo.care.merge import merge
from terrazzo.errors import ConflictError, MetadataError, ReadOnlyError
from terrazzo.stores.local import LocalStore
from terrazzo.stores.memory import MemoryStore
from tests.faults.layers import Counting, Killing

SHARDED: dict[str, Any] = dict(chunks=(2, 3), shards=([8], [6, 3]))
PLAIN: dict[str, Any] = dict(chunks=([8], [6, 3]))


def made(store: Any, how: dict[str, Any], steps: int = 7) -> tuple[Array, np.ndarray[Any, Any]]:
    """Eight rows in one chunk, then so many appends of two rows, each a chunk of its own; some of it fill value."""
    values = np.random.default_rng(4).integers(1, 50, (8 + 2 * steps, 9), dtype="i4")
    values[10:14, 3:] = 0
    array = terrazzo.create_array(store, data=values[:8], **how)
    for start in range(8, len(values), 2):
        array.append(values[start : start + 2])
    return array, values


@pytest.mark.parametrize("how", [SHARDED, PLAIN], ids=["sharded", "plain"])
def test_appended_chunks_become_larger_ones(how: dict[str, Any]) -> None:
    store = MemoryStore()
    array, values = made(store, how)
    assert array.write_chunk_sizes[0] == (8, 2, 2, 2, 2, 2, 2, 2)
    head = store.get("c/0/0")
    merged = merge(array)
    assert merged.write_chunk_sizes[0] == (8, 8, 6)
    np.testing.assert_array_equal(merged[...], values)
    assert store.get("c/0/0") == head and store.get("c/3/0") is None
    again = terrazzo.open_array(store)
    assert again.write_chunk_sizes == merged.write_chunk_sizes
    np.testing.assert_array_equal(again[...], values)
    assert check(store, verify_data=True).ok and not any("merge" in key for key in store.list())
    again.append(np.ones((2, 9), "i4"))
    assert merge(again).write_chunk_sizes[0] == (8, 8, 8)
    assert merge(again.store).write_chunk_sizes[0] == (8, 8, 8)  # nothing is left to do


def test_the_edge_may_be_given() -> None:
    array, values = made(MemoryStore(), SHARDED)
    seen: list[tuple[int, int]] = []
    merged = merge(array, edge=4, progress=lambda *done: seen.append(done))
    assert merged.write_chunk_sizes[0] == (8, 4, 4, 4, 2) and seen == [(0, 14), (14, 14)]
    np.testing.assert_array_equal(merged[...], values)
    merged = merge(merged, edge=22)
    assert merged.write_chunk_sizes[0] == (22,)
    np.testing.assert_array_equal(merged[...], values)


def test_along_another_axis() -> None:
    array = terrazzo.create_array(MemoryStore(), data=np.arange(12).reshape(4, 3), chunks=(2, [3]))
    array.append(np.full((4, 1), 70), axis=1)
    array.append(np.full((4, 2), 71), axis=1)
    expected = np.asarray(array[...])
    merged = merge(array, 1)
    assert merged.write_chunk_sizes[1] == (3, 3)
    np.testing.assert_array_equal(merged[...], expected)


def killed(root: Path, at: int, half: bool) -> bool:
    """Merge in a forked process that dies ahead of its operation number `at`; whether it did."""
    child = os.fork()
    if child == 0:
        try:
            merge(terrazzo.open_array(LocalStore(root, files=Killing(at, half=half)), mode="r+"))
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


@pytest.mark.parametrize("how", [SHARDED, PLAIN], ids=["sharded", "plain"])
def test_killed_at_every_operation(tmp_path: Path, how: dict[str, Any]) -> None:
    counting = Counting()
    _, values = made(tmp_path / "counted", how, steps=2)
    shutil.copytree(tmp_path / "counted", tmp_path / "start")
    merge(terrazzo.open_array(LocalStore(tmp_path / "counted", files=counting), mode="r+"))
    total = len(counting.calls)
    assert total > 30
    refused = old = new = 0
    for at in range(total):
        root = tmp_path / str(at)
        shutil.copytree(tmp_path / "start", root)
        assert killed(root, at, half=at % 2 == 0)
        try:
            seen = np.asarray(terrazzo.open_array(root, mode="r")[...])
        except ReadOnlyError:  # the merge was announced and is not finished
            refused += 1
        else:
            np.testing.assert_array_equal(seen, values)
        array = terrazzo.open_array(root, mode="r+", durability="none")  # finishes it, if it was announced
        np.testing.assert_array_equal(array[...], values)
        if array.write_chunk_sizes[0] == (8, 4):
            new += 1
        else:
            assert array.write_chunk_sizes[0] == (8, 2, 2)
            old += 1
            if old % 4 == 1:
                np.testing.assert_array_equal(merge(array)[...], values)
    assert refused > 3 and old > 3 and new > 3


def test_a_death_while_another_finishes(tmp_path: Path) -> None:
    """Finishing may be interrupted, too."""
    counting = Counting()
    made(tmp_path / "counted", PLAIN, steps=3)
    merge(terrazzo.open_array(LocalStore(tmp_path / "counted", files=counting), mode="r+"))
    late = len(counting.calls) - 12
    _, values = made(tmp_path / "a", PLAIN, steps=3)
    assert killed(tmp_path / "a", late, half=False)
    for at in range(0, 200, 3):
        if not killed(tmp_path / "a", at, half=True):
            break
    np.testing.assert_array_equal(terrazzo.open_array(tmp_path / "a", mode="r")[...], values)


def test_a_writer_in_between_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    array, _ = made(MemoryStore(), PLAIN)
    other = terrazzo.open_array(array.store)

    def meddle(done: int, total: int) -> None:
        if done:
            other[-1] = done

    with pytest.raises(ConflictError, match="begin again"):
        merge(array, progress=meddle)
    assert merge(array).write_chunk_sizes[0] == (8, 8, 6)


def test_what_is_refused() -> None:
    array, _ = made(MemoryStore(), SHARDED)
    with pytest.raises(ReadOnlyError, match="opened for reading"):
        merge(terrazzo.open_array(array.store, mode="r"))
    with pytest.raises(ValueError, match="no axis 2"):
        merge(array, 2)
    with pytest.raises(ValueError, match="a multiple of the inner chunk's 2"):
        merge(array, edge=3)
    regular = terrazzo.create_array(MemoryStore(), shape=(4,), dtype="i4", chunks=(2,))
    with pytest.raises(ValueError, match="one length"):
        merge(regular)


def test_a_document_that_tells_nonsense_of_a_merge() -> None:
    array, _ = made(MemoryStore(), PLAIN)
    document = json.loads(array.store.get("zarr.json") or b"")
    document[MEMBER] = {"must_understand": False, "axis": 7}
    array.store.set("zarr.json", json.dumps(document).encode())
    with pytest.raises(MetadataError, match="does not describe a merge"):
        terrazzo.open_array(array.store)


def test_chunks_outside_do_not_come_back_with_other_edges() -> None:
    """They were left there by a resize; merging gives their rows other edges."""
    store = MemoryStore()
    array = terrazzo.create_array(store, shape=(6, 6), dtype="i4", chunks=([5, 1], 3), fill_value=-1)
    array[...] = 7
    array.resize((6, 2), delete_outside_chunks=False)
    array = merge(terrazzo.open_array(store, mode="r+"), edge=8)
    assert array.append(np.full((6, 4), 8, "i4"), axis=1) == (6, 6)
    assert (array[:, :2] == 7).all() and (array[:, 2:] == 8).all()


def test_chunks_outside_that_were_not_merged_stay() -> None:
    store = MemoryStore()
    array = terrazzo.create_array(store, shape=(10, 6), dtype="i4", chunks=([4, 4, 1, 1], 3), fill_value=-1)
    array[...] = 7
    array.resize((10, 3), delete_outside_chunks=False)
    array = merge(terrazzo.open_array(store, mode="r+"), edge=4)
    array.resize((10, 6))
    assert (array[:8] == 7).all() and (array[8:, 3:] == -1).all()
