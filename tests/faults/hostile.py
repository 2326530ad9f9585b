"""What an attacker can put into a store: documents, shards with any index, and bombs."""

from __future__ import annotations

import bz2
import json
import lzma
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from terrazzo import _kernel
from tests import chain_model as model

__all__ = ["BYTES", "MISSING", "bombs", "document", "gzip_bomb", "shard", "sharded", "zstd_bomb"]

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
CRC = {"name": "crc32c"}
MISSING = 2**64 - 1
Codecs = Sequence[dict[str, Any]]


def document(**members: Any) -> bytes:
    """A document of a plain array of int32, shape 64, chunks of 8; `members` replace or add members."""
    found = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [64],
        "data_type": "int32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [BYTES],
        **members,
    }
    return json.dumps({name: value for name, value in found.items() if value is not ...}).encode()


def sharded(
    codecs: Codecs = (BYTES,), *, chunk: int = 2, location: str = "end", index: Codecs = (BYTES, CRC)
) -> list[dict[str, Any]]:
    """The `codecs` of shards with inner chunks of `chunk` elements."""
    inner = {
        "chunk_shape": [chunk],
        "codecs": list(codecs),
        "index_codecs": list(index),
        "index_location": location,
    }
    return [{"name": "sharding_indexed", "configuration": inner}]


def shard(entries: Sequence[tuple[int, int]], body: bytes, location: str = "end") -> bytes:
    """A shard with this index, whatever it says, and its right checksum."""
    table = np.array(entries, np.uint64).astype("<u8").tobytes()
    index = table + _kernel.crc32c(table).to_bytes(4, "little")
    return index + body if location == "start" else body + index


def gzip_bomb(nbytes: int) -> bytes:
    """A member of so many zero bytes (whole MiB), its own checksum left wrong: nobody should get that far."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    last = packer.flush(zlib.Z_FINISH)
    header = bytes([0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 2, 255])
    blocks = first + block * (nbytes // (1 << 20) - 1)
    return header + blocks + last + struct.pack("<II", 0, nbytes & 0xFFFFFFFF)


def zstd_bomb(nbytes: int, claimed: int | None = None) -> bytes:
    return model.zstd_bomb(nbytes // (128 << 10), claimed)


def _gzip(payload: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(payload) + packer.flush()


def _numcodecs(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": f"numcodecs.{name}", "configuration": configuration}


def bombs() -> dict[str, tuple[list[dict[str, Any]], bytes]]:
    """By name: the codecs of a chunk of 8 bytes, and what is stored as that chunk."""
    gzip = {"name": "gzip", "configuration": {"level": 5}}
    zstd = {"name": "zstd", "configuration": {"level": 3, "checksum": False}}
    blosc_form = {"cname": "lz4", "clevel": 5, "shuffle": "noshuffle", "blocksize": 0}
    blosc = {"name": "blosc", "configuration": blosc_form}
    lz4, packed, xz = _numcodecs("lz4"), _numcodecs("bz2"), _numcodecs("lzma")
    raw = _numcodecs("lzma", format=3, filters=[{"id": 0x21, "dict_size": 1 << 30}])
    # streams one behind the other; the first of them is a bomb of its own
    bz2_bomb = bz2.compress(bytes(1 << 23)) * 16
    xz_bomb = lzma.compress(bytes(1 << 23), preset=0) * 16
    small_gzip = gzip_bomb(32 << 20)
    stream = lzma.compress(bytes(80 << 20), lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA2, "preset": 0}])
    small_blosc = model.blosc_frame(b"12345678", claimed=500_000_000)
    return {
        "1 gzip of 2 GiB": ([gzip], gzip_bomb(2 << 30)),
        "1 gzip of 32 MiB": ([gzip], small_gzip),
        "2 zstd of 2 GiB with its size": ([zstd], zstd_bomb(2 << 30, 2 << 30)),
        "3 zstd of 2 GiB without": ([zstd], zstd_bomb(2 << 30)),
        "3 zstd of 1 GiB that claims 8 bytes": ([zstd], zstd_bomb(1 << 30, 8)),
        "4 zstd that claims 2^60": ([zstd], zstd_bomb(1 << 20, 2**60)),
        "5 blosc that claims 500 MB": ([blosc], small_blosc),
        "6 zlib of 96 MiB": ([_numcodecs("zlib", level=9)], zlib.compress(bytes(96 << 20), 1)),
        "6 bz2 of 128 MiB": ([packed], bz2_bomb),
        "6 lzma of 128 MiB": ([xz], xz_bomb),
        "6 raw lzma with a dictionary of 1 GiB": ([raw], stream),
        "6 lz4 that claims 1 GB": ([lz4], struct.pack("<I", 1_000_000_000) + b"\x00" * 20),
        "6 lz4 that claims 8": ([lz4], struct.pack("<I", 8) + b"\x1f\x00\x01\x00" + b"\xff" * 4000),
        "7 gzip of gzip": ([gzip, gzip], _gzip(gzip_bomb(256 << 20))),
        "7 gzip of zstd": ([zstd, gzip], _gzip(zstd_bomb(2 << 30))),
        "7 zstd of gzip": ([gzip, zstd], model.zstd_frame(small_gzip)),
        "7 bz2 behind lz4": ([lz4, packed], bz2_bomb),
        "7 bz2 behind gzip": ([gzip, packed], bz2_bomb),
        "7 lzma behind bz2": ([packed, xz], xz_bomb),
        "7 gzip behind bz2": ([packed, gzip], gzip_bomb(32 << 20)),
        "7 blosc of blosc": ([blosc, blosc], model.blosc_frame(b"12345678", claimed=2**31 - 20)),
    }
