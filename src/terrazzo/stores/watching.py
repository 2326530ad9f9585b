"""Watching what passes between the flows and a store: counted, or logged.

What it does not do: see what the kernel reads through a source's descriptor, or how often a store tries again.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from terrazzo.stores.contract import Buffer, Change, Hold, Open, Patch, Put, Source
from terrazzo.stores.flow import around
from terrazzo.stores.store import Arrived, Store
from terrazzo.stores.wrappers import WrapperStore

if TYPE_CHECKING:
    import logging
    from concurrent.futures import Future

__all__ = ["CountingStore", "Counts", "LoggingStore", "Traffic", "traffic"]

#: logging.DEBUG; that module takes longer to import than a read takes
DEBUG = 10

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Counts:
    """What passed: per verb how many objects or ranges were asked for, and how often one waited."""

    requests: Counter[str]
    round_trips: Counter[str]
    read_nbytes: int
    written_nbytes: int


class Traffic:
    """What passes, counted while it does: a batch is one round trip, and as many requests as it has keys or ranges.

    A look that a store leaves out is no request: of a version that its ranges are checked against, of an object that
    is replaced whole. A document of another format counts as one, in however many objects it lies.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self.reset()

    def __repr__(self) -> str:
        return (
            f"Traffic(requests={self.requests}, round_trips={self.round_trips}, read_nbytes={self.read_nbytes}, "
            f"written_nbytes={self.written_nbytes})"
        )

    def reset(self) -> None:
        """Start again from zero."""
        with self._guard:
            self._requests: Counter[str] = Counter()
            self._round_trips: Counter[str] = Counter()
            self._read = self._written = 0

    @property
    def counts(self) -> Counts:
        """What passed so far, verb by verb."""
        with self._guard:
            return Counts(Counter(self._requests), Counter(self._round_trips), self._read, self._written)

    @property
    def requests(self) -> int:
        """Requests of all verbs."""
        return sum(self.counts.requests.values())

    @property
    def round_trips(self) -> int:
        """Round trips of all verbs."""
        return sum(self.counts.round_trips.values())

    @property
    def read_nbytes(self) -> int:
        return self._read

    @property
    def written_nbytes(self) -> int:
        return self._written

    def note(self, verb: str, n: int, read: int, written: int) -> None:
        """Count one batch of `n` requests."""
        if not n:
            return
        with self._guard:
            self._round_trips[verb] += 1
            self._requests[verb] += n
            self._read += read
            self._written += written


@contextmanager
def traffic() -> Iterator[Traffic]:
    """Count what arrays, groups and their documents ask of their stores inside a block, whichever stores they are.

    Of this thread, or of this task and the tasks it starts. What is asked of a store itself (`store.get(key)`), and
    listings, are not counted; a `CountingStore` counts all that passes it.
    """
    seen, outer = Traffic(), around.get()

    def counted(store: Store) -> Store:
        return CountingStore(store if outer is None else outer(store), seen)

    token = around.set(counted)
    try:
        yield seen
    finally:
        around.reset(token)


class CountingStore(WrapperStore):
    """Counts what passes: a batch is one round trip, and as many requests as it has keys or ranges.

    What the kernel reads through a source's descriptor does not pass and is not counted; what it writes through a
    sink's is counted when that is committed. traffic: what is counted in, by default of its own.
    """

    def __init__(self, store: Store, traffic: Traffic | None = None) -> None:
        super().__init__(store)
        self.traffic = traffic or Traffic()

    def reset(self) -> None:
        """Start again from zero."""
        self.traffic.reset()

    @property
    def counts(self) -> Counts:
        return self.traffic.counts

    @property
    def requests(self) -> int:
        """Requests of all verbs."""
        return self.traffic.requests

    @property
    def round_trips(self) -> int:
        """Round trips of all verbs."""
        return self.traffic.round_trips

    def ask(self, verb: str, what: Any, call: Callable[[], T]) -> T:
        written = _nbytes_to_write(verb, what)
        answer = call()
        read = _nbytes_read(verb, answer)
        self.traffic.note(verb, _requests(verb, what, answer, self.fetches_conditionally), read, written)
        return answer

    def begin(
        self, verb: Literal["open", "fetch"], requests: Any, arrived: Arrived | None = None
    ) -> Future[Any] | None:
        came: dict[int, int] = {}

        def seen(number: int, answer: Any, nbytes: int | None = None) -> None:
            if nbytes is None:
                came[number] = _nbytes_read(verb, [answer])  # now: who takes an answer may cut it
            if arrived is not None:
                arrived(number, answer, nbytes)

        def noted(begun: Future[Any]) -> None:
            if not begun.cancelled() and begun.exception() is None:
                answers = enumerate(begun.result())
                read = sum([came[k] if k in came else _nbytes_read(verb, [one]) for k, one in answers])
                self.traffic.note(verb, _requests(verb, requests, None, self.fetches_conditionally), read, 0)

        begun = self.store.begin(verb, requests, seen)
        if begun is not None:
            begun.add_done_callback(noted)
        return begun


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


# -- what a request is about ------------------------------------------------------------------------------------------


def _requests(verb: str, what: Any, answer: Any, conditional: bool) -> int:
    """How many requests a call is. conditional: a pinned look is none."""
    if verb == "fetch":
        return sum(len(ranges) for _, ranges in what)
    if verb == "open" and conditional:
        return sum(not (one.pinned and one.known is not None) for one in what)
    if verb == "hold":
        return sum(not hold.blind for hold in _holds(answer))
    return len(what) if isinstance(what, list | tuple) and verb not in ("set", "set_if") else 1


def _nbytes_to_write(verb: str, what: Any) -> int:
    if verb in ("set", "set_if"):
        return memoryview(what[1]).nbytes
    if verb == "set_partial_values":
        return sum(memoryview(value).nbytes for _, _, value in what)
    if verb == "commit":
        return sum(_written(change) for change in what)
    return 0


def _holds(answer: Hold | list[Hold]) -> Sequence[Hold]:
    return answer if isinstance(answer, list) else [answer]


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
        return sum(_nbytes(hold.source.first) for hold in _holds(answer) if hold.source is not None)
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
