"""Object stores whose servers redirect: nothing of ours goes to another origin, whatever it was and however it was
signed; and requests are those that obstore would make.

What it does not do: check signatures against a server; radosgw and Azurite do, in test_suite.py.
"""

from __future__ import annotations

import base64
import contextlib
import pickle
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("obstore")
pytest.importorskip("aiohttp")

import terrazzo
from terrazzo.errors import StoreError, TerrazzoError
from terrazzo.stores.contract import Open
from terrazzo.stores.remote import RemoteStore
from terrazzo.stores.remote.client import ObstoreClient
from terrazzo.stores.remote.guarded import GuardedClient
from terrazzo.stores.remote.native import library
from terrazzo.stores.remote.signing import ObjectWay, Presigned
from tests.remote import hostile
from tests.remote.place import Place
from tests.remote.wire import Answer, Request

TEN = b"0123456789"
KEY = base64.b64encode(b"an account's key").decode()
QUICK: dict[str, Any] = {"timeout": 5.0, "deadline": 5.0, "tries": 2}


def provided() -> dict[str, Any]:
    """Keys that obstore asks for, and nobody else knows."""
    return {
        "access_key_id": "userZinfo",
        "secret_access_key": "s3cretAccessKEY",
        "token": "sess1onTOKEN",
        "expires_at": None,
    }


#: (address, options) of a store of one object `a` below `x`, by how its requests are signed
WAYS: dict[str, Callable[[str], tuple[str, dict[str, Any]]]] = {
    "keys": lambda o: ("s3://b/x", {"endpoint_url": o, "key": "k", "secret": "s", "token": "t"}),
    "no keys": lambda o: ("s3://b/x", {"endpoint_url": o, "anon": True}),
    "keys of a provider": lambda o: ("s3://b/x", {"endpoint_url": o, "credential_provider": provided}),
    "a token in the address": lambda o: (
        "az://b/x",
        {"endpoint_url": f"{o}/account", "account_name": "account", "sas_token": "sv=1&sig=a%2Fb"},
    ),
    "Google's, without keys": lambda o: ("gs://b/x", {"endpoint_url": o, "anon": True}),
    "Google's, with a token": lambda o: ("gs://b/x", {"endpoint_url": o, "bearer_token": "t"}),
}
SIGNED = ("keys", "keys of a provider")


def store_at(origin: str, way: str, **more: Any) -> RemoteStore:
    address, options = WAYS[way](origin)
    return RemoteStore(address, **{**QUICK, **options, **more})


def path_of(way: str, key: str) -> str:
    return f"/account/b/x/{key}" if "az:" in WAYS[way]("")[0] else f"/b/x/{key}"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_request_goes_to_another_origin(way: str, status: int) -> None:
    with Place() as place, Place() as trap:
        store = store_at(place.origin, way, trust_conditions=True)
        assert type(store._client.way) is (Presigned if way in SIGNED else ObjectWay)  # type: ignore[attr-defined]
        place.objects[path_of(way, "a")] = trap.objects[path_of(way, "a")] = TEN
        assert store.get_partial_values([("a", (2, 3))]) == [b"234"]
        (source,) = store.open([Open("a", (0, 4))])
        assert source is not None and source.first == b"0123" and source.size == 10
        place.twist = hostile.redirected(status, lambda r: trap.origin + r.target)
        uses: list[Callable[[], Any]] = [
            lambda: store.get("a"),
            lambda: store.exists("a"),
            lambda: store.fetch([(source, [(4, 2)])]),
            lambda: store.erase("a"),
        ]
        if store._client.way.writes:  # type: ignore[attr-defined]
            uses += [lambda: store.set("a", b"new"), lambda: store.set_if("b", b"new", None)]
        for use in uses:
            with pytest.raises(StoreError, match="another origin"):
                use()
        assert not trap.requests


@pytest.mark.parametrize("way", SIGNED)
def test_a_service_that_redirects_writes_gets_none(way: str) -> None:
    """The first of the probe shows it, also where obstore makes the writes that follow."""
    with Place() as place, Place() as trap:
        store = store_at(place.origin, way)
        place.twist = lambda request, answer: (
            answer
            if request.method in ("GET", "HEAD")
            else Answer(307, {"Location": trap.origin + request.target})
        )
        with pytest.raises(StoreError, match="another origin"):
            store.set_if("a", b"new", None)
        assert not trap.requests


