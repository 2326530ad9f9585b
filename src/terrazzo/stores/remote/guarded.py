"""Object stores whose servers nobody vouches for: what is read, written, erased and listed goes by requests of our
own, which follow no redirect to another origin.

What it does not do: upload in parts, nor what signing.py has no way for (`writes`, `lists`): obstore does, and follows.
Specification: RFC 9110, 13 and 14; what services add to it stands in signing.py.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from terrazzo.stores.contract import Buffer, Range
from terrazzo.stores.remote import listing
from terrazzo.stores.remote.client import ABSENT, ObstoreClient
from terrazzo.stores.remote.exchange import Exchange, conditions, get, head, version_in
from terrazzo.stores.remote.policy import Failure
from terrazzo.stores.remote.signing import ObjectWay, Presigned, Signed
from terrazzo.stores.remote.version import HISTORY_KEY, Answer, Version

__all__ = ["GuardedClient"]

#: bodies that are hashed beside the loop
LARGE = 1 << 18


class GuardedClient(ObstoreClient):
    """An object store of obstore, most requests to which take `way`."""

    def __init__(self, way: ObjectWay, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.way = way
        if isinstance(way, Presigned):
            way.store = self._store

    async def get(
        self,
        path: str,
        window: Range,
        *,
        match: str | None = None,
        unless: str | None = None,
        most: int | None = None,
    ) -> Answer:
        return await get(self.way, self.meter, path, window, conditions(match, unless), most)

    async def head(self, path: str) -> Answer:
        return await head(self.way, self.meter, path)

    async def batches(self, prefix: str, after: str | None = None) -> AsyncIterator[Sequence[str]]:
        pages = (
            listing.pages(self.way, prefix, "", after) if self.way.lists else super().batches(prefix, after)
        )
        async for page in pages:
            yield page.keys if isinstance(page, listing.Page) else page

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        if not self.way.lists:
            return await super().list_dir(prefix)
        keys: list[str] = []
        prefixes: list[str] = []
        async with self._in_time():
            async for page in listing.pages(self.way, prefix, "/"):
                keys += page.keys
                prefixes += [one.removesuffix("/") for one in page.prefixes]
        return keys, prefixes

    async def put(
        self, path: str, body: Buffer, condition: Version | str | None, etag: str | None, history: str | None
    ) -> Version | None:
        # metadata is a header that has to be signed; a probe's first write has none, and shows where writes lead to
        probes = history is None and condition is ABSENT and self.way.kind == "S3Store"
        if not (self.way.writes or probes):
            return await super().put(path, body, condition, etag, history)
        headers = conditions(etag, "*" if condition is ABSENT else None)
        if history is not None:
            headers[f"x-{'ms' if self.way.kind == 'AzureStore' else 'amz'}-meta-{HISTORY_KEY}"] = history
        if isinstance(self.way, Signed):
            headers["x-amz-content-sha256"] = await _hashed(body) if self.way.payload else "UNSIGNED-PAYLOAD"
        if self.way.kind == "AzureStore":
            headers["x-ms-blob-type"] = "BlockBlob"
        try:
            async with Exchange(self.way, "PUT", path, headers, body) as response:
                stored = version_in(self.way, response, memoryview(body).nbytes)
        except Failure as failure:
            if failure.kind == "absent" and etag is not None:
                raise Failure("condition") from None
            failure.applied = failure.kind == "again"
            raise
        return stored if stored.etag is not None else None

    async def _delete(self, path: str) -> None:
        try:
            async with Exchange(self.way, "DELETE", path, {}):
                pass
        except Failure as failure:
            failure.applied = failure.kind == "again"
            if failure.kind != "absent":
                raise

    async def _delete_many(self, paths: Sequence[str]) -> None:
        if not self.way.lists:
            return await super()._delete_many(paths)
        try:
            await listing.delete(self.way, paths)
        except Failure as failure:
            failure.applied = failure.kind == "again"
            raise


async def _hashed(body: Buffer) -> str:
    def digest() -> str:
        return hashlib.sha256(body).hexdigest()

    if memoryview(body).nbytes < LARGE:
        return digest()
    return await asyncio.get_running_loop().run_in_executor(None, digest)
