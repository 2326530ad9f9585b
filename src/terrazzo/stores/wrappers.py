"""Stores over a store: read-only, counting, logging, and the view of a prefix.

What it does not do: change what a request means. Sources, holds and sinks are those of the store below.
"""

from __future__ import annotations

import builtins
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from terrazzo.errors import ReadOnlyError
from terrazzo.options import Durability
from terrazzo.stores.contract import Buffer, Change, Cost, Hold, Open, Patch, Put, Range, Sink, Source, Tag
from terrazzo.stores.keys import check_key, check_prefix
from terrazzo.stores.store import Store

if TYPE_CHECKING:
    import logging

__all__ = ["CountingStore", "LoggingStore", "PrefixStore", "ReadOnlyStore", "WrapperStore"]

#: logging.DEBUG; that module takes longer to import than a read takes
DEBUG = 10

T = TypeVar("T")
Ranges = Sequence[tuple[Source, Sequence[tuple[int, int]]]]


class WrapperStore(Store):
    """A store that hands every verb on to `store`; a wrapper overrides `ask`, or the verbs it cares for."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.readable = store.readable
        self.writable = store.writable
        self.erasable = store.erasable
        self.listable = store.listable
        self.patchable = store.patchable
        self.durable = store.durable
        self.fetches_conditionally = store.fetches_conditionally
        self.erases_conditionally = store.erases_conditionally

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.store!r})"

    def __str__(self) -> str:
        return str(self.store)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, WrapperStore) and self.store == other.store

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.store))

    @property
    def cost(self) -> Cost:
        return self.store.cost

    @property
    def identity(self) -> Hashable:
        return self.store.identity

    def ask(self, verb: str, what: Any, call: Callable[[], T]) -> T:
        """Every request passes here: its verb, what it is about, and how to perform it."""
        return call()

    def get(self, key: str) -> bytes | None:
        return self.ask("get", key, lambda: self.store.get(key))

    def get_partial_values(self, requests: Iterable[tuple[str, Range]]) -> builtins.list[bytes | None]:
        asked = list(requests)
        return self.ask("get_partial_values", asked, lambda: self.store.get_partial_values(asked))

    def exists(self, key: str) -> bool:
        return self.ask("exists", key, lambda: self.store.exists(key))

    def getsize(self, key: str) -> int | None:
        return self.ask("getsize", key, lambda: self.store.getsize(key))

    def tag(self, key: str) -> Tag | None:
        return self.ask("tag", key, lambda: self.store.tag(key))

    def set(self, key: str, value: Buffer) -> None:
        self.ask("set", (key, value), lambda: self.store.set(key, value))

    def set_partial_values(self, writes: Iterable[tuple[str, int, Buffer]]) -> None:
        pieces = list(writes)
        self.ask("set_partial_values", pieces, lambda: self.store.set_partial_values(pieces))

    def set_if(self, key: str, value: Buffer, tag: Tag | None) -> None:
        self.ask("set_if", (key, value), lambda: self.store.set_if(key, value, tag))

    def erase(self, key: str) -> None:
        self.ask("erase", key, lambda: self.store.erase(key))

    def erase_values(self, keys: Iterable[str]) -> None:
        gone = list(keys)
        self.ask("erase_values", gone, lambda: self.store.erase_values(gone))

    def erase_prefix(self, prefix: str) -> None:
        self.ask("erase_prefix", prefix, lambda: self.store.erase_prefix(prefix))

    def list(self) -> Iterator[str]:
        return self.ask("list", "", self.store.list)

    def list_prefix(self, prefix: str) -> Iterator[str]:
        return self.ask("list_prefix", prefix, lambda: self.store.list_prefix(prefix))

    def list_dir(self, prefix: str) -> tuple[builtins.list[str], builtins.list[str]]:
        return self.ask("list_dir", prefix, lambda: self.store.list_dir(prefix))

    def open(self, requests: Sequence[Open]) -> builtins.list[Source | None]:
        return self.ask("open", requests, lambda: self.store.open(requests))

    def fetch(self, requests: Ranges) -> builtins.list[builtins.list[Buffer]]:
        return self.ask("fetch", requests, lambda: self.store.fetch(requests))

    def hold(
        self,
        key: str,
        first: Range | None = None,
        *,
        exclusive: bool = True,
        timeout: float | None = None,
        blind: bool = False,
    ) -> Hold:
        return self.ask(
            "hold",
            key,
            lambda: self.store.hold(key, first, exclusive=exclusive, timeout=timeout, blind=blind),
        )

    def hold_all(
        self,
        keys: Sequence[str],
        firsts: Sequence[Range | None] = (),
        *,
        exclusive: bool = True,
        timeout: float | None = None,
        blind: Sequence[bool] = (),
    ) -> builtins.list[Hold]:
        if type(self).hold is not WrapperStore.hold:  # a wrapper with its own idea of a hold
            return super().hold_all(keys, firsts, exclusive=exclusive, timeout=timeout, blind=blind)
        return self.ask(
            "hold",
            keys,
            lambda: self.store.hold_all(keys, firsts, exclusive=exclusive, timeout=timeout, blind=blind),
        )

    def sink(self, hold: Hold, nbytes_hint: int | None = None) -> Sink:
        return self.store.sink(hold, nbytes_hint)

    def commit(
        self, changes: Sequence[Change], durability: Durability = "fsync"
    ) -> builtins.list[Tag | None]:
        return self.ask("commit", changes, lambda: self.store.commit(changes, durability))

    def recover(self, key: str) -> bool:
        return self.ask("recover", key, lambda: self.store.recover(key))

    def unsettled(self, key: str) -> bool:
        return self.store.unsettled(key)

    def sync(self) -> None:
        self.ask("sync", "", self.store.sync)

    def close(self) -> None:
        self.store.close()


class ReadOnlyStore(WrapperStore):
    """The same objects, for reading: every change is refused with ReadOnlyError."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.writable = self.erasable = self.patchable = False

    def ask(self, verb: str, what: Any, call: Callable[[], T]) -> T:
        if verb in _CHANGES:
            self._refuse(verb)
        return call()

    def sink(self, hold: Hold, nbytes_hint: int | None = None) -> NoReturn:
        self._refuse("sink")

    def recover(self, key: str) -> bool:
        return self.store.unsettled(key)  # mending is writing

    def _refuse(self, verb: str) -> NoReturn:
        raise ReadOnlyError(
            f"{verb}: {self.store!r} was opened for reading; open it with mode 'r+' or 'a' to write"
        )


