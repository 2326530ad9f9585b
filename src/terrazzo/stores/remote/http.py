"""Reading over HTTP(S): ranges, conditions, and answers that are believed only as far as they fit the question.

What it does not do: write, list, or follow a redirect to another origin.
Specification: RFC 9110, 13 (conditions), 14 (ranges), 15.4 (redirects).

By aiohttp rather than obstore, whose client follows redirects wherever they lead and shows user-info in its errors.
"""

from __future__ import annotations

import asyncio
import atexit
import io
import os
import re
import time
from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from terrazzo.errors import StoreError, UnsupportedError
from terrazzo.stores.contract import ALL, Range
from terrazzo.stores.remote.address import Address, origin_of
from terrazzo.stores.remote.client import Client
from terrazzo.stores.remote.meter import Meter
from terrazzo.stores.remote.policy import STATUS_KINDS, TRIED_AGAIN, Failure, grant, no_answer
from terrazzo.stores.remote.version import Answer, version_of

__all__ = ["HttpClient"]

#: redirects within the origin
MOST_REDIRECTS = 5
#: a body whose length nobody announced, nor asked for
MOST_UNANNOUNCED = 1 << 30
#: seconds that a service may ask us to wait
LONGEST_WAIT = 60.0
CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})", re.IGNORECASE).fullmatch
_SAFE = "/%:@!$&'()*+,;=~-._"

_sessions: dict[tuple[int, Any], Any] = {}


class HttpClient(Client):
    """The objects below an address, by their keys."""

    writable = False
    listable = False

    def __init__(self, address: Address, config: Mapping[str, Any], meter: Meter, concurrency: int) -> None:
        super().__init__(meter, concurrency)
        path = quote(address.path, safe=_SAFE)
        self._base = f"{address.place}/{path}/" if path else f"{address.place}/"
        self._query = f"?{address.query}" if address.query else ""
        self._origin = address.place
        #: of every request: no redirect leaves the origin
        self.proxy = _proxy(address.place)
        self._verify = config.get("verify", True)
        self._headers = _headers(config)
        _aiohttp()

    async def get(
        self,
        path: str,
        window: Range,
        *,
        match: str | None = None,
        unless: str | None = None,
        most: int | None = None,
    ) -> Answer:
        headers = _conditions(match, unless)
        start, length = window
        if start < 0:
            headers["Range"] = f"bytes={start}"
        elif window != ALL:
            headers["Range"] = f"bytes={start}-" + ("" if length is None else str(start + length - 1))
        began = time.perf_counter()
        async with _Request(self, "GET", path, headers) as response:
            first = time.perf_counter()
            self.meter.answered(first - began)
            nbytes, size = _announced(response, window)
            if most is not None and nbytes is not None and nbytes > most:
                raise Failure("final", f"the object has {nbytes:,} bytes; at most {most:,} are read")
            limit = MOST_UNANNOUNCED if length is None else length
            grant(nbytes or 0)
            body = await _body(response, nbytes, limit if most is None else min(most, limit))
            if size is None:
                size = len(body)
            self.meter.read(len(body), time.perf_counter() - first)
            return Answer(body, size, _version(response, size))

    async def head(self, path: str) -> Answer:
        try:
            async with _Request(self, "HEAD", path, {}) as response:
                size = response.headers.get("Content-Length", "")
                if response.status == 200 and size.isascii() and size.isdigit():
                    return Answer(None, int(size[:19]), _version(response, int(size[:19])))
        except Failure as failure:
            if failure.kind not in ("unsupported", "final"):
                raise
        # a server without HEAD, or one that does not tell sizes in it
        found = await self.get(path, (0, 1))
        return found._replace(body=None)

    def request_headers(self) -> dict[str, str]:
        return {"Accept-Encoding": "identity", "User-Agent": "terrazzo", **self._headers}

    def address_of(self, path: str) -> str:
        return self._base + quote(path, safe="/~-._") + self._query

    @property
    def origin(self) -> str:
        return self._origin

    def session(self) -> Any:
        """One per process and way of checking certificates; its connections are shared by all stores."""
        key = (os.getpid(), self._verify)
        session = _sessions.get(key)
        if session is None:
            aiohttp = _aiohttp()
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=15.0, ssl=_tls(self._verify))
            session = _sessions[key] = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=10.0),
                auto_decompress=False,
                trust_env=False,  # it would send the user's .netrc along
                read_bufsize=1 << 18,
            )
        return session


