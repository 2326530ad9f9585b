"""Names of nodes, and paths made of them.

What it does not do: touch a store; which characters a file system can hold is the store's matter.

https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html#node-names
"""

from __future__ import annotations

import unicodedata

from terrazzo.errors import KeyRefusedError

__all__ = ["is_node_name", "normalize_path", "sort_key", "validate_name"]


def validate_name(name: str) -> str:
    """The name itself; raises KeyRefusedError where the format (or any store's safety) forbids it."""
    fault = _fault(name)
    if fault is not None:
        shown = name if len(name) <= 80 else name[:80] + "..."
        raise KeyRefusedError(f"found the node name {shown!r}: {fault}; choose another name")
    return name


def is_node_name(name: str) -> bool:
    """Whether a prefix in a store may be a node (names that start with `__` belong to extensions)."""
    return _fault(name) is None


def normalize_path(path: str) -> str:
    """A node's path without slashes at its ends and with every name checked; the root is the empty path.

    Doubled slashes count as one, and a backslash as a slash, as in zarr-python. `.` and `..` are refused, not resolved.
    """
    if not isinstance(path, str):
        raise KeyRefusedError(f"found a {type(path).__name__} as a node's path, must be a string")
    return "/".join(validate_name(name) for name in path.replace("\\", "/").split("/") if name)


def sort_key(path: str) -> tuple[int, str, str]:
    """Orders paths by depth, then by the folded name that the format recommends for comparing, then exactly."""
    return path.count("/"), unicodedata.normalize("NFKC", path).casefold(), path


def _fault(name: str) -> str | None:
    if not name:
        return "it must not be empty"
    if "/" in name or "\\" in name:
        return "it must not contain a slash or a backslash"
    if not name.strip("."):
        return "it must not consist of periods alone"
    if name.startswith("__"):
        return "names that start with `__` are reserved"
    if name == "zarr.json":
        return "it is the name of the metadata document"
    if "\0" in name or any("\ud800" <= character <= "\udfff" for character in name):
        return "it contains a character that no store can hold"
    return None
