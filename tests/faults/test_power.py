"""Power loss, simulated: in every state it can leave, writes are old or new, and those that returned are there.

The long search is `make faults-long`; its ledger lies in ledgers/.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from terrazzo.stores import journal, slots
from tests.faults.losses import Story, recorded, states, syncs_of, violation_in
from tests.faults.power import SYNCS
from tests.faults.ways import BY_NAME, WAYS, Way

STORIES = 3
STATES = 60


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_every_state_is_old_or_new(root: Path, way: Way) -> None:
    for seed in range(STORIES):
        story = recorded(way, seed, root)
        for returned, disk, state in states(story, STATES, random.Random(seed)):
            wrong = violation_in(story, returned, disk, state, root / "state")
            assert wrong is None, f"seed {seed}: {wrong}"


def found(story: Story, root: Path, log: list[Any], window: tuple[int, int] | None) -> bool:
    """Whether the search finds a state in which something is wrong."""
    near = None if window is None else (window[0] + 1, window[0] + 4)
    for part in (near, window):
        for returned, disk, state in states(story, 60, random.Random(5), log, part):
            if violation_in(story, returned, disk, state, root / "state"):
                return True
    return False


def kinds_of_syncs(story: Story) -> dict[tuple[str, ...], list[int]]:
    """The syncs of a story, by what they come after and before."""
    names = ["-", *(operation[0] for operation in story.log), "-", "-"]
    kinds: dict[tuple[str, ...], list[int]] = {}
    for at in syncs_of(story):
        kinds.setdefault(tuple(names[at : at + 4]), []).append(at)
    return kinds


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_no_sync_can_be_left_out(root: Path, way: Way) -> None:
    """Each kind of sync is left out in turn; every time the search finds what it was for."""
    left: dict[tuple[str, ...], bool] = {}
    for seed in range(8):
        story = recorded(way, seed, root, twice=seed % 2)  # every other one begins after a power loss
        for kind, places in kinds_of_syncs(story).items():
            for at in places[:2]:
                if not left.get(kind):
                    log = [*story.log[:at], ("nothing",), *story.log[at + 1 :]]
                    left[kind] = found(story, root, log, (at, at + 12))
        if seed >= 1 and all(left.values()):
            break
    assert left
    assert all(left.values()), (
        f"not needed, or not searched for: {[kind for kind, seen in left.items() if not seen]}"
    )


@pytest.mark.parametrize("name", ["slots-index-at-end", "in-place-index-at-end", "append-index-at-start"])
def test_without_a_journal_it_is_found(root: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain_patch, plain_write = journal.apply_patch, slots.Slots.write

    def patch(*arguments: Any) -> Any:
        return plain_patch(*arguments[:-1], False)

    def write(*arguments: Any) -> Any:
        return plain_write(*arguments[:-1], False)

    monkeypatch.setattr("terrazzo.stores.replacing.apply_patch", patch)
    monkeypatch.setattr(slots.Slots, "write", write)
    assert any(
        found(story, root, story.log, None) for story in (recorded(BY_NAME[name], s, root) for s in range(12))
    )


@pytest.mark.parametrize("order", ["rename first", "journal last"])
def test_in_another_order_it_is_found(root: Path, order: str) -> None:
    """The new object's sync after its rename, or the journal's after what it speaks of."""
    way = BY_NAME["replace-index-at-end" if order == "rename first" else "append-index-at-start"]
    moved: Callable[[list[Any], int], int | None] = (
        _past_the_rename if order == "rename first" else _past_the_object
    )
    for seed in range(12):
        story = recorded(way, seed, root, twice=0)
        for at in syncs_of(story):
            to = moved(story.log, at)
            if to is not None:
                log = [*story.log[:at], ("nothing",), *story.log[at + 1 : to], story.log[at], *story.log[to:]]
                if found(story, root, log, (at, to + 1)):
                    return
    raise AssertionError("the search did not see it")


def _past_the_rename(log: list[Any], at: int) -> int | None:
    after = log[at + 1][0] == "names" and log[at][0] == "sync"
    return at + 2 if after else None


def _past_the_object(log: list[Any], at: int) -> int | None:
    """Behind the write of the object that follows the journal's two syncs."""
    if log[at][0] == "sync" and log[at + 1][0] == "sync_folder" and log[at + 2][0] == "pwrite":
        return at + 3
    return None


def test_the_recording_is_of_everything(root: Path) -> None:
    """Guards the tests above against a layer that sees nothing."""
    for way in WAYS:
        names = {operation[0] for operation in recorded(way, 1, root, twice=0).log}
        assert {"create", "pwrite", "names", "returned"} <= names
        assert names & set(SYNCS)
