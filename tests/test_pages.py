"""The pages run: every Python block of the README and of docs/ works, page by page, from top to bottom."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize(
    "page", [page for page in PAGES if BLOCK.search(page.read_text(encoding="utf-8"))], ids=name
)
def test_the_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    module = ModuleType("__page__")  # dataclasses look for the module that they were made in
    monkeypatch.setitem(sys.modules, "__page__", module)
    known: dict[str, Any] = module.__dict__
    for block in BLOCK.finditer(text):
        # as many empty lines before it as stand above it on the page, so that a traceback names the right line
        above = text[: block.start(1)].count("\n")
        exec(compile("\n" * above + block[1], name(page), "exec", dont_inherit=True), known)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_links_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_readme_names_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    named = {extra for row in rows for extra in re.findall(r"`([a-z0-9-]+)`", row)}
    assert project["optional-dependencies"].keys() - {"all"} == named
