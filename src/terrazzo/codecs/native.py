"""The codecs' door to the kernel: bytes through native steps, whole chains as programs, whole shards in one call.

What it does not do: decide anything. No other file of this room knows the kernel.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np

from terrazzo import _kernel
from terrazzo._kernel import Pipe, Program
from terrazzo.codecs.codec import Array, Buffer, BytesBytesCodec, ChunkSpec, Step
from terrazzo.errors import ChecksumError, CodecError, ShardError, TerrazzoError
from terrazzo.shard import Entries

__all__ = [
    "NativeCodec",
    "Pipe",
    "Program",
    "as_bytes",
    "called",
    "crc32c",
    "decode_grid",
    "encode_grid",
    "join_elements",
    "pipe",
    "program",
    "split_elements",
]

T = TypeVar("T")

crc32c = _kernel.crc32c


class NativeCodec(BytesBytesCodec):
    """bytes -> bytes by one native step; a subclass names it."""

    @abstractmethod
    def step(self) -> Step: ...

    def encode(self, buffer: Buffer) -> bytes:
        return called(pipe([self.step()]).encode, buffer)

    def decode(self, buffer: Buffer, limit: int) -> bytearray:
        return called(pipe([self.step()]).decode, buffer, limit)


def pipe(steps: Sequence[Step]) -> Pipe:
    """A run of bytes -> bytes steps."""
    return Pipe(steps)


def program(steps: Sequence[Step], spec: ChunkSpec) -> Program:
    """A whole chain."""
    itemsize = spec.data_type.itemsize
    assert itemsize is not None
    return Program(steps, spec.shape, itemsize, spec.fill.tobytes())


def called(work: Callable[..., T], *arguments: Any) -> T:
    """What `work` answers; the kernel's fault as the error of its kind."""
    try:
        return work(*arguments)
    except _kernel.KernelFault as fault:
        _refused(fault.kind, str(fault))


def split_elements(encoded: Buffer, count: int, text: bool) -> list[Any]:
    """The elements of any length of an encoded chunk; CodecError where they are not as many, or not UTF-8."""
    return called(_kernel.split_elements, encoded, count, text)


def join_elements(elements: list[Any], text: bool) -> bytes:
    """The encoded chunk of elements of any length."""
    return called(_kernel.join_elements, elements, text)


def as_bytes(value: Array) -> Array:
    """The elements as they lie in memory, uint8 (n,): some data types of numpy do not offer a buffer themselves."""
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)


def decode_grid(
    native: Program,
    encoded: Buffer,
    entries: Entries,
    count: tuple[int, ...],
    chunk_shape: tuple[int, ...],
    out: Array,
) -> None:
    """Decode a whole shard whose entries were checked; what is not stored becomes the fill value."""
    n = len(entries)
    rows = np.zeros((n, 5), np.int64)
    stored = entries.view(np.int64)  # not stored: -1, as the kernel spells it
    rows[:, 1:3] = stored
    missing = stored[:, 0] < 0
    rows[missing, :3] = (_kernel.MISSING, 0, 0)
    rows[:, 4] = np.arange(n)
    failures = _kernel.decode([native], [encoded], rows, _placement(count, chunk_shape), _opaque(out), 1)
    raise_first(failures, count, np.arange(n))


def encode_grid(
    native: Program,
    value: Array,
    count: tuple[int, ...],
    chunk_shape: tuple[int, ...],
    sequence: Array,
    start: int,
) -> tuple[Entries, Buffer]:
    """Encode all chunks of a shard, lying in `sequence` behind `start` free bytes; all-fill ones are left out.

    Answers the entries in C order and the body, without the free bytes.
    """
    rows = np.zeros((len(sequence), 7), np.int64)
    rows[:, 2] = sequence
    entries, bodies, _, failures = _kernel.encode(
        [native], [], rows, _placement(count, chunk_shape), _opaque(value), [None], [start], True, 1
    )
    raise_first(failures, count, sequence)
    table = np.empty((len(sequence), 2), np.uint64)
    table[sequence] = np.frombuffer(entries, np.uint64).reshape(-1, 2)
    body = bodies[0]
    assert body is not None
    return table, body


def raise_first(failures: Sequence[tuple[int, str, str]], count: tuple[int, ...], numbers: Array) -> None:
    """The kernel's first failure as the error of its kind, naming the inner chunk."""
    if not failures:
        return
    row, kind, sentence = min(failures)
    place = tuple(int(i) for i in np.unravel_index(int(numbers[row]), count)) if count else ()
    more = f" (and {len(failures) - 1} more chunks)" if len(failures) > 1 else ""
    _refused(kind, f"inner chunk {place}: {sentence}{more}")


def _refused(kind: str, sentence: str) -> NoReturn:
    if kind == "memory":
        raise MemoryError(sentence)
    errors: dict[str, type[TerrazzoError]] = {"checksum": ChecksumError, "range": ShardError}
    raise errors.get(kind, CodecError)(sentence)


def _placement(count: tuple[int, ...], chunk_shape: tuple[int, ...]) -> tuple[object, ...]:
    """Every chunk whole, one beside the other."""
    axes = []
    for number, extent in zip(count, chunk_shape, strict=True):
        table = np.zeros((number, 3), np.int64)
        table[:, 1] = extent
        table[:, 2] = np.arange(number) * extent
        axes.append(("span", table, 1))
    return ("grid", axes)


def _opaque(value: Array) -> Any:
    """The same elements as raw items of a length, which every data type can be viewed as."""
    return value.view(f"V{value.dtype.itemsize}")
