"""Chunks that claim or make more bytes than they may, read in a process that measures itself.

`python -m tests.faults.bombs` reads every one and prints, as JSON, what came of it: the error, and by how many bytes
the peak of the process's memory rose.
"""

from __future__ import annotations

import bz2
import gzip
import json
import struct
import sys
import zlib
from typing import Any

import numpy as np

import terrazzo
from terrazzo.stores.memory import MemoryStore
from tests import chain_model

__all__ = ["BOMBS", "array_of"]

GIB = 1 << 30
PLAIN = {"name": "bytes", "configuration": {"endian": "little"}}
BLOSC = {"cname": "zstd", "clevel": 5, "shuffle": "shuffle", "typesize": 8, "blocksize": 0}
ZSTD = {"level": 1, "checksum": False}


def codec(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name, "configuration": configuration}


def array_of(
    chunk: bytes, *codecs: dict[str, Any], shape: tuple[int, ...] = (1,), strict: bool = True
) -> Any:
    """An array with one stored chunk, which is `chunk`."""
    store = MemoryStore()
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": "float64",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(shape)}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0,
        "codecs": [PLAIN, *codecs],
    }
    store.set("zarr.json", json.dumps(document).encode())
    store.set("c/" + "/".join("0" * len(shape)), chunk)
    return terrazzo.open_array(store, mode="r")


def gzip_bomb() -> bytes:
    """2 GiB of zeros, in members of 64 MiB."""
    return gzip.compress(bytes(64 << 20), 9) * 32


def zlib_bomb() -> bytes:
    packer = zlib.compressobj(1)
    return b"".join(packer.compress(bytes(16 << 20)) for _ in range(32)) + packer.flush()


def bz2_bomb() -> bytes:
    return bz2.compress(bytes(45 << 20), 9) * 8


BOMBS: dict[str, Any] = {
    "1 gzip": lambda: array_of(gzip_bomb(), codec("gzip", level=5)),
    "1 gzip, short": lambda: array_of(gzip.compress(bytes(60 << 20), 9), codec("gzip", level=5)),
    "2 zstd, sized": lambda: array_of(chain_model.zstd_bomb(16384, sized=2 * GIB), codec("zstd", **ZSTD)),
    "3 zstd, unsized": lambda: array_of(chain_model.zstd_bomb(16384), codec("zstd", **ZSTD)),
    "4 zstd claims 2^60": lambda: array_of(chain_model.zstd_bomb(100, sized=2**60), codec("zstd", **ZSTD)),
    "5 blosc claims 500 MB": lambda: array_of(
        chain_model.blosc_frame(bytes(8), claimed=500_000_000), codec("blosc", **BLOSC)
    ),
    "5 blosc claims 2^32": lambda: array_of(
        chain_model.blosc_frame(bytes(8), claimed=2**32 - 1), codec("blosc", **BLOSC)
    ),
    "6 zlib": lambda: array_of(zlib_bomb(), codec("numcodecs.zlib", level=1)),
    "6 zlib, short": lambda: array_of(zlib.compress(bytes(60 << 20), 9), codec("numcodecs.zlib", level=1)),
    "6 bz2": lambda: array_of(bz2_bomb(), codec("numcodecs.bz2", level=1)),
    "6 lz4 claims 2^31-1": lambda: array_of(
        struct.pack("<i", 2**31 - 1) + b"\x10a", codec("numcodecs.lz4", acceleration=1)
    ),
    "7 gzip in gzip": lambda: array_of(
        gzip.compress(gzip_bomb(), 9), codec("gzip", level=5), codec("gzip", level=5)
    ),
    "7 zstd in zstd": lambda: array_of(
        chain_model.zstd_frame(chain_model.zstd_bomb(16384)), codec("zstd", **ZSTD), codec("zstd", **ZSTD)
    ),
}


def peak() -> int:
    """The most memory this process had, in bytes, since it was last forgotten."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))


def forget_peak() -> int:
    with open("/proc/self/clear_refs", "w", encoding="ascii") as refs:
        refs.write("5")
    return peak()


def main() -> None:
    terrazzo.read.flow.time.sleep = lambda _: None  # type: ignore[attr-defined]
    assert (array_of(np.float64(1).tobytes())[...] == 1).all()
    told = {}
    for name, make in BOMBS.items():
        array = make()
        before = forget_peak()
        try:
            array[...]
        except Exception as error:
            kind, text = [cls.__name__ for cls in type(error).__mro__], str(error)
        else:
            kind, text = [], ""
        told[name] = {"error": kind, "text": text, "rose": peak() - before}
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
