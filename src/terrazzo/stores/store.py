"""The store contract: keys to bytes, with whole and partial reads, versions, and writes that are whole or nothing.

What it does not do: know what the bytes mean. Nothing here speaks of arrays, shards or documents.
Specification: Zarr core 3.0, "Abstract store interface"; the verbs `hold`, `commit`, `open`, `fetch` are ours.

Two faces on one class. A user who writes a store overrides any subset of the specification's verbs (twenty lines
are enough); everything else is emulated. The flows use `open` and `fetch` to read one version of an object from its
index to its last chunk, and `hold` and `commit` to change objects without losing another writer's update.
"""

from __future__ import annotations

import builtins
from abc import ABC
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from terrazzo.errors import UnsupportedError
from terrazzo.options import Durability
from terrazzo.stores import emulation, holds
from terrazzo.stores.border import at_the_border, wrap_verbs
from terrazzo.stores.contract import (
    ALL,
    Buffer,
    Change,
    Cost,
    Erase,
    Hold,
    Open,
    Patch,
    Put,
    Range,
    Sink,
    Source,
    Tag,
)

__all__ = [
    "ALL",
    "NEAR",
    "Arrived",
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
    "Store",
    "Tag",
]

if TYPE_CHECKING:
    from concurrent.futures import Future

NEAR = Cost()


class Arrived(Protocol):
    """Is told what comes of a batch, from any thread: the number of a request and its answer, once; and of a `fetch` of
    one range, before that, the buffer it comes into and how many of its first bytes are there, to stay."""

    def __call__(self, number: int, answer: Any, nbytes: int | None = None) -> None: ...


