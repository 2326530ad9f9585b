"""The views `oindex`, `vindex` and `blocks`, and names of fields inside a selection.

What it does not do: interpret selections (indexing).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from terrazzo.errors import SelectionError

if TYPE_CHECKING:
    from terrazzo.arrays.array import Array

__all__ = ["BlockView", "OrthogonalView", "VectorView", "check_fields", "without_fields"]


def check_fields(fields: str | Sequence[str] | None, dtype: np.dtype[Any]) -> None:
    """Refuse names that are not fields of the array's type."""
    for name in (fields,) if isinstance(fields, str) else fields or ():
        if dtype.names is None:
            raise SelectionError(
                f"found the field name {name!r}; the array holds {dtype}, which has no fields"
            )
        if name not in dtype.names:
            raise SelectionError(f"there is no field {name!r}; there are {', '.join(map(repr, dtype.names))}")


#: what most selections are made of
_NAMELESS = frozenset({slice, int})


def without_fields(selection: Any) -> tuple[str | list[str] | None, Any]:
    """Split the names of structured fields from the rest: `a["x", 3]`, `a[["x", "y"]]`, as numpy and zarr-python."""
    if type(selection) is tuple and _NAMELESS.issuperset(map(type, selection)):
        return None, selection
    if isinstance(selection, str):
        return selection, ...
    if isinstance(selection, list) and selection and all(isinstance(s, str) for s in selection):
        return selection, ...
    if isinstance(selection, tuple):
        names = [s for s in selection if isinstance(s, str)]
        if names:
            rest = tuple(s for s in selection if not isinstance(s, str))
            return names[0] if len(names) == 1 else names, rest or ...
    return None, selection


class _View:
    def __init__(self, array: Array) -> None:
        self.array = array


class OrthogonalView(_View):
    """`array.oindex`."""

    def __getitem__(self, selection: Any) -> Any:
        fields, rest = without_fields(selection)
        return self.array.get_orthogonal_selection(rest, fields=fields)

    def __setitem__(self, selection: Any, value: Any) -> None:
        fields, rest = without_fields(selection)
        self.array.set_orthogonal_selection(rest, value, fields=fields)


class VectorView(_View):
    """`array.vindex`."""

    def __getitem__(self, selection: Any) -> Any:
        fields, rest = without_fields(selection)
        if is_mask(rest, self.array.shape):
            return self.array.get_mask_selection(rest, fields=fields)
        return self.array.get_coordinate_selection(rest, fields=fields)

    def __setitem__(self, selection: Any, value: Any) -> None:
        fields, rest = without_fields(selection)
        if is_mask(rest, self.array.shape):
            self.array.set_mask_selection(rest, value, fields=fields)
        else:
            self.array.set_coordinate_selection(rest, value, fields=fields)


class BlockView(_View):
    """`array.blocks`."""

    def __getitem__(self, selection: Any) -> Any:
        fields, rest = without_fields(selection)
        return self.array.get_block_selection(rest, fields=fields)

    def __setitem__(self, selection: Any, value: Any) -> None:
        fields, rest = without_fields(selection)
        self.array.set_block_selection(rest, value, fields=fields)


def is_mask(selection: Any, shape: tuple[int, ...]) -> bool:
    """Whether a selection is one boolean array of the array's shape."""
    if isinstance(selection, tuple) and len(selection) == 1:
        selection = selection[0]
    if isinstance(selection, list):
        selection = np.asarray(selection)
    dtype = getattr(selection, "dtype", None)
    return dtype is not None and dtype == np.bool_ and getattr(selection, "shape", None) == shape
