"""Filters: which points of a batch count.

What it does not do: read. Datasets that filters need are read beside the others and left out afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from terrazzo.gridding.errors import GridConfigError
from terrazzo.gridding.inputs.source import Array
from terrazzo.gridding.statistics import Expression
from terrazzo.gridding.statistics.expression import evaluate

__all__ = ["chosen", "wanted"]


def wanted(filters: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The datasets that filters look at: key -> path; and under "", nothing."""
    return {f"filter {k}": one["dataset"] for k, one in enumerate(filters) if "dataset" in one}


def expression_columns(filters: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """The columns that filters written as expressions use."""
    texts = [(k, one["expression"]) for k, one in enumerate(filters) if "expression" in one]
    return frozenset().union(*(Expression(text, f"data_source.filters[{k}]").columns for k, text in texts))


def chosen(filters: Sequence[Mapping[str, Any]], columns: Mapping[str, Array], n: int) -> Array:
    """Which of n points pass every filter, bool (n,)."""
    keep = np.ones(n, np.bool_)
    for k, one in enumerate(filters):
        if "expression" in one:
            passed = evaluate(one["expression"], dict(columns), f"data_source.filters[{k}]").astype(np.bool_)
        else:
            values = columns[f"filter {k}"]
            if "column" in one:
                column = one["column"]
                if values.ndim != 2 or not -values.shape[1] <= column < values.shape[1]:
                    raise GridConfigError(
                        f"filter {k}: {one['dataset']!r} has shape {('points', *values.shape[1:])}, and column is "
                        f"{column}; a column of its second dimension is needed"
                    )
                values = values[:, column]
            if values.ndim != 1:
                raise GridConfigError(
                    f"filter {k}: {one['dataset']!r} has {values.ndim} dimensions; column: names one of them"
                )
            passed = _compared(one, values)
            if one.get("keep", True) is False:
                passed = ~passed
        keep &= passed
    return keep


def _compared(one: Mapping[str, Any], values: Array) -> Array:
    operation = one["op"]
    if operation in ("in", "not_in"):
        inside = np.isin(values, one.get("values", ()))
        return ~inside if operation == "not_in" else inside
    functions = {
        "eq": np.equal,
        "ne": np.not_equal,
        "ge": np.greater_equal,
        "le": np.less_equal,
        "lt": np.less,
        "gt": np.greater,
    }
    found: Array = functions[operation](values, np.asarray(one.get("value")))
    return found
