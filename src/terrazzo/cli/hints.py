"""What may help after an error: one sentence, from what lies where the command pointed.

What it does not do: open anything in a remote place; a hint costs a look at a folder of this machine at most.
"""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from terrazzo.cli.output import address_shown

__all__ = ["not_an_array", "not_found"]

GENERAL = "`terrazzo ls` or `terrazzo tree` of the folder above shows what is there"
#: documents of the formats that are read
_DOCUMENTS = ("zarr.json", ".zarray", ".zgroup", "attributes.json")
#: nodes below a folder that are named, and names that are looked at for that
_NAMED, _LOOKED_AT = 5, 1000


def not_found(url: str | None) -> str:
    """What lies instead where no node was found."""
    if url is None or "://" in url or "|" in url:
        return GENERAL
    path = Path(os.path.expanduser(url))
    try:
        if path.is_dir():
            return _of_folder(path, url)
        if path.exists():
            return (
                f"{url!r} is a file; archives are called .zip, and `terrazzo import` makes an array of a file "
                "of another format"
            )
        above = path.absolute().parent
        while not above.exists():
            above = above.parent
        if _is_node(above) or above.is_file():
            return f"`terrazzo tree {above}` shows what is there"
        return f"nothing is called {url!r}"
    except (OSError, ValueError):  # no right to look, or no name that a file could have
        return GENERAL


def not_an_array(url: str | None) -> str:
    """Where a group was found instead."""
    return "" if url is None else f"`terrazzo tree {address_shown(url)}` shows what lies in the group"


def _of_folder(path: Path, url: str) -> str:
    names = sorted(os.listdir(path))[:_LOOKED_AT]
    below = list(islice((name for name in names if _is_node(path / name)), _NAMED + 1))
    if not below:
        return f"{url!r} is a folder, and there is none of {', '.join(_DOCUMENTS)} in it"
    more = ", …" if len(below) > _NAMED else ""
    return (
        f"{url!r} is a folder without a document of its own; nodes in it: {', '.join(below[:_NAMED])}{more}"
    )


def _is_node(path: Path) -> bool:
    return any((path / name).is_file() for name in _DOCUMENTS)
