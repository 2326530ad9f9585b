"""Expressions over a cell's columns: `np.sum(h / s**2) / np.sum(1 / s**2)`, for all cells at once.

What it does not do: run Python. The text is parsed into a tree of arithmetic, comparisons and known functions; there
are no attributes but `np.`, no subscripts, no imports, and nothing is evaluated but that tree.

A value is a number, a column (one per point) or one per cell. A function such as `sum` turns a column into one value
per cell; arithmetic between the two gives each point its cell's value.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from terrazzo.gridding.errors import SchemaError
from terrazzo.gridding.statistics.exact import quantile_of
from terrazzo.gridding.statistics.points import Points
from terrazzo.gridding.statistics.statistic import Array, Statistic

__all__ = ["Expression", "evaluate"]

LONGEST = 2000
_BINARY: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_UNARY: dict[type[ast.AST], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}
#: value by value, and how many arguments each takes
_ELEMENTWISE: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("sqrt", "exp", "log", "log10", "log2", "abs", "sign", "square", "floor", "ceil"), (1,)),
    **dict.fromkeys(("sin", "cos", "tan", "arcsin", "arccos", "arctan", "radians", "degrees"), (1,)),
    **dict.fromkeys(("isfinite", "isnan", "logical_not"), (1,)),
    **dict.fromkeys(("arctan2", "hypot", "minimum", "maximum", "power", "logical_and", "logical_or"), (2,)),
    **dict.fromkeys(("where", "clip"), (3,)),
    "round": (1, 2),
}
#: a column to one value per cell
_REDUCTIONS = (
    "sum",
    "mean",
    "min",
    "max",
    "var",
    "std",
    "median",
    "quantile",
    "percentile",
    "len",
    "count",
    "any",
    "all",
)


class Expression(Statistic):
    """An expression over columns."""

    name, mergeable = "expression", False

    def __init__(self, text: str, where: str) -> None:
        self.text, self.where = text, where
        self.columns = frozenset(_names(_parsed(text, where), where))

    def compute(self, points: Points) -> Array:
        found = self._evaluated(points)
        if found.per_point:
            raise SchemaError(
                f"{self.where}: {self.text!r} has one value per point; wrap it, as in np.sum(…)"
            )
        return np.asarray(np.broadcast_to(found.values, (len(points.cells),)), np.float64)

    def per_point(self, points: Points) -> Array:
        """The expression as a column."""
        found = self._evaluated(points)
        if found.per_point:
            return np.asarray(found.values, np.float64)
        return points.cells.repeat(
            np.broadcast_to(np.asarray(found.values, np.float64), (len(points.cells),))
        )

    def _evaluated(self, points: Points) -> _Value:
        return _evaluated(self.text, points, self.where)


def evaluate(text: str, columns: dict[str, Array], where: str) -> Array:
    """An expression over columns, point by point, without cells; for filters."""
    from terrazzo.gridding.statistics.points import Cells

    n = len(next(iter(columns.values()))) if columns else 0
    # one cell around all of them: a reduction would be over the batch
    whole = Cells(np.zeros(min(n, 1), np.int64), np.zeros(min(n, 1), np.int64), n)
    value = _evaluated(text, Points(whole, None, columns), where)
    if not value.per_point:
        raise SchemaError(f"{where}: {text!r} has no value per point; a filter is a comparison of columns")
    return np.asarray(value.values)


def _evaluated(text: str, points: Points, where: str) -> _Value:
    try:
        with np.errstate(all="ignore"):
            return _Evaluation(points, where).of(_parsed(text, where))
    except (TypeError, ValueError) as error:
        if isinstance(error, SchemaError):
            raise
        raise SchemaError(
            f"{where}: {text!r} cannot be computed for columns of these types: {error}"
        ) from None


class _Value:
    __slots__ = ("per_point", "values")

    def __init__(self, values: Any, per_point: bool) -> None:
        self.values, self.per_point = values, per_point


class _Evaluation:
    def __init__(self, points: Points, where: str) -> None:
        self.points, self.where = points, where

    def of(self, node: ast.expr) -> _Value:
        match node:
            case ast.Constant():
                return _Value(node.value, False)
            case ast.Name():
                return _Value(_widened(self.points.column(node.id)), True)
            case ast.BinOp(op=ast.Pow()):
                # integers have no negative powers
                left, right = self.of(node.left), self.of(node.right)
                return self._combined(operator.pow, _real(left), _counted(right))
            case ast.BinOp():
                left, right = self.of(node.left), self.of(node.right)
                if not isinstance(node.op, ast.BitAnd | ast.BitOr | ast.BitXor):
                    left, right = _counted(left), _counted(right)
                return self._combined(_BINARY[type(node.op)], left, right)
            case ast.UnaryOp():
                value = self.of(node.operand)
                value = value if isinstance(node.op, ast.Invert) else _counted(value)
                return _Value(_UNARY[type(node.op)](value.values), value.per_point)
            case ast.Compare():
                return self._combined(
                    _BINARY[type(node.ops[0])], self.of(node.left), self.of(node.comparators[0])
                )
            case ast.Call():
                return self._called(_function(node), [self.of(argument) for argument in node.args])
        raise AssertionError(type(node))

    def _combined(self, function: Callable[..., Any], *values: _Value) -> _Value:
        per_point = any(value.per_point for value in values)
        return _Value(function(*(self._wide(v) if per_point else v.values for v in values)), per_point)

    def _wide(self, value: _Value) -> Any:
        if value.per_point or np.ndim(value.values) == 0:
            return value.values
        return self.points.cells.repeat(value.values)

    def _called(self, name: str, arguments: list[_Value]) -> _Value:
        if name == "power":
            return self._combined(operator.pow, _real(arguments[0]), _counted(arguments[1]))
        if name in _ELEMENTWISE:
            return self._combined(getattr(np, name), *arguments)
        cells = self.points.cells
        if not arguments[0].per_point:
            raise SchemaError(
                f"{self.where}: {name}() is given one value per cell already; it takes a column"
            )
        values = np.asarray(arguments[0].values)
        if name in ("len", "count"):
            return _Value(cells.counts, False)
        if name in ("any", "all"):
            return _Value(cells.reduce(np.logical_or if name == "any" else np.logical_and, values), False)
        if name in ("min", "max"):
            return _Value(cells.reduce(np.minimum if name == "min" else np.maximum, values), False)
        numbers = values.astype(np.float64, copy=False)
        if name == "sum":
            return _Value(cells.add(numbers), False)
        if name in ("median", "quantile", "percentile"):
            part = (
                0.5 if name == "median" else float(arguments[1].values) / (100 if name == "percentile" else 1)
            )
            return _Value(quantile_of(self.points, numbers, part, False, object()), False)
        # a mean lies between both ends, and that of equal numbers is that number, also after rounding
        ends = cells.reduce(np.minimum, numbers), cells.reduce(np.maximum, numbers)
        mean = np.clip(cells.add(numbers) / cells.counts, *ends)
        if name == "mean":
            return _Value(mean, False)
        variance = cells.add((numbers - cells.repeat(mean)) ** 2) / cells.counts
        return _Value(variance if name == "var" else np.sqrt(variance), False)


def _real(value: _Value) -> _Value:
    return _Value(np.asarray(value.values, np.float64), value.per_point)


def _counted(value: _Value) -> _Value:
    """True as 1, so that comparisons can be added and subtracted."""
    if np.asarray(value.values).dtype.kind != "b":
        return value
    return _Value(np.asarray(value.values, np.int64), value.per_point)


def _widened(column: Array) -> Array:
    """A column in the widest type of its kind, so that arithmetic on narrow integers does not wrap around."""
    if column.dtype.kind == "f":
        return column.astype(np.float64)
    if column.dtype.kind == "b":
        return column
    if column.dtype == np.uint64 and column.size and int(column.max()) >= 1 << 63:
        return column.astype(np.float64)
    return column.astype(np.int64)


def _function(node: ast.Call) -> str:
    match node.func:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id="np" | "numpy"), attr=name):
            return name
    return ""


@lru_cache(maxsize=256)
def _parsed(text: str, where: str) -> ast.expr:
    if not isinstance(text, str) or not text.strip():
        raise SchemaError(f"{where}: an expression is a text such as 'np.sum(h / s**2)'; found {text!r}")
    if len(text) > LONGEST:
        raise SchemaError(f"{where}: an expression of {len(text)} characters; at most {LONGEST} are allowed")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SchemaError(f"{where}: {text!r} cannot be read: {error}") from None
    _check(tree, text, where)
    return tree


def _check(node: ast.AST, text: str, where: str, depth: int = 0) -> None:
    """Refuse whatever is not arithmetic over columns."""
    if depth > 50:
        raise SchemaError(f"{where}: {text!r} is nested too deeply")

    def no(rule: str) -> SchemaError:
        return SchemaError(f"{where}: {text!r}: {rule}")

    match node:
        case ast.Constant():
            if isinstance(node.value, bool) or not isinstance(node.value, int | float):
                raise no(f"{node.value!r} is no number")
            if isinstance(node.value, int) and abs(node.value) > 2**63:
                raise no(f"{node.value} is too large")
        case ast.Name():
            if node.id in ("np", "numpy"):
                raise no("np stands before a function, as in np.sum(…)")
        case ast.BinOp():
            if type(node.op) not in _BINARY:
                raise no(f"the operator {type(node.op).__name__} is not known")
            if (
                isinstance(node.op, ast.Pow)
                and isinstance(node.left, ast.Constant)
                and isinstance(node.right, ast.Constant)
            ):
                raise no("write powers of numbers out")
            _check(node.left, text, where, depth + 1)
            _check(node.right, text, where, depth + 1)
        case ast.UnaryOp():
            if type(node.op) not in _UNARY:
                raise no("not is written ~ here, and and or as & and |")
            _check(node.operand, text, where, depth + 1)
        case ast.Compare():
            if len(node.ops) != 1 or type(node.ops[0]) not in _BINARY:
                raise no(
                    "one comparison at a time, with ==, !=, <, <=, > or >=; join them by & and parentheses"
                )
            _check(node.left, text, where, depth + 1)
            _check(node.comparators[0], text, where, depth + 1)
        case ast.Call():
            name = _function(node)
            if name not in _ELEMENTWISE and name not in _REDUCTIONS:
                raise no(
                    f"{name or 'what is called'} is no function that is known here; there are "
                    f"{', '.join((*_REDUCTIONS, *_ELEMENTWISE))}"
                )
            part = name in ("quantile", "percentile")
            wanted = _ELEMENTWISE.get(name, (2,) if part else (1,))
            if node.keywords or len(node.args) not in wanted:
                raise no(f"{name}() takes {' or '.join(map(str, wanted))} arguments, none by name")
            if part or (name == "round" and len(node.args) == 2):
                _check_number(node.args[1], name, no)
            for argument in node.args:
                _check(argument, text, where, depth + 1)
        case _:
            raise no(
                f"{type(node).__name__} is not allowed: arithmetic, comparisons and functions over columns are"
            )


def _check_number(node: ast.expr, name: str, no: Callable[[str], SchemaError]) -> None:
    """The second argument of a quantile, or of what rounds."""
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise no(f"{name}() needs a number as its second argument")
    if name == "round":
        if not isinstance(value, int):
            raise no(f"round() is given {value} digits; a whole number is needed")
    elif not 0 <= value <= (1 if name == "quantile" else 100):
        raise no(f"{name}() is asked for {value}; 0 to {1 if name == 'quantile' else 100} are allowed")


def _names(node: ast.AST, where: str) -> set[str]:
    """The columns that are used: names that are not the function of a call, nor np."""
    functions = {id(call.func) for call in ast.walk(node) if isinstance(call, ast.Call)}
    return {
        one.id
        for one in ast.walk(node)
        if isinstance(one, ast.Name) and id(one) not in functions and one.id not in ("np", "numpy")
    }
