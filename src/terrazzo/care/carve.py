"""Carving: encoded chunks and old indexes found in bytes of which no index tells anything.

What it does not do: say where a chunk belongs in the array; nothing in its bytes does. A find counts only where it
decodes to exactly a chunk, with its checksum where the codecs write one.
Specification: Zstandard (RFC 8878), gzip (RFC 1952), Blosc 1 headers; sharding_indexed 1.0, "Binary shard format".
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from terrazzo.codecs import ShardingIndexed
from terrazzo.codecs.chain import Chain
from terrazzo.errors import TerrazzoError
from terrazzo.shard import EMPTY

__all__ = ["carve_chunks", "checks_index", "delimits", "find_indexes", "words_at"]

Entries = np.ndarray[Any, np.dtype[np.uint64]]

ZSTD = b"\x28\xb5\x2f\xfd"
GZIP = b"\x1f\x8b\x08"
CRC_NBYTES = 4
#: bytes of a part in which a chunk without a frame is looked for at every byte
SEARCHED = 1 << 16
#: bytes looked through at a time for the table of an index
WINDOW = 1 << 20


def carve_chunks(body: Any, ranges: list[tuple[int, int]], chain: Chain) -> Iterator[tuple[int, int]]:
    """(offset, nbytes) of everything in these (start, stop) of `body` that decodes as a chunk of the chain."""
    view = memoryview(body).cast("B")
    names, tail = _outermost(chain)
    for start, stop in ranges:
        part = view[start:stop]
        if not names and isinstance(chain.serializer, ShardingIndexed):
            found = _nested(part, chain, tail)
        elif not names:
            found = _fixed(part, chain)
        else:
            finder = _FINDERS.get(names[-1])
            found = iter(()) if finder is None else _framed(part, chain, finder, tail)
        for at, nbytes in found:
            yield start + at, nbytes


def delimits(chain: Chain, encoded: memoryview | None = None) -> bool:
    """Whether chunks of a chain tell where they end, so that other bytes do not decode; of `encoded` whether it does
    not go on behind its frame."""
    names, tail = _outermost(chain)
    if not names:
        inner = chain.serializer
        return bool(tail) or (isinstance(inner, ShardingIndexed) and checks_index(inner))
    finder = _FINDERS.get(names[-1])
    return encoded is None or tail > 0 or finder is None or finder(encoded, 0, chain) == len(encoded)


def checks_index(sharding: ShardingIndexed) -> bool:
    """Whether a wrong index is told by its checksum."""
    return any(codec.name == "crc32c" for codec in sharding.index_codecs)


def _outermost(chain: Chain) -> tuple[list[str], int]:
    """The names of the compressors, and the bytes of the checksums behind them."""
    names = [codec.name for codec in chain.compressors]
    tail = 0
    while names and names[-1] == "crc32c":
        names.pop()
        tail += CRC_NBYTES
    return names, tail


def find_indexes(body: Any, count: tuple[int, ...], sharding: ShardingIndexed) -> list[tuple[int, Entries]]:
    """(where it ends, entries) of every whole index in `body`, the last one first; only indexes with a checksum."""
    if [codec.name for codec in sharding.index_codecs] != ["bytes", "crc32c"]:
        return []
    view = memoryview(body).cast("B")
    nbytes, size, n = sharding.index_nbytes(count), len(view), prod(count)
    found: list[tuple[int, Entries]] = []
    looked_at = (0, min(n, 4), n)
    for first in range(0, size - nbytes + 1, WINDOW):
        many = min(WINDOW, size - nbytes + 1 - first)
        good = np.ones(many, np.bool_)
        for k in {0, n - 1, n // 2, *range(looked_at[1])}:
            offset = words_at(view, first + 16 * k, many)
            length = words_at(view, first + 16 * k + 8, many)
            void = (offset == EMPTY) & (length == EMPTY)
            good &= void | ((offset < size) & (length > 0) & (length <= size) & (offset + length <= size))
            if not good.any():
                break
        for at in (first + np.flatnonzero(good)).tolist():
            try:
                entries = sharding.decode_index(view[at : at + nbytes], count)
            except TerrazzoError:
                continue
            found.append((at + nbytes, entries))
    return found[::-1]


def words_at(view: memoryview, first: int, many: int) -> Entries:
    """The little-endian 64-bit number at every byte from `first` on."""
    raw = np.frombuffer(view[first : first + many + 7], np.uint8)
    words = np.zeros(many, np.uint64)
    for k in range(8):
        words |= raw[k : k + many].astype(np.uint64) << np.uint64(8 * k)
    return words


def _fixed(part: memoryview, chain: Chain) -> Iterator[tuple[int, int]]:
    """Chunks of one length, known by their checksum alone: wherever they begin in a short part; in a long one where
    they lie back to back from its start or up to its end, as they are written."""
    nbytes = chain.encoded_nbytes
    if nbytes is None or not chain.checksummed:
        return
    if len(part) > SEARCHED:
        back = len(part) % nbytes
        for at in sorted(
            {*range(0, len(part) - nbytes + 1, nbytes), *range(back, len(part) - nbytes + 1, nbytes)}
        ):
            if _decodes(part[at : at + nbytes], chain):
                yield at, nbytes
        return
    at = 0
    while at + nbytes <= len(part):
        if _decodes(part[at : at + nbytes], chain):
            yield at, nbytes
            at += nbytes
        else:
            at += 1


def _nested(part: memoryview, chain: Chain, tail: int) -> Iterator[tuple[int, int]]:
    """Shards within the shard, known by their indexes: they begin where an index says, or end with their last chunk."""
    inner = chain.serializer
    assert isinstance(inner, ShardingIndexed)
    count = inner.chunks_per_shard(chain.specs[-1].shape)
    nbytes = inner.index_nbytes(count)
    at = 0
    for end, entries in reversed(find_indexes(part, count, inner)):
        stored = entries[entries[:, 0] != EMPTY].astype(np.int64)
        if not len(stored):
            continue
        last = int(stored.sum(axis=1).max())
        if inner.index_location == "start":
            start, length = end - nbytes, last + tail
        else:
            start, length = end - nbytes - last, last + nbytes + tail
        if start >= at and start + length <= len(part) and _decodes(part[start : start + length], chain):
            yield start, length
            at = start + length


def _framed(
    part: memoryview, chain: Chain, finder: Callable[[memoryview, int, Chain], int | None], tail: int
) -> Iterator[tuple[int, int]]:
    at = 0
    whole = bytes(part)
    while (place := _next(whole, at, finder)) is not None:
        length = finder(part, place, chain)
        if length is not None and _decodes(part[place : place + length + tail], chain):
            yield place, length + tail
            at = place + length + tail
        else:
            at = place + 1


def _next(whole: bytes, at: int, finder: Any) -> int | None:
    magic = _MAGIC[finder]
    if magic is None:
        return at if at < len(whole) else None
    place = whole.find(magic, at)
    return None if place < 0 else place


def _decodes(encoded: memoryview, chain: Chain) -> bool:
    try:
        chain.decode(bytes(encoded))
    except (TerrazzoError, MemoryError):
        return False
    return True


def _zstd_nbytes(part: memoryview, at: int, chain: Chain) -> int | None:
    """The length of a frame, from the headers of its blocks."""
    place = at + 4
    if place >= len(part):
        return None
    descriptor = part[place]
    single = descriptor >> 5 & 1
    sizes = (1 if single else 0, 2, 4, 8)[descriptor >> 6]
    place += 1 + (0 if single else 1) + (0, 1, 2, 4)[descriptor & 3] + sizes
    while place + 3 <= len(part):
        header = int.from_bytes(part[place : place + 3], "little")
        kind, nbytes = header >> 1 & 3, header >> 3
        if kind == 3:
            return None
        place += 3 + (1 if kind == 1 else nbytes)
        if header & 1:
            place += 4 if descriptor & 4 else 0
            return place - at if place <= len(part) else None
    return None


def _gzip_nbytes(part: memoryview, at: int, chain: Chain) -> int | None:
    return _deflated(part, at, chain, 31)


def _zlib_nbytes(part: memoryview, at: int, chain: Chain) -> int | None:
    return _deflated(part, at, chain, 15)


def _deflated(part: memoryview, at: int, chain: Chain, window: int) -> int | None:
    """The length of a stream, by decompressing it, to no more than a little more than a chunk."""
    decoder = zlib.decompressobj(window)
    limit = (chain.spec.nbytes or chain.context.limits.chunk_nbytes) + (1 << 16)
    made, place, fed = 0, at, b""
    try:
        while not decoder.eof and (fed or place < len(part)):
            if not fed:
                fed, place = bytes(part[place : place + (1 << 16)]), place + (1 << 16)
            made += len(decoder.decompress(fed, 1 << 16))
            fed = decoder.unconsumed_tail
            if made > limit:
                return None
    except zlib.error:
        return None
    return min(place, len(part)) - at - len(decoder.unused_data) if decoder.eof else None


def _blosc_nbytes(part: memoryview, at: int, chain: Chain) -> int | None:
    """The length of a frame, from its header; without a magic number, so most places are refused at once."""
    if at + 16 > len(part) or part[at] != 2:
        return None
    decoded = int.from_bytes(part[at + 4 : at + 8], "little")
    nbytes = int.from_bytes(part[at + 12 : at + 16], "little")
    if nbytes < 16 or at + nbytes > len(part):
        return None
    return nbytes if chain.spec.nbytes is None or decoded == chain.spec.nbytes else None


_FINDERS: dict[str, Callable[[memoryview, int, Chain], int | None]] = {
    "zstd": _zstd_nbytes,
    "gzip": _gzip_nbytes,
    "numcodecs.zlib": _zlib_nbytes,
    "blosc": _blosc_nbytes,
}
_MAGIC: dict[Any, bytes | None] = {
    _zstd_nbytes: ZSTD,
    _gzip_nbytes: GZIP,
    _zlib_nbytes: b"\x78",
    _blosc_nbytes: b"\x02",
}
