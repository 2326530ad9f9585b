"""Which bytes a Range header asks for.

What it does not do: know where the bytes are. Pure.
Specification: RFC 9110, section 14. A server may ignore what it does not understand, and several ranges at once: such
a request gets the whole object, with status 200.
"""

from __future__ import annotations

import re

__all__ = ["UnsatisfiableError", "wanted_range"]

_ONE = re.compile(r"(?:([0-9]+)-([0-9]*)|-([0-9]+))", re.ASCII).fullmatch
#: longer numbers lie past the end of every object
_DIGITS = 18


class UnsatisfiableError(ValueError):
    """No byte of the object is in the range."""


def wanted_range(header: str | None, size: int) -> tuple[int, int] | None:
    """(start, length) within an object of `size` bytes; None for all of it."""
    if header is None:
        return None
    unit, equals, listed = header.partition("=")
    if not equals or unit.strip(" \t").lower() != "bytes":
        return None
    ranges = [part for part in (part.strip(" \t") for part in listed.split(",")) if part]
    found = _ONE(ranges[0]) if len(ranges) == 1 else None
    if found is None:
        return None
    first, last, suffix = found.groups()
    if suffix is not None:
        length = min(_number(suffix), size)
        if not size and _number(suffix):
            return None  # all of nothing: no Content-Range can say so
        if not length:
            raise UnsatisfiableError(header)
        return size - length, length
    start = _number(first)
    end = _number(last) if last else size - 1
    if last and end < start:
        return None  # no range at all
    if start >= size:
        raise UnsatisfiableError(header)
    return start, min(end, size - 1) - start + 1


def _number(digits: str) -> int:
    digits = digits.lstrip("0")
    return int(digits or 0) if len(digits) <= _DIGITS else 10**_DIGITS
