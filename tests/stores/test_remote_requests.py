"""Remote stores, counted: how many requests each verb makes, what goes out, what is refused of what comes back."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("obstore")
pytest.importorskip("aiohttp")

import terrazzo
from terrazzo.errors import ConflictError, KeyRefusedError, StoreError, UnsupportedError
from terrazzo.stores.contract import ALL, Cost, Erase, Open, Put
from terrazzo.stores.flow import Fetching, Opening, run_async
from terrazzo.stores.remote import RemoteStore
from terrazzo.stores.remote.client import Client, ObstoreClient
from terrazzo.stores.remote.policy import Failure
from terrazzo.stores.store import Store
from tests.remote.place import Place
from tests.remote.wire import Answer, Request

TEN = b"0123456789"


@pytest.fixture
def place() -> Iterator[Place]:
    with Place() as made:
        yield made


def s3(place: Place, path: str = "x", **options: Any) -> RemoteStore:
    return RemoteStore(
        f"s3://b/{path}",
        **{"endpoint_url": place.origin, "key": "k", "secret": "s", "trust_conditions": True, **options},
    )


def http(place: Place, **options: Any) -> RemoteStore:
    return RemoteStore(f"{place.origin}/b/x", **options)


def commit(store: Store, key: str, value: bytes, **how: Any) -> Any:
    with store.hold(key, **how) as hold:
        sink = store.sink(hold)
        sink.write(0, value)
        return store.commit([Put(hold, sink)])[0]


def asked(place: Place) -> list[str]:
    """What was asked since the last time."""
    found = [request.method for request in place.requests]
    place.requests.clear()
    place.counts.clear()
    return found


# -- how many ---------------------------------------------------------------------------------------------------------


def test_a_whole_put_is_one_request(place: Place) -> None:
    store = s3(place)
    commit(store, "a", TEN, blind=True)
    assert asked(place) == ["PUT"]
    assert place.objects == {"/b/x/a": TEN}


def test_a_hold_and_a_put_are_two(place: Place) -> None:
    store = s3(place)
    store.set("a", TEN)
    asked(place)
    with store.hold("a", ALL) as hold:
        assert hold.source is not None and hold.source.first == TEN
        assert store.fetch([(hold.source, [(2, 3)])]) == [[b"234"]]  # of what came already
        assert asked(place) == ["GET"]
        sink = store.sink(hold)
        sink.write(0, b"new")
        tag = store.commit([Put(hold, sink)])[0]
        (sent,) = place.requests
        assert (sent.method, sent.headers["if-match"]) == ("PUT", hold.source.tag.etag)  # type: ignore[attr-defined]
    assert tag == store.tag("a")


def test_a_hold_of_what_is_absent_puts_only_where_nothing_is(place: Place) -> None:
    commit(s3(place), "a", TEN, first=ALL)
    assert [request.headers.get("if-none-match") for request in place.requests] == [None, "*"]
    assert asked(place) == ["GET", "PUT"]


@pytest.mark.parametrize("kind", [s3, http])
def test_a_pinned_look_is_none_and_fetches_are_one_each(place: Place, kind: Any) -> None:
    s3(place).set("a", TEN)
    store = kind(place)
    (source,) = store.open([Open("a", (-4, None))])
    assert source is not None and (source.size, source.first) == (10, b"6789")
    asked(place)
    (pinned,) = store.open([Open("a", (-4, None), source.tag, pinned=True)])
    assert asked(place) == [] and pinned is not None
    assert store.fetch([(pinned, [(0, 2), (5, 3), (9, 1)])]) == [[b"01", b"567", b"9"]]
    assert {request.headers["if-match"] for request in place.requests} == {source.tag.etag}
    assert asked(place) == ["GET"] * 3
    with pytest.raises(StoreError, match=r"a'.*8 to 11"):
        store.fetch([(pinned, [(8, 3)])])
    assert asked(place) == []  # its size is known
    s3(place).set("a", b"another one")
    with pytest.raises(ConflictError):
        store.fetch([(pinned, [(0, 2)])])


@pytest.mark.parametrize("kind", [s3, http])
def test_looks_of_one_call_are_one_round_trip(place: Place, kind: Any) -> None:
    for n in range(20):
        s3(place).set(f"c/{n}", bytes([n]) * 50)
    store = kind(place)
    place.latency = 0.2
    asked(place)
    sources = store.open([Open(f"c/{n}", (-20, None)) for n in range(20)])
    assert all(source.first == bytes([n]) * 20 for n, source in enumerate(sources))
    assert asked(place) == ["GET"] * 20
    assert place.most_at_once > 10


@pytest.mark.parametrize("kind", [s3, http])
def test_requests_on_their_way_are_bounded(place: Place, kind: Any) -> None:
    store = kind(place, concurrency=3)
    place.latency = 0.01
    store.get_partial_values([(f"c/{n}", ALL) for n in range(20)])
    assert place.most_at_once == 3
    assert store.cost.requests == 3


def test_a_known_version_is_not_sent_again(place: Place) -> None:
    store = s3(place)
    store.set("a", TEN * 1000)
    (source,) = store.open([Open("a", ALL)])
    assert source is not None
    before = place.sent_nbytes
    (again,) = store.open([Open("a", ALL, source.tag)])
    assert again is not None and again.first is None and again.tag == source.tag
    assert place.sent_nbytes == before


def test_erasing_many_is_one_request_where_a_service_can(place: Place) -> None:
    store = s3(place)
    for n in range(5):
        store.set(f"c/{n}", TEN)
    asked(place)
    store.erase_prefix("c/")
    assert asked(place) == ["GET", "POST"]
    assert place.objects == {}


def test_erasing_many_where_a_service_cannot(place: Place) -> None:
    store = s3(place)
    for n in range(5):
        store.set(f"c/{n}", TEN)
    place.twist = lambda request, answer: Answer(501) if request.method == "POST" else answer
    honest = place._posted
    place._posted = lambda request: Answer(501)  # type: ignore[method-assign]
    store.erase_values([f"c/{n}" for n in range(5)])
    assert place.objects == {}
    place._posted = honest  # type: ignore[method-assign]


# -- large objects ----------------------------------------------------------------------------------------------------


def test_a_large_object_goes_in_parts_from_a_file(place: Place) -> None:
    store = s3(place, buffer=1 << 20)
    value = np.random.default_rng(0).bytes(19 << 20)
    with store.hold("a", blind=True) as hold:
        sink = store.sink(hold)
        for at in reversed(range(0, len(value), 1 << 20)):
            sink.write(at, value[at : at + (1 << 20)])
        assert sink.nbytes == len(value)
        (tag,) = store.commit([Put(hold, sink)])
    assert place.objects["/b/x/a"] == value
    assert asked(place) == ["POST", "PUT", "PUT", "PUT", "POST"]
    assert tag == store.tag("a")


def test_a_large_object_under_a_condition_goes_whole(place: Place) -> None:
    store = s3(place, buffer=1 << 20)
    store.set("a", TEN)
    value = bytes(range(256)) * (12 << 10)
    asked(place)
    commit(store, "a", value, first=(0, 1))
    assert place.objects["/b/x/a"] == value
    assert asked(place) == ["GET", "PUT"]
    with store.hold("a", ALL) as hold:
        sink = store.sink(hold)
        sink.write(0, value + b"mine")
        place.objects["/b/x/a"] = b"theirs"
        place._tags.clear()
        with pytest.raises(ConflictError):
            store.commit([Put(hold, sink)])
    assert place.objects["/b/x/a"] == b"theirs"


def test_a_sink_that_is_given_up_leaves_no_file(place: Place) -> None:
    store = s3(place, buffer=10)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with store.hold("a", blind=True) as hold:
            store.sink(hold).write(0, bytes(100))
            sink = store.sink(hold)
            sink.write(0, bytes(100))
            sink.discard()
    assert len(os.listdir("/proc/self/fd")) <= before + 2
    assert asked(place) == []


# -- several changes --------------------------------------------------------------------------------------------------


def test_an_error_in_a_commit_names_what_happened(place: Place) -> None:
    store = s3(place)
    store.set("b", TEN)
    holds = store.hold_all(["a", "b", "c"], [ALL] * 3)
    changes: list[Any] = []
    for hold in holds:
        sink = store.sink(hold)
        sink.write(0, b"mine")
        changes.append(Put(hold, sink))
    place.objects["/b/x/b"] = b"theirs"
    place._tags.clear()
    with pytest.raises(ConflictError, match=r"'b'.*already stored in the same call: 'a', 'c'"):
        store.commit(changes)
    for hold in holds:
        hold.release()
    assert (place.objects["/b/x/a"], place.objects["/b/x/b"]) == (b"mine", b"theirs")


def test_two_changes_of_one_object_are_refused(place: Place) -> None:
    store = s3(place)
    with store.hold("a") as hold:
        with pytest.raises(StoreError, match="two changes"):
            store.commit([Erase(hold), Erase(hold)])
        assert store.commit([]) == []


# -- ranges -----------------------------------------------------------------------------------------------------------


def test_services_without_suffixes_are_asked_for_the_size(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Azure is, of which obstore asks no suffixes; it is found out once."""
    honest = ObstoreClient.get
    refused: list[Any] = []

    async def get(self: Any, path: str, window: Any, **how: Any) -> Any:
        if window[0] < 0:
            refused.append(window)
            raise Failure("unsupported")
        return await honest(self, path, window, **how)

    monkeypatch.setattr(ObstoreClient, "get", get)
    store = s3(place, redirects="follow")
    store.set("a", TEN)
    asked(place)
    for n, expected in ((4, b"6789"), (10, TEN), (50, TEN)):
        assert store.get_partial_values([("a", (-n, None))]) == [expected]
        assert asked(place) == ["HEAD", "GET"]
    assert len(refused) == 1
    assert store.get_partial_values([("b", (-4, None))]) == [None]
    store.set("empty", b"")
    assert store.get_partial_values([("empty", (-4, None))]) == [b""]


