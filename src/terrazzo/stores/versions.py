"""Version tags as text: what a server tells its clients, and what a cache keeps of a version on a disk.

What it does not do: make tags. A store does; a tag that says too little about a version stays inside its process.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable

from terrazzo.stores.contract import Tag

__all__ = ["is_lasting", "tag_of_text", "tag_text"]

LONGEST = 2048
_REMOTE = "remote version"


def tag_text(tag: Tag) -> str | None:
    """One text for equal tags, another for others; None where a tag is not made of plain values.

    What a service on the network says counts where it can be used in a condition: no weak entity tag, no date.
    """
    if tag is None or type(tag) in (str, bytes, int, bool):
        return repr(tag)
    if type(tag).__name__ == "Version":
        from terrazzo.stores.remote.version import Version

        if isinstance(tag, Version):
            usable = tag.strong or tag.generation is not None
            return tag_text((_REMOTE, tag.mark, tag.etag, tag.generation)) if usable else None
    if isinstance(tag, tuple):
        parts = [tag_text(part) for part in tag]
        return None if None in parts else "(" + "".join(f"{part}," for part in parts) + ")"
    return None


def tag_of_text(text: str) -> Tag | None:
    """The tag that `tag_text` wrote; None for anything else, however hostile."""
    if len(text) > LONGEST:
        return None
    try:
        tag: Tag = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    if isinstance(tag, tuple) and len(tag) == 4 and tag[0] == _REMOTE:
        from terrazzo.stores.remote.version import Version

        if all(part is None or isinstance(part, str) for part in tag) and isinstance(tag[1], str):
            tag = Version(*tag[1:])
    return tag if tag_text(tag) == text else None


def is_lasting(identity: Hashable) -> bool:
    """Whether a store's identity means the same place in another process: names alone, and no number of an object."""
    if isinstance(identity, tuple):
        return bool(identity) and all(part in (None, "", ()) or is_lasting(part) for part in identity)
    return isinstance(identity, str) and identity != ""