class _Request:
    """One request with the redirects that stay within its origin; its body is read inside the block."""

    def __init__(self, client: HttpClient, method: str, path: str, headers: dict[str, str]) -> None:
        self._client = client
        self._method = method
        self._address = client.address_of(path)
        self._headers = {**client.request_headers(), **headers}
        self._response: Any = None

    async def __aenter__(self) -> Any:
        import yarl

        aiohttp = _aiohttp()
        for _ in range(MOST_REDIRECTS + 1):
            try:
                response = self._response = await self._client.session().request(
                    self._method,
                    yarl.URL(self._address, encoded=True),
                    headers=self._headers,
                    allow_redirects=False,
                    proxy=self._client.proxy,
                )
            except Exception as error:
                raise _no_answer(aiohttp, error) from None
            if response.status not in (301, 302, 303, 307, 308):
                try:
                    self._refuse(response)
                except BaseException:
                    self._give_up()
                    raise
                return response
            location = response.headers.get("Location", "")
            self._give_up()
            self._address = self._follow(location)
        raise Failure("final", f"the server redirected more than {MOST_REDIRECTS} times")

    async def __aexit__(self, kind: object, error: BaseException | None, _: object) -> None:
        response = self._response
        if error is None and response.content.at_eof():
            response.release()
            return
        self._give_up()
        if error is not None and not isinstance(error, Failure):
            aiohttp = _aiohttp()
            if isinstance(error, aiohttp.ClientError | OSError) and not isinstance(
                error, StoreError | TimeoutError
            ):
                raise _no_answer(aiohttp, error) from None

    def _give_up(self) -> None:
        """Close the connection: what else comes on it is not read."""
        if self._response is not None:
            self._response.close()

    def _follow(self, location: str) -> str:
        try:
            target = urljoin(self._address, location)
            origin = origin_of(urlsplit(target))
        except ValueError:
            raise Failure("final", "the server redirected to something that is no address") from None
        if not location or origin != self._client.origin:
            raise Failure(
                "final",
                f"the server redirected to another origin ({origin or 'nowhere'}), which is refused; "
                "where that place is meant, open its address instead",
            )
        return target

    def _refuse(self, response: Any) -> None:
        status = response.status
        if status in (200, 206):
            encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
            if encoding not in ("", "identity"):
                raise Failure("final", "the server encoded the body, which was asked for as it is stored")
            return
        if status in TRIED_AGAIN:
            raise Failure("again", f"the server answered {status}", pause=_wait_asked(response))
        kind = STATUS_KINDS.get(status, "unsupported" if status == 405 else "final")
        told = (
            "" if kind in ("absent", "condition", "unchanged", "range") else f"the server answered {status}"
        )
        if kind == "denied":
            told += ": access was denied; check the credentials and what they allow"
        raise Failure(kind, told)


def _announced(response: Any, window: Range) -> tuple[int | None, int | None]:
    """(bytes of the body, size of the object) where they are told, after checking that they are what was asked for."""
    length = response.headers.get("Content-Length")
    nbytes = int(length) if length is not None and length.isascii() and length.isdigit() else None
    start, asked = window
    if response.status == 200:
        whole = window == ALL or (
            nbytes is not None
            and (nbytes <= -start if start < 0 else start == 0 and (asked is None or nbytes <= asked))
        )
        # without a length it may still be short enough; the body is bounded by what was asked for
        if not whole and not (nbytes is None and start == 0):
            raise Failure("final", "the server ignores ranges: a part was asked for, and it sent everything")
        return nbytes, nbytes
    found = CONTENT_RANGE(response.headers.get("Content-Range", "").strip())
    if found is None or window == ALL:
        raise Failure("final", "the server answered with a part, without saying which (Content-Range)")
    begin, end, size = int(found[1]), int(found[2]) + 1, int(found[3])
    if start < 0:
        expected = (max(0, size + start), size)
    else:
        expected = (start, size if asked is None else min(size, start + asked))
    if (begin, end) != expected:
        raise Failure(
            "final",
            f"the server sent bytes {begin} to {end} of {size}, asked for {expected[0]} to {expected[1]}",
        )
    if nbytes is not None and nbytes != end - begin:
        raise Failure("final", f"the server announced {nbytes} bytes and a range of {end - begin}")
    return end - begin, size


