"""JSON as documents hold it: bytes -> plain objects, strictly, and back, always the same bytes.

What it does not do: know any member of a document.

Refused when reading: more bytes or a deeper nesting than the limits, anything but UTF-8, a byte order mark, NaN and
Infinity literals, repeated members, lone surrogates, integers of more than 1000 digits, numbers beyond a 64-bit float.

https://www.rfc-editor.org/rfc/rfc8259
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from terrazzo.errors import LimitError, MetadataError, MetadataValidationError
from terrazzo.metadata.problems import describe, join, refuse, remark
from terrazzo.options import Limits

__all__ = ["plain", "read_json", "write_json"]

# int() of a long text takes quadratic time
INTEGER_DIGITS = 1000
# a string (an unfinished one runs to the end), or one bracket
TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def read_json(document: bytes, key: str, limits: Limits | None = None, *, strict: bool = True) -> Any:
    """The object that `document` (the value of the store's `key`) spells.

    Raises LimitError for too many bytes or levels, MetadataValidationError for everything that is not JSON.
    With strict=False, NaN and Infinity literals are read as floats, with a warning.
    """
    limits = limits or Limits()
    if len(document) > limits.metadata_nbytes:
        raise LimitError(
            f"{key}: {len(document)} bytes of metadata, at most {limits.metadata_nbytes} are read; "
            "raise `metadata_nbytes` in the limits for data that you trust"
        )
    if document.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        refuse(key, "starts with a byte order mark; a document is UTF-8 without one")
    _check_depth(document, key, limits.depth)
    problems: list[str] = []
    try:
        text = document.decode("utf-8")
        value = json.loads(
            text,
            object_pairs_hook=lambda pairs: _members(pairs, problems),
            parse_constant=lambda name: _constant(name, key, problems, strict),
            parse_int=lambda digits: _integer(digits, problems),
            parse_float=lambda digits: _float(digits, problems),
        )
    except UnicodeDecodeError as error:
        refuse(key, f"is not UTF-8: byte {error.object[error.start]:#04x} at position {error.start}")
    except json.JSONDecodeError as error:
        refuse(key, f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}")
    if SURROGATE.search(document):
        _check_surrogates(value, "", problems)
    if problems:
        raise MetadataValidationError(
            "\n".join(f"{key}: {problem}" for problem in problems),
            tuple(("", problem) for problem in problems),
        )
    return value


def write_json(document: Any, key: str = "zarr.json") -> bytes:
    """The bytes of a document: UTF-8, two spaces of indentation, members in the order given."""
    try:
        return json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise MetadataError(f"{key}: cannot be written as JSON: {error}") from error


def plain(value: object, path: str, depth: int = Limits().depth - 1) -> Any:
    """A deep copy of `value` made of JSON's own types only; numpy scalars and arrays become numbers and lists.

    Raises MetadataValidationError, naming the path, for what JSON cannot hold.
    """
    if isinstance(value, np.generic | np.ndarray) and value.dtype.kind in "biufUT":
        value = value.tolist()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if value.bit_length() > INTEGER_DIGITS * 3:
            refuse(
                path,
                f"found {value.bit_length()} bits in an integer, at most {INTEGER_DIGITS * 3} are read back",
            )
        return int(value)
    if isinstance(value, str):
        if not _encodable(value):
            refuse(path, "found a lone surrogate; text must be Unicode that UTF-8 can hold")
        return str(value)
    if isinstance(value, float):
        if value - value != 0.0:
            refuse(path, f"found {value!r}, JSON has no such number; write it as a string, or leave it out")
        return float(value)
    if depth <= 0:
        refuse(path, "is nested too deeply (or holds itself)")
    if isinstance(value, list | tuple):
        return [plain(one, join(path, i), depth - 1) for i, one in enumerate(value)]
    if not isinstance(value, dict):
        allowed = "None, bool, int, float, str, list, dict"
        refuse(path, f"found a {type(value).__name__}, must be something JSON can hold: {allowed}")
    copy = {}
    for name, one in value.items():
        if not isinstance(name, str):
            refuse(path, f"found the member name {name!r}, must be a string")
        copy[plain(name, path)] = plain(one, join(path, name), depth - 1)
    return copy


def _check_depth(document: bytes, key: str, limit: int) -> None:
    if document.count(b"[") + document.count(b"{") <= limit:
        return
    depth = 0
    for token in TOKEN.finditer(document):
        first = document[token.start()]
        if first in b"[{":
            depth += 1
            if depth > limit:
                raise LimitError(
                    f"{key}: nested more than {limit} levels deep; raise `depth` in the limits for data that you trust"
                )
        elif first in b"]}":
            depth -= 1


def _members(pairs: list[tuple[str, Any]], problems: list[str]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                problems.append(f"the member {describe(name)} is there more than once in one object")
            seen.add(name)
    return members


def _constant(name: str, key: str, problems: list[str], strict: bool) -> float:
    if strict:
        problems.append(
            f"found the literal {name}, which JSON does not have (`strict=False` reads it with a warning)"
        )
    else:
        remark(
            key, f"found the literal {name}, which JSON does not have; other readers will refuse the document"
        )
    return float(name)


def _integer(digits: str, problems: list[str]) -> int:
    if len(digits) > INTEGER_DIGITS:
        problems.append(f"found an integer of {len(digits)} digits, at most {INTEGER_DIGITS} are read")
        return 0
    return int(digits)


def _float(digits: str, problems: list[str]) -> float:
    value = float(digits)
    if value - value != 0.0:
        problems.append(f"found the number {digits[:40]}, which is beyond a 64-bit float")
        return 0.0
    return value


def _check_surrogates(value: Any, path: str, problems: list[str]) -> None:
    if isinstance(value, str):
        if not _encodable(value):
            problems.append(f"{path}: found a lone surrogate; text must be Unicode that UTF-8 can hold")
    elif isinstance(value, list):
        for i, one in enumerate(value):
            _check_surrogates(one, join(path, i), problems)
    elif isinstance(value, dict):
        for name, one in value.items():
            if not _encodable(name):
                problems.append(f"{path}: found a lone surrogate in a member name")
            _check_surrogates(one, join(path, name), problems)


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
