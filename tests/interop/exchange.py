"""Trading arrays with the peers that are installed, and a record of who took part."""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path

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
