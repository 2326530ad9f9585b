"""HTTP/1.1 on a socket: a request goes out, the head of an answer and its body come in; and connections that wait for
their next request.

What it does not do: follow redirects, try again, or believe what an answer says of itself (exchange.py).
Specification: RFC 9112; RFC 9110, 9.3.6 (CONNECT).

A body of a known length is gathered where it arrives, and whoever waits for it is woken once.
"""

from __future__ import annotations

import asyncio
import atexit
import io
import os
import re
import ssl
import time
from base64 import b64encode
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from terrazzo.errors import StoreError
from terrazzo.stores.remote.loop import launch
from terrazzo.stores.remote.policy import Failure, no_answer

__all__ = ["Connection", "Response", "Route", "open_connection"]

#: bytes of the head of an answer, and of the lines between the pieces of a body
LONGEST_HEAD = 1 << 16
LONGEST_LINE = 1 << 12
#: answers ahead of the one that counts (100 Continue and its kin)
MOST_INTERIM = 10
#: bytes that wait here before a sender is made to wait
MOST_WAITING = 1 << 20
#: seconds that a connection waits for its next request, and how many do for one place
LONGEST_IDLE = 15.0
MOST_IDLE = 128
#: seconds until a connection stands
PATIENCE = 10.0
SLICE = 1 << 18
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) (\d{3})(?: |$)").match
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*(.*?)[ \t]*").fullmatch
_HEX = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?").fullmatch
NO_HTTP = "the server's answer is no HTTP"


