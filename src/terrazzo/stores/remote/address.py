"""Addresses of remote stores: a scheme, a place, a path below it; and how they are shown, without secrets.

What it does not do: open anything, or know options (settings.py).
Specification: RFC 3986; `s3://bucket/path` and its kin as their services' own tools write them: the path is taken as it
is, without percent signs being decoded.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from terrazzo.errors import StoreError
from terrazzo.stores.keys import check_prefix

__all__ = ["SCHEMES", "Address", "parse_address", "plain_endpoint", "shown"]

#: scheme -> the class of obstore that speaks to it; HTTP is spoken by http.py
SCHEMES: dict[str, str] = {
    "s3": "S3Store",
    "s3a": "S3Store",
    "gs": "GCSStore",
    "gcs": "GCSStore",
    "az": "AzureStore",
    "abfs": "AzureStore",
    "abfss": "AzureStore",
    "http": "HTTP",
    "https": "HTTP",
}

_BUCKET = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._\-]{0,254}").fullmatch
_ACCOUNT_HOST = re.compile(
    r"([a-z0-9]{3,24})\.(?:dfs|blob)\.(?:core\.windows\.net|fabric\.microsoft\.com)"
).fullmatch
_HIDDEN = "…"


class Address(NamedTuple):
    """kind: see SCHEMES. place: the bucket or container; for HTTP the origin ("https://host:8080"). path: below it,
    without slashes around it. named: options that the address itself says. query: of HTTP, as it is; a secret."""

    kind: str
    scheme: str
    place: str
    path: str
    named: dict[str, str]
    query: str = ""

    def __str__(self) -> str:
        base = self.place if self.kind == "HTTP" else f"{self.scheme}://{self.place}"
        return f"{base}/{self.path}".rstrip("/") + (f"?{_HIDDEN}" if self.query else "")

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"


def parse_address(text: str) -> Address:
    """The address that `text` is; StoreError, which never repeats what may be a secret."""
    scheme, separator, rest = text.partition("://")
    scheme = scheme.lower()
    kind = SCHEMES.get(scheme)
    if kind is None or not separator:
        raise StoreError(f"{shown(text)!r} is no address of a remote store: {', '.join(SCHEMES)} are known")
    if any(ord(character) < 33 and character != " " for character in text):
        raise StoreError(f"{shown(text)!r}: an address holds no control characters")
    if kind == "HTTP":
        return _parse_http(text)
    authority, _, path = rest.partition("/")
    named: dict[str, str] = {}
    if "?" in rest or "#" in rest:
        raise StoreError(
            f"{shown(text)!r}: '?' and '#' have no meaning in an address of this kind; give what follows as options "
            "(storage_options)"
        )
    place = authority
    if "@" in authority:
        place, _, host = authority.rpartition("@")
        account = _ACCOUNT_HOST(host)
        if kind != "AzureStore" or ":" in place or account is None:
            raise StoreError(
                f"{shown(text)!r}: credentials do not belong into an address; give them as options (key=, secret=), "
                "or leave them to the environment"
            )
        named["account_name"] = account[1]
    if not _BUCKET(place):
        raise StoreError(f"{shown(text)!r} names no bucket: letters, digits, '.', '-' and '_' are allowed")
    return Address(kind, scheme, place, _path(path), named)


def _parse_http(text: str) -> Address:
    parts = _split(text)
    if parts.fragment:
        raise StoreError(f"{shown(text)!r}: '#' has no meaning in the address of a store")
    named: dict[str, str] = {}
    if parts.username is not None or parts.password is not None:
        named = {"username": unquote(parts.username or ""), "password": unquote(parts.password or "")}
    path = parts.path.strip("/")
    check_prefix(unquote(path) + "/" if path else "")
    return Address("HTTP", parts.scheme.lower(), origin_of(parts), path, named, parts.query)


def origin_of(parts: SplitResult) -> str:
    """Scheme, host and port: what a redirect may not leave."""
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    usual = {"http": 80, "https": 443}.get(parts.scheme.lower())
    port = parts.port
    return f"{parts.scheme.lower()}://{host}" + (f":{port}" if port is not None and port != usual else "")


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        if not parts.hostname:
            raise ValueError("it has no host")
        _ = parts.port
    except ValueError:
        raise StoreError(
            f"{shown(text)!r} is no address: a host and, if need be, a port are expected"
        ) from None
    return parts


def plain_endpoint(text: str) -> str:
    """The address of a service; refused where it holds more than that."""
    parts = _split(text)
    if parts.scheme.lower() not in ("http", "https"):
        raise StoreError(f"endpoint_url {shown(text)!r}: http:// or https:// is expected")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise StoreError(
            f"endpoint_url {shown(text)!r}: credentials and queries do not belong into it; "
            "give key= and secret= as options, or leave them to the environment"
        )
    return text.rstrip("/")


def shown(text: str) -> str:
    """An address as it may be shown: without user-info, its query and its fragment."""
    head, separator, rest = text.partition("://")
    if not separator:
        return text
    first = min((at for at in map(rest.find, "?#") if at >= 0), default=len(rest))
    rest, marker = rest[:first], rest[first : first + 1]
    authority, slash, path = rest.partition("/")
    if "@" in authority:
        authority = f"{_HIDDEN}@{authority.rpartition('@')[2]}"
    return f"{head}://{authority}{slash}{path}" + (f"{marker}{_HIDDEN}" if marker else "")


def _path(path: str) -> str:
    path = path.strip("/")
    return check_prefix(path + "/")[:-1] if path else ""
