"""Scripts as users write them, with the names of zarr-python: each runs in a folder of its own.

The interop tests run the same scripts with zarr-python itself.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script_runs(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")


def test_there_are_many() -> None:
    assert len(SCRIPTS) >= 20
