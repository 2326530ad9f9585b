"""What is tried again, how often, and how long everything may take; and how foreign errors become ours.

What it does not do: send requests. obstore's own retries are off: they would hide outages and repeat writes unseen.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, TypeVar

__all__ = [
    "Failure",
    "Kind",
    "Patience",
    "Policy",
    "answered",
    "failure_of",
    "grant",
    "no_answer",
    "plain",
    "telling",
]

T = TypeVar("T")
#: gives the request in progress more time, for a body of so many bytes
_granting: ContextVar[Callable[[int], None] | None] = ContextVar("terrazzo_granting", default=None)

#: is told of the body in progress: the buffer it comes into, and how many of its bytes are there
telling: ContextVar[Callable[[bytearray, int], None] | None] = ContextVar("terrazzo_telling", default=None)

Kind = Literal[
    "absent",  # 404
    "condition",  # 412, 409, or an object that exists where none may be
    "unchanged",  # 304
    "range",  # 416: nothing lies in the range
    "denied",  # 401, 403
    "unsupported",  # the service, or obstore for it, cannot do this
    "again",  # may pass: try again
    "final",  # will not pass
]

#: THE table of what is tried again: answers that say "later", and requests without an answer
TRIED_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
#: answers that are about one status each
STATUS_KINDS: dict[int, Kind] = {
    304: "unchanged",
    401: "denied",
    403: "denied",
    404: "absent",
    405: "unsupported",
    409: "condition",
    410: "absent",
    412: "condition",
    416: "range",
    501: "unsupported",
}
#: obstore's classes, by name: a forked child has classes of its own
CLASS_KINDS: dict[str, Kind] = {
    "FileNotFoundError": "absent",
    "NotFoundError": "absent",
    "AlreadyExistsError": "condition",
    "PreconditionError": "condition",
    "NotModifiedError": "unchanged",
    "PermissionDeniedError": "denied",
    "UnauthenticatedError": "denied",
    "NotSupportedError": "unsupported",
    "NotImplementedError": "unsupported",
}
#: codes of S3 (and Google's like it) and Azure
NO_BUCKET = frozenset({"NoSuchBucket", "ContainerNotFound"})
SENTENCES: dict[Kind, str] = {
    "absent": "there is no such object or bucket",
    "condition": "the object is another version than the one asked for",
    "unchanged": "the object is unchanged",
    "range": "nothing lies in the range that was asked for",
    "denied": "access was denied; check the credentials and what they allow",
    "unsupported": "the service does not support this",
}

_STATUS = re.compile(r"non-2xx status code: (\d{3})").search
_CODE = re.compile(r"<Code>([A-Za-z0-9]{1,60})</Code>").search
#: texts of obstore for requests whose answer never came, or came by halves
_NO_ANSWER = re.compile(
    r"HTTP error|error sending request|error decoding response body|connection|timed? ?out|timeout|request body",
    re.IGNORECASE,
).search
_NO_NAME = re.compile(r"dns error|failed to lookup address|getaddrinfo|DNSError|UnicodeError").search
_REFUSED = re.compile(r"ConnectionRefused|Connection refused|Connect call failed").search
_NO_LOCATION = re.compile(r"redirect without LOCATION").search
#: obstore's memory and folders say it in words
_PAST_THE_END = re.compile(r"Wanted range starting at|range started at|StartTooLarge").search
_IGNORED_RANGE = re.compile(r"non-partial response").search
_OTHER_RANGE = re.compile(r"Requested (\d+)\.\.(\d+), got (\d+)\.\.(\d+)").search


class Failure(Exception):
    """A request that did not succeed. It stays in this package: `RemoteStore` makes a StoreError with key and range
    of it. `text` is a sentence of ours; foreign texts can hold secrets."""

    def __init__(self, kind: Kind, text: str = "", *, pause: float = 0.0, applied: bool = False) -> None:
        self.kind = kind
        self.text = text or SENTENCES.get(kind, "the request failed")
        self.pause = pause  # seconds that the service asks for
        self.applied = applied  # a write that may have happened all the same
        super().__init__(self.text)


@dataclass(frozen=True, slots=True)
class Policy:
    """timeout: seconds for one try; deadline: seconds for a request with all its tries, pauses included. Both are
    longer for large bodies, by `slowest` bytes per second. tries: of one request at most."""

    timeout: float = 30.0
    deadline: float = 120.0
    tries: int = 8
    slowest: float = 256 * 1024.0
    first_pause: float = 0.05
    longest_pause: float = 5.0


class Patience:
    """The policy at work for one store: its budget of retries is shared by all requests, so that a service that fails
    everything is not asked eight times as often. Retries take from it, successes fill it up again."""

    FULL = 100.0
    PER_SUCCESS = 1.0

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._left = self.FULL  # touched on the loop alone

    async def ask(self, request: Callable[[int], Awaitable[T]], nbytes: int = 0) -> T:
        """The answer to `request(number of the try)`; Failure once it is final, or patience is over.

        nbytes: of the body that is sent."""
        policy = self.policy
        extra = nbytes / policy.slowest
        end = time.monotonic() + policy.deadline + extra
        applied = False
        attempt = 0
        while True:
            limit = min(policy.timeout + extra, max(0.0, end - time.monotonic()))
            try:
                async with asyncio.timeout(limit) as running:

                    def longer(nbytes: int, running: asyncio.Timeout = running) -> None:
                        nonlocal end
                        more = nbytes / policy.slowest
                        end += more
                        running.reschedule((running.when() or 0.0) + more)

                    _granting.set(longer)
                    answer = await request(attempt)
            except TimeoutError:
                failure = Failure("again", f"no answer within {limit:.3g} s", applied=True)
            except Failure as found:
                failure = found
            else:
                self._left = min(self.FULL, self._left + self.PER_SUCCESS)
                return answer
            applied = applied or failure.applied
            attempt += 1
            pause = policy.first_pause * 2 ** min(attempt - 1, 20) * random.random()
            pause = max(min(pause, policy.longest_pause), min(failure.pause, policy.deadline))
            spent = f"; tried {attempt} times" if attempt > 1 else ""
            if failure.kind != "again":
                failure.applied = applied
                raise failure
            if attempt >= policy.tries:
                raise Failure("final", failure.text + spent, applied=applied)
            if time.monotonic() + pause >= end:
                raise Failure("final", f"{failure.text}{spent}; the deadline is over", applied=applied)
            if self._left < 1.0:
                raise Failure("final", f"{failure.text}{spent}; too many requests fail", applied=applied)
            self._left -= 1.0
            await asyncio.sleep(pause)


def grant(nbytes: int) -> None:
    """More time for the request in progress: its answer announced a body of `nbytes`."""
    longer = _granting.get()
    if longer is not None:
        longer(nbytes)


def failure_of(error: BaseException, *, write: bool = False) -> Failure:
    """What an error of obstore, of its runtime (a panic is no Exception) or of the system means."""
    if isinstance(error, Failure):
        return error
    name = type(error).__name__
    text = str(error)[:100_000]
    found = _STATUS(text)
    kind = CLASS_KINDS.get(name)
    if found:
        code = _CODE(text)
        failure = answered(int(found[1]), code[1] if code else "", kind=kind)
        failure.applied = write and failure.kind == "again"
        return failure
    if kind is not None:
        return Failure(kind)
    if _PAST_THE_END(text):
        return Failure("range")
    if _IGNORED_RANGE(text):
        return Failure("final", "the server ignores ranges: a part was asked for, and it sent everything")
    other = _OTHER_RANGE(text)
    if other:
        return Failure(
            "final", f"the server sent bytes {other[3]} to {other[4]}, asked for {other[1]} to {other[2]}"
        )
    if name == "InvalidPathError":
        return Failure(
            "final",
            "there is a name that obstore does not take (an empty segment, '.', '..', or control characters); move "
            "that object away, or open the store below another path",
        )
    if name == "PanicException":
        return Failure("final", "the native library of obstore failed (a panic)", applied=write)
    if _NO_LOCATION(text):
        return Failure(
            "final", "the service redirected without saying where to; check region and endpoint_url"
        )
    if isinstance(error, ConnectionError | TimeoutError) or _NO_ANSWER(text):
        return Failure("again", no_answer(text), applied=write)
    return Failure("final", f"obstore says {name}: {plain(text)}", applied=write)


def answered(status: int, code: str = "", who: str = "the service", kind: Kind | None = None) -> Failure:
    """What a status means. code: of the service's own; kind: what is known of it otherwise."""
    said = f"{who} answered {status}{f' ({code})' if code else ''}"
    if status in TRIED_AGAIN:
        return Failure("again", said)
    if code in NO_BUCKET:
        return Failure("final", f"there is no such bucket or container ({said})")
    kind = kind or STATUS_KINDS.get(status)
    if kind is None:
        return Failure("final", said)
    told = kind in ("absent", "condition", "unchanged", "range")
    return Failure(kind, SENTENCES[kind] if told else f"{said}: {SENTENCES[kind]}")


def no_answer(text: str) -> str:
    """What happened to a connection, as far as a foreign text tells."""
    if _NO_NAME(text):
        return "the name of the host is not known (DNS)"
    if _REFUSED(text):
        return "the connection was refused: nothing listens there"
    return "the connection failed, or ended before the answer"


_ADDRESS = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.\-]*:)?//[^\s\"'<>)}\],]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def plain(text: str, most: int = 200) -> str:
    """A foreign text, fit to be shown: its first sentence, on one line, without addresses (they can hold secrets)."""
    text = text.split("Debug source:")[0][: 4 * most]
    text = _CONTROL.sub(" ", _ADDRESS.sub("<address>", text)).strip()
    return text if len(text) <= most else text[: most - 1] + "…"
