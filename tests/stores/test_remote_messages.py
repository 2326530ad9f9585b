"""What the errors of remote stores tell: who did not answer and why, which option was wrong, what was being done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("obstore")
pytest.importorskip("aiohttp")

import terrazzo
from terrazzo.errors import ReadOnlyError, StoreError
from terrazzo.stores.remote import RemoteStore
from tests.remote.place import Place
from tests.remote.wire import Answer, Request

ONCE: dict[str, Any] = {"key": "k", "secret": "hunter2", "tries": 1}
MISSING = b"<?xml version='1.0'?><Error><Code>NoSuchBucket</Code><Message>x</Message></Error>"


@pytest.fixture
def place() -> Iterator[Place]:
    with Place() as made:
        yield made


@pytest.mark.parametrize(
    ("host", "told"),
    [("127.0.0.1:9", "the connection was refused"), ("nobody.invalid", "the name of the host is not known")],
)
def test_who_did_not_answer(host: str, told: str) -> None:
    for store in (
        RemoteStore("s3://b/x", endpoint_url=f"http://{host}", **ONCE),
        RemoteStore(f"http://u:hunter2@{host}/x?sig=hunter2", tries=1),
    ):
        with pytest.raises(StoreError) as raised:
            terrazzo.open_array(store, mode="r")
        text = str(raised.value)
        assert told in text and f"http://{host}" in text and "reading it failed" in text
        assert "hunter2" not in text and "bytes" not in text


def test_an_endpoint_of_the_environment_is_shown_without_its_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://u:hunter2@127.0.0.1:9/?q=hunter2")
    with pytest.raises(StoreError, match=r"s3://b/x at http://127\.0\.0\.1:9: ") as raised:
        RemoteStore("s3://b/x", region="eu", **ONCE).get("a")
    assert "hunter2" not in str(raised.value)


def test_a_missing_bucket_is_told_as_one(place: Place) -> None:
    def without(request: Request, _: Answer) -> Answer:
        return Answer(404, {}, MISSING if request.method != "HEAD" else b"")

    place.twist = without
    store = RemoteStore("s3://gone/x", endpoint_url=place.origin, **ONCE)
    for use in (
        lambda: terrazzo.open_array(store, mode="r"),
        lambda: terrazzo.create_array(store, shape=3, dtype="i1"),
    ):
        with pytest.raises(StoreError, match="no such bucket or container"):
            use()


def test_a_redirect_that_leads_nowhere(place: Place) -> None:
    place.twist = lambda *_: Answer(307, {}, b"")
    with pytest.raises(StoreError, match="without saying where to; check region") as raised:
        RemoteStore("s3://b/x", endpoint_url=place.origin, **ONCE).get("a")
    assert place.origin in str(raised.value)


@pytest.mark.parametrize("mode", ["r+", "w", "w-"])
def test_web_servers_are_read(place: Place, mode: str) -> None:
    with pytest.raises(ReadOnlyError, match="can only be read; open it with mode='r'"):
        terrazzo.open_array(f"{place.origin}/b/x", mode=mode, shape=3, dtype="i1")
    assert not place.requests


@pytest.mark.parametrize(
    ("address", "options", "told"),
    [
        ("s3://b/x", {"region": 5}, "region is of type int"),
        ("s3://b/x", {"key": ["hunter2"]}, "key is of type list"),
        ("s3://b/x", {"endpoint_url": 5}, "endpoint_url is of type int"),
        ("s3://b/x", {"connect_timeout": object()}, "connect_timeout is of type object"),
        ("http://host/x", {"token": 5}, "token is of type int"),
        ("http://host/x", {"verify": 5}, "verify is of type int"),
        ("s3://b/x", {"mode": "r"}, "'mode' is no option"),
        ("s3://b/x", "anon", "storage_options is a dictionary of options, not str"),
    ],
)
def test_options_of_wrong_types(address: str, options: Any, told: str) -> None:
    with pytest.raises(StoreError, match=told) as raised:
        terrazzo.open_array(address, mode="r", storage_options=options)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("opener", [terrazzo.open, terrazzo.open_array])
def test_a_misspelt_argument_is_refused_before_anything_is_asked(place: Place, opener: Any) -> None:
    store = RemoteStore("s3://b/x", endpoint_url=place.origin, **ONCE)
    with pytest.raises(TypeError, match="'storage_option'; did you mean 'storage_options'"):
        opener(store, mode="r", storage_option={})
    assert not place.requests
    terrazzo.create_array(store, shape=3, dtype="i1")
    with pytest.raises(TypeError, match="unexpected keyword argument 'chunk'"):
        opener(store, mode="r", chunk=3)


def test_a_group_is_opened_in_one_request(place: Place) -> None:
    store = RemoteStore("s3://b/x", endpoint_url=place.origin, **ONCE)
    terrazzo.create_group(store, attributes={"a": 1})
    for mode in ("r", "r+", "a"):
        place.requests.clear()
        assert terrazzo.open(store, mode=mode).attrs["a"] == 1
        assert len(place.requests) == 1


def test_every_look_for_a_format_is_counted_and_none_is_made_twice(place: Place) -> None:
    store = RemoteStore("s3://b/x", endpoint_url=place.origin, trust_conditions=True, **ONCE)
    terrazzo.create_array(store, shape=3, dtype="i1", zarr_format=2)
    place.requests.clear()
    with terrazzo.storage.traffic() as seen:
        terrazzo.open_array(store, mode="r")
    assert len(place.requests) == 5 and seen.round_trips == 3
    assert seen.requests == 6  # a document of format 2 counts as one, also where it was seen already
    assert len({request.path for request in place.requests}) == 5
    assert sum(request.path.endswith("zarr.json") for request in place.requests) == 1
