"""Every example in a docstring runs and says the truth."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import numpy as np
import pytest

import terrazzo

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
#: what one who reads the examples has imported
NAMES = {"np": np, "terrazzo": terrazzo}


def examples() -> list[doctest.DocTest]:
    found = []
    finder = doctest.DocTestFinder(exclude_empty=True)
    for module in sorted(pkgutil.walk_packages(terrazzo.__path__, "terrazzo."), key=lambda one: one.name):
        if module.name.rpartition(".")[2] in ("__main__", "_kernel"):
            continue
        loaded = importlib.import_module(module.name)
        found += finder.find(loaded, extraglobs=NAMES)
    found += finder.find(terrazzo, extraglobs=NAMES)
    return [test for test in found if test.examples]


@pytest.mark.parametrize("example", examples(), ids=lambda test: test.name)
def test_example_runs(example: doctest.DocTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines: list[str] = []
    result = doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(example, out=lines.append)
    assert not result.failed, "".join(lines)


def test_there_are_examples() -> None:
    assert len(examples()) > 20