def test_a_write_is_redirected_nowhere_at_all() -> None:
    with Place() as place:
        store = store_at(place.origin, "no keys", single_writer=True)
        place.twist = lambda r, a: (
            a if "moved" in r.path else Answer(307, {"Location": r.target.replace("/x/", "/moved/")})
        )
        with pytest.raises(StoreError, match="redirected a write"):
            store.set("a", TEN)
        assert [request.path for request in place.requests] == ["/b/x/a"]


def test_a_read_within_the_origin_goes_where_it_is_sent() -> None:
    with Place() as place:
        place.objects["/b/moved/a"] = TEN
        place.twist = lambda r, a: (
            a if "moved" in r.path else Answer(307, {"Location": r.target.replace("/x/", "/moved/")})
        )
        assert store_at(place.origin, "keys").get("a") == TEN
        assert [request.path for request in place.requests] == ["/b/x/a", "/b/moved/a"]


def test_an_endpoint_of_the_environment_is_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with Place() as place, Place() as trap:
        monkeypatch.setenv("AWS_ENDPOINT_URL", place.origin)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
        monkeypatch.setenv("AWS_REGION", "eu-north-1")
        place.objects["/b/x/a"] = trap.objects["/b/x/a"] = TEN
        store = RemoteStore("s3://b/x", **QUICK)
        assert store.get("a") == TEN
        assert "/eu-north-1/s3/" in place.requests[-1].query["X-Amz-Credential"]
        place.twist = hostile.redirected(307, lambda r: trap.origin + r.target)
        with pytest.raises(StoreError, match="another origin"):
            store.get("a")
        assert not trap.requests


@pytest.mark.parametrize("keys", [True, False])
@pytest.mark.parametrize(
    "spelling", ["{}/", "{}//", "HTTP://LocalHost:{port}", "http://localhost:{port}/", "{}/below"]
)
def test_endpoints_in_every_spelling(monkeypatch: pytest.MonkeyPatch, spelling: str, keys: bool) -> None:
    with Place() as place:
        place.twist = lambda request, answer: answer
        monkeypatch.setenv("AWS_ENDPOINT_URL", spelling.format(place.origin, port=place.port))
        how: dict[str, Any] = {"key": "k", "secret": "s"} if keys else {"credential_provider": provided}
        seen = []
        for redirects in ("follow", "refuse"):
            store = RemoteStore("s3://b/x", region="eu", redirects=redirects, **how, **QUICK)
            store.get("a")
            seen.append(place.requests[-1].path)
        assert seen[0] == seen[1]


def test_plain_http_that_is_switched_off_is_not_spoken() -> None:
    with Place() as place:
        with pytest.raises(StoreError):
            store_at(place.origin, "keys", allow_http=False).get("a")
        assert not place.requests
        with pytest.raises(StoreError, match="allow_http is off"):
            store_at(place.origin, "keys", allow_http=False, redirects="refuse")


def test_stores_of_obstore_follow_what_they_follow() -> None:
    from obstore.store import S3Store

    given = S3Store("b", endpoint="http://127.0.0.1:9", access_key_id="k", secret_access_key="s", region="eu")
    with pytest.raises(StoreError, match="its own options; given here: redirects"):
        terrazzo.open_array(given, mode="r", storage_options={"redirects": "refuse"})


def test_they_are_followed_where_that_is_wished() -> None:
    with Place() as place, Place() as trap:
        trap.objects["/b/x/a"] = TEN
        place.twist = hostile.redirected(307, lambda r: trap.origin + r.target)
        assert store_at(place.origin, "keys", redirects="follow").get("a") == TEN
        assert trap.requests


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"sse_customer_key_base64": KEY}, "encrypted by a key of yours"),
        ({"proxy_url": "http://127.0.0.1:9"}, "a proxy"),
        ({"http2_only": True}, "HTTP/2"),
    ],
)
def test_what_only_obstore_can_is_refused_where_redirects_are(options: dict[str, Any], why: str) -> None:
    with pytest.raises(StoreError, match=f"redirects='refuse' cannot be kept.*{why}"):
        store_at("http://127.0.0.1:9", "keys", redirects="refuse", **options)
    assert type(store_at("http://127.0.0.1:9", "keys", **options)._client) is ObstoreClient


