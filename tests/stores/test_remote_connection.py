"""HTTP by aiohttp: bodies in every framing, connections that are kept or are not, proxies, and answers that are
no HTTP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("aiohttp")

from hypothesis import given, settings
from hypothesis import strategies as st

from terrazzo.errors import StoreError
from terrazzo.stores.remote import RemoteStore
from tests.remote import hostile
from tests.remote.place import Place
from tests.remote.wire import Answer, Cut, Request, WireServer

TEN = b"0123456789"
QUICK: dict[str, Any] = {"timeout": 5.0, "deadline": 5.0, "tries": 1}


class Teller(WireServer):
    """Says exactly these bytes to every request, in these pieces; `connections` counts who came."""

    def __init__(self, *pieces: bytes, end: bool = False) -> None:
        super().__init__()
        self.pieces, self.end = list(pieces), end
        self.peers: set[Any] = set()
        self.heads: list[bytes] = []

    async def serve(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        self.peers.add(writer.get_extra_info("peername"))
        self.heads.append(request.head)
        for piece in self.pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        return not self.end


def told(*pieces: bytes, end: bool = False, window: Any = (0, None)) -> bytes | None:
    """What a store makes of an answer."""
    with Teller(*pieces, end=end) as teller:
        (found,) = RemoteStore(f"{teller.origin}/b", **QUICK).get_partial_values([("a", window)])
        return found


def head(*fields: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *fields, "", ""]).encode()


CHUNKS = b"4\r\n0123\r\n6;why=not\r\n456789\r\n0\r\nTrailer: x\r\n\r\n"


@pytest.mark.parametrize(
    ("pieces", "end"),
    [
        ([head("Content-Length: 10") + TEN], False),
        ([head("content-length:10"), TEN[:3], TEN[3:]], False),
        ([head("Transfer-Encoding: chunked") + CHUNKS], False),
        ([head("Transfer-Encoding: Chunked"), *(CHUNKS[n : n + 1] for n in range(len(CHUNKS)))], False),
        ([head(), TEN], True),
        ([b"HTTP/1.0 200\r\n\r\n", TEN], True),
        (
            [
                head(status="100 Continue"),
                head("A: b", status="103 Early Hints"),
                head("Content-Length: 10"),
                TEN,
            ],
            False,
        ),
        ([b"HTTP/1.1 200 OK\r\nContent-", b"Length: 10\r", b"\n\r\n", TEN], False),
        ([head("Content-Length: 10", "X: \xff\xfe") + TEN], False),
    ],
)
def test_every_framing_of_a_body(pieces: list[bytes], end: bool) -> None:
    assert told(*pieces, end=end) == TEN


@pytest.mark.parametrize(
    "said",
    [
        b"hello\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        head("Content-Length: -1"),
        head("Content-Length: 1e3"),
        head("Content-Length: 10", "Content-Length: 11") + TEN,
        head("Content-Length: " + "9" * 30),
        head("Transfer-Encoding: gzip, chunked") + CHUNKS,
        head("Transfer-Encoding: chunked") + b"zz\r\n",
        head("Transfer-Encoding: chunked") + b"-4\r\n0123\r\n",
        head("Transfer-Encoding: chunked") + b"4\r\n0123X\r\n0\r\n\r\n",
        head("Transfer-Encoding: chunked") + b"f" * 5000,
        head("Transfer-Encoding: chunked") + b"0\r\n" + b"Trailer: x\r\n" * 10_000 + b"\r\n",
        head(": nameless"),
        head("Bad name: x"),
        head("A: " + "b" * 70_000),
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20_000,
        head("Content-Length: 0", status="101 Switching Protocols"),
    ],
)
def test_what_is_no_http_is_an_error(said: bytes) -> None:
    with pytest.raises(StoreError, match="no HTTP|answered 101"):
        told(said, end=True)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 200",
        head("Content-Length: 10") + TEN[:5],
        head("Transfer-Encoding: chunked") + b"5\r\n0123",
        head("Transfer-Encoding: chunked") + b"5\r\n01234\r\n",
        head(status="100 Continue") * 20,
    ],
)
def test_answers_that_end_too_early_are_errors(said: bytes) -> None:
    with pytest.raises(StoreError, match="ended before the answer|5 of the 10 bytes"):
        told(said, end=True)


@given(st.binary(max_size=200), st.integers(1, 40))
@settings(max_examples=40, deadline=None)
def test_any_bytes_are_an_answer_or_an_error(said: bytes, at: int) -> None:
    for start in (
        b"",
        b"HTTP/1.1 200 OK\r\n",
        head("Transfer-Encoding: chunked"),
        head("Content-Length: 20"),
    ):
        try:
            found = told(start + said[:at], said[at:], end=True)
        except StoreError:
            continue
        # nothing but what was sent, whatever it claimed
        assert found is None or (set(found) <= set(said) and len(found) <= len(said))


def test_only_bodies_that_nobody_announced_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("terrazzo.stores.remote.exchange.MOST_UNANNOUNCED", 9)
    assert told(head("Content-Length: 10") + TEN) == TEN
    said = head("Content-Range: bytes 0-9/10", "Content-Length: 10", status="206 Partial Content") + TEN
    assert told(said, window=(-20, None)) == TEN
    with pytest.raises(StoreError, match="more than the 9 bytes"):
        told(head(), TEN, end=True)


# -- connections that are kept ----------------------------------------------------------------------------------------


@pytest.fixture
def place() -> Iterator[Place]:
    with Place() as made:
        made.objects["/b/x/a"] = TEN
        yield made


def peers(place: Place) -> set[Any]:
    """Who asks, from now on."""
    found: set[Any] = set()
    honest = place.serve

    async def serve(request: Request, writer: asyncio.StreamWriter) -> bool:
        found.add(writer.get_extra_info("peername"))
        return await honest(request, writer)

    place.serve = serve  # type: ignore[method-assign]
    return found


def test_one_connection_serves_many_requests_also_after_refusals(place: Place) -> None:
    came = peers(place)
    store = RemoteStore(f"{place.origin}/b/x", **QUICK)
    for _ in range(5):
        assert store.get("a") == TEN and store.get("none") is None and not store.exists("neither")
        assert store.get_partial_values([("a", (20, 4)), ("a", (2, 3))]) == [b"", b"234"]
    assert len(came) <= 2


@pytest.mark.parametrize("fields", [["Connection: close"], ["connection: keep-alive, Close"]])
def test_a_server_that_closes_is_believed(fields: list[str]) -> None:
    with Teller(head("Content-Length: 10", *fields) + TEN) as teller:
        store = RemoteStore(f"{teller.origin}/b", **QUICK)
        assert [store.get("a") for _ in range(3)] == [TEN] * 3
        assert len(teller.peers) == 3


def test_what_comes_unasked_ends_a_connection() -> None:
    with Teller(head("Content-Length: 10") + TEN + head("Content-Length: 4") + b"evil") as teller:
        store = RemoteStore(f"{teller.origin}/b", **QUICK)
        assert [store.get("a") for _ in range(3)] == [TEN] * 3
        assert len(teller.peers) == 3


def test_a_connection_that_was_closed_while_it_waited_is_replaced(place: Place) -> None:
    """Without a try of patience: nothing of the request was heard."""
    store = RemoteStore(f"{place.origin}/b/x", **QUICK)
    cut: list[bool] = []

    def twist(request: Request, answer: Answer) -> Answer:
        if not cut and len(place.requests) > 1:
            cut.append(True)
            raise Cut
        return answer

    place.twist = twist
    assert [store.get("a"), store.get("a"), store.get("a")] == [TEN] * 3
    assert cut


def test_a_write_is_not_sent_twice_unseen(place: Place) -> None:
    pytest.importorskip("obstore")
    store = RemoteStore(
        "s3://b/x", endpoint_url=place.origin, key="k", secret="s", single_writer=True, **QUICK
    )
    store.set("a", TEN)
    place.twist = lambda *_: (_ for _ in ()).throw(Cut())
    place.requests.clear()
    with pytest.raises(StoreError, match="may have been written all the same"):
        store.set("a", b"new")
    assert len(place.requests) == 1


def test_an_answer_before_the_body_was_sent_is_heard() -> None:
    pytest.importorskip("obstore")

    class Early(WireServer):
        async def serve(self, request: Request, writer: asyncio.StreamWriter) -> bool:
            raise AssertionError

        async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(head("Content-Length: 0", status="403 Forbidden"))
            await writer.drain()
            await asyncio.sleep(0.5)
            writer.close()

    with Early() as server:
        store = RemoteStore(
            "s3://b/x", endpoint_url=server.origin, key="k", secret="s", single_writer=True, **QUICK
        )
        with pytest.raises(StoreError, match="403: access was denied"):
            store.set("a", bytes(64 << 20))


# -- proxies ----------------------------------------------------------------------------------------------------------


class Proxy(WireServer):
    """Passes on what it is asked: whole addresses, or a tunnel."""

    def __init__(self, status: int = 200) -> None:
        super().__init__()
        self.status = status
        self.heard: list[Request] = []

    async def serve(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        raise AssertionError

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from tests.remote.wire import read_request

        request = await read_request(reader)
        if request is None:
            writer.close()
            return
        self.heard.append(request)
        if self.status != 200:
            writer.write(head("Content-Length: 0", status=f"{self.status} No"))
            writer.close()
            return
        if request.method == "CONNECT":
            host, _, port = request.target.rpartition(":")
            far = await asyncio.open_connection(host, int(port))
            writer.write(head())
        else:
            parts = urlsplit(request.target)
            assert parts.hostname and parts.port
            far = await asyncio.open_connection(parts.hostname, parts.port)
            far[1].write(request.head.replace(f"http://{parts.netloc}".encode(), b"", 1))
        await asyncio.gather(_pass(reader, far[1]), _pass(far[0], writer))


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except (ConnectionError, asyncio.CancelledError):
        pass
    writer.close()


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


def test_a_proxy_is_asked_for_whole_addresses(place: Place, quiet: pytest.MonkeyPatch) -> None:
    with Proxy() as proxy:
        quiet.setenv("http_proxy", f"http://user:hunter2@127.0.0.1:{proxy.port}")
        assert RemoteStore(f"{place.origin}/b/x", **QUICK).get("a") == TEN
        (request,) = proxy.heard
        assert request.target == f"{place.origin}/b/x/a"
        assert request.headers["proxy-authorization"] == "Basic dXNlcjpodW50ZXIy"
        quiet.setenv("no_proxy", "127.0.0.1")
        assert RemoteStore(f"{place.origin}/b/x", **QUICK).get("a") == TEN
        assert len(proxy.heard) == 1


def test_a_proxy_is_a_tunnel_for_tls(tmp_path: Path, quiet: pytest.MonkeyPatch) -> None:
    with Place(tls=hostile.self_signed(tmp_path)) as place, Proxy() as proxy:
        place.objects["/b/x/a"] = TEN * 100_000
        quiet.setenv("https_proxy", f"http://user:hunter2@127.0.0.1:{proxy.port}")
        store = RemoteStore(f"{place.origin}/b/x", verify=False, **QUICK)
        assert store.get("a") == TEN * 100_000 and store.get("a") == TEN * 100_000
        (request,) = proxy.heard
        assert (request.method, request.target) == ("CONNECT", f"127.0.0.1:{place.port}")
        assert "proxy-authorization" not in place.requests[0].headers
        with pytest.raises(StoreError, match="certificate is not trusted"):
            RemoteStore(f"{place.origin}/b/x", **QUICK).get("a")


def test_a_proxy_that_refuses_is_told_without_its_password(quiet: pytest.MonkeyPatch) -> None:
    with Proxy(407) as proxy:
        for address in (f"http://user:hunter2@127.0.0.1:{proxy.port}", "socks5://user:hunter2@127.0.0.1:1"):
            quiet.setenv("https_proxy", address)
            with pytest.raises(StoreError, match="the proxy") as refused:
                RemoteStore("https://127.0.0.1:1/x", **QUICK).get("a")
            assert "hunter2" not in str(refused.value)


def test_a_server_of_another_protocol_behind_https() -> None:
    class Plain(WireServer):
        async def serve(self, request: Request, writer: asyncio.StreamWriter) -> bool:
            raise AssertionError

        async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(head("Content-Length: 0", status="400 Bad Request"))
            await reader.read(1)
            writer.close()

    with Plain() as server:
        with pytest.raises(StoreError, match="TLS"):
            RemoteStore(f"{server.origin.replace('http:', 'https:')}/b/x", **QUICK).get("a")


def test_an_address_of_version_six() -> None:
    class Six(Place):
        async def _main(self, ready: Any) -> None:
            self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
            server = await asyncio.start_server(self._converse, "::1", 0)
            self.port = server.sockets[0].getsockname()[1]
            ready.set()
            await self._stop.wait()
            server.close()
            for task in list(self._conversations):
                task.cancel()
            await asyncio.gather(*self._conversations, return_exceptions=True)

    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("no loopback of version six here")
    with Six() as place:
        place.objects["/b/x/a"] = TEN
        assert RemoteStore(f"http://[::1]:{place.port}/b/x", **QUICK).get("a") == TEN
        assert place.requests[0].headers["host"] == f"[::1]:{place.port}"
