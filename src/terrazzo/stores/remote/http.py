"""Reading from web servers: the objects below an address, with the headers and credentials that the user gave.

What it does not do: write, list, or follow a redirect to another origin (exchange.py).
Specification: RFC 9110, 11 (authentication).
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from terrazzo.errors import StoreError
from terrazzo.stores.contract import Buffer, Range
from terrazzo.stores.remote.address import Address
from terrazzo.stores.remote.client import Client
from terrazzo.stores.remote.connection import tls_context
from terrazzo.stores.remote.exchange import Way, conditions, get, head
from terrazzo.stores.remote.meter import Meter
from terrazzo.stores.remote.version import Answer

__all__ = ["HttpClient"]

_SAFE = "/%:@!$&'()*+,;=~-._"


class HttpClient(Client):
    """The objects below an address, by their keys."""

    writable = False
    listable = False

    def __init__(self, address: Address, config: Mapping[str, Any], meter: Meter, concurrency: int) -> None:
        super().__init__(meter, concurrency)
        self.way = _Below(address, config)

    async def get(
        self,
        path: str,
        window: Range,
        *,
        match: str | None = None,
        unless: str | None = None,
        most: int | None = None,
    ) -> Answer:
        return await get(self.way, self.meter, path, window, conditions(match, unless), most)

    async def head(self, path: str) -> Answer:
        return await head(self.way, self.meter, path)


class _Below(Way):
    """An address, and the query and headers of every request."""

    def __init__(self, address: Address, config: Mapping[str, Any]) -> None:
        super().__init__(address.place, _verify(config.get("verify", True)))
        path = quote(address.path, safe=_SAFE)
        self._base = f"{address.place}/{path}/" if path else f"{address.place}/"
        self._query = f"?{address.query}" if address.query else ""
        self._always = _headers(config)

    async def address(self, method: str, path: str) -> str:
        return self._base + quote(path, safe="/~-._") + self._query

    def headers(self, method: str, address: str, own: Mapping[str, str], body: Buffer) -> dict[str, str]:
        return super().headers(method, address, {**self._always, **own}, body)


def _headers(config: Mapping[str, Any]) -> dict[str, str]:
    headers = config.get("headers") or {}
    if not isinstance(headers, Mapping) or not all(
        isinstance(part, str) and not set(part) & {"\r", "\n", "\0"}
        for item in headers.items()
        for part in item
    ):
        raise StoreError("headers is a dictionary of strings, without line breaks")
    taken = {name.lower() for name in headers}
    for name in (
        "range",
        "if-match",
        "if-none-match",
        "accept-encoding",
        "host",
        "content-length",
        "transfer-encoding",
    ):
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


def _verify(verify: Any) -> bool | str:
    if isinstance(verify, bool):
        return verify
    try:
        path = os.fspath(verify)
    except TypeError:
        path = None
    if not isinstance(path, str):
        raise StoreError("verify is True, False, or the path of a file of certificates")
    tls_context(path)  # a file that is none is told when the store is opened
    return path
