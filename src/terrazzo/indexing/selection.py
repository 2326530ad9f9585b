"""Selections: what the user wrote, checked by numpy's rules and made plain.

What it does not do: know chunks. Negative indices are wrapped here, bounds checked, Ellipsis filled in; below this file
every position is a non-negative integer inside the array.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from terrazzo.chunk_grid import ChunkGrid, Ints
from terrazzo.errors import (
    ArrayIndexError,
    BoundsCheckError,
    NegativeStepError,
    SelectionError,
    VindexInvalidSelectionError,
)

__all__ = [
    "Box",
    "Points",
    "Run",
    "Selector",
    "parse_basic",
    "parse_blocks",
    "parse_coordinates",
    "parse_fancy",
    "parse_mask",
    "parse_orthogonal",
]


class Run:
    """Every `step`-th position from `start`, `count` of them.

    flip: the user asked for them in falling order. drop: the user gave an integer, so the result loses the dimension.
    """

    __slots__ = ("count", "drop", "flip", "start", "step")

    def __init__(self, start: int, step: int, count: int, flip: bool = False, drop: bool = False) -> None:
        self.start = start
        self.step = step
        self.count = count
        self.flip = flip
        self.drop = drop


Selector: TypeAlias = Run | Ints


class Box(NamedTuple):
    """A selector per dimension; the selection is their product. scalar: numpy would answer an element, not an array."""

    selectors: tuple[Selector, ...]
    scalar: bool = False


@dataclass(frozen=True, slots=True)
class Points:
    """Single elements: one flat position array per dimension, all of `count`; `shape` is that of the result."""

    coordinates: tuple[Ints, ...]
    shape: tuple[int, ...]
    count: int


def parse_basic(selection: Any, shape: Sequence[int]) -> Box:
    """Integers, slices and Ellipsis."""
    items, filled = _expand(selection, len(shape))
    selectors = []
    for dim, (item, length) in enumerate(zip(items, shape, strict=True)):
        if type(item) is slice:
            selectors.append(_slice(item, length, dim))
        elif _is_integer(item):
            selectors.append(Run(_integer(item, length, dim), 1, 1, drop=True))
        else:
            _refuse(item, dim, "an integer, a slice or Ellipsis; see oindex and vindex for arrays")
    return Box(tuple(selectors), not filled and all(run.drop for run in selectors))


def parse_orthogonal(selection: Any, shape: Sequence[int]) -> Box:
    """Per dimension an integer, a slice, a 1-D integer array, or a mask of that dimension."""
    items, filled = _expand(selection, len(shape))
    selectors: list[Selector] = []
    for dim, (item, length) in enumerate(zip(items, shape, strict=True)):
        if type(item) is slice:
            selectors.append(_slice(item, length, dim))
        elif _is_integer(item):
            selectors.append(Run(_integer(item, length, dim), 1, 1, drop=True))
        elif _is_arraylike(item):
            found = _array(item, dim)
            if found.ndim != 1:
                raise ArrayIndexError(
                    f"dimension {dim}: found an array of {found.ndim} dimensions; allowed is 1"
                )
            if found.dtype.kind == "b":
                if len(found) != length:
                    raise ArrayIndexError(
                        f"dimension {dim}: found a mask of {len(found)} for a dimension of length {length}"
                    )
                found = np.flatnonzero(found)
            selectors.append(_positions(found, length, dim))
        else:
            _refuse(item, dim, "an integer, a slice, Ellipsis, a 1-D integer array or a 1-D mask")
    scalar = not filled and all(isinstance(run, Run) and run.drop for run in selectors)
    return Box(tuple(selectors), scalar)


def parse_coordinates(selection: Any, shape: Sequence[int]) -> Points:
    """One integer or integer array per dimension, broadcast against each other."""
    items = selection if isinstance(selection, tuple) else (selection,)
    if len(items) != len(shape):
        raise VindexInvalidSelectionError(
            f"found {len(items)} coordinate arrays for an array of {len(shape)} dimensions; one for each is needed"
        )
    found = []
    for dim, item in enumerate(items):
        if not _is_integer(item) and not _is_arraylike(item):
            raise VindexInvalidSelectionError(
                f"dimension {dim}: found {type(item).__name__}; allowed are integers and integer arrays; see oindex"
            )
        array = _array(item, dim)
        if array.dtype.kind == "b":
            raise VindexInvalidSelectionError(
                f"dimension {dim}: found a mask; a mask stands alone and has the array's shape {tuple(shape)}"
            )
        found.append(_positions(array, shape[dim], dim))
    try:
        together = np.broadcast_arrays(*found)
    except ValueError:
        shapes = ", ".join(str(array.shape) for array in found)
        raise ArrayIndexError(f"coordinate arrays of shapes {shapes} do not broadcast together") from None
    out_shape = together[0].shape if together else ()
    flat = tuple(np.ascontiguousarray(array).reshape(-1) for array in together)
    return Points(flat, out_shape, len(flat[0]) if flat else 1)


def parse_mask(mask: Any, shape: Sequence[int]) -> Points:
    """One boolean array of the array's shape; the result is 1-D."""
    if isinstance(mask, tuple) and len(mask) == 1:
        mask = mask[0]
    found = np.asarray(mask)
    if found.dtype.kind != "b" or found.shape != tuple(shape):
        raise VindexInvalidSelectionError(
            f"found an array of type {found.dtype} and shape {found.shape}; a mask is boolean, of shape {tuple(shape)}"
        )
    if found.ndim == 0:
        return Points((), (int(found),), int(found))
    coordinates = np.nonzero(found)
    return Points(coordinates, (len(coordinates[0]),), len(coordinates[0]))


