"""Objects in the memory of this process.

What it does not do: outlive the process, or reach another one.
"""

from __future__ import annotations

import builtins
import itertools
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NoReturn

from terrazzo.errors import ConflictError, StoreError
from terrazzo.options import Durability
from terrazzo.stores.contract import Buffer, Change, Cost, Erase, Open, Patch, Put, Range, Source, Tag
from terrazzo.stores.emulation import clip, patched, sink_value
from terrazzo.stores.exclusion import Turn, take_turn
from terrazzo.stores.holds import check_held, spend
from terrazzo.stores.keys import check_key, check_range
from terrazzo.stores.store import Store

__all__ = ["MemoryStore"]

#: the character after the slash: no key below a folder comes after the folder's name with it
AFTER_SLASH = chr(ord("/") + 1)

Version = tuple[bytes, int]  # the value, and a number that no other version of any object in this process has


class _Objects(dict[str, Version]):
    """Keys to versions, and the keys in order: sorted again only after keys came or went.

    A walk over many groups lists as many folders; going through all keys for each of them would take for ever.
    """

    def __init__(self) -> None:
        super().__init__()
        self._changes = 0
        self._sorted: tuple[int, list[str]] = (0, [])

    def __setitem__(self, key: str, version: Version) -> None:
        new = key not in self
        super().__setitem__(key, version)
        if new:
            self._changes += 1

    def remove(self, key: str) -> None:
        if self.pop(key, None) is not None:
            self._changes += 1

    def in_order(self) -> list[str]:
        changes, names = self._changes, self._sorted
        if names[0] != changes:
            # the number was read first: what comes meanwhile makes this list look old, never new
            names = self._sorted = (changes, sorted(self))
        return names[1]


class _Place:
    """What stores of one name share."""

    def __init__(self) -> None:
        self.objects = _Objects()


_named: dict[str, _Place] = {}
_numbers = itertools.count(1)


class MemoryStore(Store):
    """Objects in memory; stores that are given the same `name` share them, as long as the process lives.

    Readers keep the version they opened, without a copy. Writers of one object wait for one another.
    """

    patchable = True
    cost = Cost(0.0, 1e10)

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self._place = _Place() if name is None else _named.setdefault(name, _Place())

    def __repr__(self) -> str:
        return f"MemoryStore({'' if self.name is None else repr(self.name)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemoryStore) and self._place is other._place

    def __hash__(self) -> int:
        return id(self._place)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a MemoryStore cannot be pickled: the other process would write to a copy that this one never sees; "
            "use a folder (LocalStore) to share arrays between processes"
        )

    @property
    def identity(self) -> Hashable:
        return id(self._place)

    # -- the specification's verbs ------------------------------------------------------------------------------------

    def get(self, key: str) -> bytes | None:
        found = self._place.objects.get(key)
        return None if found is None else found[0]

    def get_partial_values(self, requests: Iterable[tuple[str, Range]]) -> builtins.list[bytes | None]:
        answers: list[bytes | None] = []
        for key, asked in requests:
            found = self._place.objects.get(key)
            answers.append(None if found is None else bytes(clip(found[0], *asked)))
        return answers

    def exists(self, key: str) -> bool:
        return key in self._place.objects

    def getsize(self, key: str) -> int | None:
        found = self._place.objects.get(key)
        return None if found is None else len(found[0])

    def tag(self, key: str) -> Tag | None:
        found = self._place.objects.get(key)
        return None if found is None else found[1]

    def set(self, key: str, value: Buffer) -> None:
        whole = value if type(value) is bytes else bytes(memoryview(value).cast("B"))
        with self._turn(key):
            self._place.objects[key] = (whole, next(_numbers))

    def set_if(self, key: str, value: Buffer, tag: Tag | None) -> None:
        whole = value if type(value) is bytes else bytes(memoryview(value).cast("B"))
        with self._turn(key):
            if self.tag(key) != tag:
                raise ConflictError(f"{key!r} is not the version that was asked for; nothing was written")
            self._place.objects[key] = (whole, next(_numbers))

    def erase(self, key: str) -> None:
        with self._turn(key):
            self._place.objects.remove(key)

    def list(self) -> Iterator[str]:
        return iter(list(self._place.objects))  # a copy: others may write while the caller walks

    def list_prefix(self, prefix: str) -> Iterator[str]:
        names = self._place.objects.in_order()
        start = bisect_left(names, prefix)
        return itertools.takewhile(lambda key: key.startswith(prefix), itertools.islice(names, start, None))

    def list_dir(self, prefix: str) -> tuple[builtins.list[str], builtins.list[str]]:
        names = self._place.objects.in_order()
        keys: list[str] = []
        prefixes: list[str] = []
        at = bisect_left(names, prefix)
        while at < len(names) and names[at].startswith(prefix):
            name, slash, _ = names[at][len(prefix) :].partition("/")
            if slash:
                prefixes.append(f"{prefix}{name}/")
                at = bisect_left(names, f"{prefix}{name}{AFTER_SLASH}", at)
            else:
                keys.append(names[at])
                at += 1
        return keys, prefixes

    # -- what flows ask for -------------------------------------------------------------------------------------------

    def open(self, requests: Sequence[Open]) -> builtins.list[Source | None]:
        objects = self._place.objects
        sources: list[Source | None] = []
        for request in requests:
            found = objects.get(check_key(request.key))
            if found is None:
                sources.append(None)
                continue
            value, version = found
            first = None
            if request.first is not None and version != request.known:
                check_range(request.key, request.first)
                first = clip(value, *request.first)
            sources.append(Source(request.key, len(value), version, value, first))
        return sources

    def commit(
        self, changes: Sequence[Change], durability: Durability = "fsync"
    ) -> builtins.list[Tag | None]:
        objects = self._place.objects
        fresh: dict[str, Version | None] = {}
        for change in changes:  # all of them are checked and built before the first is seen
            check_held(change.hold)
            key = change.hold.key
            if key in fresh:
                raise StoreError(
                    f"{key!r}: two changes of one object in one commit; their order is not defined"
                )
            if isinstance(change, Put):
                fresh[key] = (sink_value(change.sink), next(_numbers))
            elif isinstance(change, Erase):
                fresh[key] = None
            else:
                fresh[key] = (_patched(change, objects.get(key)), next(_numbers))
        for key, version in fresh.items():
            if version is None:
                objects.remove(key)
            else:
                objects[key] = version
        for change in changes:
            if isinstance(change, Put):
                change.sink.discard()
            if not isinstance(change, Patch):
                spend(change.hold)
        return [None if version is None else version[1] for version in fresh.values()]

    def _turn(self, key: str) -> Turn:
        return take_turn(id(self._place), key, None)


def _patched(change: Patch, found: Version | None) -> bytes:
    key = change.hold.key
    if found is None:
        raise StoreError(f"{key!r} is not stored; only an object that is there can be patched")
    old = found[0]
    for offset, _ in change.appends:
        if offset < len(old):
            raise StoreError(
                f"{key!r}: an append at byte {offset} lies inside the object of {len(old)} bytes"
            )
    for offset, piece in change.overwrites:
        end = offset + memoryview(piece).nbytes
        if offset < 0 or end > len(old):
            raise StoreError(
                f"{key!r}: an overwrite of bytes {offset} to {end} leaves the object of {len(old)} bytes"
            )
    return bytes(patched(old, [*change.appends, *change.overwrites]))
