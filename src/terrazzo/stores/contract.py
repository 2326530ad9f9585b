"""The nouns of the store contract: ranges, one version of an object, the right to change it, and changes.

What it does not do: read or write; `Store` does (store.py).
Specification: Zarr core 3.0, "Abstract store interface", knows keys and ranges; the rest is ours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

__all__ = [
    "ALL",
    "Buffer",
    "Change",
    "Cost",
    "Erase",
    "Hold",
    "Open",
    "Patch",
    "Put",
    "Range",
    "Sink",
    "Source",
    "Tag",
]

#: (start, length): `length` None reads to the end; a negative `start` counts from the end (a suffix range)
Range = tuple[int, int | None]
#: the whole object
ALL: Range = (0, None)
#: what tells one version of an object from another: opaque, compared for equality, never empty
Tag = object
Buffer = Any  # anything with the buffer protocol


#: seconds to a first byte above which requests are counted: no disk or memory of this machine takes so long
FAR = 1e-3


@dataclass(frozen=True, slots=True)
class Cost:
    """What a request costs, for planning: seconds before its first byte, and bytes per second after it.

    buffered: new objects wait in memory for their commit. requests: how many the place takes at once (0: no limit worth
    planning for).
    """

    latency: float = 0.0
    bandwidth: float = 1e9
    buffered: bool = True
    requests: int = 0

    @property
    def far(self) -> bool:
        """Whether a request costs enough for flows to plan how many they make."""
        return self.latency > FAR


class Open(NamedTuple):
    """Asks for one version of an object and, with it, the bytes that are needed first.

    `first` is skipped (Source.first is None) where the object still is the version `known`, and where the source
    has a handle and `or_handle` says that the handle serves as well (a reader that wants the whole object).

    pinned: the caller will fetch some range of the version `known` whatever it is told here. A store that checks the
    version with every range (`Store.fetches_conditionally`) then answers without a request, and `fetch` raises
    ConflictError where the object is another one by now. Other stores look as always.
    """

    key: str
    first: Range | None = None
    known: Tag | None = None
    or_handle: bool = False
    pinned: bool = False


@dataclass(slots=True, eq=False)
class Source:
    """One version of one object, held by a reader from the index to the last chunk.

    handle: an open descriptor (int; owned by this source), a buffer with the whole object, or None where bytes have
    to be fetched by ranges. size: bytes, None where it is not known before a first answer.
    """

    key: str
    size: int | None
    tag: Tag
    handle: int | Buffer | None = None
    first: Buffer | None = None
    closer: Any = None

    def close(self) -> None:
        closer, self.closer = self.closer, None
        self.handle = None
        if closer is not None:
            closer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Sink(ABC):
    """A new object under construction; nobody sees it before `Store.commit`.

    handle: a descriptor that the kernel may write to at any offset, or None: then bytes come through `write`.
    """

    handle: int | None = None

    @property
    def nbytes(self) -> int | None:
        """Bytes so far, where that is known."""
        return None

    @abstractmethod
    def write(self, position: int, buffer: Buffer) -> None:
        """Write `buffer` at `position`; pieces may come in any order and never overlap."""

    def expect(self, nbytes: int) -> None:
        """Make room for about so many bytes at once, where the place can; more or fewer may come."""

    def clone(self, source: Source) -> bool:
        """Start as a copy of `source` that shares its blocks; False, with nothing done, where the place cannot."""
        return False

    @abstractmethod
    def discard(self) -> None:
        """Give the object up; harmless after a commit."""


class Hold:
    """The right to change one object, from `Store.hold` until `release`; `source` is the version found under it.

    A Put or an Erase uses it up: after that commit others may take the object, and this hold can only be released.
    After a Patch it stays. patchable: `Store.commit` takes a Patch of it. blind: nobody looked at the object; `source`
    is None whatever is stored, and a Put replaces that. erasable: an Erase takes along nothing that another writer
    stored meanwhile, or is meant to.
    """

    patchable: bool = False
    erasable: bool = True

    def __init__(self, key: str, source: Source | None, blind: bool = False) -> None:
        self.key = key
        self.source = source
        self.blind = blind

    def claim(self, ranges: Sequence[tuple[int, int]], timeout: float | None = None) -> bool:
        """For a shared hold: the sole right to these (start, length) of the object, once nobody else has any of them;
        then a Patch that overwrites nothing else can be committed. Once per hold.

        False where this store, or the object as it is, leaves that to exclusive holds. `timeout`: seconds to wait
        before HeldError (None: for ever).
        """
        return False

    def unclaim(self) -> None:
        """Give back what was claimed; harmless where nothing was."""

    def release(self) -> None:
        if self.source is not None:
            self.source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


@dataclass(frozen=True, slots=True)
class Put:
    """The object becomes what `sink` holds, whole. Refused (ConflictError) where it is not `hold.source` any more,
    unless the hold is blind."""

    hold: Hold
    sink: Sink


@dataclass(frozen=True, slots=True)
class Erase:
    """The object goes; absence is no error.

    Where `Store.erases_conditionally` is False, what another writer stored meanwhile goes with it.
    """

    hold: Hold


@dataclass(frozen=True, slots=True)
class Patch:
    """The object keeps its identity and gets new bytes at given places.

    appends: (offset at or past the end, bytes), made durable before anything that lies inside the object changes.
    overwrites: (offset, bytes) inside the object, redone from a journal after a crash.
    guard_length: the old length is journalled first, and restored after a crash before all of it was written
    (an index at the end: without its last byte the object is unreadable).
    """

    hold: Hold
    appends: Sequence[tuple[int, Buffer]] = ()
    overwrites: Sequence[tuple[int, Buffer]] = ()
    guard_length: bool = False


Change = Put | Erase | Patch
