"""A bucket, a container or a web server as a store: S3 and what speaks like it, GCS, Azure; HTTP for reading.

What it does not do: lock. Who changes an object says which version it replaces, and the service refuses where it is
another one by then (conditions.py); nothing else keeps writers of other machines apart. Addresses are parsed in
address.py, options in settings.py, requests sent by client.py and http.py, tried again by policy.py.
Specification: Zarr core 3.0, "Abstract store interface"; RFC 9110, 13 and 14.
"""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Literal, TypeVar

from terrazzo.errors import ConflictError, StoreError, TerrazzoError, UnsupportedError
from terrazzo.options import Durability
from terrazzo.stores.contract import (
    ALL,
    Buffer,
    Change,
    Cost,
    Erase,
    Hold,
    Open,
    Patch,
    Put,
    Range,
    Source,
    Tag,
)
from terrazzo.stores.emulation import clip, exact, partly
from terrazzo.stores.exclusion import take_turn
from terrazzo.stores.holds import TurnHold, check_held, release_all, spend
from terrazzo.stores.keys import check_key, check_range
from terrazzo.stores.remote.client import ABSENT, LARGEST, Client
from terrazzo.stores.remote.conditions import Writing
from terrazzo.stores.remote.loop import launch, together, wait_for
from terrazzo.stores.remote.place import Place, place_at
from terrazzo.stores.remote.policy import Failure, Patience
from terrazzo.stores.remote.reading import Ranges, Reading
from terrazzo.stores.remote.sink import RemoteSink
from terrazzo.stores.remote.version import Version
from terrazzo.stores.store import Arrived, Store

__all__ = ["RemoteHold", "RemoteStore"]

T = TypeVar("T")

#: keys that are erased in one request, where a service can
BATCH = 1000


class RemoteHold(TurnHold):
    """Excludes the other holds of this process; other processes are told by the service that they come too late."""