def test_azures_keys_are_left_to_obstore() -> None:
    named = {"endpoint_url": "http://127.0.0.1:9/account", "account_name": "account", "account_key": KEY}
    assert type(RemoteStore("az://b/x", **named)._client) is ObstoreClient
    with pytest.raises(StoreError, match="sas_token"):
        RemoteStore("az://b/x", redirects="refuse", **named)


def test_options_of_writes_leave_writes_to_obstore() -> None:
    with Place() as place:
        store = store_at(place.origin, "keys", server_side_encryption="AES256", trust_conditions=True)
        store.set("a", TEN)
        assert store.get("a") == TEN
        put, get = place.requests
        assert put.headers["x-amz-server-side-encryption"] == "AES256"
        assert (put.headers["user-agent"], get.headers["user-agent"]) != ("terrazzo", "obstore")
        assert get.headers["user-agent"] == "terrazzo" != put.headers["user-agent"]


@pytest.mark.parametrize("value", ["Refuse", True, 1, "none"])
def test_other_words_are_none(value: Any) -> None:
    with pytest.raises(StoreError, match="'refuse' or 'follow'"):
        RemoteStore("s3://b/x", redirects=value)
    with pytest.raises(StoreError, match="'refuse' or 'follow'"):
        RemoteStore("http://host/x", redirects=value)


# -- whose requests they are ------------------------------------------------------------------------------------------

CLOUDS: list[tuple[str, dict[str, Any]]] = [
    ("s3://bucket/x", {"key": "k", "secret": "s", "region": "eu-west-1"}),
    (
        "s3://bucket/x",
        {"key": "k", "secret": "s", "region": "eu-west-1", "virtual_hosted_style_request": True},
    ),
    ("s3://bucket/x", {"anon": True, "region": "eu-west-1"}),
    ("s3://bucket/x", {"key": "k", "secret": "s", "endpoint_url": "https://s3.eu-west-1.amazonaws.com"}),
    ("gs://bucket/x", {"anon": True}),
    ("az://c/x", {"account_name": "account", "anon": True}),
]


@pytest.mark.parametrize(("address", "options"), CLOUDS)
def test_clouds_are_left_to_obstore_unless_told_otherwise(address: str, options: dict[str, Any]) -> None:
    assert type(RemoteStore(address, **options)._client) is ObstoreClient
    client = RemoteStore(address, **options, redirects="refuse")._client
    assert isinstance(client, GuardedClient)
    if "anon" not in options:
        kept = library().sign(client._store(), "GET", "p/a b", timedelta(seconds=9))
        assert kept.partition("?")[0] == client.way.named("p/a b")


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://s3.amazonaws.com",
        "https://abc.execute-api.eu-west-1.amazonaws.com",
        "https://s3.amazonaws.com.example.org",
        "https://example.org/s3.amazonaws.com",
        "https://s3.amazonaws.com:8443",
        "https://minio.example.org",
    ],
)
def test_names_that_are_no_clouds_are_guarded(endpoint: str) -> None:
    store = RemoteStore("s3://bucket/x", endpoint_url=endpoint, key="k", secret="s")
    assert isinstance(store._client, GuardedClient)


@pytest.mark.parametrize("virtual", [False, True])
def test_addresses_are_those_of_obstore(virtual: bool) -> None:
    for key in ("a", "c/0/0", "with space", "é/日本", "+-=,@~!*'()", "%2e%2e/a"):
        with Place() as place:
            seen: list[str] = []
            for redirects in ("follow", "refuse"):
                store = store_at(
                    place.origin, "keys", redirects=redirects, virtual_hosted_style_request=virtual
                )
                store.get(key)
                seen.append(place.requests[-1].target.partition("?")[0])
            assert seen[0] == seen[1], key


