"""Options of remote stores, in obstore's names and in fsspec's; what is unknown is refused.

What it does not do: open anything. Credentials that are not given are found by obstore, in the environment and in the
places where each cloud's machines have them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from difflib import get_close_matches
from typing import Any

from terrazzo.errors import StoreError
from terrazzo.stores.contract import Cost
from terrazzo.stores.remote.address import Address, plain_endpoint
from terrazzo.stores.remote.native import Recipe
from terrazzo.stores.remote.policy import Policy

__all__ = ["OURS", "Settings", "recipes", "secret_options", "settings_of"]

#: options of our own, for every kind of store
OURS: dict[str, str] = {
    "timeout": "seconds for one try of a request (30), longer for large bodies",
    "deadline": "seconds for a request with all its tries (120), longer for large bodies",
    "tries": "of one request at most (8)",
    "concurrency": "requests on their way at once (64)",
    "cost": "a Cost to plan with, instead of what is measured",
    "single_writer": "True: nobody else writes, so nothing is written conditionally and the last write wins",
    "trust_conditions": "True: conditions of this service need no probe",
    "redirects": "'refuse' redirects to other origins, or 'follow' them (refuse, but for the clouds' own addresses)",
    "buffer": "bytes of one new object that wait in memory (64 MiB); a larger one goes through a temporary file",
    "carry_secrets": "True: a pickle of the store carries the secrets that it was opened with",
    "client_options": "a dictionary of obstore's client options",
    "config": "a dictionary in obstore's names",
}
#: fsspec's name (and other usual ones) -> obstore's
NAMES: dict[str, dict[str, str]] = {
    "S3Store": {
        "key": "access_key_id",
        "secret": "secret_access_key",
        "token": "session_token",
        "anon": "skip_signature",
        "endpoint_url": "endpoint",
        "region_name": "region",
        "requester_pays": "request_payer",
    },
    "GCSStore": {
        "anon": "skip_signature",
        "endpoint_url": "base_url",
        "endpoint": "base_url",
        "token": "service_account",
    },
    "AzureStore": {
        "anon": "skip_signature",
        "endpoint_url": "endpoint",
        "sas_token": "sas_key",
        "key": "account_key",
    },
    "HTTP": {"bearer_token": "token"},
}
OBSTORE: dict[str, frozenset[str]] = {
    "S3Store": frozenset(
        [
            "access_key_id",
            "secret_access_key",
            "session_token",
            "region",
            "default_region",
            "endpoint",
            "skip_signature",
            "virtual_hosted_style_request",
            "request_payer",
            "unsigned_payload",
            "checksum_algorithm",
            "server_side_encryption",
            "sse_kms_key_id",
            "sse_bucket_key_enabled",
            "sse_customer_key_base64",
            "role_arn",
            "role_session_name",
            "sts_endpoint",
            "web_identity_token_file",
            "metadata_endpoint",
            "imdsv1_fallback",
            "container_credentials_relative_uri",
            "container_credentials_full_uri",
            "container_authorization_token_file",
            "disable_tagging",
            "disable_bulk_delete",
            "s3_express",
            "credential_provider",
        ]
    ),
    "GCSStore": frozenset(
        [
            "service_account",
            "service_account_key",
            "base_url",
            "bearer_token",
            "application_credentials",
            "skip_signature",
            "credential_provider",
        ]
    ),
    "AzureStore": frozenset(
        [
            "account_name",
            "account_key",
            "client_id",
            "client_secret",
            "credential_type",
            "tenant_id",
            "authority_host",
            "sas_key",
            "token",
            "use_emulator",
            "use_fabric_endpoint",
            "encryption_key",
            "endpoint",
            "msi_endpoint",
            "object_id",
            "msi_resource_id",
            "federated_token_file",
            "use_azure_cli",
            "skip_signature",
            "disable_tagging",
            "credential_provider",
        ]
    ),
    "HTTP": frozenset(["headers", "token", "username", "password", "verify"]),
}
#: options of obstore's HTTP client, which may stand among the others
CLIENT_OPTIONS = frozenset(
    [
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_content_type",
        "default_headers",
        "http1_only",
        "http2_only",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_url",
        "proxy_ca_certificate",
        "proxy_excludes",
        "read_timeout",
        "root_certificate",
        "randomize_addresses",
        "user_agent",
    ]
)
SECRETS = frozenset(
    [
        "access_key_id",
        "secret_access_key",
        "session_token",
        "account_key",
        "sas_key",
        "client_secret",
        "bearer_token",
        "token",
        "service_account_key",
        "encryption_key",
        "sse_customer_key_base64",
        "credential_provider",
        "headers",
        "username",
        "password",
        "client_options",
        "query",
    ]
)
_NATIVE_ENDPOINTS = {
    "S3Store": ("endpoint", ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT")),
    "GCSStore": ("base_url", ("GOOGLE_BASE_URL",)),
    "AzureStore": ("endpoint", ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")),
}
#: addresses of storage that belong to a cloud: other names below theirs belong to their customers
_CLOUD = re.compile(
    r"https://(?:(?:[\w.\-]+\.)?s3(?:-fips)?(?:\.dualstack)?(?:[.\-][a-z]{2}(?:-[a-z]+)+-\d)?(?:\.vpce)?\.amazonaws\.com(?:\.cn)?"
    r"|(?:[\w.\-]+\.)?storage(?:-[\w\-]+\.p)?\.googleapis\.com"
    r"|[\w\-]+\.(?:z\d+\.)?(?:blob|dfs)\.(?:core\.windows\.net|storage\.azure\.net|fabric\.microsoft\.com"
    r"|core\.chinacloudapi\.cn|core\.usgovcloudapi\.net))(?::443)?(?:/.*)?"
).fullmatch


@dataclass(frozen=True)
class Settings:
    """What a store was opened with, checked. config: of the service, in obstore's names."""

    address: Address
    config: Mapping[str, Any] = field(repr=False)
    client_options: Mapping[str, Any] = field(repr=False)
    policy: Policy
    concurrency: int
    cost: Cost | None
    single_writer: bool
    trust_conditions: bool
    buffer: int
    carry_secrets: bool
    redirects: str | None = None

    @property
    def endpoint(self) -> str:
        """Where the service is, or "" for the cloud's own."""
        if self.address.kind not in _NATIVE_ENDPOINTS:
            return ""
        name, variables = _NATIVE_ENDPOINTS[self.address.kind]
        said = self.config.get(name) or next((os.environ[v] for v in variables if os.environ.get(v)), "")
        return str(said) or ("emulator" if self.config.get("use_emulator") else "")

    @property
    def at_home(self) -> bool:
        """Whether the service is a cloud's own, by a name that the cloud owns."""
        said = self.endpoint
        return not said or (said.startswith("https://") and _CLOUD(said.lower()) is not None)


