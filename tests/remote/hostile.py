"""Servers that lie: each a twist of an honest answer, for the rows 37 to 43 of the table of attacks.

What it does not do: say what a client has to make of it; test_attacks.py does.
"""

from __future__ import annotations

import asyncio
import datetime
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from tests.remote.place import Place, Twist
from tests.remote.wire import Answer, Request

__all__ = ["BODIES", "Crowd", "only", "redirected", "refusing", "self_signed", "short_of_time"]

PIECE = bytes(1 << 16)


def only(part: str, twist: Twist) -> Twist:
    """The twist for paths that contain `part`; the rest is honest."""
    return lambda request, answer: twist(request, answer) if part in request.path else answer


def redirected(status: int, where: Callable[[Request], str]) -> Twist:
    return lambda request, _: Answer(status, {"Location": where(request)})


def refusing(status: int, **headers: str) -> Twist:
    return lambda *_: Answer(status, {name.replace("_", "-"): text for name, text in headers.items()})


def short_of_time(pause: float) -> Twist:
    """The body, one byte after another, with a pause ahead of each."""

    def drip(_: Request, answer: Answer) -> Answer:
        body = answer.body
        assert isinstance(body, bytes)

        async def bytes_one_by_one() -> AsyncIterator[bytes]:
            for byte in body:
                await asyncio.sleep(pause)
                yield bytes([byte])

        return Answer(answer.status, {**answer.headers, "Content-Length": str(len(body))}, bytes_one_by_one())

    return drip


class Endless:
    """A body without end; `sent` counts what was taken of it."""

    def __init__(self) -> None:
        self.sent = 0

    async def __call__(self) -> AsyncIterator[bytes]:
        while True:
            self.sent += len(PIECE)
            yield PIECE

    async def in_pieces(self) -> AsyncIterator[bytes]:
        async for piece in self():
            yield b"%x\r\n%s\r\n" % (len(piece), piece)


def _without_length(answer: Answer) -> dict[str, str]:
    return {name: text for name, text in answer.headers.items() if name.lower() != "content-length"}


def _endless(endless: Endless) -> Twist:
    return lambda _, answer: Answer(
        answer.status, {**_without_length(answer), "Connection": "close"}, endless()
    )


def _endless_pieces(endless: Endless) -> Twist:
    return lambda _, answer: Answer(
        answer.status, {**_without_length(answer), "Transfer-Encoding": "chunked"}, endless.in_pieces()
    )


def _endless_announced(endless: Endless) -> Twist:
    return lambda _, answer: Answer(
        answer.status, {**answer.headers, "Content-Length": str(2**60)}, endless()
    )


def _tenfold(_: Endless) -> Twist:
    def twist(_: Request, answer: Answer) -> Answer:
        assert isinstance(answer.body, bytes)
        return Answer(answer.status, _without_length(answer), answer.body * 10)

    return twist


def _everything(_: Endless) -> Twist:
    """Status 206 and the range that was asked for, and a body that begins elsewhere."""

    def twist(_: Request, answer: Answer) -> Answer:
        assert isinstance(answer.body, bytes)
        return Answer(answer.status, _without_length(answer), bytes(len(answer.body) * 3))

    return twist


def _moved(shift: int, whole: int = 0) -> Callable[[Endless], Twist]:
    """A Content-Range that begins `shift` bytes further, or tells a size that is `whole` larger."""

    def twist(_: Request, answer: Answer) -> Answer:
        told = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", answer.headers.get("Content-Range", ""))
        if told is None:
            return answer
        first, last, size = (int(number) for number in told.groups())
        answer.headers["Content-Range"] = f"bytes {first + shift}-{last + shift}/{size + whole}"
        return answer

    return lambda _: twist


def _nonsense(text: str) -> Callable[[Endless], Twist]:
    def twist(_: Request, answer: Answer) -> Answer:
        if "Content-Range" in answer.headers:
            answer.headers["Content-Range"] = text
        return answer

    return lambda _: twist


def _unranged(_: Endless) -> Twist:
    """206 without a word on which part it is."""

    def twist(_: Request, answer: Answer) -> Answer:
        answer.headers.pop("Content-Range", None)
        return answer

    return twist


def _short(_: Endless) -> Twist:
    """Half of the range, in good order and said so."""

    def twist(_: Request, answer: Answer) -> Answer:
        told = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", answer.headers.get("Content-Range", ""))
        assert isinstance(answer.body, bytes)
        body = answer.body[: len(answer.body) // 2]
        headers = {**answer.headers, "Content-Length": str(len(body))}
        if told is not None:
            headers["Content-Range"] = f"bytes {told[1]}-{int(told[1]) + len(body) - 1}/{told[3]}"
        return Answer(answer.status, headers, body)

    return twist


def _cut(_: Endless) -> Twist:
    """Less than was announced, and the end of the connection."""

    def twist(_: Request, answer: Answer) -> Answer:
        body = answer.body
        assert isinstance(body, bytes)

        async def half() -> AsyncIterator[bytes]:
            yield body[: len(body) // 2]

        return Answer(answer.status, {**answer.headers, "Content-Length": str(len(body))}, half())

    return twist


def _encoded(_: Endless) -> Twist:
    """A body that says it is compressed: nobody asked for that."""

    def twist(_: Request, answer: Answer) -> Answer:
        import gzip

        assert isinstance(answer.body, bytes)
        body = gzip.compress(bytes(1 << 26))
        return Answer(
            answer.status,
            {**_without_length(answer), "Content-Encoding": "gzip", "Content-Length": str(len(body))},
            body,
        )

    return twist


#: what a server can do to a body, by name
BODIES: dict[str, Callable[[Endless], Twist]] = {
    "ten times the body": _tenfold,
    "another, longer body": _everything,
    "an endless body": _endless,
    "an endless body in pieces": _endless_pieces,
    "an endless body that announces 2^60 bytes": _endless_announced,
    "a range one byte further": _moved(1),
    "a range one byte earlier": _moved(-1),
    "an object that is larger than it is": _moved(0, 1000),
    "an object of 2^63 bytes": _moved(0, 2**63),
    "a range that is none": _nonsense("bytes 5-4/3"),
    "a range in another unit": _nonsense("lines 1-2/3"),
    "a range of digits without end": _nonsense("bytes 0-" + "9" * 5000 + "/*"),
    "a part that does not say which": _unranged,
    "half of the range": _short,
    "less than was announced": _cut,
    "a compressed bomb": _encoded,
}


class Crowd(Place):
    """A bucket of `n` keys that are made as they are listed, or (n None) of as many as anybody asks for."""

    def __init__(self, n: int | None, name: Callable[[int], str]) -> None:
        super().__init__()
        self.n, self.name = n, name

    def keys(self, bucket: str, prefix: str, after: str) -> Iterator[tuple[str, int]]:
        number = int(re.sub(r"\D", "", after) or -1) + 1
        while self.n is None or number < self.n:
            yield self.name(number), 1
            number += 1


def self_signed(folder: Path) -> ssl.SSLContext:
    """TLS with a certificate that nobody vouches for."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    both = folder / "certificate.pem"
    plain = serialization.NoEncryption()
    both.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        + made.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    return context
