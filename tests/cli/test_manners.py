"""How the command line behaves: usage, errors, pipes, interrupts, terminals."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo.cli.check as check_verb
from terrazzo.cli import main
from terrazzo.errors import ChecksumError, TerrazzoWarning
from terrazzo.groups.creating import create_array
from terrazzo.progress import follow


def test_help_and_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage: terrazzo" in capsys.readouterr().err
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for verb in ("info", "tree", "ls", "cat", "import", "copy", "check", "map"):
        assert f"\n    {verb} " in out
        assert main([verb, "--help"]) == 0
        assert "--json" in capsys.readouterr().out
    assert main(["nosuch"]) == 2
    assert main(["info"]) == 2
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("terrazzo ")


def test_an_error_is_one_line_and_a_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(tmp_path / "no\nthing.zarr")]) == 3
    found = capsys.readouterr()
    assert found.out == ""
    lines = found.err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("terrazzo: error: there is no array or group")
    assert lines[1].startswith("hint: nothing is called ") and "no\\nthing.zarr" in lines[1]


def test_an_error_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(tmp_path / "nothing.zarr"), "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["error"]["exit"] == 3 and found["error"]["kind"].endswith("NotFoundError")


def test_corrupt_data_has_its_own_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create_array(tmp_path / "x.zarr", data=np.arange(100), compressors="crc32c")
    path = tmp_path / "x.zarr" / "c" / "0"
    content = bytearray(path.read_bytes())
    content[5] ^= 1
    path.write_bytes(content)
    assert main(["cat", str(tmp_path / "x.zarr")]) == 4
    err = capsys.readouterr().err
    assert "crc32c" in err and "hint: `terrazzo check --verify-data`" in err
    (tmp_path / "x.zarr" / "zarr.json").write_text("{")
    assert main(["info", str(tmp_path / "x.zarr")]) == 4


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def check(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(check_verb, "check", check)


@pytest.mark.parametrize(
    "error, code, words",
    [
        (KeyboardInterrupt(), 130, "terrazzo: interrupted"),
        (ChecksumError("a\x1b[31mb"), 4, "terrazzo: error: x: a\\x1b[31mb"),
        (PermissionError(13, "not allowed", "x"), 1, "not allowed"),
        (ImportError("install this"), 1, "install this"),
        (ValueError("wrong"), 2, "wrong"),
        (MemoryError(), 1, "a smaller selection"),
        (RuntimeError("odd"), 1, "RuntimeError: odd"),
    ],
)
def test_errors_and_their_codes(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    words: str,
) -> None:
    raising(monkeypatch, error)
    assert main(["check", "x"]) == code
    err = capsys.readouterr().err
    assert words in err and "Traceback" not in err


def test_debug_shows_the_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(monkeypatch, RuntimeError("odd"))
    assert main(["check", "x", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_warnings_are_lines_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from terrazzo.care import Report

    def check(*_: Any, **__: Any) -> Report:
        warnings.warn("take\ncare", TerrazzoWarning, stacklevel=1)
        return Report()

    monkeypatch.setattr(check_verb, "check", check)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["check", "x"]) == 0
        assert capsys.readouterr().err == "terrazzo: warning: take\\ncare\n"
        assert main(["check", "x", "--quiet"]) == 0
        assert capsys.readouterr().err == ""


def command(*argv: str) -> list[str]:
    return [sys.executable, "-m", "terrazzo", *argv]


def test_a_pipe_whose_reader_goes_away(tmp_path: Path) -> None:
    create_array(tmp_path / "x.zarr", shape=(1 << 28,), dtype="i1", chunks=1 << 20)
    running = subprocess.Popen(
        command("cat", str(tmp_path / "x.zarr"), "--format", "raw"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert running.stdout is not None and running.stderr is not None
    assert running.stdout.read(1) == b"\0"
    running.stdout.close()
    assert running.stderr.read() == b""
    assert running.wait(60) == 141
    running.stderr.close()


def test_a_terminal_without_our_characters(tmp_path: Path) -> None:
    create_array(tmp_path / "x.zarr", name="a/ü", shape=3, dtype="i1")
    done = subprocess.run(
        command("tree", str(tmp_path / "x.zarr")),
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        timeout=60,
    )
    assert done.returncode == 0 and b"\\u2514" in done.stdout


def test_an_interrupt_ends_it_quietly(tmp_path: Path) -> None:
    array = create_array(tmp_path / "x.zarr", shape=(8_000,), dtype="i1", chunks=1)
    array[:4_000] = 1
    code = (
        "import sys, terrazzo.cli.run as run\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        f"    code = run.main(['check', {str(tmp_path / 'x.zarr')!r}, '--verify-data', '--quiet', '--json'])\n"
        "    if code: sys.exit(code)\n"
    )
    running = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout is not None
    assert running.stdout.readline() == b"ready\n"
    time.sleep(0.3)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert err == b"terrazzo: interrupted\n"


# progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_no_bar_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    with follow(True, 10, "working") as step:
        step(10)
    assert capsys.readouterr().err == ""


def test_a_plain_bar_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("terrazzo.progress.find_spec", lambda name: None)
    monkeypatch.setenv("TERM", "xterm")
    with follow(True, 4, "working") as step:
        for _ in range(4):
            step(1)
    shown = terminal.getvalue()
    assert "\rworking [" in shown and "100%" in shown
    assert "\x1b" not in shown
    assert shown.endswith("\r")


def test_a_rich_bar_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    with follow(True, 4, "work[red]ing") as step:
        step(4)
    assert "work[red]ing" in terminal.getvalue()
    assert "\x1b[31m" not in terminal.getvalue()


def test_a_callable_hears_every_step() -> None:
    heard: list[tuple[int, int]] = []
    with follow(lambda done, total: heard.append((done, total)), 5, "x") as step:
        step(2)
        step(3)
    assert heard == [(0, 5), (2, 5), (5, 5)]
    for silent in (None, False):
        with follow(silent, 5, "x") as step:
            step(5)
