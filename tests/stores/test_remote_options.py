"""Addresses and options of remote stores, what they show of themselves, and what travels in a pickle."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("obstore")
pytest.importorskip("aiohttp")

from terrazzo.errors import KeyRefusedError, StoreError, UnsupportedError
from terrazzo.stores.open import known_schemes, open_store
from terrazzo.stores.remote import RemoteStore
from terrazzo.stores.remote.address import SCHEMES, parse_address, shown
from terrazzo.stores.remote.settings import settings_of

SECRET = "hunter2secret"


@pytest.mark.parametrize(
    ("text", "place", "path"),
    [
        ("s3://bucket/a/b.zarr/", "bucket", "a/b.zarr"),
        ("S3://bucket", "bucket", ""),
        ("s3://bucket/a b%20c", "bucket", "a b%20c"),
        ("gs://bucket/a", "bucket", "a"),
        ("az://container/a", "container", "a"),
        ("https://Host:443/a/b/", "https://host", "a/b"),
        ("http://host:8080", "http://host:8080", ""),
        ("http://[::1]:8080/a", "http://[::1]:8080", "a"),
    ],
)
def test_addresses(text: str, place: str, path: str) -> None:
    found = parse_address(text)
    assert (found.place, found.path) == (place, path)


def test_an_address_of_azure_can_name_its_account() -> None:
    found = parse_address("abfss://container@account.dfs.core.windows.net/a")
    assert (found.place, found.path, found.named) == ("container", "a", {"account_name": "account"})


@pytest.mark.parametrize(
    "text",
    [
        f"s3://key:{SECRET}@bucket/a",
        f"s3://bucket/a?token={SECRET}",
        "s3://bucket/a#b",
        "s3://",
        "s3:///a",
        "s3://-/a",
        "s3://bucket/a\nb",
        "http://",
        "http://host:port/a",
        f"http://u:{SECRET}@host:99999/a",
        "http://host/a#b",
        f"az://container:{SECRET}@account.dfs.core.windows.net/a",
        "az://container@host/a",
        "s3:bucket/a",
        "ftp://host/a",
    ],
)
def test_what_is_no_address_is_refused_without_its_secrets(text: str) -> None:
    with pytest.raises(StoreError) as refused:
        parse_address(text)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("text", ["s3://bucket/a/../b", "s3://bucket/a//b", "http://host/a/%2e%2e/b"])
def test_paths_that_climb_are_refused(text: str) -> None:
    with pytest.raises(KeyRefusedError):
        parse_address(text)


def test_what_is_shown_of_an_address() -> None:
    assert shown(f"http://u:{SECRET}@host/a?b={SECRET}") == "http://…@host/a?…"
    assert shown("s3://bucket/a") == "s3://bucket/a"
    assert shown("a/b") == "a/b"


def test_every_scheme_is_opened() -> None:
    assert set(SCHEMES) < set(known_schemes())


@pytest.mark.parametrize(
    ("address", "given", "config"),
    [
        (
            "s3://b",
            {"key": "a", "secret": "b", "token": "c", "endpoint_url": "http://h:1/", "region_name": "eu"},
            {
                "access_key_id": "a",
                "secret_access_key": "b",
                "session_token": "c",
                "endpoint": "http://h:1",
                "region": "eu",
            },
        ),
        (
            "s3://b",
            {"anon": True, "client_kwargs": {"region_name": "eu"}},
            {"skip_signature": True, "region": "eu"},
        ),
        ("s3://b", {"config": {"region": "eu"}, "requester_pays": False}, {"region": "eu"}),
        ("gs://b", {"token": "anon"}, {"skip_signature": True}),
        ("gs://b", {"endpoint_url": "http://h:1"}, {"base_url": "http://h:1", "skip_signature": True}),
        ("az://b", {"account_name": "n", "sas_token": "s"}, {"account_name": "n", "sas_key": "s"}),
        ("http://h/a", {"headers": {"a": "b"}}, {"headers": {"a": "b"}}),
    ],
)
def test_options_in_other_names(address: str, given: dict[str, Any], config: dict[str, Any]) -> None:
    assert dict(settings_of(parse_address(address), given).config) == config


@pytest.mark.parametrize(
    ("address", "name", "hint"),
    [
        ("s3://b", "secert", "secret"),
        ("s3://b", "endpoint_uri", "endpoint_url"),
        ("s3://b", "colour", "there are"),
        ("s3://b", "account_key", "access_key_id"),
        ("gs://b", "bearer", "bearer_token"),
        ("http://h", "region", "there are"),
        ("http://h", "allow_http", "there are"),
    ],
)
def test_unknown_options_are_refused_with_the_nearest(address: str, name: str, hint: str) -> None:
    with pytest.raises(StoreError, match=f"{name}.*{hint}") as refused:
        RemoteStore(address, **{name: SECRET})
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("timeout", 0),
        ("timeout", "1"),
        ("deadline", -1),
        ("deadline", True),
        ("tries", 0),
        ("tries", 1.5),
        ("concurrency", 0),
        ("buffer", -1),
        ("cost", 5),
        ("client_options", 5),
        ("client_options", {"colour": 1}),
        ("config", []),
        ("endpoint_url", "ftp://host"),
        ("endpoint_url", f"http://u:{SECRET}@host"),
    ],
)
def test_values_that_mean_nothing_are_refused(name: str, value: Any) -> None:
    with pytest.raises(StoreError) as refused:
        RemoteStore("s3://b", **{name: value})
    assert SECRET not in str(refused.value)


def test_what_obstore_refuses_comes_when_a_store_is_opened() -> None:
    with pytest.raises(StoreError, match="cannot be opened"):
        RemoteStore("s3://b", key="only half")


def far(**options: Any) -> RemoteStore:
    return RemoteStore("s3://bucket/a", **{"key": "userKey", "secret": SECRET, "region": "eu", **options})


def test_a_store_is_known_by_its_place() -> None:
    assert far() == far(secret="another")
    assert hash(far()) == hash(far())
    assert far() != RemoteStore("s3://bucket/b", anon=True)
    assert far() != far(endpoint_url="http://h:1")
    assert repr(far()) == "RemoteStore('s3://bucket/a')"


@pytest.mark.parametrize(
    "make",
    [
        far,
        lambda: RemoteStore(f"https://u:{SECRET}@host/a?sig={SECRET}"),
        lambda: RemoteStore("https://host/a", token=SECRET),
        lambda: RemoteStore("https://host/a", headers={"X": SECRET}),
        lambda: RemoteStore("az://c/a", account_name="n", account_key="aHVudGVyMnNlY3JldA=="),
    ],
)
def test_nothing_shown_holds_a_secret_nor_does_a_pickle(make: Any) -> None:
    store = make()
    travelling = pickle.dumps(store)
    for text in (repr(store), str(store), repr(store.place), repr(store.identity), repr(travelling)):
        assert SECRET not in text and "aHVudGVy" not in text and "userKey" not in text
    again = pickle.loads(travelling)
    assert again == store
    assert pickle.loads(pickle.dumps(again)) == store


@pytest.mark.parametrize("name", ["single_writer", "trust_conditions", "carry_secrets"])
def test_words_are_no_switches(name: str) -> None:
    with pytest.raises(StoreError, match=rf"{name} is 'false'; True or False"):
        RemoteStore("s3://bucket/a", **{name: "false"})


def test_another_process_is_told_that_secrets_do_not_travel() -> None:
    code = "import pickle, sys; s = pickle.load(sys.stdin.buffer); print('came'); s.exists('a') if sys.argv[1:] else 0"

    def sent(store: RemoteStore, *use: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-c", code, *use],
            input=pickle.dumps(store),
            capture_output=True,
            timeout=60,
            check=False,
        )

    refused = sent(far(), "use")
    assert refused.returncode != 0
    assert b"carry_secrets=True" in refused.stderr and SECRET.encode() not in refused.stderr
    assert sent(far(carry_secrets=True)).stdout == b"came\n"
    assert sent(RemoteStore("s3://bucket/a", region="eu")).stdout == b"came\n"


def test_without_the_extras_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from terrazzo.stores.remote import native

    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(UnsupportedError, match=r"terrazzo\[remote\]"):
        open_store("https://host/a")
    monkeypatch.setattr(native, "_loaded", None)
    monkeypatch.setitem(sys.modules, "obstore._obstore", None)
    with pytest.raises(UnsupportedError, match=r"terrazzo\[remote\]"):
        open_store("s3://bucket/a")
