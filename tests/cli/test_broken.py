"""What people see of places that are broken, empty, or no Zarr at all: one line, a hint, an exit code."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from terrazzo.cli import main
from terrazzo.groups.creating import create_array
from terrazzo.groups.opening import open_group
from terrazzo.stores.zip import ZipStore

VALUES = np.arange(64, dtype="f4").reshape(8, 8)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("broken")
    create_array(folder / "ok.zarr", data=VALUES, chunks=2, shards=4)
    group = open_group(folder / "group.zarr", mode="w")
    group.create_array("x", data=VALUES, chunks=2, shards=4)
    (folder / "empty").mkdir()
    (folder / "holds").mkdir()
    for number in range(7):
        create_array(folder / "holds" / f"{number}.zarr", shape=3, dtype="i1")
    (folder / "file.bin").write_bytes(bytes(range(256)))
    os.mkfifo(folder / "pipe")
    (folder / "dangling").symlink_to("nowhere")

    def spoiled(name: str) -> Path:
        shutil.copytree(folder / "ok.zarr", folder / name)
        return folder / name

    os.truncate(spoiled("cut.zarr") / "c/0/0", 20)
    (spoiled("text.zarr") / "zarr.json").write_text('{"zarr_format": 3, ')
    (spoiled("nothing.zarr") / "zarr.json").write_bytes(b"")
    (spoiled("bytes.zarr") / "zarr.json").write_bytes(bytes(range(128, 256)))
    (spoiled("list.zarr") / "zarr.json").write_text("[1, 2]")
    (spoiled("folder.zarr") / "zarr.json").unlink()
    (folder / "folder.zarr" / "zarr.json").mkdir()
    for name, key, value in (
        ("codec.zarr", "codecs", [{"name": "wonder"}]),
        ("type.zarr", "data_type", "float77"),
        ("format.zarr", "zarr_format", 4),
    ):
        path = spoiled(name) / "zarr.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with ZipStore(folder / "good.zip", "w") as store:
        create_array(store, name="x", data=VALUES, chunks=4)
    whole = (folder / "good.zip").read_bytes()
    (folder / "torn.zip").write_bytes(whole[: len(whole) // 2])
    (folder / "headless.zip").write_bytes(whole[100:])
    (folder / "zero.zip").write_bytes(b"")
    return folder


VERBS = ("info", "cat", "check", "map", "compact", "copy", "serve")

BROKEN = [
    ("missing.zarr", 3, "there is no ", "nothing is called"),
    ("missing.zip", 3, "missing.zip' ", ""),
    ("dangling", 3, "there is no ", "nothing is called"),
    ("empty", 3, "there is no ", "none of zarr.json, .zarray, .zgroup, attributes.json in it"),
    ("holds", 3, "there is no ", "nodes in it: 0.zarr, 1.zarr, 2.zarr, 3.zarr, 4.zarr, …"),
    ("file.bin", 3, "there is no ", "is a file; archives are called .zip, and `terrazzo import`"),
    ("pipe", 3, "there is no ", "is a file"),
    ("ok.zarr/below", 3, "there is no ", "ok.zarr` shows what is there"),
    ("good.zip/nope", 3, "there is no ", "good.zip` shows what is there"),
    ("text.zarr", 4, "text.zarr: zarr.json: is not JSON", "`terrazzo check` lists"),
    ("nothing.zarr", 4, "nothing.zarr: zarr.json: is not JSON", "`terrazzo check` lists"),
    ("bytes.zarr", 4, "bytes.zarr: zarr.json: is not UTF-8", "`terrazzo check` lists"),
    ("list.zarr", 4, "list.zarr: zarr.json: found [1, 2], must be an object", "`terrazzo check` lists"),
    ("codec.zarr", 4, 'codec.zarr: zarr.json: codecs[0]: found the codec "wonder"', "`terrazzo check` lists"),
    ("type.zarr", 4, 'type.zarr: zarr.json: data_type: found "float77"', "`terrazzo check` lists"),
    ("format.zarr", 4, "format.zarr: zarr.json: zarr_format: found 4, must be 3", "`terrazzo check` lists"),
    ("folder.zarr", 1, "'zarr.json' is a folder, not an object", ""),
    ("torn.zip", 1, "torn.zip' is not a ZIP archive, or was cut off", ""),
    ("headless.zip", 1, "headless.zip' is refused: member 'zarr.json' overlaps another", ""),
]


def told(capfd: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(list(argv))
    found = capfd.readouterr()
    return code, found.out, found.err


@pytest.mark.parametrize("name, code, words, hint", BROKEN)
@pytest.mark.parametrize("verb", VERBS)
def test_a_broken_place_is_one_line_and_an_exit_code(
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    verb: str,
    name: str,
    code: int,
    words: str,
    hint: str,
) -> None:
    monkeypatch.chdir(place)
    if verb == "serve":
        # it serves objects, whatever they say: only what holds none is refused
        if name not in (
            "missing.zarr",
            "missing.zip",
            "dangling",
            "file.bin",
            "pipe",
            "torn.zip",
            "headless.zip",
        ):
            return
        pytest.importorskip("uvicorn")
        hint = ""
        words = "there is no folder" if code == 3 and not name.endswith(".zip") else words
    more = [str(tmp_path / "copy.zarr")] if verb == "copy" else []
    found, out, err = told(capfd, verb, name, *more)
    said = err if err else out
    assert found == code
    lines = said.splitlines()
    if verb == "check" and code == 4:  # it reports what is wrong, and how much there is
        assert len(lines) == 2 and words.partition(": ")[2] in lines[0] and lines[1].endswith("; 1 problem")
        return
    assert out == ""
    assert lines[0].startswith("terrazzo: error: ") and words in lines[0]
    assert len(lines) == (2 if hint else 1)
    assert not hint or (lines[1].startswith("hint: ") and hint in lines[1])
    assert "mode" not in said and "Traceback" not in said
    assert not (tmp_path / "copy.zarr").exists()


def test_an_empty_archive(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, _, err = told(capfd, "info", str(place / "zero.zip"))
    assert code == 1 and "it has no end record" in err


@pytest.mark.parametrize("verb", ["map", "merge", "cat", "reshard"])
def test_a_group_where_an_array_is_needed(place: Path, capfd: pytest.CaptureFixture[str], verb: str) -> None:
    more = [str(place / "out.zarr"), "--shards", "none"] if verb == "reshard" else []
    code, out, err = told(capfd, verb, str(place / "group.zarr"), *more)
    assert code == 3 and out == "" and "not an array" in err
    assert "group.zarr` shows what lies in the group" in err


@pytest.mark.parametrize("verb", ["cat", "map", "inventory", "compact"])
def test_a_shard_that_was_cut_is_named(place: Path, capfd: pytest.CaptureFixture[str], verb: str) -> None:
    code, _, err = told(capfd, verb, str(place / "cut.zarr"))
    assert code == 4 and "cut.zarr: " in err and "'c/0/0'" in err
    assert "hint: `terrazzo check --verify-data`" in err


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
@pytest.mark.parametrize("key", ["zarr.json", "c/0/0"])
def test_what_may_not_be_read_is_named(
    place: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], key: str
) -> None:
    shutil.copytree(place / "ok.zarr", tmp_path / "closed.zarr")
    (tmp_path / "closed.zarr" / key).chmod(0)
    code, _, err = told(capfd, "cat", str(tmp_path / "closed.zarr"))
    assert code == 1 and "closed.zarr: " in err and f"'{key}' could not be opened: no permission" in err


ODD = {
    "scalar": (np.array(3.5), {}, "3.5\n", "scalar"),
    "scalar-shard": (np.array(3.5), {"chunks": (), "shards": ()}, "3.5\n", "scalar"),
    "empty": (np.zeros((0, 5), "i4"), {}, "", "0 × 5"),
    "ten": (np.ones((1,) * 9 + (2,), "i1"), {"chunks": 1, "shards": (1,) * 9 + (2,)}, "1\t1\n", "1 × 2"),
    "words": (np.array(["a", "\x1b[31mb", "c\nd"], "T"), {}, "a\n\\x1b[31mb\nc\\nd\n", "3"),
    "records": (np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")]), {}, "(1, 2.5)\n", "1"),
    "times": (np.array(["2020-01-01", "NaT"], "M8[D]"), {}, "2020-01-01\nNaT\n", "2"),
}


@pytest.mark.parametrize("name", ODD)
def test_arrays_of_odd_kinds(tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str) -> None:
    values, how, text, shape = ODD[name]
    url = str(tmp_path / "x.zarr")
    create_array(url, data=values, **how)
    code, out, _ = told(capfd, "cat", url)
    assert code == 0 and "".join(f"{line}\n" for line in out.splitlines() if line[0] != "#") == text
    code, out, _ = told(capfd, "info", url)
    assert code == 0 and f"{shape}\n" in out
    for verb in ("tree", "ls", "inventory", "check", "compact"):
        assert told(capfd, verb, url)[0] == 0
    code, out, err = told(capfd, "map", url)
    assert (code, err) == (0, "") if how else (code == 2 and "has no shards" in err)


def test_nothing_that_is_stored_has_no_size(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    create_array(tmp_path / "x.zarr", shape=10, dtype="i4", chunks=2, shards=10)
    url = str(tmp_path / "x.zarr")
    assert "chunk bytes    0 B\n" in told(capfd, "inventory", url)[1]
    code, _, err = told(capfd, "map", url)
    said = f"terrazzo: error: {url}: no shard of the array '/' is stored: it is all fill value\n"
    assert (code, err) == (3, said)
    create_array(tmp_path / "y.zarr", data=np.array(3.5))
    assert "2.6 times larger than decoded" in told(capfd, "inventory", str(tmp_path / "y.zarr"))[1]


@pytest.mark.parametrize(
    ("words", "code", "told_"),
    [
        ("map ok.zarr --picture nowhere/x.png", 3, "'nowhere/x.png': No such file or directory"),
        ("cat ok.zarr 0 -o nowhere/x", 3, "'nowhere/x.part': No such file or directory"),
        ("repair ok.zarr --manifest nowhere", 3, "'nowhere': No such file or directory"),
        ("inventory ok.zarr --against file.bin", 2, "'file.bin' is not a manifest of an inventory"),
        ("map ok.zarr --picture x.jpg", 2, "'x.jpg': pictures are .svg or .png"),
        ("map ok.zarr 5,5", 2, "there is none at (5, 5)"),
        ("cat ok.zarr 99", 2, "index 99 is outside dimension 0, which has 8 elements"),
        ("cat ok.zarr word", 2, "'word' is no selection along dimension 0"),
        ("import nowhere.npy made.zarr", 3, "there is no file 'nowhere.npy'"),
        ("import file.bin made.zarr", 1, "say so (--format)"),
        ("import ok.zarr made.zarr", 1, "is a folder"),
        ("grid status nowhere.yaml", 3, "'nowhere.yaml': No such file or directory"),
        ("grid status bytes.zarr/zarr.json", 2, "it is not text in UTF-8"),
    ],
)
def test_files_and_words_that_are_wrong(
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    words: str,
    code: int,
    told_: str,
) -> None:
    monkeypatch.chdir(place)
    found, out, err = told(capfd, *words.split())
    assert out == "" and len(err.splitlines()) == 1
    assert err.startswith("terrazzo: error: ") and told_ in err
    assert "Errno" not in err and "pickle" not in err and "codec can't" not in err
    assert found == code


def test_counts_are_numbers(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for verb in ("repair", "migrate"):
        code, _, err = told(capfd, verb, str(place / "ok.zarr"), "--chunks-per-shard", "a,b")
        assert code == 2 and "'a,b' is no count for each dimension; write it as 2,2" in err