def parse_blocks(selection: Any, shape: Sequence[int], grid: ChunkGrid) -> Box:
    """Integers and slices of step 1 that count stored chunks (shards); an integer keeps its dimension."""
    items, _ = _expand(selection, len(shape))
    selectors = []
    for dim, (item, length, blocks) in enumerate(zip(items, shape, grid.grid_shape(shape), strict=True)):
        if type(item) is slice:
            if item.step not in (None, 1):
                raise NegativeStepError(
                    f"dimension {dim}: found step {item.step}; blocks are selected with step 1"
                )
            run = _slice(item, blocks, dim)
            first, last = run.start, run.start + run.count
        elif _is_integer(item):
            first = _integer(item, blocks, dim)
            last = first + 1
        else:
            _refuse(item, dim, "a block number, a slice of block numbers or Ellipsis")
        if first >= last:
            selectors.append(Run(0, 1, 0))
            continue
        edges = grid.dims[dim]
        start = edges.begin(first)
        selectors.append(Run(start, 1, min(edges.begin(last), length) - start))
    return Box(tuple(selectors))


def parse_fancy(selection: Any, shape: Sequence[int]) -> Box | Points:
    """What stands in `array[...]`: basic; else a mask, coordinates, or one array among integers and slices.

    Selections that numpy reads in a manner of its own (several arrays beside slices) are refused, since `oindex` and
    `vindex` say what is meant.
    """
    items = selection if isinstance(selection, tuple) else (selection,)
    if _PLAINEST.issuperset(map(type, items)):
        return parse_basic(selection, shape)
    ndim = len(shape)
    arrays = [item for item in items if not _is_plain(item)]
    if not arrays:
        return parse_basic(selection, shape)
    if len(items) == 1:
        found = _array(items[0], 0)
        if found.dtype.kind == "b" and found.ndim == ndim:
            return parse_mask(found, shape)
        if found.dtype.kind != "b" and ndim == 1:
            return parse_coordinates(found, shape)
        items = (found,)
    alone = len(items) == ndim and not any(type(item) is slice or item is Ellipsis for item in items)
    masks = any(_array(item, 0).dtype.kind == "b" for item in arrays)
    if alone and not masks:
        return parse_coordinates(items, shape)
    if alone or (len(arrays) == 1 and _array(arrays[0], 0).ndim == 1):
        return parse_orthogonal(items, shape)
    raise SelectionError(
        "found several index arrays beside slices, or one of several dimensions; oindex[...] takes each dimension on "
        "its own, vindex[...] takes coordinates or a mask"
    )


