"""Boxes: a selection that a writer is given, as a slice per dimension.

What it does not do: selections with steps, or of single elements (indexing).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from terrazzo.errors import SelectionError
from terrazzo.layout import Layout

__all__ = ["Box", "box_of"]

Box = tuple[slice, ...]


def box_of(selection: Any, layout: Layout, axis: int, position: int) -> tuple[Box, set[int]]:
    """The selected box, and the dimensions that an integer selects one element of; along the axis the array is
    `position` long, and a stop may lie past that."""
    given = list(selection) if isinstance(selection, tuple) else [selection]
    ndim, shape = layout.ndim, layout.shape
    if sum(entry is Ellipsis for entry in given) > 1:
        raise SelectionError("a selection has more than one `...`")
    at = next((k for k, entry in enumerate(given) if entry is Ellipsis), len(given))
    if at == len(given):
        given.append(Ellipsis)
    if len(given) - 1 > ndim:
        raise SelectionError(
            f"array {'/' + layout.path!r} has {ndim} dimensions; {len(given) - 1} were selected"
        )
    given[at : at + 1] = [slice(None)] * (ndim - len(given) + 1)
    box, dropped = [], set()
    for d, entry in enumerate(given):
        length = position if d == axis else shape[d]
        if isinstance(entry, int | np.integer) and not isinstance(entry, bool):
            index = int(entry) + (length if entry < 0 else 0)
            if index < 0 or (d != axis and index >= length):
                raise SelectionError(
                    f"index {int(entry)} is outside dimension {d}, which has {length} elements"
                )
            box.append(slice(index, index + 1))
            dropped.add(d)
            continue
        if not isinstance(entry, slice) or entry.step not in (None, 1):
            raise SelectionError(
                f"{entry!r} along dimension {d}: a writer takes integers and slices of step 1"
            )
        if d == axis:
            length = max(length, entry.stop or 0)  # past the end, an explicit stop says how far
        start, stop, _ = entry.indices(length)
        box.append(slice(start, max(start, stop)))
    return tuple(box), dropped