class RemoteStore(Store):
    """The objects below `address`: "s3://bucket/path", "gs://…", "az://container/path", "https://host/path".

    options: in obstore's names and in fsspec's (key, secret, token, anon, endpoint_url, region, client_options …);
    what they are for each kind is told in docs/remote.md. Credentials that are not given are looked for where each
    cloud's own tools look. single_writer: nobody else writes; nothing is compared, and the last write wins.

    Requests of one call are on their way together, at most `concurrency` at once. Raises StoreError with key and
    range; UnsupportedError for writing where the service cannot refuse stale writes.
    """

    durable = True
    fetches_conditionally = True
    erases_conditionally = False

    def __init__(self, address: str, **options: Any) -> None:
        self._set_up(place_at(address, options))

    @classmethod
    def at(cls, place: Place) -> RemoteStore:
        """The store at a place that was found otherwise than by an address."""
        store = cls.__new__(cls)
        store._set_up(place)
        return store

    def _set_up(self, place: Place) -> None:
        self.place = place
        self._prefix = place.prefix
        self._client: Client = place.client
        self._patience = Patience(place.policy)
        self._writing = Writing(place, self._client, self._patience)
        self._reading = Reading(place, self._client, self._patience, self._writing)
        self.writable = self.erasable = self._client.writable
        self.listable = self._client.listable
        self.exclusion = "nothing" if place.single_writer else "versions"

    def __repr__(self) -> str:
        return f"RemoteStore({str(self)!r})"

    def __str__(self) -> str:
        return self.place.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteStore) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.place,)

    @property
    def identity(self) -> Hashable:
        return self.place.identity

    @property
    def cost(self) -> Cost:
        return self._client.meter.cost

    # -- the specification's verbs ------------------------------------------------------------------------------------

    def get(self, key: str) -> bytes | None:
        answer = self._wait(self._reading.get(key, ALL))
        return None if answer is None else answer.body

    def get_partial_values(self, requests: Iterable[tuple[str, Range]]) -> builtins.list[bytes | None]:
        answers = self._all([partial(self._reading.get, key, asked) for key, asked in requests])
        return [None if answer is None else answer.body for answer in answers]

    def exists(self, key: str) -> bool:
        return self._wait(self._reading.head(key)) is not None

    def getsize(self, key: str) -> int | None:
        answer = self._wait(self._reading.head(key))
        return None if answer is None else answer.size

    def tag(self, key: str) -> Tag | None:
        answer = self._wait(self._reading.head(key))
        return None if answer is None else answer.version

    def set(self, key: str, value: Buffer) -> None:
        self._check_writable(key)
        self._wait(self._writing.put(key, _whole(value), None))

    def set_if(self, key: str, value: Buffer, tag: Tag | None) -> None:
        self._check_writable(key)
        if tag is not None and not isinstance(tag, Version):
            raise ConflictError(f"{key!r}: {tag!r} is no version of this store; nothing was written")
        self._wait(self._writing.put(key, _whole(value), ABSENT if tag is None else tag))

    def erase(self, key: str) -> None:
        self.erase_values([key])

    def erase_values(self, keys: Iterable[str]) -> None:
        gone = list(dict.fromkeys(keys))
        for key in gone[:1]:
            self._check_writable(key)
        batches = [gone[at : at + BATCH] for at in range(0, len(gone), BATCH)]
        self._all([partial(self._delete, batch) for batch in batches])

    def erase_prefix(self, prefix: str) -> None:
        batch: list[str] = []
        for key in self._listed(prefix):
            batch.append(key)
            if len(batch) == BATCH:
                self.erase_values(batch)
                batch = []
        self.erase_values(batch)

    def list(self) -> Iterator[str]:
        return self._listed("")

    def list_prefix(self, prefix: str) -> Iterator[str]:
        return self._listed(prefix)

    def list_dir(self, prefix: str) -> tuple[builtins.list[str], builtins.list[str]]:
        self._check_listable()
        keys, prefixes = self._wait(self._list_dir(prefix))
        return sorted(keys), sorted(prefixes)

    # -- what flows ask for -------------------------------------------------------------------------------------------

    def open(self, requests: Sequence[Open]) -> builtins.list[Source | None]:
        known = self._pinned(requests)
        return self._wait(self._opened(requests)) if known is None else known

    def fetch(
        self, requests: Sequence[tuple[Source, Sequence[tuple[int, int]]]]
    ) -> builtins.list[builtins.list[Buffer]]:
        ranges = self._ranges(requests)
        return self._wait(ranges.fetched()) if ranges.asked else ranges.answers

    def begin(
        self, verb: Literal["open", "fetch"], requests: Any, arrived: Arrived | None = None
    ) -> Future[Any]:
        if verb == "open":
            self._pinned(requests)  # refuses what is no key or range
            return launch(self._work(self._opened(requests, arrived)))
        return launch(self._work(self._ranges(requests).fetched(arrived)))

    def _ranges(self, requests: Sequence[tuple[Source, Sequence[tuple[int, int]]]]) -> Ranges:
        """What is at hand already, and what has to be asked for."""
        found = Ranges([], [], [])
        for i, (source, ranges) in enumerate(requests):
            parts: list[Buffer] = [b""] * len(ranges)
            for j, (start, length) in enumerate(ranges):
                if start < 0 or length < 0:
                    raise StoreError(
                        f"{source.key!r}: range ({start}, {length}) is refused: neither may be negative"
                    )
                if source.handle is not None:
                    parts[j] = exact(clip(source.handle, start, length), source.key, start, length)
                elif start + length > (LARGEST if source.size is None else source.size):
                    exact(None, source.key, start, length)
                elif length:
                    found.asked.append(partial(self._fetch, source, start, length))
                    found.places.append((i, j))
            found.answers.append(parts)
        return found

    def hold(
        self,
        key: str,
        first: Range | None = None,
        *,
        exclusive: bool = True,
        timeout: float | None = None,
        blind: bool = False,
    ) -> Hold:
        return self.hold_all([key], [first], exclusive=exclusive, timeout=timeout, blind=[blind])[0]

    def hold_all(
        self,
        keys: Sequence[str],
        firsts: Sequence[Range | None] = (),
        *,
        exclusive: bool = True,
        timeout: float | None = None,
        blind: Sequence[bool] = (),
    ) -> builtins.list[Hold]:
        first_of = dict(zip(keys, firsts, strict=True)) if firsts else {}
        is_blind = dict(zip(keys, blind, strict=True)) if blind else {}
        holds: dict[str, RemoteHold] = {}
        try:
            for key in sorted(map(check_key, keys)):
                self._check_writable(key)
                holds[key] = RemoteHold(key, None, take_turn(self.identity, key, timeout))
                holds[key].blind = is_blind.get(key, False)
            looks = [key for key in holds if not holds[key].blind]
            for key, source in zip(
                looks, self.open([Open(key, first_of.get(key)) for key in looks]), strict=True
            ):
                holds[key].source = source
        except BaseException:
            release_all(holds.values())
            raise
        return [holds[key] for key in keys]

    def sink(self, hold: Hold, nbytes_hint: int | None = None) -> RemoteSink:
        return RemoteSink(self.place.buffer)

    def commit(
        self, changes: Sequence[Change], durability: Durability = "fsync"
    ) -> builtins.list[Tag | None]:
        keys: set[str] = set()
        for change in changes:
            key = change.hold.key
            check_held(change.hold)
            if isinstance(change, Patch):
                raise UnsupportedError(f"{key!r}: {self} cannot change an object in place; replace it")
            if key in keys:
                raise StoreError(
                    f"{key!r}: two changes of one object in one commit; their order is not defined"
                )
            if isinstance(change, Put) and not isinstance(change.sink, RemoteSink):
                raise StoreError(
                    f"{key!r}: a sink of this store is needed, not a {type(change.sink).__name__}"
                )
            keys.add(key)
        if not changes:
            return []
        ended = self._wait(self._commit(changes))
        done = [
            change.hold.key
            for change, end in zip(changes, ended, strict=True)
            if not isinstance(end, Exception)
        ]
        for change, end in zip(changes, ended, strict=True):
            if not isinstance(end, Exception):
                if isinstance(change, Put):
                    change.sink.discard()
                spend(change.hold)
        for change, end in zip(changes, ended, strict=True):
            if isinstance(end, Exception):
                raise partly(end, change.hold.key, done) from end
        return [None if isinstance(end, Exception) else end for end in ended]

    def check_conditions(self) -> None:
        """Ask the service whether it refuses stale writes, once for all stores of this place; UnsupportedError if not.

        The first write that needs it asks by itself; here it can be asked beforehand.
        """
        self._wait(self._writing.trusted())

    # -- one request each, on the loop --------------------------------------------------------------------------------

    async def _open(self, request: Open) -> Source | None:
        key, first, known = request.key, request.first, request.known
        known = known if isinstance(known, Version) else None
        pinned = _at_once(request)
        if pinned is not None:
            return pinned
        if first is None:
            answer = await self._reading.head(key)
            return None if answer is None else Source(key, answer.size, answer.version)
        try:
            answer = await self._reading.get(key, first, unless=known)
        except Failure as failure:
            if failure.kind == "unchanged" and known is not None:
                return Source(key, known.size, known)
            raise
        if answer is None:
            return None
        source = Source(key, answer.size, answer.version)
        if first == ALL:
            source.handle = answer.body
        if known is None or answer.version != known:
            source.first = answer.body
        return source

    async def _fetch(self, source: Source, start: int, length: int) -> bytes:
        key = source.key
        version = source.tag if isinstance(source.tag, Version) else None
        try:
            answer = await self._reading.get(key, (start, length), version)
        except Failure as failure:
            if failure.kind == "condition":
                raise _changed(key) from None
            raise self._reading.told(failure, key, f"reading bytes {start} to {start + length}") from None
        if answer is None:
            raise _changed(key)
        found: bytes = exact(answer.body, key, start, length)
        return found

    async def _delete(self, batch: Sequence[str]) -> None:
        paths = [self._prefix + key for key in batch]
        try:
            await self._reading.ask(batch[0], "erasing", lambda _: self._client.delete(paths))
        except Failure as failure:
            raise self._reading.told(failure, batch[0], "erasing") from None

    async def _commit(self, changes: Sequence[Change]) -> builtins.list[Version | Exception | None]:
        """Every change ends, whatever becomes of the others."""

        async def one(change: Change) -> Version | Exception | None:
            try:
                if isinstance(change, Erase):
                    await self._delete([change.hold.key])
                    return None
                assert isinstance(change, Put) and isinstance(change.sink, RemoteSink)
                return await self._writing.put_sink(change.hold, change.sink)
            except TerrazzoError as error:
                return error

        return await together([partial(one, change) for change in changes])

    async def _list_dir(self, prefix: str) -> tuple[builtins.list[str], builtins.list[str]]:
        below = self._prefix + prefix
        try:
            found = await self._reading.ask(prefix, "listing", lambda _: self._client.list_dir(below))
        except Failure as failure:
            raise self._reading.told(failure, prefix, "listing") from None
        if found is None:
            return [], []
        keys, prefixes = found
        return (
            [key for path in keys if (key := self._key_of(path, below, prefix)) is not None],
            [f"{key}/" for path in prefixes if (key := self._key_of(path, below, prefix)) is not None],
        )

    # -- below --------------------------------------------------------------------------------------------------------

    def _listed(self, prefix: str) -> Iterator[str]:
        self._check_listable()
        below = self._prefix + prefix
        batches: Any = None
        last: str | None = None

        async def following(attempt: int) -> Sequence[str] | None:
            nonlocal batches
            if attempt or batches is None:
                batches = self._client.batches(below, last)
            return await _next(batches)

        while True:
            try:
                batch = wait_for(self._reading.ask(prefix, "listing", following))
            except Failure as failure:
                raise self._reading.told(failure, prefix, "listing") from None
            if batch is None:
                return
            if batch:
                last = batch[-1]
            for path in batch:
                key = self._key_of(path, below, prefix)
                if key is not None:
                    yield key

    def _key_of(self, path: str, below: str, prefix: str) -> str | None:
        """The key of a listed object; None for what no key can name, and for what a service lists without reason."""
        if not path.startswith(below):
            return None
        try:
            return check_key(prefix + path[len(below) :])
        except StoreError:
            return None

    def _pinned(self, requests: Sequence[Open]) -> builtins.list[Source | None] | None:
        """The sources, where none of them needs a request; else None."""
        for request in requests:
            check_key(request.key)
            if request.first is not None:
                check_range(request.key, request.first)
        found = [_at_once(request) for request in requests]
        return None if None in found else list(found)

    async def _opened(
        self, requests: Sequence[Open], arrived: Arrived | None = None
    ) -> builtins.list[Source | None]:
        return await together([partial(self._open, request) for request in requests], arrived)

    async def _work(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await work
        except Failure as failure:
            raise StoreError(f"{self}: {failure.text}") from None

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return wait_for(self._work(work))

    def _all(self, works: Sequence[Callable[[], Awaitable[T]]]) -> builtins.list[T]:
        return self._wait(together(works)) if works else []

    def _check_writable(self, key: str) -> None:
        if not self.writable:
            raise UnsupportedError(f"{key!r}: {self} is for reading; it cannot be written to")

    def _check_listable(self) -> None:
        if not self.listable:
            raise UnsupportedError(
                f"{self} cannot be listed: HTTP has no listings; open nodes by their paths, or "
                "use consolidated metadata"
            )


def _at_once(request: Open) -> Source | None:
    """The source of a pinned look: every range of it will be checked against the version, where nothing is to be read
    here by any mark that it has."""
    known = request.known
    if request.pinned and isinstance(known, Version) and (known.strong or request.first is None):
        return Source(request.key, known.size, known)
    return None


async def _next(batches: Any) -> Sequence[str] | None:
    try:
        batch: Sequence[str] = await batches.__anext__()
    except StopAsyncIteration:
        return None
    return batch


def _whole(value: Buffer) -> bytes:
    return value if type(value) is bytes else bytes(memoryview(value).cast("B"))


def _changed(key: str) -> ConflictError:
    return ConflictError(f"{key!r} is another version now than the one that was opened; open it again")


def _again(place: Place) -> RemoteStore:
    return RemoteStore.at(place)
