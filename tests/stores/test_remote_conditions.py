"""Writing under conditions: the probe, spelled tags, and writes whose acknowledgement was lost."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("obstore")

from terrazzo.errors import ConflictError, StoreError, UnsupportedError
from terrazzo.stores.contract import ALL, Open, Put
from terrazzo.stores.remote import RemoteStore
from terrazzo.stores.remote.conditions import verdict_on
from terrazzo.stores.remote.version import Version, history_of, history_text, version_of
from tests.remote.place import Place
from tests.remote.wire import Answer, Cut, Request

TEN = b"0123456789"
_buckets = itertools.count(1)


@pytest.fixture
def place() -> Iterator[Place]:
    with Place() as made:
        yield made


def s3(place: Place, **options: Any) -> RemoteStore:
    return RemoteStore(
        "s3://b/x", **{"endpoint_url": place.origin, "key": "k", "secret": "s", "tries": 4, **options}
    )


def mine(place: Place) -> list[str]:
    return [path for path in place.objects if "probe" not in path]


def before_storing(place: Place, act: Callable[[Request], Answer | None]) -> None:
    """`act` sees every PUT first, and may answer it."""
    honest = place._stored
    place._stored = lambda request, value: act(request) or honest(request, value)  # type: ignore[method-assign]


# -- the probe --------------------------------------------------------------------------------------------------------


def test_the_probe_asks_once_and_leaves_nothing(place: Place) -> None:
    store = s3(place)
    store.check_conditions()
    assert place.objects == {}
    assert {request.path.startswith("/b/x/.terrazzo-probe-") for request in place.requests[:-1]} == {True}
    place.requests.clear()
    elsewhere = RemoteStore("s3://b/y", endpoint_url=place.origin, key="k", secret="s")  # in the same bucket
    for n, one in enumerate((store, s3(place), elsewhere)):
        one.check_conditions()
        one.set_if(f"new/{n}", TEN, None)
    assert [request.method for request in place.requests] == ["PUT"] * 3
    assert "probe" not in str(place.objects)


def test_a_cloud_of_its_own_is_not_probed() -> None:
    for address, options in (
        ("s3://b/x", {"region": "us-east-1", "anon": True}),
        ("gs://b/x", {"anon": True}),
        ("az://c/x", {"account_name": "account", "anon": True}),
    ):
        assert RemoteStore(address, **options).place.trusted
        assert not RemoteStore(address, **{**options, "endpoint_url": "http://127.0.0.1:1"}).place.trusted


@pytest.mark.parametrize(
    ("lack", "sentence"),
    [
        ({"conditions": False}, "ignores If-None-Match"),
        ({"tags": "weak"}, "weak"),
        ({"tags": "none"}, "no ETag"),
        ({"tags": "changing"}, "change"),
    ],
)
def test_what_cannot_be_trusted_is_refused_with_the_way_out(lack: dict[str, Any], sentence: str) -> None:
    with Place(**lack) as place:
        store = s3(place)
        for _ in range(2):
            with pytest.raises(UnsupportedError, match=rf"{sentence}.*single_writer=True"):
                store.set_if("a", TEN, None)
        assert place.counts["PUT"] < 8  # the verdict is kept
        assert place.objects == {}
        store.set("a", b"whole")  # the last writer wins, which nobody was promised otherwise
        assert store.get("a") == b"whole"
        if lack.get("tags") != "none":
            alone = s3(place, single_writer=True)
            with alone.hold("a", ALL) as hold:
                sink = alone.sink(hold)
                sink.write(0, TEN)
                alone.commit([Put(hold, sink)])
            assert alone.get("a") == TEN


def test_only_stale_tags_are_ignored() -> None:
    """If-None-Match is kept, and If-Match is not."""
    with Place() as place:
        honest = place._refused

        def refused(request: Request) -> Answer | None:
            if request.method == "PUT" and "if-match" in request.headers:
                return None
            return honest(request)

        place._refused = refused  # type: ignore[method-assign]
        with pytest.raises(UnsupportedError, match="ignores If-Match"):
            s3(place).set_if("a", TEN, None)


def test_a_service_that_wants_tags_without_quotes(place: Place) -> None:
    """As Ceph's gateway does: the quoted tag matches nothing, in reads too."""
    honest = place._refused

    def refused(request: Request) -> Answer | None:
        if request.headers.get("if-match", "").startswith('"'):
            return Answer(412)
        return honest(request)

    place._refused = refused  # type: ignore[method-assign]
    store = s3(place)
    store.set("a", TEN)
    with store.hold("a", (0, 2)) as hold:
        assert hold.source is not None
        assert store.fetch([(hold.source, [(3, 2)])]) == [[b"34"]]  # found out by reading, before any probe
        sink = store.sink(hold)
        sink.write(0, b"new")
        store.commit([Put(hold, sink)])
    stale = hold.source.tag
    with pytest.raises(ConflictError):
        store.set_if("a", b"stale", stale)
    assert store.get("a") == b"new"
    assert verdict_on(store.place.service).bare is True


