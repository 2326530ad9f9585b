"""From a field's declaration to its statistic: names, parameters, expressions, functions.

What it does not do: compute, or check types and shapes of the output.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from terrazzo.gridding.checking import check_known, whole
from terrazzo.gridding.errors import SchemaError
from terrazzo.gridding.statistics.digest import Digest
from terrazzo.gridding.statistics.exact import Function, Mode, Quantile
from terrazzo.gridding.statistics.expression import Expression
from terrazzo.gridding.statistics.reductions import (
    Count,
    End,
    Extreme,
    Histogram,
    Mean,
    Spread,
    Sum,
    WeightedMean,
)
from terrazzo.gridding.statistics.statistic import Statistic

__all__ = ["NAMES", "merging_statistic", "statistic_for"]

#: the statistics known by name; with "nan" before it, one of the second row leaves NaN out
NAMES = (
    *("count", "len", "average", "weighted_mean", "first", "last", "mode", "histogram", "tdigest"),
    *("sum", "min", "max", "mean", "var", "std", "median", "quantile", "percentile"),
)
_NAN = NAMES[9:]


def statistic_for(
    function: Any,
    expression: Any,
    source: str | None,
    params: Mapping[str, Any],
    shape: tuple[int, ...],
    where: str,
) -> Statistic:
    """The statistic of one field; exactly one of `function` and `expression` is given."""
    if expression is not None:
        if source is not None or params:
            raise SchemaError(f"{where}: an expression names its columns itself; leave source and params out")
        return Expression(expression, f"{where}.expression")
    if callable(function):
        return Function(function, source, params, shape, where)
    if not isinstance(function, str):
        raise SchemaError(f"{where}.function is {function!r}; a name such as mean, or a function, is needed")
    name = function.removeprefix("np.").removeprefix("numpy.")
    if name in ("amin", "amax"):
        name = name[1:]
    skip = name.startswith("nan") and name[3:] in _NAN
    known = name[3:] if skip else name
    if known in ("count", "len"):
        if shape:
            raise SchemaError(f"{where}: {name} is one number per cell; kind vector is refused")
        _only(params, (), where, name)
        return Count(source)
    if known in NAMES:
        if source is None:
            raise SchemaError(f"{where}.source is missing: {name} needs the name of a column")
        return _named(known, source, params, shape, skip, where)
    return Function(_imported(function, name, where), source, params, shape, where)


def merging_statistic(said: Mapping[str, Any], shape: tuple[int, ...], where: str) -> Statistic | None:
    """The statistic that a stored field names, where it is a known one that merges; what it names is never imported."""
    function, source, params = said.get("function"), said.get("source"), said.get("params") or {}
    known = isinstance(function, str) and function.removeprefix("nan") in NAMES
    if not known or not isinstance(source, str | None) or not isinstance(params, Mapping):
        return None
    try:
        found = statistic_for(function, None, source, params, shape, where)
    except SchemaError:
        return None
    return found if found.mergeable and found.shape == shape else None


def _named(
    name: str, source: str, params: Mapping[str, Any], shape: tuple[int, ...], skip: bool, where: str
) -> Statistic:
    if name in ("average", "weighted_mean") or (name == "mean" and "weights" in params):
        _only(params, ("weights",), where, name)
        weights = params.get("weights")
        if weights is None:
            return Mean("mean", source, skip)
        return WeightedMean(source, Expression(weights, f"{where}.params.weights"))
    if name in ("sum", "mean", "min", "max", "median", "mode"):
        _only(params, (), where, name)
    match name:
        case "sum":
            return Sum(name, source, skip)
        case "mean":
            return Mean(name, source, skip)
        case "min" | "max":
            return Extreme(name, source, skip)
        case "var" | "std":
            _only(params, ("ddof",), where, name)
            return Spread(
                name, source, skip, whole(params.get("ddof", 0), f"{where}.params.ddof", 0, SchemaError)
            )
        case "first" | "last":
            _only(params, ("by",), where, name)
            by = params.get("by")
            if by is not None and not isinstance(by, str):
                raise SchemaError(f"{where}.params.by is {by!r}; the name of a column is needed")
            return End(name, source, by)
        case "mode":
            return Mode(source)
        case "median":
            return Quantile(source, (0.5,), True, skip)
        case "quantile" | "percentile":
            _only(params, ("q",), where, name)
            if "q" not in params:
                raise SchemaError(
                    f"{where}.params.q is missing: {name} needs it, such as q: {0.25 if name == 'quantile' else 25}"
                )
            top = 1.0 if name == "quantile" else 100.0
            given = params["q"]
            several = isinstance(given, Sequence) and not isinstance(given, str)
            parts = tuple(
                _number(q, f"{where}.params.q", 0.0, top) / top for q in (given if several else [given])
            )
            return Quantile(source, parts, not several, skip)
        case "histogram":
            _only(params, ("bins", "range"), where, name)
            return Histogram(source, _edges(params, where))
    _only(params, ("size",), where, name)
    size = int(_number(params.get("size", shape[0] if shape else 100), f"{where}.params.size", 4, 10_000))
    return Digest(source, size)


def _edges(params: Mapping[str, Any], where: str) -> np.ndarray[Any, Any]:
    bins = params.get("bins")
    if isinstance(bins, int) and not isinstance(bins, bool) and 0 < bins <= 100_000:
        span = params.get("range")
        if not isinstance(span, Sequence) or len(span) != 2:
            raise SchemaError(
                f"{where}.params.range is {span!r}; [low, high] is needed beside a number of bins"
            )
        low, high = (_number(v, f"{where}.params.range", -np.inf, np.inf) for v in span)
        edges = np.linspace(low, high, bins + 1)
    elif isinstance(bins, Sequence) and not isinstance(bins, str) and len(bins) > 1:
        edges = np.array([_number(v, f"{where}.params.bins", -np.inf, np.inf) for v in bins])
    else:
        raise SchemaError(
            f"{where}.params.bins is {bins!r}; a number with range:, or a list of edges, is needed"
        )
    if not (np.diff(edges) > 0).all():
        raise SchemaError(f"{where}.params: the edges of a histogram have to rise; found {edges.tolist()}")
    return edges


def _only(params: Mapping[str, Any], known: Sequence[str], where: str, name: str) -> None:
    if params and not known:
        raise SchemaError(f"{where}.params: {name} takes none; found {', '.join(params)}")
    check_known(params, known, f"{where}.params", SchemaError)


def _number(value: object, where: str, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise SchemaError(f"{where} is {value!r}; a number from {low:g} to {high:g} is needed")
    return float(value)


def _imported(function: str, name: str, where: str) -> Callable[..., Any]:
    """A function of numpy's by name, or any other as package.module.name."""
    if "." not in name:
        found = getattr(np, name, None)
        if callable(found) and not name.startswith("_") and not isinstance(found, type):
            return found  # type: ignore[no-any-return]
        near = get_close_matches(name, NAMES, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise SchemaError(
            f"{where}.function is {function!r}: {hint}It is none of {', '.join(NAMES)}, no function of numpy's, and no "
            "package.module.name"
        )
    module, _, attribute = function.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise SchemaError(f"{where}.function is {function!r}, which cannot be imported: {error}") from None
    if not callable(found):
        raise SchemaError(f"{where}.function is {function!r}, which is no function")
    return found  # type: ignore[no-any-return]