def settings_of(address: Address, options: Mapping[str, Any]) -> Settings:
    """Options, checked: every problem that can be seen without a request is an error here."""
    kind = address.kind
    given = {**address.named, **options}
    ours = {name: given.pop(name) for name in OURS if name in given}
    client_options = _mapping("client_options", ours.pop("client_options", None))
    for name, value in _mapping("client_kwargs", given.pop("client_kwargs", None)).items():  # s3fs has it
        given.setdefault(name, value)
    config: dict[str, Any] = {}
    said: dict[str, str] = {}
    for name, value in {**_mapping("config", ours.pop("config", None)), **given}.items():
        own = NAMES[kind].get(name, name)
        if own in OBSTORE[kind]:
            if value is not None:
                config[own], said[own] = value, name
        elif own in CLIENT_OPTIONS and kind != "HTTP":
            client_options[own] = value
        else:
            _refuse(name, [*OURS, *NAMES[kind], *OBSTORE[kind]], address)
    for name in client_options:
        if name not in CLIENT_OPTIONS or kind == "HTTP":
            _refuse(name, [] if kind == "HTTP" else sorted(CLIENT_OPTIONS), address)
    _check_types(kind, config, client_options, said)
    _adjust(kind, config)
    usual = Policy()
    return Settings(
        address,
        config,
        client_options,
        Policy(
            timeout=_seconds("timeout", ours.get("timeout", usual.timeout)),
            deadline=_seconds("deadline", ours.get("deadline", usual.deadline)),
            tries=_whole("tries", ours.get("tries", usual.tries), 1),
        ),
        _whole("concurrency", ours.get("concurrency", 64), 1),
        _cost(ours.get("cost")),
        _yes("single_writer", ours.get("single_writer", False)),
        _yes("trust_conditions", ours.get("trust_conditions", False)),
        _whole("buffer", ours.get("buffer", 64 << 20), 0),
        _yes("carry_secrets", ours.get("carry_secrets", False)),
        _redirects(kind, ours.get("redirects")),
    )


