"""Hands every test its exchange with the peers, and draws the table of it at the end of the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from exchange import LIVE, Exchange, exchanged


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "ignore")  # what the peers warn of is not ours to mend


@pytest.fixture
def exchange(tmp_path: Path) -> Exchange:
    return Exchange(tmp_path)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    report = terminalreporter
    for direction, cases in exchanged.items():
        families = sorted({name.split("/")[0] for name in cases})
        report.section(f"{direction}: arrays exchanged, by kind and peer")
        report.write_line("".join(f"{word:>14}" for word in ("kind", "cases", *(peer.name for peer in LIVE))))
        for family in families:
            rows = [peers for name, peers in cases.items() if name.startswith(family + "/")]
            counts = [sum(peer.name in peers for peers in rows) for peer in LIVE]
            report.write_line("".join(f"{word:>14}" for word in (family, len(rows), *counts)))
        alone = [name for name, peers in cases.items() if not peers]
        report.write_line(f"no peer has: {', '.join(alone) or 'nothing'}")
    report.write_line("peers: " + (", ".join(peer.version() for peer in LIVE) or "none"))
