"""inventory, repair, compact, reshard and merge: what they print, what they leave, how they end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.cli import main
from terrazzo.strategy import Append

VALUES = np.random.default_rng(8).integers(1, 90, (16, 16), dtype="i4")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An array "a" of two shards, half of the first of them dead."""
    monkeypatch.chdir(tmp_path)
    array = terrazzo.create_array("a", data=VALUES, chunks=(4, 4), shards=(8, 16), index_location="start")
    array = array.using(strategy=Append(dead=0.9))
    array[:8, :8] = VALUES[:8, :8]
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(list(words))
    found = capsys.readouterr()
    return code, found.out, found.err


def run_json(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    found, out, _ = run(capsys, *words, "--json")
    assert found == code
    return json.loads(out)


def test_a_check_without_time(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "check", "a", "--max-seconds", "0")
    assert code == 5 and "nothing is wrong" not in out and "not looked at, or not wholly: '/'" in out
    assert run_json(capsys, "check", "a", "--max-seconds", "0", code=5)["unchecked"] == ["/"]
    assert run(capsys, "check", "a", "--max-seconds", "1000")[0] == 0
    for words in ("-1", "nan", "soon"):
        code, _, err = run(capsys, "check", "a", "--max-seconds", words)
        assert code == 2 and "no number of seconds from 0 on" in err


def test_what_a_repair_saved_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    group = terrazzo.open_group("g", mode="w")
    group.create_array("x", data=VALUES, chunks=(4, 4), shards=(8, 16))
    path = Path("g/x/c/0/0")
    path.write_bytes(path.read_bytes()[:-40])
    code, out, _ = run(capsys, "repair", "g/x", "--in-place")
    assert code == 4 and "14 chunks kept, 2 lost, 2 saved without a place" in out
    assert "repaired: c/0/0, places from: rest of the index" in out
    code, out, _ = run(capsys, "check", "g", "--verify-data")
    assert code == 0 and out.startswith("note: 'x.unplaced/' has 3 files of ") and "nothing is wrong" in out


def test_inventory(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "inventory", "a", "--save", "m")
    assert code == 0 and "chunks stored  16 of 16" in out
    found = run_json(capsys, "inventory", "a", "0:4,:", "--chunks")
    assert found["chunks"] == 4 and [row["chunk"] for row in found["table"]] == [
        [0, 0],
        [0, 1],
        [0, 2],
        [0, 3],
    ]
    assert run(capsys, "inventory", "a", "--against", "m")[0] == 0
    terrazzo.open("a")[15, 15] = 5
    assert run_json(capsys, "inventory", "a", "--against", "m", code=1) == {"stale": True, "keys": ["c/1/0"]}
    code, out, _ = run(capsys, "inventory", "a", "--map")
    assert code == 0 and out.count("|@|") == 2
    for name, head in (("p.svg", b"<svg"), ("p.png", b"\x89PNG")):
        assert run(capsys, "inventory", "a", "--picture", name)[0] == 0
        assert Path(name).read_bytes().startswith(head)
    assert run(capsys, "inventory", "a", "--picture", "p.gif")[0] == 2
    assert run(capsys, "inventory", "nothing")[0] == 3
    assert run(capsys, "inventory", "a", "1:2:3:4")[0] == 2


def test_repair(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "repair", "a", "--to", "b")[0] == 0
    np.testing.assert_array_equal(terrazzo.open("b")[...], VALUES)
    body = Path("a/c/1/0").read_bytes()
    Path("a/c/1/0").write_bytes(body[:-20])
    code, out, _ = run(capsys, "repair", "a")
    assert code == 4 and "lost: c/1/0, chunk (3, 3): it reaches past the end" in out
    assert "a.repaired: 2 objects, 1 of them damaged; 15 chunks kept, 1 lost" in out
    assert run(capsys, "repair", "a")[0] == 1  # there already
    found = run_json(capsys, "repair", "a", "--in-place", "--unplaced", "u", code=4)
    assert found["lost"][0]["chunk"] == [3, 3] and found["damaged"] == {"c/1/0": "index"}
    assert Path("u/c-1-0.damaged").read_bytes() == body[:-20]
    assert run(capsys, "check", "a", "--verify-data")[0] == 0
    assert run(capsys, "repair", "a", "--to", "x", "--in-place")[0] == 2


def test_compact(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_json(capsys, "compact", "a", "--dead", "0.9")["rewritten"] == 0
    code, out, _ = run(capsys, "compact", "a")
    assert code == 0 and "a: 1 of 2 shards rewritten" in out
    assert run_json(capsys, "compact", "a")["rewritten"] == 0
    assert run(capsys, "compact", "a", "--dead", "3")[0] == 2
    np.testing.assert_array_equal(terrazzo.open("a")[...], VALUES)


def test_reshard(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "reshard", "a", "b", "--shards", "none")
    assert (code, out) == (0, "b: no shards, no chunk was decoded\n")
    assert run_json(capsys, "reshard", "b", "d", "--shards", "16,16", "--index-location", "start")[
        "shards"
    ] == [16, 16]
    np.testing.assert_array_equal(terrazzo.open("d")[...], VALUES)
    assert run(capsys, "reshard", "b", "d", "--shards", "16,16")[0] == 1
    assert run(capsys, "reshard", "b", "d", "--shards", "8,8", "--overwrite")[0] == 0
    assert run(capsys, "reshard", "b", "e", "--shards", "7,7")[0] == 2


def test_merge(capsys: pytest.CaptureFixture[str]) -> None:
    array = terrazzo.create_array("log", data=VALUES[:8], chunks=([8], 16))
    for row in VALUES[8:]:
        array.append(row[None])
    code, out, _ = run(capsys, "merge", "log")
    assert (code, out) == (0, "log: 9 along axis 0 became 2\n")
    np.testing.assert_array_equal(terrazzo.open("log")[...], VALUES)
    assert run_json(capsys, "merge", "log", "--edge", "16")["shape"] == [16, 16]
    assert run(capsys, "merge", "a")[0] == 2
    assert run(capsys, "merge", "log", "--axis", "5")[0] == 2
