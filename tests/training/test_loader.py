"""PyTorch's DataLoader over our arrays: workers of every kind, on a disk and on an object store; nothing hangs.

Runs where torch is installed (`make torch`); tests/arrays/test_processes.py has a loader's loop without it.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("obstore")

import torch
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, get_worker_info

import terrazzo
from examples.training import Crops, Shards
from tests.remote.place import Place

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),  # more workers than CPUs
]

ROOT = Path(__file__).resolve().parents[2]
MODEL = np.arange(64 * 48 * 40, dtype="i4").reshape(64, 48, 40)
CHUNKS, SHARDS, SIZE = (8, 8, 8), (32, 24, 40), (9, 8, 7)
METHODS = ["fork", "forkserver", "spawn"]
#: seconds after which torch gives a batch up
PATIENCE = 300
SECRETS = {"access_key_id": "a", "secret_access_key": "b"}


@pytest.fixture(params=["disk", "object store"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The address of a folder, and options for it."""
    if request.param == "disk":
        yield str(tmp_path), {}
        return
    with Place() as place:
        yield "s3://b", {"endpoint": place.origin, "carry_secrets": True, **SECRETS}


@pytest.fixture
def array(where: tuple[str, dict[str, Any]]) -> terrazzo.Array:
    """MODEL, opened for reading by who has read it with several threads already."""
    folder, options = where
    terrazzo.create_array(f"{folder}/a", data=MODEL, chunks=CHUNKS, shards=SHARDS, storage_options=options)
    array = terrazzo.open_array(f"{folder}/a", mode="r", storage_options=options)
    np.testing.assert_array_equal(array.using(threads=3)[...], MODEL)
    return array


def kept(workers: int, method: str | None, **settings: Any) -> dict[str, Any]:
    """Settings of a loader; those for workers only where there are some."""
    given = {"num_workers": workers, "pin_memory": False, **settings}
    return {**given, "multiprocessing_context": method, "timeout": PATIENCE} if workers else given


class Numbered(Crops):
    """Each box with its number, so that what arrives can be compared."""

    def __getitem__(self, number: int) -> Any:
        return number, super().__getitem__(number)

    __getitems__: Any = None  # torch asks for one after the other then


class Batches(Crops):
    """The numbers and the boxes of a batch, boxes in memory that processes share."""

    def __getitems__(self, numbers: Sequence[int]) -> Any:
        batch = torch.empty((len(numbers), *self.size), dtype=torch.int32).share_memory_()
        self.array.read_many([self.box(number) for number in numbers], out=list(batch.numpy()))
        return torch.tensor(numbers), batch


def as_it_is(batch: Any) -> Any:
    return batch


#: workers, how they start, and whether they stay between epochs (those that start slowly always do)
WAYS = [
    (0, None, False),
    *((workers, "fork", persistent) for workers in (2, 4) for persistent in (False, True)),
    *((2, method, True) for method in METHODS if method != "fork"),
]


@pytest.mark.parametrize("workers, method, persistent", WAYS)
def test_two_epochs_of_random_boxes(
    array: terrazzo.Array, workers: int, method: str | None, persistent: bool
) -> None:
    boxes = Numbered(array, SIZE, 30)
    settings = kept(workers, method)
    if workers:
        settings |= {"persistent_workers": persistent, "prefetch_factor": 3}
    loader = DataLoader(boxes, batch_size=4, shuffle=True, **settings)
    orders = []
    for _ in range(2):
        order = []
        for numbers, values in loader:
            for number, value in zip(numbers.tolist(), values, strict=True):
                np.testing.assert_array_equal(value.numpy(), MODEL[boxes.box(number)])
                order.append(number)
        assert sorted(order) == list(range(30))
        orders.append(order)
    assert orders[0] != orders[1]


@pytest.mark.parametrize("workers, method", [(0, None), (2, "fork"), (2, "spawn")])
def test_a_batch_is_read_at_once_into_shared_memory(
    array: terrazzo.Array, workers: int, method: str | None
) -> None:
    boxes = Batches(array, SIZE, 1 << 40)
    drawn = RandomSampler(boxes, replacement=True, num_samples=40)
    seen = set()
    for numbers, values in DataLoader(
        boxes, batch_size=8, sampler=drawn, collate_fn=as_it_is, **kept(workers, method)
    ):
        assert values.shape == (8, *SIZE) and values.is_shared()
        for number, value in zip(numbers.tolist(), values, strict=True):
            np.testing.assert_array_equal(value.numpy(), MODEL[boxes.box(number)])
            seen.add(number)
    assert len(seen) == 40


@pytest.mark.parametrize("workers, method, persistent", WAYS)
def test_workers_deal_the_shards_among_themselves(
    array: terrazzo.Array, workers: int, method: str | None, persistent: bool
) -> None:
    settings = kept(workers, method, **({"persistent_workers": persistent} if workers else {}))
    loader = DataLoader(Shards(array, CHUNKS), batch_size=5, **settings)
    orders = []
    for _ in range(2):
        found = torch.cat(list(loader))
        firsts = found[:, 0, 0, 0].tolist()
        assert len(firsts) == len(set(firsts)) == MODEL.size // 512
        for first, value in zip(firsts, found, strict=True):
            start = np.unravel_index(first, MODEL.shape)
            box = tuple(slice(int(s), int(s) + 8) for s in start)
            np.testing.assert_array_equal(value.numpy(), MODEL[box])
        orders.append(firsts)
    assert orders[0] != orders[1]


