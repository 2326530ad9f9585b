"""Reading from a service: one object's bytes or version per request, tried again as patience has it.

What it does not do: open sources or hold keys (store.py); write (conditions.py).
Specification: RFC 9110, 14 (ranges): suffix ranges, and what stands in for them where a service has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from terrazzo.errors import ConflictError, StoreError, UnsupportedError
from terrazzo.stores.contract import ALL, Buffer, Range
from terrazzo.stores.remote.client import LARGEST, Client
from terrazzo.stores.remote.loop import together
from terrazzo.stores.remote.policy import Failure, Patience, telling
from terrazzo.stores.remote.version import Answer, Version
from terrazzo.stores.store import Arrived

if TYPE_CHECKING:
    from terrazzo.stores.remote.conditions import Writing
    from terrazzo.stores.remote.place import Place

__all__ = ["Ranges", "Reading"]

T = TypeVar("T")

#: read whole, by a range that ends where too large ones do
DOCUMENTS = (".json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")


class Ranges(NamedTuple):
    """Answers of `fetch`, the requests that are still to be made, and where their answers go."""

    answers: list[list[Buffer]]
    asked: list[Callable[[], Awaitable[bytes]]]
    places: list[tuple[int, int]]

    async def fetched(self, arrived: Arrived | None = None) -> list[list[Buffer]]:
        """All answers; `arrived` is told of each object's once they are there, and of a single range while it comes."""
        left = Counter([i for i, _ in self.places])

        def keep(number: int, part: bytes) -> None:
            i, j = self.places[number]
            self.answers[i][j] = part
            left[i] -= 1
            if arrived is not None and not left[i]:
                arrived(i, self.answers[i])

        async def told(ask: Callable[[], Awaitable[bytes]], i: int) -> bytes:
            if arrived is not None and len(self.answers[i]) == 1:
                telling.set(lambda buffer, nbytes: arrived(i, buffer, nbytes))  # for this request alone
            return await ask()

        works = [partial(told, ask, i) for ask, (i, _) in zip(self.asked, self.places, strict=True)]
        await together(works, keep)
        return self.answers


class Reading:
    """The reads of one store."""

    def __init__(self, place: Place, client: Client, patience: Patience, writing: Writing) -> None:
        self._place = place
        self._client = client
        self._patience = patience
        self._writing = writing
        self._prefix = place.prefix
        self._suffixes = True  # until the service says that it has none

    async def get(
        self, key: str, window: Range, version: Version | None = None, unless: Version | None = None
    ) -> Answer | None:
        """The part of a range that lies in the object; None where nothing is stored. Failure "condition" where it is
        not `version`, "unchanged" where it is `unless`."""
        start, length = window
        if length == 0 or start > LARGEST:
            answer = await self.head(key)
            return None if answer is None else answer._replace(body=b"")
        if start < 0 and not self._suffixes:
            return await self._get_suffix(key, -start, version)
        if length is not None:
            length = min(length, LARGEST - start)
        try:
            answer = await self.ask(
                key,
                _named_range(key, window),
                lambda _: self._matched(key, (start, length), version, unless),
            )
        except Failure as failure:
            if failure.kind == "range":  # nothing lies in it: past the end, or of an empty object
                answer = await self.head(key)
                if answer is None:
                    return None
                if version is not None and answer.version != version:
                    raise Failure("condition") from None
                return answer._replace(body=b"")
            if failure.kind == "unsupported" and start < 0:
                self._suffixes = False
                return await self._get_suffix(key, -start, version)
            raise
        if answer is not None and version is not None and answer.version != version:
            raise Failure("condition")
        return answer

    async def _get_suffix(self, key: str, nbytes: int, version: Version | None) -> Answer | None:
        """For services without suffix ranges: the size, then a range of that version."""
        for _ in range(5):
            found = await self.head(key)
            if found is None:
                return None
            start = max(0, found.size - nbytes)
            try:
                return await self.get(key, (start, found.size - start), version or found.version)
            except Failure as failure:
                if failure.kind != "condition" or version is not None:
                    raise
        raise ConflictError(f"{key!r} changed 5 times while it was being read; try again")

    async def _matched(
        self, key: str, window: Range, version: Version | None, unless: Version | None
    ) -> Answer:
        etag = unless.etag if unless is not None else None
        if version is None or not version.strong:
            return await self._client.get(self._prefix + key, window, unless=etag)
        return await self._writing.by_tag(
            version, lambda text: self._client.get(self._prefix + key, window, match=text, unless=etag)
        )

    async def head(self, key: str) -> Answer | None:
        return await self.ask(key, "asking for its version", lambda _: self._client.head(self._prefix + key))

    async def ask(self, key: str, what: str, request: Callable[[int], Awaitable[T]]) -> T | None:
        """An answer after as many tries as patience has; None where nothing is stored. What concerns one version or
        range stays a Failure, everything else becomes a StoreError."""
        try:
            async with self._client.turn():
                return await self._patience.ask(request)
        except Failure as failure:
            if failure.kind == "absent":
                return None
            if failure.kind in ("condition", "unchanged", "range", "unsupported"):
                raise
            raise self.told(failure, key, what) from None

    def told(self, failure: Failure, key: str, what: str) -> StoreError:
        kind = UnsupportedError if failure.kind == "unsupported" else StoreError
        return kind(f"{key!r} in {self._place.shown}: {what} failed: {failure.text}")


def _named_range(key: str, window: Range) -> str:
    start, length = window
    if window == ALL or (start == 0 and key.endswith(DOCUMENTS)):
        return "reading it"
    if start < 0:
        return f"reading its last {-start} bytes"
    return f"reading bytes {start} to {'its end' if length is None else start + length}"
