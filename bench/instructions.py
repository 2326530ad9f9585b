"""Count the kernel's instructions on fixed input, and compare with the counts that were committed.

    python bench/instructions.py             fails where a case takes over 3 % more than its committed count
    python bench/instructions.py --update    commit to what is counted now, for this toolchain

What it does not do: measure time, caches or threads. callgrind counts what one thread executes, so that the answer is
the same on a busy machine. Counts belong to a toolchain (compilers, target, locked crates, C library, the processor's
vector units): for one that has no counts, or without valgrind, it prints what it found and ends well.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MANIFEST = ROOT / "kernel" / "Cargo.toml"
BASELINE = Path(__file__).with_suffix(".json")
#: a case may take so many times its committed count
SLACK = 1.03
#: turns of the two runs whose difference is counted
FEW, MANY = 1, 3

Counts = dict[str, int]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--update", action="store_true", help="write the counts of this toolchain")
    parser.add_argument("--only", help="cases whose name contains this")
    asked = parser.parse_args()
    for tool in ("cargo", "valgrind"):
        if shutil.which(tool) is None:
            print(f"SKIPPED: {tool} is not installed; instructions are not counted")
            return 0
    program = build()
    cases = run([program]).stdout.split("cases:")[1].split()
    counts = {case: count(program, case) for case in cases if not asked.only or asked.only in case}
    known: dict[str, Counts] = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    name = toolchain()
    if asked.update:
        known[name] = {**known.get(name, {}), **counts}
        BASELINE.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    return compare(name, counts, known.get(name, {}))


def compare(name: str, counts: Counts, committed: Counts) -> int:
    """Prints a line for each case; 1 where one takes too many."""
    too_many = []
    for case, found in counts.items():
        before = committed.get(case)
        change = f"{(found / before - 1) * 100:+.2f} %" if before else "not known"
        print(f"{case:<14}{found:>14,}  {change}")
        if before and found > before * SLACK:
            too_many.append(case)
    if not committed:
        print(f"SKIPPED: no counts are committed for {name}; compared nothing")
    if too_many:
        print(f"FAILED: more than {SLACK - 1:.0%} above the committed count: {', '.join(too_many)}")
        print("Where that is meant, commit to it: python bench/instructions.py --update")
    return 1 if too_many else 0


def build() -> str:
    """Compiles the program and answers its path."""
    command = ["cargo", "bench", "--manifest-path", str(MANIFEST), "--locked", "--bench", "instructions"]
    environment = {"PYO3_PYTHON": sys.executable, **os.environ}
    done = run([*command, "--no-run", "--message-format=json"], env=environment)
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("target", {}).get("name") == "instructions" and message.get("executable"):
            return str(message["executable"])
    raise SystemExit(f"cargo built no program:\n{done.stderr}")


def count(program: str, case: str) -> int:
    """Instructions of one turn: what the first one needs besides is in both runs."""
    few, many = (executed(program, case, turns) for turns in (FEW, MANY))
    return (many - few) // (MANY - FEW)


def executed(program: str, case: str, turns: int) -> int:
    done = run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, case, str(turns)], env={}
    )
    found = re.search(r"Collected : (\d+)", done.stderr)
    if found is None:
        raise SystemExit(f"callgrind counted nothing:\n{done.stderr}")
    return int(found[1])


def run(command: list[str], env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return done


def toolchain() -> str:
    """What decides the instructions besides our own lines."""
    described = run(["rustc", "--version", "--verbose"]).stdout
    rust = re.search(r"^release: (\S+)$", described, re.MULTILINE)
    target = re.search(r"^host: (\S+)$", described, re.MULTILINE)
    c = run([os.environ.get("CC", "cc"), "--version"]).stdout.splitlines()[0]
    crates = hashlib.sha256((ROOT / "kernel" / "Cargo.lock").read_bytes()).hexdigest()[:12]
    library = "-".join(platform.libc_ver())
    parts = [f"rustc {rust[1] if rust else '?'}", target[1] if target else "?", c, library, vectors(), crates]
    return "; ".join(parts)


def vectors() -> str:
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    return "avx2" if re.search(r"\bavx2\b", flags) else "no avx2"


if __name__ == "__main__":
    sys.exit(main())
