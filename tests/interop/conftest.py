"""Which peers are here, what each of them can do, and a table of it at the end of the run."""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from cases import Case, canonical, differences, expected
from peers import PEERS, Peer

LIVE = [peer() for peer in PEERS if peer.installed()]

#: direction -> case -> peers that took part
exchanged: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))


class Exchange:
    """What a test needs to trade arrays with the peers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def able(self, case: Case) -> list[tuple[Peer, Path]]:
        """The peers that write this case and read their own bytes back equal, with the folder each wrote."""
        found = []
        for peer in LIVE:
            path = self.folder / peer.name / "array"
            values = case.values(seed=11)
            try:
                peer.write(path, case, values)
                same = canonical(peer.read(path, case), case)
            except Exception:  # a peer refuses in its own words; the table says so
                shutil.rmtree(path, ignore_errors=True)
                continue
            if case.lossy or differences(same, expected(case, values), case) == 0:
                found.append((peer, path))
        return found

    @staticmethod
    def note(direction: str, case: Case, peers: list[Peer]) -> None:
        exchanged[direction][case.name] = [peer.name for peer in peers]


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
