"""Write strategies: what a changed shard turns into, as plans, and what became of the chunks that were changed.

What it does not do: I/O, locks or journals; those are the store's. Strategies are chosen when something is opened or
written and never enter a document: every shard they leave is a plain sharding_indexed 1.0 shard.
Specification: sharding_indexed 1.0, "Implementation notes" (the three ways to write a shard).

`Replace` writes the whole shard anew and is always right. `InPlace` overwrites chunks where they lie. `Append` puts new
chunks after the end and leaves the old bytes dead. The last two answer None where the shard must be replaced instead.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from terrazzo.shard import EMPTY, overlaps

__all__ = ["Append", "Changed", "InPlace", "Outcomes", "Plan", "Replace", "Strategy", "plan", "strategy_from"]

Entries = np.ndarray[Any, np.dtype[np.uint64]]
Order = Literal["morton", "C", "F", "unordered"]
ORDERS = ("morton", "C", "F", "unordered")


def _check(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if not isinstance(value, str | bool) or value not in allowed:
        raise ValueError(
            f"{name}={value!r}; {', '.join(map(repr, allowed[:-1]))} or {allowed[-1]!r} is allowed"
        )


def _check_share(dead: object) -> None:
    if isinstance(dead, bool) or not isinstance(dead, float | int) or not 0 <= dead <= 1:
        raise ValueError(f"dead={dead!r}; a share of a shard's bytes, from 0 to 1, is allowed")


@dataclass(frozen=True, slots=True)
class Replace:
    """The shard is a new object. order: how inner chunks lie in it ("unordered": as the write touches them).

    dead: on file systems where two files can share blocks (XFS, Btrfs), the new file starts as such a copy, and changed
    chunks go after the others, as long as no larger share of it is dead bytes; 0: every shard is written whole.
    """

    order: Order = "morton"
    dead: float = 0.25

    name = "replace"

    def __post_init__(self) -> None:
        _check("order", self.order, ORDERS)
        _check_share(self.dead)


@dataclass(frozen=True, slots=True)
class InPlace:
    """Chunks are overwritten where they lie, behind a redo journal.

    Where every encoded chunk has one length (no compressor), a shard that is written whole gets a slot for every inner
    chunk, also for those that are all fill value; then writers of different chunks do not wait for one another.

    slack: what a shard that is written whole leaves free behind each of its chunks, so that it can grow where it lies:
    a share of the encoded chunk (a float; 0.25 leaves a quarter of its bytes), or bytes (an integer). Slack is zero
    bytes. slack_limit: bytes of slack in one shard; no chunk gets more than its equal part of it.
    otherwise: where a chunk goes that outgrows its bytes and the free ones behind it, or had none: "append" or
    "replace" (the whole shard). `Array.outcomes` counts what became of chunks.
    dead: with "append", the share of bytes that nothing uses, slack too, above which the shard is replaced instead.
    torn_reads: accept, by name, that a reader may meet a half-written chunk where chunks carry no checksum.
    order: as in `Replace`, for shards that have to be written whole.
    """

    otherwise: Literal["append", "replace"] = "replace"
    torn_reads: bool = False
    order: Order = "morton"
    slack: float | int = 0
    slack_limit: int = 64 << 20
    dead: float = 0.5

    name = "in-place"

    def __post_init__(self) -> None:
        _check("otherwise", self.otherwise, ("append", "replace"))
        _check("torn_reads", self.torn_reads, (True, False))
        _check("order", self.order, ORDERS)
        _check_share(self.dead)
        if (
            isinstance(self.slack_limit, bool)
            or not isinstance(self.slack_limit, int)
            or self.slack_limit < 0
        ):
            raise ValueError(f"slack_limit={self.slack_limit!r}; a number of bytes, from 0 up, is allowed")
        if isinstance(self.slack, bool) or not isinstance(self.slack, float | int) or not self.slack >= 0:
            raise ValueError(
                f"slack={self.slack!r}; a share of the encoded chunk (0.25), or bytes (4096), is allowed"
            )
        share = self.slack / (1 + self.slack) if isinstance(self.slack, float) else 0.0
        if self.otherwise == "append" and share > self.dead:
            raise ValueError(
                f"slack={self.slack} leaves up to {share:.0%} of a shard free, and dead={self.dead} replaces shards of "
                "which more than that is unused; raise `dead`, or leave less slack"
            )


@dataclass(frozen=True, slots=True)
class Append:
    """New chunks go after the end, then the index; old bytes become dead space.

    dead: the share of dead bytes above which the shard is replaced (compacted) instead.
    index_at_end: accept, by name, that a crash leaves a tail which other libraries cannot read until we mend it.
    order: as in `Replace`, for shards that have to be written whole.
    """

    dead: float = 0.5
    index_at_end: bool = False
    order: Order = "morton"

    name = "append"

    def __post_init__(self) -> None:
        _check("index_at_end", self.index_at_end, (True, False))
        _check("order", self.order, ORDERS)
        _check_share(self.dead)


Strategy = Replace | InPlace | Append

_NAMED: dict[str, type[Strategy]] = {"replace": Replace, "in-place": InPlace, "append": Append}


def strategy_from(what: str | Strategy) -> Strategy:
    """A strategy from its name or itself."""
    if isinstance(what, Replace | InPlace | Append):
        return what
    try:
        return _NAMED[what]()
    except (KeyError, TypeError):
        names = ", ".join(repr(name) for name in _NAMED)
        raise ValueError(
            f"strategy {what!r} is not known; use {names}, or a Replace, InPlace or Append object"
        ) from None


@dataclass(frozen=True, slots=True, eq=False)
class Changed:
    """A shard and what changes in it.

    entries: of the shard as it is. size: its bytes. index: (start, stop) of its index. inner: the changed inner chunks'
    numbers. nbytes: their new encoded lengths, -1 for a chunk that goes (all fill).
    """

    entries: Entries
    size: int
    index: tuple[int, int]
    inner: np.ndarray[Any, np.dtype[np.int64]]
    nbytes: np.ndarray[Any, np.dtype[np.int64]]

    @property
    def index_at_end(self) -> bool:
        return self.index[0] > 0


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """New places: offsets int64 (len(inner),) of the changed chunks (-1: gone), the entries that follow from them,
    whether each lies past the old end, or reaches over free bytes behind its old ones, where the index goes, and how
    many bytes of the new shard are dead."""

    offsets: np.ndarray[Any, np.dtype[np.int64]]
    appended: np.ndarray[Any, np.dtype[np.bool_]]
    grown: np.ndarray[Any, np.dtype[np.bool_]]
    entries: Entries
    index_start: int
    size: int
    dead: int


#: what a copy has to save to be worth its dead bytes
CLONED_NBYTES = 1 << 20


def clones(strategy: Strategy, changed: Changed) -> bool:
    """Whether the new object should start as a copy of the old one that shares its blocks, where those can be shared.

    changed.nbytes is not looked at: chunks are not encoded yet.
    """
    if not isinstance(strategy, Replace) or not strategy.dead:
        return False
    stays = changed.entries[:, 0] != EMPTY
    stays[changed.inner] = False
    kept = int(changed.entries[stays, 1].sum())
    dead = changed.size - (changed.index[1] - changed.index[0]) - kept
    return kept >= CLONED_NBYTES and dead <= strategy.dead * changed.size


def plan(strategy: Strategy, changed: Changed, grow: bool = True) -> Plan | None:
    """What becomes of a shard; None: replace it. grow: chunks may grow over bytes that nothing uses."""
    if isinstance(strategy, Replace):
        return None
    nowhere = np.full(len(changed.inner), -1, np.int64)
    if isinstance(strategy, InPlace):
        if len(overlaps(changed.entries)):
            return None  # two chunks share bytes: what is written for one would change the other
        slots = changed.entries[changed.inner].view(np.int64)
        fits = fitting(changed, grow)
        if not fits.all() and strategy.otherwise == "replace":
            return None
        found = _append(changed, np.where(fits, slots[:, 0], nowhere))
        if not found.appended.any():
            return found
    else:
        found = _append(changed, nowhere)
    return found if found.dead <= strategy.dead * found.size else None


def fitting(changed: Changed, grow: bool = True) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which of the changed chunks fit where they lie: in their old bytes, or with `grow` up to what comes next."""
    slots = changed.entries[changed.inner].view(np.int64)
    starts, room = slots[:, 0], slots[:, 1]
    stored = (starts >= 0) & (room > 0)
    if grow and stored.any():
        others = changed.entries[changed.entries[:, 0] != EMPTY, 0].view(np.int64)
        edges = np.unique(np.append(others, [changed.index[0], changed.size]))
        behind = edges[np.minimum(np.searchsorted(edges, starts, side="right"), len(edges) - 1)]
        in_index = (starts >= changed.index[0]) & (starts < changed.index[1])  # read with strict=False
        room = np.where(in_index, 0, behind - starts)
    found: np.ndarray[Any, np.dtype[np.bool_]] = stored & (changed.nbytes <= room)
    return found | (changed.nbytes < 0)  # what goes needs no place


