"""Repair in place, killed or refused at every operation: each object the old or the new, and the next repair finishes
and tells of all of it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.care.beside import digest
from terrazzo.care.check import check
from terrazzo.care.repair import RepairReport, repair
from terrazzo.stores.local import LocalStore
from tests.faults.layers import Counting, Failing, Killing
from tests.faults.test_crashes import in_child
from tests.faults.ways import left_overs

VALUES = np.random.default_rng(5).integers(1, 60, (16, 32), dtype="i4")


def opened(root: Path, files: Any = None) -> terrazzo.Array:
    return terrazzo.open_array(LocalStore(root / "a", files=files), mode="r+")


def damaged(root: Path, kind: str) -> None:
    """Four objects: one cut short, one whose index is gone, one of which nothing is left, one that is sound."""
    how: dict[str, Any] = {"shards": (8, 16), "index_location": "start"} if kind == "shards" else {}
    array = terrazzo.create_array(root / "a", data=VALUES, chunks=(4, 4) if how else (8, 16), **how)
    array.inventory().save(root / "manifest")
    for key, kept in (("c/0/0", slice(0, -100)), ("c/0/1", slice(40, None)), ("c/1/0", slice(0, 7))):
        path = root / "a" / key
        path.write_bytes(path.read_bytes()[kept])


def told(report: RepairReport) -> tuple[Any, ...]:
    return (
        report.objects,
        report.kept,
        report.damaged,
        sorted((one.key, one.chunk or (), one.reason) for one in report.lost),
        sorted(Path(path).name for path in report.unplaced),
    )


def objects(root: Path) -> dict[str, bytes]:
    """Every file, but for locks, by its path."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.name.endswith((".__lock", ".__redo"))
    }


@pytest.mark.parametrize("kind", ["shards", "chunks"])
@pytest.mark.parametrize("how", ["killed", "killed in the middle of a write", "full", "broken"])
def test_cut_off_at_every_operation(root: Path, kind: str, how: str) -> None:
    damaged(root / "damaged", kind)
    before = objects(root / "damaged")
    shutil.copytree(root / "damaged", root / "whole")
    counted = Counting()
    wanted = repair(opened(root / "whole", counted), in_place=True)
    after = objects(root / "whole")
    assert wanted.lost
    assert not list((root / "whole/a.unplaced").rglob("*.json")), (
        "a repair that was told of leaves no journal"
    )
    assert check(root / "whole/a", verify_data=True).ok
    for at, call in enumerate(counted.calls):
        if how.endswith("write") and call != "pwrite":
            continue
        place = root / "cut"
        shutil.copytree(root / "damaged", place)
        if how.startswith("killed"):
            array = opened(place, Killing(at, half=how.endswith("write")))
            in_child(lambda array=array: repair(array, in_place=True))
        else:
            number = errno.ENOSPC if how == "full" else errno.EIO
            files = Failing(at, number, lasting=how == "broken", half=True)
            with suppress(terrazzo.errors.StoreError):
                repair(opened(place, files), in_place=True)
        found = objects(place)
        for key, body in before.items():
            assert found.get(key) in (body, after.get(key)), f"{key} after {at} operations: {call}"
        report = repair(opened(place), in_place=True)
        now = objects(place)
        cut_after_the_end = told(report) != told(wanted)
        if cut_after_the_end:  # the first one was over, but for tidying up its journal
            assert report.ok
        assert now == after, f"after {at} operations: {call}"
        assert left_overs(place) == []
        shutil.rmtree(place)


def test_another_writer_is_not_overwritten(root: Path) -> None:
    """What somebody writes while a repair decides is not lost: the repair holds the object meanwhile."""
    damaged(root, "shards")
    array = opened(root)
    wrote = threading.Event()

    class Waiting(Counting):
        def before(self, operation: str, arguments: tuple[Any, ...]) -> None:
            if operation == "pwrite" and not writer.ident:
                writer.start()
                assert not wrote.wait(0.2), "it waits for the repair"

    def write() -> None:
        array[:4, 12:16] = 7
        wrote.set()

    writer = threading.Thread(target=write)
    repair(opened(root, Waiting()), in_place=True)
    writer.join()
    assert (opened(root)[:4, 12:16] == 7).all()


def test_damage_after_a_repair_is_kept_apart(root: Path) -> None:
    damaged(root, "shards")
    first = (root / "a/c/0/0").read_bytes()
    repair(opened(root), in_place=True)
    path = root / "a/c/0/0"
    path.write_bytes(path.read_bytes()[:-9])
    second = path.read_bytes()
    report = repair(opened(root), in_place=True)
    assert len(report.lost) == 1
    kept = [path.read_bytes() for path in (root / "a.unplaced").glob("c-0-0*.damaged")]
    assert sorted(kept) == sorted([first, second])


def test_a_journal_of_something_else_counts_for_nothing(root: Path) -> None:
    damaged(root, "shards")
    journal = root / "a.unplaced/journal"
    journal.mkdir(parents=True)
    before = digest((root / "a/c/0/0").read_bytes())
    record = {"key": "c/0/0", "before": before, "after": "0", "source": "index", "entries": [], "kept": 1}
    record |= {"format": "terrazzo repair 1", "lost": [], "unplaced": []}
    nonsense: list[Any] = [None, [], {"format": 3}, {"format": record["format"]}, {**record, "key": 1}]
    nonsense += [
        {**record, "entries": [[number, offset, nbytes]]}
        for number, offset, nbytes in [
            (99, 0, 1),
            (-1, 0, 1),
            (0, 0, 10**9),
            (0, -4, 4),
            (0, 2**70, 1),
            (0, 3, 0),
        ]
    ]
    nonsense += [{**record, "lost": [[3]]}, {**record, "entries": "abc"}, {**record, "unplaced": [1]}]
    for number, words in enumerate(nonsense):
        (journal / f"{number}.json").write_text(json.dumps(words))
    (journal / "empty.json").write_bytes(b"")
    os.symlink("/etc/passwd", journal / "link.json")
    report = repair(opened(root), in_place=True)
    assert report.damaged.keys() == {"c/0/0", "c/0/1", "c/1/0"}
    assert len(report.lost) > 2
    assert check(root / "a", verify_data=True).ok
    assert repair(opened(root), in_place=True, manifest=root / "manifest").ok
