"""The contract of importing: one array inside a file of another format, readable piece by piece.

What it does not do: know any format, or apply scale and offset: values are those of the file, and what they mean is
kept in the attributes, so that a tool that knows the convention finds what it looks for.
"""

from __future__ import annotations

import base64
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Literal, Self

import numpy as np

__all__ = ["Imported", "fill_attribute", "json_attributes", "mapped", "need", "plain"]

Array = np.ndarray[Any, Any]

#: bytes of a file that are mapped and touched at a time
MAPPED_AT_ONCE = 16 << 20


class Imported(ABC):
    """An array inside a file, open until `close`.

    path: of the file. variable: which of the arrays in it; None where it holds one. shape, dtype (native byte order),
    dimension_names, attributes (plain values that JSON can hold), fill_value (None where the file states none that
    the data type can hold), chunks: the shape of the pieces the file is stored in, None where it is one piece.
    """

    def __init__(
        self,
        path: str,
        shape: Sequence[int],
        dtype: Any,
        *,
        variable: str | None = None,
        dimension_names: Sequence[str | None] | None = None,
        attributes: Mapping[str, Any] | None = None,
        fill_value: Any = None,
        chunks: Sequence[int] | None = None,
    ) -> None:
        self.path = path
        self.variable = variable
        self.shape = tuple(int(extent) for extent in shape)
        found = np.dtype(dtype)
        self.dtype = found if found.kind in "TO" else found.newbyteorder("=")
        self.dimension_names = None if dimension_names is None else tuple(dimension_names)
        self.attributes = dict(attributes or {})
        self.fill_value = _fitting(fill_value, self.dtype)
        self.chunks = None if chunks is None else tuple(max(1, int(extent)) for extent in chunks)

    @abstractmethod
    def read(self, selection: tuple[slice, ...]) -> Array:
        """The values of a selection: one slice per dimension, inside the array, with step 1."""

    def close(self) -> None:
        """Close the file; harmless when it is closed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        variable = f" {self.variable!r}" if self.variable is not None else ""
        return f"<{type(self).__name__}{variable} {self.shape} {self.dtype} in {self.path!r}>"


def mapped(
    file: Any,
    dtype: np.dtype[Any],
    offset: int,
    shape: Sequence[int],
    order: Literal["C", "F"],
    selection: Any,
) -> Array:
    """A selection of an array that lies in a file in one piece, in C order and native bytes.

    The mapping lasts for this call: pages of one that stays count as memory of the process until it ends.
    """
    native = dtype.newbyteorder("=")
    if dtype.itemsize == 0 or 0 in shape:  # nothing cannot be mapped
        return np.array(np.empty(shape, native)[selection])
    out = np.empty([len(range(*s.indices(n))) for s, n in zip(selection, shape, strict=True)], native)
    if not out.ndim:
        out[...] = np.memmap(file, dtype, "r", offset, tuple(shape), order)[selection]
        return out
    # part by part, since the pages of a mapping are memory of the process while it lasts
    along = 0 if order == "C" else out.ndim - 1
    first = selection[along].indices(shape[along])[0]
    step = max(1, MAPPED_AT_ONCE // max(1, out.nbytes // max(1, out.shape[along])))
    for start in range(0, out.shape[along], step):
        stop = min(start + step, out.shape[along])
        part = list(selection)
        part[along] = slice(first + start, first + stop)
        place = (slice(None),) * along + (slice(start, stop),)
        out[place] = np.memmap(file, dtype, "r", offset, tuple(shape), order)[tuple(part)]
    return out


def _fitting(fill: Any, dtype: np.dtype[Any]) -> Any:
    """The fill value as the data type holds it; None where it cannot (files state NaN for integers)."""
    if fill is None:
        return None
    try:
        given = np.asarray(fill)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a cast of NaN is what is being found out
            cast = given.astype(dtype)
        same = bool(((cast == given) | ((cast != cast) & (given != given))).all())
    except (TypeError, ValueError):
        return None
    return cast[()] if same else None


def need(module: str, package: str, extra: str, words: str) -> Any:
    """An optional package, or an ImportError that says what to install."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"{words} needs the package {package}: pip install 'terrazzo[{extra}]'") from error


def json_attributes(found: Mapping[str, Any], leave: Sequence[str] = ()) -> dict[str, Any]:
    """Attributes as JSON can hold them; what it cannot hold (references, objects) is left out."""
    attributes = {}
    for name, value in found.items():
        if name in leave:
            continue
        try:
            attributes[str(name)] = plain(value)
        except TypeError:
            continue
    return attributes


def plain(value: Any) -> Any:
    """numpy's and a file's values as str, int, float, bool, None, list or dict; TypeError for anything else.

    Numbers that JSON lacks become "NaN", "Infinity" and "-Infinity", as in fill values.
    """
    if isinstance(value, np.ndarray):
        return [plain(v) for v in value] if value.ndim else plain(value[()])
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, bytes):
        return value.rstrip(b"\0").decode("utf-8", "replace")
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def fill_attribute(value: Any) -> Any:
    """CF's `_FillValue` in the form that xarray writes into Zarr v3 attributes and looks for there."""
    value = np.asarray(value)[()]
    if isinstance(value, np.floating):
        return base64.standard_b64encode(np.float64(value).astype("<f8").tobytes()).decode("ascii")
    if isinstance(value, np.bytes_):
        return base64.standard_b64encode(bytes(value)).decode("ascii")
    return plain(value)
