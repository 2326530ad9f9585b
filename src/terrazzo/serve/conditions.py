"""Entity tags, and the requests that depend on them: If-Match, If-None-Match, If-Range.

What it does not do: dates. Stores tell versions by tags; a date tells them by seconds, so none is ever sent.
Specification: RFC 9110, sections 8.8.3 and 13.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from hashlib import blake2b

from terrazzo.stores.contract import Tag
from terrazzo.stores.versions import tag_text

__all__ = ["etag_of", "fails_match", "matches_none", "same_for_range"]

# Tags without quotes are taken too: some clients of object stores send them so.
_TAG = re.compile(r'(W/)?(?:"([^"]*)"|([^\s,"]+))')


def etag_of(tag: Tag, salt: bytes = b"") -> str | None:
    """The strong entity tag of a version, with its quotes; None where the store's tag is no plain value.

    salt: keeps apart the versions of stores that count anew in every process.
    """
    text = tag_text(tag)
    if text is None:
        return None
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=15, key=salt).digest()
    return f'"{urlsafe_b64encode(digest).decode("ascii")}"'


def fails_match(header: str | None, etag: str | None) -> bool:
    """Whether If-Match is there and not met; etag None: nothing is stored, or its version has no tag."""
    if header is None or header.strip() == "*":
        return False
    return etag is None or etag.strip('"') not in [opaque for weak, opaque in _tags(header) if not weak]


def matches_none(header: str | None, etag: str | None) -> bool:
    """Whether If-None-Match is there and names this version; `*` names every one."""
    if header is None:
        return False
    if header.strip() == "*":
        return True
    return etag is not None and etag.strip('"') in [opaque for _, opaque in _tags(header)]


def same_for_range(header: str | None, etag: str | None) -> bool:
    """Whether a Range holds: no If-Range, or one that names this version strongly."""
    return header is None or (etag is not None and header.strip() == etag)


def _tags(header: str) -> list[tuple[str, str]]:
    return [(weak, quoted or bare) for weak, quoted, bare in _TAG.findall(header)]
