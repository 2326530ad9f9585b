"""How requests of our own reach an object store that the user named: with an address that obstore signs, with a token
or a query that the user gave, or with neither.

What it does not do: send them (exchange.py), or sign (obstore does).
Specification: AWS Signature Version 4, "Using query parameters".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlsplit

from terrazzo.stores.contract import Buffer
from terrazzo.stores.remote.address import origin_of
from terrazzo.stores.remote.exchange import Way
from terrazzo.stores.remote.native import library
from terrazzo.stores.remote.policy import Failure, failure_of
from terrazzo.stores.remote.settings import Settings

__all__ = ["ObjectWay", "Presigned", "way_to"]

#: how long a signed address is good for: longer than a request waits for its turn, and its redirects
GOOD_FOR = timedelta(minutes=5)
#: options (of the call, or of the environment with the cloud's prefix) that only obstore knows how to follow
ONLY_OBSTORE = {
    "sse_customer_key_base64": "objects that are encrypted by a key of yours",
    "s3_express": "S3 Express",
    "encryption_key": "objects that are encrypted by a key of yours",
    "use_fabric_endpoint": "Fabric",
    "proxy_url": "a proxy that is given by an option",
    "proxy_ca_certificate": "a proxy that is given by an option",
    "proxy_excludes": "a proxy that is given by an option",
    "http2_only": "HTTP/2",
}
#: options of writes alone
WRITTEN_BY_OBSTORE = (
    "server_side_encryption",
    "sse_kms_key_id",
    "sse_bucket_key_enabled",
    "checksum_algorithm",
    "default_content_type",
)
_PREFIXES = {"S3Store": "AWS_", "GCSStore": "GOOGLE_", "AzureStore": "AZURE_"}
_TRUE = frozenset(["1", "true", "on", "yes", "y", "t"])
_AZURE_VERSION = "2023-11-03"


class ObjectWay(Way):
    """Objects at `base`, by their names, without a signature. query: goes along with each; a secret.

    writes: also writes with metadata and conditions can be made this way."""

    told = "the service"
    stores_objects = True
    writes = True

    def __init__(
        self, kind: str, base: str, verify: bool | str, extra: Mapping[str, str], query: str = ""
    ) -> None:
        super().__init__(origin_of(urlsplit(base)), verify)
        self.base = base.rstrip("/")
        self.kind = kind
        self.suffixes = kind != "AzureStore"
        self._query = f"?{query}" if query else ""
        self._extra = {"x-ms-version": _AZURE_VERSION} if kind == "AzureStore" else {}
        self._extra |= extra

    def named(self, path: str) -> str:
        return f"{self.base}/{quote(path, safe='/~-._')}"

    async def address(self, method: str, path: str) -> str:
        return self.named(path) + self._query

    def headers(self, method: str, address: str, own: Mapping[str, str], body: Buffer) -> dict[str, str]:
        return super().headers(method, address, {**self._extra, **own}, body)


class Presigned(ObjectWay):
    """Addresses of S3's kind that obstore signs. store: gives its store object."""

    denied = "; redirects='follow' signs headers instead of addresses, where a policy denies these"
    store: Callable[[], Any]

    async def address(self, method: str, path: str) -> str:
        try:
            signed: str = await library().sign_async(self.store(), method, path, GOOD_FOR)
        except Exception as error:
            raise failure_of(error) from None
        if origin_of(urlsplit(signed)) != self.origin:
            raise Failure("final", "obstore signed another address than the one that was meant")
        return signed


def way_to(settings: Settings) -> ObjectWay | str:
    """How requests of our own reach the place of `settings`; where there is no way, what stands against it."""
    told = _Told(settings)
    way = _way(settings, told)
    if isinstance(way, str):
        return way
    # Google's conditions, metadata that S3 wants to see signed, and what is to be done to new objects: obstore's
    if isinstance(way, Presigned) or way.kind == "GCSStore" or any(map(told.has, WRITTEN_BY_OBSTORE)):
        way.writes = False
    return way


def _way(settings: Settings, told: _Told) -> ObjectWay | str:
    for name, what in ONLY_OBSTORE.items():
        if told.has(name):
            return what
    kind = settings.address.kind
    base = _base(settings, told)
    if base is None:
        return "an address that only obstore knows"
    if base.startswith("http://") and told("allow_http") and not told.yes("allow_http"):
        return "http:// where allow_http is off"
    verify: bool | str = not told.yes("allow_invalid_certificates")
    root = told("root_certificate")
    if root:
        verify = root
    extra = _extra(settings, told)
    if extra is None:
        return "default headers that are no texts"
    if told.yes("skip_signature"):
        return ObjectWay(kind, base, verify, extra)
    if kind == "S3Store":
        return Presigned(kind, base, verify, extra)
    if kind == "GCSStore":
        token = told("bearer_token")
        if token:
            return ObjectWay(kind, base, verify, {**extra, "Authorization": f"Bearer {token}"})
        return "a service of Google's kind that asks for a token"
    query = told("sas_key").lstrip("?")
    if query:
        return ObjectWay(kind, base, verify, extra, query)
    # an address that obstore signs for Azure holds for no HEAD, and for no name that has to be quoted
    return "a service of Azure's kind without a token in its addresses (sas_token)"


class _Told:
    """An option as obstore finds it: given, or in the environment; "" where it is not."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._prefix = _PREFIXES[settings.address.kind]

    def __call__(self, *names: str) -> str:
        for given in (self._settings.config, self._settings.client_options):
            for name in names:
                value = given.get(name)
                if value is not None:
                    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
        return next((os.environ[v] for name in names if os.environ.get(v := self._prefix + name.upper())), "")

    def yes(self, name: str) -> bool:
        return self(name).lower() in _TRUE

    def has(self, name: str) -> bool:
        return self(name).lower() not in ("", "false", "0", "off", "no")


def _base(settings: Settings, told: _Told) -> str | None:
    """The address below which the objects of a place lie, as obstore makes it."""
    kind, place, endpoint = settings.address.kind, settings.address.place, settings.endpoint
    if endpoint and "://" in endpoint:
        try:
            parts = urlsplit(endpoint)
            known = bool(parts.hostname) and parts.port != 0
        except ValueError:
            return None
        if not known or parts.username is not None or parts.query or parts.fragment:
            return None
        if kind == "S3Store" and told.yes("virtual_hosted_style_request"):
            return endpoint
        return f"{endpoint.rstrip('/')}/{place}"
    if endpoint:
        return None
    if kind == "S3Store":
        region = told("region", "default_region") or "us-east-1"
        if told.yes("virtual_hosted_style_request"):
            return f"https://{place}.s3.{region}.amazonaws.com"
        return f"https://s3.{region}.amazonaws.com/{place}"
    if kind == "GCSStore":
        return f"https://storage.googleapis.com/{place}"
    account = told("account_name", "storage_account_name")
    return f"https://{account}.blob.core.windows.net/{place}" if account else None


def _extra(settings: Settings, told: _Told) -> dict[str, str] | None:
    extra: dict[str, str] = {}
    given = settings.client_options.get("default_headers") or {}
    for name, text in dict(given).items():
        value = text.decode("latin-1") if isinstance(text, bytes) else text
        if not isinstance(name, str) or not isinstance(value, str) or set(name + value) & {"\r", "\n", "\0"}:
            return None
        extra[name] = value
    agent = told("user_agent")
    if agent:
        extra["User-Agent"] = agent
    return extra
