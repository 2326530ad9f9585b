"""Flows: generators that yield requests and receive answers; one logic for callers that wait and that await.

What it does not do: know what is read or written. A flow holds no store, so that a test can answer it by hand and
count its round trips.

A request is a small frozen value with `perform(store)`. An exception of the store is raised inside the flow, at its
`yield`, so that it can release what it holds; what the flow returns is what the driver returns.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from terrazzo.errors import HeldError, StoreError
from terrazzo.options import Durability
from terrazzo.stores.arrivals import Arrivals, Came
from terrazzo.stores.contract import Buffer, Change, Hold, Open, Range, Sink, Source, Tag
from terrazzo.stores.holds import release_all
from terrazzo.stores.interrupt import Interrupt
from terrazzo.stores.store import Store

__all__ = [
    "Arriving",
    "Claiming",
    "Committing",
    "Erasing",
    "Fetching",
    "Flow",
    "Holding",
    "Listing",
    "Opening",
    "Recovering",
    "Request",
    "Sinking",
    "Working",
    "around",
    "run",
    "run_async",
    "watched",
]

T = TypeVar("T")

#: what is put around the store of every flow that is run here (watching.py)
around: ContextVar[Callable[[Store], Store] | None] = ContextVar("around", default=None)


class Request(Protocol):
    """One batch: what a flow yields."""

    def perform(self, store: Store) -> Any:
        """The answer."""

    def drop(self, answer: Any) -> None:
        """Give up what the answer holds, where nobody is left to take it."""


Flow = Generator[Request, Any, T]


class Opening(NamedTuple):
    """Answer: a Source or None per request, in order."""

    requests: Sequence[Open]

    def perform(self, store: Store) -> list[Source | None]:
        return store.open(self.requests)

    def drop(self, answer: list[Source | None]) -> None:
        for source in answer:
            if source is not None:
                source.close()


class Fetching(NamedTuple):
    """Answer: per source the bytes of its (start, length) ranges, in order."""

    requests: Sequence[tuple[Source, Sequence[tuple[int, int]]]]

    def perform(self, store: Store) -> list[list[Buffer]]:
        return store.fetch(self.requests)

    def drop(self, answer: object) -> None:
        pass


class Arriving(NamedTuple):
    """Answer: what has come of a batch since it was last asked for.

    following: a batch that is begun now, where the store can, and asked for later."""

    arrivals: Arrivals
    following: Arrivals | None = None

    def begin(self, store: Store) -> bool:
        """Whether the store has begun, so that nobody waits for it in a thread."""
        begun = self.arrivals.begin(store)
        if self.following is not None:
            self.following.begin(store)
        return begun

    def perform(self, store: Store) -> list[Came]:
        self.begin(store)
        return self.arrivals.take(store)

    def drop(self, answer: list[Came]) -> None:
        self.arrivals.drop(answer)


@dataclass(frozen=True, slots=True)
class Holding:
    """Answer: a Hold per key, in order. All or none, and taken in one order by everybody, so that two flows that
    ask for several keys at once never wait for each other. A flow that holds keys already asks for no more.

    firsts: what to read of each, as in `Store.hold`; empty: nothing. blind: which of them are replaced or erased
    whatever they are; empty: none."""

    keys: Sequence[str]
    firsts: Sequence[Range | None] = ()
    exclusive: bool = True
    timeout: float | None = None
    blind: Sequence[bool] = ()

    def perform(self, store: Store, timeout: float | None = -1.0) -> list[Hold]:
        timeout = self.timeout if timeout == -1.0 else timeout
        if len(set(self.keys)) != len(self.keys):
            raise StoreError("a key is asked for twice in one request for holds")
        # where nothing can be erased, what is not to be there any more is overwritten: is it there?
        blind = self.blind if store.erasable else ()
        holds = store.hold_all(self.keys, self.firsts, exclusive=self.exclusive, timeout=timeout, blind=blind)
        if not (store.erasable and store.erases_conditionally):
            for hold in holds:
                hold.erasable = hold.blind
        return holds

    def drop(self, answer: list[Hold]) -> None:
        release_all(answer)


@dataclass(frozen=True, slots=True)
class Claiming:
    """Answer: whether each of these shared holds has its ranges now, as in `Hold.claim`; all or none. Asked for once
    by a flow, after its holds, so that two flows never wait for each other."""

    holds: Sequence[Hold]
    ranges: Sequence[Sequence[tuple[int, int]]]
    timeout: float | None = None

    def perform(self, store: Store, timeout: float | None = -1.0) -> bool:
        timeout = self.timeout if timeout == -1.0 else timeout
        pairs = sorted(zip(self.holds, self.ranges, strict=True), key=lambda pair: pair[0].key)
        taken: list[Hold] = []
        try:
            for hold, ranges in pairs:
                if not hold.claim(ranges, timeout):
                    break
                taken.append(hold)
            else:
                return True
        except BaseException:
            self._give(taken)
            raise
        self._give(taken)
        return False

    def _give(self, taken: Sequence[Hold]) -> None:
        for hold in taken:
            hold.unclaim()

    def drop(self, answer: object) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Sinking:
    """Answer: a new object under construction for each hold, in order."""

    holds: Sequence[Hold]

    def perform(self, store: Store) -> list[Sink]:
        return [store.sink(hold) for hold in self.holds]

    def drop(self, answer: list[Sink]) -> None:
        for sink in answer:
            sink.discard()


@dataclass(frozen=True, slots=True)
class Committing:
    """Answer: the new tag of each change, None where it is absent or not known."""

    changes: Sequence[Change]
    durability: Durability = "fsync"

    def perform(self, store: Store) -> list[Tag | None]:
        return store.commit(self.changes, self.durability)

    def drop(self, answer: object) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Listing:
    """Answer: (keys, prefixes) of each prefix, in order."""

    prefixes: Sequence[str]

    def perform(self, store: Store) -> list[tuple[list[str], list[str]]]:
        return [store.list_dir(prefix) for prefix in self.prefixes]

    def drop(self, answer: object) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Erasing:
    """Answer: None. Everything below the prefixes goes."""

    prefixes: Sequence[str]

    def perform(self, store: Store) -> None:
        for prefix in self.prefixes:
            store.erase_prefix(prefix)

    def drop(self, answer: object) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Recovering:
    """Answer: per key whether its object may differ now."""

    keys: Sequence[str]

    def perform(self, store: Store) -> list[bool]:
        return [store.recover(key) for key in self.keys]

    def drop(self, answer: object) -> None:
        pass


class Working(NamedTuple):
    """Answer: what `work()` returns. For computation that must not keep an event loop waiting."""

    work: Callable[[], Any]

    def perform(self, store: Store) -> Any:
        return self.work()

    def drop(self, answer: object) -> None:
        pass


def watched(store: Store) -> Store:
    """The store as it is to be asked here: with what a block that watches puts around it."""
    wrap = around.get()
    return store if wrap is None else wrap(store)


def run(flow: Flow[T], store: Store) -> T:
    """Drive a flow to its end in this thread."""
    wrap = around.get()
    if wrap is not None:
        store = wrap(store)
    try:
        request = next(flow)
        while True:
            try:
                answer = request.perform(store)
            except BaseException as error:
                request = flow.throw(error)
            else:
                request = flow.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        flow.close()


async def run_async(flow: Flow[T], store: Store) -> T:
    """Drive a flow to its end without blocking the event loop; requests are performed in threads, one at a time, but
    for reads of a store that needs none.

    Cancelled, it lets the request in progress end, so that nothing is written after it returned. Reads over a network
    are ended at once.
    """
    store = watched(store)
    try:
        request = next(flow)
        while True:
            try:
                if isinstance(request, Holding | Claiming):
                    answer = await _patiently(request, store)
                elif (begun := _begun(request, store)) is not None:
                    answer = await begun
                else:
                    answer = await _in_thread(request, request.perform, store)
            except BaseException as error:
                request = flow.throw(error)
            else:
                request = flow.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        flow.close()


def _begun(request: Request, store: Store) -> Awaitable[Any] | None:
    """The answer to come, from a store that waits without a thread."""
    if isinstance(request, Opening):
        begun = store.begin("open", request.requests)
    elif isinstance(request, Fetching):
        begun = store.begin("fetch", request.requests)
    elif isinstance(request, Arriving):
        begun = request.arrivals.coming() if request.begin(store) else None
    else:
        return None
    if begun is None:
        return None
    import asyncio

    return asyncio.wrap_future(begun)


async def _patiently(request: Holding | Claiming, store: Store) -> Any:
    """Threads that wait for a hold could use up all threads, so that its holder finds none to commit in: ask again
    instead of waiting. All or none, so nothing is held meanwhile."""
    import asyncio  # here, because it takes longer to import than all of this library

    loop = asyncio.get_running_loop()
    deadline = None if request.timeout is None else loop.time() + request.timeout
    pause = 0.001
    while True:
        try:
            answer = await _in_thread(request, request.perform, store, 0.0)
        except HeldError:
            if deadline is not None and loop.time() >= deadline:
                raise
        else:
            return answer
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, 0.05)


async def _in_thread(request: Request, function: Callable[..., Any], *arguments: Any) -> Any:
    import asyncio

    interrupt = Interrupt()
    work = asyncio.ensure_future(asyncio.to_thread(interrupt.around, function, *arguments))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        if isinstance(request, Opening | Fetching | Arriving | Listing):
            interrupt.end()
        while not work.done():
            try:
                await asyncio.wait([work])
            except asyncio.CancelledError:
                continue
        if not work.cancelled() and work.exception() is None:
            request.drop(work.result())
        raise
