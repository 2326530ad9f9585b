"""A store that keeps what was read from another one on a disk of this machine, within a byte budget.

What it does not do: change what is read. Bytes are kept under the version they are of, and used for that version
alone; writes pass through. Objects that have a handle (files of this machine, values in memory) are not kept.

Whatever is opened is asked for, as without a cache; where it is the version that was kept, its bytes need not come
again. Only chunks of a shard whose index is remembered may be read without a request: as long as their version was
seen to be the present one within `fresh` seconds.
"""

from __future__ import annotations

import builtins
import json
import os
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from terrazzo.errors import ConflictError, StoreError
from terrazzo.options import Durability
from terrazzo.stores.contract import ALL, Buffer, Change, Erase, Open, Source, Tag
from terrazzo.stores.emulation import window
from terrazzo.stores.extents import Extents, Found, Name, name_of
from terrazzo.stores.store import Store
from terrazzo.stores.versions import is_lasting, tag_of_text, tag_text
from terrazzo.stores.wrappers import PrefixStore, Ranges, WrapperStore

__all__ = ["CachingStore"]

T = TypeVar("T")

_SEEN = 1 << 17  # objects whose version is remembered in memory
#: verbs after which no version is known to be the present one
_CHANGES = frozenset({"set", "set_partial_values", "set_if", "erase", "erase_values", "erase_prefix"})


class _Last(NamedTuple):
    """The version of an object that was seen last."""

    tag: Tag
    size: int
    name: Name


