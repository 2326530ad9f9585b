"""A system that fails, to the native kernel: interrupted and short calls, a full disk, files that end, no memory.

A library that is loaded ahead of libc makes the system fail on request (faults/failing_system.c); the calls are made in
another process (faults/refusals.py), which must live on: the answer is the right value, or a fault.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COMPILER = shutil.which("cc")

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="libraries are loaded ahead on Linux"),
    pytest.mark.skipif(COMPILER is None, reason="there is no C compiler"),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert COMPILER is not None
    made = tmp_path_factory.mktemp("system") / "failing_system.so"
    source = ROOT / "tests/faults/failing_system.c"
    found = subprocess.run(
        [COMPILER, "-shared", "-fPIC", "-O1", "-o", made, source, "-ldl"], capture_output=True
    )
    if found.returncode != 0:
        pytest.skip(f"the library does not compile here: {found.stderr.decode()[:200]}")
    return made


def answers(library: Path, what: str) -> dict[str, str]:
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    made = subprocess.run(
        [sys.executable, "-m", "tests.faults.refusals", str(library), what],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        env=environment,
    )
    assert made.returncode == 0, made.stderr[-2000:]
    return json.loads(made.stdout)  # type: ignore[no-any-return]


def test_files_that_give_trouble(library: Path) -> None:
    """Interrupted and short calls are gone on with, a copy that the system refuses is made by reading and writing; what
    it really refuses is a fault."""
    wanted = {"refuse call": {"io"}, "end call": {"io", "range"}, "copy fails": {"io"}}
    found = answers(library, "files")
    assert len(found) > 500
    for case, answer in found.items():
        allowed = next((kinds for name, kinds in wanted.items() if f": {name}" in case), {"right"})
        assert answer in allowed, case


def test_memory_that_cannot_be_had(library: Path) -> None:
    """Whichever large allocation fails, the call ends with a fault of that kind, or does without."""
    found = answers(library, "allocations")
    assert {case: answer for case, answer in found.items() if answer not in ("right", "memory")} == {}
    assert sum(answer == "memory" for answer in found.values()) > 100