@pytest.mark.parametrize("kind", [s3, http])
def test_empty_objects_and_ranges_past_the_end(place: Place, kind: Any) -> None:
    s3(place).set("empty", b"")
    s3(place).set("a", TEN)
    store = kind(place)
    asked_for = [
        ("empty", (0, 5)),
        ("empty", (-5, None)),
        ("empty", ALL),
        ("a", (10, 5)),
        ("a", (3, 0)),
        ("b", (0, 5)),
    ]
    assert store.get_partial_values(asked_for) == [b"", b"", b"", b"", b"", None]
    (source,) = store.open([Open("empty", (-5, None))])
    assert source is not None and source.size == 0 and source.first == b""


# -- web servers ------------------------------------------------------------------------------------------------------


def test_a_web_server_is_read_and_nothing_else(place: Place) -> None:
    s3(place).set("a b/é", TEN)
    store = http(place)
    assert store.get("a b/é") == TEN
    assert (store.getsize("a b/é"), store.exists("c")) == (10, False)
    assert not (store.writable or store.erasable or store.listable)
    for attempt in (
        lambda: store.set("a", b""),
        lambda: store.set_if("a", b"", None),
        lambda: store.erase("a"),
        lambda: store.hold("a"),
        lambda: list(store.list()),
        lambda: store.list_dir(""),
    ):
        with pytest.raises(UnsupportedError):
            attempt()


