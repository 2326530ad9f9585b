"""A place that objects lie in: the address and options that a user gave, turned into a client with its limits.

What it does not do: read or write (store.py). Its text, and by default its pickle, hold no secrets.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Hashable, Mapping
from typing import Any
from urllib.parse import urlsplit

from terrazzo.errors import StoreError, TerrazzoError
from terrazzo.stores.remote.address import Address, origin_of, parse_address, shown
from terrazzo.stores.remote.client import Client, ObstoreClient
from terrazzo.stores.remote.guarded import GuardedClient
from terrazzo.stores.remote.meter import Meter
from terrazzo.stores.remote.native import Recipe
from terrazzo.stores.remote.policy import Policy
from terrazzo.stores.remote.settings import OURS, Settings, recipes, secret_options, settings_of
from terrazzo.stores.remote.signing import way_to

__all__ = ["Place", "place_at", "place_of_object"]

#: the secrets of pickled places, for this process and its forked children: a pickle bears only the ticket
_kept: dict[str, dict[str, Any]] = {}
_key = secrets.token_bytes(32)


class Place:
    """name: as it is shown; `shown` has the host too, where the address does not say it. prefix: of every object's
    name, empty or with a slash at its end. service: whose answers about conditions hold for all of its places.
    identity: equal for equal places. trusted: the service is known to refuse stale writes. again: (function,
    arguments) that make the place anew from a pickle."""

    def __init__(
        self,
        name: str,
        prefix: str,
        service: Hashable,
        client: Client,
        policy: Policy,
        *,
        buffer: int = 64 << 20,
        single_writer: bool = False,
        trusted: bool = False,
        again: tuple[Any, ...] | None = None,
        endpoint: str = "",
    ) -> None:
        self.name = name
        self.shown = f"{name} at {endpoint}" if endpoint else name
        self.prefix = prefix
        self.service = service
        self.identity: Hashable = (service, prefix)
        self.client = client
        self.policy = policy
        self.buffer = buffer
        self.single_writer = single_writer
        self.trusted = trusted
        self._again = again

    def __repr__(self) -> str:
        return f"Place({self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._again is None:
            raise TypeError(f"{self.name} is kept in this process alone; it cannot be pickled")
        return _arrived, (self.name, *self._again)


def place_at(address: str, options: Mapping[str, Any]) -> Place:
    """The place that an address names."""
    parsed = parse_address(address)
    settings = settings_of(parsed, options)
    meter = Meter(settings.cost, settings.concurrency)
    prefix = f"{parsed.path}/" if parsed.path else ""
    client: Client
    if parsed.kind == "HTTP":
        from terrazzo.stores.remote.http import HttpClient

        client = HttpClient(parsed, settings.config, meter, settings.concurrency)
        service: Hashable = ("HTTP", parsed.place, parsed.path, _fingerprint(parsed.query))
        prefix = ""  # the client has it in its address
    else:
        plain, steady = recipes(settings)
        made = _made(plain)
        bulk = parsed.kind == "S3Store" and not settings.config.get("disable_bulk_delete")
        client = _client(settings, made, plain, meter, steady=steady, bulk_delete=bulk)
        account = settings.config.get("account_name", "")
        service = (parsed.kind, settings.endpoint, account, parsed.place)
    return Place(
        str(parsed),
        prefix,
        service,
        client,
        settings.policy,
        buffer=settings.buffer,
        single_writer=settings.single_writer,
        trusted=settings.trust_conditions or not settings.endpoint,
        again=_reduced(address, parsed, options, settings.carry_secrets),
        endpoint=_host(settings.endpoint),
    )


def place_of_object(given: Any, options: Mapping[str, Any]) -> Place:
    """The place of a store object of obstore, which is used as it is, but for its retries."""
    kind = type(given).__name__
    known = {"S3Store", "GCSStore", "AzureStore"}
    address = Address(kind if kind in known else "S3Store", kind, "object", "", {})
    strange = sorted(set(options) - set(OURS) | set(options) & {"client_options", "config", "redirects"})
    if strange:
        raise StoreError(
            f"a store of obstore was opened with its own options; given here: {', '.join(strange)}"
        )
    ours = settings_of(address, options)
    meter = Meter(ours.cost, ours.concurrency)
    prefix = getattr(given, "prefix", None)
    name = f"{kind}({getattr(given, 'config', {}).get('bucket') or prefix or id(given)!r})"
    if kind in known:
        config = dict(given.config)
        place = config.get("bucket") or config.get("container_name") or ""
        name = f"{kind}({place!r}{f', prefix={str(prefix)!r}' if prefix else ''})"
        positional, named = given.__getnewargs_ex__()
        plain, steady = recipes(ours)
        alone = {**named, "retry_config": plain.named["retry_config"]}
        if kind == "S3Store":
            alone["config"] = {**named.get("config", {}), "disable_bulk_delete": True}
        client = ObstoreClient(
            Recipe(kind, positional, alone),
            meter,
            ours.concurrency,
            steady=Recipe(kind, positional, {**named, "retry_config": steady.named["retry_config"]}),
            bulk_delete=kind == "S3Store",
        )
        endpoint = config.get("endpoint") or config.get("base_url") or ""
        service: Hashable = (kind, endpoint, config.get("account_name", ""), place, str(prefix or ""))
        trusted = ours.trust_conditions or not endpoint
    else:
        # memory, a folder, HTTP of obstore's own: kept as they are, in this process
        client = ObstoreClient(None, meter, ours.concurrency, given=given, attributes=kind == "MemoryStore")
        service, trusted = ("obstore", id(given)), ours.trust_conditions
    return Place(
        name,
        "",
        service,
        client,
        ours.policy,
        buffer=ours.buffer,
        single_writer=ours.single_writer,
        trusted=trusted,
        again=None if kind == "MemoryStore" else _reduced_object(name, given, options, ours.carry_secrets),
    )


def _client(settings: Settings, made: Any, recipe: Recipe, meter: Meter, **named: Any) -> ObstoreClient:
    """obstore's client follows redirects wherever they lead, and has no option against it. Where the user named the
    service, most requests are our own, therefore; a cloud is trusted with its own addresses."""
    way: Any = "redirects='follow'"
    if settings.redirects == "refuse" or (settings.redirects is None and not settings.at_home):
        way = way_to(settings)
    if not isinstance(way, str):
        client: ObstoreClient = GuardedClient(way, recipe, meter, settings.concurrency, **named)
    elif settings.redirects == "refuse":
        raise StoreError(
            f"{settings.address}: redirects='refuse' cannot be kept here: {way} is left to obstore, which follows "
            "redirects"
        )
    else:
        client = ObstoreClient(recipe, meter, settings.concurrency, **named)
    client.adopt(made)
    client.longest_listing = settings.policy.timeout / 3
    return client


def _host(endpoint: str) -> str:
    """Of an endpoint, which may come from the environment, what holds no secrets."""
    try:
        return origin_of(urlsplit(endpoint)) if "://" in endpoint else endpoint
    except ValueError:
        return ""


def _fingerprint(secret: str) -> str:
    """Tells queries apart without showing them: identities are printed, too."""
    return hashlib.blake2b(secret.encode(), digest_size=8).hexdigest() if secret else ""


def _made(recipe: Recipe) -> Any:
    """What obstore says about its options comes when a store is opened, not at its first request."""
    from terrazzo.stores.remote.native import build
    from terrazzo.stores.remote.policy import failure_of

    try:
        return build(recipe)
    except StoreError:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        raise StoreError(f"{recipe.positional[0]!r} cannot be opened: {failure_of(error).text}") from None


def _reduced(
    address: str, parsed: Address, options: Mapping[str, Any], carry_secrets: bool
) -> tuple[Any, ...]:
    if carry_secrets:
        return place_at, (address, dict(options))
    hidden = secret_options(options)
    plain = {name: value for name, value in options.items() if name not in hidden}
    bare = address
    if parsed.kind == "HTTP" and (parsed.query or parsed.named):
        hidden["address"] = address
        bare = shown(address)
    if not hidden:
        return place_at, (address, plain)
    return _restored, (bare, plain, _ticket(hidden), sorted(hidden))


def _reduced_object(
    name: str, given: Any, options: Mapping[str, Any], carry_secrets: bool
) -> tuple[Any, ...]:
    if carry_secrets:
        return place_of_object, (given, dict(options))
    return _restored_object, (name, dict(options), _ticket({"object": given}))


def _ticket(hidden: dict[str, Any]) -> str:
    """By what the secrets are, so that one set of them is kept once; known to this process and its forks alone."""
    ticket = hmac.new(_key, repr(sorted(hidden.items())).encode(), hashlib.sha256).hexdigest()
    _kept[ticket] = hidden
    return ticket


def _restored(address: str, options: dict[str, Any], ticket: str, names: list[str]) -> Place:
    hidden = dict(_kept.get(ticket, ()))
    if not hidden:
        return _lost(address, names)
    return place_at(hidden.pop("address", address), {**options, **hidden})


def _restored_object(name: str, options: dict[str, Any], ticket: str) -> Place:
    hidden = _kept.get(ticket)
    return (
        place_of_object(hidden["object"], options) if hidden else _lost(name, ["those of obstore's object"])
    )


def _arrived(name: str, opener: Callable[..., Place], arguments: tuple[Any, ...]) -> Place:
    """The place out of a pickle. What cannot be opened here says so at every use: an error while a pickle is read
    would leave pools of processes waiting for ever."""
    try:
        return opener(*arguments)
    except TerrazzoError as error:
        again = (opener, arguments)
        return Place(name, "", ("lost", name), _Unopened(error), Policy(), again=again)


def _lost(name: str, names: list[str]) -> Place:
    raise StoreError(
        f"{name} came here without the secrets that it was opened with ({', '.join(names)}): pickles carry none. "
        "Leave credentials to the environment of every process, or open the store with carry_secrets=True"
    )


class _Unopened(Client):
    def __init__(self, error: TerrazzoError) -> None:
        super().__init__(Meter(None, 1), 1)
        self._kind, self._sentence = type(error), str(error)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise self._kind(self._sentence)

    get = head = put = put_parts = delete = batches = list_dir = _refuse