def _append(changed: Changed, offsets: np.ndarray[Any, np.dtype[np.int64]]) -> Plan:
    """Chunks without an offset go past the end, one after the other; the index follows where it lies at the end."""
    nbytes = changed.nbytes
    stays = nbytes >= 0
    appended = stays & (offsets < 0)
    grown = stays & ~appended & (nbytes > changed.entries[changed.inner, 1].view(np.int64))
    end = changed.size
    sizes = np.where(appended, nbytes, 0)
    starts = end + np.cumsum(sizes) - sizes
    offsets = np.where(appended, starts, np.where(stays, offsets, -1))
    entries = changed.entries.copy()
    entries[changed.inner, 0] = np.where(stays, offsets, -1).astype(np.int64).view(np.uint64)
    entries[changed.inner, 1] = np.where(stays, nbytes, -1).astype(np.int64).view(np.uint64)
    end += int(sizes.sum())
    start, stop = changed.index
    index_nbytes = stop - start
    if changed.index_at_end and (appended.any() or (entries == EMPTY).all()):
        start = end
        end += index_nbytes
    live = int(entries[entries[:, 0] != EMPTY, 1].sum())
    return Plan(offsets, appended, grown, entries, start, end, end - live - index_nbytes)


@dataclass(slots=True, eq=False)
class Outcomes:
    """How many inner chunks of stored shards went where, since this was made, by strategies that patch shards.

    in_place: over their own old bytes. grown: the same, and over free bytes behind them. appended: past the end of the
    shard. replaced: with their whole shard, since the strategy had no other place for them. outgrown: of `appended` and
    `replaced`, those that were stored and did not fit where they lay.
    """

    in_place: int = 0
    grown: int = 0
    appended: int = 0
    replaced: int = 0
    outgrown: int = 0
    _guard: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, other: Outcomes) -> None:
        """Count what was committed; from any thread."""
        with self._guard:
            self.in_place += other.in_place
            self.grown += other.grown
            self.appended += other.appended
            self.replaced += other.replaced
            self.outgrown += other.outgrown

    def planned(self, changed: Changed, found: Plan | None) -> None:
        """Count what a plan says, before it is known whether it is committed."""
        stays = changed.nbytes >= 0
        was = changed.entries[changed.inner, 0] != EMPTY
        if found is None:
            self.replaced += int(stays.sum())
            self.outgrown += int((stays & was & ~fitting(changed)).sum())
            return
        self.grown += int(found.grown.sum())
        self.in_place += int((stays & ~found.appended & ~found.grown).sum())
        self.appended += int(found.appended.sum())
        self.outgrown += int((found.appended & was).sum())
