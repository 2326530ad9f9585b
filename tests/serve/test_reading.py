"""Reading from a served store: statuses, headers, conditions, names, versions, large objects."""

from __future__ import annotations

import http.client
import os
import re
import socket
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.errors import ConflictError, StoreError
from terrazzo.serve import Application, Server, serve
from terrazzo.serve.objects import PIECE, key_of
from terrazzo.stores.local import LocalStore
from terrazzo.stores.memory import MemoryStore
from terrazzo.stores.wrappers import PrefixStore, WrapperStore
from tests.serve.asking import Answer, Client

VALUES = np.arange(24 * 24, dtype="i4").reshape(24, 24)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("served") / "a.zarr"
    terrazzo.create_array(folder, data=VALUES, chunks=(4, 4), shards=(12, 12))
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with serve(folder) as server:
        yield server


@pytest.fixture
def ask(server: Server) -> Iterator[Client]:
    client = Client(server)
    yield client
    client.close()


def shared_by_all(answer: Answer) -> None:
    assert answer.headers["access-control-allow-origin"] == "*"
    exposed = answer.headers["access-control-expose-headers"]
    assert {"Content-Range", "Content-Length", "ETag", "Accept-Ranges"} <= set(exposed.split(", "))
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "content-encoding" not in answer.headers


def test_an_object_whole(ask: Client, folder: Path) -> None:
    stored = (folder / "c/0/0").read_bytes()
    answer = ask("GET", "/c/0/0", Accept_Encoding="gzip, br")
    assert (answer.status, answer.body) == (200, stored)
    assert answer.headers["content-length"] == str(len(stored))
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["content-type"] == "application/octet-stream"
    shared_by_all(answer)
    head = ask("HEAD", "/c/0/0")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(len(stored))
    assert head.headers["etag"] == answer.headers["etag"]
    assert ask("GET", "/zarr.json").headers["content-type"] == "application/json"


def test_every_status_lets_other_origins_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(folder) as server:
        ask = Client(server)
        etag = ask("GET", "/c/0/0").headers["etag"]
        seen = [
            ask("GET", "/c/0/0", Origin="https://example.org"),
            ask("OPTIONS", "/c/0/0", Origin="https://example.org", Access_Control_Request_Headers="range"),
            ask("GET", "/c/0/0", Range="bytes=0-3"),
            ask("GET", "/c/0/0", If_None_Match=etag),
            ask("GET", "/absent"),
            ask("POST", "/c/0/0"),
            ask("GET", "/c/0/0", If_Match='"other"'),
            ask("GET", "/c/0/0", Range="bytes=99999999-"),
        ]

        def broken(*_: Any, **__: Any) -> Any:
            raise OSError(5, "the disk at /secret/place is gone")

        monkeypatch.setattr(LocalStore, "open", broken)
        seen.append(ask("GET", "/c/0/0"))
        assert [one.status for one in seen] == [200, 204, 206, 304, 404, 405, 412, 416, 500]
        for one in seen:
            shared_by_all(one)
        assert b"secret" not in seen[-1].body
        ask.close()


def test_what_may_be_asked_is_told(ask: Client) -> None:
    answer = ask("OPTIONS", "/c/0/0", Origin="https://example.org", Access_Control_Request_Method="PUT")
    assert answer.status == 204 and answer.body == b""
    assert answer.headers["access-control-allow-methods"] == "GET, HEAD, OPTIONS"
    assert {"Range", "If-Match", "If-None-Match"} <= set(
        answer.headers["access-control-allow-headers"].split(", ")
    )
    assert ask("OPTIONS", "*").status == 204
    refused = ask("PUT", "/c/0/0", b"x")
    assert refused.status == 405 and refused.headers["allow"] == "GET, HEAD, OPTIONS"
    ask.close()  # its body was not read
    assert ask("DELETE", "/c/0/0").status == 405


def test_tags_are_strong_and_outlive_the_server(folder: Path) -> None:
    found = []
    for _ in range(2):
        with serve(folder) as server:
            ask = Client(server)
            found.append([ask("GET", path).headers["etag"] for path in ("/c/0/0", "/c/0/1")])
            ask.close()
    assert found[0] == found[1] and len(set(found[0])) == 2
    assert all(re.fullmatch(r'"[A-Za-z0-9_=-]{8,}"', etag) for etag in found[0])


def test_tags_of_memory_do_not_outlive_the_server() -> None:
    store, found = MemoryStore(), set()
    store.set("x", b"x")
    for _ in range(2):
        with serve(store) as server:
            found.add(Client(server)("GET", "/x").headers["etag"])
    assert len(found) == 2