def test_a_probe_through_a_failing_network(place: Place) -> None:
    failing = itertools.cycle([True, False, False])

    def lost(request: Request, answer: Answer) -> Answer:
        if request.method == "PUT" and next(failing):
            raise Cut
        return answer

    place.twist = lost
    s3(place, tries=8).check_conditions()


def test_a_probe_that_is_never_answered_decides_nothing(place: Place) -> None:
    place.twist = lambda request, answer: Answer(503)
    store = s3(place, tries=2, deadline=2.0)
    with pytest.raises(StoreError, match="could not be asked.*503"):
        store.check_conditions()
    place.twist = None
    store.check_conditions()


# -- lost acknowledgements --------------------------------------------------------------------------------------------


def lose(place: Place, times: int = 1) -> None:
    """The answers to the next PUTs of objects are lost after they were applied."""
    left = [times]

    def lost(request: Request, answer: Answer) -> Answer:
        if request.method == "PUT" and left[0] and "probe" not in request.path:
            left[0] -= 1
            raise Cut
        return answer

    place.twist = lost


def test_a_write_whose_answer_was_lost_has_happened(place: Place) -> None:
    store = s3(place, trust_conditions=True)
    lose(place)
    store.set_if("a", b"one", None)
    assert store.get("a") == b"one"
    tag = store.tag("a")
    lose(place)
    store.set_if("a", b"two", tag)
    assert place.objects["/b/x/a"] == b"two"
    with store.hold("a", ALL) as hold:
        sink = store.sink(hold)
        sink.write(0, b"three")
        lose(place)
        assert store.commit([Put(hold, sink)]) == [store.tag("a")]


def test_the_same_bytes_of_another_are_not_ours(place: Place) -> None:
    """Two who make the same document: the one whose write was refused is told, though the bytes are its own."""
    store = s3(place, trust_conditions=True)
    raced: list[bool] = []

    def act(request: Request) -> Answer | None:
        if raced:
            return None
        raced.append(True)
        place.objects[request.path] = TEN
        place._metadata[request.path] = {"x-amz-meta-terrazzo": "theirs"}
        raise Cut

    before_storing(place, act)
    with pytest.raises(ConflictError):
        store.set_if("a", TEN, None)


def test_a_lost_write_that_others_built_on_is_known(place: Place) -> None:
    """Otherwise a counter would count it twice."""
    store, other = s3(place, trust_conditions=True), s3(place, trust_conditions=True)
    store.set_if("n", b"1", None)
    one = store.tag("n")
    built: list[bool] = []

    def lost(request: Request, answer: Answer) -> Answer:
        if request.method != "PUT" or built:
            return answer
        built.append(True)
        thread = threading.Thread(target=lambda: other.set_if("n", b"3", other.tag("n")))
        threads.append(thread)
        thread.start()
        raise Cut

    threads: list[threading.Thread] = []
    place.twist = lost
    honest = place._stored

    def after_the_other(request: Request, value: bytes) -> Answer:
        if built and value == b"2":
            waited.wait(5)
        if value == b"3":
            waited.set()
        return honest(request, value)

    waited = threading.Event()
    waited.set()
    place._stored = after_the_other  # type: ignore[method-assign]
    store.set_if("n", b"2", one)  # no conflict: it happened
    for thread in threads:
        thread.join()
    assert store.get("n") in (b"2", b"3")
    marks = place._metadata["/b/x/n"]["x-amz-meta-terrazzo"].split(",")
    assert len(marks) == len(set(marks)) >= 2


