"""Each verb, through `main`: what it prints, its JSON, its exit code."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from terrazzo.arrays.array import Array
from terrazzo.cli import main
from terrazzo.groups.creating import create_array
from terrazzo.groups.group import Group
from terrazzo.groups.opening import open as open_node


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """x.zarr with a sharded array "deep/grid", a plain one "line" and a group "empty"."""
    monkeypatch.chdir(tmp_path)
    root = Group.from_store(tmp_path / "x.zarr", attributes={"title": "a\nb"})
    create_array(
        tmp_path / "x.zarr",
        name="deep/grid",
        data=np.arange(600.0).reshape(20, 30),
        chunks=(5, 5),
        shards=(10, 15),
        compressors="crc32c",
        dimension_names=("y", "x"),
    )
    create_array(tmp_path / "x.zarr", name="line", data=np.arange(1, 8, dtype="i2"), chunks=4)
    root.create_group("empty")
    return tmp_path / "x.zarr"


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main([*argv])
    found = capsys.readouterr()
    return code, found.out, found.err


def run_json(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    code, out, err = run(capsys, *argv, "--json")
    assert code == 0, err
    assert out.isascii()
    return json.loads(out)


# info, tree, ls


def test_info_of_an_array(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "info", "x.zarr/deep/grid", "--stored")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "kind           array",
        "url            x.zarr/deep/grid",
        "shape          20 × 30 (y, x)",
        "data type      float64",
        "fill value     0.0",
        "size           4.8 kB",
        "shards         10 × 15, 4 in all",
        "inner chunks   5 × 5, 24 in all",
        "codecs         sharding_indexed[bytes(endian=little) > crc32c]",
        "stored         5.3 kB in 4 objects",
        "chunks stored  24 of 24",
        "dead space     0 B",
    ]


def test_info_as_json_has_stable_keys(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(capsys, "info", "x.zarr/deep/grid", "--stored")
    assert list(found) == [
        *("kind", "url", "zarr_format", "shape", "data_type", "chunks", "shards", "dimension_names"),
        *("fill_value", "codecs", "nbytes", "nchunks", "nshards", "attributes", "stored"),
    ]
    assert found["shape"] == [20, 30] and found["chunks"] == [5, 5] and found["shards"] == [10, 15]
    assert found["stored"] == {"nbytes": 5296, "objects": 4, "chunks": 24, "dead_nbytes": 0}
    found = run_json(capsys, "info", "x.zarr")
    assert found == {
        "kind": "group",
        "url": "x.zarr",
        "zarr_format": 3,
        "arrays": ["line"],
        "groups": ["deep", "empty"],
        "consolidated": False,
        "attributes": {"title": "a\nb"},
    }


def test_info_of_a_group_escapes(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "info", "x.zarr")
    assert '@title        "a\\nb"' in out


def test_tree(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "tree", "x.zarr")
    assert code == 0
    assert out.splitlines() == [
        "/",
        "├── deep",
        "│   └── grid (20, 30) float64",
        "├── empty",
        "└── line (7,) int16",
    ]
    assert "grid" not in run(capsys, "tree", "x.zarr", "-L", "1")[1]
    assert run(capsys, "tree", "x.zarr/line")[1] == "/ (7,) int16\n"
    assert [node["path"] for node in run_json(capsys, "tree", "x.zarr")["nodes"]] == [
        "deep", "deep/grid", "empty", "line"
    ]  # fmt: skip
    assert run(capsys, "tree", "x.zarr", "-L", "0")[0] == 2


def test_ls(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "ls", "x.zarr")[1] == "deep/\nempty/\nline\n"
    assert run(capsys, "ls", "-l", "x.zarr")[1].splitlines() == [
        "name    type   shape  chunks  shards  size",
        "------  -----  -----  ------  ------  ----",
        "deep/   group",
        "empty/  group",
        "line    int16  7      4               14 B",
    ]
    assert run(capsys, "ls", "x.zarr/deep/grid")[1] == "c/0/0\nc/0/1\nc/1/0\nc/1/1\n"
    assert "1324" in run(capsys, "ls", "-l", "x.zarr/deep/grid")[1]
    found = run_json(capsys, "ls", "x.zarr/deep/grid")
    assert found["objects"][0] == {"key": "c/0/0", "nbytes": 1324}
    assert run_json(capsys, "ls", "x.zarr")["members"][0] == {"name": "deep", "kind": "group"}


def test_names_cannot_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create_array(tmp_path / "x.zarr", name="a\x1b[31m\nb", shape=3, dtype="i1")
    for verb in ("ls", "tree", "info"):
        _, out, _ = run(capsys, verb, str(tmp_path / "x.zarr"))
        assert "\x1b" not in out and "a\\x1b[31m\\nb" in out


# cat


def test_cat_as_text(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "cat", "x.zarr/line")[1] == "1\n2\n3\n4\n5\n6\n7\n"
    assert run(capsys, "cat", "x.zarr/line", "-1")[1] == "7\n"
    assert run(capsys, "cat", "x.zarr/line", "::-3")[1] == "7\n4\n1\n"
    assert run(capsys, "cat", "x.zarr/deep/grid", "0:2,3:5")[1] == "3.0\t4.0\n33.0\t34.0\n"
    assert run(capsys, "cat", "x.zarr/deep/grid", "...,0:1")[1].splitlines()[1] == "30.0"
    assert run(capsys, "cat", "x.zarr/line", "3:3")[1] == ""


def test_cat_of_more_dimensions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create_array(tmp_path / "x.zarr", data=np.arange(8).reshape(2, 2, 2))
    assert run(capsys, "cat", str(tmp_path / "x.zarr"))[1] == "# 0\n0\t1\n2\t3\n# 1\n4\t5\n6\t7\n"
    strings = np.array(["a\tb", "\x1b[2J"], np.dtypes.StringDType())
    create_array(tmp_path / "s.zarr", data=strings)
    assert run(capsys, "cat", str(tmp_path / "s.zarr"))[1] == "a\\tb\n\\x1b[2J\n"


@pytest.mark.parametrize("memory", ["1", "100", "100MB"])
@pytest.mark.parametrize("selection", ["...", "3:17,2", "::-2,5:20:3", "4,::-1", "2,3"])
def test_cat_in_pieces(
    store: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
    memory: str,
    selection: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from terrazzo.config import config
    from terrazzo.shapes import parse_nbytes

    expected = eval(f"np.arange(600.0).reshape(20, 30)[{selection}]")
    with config.set({"memory": parse_nbytes(memory)}):
        for kind in ("npy", "raw", "text"):
            assert main(["cat", "x.zarr/deep/grid", selection, "-f", kind, "-o", kind]) == 0
    np.testing.assert_array_equal(np.load("npy"), expected)
    np.testing.assert_array_equal(np.fromfile("raw", "<f8"), np.ravel(expected))
    np.testing.assert_array_equal(np.loadtxt("text", delimiter="\t").reshape(np.shape(expected)), expected)
    assert sorted(os.listdir()) == ["npy", "raw", "text", "x.zarr"]


def test_cat_to_standard_output(store: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["cat", "x.zarr/line", "-f", "raw"]) == 0
    assert capfdbinary.readouterr().out == np.arange(1, 8, dtype="<i2").tobytes()


def test_cat_as_json(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_json(capsys, "cat", "x.zarr/line", "0:3") == {"shape": [3], "values": [1, 2, 3]}


@pytest.mark.parametrize(
    "selection, message",
    [
        ("99", "index 99 is outside dimension 0, which has 20 elements"),
        ("a", "'a' is no selection along dimension 0; use 5, 0:10, ::2 or ..."),
        ("0,0,0", "'0,0,0' selects along 3 dimensions, and the array has 2"),
        ("::0", "'::0' has the step 0 along dimension 0"),
        ("...,...", "'...,...' has more than one '...'"),
    ],
)
def test_wrong_selections(
    store: Path, capsys: pytest.CaptureFixture[str], selection: str, message: str
) -> None:
    assert run(capsys, "cat", "x.zarr/deep/grid", selection) == (2, "", f"terrazzo: error: {message}\n")


def test_cat_of_what_is_no_array(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "cat", "x.zarr")
    assert code == 3 and "'x.zarr' is a group, not an array; its arrays are line" in err


# import, copy


def test_import(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("a.npy", np.arange(100.0).reshape(10, 10))
    code, out, err = run(
        capsys,
        "import",
        "a.npy",
        "x.zarr",
        "--name",
        "new/a",
        "--chunks",
        "5,5",
        "--shards",
        "10",
        "--verify",
    )
    assert (code, out, err) == (0, "x.zarr/new/a: 10 × 10 float64\n", "")
    array = open_node("x.zarr/new/a", mode="r")
    assert isinstance(array, Array)
    assert array.chunks == (5, 5) and array.shards == (10, 10)
    code, _, err = run(capsys, "import", "a.npy", "x.zarr", "--name", "new/a")
    assert code == 1 and "hint: --overwrite deletes what is there" in err
    found = run_json(
        capsys, "import", "a.npy", "x.zarr", "--name", "new/a", "--overwrite", "--shards", "none"
    )
    assert found["shape"] == [10, 10] and found["shards"] is None
    assert run(capsys, "import", "b.npy", "x.zarr")[0] == 3
    code, _, err = run(capsys, "import", "a.npy", "y.zarr", "--chunks", "0,5")
    assert code == 2 and err.startswith("terrazzo: error: ")
    assert not Path("y.zarr").exists()


def test_copy(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(
        capsys, "copy", "x.zarr", "y.zarr", "--chunks", "4", "--shards", "none", "--compressors", "gzip:1"
    )
    assert code == 2 or out == "y.zarr: group copied\n"
    code, out, err = run(capsys, "copy", "x.zarr", "z.zarr", "--compressors", "none", "--quiet")
    assert (code, out, err) == (0, "", "")
    assert run(capsys, "check", "z.zarr", "--verify-data")[0] == 0
    found = run_json(capsys, "copy", "x.zarr/deep/grid", "g.zarr", "--index-location", "start", "--verify")
    assert found["codecs"][0]["configuration"]["index_location"] == "start"
    assert run(capsys, "copy", "x.zarr", "x.zarr/deep/copy")[0] == 2
    assert run(capsys, "copy", "x.zarr", "x.zip", "--quiet")[0] == 0
    assert run(capsys, "check", "x.zip", "--verify-data")[0] == 0
    assert run(capsys, "tree", "x.zip")[1] == run(capsys, "tree", "x.zarr")[1]
    assert run(capsys, "copy", "nothing", "n.zarr")[0] == 3
    code, _, err = run(capsys, "copy", "x.zarr/line", "c.zarr", "--compressors", "nosuch")
    assert code == 2 and "nosuch" in err and not Path("c.zarr").exists()


# check


def test_check(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "check", "x.zarr", "--verify-data")
    assert code == 0
    assert out == (
        "3 groups, 2 arrays, 6 objects of 5.3 kB, 26 chunks; dead space 0 B; 26 chunks decoded; nothing is wrong\n"
    )
    Path("x.zarr/deep/notes.txt").write_text("x")
    code, out, _ = run(capsys, "check", "x.zarr")
    assert code == 1
    assert out.splitlines()[0] == "foreign: 'deep/notes.txt' lies in a group and is not its document"
    assert out.endswith("; 1 problem\n")
    os.truncate("x.zarr/deep/grid/c/0/1", 50)
    assert run(capsys, "check", "x.zarr")[0] == 4
    code = main(["check", "x.zarr", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert code == 4 and [problem["kind"] for problem in found["problems"]] == ["foreign", "index"]
    assert list(found) == [
        *(
            "ok",
            "corrupt",
            "complete",
            "unchecked",
            "listed",
            "verified",
            "groups",
            "arrays",
            "objects",
            "chunks",
            "decoded",
        ),
        *("nbytes", "dead_nbytes", "slack_nbytes", "problems", "problems_left_out", "notes"),
    ]
    assert "the time was over" in run(capsys, "check", "x.zarr", "--max-seconds", "0")[1]


# map


def test_map(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "map", "x.zarr/deep/grid", "1,1")
    assert code == 0 and out.startswith("c/1/1\n")
    assert "6 of 6 inner chunks, 1.2 kB of 1.3 kB; dead space 0 B (0%); index 100 B at the end" in out
    found = run_json(capsys, "map", "x.zarr/deep/grid")
    assert found["key"] == "c/0/0" and len(found["entries"]) == 6 and found["nbytes"] == 1324
    assert run(capsys, "map", "x.zarr/deep/grid", "--svg", "a.svg", "--colour", "ratio")[:2] == (0, "")
    assert Path("a.svg").read_text().startswith("<svg")
    assert run(capsys, "map", "x.zarr/deep/grid", "--picture", "a.png")[:2] == (0, "")
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    assert run(capsys, "map", "x.zarr/deep/grid", "--picture", "a.gif")[0] == 2
    assert run(capsys, "map", "x.zarr/line")[0] == 2
    assert run(capsys, "map", "x.zarr/deep/grid", "7,7")[0] == 2
    assert run(capsys, "map", "x.zarr/deep/grid", "a")[0] == 2