async def _body(response: Any, nbytes: int | None, most: int) -> bytes:
    """The whole body: `nbytes`, or where nobody told, at most `most`."""
    limit = most if nbytes is None else nbytes
    # grows with what comes, not with what was announced, and hands its bytes over without copying them
    found = io.BytesIO()
    had = 0
    while True:
        piece = await response.content.readany()
        if not piece:
            if response.content.at_eof():
                break
            continue
        had += len(piece)
        if had > limit:
            raise Failure("final", f"the server sent more than the {limit:,} bytes that were asked for")
        found.write(piece)
    if nbytes is not None and had != nbytes:
        raise Failure("again", f"{had:,} of the {nbytes:,} bytes announced came")
    return found.getvalue()


def _version(response: Any, size: int) -> Any:
    headers = response.headers
    return version_of(headers.get("ETag"), None, headers.get("Last-Modified"), size)


def _conditions(match: str | None, unless: str | None) -> dict[str, str]:
    headers = {}
    if match is not None:
        headers["If-Match"] = match
    if unless is not None:
        headers["If-None-Match"] = unless
    return headers


def _wait_asked(response: Any) -> float:
    text = response.headers.get("Retry-After", "").strip()
    return min(float(text), LONGEST_WAIT) if text.isascii() and text.isdigit() and len(text) < 10 else 0.0


def _no_answer(aiohttp: Any, error: BaseException) -> Failure:
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        return Failure("final", "the server's certificate is not trusted")
    if isinstance(error, aiohttp.InvalidURL | aiohttp.ClientResponseError):
        return Failure("final", "the server's answer is no HTTP")
    if isinstance(error, aiohttp.ClientError | OSError):
        return Failure("again", no_answer(f"{type(error).__name__}: {error}"))
    return Failure("final", f"the request could not be made ({type(error).__name__})")


def _headers(config: Mapping[str, Any]) -> dict[str, str]:
    headers = config.get("headers") or {}
    if not isinstance(headers, Mapping) or not all(
        isinstance(part, str) and not set(part) & {"\r", "\n", "\0"}
        for item in headers.items()
        for part in item
    ):
        raise StoreError("headers is a dictionary of strings, without line breaks")
    taken = {name.lower() for name in headers}
    for name in ("range", "if-match", "if-none-match", "accept-encoding", "host"):
        if name in taken:
            raise StoreError(f"headers: {name!r} is set by the store itself")
    found = dict(headers)
    if "authorization" not in taken:
        if config.get("token") is not None:
            found["Authorization"] = f"Bearer {config['token']}"
        elif config.get("username") is not None or config.get("password") is not None:
            both = f"{config.get('username') or ''}:{config.get('password') or ''}"
            found["Authorization"] = "Basic " + b64encode(both.encode()).decode()
    return found


def _proxy(address: str) -> str | None:
    parts = urlsplit(address)
    proxy = getproxies().get(parts.scheme)
    if not proxy or proxy_bypass(parts.hostname or ""):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _tls(verify: Any) -> Any:
    if verify is True or verify is False:
        return verify
    import ssl

    try:
        return ssl.create_default_context(cafile=os.fspath(verify))
    except (OSError, TypeError, ssl.SSLError):
        raise StoreError("verify is True, False, or the path of a file of certificates") from None


def _aiohttp() -> Any:
    try:
        import aiohttp
    except ImportError as error:
        raise UnsupportedError(
            "stores on http:// and https:// need the package aiohttp; install it with: pip install 'terrazzo[remote]'"
        ) from error
    return aiohttp


@atexit.register
def _close_sessions() -> None:
    """aiohttp complains about sessions that nobody closed."""
    from terrazzo.stores.remote.loop import launch

    for (process, _), session in _sessions.items():
        if process == os.getpid():
            try:
                launch(session.close()).result(2.0)
            except (Exception, asyncio.CancelledError):
                pass
    _sessions.clear()