class Census(Crops):
    """What a worker says of itself after it has read."""

    def __getitem__(self, number: int) -> Any:
        for _ in range(3):
            super().__getitem__(number)
        names = [
            Path(f"/proc/self/task/{task}/comm").read_text().strip() for task in os.listdir("/proc/self/task")
        ]
        return os.getpid(), self.array.options.workers, threading.active_count(), names

    __getitems__: Any = None


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs /proc")
@pytest.mark.parametrize("method", METHODS)
def test_a_worker_takes_one_cpu(array: terrazzo.Array, method: str) -> None:
    """No helper of the kernel, and none that an array of another process had. For an object store a thread of ours
    for all stores, and those of obstore's runtime, which only wait."""
    loader = DataLoader(Census(array, (32, 24, 40), 12), collate_fn=as_it_is, **kept(2, method))
    told = [told for batch in loader for told in batch]
    assert len({process for process, *_ in told}) == 2
    for _, workers, of_python, names in told:
        assert workers == 1
        assert "terrazzo" not in names
        assert of_python <= 4, names  # torch has two
        assert len(names) - names.count("tokio-rt-worker") <= 6, names


def test_a_worker_may_ask_for_more(tmp_path: Path) -> None:
    array = terrazzo.create_array(tmp_path / "a", data=MODEL, chunks=CHUNKS, shards=SHARDS).using(threads=3)
    loader = DataLoader(Census(array, (32, 24, 40), 4), collate_fn=as_it_is, **kept(1, "spawn"))
    for batch in loader:
        for _, workers, _, names in batch:
            assert workers == 3 and names.count("terrazzo") <= 2


@pytest.mark.parametrize("method", METHODS)
def test_a_worker_that_is_killed_is_an_error_and_nothing_else(
    array: terrazzo.Array, where: tuple[str, dict[str, Any]], method: str
) -> None:
    """The program goes on: with what it has open, and with new workers."""
    folder, options = where
    done = subprocess.run(
        [sys.executable, "-m", "tests.training.killed", method, f"{folder}/a", json.dumps(options)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    told, boxes, right = json.loads(done.stdout)
    assert "DataLoader worker" in told or told.startswith(("Connection", "EOF", "FileNotFound")), told
    assert (boxes, right) == (MODEL.size // 512, True)


def test_a_loop_that_is_left_early_leaves_nothing(array: terrazzo.Array) -> None:
    for _ in range(3):
        for _ in DataLoader(Numbered(array, SIZE, 300), batch_size=2, **kept(2, "fork")):
            break
    np.testing.assert_array_equal(array[...], MODEL)
    gc.collect()
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("method", METHODS)
def test_an_error_in_a_worker_says_what_it_says_here(tmp_path: Path, method: str) -> None:
    array = terrazzo.create_array(tmp_path / "a", data=MODEL, chunks=CHUNKS, shards=SHARDS)
    shard = tmp_path / "a/c/1/1/0"
    torn = bytearray(shard.read_bytes())
    torn[: len(torn) // 2] = bytes(len(torn) // 2)
    shard.write_bytes(torn)
    with pytest.raises(terrazzo.errors.CodecError) as here:
        array[32:, 24:]
    with pytest.raises(terrazzo.errors.CodecError) as there:
        list(DataLoader(Numbered(array, (64, 48, 40), 1), **kept(1, method)))
    assert type(there.value) is type(here.value)
    assert "c/1/1/0" in str(there.value) and str(here.value).split(":")[0] in str(there.value)


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_secrets_do_not_travel_unasked(method: str) -> None:
    with Place() as place:
        options = {"endpoint": place.origin, **SECRETS}
        terrazzo.create_array("s3://b/a", data=MODEL, chunks=CHUNKS, shards=SHARDS, storage_options=options)
        array = terrazzo.open_array("s3://b/a", mode="r", storage_options=options)
        with pytest.raises(terrazzo.errors.StoreError, match="carry_secrets=True"):
            list(DataLoader(Numbered(array, SIZE, 4), **kept(1, method)))
        forked = DataLoader(Numbered(array, SIZE, 4), **kept(1, "fork"))
        assert len(list(forked)) == 4


def test_workers_are_forked_while_others_read(array: terrazzo.Array) -> None:
    over = threading.Event()
    beside = [
        threading.Thread(target=lambda: [array.using(threads=3)[...] for _ in iter(over.is_set, True)])
        for _ in range(2)
    ]
    for one in beside:
        one.start()
    try:
        for _ in range(4):
            loader = DataLoader(Shards(array, CHUNKS), batch_size=20, **kept(3, "fork"))
            assert sum(len(batch) for batch in loader) == MODEL.size // 512
    finally:
        over.set()
        for one in beside:
            one.join()


class Predictions(IterableDataset):  # type: ignore[misc]
    """Reads boxes, and writes an answer for each to an array whose shards all workers share."""

    def __init__(self, array: terrazzo.Array, answers: terrazzo.Array) -> None:
        self.boxes, self.answers = Numbered(array, SIZE, 64), answers

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        for number in range(info.id, 64, info.num_workers):
            self.answers[number] = self.boxes[number][1].sum()
            yield number


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_what_workers_write_is_not_lost(
    array: terrazzo.Array, where: tuple[str, dict[str, Any]], method: str
) -> None:
    folder, options = where
    answers = terrazzo.create_array(
        f"{folder}/answers", shape=64, chunks=2, shards=32, dtype="i8", storage_options=options
    )
    loader = DataLoader(Predictions(array, answers), batch_size=4, **kept(2, method))
    assert sorted(int(n) for batch in loader for n in batch) == list(range(64))
    boxes = Numbered(array, SIZE, 64)
    np.testing.assert_array_equal(answers[...], [MODEL[boxes.box(n)].sum() for n in range(64)])
