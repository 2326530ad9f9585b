"""Versions of remote objects: what a service says to tell them apart, and what we remember of their writers.

What it does not do: compare bytes.
Specification: RFC 9110, 8.8 (validators) and 13.1 (conditions).
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = ["HISTORY_KEY", "Answer", "Version", "history_of", "history_text", "new_mark", "version_of"]

#: the object's user metadata in which writers leave their marks
HISTORY_KEY = "terrazzo"
#: marks kept: services allow 2 KiB of metadata
MOST_MARKS = 100


class Version:
    """One version of an object; equal to another where the service says that they are the same.

    mark: what is compared. etag: as the service writes it, None where it has none. strong: it can be used in a
    condition. generation: what GCS compares instead. size: bytes, where it was told. history: the marks of the
    object's writers, the last one first.
    """

    __slots__ = ("etag", "generation", "history", "mark", "size", "strong")

    def __init__(
        self,
        mark: str,
        etag: str | None = None,
        generation: str | None = None,
        size: int | None = None,
        history: tuple[str, ...] = (),
    ) -> None:
        self.mark = mark
        self.etag = etag
        self.generation = generation
        self.size = size
        self.history = history
        self.strong = etag is not None and not etag.startswith("W/")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self.mark == other.mark

    def __hash__(self) -> int:
        return hash(self.mark)

    def __repr__(self) -> str:
        return f"Version({self.mark!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Version, (self.mark, self.etag, self.generation, self.size, self.history)


class Answer(NamedTuple):
    """One answer of a service about one object. body: None where only its version was asked for."""

    body: bytes | None
    size: int
    version: Version


def version_of(
    etag: str | None,
    generation: str | None,
    modified: object,
    size: int | None,
    history: tuple[str, ...] = (),
) -> Version:
    """A service without ETags is believed by date and size: changes within a second can go unseen."""
    if etag:
        weak = etag.startswith("W/")
        bare = etag[2:] if weak else etag
        bare = bare[1:-1] if len(bare) > 1 and bare[0] == bare[-1] == '"' else bare
        if bare:  # an empty one tells nothing apart
            return Version(("W/" if weak else "") + bare, etag, generation, size, history)
    return Version(f"{modified}, {size} bytes", None, generation, size, history)


def new_mark() -> str:
    """What one write is known by afterwards, whoever wrote since."""
    return secrets.token_urlsafe(6)


def history_of(attributes: Any) -> tuple[str, ...]:
    """The marks of an object's writers, the last one first."""
    text = attributes.get(HISTORY_KEY) if attributes else None
    if not isinstance(text, str) or len(text) > 2048:
        return ()
    return tuple(text.split(",")[:MOST_MARKS])


def history_text(mark: str, before: Sequence[str]) -> str:
    return ",".join([mark, *before[: MOST_MARKS - 1]])
