"""`terrazzo serve`: what it prints, that it answers, and how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import terrazzo
from terrazzo.cli import main


def started(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "terrazzo", "serve", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    terrazzo.create_array(tmp_path / "g.zarr/a", data=np.arange(100), chunks=(10,), shards=(50,))
    return tmp_path / "g.zarr"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_interrupted(stored: Path, number: int) -> None:
    process = started(str(stored / "a"), "--json")
    assert process.stdout is not None
    told = json.loads(process.stdout.readline())
    assert told["write"] is False and told["open"]["document"] == told["address"] + "zarr.json"
    with urllib.request.urlopen(told["open"]["document"]) as answer:
        assert json.load(answer)["shape"] == [100]
    with pytest.raises(urllib.error.HTTPError, match="405"):
        urllib.request.urlopen(urllib.request.Request(told["address"] + "x", b"x", method="PUT"))
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "", "terrazzo: stopped\n")


def test_it_tells_how_to_open_what_it_serves(stored: Path) -> None:
    process = started(str(stored / "a"), "--port", "0")
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(6)]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    names = [line.split()[0] for line in lines]
    assert names == ["address", "document", "Python", "JavaScript", "neuroglancer", "Ctrl-C"]
    assert "".join(lines).count("http://127.0.0.1:") == 5


def test_a_path_in_an_archive(tmp_path: Path) -> None:
    from terrazzo.stores.zip import ZipStore

    with ZipStore(tmp_path / "x.zip", "w") as store:
        terrazzo.create_array(store, name="deep/a", data=np.arange(10))
    process = started(str(tmp_path / "x.zip/deep/a"), "--json", "--quiet")
    assert process.stdout is not None
    told = json.loads(process.stdout.readline())
    with urllib.request.urlopen(told["open"]["document"]) as answer:
        assert json.load(answer)["shape"] == [10]
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[1] == "" and process.returncode == 0


def test_what_cannot_be_served(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(tmp_path / "nothing")]) == 3
    assert "there is no folder" in capsys.readouterr().err
    assert main(["serve", str(tmp_path), "--port", "70000"]) == 2
    assert main(["serve", str(tmp_path), "--host", "no.such.host.invalid"]) == 1
    for option in ("--patience", "--connections", "--keep-alive"):
        assert main(["serve", str(tmp_path), option, "0"]) == 2
        assert "it has to be more than 0" in capsys.readouterr().err
    assert main(["serve", str(tmp_path), "--longest", "much"]) == 2
    (tmp_path / "file").write_text("x")
    assert main(["serve", str(tmp_path / "file")]) == 3
