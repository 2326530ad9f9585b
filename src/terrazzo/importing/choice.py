"""The choice of one array in a file that holds several.

What it does not do: guess. Where more than one could be meant, the error names them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches

from terrazzo.errors import SourceError

__all__ = ["chosen"]

SHOWN = 12


def chosen(path: str, asked: str | None, names: Collection[str], main: Sequence[str], word: str) -> str:
    """`asked` without slashes at its ends, or the only one of `main`, or the only one there is."""
    if asked is not None:
        name = asked.strip("/")
        if name in names:
            return name
        near = get_close_matches(name, names, n=3, cutoff=0.5)
        hint = f"did you mean {', '.join(map(repr, near))}?" if near else f"it holds {_listed(list(names))}"
        raise SourceError(f"{path!r} has no {word} {asked!r}; {hint}")
    for candidates in (main, list(names)):
        if len(candidates) == 1:
            return candidates[0]
    if not names:
        raise SourceError(f"{path!r} holds no {word}")
    raise SourceError(
        f"{path!r} holds {len(names)} {word}s, and one has to be chosen: {_listed(list(main or names))}"
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(repr(name) for name in names[:SHOWN]) + more
