"""What a remote store asks of a service, one coroutine per request, and obstore as the one who asks.

What it does not do: try again (policy.py), or know keys, holds and flows (store.py). An answer is whole and checked, or
a Failure.
"""

from __future__ import annotations

import asyncio
import os
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakSet

from terrazzo.stores.contract import ALL, Buffer, Range
from terrazzo.stores.remote.meter import Meter
from terrazzo.stores.remote.native import Recipe, build, keep_for_ever, library
from terrazzo.stores.remote.policy import Failure, failure_of, grant
from terrazzo.stores.remote.version import HISTORY_KEY, Answer, Version, history_of, version_of

__all__ = ["ABSENT", "Client", "ObstoreClient"]

#: the condition of a write that makes a new object
ABSENT = "absent"
#: no range can lie past this
LARGEST = 1 << 62
#: one part of a multipart upload; services allow 10,000 parts
PART_NBYTES = 8 << 20


class Client(ABC):
    """The requests that a service takes. Paths are whole names of objects."""

    writable = True
    listable = True

    def __init__(self, meter: Meter, concurrency: int) -> None:
        self.meter = meter
        self._concurrency = concurrency
        self._turns: tuple[int, asyncio.Semaphore] | None = None

    def turn(self) -> asyncio.Semaphore:
        """A request waits for this: so many of them are on their way at once."""
        turns = self._turns
        if turns is None or turns[0] != os.getpid():
            turns = self._turns = (os.getpid(), asyncio.Semaphore(self._concurrency))
        return turns[1]

    @abstractmethod
    async def get(
        self,
        path: str,
        window: Range,
        *,
        match: str | None = None,
        unless: str | None = None,
        most: int | None = None,
    ) -> Answer:
        """The bytes of a range that lie in the object; `match`, `unless`: ETags it has to have, or not to have. A body
        of more than `most` bytes is cut and refused."""

    @abstractmethod
    async def head(self, path: str) -> Answer: ...

    async def put(
        self, path: str, body: Buffer, condition: Version | str | None, etag: str | None, history: str | None
    ) -> Version | None:
        raise Failure("unsupported", "this store is for reading")

    async def put_parts(self, path: str, body: Any, nbytes: int) -> Version | None:
        raise Failure("unsupported", "this store is for reading")

    async def delete(self, paths: Sequence[str]) -> None:
        raise Failure("unsupported", "this store is for reading")

    def batches(self, prefix: str, after: str | None = None) -> AsyncIterator[Sequence[str]]:
        """All paths below a prefix, in order; `after`: those behind this one."""
        raise Failure("unsupported", "this store cannot be listed")

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        raise Failure("unsupported", "this store cannot be listed")


_clients: WeakSet[ObstoreClient] = WeakSet()


