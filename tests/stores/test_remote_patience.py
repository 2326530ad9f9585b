"""What is tried again and for how long; foreign errors; forks; stores of other packages."""

from __future__ import annotations

import asyncio
import io
import itertools
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("obstore")
pytest.importorskip("aiohttp")

import obstore
import obstore.store

import terrazzo
from terrazzo.errors import StoreError, TerrazzoError, UnsupportedError
from terrazzo.stores.borrowed import FsspecStore
from terrazzo.stores.contract import ALL
from terrazzo.stores.interrupt import Interrupt, interruptible
from terrazzo.stores.local import LocalStore
from terrazzo.stores.open import open_store
from terrazzo.stores.remote import RemoteStore, native
from terrazzo.stores.remote.loop import launch, together, wait_for
from terrazzo.stores.remote.policy import TRIED_AGAIN, Failure, Patience, Policy, failure_of, plain
from tests.remote.place import Place
from tests.remote.wire import Answer, Request

TEN = b"0123456789"
ROOT = Path(__file__).resolve().parents[2]
QUICK = Policy(timeout=0.2, deadline=1.0, tries=4, first_pause=0.001)


@pytest.fixture
def place() -> Iterator[Place]:
    with Place() as made:
        made.objects["/b/x/a"] = TEN
        yield made


def s3(place: Place, **options: Any) -> RemoteStore:
    return RemoteStore("s3://b/x", **{"endpoint_url": place.origin, "key": "k", "secret": "s", **options})


def http(place: Place, **options: Any) -> RemoteStore:
    return RemoteStore(f"{place.origin}/b/x", **options)


def asking(answers: list[Any], policy: Policy = QUICK, **how: Any) -> tuple[Any, int]:
    """What patience makes of answers and failures, and how often it asked."""
    asked = itertools.count()
    number = [0]

    async def request(attempt: int) -> Any:
        number[0] = next(asked) + 1
        answer = answers[min(attempt, len(answers) - 1)]
        if isinstance(answer, float):
            await asyncio.sleep(answer)
            return answer
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def main() -> Any:
        return await Patience(policy).ask(request, **how)

    try:
        return asyncio.run(main()), number[0]
    except Failure as failure:
        return failure, number[0]


# -- patience ---------------------------------------------------------------------------------------------------------


def test_what_may_pass_is_tried_again() -> None:
    assert asking([Failure("again"), Failure("again"), "here"]) == ("here", 3)
    failure, times = asking([Failure("again", "the server answered 503")])
    assert (failure.kind, times) == ("final", 4)
    assert "503; tried 4 times" in failure.text


@pytest.mark.parametrize(
    "kind", ["absent", "condition", "unchanged", "range", "denied", "unsupported", "final"]
)
def test_what_will_not_pass_is_not(kind: Any) -> None:
    failure, times = asking([Failure(kind), "here"])
    assert (failure.kind, times) == (kind, 1)


def test_what_may_have_happened_is_remembered() -> None:
    failure, _ = asking([Failure("again", applied=True), Failure("condition")])
    assert failure.kind == "condition" and failure.applied
    failure, _ = asking([Failure("again"), Failure("condition")])
    assert not failure.applied


def test_a_try_and_all_tries_end() -> None:
    begun = time.monotonic()
    failure, times = asking([60.0])
    assert failure.kind == "final" and "no answer within" in failure.text and failure.applied
    assert 1 < times <= 5
    assert time.monotonic() - begun < 30
    failure, times = asking([Failure("again", pause=5.0)])
    assert times == 1 and "deadline" in failure.text  # it would wait past the end


def test_a_budget_ends_a_storm() -> None:
    patience = Patience(Policy(tries=5, first_pause=0.0, deadline=60.0))
    asked = [0]

    async def request(_: int) -> None:
        asked[0] += 1
        raise Failure("again", "the server answered 503")

    async def storm() -> list[str]:
        return [str(await asyncio.gather(patience.ask(request), return_exceptions=True)) for _ in range(200)]

    told = asyncio.run(storm())
    assert asked[0] == 200 + Patience.FULL
    assert "too many requests fail" in told[-1]


@pytest.mark.parametrize("kind", [s3, http])
@pytest.mark.parametrize("status", sorted(TRIED_AGAIN))
def test_a_service_that_recovers_is_not_noticed(place: Place, kind: Any, status: int) -> None:
    turns = itertools.count()
    place.twist = lambda request, answer: Answer(status) if next(turns) < 2 else answer
    assert kind(place).get("a") == TEN


@pytest.mark.parametrize("kind", [s3, http])
@pytest.mark.parametrize(
    ("status", "words"), [(401, "denied"), (403, "denied"), (418, "418"), (503, "503.*3 times")]
)
def test_a_service_that_does_not_is_named(place: Place, kind: Any, status: int, words: str) -> None:
    place.twist = lambda request, answer: Answer(status)
    with pytest.raises(StoreError, match=rf"'a'.*{words}"):
        kind(place, tries=3).get("a")