def test_conditions(ask: Client) -> None:
    etag = ask("GET", "/c/0/0").headers["etag"]
    for good in (etag, f'"x", {etag}', "*", etag.strip('"')):
        assert ask("GET", "/c/0/0", If_Match=good).status == 200
        assert ask("GET", "/c/0/0", If_None_Match=good).status == 304
        assert ask("HEAD", "/c/0/0", If_None_Match=good).status == 304
    for bad in ('"x"', "", '"', etag[:-3] + '"', etag[1:-3]):
        assert ask("GET", "/c/0/0", If_Match=bad).status == 412
        assert ask("GET", "/c/0/0", If_None_Match=bad).status == 200
    # a weak tag never matches strongly, and does match weakly
    assert ask("GET", "/c/0/0", If_Match=f"W/{etag}").status == 412
    assert ask("GET", "/c/0/0", If_None_Match=f"W/{etag}").status == 304
    # conditions are looked at before ranges, and an object that is not there is absent first
    assert ask("GET", "/c/0/0", If_Match='"x"', Range="bytes=99999999-").status == 412
    assert ask("GET", "/absent", If_Match='"x"').status == 404
    unchanged = ask("GET", "/c/0/0", If_None_Match=etag)
    assert unchanged.body == b"" and unchanged.headers["etag"] == etag


def test_if_range(ask: Client) -> None:
    etag = ask("GET", "/c/0/0").headers["etag"]
    assert ask("GET", "/c/0/0", Range="bytes=0-3", If_Range=etag).status == 206
    for other in ('"x"', f"W/{etag}", "Sat, 21 Nov 2026 04:58:35 GMT"):
        assert ask("GET", "/c/0/0", Range="bytes=0-3", If_Range=other).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/absent",
        "/c",
        "/c/0",
        "/c/0/",
        "/c/0/0/",
        "/c/0/0/more",
        "/../a.zarr/zarr.json",
        "/%2e%2e/a.zarr/zarr.json",
        "/c/%2e%2e/zarr.json",
        "/c/..%2fzarr.json",
        "/./zarr.json",
        "//zarr.json",
        "/%2fetc/passwd",
        "/c\\0",
        "/c%5c0",
        "/zarr.json%00",
        "/%ff%fe",
        "/c/0/0.__lock",
        "/c/0/0.__redo",
        "/.hidden",
        "/.git/config",
        "/a/.hidden/zarr.json",
        "/C:/x",
        "/" + "x" * 5000,
    ],
)
def test_what_is_not_served_is_absent(ask: Client, folder: Path, path: str) -> None:
    for name in (".hidden", "c/0/0.__lock", "c/0/0.__redo"):
        (folder / name).write_text("secret")
    try:
        answer = ask("GET", path)
    finally:
        for name in (".hidden", "c/0/0.__lock", "c/0/0.__redo"):
            (folder / name).unlink()
    assert answer.status == 404 and b"secret" not in answer.body
    assert str(folder).encode() not in answer.body
    shared_by_all(answer)


def test_hidden_names() -> None:
    assert key_of(".zarray", False) == ".zarray" and key_of("a/.zattrs", False) == "a/.zattrs"
    assert key_of(".zarray/x", False) is None and key_of(".env", False) is None
    assert key_of(".env", True) == ".env" and key_of("x.__lock", True) is None


def test_links_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/link").symlink_to(tmp_path / "secret")
    (tmp_path / "in/folder").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "in/pipe")
    with serve(tmp_path / "in") as server:
        ask = Client(server)
        for path in ("/link", "/folder/secret", "/pipe"):
            answer = ask("GET", path)
            assert answer.status in (403, 404) and b"secret" not in answer.body.replace(
                path[1:].encode(), b""
            )
        ask.close()


def test_the_name_of_the_host_means_nothing(server: Server) -> None:
    for host in ("evil.example", 'x"><script>', "a" * 300, "127.0.0.1:1"):
        for path in ("/zarr.json", "/", "/absent"):
            answer = Client(server)("GET", path, Host=host, Accept="text/html")
            assert answer.status in (200, 404)
            assert host.encode() not in answer.body + repr(answer.headers).encode()


