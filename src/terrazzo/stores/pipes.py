"""Addresses made of several: `s3://bucket/x.zip|zip:path|zarr3:`, and `zarr3://http://…` as Neuroglancer writes it.

What it does not do: open the parts (open.py does); look which format an array has, which its documents say.
Specification: ZEP 8 (URL pipelines), the adapters zip, zarr, zarr2 and zarr3.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from terrazzo.errors import UnsupportedError
from terrazzo.stores.keys import check_prefix

__all__ = ["Pipe", "parse_pipe"]

ADAPTERS = ("zip", "zarr", "zarr2", "zarr3")
_ADAPTER = re.compile(r"([a-z][a-z0-9+.\-]*):(.*)", re.DOTALL).fullmatch
_PREFIX = re.compile(r"(?:zarr|zarr2|zarr3)://(?=[A-Za-z][A-Za-z0-9+.\-]+://)").match


class Pipe(NamedTuple):
    """root: the address of a store, or of an archive where `zipped`. path: below it, or inside the archive."""

    root: str
    zipped: bool
    path: str


def parse_pipe(text: str) -> Pipe | None:
    """What an address of several parts means; None for any other text, a path with a bar in its name too."""
    found = _PREFIX(text)
    if found is not None:
        text = text[found.end() :]
    elif "|" not in text:
        return None
    root, *parts = text.split("|")
    adapters = [_ADAPTER(part) for part in parts]
    if not root or any(adapter is None for adapter in adapters):
        return None
    zipped = False
    path: list[str] = []
    for at, adapter in enumerate(adapters):
        assert adapter is not None
        name, rest = adapter[1], adapter[2]
        if name not in ADAPTERS or (name == "zip" and at > 0):
            raise UnsupportedError(
                f"the part '|{name}:' of an address is not understood here; there are "
                f"{', '.join(f'{one}:' for one in ADAPTERS)}, and zip: comes first"
            )
        zipped = zipped or name == "zip"
        if rest.strip("/"):
            path.append(check_prefix(rest.strip("/") + "/")[:-1])
    return Pipe(root, zipped, "/".join(path))
