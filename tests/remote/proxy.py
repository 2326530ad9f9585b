"""A proxy that does to requests what networks and services do: it loses answers, resets, refuses, drips, waits.

What it does not do: understand what passes. What happens to the n-th request follows from the seed; `told` says what
did. A request reaches the server behind it whole or not at all.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping

from tests.remote.wire import LOOPBACK, Answer, Cut, Request, WireServer, read_answer

__all__ = ["FAULTS", "FaultProxy"]

#: what can happen to a request
FAULTS = {
    "lost": "the server did it; its answer is lost, and the connection reset",
    "late 500": "the server did it; the answer says 500",
    "reset": "nothing reaches the server; the connection is reset",
    "cut": "the answer stops half way, and the connection is reset",
    "short": "the answer stops half way, and the connection is closed in good order",
    "500": "500, not done",
    "503": "503 SlowDown, not done",
    "429": "429 with Retry-After, not done",
    "drip": "the answer comes in small pieces",
}
REFUSALS = {"500": "InternalError", "503": "SlowDown", "429": "TooManyRequests"}


class FaultProxy(WireServer):
    """In front of the server at `port`: each of `faults` (its name: its share of the requests) happens by chance.

    latency: seconds ahead of every request. drip: seconds that a dripping answer takes. retry_after: what 429 asks for.
    """

    def __init__(
        self,
        port: int,
        faults: Mapping[str, float] | None = None,
        *,
        seed: int = 0,
        latency: float = 0.0,
        drip: float = 0.05,
        retry_after: int = 0,
    ) -> None:
        super().__init__()
        unknown = set(faults or ()) - set(FAULTS)
        assert not unknown, f"no such faults: {sorted(unknown)}"
        self.behind, self.faults, self.latency, self.drip = port, dict(faults or {}), latency, drip
        self.retry_after = retry_after
        self.seed = seed
        self._dice = random.Random(seed)
        self.requests: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.told: list[tuple[str, str, str, int]] = []
        self.sent_nbytes = self.received_nbytes = 0
        self.open = True

    def fate(self) -> str:
        """What happens to the next request: a fault, or "" for nothing."""
        at = self._dice.random()
        for name, share in self.faults.items():
            at -= share
            if at < 0:
                return name
        return ""

    async def serve(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        fate = self.fate()
        self.requests[request.method] += 1
        self.received_nbytes += len(request.body)
        if self.latency:
            await asyncio.sleep(self.latency)
        if fate == "reset":
            self._tell(fate, request, 0)
            raise Cut
        if fate in REFUSALS:
            self._tell(fate, request, int(fate))
            return await self.send(writer, request, self._refusal(fate))
        status, head, body = await self._forwarded(request)
        self._tell(fate, request, status)
        if fate == "lost":
            raise Cut
        if fate == "late 500":
            return await self.send(writer, request, self._refusal("500"))
        self.sent_nbytes += len(body)
        if fate in ("cut", "short"):
            writer.write(head + body[: len(body) // 2])
            await writer.drain()
            await asyncio.sleep(0.01)  # what was sent arrives ahead of the reset
            if fate == "cut":
                raise Cut
            return not body and request.method != "HEAD"
        writer.write(head)
        n = len(body)
        if fate == "drip" and n:
            for at in range(8):
                writer.write(body[n * at // 8 : n * (at + 1) // 8])
                await writer.drain()
                await asyncio.sleep(self.drip / 8)
        else:
            writer.write(body)
        await writer.drain()
        return b"connection: close" not in head.lower()

    async def _forwarded(self, request: Request) -> tuple[int, bytes, bytes]:
        """(status, head to send on, body): the server's answer, whole."""
        reader, writer = await asyncio.open_connection(LOOPBACK, self.behind, limit=1 << 20)
        try:
            writer.write(request.head)
            body = request.body
            if "chunked" in request.headers.get("transfer-encoding", ""):
                body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
            writer.write(body)
            await writer.drain()
            status, headers, value = await read_answer(reader, request.method)
        finally:
            writer.close()
        for name in ("connection", "keep-alive", "transfer-encoding"):
            headers.pop(name, None)
        if request.method != "HEAD" and status not in (204, 304):
            headers["content-length"] = str(len(value))
        return status, Answer(status, headers).head(), value

    def _refusal(self, fate: str) -> Answer:
        headers = {"Content-Type": "application/xml"}
        if fate == "429":
            headers["Retry-After"] = str(self.retry_after)
        code = REFUSALS[fate]
        return Answer(
            int(fate), headers, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
        )

    def _tell(self, fate: str, request: Request, status: int) -> None:
        self.done[fate or "passed"] += 1
        self.told.append((fate, request.method, request.target, status))
        del self.told[:-20_000]