class Route(NamedTuple):
    """Where a connection leads. proxy: the address of what stands between, which may hold a password. verify: True,
    False, the path of a file of certificates, or certificates (PEM) that are trusted beside the system's."""

    secure: bool
    host: str
    port: int
    proxy: str | None = None
    verify: bool | str = True

    def __repr__(self) -> str:
        return f"Route({self.host!r}, {self.port})"

    @property
    def name(self) -> str:
        """The host as requests name it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"


class Connection(asyncio.Protocol):
    """One connection, for one request at a time."""

    def __init__(self, route: Route) -> None:
        self.route = route
        self.served = 0  # requests whose answers were read to their ends
        self.heard = False  # anything, since the last request
        self.sent = True  # the whole of the last request
        self._transport: Any = None
        self._pieces: deque[bytes] = deque()
        self._waiting = 0
        self._paused = False
        self._over: BaseException | bool = False
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._full = False
        self._body: io.BytesIO | None = None
        self._wanted = 0

    # -- what the loop calls ------------------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.heard = True
        if self._body is not None:
            if len(data) < self._wanted:
                self._body.write(data)
                self._wanted -= len(data)
                return
            self._body.write(memoryview(data)[: self._wanted])
            data = data[self._wanted :]
            self._wanted = 0
        if data:
            self._pieces.append(data)
            self._waiting += len(data)
            if self._waiting > MOST_WAITING and not self._paused:
                self._paused = True
                self._transport.pause_reading()
        _wake(self._reader)

    def eof_received(self) -> bool:
        self._over = self._over or True
        _wake(self._reader)
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._over = error or True
        _wake(self._reader)
        _wake(self._writer)

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        _wake(self._writer)

    # -- out ----------------------------------------------------------------------------------------------------------

    @property
    def usable(self) -> bool:
        return not (self._over or self._pieces or self._transport.is_closing())

    async def send(self, head: bytes, body: Any = b"") -> None:
        """Send a request. A server that answers before it has everything is listened to."""
        self.heard, self.sent = False, True
        view = memoryview(body).cast("B")
        if len(view) < SLICE:
            self._transport.write(head + bytes(view))
            return
        self._transport.write(head)
        for at in range(0, len(view), SLICE):
            if self._over or self.heard:
                self.sent = False
                return
            self._transport.write(view[at : at + SLICE])
            if self._full:
                self._writer = asyncio.get_running_loop().create_future()
                await self._writer

    # -- in -----------------------------------------------------------------------------------------------------------

    async def head(self) -> tuple[bool, int, dict[str, str]]:
        """(whether it speaks 1.1, status, header fields by names in lower case)."""
        for _ in range(MOST_INTERIM):
            lines = (await self.until(b"\r\n\r\n", LONGEST_HEAD)).split(b"\r\n")
            status = _STATUS_LINE(lines[0])
            if status is None:
                raise Failure("final", NO_HTTP)
            headers: dict[str, str] = {}
            for line in lines[1:]:
                field = _FIELD(line)
                if field is None:
                    raise Failure("final", NO_HTTP)
                name, text = field[1].decode().lower(), field[2].decode("latin-1")
                headers[name] = f"{headers[name]}, {text}" if name in headers else text
            if status[2][:1] != b"1" or status[2] == b"101":
                return status[1] == b"1", int(status[2]), headers
        raise Failure("final", NO_HTTP)

    async def until(self, mark: bytes, most: int) -> bytes:
        """What comes before `mark`, which is taken too; `most` bytes at most."""
        found = b""
        while (at := found.find(mark)) < 0:
            if len(found) > most:
                raise Failure("final", NO_HTTP)
            piece = await self.piece()
            if not piece:
                raise self.broken()
            found += piece
        if at > most:
            raise Failure("final", NO_HTTP)
        rest = found[at + len(mark) :]
        if rest:
            self._pieces.appendleft(rest)
            self._waiting += len(rest)
        return found[:at]

    async def piece(self, most: int | None = None) -> bytes:
        """What came, of `most` bytes at most; empty at the end of the connection."""
        while not self._pieces:
            if isinstance(self._over, BaseException):
                raise self.broken()
            if self._over:
                return b""
            await self._wait()
        found = self._pieces.popleft()
        self._waiting -= len(found)
        if most is not None and len(found) > most:
            self._pieces.appendleft(found[most:])
            self._waiting += len(found) - most
            found = found[:most]
        if self._paused and self._waiting < MOST_WAITING // 2:
            self._paused = False
            self._transport.resume_reading()
        return found

    async def exactly(self, nbytes: int) -> bytes:
        """So many bytes, or fewer where the connection ends. It grows with what comes, and is never copied."""
        found = io.BytesIO()
        while self._pieces and nbytes:
            piece = await self.piece(nbytes)
            found.write(piece)
            nbytes -= len(piece)
        if nbytes and not self._over:
            if self._paused:
                self._paused = False
                self._transport.resume_reading()
            self._body, self._wanted = found, nbytes
            try:
                while self._wanted and not self._over:
                    await self._wait()
            finally:
                self._body = None
        return found.getvalue()

    async def _wait(self) -> None:
        self._reader = asyncio.get_running_loop().create_future()
        try:
            await self._reader
        finally:
            self._reader = None

    def broken(self) -> Failure:
        told = f"{type(self._over).__name__}: {self._over}" if isinstance(self._over, BaseException) else ""
        return Failure("again", no_answer(told))

    # -- its end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def rest(self) -> None:
        """Wait for the next request."""
        self.served += 1
        if not self.usable:
            self.close()
            return
        idle = _idle.setdefault((os.getpid(), self.route), deque())
        now = time.monotonic()
        if not idle:
            asyncio.get_running_loop().call_later(LONGEST_IDLE + 0.1, _sweep, idle)
        elif len(idle) >= MOST_IDLE:
            idle.popleft()[1].close()
        idle.append((now, self))

    async def through_tls(self, context: ssl.SSLContext, host: str) -> None:
        """Speak TLS from here on."""
        loop = asyncio.get_running_loop()
        transport = await loop.start_tls(self._transport, self, context, server_hostname=host)
        assert transport is not None
        self._transport = transport


class Response:
    """The head of an answer, and its body as it comes. nbytes: of the body, None where nobody knows."""

    def __init__(
        self, connection: Connection, method: str, new: bool, status: int, headers: dict[str, str]
    ) -> None:
        self.status = status
        self.headers = headers
        self._connection = connection
        coding = headers.get("transfer-encoding", "").strip().lower()
        length = headers.get("content-length")
        self._chunked = bool(coding)
        self.nbytes: int | None = None
        if method == "HEAD" or status in (204, 304):
            self.nbytes, self._chunked = 0, False
        elif coding:
            if coding != "chunked":
                raise Failure("final", NO_HTTP)
        elif length is not None:
            if not (length.isascii() and length.isdigit() and len(length) < 20):
                raise Failure("final", NO_HTTP)
            self.nbytes = int(length)
        kept = {part.strip().lower() for part in headers.get("connection", "").split(",")}
        bounded = self._chunked or self.nbytes is not None
        self._keep = bounded and "close" not in kept and (new or "keep-alive" in kept)
        self._keep = self._keep and not (coding and length is not None)
        self._left = self.nbytes or 0
        self._ended = self.nbytes == 0

    async def all(self) -> bytes:
        """A body of a known length, or what came of it."""
        found = await self._connection.exactly(self._left)
        self._left -= len(found)
        self._ended = not self._left
        return found

    async def piece(self) -> bytes:
        """The next bytes of the body; empty at its end."""
        if self._ended:
            return b""
        if self._chunked and not self._left:
            await self._next_chunk()
            if self._ended:
                return b""
        found = await self._connection.piece(self._left or None)
        if found:
            self._left -= len(found) if self._left else 0
            if self._chunked and not self._left and await self._connection.until(b"\r\n", LONGEST_LINE):
                raise Failure("final", NO_HTTP)
        elif self._chunked or self._left:
            raise self._connection.broken()
        else:
            self._ended = True
        self._ended = self._ended or (self.nbytes is not None and not self._left)
        return found

    async def _next_chunk(self) -> None:
        size = _HEX(await self._connection.until(b"\r\n", LONGEST_LINE))
        if size is None:
            raise Failure("final", NO_HTTP)
        self._left = int(size[1], 16)
        if not self._left:
            had = 0
            while line := await self._connection.until(b"\r\n", LONGEST_LINE):
                had += len(line)
                if had > LONGEST_HEAD:
                    raise Failure("final", NO_HTTP)
            self._ended = True

    def finish(self) -> None:
        """The connection waits for its next request where this body was read to its end; else it is closed."""
        if self._ended and self._keep and self._connection.sent:
            self._connection.rest()
        else:
            self._connection.close()

    def close(self) -> None:
        self._connection.close()


async def open_connection(route: Route, *, fresh: bool = False) -> Connection:
    """A connection that waited, or a new one. fresh: a new one."""
    idle = _idle.get((os.getpid(), route))
    while idle and not fresh:
        since, connection = idle.pop()
        if connection.usable and time.monotonic() - since < LONGEST_IDLE:
            return connection
        connection.close()
    try:
        async with asyncio.timeout(PATIENCE):
            return await _connect(route)
    except TimeoutError:
        raise Failure("again", "the connection did not stand in time") from None
    except ssl.SSLCertVerificationError:
        raise Failure("final", "the server's certificate is not trusted") from None
    except ssl.SSLError as error:
        raise Failure("final", f"the server speaks no TLS that is understood ({error.reason})") from None
    except (OSError, UnicodeError) as error:
        raise Failure("again", no_answer(f"{type(error).__name__}: {error}")) from None


async def _connect(route: Route) -> Connection:
    if route.proxy is None:
        tls = tls_context(route.verify) if route.secure else None
        return await _dial(route, route.host, route.port, tls)
    proxy = urlsplit(route.proxy)
    if proxy.scheme not in ("http", "https") or not proxy.hostname:
        raise Failure(
            "final", "the proxy of the environment is none that is understood (http:// or https://)"
        )
    secure = proxy.scheme == "https"
    port = proxy.port or (443 if secure else 80)
    connection = await _dial(route, proxy.hostname, port, tls_context(True) if secure else None)
    if not route.secure:
        return connection
    try:
        to = route.name if ":" in route.name.rpartition("]")[2] else f"{route.name}:{route.port}"
        lines = [f"CONNECT {to} HTTP/1.1", f"Host: {to}"]
        lines += [f"{name}: {text}" for name, text in proxy_headers(route).items()]
        await connection.send("\r\n".join([*lines, "", ""]).encode("latin-1"))
        _, status, _ = await connection.head()
        if status != 200:
            raise Failure("final" if status < 500 else "again", f"the proxy answered {status}")
        await connection.through_tls(tls_context(route.verify), route.host)
    except BaseException:
        connection.close()
        raise
    return connection


async def _dial(route: Route, host: str, port: int, tls: ssl.SSLContext | None) -> Connection:
    literal = ":" in host or host.replace(".", "").isdigit()
    name = host if literal else host.encode("idna").decode()
    both = None if literal else 0.25
    _, connection = await asyncio.get_running_loop().create_connection(
        lambda: Connection(route), name, port, ssl=tls, happy_eyeballs_delay=both
    )
    return connection


def proxy_headers(route: Route) -> Mapping[str, str]:
    """What a proxy asks for, where its address names a user."""
    parts = urlsplit(route.proxy or "")
    if parts.username is None and parts.password is None:
        return {}
    both = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return {"Proxy-Authorization": "Basic " + b64encode(both.encode()).decode()}


def tls_context(verify: bool | str) -> ssl.SSLContext:
    """Made once for each way of checking certificates: the system's take 30 ms of CPU to read."""
    context = _contexts.get(verify)
    if context is None:
        try:
            if isinstance(verify, str) and "-----BEGIN" in verify:
                context = ssl.create_default_context()
                context.load_verify_locations(cadata=verify)
            else:
                context = ssl.create_default_context(cafile=None if isinstance(verify, bool) else verify)
        except (OSError, ssl.SSLError):
            raise StoreError("verify is True, False, or the path of a file of certificates") from None
        if verify is False:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols(["http/1.1"])
        _contexts[verify] = context
    return context


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


def _sweep(idle: deque[tuple[float, Connection]]) -> None:
    """Close what waited for too long."""
    now = time.monotonic()
    while idle and now - idle[0][0] >= LONGEST_IDLE:
        idle.popleft()[1].close()
    if idle:
        asyncio.get_running_loop().call_later(idle[0][0] + LONGEST_IDLE + 0.1 - now, _sweep, idle)


#: by process: a child leaves those of its parent alone
_idle: dict[tuple[int, Route], deque[tuple[float, Connection]]] = {}
_contexts: dict[bool | str, ssl.SSLContext] = {}


@atexit.register
def _close_all() -> None:
    async def close() -> None:
        for (process, _), idle in _idle.items():
            while process == os.getpid() and idle:
                idle.popleft()[1].close()
        await asyncio.sleep(0)  # transports close in the loop's next turn

    if any(process == os.getpid() and idle for (process, _), idle in _idle.items()):
        try:
            launch(close()).result(2.0)
        except (Exception, asyncio.CancelledError):
            pass
