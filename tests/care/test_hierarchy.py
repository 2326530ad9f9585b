"""Care of whole groups: every array below is checked, summed up and compacted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import terrazzo
from terrazzo.care import check, compact, inventories
from terrazzo.cli import main
from terrazzo.strategy import Append, InPlace

VALUES = np.random.default_rng(8).integers(1, 90, (16, 16), dtype="i4")


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> terrazzo.Group:
    """Three arrays, two of them with dead bytes, one below a group of its own."""
    monkeypatch.chdir(tmp_path)
    group = terrazzo.open_group("g", mode="w")
    how = {"chunks": (4, 4), "shards": (8, 16), "index_location": "start"}
    for path in ("a", "deep/b"):
        array = group.create_array(path, data=VALUES, **how)
        array.using(strategy=Append(dead=0.9))[:8, :8] = 5
    group.create_array("plain", data=VALUES, chunks=(8, 8))
    return terrazzo.open_group("g", mode="r+")


def test_inventories(group: terrazzo.Group) -> None:
    found = inventories(group)
    assert {path: one.chunks for path, one in found.items()} == {"a": 16, "deep/b": 16, "plain": 4}
    assert found["a"].dead_nbytes == found["deep/b"].dead_nbytes > 0 == found["plain"].dead_nbytes
    total = found["a"] + found["plain"]
    assert (total.chunks, total.of, total.objects) == (20, 20, 6)
    assert found["a"].slack_nbytes is None
    assert total.slack_nbytes is None
    assert inventories("g", slack=True)["a"].slack_nbytes == 0
    assert inventories(group["deep/b"]).keys() == {""}
    seen: list[tuple[int, int]] = []
    inventories(group, progress=lambda *done: seen.append(done))
    assert seen[-1] == (3, 3)


def test_compact(group: terrazzo.Group) -> None:
    report = compact(group)
    assert (report.shards, report.rewritten) == (4, 2)
    assert report.after < report.before
    assert all(one.dead_nbytes == 0 for one in inventories("g").values())
    changed = VALUES.copy()
    changed[:8, :8] = 5
    for path in ("a", "deep/b"):
        np.testing.assert_array_equal(group[path][...], changed)
    again = compact("g")
    assert again.rewritten == 0
    assert again.before == again.after == report.after
    with pytest.raises(ValueError, match="one array"):
        compact(group, np.s_[:4])
    with pytest.raises(terrazzo.errors.ReadOnlyError):
        compact(terrazzo.open_group("g", mode="r"))


def test_one_damaged_array_among_many(group: terrazzo.Group, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(group).ok
    path = Path("g/deep/b/c/1/0")
    path.write_bytes(path.read_bytes()[:20])
    report = check("g")
    assert [problem.node for problem in report.problems] == ["/deep/b"]
    assert report.arrays == 3
    assert main(["check", "g", "-q"]) == 4


def test_verbs(group: terrazzo.Group, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inventory", "g", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["arrays"].keys() == {"a", "deep/b", "plain"}
    assert told["total"]["chunks"] == 36
    assert told["total"]["dead_nbytes"] > 0
    assert main(["inventory", "g", "-q", "--slack"]) == 0
    out = capsys.readouterr().out
    assert "deep/b" in out
    assert "36 of 36" in out
    assert "of them slack" in out
    for words in (["g", "0:3"], ["g", "--map"], ["g", "--save", "x"]):
        assert main(["inventory", *words, "-q"]) == 2
        assert "one array" in capsys.readouterr().err
    assert main(["compact", "g", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rewritten"] == 2
    assert main(["inventory", "nowhere"]) == 3
    assert main(["compact", "nowhere"]) == 3


def test_slack_is_told_of_a_group_too(group: terrazzo.Group) -> None:
    array = group["a"]
    assert isinstance(array, terrazzo.Array)
    array.using(strategy=InPlace(slack=50))[...] = VALUES
    found = inventories(group, slack=True)
    assert found["a"].slack_nbytes == 16 * 50
    assert compact(group, slack="keep").rewritten == 1
