"""The floor: plain preads and pwrites, the codec libraries and numpy's copy, over threads. No format, no checks.

What it does not do: anything a library must do besides (documents, validation, locks, atomic writes, partial chunks).
It answers what decoding exactly these bytes, and laying them in place, costs in the same sitting. A step in Python for
every chunk is part of it (about 5 µs each), so that it is no floor for chunks of a few kilobytes: see `FloorOneThread`
for the CPU seconds without threads taking turns at the interpreter.
"""

from __future__ import annotations

import json
import os
import threading
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from contract import Lacking, Library
from volumes import Box, slices, tiles

BATCH = 64
ABSENT = (1 << 64) - 1


def _nothing(encoded: Any, scratch: Any) -> Any:
    return encoded


def _codec(codecs: list[dict[str, Any]]) -> tuple[Callable[[Any, Any], Any], Callable[[Any], Any]]:
    """Decoding (into a scratch chunk, or of its own) and encoding of the one codec after `bytes`."""
    if len(codecs) == 1 and codecs[0]["name"] == "bytes":
        return _nothing, lambda chunk: chunk
    if len(codecs) != 2 or codecs[0]["name"] != "bytes":
        raise Lacking("these codecs")
    name, settings = codecs[1]["name"], codecs[1]["configuration"]
    if name == "gzip":
        level = settings["level"]

        def squeeze(chunk: Any) -> bytes:
            packer = zlib.compressobj(level, wbits=31)
            return packer.compress(chunk) + packer.flush()

        return lambda encoded, scratch: zlib.decompress(encoded, 31, len(scratch)), squeeze
    if name == "zstd":
        from numcodecs import zstd

        return zstd.decompress, lambda chunk: zstd.compress(chunk, settings["level"])
    from numcodecs import blosc

    blosc.use_threads = False
    kind = settings["cname"].encode()

    def pack(chunk: Any) -> bytes:
        return blosc.compress(chunk, kind, settings["clevel"], blosc.SHUFFLE, 0, settings["typesize"])

    return blosc.decompress, pack


class Floor(Library):
    label = "floor"
    packages = ("numpy", "numcodecs")
    threads = os.cpu_count() or 1

    def __init__(self, path: str, mode: str) -> None:
        self.path = Path(path)
        document = json.loads((self.path / "zarr.json").read_text())
        if document["data_type"] == "string":
            raise Lacking("strings")
        self.shape = tuple(document["shape"])
        self.dtype = np.dtype(document["data_type"])
        self.chunk = tuple(document["chunk_grid"]["configuration"]["chunk_shape"])
        codecs = document["codecs"]
        self.inner: tuple[int, ...] = ()
        if codecs[0]["name"] == "sharding_indexed":
            self.inner = tuple(codecs[0]["configuration"]["chunk_shape"])
            codecs = codecs[0]["configuration"]["codecs"]
        self.decode, self.encode = _codec(codecs)
        self.local = threading.local()

    def over(self, work: Callable[[Any], None], pieces: list[Any]) -> None:
        if self.threads == 1:
            for piece in pieces:
                work(piece)
            return
        with ThreadPoolExecutor(self.threads) as pool:
            list(pool.map(work, pieces))

    def key(self, box: Box) -> Path:
        return self.path.joinpath("c", *(str(a // c) for (a, _), c in zip(box, self.chunk, strict=True)))

    def read(self, box: Box) -> np.ndarray:
        if box != tuple((0, n) for n in self.shape):
            raise Lacking("parts")
        out = np.empty(self.shape, self.dtype)
        opened = []
        pieces = []
        for place in tiles(self.shape, self.chunk):
            descriptor = os.open(self.key(place), os.O_RDONLY)
            opened.append(descriptor)
            size = os.fstat(descriptor).st_size
            if not self.inner:
                pieces.append((descriptor, out, [(place, 0, size)]))
                continue
            within = tuple(stop - start for start, stop in place)
            boxes = list(tiles(within, self.inner))
            length = 16 * len(boxes) + 4
            index = np.frombuffer(os.pread(descriptor, length, size - length), "<u8", 2 * len(boxes))
            entries = index.reshape(-1, 2).tolist()
            rows = [(b, *e) for b, e in zip(boxes, entries, strict=True) if e[0] != ABSENT]
            rows.sort(key=lambda row: row[1])
            target = out[slices(place)]
            pieces += [(descriptor, target, rows[k : k + BATCH]) for k in range(0, len(rows), BATCH)]
        self.over(self._decode_piece, pieces)
        for descriptor in opened:
            os.close(descriptor)
        return out

    def _decode_piece(self, piece: Any) -> None:
        descriptor, target, rows = piece
        shape = self.inner or self.chunk
        nbytes = int(np.prod(shape)) * self.dtype.itemsize
        scratch = self.local.__dict__.setdefault("scratch", bytearray(nbytes))
        first, last = rows[0][1], rows[-1][1] + rows[-1][2]
        buffer = self.local.__dict__.get("buffer")
        if buffer is None or len(buffer) < last - first:
            buffer = self.local.buffer = bytearray(last - first)
        with memoryview(buffer) as view:
            os.preadv(descriptor, [view[: last - first]], first)
            for box, offset, length in rows:
                encoded = view[offset - first : offset - first + length]
                decoded = self.decode(encoded, scratch)
                target[slices(box)] = np.frombuffer(decoded, self.dtype).reshape(shape)

    def write(self, box: Box, value: np.ndarray) -> None:
        if box != tuple((0, n) for n in self.shape):
            raise Lacking("parts")
        shards = list(tiles(self.shape, self.chunk))
        if not self.inner:
            self.over(
                lambda place: self._write_object(place, [np.ascontiguousarray(value[slices(place)])]), shards
            )
            return
        for place in shards:
            part = value[slices(place)]
            boxes = list(tiles(part.shape, self.inner))
            bodies: list[Any] = [None] * len(boxes)

            def encode(k: int, part: np.ndarray = part, boxes: Any = boxes, bodies: Any = bodies) -> None:
                bodies[k : k + BATCH] = [
                    self.encode(np.ascontiguousarray(part[slices(b)])) for b in boxes[k : k + BATCH]
                ]

            self.over(encode, list(range(0, len(boxes), BATCH)))
            self._write_object(place, bodies, encoded=True)

    def _write_object(self, place: Box, parts: list[Any], *, encoded: bool = False) -> None:
        path = self.key(place)
        path.parent.mkdir(parents=True, exist_ok=True)
        bodies = parts if encoded else [self.encode(part) for part in parts]
        lengths = [memoryview(body).nbytes for body in bodies]
        with open(path, "wb", buffering=0) as file:
            for body in bodies:
                file.write(body)
            if self.inner:
                import google_crc32c

                offsets = np.concatenate([[0], np.cumsum(lengths)[:-1]])
                index = np.stack([offsets, lengths], 1).astype("<u8").tobytes()
                file.write(index + google_crc32c.value(index).to_bytes(4, "little"))


class FloorOneThread(Floor):
    label = "floor, one thread"
    threads = 1
