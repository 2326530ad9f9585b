"""A chain: ordered codecs, checked once against the chunk they are given, compiled, and run in one loop.

What it does not do: find codecs by name (registry.py), place chunks in arrays (the flows), or touch stores.
Specification: Zarr core 3.0, "Codecs": array -> array*, array -> bytes exactly once, bytes -> bytes*.

Where the kernel knows every codec, `native` is the whole chain as one program, which the flows run over many chunks at
once. Otherwise the chain is split, once, into runs: native ones (a program, a pipe) and single Python codecs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from terrazzo.codecs.codec import (
    Array,
    ArrayArrayCodec,
    ArrayBytesCodec,
    Buffer,
    BytesBytesCodec,
    ChunkSpec,
    Codec,
    Context,
    PartialReader,
    Step,
)
from terrazzo.codecs.native import Pipe, Program, as_bytes, called, pipe, program
from terrazzo.codecs.registry import codec_from
from terrazzo.codecs.sharding import ShardingIndexed
from terrazzo.errors import CodecError, LimitError, TerrazzoError
from terrazzo.metadata import same_bits
from terrazzo.metadata.problems import join, refuse
from terrazzo.options import Limits

__all__ = ["Chain"]

Run = Callable[[Any], Any]

#: what a compressor's headers may add to small chunks
SLACK_NBYTES = 64 << 10


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """Codecs for chunks of one shape and data type; immutable, safe to use from many threads, and it pickles.

    codecs: with every derived setting filled in, as they belong into a document. specs: what each array codec is
    given, ending with what the array -> bytes codec is given. native: the whole chain in the kernel, or None.
    encoded_nbytes: the length of every encoded chunk, where it is the same for all.
    """

    codecs: tuple[Codec, ...]
    specs: tuple[ChunkSpec, ...]
    native: Program | None
    encoded_nbytes: int | None
    context: Context
    _encoders: tuple[Run, ...]
    _decoders: tuple[Run, ...]

    @classmethod
    def build(
        cls,
        codecs: Sequence[Any],
        spec: ChunkSpec,
        *,
        limits: Limits | None = None,
        path: str = "codecs",
        strict: bool = True,
        depth: int = 0,
        drafts: tuple[str, ...] = (),
        allow_pickle: bool = False,
    ) -> Chain:
        """Order, resolve and compile codecs (or extensions, documents' objects, strings) for chunks of `spec`.

        Raises MetadataError and UnknownCodecError with the codec's path in the document, and LimitError.
        """
        context = Context(path, limits or Limits(), strict, depth, drafts, allow_pickle, _build)
        return _build([codec_from(codec, join(path, i)) for i, codec in enumerate(codecs)], spec, context)

    def reshaped(self, shape: tuple[int, ...]) -> Chain:
        """The same codecs for chunks of another shape."""
        return _build(self.codecs, replace(self.spec, shape=tuple(shape)), self.context)

    def __reduce__(self) -> tuple[Any, ...]:
        return _build, (self.codecs, self.spec, self.context)

    @property
    def spec(self) -> ChunkSpec:
        """The chunk that this chain encodes."""
        return self.specs[0]

    @property
    def filters(self) -> tuple[ArrayArrayCodec, ...]:
        """The array -> array codecs."""
        return tuple(codec for codec in self.codecs if isinstance(codec, ArrayArrayCodec))

    @property
    def serializer(self) -> ArrayBytesCodec:
        """The array -> bytes codec."""
        codec = self.codecs[len(self.specs) - 1]
        assert isinstance(codec, ArrayBytesCodec)
        return codec

    @property
    def compressors(self) -> tuple[BytesBytesCodec, ...]:
        """The bytes -> bytes codecs."""
        return tuple(codec for codec in self.codecs if isinstance(codec, BytesBytesCodec))

    @property
    def sharding(self) -> ShardingIndexed | None:
        """The sharding codec where it is the whole chain, so that parts of a chunk can be read and written alone."""
        only = self.codecs[0] if len(self.codecs) == 1 else None
        return only if isinstance(only, ShardingIndexed) and not self.partial else None

    @property
    def partial(self) -> bool:
        """Whether parts of a chunk can be decoded from parts of its bytes, by a codec that is the whole chain."""
        only = self.codecs[0] if len(self.codecs) == 1 and self.native is None else None
        return isinstance(only, ArrayBytesCodec) and type(only).partial is not ArrayBytesCodec.partial

    def partial_reader(self, nbytes: int) -> PartialReader | None:
        """What decodes parts of a chunk of `nbytes` bytes; None where this one has to be decoded whole."""
        if self.encoded_nbytes not in (None, nbytes):
            return None  # decoding it whole tells what is wrong
        return self.serializer.partial(self.spec, nbytes)

    @property
    def checksummed(self) -> bool:
        """Whether decoding notices that any byte was changed."""
        return bool(self.compressors) and self.compressors[-1].checksums

    def encode(self, value: Array) -> Buffer:
        """The encoded chunk; `value` has the shape of the specification and is cast to its data type."""
        value = np.asarray(value, self.spec.data_type.numpy)
        if value.shape != self.spec.shape:
            raise ValueError(
                f"a chunk of shape {value.shape} was given to a chain for chunks of {self.spec.shape}"
            )
        moved: Any = value
        for encode in self._encoders:
            moved = encode(moved)
        return moved

    def decode(self, encoded: Buffer) -> Array:
        """The chunk; raises CodecError or ChecksumError that name the codec, for anything but an encoded chunk."""
        if self.encoded_nbytes is not None and memoryview(encoded).nbytes != self.encoded_nbytes:
            raise CodecError(
                f"a chunk of {memoryview(encoded).nbytes} bytes was found, "
                f"chunks of this array are encoded as {self.encoded_nbytes}"
            )
        moved: Any = encoded
        for decode in self._decoders:
            moved = decode(moved)
        return moved  # type: ignore[no-any-return]

    def is_fill(self, value: Array) -> bool:
        """Whether every element of a decoded chunk is the fill value, bit for bit."""
        return same_bits(np.asarray(value, self.spec.data_type.numpy), self.spec.fill)


def _build(codecs: Sequence[Codec], spec: ChunkSpec, context: Context) -> Chain:
    """Check kinds and order, resolve front to back, and compile."""
    _check_kinds(codecs, context.path)
    resolved: list[Codec] = []
    specs = [spec]
    for i, codec in enumerate(codecs):
        at = replace(context, path=join(context.path, i), build=_build)
        if isinstance(codec, ArrayArrayCodec):
            specs.append(codec.resolve(specs[-1], at))
            resolved.append(codec.stated(specs[-2]))
        elif isinstance(codec, ArrayBytesCodec | BytesBytesCodec):
            resolved.append(codec.resolve(specs[-1], at))
    turn = len(specs) - 1
    serializer = resolved[turn]
    assert isinstance(serializer, ArrayBytesCodec)
    if not isinstance(serializer, ShardingIndexed):
        for each in specs:
            _check_limit(each, context)
    # what each bytes -> bytes codec is given, then what comes out of the last
    lengths = [serializer.encoded_nbytes(specs[-1])]
    for codec in resolved[turn + 1 :]:
        assert isinstance(codec, BytesBytesCodec)
        lengths.append(None if lengths[-1] is None else codec.encoded_nbytes(lengths[-1]))
    steps = _steps(resolved, specs)
    if None not in steps and spec.data_type.itemsize is not None and 0 not in spec.shape:
        native: Program | None = program([step for step in steps if step is not None], spec)
    else:
        native = None
    encoders, decoders = _runs(resolved, specs, steps, lengths, context.limits.chunk_nbytes)
    return Chain(
        tuple(resolved),
        tuple(specs),
        native,
        lengths[-1],
        context,
        tuple(encoders),
        tuple(reversed(decoders)),
    )


def _check_kinds(codecs: Sequence[Codec], path: str) -> None:
    turn = None
    for i, codec in enumerate(codecs):
        at = join(path, i)
        if isinstance(codec, ArrayArrayCodec):
            if turn is not None:
                refuse(
                    at, f"{codec.name} takes an array, but {codecs[turn].name} before it has made bytes of it"
                )
        elif isinstance(codec, ArrayBytesCodec):
            if turn is not None:
                refuse(
                    at, f"{codec.name} makes bytes of an array, but so does {codecs[turn].name}; one must go"
                )
            turn = i
        elif isinstance(codec, BytesBytesCodec):
            if turn is None:
                refuse(at, f"{codec.name} takes bytes, but no codec before it makes bytes (as `bytes` does)")
        else:
            raise TypeError(f"{at}: {codec!r} is none of the three kinds of codecs")
    if turn is None:
        refuse(path, "no codec makes bytes of the array; exactly one must, as `bytes` does")


def _check_limit(spec: ChunkSpec, context: Context) -> None:
    nbytes = spec.nbytes
    if nbytes is not None and nbytes > context.limits.chunk_nbytes:
        raise LimitError(
            f"{context.path}: chunks of shape {spec.shape} take {nbytes:,} bytes, at most "
            f"{context.limits.chunk_nbytes:,} are allowed; raise `chunk_nbytes` in the limits for data that you trust"
        )


def _steps(codecs: Sequence[Codec], specs: Sequence[ChunkSpec]) -> list[Step | None]:
    """The kernel's name for each codec, where it has one."""
    steps: list[Step | None] = []
    for i, codec in enumerate(codecs):
        if isinstance(codec, ArrayArrayCodec | ArrayBytesCodec):
            steps.append(codec.step(specs[i]))
        elif isinstance(codec, BytesBytesCodec):
            steps.append(codec.step())
    return steps


def _runs(
    codecs: Sequence[Codec],
    specs: Sequence[ChunkSpec],
    steps: Sequence[Step | None],
    lengths: Sequence[int | None],
    limit: int,
) -> tuple[list[Run], list[Run]]:
    """Encoders and decoders, both in encoding order: native runs as long as can be, Python codecs one by one."""
    encoders: list[Run] = []
    decoders: list[Run] = []
    turn = len(specs) - 1
    # the program takes the array -> bytes codec and the native codecs around it
    first = stop = turn
    if steps[turn] is not None and specs[turn].data_type.itemsize is not None and 0 not in specs[0].shape:
        stop = next((i for i in range(turn, len(steps)) if steps[i] is None), len(steps))
        first = 1 + next((i for i in reversed(range(turn)) if steps[i] is None), -1)
    for i in range(first):
        codec = codecs[i]
        assert isinstance(codec, ArrayArrayCodec)
        encoders.append(_array_encoder(codec, specs[i], specs[i + 1]))
        decoders.append(_array_decoder(codec, specs[i]))
    if stop > turn:
        run = program([step for step in steps[first:stop] if step is not None], specs[first])
        encoders.append(_program_encoder(run))
        decoders.append(_program_decoder(run, specs[first]))
    else:
        serializer = codecs[turn]
        assert isinstance(serializer, ArrayBytesCodec)
        encoders.append(_named(serializer.name, lambda value: serializer.encode(value, specs[turn])))
        decoders.append(_array_decoder(serializer, specs[turn]))
        stop = turn + 1
    bounds = _bounds(lengths, limit)
    i = stop
    while i < len(codecs):
        bound, exact = bounds[i - turn - 1], lengths[i - turn - 1]
        last = next((j for j in range(i, len(steps)) if steps[j] is None), len(steps))
        if last > i:
            joined = pipe([step for step in steps[i:last] if step is not None])
            encoders.append(_pipe_encoder(joined))
            decoders.append(_pipe_decoder(joined, bound))
            i = last
            continue
        codec = codecs[i]
        assert isinstance(codec, BytesBytesCodec)
        encoders.append(_named(codec.name, codec.encode))
        decoders.append(_bytes_decoder(codec, bound, exact))
        i += 1
    return encoders, decoders


def _bounds(lengths: Sequence[int | None], limit: int) -> list[int]:
    """The most bytes that decoding back to each of these places may make: with no length known there, what a wasteful
    encoder would make of the place before. A bomb between two compressors gets no further than that."""
    bounds: list[int] = []
    for nbytes in lengths:
        if nbytes is None:
            nbytes = 2 * bounds[-1] + SLACK_NBYTES if bounds else limit
        bounds.append(min(nbytes, limit))
    return bounds


def _program_encoder(run: Program) -> Run:
    return lambda value: called(run.encode_chunk, as_bytes(value))


def _program_decoder(run: Program, spec: ChunkSpec) -> Run:
    dtype = spec.data_type.numpy

    def decode(encoded: Buffer) -> Array:
        return np.frombuffer(called(run.decode_chunk, encoded), np.uint8).view(dtype).reshape(spec.shape)

    return decode


def _pipe_encoder(run: Pipe) -> Run:
    return lambda buffer: called(run.encode, buffer)


def _pipe_decoder(run: Pipe, limit: int) -> Run:
    return lambda encoded: called(run.decode, encoded, limit)


def _array_encoder(codec: ArrayArrayCodec, spec: ChunkSpec, after: ChunkSpec) -> Run:
    dtype = after.data_type.numpy

    def encode(value: Array) -> Array:
        made = codec.encode(value, spec)
        if made.shape != after.shape or made.dtype != dtype:
            raise CodecError(
                f"made {made.dtype} of shape {made.shape}, but is declared to make {dtype} of shape {after.shape}"
            )
        return made

    return _named(codec.name, encode)


def _array_decoder(codec: ArrayArrayCodec | ArrayBytesCodec, spec: ChunkSpec) -> Run:
    dtype = spec.data_type.numpy

    def decode(encoded: Any) -> Array:
        value = codec.decode(encoded, spec)
        if value.shape != spec.shape or value.dtype != dtype:
            raise CodecError(
                f"made {value.dtype} of shape {value.shape}, must be {dtype} of shape {spec.shape}"
            )
        return value

    return _named(codec.name, decode)


def _bytes_decoder(codec: BytesBytesCodec, limit: int, exact: int | None) -> Run:
    def decode(encoded: Buffer) -> Buffer:
        buffer = codec.decode(encoded, limit)
        nbytes = memoryview(buffer).nbytes
        if nbytes > limit or (exact is not None and nbytes != exact):
            allowed = f"exactly {exact}" if exact is not None else f"at most {limit}"
            raise CodecError(f"the bytes decode to {nbytes} bytes, must be {allowed}")
        return buffer

    return _named(codec.name, decode)


def _named(name: str, run: Run) -> Run:
    """Errors name the codec; what a foreign codec raises becomes a CodecError."""

    def guarded(moved: Any) -> Any:
        try:
            return run(moved)
        except CodecError as error:
            if str(error).startswith(f"{name}: "):
                raise
            raise type(error)(f"{name}: {error}") from error
        except (TerrazzoError, MemoryError):
            raise
        except Exception as error:
            raise CodecError(f"{name}: {type(error).__name__}: {error}") from error

    return guarded