def test_headers_and_credentials_go_out(place: Place) -> None:
    place.objects["/b/x/a"] = TEN
    for options, header in (
        ({"token": "t0k"}, ("authorization", "Bearer t0k")),
        ({"username": "u", "password": "p"}, ("authorization", "Basic dTpw")),
        ({"headers": {"X-Mine": "1"}}, ("x-mine", "1")),
    ):
        assert http(place, **options).get("a") == TEN
        assert place.requests[-1].headers[header[0]] == header[1]
    RemoteStore(f"http://u:p@127.0.0.1:{place.port}/b/x?sig=1").get("a")
    last = place.requests[-1]
    assert (last.headers["authorization"], last.target) == ("Basic dTpw", "/b/x/a?sig=1")
    for headers in ({"Range": "bytes=0-1"}, {"a": "b\r\nc"}, {"a": 1}, ["a"]):
        with pytest.raises(StoreError, match="headers"):
            http(place, headers=headers)


def test_redirects_within_the_origin_are_followed(place: Place) -> None:
    place.objects["/b/moved/a"] = TEN

    def moved(request: Request, answer: Answer) -> Answer:
        if request.path.startswith("/b/x/"):
            return Answer(307, {"Location": request.target.replace("/b/x/", "/b/moved/")})
        return answer

    place.twist = moved
    assert http(place).get_partial_values([("a", (2, 3))]) == [b"234"]
    place.twist = lambda request, answer: Answer(301, {"Location": request.target})
    with pytest.raises(StoreError, match="redirected more than"):
        http(place).get("a")


