"""obstore's store objects: the same one for the same recipe, and never one of other credentials or another process."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("obstore")

from terrazzo.stores.remote import RemoteStore, native
from terrazzo.stores.remote.native import Recipe, build
from tests.remote.place import Place

SECRET = "not-to-be-shown"


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_kept", OrderedDict())


@pytest.fixture
def place() -> Iterator[Place]:
    with Place() as made:
        yield made


def recipe(**config: Any) -> Recipe:
    usual = {"region": "us-east-1", "access_key_id": "k", "secret_access_key": SECRET}
    return Recipe("S3Store", ("bucket",), {"config": {**usual, **config}})


def opened(place: Place, path: str = "x", **options: Any) -> RemoteStore:
    given = {"endpoint_url": place.origin, "key": "k", "secret": SECRET, "trust_conditions": True}
    return RemoteStore(f"s3://b/{path}", **{**given, **options})


def test_one_recipe_is_one_store_object() -> None:
    assert build(recipe()) is build(recipe())


def test_stores_of_one_bucket_share_a_client_and_keep_apart_what_they_hold(place: Place) -> None:
    first, second = opened(place, "x"), opened(place, "y")
    first.set("k", b"1")
    second.set("k", b"2")
    assert (first.get("k"), second.get("k")) == (b"1", b"2")
    assert len(native._kept) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"secret_access_key": "another"},
        {"access_key_id": "j"},
        {"session_token": "t"},
        {"skip_signature": True},
    ],
    ids=lambda other: next(iter(other)),
)
def test_other_credentials_are_another_store_object(other: dict[str, Any]) -> None:
    assert build(recipe()) is not build(recipe(**other))


def test_another_place_is_another_store_object() -> None:
    plain = recipe()
    assert build(plain) is not build(plain._replace(positional=("another",)))
    assert build(plain) is not build(recipe(region="eu-central-1"))
    assert build(plain) is not build(recipe(endpoint="https://s3.example"))


def test_another_environment_is_another_store_object(monkeypatch: pytest.MonkeyPatch) -> None:
    before = build(recipe())
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of somebody else")
    assert build(recipe()) is not before


def test_providers_of_credentials_are_not_compared() -> None:
    class Provider:
        def __repr__(self) -> str:
            return "Provider()"

        def __call__(self) -> dict[str, Any]:
            return {"access_key_id": "k", "secret_access_key": SECRET, "expires_at": None}

    given = Recipe("S3Store", ("bucket",), {"config": {"region": "r"}, "credential_provider": Provider()})
    assert build(given) is not build(given)
    assert not native._kept


def test_text_of_a_class_of_its_own_is_not_compared() -> None:
    class Text(str):
        def __repr__(self) -> str:
            return "'k'"

    assert build(recipe(access_key_id=Text("a"))) is not build(recipe(access_key_id=Text("b")))
    assert not native._kept


def test_google_s_read_their_file_each_time() -> None:
    google = Recipe("GCSStore", ("bucket",), {"config": {"skip_signature": True}})
    assert build(google) is not build(google)
    assert not native._kept


def test_only_so_many_are_kept_and_those_wanted_last() -> None:
    first = build(recipe())
    for k in range(native.MOST_KEPT - 1):
        build(recipe(region=f"r{k}"))
    assert build(recipe()) is first
    for k in range(native.MOST_KEPT - 1):
        build(recipe(region=f"s{k}"))
    assert len(native._kept) == native.MOST_KEPT
    assert build(recipe()) is first
    for k in range(native.MOST_KEPT):
        build(recipe(region=f"t{k}"))
    assert build(recipe()) is not first


def test_one_is_kept_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    first = build(recipe())
    monkeypatch.setattr(native, "LONGEST_KEPT", 0.0)
    assert build(recipe()) is not first
    assert len(native._kept) == 1


def test_a_recipe_that_is_refused_is_refused_again() -> None:
    wrong = recipe(checksum_algorithm="unheard-of")
    for _ in range(2):
        with pytest.raises(Exception, match="(?i)checksum|unheard"):
            build(wrong)
    assert not native._kept


def test_what_is_kept_shows_no_secret() -> None:
    build(recipe())
    assert SECRET not in repr(native._kept)
    assert len(native._kept) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_makes_its_own(place: Place) -> None:
    store = opened(place)
    store.set("k", b"value")
    pid = os.fork()
    if pid == 0:
        try:
            empty = not native._kept
            again = opened(place)
            os._exit(0 if empty and again.get("k") == b"value" and len(native._kept) == 1 else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert store.get("k") == b"value"
    assert opened(place).get("k") == b"value"
