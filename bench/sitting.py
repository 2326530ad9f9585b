"""One sitting: every library in turn, again and again, each in a process of its own; medians of what they took.

What it does not do: run an operation itself (worker.py). Since the libraries take turns, a machine that slows down
slows all of them, and ratios within a row hold better than the times.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from libraries import CACHES, LIBRARIES
from question import Case, Question
from volumes import LAYOUTS, Quarry, stored_nbytes, warm
from worker import ANSWER


@dataclass
class Settings:
    repeats: int
    timeout: float
    libraries: tuple[str, ...] | None = None
    check: bool = True
    patience: float = 5.0  # a library that takes longer than this for one process runs once
    #: asked before every turn but the first of a case: whether there is time for it
    on_time: Callable[[], bool] = field(default=lambda: True)


def measure(question: Question, number: int, quarry: Quarry, settings: Settings) -> dict[str, Any]:
    """What every library took for one case: a dictionary of figures, or of a reason, for each."""
    case = question.cases[number]
    names = [name for name in case.libraries if settings.libraries is None or name in settings.libraries]
    layout = LAYOUTS[case.layout]
    values = quarry.values(layout)
    if case.operation.on != "empty":
        warm(quarry.array(layout))
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for turn in range(settings.repeats):
        if turn and not settings.on_time():
            break
        shift = turn % max(1, len(names))
        for name in names[shift:] + names[:shift]:
            if any("seconds" not in run or run["long"] for run in runs[name]):
                continue
            order = {
                "question": question.name,
                "case": number,
                "library": name,
                "values": str(values),
                "shape": quarry.shape_of(layout),
                "turn": turn,
                "check": settings.check and turn == 0,
            }
            runs[name].append(_one(case, order, quarry, settings))
    return {name: _median(found) for name, found in runs.items()}


def _one(case: Case, order: dict[str, Any], quarry: Quarry, settings: Settings) -> dict[str, Any]:
    layout = LAYOUTS[case.layout]
    place = quarry.folder / "written.zarr"
    if case.operation.on != "empty":
        order["stored"] = str(quarry.array(layout))
    order["document"] = str(quarry.document(layout))
    order["path"] = order["stored"] if case.operation.on == "stored" else str(place)
    found = _run(order, settings)
    if case.operation.on != "stored":
        if "seconds" in found:
            found["stored"] = stored_nbytes(place)
        shutil.rmtree(place, ignore_errors=True)
    return found


def _run(order: dict[str, Any], settings: Settings) -> dict[str, Any]:
    command = [sys.executable, str(Path(__file__).with_name("worker.py"))]
    try:
        done = subprocess.run(
            command, input=json.dumps(order), capture_output=True, text=True, timeout=settings.timeout
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {settings.timeout:.0f} s", "late": settings.timeout}
    lines = [line for line in done.stdout.splitlines() if line.startswith(ANSWER)]
    if not lines:
        last = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
        return {"failed": last[:300]}
    found: dict[str, Any] = json.loads(lines[-1].removeprefix(ANSWER))
    found["long"] = sum(found.get("seconds", [])) + found.get("first", 0) > settings.patience
    return found


def _median(runs: list[dict[str, Any]]) -> dict[str, Any]:
    for run in runs:
        if "seconds" not in run:
            return run
    seconds = [t for run in runs for t in run["seconds"]]
    cpu = [t for run in runs for t in run["cpu"]]
    found = {
        "wall": statistics.median(seconds),
        "best": min(seconds),
        "cpu": statistics.median(cpu),
        "best_cpu": min(cpu),
        "calls": len(seconds),
        "nbytes": runs[0]["nbytes"],
        "peak": statistics.median(run["peak"] for run in runs),
    }
    if "stored" in runs[0]:
        found["stored"] = runs[0]["stored"]
    return found


def ratios(row: dict[str, Any]) -> tuple[float, float] | None:
    """How many times our wall and CPU seconds the best of the others takes, each by its own best."""
    ours = row.get("terrazzo", {})
    others = [found for name, found in row.items() if is_peer(name) and "wall" in found]
    if "wall" not in ours or not others:
        return None
    wall = min(found["wall"] for found in others) / ours["wall"]
    cpu = min(found["cpu"] for found in others) / max(ours["cpu"], 1e-9)
    return wall, cpu


def is_peer(name: str) -> bool:
    return name not in CACHES and not name.startswith(("terrazzo", "floor"))


def labels(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name in row:
        yield name, LIBRARIES[name].label
