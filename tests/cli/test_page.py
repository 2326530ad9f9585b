"""docs/cli.md tells the truth: every command on it is run, in order, and prints what the page shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from terrazzo.cli import main
from terrazzo.cli.run import EXIT_CODES, VERBS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
BLOCK = re.compile(r"^```(py|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def masked(text: str) -> str:
    """Without what another version of a compressor may change: sizes, checksums, the rows of a map."""
    text = re.sub(r"^ *[0-9.]+ k?B  [0-9a-z#.]+$", "ROW", text, flags=re.MULTILINE)
    text = re.sub(r"[0-9.]+ k?B", "SIZE", text)
    text = re.sub(r"^(bytes [a-z ]+?) +[0-9,]+$", r"\1 NBYTES", text, flags=re.MULTILINE)
    text = re.sub(r"0x[0-9a-f]+", "CHECKSUM", text)
    return re.sub(r"[0-9.]+ times", "RATIO times", text)


def test_the_page_shows_what_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    known: dict[str, Any] = {}
    commands = 0
    for kind, block in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "py":
            exec(block, known)
            continue
        for part in block.split("$ ")[1:]:
            command, _, expected = part.partition("\n")
            words = shlex.split(command)
            assert words[0] == "terrazzo"
            main(words[1:])
            found = capsys.readouterr()
            assert masked(found.out + found.err) == masked(expected), command
            commands += 1
    assert commands > len(VERBS)


def test_the_page_names_every_verb_and_exit_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for verb in VERBS:
        assert f"## {verb.NAME}" in text
    for code, words in EXIT_CODES.items():
        assert f"| {code} | {words} |" in text
