"""Version tags as text: what a server tells its clients, and what a cache keeps of a version on a disk.

What it does not do: make tags. A store does; a tag that is no plain value stays inside its process.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable

from terrazzo.stores.contract import Tag

__all__ = ["is_lasting", "tag_of_text", "tag_text"]

LONGEST = 2048


def tag_text(tag: Tag) -> str | None:
    """One text for equal tags, another for others; None where a tag is not made of plain values."""
    if tag is None or type(tag) in (str, bytes, int, bool):
        return repr(tag)
    if isinstance(tag, tuple):
        parts = [tag_text(part) for part in tag]
        if None in parts:
            return None
        return "(" + "".join(f"{part}," for part in parts) + ")"
    return None


def tag_of_text(text: str) -> Tag | None:
    """The tag that `tag_text` wrote; None for anything else, however hostile."""
    if len(text) > LONGEST:
        return None
    try:
        tag: Tag = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return tag if tag_text(tag) == text else None


def is_lasting(identity: Hashable) -> bool:
    """Whether a store's identity means the same place in another process: a name, not the number of an object."""
    while isinstance(identity, tuple) and identity and isinstance(identity[0], tuple | int):
        identity = identity[0]
    if isinstance(identity, tuple):
        return bool(identity)
    return isinstance(identity, str)
