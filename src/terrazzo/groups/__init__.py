"""Groups: where nodes are. Opening, creating, listing, copying, moving and deleting them.

What it does not do: read or write elements (arrays).
Specification: Zarr core 3.0, "Hierarchy", "Group metadata", "Operations".
"""

from terrazzo.groups.consolidating import consolidate_metadata
from terrazzo.groups.creating import create, create_array, from_array
from terrazzo.groups.filled import (
    array,
    empty,
    empty_like,
    full,
    full_like,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from terrazzo.groups.group import Group
from terrazzo.groups.moving import copy, copy_all, copy_store, move
from terrazzo.groups.opening import (
    create_group,
    create_hierarchy,
    group,
    open,
    open_array,
    open_consolidated,
    open_group,
    open_like,
)
from terrazzo.groups.saving import load, save, save_array, save_group
from terrazzo.groups.tree import Tree

__all__ = [
    "Group",
    "Tree",
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
    "save",
    "save_array",
    "save_group",
    "zeros",
    "zeros_like",
]
