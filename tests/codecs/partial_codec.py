"""A codec of a user that reads parts: rows of a chunk, each with its own length in a table at the front."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from terrazzo.codecs import ArrayBytesCodec, ChunkSpec, PartialReader


class Rows(PartialReader):
    """The rows of one chunk: a table of lengths, then every row deflated."""

    def __init__(self, spec: ChunkSpec) -> None:
        self.spec = spec

    def heads(self) -> list[tuple[int, int]]:
        return [(0, 4 * self.spec.shape[0])]

    def ranges(self, heads: Sequence[Any], box: tuple[slice, ...]) -> list[tuple[int, int]]:
        lengths = np.frombuffer(heads[0], "<u4").astype(int)
        ends = np.cumsum(lengths) + 4 * len(lengths)
        return [
            (int(ends[row] - lengths[row]), int(lengths[row])) for row in range(box[0].start, box[0].stop)
        ]

    def decode(
        self, heads: Sequence[Any], parts: Sequence[Any], box: tuple[slice, ...]
    ) -> np.ndarray[Any, Any]:
        rows = [np.frombuffer(zlib.decompress(part), self.spec.data_type.numpy) for part in parts]
        return np.stack([row.reshape(self.spec.shape[1:]) for row in rows])[:, *box[1:]]


@dataclass(frozen=True)
class RowsCodec(ArrayBytesCodec):
    """Every row (index along the first dimension) deflated on its own."""

    level: int = 1

    name = "tests.rows"

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        return cls(**configuration)

    def configuration(self) -> dict[str, Any]:
        return {"level": self.level}

    def encode(self, value: np.ndarray[Any, Any], spec: ChunkSpec) -> bytes:
        rows = [zlib.compress(row.tobytes(), self.level) for row in value]
        return struct.pack(f"<{len(rows)}I", *map(len, rows)) + b"".join(rows)

    def decode(self, encoded: Any, spec: ChunkSpec) -> np.ndarray[Any, Any]:
        view = memoryview(encoded)
        reader, whole = Rows(spec), tuple(slice(0, extent) for extent in spec.shape)
        heads = [view[start : start + length] for start, length in reader.heads()]
        parts = [view[start : start + length] for start, length in reader.ranges(heads, whole)]
        return reader.decode(heads, parts, whole)

    def partial(self, spec: ChunkSpec, nbytes: int) -> PartialReader:
        return Rows(spec)
