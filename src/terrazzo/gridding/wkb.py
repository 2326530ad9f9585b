"""WKB: the polygons in a geometry's bytes, as GeoParquet has them.

What it does not do: points, lines, curves; heights and measures are left out.
Specification: OGC 06-103r4, section 8.2 (and the EWKB flags that PostGIS adds).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["polygons_of"]

_POLYGON, _MULTI, _COLLECTION = 3, 6, 7
_Z, _M, _SRID = 0x80000000, 0x40000000, 0x20000000


def polygons_of(text: bytes) -> Iterator[list[Any]]:
    """The rings, float64 (n, 2), of each polygon. Raises ValueError where the bytes are something else."""
    try:
        polygons, end = _geometry(text, 0, 0)
    except struct.error as error:
        raise ValueError(f"a geometry of {len(text)} bytes ends early: {error}") from None
    if end != len(text):
        raise ValueError(f"a geometry of {len(text)} bytes ends after {end}")
    yield from polygons


def _geometry(text: bytes, at: int, depth: int) -> tuple[list[list[Any]], int]:
    if depth > 4:
        raise ValueError("a geometry of collections in collections; at most four levels are read")
    if text[at : at + 1] not in (b"\0", b"\1"):
        raise ValueError(
            f"a geometry begins with {text[at : at + 1]!r}; 0 or 1, the order of bytes, is needed"
        )
    order = "<" if text[at] else ">"
    (kind,) = struct.unpack_from(order + "I", text, at + 1)
    at += 5
    extra = bool(kind & _Z) + bool(kind & _M)
    if kind & _SRID:
        at += 4
    kind &= 0x1FFFFFFF
    extra += {0: 0, 1: 1, 2: 1, 3: 2}.get(kind // 1000, 0)
    kind %= 1000
    if kind == _POLYGON:
        rings, at = _rings(text, at, order, 2 + extra)
        return [rings], at
    if kind not in (_MULTI, _COLLECTION):
        raise ValueError(f"a geometry of kind {kind}; polygons are footprints")
    (n,) = struct.unpack_from(order + "I", text, at)
    at += 4
    found: list[list[Any]] = []
    for _ in range(n):
        parts, at = _geometry(text, at, depth + 1)
        found += parts
    return found, at


def _rings(text: bytes, at: int, order: str, width: int) -> tuple[list[Any], int]:
    (n,) = struct.unpack_from(order + "I", text, at)
    at += 4
    rings: list[Any] = []
    for _ in range(n):
        (corners,) = struct.unpack_from(order + "I", text, at)
        at += 4
        nbytes = corners * width * 8
        if nbytes > len(text) - at:
            raise ValueError(f"a ring of {corners} corners in {len(text) - at} bytes")
        rings.append(np.frombuffer(text, order + "f8", corners * width, at).reshape(-1, width)[:, :2])
        at += nbytes
    return rings, at
