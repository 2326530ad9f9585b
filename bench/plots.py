"""Measurements as SVG: bars for a question, lines where a number is varied.

What it does not do: need anything but Python. Bars are cut where a library takes more than `CUT` times the best.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape
from typing import Any

from libraries import LIBRARIES
from question import Question

CUT = 6.0
WIDTH, LEFT, RIGHT, BAR, GAP = 760, 190, 110, 13, 16
COLOURS = {
    "terrazzo": "#c2502e",
    "terrazzo-in-place": "#d98a4b",
    "terrazzo-append": "#e3b072",
    "terrazzo-immutable": "#d98a4b",
    "terrazzo-cache": "#e8c9a0",
    "zarr": "#5b6f8f",
    "zarr-fused": "#7f93b2",
    "zarr-zarrs": "#a9b8cf",
    "zarrista": "#4d8a6f",
    "tensorstore": "#8c6a9e",
    "tensorstore-cache": "#b79fc4",
    "floor": "#9a958c",
    "floor-1": "#c4c0b8",
}
Row = dict[str, Any]


def draw(question: Question, rows: dict[str, Row]) -> str:
    if question.plot == "lines":
        return _lines(question, rows)
    return _bars(question, rows)


def _bars(question: Question, rows: dict[str, Row]) -> str:
    memory = question.plot == "memory"
    shapes: list[str] = []
    y = 40.0
    for title, row in rows.items():
        figures = {
            name: found["peak" if memory else "wall"] for name, found in row.items() if "wall" in found
        }
        figures = {name: max(value, 0.0) for name, value in figures.items()}
        if not figures:
            continue
        top = max(figures.values()) if memory else min(max(figures.values()), CUT * min(figures.values()))
        shapes.append(_text(14, y + 11, title.replace("`", ""), size=12, weight="bold"))
        y += 18
        for name, value in figures.items():
            length = (WIDTH - LEFT - RIGHT) * min(1.0, value / top if top else 0)
            shapes.append(_text(LEFT - 8, y + 10, LIBRARIES[name].label, anchor="end"))
            shapes.append(
                f'<rect x="{LEFT}" y="{y:.0f}" width="{max(1, length):.1f}" height="{BAR - 2}" '
                f'fill="{COLOURS.get(name, "#888888")}"/>'
            )
            figure = f"{value / 2**20:.0f} MiB" if memory else _duration(value)
            mark = " »" if value > top * 1.001 else ""
            shapes.append(_text(LEFT + length + 6, y + 10, figure + mark))
            y += BAR
        y += GAP
    return _svg(question.title, shapes, y)


def _lines(question: Question, rows: dict[str, Row]) -> str:
    """Log-log: what it took against the number of inner chunks; a panel for each kind of case."""
    counts = {case.name: case.inner_chunks for case in question.cases}
    panels: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for title, row in rows.items():
        panel = panels.setdefault(title.split(",")[0], {})
        for name, found in row.items():
            if "wall" in found:
                panel.setdefault(name, []).append((counts[title], found["wall"]))
    shapes: list[str] = []
    height = 260
    y = 40.0
    for title, lines in panels.items():
        points = [point for line in lines.values() for point in line]
        if not points:
            continue
        x0, x1 = (math.log10(f(p[0] for p in points)) for f in (min, max))
        y0, y1 = (
            math.floor(math.log10(min(p[1] for p in points))),
            math.ceil(math.log10(max(p[1] for p in points))),
        )
        span = max(x1 - x0, 1e-9)

        def place(
            count: int,
            seconds: float,
            x0: float = x0,
            span: float = span,
            y0: int = y0,
            y1: int = y1,
            top: float = y,
        ) -> tuple[float, float]:
            x = 70 + (math.log10(count) - x0) / span * (WIDTH - 260)
            return x, top + 20 + height * (1 - (math.log10(seconds) - y0) / max(1, y1 - y0))

        shapes.append(_text(14, y + 8, title, size=12, weight="bold"))
        for power in range(y0, y1 + 1):
            _, at = place(int(10**x0 + 0.5), 10.0**power)
            shapes.append(
                f'<line x1="70" y1="{at:.1f}" x2="{WIDTH - 190}" y2="{at:.1f}" stroke="#e4e1da" stroke-width="1"/>'
            )
            shapes.append(_text(64, at + 4, _duration(10.0**power), anchor="end"))
        for count in sorted({p[0] for p in points}):
            at, bottom = place(count, 10.0**y0)
            shapes.append(_text(at, bottom + 16, f"{count:,}", anchor="middle"))
        ends = []
        for name, line in lines.items():
            path = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in sorted(line))
            colour = COLOURS.get(name, "#888888")
            thick = 2.6 if name == "terrazzo" else 1.6
            shapes.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{thick}"/>')
            ends.append((place(*max(line))[1], name))
        last = -math.inf
        for at, name in sorted(ends):
            last = max(at, last + 13)
            shapes.append(
                _text(WIDTH - 184, last + 4, LIBRARIES[name].label, fill=COLOURS.get(name, "#888888"))
            )
        y += height + 64
    return _svg(question.title, shapes, y)


def _svg(title: str, shapes: list[str], height: float) -> str:
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" '
        f'height="{height:.0f}" font-family="system-ui, sans-serif" font-size="11">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height:.0f}" rx="6" fill="#fffdf8"/>',
        _text(14, 24, title, size=15, weight="bold"),
        *shapes,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _text(x: float, y: float, text: str, **style: Any) -> str:
    return "".join(_attributes(x, y, text, style))


def _attributes(x: float, y: float, text: str, style: dict[str, Any]) -> Iterator[str]:
    yield f'<text x="{x:.1f}" y="{y:.1f}" fill="{style.get("fill", "#2b2a28")}"'
    if "anchor" in style:
        yield f' text-anchor="{style["anchor"]}"'
    if "size" in style:
        yield f' font-size="{style["size"]}"'
    if "weight" in style:
        yield f' font-weight="{style["weight"]}"'
    yield f">{escape(text)}</text>"


def _duration(seconds: float) -> str:
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 0.9995:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"
