"""The functions of terrazzo for callers that wait: those of `terrazzo` itself, and two about it.

What it does not do: anything of its own but telling versions.
"""

from __future__ import annotations

from typing import Any

from terrazzo.groups import (
    Group,
    Tree,
    array,
    consolidate_metadata,
    copy,
    copy_all,
    copy_store,
    create,
    create_array,
    create_group,
    create_hierarchy,
    empty,
    empty_like,
    from_array,
    full,
    full_like,
    group,
    load,
    move,
    ones,
    ones_like,
    open,
    open_array,
    open_consolidated,
    open_group,
    open_like,
    save,
    save_array,
    save_group,
    zeros,
    zeros_like,
)

__all__ = [
    "array",
    "consolidate_metadata",
    "copy",
    "copy_all",
    "copy_store",
    "create",
    "create_array",
    "create_group",
    "create_hierarchy",
    "empty",
    "empty_like",
    "from_array",
    "full",
    "full_like",
    "group",
    "load",
    "move",
    "ones",
    "ones_like",
    "open",
    "open_array",
    "open_consolidated",
    "open_group",
    "open_like",
    "print_debug_info",
    "save",
    "save_array",
    "save_group",
    "tree",
    "zeros",
    "zeros_like",
]

#: packages that terrazzo uses where they are installed
OPTIONAL = ("numcodecs", "ml_dtypes", "rich", "h5py", "netCDF4", "tifffile", "nibabel")


def tree(grp: Group | Any, expand: bool | None = None, level: int | None = None) -> Tree:
    """A picture of what is below a group, or below what stands for its store.

    >>> root = open_group({})
    >>> _ = root.create_array("a/b", shape=(2, 3), dtype="u1")
    >>> print(tree(root))
    /
    └── a
        └── b (2, 3) uint8
    """
    found = grp if isinstance(grp, Group) else open_group(grp, mode="r")
    return found.tree(expand, level)


def print_debug_info() -> None:
    """Print the versions that a report of a fault should name."""
    import platform
    import sys

    print(f"terrazzo: {_version('terrazzo')}")
    print(f"python: {sys.version.split()[0]}")
    print(f"platform: {platform.platform()}")
    print(f"numpy: {_version('numpy')}")
    for package in OPTIONAL:
        print(f"{package}: {_version(package)}")


def _version(package: str) -> str:
    from importlib import metadata  # slow to import, and seldom needed

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
