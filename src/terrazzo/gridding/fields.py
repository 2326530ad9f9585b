"""Fields: what is computed for each cell, as declared under `aggregation.variables`.

What it does not do: compute (statistics/), or read points. Everything that is wrong with a declaration is said here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from terrazzo.gridding.checking import check_known, mapping, one_of
from terrazzo.gridding.errors import SchemaError
from terrazzo.gridding.statistics import Statistic, statistic_for

__all__ = ["FIELD_KEYS", "Field", "fields_from", "precomputed_from"]

FIELD_KEYS = (
    *("function", "expression", "source", "params", "dtype", "fill_value", "kind", "trailing_shape"),
    *("resolution", "attrs"),
)
#: names that arrays of a group cannot have, because something else has them
_RESERVED = ("cell_ids", "x", "y", "spatial_ref", "zarr.json")


@dataclass(frozen=True)
class Field:
    """One array of the output: its statistic, type and fill value.

    trailing_shape: of one cell's value, () for a number. resolution: "cell", or "chunk" for one value per inner chunk.
    """

    name: str
    statistic: Statistic
    dtype: np.dtype[Any]
    fill_value: Any
    trailing_shape: tuple[int, ...] = ()
    resolution: str = "cell"
    attrs: Mapping[str, Any] = field(default_factory=dict)
    declared: Mapping[str, Any] = field(default_factory=dict)

    @property
    def nests(self) -> bool:
        """Whether coarser grids have this field, too."""
        return self.resolution == "cell" and self.statistic.mergeable and self.statistic.nests

    @property
    def columns(self) -> frozenset[str]:
        """Columns of the points that are needed."""
        return self.statistic.columns


def fields_from(given: object, columns: Sequence[str] | None, extra: Sequence[str] = ()) -> dict[str, Field]:
    """The fields of `aggregation.variables`.

    columns: of the points, where they are known; extra: further names that expressions may use.
    """
    declared = mapping(given, "aggregation.variables", SchemaError)
    if not declared:
        raise SchemaError(
            "aggregation.variables is empty: at least one field is needed, such as count: {function: count}"
        )
    known = None if columns is None else (*columns, *extra)
    return {name: _field(name, how, known) for name, how in declared.items()}


def precomputed_from(given: object, columns: Sequence[str] | None) -> dict[str, Field]:
    """The fields of `aggregation.chunk_precompute`: numbers over all points of an inner chunk."""
    found = {}
    for name, how in mapping(given, "aggregation.chunk_precompute", SchemaError).items():
        where = f"aggregation.chunk_precompute.{name}"
        if columns is not None and name in columns:
            raise SchemaError(f"{where} has the name of a column; choose another")
        check_known(
            mapping(how, where, SchemaError),
            ("function", "expression", "source", "params", "dtype"),
            where,
            SchemaError,
        )
        found[name] = _field(name, how, columns, where)
    return found


def _field(name: str, given: object, columns: Sequence[str] | None, where: str = "") -> Field:
    where = where or f"aggregation.variables.{name}"
    if (
        not isinstance(name, str)
        or not name
        or name in _RESERVED
        or name.startswith("__")
        or "/" in name
        or set(name) <= {"."}
    ):
        raise SchemaError(
            f"{where}: a field cannot be called {name!r}; names are not empty, have no slash, do not begin with '__', "
            f"and are none of {', '.join(_RESERVED)}"
        )
    how = mapping(
        {"function": given} if callable(given) or isinstance(given, str) else given, where, SchemaError
    )
    check_known(how, FIELD_KEYS, where, SchemaError)
    function, expression = how.get("function"), how.get("expression")
    if (function is None) == (expression is None):
        found = "both are given" if function is not None else "neither is given"
        raise SchemaError(f"{where}: exactly one of function and expression is needed; {found}")
    if how.get("kind") == "ragged":
        raise SchemaError(
            f"{where}.kind is 'ragged': values of cells have one shape here; use kind vector with trailing_shape, as "
            "for a histogram or a tdigest"
        )
    kind = one_of(how.get("kind", "scalar"), ("scalar", "vector"), f"{where}.kind", SchemaError)
    resolution = one_of(how.get("resolution", "cell"), ("cell", "chunk"), f"{where}.resolution", SchemaError)
    trailing = _trailing(how.get("trailing_shape"), kind, where)
    params = mapping(how.get("params") or {}, f"{where}.params", SchemaError)
    source = how.get("source")
    if source is not None and not isinstance(source, str):
        raise SchemaError(f"{where}.source is {source!r}; the name of a column is needed")
    statistic = statistic_for(function, expression, source, params, trailing, where)
    if columns is not None:
        missing = sorted(statistic.columns - set(columns))
        if missing:
            raise SchemaError(
                f"{where} uses {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} no column of the "
                f"points; there are {', '.join(sorted(columns)) or 'none'}"
            )
    if statistic.shape is not None and statistic.shape != trailing:
        raise SchemaError(
            f"{where}: {statistic.name} makes values of shape {list(statistic.shape)}, "
            f"and kind {kind} with trailing_shape {list(trailing)} was declared"
        )
    dtype = _dtype(how.get("dtype"), statistic, where)
    return Field(
        name,
        statistic,
        dtype,
        _fill(how.get("fill_value"), dtype, where),
        trailing,
        resolution,
        _attrs(how.get("attrs"), where),
        _plain(how),
    )


def _trailing(given: object, kind: str, where: str) -> tuple[int, ...]:
    if kind == "scalar":
        if given is not None:
            raise SchemaError(
                f"{where}.trailing_shape is given, and kind is scalar; make kind vector, or leave it out"
            )
        return ()
    rule = "a vector needs the shape of one value, positive integers, such as [5]"
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise SchemaError(f"{where}.trailing_shape is {given!r}: {rule}")
    if not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in given):
        raise SchemaError(f"{where}.trailing_shape is {given!r}: {rule}")
    return tuple(given)


def _dtype(given: object, statistic: Statistic, where: str) -> np.dtype[Any]:
    if given is None:
        return np.dtype(statistic.dtype)
    try:
        found = np.dtype(given)  # type: ignore[call-overload]
    except (TypeError, ValueError) as error:
        raise SchemaError(f"{where}.dtype is {given!r}: numpy knows no such type ({error})") from None
    if found.kind not in "biuf":
        raise SchemaError(f"{where}.dtype is {given!r}: numbers are needed, such as float32 or int32")
    known: np.dtype[Any] = np.dtype(found)
    return known


def _fill(given: object, dtype: np.dtype[Any], where: str) -> Any:
    if given is None:
        return dtype.type(math.nan) if dtype.kind == "f" else dtype.type(0)
    rule = f"a number that {dtype} holds is needed (NaN may be spelled 'NaN')"
    try:
        value = float(given) if isinstance(given, str) else given
        with np.errstate(over="raise", invalid="ignore"):
            found = np.array(value).astype(dtype)
        if found.shape != () or (dtype.kind != "f" and found.item() != value):
            raise ValueError(rule)
    except (TypeError, ValueError, OverflowError, FloatingPointError):
        raise SchemaError(f"{where}.fill_value is {given!r}: {rule}") from None
    return found[()]


def _attrs(given: object, where: str) -> dict[str, Any]:
    attrs = dict(mapping(given or {}, f"{where}.attrs", SchemaError))
    if "_FillValue" in attrs or "_ARRAY_DIMENSIONS" in attrs:
        raise SchemaError(
            f"{where}.attrs: _FillValue and _ARRAY_DIMENSIONS are said by fill_value and the grid"
        )
    try:
        json.dumps(attrs, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise SchemaError(f"{where}.attrs cannot be written as JSON: {error}") from None
    return attrs


def _plain(how: Mapping[str, Any]) -> dict[str, Any]:
    """The declaration as JSON knows it, for hashes and receipts."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {str(k): plain(v) for k, v in sorted(value.items())}
        if isinstance(value, list | tuple):
            return [plain(v) for v in value]
        if isinstance(value, Callable):  # type: ignore[arg-type]
            return (
                f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__name__)}"
            )
        if isinstance(value, str | bool | int) or value is None:
            return value
        return repr(value)

    found: dict[str, Any] = plain(how)
    return found
