"""A tree of nodes as text and as HTML: what `Group.tree()` and `tree()` give.

What it does not do: find the nodes (nodes.py, group.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from terrazzo.drawing import printable
from terrazzo.metadata import ArrayMetadata, Node

__all__ = ["Tree"]


class Tree:
    """A picture of a group: `print(group.tree())`, or the last line of a notebook's cell."""

    def __init__(
        self, nodes: Iterable[tuple[str, Node]], *, level: int | None = None, max_nodes: int = 500
    ) -> None:
        """nodes: paths below the group, every group before what is in it. level: how deep to draw, None for all.
        max_nodes: nodes drawn at most; the rest is counted in a last line."""
        self._below: dict[str, dict[str, str]] = {"": {}}
        self._left_out = 0
        drawn = 0
        for path, node in nodes:
            if level is not None and path.count("/") >= level:
                continue
            above, _, name = path.rpartition("/")
            if drawn >= max_nodes or above not in self._below:
                self._left_out += 1
                continue
            drawn += 1
            self._below[above][name] = ""
            if isinstance(node, ArrayMetadata):
                self._below[above][name] = f" {node.shape} {node.data_type}"
            else:
                self._below[path] = {}

    def _lines(self, path: str, lead: str) -> Iterable[tuple[str, str, str]]:
        found = self._below.get(path, {})
        for number, (name, words) in enumerate(sorted(found.items())):
            last = number == len(found) - 1
            yield lead + ("└── " if last else "├── "), printable(name), words
            below = f"{path}/{name}" if path else name
            yield from self._lines(below, lead + ("    " if last else "│   "))

    def __str__(self) -> str:
        lines = ["/", *(branch + name + words for branch, name, words in self._lines("", ""))]
        if self._left_out:
            lines.append(f"… and {self._left_out} more")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from html import escape

        lines = ["/"]
        for branch, name, words in self._lines("", ""):
            strong = escape(name) if words else f"<b>{escape(name)}</b>"
            lines.append(f"{branch}{strong}{escape(words)}")
        if self._left_out:
            lines.append(f"… and {self._left_out} more")
        text = "\n".join(lines)
        return f'<pre class="terrazzo-tree">{text}</pre>'
