"""Writing so that no other writer's update is lost: conditions, the probe that tells whether a service keeps them, and
whether a write whose acknowledgement was lost has happened.

What it does not do: merge (the write flow does, when it is told ConflictError).
Specification: RFC 9110, 13.1.1 (If-Match) and 13.1.2 (If-None-Match).

Every write under a condition leaves a random mark in the object's user metadata, before the marks of the writes it
builds on. After a write whose answer was lost, the marks tell whether it happened, also when others wrote since.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import secrets
from collections.abc import Awaitable, Callable, Hashable
from typing import TYPE_CHECKING, Any

from terrazzo.errors import ConflictError, StoreError, UnsupportedError
from terrazzo.stores.contract import Buffer, Hold
from terrazzo.stores.remote.client import ABSENT, Client
from terrazzo.stores.remote.policy import Failure, Patience
from terrazzo.stores.remote.sink import RemoteSink
from terrazzo.stores.remote.version import Answer, Version, history_text, new_mark

if TYPE_CHECKING:
    from terrazzo.stores.remote.place import Place

__all__ = ["Verdict", "Writing", "verdict_on"]

Condition = Version | str | None

#: what a stale tag looks like that no object ever had
STALE = '"00000000000000000000000000000000"'
#: a probe that lost answers disturbed is made again; of those at a fifth of answers lost, two in three are disturbed
PROBES = 20


class Verdict:
    """What is known about a service. trusted: a probe found that it refuses stale writes (what a probe finds amiss is
    no part of it: services are mended). bare: ETags go without their quotes (Ceph's gateway wants that), None as long
    as unknown."""

    def __init__(self) -> None:
        self.trusted = False
        self.bare: bool | None = None
        self._turn: tuple[int, asyncio.Lock] | None = None

    def turn(self) -> asyncio.Lock:
        if self._turn is None or self._turn[0] != os.getpid():
            self._turn = (os.getpid(), asyncio.Lock())
        return self._turn[1]


_verdicts: dict[Hashable, Verdict] = {}


def verdict_on(service: Hashable) -> Verdict:
    """What this process knows of a service; one object for all stores of it."""
    return _verdicts.setdefault(service, Verdict())


class Writing:
    """The writes of one store."""

    def __init__(self, place: Place, client: Client, patience: Patience) -> None:
        self._place = place
        self._client = client
        self._patience = patience
        self._verdict = verdict_on(place.service)
        #: what the probe of this store found amiss, "" as long as nothing
        self._problem = ""

    # -- objects ------------------------------------------------------------------------------------------------------

    async def put_sink(self, hold: Hold, sink: RemoteSink) -> Version | None:
        """The object that a hold is for becomes what `sink` holds."""
        condition: Condition = ABSENT
        if hold.blind:
            condition = None
        elif hold.source is not None:
            assert isinstance(hold.source.tag, Version)
            condition = hold.source.tag
        file = sink.file
        if file is not None and (condition is None or self._place.single_writer):
            return await self._put_parts(hold.key, file, sink.nbytes)
        body = sink.body()
        try:
            return await self.put(hold.key, body, condition)
        finally:
            if isinstance(body, mmap.mmap):
                try:
                    body.close()
                except BufferError:  # a request that was cancelled still has it; it goes with that
                    pass

    async def put(self, key: str, body: Buffer, condition: Condition) -> Version | None:
        """`body` becomes the object; ConflictError where `condition` (a version, ABSENT, or None) does not hold."""
        place = self._place
        if place.single_writer:
            condition = None
        elif condition is not None:
            await self.trusted()
            if isinstance(condition, Version) and not (condition.strong or condition.generation):
                raise UnsupportedError(
                    f"{key!r} in {place.name}: the service gives no ETag that a write could be compared with "
                    f"({condition.etag or 'none'}); {_ALONE}"
                )
        mark = new_mark()
        before = condition.history if isinstance(condition, Version) else ()
        text = None if place.single_writer else history_text(mark, before)
        nbytes = memoryview(body).nbytes
        try:
            async with self._client.turn():
                stored = await self._patience.ask(lambda _: self._put(key, body, condition, text), nbytes)
        except Failure as failure:
            if failure.applied and condition is not None:
                found = await self._ours(key, mark, body)
                if not isinstance(found, bool):
                    return found
            if failure.kind == "condition" and condition is not None:
                what = "is there already" if condition is ABSENT else "is not the version that was read"
                raise ConflictError(f"{key!r} in {place.name} {what}; nothing was written") from None
            raise self._told(failure, key) from None
        if stored is not None and text is not None:
            stored.history = (mark, *before)
        return stored

    async def _put(self, key: str, body: Buffer, condition: Condition, history: str | None) -> Version | None:
        path = self._place.prefix + key
        if not isinstance(condition, Version) or condition.etag is None:
            return await self._client.put(path, body, condition, None, history)
        etag = condition.etag
        try:
            text = etag.strip('"') if self._verdict.bare else etag
            return await self._client.put(path, body, condition, text, history)
        except Failure as failure:
            # a service may take a tag without quotes for none at all, and write: reading tells which it wants
            if failure.kind != "condition" or self._verdict.bare is not None:
                raise
            await self._learn_spelling(path, condition)
            if not self._verdict.bare:
                raise
        return await self._client.put(path, body, condition, etag.strip('"'), history)

    async def _learn_spelling(self, path: str, version: Version) -> None:
        """Find out how tags are spelled, if the object still is `version`."""
        try:
            await self.by_tag(version, lambda text: self._client.get(path, (0, 1), match=text))
        except Failure:
            pass

    async def _put_parts(self, key: str, file: Any, nbytes: int) -> Version | None:
        try:
            async with self._client.turn():
                return await self._patience.ask(
                    lambda _: self._client.put_parts(self._place.prefix + key, file, nbytes), nbytes
                )
        except Failure as failure:
            raise self._told(failure, key) from None

    async def by_tag(self, version: Version, request: Callable[[str], Awaitable[Answer]]) -> Answer:
        """A read with the tag of a version, spelled as the service wants it."""
        etag = version.etag
        assert etag is not None
        verdict = self._verdict
        bare = etag.strip('"')
        if verdict.bare is not None or bare == etag:
            return await request(bare if verdict.bare else etag)
        try:
            answer = await request(etag)
        except Failure as failure:
            if failure.kind != "condition":
                raise
            answer = await request(bare)
            if answer.version != version:  # a tag without quotes was taken for none
                raise failure from None
            verdict.bare = True
        else:
            if answer.version == version:
                verdict.bare = False
        return answer

    async def _ours(self, key: str, mark: str, body: Buffer) -> Version | bool | None:
        """After a write that may have happened: the version that it made (None where others wrote since), or False
        where it did not happen."""
        path = self._place.prefix + key
        try:
            async with self._client.turn():
                found = await self._patience.ask(lambda _: self._client.head(path))
                history = found.version.history
                if not history and found.size == memoryview(body).nbytes:
                    # a service that drops metadata: equal bytes are what was asked for, whoever wrote them
                    whole = await self._patience.ask(
                        lambda _: self._client.get(path, (0, None), most=found.size), found.size
                    )
                    return whole.version if whole.body == bytes(body) else False
        except Failure as failure:
            if failure.kind == "absent":
                return False
            raise StoreError(
                f"{key!r} in {self._place.name}: the answer to a write was lost, and whether it happened could not "
                f"be asked: {failure.text}"
            ) from None
        if mark not in history:
            return False
        return found.version if history[0] == mark else None

    def _told(self, failure: Failure, key: str) -> StoreError:
        kind = UnsupportedError if failure.kind == "unsupported" else StoreError
        unsure = "; it may have been written all the same" if failure.applied else ""
        return kind(f"{key!r} in {self._place.name}: writing failed: {failure.text}{unsure}")

    # -- the probe ----------------------------------------------------------------------------------------------------

    async def trusted(self) -> None:
        """Return where the service refuses stale writes; UnsupportedError with the reason where it does not."""
        verdict = self._verdict
        if self._place.trusted or verdict.trusted:
            return
        async with verdict.turn():
            if not (verdict.trusted or self._problem):
                self._problem = await self._probe()
                verdict.trusted = not self._problem
        if self._problem:
            raise UnsupportedError(
                f"{self._place.name} cannot be written to by several at a time: {self._problem}; {_ALONE}"
            )

    async def _probe(self) -> str:
        """The problem, or "". Its object is gone afterwards."""
        for _ in range(PROBES):
            key = f".terrazzo-probe-{secrets.token_hex(8)}"
            try:
                return await self._ask_all(self._place.prefix + key)
            except _Disturbed:
                continue
            except Failure as failure:
                if failure.kind == "unsupported":
                    return f"the service does not support conditional writes ({failure.text})"
                raise StoreError(
                    f"{self._place.name}: whether the service keeps conditions could not be asked: {failure.text}"
                ) from None
            finally:
                await self._clear_away(self._place.prefix + key)
        raise StoreError(
            f"{self._place.name}: whether the service keeps conditions could not be asked: answers were lost each time"
        )

    async def _clear_away(self, path: str) -> None:
        try:
            await self._patience.ask(lambda _: self._client.delete([path]))
        except Failure:
            pass

    async def _ask_all(self, path: str) -> str:
        first = await self._succeeds(path, b"first", ABSENT, None)
        if first is None or first.etag is None:
            return "it gives no ETag for what was written"
        if not await self._refused(path, b"second", ABSENT, None):
            return "it ignores If-None-Match, so that of two who make one object both are told that they did"
        if not first.strong:
            return f"its ETags are weak ({first.etag})"
        for _ in range(2):
            seen = (await self._patience.ask(lambda _: self._client.head(path))).version
            if seen != first:
                return "its ETags change while the object stays the same"
        for stale in (STALE, STALE.strip('"')):
            if not await self._refused(
                path, b"stale", Version(stale, stale, first.generation and "1"), stale
            ):
                return "it ignores If-Match, so that a stale write would replace a newer one"
        second = None
        for bare in (False, True):
            etag = first.etag.strip('"') if bare else first.etag
            try:
                second = await self._succeeds(path, b"third", first, etag)
            except Failure as failure:
                if failure.kind != "condition":
                    raise
                continue
            self._verdict.bare = bare
            break
        if second is None:
            return "it refuses writes whose If-Match is right"
        if second == first:
            return "its ETag did not change with the object"
        etag = first.etag.strip('"') if self._verdict.bare else first.etag
        if not await self._refused(path, b"stale", first, etag):
            return "it ignores If-Match, so that a stale write would replace a newer one"
        return ""

    async def _succeeds(
        self, path: str, body: bytes, condition: Condition, etag: str | None
    ) -> Version | None:
        try:
            return await self._patience.ask(lambda _: self._client.put(path, body, condition, etag, None))
        except Failure as failure:
            if failure.applied and failure.kind == "condition":
                raise _Disturbed from None  # refused by what it wrote itself
            raise

    async def _refused(self, path: str, body: bytes, condition: Condition, etag: str | None) -> bool:
        try:
            await self._patience.ask(lambda _: self._client.put(path, body, condition, etag, None))
        except Failure as failure:
            if failure.kind == "condition":
                return True
            raise
        return False


class _Disturbed(Exception):
    """A probe's own write may have happened twice: its answers mean nothing."""


_ALONE = (
    "where nobody else writes at the same time, open it with single_writer=True; otherwise use a service that keeps "
    "conditions"
)