def test_a_service_that_drops_metadata_is_asked_for_the_bytes(place: Place) -> None:
    honest = place._stored

    def forgetful(request: Request, value: bytes) -> Answer:
        answer = honest(request, value)
        place._metadata[request.path] = {}
        return answer

    place._stored = forgetful  # type: ignore[method-assign]
    store = s3(place, trust_conditions=True)
    lose(place)
    store.set_if("a", TEN, None)
    lose(place)
    with pytest.raises(ConflictError):
        store.set_if("a", b"other", version_of('"0"', None, None, 10))
    assert store.get("a") == TEN


def test_a_write_that_never_came_through_says_what_is_not_known(place: Place) -> None:
    store = s3(place, trust_conditions=True, tries=2)

    def act(request: Request) -> Answer | None:
        raise Cut

    before_storing(place, act)
    with pytest.raises(StoreError, match=r"'a'.*may have been written all the same"):
        store.set_if("a", TEN, None)
    with pytest.raises(StoreError, match=r"'a'.*tried 2 times"):
        store.set("a", TEN)
    assert mine(place) == []


def test_marks_go_on_and_do_not_grow_without_end(place: Place) -> None:
    store = s3(place, trust_conditions=True)
    store.set_if("n", b"0", None)
    for n in range(130):
        store.set_if("n", str(n).encode(), store.tag("n"))
    text = place._metadata["/b/x/n"]["x-amz-meta-terrazzo"]
    assert len(text) < 1024
    assert len(history_of({"terrazzo": text})) == 100


def test_one_writer_leaves_no_marks(place: Place) -> None:
    store = s3(place, single_writer=True)
    store.set("a", TEN)
    store.set_if("a", TEN, store.tag("a"))
    assert place._metadata["/b/x/a"] == {}
    assert all("if-match" not in request.headers for request in place.requests)


# -- versions ---------------------------------------------------------------------------------------------------------


def test_versions_are_told_apart_by_what_a_service_says() -> None:
    assert version_of('"a"', None, 1, 2) == version_of("a", None, 3, 4)
    assert version_of('W/"a"', None, 1, 2) != version_of('"a"', None, 1, 2)
    assert not version_of('W/"a"', None, 1, 2).strong
    assert version_of('"a"', None, 1, 2) != version_of('"b"', None, 1, 2)
    assert version_of(None, None, 1, 2) == version_of(None, None, 1, 2)
    assert version_of(None, None, 1, 2) != version_of(None, None, 1, 3)
    assert hash(version_of('"a"', None, 1, 2)) == hash(version_of("a", None, 3, 4))
    assert Version("a") != "a"
    assert version_of('""', None, 1, 2) == version_of(None, None, 1, 2)


@pytest.mark.parametrize("text", [None, "", 5, "x" * 5000])
def test_marks_of_others_are_not_believed(text: Any) -> None:
    found = history_of({"terrazzo": text})
    assert found == () or found == ("",)
    assert history_of(None) == ()
    assert history_text("a", ["b"] * 200).count(",") == 99


def test_a_tag_of_another_store_is_a_conflict(place: Place) -> None:
    with pytest.raises(ConflictError):
        s3(place).set_if("a", TEN, b"a digest")


def test_a_service_that_takes_tags_without_quotes_for_none(place: Place) -> None:
    """Nothing is ever written by a tag that a service may overlook: quotes are left out only where reading shows that
    the service wants it so."""
    honest = place._refused

    def refused(request: Request) -> Answer | None:
        if not request.headers.get("if-match", '"').startswith('"'):
            return None
        return honest(request)

    place._refused = refused  # type: ignore[method-assign]
    store = s3(place, trust_conditions=True)
    store.set("a", b"one")
    (source,) = store.open([Open("a", (0, 1))])
    assert source is not None
    store.set("a", b"two")
    with pytest.raises(ConflictError):
        store.fetch([(source, [(0, 3)])])
    with pytest.raises(ConflictError):
        store.set_if("a", b"stale", source.tag)
    assert store.get("a") == b"two"
    store.set_if("a", b"three", store.tag("a"))
    assert store.get("a") == b"three"


def test_quotes_are_found_out_without_a_probe(place: Place) -> None:
    honest = place._refused

    def refused(request: Request) -> Answer | None:
        return Answer(412) if request.headers.get("if-match", "").startswith('"') else honest(request)

    place._refused = refused  # type: ignore[method-assign]
    store = s3(place, trust_conditions=True)
    store.set("a", b"one")
    stale = store.tag("a")
    store.set_if("a", b"two", stale)
    with pytest.raises(ConflictError):
        store.set_if("a", b"stale", stale)
    assert store.get("a") == b"two"
