"""What concerns many objects of a bucket, in S3's words: pages of names, and deletions of up to a thousand.

What it does not do: know keys, or wait for slow services (policy.py). Names that obstore would not take are errors here
too, so that both ways list the same.
Specification: Amazon S3's ListObjectsV2 and DeleteObjects.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from terrazzo.stores.remote.exchange import whole
from terrazzo.stores.remote.policy import Failure, answered, strange_name
from terrazzo.stores.remote.signing import ObjectWay

__all__ = ["Page", "delete", "pages"]

#: bytes of one page: a thousand names of a kibibyte each, and what is told of them
MOST_OF_A_PAGE = 16 << 20
_CONTROL = re.compile(r"[\x00-\x1f\x7f]").search


class Page(NamedTuple):
    """keys: whole names of objects. prefixes: what the delimiter ends. following: how the next page is asked for."""

    keys: list[str]
    prefixes: list[str]
    following: str


async def pages(
    way: ObjectWay, prefix: str, delimiter: str = "", after: str | None = None
) -> AsyncIterator[Page]:
    """The names below a prefix, in order; `after`: those behind this one."""
    prefix = f"{prefix.removesuffix('/')}/" if prefix else ""
    asked = {"list-type": "2", "prefix": prefix}
    if delimiter:
        asked["delimiter"] = delimiter
    if after is not None:
        asked["start-after"] = after
    while True:
        query = "&".join(f"{name}={quote(asked[name], safe='-._~')}" for name in sorted(asked))
        page = _page(await whole(way, "GET", f"{way.base}?{query}", {}, b"", MOST_OF_A_PAGE), prefix)
        yield page
        if not page.following:
            return
        if page.following == asked.get("continuation-token"):
            raise Failure("final", "the service lists in a circle")
        asked.pop("start-after", None)
        asked["continuation-token"] = page.following


async def delete(way: ObjectWay, paths: Sequence[str]) -> None:
    """Erase all of `paths`, a thousand at most; absence is no error."""
    names = "".join(f"<Object><Key>{escape(path)}</Key></Object>" for path in paths)
    body = f'<?xml version="1.0" encoding="UTF-8"?><Delete><Quiet>true</Quiet>{names}</Delete>'.encode()
    headers = {
        "Content-Type": "application/xml",
        "Content-MD5": b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode(),
        "x-amz-content-sha256": hashlib.sha256(body).hexdigest(),
    }
    for entry in _parsed(await whole(way, "POST", f"{way.base}?delete=", headers, body, MOST_OF_A_PAGE)):
        code = _text(entry, "Code")
        if _named(entry) == "Error" and code not in ("NoSuchKey", "NoSuchVersion"):
            code = code if code.isascii() and code.isalnum() else ""
            raise answered(
                {"AccessDenied": 403, "InternalError": 500, "SlowDown": 503}.get(code, 400), code[:60]
            )


def _page(body: bytes, prefix: str) -> Page:
    keys: list[str] = []
    prefixes: list[str] = []
    more, following = False, ""
    for entry in _parsed(body):
        name = _named(entry)
        if name == "Contents":
            key = _text(entry, "Key")
            if not key.endswith("/"):  # what consoles put there to show a folder
                keys.append(_checked(key))
        elif name == "CommonPrefixes":
            found = _text(entry, "Prefix")
            if found != prefix:
                prefixes.append(_checked(found.removesuffix("/")) + "/")
        elif name == "IsTruncated":
            more = (entry.text or "").strip() == "true"
        elif name == "NextContinuationToken":
            following = entry.text or ""
    if more and not following:
        raise Failure("final", "the service lists in pages, and does not say how the next one is asked for")
    return Page(keys, prefixes, following if more else "")


def _parsed(body: bytes) -> ElementTree.Element:
    try:
        if b"<!" in body:  # entities that would grow; no listing has them
            raise ValueError
        return ElementTree.fromstring(body)
    except (ElementTree.ParseError, ValueError, LookupError):
        raise Failure("final", "the service's answer about many objects cannot be understood (XML)") from None


def _named(entry: ElementTree.Element) -> str:
    return entry.tag.rpartition("}")[2]


def _text(entry: ElementTree.Element, name: str) -> str:
    return next((one.text or "" for one in entry if _named(one) == name), "")


def _checked(name: str) -> str:
    if _CONTROL(name) or not {"", ".", ".."}.isdisjoint(name.split("/")):
        raise strange_name()
    return name