def work(store: RemoteStore) -> list[Any]:
    """A bit of everything."""
    array = terrazzo.create_array(store, shape=(64, 64), dtype="i4", chunks=(8, 8), shards=(32, 32))
    array[...] = np.arange(4096).reshape(64, 64)
    array[3:5, 3:5] = 7
    again = terrazzo.open_array(store, mode="r")
    found = [again[...].sum(), again[9:20, 3:50].sum(), store.exists("none"), store.get("none")]
    store.erase("c/0/0")
    return [*found, sorted(store.list())]


@pytest.mark.parametrize("way", ["keys", "no keys", "keys of a provider"])
def test_requests_are_as_many_as_of_obstore(way: str) -> None:
    counted, found = [], []
    for redirects in ("follow", "refuse"):
        with Place() as place:
            found.append(work(store_at(place.origin, way, redirects=redirects)))
            counted.append(dict(place.counts))
    assert counted[0] == counted[1] and found[0] == found[1]


def test_metadata_and_versions_are_those_of_obstore() -> None:
    with Place() as place:
        own, theirs = (
            store_at(place.origin, "keys", redirects=how, trust_conditions=True)
            for how in ("refuse", "follow")
        )
        own.set_if("a", TEN, None)
        assert theirs.tag("a") == own.tag("a")
        theirs.set_if("a", b"theirs", own.tag("a"))
        tag = own.tag("a")
        assert tag.history == theirs.tag("a").history and len(tag.history) == 2  # type: ignore[union-attr]
        own.set_if("a", b"ours", tag)
        assert theirs.get("a") == b"ours"
        with pytest.raises(terrazzo.errors.ConflictError):
            own.set_if("a", b"late", tag)
        with pytest.raises(terrazzo.errors.ConflictError):
            own.set_if("b", b"late", tag)


def test_large_bodies_go_whole() -> None:
    with Place() as place:
        value = np.random.default_rng(0).bytes(3 << 20)
        for way in ("keys", "no keys"):
            store_at(place.origin, way, single_writer=True).set("a", value)
            assert place.objects.pop("/b/x/a") == value


def test_signatures_in_addresses_stay_hidden() -> None:
    """Neither keys nor signatures are in what is shown or pickled."""
    with Place() as place:
        store = store_at(place.origin, "keys of a provider")
        way = store._client.way  # type: ignore[attr-defined]
        store.get("a")
        (request,) = place.requests
        signature = request.query["X-Amz-Signature"]
        assert request.query["X-Amz-Security-Token"] == "sess1onTOKEN"
        place.twist = hostile.refusing(403)
        with pytest.raises(StoreError) as refused:
            store.get("a")
        texts = [repr(store), str(store), repr(way), repr(store._client), repr(way.route), str(refused.value)]
        for text in texts:
            assert signature not in text and "sess1onTOKEN" not in text and "X-Amz" not in text
        with contextlib.suppress(TerrazzoError):
            assert b"sess1onTOKEN" not in pickle.dumps(store)


def test_tls_with_a_certificate_that_is_given(tmp_path: Path) -> None:
    context = hostile.self_signed(tmp_path)
    with Place(tls=context) as place:
        place.objects["/b/x/a"] = TEN
        with pytest.raises(StoreError, match="certificate is not trusted"):
            store_at(place.origin, "keys").get("a")
        trusting = store_at(place.origin, "keys", client_options={"allow_invalid_certificates": True})
        assert isinstance(trusting._client, GuardedClient) and trusting.get("a") == TEN


def test_headers_of_options_go_along() -> None:
    with Place() as place:
        store = store_at(
            place.origin, "keys", client_options={"default_headers": {"X-Mine": b"1"}, "user_agent": "me"}
        )
        store.get("a")
        (request,) = place.requests
        assert (request.headers["x-mine"], request.headers["user-agent"]) == ("1", "me")


def test_a_bucket_that_is_missing_is_told() -> None:
    missing = b"<?xml version='1.0'?><Error><Code>NoSuchBucket</Code></Error>"

    def without(request: Request, _: Answer) -> Answer:
        return Answer(404, {}, missing if request.method != "HEAD" else b"")

    with Place(twist=without) as place:
        store = store_at(place.origin, "keys")
        for use in (lambda: store.get("a"), lambda: store.set_if("a", TEN, None)):
            with pytest.raises(StoreError, match="no such bucket or container"):
                use()
