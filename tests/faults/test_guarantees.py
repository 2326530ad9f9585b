"""The pages of promises name tests: each of them exists, and every fault test is named or stands for itself."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
PAGES = ["docs/guarantees.md", "docs/correctness.md", "SECURITY.md"]


def named_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test")
    }


@pytest.mark.parametrize("page", PAGES)
def test_the_tests_that_are_named_exist(page: str) -> None:
    named = NAMED.findall((ROOT / page).read_text(encoding="utf-8"))
    assert named
    for path, test in named:
        assert (ROOT / path).exists(), path
        assert not test or test in named_in(ROOT / path), f"{path}::{test}"


def test_every_promise_names_a_test() -> None:
    lines = (ROOT / "docs/guarantees.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("|")]
    promises = [row for row in rows if not row.startswith(("| promise", "| ---"))]
    assert len(promises) > 20
    assert [row for row in promises if not NAMED.search(row)] == []


def test_every_row_of_the_attacks_has_a_test() -> None:
    """Row numbers of SECURITY.md are in the names of the tests."""
    rows = re.findall(
        r"^\| (\d+)(?:-(\d+))? \|", (ROOT / "SECURITY.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    numbers = {n for first, last in rows for n in range(int(first), int(last or first) + 1)}
    tested: set[int] = set()
    by_servers = named_in(ROOT / "tests/remote/test_attacks.py")
    for name in named_in(ROOT / "tests/faults/test_attack_table.py") | by_servers:
        told = [int(n) for n in re.findall(r"(?<=_)\d+(?=_)", name.removeprefix("test"))]
        spans = re.match(r"test_\d+_to_\d+_", name)
        tested |= set(range(told[0], told[-1] + 1)) if spans else set(told)
    assert numbers
    assert numbers <= tested, sorted(numbers - tested)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "tests").glob("*/ledgers/*.json")), ids=lambda path: path.stem
)
def test_the_ledgers_are_whole(path: Path) -> None:
    ledger = json.loads(path.read_text(encoding="utf-8"))
    assert {"search", "command", "commit", "python", "system", "seconds", "results"} <= set(ledger)
    assert all("violations" in result for result in ledger["results"])