def test_a_server_without_ranges_serves_what_is_small(place: Place) -> None:
    """The whole object is an answer to a range that covers it; not to any other."""
    place.objects["/b/x/a"] = TEN
    place.ranges = False
    store = http(place)
    assert store.get_partial_values([("a", (0, 100)), ("a", ALL), ("a", (-20, None))]) == [TEN] * 3
    for window in ((1, 3), (-3, None), (0, 3)):
        with pytest.raises(StoreError, match="ignores ranges"):
            store.get_partial_values([("a", window)])


# -- cost -------------------------------------------------------------------------------------------------------------


def test_cost_is_measured_or_fixed(place: Place) -> None:
    fixed = Cost(0.5, 1e6, True, 7)
    assert s3(place, cost=fixed).cost == fixed
    place.objects["/b/x/a"] = TEN
    store = s3(place)
    first = store.cost
    assert first.far and first.requests == 64
    place.latency = 0.1
    for _ in range(12):
        store.get("a")
    slow = store.cost
    assert slow.latency > first.latency
    place.latency = 0
    for _ in range(10):
        store.get("a")
    assert store.cost.latency < slow.latency
    assert store.cost.far  # however near


# -- cancellation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [s3, http])
def test_a_cancelled_read_ends_at_once(place: Place, kind: Any) -> None:
    place.objects["/b/x/a"] = TEN
    store = kind(place)
    store.get("a")
    place.latency = 30.0

    def look() -> Any:
        return (yield Opening([Open("a", ALL)]))

    async def main() -> None:
        task = asyncio.ensure_future(run_async(look(), store))
        while place._at_once == 0:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    begun = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - begun < 20


def test_many_reads_leave_no_thread_and_no_descriptor(place: Place) -> None:
    place.objects["/b/x/a"] = TEN
    stores = [s3(place, concurrency=16), http(place, concurrency=16)]

    def use() -> None:
        for store in stores:
            assert store.get_partial_values([("a", (2, 3))] * 300) == [b"234"] * 300

    use()
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    use()
    assert threading.active_count() == threads
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 4


# -- arrays -----------------------------------------------------------------------------------------------------------


def test_two_creators_of_one_array(place: Place) -> None:
    """The document of the other arrives between the look and the write."""
    how = dict(shape=(4,), dtype="i4", storage_options=dict(endpoint_url=place.origin, key="k", secret="s"))
    terrazzo.create_array("s3://b/other", **how)
    theirs = place.objects["/b/other/zarr.json"]
    raced: list[bool] = []
    honest = place._stored

    def late(request: Request, value: bytes) -> Answer:
        if request.path == "/b/mine/zarr.json" and not raced:
            raced.append(True)
            place.objects[request.path] = theirs
        return honest(request, value)

    place._stored = late  # type: ignore[method-assign]
    with pytest.raises(terrazzo.errors.ContainsArrayError):
        terrazzo.create_array("s3://b/mine", **how)
    assert raced and place.objects["/b/mine/zarr.json"] == theirs


def test_clients_keep_their_contract(place: Place) -> None:
    """What a service cannot do is said by its client, and reaches the caller as a sentence."""
    store = http(place)
    assert isinstance(store._client, Client)
    with pytest.raises(Failure, match="reading"):
        asyncio.run(store._client.put("a", b"", None, None, None))
    with pytest.raises(Failure, match="reading"):
        asyncio.run(store._client.delete(["a"]))


@pytest.mark.parametrize("kind", [s3, http])
def test_asynchronous_reads_wait_in_no_thread(place: Place, kind: Any) -> None:
    place.objects["/b/x/a"] = TEN
    store = kind(place)
    store.get("a")
    place.latency = 0.3
    threads = threading.active_count()
    seen: list[int] = []

    def look() -> Any:
        (source,) = yield Opening([Open("a", (-4, None))])
        seen.append(threading.active_count())
        return (yield Fetching([(source, [(1, 2)])]))

    async def main() -> list[Any]:
        return await asyncio.gather(*(run_async(look(), store.with_read_only()) for _ in range(20)))

    assert asyncio.run(main()) == [[[b"12"]]] * 20
    assert place.most_at_once >= 16
    assert max(seen) == threads
    with pytest.raises(KeyRefusedError):
        store.begin("open", [Open("../a")])
    with pytest.raises(StoreError, match="negative"):
        store.begin("fetch", [(store.open([Open("a", (0, 1))])[0], [(-1, 1)])])
