"""Shapes: what people say ("auto", "1MB", 256, (64, -1)) -> chunk and shard shapes.

What it does not do: look at values, stores or codecs. Shapes are chosen from the array's shape and element size alone,
so the same call gives the same array everywhere.

Why these sizes. An inner chunk is what one read decompresses: below 128 KiB requests and index entries outweigh the
bytes, above a few MiB small reads pay for what they do not want and a core's cache no longer holds a chunk. A shard is
one object, and what one writer replaces: 128 MiB is large for an object store and still fits beside its encoded form
in the memory of a small machine. At most 4096 inner chunks keep its index (16 bytes each) at 64 KiB, one small request.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

__all__ = ["chunk_inside", "chunk_shape", "is_size", "parse_nbytes", "shard_shape"]

Spec: TypeAlias = "str | int | Sequence[int | None] | bool | None"

CHUNK_NBYTES: Final = 1 << 20
SHARD_NBYTES: Final = 128 << 20
SHARD_CHUNKS: Final = 4096

UNITS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}
BINARY_UNITS: Final = {"ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40, "pi": 1 << 50}
SIZE: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([kmgtp]i?)?b?\s*", re.ASCII | re.IGNORECASE)


def chunk_shape(spec: Spec | str, shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """The chunk shape that a spec means for an array of this shape, in elements.

    "auto" or True: about 1 MiB, nearly as long in every dimension. "512KiB": the same with that many bytes at most. An
    integer: that many along every dimension. A sequence: one entry per dimension, or for the first dimensions; -1 or
    None in it: the whole dimension. None, False, -1 or "full": one chunk. ValueError for anything else.
    """
    if isinstance(spec, str) and spec.strip().lower() not in ("auto", "full"):
        return _even(shape, parse_nbytes(spec), itemsize)
    if spec is True or (isinstance(spec, str) and spec.strip().lower() == "auto"):
        return _even(shape, CHUNK_NBYTES, itemsize)
    return tuple(
        max(1, length) if edge is None else edge
        for edge, length in zip(_edges(spec, len(shape)), shape, strict=True)
    )


def shard_shape(
    spec: Spec | str, shape: Sequence[int], chunks: Sequence[int], itemsize: int
) -> tuple[int, ...] | None:
    """The shard shape that a spec means for an array cut into these (inner) chunks; None for no shards.

    None or False: no shards. "auto" or True: about 128 MiB and at most 4096 inner chunks, no larger than it takes to
    cover the array. "256MB": that many bytes at most, and the same bound on chunks. An integer, a sequence: as for
    chunks, in elements, multiples of the chunk; -1, None inside a sequence, or "full": enough chunks to cover the
    dimension. ValueError names the nearest multiples where a shard is none.
    """
    if spec is None or spec is False:
        return None
    if isinstance(spec, str) and spec.strip().lower() not in ("auto", "full"):
        return _multiple(shape, chunks, parse_nbytes(spec), itemsize)
    if spec is True or (isinstance(spec, str) and spec.strip().lower() == "auto"):
        return _multiple(shape, chunks, SHARD_NBYTES, itemsize)
    edges = []
    for dim, (edge, length, chunk) in enumerate(zip(_edges(spec, len(shape)), shape, chunks, strict=True)):
        if edge is None:
            edge = max(1, -(-length // chunk)) * chunk
        elif edge % chunk:
            below = edge // chunk * chunk
            near = f"{below} and {below + chunk}" if below else f"{chunk}"
            raise ValueError(
                f"shards: dimension {dim}: found {edge}, not a multiple of the chunk's {chunk}; nearest: {near}"
            )
        edges.append(edge)
    return tuple(edges)


def chunk_inside(spec: Spec | str, shards: Sequence[int | Sequence[int]], itemsize: int) -> tuple[int, ...]:
    """The chunk shape that "auto" or a size means where the shards are named: every edge divides the shard's.

    shards: one edge per dimension, or all edges of it. ValueError where a shard cannot be cut into chunks of about that
    size (a large prime number).
    """
    whole = [math.gcd(*edges) if isinstance(edges, Sequence) else edges for edges in shards]
    wanted = chunk_shape(spec, whole, itemsize)
    found = []
    for dim, (edge, most) in enumerate(zip(whole, wanted, strict=True)):
        low = [n for n in range(1, math.isqrt(edge) + 1) if edge % n == 0]
        best = max(n for n in (*low, *(edge // n for n in low)) if n <= most)
        if 4 * best < most:
            raise ValueError(
                f"chunks: dimension {dim}: no number near {most} divides the shard's {edge}; name chunks="
            )
        found.append(best)
    return tuple(found)


def is_size(spec: object) -> bool:
    """Whether a spec of chunks leaves the shape to us: "auto", "1MB"."""
    return spec is True or (isinstance(spec, str) and spec.strip().lower() != "full")


def parse_nbytes(size: str | int) -> int:
    """A number of bytes as people write it: 1048576, "1MB" (10**6), "1 MiB" (2**20), "1.5G"; ValueError otherwise."""
    if isinstance(size, str):
        match = SIZE.fullmatch(size)
        if match is None:
            raise ValueError(f'found {size!r:.60}; a size looks like "512KiB", "1MB" or "1.5 GiB"')
        number, unit = match[1], (match[2] or "").lower()
        factor = BINARY_UNITS.get(unit) or UNITS[unit]
        nbytes = int(number) * factor if number.isdigit() else int(float(number) * factor)
    elif isinstance(size, (int, np.integer)) and not isinstance(size, bool):
        nbytes = int(size)
    else:
        raise ValueError(
            f"found {type(size).__name__}; a size is a number of bytes or a string such as '1MB'"
        )
    if nbytes < 1:
        raise ValueError(f"found {size!r:.60}; a size is at least 1 byte")
    return nbytes


def _edges(spec: Any, ndim: int) -> list[int | None]:
    """One edge per dimension; None for the whole dimension."""
    if spec is None or spec is False or isinstance(spec, str):
        return [None] * ndim
    entries = list(spec) if isinstance(spec, (Sequence, np.ndarray)) else [spec] * ndim
    if len(entries) > ndim:
        raise ValueError(
            f"found {len(entries)} edges {tuple(entries)!r:.60} for an array of {ndim} dimensions"
        )
    edges: list[int | None] = []
    for dim, entry in enumerate([*entries, *[None] * (ndim - len(entries))]):
        if entry is None:
            edges.append(None)
        elif (
            not isinstance(entry, (int, np.integer)) or isinstance(entry, bool) or (entry < 1 and entry != -1)
        ):
            raise ValueError(
                f"dimension {dim}: found {entry!r:.60}; an edge is at least 1, or -1 or None for the whole"
            )
        else:
            edges.append(None if entry == -1 else int(entry))
    return edges


def _even(shape: Sequence[int], nbytes: int, itemsize: int) -> tuple[int, ...]:
    """About equal edges, powers of two where the array is longer, at most `nbytes` in all (and a quarter more where
    that covers a dimension)."""
    most = max(1, nbytes // max(1, itemsize))
    # a dimension of length 0 is one that will grow: how far is unknown
    lengths = [length or most for length in shape]
    edges = [1] * len(shape)
    _grow(edges, lengths, [1] * len(shape), most)
    for dim, length in enumerate(lengths):
        # a last chunk of a few elements costs as much to ask for as a full one: rather cover the dimension
        covered = math.prod(edges) // edges[dim] * length
        if edges[dim] < length <= edges[dim] * 5 // 4 and covered <= most * 5 // 4:
            edges[dim] = length
    return tuple(edges)


def _multiple(shape: Sequence[int], chunks: Sequence[int], nbytes: int, itemsize: int) -> tuple[int, ...]:
    """About equal edges, in whole chunks, at most `nbytes` and `SHARD_CHUNKS`, never more than covers the array."""
    most = min(SHARD_CHUNKS, max(1, nbytes // max(1, itemsize * math.prod(chunks))))
    counts = [-(-length // chunk) if length else most for length, chunk in zip(shape, chunks, strict=True)]
    numbers = [1] * len(shape)
    _grow(numbers, counts, chunks, most)
    # as many shards as before, but equally full: 9 chunks are 5 and 4 rather than 8 and 1
    even = [-(-count // -(-count // number)) for count, number in zip(counts, numbers, strict=True)]
    return tuple(number * chunk for number, chunk in zip(even, chunks, strict=True))


def _grow(numbers: list[int], bounds: Sequence[int], units: Sequence[int], most: int) -> None:
    """Double the number whose edge (number * unit) is the shortest, the last of equals, while the product allows it."""
    open_dims = set(range(len(numbers)))
    while open_dims:
        dim = min(open_dims, key=lambda d: (numbers[d] * units[d], -d))
        doubled = min(numbers[dim] * 2, bounds[dim])
        if doubled == numbers[dim] or math.prod(numbers) // numbers[dim] * doubled > most:
            open_dims.discard(dim)
        else:
            numbers[dim] = doubled