_CHANGES = frozenset(
    {"set", "set_partial_values", "set_if", "erase", "erase_values", "erase_prefix", "hold", "commit", "sync"}
)


@dataclass(frozen=True, slots=True)
class Counts:
    """What passed a CountingStore: per verb how many objects or ranges were asked for, and how often one waited."""

    requests: Counter[str]
    round_trips: Counter[str]
    read_nbytes: int
    written_nbytes: int


class CountingStore(WrapperStore):
    """Counts what passes: a batch is one round trip, and as many requests as it has keys or ranges.

    What the kernel reads through a source's descriptor does not pass and is not counted; what it writes through a
    sink's is counted when that is committed.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._guard = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Start again from zero."""
        with self._guard:
            self._requests: Counter[str] = Counter()
            self._round_trips: Counter[str] = Counter()
            self._read = self._written = 0

    @property
    def counts(self) -> Counts:
        with self._guard:
            return Counts(Counter(self._requests), Counter(self._round_trips), self._read, self._written)

    @property
    def requests(self) -> int:
        """Requests of all verbs."""
        return sum(self._requests.values())

    @property
    def round_trips(self) -> int:
        """Round trips of all verbs."""
        return sum(self._round_trips.values())

    def ask(self, verb: str, what: Any, call: Callable[[], T]) -> T:
        n, written = _batch(verb, what)
        answer = call()
        if n:
            with self._guard:
                self._round_trips[verb] += 1
                self._requests[verb] += n
                self._read += _nbytes_read(verb, answer)
                self._written += written
        return answer


class LoggingStore(WrapperStore):
    """One DEBUG line per request, to the logger "terrazzo" (or another): verb, what was asked for, what came of it."""

    def __init__(self, store: Store, logger: logging.Logger | None = None) -> None:
        super().__init__(store)
        import logging

        self.logger = logger or logging.getLogger("terrazzo")

    def ask(self, verb: str, what: Any, call: Callable[[], T]) -> T:
        shown = _shown(verb, what) if self.logger.isEnabledFor(DEBUG) else ""
        try:
            answer = call()
        except Exception as error:
            self.logger.debug("%s %s: %s: %s", verb, shown, type(error).__name__, error)
            raise
        self.logger.debug("%s %s: %d bytes read", verb, shown, _nbytes_read(verb, answer))
        return answer


