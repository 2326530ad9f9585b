"""PUT and DELETE: whole objects, under the conditions that the request names.

What it does not do: partial writes; let a page of another origin write, unless that origin was named.
Specification: RFC 9110, sections 9.3.4, 9.3.5 and 13.1.

A body is gathered first, in memory or in an unnamed file, so that nobody holds an object while a client is slow; then
the object is held, the conditions are looked at, and it is replaced whole.
"""

from __future__ import annotations

import tempfile
from typing import IO, TYPE_CHECKING

from terrazzo.drawing import printable
from terrazzo.errors import ConflictError, HeldError, UnsupportedError
from terrazzo.serve.application import Application, Refusal, header, path_of
from terrazzo.serve.conditions import fails_match, matches_none
from terrazzo.serve.objects import PIECE
from terrazzo.stores.contract import Erase, Hold, Put, Tag

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["change"]

#: bodies up to here stay in memory
_IN_MEMORY = PIECE
_PATIENCE = 30.0  # seconds that another writer is waited for
_TRIES = 8


async def change(application: Application, request: Request) -> Response:
    """The answer to a PUT or a DELETE that was carried out; Refusal where it was not."""
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import Response

    if not application.may_write(request.headers.get("origin")):
        raise Refusal(403, "pages of this origin may not write here")
    key = application.key(path_of(request))
    if request.method == "DELETE":
        await run_in_threadpool(_erase, application, request, key)
        return Response(None, 204)
    for name in ("content-range", "content-encoding"):
        if name in request.headers:
            raise Refusal(400, f"{name} is not understood: objects are put whole and as they are")
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as body:
        await _gather(application, request, body)
        made, etag = await run_in_threadpool(_put, application, request, key, body)
    return Response(None, 201 if made else 204, {} if etag is None else {"ETag": etag})


async def _gather(application: Application, request: Request, body: IO[bytes]) -> None:
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import ClientDisconnect

    longest, size = application.longest, 0
    refused = Refusal(413, f"an object may have {longest} bytes here")
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or len(declared) > 18 or int(declared) > longest:
        raise refused
    try:
        async for piece in request.stream():
            size += len(piece)
            if size > longest:
                raise refused
            if size > _IN_MEMORY:
                await run_in_threadpool(body.write, piece)
            else:
                body.write(piece)
    except ClientDisconnect:
        raise Refusal(400, "the body ended early; nothing was written") from None


def _put(application: Application, request: Request, key: str, body: IO[bytes]) -> tuple[bool, str | None]:
    """Whether the object is new, and its entity tag where the store tells it."""
    for attempt in range(_TRIES):
        with _held(application, key) as hold:
            _check(application, request, hold)
            sink = application.store.sink(hold)
            try:
                body.seek(0)
                position = 0
                while piece := body.read(PIECE):
                    sink.write(position, piece)
                    position += len(piece)
                if not position:
                    sink.write(0, b"")
                tag = application.store.commit([Put(hold, sink)])[0]
            except ConflictError:
                # where holds keep nobody out: the object changed after the conditions were looked at
                if attempt == _TRIES - 1:
                    raise Refusal(
                        503, f"{printable(key)} keeps changing; try again", Retry_After="1"
                    ) from None
                continue
            finally:
                sink.discard()
            return hold.source is None, None if tag is None else application.etag(tag)
    raise AssertionError("the last try answers or raises")


def _erase(application: Application, request: Request, key: str) -> None:
    with _held(application, key) as hold:
        _check(application, request, hold)
        if hold.source is None:
            raise Refusal(404, f"nothing is stored under {printable(key, 200)}")
        try:
            application.store.commit([Erase(hold)])
        except ConflictError:
            raise Refusal(412, f"{printable(key)} is another version now") from None
        except UnsupportedError:
            raise Refusal(405, "nothing can be erased here", Allow="GET, HEAD, OPTIONS, PUT") from None


def _held(application: Application, key: str) -> Hold:
    try:
        return application.store.hold(key, timeout=_PATIENCE)
    except HeldError:
        raise Refusal(
            503, f"{printable(key)} is being written by another; try again", Retry_After="1"
        ) from None


def _check(application: Application, request: Request, hold: Hold) -> None:
    tag: Tag | None = None if hold.source is None else hold.source.tag
    etag = None if tag is None else application.etag(tag)
    match, none = header(request, "if-match"), header(request, "if-none-match")
    stored = hold.source is not None
    if match is not None and (not stored or fails_match(match, etag)):
        raise Refusal(412, f"{printable(hold.key)} is not that version", **_told(etag))
    if none is not None and stored and matches_none(none, etag):
        raise Refusal(412, f"{printable(hold.key)} is there already", **_told(etag))


def _told(etag: str | None) -> dict[str, str]:
    return {} if etag is None else {"ETag": etag}
