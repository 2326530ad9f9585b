"""The native door: compiled codec programs, and batches of chunks run through them without the interpreter.

No paths, no keys, no network, no JSON, no callbacks. Every length is checked before the first copy. Every call
releases the interpreter lock. All row tables are C-contiguous int64 buffers (anything with the buffer protocol).

Steps (outermost first, in encoding order); only these names exist:
    ("transpose", order)                       array -> array; order as in the codec
    ("bytes", units, check)                    array -> bytes; units: () = as in memory, else the byte counts that are
                                               reversed, repeated over the element, e.g. (8,) or (4, 2, 1); check: ""
                                               or "bool" (any byte but 0 and 1 is refused when decoding)
    ("gzip", level) ("zlib", level) ("zstd", level, checksum) ("blosc", cname, clevel, shuffle, typesize, blocksize)
    ("crc32c",)                                bytes -> bytes (all on this and the line above); shuffle: 0 none, 1 byte, 2 bit

Placement (where elements of a chunk lie in the value or output), one for the whole call:
    ("grid", axes): one entry per dimension, in order:
        ("span", table, step)   table int64 (k, 3): start in the chunk, count, start in the output; `step` >= 1 is the
                                distance of selected elements in the chunk (output positions always advance by 1)
        ("pick", bounds, inside, outside)  bounds int64 (k, 2): lo, hi into the two int64 arrays inside (positions in
                                the chunk along this dimension) and outside (positions in the output)
      a row's `cell` is the C-order linear index into the product of the k's.
    ("points", bounds, inside, outside): bounds int64 (k, 2): lo, hi; inside: linear C-order element index in the chunk,
        outside: linear element index in a 1-D contiguous output; `cell` indexes bounds.
"""

from collections.abc import Sequence

Placement = tuple[object, ...]

MISSING: int  # -1: the source of a row that is not stored

class Program:
    """A whole chain: arrays of one shape and element size to bytes and back. Immutable, safe on many threads."""
    def __new__(cls, steps: Sequence[tuple[object, ...]], shape: Sequence[int], itemsize: int, fill: bytes) -> Program: ...
    @property
    def nbytes(self) -> int: ...  # decoded
    @property
    def encoded_nbytes(self) -> int | None: ...  # when every encoded chunk has the same length
    def encode_chunk(self, value: object) -> bytes: ...  # a C-contiguous buffer of `nbytes`
    def decode_chunk(self, encoded: object) -> bytearray: ...

class Pipe:
    """A run of bytes -> bytes steps."""
    def __new__(cls, steps: Sequence[tuple[object, ...]]) -> Pipe: ...
    def encode(self, buffer: object) -> bytes: ...
    def decode(self, buffer: object, limit: int) -> bytearray: ...  # never produces more than limit bytes

Failure = tuple[int, str, str]  # row, kind ("range" | "checksum" | "codec" | "io" | "memory"), sentence

def decode(
    programs: Sequence[Program],
    sources: Sequence[object],  # int: an open descriptor (pread); else a buffer
    rows: object,  # int64 (n, 5): source (MISSING: the fill value), offset, nbytes, program, cell
    placement: Placement,
    out: object,  # writable buffer with strides; its itemsize is that of every program
    threads: int,
) -> list[Failure]: ...

def encode(
    programs: Sequence[Program],
    sources: Sequence[object],
    rows: object,  # int64 (n, 7): action, program, cell, sink, source, offset, nbytes
    placement: Placement,
    value: object,  # readable buffer with strides, zero strides allowed
    sinks: Sequence[int | None],  # an open descriptor (pwrite), or None: the encoded bytes come back as a bytearray
    positions: Sequence[int],  # where the first byte goes, per sink; entries' offsets count from 0 of the sink
    drop_fill: bool,  # a chunk that is the fill value, bit for bit, is left out: entry (2**64-1, 2**64-1)
    threads: int,
) -> tuple[bytearray, list[bytearray | None], list[int], list[Failure]]: ...
    # entries (n, 2) uint64 native bytes in row order; bodies; end position per sink; failures.
    # Actions: 0 lay the value over the fill value; 1 lay it over the decoded old chunk at (source, offset, nbytes);
    # 2 copy the old encoded bytes as they are. Chunks of a sink lie in row order, gapless from its position,
    # whatever the number of threads.

def crc32c(buffer: object, crc: int = 0) -> int: ...
def threads_alive() -> int: ...