def test_a_path_of_a_whole_address(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as raw:
        raw.sendall(b"GET http://evil.example/zarr.json HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 404")


def test_pages_of_named_origins_only(folder: Path) -> None:
    with serve(folder, origins=["https://a.example"]) as server:
        ask = Client(server)
        named = ask("GET", "/zarr.json", Origin="https://a.example")
        assert named.headers["access-control-allow-origin"] == "https://a.example"
        assert named.headers["vary"] == "Origin"
        for origin in ("https://b.example", "null", "https://a.example.b"):
            other = ask("GET", "/zarr.json", Origin=origin)
            assert "access-control-allow-origin" not in other.headers and other.headers["vary"] == "Origin"
        # a page whose name was pointed at this machine has no foreign origin
        assert ask("GET", "/zarr.json", Host="evil.example").status == 421
        assert ask("GET", "/zarr.json", Host="localhost:123").status == 200
        ask.close()


def test_a_connection_is_kept(server: Server) -> None:
    ask = Client(server)
    ask("GET", "/zarr.json")
    before = ask.connection.sock
    for path in ("/absent", "/c/0/0", "/c/0/1", "/zarr.json"):
        ask("GET", path)
        ask("HEAD", path)
    assert before is not None and ask.connection.sock is before
    ask.close()


def test_a_large_object_is_sent_in_pieces(tmp_path: Path) -> None:
    size = 48 << 20
    value = np.random.default_rng(0).integers(0, 256, size, "u1").tobytes()
    (tmp_path / "large").write_bytes(value)
    with serve(tmp_path) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        connection.request("GET", "/large")
        response = connection.getresponse()
        assert response.getheader("content-length") == str(size)
        tracemalloc.start()
        at = 0
        while part := response.read(1 << 16):
            assert part == value[at : at + len(part)]
            at += len(part)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert at == size
        assert peak < 12 * PIECE
        connection.request("GET", "/large", headers={"Range": "bytes=5-40000000"})
        assert connection.getresponse().read() == value[5:40000001]
        connection.close()


def test_a_reader_that_goes_away_leaves_nothing_open(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(64 << 20))
    with serve(tmp_path) as server:
        Client(server)("GET", "/absent")
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(8):
            with socket.create_connection(("127.0.0.1", server.port)) as raw:
                raw.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
                raw.recv(1000)
        deadline = threading.Event()
        for _ in range(100):
            if len(os.listdir("/proc/self/fd")) <= before:
                break
            deadline.wait(0.05)
        assert len(os.listdir("/proc/self/fd")) <= before


def test_a_body_is_one_version_while_the_shard_is_replaced(tmp_path: Path) -> None:
    """Every version is one byte repeated, and each has its own length: a mixture would show."""
    store = LocalStore(tmp_path, durability="none")
    lengths = {byte: 3 * PIECE + 1000 * byte for byte in range(1, 9)}
    store.set("x", bytes([1]) * lengths[1])
    done = threading.Event()
    wrong: list[str] = []
    counts = [0, 0]

    def write() -> None:
        number = 0
        while not done.is_set():
            number = number % 8 + 1
            store.set("x", bytes([number]) * lengths[number])
            counts[0] += 1

    def read(server: Server) -> None:
        ask = Client(server)
        tags: dict[str, int] = {}
        for _ in range(40):
            answer = ask("GET", "/x")
            byte = answer.body[0]
            if answer.body != bytes([byte]) * lengths[byte]:
                wrong.append("torn")
            if tags.setdefault(answer.headers["etag"], byte) != byte:
                wrong.append("one tag for two versions")
            part = ask("GET", "/x", Range="bytes=-10", If_Match=answer.headers["etag"])
            if part.status == 206 and part.body != bytes([byte]) * 10:
                wrong.append("If-Match was not kept")
            counts[1] += 1

    with serve(tmp_path) as server:
        readers = [threading.Thread(target=read, args=(server,)) for _ in range(3)]
        writer = threading.Thread(target=write)
        for thread in (*readers, writer):
            thread.start()
        for thread in readers:
            thread.join()
        done.set()
        writer.join()
    assert wrong == [] and counts[1] == 120 and counts[0] > 1


def test_a_file_that_is_changed_in_place_breaks_the_body_off(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(64 << 20))
    with serve(tmp_path) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        connection.request("GET", "/x")
        response = connection.getresponse()
        response.read(1000)
        with path.open("r+b") as file:
            file.seek(60 << 20)
            file.write(b"changed")
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            response.read()
        connection.close()


class Changing(WrapperStore):
    """A store whose objects are another version by the time they are fetched, so many times."""

    def __init__(self, times: int) -> None:
        super().__init__(MemoryStore())
        self.times = times

    def fetch(self, requests: Any) -> Any:
        if self.times:
            self.times -= 1
            raise ConflictError("it is another version now")
        return super().fetch(requests)


def test_a_changed_object_is_opened_again(server: Server) -> None:
    for times, status in ((3, 200), (1000, 503)):
        store = Changing(times)
        store.set("x", b"value")
        with serve(store) as changing:
            answer = Client(changing)("GET", "/x")
            assert answer.status == status
            assert (answer.body == b"value") == (status == 200)
            shared_by_all(answer)


def test_through_another_servers_mount(folder: Path) -> None:
    """The application alone, below a path of somebody else's."""
    from starlette.applications import Starlette
    from starlette.routing import Mount

    with serve(folder) as server:
        server.application = Application(server.store)
        mounted = Starlette(routes=[Mount("/here", server.application)])
        other = Server(server.store)
        other.application = mounted  # type: ignore[assignment]
        with other:
            ask = Client(other)
            assert ask("GET", "/here/zarr.json").body == (folder / "zarr.json").read_bytes()
            assert ask("GET", "/zarr.json").status == 404
            ask.close()


def test_a_port_that_is_taken(server: Server, folder: Path) -> None:
    with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{server.port}"):
        serve(folder, port=server.port)


def test_only_what_can_be_written_is_served_for_writing(folder: Path) -> None:
    with pytest.raises(ValueError, match="cannot be written to"):
        Server(LocalStore(folder).with_read_only(), write=True)


def test_no_thread_is_left(folder: Path) -> None:
    before = threading.active_count()
    server = serve(folder)
    assert server.stop() is None and server.stop() is None
    assert not [one for one in threading.enumerate() if one.name == f"terrazzo-serve-{server.port}"]
    assert threading.active_count() <= before + 1
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", server.port), timeout=1)


def test_an_error_of_the_store_is_told_to_the_log(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise StoreError("the disk\x1b[31m is gone")

    with serve(folder) as server:
        monkeypatch.setattr(LocalStore, "fetch", broken)
        assert Client(server)("GET", "/c/0/0").status == 500
    assert "GET c/0/0: the disk" in caplog.text and "\x1b" not in caplog.text


def test_a_conflict_while_opening_is_tried_again() -> None:
    class Busy(Changing):
        def open(self, requests: Any) -> Any:
            if self.times:
                self.times -= 1
                raise ConflictError("it changed 8 times while it was being read")
            return super().open(requests)

    for times, status in ((3, 200), (1000, 503)):
        store = Busy(0)
        store.set("x", b"value")
        store.times = times
        with serve(store) as server:
            assert Client(server)("GET", "/x").status == status


def test_the_place_of_what_is_served_is_not_told(folder: Path) -> None:
    """A part of a store is served under its own names."""
    with serve(PrefixStore(LocalStore(folder.parent), "a.zarr/")) as server:
        ask = Client(server)
        assert ask("GET", "/c/0/0").status == 200
        for headers in ({"If-Match": '"x"'}, {"Range": "bytes=99999999-"}):
            answer = ask("GET", "/c/0/0", **headers)
            assert answer.status in (412, 416) and b"a.zarr" not in answer.body
        ask.close()


def test_files_that_are_changed_in_place_all_the_time(tmp_path: Path) -> None:
    """Whole shards under writers that overwrite chunks and append: each body reads as shards do, chunks old or new."""
    for strategy, how in (("in-place", {}), ("append", {"index_location": "start"})):
        writer = terrazzo.create_array(
            tmp_path / strategy,
            shape=(16, 16),
            dtype="i4",
            chunks=(4, 4),
            shards=(16, 16),
            compressors="crc32c",
            strategy=strategy,
            **how,
        )
        writer[:] = 0
        done, bodies = threading.Event(), {}

        def write(array: Any = writer, done: threading.Event = done) -> None:
            number = 0
            while not done.is_set():
                number += 1
                with array.using(durability="none") as quick:
                    quick[:] = number

        document = (tmp_path / strategy / "zarr.json").read_bytes()
        thread = threading.Thread(target=write)
        thread.start()
        try:
            with serve(tmp_path / strategy) as server:
                ask = Client(server)
                for _ in range(60):
                    answer = ask("GET", "/c/0/0")
                    assert answer.status == 200
                    assert bodies.setdefault(answer.headers["etag"], answer.body) == answer.body
                    read = terrazzo.open_array({"zarr.json": document, "c/0/0": answer.body}, mode="r")[:]
                    assert (read.reshape(4, 4, 4, 4).std(axis=(1, 3)) == 0).all()
        finally:
            done.set()
            thread.join()
