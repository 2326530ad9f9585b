"""Appended steps that are merged, cut off at the operations of the merge: equal to numpy. At full size (10,000 steps)
this is `python -m tests.faults.long merges`."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from terrazzo.metadata import Extension
from tests.faults.merging import search


def test_cut_off_anywhere(root: Path) -> None:
    found = search(root, steps=220, every=5, copies=100)
    assert found["violations"] == []
    assert found["points"] > 200
    assert found["copied"] > 40
    assert found["kinds"] > 10


@pytest.mark.parametrize("copied", [0, 2])
def test_the_search_sees_what_is_wrong(copied: int, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document that speaks of merged chunks before they are in their places is found."""

    def at_once(document: Any, axis: int, first: int, grid: Any) -> Any:
        return replace(document, chunk_grid=Extension.from_json(grid))

    monkeypatch.setattr(import_module("terrazzo.care.merge"), "announced", at_once)
    found = search(root, steps=20, every=1, copies=10**6, firsts=copied)["violations"]
    assert any(("half=" if copied else "not copied") in one for one in found)
