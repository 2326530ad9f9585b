"""Every example in a docstring runs and says the truth."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import numpy as np
import pytest

import terrazzo

HOUSE = Path(terrazzo.__file__).parent
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
#: what one who reads the examples has imported
NAMES = {"np": np, "terrazzo": terrazzo}
FILES = sorted(path for path in HOUSE.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8"))


def module_name(path: Path) -> str:
    return ".".join(["terrazzo", *path.relative_to(HOUSE).with_suffix("").parts]).removesuffix(".__init__")


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_examples_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(module_name(path))
    tests = [test for test in doctest.DocTestFinder().find(module, extraglobs=NAMES) if test.examples]
    assert tests, "an example that no docstring holds"
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    lines: list[str] = []
    for number, test in enumerate(tests):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        runner.run(test, out=lines.append)
    assert not runner.failures, "".join(lines)


def test_there_are_examples() -> None:
    assert len(FILES) > 10
