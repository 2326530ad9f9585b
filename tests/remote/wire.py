"""HTTP/1.1 as the test servers speak it: a request read, an answer sent, a connection cut; on loopback, in a thread.

What it does not do: objects (place.py), faults (proxy.py). It says exactly what it is told to, lies included.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

__all__ = ["Answer", "Cut", "Request", "WireServer", "read_answer", "read_request"]

LOOPBACK = "127.0.0.1"
LONGEST_HEAD = 1 << 16
REASONS = {200: "OK", 204: "No Content", 206: "Partial Content", 302: "Found", 404: "Not Found"}


class Cut(Exception):
    """The connection ends here: reset, not closed."""


@dataclass
class Request:
    """What a client sent; header names are in lower case. head: its bytes as they came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    head: bytes = b""

    @property
    def path(self) -> str:
        return unquote(urlsplit(self.target).path)

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))


@dataclass
class Answer:
    """What a server says. Content-Length is added where neither it nor a transfer encoding is given."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | AsyncIterator[bytes] = b""

    def head(self) -> bytes:
        names = {name.lower() for name in self.headers}
        lines = [f"HTTP/1.1 {self.status} {REASONS.get(self.status, 'Told')}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        if isinstance(self.body, bytes) and not names & {"content-length", "transfer-encoding"}:
            lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """The next request of a connection; None where the client ended it."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, headers = _split(head)
    method, target, _ = first.split(" ", 2)
    return Request(method, target, headers, await _body(reader, headers, 0), head)


async def read_answer(reader: asyncio.StreamReader, method: str) -> tuple[int, dict[str, str], bytes]:
    """(status, headers, body) of what an honest server says."""
    status, headers = 100, {}
    while status == 100:
        first, headers = _split(await reader.readuntil(b"\r\n\r\n"))
        status = int(first.split(" ", 2)[1])
    if method == "HEAD" or status in (204, 304):
        return status, headers, b""
    return status, headers, await _body(reader, headers, None)


def _split(head: bytes) -> tuple[str, dict[str, str]]:
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    return first, {
        name.strip().lower(): value.strip() for name, _, value in (s.partition(":") for s in lines)
    }


async def _body(reader: asyncio.StreamReader, headers: dict[str, str], untold: int | None) -> bytes:
    """untold: the length where the headers tell none; None: to the end of the connection."""
    if "chunked" in headers.get("transfer-encoding", ""):
        pieces = []
        while length := int((await reader.readline()).split(b";")[0], 16):
            pieces.append(await reader.readexactly(length))
            await reader.readline()
        while (await reader.readline()).strip():
            pass
        return b"".join(pieces)
    if "content-length" in headers:
        return await reader.readexactly(int(headers["content-length"]))
    return await reader.read() if untold is None else b""


class WireServer(ABC):
    """A server on a free port of loopback for the length of a block, in a thread of its own."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.port = 0
        self.tls = tls
        self.failures: list[BaseException] = []
        self._conversations: set[asyncio.Task[None]] = set()

    @property
    def origin(self) -> str:
        return f"http{'s' if self.tls else ''}://{LOOPBACK}:{self.port}"

    @abstractmethod
    async def serve(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether the connection may go on. Cut resets it."""

    async def send(self, writer: asyncio.StreamWriter, request: Request, answer: Answer) -> bool:
        writer.write(answer.head())
        if request.method == "HEAD" or answer.status in (204, 304):
            await writer.drain()
            return True
        if isinstance(answer.body, bytes):
            writer.write(answer.body)
            await writer.drain()
            return True
        async for piece in answer.body:
            writer.write(piece)
            await writer.drain()
        return False

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._conversations.add(task)
        try:
            while (request := await read_request(reader)) is not None:
                if not await self.serve(request, writer):
                    break
        except Cut:
            writer.transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            writer.transport.abort()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, TimeoutError):
            pass
        except BaseException as error:
            self.failures.append(error)
        finally:
            self._conversations.discard(task)
            with contextlib.suppress(Exception):
                writer.close()

    async def _main(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        server = await asyncio.start_server(
            self._converse, LOOPBACK, self.port, limit=LONGEST_HEAD, backlog=512, ssl=self.tls
        )
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._stop.wait()
        server.close()
        for task in list(self._conversations):
            task.cancel()
        await asyncio.gather(*self._conversations, return_exceptions=True)

    def __enter__(self) -> Self:
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main(ready)), name="test server")
        self._thread.start()
        assert ready.wait(30)
        return self

    def __exit__(self, *_: Any) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        if self.failures:
            raise self.failures[0]
