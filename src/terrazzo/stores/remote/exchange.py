"""One question over HTTP and its answer: redirects within one origin, refusals, ranges and bodies that are believed
only as far as they fit the question.

What it does not do: know where objects lie, or sign (http.py, signing.py); aiohttp is connection.py's.
Specification: RFC 9110, 13 (conditions), 14 (ranges), 15.4 (redirects).
"""

from __future__ import annotations

import io
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from terrazzo.stores.contract import ALL, Buffer, Range
from terrazzo.stores.remote.address import origin_of
from terrazzo.stores.remote.connection import Response, Route, ask, library
from terrazzo.stores.remote.meter import Meter
from terrazzo.stores.remote.policy import TRIED_AGAIN, Failure, answered, grant, telling
from terrazzo.stores.remote.version import HISTORY_KEY, Answer, Version, history_of, version_of

__all__ = ["Exchange", "Way", "conditions", "get", "head", "proxy_of"]

#: redirects within the origin
MOST_REDIRECTS = 5
#: a body whose length nobody announced, nor asked for
MOST_UNANNOUNCED = 1 << 30
#: of the answer to a question that was refused
MOST_TOLD = 1 << 16
#: bytes of a body that is told of while it comes: its first chunks are decoded before its last ones are there. It gets
#: room for all of them at once, so there is an end to believing what was announced.
WORTH_TELLING = 1 << 20
MOST_TELLING = 1 << 26
#: seconds that a service may ask us to wait
LONGEST_WAIT = 60.0
CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})", re.IGNORECASE).fullmatch
_CODE = re.compile(rb"<Code>([A-Za-z0-9]{1,60})</Code>").search
_SAFE = "/%:@!$&'()*+,;=~-._?"
_PRINTED = _SAFE + '[]"<>\\^`{|}#'
#: fields in which services keep the metadata of an object and its generation
_HISTORIES = tuple(f"x-{whose}-meta-{HISTORY_KEY}" for whose in ("amz", "goog", "ms"))
_GENERATIONS = ("x-goog-generation", "x-amz-version-id", "x-ms-version-id")


class Way(ABC):
    """How requests reach a service: the address of an object, and what goes along.

    told: who answers, in sentences about it. stores_objects: its answers tell of objects as object stores do (metadata,
    generations, codes of errors). suffixes: it knows ranges from the end. denied: what may help where access is.
    """

    told = "the server"
    denied = ""
    stores_objects = False
    suffixes = True

    def __init__(self, origin: str, verify: bool | str) -> None:
        self.origin = origin
        self.proxy = proxy_of(origin)
        self.route = Route(self.proxy, verify)
        library()

    @abstractmethod
    async def address(self, method: str, path: str) -> str:
        """Where the object is. It can hold a secret."""

    def headers(self, method: str, address: str, own: Mapping[str, str], body: Buffer) -> dict[str, str]:
        """What a request carries, with `own` for this one; asked anew for each redirect."""
        agent = {} if any(name.lower() == "user-agent" for name in own) else {"User-Agent": "terrazzo"}
        return {"Accept-Encoding": "identity", **agent, **own}


class Exchange:
    """One request with the redirects that stay within its origin; its body is read inside the block.

    A write (with a body, or DELETE) follows no redirect at all: it goes to the address that was meant, or nowhere.
    """

    def __init__(
        self,
        way: Way,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: Buffer = b"",
    ) -> None:
        self._way = way
        self._method = method
        self._path = path
        self._own = headers
        self._body = body
        self._response: Response | None = None

    async def __aenter__(self) -> Response:
        way = self._way
        address = await way.address(self._method, self._path)
        reads = self._method in ("GET", "HEAD")
        for _ in range(MOST_REDIRECTS + 1):
            headers = way.headers(self._method, address, self._own, self._body)
            target = _printed(address)
            response = self._response = await ask(way.route, self._method, target, headers, self._body)
            if response.status not in (301, 302, 303, 307, 308):
                if response.status not in (200, 201, 202, 204, 206):
                    await self._refuse(response)
                return response
            response.close()
            address = _followed(way, address, response.headers.get("location", ""))
            if not reads:
                raise Failure("final", f"{way.told} redirected a write, which is refused")
        raise Failure("final", f"{way.told} redirected more than {MOST_REDIRECTS} times")

    async def __aexit__(self, kind: object, error: BaseException | None, _: object) -> None:
        response = self._response
        if response is not None:
            if error is None:
                response.finish()
            else:
                response.close()

    async def _refuse(self, response: Response) -> None:
        code = ""
        try:
            # its few bytes are read, so that the connection serves again
            body = await _body(response, response.nbytes, MOST_TOLD)
        except Failure:
            response.close()
        except BaseException:
            response.close()
            raise
        else:
            response.finish()
            if self._way.stores_objects:
                found = _CODE(body)
                code = found[1].decode() if found else ""
        self._response = None
        status = response.status
        failure = answered(status, code, self._way.told)
        if failure.kind == "denied":
            failure.text += self._way.denied
        if status in TRIED_AGAIN:
            failure.pause = _wait_asked(response)
        raise failure


