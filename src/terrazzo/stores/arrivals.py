"""Answers of one batch, taken while others of it are still on their way.

What it does not do: decide what becomes of them (the flows do), or send anything (the stores do).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from terrazzo.errors import StoreError
from terrazzo.stores.contract import Source
from terrazzo.stores.interrupt import interruptible
from terrazzo.stores.store import Store

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["Arrivals", "Came"]

#: bytes that are worth being taken on their own: to decode them takes longer than to ask for it
WORTH = 1 << 20


class Came(NamedTuple):
    """The number of a request in its batch, and its answer; or of a range that is on its way the buffer that it comes
    into, and how many of its first bytes are there."""

    number: int
    answer: Any
    nbytes: int | None = None


class Arrivals:
    """One batch of `Store.open` or `Store.fetch`, begun when it is first waited for, and what has come of it.

    Filled by the store, from any thread, and emptied by one flow. From a store that cannot begin, everything comes at
    once. An error of any request is the error of the batch, and then nothing more is told. What was not taken when the
    batch is closed is dropped. A range that has to be asked for again comes into another buffer: what was taken from
    the first one counts for nothing. at_once: nothing is told before everything is there.
    """

    def __init__(
        self, verb: Literal["open", "fetch"], requests: Sequence[Any], *, at_once: bool = False
    ) -> None:
        self.left = len(requests)  # of the requests: not taken yet
        self._verb: Literal["open", "fetch"] = verb
        self._at_once = at_once
        self._requests = requests
        self._guard = threading.Lock()
        self._told = bytearray(len(requests))
        self._came: list[Came] = []
        self._growing: dict[int, Came] = {}
        self._had: dict[int, tuple[Any, int]] = {}  # of ranges that are on their way, what was told last
        self._nbytes = 0
        self._ended = self._closed = False
        self._error: BaseException | None = None
        self._begins: bool | None = None
        self._begun: Future[Any] | None = None
        self._waiting: Future[list[Came]] | None = None

    def take(self, store: Store) -> list[Came]:
        """What came since the last call; waits until that is worth it, or everything is there."""
        if self.begin(store):
            coming = self.coming()
            with interruptible(self.close):
                return coming.result()
        self._end(store.open(self._requests) if self._verb == "open" else store.fetch(self._requests))
        return self._taken()

    def begin(self, store: Store) -> bool:
        """Whether the store has begun, so that `coming` is an answer to wait for."""
        if self._begins is None:
            begun = store.begin(self._verb, self._requests, None if self._at_once else self._arrived)
            self._begins = begun is not None
            if begun is not None:
                self._begun = begun
                begun.add_done_callback(self._done)
        return self._begins

    def coming(self) -> Future[list[Came]]:
        """`take`, as an answer to come. Cancelled: nobody waits any more; close what is not wanted."""
        from concurrent.futures import Future  # loads logging; here, where somebody waits anyway

        coming: Future[list[Came]] = Future()
        with self._guard:
            self._waiting = coming
        self._settle()
        return coming

    def close(self) -> None:
        """End what is on its way, and drop what was not taken; harmless when repeated."""
        with self._guard:
            self._closed = True
            begun, self._begun = self._begun, None
            unclaimed, self._came = self._came, []
            self._growing.clear()
            self._had.clear()
        if begun is not None:
            begun.cancel()
        self.drop(unclaimed)

    def drop(self, came: Sequence[Came]) -> None:
        """Give up answers that nobody takes."""
        for one in came:
            if isinstance(one.answer, Source):
                one.answer.close()

    # -- what the store tells -----------------------------------------------------------------------------------------

    def _arrived(self, number: int, answer: Any, nbytes: int | None = None) -> None:
        with self._guard:
            if self._closed or self._told[number]:
                return
            if nbytes is None:
                self._keep(number, answer)
            else:
                self._grow(Came(number, answer, nbytes))
        self._settle()

    def _keep(self, number: int, answer: Any) -> None:
        self._told[number] = True
        self._came.append(Came(number, answer))
        if self._verb == "fetch":
            self._nbytes += (
                sum([memoryview(part).nbytes for part in answer]) - self._had.pop(number, (None, 0))[1]
            )
            self._growing.pop(number, None)
        elif answer is not None and answer.first is not None:
            self._nbytes += memoryview(answer.first).nbytes

    def _grow(self, came: Came) -> None:
        assert came.nbytes is not None
        buffer, had = self._had.get(came.number, (None, 0))
        self._nbytes += came.nbytes - (had if buffer is came.answer else 0)
        self._had[came.number] = came.answer, came.nbytes
        self._growing[came.number] = came

    def _done(self, begun: Future[Any]) -> None:
        self._begun = None  # it holds all answers, and this
        if begun.cancelled():
            from concurrent.futures import CancelledError

            self._fail(CancelledError())
        elif (error := begun.exception()) is not None:
            self._fail(error)
        else:
            self._end(begun.result())
        self._settle()

    def _end(self, answers: Sequence[Any]) -> None:
        if len(answers) != len(self._requests):
            self._fail(StoreError(f"{len(answers)} answers came to {len(self._requests)} requests"))
            return
        dropped: list[Came] = []
        with self._guard:
            for number, answer in enumerate(answers):
                if self._closed:
                    dropped.append(Came(number, answer))
                elif not self._told[number]:
                    self._keep(number, answer)
            self._ended = True
        self.drop(dropped)

    def _fail(self, error: BaseException) -> None:
        with self._guard:
            self._ended, self._error = True, error

    def _settle(self) -> None:
        """Answer who waits, once there is enough for that. The last bytes are told with the end of the batch."""
        with self._guard:
            waiting = self._waiting
            few = self._nbytes < WORTH or len(self._came) == self.left
            if waiting is None or (few and not self._ended):
                return
            self._waiting = None
        if not waiting.set_running_or_notify_cancel():
            return
        try:
            came = self._taken()
        except BaseException as error:
            waiting.set_exception(error)
        else:
            waiting.set_result(came)

    def _taken(self) -> list[Came]:
        with self._guard:
            if self._error is not None:
                raise self._error
            came, self._came, self._nbytes = self._came, [], 0
            self.left -= len(came)
            came += self._growing.values()
            self._growing.clear()
            return came