class ObstoreClient(Client):
    """A store object of obstore. recipe: how to make it, again in every process; given: one that stays in this one."""

    def __init__(
        self,
        recipe: Recipe | None,
        meter: Meter,
        concurrency: int,
        *,
        given: Any = None,
        steady: Recipe | None = None,
        bulk_delete: bool = False,
        attributes: bool = True,
    ) -> None:
        super().__init__(meter, concurrency)
        self._recipe = recipe
        self._steady = steady  # the same place with obstore's own retries, for what takes many requests
        self._given = given
        self._made: dict[str, Any] = {}
        self._process = os.getpid()
        self._bulk_delete = bulk_delete
        self._attributes = attributes
        _clients.add(self)
        #: seconds for the names of one folder, which are gathered whole: without an end they would fill the memory
        self.longest_listing = 10.0

    # -- requests -----------------------------------------------------------------------------------------------------

    async def get(
        self,
        path: str,
        window: Range,
        *,
        match: str | None = None,
        unless: str | None = None,
        most: int | None = None,
    ) -> Answer:
        asked: dict[str, Any] = {}
        start, length = window
        if start < 0:
            asked["range"] = {"suffix": -start}
        elif length is not None:
            asked["range"] = (start, start + length)
        elif start:
            asked["range"] = {"offset": start}
        if match is not None:
            asked["if_match"] = match
        if unless is not None:
            asked["if_none_match"] = unless
        began = time.perf_counter()
        try:
            result = await library().get_async(self._store(), path, options=asked)
            first = time.perf_counter()
            self.meter.answered(first - began)
            begin, end = result.range
            nbytes = end - begin
            if most is not None and nbytes > most:
                raise Failure("final", f"the object has {nbytes:,} bytes; at most {most:,} are read")
            grant(nbytes)
            body = await _body(result, nbytes)
            self.meter.read(nbytes, time.perf_counter() - first)
            meta, attributes = result.meta, result.attributes
            size = meta["size"]
        except BaseException as error:
            raise _caught(error) from None
        _check_window(window, begin, end, size)
        if len(body) != nbytes:
            more = "more than" if len(body) > nbytes else f"{len(body):,} of"
            raise Failure(
                "final" if len(body) > nbytes else "again", f"{more} the {nbytes:,} bytes announced came"
            )
        return Answer(body, size, _version(meta, attributes))

    async def head(self, path: str) -> Answer:
        began = time.perf_counter()
        try:
            result = await library().get_async(self._store(), path, options={"head": True})
            self.meter.answered(time.perf_counter() - began)
            meta, attributes = result.meta, result.attributes
        except BaseException as error:
            raise _caught(error) from None
        return Answer(None, meta["size"], _version(meta, attributes))

    async def put(
        self, path: str, body: Buffer, condition: Version | str | None, etag: str | None, history: str | None
    ) -> Version | None:
        mode: Any = "overwrite"
        if condition is ABSENT:
            mode = "create"
        elif isinstance(condition, Version):
            # obstore refuses a key whose value is None
            version = condition.generation
            mode = {name: text for name, text in (("e_tag", etag), ("version", version)) if text is not None}
        named: dict[str, Any] = {"mode": mode, "use_multipart": False}
        if history is not None and self._attributes:
            named["attributes"] = {HISTORY_KEY: history}
        try:
            result = await library().put_async(self._store(), path, body, **named)
        except BaseException as error:
            if _is_untagged(error):
                return None
            raise _caught(error, write=True) from None
        return _stored(result, memoryview(body).nbytes)

    async def put_parts(self, path: str, body: Any, nbytes: int) -> Version | None:
        body.seek(0)
        part = max(PART_NBYTES, -(-nbytes // 9_000))
        try:
            result = await library().put_async(
                self._store(steady=True), path, body, use_multipart=True, chunk_size=part, max_concurrency=4
            )
        except BaseException as error:
            if _is_untagged(error):
                return None
            raise _caught(error, write=True) from None
        return _stored(result, nbytes)

    async def delete(self, paths: Sequence[str]) -> None:
        if self._bulk_delete and len(paths) > 1:
            try:
                await self._delete_many(paths)
                return
            except Failure as failure:
                if failure.kind in ("again", "denied"):
                    raise
                self._bulk_delete = False  # S3's way of deleting many, which not every service has
        await asyncio.gather(*(self._delete(path) for path in paths))

    async def _delete_many(self, paths: Sequence[str]) -> None:
        try:
            await library().delete_async(self._store(steady=True), list(paths))
        except BaseException as error:
            raise _caught(error, write=True) from None

    async def _delete(self, path: str) -> None:
        try:
            await library().delete_async(self._store(), path)
        except BaseException as error:
            failure = _caught(error, write=True)
            if isinstance(failure, Failure) and failure.kind == "absent":
                return
            raise failure from None

    async def batches(self, prefix: str, after: str | None = None) -> AsyncIterator[Sequence[str]]:
        try:
            stream = library().list(self._store(steady=True), prefix or None, offset=after, chunk_size=1000)
            async for batch in stream:
                yield [entry["path"] for entry in batch]
        except (GeneratorExit, asyncio.CancelledError):
            raise
        except BaseException as error:
            raise _caught(error) from None

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        async with self._in_time():
            try:
                found = await library().list_with_delimiter_async(self._store(steady=True), prefix or None)
            except BaseException as error:
                raise _caught(error) from None
        return [entry["path"] for entry in found["objects"]], list(found["common_prefixes"])

    @asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        """The names of one folder, which are gathered whole, come to an end."""
        try:
            async with asyncio.timeout(self.longest_listing):
                yield
        except TimeoutError:
            raise Failure(
                "final",
                f"the names directly below it did not end within {self.longest_listing:.3g} s (a third of `timeout`)",
            ) from None

    # -- below --------------------------------------------------------------------------------------------------------

    def keep_what_was_inherited(self) -> None:
        """In a forked child: nothing of the parent's is freed, or used."""
        for made in self._made.values():
            keep_for_ever(made)
        self._made = {}
        self._process = os.getpid()

    def adopt(self, made: Any) -> None:
        """Use what was made by the recipe already."""
        self._made["plain"] = made

    def _store(self, steady: bool = False) -> Any:
        if self._process != os.getpid():
            self.keep_what_was_inherited()
        if self._given is not None:
            return self._given
        recipe = self._steady if steady and self._steady is not None else self._recipe
        assert recipe is not None
        name = "steady" if recipe is self._steady else "plain"
        made = self._made.get(name)
        if made is None:
            try:
                made = self._made[name] = build(recipe)
            except BaseException as error:
                raise _caught(error) from None
        return made


async def _body(result: Any, nbytes: int) -> bytes:
    """The body, and never more than about `nbytes` of it: a piece is handed over when it has one byte more, or all."""
    if nbytes == 0:
        return b""
    stream = result.stream(min_chunk_size=nbytes + 1)
    try:
        found: bytes = await stream.__anext__()
    except StopAsyncIteration:
        return b""
    return found


def _check_window(window: Range, begin: int, end: int, size: int) -> None:
    start, length = window
    if window == ALL:
        expected = (0, size)
    elif start < 0:
        expected = (max(0, size + start), size)
    else:
        expected = (start, size if length is None else min(size, start + length))
    if (begin, end) != expected:
        raise Failure(
            "final",
            f"the server sent bytes {begin} to {end} of {size}, asked for {expected[0]} to {expected[1]}",
        )


def _version(meta: Mapping[str, Any], attributes: Mapping[str, str]) -> Version:
    history = history_of(attributes)
    return version_of(meta["e_tag"], meta["version"], meta["last_modified"], meta["size"], history)


def _stored(result: Mapping[str, Any], nbytes: int) -> Version | None:
    etag = result["e_tag"]
    return version_of(etag, result["version"], None, nbytes) if etag else None


def _is_untagged(error: BaseException) -> bool:
    """A write that happened, and whose answer had no ETag, which obstore takes for an error."""
    return "ETag Header missing" in str(error)[:2000]


def _caught(error: BaseException, *, write: bool = False) -> BaseException:
    """What leaves this file: cancellations and interrupts as they are, everything else as a Failure."""
    if isinstance(error, asyncio.CancelledError | KeyboardInterrupt | SystemExit):
        return error
    from terrazzo.errors import TerrazzoError

    return error if isinstance(error, TerrazzoError) else failure_of(error, write=write)


def _after_fork() -> None:
    for client in list(_clients):
        client.keep_what_was_inherited()


if hasattr(os, "register_at_fork"):  # Windows has none
    os.register_at_fork(after_in_child=_after_fork)
