"""An honest place for objects, in this process: S3's verbs and plain HTTP, with switches for what a place can lack.

What it does not do: check signatures or keep anything on a disk. Requests are answered one by one in one loop, so that
its conditions are exact; `latency` is waited for beside the others. Paths are `/<bucket>/<key>`; any bucket exists.

`python -m tests.remote.place --latency 0.02` runs one in a process of its own and prints its port.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import itertools
import re
import ssl
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from xml.sax.saxutils import escape

from tests.remote.wire import Answer, Request, WireServer

__all__ = ["Place", "Twist"]

#: takes a request and the honest answer to it, and gives another
Twist = Callable[[Request, Answer], Answer | Awaitable[Answer]]
MODIFIED = "Fri, 02 Jan 2026 03:04:05 GMT"
PAGE = 1000


class Place(WireServer):
    """Objects in `objects`, path -> bytes. What it lacks: conditions=False takes any PUT and any GET; ranges=False
    sends all; tags "strong", "weak", "none", "changing"."""

    def __init__(
        self,
        *,
        latency: float = 0.0,
        conditions: bool = True,
        ranges: bool = True,
        tags: str = "strong",
        twist: Twist | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(tls)
        self.objects: dict[str, bytes] = {}
        self.latency, self.conditions, self.ranges, self.tags, self.twist = (
            latency,
            conditions,
            ranges,
            tags,
            twist,
        )
        self.requests: list[Request] = []
        self.counts: Counter[str] = Counter()
        self.sent_nbytes = 0
        self.most_at_once = self._at_once = 0
        self._uploads: dict[str, dict[int, bytes]] = {}
        self._names = itertools.count(1)
        self._tags: dict[str, str] = {}
        self._metadata: dict[str, dict[str, str]] = {}

    async def serve(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            if self.latency:
                await asyncio.sleep(self.latency)
            self.counts[request.method] += 1
            self.requests.append(request)
            del self.requests[:-5000]
            answer = self.answer(request)
            if self.twist is not None:
                twisted = self.twist(request, answer)
                answer = await twisted if isinstance(twisted, Awaitable) else twisted
            if isinstance(answer.body, bytes) and request.method != "HEAD":
                self.sent_nbytes += len(answer.body)
            return await self.send(writer, request, answer)
        finally:
            self._at_once -= 1

    # -- verbs ----------------------------------------------------------------------------------------------------

    def answer(self, request: Request) -> Answer:
        """What an honest place says."""
        query, path = request.query, request.path
        if request.method in ("GET", "HEAD"):
            if "list-type" in query or ("prefix" in query and path.count("/") == 1):
                return self._listed(path.strip("/").partition("/")[0], query)
            return self._read(request)
        if request.method == "PUT":
            if "uploadId" in query:
                self._uploads[query["uploadId"]][int(query["partNumber"])] = request.body
                return Answer(200, {"ETag": _digest(request.body)})
            return self._stored(request, request.body)
        if request.method == "DELETE":
            if "uploadId" in query:
                self._uploads.pop(query["uploadId"], None)
            else:
                self._dropped(path)
            return Answer(204)
        if request.method == "POST":
            return self._posted(request)
        return Answer(405)

    def tag(self, path: str) -> str | None:
        if self.tags == "none":
            return None
        if self.tags == "changing":
            return f'"{next(self._names):032x}"'
        tag = self._tags.get(path)
        if tag is None:
            tag = self._tags[path] = _digest(self.objects[path])
        return f"W/{tag}" if self.tags == "weak" else tag

    def _told(self, path: str) -> dict[str, str]:
        told = {
            "Last-Modified": MODIFIED,
            "Accept-Ranges": "bytes",
            "Content-Type": "application/octet-stream",
        }
        told |= self._metadata.get(path, {})
        tag = self.tag(path)
        return told if tag is None else {**told, "ETag": tag}

    def _refused(self, request: Request) -> Answer | None:
        """The answer to a condition that does not hold."""
        if not self.conditions:
            return None
        path = request.path
        present = path in self.objects
        wanted, unwanted = request.headers.get("if-match"), request.headers.get("if-none-match")
        tag = self.tag(path) if present else None
        if wanted is not None and (tag is None or (wanted != "*" and wanted.strip('"') != tag.strip('"'))):
            return _error(412, "PreconditionFailed") if present else _error(404, "NoSuchKey")
        if unwanted is not None and tag is not None and unwanted in ("*", tag):
            return Answer(304) if request.method in ("GET", "HEAD") else _error(412, "PreconditionFailed")
        return None

    def _read(self, request: Request) -> Answer:
        path = request.path
        if path not in self.objects:
            return _error(404, "NoSuchKey")
        if (refused := self._refused(request)) is not None:
            return refused
        value, headers = self.objects[path], self._told(path)
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", request.headers.get("range", ""))
        if asked is None or not self.ranges:
            return Answer(200, {**headers, "Content-Length": str(len(value))}, value)
        start, end = asked[1], asked[2]
        if start == "":
            first, last = max(0, len(value) - int(end)), len(value)
        else:
            first, last = int(start), min(len(value), int(end) + 1 if end else len(value))
        if first >= last:
            return Answer(416, {"Content-Range": f"bytes */{len(value)}"})
        headers["Content-Range"] = f"bytes {first}-{last - 1}/{len(value)}"
        return Answer(206, {**headers, "Content-Length": str(last - first)}, value[first:last])

    def _stored(self, request: Request, value: bytes) -> Answer:
        if (refused := self._refused(request)) is not None:
            return refused
        path = request.path
        self.objects[path] = value
        self._tags.pop(path, None)
        self._metadata[path] = {
            name: text for name, text in request.headers.items() if name.startswith("x-amz-meta-")
        }
        tag = self.tag(path)
        return Answer(200, {} if tag is None else {"ETag": tag})

    def _dropped(self, path: str) -> None:
        for kept in (self.objects, self._tags, self._metadata):
            kept.pop(path, None)

    def _posted(self, request: Request) -> Answer:
        query, path = request.query, request.path
        bucket, _, key = path.lstrip("/").partition("/")
        if "delete" in query:
            names = re.findall(rb"<Key>(.*?)</Key>", request.body)
            for name in names:
                self._dropped(f"/{bucket}/{_plain(name.decode())}")
            gone = "".join(f"<Deleted><Key>{name.decode()}</Key></Deleted>" for name in names)
            return _xml(f"<DeleteResult>{gone}</DeleteResult>")
        if "uploads" in query:
            name = f"upload{next(self._names)}"
            self._uploads[name] = {}
            return _xml(
                f"<InitiateMultipartUploadResult><Bucket>{bucket}</Bucket><Key>{escape(key)}</Key>"
                f"<UploadId>{name}</UploadId></InitiateMultipartUploadResult>"
            )
        if "uploadId" in query:
            parts = self._uploads.get(query["uploadId"], {})
            answer = self._stored(request, b"".join(parts[n] for n in sorted(parts)))
            if answer.status != 200:
                return answer
            self._uploads.pop(query["uploadId"], None)
            tag = escape(answer.headers.get("ETag", ""))
            return _xml(
                f"<CompleteMultipartUploadResult><Bucket>{bucket}</Bucket><Key>{escape(key)}</Key>"
                f"<ETag>{tag}</ETag></CompleteMultipartUploadResult>"
            )
        return Answer(405)

    # -- listing --------------------------------------------------------------------------------------------------

    def keys(self, bucket: str, prefix: str, after: str) -> Iterator[tuple[str, int]]:
        """(key, bytes) in order, from the one behind `after` on."""
        start = f"/{bucket}/"
        names = sorted(path[len(start) :] for path in self.objects if path.startswith(start + prefix))
        return ((name, len(self.objects[start + name])) for name in names if name > after)

    def _listed(self, bucket: str, query: dict[str, str]) -> Answer:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        page = min(int(query.get("max-keys", PAGE)), PAGE)
        found: dict[str, str] = {}
        last, more = "", False
        for key, nbytes in self.keys(bucket, prefix, after):
            below = key[len(prefix) :].split(delimiter, 1) if delimiter else [key]
            common = prefix + below[0] + delimiter if len(below) > 1 else None
            if common is not None and (common in found or after.startswith(common)):
                last = key
                continue
            if len(found) == page:
                more = True
                break
            last = key
            if common is not None:
                found[common] = f"<CommonPrefixes><Prefix>{_shown(common)}</Prefix></CommonPrefixes>"
            else:
                found[key] = (
                    f"<Contents><Key>{_shown(key)}</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified>"
                    f"<ETag>&quot;0&quot;</ETag><Size>{nbytes}</Size><StorageClass>STANDARD</StorageClass></Contents>"
                )
        following = f"<NextContinuationToken>{_shown(last)}</NextContinuationToken>" if more else ""
        return _xml(
            f"<ListBucketResult><Name>{bucket}</Name><Prefix>{_shown(prefix)}</Prefix>"
            f"<KeyCount>{len(found)}</KeyCount><MaxKeys>{page}</MaxKeys>"
            f"<IsTruncated>{str(more).lower()}</IsTruncated>{following}{''.join(found.values())}</ListBucketResult>"
        )


def _digest(value: bytes) -> str:
    return f'"{hashlib.md5(value, usedforsecurity=False).hexdigest()}"'


def _shown(text: str) -> str:
    """Text inside XML; what has no place there (control characters) as a reference, as some servers do."""
    return re.sub(r"[\x00-\x1f\x7f]", lambda found: f"&#{ord(found[0])};", escape(text))


def _plain(text: str) -> str:
    for name, character in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&")):
        text = text.replace(name, character)
    return text


def _xml(text: str) -> Answer:
    return Answer(
        200, {"Content-Type": "application/xml"}, f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode()
    )


def _error(status: int, code: str) -> Answer:
    answer = _xml(f"<Error><Code>{code}</Code><Message>{code}</Message></Error>")
    answer.status = status
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.0)
    asked = parser.parse_args()
    with Place(latency=asked.latency) as place:
        print(place.port, flush=True)
        sys.stdin.read()  # until whoever started it ends


if __name__ == "__main__":
    main()
