"""sharding_indexed whose inner chunks do not divide the shard: those at its far edges are cut to it. Only proposed.

What it does not do: be chosen by anyone but the sharding codec, where options.DRAFTS has "clipped". The flows see one
stored chunk, of which parts are read by ranges; a changed shard is written whole.
https://github.com/zarr-developers/zarr-specs/pull/370
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from terrazzo.codecs.codec import Array, Box, Buffer, ChunkSpec, PartialReader
from terrazzo.codecs.sharding import ShardingIndexed
from terrazzo.errors import CodecError, ShardError
from terrazzo.shard import EMPTY, Entries, check_entries, empty_entries, order

if TYPE_CHECKING:
    from terrazzo.codecs.chain import Chain

__all__ = ["ClippedSharding"]


@dataclass(frozen=True, eq=False)
class ClippedSharding(ShardingIndexed):
    """A sharding codec as a chain holds it, for a shard that its inner chunks overhang."""

    _chains: dict[tuple[int, ...], Any] = field(default_factory=dict, kw_only=True, repr=False)

    def chunks_per_shard(self, shard_shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(-(-extent // inner) for extent, inner in zip(shard_shape, self.chunk_shape, strict=True))

    def encode(self, value: Array, spec: ChunkSpec) -> bytes:
        count = self.chunks_per_shard(spec.shape)
        at_start = self.index_location == "start"
        start = self.index_nbytes(count) if at_start else 0
        entries = empty_entries(int(np.prod(count, dtype=object)))
        body = bytearray()
        for number in order("morton", count).tolist():
            part = value[self._region(number, count)]
            chain = self._chain(part.shape)
            if chain.is_fill(part):
                continue
            encoded = chain.encode(part)
            entries[number] = start + len(body), memoryview(encoded).nbytes
            body += encoded
        index = self.encode_index(entries, count)
        return index + bytes(body) if at_start else bytes(body) + index

    def decode(self, encoded: Buffer, spec: ChunkSpec) -> Array:
        view = memoryview(encoded).cast("B")
        reader = ClippedReader(self, spec, len(view))
        heads = [view[start : start + length] for start, length in reader.heads()]
        box = tuple(slice(0, extent) for extent in spec.shape)
        ranges = reader.ranges(heads, box)
        return reader.decode(heads, [view[start : start + length] for start, length in ranges], box)

    def partial(self, spec: ChunkSpec, nbytes: int) -> PartialReader | None:
        return ClippedReader(self, spec, nbytes)

    def _chain(self, shape: tuple[int, ...]) -> Chain:
        """The codecs for an inner chunk of this shape; there are two extents along a dimension at most."""
        chain: Chain | None = self._chains.get(shape)
        if chain is None:
            whole = shape == self.inner_chain.spec.shape
            chain = self.inner_chain if whole else self.inner_chain.reshaped(shape)
            self._chains[shape] = chain
        return chain


class ClippedReader(PartialReader):
    """Reads the index, then the inner chunks that a box touches."""

    def __init__(self, codec: ClippedSharding, spec: ChunkSpec, nbytes: int) -> None:
        self.codec, self.spec, self.nbytes = codec, spec, nbytes
        self.count = codec.chunks_per_shard(spec.shape)
        self.span = codec.index_span(self.count, nbytes)
        if self.span[0] < 0 or self.span[1] > nbytes:
            raise ShardError(
                f"a shard of {nbytes} bytes was found, its index alone has {self.span[1] - self.span[0]}: it was cut"
            )

    def heads(self) -> Sequence[tuple[int, int]]:
        return [(self.span[0], self.span[1] - self.span[0])]

    def ranges(self, heads: Sequence[Buffer], box: Box) -> Sequence[tuple[int, int]]:
        entries = self._entries(heads)
        touched = [entries[number].tolist() for number, _ in self._touched(box)]
        return [(offset, nbytes) for offset, nbytes in touched if offset != EMPTY]

    def decode(self, heads: Sequence[Buffer], parts: Sequence[Buffer], box: Box) -> Array:
        entries = self._entries(heads)
        rest = iter(parts)
        value = np.empty([one.stop - one.start for one in box], self.spec.data_type.numpy)
        for number, place in self._touched(box):
            region = tuple(
                slice(i * edge, min(i * edge + edge, extent))
                for i, edge, extent in zip(place, self.codec.chunk_shape, self.spec.shape, strict=True)
            )
            both = [
                (max(one.start, other.start), min(one.stop, other.stop))
                for one, other in zip(region, box, strict=True)
            ]
            target = tuple(
                slice(low - one.start, high - one.start) for (low, high), one in zip(both, box, strict=True)
            )
            if entries[number][0] == EMPTY:
                value[target] = self.spec.fill
                continue
            shape = tuple(one.stop - one.start for one in region)
            try:
                chunk = self.codec._chain(shape).decode(next(rest))
            except (CodecError, ShardError) as error:
                raise type(error)(f"inner chunk {place}: {error}") from error
            source = tuple(
                slice(low - one.start, high - one.start)
                for (low, high), one in zip(both, region, strict=True)
            )
            value[target] = chunk[source]
        return value

    def _entries(self, heads: Sequence[Buffer]) -> Entries:
        entries = self.codec.decode_index(heads[0], self.count)
        check_entries(entries, self.nbytes, self.span, self.codec.context.strict, "shard", self.count)
        return entries

    def _touched(self, box: Box) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The inner chunks that a box touches: their number, and their place in the shard."""
        along = [
            range(one.start // edge, -(-one.stop // edge))
            for one, edge in zip(box, self.codec.chunk_shape, strict=True)
        ]
        for place in product(*along):
            number = 0
            for i, n in zip(place, self.count, strict=True):
                number = number * n + i
            yield number, place
