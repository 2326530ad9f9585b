"""One process, one library, one operation: runs it, checks it, prints what it took as a line of JSON.

What it does not do: choose anything. It is told by a JSON object on its standard input.
"""

from __future__ import annotations

import contextlib
import json
import resource
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from contract import Lacking, Library
from libraries import LIBRARIES
from operations import Job
from question import Case, ask
from volumes import LAYOUTS

ANSWER = "ANSWER "
#: a process stops repeating after this many timed seconds
ENOUGH = 1.5


def main() -> None:
    order = json.load(sys.stdin)
    case = ask(order["question"]).cases[order["case"]]
    try:
        found = measured(case, order)
    except Lacking as lacking:
        found = {"lacks": str(lacking)}
    except ImportError as error:
        found = {"lacks": f"not installed ({error.name})"}
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0].replace(order["path"], "the array")
        found = {"failed": f"{type(error).__name__}: {first}".rstrip(": ")[:200]}
    print(ANSWER + json.dumps(found))


def measured(case: Case, order: dict[str, Any]) -> dict[str, Any]:
    make: type[Library] = LIBRARIES[order["library"]]
    make.sync = case.sync
    operation = case.operation
    layout = LAYOUTS[case.layout]
    job = Job(
        make=make,
        path=order["path"],
        values=Path(order["values"]),
        layout=layout,
        shape=tuple(order["shape"]),
        rng=np.random.default_rng(),
    )
    if not operation.opens:
        make(job.path, "r")  # imports are not the question
    seconds, cpu = [], []
    base = 0
    prepared = answer = None
    for call in range(case.calls + 1):
        job.rng = np.random.default_rng(1000 * order["turn"] + call)
        answer = None  # before the next one is made
        if operation.on != "empty":
            prepared = None
        if operation.on != "stored":
            job.library = None
            lay_out(operation.on, order)
        if operation.opens and job.library is None:
            job.library = make(job.path, "r" if operation.on == "stored" else "r+")
        if prepared is None:
            prepared = operation.prepare(job)
        if call == 0:
            base = forget_peak()
        cpu0, t0 = cpu_seconds(), time.perf_counter()
        answer = operation.perform(job, prepared)
        t1, cpu1 = time.perf_counter(), cpu_seconds()
        seconds.append(t1 - t0)
        cpu.append(cpu1 - cpu0)
        if sum(seconds[1:]) > ENOUGH or (call == 0 and seconds[0] > 3 * ENOUGH):
            break
    first = seconds[0]
    if (
        len(seconds) > 1
    ):  # the first call also pays for what is made once, and for memory that is touched first
        del seconds[0], cpu[0]
    peak = status("VmHWM") - base
    nbytes = operation.nbytes(prepared, answer)
    if order["check"]:
        operation.check(job, prepared, answer)
    return {
        "seconds": seconds,
        "cpu": cpu,
        "first": first,
        "nbytes": nbytes,
        "peak": peak - (nbytes if operation.on == "stored" else 0),
    }


def lay_out(on: str, order: dict[str, Any]) -> None:
    """What a write finds: the document of an array alone, or a copy of the stored array."""
    place = Path(order["path"])
    shutil.rmtree(place, ignore_errors=True)
    if on == "copy":
        shutil.copytree(order["stored"], place)
        return
    place.mkdir()
    shutil.copy(Path(order["document"]), place / "zarr.json")


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def status(field: str) -> int:
    """Bytes that Linux knows of this process; 0 elsewhere."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    return 0


def forget_peak() -> int:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


if __name__ == "__main__":
    main()
