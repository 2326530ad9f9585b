"""What is below a group, in the many ways one may ask: the part of Group that lists, and the makers by name.

What it does not do: find documents (group.py, nodes.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from terrazzo.arrays.array import Array
from terrazzo.arrays.creation import extents
from terrazzo.errors import ConflictError, ContainsArrayError, ContainsGroupError
from terrazzo.groups import filled
from terrazzo.metadata import ArrayMetadata, GroupMetadata, Node, resolve_data_type

if TYPE_CHECKING:
    from terrazzo.groups.group import Group

__all__ = ["Members"]


class Members:
    """Listing, and makers of arrays of one value."""

    # listing

    def members(
        self, max_depth: int | None = 0, *, use_consolidated_for_children: bool = True
    ) -> tuple[tuple[str, Array | Group], ...]:
        """(path, node) of what is below, by depth and then by name. max_depth: 0 for this group's own members, None
        for all. UnsupportedError where the store cannot list and there is no consolidated metadata."""
        group = self if use_consolidated_for_children else _group(self)._without_consolidated()
        opened = (
            (path, _group(group)._opened(path, node)) for path, node in _group(group)._documents(max_depth)
        )
        return tuple((path, node) for path, node in opened if node is not None)

    def nmembers(self, max_depth: int | None = 0) -> int:
        """How many nodes are below, as `members` counts them."""
        return sum(1 for _ in _group(self)._documents(max_depth))

    def keys(self) -> Iterator[str]:
        """The names of the arrays and groups in this group."""
        return (name for name, _ in _group(self)._documents(0))

    def __iter__(self) -> Iterator[str]:
        return iter(list(self.keys()))

    def __len__(self) -> int:
        return self.nmembers()

    def array_keys(self) -> Iterator[str]:
        return (name for name, node in _group(self)._documents(0) if isinstance(node, ArrayMetadata))

    def group_keys(self) -> Iterator[str]:
        return (name for name, node in _group(self)._documents(0) if isinstance(node, GroupMetadata))

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """(name, array) of the arrays in this group."""
        for name, node in _group(self)._documents(0):
            found = _group(self)._opened(name, node) if isinstance(node, ArrayMetadata) else None
            if isinstance(found, Array):
                yield name, found

    def groups(self) -> Iterator[tuple[str, Group]]:
        """(name, group) of the groups in this group."""
        for name, node in _group(self)._documents(0):
            found = _group(self)._opened(name, node) if isinstance(node, GroupMetadata) else None
            if found is not None and not isinstance(found, Array):
                yield name, found

    def array_values(self) -> Iterator[Array]:
        return (array for _, array in self.arrays())

    def group_values(self) -> Iterator[Group]:
        return (group for _, group in self.groups())

    def walk(self) -> Iterator[tuple[str, Array | Group]]:
        """(path, node) of everything below, level by level, opened one by one."""
        for path, node in _group(self)._documents(None):
            found = _group(self)._opened(path, node)
            if found is not None:
                yield path, found

    # makers

    def create_hierarchy(
        self, nodes: Mapping[str, Node], *, overwrite: bool = False
    ) -> Iterator[tuple[str, Array | Group]]:
        """Make many nodes from their documents, by path below this group; yields each as it was made."""
        from terrazzo.groups.opening import create_hierarchy

        group = _group(self)
        group._refuse_reading()
        start = f"{group.path}/" if group.path else ""
        for path, node in create_hierarchy(store=group.store_path, nodes=nodes, overwrite=overwrite):
            yield path.removeprefix(start), node

    def require_groups(self, *names: str) -> tuple[Group, ...]:
        """The groups at these paths below, made where they are missing."""
        return tuple(_group(self).require_group(name) for name in names)

    def require_array(
        self, name: str, *, shape: Any, dtype: Any = None, exact: bool = False, **how: Any
    ) -> Array:
        """The array at a path below, made where it is missing. What is there must have this shape, and a type that
        values of `dtype` go into unharmed (`exact`: this very type)."""
        group = _group(self)
        if name not in group:
            try:
                return group.create_array(
                    name, shape=shape, dtype=np.float64 if dtype is None else dtype, **how
                )
            except (ContainsArrayError, ConflictError):
                pass  # another writer made it just now
        found = group[name]
        if not isinstance(found, Array):
            raise ContainsGroupError(f"there is a group at {found.name!r} in {group.store}, not an array")
        if found.shape != extents(shape):
            raise TypeError(
                f"the array {found.name!r} has shape {found.shape}; {extents(shape)} was asked for"
            )
        if dtype is not None:
            wanted = resolve_data_type(dtype).numpy
            if found.dtype != wanted and (exact or not np.can_cast(wanted, found.dtype)):
                raise TypeError(f"the array {found.name!r} has type {found.dtype}; {wanted} was asked for")
        return found

    def empty(self, *, name: str, shape: Any, **how: Any) -> Array:
        """Make an array whose values do not matter yet."""
        return filled.empty(shape, **self._below(name, how))

    def zeros(self, *, name: str, shape: Any, **how: Any) -> Array:
        """Make an array of zeros."""
        return filled.zeros(shape, **self._below(name, how))

    def ones(self, *, name: str, shape: Any, **how: Any) -> Array:
        """Make an array of ones."""
        return filled.ones(shape, **self._below(name, how))

    def full(self, *, name: str, shape: Any, fill_value: Any, **how: Any) -> Array:
        """Make an array of one value."""
        return filled.full(shape, fill_value, **self._below(name, how))

    def empty_like(self, *, name: str, data: Any, **how: Any) -> Array:
        """Make an array like `data`, whose values do not matter yet."""
        return filled.empty_like(data, **self._below(name, how))

    def zeros_like(self, *, name: str, data: Any, **how: Any) -> Array:
        """Make an array of zeros like `data`."""
        return filled.zeros_like(data, **self._below(name, how))

    def ones_like(self, *, name: str, data: Any, **how: Any) -> Array:
        """Make an array of ones like `data`."""
        return filled.ones_like(data, **self._below(name, how))

    def full_like(self, *, name: str, data: Any, **how: Any) -> Array:
        """Make an array of one value like `data`."""
        return filled.full_like(data, **self._below(name, how))

    def _below(self, name: str, how: Mapping[str, Any]) -> dict[str, Any]:
        group = _group(self)
        group._refuse_reading()
        return {**group._settings(how), **how, "store": group.store_path, "path": name}


def _group(members: Members) -> Group:
    from terrazzo.groups.group import Group

    assert isinstance(members, Group)
    return members
