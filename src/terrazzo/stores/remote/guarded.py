"""Object stores whose servers nobody vouches for: reads, and writes and deletions of one object, go by requests of our
own, which follow no redirect to another origin; the rest is obstore's.

What it does not do: list, erase many at once, or upload in parts; obstore's client does, and follows redirects.
Specification: RFC 9110, 13 and 14; what services add to it stands in signing.py.
"""

from __future__ import annotations

from typing import Any

from terrazzo.stores.contract import Buffer, Range
from terrazzo.stores.remote.client import ABSENT, ObstoreClient
from terrazzo.stores.remote.exchange import Exchange, conditions, get, head, version_in
from terrazzo.stores.remote.policy import Failure
from terrazzo.stores.remote.signing import ObjectWay, Presigned
from terrazzo.stores.remote.version import HISTORY_KEY, Answer, Version

__all__ = ["GuardedClient"]


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

    async def put(
        self, path: str, body: Buffer, condition: Version | str | None, etag: str | None, history: str | None
    ) -> Version | None:
        # a probe's first write has no metadata that would have to be signed, and shows where writes lead to
        probes = history is None and condition is ABSENT and self.way.kind == "S3Store"
        if not (self.way.writes or probes):
            return await super().put(path, body, condition, etag, history)
        headers = conditions(etag, "*" if condition is ABSENT else None)
        if history is not None:
            headers[f"x-{'ms' if self.way.kind == 'AzureStore' else 'amz'}-meta-{HISTORY_KEY}"] = history
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
