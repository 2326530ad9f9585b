"""Measurements as a page of Markdown tables.

What it does not do: judge. The fastest is set in bold among the libraries; the floors stand apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from libraries import LIBRARIES
from question import Question
from sitting import is_peer, ratios

Row = dict[str, Any]


def page(report: dict[str, Any], questions: list[Question], plots: dict[str, str]) -> str:
    """The whole page of one report."""
    lines = ["# Measurements", "", *_where(report), ""]
    for question in questions:
        rows = report["results"].get(question.name)
        if not rows:
            continue
        lines += [f"## {question.title}", "", question.about, ""]
        lines += list(table(question, rows))
        reasons = list(_reasons(rows))
        if reasons:
            lines += ["", *reasons]
        if question.name in plots:
            lines += ["", f"![{question.title}]({plots[question.name]})"]
        lines.append("")
    return "\n".join(lines)


def _where(report: dict[str, Any]) -> Iterator[str]:
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    shape = " × ".join(map(str, report["shape"]))
    yield (
        f"Measured {report['date']} at commit {report['commit']} by `make bench`: {report['cpus']} cores "
        f"({report['machine']}), Python {report['python']}, {versions}."
    )
    yield ""
    yield (
        f"Arrays of {shape} uint16 where nothing else is said; `shard32-zstd` has shards of 256³ and inner chunks of "
        "32³ with zstd 3, `plain64-raw` has plain chunks of 64³ not compressed, and so on. The page cache is warm. "
        f"Every figure is a median over up to {report['repeats']} processes for each library, which took turns; the "
        f"machine's load average (5 minutes) reached {report['load']:.0f}. "
        "A cell holds wall / CPU. The last columns say how many times our wall and CPU seconds the best of the other "
        "libraries takes; caches of decoded chunks are left out of that."
    )


def table(question: Question, rows: dict[str, Row]) -> Iterator[str]:
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    memory = question.unit == "MiB"
    unit = "MiB" if memory else "ms, wall / CPU"
    tail = [] if memory else ["best / ours, wall", "CPU"]
    yield "| " + " | ".join([unit, *(LIBRARIES[name].label for name in names), *tail]) + " |"
    yield "| --- " + "| ---: " * (len(names) + len(tail)) + "|"
    for title, row in rows.items():
        cells = [memory_cell(row, name) if memory else time_cell(row, name) for name in names]
        if not memory:
            found = ratios(row)
            cells += [f"{value:.2f}" for value in found] if found else ["–", "–"]
        yield "| " + " | ".join([title, *cells]) + " |"


def time_cell(row: Row, name: str) -> str:
    found = row.get(name)
    if found is None:
        return ""
    if "wall" not in found:
        return "–"
    best = min((other["wall"] for key, other in row.items() if "wall" in other and _counts(key)), default=0)
    text = f"{_ms(found['wall'])} / {_ms(found['cpu'])}"
    return f"**{text}**" if found["wall"] == best and _counts(name) else text


def memory_cell(row: Row, name: str) -> str:
    found = row.get(name)
    if found is None:
        return ""
    return f"{max(0.0, found['peak']) / 2**20:.0f}" if "peak" in found else "–"


def _counts(name: str) -> bool:
    return name == "terrazzo" or is_peer(name)


def _ms(seconds: float) -> str:
    value = seconds * 1e3
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _reasons(rows: dict[str, Row]) -> Iterator[str]:
    said: dict[str, list[str]] = {}
    for title, row in rows.items():
        for name, found in row.items():
            reason = found.get("lacks") or found.get("failed")
            if reason:
                said.setdefault(f"{LIBRARIES[name].label}: {reason}", []).append(title)
    for sentence, titles in said.items():
        yield f"- {sentence} ({'; '.join(titles)})"
