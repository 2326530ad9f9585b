"""How requests of our own reach an object store that the user named: with a signature in a header, in the address, or
with none.

What it does not do: send them (exchange.py), or sign what only obstore can: keys that a service hands out by token are
asked of obstore, which then signs addresses.
Specification: AWS Signature Version 4; Azure Storage, "Authorize with Shared Key".
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from terrazzo.stores.contract import Buffer
from terrazzo.stores.remote.address import origin_of
from terrazzo.stores.remote.exchange import Way
from terrazzo.stores.remote.native import library
from terrazzo.stores.remote.policy import Failure, failure_of
from terrazzo.stores.remote.settings import Settings

__all__ = ["ObjectWay", "Presigned", "SharedKey", "Signed", "way_to"]

#: how long a signed address is good for: longer than a request waits for its turn, and its redirects
GOOD_FOR = timedelta(minutes=5)
EMPTY = hashlib.sha256(b"").hexdigest()
#: fields that proxies may change
UNSIGNED = frozenset(["accept-encoding", "content-length", "user-agent"])
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
_SPACES = re.compile(r"[ \t]+").sub
_AZURE_VERSION = "2023-11-03"
_SIGNED_BY_AZURE = (
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
)


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

    @property
    def lists(self) -> bool:
        """Whether whole buckets are asked this way, too; the others' listings are obstore's."""
        return self.kind == "S3Store" and self.writes

    def headers(self, method: str, address: str, own: Mapping[str, str], body: Buffer) -> dict[str, str]:
        return super().headers(method, address, {**self._extra, **own}, body)


class Presigned(ObjectWay):
    """Addresses that obstore signs, with keys that it alone has. store: gives its store object."""

    writes = False
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


class Signed(ObjectWay):
    """A signature in the header of each request, of S3's kind (SigV4), by keys that are known here."""

    def __init__(
        self,
        base: str,
        verify: bool | str,
        extra: Mapping[str, str],
        keys: tuple[str, str],
        region: str,
        payload: bool = True,
    ) -> None:
        super().__init__("S3Store", base, verify, extra)
        self._access, self._secret = keys
        self._region = region
        #: whether bodies are signed, too
        self.payload = payload
        self._day = ("", b"")

    def headers(self, method: str, address: str, own: Mapping[str, str], body: Buffer) -> dict[str, str]:
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        told = super().headers(method, address, own, body)
        told["x-amz-date"] = now
        told.setdefault("x-amz-content-sha256", EMPTY)
        told["Authorization"] = self._authorization(method, address, told, now)
        return told

    def _authorization(self, method: str, address: str, told: Mapping[str, str], now: str) -> str:
        parts = urlsplit(address)
        signed = {name.lower(): _SPACES(" ", text.strip()) for name, text in told.items()}
        signed = {name: text for name, text in signed.items() if name not in UNSIGNED} | {
            "host": self.route.name
        }
        names = ";".join(sorted(signed))
        fields = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
        query = "&".join(sorted(one if "=" in one else f"{one}=" for one in parts.query.split("&") if one))
        asked = "\n".join([method, parts.path or "/", query, fields, names, signed["x-amz-content-sha256"]])
        scope = f"{now[:8]}/{self._region}/s3/aws4_request"
        digest = hashlib.sha256(asked.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{digest}"
        signature = hmac.new(self._key(now[:8]), text.encode(), hashlib.sha256).hexdigest()
        return f"AWS4-HMAC-SHA256 Credential={self._access}/{scope}, SignedHeaders={names}, Signature={signature}"

    def _key(self, day: str) -> bytes:
        if self._day[0] != day:
            key = f"AWS4{self._secret}".encode()
            for part in (day, self._region, "s3", "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._day = (day, key)
        return self._day[1]


class SharedKey(ObjectWay):
    """A signature in the header of each request, of Azure's kind, by an account's key."""

    def __init__(
        self, base: str, verify: bool | str, extra: Mapping[str, str], account: str, key: bytes
    ) -> None:
        super().__init__("AzureStore", base, verify, extra)
        self._account, self._secret = account, key

    def headers(self, method: str, address: str, own: Mapping[str, str], body: Buffer) -> dict[str, str]:
        told = super().headers(method, address, own, body)
        told["x-ms-date"] = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
        parts = urlsplit(address)
        given = {name.lower(): text.strip() for name, text in told.items()}
        given["content-length"] = str(memoryview(body).nbytes or "")
        lines = [method, *(given.get(name, "") for name in _SIGNED_BY_AZURE)]
        lines += [f"{name}:{text}" for name, text in sorted(given.items()) if name.startswith("x-ms-")]
        lines.append(f"/{self._account}{parts.path}")
        asked = sorted(parse_qs(parts.query, keep_blank_values=True).items())
        lines += [f"{name.lower()}:{','.join(sorted(texts))}" for name, texts in asked]
        signature = b64encode(hmac.digest(self._secret, "\n".join(lines).encode(), "sha256")).decode()
        told["Authorization"] = f"SharedKey {self._account}:{signature}"
        return told


def way_to(settings: Settings, made: Any) -> ObjectWay | str:
    """How requests of our own reach the place of `settings`; where there is no way, what stands against it.

    made: the store object of obstore for it."""
    told = _Told(settings)
    way = _way(settings, told, made)
    # Google's conditions and what is to be done to new objects are left to obstore
    if isinstance(way, ObjectWay) and (way.kind == "GCSStore" or any(map(told.has, WRITTEN_BY_OBSTORE))):
        way.writes = False
    return way


def _way(settings: Settings, told: _Told, made: Any) -> ObjectWay | str:
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
        return _signed(settings, told, made, base, verify, extra) or Presigned(kind, base, verify, extra)
    if kind == "GCSStore":
        token = told("bearer_token")
        if token:
            return ObjectWay(kind, base, verify, {**extra, "Authorization": f"Bearer {token}"})
        return "a service of Google's kind that asks for a token"
    query = told("sas_key").lstrip("?")
    if query:
        return ObjectWay(kind, base, verify, extra, query)
    account, key = told("account_name", "storage_account_name"), told("account_key", "storage_account_key")
    try:
        secret = b64decode(key, validate=True)
    except ValueError:
        secret = b""
    if account and secret:
        return SharedKey(base, verify, extra, account, secret)
    return "a service of Azure's kind without an account's key"


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


def _signed(
    settings: Settings, told: _Told, made: Any, base: str, verify: bool | str, extra: Mapping[str, str]
) -> Signed | None:
    """The way by keys that do not change; None where obstore finds its keys elsewhere. What it would sign an address
    with is asked of it, which takes no request then."""
    access, secret = told("access_key_id"), told("secret_access_key")
    if not (access and secret) or settings.config.get("credential_provider") is not None:
        return None
    try:
        address = library().sign(made, "GET", "x", GOOD_FOR)
    except Exception:
        return None
    where, _, query = address.partition("?")
    found = {name.lower(): texts[0] for name, texts in parse_qs(query).items()}
    key, *scope = found.get("x-amz-credential", "").rsplit("/", 4)
    there = origin_of(urlsplit(where)) == origin_of(urlsplit(base))
    if not (there and where.endswith("/x")) or key != access or len(scope) != 4 or scope[2] != "s3":
        return None
    more = dict(extra)
    if "x-amz-security-token" in found:
        more["x-amz-security-token"] = found["x-amz-security-token"]
    if "x-amz-request-payer" in found:
        more["x-amz-request-payer"] = found["x-amz-request-payer"]
    return Signed(
        where.removesuffix("/x"), verify, more, (access, secret), scope[1], not told.yes("unsigned_payload")
    )
