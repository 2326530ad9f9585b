"""Holds by the table of this process, of one object and of many.

What it does not do: keep other processes out. A store with locks brings its own holds, and one without locks compares
versions when it commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from terrazzo.errors import StoreError
from terrazzo.stores.contract import Hold, Open, Range, Source
from terrazzo.stores.exclusion import Turn, take_turn
from terrazzo.stores.keys import check_key

if TYPE_CHECKING:
    from terrazzo.stores.store import Store

__all__ = ["TurnHold", "check_held", "hold", "hold_all", "release_all", "spend"]


class TurnHold(Hold):
    """A hold by the table of this process."""

    def __init__(self, key: str, source: Source | None, turn: Turn) -> None:
        super().__init__(key, source)
        self._turn = turn
        self._spent = False

    @property
    def held(self) -> bool:
        return self._turn.held and not self._spent

    def spend(self) -> None:
        self._spent = True

    def release(self) -> None:
        super().release()
        self._turn.end()


def hold(
    store: Store, key: str, first: Range | None, exclusive: bool, timeout: float | None, blind: bool
) -> Hold:
    # A table entry has one holder: sharing is granted one after the other.
    turn = take_turn(store.identity, check_key(key), timeout)
    try:
        found = TurnHold(key, None if blind else store.open([Open(key, first)])[0], turn)
        found.blind = blind
        found.patchable = store.patchable
        return found
    except BaseException:
        turn.end()
        raise


def hold_all(
    store: Store,
    keys: Sequence[str],
    firsts: Sequence[Range | None],
    exclusive: bool,
    timeout: float | None,
    blind: Sequence[bool],
) -> list[Hold]:
    holds: dict[str, Hold] = {}
    first_of = dict(zip(keys, firsts, strict=True)) if firsts else {}
    is_blind = dict(zip(keys, blind, strict=True)) if blind else {}
    try:
        for key in sorted(keys):
            how = {"blind": True} if is_blind.get(key) else {}
            holds[key] = store.hold(key, first_of.get(key), exclusive=exclusive, timeout=timeout, **how)
    except BaseException:
        release_all(list(holds.values()))
        raise
    return [holds[key] for key in keys]


def release_all(holds: Iterable[Hold]) -> None:
    """Release each of them, whatever becomes of another."""
    with ExitStack() as held:
        for one in holds:
            held.callback(one.release)


def spend(hold: Hold) -> None:
    if isinstance(hold, TurnHold):
        hold.spend()


def check_held(hold: Hold) -> None:
    if not getattr(hold, "held", True):
        raise StoreError(f"{hold.key!r} is not held any more; take a new hold to change it")
