"""SVG: the few elements that our pictures are made of, as text.

What it does not do: lay out, choose colours, or hold a document; a picture is a list of strings.
Specification: SVG 1.1. Text and lines take `currentColor`, so that a picture fits a light and a dark page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from terrazzo.drawing.text import printable

__all__ = ["document", "escape", "line", "number", "polygon", "rectangle", "text"]

Point = tuple[float, float]
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})


def document(elements: Iterable[str], width: float, height: float, label: str) -> str:
    """A whole picture of `width` by `height` pixels; `label` says in words what it shows."""
    w, h = number(width), number(height)
    name = escape(label)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img" '
        f'aria-label="{name}" font-family="sans-serif" font-size="11" fill="currentColor">\n'
        + f"<title>{name}</title>\n"
        + "\n".join(elements)
        + "\n</svg>\n"
    )


def escape(words: object) -> str:
    """Text that can stand between tags and inside attributes."""
    return printable(words).translate(_ENTITIES)


def number(value: float) -> str:
    """A coordinate with at most two decimals."""
    short = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if short == "-0" else short


def rectangle(
    x: float, y: float, width: float, height: float, *, fill: str, title: str | None = None, more: str = ""
) -> str:
    head = (
        f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}" fill="{fill}"'
        f"{' ' + more if more else ''}"
    )
    return f"{head}/>" if title is None else f"{head}><title>{escape(title)}</title></rect>"


def polygon(points: Sequence[Point], *, fill: str, more: str = "") -> str:
    corners = " ".join(f"{number(x)},{number(y)}" for x, y in points)
    return f'<polygon points="{corners}" fill="{fill}"{" " + more if more else ""}/>'


def line(lines: Iterable[tuple[Point, Point]], *, stroke: str, width: float, more: str = "") -> str:
    """Any number of straight lines of one look, as one path."""
    path = "".join(f"M{number(a)} {number(b)}L{number(c)} {number(d)}" for (a, b), (c, d) in lines)
    look = f'stroke="{stroke}" stroke-width="{number(width)}" fill="none"{" " + more if more else ""}'
    return f'<path d="{path}" {look}/>'


def text(x: float, y: float, words: object, *, anchor: str = "start", more: str = "") -> str:
    return (
        f'<text x="{number(x)}" y="{number(y)}" text-anchor="{anchor}"{" " + more if more else ""}>'
        f"{escape(words)}</text>"
    )