async def get(
    way: Way,
    meter: Meter,
    path: str,
    window: Range,
    headers: dict[str, str],
    most: int | None,
) -> Answer:
    """The bytes of a range that lie in the object."""
    start, length = window
    if start < 0:
        if not way.suffixes:
            raise Failure("unsupported", "the service has no ranges from the end")
        headers["Range"] = f"bytes={start}"
    elif window != ALL:
        headers["Range"] = f"bytes={start}-" + ("" if length is None else str(start + length - 1))
    began = time.perf_counter()
    async with Exchange(way, "GET", path, headers) as response:
        first = time.perf_counter()
        meter.answered(first - began)
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity") and not way.stores_objects:
            raise Failure("final", "the server encoded the body, which was asked for as it is stored")
        nbytes, size = _announced(response, window)
        if most is not None and nbytes is not None and nbytes > most:
            raise Failure("final", f"the object has {nbytes:,} bytes; at most {most:,} are read")
        limit = (nbytes if nbytes is not None else MOST_UNANNOUNCED) if length is None else length
        grant(nbytes or 0)
        body = await _body(response, nbytes, limit if most is None else min(most, limit))
        if size is None:
            size = len(body)
        meter.read(len(body), time.perf_counter() - first)
        return Answer(body, size, version_in(way, response, size))


async def head(way: Way, meter: Meter, path: str) -> Answer:
    """The version of an object."""
    began = time.perf_counter()
    try:
        async with Exchange(way, "HEAD", path, {}) as response:
            meter.answered(time.perf_counter() - began)
            size = response.headers.get("content-length", "")
            if response.status == 200 and size.isascii() and size.isdigit():
                return Answer(None, int(size[:19]), version_in(way, response, int(size[:19])))
    except Failure as failure:
        if failure.kind not in ("unsupported", "final"):
            raise
    # a server without HEAD, or one that does not tell sizes in it
    found = await get(way, meter, path, (0, 1), {}, None)
    return found._replace(body=None)


def version_in(way: Way, response: Response, size: int | None) -> Version:
    """The version that an answer tells."""
    told = response.headers
    generation: str | None = None
    history: tuple[str, ...] = ()
    if way.stores_objects:
        generation = next((told[name] for name in _GENERATIONS if name in told), None)
        history = history_of({HISTORY_KEY: next((told[name] for name in _HISTORIES if name in told), None)})
    return version_of(told.get("etag"), generation, told.get("last-modified"), size, history)


def conditions(match: str | None, unless: str | None) -> dict[str, str]:
    headers = {}
    if match is not None:
        headers["If-Match"] = match
    if unless is not None:
        headers["If-None-Match"] = unless
    return headers


def _printed(address: str) -> str:
    """An address as it is sent."""
    parts = urlsplit(address)
    target = quote(parts.path, safe=_PRINTED) or "/"
    if parts.query:
        target += "?" + quote(parts.query, safe=_PRINTED)
    return f"{parts.scheme}://{parts.netloc}{target}"


def _followed(way: Way, address: str, location: str) -> str:
    if not location:
        if way.stores_objects:
            raise Failure(
                "final", "the service redirected without saying where to; check region and endpoint_url"
            )
        raise Failure("final", "the server redirected without saying where to")
    try:
        target = urljoin(address, location)
        origin = origin_of(urlsplit(target))
    except ValueError:
        raise Failure("final", f"{way.told} redirected to something that is no address") from None
    if origin != way.origin:
        raise Failure(
            "final",
            f"{way.told} redirected to another origin ({origin}), which is refused; "
            "where that place is meant, open its address instead",
        )
    return target


def _announced(response: Response, window: Range) -> tuple[int | None, int | None]:
    """(bytes of the body, size of the object) where they are told, after checking that they are what was asked for."""
    nbytes = response.nbytes
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
    found = CONTENT_RANGE(response.headers.get("content-range", "").strip())
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


async def _body(response: Response, nbytes: int | None, most: int) -> Buffer:
    """The whole body: `nbytes`, or where nobody told, at most `most`."""
    if response.nbytes is not None and nbytes == response.nbytes:
        if nbytes > most:
            raise Failure("final", f"the server sent more than the {most:,} bytes that were asked for")
        tell = telling.get()
        if tell is not None and WORTH_TELLING <= nbytes <= MOST_TELLING:
            return await _growing(response, nbytes, tell)
        whole = await response.all()
        if len(whole) != nbytes:
            raise Failure("again", f"{len(whole):,} of the {nbytes:,} bytes announced came")
        return whole
    limit = most if nbytes is None else nbytes
    found = io.BytesIO()
    had = 0
    while piece := await response.piece():
        had += len(piece)
        if had > limit:
            raise Failure("final", f"the server sent more than the {limit:,} bytes that were asked for")
        found.write(piece)
    if nbytes is not None and had != nbytes:
        raise Failure("again", f"{had:,} of the {nbytes:,} bytes announced came")
    return found.getvalue()


async def _growing(response: Response, nbytes: int, tell: Callable[[bytearray, int], None]) -> Buffer:
    """The whole body, which is told of while it comes."""
    found, had = bytearray(nbytes), 0
    view = memoryview(found)
    while had < nbytes:
        piece = await response.piece()
        if not piece:
            raise Failure("again", f"{had:,} of the {nbytes:,} bytes announced came")
        if had + len(piece) > nbytes:
            raise Failure("final", f"the server sent more than the {nbytes:,} bytes that it announced")
        view[had : had + len(piece)] = piece
        had += len(piece)
        tell(found, had)
    return found


def _wait_asked(response: Any) -> float:
    text = response.headers.get("retry-after", "").strip()
    return min(float(text), LONGEST_WAIT) if text.isascii() and text.isdigit() and len(text) < 10 else 0.0


def proxy_of(address: str) -> str | None:
    """The proxy that the environment names for an address."""
    parts = urlsplit(address)
    named = getproxies()
    proxy = named.get(parts.scheme) or (named["all"] if named.get("all", "").startswith("http") else None)
    if not proxy or proxy_bypass(parts.hostname or ""):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"
