"""What is installed for the tests is pinned, and checked against a digest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent.parent / "requirements"
PINNED = re.compile(r"([A-Za-z0-9._-]+)==(\S+)")


def pins(text: str) -> dict[str, str]:
    """Package (in its normal spelling) and version of every line that pins one."""
    found = [PINNED.match(line) for line in text.splitlines()]
    return {re.sub(r"[-_.]+", "-", m[1]).lower(): m[2] for m in found if m}


@pytest.mark.parametrize("path", sorted(HERE.glob("*.txt")), ids=lambda path: path.stem)
def test_every_pin_has_digests(path: Path) -> None:
    lock = path.with_suffix(".lock").read_text()
    wanted = pins(path.read_text())
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    assert len(wanted) == len(lines), "every line is a comment or name==version"
    assert pins(lock) == wanted, "run tools/lock"
    for entry in re.split(r"\n(?=\S)", lock.strip()):
        assert "--hash=sha256:" in entry, entry.splitlines()[0]


def test_installations_check_digests() -> None:
    for place in ("Makefile", "tools/peers", "tools/fixtures"):
        for line in (HERE.parent / place).read_text().splitlines():
            if "--requirement" in line:
                assert "--require-hashes" in line, f"{place}: {line.strip()}"
