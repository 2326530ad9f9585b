"""HTTP by aiohttp: one request, the head of its answer, and the body as it comes. All stores of a process share
connections.

What it does not do: follow redirects, try again, or believe what an answer says of itself (exchange.py).

By aiohttp rather than obstore, whose client follows redirects wherever they lead and shows user-info in its errors.
"""

from __future__ import annotations

import asyncio
import atexit
import io
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

from terrazzo.errors import StoreError, UnsupportedError
from terrazzo.stores.contract import Buffer
from terrazzo.stores.remote.loop import launch
from terrazzo.stores.remote.native import keep_for_ever
from terrazzo.stores.remote.policy import Failure, no_answer

__all__ = ["Response", "Route", "ask", "library", "tls_context"]

#: seconds until a connection stands, and for how long it waits for its next request
PATIENCE = 10.0
LONGEST_IDLE = 15.0
#: bytes of a body that are sent, and received, in one piece
SLICE = 1 << 18
NO_HTTP = "the server's answer is no HTTP"


class Route(NamedTuple):
    """How a server is reached. proxy: the address of what stands between, which may hold a password. verify: True,
    False, the path of a file of certificates, or their text."""

    proxy: str | None = None
    verify: bool | str = True

    def __repr__(self) -> str:
        return "Route()"


class Response:
    """The head of an answer, and its body as it comes. headers: by names in lower case. nbytes: of the body, None where
    nobody knows."""

    def __init__(self, method: str, answer: Any) -> None:
        self.status: int = answer.status
        self.headers: dict[str, str] = {}
        for name, text in answer.headers.items():
            low = name.lower()
            self.headers[low] = f"{self.headers[low]}, {text}" if low in self.headers else text
        self._answer = answer
        if self.headers.get("transfer-encoding", "chunked").strip().lower() != "chunked":
            self.close()
            raise Failure("final", NO_HTTP)
        length = self.headers.get("content-length", "")
        self.nbytes: int | None = None
        if method == "HEAD" or self.status in (204, 304):
            self.nbytes = 0
        elif length.isascii() and length.isdigit() and "transfer-encoding" not in self.headers:
            self.nbytes = int(length)

    async def all(self) -> bytes:
        """The body to its end, or what came of it. It grows with what comes, and is never copied."""
        found = io.BytesIO()
        try:
            while piece := await self.piece():
                found.write(piece)
        except Failure:
            if self.nbytes is None:
                raise
        return found.getvalue()

    async def piece(self) -> bytes:
        """The next bytes of the body; empty at its end."""
        content = self._answer.content
        try:
            while not (found := await content.readany()):
                if content.at_eof():
                    return b""
        except Exception as error:
            raise failure_of(error) from None
        return bytes(found)

    def finish(self) -> None:
        """The connection waits for its next request where this body was read to its end; else it is closed."""
        if self._answer.content.at_eof():
            self._answer.release()
        else:
            self._answer.close()

    def close(self) -> None:
        self._answer.close()


async def ask(
    route: Route, method: str, address: str, headers: Mapping[str, str], body: Buffer = b""
) -> Response:
    """The answer to one request. address: quoted, as it is sent."""
    import yarl

    if route.proxy is not None and not route.proxy.startswith(("http://", "https://")):
        raise Failure(
            "final", "the proxy of the environment is none that is understood (http:// or https://)"
        )
    writes = method not in ("GET", "HEAD")
    sent = {**headers, "Content-Length": str(memoryview(body).nbytes)} if writes else headers
    session = _session(route.verify)
    try:
        answer = await session.request(
            method,
            yarl.URL(address, encoded=True),
            headers=sent,
            data=_slices(body) if writes and memoryview(body).nbytes else None,
            allow_redirects=False,
            proxy=route.proxy,
        )
    except Exception as error:
        raise failure_of(error) from None
    return Response(method, answer)


async def _slices(body: Buffer) -> AsyncIterator[memoryview]:
    view = memoryview(body).cast("B")
    for at in range(0, len(view), SLICE):
        yield view[at : at + SLICE]


def failure_of(error: Exception) -> Failure:
    """What an error of aiohttp says, without the address."""
    aiohttp = library()
    if isinstance(error, aiohttp.ServerTimeoutError):
        return Failure("again", "the connection did not stand in time")
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return Failure("again" if error.status >= 500 else "final", f"the proxy answered {error.status}")
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return Failure("final", "the server's certificate is not trusted")
    if isinstance(error, aiohttp.ClientSSLError):
        return Failure("final", "the server speaks no TLS that is understood")
    if isinstance(error, aiohttp.ClientPayloadError | aiohttp.ClientConnectionError | OSError):
        return Failure("again", no_answer(f"{type(error).__name__}: {error}"))
    if isinstance(error, aiohttp.ClientResponseError | aiohttp.InvalidURL):
        return Failure("final", NO_HTTP)
    return Failure("final", f"the request could not be made ({type(error).__name__})")


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
        _contexts[verify] = context
    return context


def library() -> Any:
    """aiohttp, which is imported when the first store needs it."""
    try:
        import aiohttp
    except ImportError as error:
        raise UnsupportedError(
            "stores on http:// and https://, and at endpoints of yours, need the package aiohttp; install it with: "
            "pip install 'terrazzo[remote]'"
        ) from error
    return aiohttp


def _session(verify: bool | str) -> Any:
    """One per process and way of checking certificates; its connections are shared by all stores."""
    session = _sessions.get(verify)
    if session is None:
        aiohttp = library()
        connector = aiohttp.TCPConnector(
            limit=0, keepalive_timeout=LONGEST_IDLE, ssl=True if verify is True else tls_context(verify)
        )
        session = _sessions[verify] = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=PATIENCE),
            auto_decompress=False,
            trust_env=False,  # it would send the user's .netrc along
            read_bufsize=SLICE,
        )
    return session


#: those of this process: a child begins without
_sessions: dict[bool | str, Any] = {}
_contexts: dict[bool | str, ssl.SSLContext] = {}


@atexit.register
def _close_sessions() -> None:
    """aiohttp complains about sessions that nobody closed."""
    for session in _sessions.values():
        try:
            launch(session.close()).result(2.0)
        except (Exception, asyncio.CancelledError):
            pass
    _sessions.clear()


def _after_fork() -> None:
    """A session that is freed closes its connections, and takes them off the selector that the parent waits with:
    what the parent reads would never come."""
    for session in _sessions.values():
        keep_for_ever(session)
    _sessions.clear()


if hasattr(os, "register_at_fork"):  # Windows has none
    os.register_at_fork(after_in_child=_after_fork)