#: what most selections are made of
_PLAINEST = frozenset({slice, int})


def _expand(selection: Any, ndim: int) -> tuple[list[Any], bool]:
    """One item per dimension, and whether an Ellipsis was given."""
    items = list(selection) if isinstance(selection, tuple) else [selection]
    filled = False
    if len(items) == ndim and _PLAINEST.issuperset(map(type, items)):
        return items, filled
    for place, item in enumerate(items):
        if item is Ellipsis:
            if filled:
                raise SelectionError("an index can only have a single ellipsis ('...')")
            filled, at = True, place
        elif item is None:
            raise SelectionError(
                "None (numpy.newaxis) is not a selection here; add the dimension to the result"
            )
    if filled:
        items[at : at + 1] = [slice(None)] * (ndim - len(items) + 1)
    if len(items) > ndim:
        raise SelectionError(f"too many indices: found {len(items)}, the array has {ndim} dimensions")
    items += [slice(None)] * (ndim - len(items))
    return items, filled


def _slice(item: slice, length: int, dim: int) -> Run:
    try:
        start, stop, step = item.indices(length)
    except (TypeError, ValueError) as error:
        raise SelectionError(f"dimension {dim}: {item}: {error}") from None
    count = -((start - stop) // step) if step > 0 else -((stop - start) // -step)
    if count <= 0:
        return Run(0, 1, 0)
    if count == 1:
        return Run(start, 1, 1)
    return Run(start, step, count) if step > 0 else Run(start + (count - 1) * step, -step, count, flip=True)


def _integer(item: Any, length: int, dim: int) -> int:
    index = operator.index(item)
    if index < -length or index >= length:
        raise BoundsCheckError(f"index {index} is out of bounds for dimension {dim} of length {length}")
    return index + length if index < 0 else index


def _positions(found: np.ndarray[Any, Any], length: int, dim: int) -> Ints:
    if found.dtype.kind not in "iu":
        raise ArrayIndexError(
            f"dimension {dim}: found an array of type {found.dtype}; allowed are integers and masks"
        )
    if not found.size:
        return found.astype(np.int64)
    low, high = int(found.min()), int(found.max())
    if low < -length or high >= length:
        index = low if low < -length else high
        raise BoundsCheckError(f"index {index} is out of bounds for dimension {dim} of length {length}")
    positions: Ints = found.astype(np.int64, copy=False)
    return np.where(positions < 0, positions + length, positions) if low < 0 else positions


def _is_integer(item: Any) -> bool:
    if type(item) is int:
        return True
    if isinstance(item, (bool, np.bool_)):
        return False
    if isinstance(item, np.ndarray):
        return item.ndim == 0 and item.dtype.kind in "iu"
    return hasattr(item, "__index__") and not _is_arraylike(item)


def _is_arraylike(item: Any) -> bool:
    return isinstance(item, (np.ndarray, list, range)) or (
        hasattr(item, "__array__") and not isinstance(item, np.generic)
    )


def _is_plain(item: Any) -> bool:
    """Whether `[]` leaves this item to the basic rules (and its errors)."""
    return item is Ellipsis or type(item) is slice or _is_integer(item) or not _is_arraylike(item)


def _array(item: Any, dim: int) -> np.ndarray[Any, Any]:
    try:
        found = np.asarray(item)
    except ValueError:
        raise ArrayIndexError(f"dimension {dim}: found nested lists of different lengths") from None
    # an empty list has no type of its own
    return found.astype(np.int64) if not found.size and isinstance(item, list) else found


def _refuse(item: Any, dim: int, allowed: str) -> NoReturn:
    kind = "None (numpy.newaxis)" if item is None else type(item).__name__
    raise SelectionError(f"dimension {dim}: found {kind}; allowed: {allowed}")