def test_a_pause_that_is_asked_for_is_kept(place: Place) -> None:
    turns = itertools.count()
    place.twist = lambda _, answer: Answer(429, {"Retry-After": "1"}) if next(turns) == 0 else answer
    begun = time.monotonic()
    assert http(place).get("a") == TEN
    assert time.monotonic() - begun >= 1.0


def test_a_server_that_is_not_there(place: Place) -> None:
    for address in ("http://127.0.0.1:9/x", "s3://b/x"):
        options = (
            {}
            if address.startswith("http")
            else {"endpoint_url": "http://127.0.0.1:9", "key": "k", "secret": "s"}
        )
        with pytest.raises(StoreError, match="the connection was refused"):
            RemoteStore(address, tries=2, **options).get("a")


# -- foreign errors ---------------------------------------------------------------------------------------------------


class PanicException(BaseException):
    """Like the one of the native library: no Exception."""


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (FileNotFoundError("x"), "absent", "no such"),
        (PanicException("index out of range"), "final", "panic"),
        (
            obstore.exceptions.GenericError("Received non-partial response when range requested"),
            "final",
            "ignores",
        ),
        (obstore.exceptions.GenericError("Requested 0..4, got 5..9"), "final", "5 to 9"),
        (obstore.exceptions.GenericError("HTTP error: error sending request"), "again", "connection"),
        (
            obstore.exceptions.GenericError("non-2xx status code: 503 x <Code>SlowDown</Code>"),
            "again",
            "SlowDown",
        ),
        (obstore.exceptions.GenericError("non-2xx status code: 416 x"), "range", "range"),
        (obstore.exceptions.NotSupportedError("suffix"), "unsupported", "support"),
        (obstore.exceptions.AlreadyExistsError("x"), "condition", "version"),
        (obstore.exceptions.PermissionDeniedError("x"), "denied", "denied"),
        (ConnectionResetError("x"), "again", "connection"),
        (ValueError("see http://u:hunter2@host/a?b=hunter2\x1b[31m"), "final", "<address>"),
        (Failure("final", "said"), "final", "said"),
    ],
)
def test_foreign_errors_become_ours(error: BaseException, kind: str, words: str) -> None:
    failure = failure_of(error)
    assert failure.kind == kind
    assert words in failure.text
    assert "hunter2" not in failure.text and "\x1b" not in failure.text


def test_foreign_texts_are_cut() -> None:
    assert len(plain("x" * 10_000)) == 200
    assert plain("one\n\ntwo Debug source: secret") == "one two"


def test_a_panic_leaves_the_library_as_an_error(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    class Native:
        _store = native.library()._store

        @staticmethod
        async def get_async(*_: Any, **__: Any) -> Any:
            raise PanicException("called unwrap on None")

    store = s3(place, redirects="follow")
    monkeypatch.setattr("terrazzo.stores.remote.client.library", lambda: Native)
    with pytest.raises(StoreError, match=r"'a'.*bytes 0 to 3.*panic"):
        store.get_partial_values([("a", (0, 3))])


def test_listings_are_streamed_and_strange_names_left_out(place: Place) -> None:
    for n in range(2500):
        place.objects[f"/b/x/c/{n}"] = b""
    place.objects["/b/x/with\\backslash"] = b""
    place.objects["/b/xyz"] = b""
    store = s3(place)
    keys = store.list_prefix("c/")
    next(keys)
    assert place.counts["GET"] <= 2
    assert sum(1 for _ in keys) == 2499
    assert "with\\backslash" not in list(store.list())
    assert store.list_dir("") == (["a"], ["c/"])


def test_a_name_that_cannot_be_listed_is_an_error(place: Place) -> None:
    place.objects["/b/x/c//1"] = b""
    with pytest.raises(StoreError, match="empty segment"):
        list(s3(place).list())
    assert s3(place).get("a") == TEN


# -- the loop ---------------------------------------------------------------------------------------------------------


def test_the_first_error_ends_the_others() -> None:
    ended: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append("slow")

    async def failing() -> None:
        raise KeyError("first")

    with pytest.raises(KeyError):
        wait_for(together([slow, failing, slow]))
    assert ended == ["slow", "slow"]
    assert wait_for(together([])) == []


def test_a_wait_inside_the_loop_is_refused() -> None:
    async def wrong() -> None:
        async def inner() -> None: ...

        launch(inner())

    with pytest.raises(StoreError, match="own event loop"):
        wait_for(wrong())


def test_an_interrupt_ends_waits_now_and_later() -> None:
    interrupt = Interrupt()
    ends: list[str] = []

    def waits() -> None:
        with interruptible(lambda: ends.append("first")):
            interrupt.end()
        with interruptible(lambda: ends.append("later")):
            pass

    interrupt.around(waits)
    assert ends == ["first", "later"]
    with interruptible(lambda: ends.append("nobody asked")):
        pass
    assert len(ends) == 2


# -- processes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [s3, http])
def test_a_forked_child_reads_for_itself(place: Place, kind: Any) -> None:
    """And its parent goes on: what the child inherited is not touched."""
    store = kind(place)
    assert store.get("a") == TEN
    for _ in range(2):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                assert store.get_partial_values([("a", (0, 3))] * 10) == [b"012"] * 10
                inner = os.fork()
                if inner == 0:
                    os._exit(0 if store.get("a") == TEN else 2)
                code = os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1])
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert store.get_partial_values([("a", (0, 3))] * 10) == [b"012"] * 10


