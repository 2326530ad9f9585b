"""A store as an ASGI application: GET, HEAD and OPTIONS of its objects; PUT and DELETE where that is allowed.

What it does not do: listen (running.py does), decode anything, or know who asks. There are no accounts here.
Specification: RFC 9110 (methods, ranges, conditions), and the Fetch standard (what lets pages of other origins read).

A body is bytes of one version of one object, unencoded, under that version's strong entity tag.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, NamedTuple

from terrazzo.drawing import printable
from terrazzo.errors import ConflictError, StoreError
from terrazzo.serve.conditions import etag_of, fails_match, matches_none, same_for_range
from terrazzo.serve.objects import FORBIDDEN, PIECE, Version, key_of, open_version
from terrazzo.serve.ranges import UnsatisfiableError, wanted_range
from terrazzo.stores.contract import Tag
from terrazzo.stores.store import Store
from terrazzo.stores.versions import is_lasting

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["Application", "Refusal"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

ANY_ORIGIN = "*"
_TRIES = 6
_JSON_NAMES = frozenset({"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"})
#: on every answer: nothing that is served is ever run, guessed at, or kept without asking again
_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_NOTHING_RUNS = "default-src 'none'; sandbox"
_EXPOSED = "Accept-Ranges, Content-Length, Content-Range, ETag"
_ASKED = "Range, If-Match, If-None-Match, If-Range, Content-Type"


class Refusal(Exception):
    """An answer other than what was asked for: its status, a sentence, and headers."""

    def __init__(self, status: int, sentence: str, **headers: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class _Reading(NamedTuple):
    """What a GET or HEAD will be answered with; `version` is open while bytes are still to be read."""

    status: int
    headers: dict[str, str]
    first: bytes | memoryview = b""
    rest: tuple[int, int] = (0, 0)
    version: Version | None = None


class Application:
    """Serves `store`; read-only unless `write`.

    listing: folders answer with what lies in them. hidden: names with a leading dot are served. origins: whose pages
    may read; only origins that are named one by one may write. hosts: names that a request may call this server by
    (None: any). longest: bytes that a PUT may have. address: where it is, for the page at its root.
    """

    def __init__(
        self,
        store: Store,
        *,
        write: bool = False,
        listing: bool = False,
        hidden: bool = False,
        origins: Iterable[str] = (ANY_ORIGIN,),
        hosts: Iterable[str] | None = None,
        longest: int = 1 << 32,
        address: str | None = None,
    ) -> None:
        self.store = store
        self.write = write
        self.listing = listing
        self.hidden = hidden
        self.origins = frozenset(origins)
        self.hosts = None if hosts is None else frozenset(hosts)
        self.longest = longest
        self.address = address
        self.methods = ("GET", "HEAD", "OPTIONS", *(("PUT", "DELETE") if write else ()))
        # a store that only this process knows may count its versions from one again in the next
        self._salt = b"" if store.durable and is_lasting(store.identity) else secrets.token_bytes(16)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        from starlette.requests import Request
        from starlette.responses import PlainTextResponse

        if scope["type"] != "http":
            raise ValueError(f"this application answers HTTP, not {scope['type']!r}")
        request = Request(scope, receive)
        told = _Headers(send, self._shared(request))
        try:
            await self._answer(request, told)
        except Refusal as refusal:
            if told.begun:
                raise
            await PlainTextResponse(f"{refusal}\n", refusal.status, refusal.headers)(scope, receive, told)
        except Exception as error:
            forbidden = isinstance(error, StoreError) and error.errno in FORBIDDEN
            # The sentence of an error may name files: it is for whoever runs the server.
            _log(request, error)
            if told.begun:
                raise  # the connection is cut: a body that is too short tells its reader
            failed = "the store refuses this" if forbidden else "the store failed"
            failed += "; what it said is on the server's side\n"
            await PlainTextResponse(failed, 403 if forbidden else 500)(scope, receive, told)

    async def crowded(self, scope: Message, receive: Receive, send: Send) -> None:
        """The answer to everything on a connection too many."""
        from starlette.requests import Request
        from starlette.responses import PlainTextResponse

        told = _Headers(send, self._shared(Request(scope, receive)))
        headers = {"Retry-After": "1", "Connection": "close"}
        await PlainTextResponse("too many connections at once; ask again\n", 503, headers)(
            scope, receive, told
        )

    async def _answer(self, request: Request, send: Send) -> None:
        from starlette.responses import Response

        self._check_host(request)
        method = request.method
        if method == "OPTIONS":
            response = Response(None, 204, self._allowed(request))
        elif method not in self.methods:
            why = f"{printable(method)} is not allowed here; {', '.join(self.methods)} are"
            raise Refusal(405, why, Allow=", ".join(self.methods))
        elif method in ("GET", "HEAD"):
            await self._read(request, send)
            return
        else:
            from terrazzo.serve.changing import change

            response = await change(self, request)
        await response(request.scope, request.receive, send)

    # -- reading ------------------------------------------------------------------------------------------------------

    async def _read(self, request: Request, send: Send) -> None:
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import Response, StreamingResponse

        path = path_of(request)
        if path == "" or path.endswith("/"):
            from terrazzo.serve.page import folder_response

            page = await run_in_threadpool(
                folder_response, self, path, "text/html" in request.headers.get("accept", "")
            )
            await page(request.scope, request.receive, send)
            return
        reading = await run_in_threadpool(self._prepare, self.key(path), request)
        response: Response
        try:
            if reading.version is not None and reading.rest[1]:
                response = StreamingResponse(_pieces(reading), reading.status, reading.headers)
            else:
                response = Response(reading.first, reading.status, reading.headers)
            await response(request.scope, request.receive, send)
        finally:
            if reading.version is not None:
                reading.version.close()

    def _prepare(self, key: str, request: Request) -> _Reading:
        for attempt in range(_TRIES):
            version = reading = None
            try:
                version = open_version(self.store, key)
                if version is None:
                    raise _absent(key)
                reading = self._begun(key, version, request)
                return reading
            except ConflictError:
                if attempt == _TRIES - 1:
                    raise Refusal(
                        503, f"{printable(key)} keeps changing; ask again", Retry_After="1"
                    ) from None
            finally:
                if version is not None and (reading is None or reading.version is None):
                    version.close()
        raise AssertionError("the last try answers or raises")

    def _begun(self, key: str, version: Version, request: Request) -> _Reading:
        """Status, headers and first bytes of what a request asks of this version."""
        etag, asked, size = self.etag(version.source.tag), request.headers, version.size
        headers = {"Accept-Ranges": "bytes"}
        if etag is not None:
            headers["ETag"] = etag
        if fails_match(header(request, "if-match"), etag):
            raise Refusal(412, f"{printable(key)} is another version now", **_etag(etag))
        if matches_none(header(request, "if-none-match"), etag):
            return _Reading(304, headers)
        name = key.rpartition("/")[2]
        headers["Content-Type"] = "application/json" if name in _JSON_NAMES else "application/octet-stream"
        status, start, length = 200, 0, size
        if request.method == "GET" and same_for_range(asked.get("if-range"), etag):
            try:
                wanted = wanted_range(header(request, "range"), size)
            except UnsatisfiableError:
                told = f"no byte of the range is there; {printable(key)} has {size}"
                raise Refusal(416, told, Content_Range=f"bytes */{size}", **_etag(etag)) from None
            if wanted is not None:
                status, (start, length) = 206, wanted
                headers["Content-Range"] = f"bytes {start}-{start + length - 1}/{size}"
        headers["Content-Length"] = str(length)
        if request.method == "HEAD":
            return _Reading(status, headers)
        first = version.read(start, min(length, PIECE))
        done = len(first)
        if done == length:
            return _Reading(status, headers, first)
        return _Reading(status, headers, first, (start + done, length - done), version)

    # -- what answers share -------------------------------------------------------------------------------------------

    def key(self, path: str) -> str:
        key = key_of(path, self.hidden)
        if key is None:
            raise _absent(path)
        return key

    def etag(self, tag: Tag) -> str | None:
        return etag_of(tag, self._salt)

    def may_write(self, origin: str | None) -> bool:
        """Whether pages of this origin may change objects; None: the request is of no page."""
        return origin is None or self.may_name(origin)

    def _check_host(self, request: Request) -> None:
        if self.hosts is None:
            return
        name = request.headers.get("host", "").lower()
        name = name.partition("]")[0] + "]" if name.startswith("[") else name.partition(":")[0]
        if name not in self.hosts:
            raise Refusal(421, "this server does not go by that name")

    def _shared(self, request: Request) -> dict[str, str]:
        """Headers of every answer, whatever its status."""
        shared = dict(_ALWAYS)
        origin = request.headers.get("origin")
        named = self.may_name(origin)
        if named or ANY_ORIGIN in self.origins:
            shared["Access-Control-Allow-Origin"] = str(origin) if named else ANY_ORIGIN
            shared["Cross-Origin-Resource-Policy"] = "cross-origin"
        if self.origins != {ANY_ORIGIN}:
            shared["Vary"] = "Origin"
        shared["Access-Control-Expose-Headers"] = _EXPOSED
        shared["Content-Security-Policy"] = _NOTHING_RUNS
        return shared

    def may_name(self, origin: str | None) -> bool:
        """Whether this origin is one of those that were named one by one."""
        return origin is not None and origin != ANY_ORIGIN and origin in self.origins

    def _allowed(self, request: Request) -> dict[str, str]:
        methods = self.methods if self.may_name(request.headers.get("origin")) else self.methods[:3]
        return {
            "Allow": ", ".join(self.methods),
            "Access-Control-Allow-Methods": ", ".join(methods),
            "Access-Control-Allow-Headers": _ASKED,
            "Access-Control-Max-Age": "86400",
        }


class _Headers:
    """`send` with the shared headers on whatever begins an answer."""

    def __init__(self, send: Send, shared: Mapping[str, str]) -> None:
        self._send = send
        self._shared = [(name.lower().encode(), value.encode("latin-1")) for name, value in shared.items()]
        self.begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            own = list(message.get("headers", ()))
            names = {name for name, _ in own}
            message["headers"] = own + [pair for pair in self._shared if pair[0] not in names]
        await self._send(message)


async def _pieces(reading: _Reading) -> AsyncIterator[bytes | memoryview]:
    from starlette.concurrency import run_in_threadpool

    yield reading.first
    (start, left), version = reading.rest, reading.version
    assert version is not None
    while left:
        piece = await run_in_threadpool(version.read, start, min(left, PIECE))
        yield piece
        start += len(piece)
        left -= len(piece)


def path_of(request: Request) -> str:
    """What a request names, relative to where the application is mounted; percent signs are resolved already."""
    path: str = request.scope["path"]
    root: str = request.scope.get("root_path", "")
    if root and path.startswith(root):
        path = path[len(root) :]
    return path.removeprefix("/")


def header(request: Request, name: str) -> str | None:
    """All lines of a header as one."""
    found = request.headers.getlist(name)
    return ", ".join(found) if found else None


def _etag(etag: str | None) -> dict[str, str]:
    return {} if etag is None else {"ETag": etag}


def _absent(key: str) -> Refusal:
    return Refusal(404, f"nothing is stored under {printable(key, 200)}")


def _log(request: Request, error: Exception) -> None:
    kind = "" if isinstance(error, StoreError) else f"{type(error).__name__}: "
    told = printable(f"{request.method} {path_of(request)}: {kind}{error}", 1000)
    logging.getLogger("terrazzo.serve").warning("%s", told)
