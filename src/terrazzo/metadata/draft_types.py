"""Data types and fill values of the 2022 draft: core names, numpy's spellings, and extension types with fallbacks.

What it does not do: the rest of a document (draft.py). An extension type is known by its `type`: its URI
changed too often.
"""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from terrazzo.errors import DataTypeValidationError, MetadataError
from terrazzo.metadata.data_types import DataType, RawBits, data_type_from_json
from terrazzo.metadata.numpy_types import ElementType, element_type, fill_from_numpy, numpy_spelling
from terrazzo.metadata.problems import describe, join, refuse, remark

__all__ = ["Fallback", "draft_element", "draft_fill", "draft_spelling"]

#: what becomes of an extension type that is not known: an error, or its fallback, with or without a warning
Fallback = Literal["error", "warn", "use"]
RAW = re.compile(r"r[1-9][0-9]*")
MARKED = re.compile(r"[biufcSUVmM][0-9]")
EXTENSION = "https://purl.org/zarr/spec/extensions/data-types/{}/1.0"
KINDS = {
    "c": "complex",
    "m": "datetime",
    "M": "datetime",
    "S": "string",
    "U": "string",
    "O": "string",
    "V": "struct",
}


def draft_element(found: Any, path: str, objects: DataType | None, fallback: Fallback) -> ElementType:
    """Read a `data_type` member."""
    if not isinstance(found, dict):
        return _named(found, path, objects)
    if "type" not in found:
        refuse(join(path, "type"), "is missing; an extension type is known by it")
    try:
        return _named(found["type"], join(path, "type"), objects)
    except MetadataError as error:
        others = found.get("fallback")
        listed = others if isinstance(others, list) else [] if others is None else [others]
        for other in listed:
            try:
                element = draft_element(other, join(path, "fallback"), objects, "error")
            except MetadataError:
                continue
            if fallback == "error":
                sentence = (
                    f'{error}; it has the fallback {describe(other)} (`fallback="warn"` or "use" reads it so)'
                )
                raise DataTypeValidationError(sentence, ((path, sentence),)) from error
            if fallback == "warn":
                remark(
                    path, f"found {describe(found['type'])}, which is not known; read as {describe(other)}"
                )
            return replace(element, instead_of=str(found["type"]))
        raise


def _named(found: Any, path: str, objects: DataType | None) -> ElementType:
    if isinstance(found, str) and RAW.fullmatch(found):
        data_type = data_type_from_json(found, path)
        return ElementType(data_type, None, data_type.numpy)
    if isinstance(found, str) and MARKED.match(found):
        single = found[0] in "bSV" or found[1:] == "1"
        found = ("|" if single else "<") + found
    if isinstance(found, list):
        found = _fields(found)
    return element_type(found, path, objects)


def _fields(found: list[Any]) -> list[Any]:
    """The fields of a record, with numpy's spelling of raw bytes ("r24" is "|V3")."""
    fields: list[Any] = []
    for field in found:
        if isinstance(field, list) and len(field) > 1:
            name, kind, *rest = field
            if isinstance(kind, list):
                kind = _fields(kind)
            elif isinstance(kind, str) and RAW.fullmatch(kind) and len(kind) < 12 and not int(kind[1:]) % 8:
                kind = f"|V{int(kind[1:]) // 8}"
            field = [name, kind, *rest]
        fields.append(field)
    return fields


def draft_fill(value: Any, element: ElementType, path: str, *, strict: bool) -> Any:
    """zarr-python's forms, and the draft's own: "+Infinity", "0x..." and "0b..." of the full width.

    Of complex numbers the real part stands first; of records the bytes, in the order in which they are stored.
    """
    if isinstance(value, str) and value == "+Infinity":
        return "Infinity"
    if isinstance(value, list) and element.dtype.kind == "c":
        return ["Infinity" if one == "+Infinity" else one for one in value]
    digits = isinstance(value, str) and value[:2] in ("0x", "0b")
    if digits and element.dtype.kind in "biuf":
        return _from_digits(value, element, path)
    width = 2 if digits and value[1] == "x" else 8
    if digits and element.dtype.kind == "c" and len(value) == 2 + width * element.dtype.itemsize:
        content = bytes(_raw_from_digits(value, element.dtype.itemsize, path)).hex()
        half = len(content) // 2  # the digits of the real part, then those of the imaginary one
        return [f"0x{content[:half]}", f"0x{content[half:]}"]
    if digits and element.dtype.names is not None:
        value = base64.b64encode(bytes(_raw_from_digits(value, element.dtype.itemsize, path))).decode()
    if isinstance(element.data_type, RawBits) and isinstance(value, list):
        return value
    if digits and isinstance(element.data_type, RawBits):
        return _raw_from_digits(value, element.dtype.itemsize, path)
    return fill_from_numpy(value, element, path, strict=strict)


def _raw_from_digits(value: str, nbytes: int, path: str) -> list[int]:
    """Bytes in the order in which their digits stand."""
    base, width = (16, 2) if value[1] == "x" else (2, 8)
    digits = value[2:]
    if len(digits) != width * nbytes or not set(digits.lower()) <= set("0123456789abcdef"[:base]):
        refuse(path, f"found {describe(value)}, must have {width * nbytes} digits after {value[:2]}")
    return [int(digits[place : place + width], base) for place in range(0, len(digits), width)]


def _from_digits(value: str, element: ElementType, path: str) -> Any:
    nbytes = element.dtype.itemsize
    base, width = (16, 2 * nbytes) if value[1] == "x" else (2, 8 * nbytes)
    try:
        bits = int(value[2:], base) if len(value) == 2 + width and "_" not in value else None
    except ValueError:
        bits = None
    if bits is None:
        refuse(path, f"found {describe(value)}, must have {width} digits after {value[:2]}")
    if element.dtype.kind == "f":
        return f"0x{bits:0{2 * nbytes}x}"
    fill = np.array([bits], f"u{nbytes}").view(element.data_type.numpy).reshape(())
    return element.data_type.fill_to_json(fill)


def draft_spelling(
    data_type: DataType, endian: str | None, way: str, fallbacks: list[Any] | None = None
) -> Any:
    """A `data_type` member: P spells numpy's way with the byte order in it, D by names that have none.

    fallbacks: of a type of an extension; None: those of its kind (zarr-python stated none).
    """
    if isinstance(data_type, RawBits) and way == "D":
        return data_type.name
    spelled = numpy_spelling(data_type, endian)
    kind = "V" if isinstance(spelled, list) else "O" if spelled == "|O" else np.dtype(spelled).kind
    if kind == "b":
        return "bool"
    if kind in "iuf":
        if way == "D":
            return data_type.name
        return spelled[1:] if spelled[0] == "|" else spelled
    if kind == "c" and way == "D":
        return data_type.name
    if fallbacks is None and way == "D" and kind != "O":
        integers = [f"{spelled[0]}i8"] if kind in "mM" else []
        fallbacks = [*integers, f"r{8 * (data_type.itemsize or 1)}"]
    return {"extension": EXTENSION.format(KINDS[kind]), "type": spelled, "fallback": fallbacks}
