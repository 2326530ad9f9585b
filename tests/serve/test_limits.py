"""What clients may cost: how many there are, how slow one may be, how long its request's head."""

from __future__ import annotations

import contextlib
import http.client
import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from terrazzo.serve import Server, serve
from terrazzo.serve.connections import HEAD_NBYTES, LEAST_NBYTES, Pace
from terrazzo.stores.memory import MemoryStore
from tests.serve.asking import Client

SOON = 0.2  # seconds of patience; nothing here measures how long a cut takes
LARGE = 32 << 20


@pytest.fixture
def impatient() -> Iterator[Server]:
    store = MemoryStore()
    store.set("large", bytes(LARGE))
    store.set("small", b"small")
    with serve(store, write=True, patience=SOON, keep_alive=3600) as server:
        yield server


def connect(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


def rest(connection: socket.socket) -> bytes:
    """What still comes until the server ends the connection."""
    found = bytearray()
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(1 << 16):
            found += piece
    return bytes(found)


def open_connections(server: Server) -> int:
    return len(server._server.server_state.connections)


def until(holds: Any) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET",
        b"GET /small HTTP/1.1\r\nHost: x\r\n",
        b"PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc",
    ],
    ids=["nothing", "word", "head", "body"],
)
def test_what_does_not_come_to_its_end_is_not_waited_for(impatient: Server, begun: bytes) -> None:
    with connect(impatient) as connection:
        connection.sendall(begun)
        rest(connection)
    until(lambda: open_connections(impatient) == 0)
    assert not impatient.store.exists("a")


def test_a_head_after_an_answer_has_to_come_to_its_end_too(impatient: Server) -> None:
    with connect(impatient) as connection:
        connection.sendall(b"GET /small HTTP/1.1\r\nHost: x\r\n\r\n")
        while not connection.recv(1 << 16).endswith(b"small"):
            pass
        connection.sendall(b"GET /sma")
        assert rest(connection) == b""


def test_a_reader_that_does_not_read_is_cut_and_holds_no_memory(impatient: Server) -> None:
    connections = [connect(impatient) for _ in range(4)]
    until(lambda: open_connections(impatient) == 4)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for connection in connections:
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
    until(lambda: open_connections(impatient) == 0)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < LARGE
    for connection in connections:
        assert len(rest(connection)) < LARGE
        connection.close()


def test_a_reader_that_goes_away_from_what_is_left_is_cut(impatient: Server) -> None:
    """The last bytes of an answer are in the connection's buffer, and the application is done with it."""
    impatient.store.set("piece", bytes(20 << 20))
    with connect(impatient) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(b"GET /piece HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        until(lambda: open_connections(impatient) == 1)
        until(lambda: open_connections(impatient) == 0)


def test_a_connection_between_requests_is_left_alone(impatient: Server) -> None:
    ask = Client(impatient)
    for _ in range(3):
        assert ask("GET", "/small").body == b"small"
        time.sleep(4 * SOON)
    assert open_connections(impatient) == 1
    ask.close()


def test_an_idle_connection_ends(tmp_path: Path) -> None:
    with serve(MemoryStore(), keep_alive=SOON, patience=3600) as server, connect(server) as connection:
        connection.sendall(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
        assert rest(connection).startswith(b"HTTP/1.1 404 ")


def test_a_head_may_be_only_so_long() -> None:
    store = MemoryStore()
    store.set("x", b"1")
    with serve(store) as server:
        for nbytes, status in ((HEAD_NBYTES // 2, b"200"), (4 * HEAD_NBYTES, b"400")):
            with connect(server) as connection:
                head = b"GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Long: " + b"x" * nbytes
                with contextlib.suppress(ConnectionError):
                    connection.sendall(head + b"\r\n\r\n")
                assert rest(connection)[9:12] in (status, b"" if status == b"400" else status)


def test_connections_too_many_are_told_so_and_then_refused() -> None:
    store = MemoryStore()
    store.set("x", b"1")
    with serve(store, connections=2) as server:
        kept = [Client(server) for _ in range(2)]
        assert [ask("GET", "/x").status for ask in kept] == [200, 200]
        third = Client(server)
        answer = third("GET", "/x", Origin="https://viewer.example")
        assert answer.status == 503 and answer.headers["retry-after"] == "1"
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.headers["connection"] == "close"
        until(lambda: open_connections(server) == 2)
        waiting = [connect(server) for _ in range(2)]
        until(lambda: open_connections(server) == 4)
        with connect(server) as last:
            assert rest(last) == b""
        kept[0].close()
        for one in waiting:
            one.close()
        until(lambda: open_connections(server) == 1)
        fourth = Client(server)
        assert fourth("GET", "/x").status == 200
        for ask in (kept[1], third, fourth):
            ask.close()


def test_what_a_put_may_have() -> None:
    with serve(MemoryStore(), write=True, longest=10) as server:
        ask = Client(server)
        assert ask("PUT", "/x", b"x" * 10).status == 201
        ask.close()
        ask = Client(server)
        assert ask("PUT", "/y", b"x" * 11).status == 413
        ask.close()


def test_a_pace_is_what_moves_while_the_other_side_is_waited_for() -> None:
    pace = Pace()
    assert not pace.stalled(1, LEAST_NBYTES, waits=True)
    assert not pace.stalled(1, 2 * LEAST_NBYTES, waits=True)  # slow, and enough
    assert not pace.stalled(1, 2 * LEAST_NBYTES, waits=False)  # the store is slow
    assert pace.stalled(1, 3 * LEAST_NBYTES - 1, waits=True)
    assert not pace.stalled(2, 3 * LEAST_NBYTES, waits=True)  # another request


@pytest.mark.parametrize("name", ["connections", "patience", "keep_alive"])
def test_limits_are_more_than_nothing(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is 0; it has to be more than 0"):
        serve(MemoryStore(), **{name: 0})


def test_a_slow_store_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(MemoryStore):
        def open(self, requests: Any) -> Any:
            time.sleep(6 * SOON)
            return super().open(requests)

    store = Slow()
    store.set("x", b"1")
    with serve(store, patience=SOON) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request("GET", "/x")
        assert connection.getresponse().read() == b"1"
        connection.close()