class CachingStore(WrapperStore):
    """Keeps ranges of `store` in `folder`, in at most `nbytes` of disk; many processes may share the folder.

    fresh: seconds for which a version that was seen is taken to be the present one, where only its chunks are read: 0
    asks every time, `math.inf` never again. A change by another writer is seen after that time at the latest, whole.
    """

    def __init__(
        self, store: Store, folder: str | os.PathLike[str], nbytes: int = 1 << 30, *, fresh: float = 10.0
    ) -> None:
        super().__init__(store)
        if nbytes <= 0 or not fresh >= 0:
            raise StoreError(f"a cache has a positive size and age, not {nbytes} bytes and {fresh} seconds")
        self.fresh = fresh
        self.extents = Extents(folder, nbytes)
        # keys that a prefix below makes longer: sources and holds carry the long ones
        self._lead, below = "", store
        while isinstance(below, WrapperStore):
            if isinstance(below, PrefixStore):
                self._lead = below.prefix + self._lead
            below = below.store
        # a place that is known by the number of an object means nothing to another process
        self._salt = b"" if store.durable and is_lasting(store.identity) else secrets.token_bytes(16)
        self._seen: OrderedDict[str, tuple[Tag, float]] = OrderedDict()
        self._guard = threading.Lock()

    def __repr__(self) -> str:
        return f"CachingStore({self.store!r}, {self.extents.shelf.root!r}, {self.extents.shelf.nbytes})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.store, self.extents.shelf.root, self.extents.shelf.nbytes, self.fresh)

    # -- reading --------------------------------------------------------------------------------------------------

    def get(self, key: str) -> bytes | None:
        if not self.store.fetches_conditionally:
            return self.store.get(key)
        source = self.open([Open(key, ALL)])[0]
        if source is None:
            return None
        with source:
            value = source.first
            if value is None:
                value = self.fetch([(source, [(0, source.size or 0)])])[0][0]
            return value if isinstance(value, bytes) else bytes(value)

    def open(self, requests: Sequence[Open]) -> builtins.list[Source | None]:
        asked = list(requests)
        kept: dict[int, tuple[_Last, bytes]] = {}
        for i, request in enumerate(asked):
            key = self._lead + request.key
            if request.known is None:
                found = self._kept(key, request)
                if found is not None:
                    kept[i] = found
                    asked[i] = request._replace(known=found[0].tag)
        now = time.monotonic()
        sources = self.store.open(asked)
        for i, (request, source) in enumerate(zip(asked, sources, strict=True)):
            if source is None:
                self._forget(self._lead + request.key)
            elif source.handle is None:
                if not (request.pinned and request.known is not None):
                    self._saw(source.key, source.tag, now)
                self._opened(request, source, kept.get(i))
        return sources

    def _opened(self, request: Open, source: Source, kept: tuple[_Last, bytes] | None) -> None:
        if kept is not None and source.first is None and source.tag == kept[0].tag:
            source.first, source.size = kept[1], kept[0].size
            return
        name = self._name(source.key, source.tag)
        if name is None or source.size is None or source.first is None or request.first is None:
            return
        start, end = window(*request.first, source.size)
        if memoryview(source.first).nbytes == end - start:
            self.extents.keep(name, start, source.first)
            self._write_last(source, name)

    def fetch(self, requests: Ranges) -> builtins.list[builtins.list[Buffer]]:
        answers: list[list[Buffer]] = []
        missing: list[tuple[Source, list[tuple[int, int]]]] = []
        places: list[tuple[int, Name | None, list[tuple[int, Found]]]] = []
        for i, (source, ranges) in enumerate(requests):
            name = None if source.handle is not None else self._name(source.key, source.tag)
            if name is None or any(start < 0 or length < 0 for start, length in ranges):
                answers.append([])
                missing.append((source, list(ranges)))
                places.append((i, None, []))
                continue
            found = self.extents.find(name, ranges)
            answers.append([one.head for one in found])
            holes = [(j, one) for j, one in enumerate(found) if len(one.head) < ranges[j][1]]
            if holes:
                missing.append((source, [_hole(ranges[j], one) for j, one in holes]))
                places.append((i, name, holes))
            elif any(answers[i]) and not self._is_fresh(source.key, source.tag):
                # one byte, under the condition that it is of this version: ConflictError where it is another by now
                start = next(start for start, length in ranges if length)
                missing.append((source, [(start, 1)]))
                places.append((i, name, []))
        if not missing:
            return answers
        now = time.monotonic()
        try:
            parts = self.store.fetch(missing)
        except ConflictError:
            for source, _ in missing:
                self._forget(source.key)
            raise
        for (i, name, holes), (source, gaps), came in zip(places, missing, parts, strict=True):
            if name is None:
                answers[i] = came
                continue
            self._saw(source.key, source.tag, now)
            for (j, one), (start, _), part in zip(holes, gaps, came, strict=False):
                self.extents.keep(name, start, part)
                answers[i][j] = b"".join((one.head, part, one.tail)) if one.head or one.tail else part
        return answers

    # -- changing -------------------------------------------------------------------------------------------------

    def ask(self, verb: str, what: Any, call: Callable[[], T]) -> T:
        if verb not in _CHANGES:
            return call()
        try:
            return call()
        finally:
            with self._guard:
                self._seen.clear()

    def commit(
        self, changes: Sequence[Change], durability: Durability = "fsync"
    ) -> builtins.list[Tag | None]:
        for change in changes:
            self._forget(change.hold.key)
        now = time.monotonic()
        tags = self.store.commit(changes, durability)
        for change, tag in zip(changes, tags, strict=True):
            if tag is not None and not isinstance(change, Erase):
                self._saw(change.hold.key, tag, now)
        return tags

    # -- what was seen --------------------------------------------------------------------------------------------

    def _is_fresh(self, key: str, tag: Tag) -> bool:
        with self._guard:
            seen = self._seen.get(key)
        return seen is not None and seen[0] == tag and time.monotonic() - seen[1] < self.fresh

    def _saw(self, key: str, tag: Tag, when: float) -> None:
        """when: before the request was made; the version was the present one at some time since."""
        with self._guard:
            self._seen[key] = (tag, when)
            self._seen.move_to_end(key)
            if len(self._seen) > _SEEN:
                self._seen.popitem(last=False)

    def _forget(self, key: str) -> None:
        with self._guard:
            self._seen.pop(key, None)

    def _name(self, key: str, tag: Tag) -> Name | None:
        text = tag_text(tag)
        return None if text is None else name_of(self._object(key), text, self._salt)

    def _object(self, key: str) -> str:
        return f"{self.store.identity!r} {key!r}"

    def _kept(self, key: str, request: Open) -> tuple[_Last, bytes] | None:
        """The version of an object that was seen last, with the bytes that are asked for first."""
        if request.first is None:
            return None
        last = self._read_last(key)
        if last is None:
            return None
        start, end = window(*request.first, last.size)
        found = self.extents.find(last.name, [(start, end - start)])[0]
        return (last, found.head) if len(found.head) == end - start else None

    def _read_last(self, key: str) -> _Last | None:
        try:
            told = json.loads(self.extents.noted(self._object_name(key)))
            tag, size = tag_of_text(told["tag"]), told["size"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        name = None if tag is None else self._name(key, tag)
        if (
            tag is None
            or type(size) is not int
            or size < 0
            or told.get("check") != self._check(key, tag, size)
        ):
            return None
        name = self._name(key, tag)
        return None if name is None else _Last(tag, size, name)

    def _write_last(self, source: Source, name: Name) -> None:
        assert source.size is not None
        check = self._check(source.key, source.tag, source.size)
        told = {"tag": tag_text(source.tag), "size": source.size, "check": check}
        self.extents.note(name.object, json.dumps(told))

    def _check(self, key: str, tag: Tag, size: int) -> str:
        """What a note has to carry, so that a damaged one is not taken for a version."""
        return name_of(self._object(key), f"{size} bytes of {tag_text(tag)}", self._salt).version

    def _object_name(self, key: str) -> str:
        return name_of(self._object(key), "", self._salt).object


def _hole(asked: tuple[int, int], found: Found) -> tuple[int, int]:
    """The (start, length) of what is missing of a range; what lies between two holes comes with them."""
    start, length = asked
    return start + len(found.head), length - len(found.head) - len(found.tail)


def _again(store: Store, folder: str, nbytes: int, fresh: float) -> CachingStore:
    return CachingStore(store, folder, nbytes, fresh=fresh)
