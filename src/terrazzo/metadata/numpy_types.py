"""Data types as numpy spells them ("<f8", [["x", "<i4"]]), and their fill values, to what Zarr 3 says and back.

What it does not do: read documents (v2.py, draft.py). Zarr 2 and the 2022 draft share these spellings.

https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html#data-type-encoding
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from terrazzo.errors import DataTypeValidationError
from terrazzo.metadata.data_types import (
    DataType,
    Fill,
    NumpyRecord,
    Objects,
    String,
    Struct,
    VariableBytes,
    data_type_from_numpy,
)
from terrazzo.metadata.data_types.record import record_dtype
from terrazzo.metadata.problems import describe, doubt, refuse, remark

__all__ = ["ElementType", "element_type", "fill_from_numpy", "fill_to_numpy", "numpy_spelling"]

TYPESTR = re.compile(
    r"([<>|=]?)(b1|i[1248]|u[1248]|f[248]|c8|c16|[SUV][0-9]{1,9}|[mM]8(\[[0-9]*[a-zA-Zμµ]{1,7}\])?)"
)
#: names that some writers use instead of numpy's codes
NAMED = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)|complex(64|128)")


@dataclass(frozen=True)
class ElementType:
    """What a spelling means: the data type, the byte order of what is stored (None where there is none to say)."""

    data_type: DataType
    endian: str | None
    dtype: np.dtype[Any]  # as it is stored; the data type's own for elements of any length
    instead_of: str | None = None  # the type that is not known, where this is its fallback


def element_type(
    spelled: object, path: str, objects: DataType | None = None, *, strict: bool = True
) -> ElementType:
    """Read a spelling; `objects`: what "|O" stands for, by the codec that the document names for it."""
    if isinstance(spelled, list):
        return _record(spelled, path)
    if spelled in ("|O", "O", "object"):
        if objects is None:
            refuse(
                path,
                'found "|O", and no filter that says what the objects are; "vlen-utf8" and "vlen-bytes" are read',
                DataTypeValidationError,
            )
        return ElementType(objects, None, objects.numpy)
    if isinstance(spelled, str) and NAMED.fullmatch(spelled):
        spelled = np.dtype(spelled).newbyteorder("<").str
    if not isinstance(spelled, str) or not TYPESTR.fullmatch(spelled):
        refuse(
            path,
            f'found {describe(spelled)}, which is not a type that is read; such as "<f8", "|S12" or a list of fields',
            DataTypeValidationError,
        )
    spelled = spelled.replace("μ", "u").replace("µ", "u")
    if spelled[0] not in "<>|":
        doubt(
            path,
            f"found {describe(spelled)}, which does not state a byte order; little is assumed",
            strict=strict,
        )
        spelled = "<" + spelled.lstrip("=")
    try:
        dtype = np.dtype(spelled)
    except (TypeError, ValueError) as error:
        refuse(path, f"found {describe(spelled)}: {error}", DataTypeValidationError)
    if not dtype.itemsize:
        refuse(path, f"found {describe(spelled)}, whose elements have no bytes", DataTypeValidationError)
    data_type = data_type_from_numpy(dtype)
    big = dtype.newbyteorder(">") == dtype and dtype.newbyteorder("<") != dtype
    return ElementType(data_type, ("big" if big else "little") if data_type.needs_endian else None, dtype)


def _record(spelled: list[Any], path: str) -> ElementType:
    dtype = record_dtype(spelled, path)
    for endian in ("little", "big"):
        if dtype.newbyteorder(_mark(endian)) == dtype:  # one byte order in all fields
            try:
                struct = Struct.from_numpy(dtype)
            except DataTypeValidationError:
                break  # array fields
            if struct is not None and struct.numpy.itemsize == dtype.itemsize:
                return ElementType(struct, endian if struct.needs_endian else None, dtype)
    return ElementType(NumpyRecord(dtype), None, dtype)


def numpy_spelling(data_type: DataType, endian: str | None, path: str = "data_type") -> Any:
    """The spelling of a data type, as JSON; refused where numpy alone has none."""
    if isinstance(data_type, String | VariableBytes | Objects):
        return "|O"
    if data_type.itemsize is None:
        refuse(path, f"{data_type} has no spelling in this format")
    dtype = data_type.numpy
    if dtype.type.__module__ != "numpy" or (dtype.name != data_type.name and dtype.kind in "biufc"):
        refuse(path, f"{data_type} has no spelling in this format; it knows numpy's own types alone")
    if dtype.names is not None:
        stored = (
            dtype
            if isinstance(data_type, NumpyRecord)
            else dtype.newbyteorder(">" if endian == "big" else "<")
        )
        return _spelled(stored)
    return dtype.newbyteorder(">" if endian == "big" else "<").str


def _spelled(dtype: np.dtype[Any]) -> Any:
    if dtype.names is None or dtype.fields is None:
        if dtype.type.__module__ != "numpy":
            refuse("data_type", f"a field of type {dtype} has no spelling in this format")
        return dtype.str
    entries = []
    for name in dtype.names:
        part: np.dtype[Any] = dtype.fields[name][0]
        if part.subdtype is not None:
            entries.append([name, _spelled(part.subdtype[0]), list(part.shape)])
        else:
            entries.append([name, _spelled(part)])
    return entries


def fill_from_numpy(value: Any, element: ElementType, path: str, *, strict: bool = True) -> Any:
    """The fill value of Zarr 2, numcodecs' way, in the JSON form that Zarr 3 has for it. null: the type's own zero."""
    data_type, kind = element.data_type, element.dtype.kind
    if isinstance(data_type, Objects):
        return value
    if value is None:
        zero = bytes(element.dtype.itemsize)
        if kind in "mM":
            return 0
        if kind in "OT" or isinstance(data_type, String | VariableBytes):
            return data_type.fill_to_json(data_type.default_fill())
        return data_type.fill_to_json(_from_bytes(zero, element))
    if isinstance(data_type, NumpyRecord | Struct) or kind == "V":
        return data_type.fill_to_json(_from_bytes(_element_bytes(value, element, path), element))
    if kind == "S":
        return _text_bytes(value, element.dtype.itemsize, path)
    if isinstance(data_type, VariableBytes):
        return _text_bytes(value, None, path)
    if isinstance(data_type, String) or kind == "U":
        if value == 0 and not isinstance(value, str):
            remark(path, "found 0 for text, read as the empty text")
            return ""
        return value
    if kind == "b" and isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    if kind in "iu" and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind == "c" and not isinstance(value, list):
        return [value, 0.0]
    if kind in "mM" and isinstance(value, float) and value.is_integer():
        return int(value)
    return value  # the data type checks it


def fill_to_numpy(fill: Fill, data_type: DataType, endian: str | None, path: str = "fill_value") -> Any:
    """The same the other way."""
    if isinstance(data_type, NumpyRecord | Struct) or fill.dtype.kind == "V":
        stored = fill.dtype if isinstance(data_type, NumpyRecord) else fill.dtype.newbyteorder(_mark(endian))
        return base64.b64encode(fill.astype(stored).tobytes()).decode("ascii")
    if fill.dtype.kind == "S":
        return base64.b64encode(bytes(fill[()])).decode("ascii")
    if isinstance(data_type, VariableBytes):
        if bytes(fill[()]):
            refuse(
                path,
                "found bytes, and for elements of bytes of any length this format has no fill value but none",
            )
        return ""
    if isinstance(data_type, Objects):
        return data_type.fill_to_json(fill)
    if fill.dtype.kind in "mM":
        return int(fill.view(np.int64)[()])
    value = data_type.fill_to_json(fill)
    parts = value if isinstance(value, list) else [value]
    if fill.dtype.kind in "fc" and any(isinstance(one, str) and one.startswith("0x") for one in parts):
        refuse(path, f'found {describe(value)}: this format has one NaN only, "NaN"')
    return value


def _mark(endian: str | None) -> Literal["<", ">"]:
    return ">" if endian == "big" else "<"


def _from_bytes(encoded: bytes, element: ElementType) -> Fill:
    """A fill value from the bytes of a stored element."""
    found = np.frombuffer(encoded, element.dtype).astype(element.data_type.numpy).reshape(())
    found.setflags(write=False)
    return found


def _element_bytes(value: Any, element: ElementType, path: str) -> bytes:
    nbytes = element.dtype.itemsize
    if value == 0 and not isinstance(value, str):
        return bytes(nbytes)
    if isinstance(value, list):
        try:
            made = np.array(tuple(value), element.dtype)
        except (TypeError, ValueError):
            made = None
        if made is not None and made.shape == ():
            return made.tobytes()
        refuse(path, f"found {describe(value)}, must be base64 of {nbytes} bytes")
    encoded = _base64(value)
    if encoded is None or len(encoded) != nbytes:
        refuse(path, f"found {describe(value)}, must be base64 of {nbytes} bytes")
    return encoded


def _text_bytes(value: Any, nbytes: int | None, path: str) -> str:
    """Bytes as base64; what is not base64, or too long for it, is taken as ASCII text."""
    if value == 0 and not isinstance(value, str):
        return ""
    encoded = _base64(value)
    if encoded is None or (nbytes is not None and len(encoded) > nbytes):
        if not isinstance(value, str) or not value.isascii() or (nbytes is not None and len(value) > nbytes):
            refuse(
                path,
                f"found {describe(value)}, must be base64"
                + (f" of at most {nbytes} bytes" if nbytes else ""),
            )
        remark(path, f"found {describe(value)}, which is not base64; read as text")
        encoded = value.encode("ascii")
    return base64.b64encode(encoded).decode("ascii")


def _base64(value: object) -> bytes | None:
    try:
        return base64.b64decode(value.encode("ascii"), validate=True) if isinstance(value, str) else None
    except (binascii.Error, UnicodeEncodeError):
        return None