def recipes(settings: Settings) -> tuple[Recipe, Recipe]:
    """How obstore's store object is made: without retries of its own, and (for uploads in parts, listings and
    deletions of many, whose requests it makes by itself) with a few."""
    address, config = settings.address, dict(settings.config)
    named: dict[str, Any] = {"config": config}
    provider = config.pop("credential_provider", None)
    if provider is not None:
        named["credential_provider"] = provider
    single = {"disable_bulk_delete": True} if address.kind == "S3Store" else {}
    plain = {"max_retries": 0, "retry_timeout": timedelta(seconds=settings.policy.deadline)}
    steady = {"max_retries": 5, "retry_timeout": timedelta(seconds=settings.policy.deadline)}
    # our own deadlines end a request, its body included; obstore's would end large uploads
    client = {"timeout": timedelta(days=1), **settings.client_options}
    if settings.endpoint.lower().startswith("http://"):  # an option, or from the environment
        client.setdefault("allow_http", True)
    return (
        Recipe(
            address.kind,
            (address.place,),
            {**named, "config": {**config, **single}, "client_options": client, "retry_config": plain},
        ),
        Recipe(address.kind, (address.place,), {**named, "client_options": client, "retry_config": steady}),
    )


def secret_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Of the options as they were given, those that a pickle carries only when asked to."""
    secret = (
        SECRETS | {own for names in NAMES.values() for own in names if names[own] in SECRETS} | {"config"}
    )
    return {name: value for name, value in options.items() if name in secret or name == "client_kwargs"}


def _adjust(kind: str, config: dict[str, Any]) -> None:
    if kind == "GCSStore":
        token = config.get("service_account")
        if token == "anon":  # as gcsfs says it
            config.pop("service_account")
            config["skip_signature"] = True
        elif token is not None and not isinstance(token, str | os.PathLike):
            raise StoreError("token is the path of a service account's file, or 'anon'")
    if kind == "HTTP":
        return
    name = _NATIVE_ENDPOINTS[kind][0]
    endpoint = config.get(name)
    if endpoint is not None:
        config[name] = plain_endpoint(str(endpoint))
        if kind == "GCSStore" and config.get("skip_signature") is None and len(config) == 1:
            config["skip_signature"] = True  # an emulator: there is nobody to ask for a token
        if kind == "S3Store":
            config.setdefault("region", os.environ.get("AWS_REGION") or "us-east-1")
    if kind == "S3Store" and config.get("request_payer") is False:
        config.pop("request_payer")


def _check_types(
    kind: str, config: dict[str, Any], client_options: Mapping[str, Any], said: Mapping[str, str]
) -> None:
    """What obstore and aiohttp would refuse later, without a word which option it was. No value is shown."""
    for name, value in config.items():
        if isinstance(value, os.PathLike) and name != "credential_provider":
            value = config[name] = os.fspath(value)
        if name in ("credential_provider", "headers"):
            continue  # checked by who uses them
        switch = name == "verify" or kind != "HTTP"
        if not isinstance(value, str | bool if switch else str):
            allowed = "a text, True or False" if switch else "a text"
            raise StoreError(f"{said[name]} is of type {type(value).__name__}; {allowed} is allowed")
    for name, value in client_options.items():
        if not isinstance(value, str | bool | int | timedelta | Mapping | bytes | os.PathLike | None):
            raise StoreError(f"{name} is of type {type(value).__name__}, which no such option has")


def _refuse(name: str, known: list[str], address: Address) -> None:
    close = get_close_matches(name, known, 1, 0.5)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(sorted(set(known)))}"
    raise StoreError(f"{address}: unknown option {name!r}; {hint}")


def _mapping(name: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise StoreError(f"{name} is a dictionary of options, not {type(value).__name__}")
    return dict(value)


def _seconds(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise StoreError(f"{name} is {value!r}; a number of seconds above 0 is allowed")
    return float(value)


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise StoreError(f"{name} is {value!r}; a whole number from {least} on is allowed")
    return value


def _yes(name: str, value: Any) -> bool:
    if not isinstance(value, bool):  # "false" of a file of settings is no False
        raise StoreError(f"{name} is {value!r}; True or False is allowed")
    return value


def _redirects(kind: str, value: Any) -> str | None:
    if value not in (None, "refuse", "follow"):
        raise StoreError(f"redirects is {value!r}; 'refuse' or 'follow' is allowed")
    if kind == "HTTP" and value == "follow":
        raise StoreError("redirects='follow': a web server's redirects to other origins are never followed")
    return None if value is None else str(value)


def _cost(value: Any) -> Cost | None:
    if value is None or isinstance(value, Cost):
        return value
    raise StoreError(f"cost is {value!r}; a Cost(latency, bandwidth) is allowed")
