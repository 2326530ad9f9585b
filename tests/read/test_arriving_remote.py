"""Arrays read over HTTP and from a bucket, whose answers come late and in any order: values, requests, one version."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("obstore")
pytest.importorskip("aiohttp")

import terrazzo
from terrazzo.errors import StoreError
from terrazzo.indexing import project_basic
from terrazzo.read import read
from terrazzo.stores import arrivals
from terrazzo.stores.contract import Cost
from terrazzo.stores.flow import run, run_async
from terrazzo.stores.remote import RemoteStore, exchange
from tests.read.test_arriving import noting
from tests.remote.place import Place
from tests.remote.wire import Answer, Request
from tests.stores.far import FarStore

VALUES = np.random.default_rng(7).integers(0, 1 << 30, (128, 128), np.int64)
FAR = Cost(0.02, 1e8, requests=64)


@pytest.fixture(autouse=True)
def each_byte_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "WORTH", 1)
    monkeypatch.setattr(exchange, "WORTH_TELLING", 1)


@pytest.fixture(params=["http", "s3"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place() -> Iterator[Place]:
    with Place() as made:
        yield made


def put(place: Place, values: Any, **how: Any) -> None:
    store = FarStore()
    terrazzo.create_array(store, data=values, **({"chunks": (8, 8), "shards": (64, 64)} | how))
    for key, (value, _) in store.objects.items():
        place.objects[f"/b/x/{key}"] = value
    place._tags.clear()


def opened(place: Place, scheme: str, **config: Any) -> Any:
    if scheme == "http":
        store = RemoteStore(f"{place.origin}/b/x", cost=FAR)
    else:
        store = RemoteStore("s3://b/x", endpoint_url=place.origin, key="k", secret="s", cost=FAR)
    return terrazzo.open_array(store, mode="r", config=config)


def late(seed: int) -> Any:
    chance = random.Random(seed)

    async def twist(request: Request, answer: Answer) -> Answer:
        await asyncio.sleep(0.01 * chance.random())
        return answer

    return twist


@pytest.mark.parametrize("how", [{}, {"shards": None, "chunks": (32, 32)}, {"shards": (128, 128)}])
@pytest.mark.parametrize("memory", [1 << 26, 1 << 15])
def test_what_comes_late_and_in_any_order(
    place: Place, scheme: str, how: dict[str, Any], memory: int
) -> None:
    put(place, VALUES, **how)
    place.twist = late(3)
    array = opened(place, scheme, memory=memory)

    async def awaited(*boxes: Any) -> list[Any]:
        return await asyncio.gather(*(terrazzo.AsyncArray(array).getitem(box) for box in boxes))

    boxes = [np.s_[...], np.s_[30:90, 30:90], np.s_[:, 7], np.s_[100, ::-3]]
    for _ in range(2):
        for box in boxes:
            np.testing.assert_array_equal(array[box], VALUES[box])
        for box, found in zip(boxes, asyncio.run(awaited(*boxes)), strict=True):
            np.testing.assert_array_equal(found, VALUES[box])


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_a_body_is_decoded_while_another_is_on_its_way(
    place: Place, scheme: str, known: bool, awaited: bool
) -> None:
    put(place, VALUES)
    array = opened(place, scheme)
    box = np.s_[40:90, 40:90] if known else np.s_[...]
    if known:
        array[::64, ::64]
    decoded, came = threading.Event(), []

    async def twist(request: Request, answer: Answer) -> Answer:
        came.append(request.path)
        if len(came) > 1:
            for _ in range(20_000):
                if decoded.is_set():
                    return answer
                await asyncio.sleep(0.001)
            return Answer(403)
        return answer

    place.twist = twist
    projection = project_basic(box, array.layout)
    out = np.empty(projection.buffer_shape, np.int64)
    flow = noting(read(array.layout, projection, out, array.options, array.index_cache, None, FAR), decoded)
    if awaited:
        asyncio.run(run_async(flow, array.store))
    else:
        run(flow, array.store)
    np.testing.assert_array_equal(out, VALUES[box])
    assert len(came) >= 4


def test_every_shard_is_of_one_version(place: Place, scheme: str) -> None:
    versions = []
    for number in range(1, 9):
        put(place, np.full((128, 128), number))
        versions.append(dict(place.objects))
    chance = random.Random(1)

    def twist(request: Request, answer: Answer) -> Answer:
        if chance.random() < 0.3:
            path = chance.choice([path for path in place.objects if "/c/" in path])
            place.objects[path] = chance.choice(versions)[path]
            place._tags.pop(path, None)
        return answer

    array = opened(place, scheme)
    place.twist = twist
    for box in [np.s_[...], np.s_[60:70, 60:70], np.s_[::9, ::9]] * 6:
        found = np.full((128, 128), -1)
        found[box] = array[box]
        for i, j in np.ndindex(2, 2):
            shard = found[64 * i : 64 * i + 64, 64 * j : 64 * j + 64]
            assert len(np.unique(shard[shard >= 0])) == 1


def test_what_is_refused_in_between_is_raised_once_and_names_its_place(place: Place, scheme: str) -> None:
    put(place, VALUES)
    array = opened(place, scheme)
    place.twist = lambda request, answer: Answer(403) if request.path.endswith("/c/1/0") else answer
    for box in (np.s_[...], np.s_[50:80, 3:90]):
        with pytest.raises(StoreError, match="c/1/0"):
            array[box]
    place.twist = None
    np.testing.assert_array_equal(array[...], VALUES)


@pytest.mark.parametrize("tags", ["strong", "weak", "none"])
def test_immutable_shards_are_never_looked_at_again(scheme: str, tags: str) -> None:
    with Place(tags=tags) as place:
        if tags == "none" and scheme == "s3":
            return  # a bucket tells tags
        put(place, VALUES, shards=(128, 128))
        box, other = np.s_[3:40, 5:30], np.s_[60:70, 70:80]
        array = opened(place, scheme, immutable=True, chunk_cache_nbytes=1 << 20)
        array[box]
        asked = len(place.requests)
        np.testing.assert_array_equal(array[box], VALUES[box])
        np.testing.assert_array_equal(array[5:7, 7:9], VALUES[5:7, 7:9])
        assert len(place.requests) == asked
        np.testing.assert_array_equal(array[other], VALUES[other])
        assert {request.method for request in place.requests[asked:]} == {"GET"}


def test_the_first_chunks_of_a_body_are_decoded_before_its_last_ones_are_there(
    place: Place, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(place, VALUES, shards=(128, 128))
    array = opened(place, scheme)
    array[0, 0]
    told: list[int] = []
    arrived = arrivals.Arrivals._arrived

    def noted(self: Any, number: int, answer: Any, nbytes: int | None = None) -> None:
        told.append(-1 if nbytes is None else nbytes)
        arrived(self, number, answer, nbytes)

    monkeypatch.setattr(arrivals.Arrivals, "_arrived", noted)
    np.testing.assert_array_equal(array[...], VALUES)
    size = len(place.objects["/b/x/c/0/0"])
    *pieces, whole = told
    assert whole == -1 and pieces == sorted(pieces) and 0 < pieces[-1] <= size
