"""Attacks by servers and by what they list, each with the answer it gets; rows 37 to 43 of the table in SECURITY.md.

Every server here is one of ours on loopback. Nothing asserts a time; what must end is waited for much longer than it
takes, and far shorter than the server would make it last.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import logging
import os
import pickle
import subprocess
import sys
import threading
import time
import traceback
from asyncio.selector_events import BaseSelectorEventLoop
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.cli import main
from terrazzo.errors import ConflictError, StoreError, TerrazzoError, UnsupportedError
from terrazzo.stores.memory import MemoryStore
from terrazzo.stores.open import open_store
from terrazzo.stores.watching import LoggingStore
from tests.remote import hostile
from tests.remote.place import Place

pytest.importorskip("obstore")

ROOT = Path(__file__).resolve().parents[2]
VALUE = np.random.default_rng(1).integers(0, 1 << 40, (64, 64))
PATIENCE = 60.0
#: what nobody may ever see; also as it is written in addresses and in headers
SECRETS = ("hunter2pass", "tok3nZZsecret", "s3cretAccessKEY", "sess1onTOKEN", "userZinfo", "dXNlclppbmZv")


def laid(place: Place, path: str = "b/array") -> None:
    """A sharded array of 64 inner chunks in 4 shards."""
    store = MemoryStore()
    array = terrazzo.create_array(store, shape=VALUE.shape, dtype="i8", chunks=(8, 8), shards=(32, 32))
    array[...] = VALUE
    for key in store.list():
        value = store.get(key)
        assert value is not None
        place.objects[f"/{path}/{key}"] = value


def s3(place: Place, **more: Any) -> dict[str, Any]:
    return {
        "endpoint": place.origin,
        "access_key_id": "testing",
        "secret_access_key": "testing",
        "region": "us-east-1",
        **more,
    }


#: how an array in a Place is opened, by the protocol
def opened(place: Place, protocol: str, mode: str = "r", **more: Any) -> Any:
    if protocol == "http":
        return terrazzo.open_array(f"{place.origin}/b/array", mode=mode, storage_options=more)
    return terrazzo.open_array("s3://b/array", mode=mode, storage_options=s3(place, **more))


QUICK = {"timeout": 0.4, "deadline": 1.0, "tries": 3}
both = pytest.mark.parametrize("protocol", ["http", "s3"])


def ended(work: Callable[[], Any]) -> BaseException | Any:
    """What `work` comes to, which has to be soon."""
    told: list[Any] = []

    def guarded() -> None:
        try:
            told.append(work())
        except BaseException as error:
            told.append(error)

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert told, "it goes on and on"
    return told[0]


@both
def test_an_honest_place_is_read(protocol: str) -> None:
    with Place() as place:
        laid(place)
        np.testing.assert_array_equal(opened(place, protocol)[...], VALUE)
        np.testing.assert_array_equal(opened(place, protocol)[9:20, 3:50], VALUE[9:20, 3:50])


# -- 37, 38: redirects ------------------------------------------------------------------------------------------------

ELSEWHERE: dict[str, Callable[[int], str]] = {
    "another port of loopback": lambda port: f"http://127.0.0.1:{port}",
    "another name of this machine": lambda port: f"http://localhost:{port}",
    "another scheme": lambda port: f"https://127.0.0.1:{port}",
    "an address without a scheme": lambda port: f"//127.0.0.1:{port}",
    "user-info that looks like the host": lambda port: f"http://127.0.0.1:80@127.0.0.1:{port}",
    "an address in another notation": lambda port: f"http://2130706433:{port}",
}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_37_a_redirect_to_another_port_is_not_followed(status: int) -> None:
    with Place() as place, Place() as trap:
        laid(place)
        laid(trap)
        array = opened(place, "http", **QUICK)
        place.twist = hostile.only("/c/", hostile.redirected(status, lambda r: trap.origin + r.target))
        with pytest.raises(StoreError, match="c/0/0"):
            array[:8, :8]
        place.twist = hostile.redirected(status, lambda r: trap.origin + r.target)
        with pytest.raises(TerrazzoError):
            opened(place, "http", **QUICK)
        assert not trap.counts


@pytest.mark.parametrize("where", ELSEWHERE)
def test_37_38_a_redirect_to_elsewhere_is_not_followed(where: str) -> None:
    with Place() as place, Place() as trap:
        laid(place)
        laid(trap)
        array = opened(place, "http", **QUICK, token="tok3nZZsecret")
        place.twist = hostile.redirected(307, lambda r: ELSEWHERE[where](trap.port) + r.target)
        with pytest.raises(StoreError) as refused:
            array[...]
        assert not trap.counts
        assert "tok3nZZsecret" not in str(refused.value)


def test_37_a_redirect_to_the_metadata_of_a_cloud_is_not_followed() -> None:
    with Place() as place:
        laid(place)
        array = opened(place, "http", **QUICK)
        asked: list[Any] = []

        connect: Any = BaseSelectorEventLoop.sock_connect

        async def connecting(loop: Any, sock: Any, address: Any) -> None:
            if address[0] != "127.0.0.1":
                asked.append(address)
                raise OSError("nothing leaves this test")
            await connect(loop, sock, address)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(BaseSelectorEventLoop, "sock_connect", connecting)
            place.twist = hostile.redirected(302, lambda _: "http://169.254.169.254/latest/meta-data/")
            failed = ended(lambda: array[...])
        assert isinstance(failed, StoreError) and "another origin" in str(failed)
        assert asked == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_37_an_object_store_behind_tls_does_not_lead_out_of_it(tmp_path: Path, status: int) -> None:
    """obstore follows redirects, and has no option against that; from https:// never to http://, where the services
    of clouds for their own machines are."""
    with Place(tls=hostile.self_signed(tmp_path)) as place, Place() as trap:
        laid(place)
        laid(trap)
        array = opened(place, "s3", client_options={"allow_invalid_certificates": True}, **QUICK)
        assert (array[...] == VALUE).all()
        place.twist = hostile.redirected(status, lambda r: trap.origin + r.target)
        with pytest.raises(StoreError):
            array[...]
        assert not trap.counts


def test_38_an_object_stores_signature_goes_to_its_origin_alone() -> None:
    with Place() as place, Place() as trap:
        laid(place)
        laid(trap)
        array = opened(place, "s3", **QUICK)
        place.twist = hostile.redirected(307, lambda r: trap.origin + r.target)
        with contextlib.suppress(TerrazzoError):
            array[...]
        assert place.requests and all("X-Amz-Signature" in request.query for request in place.requests)
        assert not [request for request in trap.requests if "authorization" in request.headers]


@both
def test_37_redirects_in_a_circle_end(protocol: str) -> None:
    with Place() as place:
        laid(place)
        array = opened(place, protocol, **QUICK)
        place.counts.clear()
        place.twist = hostile.redirected(302, lambda r: place.origin + r.target)
        assert isinstance(ended(lambda: array[:8, :8]), StoreError)
        assert sum(place.counts.values()) < 100


def test_37_a_redirect_within_the_origin_is_followed() -> None:
    with Place() as place:
        laid(place, "moved/array")
        place.twist = lambda request, answer: (
            answer
            if request.path.startswith("/moved/")
            else hostile.Answer(302, {"Location": request.target.replace("/b/", "/moved/")})
        )
        np.testing.assert_array_equal(opened(place, "http")[...], VALUE)


@pytest.mark.parametrize(
    "how", [{"token": "tok3nZZsecret"}, {"username": "userZinfo", "password": "hunter2pass"}]
)
def test_38_credentials_go_to_the_origin_alone(how: dict[str, str]) -> None:
    with Place() as place, Place() as trap:
        laid(place)
        array = opened(place, "http", **how)
        assert (array[...] == VALUE).all()
        assert all("authorization" in request.headers for request in place.requests)
        place.twist = hostile.redirected(302, lambda r: trap.origin + r.target)
        with pytest.raises(StoreError):
            array[...]
        assert not trap.requests


# -- 39: bodies and ranges that lie -----------------------------------------------------------------------------------


@both
def test_39_a_server_that_ignores_ranges_is_an_error(protocol: str) -> None:
    """Even where what it sends could be cut to size."""
    with Place(ranges=False) as place:
        laid(place)
        place.objects["/b/k"] = bytes(1 << 20)
        store, path = (
            open_store(f"{place.origin}/b", mode="r", **QUICK)
            if protocol == "http"
            else open_store("s3://b", mode="r", **s3(place, **QUICK))
        )
        for window in ((100, 50), (-20, None), (5, None), (0, 100)):
            with pytest.raises(StoreError, match="ignores ranges"):
                store.get_partial_values([(f"{path}k", window)])


@both
def test_39_a_server_that_ignores_ranges_gives_no_garbage(protocol: str) -> None:
    with Place(ranges=False) as place:
        laid(place)
        found = ended(lambda: opened(place, protocol, **QUICK)[:8, :8])
        if isinstance(found, StoreError):
            assert "ranges" in str(found)
        else:  # whole objects were asked for, which is cheaper for small ones
            np.testing.assert_array_equal(found, VALUE[:8, :8])


@both
@pytest.mark.parametrize("body", hostile.BODIES)
def test_39_bodies_that_lie_are_errors_and_bounded(protocol: str, body: str) -> None:
    """Chunks first with the honest index remembered, then everything afresh: the right values, or an error; and the
    server gets rid of no more than buffers hold."""
    with Place() as place:
        laid(place)
        array = opened(place, protocol, **QUICK)
        assert (array[:8, :8] == VALUE[:8, :8]).all()
        endless = hostile.Endless()
        place.twist = hostile.only("/c/", hostile.BODIES[body](endless))
        for use in (lambda: array[8:16, :24], lambda: opened(place, protocol, **QUICK)[...]):
            found = ended(use)
            if isinstance(found, BaseException):
                assert isinstance(found, TerrazzoError), repr(found)
            else:
                assert (found == (VALUE[8:16, :24] if found.shape == (8, 24) else VALUE)).all()
        assert endless.sent < 64 << 20
        place.twist = None
        np.testing.assert_array_equal(array[...], VALUE)  # and nothing of it is remembered


@both
@pytest.mark.parametrize("body", [name for name in hostile.BODIES if "endless" in name or "bomb" in name])
def test_39_documents_without_end_are_not_read_to_the_end(protocol: str, body: str) -> None:
    with Place() as place:
        laid(place)
        endless = hostile.Endless()
        place.twist = hostile.only("zarr.json", hostile.BODIES[body](endless))
        assert isinstance(
            ended(lambda: opened(place, protocol, timeout=5.0, deadline=5.0, tries=1)), TerrazzoError
        )
        assert endless.sent < 256 << 20


# -- 40: patience -----------------------------------------------------------------------------------------------------


@both
def test_40_a_slow_drip_ends(protocol: str) -> None:
    """At this rate, one inner chunk would take most of a minute and the document five."""
    with Place() as place:
        laid(place)
        array = opened(place, protocol, **QUICK)
        array[:8, :8]
        place.twist = hostile.short_of_time(0.2)
        for use in (lambda: array[8:16, :8], lambda: opened(place, protocol, **QUICK)):
            assert isinstance(ended(use), StoreError)


@both
def test_40_a_server_that_says_nothing_is_not_waited_for(protocol: str) -> None:
    async def silence(_: Any, answer: Any) -> Any:
        await asyncio.sleep(3600)
        return answer

    with Place() as place:
        laid(place)
        array = opened(place, protocol, **QUICK)
        place.twist = silence
        assert isinstance(ended(lambda: array[...]), StoreError)


@both
@pytest.mark.parametrize("status", [500, 503, 429])
def test_40_a_storm_of_refusals_is_asked_a_bounded_number_of_times(protocol: str, status: int) -> None:
    with Place() as place:
        laid(place)
        array = opened(place, protocol, tries=4, timeout=2.0, deadline=5.0)
        array[:8, :8]
        place.counts.clear()
        place.twist = hostile.only("/c/", hostile.refusing(status))
        assert isinstance(ended(lambda: array[8:16, :8]), StoreError)
        assert sum(place.counts.values()) <= 8  # a look at the index and a chunk, four times each
        for _ in range(6):
            with pytest.raises(StoreError):
                array[...]
        # the budget of retries is used up: hardly more than one request for each of four shards
        assert sum(place.counts.values()) <= 8 + 6 * 4 * 2 + 100


@both
@pytest.mark.parametrize("pause", ["3600", "9" * 30, "-1", "Fri, 31 Dec 9999 23:59:59 GMT", "nan", "\u0661"])
def test_40_a_server_does_not_say_how_long_we_wait(protocol: str, pause: str) -> None:
    with Place() as place:
        laid(place)
        array = opened(place, protocol, **QUICK)
        place.twist = hostile.refusing(429, Retry_After=pause.encode("utf-8").decode("latin-1"))
        assert isinstance(ended(lambda: array[...]), StoreError)


# -- 41: secrets ------------------------------------------------------------------------------------------------------


def provided() -> dict[str, Any]:
    """Keys that obstore asks for, and signs addresses with."""
    keys = {"access_key_id": "userZinfo", "secret_access_key": "s3cretAccessKEY", "token": "sess1onTOKEN"}
    return {**keys, "expires_at": None}


def secret_ways() -> dict[str, Callable[[Place], tuple[str, dict[str, Any]]]]:
    def at(place: Place, userinfo: str = "", query: str = "") -> str:
        return f"http://{userinfo}127.0.0.1:{place.port}/b/array{query}"

    return {
        "user-info": lambda p: (at(p, "userZinfo:hunter2pass@"), {}),
        "a query": lambda p: (at(p, query="?sig=tok3nZZsecret&x=1"), {}),
        "a token": lambda p: (at(p), {"token": "tok3nZZsecret"}),
        "headers": lambda p: (at(p), {"headers": {"X-Key": "s3cretAccessKEY"}}),
        "keys of S3": lambda p: (
            "s3://b/array",
            s3(
                p,
                access_key_id="userZinfo",
                secret_access_key="s3cretAccessKEY",
                session_token="sess1onTOKEN",
            ),
        ),
        "keys of a provider": lambda p: (
            "s3://b/array",
            {"endpoint_url": p.origin, "credential_provider": provided},
        ),
        "keys of S3 in fsspec's names": lambda p: (
            "s3://b/array",
            {
                "endpoint_url": p.origin,
                "key": "userZinfo",
                "secret": "s3cretAccessKEY",
                "token": "sess1onTOKEN",
            },
        ),
    }


@pytest.mark.parametrize("way", secret_ways())
def test_41_secrets_are_in_nothing_that_is_shown(way: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    shown: dict[str, str] = {}
    with Place() as place, warnings_in(shown):
        laid(place)
        address, options = secret_ways()[way](place)
        options = {**options, "timeout": 0.3, "deadline": 0.4, "tries": 2}
        array = terrazzo.open_array(address, mode="r", storage_options=options)
        store, _ = open_store(address, mode="r", **options)
        shown["array"] = (
            f"{array!r}\n{array}\n{array._repr_html_()}\n{array.store!r} {array.store_path!r} {array.info}"
        )
        shown["store"] = f"{store!r}\n{store}\n{store.identity!r}"
        shown["values"] = str(array[...])
        shown["documents"] = repr(array.metadata) + repr(dict(array.attrs))
        shown["pickle"] = repr(pickle.dumps(array)) + repr(pickle.dumps(store))
        logged = LoggingStore(store)
        logged.get("zarr.json")
        shown["errors"] = ""
        for twist in (
            hostile.refusing(403),
            hostile.refusing(404),
            hostile.refusing(418),
            hostile.refusing(500),
            hostile.redirected(302, lambda r: f"http://127.0.0.1:1{r.target}"),
            hostile.short_of_time(1.0),
            hostile.BODIES["half of the range"](hostile.Endless()),
            hostile.BODIES["a range one byte further"](hostile.Endless()),
            echoing,
        ):
            place.twist = twist
            for use in (
                lambda: array[...],
                lambda: logged.get("x"),
                lambda: terrazzo.open_array(address, mode="r", storage_options=options),
            ):
                try:
                    use()
                except Exception as error:
                    shown["errors"] += f"{error!r}\n{error}\n" + "".join(
                        traceback.TracebackException.from_exception(error, capture_locals=False).format()
                    )
        shown["unpicklable"] = told_by(
            lambda: terrazzo.open_array(address + "/none", mode="r", storage_options=options)
        )
    shown["closed"] = told_by(lambda: array[...])  # nobody listens any more
    shown["log"] = caplog.text + "".join(f"{record.__dict__!r}" for record in caplog.records)
    assert len(shown["errors"]) > 1000
    signed = [
        request.query["X-Amz-Signature"] for request in place.requests if "X-Amz-Signature" in request.query
    ]
    signed += [
        request.headers.get("authorization", "").partition("Signature=")[2] for request in place.requests
    ]
    secrets = {*SECRETS, *filter(None, signed)}
    leaks = {name: secret for name, text in shown.items() for secret in secrets if secret in text}
    assert leaks == {}


def echoing(request: Any, _: Any) -> Any:
    """A server that says what it was told, as some do in their errors."""
    heard = "".join(f"<h>{name}: {text}</h>" for name, text in request.headers.items())
    return hostile.Answer(
        400,
        {"Content-Type": "application/xml"},
        f"<Error><Code>Bad</Code><Message>{request.target}{heard}</Message></Error>".encode(),
    )


def told_by(work: Callable[[], Any]) -> str:
    try:
        return repr(work())
    except Exception as error:
        return f"{error!r} {error} " + "".join(traceback.format_exception(error))


@contextlib.contextmanager
def warnings_in(shown: dict[str, str]) -> Iterator[None]:
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    shown["warnings"] = "\n".join(str(one.message) for one in caught)


@pytest.mark.parametrize(
    "address",
    [
        "s3://userZinfo:hunter2pass@b/array",
        "s3://userZinfo:hunter2pass@b/array?x=tok3nZZsecret",
        "s3://b/array?X-Amz-Signature=tok3nZZsecret",
        "az://userZinfo:hunter2pass@c/array",
        "http://userZinfo:hunter2pass@127.0.0.1:99999/array",
        "http://userZinfo:hunter2pass@/array",
        "http://userZinfo:hunter2pass@[::1/array",
        "https://userZinfo:hunter2pass@127.0.0.1:1/a?tok3nZZsecret#tok3nZZsecret",
        "https://127.0.0.1:1/a?tok3nZZsecret",
        "ftp://userZinfo:hunter2pass@127.0.0.1/a?tok3nZZsecret",
        "wasb3://userZinfo:hunter2pass@127.0.0.1/a?tok3nZZsecret",
    ],
)
def test_41_addresses_that_are_refused_do_not_repeat_secrets(address: str) -> None:
    text = told_by(lambda: terrazzo.open_array(address, mode="r", storage_options={"tries": 1}))
    assert "Error" in text
    assert [secret for secret in SECRETS if secret in text] == []


@pytest.mark.parametrize("name", ["secret_acces_key", "pasword", "endpoint_url"])
def test_41_options_that_are_refused_do_not_repeat_their_values(name: str) -> None:
    given = "http://userZinfo:hunter2pass@127.0.0.1:1" if name == "endpoint_url" else "s3cretAccessKEY"
    text = told_by(lambda: terrazzo.open_array("s3://b/array", mode="r", storage_options={name: given}))
    assert "StoreError" in text
    assert [secret for secret in SECRETS if secret in text] == []


def test_41_the_command_line_shows_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    with Place() as place:
        laid(place)
        address = f"http://userZinfo:hunter2pass@127.0.0.1:{place.port}/b/array?sig=tok3nZZsecret"
        runs = [
            [*verb, address, *more]
            for verb in (["info"], ["tree"], ["ls"], ["cat"], ["inventory"], ["check"])
            for more in ([], ["--json"])
        ] + [["info", address + "/none"], ["info", address.replace("/b/array", "/none")]]
        for run in runs:
            done = commanded(*run)
            assert [secret for secret in SECRETS if secret in done] == [], run
        assert "int64" in commanded("info", address)


def commanded(*arguments: str) -> str:
    """All that a command prints."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(list(arguments))
        except SystemExit:
            pass
    return out.getvalue() + err.getvalue()


