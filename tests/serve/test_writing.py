"""Writing to a served store: off unless asked for, whole or not at all, and under the conditions of a request."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from terrazzo.serve import Server, serve
from terrazzo.stores.memory import MemoryStore
from terrazzo.stores.store import Store
from tests.serve.asking import Client


@pytest.fixture(params=["folder", "memory"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    what = MemoryStore() if request.param == "memory" else tmp_path / "x.zarr"
    with serve(what, write=True) as server:
        yield server


@pytest.fixture
def ask(server: Server) -> Iterator[Client]:
    client = Client(server)
    yield client
    client.close()


def test_put_get_delete(ask: Client) -> None:
    made = ask("PUT", "/a/x", b"one")
    assert made.status == 201 and made.body == b""
    found = ask("GET", "/a/x")
    assert found.body == b"one" and made.headers.get("etag", found.headers["etag"]) == found.headers["etag"]
    assert ask("PUT", "/a/x", b"another").status == 204
    assert ask("GET", "/a/x").body == b"another"
    assert ask("DELETE", "/a/x").status == 204
    assert ask("GET", "/a/x").status == 404
    assert ask("DELETE", "/a/x").status == 404
    assert ask("PUT", "/empty", b"").status == 201
    assert ask("GET", "/empty").body == b""
    assert ask("PATCH", "/a/x", b"x").status == 405


def test_conditions(ask: Client) -> None:
    assert ask("PUT", "/x", b"0", If_Match='"none"').status == 412
    assert ask("PUT", "/x", b"0", If_Match="*").status == 412
    assert ask("PUT", "/x", b"1", If_None_Match="*").status == 201
    assert ask("PUT", "/x", b"2", If_None_Match="*").status == 412
    first = ask("GET", "/x").headers["etag"]
    assert ask("PUT", "/x", b"3", If_None_Match=first).status == 412
    assert ask("PUT", "/x", b"4", If_Match=first).status == 204
    refused = ask("PUT", "/x", b"5", If_Match=first)
    assert refused.status == 412 and refused.headers["etag"] == ask("GET", "/x").headers["etag"] != first
    assert ask("DELETE", "/x", If_Match=first).status == 412
    assert ask("PUT", "/x", b"6", If_Match="*").status == 204
    now = ask("GET", "/x")
    assert now.body == b"6"
    assert ask("DELETE", "/x", If_Match=now.headers["etag"]).status == 204


def test_many_who_count_lose_nothing(server: Server) -> None:
    """Each adds one under If-Match, as often as it takes."""
    assert Client(server)("PUT", "/n", b"0").status == 201

    def count() -> None:
        ask, left = Client(server), 10
        while left:
            found = ask("GET", "/n")
            more = str(int(found.body) + 1).encode()
            left -= ask("PUT", "/n", more, If_Match=found.headers["etag"]).status == 204
        ask.close()

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Client(server)("GET", "/n").body == b"40"


def test_of_two_who_create_one_does(server: Server) -> None:
    found: list[int] = []
    ready = threading.Barrier(4)

    def create() -> None:
        ask = Client(server)
        ready.wait()
        found.append(ask("PUT", "/zarr.json", b"{}", If_None_Match="*").status)
        ask.close()

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [201, 412, 412, 412]


def test_a_large_body(ask: Client) -> None:
    value = os.urandom(1 << 20) * 20
    assert ask("PUT", "/large", value).status == 201
    assert ask("GET", "/large").body == value


def test_a_body_that_is_too_long(tmp_path: Path) -> None:
    with serve(tmp_path, write=True) as server:
        server.application.longest = 1000
        assert Client(server)("PUT", "/x", bytes(1001)).status == 413
        with socket.create_connection(("127.0.0.1", server.port)) as raw:
            raw.sendall(b"PUT /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            raw.sendall(b"3e9\r\n" + bytes(1001) + b"\r\n0\r\n\r\n")
            assert raw.recv(100).startswith(b"HTTP/1.1 413")
        assert Client(server)("PUT", "/x", bytes(1000)).status == 201


def test_a_body_that_ends_early_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"old")
    with serve(tmp_path, write=True) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as raw:
            raw.sendall(b"PUT /x HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
        assert Client(server)("GET", "/x").body == b"old"
    assert sorted(os.listdir(tmp_path)) == ["x"]


def test_parts_and_encodings_are_refused(ask: Client) -> None:
    assert ask("PUT", "/x", b"x", Content_Range="bytes 0-0/5").status == 400
    ask.close()
    assert ask("PUT", "/x", b"x", Content_Encoding="gzip").status == 400


@pytest.mark.parametrize(
    "path", ["/../x", "/%2e%2e/x", "/a//b", "/x.__lock", "/x.__redo", "/.env", "/a/", "/", "/x%00", "/a%5cb"]
)
def test_names_that_are_refused(server: Server, path: str) -> None:
    for method in ("PUT", "DELETE"):
        ask = Client(server)
        assert ask(method, path, b"x" if method == "PUT" else None).status == 404
        ask.close()


def test_pages_write_only_from_named_origins(tmp_path: Path) -> None:
    """A browser tells the origin of a page with every PUT and DELETE, also of a page whose name means this machine."""
    with serve(tmp_path, write=True) as server:
        ask = Client(server)
        told = ask("OPTIONS", "/x", Origin="https://a.example", Access_Control_Request_Method="PUT")
        assert told.headers["access-control-allow-methods"] == "GET, HEAD, OPTIONS"
        for origin in ("https://a.example", f"http://127.0.0.1:{server.port}", "null", "*"):
            assert Client(server)("PUT", "/x", b"x", Origin=origin).status == 403
            assert Client(server)("DELETE", "/x", Origin=origin).status == 403
        assert Client(server)("PUT", "/x", b"x").status == 201
    with serve(tmp_path, write=True, origins=["*", "https://a.example"]) as server:
        ask = Client(server)
        told = ask("OPTIONS", "/x", Origin="https://a.example", Access_Control_Request_Method="PUT")
        assert "PUT" in told.headers["access-control-allow-methods"]
        assert told.headers["access-control-allow-origin"] == "https://a.example"
        assert ask("PUT", "/y", b"x", Origin="https://a.example").status == 201
        assert ask("PUT", "/y", b"x", Origin="https://b.example").status == 403
        assert (
            Client(server)("GET", "/y", Origin="https://b.example").headers["access-control-allow-origin"]
            == "*"
        )


def test_a_store_that_cannot_erase(tmp_path: Path) -> None:
    class Growing(Store):
        def __init__(self) -> None:
            self.objects: dict[str, bytes] = {}

        def get(self, key: str) -> bytes | None:
            return self.objects.get(key)

        def set(self, key: str, value: object) -> None:
            self.objects[key] = bytes(value)  # type: ignore[call-overload]

    with serve(Growing(), write=True) as server:
        ask = Client(server)
        assert ask("PUT", "/x", b"1").status == 201
        assert ask("DELETE", "/x").status == 405
        assert ask("GET", "/x").body == b"1"


def test_an_array_can_be_made_over_it(tmp_path: Path) -> None:
    """What a plain HTTP client writes is what the library reads."""
    import numpy as np

    import terrazzo

    made = terrazzo.create_array({}, data=np.arange(40).reshape(5, 8), chunks=(2, 2), shards=(4, 4))
    with serve(tmp_path / "new.zarr", write=True) as server:
        ask = Client(server)
        for key in made.store.list():
            assert ask("PUT", f"/{key}", made.store.get(key)).status == 201
    assert json.loads((tmp_path / "new.zarr/zarr.json").read_text())["shape"] == [5, 8]
    assert (terrazzo.open_array(tmp_path / "new.zarr", mode="r")[:] == made[:]).all()
