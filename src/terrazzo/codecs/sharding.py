"""sharding_indexed: a chunk cut into inner chunks, each through a chain of its own, found by an index.

What it does not do: partial reads and writes; where a chain is this codec alone, the flows do them with what is
offered here. Everywhere else (behind array codecs, before a compressor, inside another shard) it works whole.
Specification: https://zarr-specs.readthedocs.io/en/latest/v3/codecs/sharding-indexed/index.html
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from terrazzo.codecs.codec import Array, ArrayBytesCodec, Buffer, ChunkSpec, Codec, Context
from terrazzo.codecs.configuration import choice, from_members, only_members, shape_of
from terrazzo.codecs.native import crc32c, decode_grid, encode_grid
from terrazzo.codecs.registry import codec_from
from terrazzo.errors import ChecksumError, CodecError, LimitError, ShardError
from terrazzo.metadata import Extension, data_type_from_numpy
from terrazzo.metadata.problems import describe, join, refuse
from terrazzo.shard import EMPTY, Entries, check_entries, empty_entries, index_range, order

if TYPE_CHECKING:
    from terrazzo.codecs.chain import Chain

__all__ = ["ShardingCodec", "ShardingIndexed"]

UINT64 = data_type_from_numpy(np.dtype(np.uint64))
#: what the index is encoded by, where nobody says
INDEX_CODECS: tuple[dict[str, Any], ...] = (
    {"name": "bytes", "configuration": {"endian": "little"}},
    {"name": "crc32c"},
)
#: bytes of one entry, and of a CRC-32C
ENTRY_NBYTES, CRC_NBYTES = 16, 4


@dataclass(frozen=True, eq=False)
class ShardingCodec(ArrayBytesCodec):
    """Inner chunks of `chunk_shape`, encoded by `codecs`; the index by `index_codecs`, at the "start" or "end"."""

    chunk_shape: tuple[int, ...]
    codecs: tuple[Codec, ...] = ("bytes",)  # type: ignore[assignment]  # made codecs below
    index_codecs: tuple[Codec, ...] = INDEX_CODECS  # type: ignore[assignment]
    index_location: str = "end"

    name = "sharding_indexed"

    def __post_init__(self) -> None:
        object.__setattr__(self, "chunk_shape", shape_of(self.chunk_shape, "chunk_shape"))
        for member in ("codecs", "index_codecs"):
            object.__setattr__(self, member, _codecs(getattr(self, member), member))
        location = getattr(self.index_location, "value", self.index_location)
        object.__setattr__(self, "index_location", choice(location, "index_location", ("start", "end")))

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        at = join(path, "configuration")
        only_members(configuration, at, ("chunk_shape", "codecs", "index_codecs"), ("index_location",))
        members = dict(configuration)
        for member in ("codecs", "index_codecs"):  # here, so that a nested codec's path is whole
            _check_documents(members[member], join(at, member))
            members[member] = _codecs(members[member], join(at, member))
        return from_members(cls, members, path, tuple(members))

    def configuration(self) -> dict[str, Any]:
        return {
            "chunk_shape": list(self.chunk_shape),
            "codecs": [codec.to_dict() for codec in self.codecs],
            "index_codecs": [codec.to_dict() for codec in self.index_codecs],
            "index_location": self.index_location,
        }

    def resolve(self, spec: ChunkSpec, context: Context) -> ShardingIndexed:
        """Checked against the shard: the shape that this codec receives, after any transposition."""
        at = join(context.path, "configuration")
        depth = context.depth + 1
        if depth > context.limits.depth:
            raise LimitError(
                f"{context.path}: shards within shards more than {context.limits.depth} levels deep; raise `depth` in "
                "the limits for data that you trust"
            )
        if len(self.chunk_shape) != len(spec.shape):
            sentence = f"found {len(self.chunk_shape)} extents, the shard has {len(spec.shape)}: {describe(spec.shape)}"
            refuse(join(at, "chunk_shape"), sentence)
        clipped = any(extent % inner for extent, inner in zip(spec.shape, self.chunk_shape, strict=True))
        if clipped and "clipped" not in context.drafts:
            sentence = (
                f"found {describe(self.chunk_shape)}, must divide the shard's shape {describe(spec.shape)} "
                'in every dimension (that they need not is proposed: drafts=["clipped"] in the configuration)'
            )
            refuse(join(at, "chunk_shape"), sentence)
        assert context.build is not None
        inside = replace(context, path=join(at, "codecs"), depth=depth)
        inner_chain = context.build(self.codecs, replace(spec, shape=self.chunk_shape), inside)
        kind = _clipped() if clipped else ShardingIndexed
        resolved = kind(
            self.chunk_shape,
            inner_chain.codecs,
            self.index_codecs,
            self.index_location,
            inner_chain=inner_chain,
            context=replace(context, path=join(at, "index_codecs"), depth=depth),
        )
        resolved.index_nbytes(resolved.chunks_per_shard(spec.shape))
        return resolved

    def encode(self, value: Array, spec: ChunkSpec) -> Buffer:
        raise TypeError("a sharding codec encodes as part of a chain, which knows its shard")

    def decode(self, encoded: Buffer, spec: ChunkSpec) -> Array:
        raise TypeError("a sharding codec decodes as part of a chain, which knows its shard")


@dataclass(frozen=True, eq=False)
class ShardingIndexed(ShardingCodec):
    """A sharding codec as a chain holds it: checked against its shard, with the chain of the inner chunks.

    Functions of `count` take the inner chunks per dimension: shards of one array may differ in shape.
    """

    inner_chain: Chain = field(kw_only=True, repr=False)
    context: Context = field(kw_only=True, repr=False)
    _index_chains: dict[tuple[int, ...], Chain] = field(default_factory=dict, kw_only=True, repr=False)

    def chunks_per_shard(self, shard_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Inner chunks per dimension in a shard of this shape."""
        return tuple(extent // inner for extent, inner in zip(shard_shape, self.chunk_shape, strict=True))

    def index_nbytes(self, count: tuple[int, ...]) -> int:
        """The length of the encoded index."""
        if self._plain is not None:
            self._check_count(count)
            return ENTRY_NBYTES * math.prod(count) + self._plain
        nbytes = self._index_chain(count).encoded_nbytes
        assert nbytes is not None
        return nbytes

    def index_span(self, count: tuple[int, ...], shard_nbytes: int) -> tuple[int, int]:
        """(start, stop) of the index in a shard of so many bytes."""
        nbytes = self.index_nbytes(count)
        return (0, nbytes) if self.index_location == "start" else (shard_nbytes - nbytes, shard_nbytes)

    def index_range(self, count: tuple[int, ...]) -> tuple[int, int | None]:
        """What to ask a store for: (start, length) of the index; a negative start counts from the end."""
        return index_range(self.index_location, self.index_nbytes(count))

    def decode_index(self, encoded: Buffer, count: tuple[int, ...]) -> Entries:
        """Entries uint64 (n, 2), not checked against the shard, maybe read-only; raises CodecError or ChecksumError."""
        nbytes = self.index_nbytes(count)
        found = memoryview(encoded).nbytes
        if found != nbytes:
            raise CodecError(f"an index of {found} bytes was found, {math.prod(count)} chunks take {nbytes}")
        if self._plain is None:
            return np.ascontiguousarray(self._index_chain(count).decode(encoded)).reshape(-1, 2)
        view = memoryview(encoded).cast("B")
        table = nbytes - self._plain
        if self._plain:
            stored = int.from_bytes(view[table:], "little")
            computed = crc32c(view[:table])
            if stored != computed:
                raise ChecksumError(f"crc32c: the index has {computed:#010x}, stored is {stored:#010x}")
        entries = np.frombuffer(view[:table], "<u8").reshape(-1, 2)
        # bytes of its own do not change, and keep nothing else alive
        alone = type(encoded) is bytes and sys.byteorder == "little"
        return entries if alone else entries.astype(np.uint64)

    def encode_index(self, entries: Entries, count: tuple[int, ...]) -> bytes:
        """The encoded index."""
        return b"".join(self.index_pieces(entries, count))

    def index_pieces(self, entries: Entries, count: tuple[int, ...]) -> list[Buffer]:
        """The encoded index in pieces, one after the other; where that is possible, nothing is copied."""
        if self._plain is None:
            return [self._index_chain(count).encode(entries.reshape(*count, 2))]
        table = np.ascontiguousarray(entries, "<u8").reshape(-1)
        return [table, crc32c(table).to_bytes(CRC_NBYTES, "little")] if self._plain else [table]

    def encode(self, value: Array, spec: ChunkSpec) -> Buffer:
        """A whole shard: chunks in Morton order, without those that are all fill value."""
        count = self.chunks_per_shard(spec.shape)
        sequence = order("morton", count)
        at_start = self.index_location == "start"
        start = self.index_nbytes(count) if at_start else 0
        native = self.inner_chain.native
        if native is not None:
            entries, body = encode_grid(native, value, count, self.chunk_shape, sequence, start)
        else:
            entries, body = self._encode_chunks(value, count, sequence, start)
        index = self.encode_index(entries, count)
        return b"".join((index, body) if at_start else (body, index))

    def decode(self, encoded: Buffer, spec: ChunkSpec) -> Array:
        """A whole shard."""
        _check_whole(spec, self.context)
        count = self.chunks_per_shard(spec.shape)
        view = memoryview(encoded).cast("B")
        size = view.nbytes
        start, stop = self.index_span(count, size)
        if size < stop - start:
            raise ShardError(
                f"a shard of {size} bytes was found, its index alone has {stop - start}: it was cut short"
            )
        entries = self.decode_index(view[start:stop], count)
        check_entries(entries, size, (start, stop), self.context.strict, "shard", count)
        value = np.empty(spec.shape, spec.data_type.numpy)
        native = self.inner_chain.native
        if native is not None:
            decode_grid(native, view, entries, count, self.chunk_shape, value)
        else:
            self._decode_chunks(view, entries, count, value)
        return value

    def encoded_nbytes(self, spec: ChunkSpec) -> int | None:
        return None  # chunks that are all fill value are left out

    @cached_property
    def _plain(self) -> int | None:
        """The checksum's bytes behind a plain little-endian table; None for any other index."""
        names = [codec.name for codec in self.index_codecs]
        if names[:1] != ["bytes"] or getattr(self.index_codecs[0], "endian", None) != "little":
            return None
        return {("bytes",): 0, ("bytes", "crc32c"): CRC_NBYTES}.get(tuple(names))

    def _check_count(self, count: tuple[int, ...]) -> None:
        n = math.prod(count)
        if n > self.context.limits.index_entries:
            raise LimitError(
                f"{self.context.path}: a shard of {n:,} inner chunks, at most {self.context.limits.index_entries:,} "
                "are allowed; raise `index_entries` in the limits for data that you trust"
            )

    def _index_chain(self, count: tuple[int, ...]) -> Chain:
        chain = self._index_chains.get(count)
        if chain is None:
            self._check_count(count)
            assert self.context.build is not None
            spec = ChunkSpec((*count, 2), UINT64, np.array(EMPTY, np.uint64))
            chain = self.context.build(self.index_codecs, spec, self.context)
            if chain.encoded_nbytes is None:
                names = ", ".join(codec.name for codec in self.index_codecs)
                refuse(
                    self.context.path,
                    f"found {names}: indexes would differ in length, which the format forbids",
                )
            self._index_chains[count] = chain
        return chain

    def _encode_chunks(
        self, value: Array, count: tuple[int, ...], sequence: Array, start: int
    ) -> tuple[Entries, Buffer]:
        entries = empty_entries(len(sequence))
        body = bytearray()
        for number in sequence.tolist():
            part = value[self._region(number, count)]
            if self.inner_chain.is_fill(part):
                continue
            encoded = self.inner_chain.encode(part)
            entries[number] = start + len(body), memoryview(encoded).nbytes
            body += encoded
        return entries, body

    def _decode_chunks(
        self, view: memoryview, entries: Entries, count: tuple[int, ...], value: Array
    ) -> None:
        for number, (offset, nbytes) in enumerate(entries.tolist()):
            region = self._region(number, count)
            if offset == EMPTY:
                value[region] = self.inner_chain.spec.fill
                continue
            try:
                value[region] = self.inner_chain.decode(view[offset : offset + nbytes])
            except (CodecError, ShardError) as error:
                place = tuple(int(i) for i in np.unravel_index(number, count)) if count else ()
                raise type(error)(f"inner chunk {place}: {error}") from error

    def _region(self, number: int, count: tuple[int, ...]) -> tuple[Any, ...]:
        """Selects an inner chunk: an array without dimensions too, not its element."""
        place = np.unravel_index(number, count) if count else ()
        extents = zip(place, self.chunk_shape, strict=True)
        return *(slice(int(i) * extent, int(i) * extent + extent) for i, extent in extents), ...


def _clipped() -> type[ShardingIndexed]:
    from terrazzo.codecs.clipped import ClippedSharding  # which is one of these

    return ClippedSharding


def _codecs(found: Sequence[Any], path: str) -> tuple[Codec, ...]:
    if not isinstance(found, list | tuple):
        refuse(path, f"found {describe(found)}, must be a list of codecs")
    return tuple(codec_from(codec, join(path, i)) for i, codec in enumerate(found))


def _check_documents(found: object, path: str) -> None:
    """A document's list holds documents; anything else would count as an argument of a wrong type."""
    for i, codec in enumerate(found if isinstance(found, list | tuple) else ()):
        if not isinstance(codec, str | Mapping | Codec | Extension):
            refuse(join(path, i), f"found {describe(codec)}, must be a codec: a name, or an object with one")


def _check_whole(spec: ChunkSpec, context: Context) -> None:
    nbytes = spec.nbytes
    if nbytes is not None and nbytes > context.limits.chunk_nbytes:
        raise LimitError(
            f"a shard of {nbytes:,} bytes that can only be read whole, at most {context.limits.chunk_nbytes:,} are "
            "allowed; raise `chunk_nbytes` in the limits for data that you trust"
        )
