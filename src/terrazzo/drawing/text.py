"""Text for people: sizes, tables, and strings that a terminal may be shown.

What it does not do: measure fonts or terminals; a caller that wants a width passes it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

__all__ = ["nbytes_text", "printable", "text_table"]

_UNITS = ("kB", "MB", "GB", "TB", "PB", "EB")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
#: general categories that move the cursor, hide or reorder text: control, format, surrogate, private, separators
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def nbytes_text(nbytes: int) -> str:
    """A number of bytes as people say it, in powers of 1000: `nbytes_text(1_230_000)` is "1.2 MB"."""
    if nbytes < 1000:
        return f"{nbytes} B"
    value = float(nbytes)
    for unit in _UNITS:
        value /= 1000
        if value < 999.5 or unit == _UNITS[-1]:
            break
    digits = 1 if value < 9.95 else 0
    return f"{value:,.{digits}f} {unit}"


def printable(text: object, longest: int | None = None) -> str:
    """`text` on one line without anything that could steer a terminal; cut to `longest` characters with "…".

    Said twice it changes nothing more: backslashes stay as they are.
    """
    line = "".join(_visible(character) for character in str(text))
    if longest is not None and len(line) > longest:
        return line[: max(longest - 1, 0)] + "…"
    return line


def _visible(character: str) -> str:
    if character.isascii() and character.isprintable():
        return character
    if character in _NAMED:
        return _NAMED[character]
    if unicodedata.category(character) not in _HIDDEN:
        return character
    number = ord(character)
    return (
        f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"
    )


def _columns(text: str) -> int:
    """Terminal columns: wide characters take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def text_table(
    rows: Iterable[Sequence[object]],
    headers: Sequence[str] | None = None,
    *,
    right: Sequence[int] = (),
    longest: int = 80,
) -> str:
    """Rows as aligned columns, two spaces apart; columns numbered in `right` are aligned to the right.

    Cells are made printable and cut to `longest` characters. Rows may differ in length. No newline at the end.
    """
    cells = [[printable(cell, longest) for cell in row] for row in rows]
    lines = cells if headers is None else [[printable(h, longest) for h in headers], *cells]
    if not lines:
        return ""
    width = [0] * max(len(line) for line in lines)
    for line in lines:
        for i, cell in enumerate(line):
            width[i] = max(width[i], _columns(cell))
    if headers is not None:
        lines.insert(1, ["-" * width[i] for i in range(len(headers))])
    aligned = []
    for line in lines:
        padded = []
        for i, cell in enumerate(line):
            space = " " * (width[i] - _columns(cell))
            padded.append(space + cell if i in right else cell + space)
        aligned.append("  ".join(padded).rstrip())
    return "\n".join(aligned)
