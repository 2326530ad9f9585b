"""The native door: compiled codec programs, and batches of chunks run through them without the interpreter.

No paths, no keys, no network, no JSON, no callbacks. Every length is checked before the first copy. Every call
releases the interpreter lock. All tables are C-contiguous buffers of int64 (numpy arrays, `array.array("q")`, anything
with the buffer protocol): two-dimensional with the columns named here, or flat. They are copied when the call starts.

Steps (outermost first, in encoding order); only these names exist, `bytes` comes once, `transpose` only before it:
    ("transpose", order)                       array -> array; order as in the codec
    ("bytes", units, check)                    array -> bytes; units: () = as in memory, else the byte counts that are
                                               reversed, repeated over the element, e.g. (8,) or (4, 2, 1); check: ""
                                               or "bool" (any byte but 0 and 1 is refused when decoding)
    ("gzip", level) ("zlib", level)            level 0 (stored) to 9; the bytes depend on level and value
                                               alone. Decoding takes any number of gzip members, and zero bytes
                                               after the end
    ("zstd", level, checksum)                  level 0 is the library's default, negative ones are fast;
                                               decoding takes any number of frames, sized or not
    ("blosc", cname, clevel, shuffle, typesize, blocksize)   shuffle: 0 none, 1 byte, 2 bit; blocksize 0: its choice
    ("crc32c",)                                bytes -> bytes, as are all from gzip on

Placement (where elements of a chunk lie in the value or output), one for the whole call:
    ("grid", axes): one entry per dimension, in order:
        ("span", table, step)   table int64 (k, 3): start in the chunk, count, start in the output; `step` >= 1 is the
                                distance of selected elements in the chunk (output positions always advance by 1)
        ("pick", bounds, inside, outside)  bounds int64 (k, 2): lo, hi into the two int64 arrays inside (positions in
                                the chunk along this dimension) and outside (positions in the output)
      a row's `cell` is the C-order linear index into the product of the k's.
    ("spans", table): the same for spans alone, in one flat table: for each dimension its step, k, and 3 k numbers
    ("points", bounds, inside, outside): bounds int64 (k, 2): lo, hi; inside: linear C-order element index in the chunk,
        outside: linear element index in a 1-D output; `cell` indexes bounds.
    A count of 0, or lo == hi, selects nothing: the row is checked for its range and otherwise left alone.

Wrong tables (a program, source, sink or cell that is not there, positions outside the chunk or the array, a cell named
twice in `decode`) are a ValueError before anything is read. Bytes that are wrong are failures of their row.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal, final

__all__ = [
    "MISSING",
    "KernelFault",
    "Pipe",
    "Program",
    "crc32c",
    "decode",
    "decode_many",
    "encode",
    "join_elements",
    "split_elements",
    "threads_alive",
]

Placement = tuple[object, ...]
Kind = Literal["range", "checksum", "codec", "io", "memory"]
"""range: bytes the source does not hold; checksum: not the bytes that were written; codec: bytes that do not decode
to the chunk, or values that do not encode; io: the system refused; memory: it could not be had."""

MISSING: Final = -1  # the source of a row that is not stored

class KernelFault(ValueError):
    """What `Program.encode_chunk`, `decode_chunk` and `Pipe` raise; `str()` is the sentence."""

    kind: Kind

@final
class Program:
    """A whole chain: arrays of one shape and element size to bytes and back. Immutable, safe on many threads.

    ValueError for steps, shapes or sizes that cannot be; `fill` has `itemsize` bytes, as they lie in memory.
    """

    def __new__(
        cls, steps: Sequence[tuple[object, ...]], shape: Sequence[int], itemsize: int, fill: bytes
    ) -> Program: ...
    @property
    def nbytes(self) -> int:
        """Of a decoded chunk."""
    @property
    def encoded_nbytes(self) -> int | None:
        """Of an encoded chunk, when every one has the same length."""
    def encode_chunk(self, value: object) -> bytes:
        """Encodes a C-contiguous buffer of `nbytes`."""
    def decode_chunk(self, encoded: object) -> bytearray:
        """The `nbytes` of a chunk in C order."""

@final
class Pipe:
    """A run of bytes -> bytes steps."""

    def __new__(cls, steps: Sequence[tuple[object, ...]]) -> Pipe: ...
    def encode(self, buffer: object) -> bytes: ...
    def decode(self, buffer: object, limit: int) -> bytearray:
        """Never produces more than `limit` bytes, and takes memory as they come, not as a header promises them."""

Failure = tuple[int, Kind, str]  # row, kind, sentence; in row order

def decode(
    programs: Sequence[Program],
    sources: Sequence[object],  # int: an open descriptor of a regular file (pread); else a contiguous buffer
    rows: object,  # int64 (n, 5): source (MISSING: the fill value), offset, nbytes, program, cell
    placement: Placement,
    out: object,  # writable buffer with strides; its itemsize is that of every program
    threads: int,  # at most, this one among them
) -> list[Failure]:
    """Decodes rows of chunks into `out`. A row that fails does not stop the others; its part of `out` is undefined.

    Rows may come in any order. Raw chunks (only `bytes`) are read in part where the selection touches a part.
    """

def decode_many(
    programs: Sequence[Program],
    sources: Sequence[object],
    jobs: Sequence[tuple[object, Placement, object]],  # rows, placement, out, each as in `decode`
    threads: int,
) -> list[tuple[int, int, Kind, str]]:  # job, row, kind, sentence
    """Decodes into several outputs at once, each by one thread; outputs share no memory."""

def encode(
    programs: Sequence[Program],
    sources: Sequence[object],
    rows: object,  # int64 (n, 7): action, program, cell, sink, source, offset, nbytes
    placement: Placement,
    value: object,  # readable buffer with strides, zero strides allowed
    sinks: Sequence[int | None],  # an open descriptor (pwrite), or None: the bytes come back as a bytearray
    positions: Sequence[int],  # where the first byte goes, per sink; entries count from the sink's byte 0
    drop_fill: bool,  # a chunk that is the fill value, bit for bit, is left out: entry (2**64-1, 2**64-1)
    threads: int,
) -> tuple[bytearray, list[bytearray | None], list[int], list[Failure]]:
    """Encodes rows of chunks of `value`; entries, bodies, ends, failures.

    Entries are uint64 (n, 2), native bytes, in row order: offset, nbytes. Bodies are the bytes from the position on.
    Ends are the positions after each sink's last byte. The first failure ends the call: what was written until then,
    and the other answers, mean nothing.

    Actions: 0 lay the value over the fill value; 1 lay it over the decoded old chunk at (source, offset, nbytes);
    2 copy the old encoded bytes as they are (program and cell are not looked at). An old chunk whose source is
    MISSING is all fill value: 1 becomes 0, and 2 leaves the chunk out. Chunks of a sink lie in row order, gapless
    from its position, whatever the number of threads; old bytes that are neighbours are copied by one system call.
    """

def split_elements(encoded: object, count: int, text: bool) -> list[Any]:
    """The elements of a chunk of `vlen-utf8` (text: str) or `vlen-bytes` (bytes). It holds the interpreter lock."""

def join_elements(elements: list[Any], text: bool) -> bytes:
    """The chunk of these elements: str, or bytes, bytearray and memoryview. It holds the interpreter lock.

    UnicodeEncodeError for a str that UTF-8 cannot hold.
    """

def crc32c(buffer: object, crc: int = 0) -> int:
    """The CRC-32C of a contiguous buffer, going on from `crc`."""

def threads_alive() -> int:
    """How many helper threads this process has; they are made by the first call that asks for them, and stay."""
