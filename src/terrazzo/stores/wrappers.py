"""Stores over a store: read-only, and the view of a prefix.

What it does not do: change what a request means, or watch what passes (watching.py). Sources, holds and sinks are those
of the store below.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

from terrazzo.errors import ReadOnlyError
from terrazzo.options import Durability
from terrazzo.stores.contract import Buffer, Change, Cost, Hold, Open, Range, Sink, Source, Tag
from terrazzo.stores.keys import check_key, check_prefix
from terrazzo.stores.store import Arrived, Store

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["PrefixStore", "ReadOnlyStore", "WrapperStore"]

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
        self.exclusion = store.exclusion

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

    # what reads are made of changes nothing: handed on as it is

    def open(self, requests: Sequence[Open]) -> builtins.list[Source | None]:
        return self.store.open(requests)

    def fetch(self, requests: Ranges) -> builtins.list[builtins.list[Buffer]]:
        return self.store.fetch(requests)

    def sink(self, hold: Hold, nbytes_hint: int | None = None) -> NoReturn:
        self._refuse("sink")

    def begin(
        self, verb: Literal["open", "fetch"], requests: Any, arrived: Arrived | None = None
    ) -> Future[Any] | None:
        return self.store.begin(verb, requests, arrived)

    def recover(self, key: str) -> bool:
        return self.store.unsettled(key)  # mending is writing

    def _refuse(self, verb: str) -> NoReturn:
        raise ReadOnlyError(
            f"{verb}: {self.store!r} was opened for reading; open it with mode 'r+' or 'a' to write"
        )


_CHANGES = frozenset(
    {"set", "set_partial_values", "set_if", "erase", "erase_values", "erase_prefix", "hold", "commit", "sync"}
)


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
        return self.store.open(self._below(requests))

    def begin(
        self, verb: Literal["open", "fetch"], requests: Any, arrived: Arrived | None = None
    ) -> Future[Any] | None:
        return self.store.begin(verb, self._below(requests) if verb == "open" else requests, arrived)

    def _below(self, requests: Sequence[Open]) -> builtins.list[Open]:
        return [request._replace(key=self.prefix + check_key(request.key)) for request in requests]

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