# -- 42: versions that tell nothing -----------------------------------------------------------------------------------

UNTRUSTED: dict[str, dict[str, Any]] = {
    "weak tags": {"tags": "weak"},
    "no tags": {"tags": "none"},
    "tags that change at every look": {"tags": "changing"},
    "no conditions": {"conditions": False},
}


@pytest.mark.parametrize("lack", UNTRUSTED)
def test_42_concurrent_writing_is_refused(lack: str) -> None:
    """Partial writes and creation, which depend on conditions, are refused with a sentence, and nothing is changed."""
    with Place(**UNTRUSTED[lack]) as place:
        laid(place)
        before = dict(place.objects)
        array = opened(place, "s3", mode="r+", tries=2)
        with pytest.raises(UnsupportedError, match="condition|version|ETag") as refused:
            array[3:5, 3:5] = 7
        assert "single_writer" in str(refused.value)
        assert {path: place.objects[path] for path in before} == before
        with pytest.raises(UnsupportedError):
            terrazzo.create_array("s3://b/new", shape=(4,), dtype="i4", storage_options=s3(place))
        assert "/b/new/zarr.json" not in place.objects


@pytest.mark.parametrize("lack", ["weak tags", "no conditions"])
def test_42_one_writer_is_let_in_by_name(lack: str) -> None:
    with Place(**UNTRUSTED[lack]) as place:
        laid(place)
        array = opened(place, "s3", mode="r+", single_writer=True)
        array[3:5, 3:5] = 7
        expected = VALUE.copy()
        expected[3:5, 3:5] = 7
        np.testing.assert_array_equal(opened(place, "s3")[...], expected)


