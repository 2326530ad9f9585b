"""A store as object stores are, without a network: ranges, versions, conditions, no handles, no locks; every request is
counted and written down, and every batch takes its time.

It is the model that the flows are planned against; what a real service does is asserted elsewhere.
"""

from __future__ import annotations

import builtins
import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from terrazzo.errors import ConflictError, StoreError
from terrazzo.stores.contract import Buffer, Change, Cost, Erase, Hold, Open, Patch, Put, Range, Source, Tag
from terrazzo.stores.emulation import clip, exact, sink_value
from terrazzo.stores.keys import check_key, check_range
from terrazzo.stores.store import Store

__all__ = ["FarHold", "FarStore", "Seen", "UnevenStore"]


@dataclass
class Seen:
    """What reached the store: (method, key, range) per request, and how often somebody waited."""

    requests: list[tuple[str, str, Range | None]] = field(default_factory=list)
    round_trips: int = 0
    read: int = 0
    written: int = 0
    read_at_once: list[int] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.requests)

    def of(self, method: str) -> int:
        return sum(one == method for one, _, _ in self.requests)


class FarHold(Hold):
    """What was found when the object was to be changed; nobody is kept out."""

    patchable = False


class FarStore(Store):
    """Objects behind `latency` seconds per batch. before_fetch: called once ranges are about to be answered."""

    fetches_conditionally = True
    erases_conditionally = False
    exclusion = "versions"
    durable = True

    def __init__(self, latency: float = 0.0, cost: Cost | None = None) -> None:
        self.latency = latency
        self._cost = cost or Cost(0.02, 1e8, requests=64)
        self.objects: dict[str, tuple[bytes, int]] = {}
        self.before_fetch: Callable[[], None] = lambda: None
        self.before_commit: Callable[[], None] = lambda: None
        self._numbers = itertools.count(1)
        self._guard = threading.Lock()
        self.seen = Seen()

    @property
    def cost(self) -> Cost:
        return self._cost

    @contextmanager
    def watched(self) -> Iterator[Seen]:
        """Count from zero inside the block."""
        self.seen = seen = Seen()
        try:
            yield seen
        finally:
            self.seen = Seen()

    def _batch(self, asked: Sequence[tuple[str, str, Range | None]]) -> None:
        if not asked:
            return
        with self._guard:
            self.seen.requests += asked
            self.seen.round_trips += 1
            self.seen.read_at_once.append(0)
        if self.latency:
            time.sleep(self.latency)

    def _answer(self, part: Buffer) -> bytes:
        self.seen.read += memoryview(part).nbytes
        self.seen.read_at_once[-1] += memoryview(part).nbytes
        return bytes(part)

    # -- values -----------------------------------------------------------------------------------------------------

    def get(self, key: str) -> bytes | None:
        self._batch([("GET", key, (0, None))])
        found = self.objects.get(key)
        return None if found is None else self._answer(found[0])

    def get_partial_values(self, requests: Any) -> builtins.list[bytes | None]:
        asked = list(requests)
        self._batch([("GET", key, window) for key, window in asked])
        found = [(self.objects.get(key), window) for key, window in asked]
        return [None if one is None else self._answer(clip(one[0], *window)) for one, window in found]

    def getsize(self, key: str) -> int | None:
        self._batch([("HEAD", key, None)])
        found = self.objects.get(key)
        return None if found is None else len(found[0])

    def tag(self, key: str) -> Tag | None:
        self._batch([("HEAD", key, None)])
        found = self.objects.get(key)
        return None if found is None else found[1]

    def set(self, key: str, value: Buffer) -> None:
        self._batch([("PUT", key, None)])
        self._store(key, bytes(memoryview(value).cast("B")))

    def set_if(self, key: str, value: Buffer, tag: Tag | None) -> None:
        self._batch([("PUT", key, None)])
        self._swap(key, bytes(memoryview(value).cast("B")), tag)

    def erase(self, key: str) -> None:
        self._batch([("DELETE", key, None)])
        with self._guard:
            self.objects.pop(key, None)

    def list(self) -> Iterator[str]:
        self._batch([("LIST", "", None)])
        return iter(sorted(self.objects))

    def _store(self, key: str, value: bytes) -> int:
        with self._guard:
            number = next(self._numbers)
            self.objects[key] = (value, number)
            self.seen.written += len(value)
            return number

    def _swap(self, key: str, value: bytes, tag: Tag | None) -> int:
        with self._guard:
            found = self.objects.get(key)
            if (None if found is None else found[1]) != tag:
                raise ConflictError(f"{key!r} is not the version that was asked for; nothing was written")
            number = next(self._numbers)
            self.objects[key] = (value, number)
            self.seen.written += len(value)
            return number

    # -- what flows ask for -----------------------------------------------------------------------------------------

    def open(self, requests: Sequence[Open]) -> builtins.list[Source | None]:
        for request in requests:
            check_key(request.key)
            if request.first is not None:
                check_range(request.key, request.first)
        asked = [r for r in requests if not (r.pinned and r.known is not None)]
        self._batch([("HEAD" if r.first is None else "GET", r.key, r.first) for r in asked])
        sources: builtins.list[Source | None] = []
        for request in requests:
            if request.pinned and request.known is not None:
                sources.append(Source(request.key, None, request.known))
                continue
            found = self.objects.get(request.key)
            if found is None:
                sources.append(None)
                continue
            value, tag = found
            first = None
            if request.first is not None and tag != request.known:
                first = self._answer(clip(value, *request.first))
            sources.append(Source(request.key, len(value), tag, first=first))
        return sources

    def fetch(self, requests: Any) -> builtins.list[builtins.list[Buffer]]:
        for source, ranges in requests:
            if any(start < 0 or length < 0 for start, length in ranges):
                raise StoreError(f"{source.key!r}: a range is refused: neither number may be negative")
        self._batch([("GET", source.key, one) for source, ranges in requests for one in ranges])
        self.before_fetch()
        answers: builtins.list[builtins.list[Buffer]] = []
        for source, ranges in requests:
            found = self.objects.get(source.key)
            if ranges and (found is None or found[1] != source.tag):
                raise ConflictError(f"{source.key!r} is another version now; open it again")
            value = b"" if found is None else found[0]
            answers.append([exact(self._answer(clip(value, *one)), source.key, *one) for one in ranges])
        return answers

    def hold(
        self,
        key: str,
        first: Range | None = None,
        *,
        exclusive: bool = True,
        timeout: float | None = None,
        blind: bool = False,
    ) -> Hold:
        return self.hold_all([key], [first], blind=[blind])[0]

    def hold_all(
        self,
        keys: Sequence[str],
        firsts: Sequence[Range | None] = (),
        *,
        exclusive: bool = True,
        timeout: float | None = None,
        blind: Sequence[bool] = (),
    ) -> builtins.list[Hold]:
        is_blind = list(blind) or [False] * len(keys)
        windows = list(firsts) or [None] * len(keys)
        looks = [Open(key, first) for key, first, no in zip(keys, windows, is_blind, strict=True) if not no]
        found = iter(self.open(looks))
        return [
            FarHold(check_key(key), None if no else next(found), no)
            for key, no in zip(keys, is_blind, strict=True)
        ]

    def commit(self, changes: Sequence[Change], durability: Any = "fsync") -> builtins.list[Tag | None]:
        if any(isinstance(change, Patch) for change in changes):
            raise StoreError("objects are replaced here, not changed in place")
        self._batch([("DELETE" if isinstance(c, Erase) else "PUT", c.hold.key, None) for c in changes])
        self.before_commit()
        tags: builtins.list[Tag | None] = []
        for change in changes:
            hold = change.hold
            if isinstance(change, Put):
                value = sink_value(change.sink)
                source = hold.source
                if hold.blind:
                    tags.append(self._store(hold.key, value))
                else:
                    tags.append(self._swap(hold.key, value, None if source is None else source.tag))
                change.sink.discard()
            else:
                with self._guard:
                    self.objects.pop(hold.key, None)
                tags.append(None)
        return tags


