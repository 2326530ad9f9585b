"""The page of what is supported says what the code says."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tools import support

EXTRAS = ("numcodecs", "ml_dtypes", "zfpy", "pcodec", "msgpack")
pytestmark = pytest.mark.skipif(any(find_spec(one) is None for one in EXTRAS), reason="needs all extras")


def test_the_page_is_made_from_the_code() -> None:
    """In a process of its own: codecs that other tests make known are none of the library's."""
    path = os.pathsep.join([str(support.ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "tools.support", "--check"],
        cwd=support.ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"python -m tools.support makes the page anew; {done.stderr}"


def test_every_name_is_shown_by_an_array() -> None:
    """What cannot be made is said so: here, two names and no more."""
    text = support.PAGE.read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `") and "=`" not in line]
    assert len(rows) > 100
    assert all(row[1] == "yes" for row in rows)
    assert [row[0] for row in rows if row[2] == "no"] == ["| `n5`", "| `rectangular`"]
