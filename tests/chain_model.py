"""A codec chain and a placement, slow and obvious: the oracle of the native kernel.

numpy and the standard library only. zstd and blosc are modelled as far as their frames can be written by hand: stored
blocks. Other compressors inside them are compared with an independent library where that is installed.
"""

from __future__ import annotations

import gzip
import itertools
import struct
import zlib

import numpy as np

CRC32C_POLYNOMIAL = 0x82F63B78
MISSING_ENTRY = (2**64 - 1, 2**64 - 1)


def crc32c(payload: bytes, crc: int = 0) -> int:
    crc ^= 0xFFFFFFFF
    for byte in payload:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (CRC32C_POLYNOMIAL if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def zstd_frame(payload: bytes, sized: bool = True, checksum: bool = False) -> bytes:
    """One frame of stored blocks (RFC 8878), with or without its content size."""
    assert not checksum
    header = struct.pack("<I", 0xFD2FB528)
    if sized:
        header += struct.pack("<BQ", 0b1110_0000, len(payload))  # single segment, 8 bytes of size
    else:
        header += struct.pack("<BB", 0, 0x58)  # window of 2 MiB
    blocks = b""
    pieces = [payload[at : at + 100_000] for at in range(0, len(payload), 100_000)] or [b""]
    for number, piece in enumerate(pieces):
        last = number == len(pieces) - 1
        blocks += struct.pack("<I", len(piece) << 3 | int(last))[:3] + piece
    return header + blocks


def zstd_bomb(nblocks: int, sized: int | None = None) -> bytes:
    """Blocks that repeat one byte 128 KiB times, four bytes each."""
    header = struct.pack("<I", 0xFD2FB528)
    header += struct.pack("<BB", 0, 0x58) if sized is None else struct.pack("<BQ", 0b1110_0000, sized)
    block = struct.pack("<I", (128 << 10) << 3 | 1 << 1)[:3] + b"\0"
    final = struct.pack("<I", (128 << 10) << 3 | 1 << 1 | 1)[:3] + b"\0"
    return header + block * (nblocks - 1) + final


def blosc_frame(payload: bytes, typesize: int = 1, claimed: int | None = None) -> bytes:
    """A frame that stores its bytes as they are."""
    nbytes = len(payload) if claimed is None else claimed
    return struct.pack("<BBBBIII", 2, 1, 2, typesize, nbytes, max(nbytes, 1), 16 + len(payload)) + payload


def reverse_units(payload: bytes, units: tuple[int, ...]) -> bytes:
    if not units:
        return payload
    out, at = b"", 0
    for unit in itertools.cycle(units):
        if at >= len(payload):
            return out
        out += payload[at : at + unit][::-1]
        at += unit
    raise AssertionError


def encode_bytes(payload: bytes, steps: list[tuple]) -> bytes:
    """Bytes -> bytes steps by the standard library; its frames differ from the kernel's, their content does not."""
    for name, *values in steps:
        if name == "gzip":
            payload = gzip.compress(payload, values[0], mtime=0)
        elif name == "zlib":
            payload = zlib.compress(payload, values[0])
        elif name == "zstd":
            payload = zstd_frame(payload)
        elif name == "blosc":
            payload = blosc_frame(payload, values[3])
        elif name == "crc32c":
            payload += struct.pack("<I", crc32c(payload))
        else:
            raise AssertionError(name)
    return payload


def encode(chunk: np.ndarray, steps: list[tuple]) -> bytes:
    """A whole chunk through a whole chain."""
    for number, (name, *values) in enumerate(steps):
        if name == "transpose":
            chunk = chunk.transpose(values[0])
        elif name == "bytes":
            return encode_bytes(reverse_units(chunk.tobytes(), values[0]), steps[number + 1 :])
    raise AssertionError("no bytes step")


def decode_bytes(payload: bytes, steps: list[tuple]) -> bytes:
    for name, *_ in reversed(steps):
        if name == "gzip":
            payload = gzip.decompress(payload)
        elif name == "zlib":
            payload = zlib.decompress(payload)
        elif name == "crc32c":
            payload, stored = payload[:-4], payload[-4:]
            assert stored == struct.pack("<I", crc32c(payload))
        else:
            raise AssertionError(name)
    return payload


def decode(encoded: bytes, steps: list[tuple], shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    at = next(number for number, step in enumerate(steps) if step[0] == "bytes")
    payload = reverse_units(decode_bytes(encoded, steps[at + 1 :]), steps[at][1])
    for _, order in steps[:at]:
        shape = tuple(shape[dimension] for dimension in order)
    chunk = np.frombuffer(payload, dtype).reshape(shape)
    for _, order in reversed(steps[:at]):
        chunk = chunk.transpose(np.argsort(order)) if order else chunk
    return chunk


def positions(placement: tuple, cell: int) -> list[tuple[list[int], list[int]]]:
    """Per dimension the positions inside the chunk and in the array that a cell pairs; for points linear ones."""
    if placement[0] == "points":
        _, bounds, inside, outside = placement
        low, high = (int(bound) for bound in np.reshape(bounds, (-1, 2))[cell])
        return [(list(map(int, inside[low:high])), list(map(int, outside[low:high])))]
    axes = placement[1]
    counts = [len(axis[1]) for axis in axes]
    pairs = []
    for axis, row in zip(axes, np.unravel_index(cell, counts) if counts else (), strict=True):
        if axis[0] == "span":
            start, count, to = (int(value) for value in axis[1][row])
            pairs.append(([start + n * axis[2] for n in range(count)], [to + n for n in range(count)]))
        else:
            low, high = (int(bound) for bound in axis[1][row])
            pairs.append((list(map(int, axis[2][low:high])), list(map(int, axis[3][low:high]))))
    return pairs


def scatter(chunk: np.ndarray, placement: tuple, cell: int, out: np.ndarray) -> None:
    """Element by element from the chunk to the array."""
    pairs = positions(placement, cell)
    if placement[0] == "points":
        for inside, outside in zip(*pairs[0], strict=True):
            out[outside] = chunk.reshape(-1)[inside]
        return
    for indices in itertools.product(*(zip(*pair, strict=True) for pair in pairs)):
        out[tuple(index[1] for index in indices)] = chunk[tuple(index[0] for index in indices)]


def gather(chunk: np.ndarray, placement: tuple, cell: int, value: np.ndarray) -> None:
    """Element by element from the array to the chunk."""
    pairs = positions(placement, cell)
    if placement[0] == "points":
        flat = chunk.reshape(-1)
        for inside, outside in zip(*pairs[0], strict=True):
            flat[inside] = value[outside]
        return
    for indices in itertools.product(*(zip(*pair, strict=True) for pair in pairs)):
        chunk[tuple(index[0] for index in indices)] = value[tuple(index[1] for index in indices)]


def grid(extent: int, chunk: int) -> np.ndarray:
    """The span table of a whole dimension."""
    starts = np.arange(0, extent, chunk, dtype=np.int64)
    return np.stack([np.zeros_like(starts), np.minimum(chunk, extent - starts), starts], axis=1)
