"""Transfers: a selection's read or write as one flow, for callers that wait and callers that await.

What it does not do: drive the flow, or make projections (indexing).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import numpy as np

from terrazzo.arrays.resizing import ends_of
from terrazzo.arrays.selections import check_fields
from terrazzo.arrays.values import as_value, with_fields
from terrazzo.errors import ReadOnlyError
from terrazzo.indexing import Projection
from terrazzo.read import read
from terrazzo.write import is_converted_late, write

if TYPE_CHECKING:
    from terrazzo.arrays.array import Array

__all__ = ["getting", "in_order", "refuse_reading", "setting"]

Value = np.ndarray[Any, Any]
Flow = Generator[Any, Any, None]


def getting(
    array: Array, projection: Projection, out: Value | None = None, fields: Any = None
) -> tuple[Flow, Callable[[], Any]]:
    """The flow that reads a selection, and what answers its values once the flow has ended."""
    if fields is not None:
        check_fields(fields, array.dtype)
        flow, values = getting(array, projection)
        return flow, lambda: with_fields(values(), fields, out)
    options = array.options
    buffer = array.output(projection, out)

    def finish() -> Any:
        if out is None:
            values = projection.finish(buffer)
            return values if options.order == "C" else in_order(values, options.order)
        if not np.may_share_memory(buffer, out):
            out[...] = projection.finish(buffer)
        return out

    cost = array.chunk_store.cost
    return read(array.layout, projection, buffer, options, array.index_cache, array.chunk_cache, cost), finish


def setting(array: Array, project: Callable[[bool], Projection], value: Any, fields: Any = None) -> Flow:
    """The flow that writes a selection; of structured values, single fields over what is there."""
    refuse_reading(array)
    layout, projection = array.layout, project(True)
    while array.layout is not layout:  # another thread made this very object longer
        layout, projection = array.layout, project(True)
    if fields is not None:
        check_fields(fields, array.dtype)
        flow, values = getting(array, project(False))
        yield from flow
        value = _with_changed_fields(np.array(values()), value, fields)
    late = isinstance(value, np.ndarray) and is_converted_late(value, array.dtype, array.options.memory)
    prepared = projection.prepare(value if late else as_value(value, array.dtype))
    yield from write(
        layout,
        projection,
        prepared,
        array.options,
        array.index_cache,
        array.strategy,
        array.chunk_store.cost,
        array.outcomes,
        ends_of(array, layout),
    )


def in_order(values: Any, order: str) -> Any:
    """What was read, in the memory order that was asked for."""
    return np.asfortranarray(values) if order == "F" and np.ndim(values) > 1 else values


def refuse_reading(array: Array) -> None:
    if array.read_only:
        raise ReadOnlyError(f"array {array.name!r} was opened for reading; open it with mode='r+'")


def _with_changed_fields(old: Value, value: Any, fields: str | list[str]) -> Value:
    if isinstance(fields, str):
        old[fields] = value
    else:
        named = getattr(getattr(value, "dtype", None), "names", None)
        for name in fields:
            old[name] = value[name] if named else value  # as numpy: one value for all of them
    return old