class Store(ABC):
    """Keys to bytes. Override `get` (or `get_partial_values`), and as many of the other verbs as the place has.

    Keys, prefixes and ranges are checked before an overridden verb is called. Every verb is safe to call from many
    threads. Values are bytes; what is given may be anything with the buffer protocol.
    """

    #: what the place can do, each declared apart; where a class does not declare it, it follows from its verbs
    readable: bool = True
    writable: bool = True
    erasable: bool = True
    listable: bool = True
    #: `commit` takes a Patch
    patchable: bool = False
    #: bytes written survive the process
    durable: bool = False
    #: `fetch` checks every range against the version of its source, so that a pinned look needs no request
    fetches_conditionally: bool = False
    #: an Erase happens only to the version that was held; False: it takes along what another writer stored meanwhile
    erases_conditionally: bool = True
    #: what keeps two writers of one object apart: a hold, which is a lock; versions, which a commit compares, though
    #: the hold looked at nothing; or nothing, as nobody else is said to write
    exclusion: Literal["locks", "versions", "nothing"] = "locks"

    @property
    def cost(self) -> Cost:
        """What a request costs; a class may declare it, and a store may measure it while it is used."""
        return NEAR

    #: the verbs that this class or its parents bring (see border.py)
    _own: frozenset[str] = frozenset()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        at_the_border(cls, Store)

    # -- the specification's verbs ------------------------------------------------------------------------------------

    def get(self, key: str) -> bytes | None:
        """The whole value of `key`, or None where nothing is stored."""
        return emulation.get(self, key)

    def get_partial_values(self, requests: Iterable[tuple[str, Range]]) -> builtins.list[bytes | None]:
        """One answer per (key, range), in order; None where nothing is stored. A key may repeat.

        Ranges are clipped to the value like slices of it: what lies past its end is left out, a suffix longer than
        the value is the whole value.
        """
        return emulation.get_partial_values(self, requests)

    def exists(self, key: str) -> bool:
        """Whether an object is stored under `key`."""
        return emulation.exists(self, key)

    def getsize(self, key: str) -> int | None:
        """Bytes of the value of `key`, or None where nothing is stored."""
        return emulation.getsize(self, key)

    def tag(self, key: str) -> Tag | None:
        """What tells the present version of `key` from others, or None where nothing is stored."""
        return emulation.tag(self, key)

    def set(self, key: str, value: Buffer) -> None:
        """Make `value` the whole value of `key`."""
        emulation.set(self, key, value)

    def set_partial_values(self, writes: Iterable[tuple[str, int, Buffer]]) -> None:
        """Write each (key, start, bytes) into the value of its key; gaps are zeros, overlaps are refused."""
        emulation.set_partial_values(self, writes)

    def set_if(self, key: str, value: Buffer, tag: Tag | None) -> None:
        """`set` where `key` still is the version `tag` (None: only where nothing is stored), else ConflictError.

        A store that overrides this overrides `tag` too.
        """
        emulation.set_if(self, key, value, tag)

    def erase(self, key: str) -> None:
        """Remove `key`; absence is no error."""
        emulation.erase(self, key)

    def erase_values(self, keys: Iterable[str]) -> None:
        """Remove every one of `keys`; absence is no error."""
        emulation.erase_values(self, keys)

    def erase_prefix(self, prefix: str) -> None:
        """Remove every key that starts with `prefix`."""
        emulation.erase_prefix(self, prefix)

    def list(self) -> Iterator[str]:
        """Every key, in no order."""
        return emulation.list_all(self)

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Every key that starts with `prefix`, in no order."""
        return emulation.list_prefix(self, prefix)

    def list_dir(self, prefix: str) -> tuple[builtins.list[str], builtins.list[str]]:
        """Sorted (keys, prefixes) directly below `prefix`; each starts with it, and prefixes end with a slash."""
        return emulation.list_dir(self, prefix)

    # -- what flows ask for -------------------------------------------------------------------------------------------

    def open(self, requests: Sequence[Open]) -> builtins.list[Source | None]:
        """One Source per request, None where nothing is stored. The caller closes them.

        `Source.first` is exactly the bytes of `first` in that version (clipped as in `get_partial_values`), or None
        where none were asked for or the version is the `known` one. For suffixes and ALL of objects whose size was
        not known, `size` is filled in where the answer tells it.
        """
        return emulation.open(self, requests)

    def fetch(
        self,
        requests: Sequence[tuple[Source, Sequence[tuple[int, int]]]],
    ) -> builtins.list[builtins.list[Buffer]]:
        """The bytes of every (start, length) of every source, each of exactly that length.

        They are of the version that was opened: ConflictError where the store cannot give that version any more,
        StoreError (key and range in its text) where the object ends before a range does.
        """
        return emulation.fetch(self, requests)

    def begin(
        self, verb: Literal["open", "fetch"], requests: Any, arrived: Arrived | None = None
    ) -> Future[Any] | None:
        """`open` or `fetch`, begun: its answer to come, from a store that keeps no thread of its caller waiting.

        None: call the verb. A future that is cancelled ends what was begun. arrived: may be told of answers, and parts
        of them, as soon as they are there; it returns at once.
        """
        return None

    def hold(
        self,
        key: str,
        first: Range | None = None,
        *,
        exclusive: bool = True,
        timeout: float | None = None,
        blind: bool = False,
    ) -> Hold:
        """The right to change `key`, once nobody else has it; `Hold.source` is the object found then (or None).

        `first`: what to read of it, as in `Open`. `timeout`: seconds to wait before HeldError (None: for ever). A
        thread that holds the key already is refused. `exclusive=False` shares the object with others of the same
        kind: nobody can replace it then, and a holder changes nothing but what it claims (`Hold.claim`).

        `blind`: the caller replaces or erases the whole object whatever it is. The store may leave the look out; then
        `Hold.blind` is True and the last writer wins whole. A store without locks sends no request at all.
        """
        return holds.hold(self, key, first, exclusive, timeout, blind)

    def hold_all(
        self,
        keys: Sequence[str],
        firsts: Sequence[Range | None] = (),
        *,
        exclusive: bool = True,
        timeout: float | None = None,
        blind: Sequence[bool] = (),
    ) -> builtins.list[Hold]:
        """`hold` of several keys, all different: all or none, in the order asked for, taken in one order by everybody.

        Empty `firsts` and `blind`: nothing is read, and no hold is blind. Where holds are no locks, the looks are made
        together.
        """
        return holds.hold_all(self, keys, firsts, exclusive, timeout, blind)

    def sink(self, hold: Hold, nbytes_hint: int | None = None) -> Sink:
        """A new object under construction for `hold`, empty. Ask again to start over; the last one counts."""
        return emulation.BufferSink()

    def commit(
        self, changes: Sequence[Change], durability: Durability = "fsync"
    ) -> builtins.list[Tag | None]:
        """Make every change happen, each of them whole or not at all; the new tag of each (None: absent or unknown).

        Across keys there is no transaction: after an error some may have happened, and the message says which. The
        holds stay held until they are released; a released hold cannot be committed.
        """
        return emulation.commit(self, changes)

    def recover(self, key: str) -> bool:
        """Finish or undo what a dead writer left of `key`; True where the object may differ now: read it again."""
        return False

    def unsettled(self, key: str) -> bool:
        """Whether somebody changes `key` in place now, or died doing so: what does not decode may do so soon."""
        return False

    def sync(self) -> None:
        """Make everything durable that was committed with durability "rename" through this store."""

    @property
    def identity(self) -> Hashable:
        """Equal for two stores exactly where a key means the same object in both; holds exclude one another by it."""
        return id(self)

    # -- manners ------------------------------------------------------------------------------------------------------

    @property
    def read_only(self) -> bool:
        return not self.writable

    def with_read_only(self, read_only: bool = True) -> Store:
        """The same place behind a face that refuses every change."""
        from terrazzo.stores.wrappers import ReadOnlyStore  # a wrapper is a store: it stands above this file

        if read_only:
            return ReadOnlyStore(self)
        if self.writable:
            return self
        raise UnsupportedError(f"{self!r} cannot be written to; open it for writing instead")

    def close(self) -> None:
        """Give up what the store keeps open; harmless when repeated."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


wrap_verbs(Store)  # the emulated verbs check what they are given, too
