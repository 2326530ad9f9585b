"""The test servers do what they say: conditions that hold, and each fault as its name tells."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator

import pytest

from tests.remote.place import Place
from tests.remote.proxy import FAULTS, FaultProxy
from tests.remote.wire import LOOPBACK

VALUE = bytes(range(256)) * 40


Told = tuple[int, dict[str, str], bytes]


def ask(port: int, method: str, path: str, body: bytes | None = None, **headers: str) -> Told:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=30)
    try:
        connection.request(
            method, path, body, {name.replace("_", "-"): text for name, text in headers.items()}
        )
        answer = connection.getresponse()
        return answer.status, {name.lower(): text for name, text in answer.getheaders()}, answer.read()
    finally:
        connection.close()


@pytest.fixture
def place() -> Iterator[Place]:
    with Place() as place:
        place.objects["/b/k"] = VALUE
        yield place


def test_ranges_and_conditions(place: Place) -> None:
    status, headers, body = ask(place.port, "GET", "/b/k", Range="bytes=10-19")
    assert (status, body, headers["content-range"]) == (206, VALUE[10:20], f"bytes 10-19/{len(VALUE)}")
    tag = headers["etag"]
    assert ask(place.port, "GET", "/b/k", Range="bytes=-7")[2] == VALUE[-7:]
    assert ask(place.port, "GET", "/b/k", Range=f"bytes={len(VALUE)}-")[0] == 416
    assert ask(place.port, "GET", "/b/k", If_Match='"other"')[0] == 412
    assert ask(place.port, "GET", "/b/k", If_None_Match=tag)[0] == 304
    assert ask(place.port, "PUT", "/b/k", b"new", If_None_Match="*")[0] == 412
    assert ask(place.port, "PUT", "/b/k", b"new", If_Match='"other"')[0] == 412
    assert ask(place.port, "PUT", "/b/none", b"new", If_Match=tag)[0] == 404
    assert place.objects == {"/b/k": VALUE}
    assert ask(place.port, "PUT", "/b/k", b"new", If_Match=tag)[0] == 200
    assert ask(place.port, "GET", "/b/k")[2] == b"new"
    assert ask(place.port, "DELETE", "/b/k")[0] == 204
    assert ask(place.port, "HEAD", "/b/k")[0] == 404


def test_conditions_are_exact_under_racing_clients(place: Place) -> None:
    place.objects["/b/n"] = b"0"

    def count(times: int) -> None:
        done = 0
        while done < times:
            _, headers, body = ask(place.port, "GET", "/b/n")
            fresh = b"%d" % (int(body) + 1)
            done += ask(place.port, "PUT", "/b/n", fresh, If_Match=headers["etag"])[0] == 200

    threads = [threading.Thread(target=count, args=(20,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert place.objects["/b/n"] == b"80"


def test_listings_come_in_pages() -> None:
    with Place() as place:
        place.objects.update({f"/b/a/{n:05d}": b"" for n in range(2500)} | {"/b/c": b"1", "/b/a.b/d": b""})
        _, _, body = ask(place.port, "GET", "/b?list-type=2&prefix=a/")
        assert body.count(b"<Key>") == 1000
        assert b"<NextContinuationToken>a/00999<" in body
        _, _, body = ask(place.port, "GET", "/b?list-type=2&prefix=a/&continuation-token=a/01999")
        assert body.count(b"<Key>") == 500
        _, _, body = ask(place.port, "GET", "/b?list-type=2&delimiter=/")
        assert (body.count(b"<Key>"), body.count(b"<CommonPrefixes>")) == (1, 2)


@pytest.mark.parametrize("fault", ["", *FAULTS])
def test_each_fault_is_what_it_says(place: Place, fault: str) -> None:
    applied = fault in ("", "lost", "late 500", "cut", "short", "drip")
    with FaultProxy(place.port, {fault: 1.0} if fault else {}, retry_after=3) as proxy:
        answer: Told | None = None
        refused: BaseException | None = None
        try:
            answer = ask(proxy.port, "GET", "/b/k")
        except (ConnectionError, http.client.HTTPException) as error:
            refused = error
        try:
            ask(proxy.port, "PUT", "/b/k", b"new")
        except (ConnectionError, http.client.HTTPException):
            pass
    assert place.objects["/b/k"] == (b"new" if applied else VALUE)
    assert place.counts["GET"] == (1 if applied else 0)
    assert proxy.done[fault or "passed"] == 2
    if fault in ("", "drip"):
        assert answer is not None and answer[2] == VALUE
    elif fault in ("500", "503", "429", "late 500"):
        assert answer is not None and answer[0] == int(fault.split()[-1])
        assert answer[1].get("retry-after") == ("3" if fault == "429" else None)
    elif fault == "short":
        assert isinstance(refused, http.client.IncompleteRead)
    else:
        assert isinstance(refused, ConnectionError)


def test_the_seed_decides(place: Place) -> None:
    shares = dict.fromkeys(FAULTS, 0.1)
    fates = []
    for seed in (1, 1, 2):
        proxy = FaultProxy(place.port, shares, seed=seed)
        fates.append([proxy.fate() for _ in range(500)])
    assert fates[0] == fates[1] != fates[2]
    assert set(fates[0]) == {"", *FAULTS}