#: a thread of the parent reads all the time while children are made, which read too; a try that is lost is an error
FORKED = """
import os, sys, threading
from terrazzo.stores.open import open_store

store = open_store(sys.argv[1], **eval(sys.argv[2]))[0]
begun, over, wrong = threading.Event(), threading.Event(), []

def read():
    assert store.get_partial_values([("a", (0, 3))] * 10) == [b"012"] * 10

def go_on():
    try:
        while not over.is_set():
            read()
            begun.set()
    except BaseException as error:
        wrong.append(error)
        begun.set()

read()
thread = threading.Thread(target=go_on)
thread.start()
begun.wait()
for _ in range(4):
    child = os.fork()
    if child == 0:
        read()
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0
    read()
over.set()
thread.join()
assert not wrong, wrong
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("address", ["s3://b/x", "{origin}/b/x"])
def test_a_child_forked_during_a_read_costs_its_parent_nothing(place: Place, address: str) -> None:
    """A session that the child freed at its end would be taken off the selector that the parent waits with."""
    place.latency = 0.002
    options: dict[str, Any] = {"tries": 1}
    if address[0] == "s":
        options |= {"endpoint_url": place.origin, "key": "k", "secret": "s"}
    done = subprocess.run(
        [
            *(sys.executable, "-X", "dev", "-W", "error::ResourceWarning"),
            *("-W", "ignore::DeprecationWarning"),  # from 3.12 Python tells of forks beside threads
            *("-c", FORKED, address.format(origin=place.origin), repr(options)),
        ],
        capture_output=True,
        timeout=120,
        check=False,
        cwd=ROOT,
    )
    # asyncio tells of steps that took long, as they do on a busy machine
    told = [line for line in done.stderr.splitlines() if not line.startswith(b"Executing <")]
    assert (done.returncode, told) == (0, [])


@pytest.mark.parametrize("address", ["s3://b/x", "{origin}/b/x"])
def test_a_process_ends_quietly(place: Place, address: str) -> None:
    code = (
        "import sys; from terrazzo.stores.open import open_store; "
        "open_store(sys.argv[1], **eval(sys.argv[2]))[0].get_partial_values([('a', (0, 3))] * 50)"
    )
    options = {"endpoint_url": place.origin, "key": "k", "secret": "s"} if address[0] == "s" else {}
    for _ in range(2 if options else 1):
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-c", code, address.format(origin=place.origin), repr(options)],
            capture_output=True,
            timeout=60,
            check=False,
            cwd=ROOT,
        )
        # asyncio tells of steps that took long, as they do on a busy machine
        told = [line for line in done.stderr.splitlines() if not line.startswith(b"Executing <")]
        assert (done.returncode, told) == (0, [])


def test_threads_share_a_store(place: Place) -> None:
    store = s3(place)
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.extend(store.get_partial_values([("a", (1, 2))] * 20)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [b"12"] * 160


# -- stores of other packages -----------------------------------------------------------------------------------------

VALUES = np.arange(64, dtype="i4").reshape(8, 8)


def kept(what: Any) -> None:
    """An array goes in and comes out."""
    array = terrazzo.create_array(what, data=VALUES, chunks=(2, 2), shards=(4, 4))
    array[1:3, 1:3] = 5
    expected = VALUES.copy()
    expected[1:3, 1:3] = 5
    np.testing.assert_array_equal(terrazzo.open_array(what, mode="r")[...], expected)


def test_a_store_of_obstore_as_it_is(place: Place, tmp_path: Path) -> None:
    kept(obstore.store.MemoryStore())
    given = obstore.store.S3Store(
        "b",
        prefix="given",
        endpoint=place.origin,
        access_key_id="k",
        secret_access_key="s3cret",
        client_options={"allow_http": True},
    )
    kept(given)
    assert "/b/given/zarr.json" in place.objects
    store, _ = open_store(given)
    assert "s3cret" not in repr(store) + str(store)
    assert isinstance(store, RemoteStore) and not store.place.trusted
    assert b"s3cret" not in pickle.dumps(store)
    assert pickle.loads(pickle.dumps(store)) == store
    with pytest.raises(StoreError, match="its own options.*region"):
        open_store(given, region="eu")
    folder, _ = open_store(obstore.store.LocalStore(tmp_path), single_writer=True)
    folder.set("a/b", TEN)
    assert (tmp_path / "a" / "b").read_bytes() == TEN
    assert folder.get_partial_values([("a/b", (-3, None)), ("a/b", (50, 2))]) == [b"789", b""]
    with pytest.raises(UnsupportedError, match="single_writer"):
        kept(obstore.store.LocalStore(tmp_path / "other", mkdir=True))


def test_file_systems_of_fsspec_as_they_are(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    kept(fsspec.get_mapper(str(tmp_path / "a")))
    store, _ = open_store(fsspec.filesystem("memory"))
    assert isinstance(store, FsspecStore)
    with pytest.raises(StoreError, match="colour"):
        open_store(fsspec.filesystem("memory"), colour=1)


def test_paths_of_upath_as_they_are(tmp_path: Path) -> None:
    upath = pytest.importorskip("upath")
    kept(upath.UPath("memory://upath-as-it-is"))
    local = upath.UPath(tmp_path / "a")
    kept(local)
    assert isinstance(open_store(local)[0], LocalStore)


def test_errors_of_other_packages_become_ours() -> None:
    fsspec = pytest.importorskip("fsspec")
    fs = fsspec.filesystem("memory", skip_instance_cache=True)

    def failing(*_: Any, **__: Any) -> Any:
        raise RuntimeError("at http://u:hunter2@host/")

    store = FsspecStore(fs, "root")
    for verb in ("cat_ranges", "info", "pipe_file", "rm_file", "find", "ls"):
        setattr(fs, verb, failing)
    for attempt in (
        lambda: store.get_partial_values([("a", ALL)]),
        lambda: store.getsize("a"),
        lambda: store.set("a", b""),
        lambda: store.erase("a"),
        lambda: list(store.list()),
        lambda: store.list_dir(""),
    ):
        with pytest.raises(TerrazzoError, match="RuntimeError") as told:
            attempt()
        assert "hunter2" not in str(told.value)


def test_requests_are_asked_with_what_they_need(place: Place) -> None:
    """No request without a signature, none with a body that nobody asked for."""
    store = s3(place)
    store.get("a")
    (sent,) = place.requests
    assert isinstance(sent, Request)
    assert "X-Amz-Signature" in sent.query and sent.body == b""


def test_a_pool_of_forked_processes(place: Place) -> None:
    """Arrays travel to them by pickles, whose secrets they have from their parent."""
    how = {"endpoint_url": place.origin, "key": "k", "secret": "s3cret"}
    array = terrazzo.create_array("s3://b/p", data=VALUES, chunks=(2, 2), shards=(4, 4), storage_options=how)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(total, [array] * 4).get(30) == [int(VALUES.sum())] * 4
        assert total(array) == int(VALUES.sum())


def test_a_pool_that_is_older_than_the_store_is_told_so(place: Place) -> None:
    """An error while a worker reads its pickle would end the worker without a word, and the pool would wait."""
    how = {"endpoint_url": place.origin, "key": "k", "secret": "s3cret of this test"}
    with multiprocessing.get_context("fork").Pool(1) as pool:
        array = terrazzo.create_array("s3://b/p", data=VALUES, chunks=(2, 2), storage_options=how)
        zipped = io.BytesIO()
        with zipfile.ZipFile(zipped, "w") as archive:
            for path, body in place.objects.items():
                if path.startswith("/b/p/"):
                    archive.writestr(path.removeprefix("/b/p/"), body)
        place.objects["/b/a.zip"] = zipped.getvalue()
        inside = terrazzo.open_array("s3://b/a.zip|zip:", mode="r", storage_options=how)
        assert total(inside) == total(pickle.loads(pickle.dumps(inside))) == int(VALUES.sum())
        for told in pool.map_async(total_or_error, [array, inside]).get(30):
            assert "without the secrets" in str(told) and "s3cret" not in str(told)


def test_a_pickle_that_cannot_be_opened_says_so_at_its_first_use(place: Place) -> None:
    store = s3(place)
    travelling = pickle.dumps(store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "build", refuse_obstore)
        again = pickle.loads(travelling)
        with pytest.raises(UnsupportedError, match="is not installed here"):
            again.get("a")
        third = pickle.dumps(again)
    assert pickle.loads(third).get("a") == TEN


def refuse_obstore(*_: Any) -> Any:
    raise UnsupportedError("obstore is not installed here")


def total(array: Any) -> int:
    return int(array[...].sum())


def total_or_error(array: Any) -> Any:
    try:
        return total(array)
    except TerrazzoError as error:
        return str(error)
