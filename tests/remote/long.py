"""The long searches among remote stores, with ledgers: `python -m tests.remote.long soak --server moto`, and so on.

What it does not do: run with the suite; there each search has a short form. Ledgers are as in tests/faults/long.py.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.faults.long import commit
from tests.remote import servers
from tests.remote.endurance import endurance, grown
from tests.remote.soak import FIVE_PERCENT, soak

LEDGERS = Path(__file__).parent / "ledgers"
#: growth that is no growth: pages that were touched for the first time
SLACK_KIB = 4096


def soaks(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """8 clients with 200 turns, two compare-and-swaps each, through a proxy with 5 % of each fault; 2 readers."""
    with servers.start(asked.server) as server:
        yield soak(
            server,
            clients=8,
            turns=asked.count or 200,
            readers=2,
            faults=FIVE_PERCENT,
            seed=asked.seed,
            path=f"soak{asked.seed}",
        )


def reads(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """10,000 reads of one inner chunk, 16 at a time, 20 ms each, by S3 and by HTTP."""
    for protocol in ("s3", "http"):
        told = endurance(asked.count or 10_000, protocol=protocol, rest=15.0)
        violations = told["wrong"] + len(grown(told, SLACK_KIB))
        yield {"protocol": protocol, **told, "grown": grown(told, SLACK_KIB), "violations": violations}


SEARCHES = {"soak": soaks, "reads": reads}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("search", choices=SEARCHES)
    parser.add_argument("--server", default="moto", choices=servers.SERVERS)
    parser.add_argument("--count", type=int, default=0, help="turns of each client, or reads")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ledgers", type=Path, default=LEDGERS)
    asked = parser.parse_args()
    if asked.search == "soak" and (absent := servers.missing(asked.server)):
        print(absent, file=sys.stderr)
        return 2
    head, start, results = commit(), time.time(), []
    for result in SEARCHES[asked.search](asked):
        print(json.dumps(result), flush=True)
        results.append(result)
    named = f" --server {asked.server}" if asked.search == "soak" else ""
    counted = f" --count {asked.count}" if asked.count else ""
    ledger = {
        "search": asked.search,
        "command": f"python -m tests.remote.long {asked.search}{named}{counted} --seed {asked.seed}",
        "commit": head,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "seconds": round(time.time() - start),
        "results": results,
    }
    asked.ledgers.mkdir(exist_ok=True, parents=True)
    name = f"soak-{asked.server}" if asked.search == "soak" else asked.search
    (asked.ledgers / f"{name}.json").write_text(json.dumps(ledger, indent=1) + "\n", encoding="utf-8")
    return int(any(result["violations"] for result in results))


if __name__ == "__main__":
    sys.exit(main())