class PrefixStore(WrapperStore):
    """The objects below `prefix` of a store, under keys relative to it.

    Sources and holds carry the keys of the store below, and so do its errors.
    """

    def __init__(self, store: Store, prefix: str) -> None:
        super().__init__(store)
        self.prefix = check_prefix(prefix)

    def __repr__(self) -> str:
        return f"PrefixStore({self.store!r}, {self.prefix!r})"

    def __str__(self) -> str:
        return f"{self.store}/{self.prefix.rstrip('/')}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrefixStore) and (self.store, self.prefix) == (other.store, other.prefix)

    def __hash__(self) -> int:
        return hash((self.store, self.prefix))

    @property
    def identity(self) -> Hashable:
        return (self.store.identity, self.prefix)

    def get(self, key: str) -> bytes | None:
        return self.store.get(self.prefix + key)

    def get_partial_values(self, requests: Iterable[tuple[str, Range]]) -> builtins.list[bytes | None]:
        return self.store.get_partial_values([(self.prefix + key, asked) for key, asked in requests])

    def exists(self, key: str) -> bool:
        return self.store.exists(self.prefix + key)

    def getsize(self, key: str) -> int | None:
        return self.store.getsize(self.prefix + key)

    def tag(self, key: str) -> Tag | None:
        return self.store.tag(self.prefix + key)

    def set(self, key: str, value: Buffer) -> None:
        self.store.set(self.prefix + key, value)

    def set_partial_values(self, writes: Iterable[tuple[str, int, Buffer]]) -> None:
        self.store.set_partial_values([(self.prefix + key, start, value) for key, start, value in writes])

    def set_if(self, key: str, value: Buffer, tag: Tag | None) -> None:
        self.store.set_if(self.prefix + key, value, tag)

    def erase(self, key: str) -> None:
        self.store.erase(self.prefix + key)

    def erase_values(self, keys: Iterable[str]) -> None:
        self.store.erase_values([self.prefix + key for key in keys])

    def erase_prefix(self, prefix: str) -> None:
        self.store.erase_prefix(self.prefix + prefix)

    def list(self) -> Iterator[str]:
        return self.list_prefix("")

    def list_prefix(self, prefix: str) -> Iterator[str]:
        return (key[len(self.prefix) :] for key in self.store.list_prefix(self.prefix + prefix))

    def list_dir(self, prefix: str) -> tuple[builtins.list[str], builtins.list[str]]:
        keys, prefixes = self.store.list_dir(self.prefix + prefix)
        n = len(self.prefix)
        return [key[n:] for key in keys], [below[n:] for below in prefixes]

    def open(self, requests: Sequence[Open]) -> builtins.list[Source | None]:
        return self.store.open(
            [request._replace(key=self.prefix + check_key(request.key)) for request in requests]
        )

    def hold(
        self,
        key: str,
        first: Range | None = None,
        *,
        exclusive: bool = True,
        timeout: float | None = None,
        blind: bool = False,
    ) -> Hold:
        return self.store.hold(
            self.prefix + check_key(key), first, exclusive=exclusive, timeout=timeout, blind=blind
        )

    def hold_all(
        self,
        keys: Sequence[str],
        firsts: Sequence[Range | None] = (),
        *,
        exclusive: bool = True,
        timeout: float | None = None,
        blind: Sequence[bool] = (),
    ) -> builtins.list[Hold]:
        below = [self.prefix + check_key(key) for key in keys]
        return self.store.hold_all(below, firsts, exclusive=exclusive, timeout=timeout, blind=blind)

    def recover(self, key: str) -> bool:
        return self.store.recover(self.prefix + check_key(key))

    def unsettled(self, key: str) -> bool:
        return self.store.unsettled(self.prefix + check_key(key))


# -- what a request is about ------------------------------------------------------------------------------------------


def _batch(verb: str, what: Any) -> tuple[int, int]:
    """(requests, bytes to write) of one call."""
    if verb in ("set", "set_if"):
        return 1, memoryview(what[1]).nbytes
    if verb == "set_partial_values":
        return len(what), sum(memoryview(value).nbytes for _, _, value in what)
    if verb == "fetch":
        return sum(len(ranges) for _, ranges in what), 0
    if verb == "commit":
        return len(what), sum(_written(change) for change in what)
    return (len(what), 0) if isinstance(what, list | tuple) else (1, 0)


def _written(change: Change) -> int:
    if isinstance(change, Put):
        return change.sink.nbytes or 0
    if isinstance(change, Patch):
        return sum(memoryview(piece).nbytes for _, piece in (*change.appends, *change.overwrites))
    return 0


def _nbytes_read(verb: str, answer: Any) -> int:
    if verb == "get":
        return _nbytes(answer)
    if verb == "get_partial_values":
        return sum(map(_nbytes, answer))
    if verb == "open":
        return sum(_nbytes(source.first) for source in answer if source is not None)
    if verb == "fetch":
        return sum(_nbytes(part) for parts in answer for part in parts)
    if verb == "hold":
        holds = answer if isinstance(answer, list) else [answer]
        return sum(_nbytes(hold.source.first) for hold in holds if hold.source is not None)
    return 0


def _nbytes(part: Buffer | None) -> int:
    return 0 if part is None else memoryview(part).nbytes


def _shown(verb: str, what: Any) -> str:
    """What a request is about, short, and safe to print whatever a key contains."""
    if verb in ("set", "set_if"):
        return f"{what[0]!r} ({memoryview(what[1]).nbytes} bytes)"
    if not isinstance(what, list | tuple):
        return repr(what)
    names = [_name(one) for one in what[:3]]
    return ", ".join(names) + (f" and {len(what) - 3} more" if len(what) > 3 else "")


def _name(one: Any) -> str:
    if isinstance(one, Open):
        return f"{one.key!r} {one.first or ''}".rstrip()
    if isinstance(one, str):
        return repr(one)
    if isinstance(one, tuple) and isinstance(one[0], Source):
        return f"{one[0].key!r} ({len(one[1])} ranges)"
    if isinstance(one, tuple):
        return repr(one[0])
    return f"{type(one).__name__.lower()} {one.hold.key!r}"