class UnevenStore(FarStore):
    """Answers of a batch come one by one, in any order and bit by bit, from a thread. before_answer: called ahead of
    each, with how many of its batch came already; it may change objects, wait, or raise. breaks_off: the share of
    ranges that come from another version first, in part, and then again. wanted: bytes of ranges on their way."""

    def __init__(self, seed: int = 0, cost: Cost | None = None) -> None:
        super().__init__(cost=cost)
        self.before_answer: Callable[[int], None] = lambda came: None
        self.tells = True
        self.breaks_off = 0.0
        self.wanted = self.most_wanted = 0
        self.threads: builtins.list[threading.Thread] = []
        self._random = random.Random(seed)

    def begin(self, verb: Literal["open", "fetch"], requests: Any, arrived: Any = None) -> Future[Any]:
        begun: Future[Any] = Future()
        sequence = list(range(len(requests)))
        self._random.shuffle(sequence)
        nbytes = sum(n for _, ranges in requests for _, n in ranges) if verb == "fetch" else 0
        thread = threading.Thread(
            target=self._answer_all, args=(verb, requests, sequence, arrived, begun, nbytes)
        )
        with self._guard:
            self.wanted += nbytes
            self.most_wanted = max(self.most_wanted, self.wanted)
        self.threads.append(thread)
        thread.start()
        return begun

    def _answer_all(
        self, verb: str, requests: Any, sequence: Sequence[int], arrived: Any, begun: Future[Any], nbytes: int
    ) -> None:
        answers: builtins.list[Any] = [None] * len(requests)
        try:
            for came, number in enumerate(sequence):
                self.before_answer(came)
                if begun.cancelled():
                    break
                answers[number] = getattr(self, verb)([requests[number]])[0]
                if arrived is None or not self.tells:
                    continue
                if verb == "fetch" and len(answers[number]) == 1:
                    answers[number] = [self._bit_by_bit(number, answers[number][0], arrived)]
                if self._random.random() < 0.8:
                    arrived(number, answers[number])
        except BaseException as error:
            self._landed(nbytes)
            if begun.set_running_or_notify_cancel():
                begun.set_exception(error)
        else:
            self._landed(nbytes)
            if begun.set_running_or_notify_cancel():
                begun.set_result(answers)

    def _landed(self, nbytes: int) -> None:
        with self._guard:
            self.wanted -= nbytes

    def _bit_by_bit(self, number: int, value: bytes, arrived: Any) -> bytearray:
        """What comes is told of; sometimes it breaks off, was of another version, and comes again from its start."""
        nbytes = len(value)
        for right in (False, True) if self._random.random() < self.breaks_off else (True,):
            buffer, had = bytearray(nbytes), 0
            until = nbytes if right else self._random.randrange(nbytes + 1)
            while had < until:
                step = min(until - had, self._random.randrange(1, nbytes + 1))
                part = value[had : had + step]
                buffer[had : had + step] = part if right else bytes(255 - byte for byte in part)
                had += step
                arrived(number, buffer, had)
        return buffer

    def rest(self) -> None:
        """Wait until nothing is on its way."""
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive()
        self.threads.clear()
