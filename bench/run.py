"""Measure terrazzo beside the other libraries: one command for every question, a page of tables and drawings.

    python bench/run.py                              everything: under half an hour on two cores; writes docs/bench
    python bench/run.py --quick                      smaller arrays, a few minutes
    python bench/run.py --only whole_read,slices     some questions
    python bench/run.py --from a.json,b.json         the page again, from figures that were kept; later ones win

    python bench/run.py --json a.json                the same, kept case by case: a run that was stopped is gone on with

Arrays are made in a temporary folder and removed. Unless everything was asked, or --write says where, the tables are
printed and nothing is kept.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import plots
import tables
from libraries import LIBRARIES
from question import ORDER, Question, ask, every_question
from sitting import Settings, measure
from volumes import Quarry

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    asked = arguments()
    names = asked.only.split(",") if asked.only else every_question()
    questions = [ask(name) for name in names]
    if asked.source:
        report = kept(asked.source.split(","))
    else:
        report = sit(asked, questions)
    if asked.json:
        keep(report, asked.json)
    some = (asked.only, asked.quick, asked.shape, asked.libraries, asked.cases, asked.source)
    if asked.write or not any(some):
        write(report, questions, Path(asked.write or ROOT / "docs" / "bench"))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add = parser.add_argument
    add("--only", metavar="QUESTIONS", help=f"some of {', '.join(ORDER)}, with commas between")
    add("--quick", action="store_true", help="256³ instead of 512³, two turns, without the heaviest cases")
    add("--repeats", type=int, help="processes for each library and case (default 3, quick 2)")
    add("--shape", help="of the main arrays, as 512,512,512")
    add("--libraries", help="some libraries, with commas between: " + ", ".join(LIBRARIES))
    add("--cases", help="only cases whose name contains this")
    add("--timeout", type=float, default=60, help="seconds that one process may take (default 60)")
    add("--folder", help="where arrays are made (default: the system's temporary folder)")
    add(
        "--reuse",
        metavar="FOLDER",
        help="a folder for the arrays that is kept, and used again by the next run",
    )
    add(
        "--json",
        metavar="FILE",
        help="keep the figures; what a file of the same commit, shape and machine has already is not measured again",
    )
    add(
        "--minutes",
        type=float,
        default=22,
        help="later turns are left out to end in about this time (default 22)",
    )
    add(
        "--from",
        dest="source",
        metavar="FILE",
        help="make the page from figures that were kept; measure nothing",
    )
    add("--write", metavar="FOLDER", help="write the page and its drawings there, as docs/bench")
    add("--no-check", action="store_true", help="do not compare what was read and written with the values")
    return parser.parse_args()


def sit(asked: argparse.Namespace, questions: list[Question]) -> dict[str, Any]:
    shape = (256, 256, 256) if asked.quick else (512, 512, 512)
    if asked.shape:
        shape = tuple(int(n) for n in asked.shape.split(","))
    settings = Settings(
        repeats=asked.repeats or (2 if asked.quick else 3),
        timeout=asked.timeout,
        libraries=tuple(asked.libraries.split(",")) if asked.libraries else None,
        check=not asked.no_check,
    )
    report = begun(circumstances(shape, settings), asked.json)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the folder goes in that case too
    folder = Path(asked.reuse or tempfile.mkdtemp(prefix="terrazzo-bench-", dir=asked.folder))
    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    cases = [
        (question, number)
        for question in questions
        for number, case in enumerate(question.cases)
        if not ((asked.quick and case.heavy) or (asked.cases and asked.cases not in case.name))
        and case.name not in report["results"].get(question.name, {})
    ]
    try:
        quarry = Quarry(folder, shape)
        for done, (question, number) in enumerate(cases):
            rows = report["results"].setdefault(question.name, {})
            due = 60 * asked.minutes * (done + 1) / len(cases)
            settings.on_time = lambda due=due: time.monotonic() - started < due
            rows[question.cases[number].name] = measure(question, number, quarry, settings)
            report["load"] = max(report["load"], os.getloadavg()[1])
            lines = list(tables.table(question, rows))
            if number == 0 or len(rows) == 1:
                print(f"\n{question.title}\n", *lines, sep="\n", flush=True)
            else:
                print(lines[-1], flush=True)
            if asked.json:
                keep(report, asked.json)  # what was measured stays when the rest does not end
    finally:
        if not asked.reuse:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{time.monotonic() - started:.0f} s")
    return report


def begun(report: dict[str, Any], path: str | None) -> dict[str, Any]:
    """The report that a stopped run has kept there, where it is one of the same commit, shape and machine."""
    if path is None or not Path(path).exists():
        return report
    found = kept([path])
    same = all(found.get(name) == report[name] for name in ("commit", "machine", "python", "versions"))
    return found if same and tuple(found["shape"]) == report["shape"] else report


def keep(report: dict[str, Any], path: str) -> None:
    """Write it whole or not at all: the run may be stopped at any moment."""
    beside = Path(f"{path}.new")
    beside.write_text(json.dumps(report, indent=1) + "\n")
    beside.replace(path)


def kept(paths: list[str]) -> dict[str, Any]:
    """One report from several: the circumstances of the last, and of every question the last that has it."""
    reports = [json.loads(Path(path).read_text()) for path in paths]
    results: dict[str, Any] = {}
    for report in reports:
        for name, rows in report["results"].items():
            results.setdefault(name, {}).update(rows)
    told = {name: max(report[name] for report in reports) for name in ("repeats", "load")}
    return {**reports[-1], **told, "results": results}


def circumstances(shape: tuple[int, ...], settings: Settings) -> dict[str, Any]:
    """What a reader of the figures needs to know."""
    versions = {}
    for package in sorted({package for library in LIBRARIES.values() for package in library.packages}):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "as built" if package == "terrazzo" else "missing"
    return {
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "machine": processor(),
        "python": platform.python_version(),
        "versions": versions,
        "shape": shape,
        "repeats": settings.repeats,
        "load": 0.0,
        "results": {},
    }


def commit() -> str:
    asking = ["git", "-C", str(ROOT), "rev-parse", "--short=10", "HEAD"]
    try:
        return subprocess.run(asking, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def write(report: dict[str, Any], questions: list[Question], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    drawn: dict[str, str] = {}
    for question in questions:
        rows = report["results"].get(question.name)
        if rows and question.plot:
            drawn[question.name] = f"{question.name.replace('_', '-')}.svg"
            (folder / drawn[question.name]).write_text(plots.draw(question, rows))
    (folder / "measurements.md").write_text(tables.page(report, questions, drawn))
    print(f"wrote {folder}/measurements.md and {len(drawn)} drawings", file=sys.stderr)


if __name__ == "__main__":
    main()