@both
@pytest.mark.parametrize("lack", UNTRUSTED)
def test_42_reading_is_right_or_an_error(protocol: str, lack: str) -> None:
    with Place(**UNTRUSTED[lack]) as place:
        laid(place)
        array = opened(place, protocol, tries=2)
        for part in (np.s_[...], np.s_[:8, :8], np.s_[9:40, 3:9], np.s_[:8, :8]):
            try:
                np.testing.assert_array_equal(array[part], VALUE[part])
            except ConflictError:
                assert lack == "tags that change at every look"
        assert sum(place.counts.values()) < 200


# -- 43: listings -----------------------------------------------------------------------------------------------------


def resident() -> int:
    """Bytes of memory that this process has now."""
    gc.collect()
    text = Path("/proc/self/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) << 10


def test_43_very_many_keys_are_streamed() -> None:
    """A list of them would be 20 MB here; LISTED_KEYS says how many."""
    n_keys = int(os.environ.get("LISTED_KEYS", 200_000))
    with hostile.Crowd(n_keys, lambda n: f"array/c/{n:09d}") as place:
        store, _ = open_store("s3://b", mode="r", **s3(place))
        keys = store.list()
        for _ in range(10_000):
            next(keys)
        before = resident()
        most = 0
        for n, _ in enumerate(keys):
            if n % 50_000 == 0:
                most = max(most, resident())
        assert n == n_keys - 10_001
        assert most - before < 12 << 20


def test_43_a_listing_without_end_can_be_left() -> None:
    with hostile.Crowd(None, lambda n: f"array/c/{n:09d}") as place:
        store, _ = open_store("s3://b", mode="r", **s3(place))
        keys = store.list_prefix("array/")
        assert [next(keys) for _ in range(3)] == [f"array/c/{n:09d}" for n in range(3)]
        keys.close()  # type: ignore[attr-defined]
        asked = place.counts["GET"]
        time.sleep(0.3)
        assert place.counts["GET"] <= asked + 3  # nobody goes on listing


def test_43_names_below_one_folder_without_end_are_given_up() -> None:
    """What has to be held whole (the names of one folder) is bounded by the time that is allowed for it."""
    with hostile.Crowd(None, lambda n: f"group/{n:09d}") as place:
        store, _ = open_store("s3://b", mode="r", **s3(place, **QUICK))
        before = resident()
        assert isinstance(ended(lambda: store.list_dir("group/")), StoreError)
        assert resident() - before < 128 << 20
        asked = place.counts["GET"]
        time.sleep(0.3)
        assert place.counts["GET"] <= asked + 3


def test_40_43_a_listing_that_stops_ends() -> None:
    """After the first page nothing comes any more."""

    async def silence(request: Any, answer: Any) -> Any:
        if "start-after" in request.query or "continuation-token" in request.query:
            await asyncio.sleep(3600)
        return answer

    with hostile.Crowd(5000, lambda n: f"group/{n:09d}") as place:
        place.twist = silence
        store, _ = open_store("s3://b", mode="r", **s3(place, **QUICK))
        keys = store.list()
        assert [next(keys) for _ in range(1000)][-1] == "group/000000999"
        assert isinstance(ended(lambda: next(keys)), StoreError)
        assert isinstance(ended(lambda: store.list_dir("group/")), StoreError)


NASTY = [
    "\x1b[31mred\x1b[0m",
    "two\nlines",
    "\x9b31mC1",
    "back\rto",
    "bell\x07",
    "\x1b]0;title\x07",
    "\u202edlrow",
]


@pytest.mark.parametrize("verb", ["tree", "ls", "info"])
@pytest.mark.parametrize("kind", ["folder", "s3", "http"])
def test_43_names_do_not_steer_the_terminal(tmp_path: Path, verb: str, kind: str) -> None:
    """From a folder, from a bucket (obstore lists no such names, and says so), and from a consolidated document."""
    group = terrazzo.open_group(tmp_path / "g", mode="a", attributes={name: name for name in NASTY})
    for name in NASTY:
        group.create_array(name, shape=(4,), dtype="i4", attributes={name: name})
    if kind == "http":
        terrazzo.consolidate_metadata(tmp_path / "g")
    with Place() as place, pytest.MonkeyPatch.context() as patch:
        for path in (tmp_path / "g").rglob("*"):
            if path.is_file():
                place.objects[f"/b/g/{path.relative_to(tmp_path / 'g')}"] = path.read_bytes()
        patch.setenv("AWS_ENDPOINT_URL", place.origin)
        patch.setenv("AWS_ACCESS_KEY_ID", "testing")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        where = {"folder": str(tmp_path / "g"), "s3": "s3://b/g", "http": f"{place.origin}/b/g"}[kind]
        printed = commanded(verb, where)
    assert ("listing failed" if kind == "s3" else "dlrow") in printed
    steering = [c for c in printed if (ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 or c == "\u202e"]
    assert steering == [], printed
    assert "\nlines" not in printed


def test_41_43_a_process_of_its_own_prints_nothing_either() -> None:
    """The command as users run it, its last words included."""
    with Place(twist=hostile.refusing(403)) as place:
        address = f"http://userZinfo:hunter2pass@127.0.0.1:{place.port}/a?sig=tok3nZZsecret"
        done = subprocess.run(
            [sys.executable, "-m", "terrazzo", "info", address],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
    assert done.returncode
    assert "denied" in done.stderr
    assert [secret for secret in SECRETS if secret in done.stdout + done.stderr] == []
