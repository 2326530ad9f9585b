"""The sharding storage transformer of the 2022 draft: a store of chunks over a store of shards.

What it does not do: serve arrays of the draft. Those are read and written as `sharding_indexed`, the same bytes, whose
flows decode what they fetch; this is the transformer as the draft defines it, verb by verb, for whoever has chunks
that are encoded already, and for documents that name it as a storage transformer.

A shard: chunks in any order, then an index of (offset, nbytes) as little-endian uint64 in C order; both fields 2^64-1
for a chunk that is not stored. Transformers stack: the store below may be another one.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np

from terrazzo.chunk_keys import ChunkKeys, chunk_keys_from_extension
from terrazzo.errors import LimitError, ShardError, StoreError
from terrazzo.metadata import ArrayMetadata
from terrazzo.metadata.problems import describe, join, refuse
from terrazzo.options import Limits
from terrazzo.shard import EMPTY, Entries, check_entries, empty_entries
from terrazzo.stores.contract import Buffer, Cost, Erase, Hold, Patch, Put, Range
from terrazzo.stores.store import Store
from terrazzo.transformers.transformer import Transformer, register_transformer

__all__ = ["Sharding", "ShardingStore"]

ENTRY_NBYTES = 16
MOST_CHUNKS = Limits().index_entries
Index = tuple[int, ...]
Writing = Literal["replace", "append"]


class ShardingStore(Store):
    """The chunks below `prefix`, kept in shards of `store`; every other key is handed on.

    keys: how chunks (and shards) are named below the prefix. chunks_per_shard: per dimension; () for no dimensions.
    writing: "replace" writes a changed shard anew, "append" puts new chunks and a new index after the old ones, which
    become dead space, and reads the index alone. Where the store below cannot change objects in place, both replace.
    """

    def __init__(
        self,
        store: Store,
        prefix: str,
        keys: ChunkKeys,
        chunks_per_shard: Sequence[int],
        writing: Writing = "replace",
    ) -> None:
        self.store = store
        self.prefix = prefix
        self.keys = keys
        self.chunks_per_shard = tuple(chunks_per_shard)
        self.writing = writing
        self.chunk_count = math.prod(self.chunks_per_shard)
        if self.chunk_count > MOST_CHUNKS:
            raise LimitError(
                f"shards of {self.chunk_count:,} chunks were asked for, at most {MOST_CHUNKS:,} are allowed: "
                "an index has an entry for each"
            )
        self.index_nbytes = ENTRY_NBYTES * self.chunk_count
        self.readable, self.writable = store.readable, store.writable
        self.erasable, self.listable = store.erasable, store.listable
        self.durable = store.durable

    def __repr__(self) -> str:
        return f"ShardingStore({self.store!r}, {self.prefix!r}, chunks_per_shard={self.chunks_per_shard})"

    @property
    def cost(self) -> Cost:
        return self.store.cost

    @property
    def identity(self) -> Hashable:
        return "sharding", self.prefix, self.chunks_per_shard, self.store.identity

    # where a chunk is

    def _find(self, key: str) -> tuple[str, int] | None:
        """The key of a chunk's shard, and the chunk's number in it; None for any other key."""
        index = self._index(key)
        if index is None:
            return None
        shard = [i // count for i, count in zip(index, self.chunks_per_shard, strict=True)]
        number = 0
        for i, count in zip(index, self.chunks_per_shard, strict=True):
            number = number * count + i % count
        return self.prefix + self.keys.key(shard), number

    def _index(self, key: str) -> Index | None:
        if not key.startswith(self.prefix):
            return None
        return self.keys.parse(key[len(self.prefix) :], len(self.chunks_per_shard))

    def _chunks(self, shard: str) -> list[tuple[Index, str]]:
        """Index and key of every chunk that a shard may hold, by number."""
        place = self._index(shard)
        assert place is not None
        found = []
        for inner in np.ndindex(*self.chunks_per_shard):
            index = tuple(s * n + i for s, n, i in zip(place, self.chunks_per_shard, inner, strict=True))
            found.append((index, self.prefix + self.keys.key(index)))
        return found

    # reading

    def get(self, key: str) -> bytes | None:
        return self.get_partial_values([(key, (0, None))])[0]

    def get_partial_values(self, requests: Iterable[tuple[str, Range]]) -> builtins.list[bytes | None]:
        """Two calls below: the indexes (and whatever is no chunk), then the chunks."""
        asked = [(self._find(key), key, window) for key, window in requests]
        shards = list(dict.fromkeys(found[0] for found, _, _ in asked if found is not None))
        others = [(key, window) for found, key, window in asked if found is None]
        first = self.store.get_partial_values([*((shard, self._tail) for shard in shards), *others])
        indexes = dict(zip(shards, first, strict=False))
        rest = iter(first[len(shards) :])
        answers: builtins.list[bytes | None] = []
        wanted: builtins.list[tuple[str, Range]] = []
        places: builtins.list[int] = []
        for i, (found, _, window) in enumerate(asked):
            answers.append(next(rest) if found is None else None)
            if found is None:
                continue
            shard, number = found
            entry = self._entry(shard, indexes[shard], number)
            if entry is not None:
                wanted.append((shard, _inside(entry, window)))
                places.append(i)
        fetched = self.store.get_partial_values(wanted) if wanted else []
        for i, (shard, (start, length)), content in zip(places, wanted, fetched, strict=True):
            if content is None or len(content) != length:
                raise ShardError(
                    f"shard {shard!r}: the range ({start}, {length}) of a chunk lies past its end"
                )
            answers[i] = content
        return answers

    def exists(self, key: str) -> bool:
        return self._stored(key) is not None if self._find(key) else self.store.exists(key)

    def getsize(self, key: str) -> int | None:
        if self._find(key) is None:
            return self.store.getsize(key)
        entry = self._stored(key)
        return None if entry is None else entry[1]

    def _stored(self, key: str) -> tuple[int, int] | None:
        found = self._find(key)
        assert found is not None
        (index,) = self.store.get_partial_values([(found[0], self._tail)])
        return self._entry(found[0], index, found[1])

    @property
    def _tail(self) -> Range:
        return -self.index_nbytes, None

    def _entry(self, shard: str, index: Buffer | None, number: int) -> tuple[int, int] | None:
        if index is None:
            return None
        offset, nbytes = (int(field) for field in self._entries(shard, index)[number])
        if offset == EMPTY and nbytes == EMPTY:
            return None
        if max(offset, nbytes) >= 1 << 63:
            raise ShardError(f"shard {shard!r}: the index entry of chunk number {number} cannot be right")
        return offset, nbytes

    def _entries(self, shard: str, index: Buffer) -> Entries:
        view = memoryview(index).cast("B")
        if len(view) != self.index_nbytes:
            raise ShardError(
                f"shard {shard!r} has {len(view)} bytes, fewer than the {self.index_nbytes} of its index for "
                f"{self.chunk_count} chunks"
            )
        return np.frombuffer(view, "<u8").astype(np.uint64).reshape(-1, 2)

    # writing

    def set(self, key: str, value: Buffer) -> None:
        self.set_values([(key, value)])

    def set_values(self, values: Iterable[tuple[str, Buffer]]) -> None:
        """Whole values of many keys: a shard of which every chunk is given is written without a read."""
        by_shard: dict[str, dict[int, bytes]] = {}
        for key, value in values:
            found = self._find(key)
            if found is None:
                self.store.set(key, value)
            else:
                by_shard.setdefault(found[0], {})[found[1]] = bytes(memoryview(value).cast("B"))
        for shard, chunks in by_shard.items():
            self._change(shard, chunks)

    def set_partial_values(self, writes: Iterable[tuple[str, int, Buffer]]) -> None:
        """As in the draft: where every chunk of a shard is written from its start, once, these are its values."""
        by_shard: dict[str, builtins.list[tuple[int, str, int, bytes]]] = {}
        others = []
        for key, start, value in writes:
            found = self._find(key)
            if found is None:
                others.append((key, start, value))
            else:
                content = bytes(memoryview(value).cast("B"))
                by_shard.setdefault(found[0], []).append((found[1], key, start, content))
        if others:
            self.store.set_partial_values(others)
        for shard, pieces in by_shard.items():
            numbers = {number for number, _, _, _ in pieces}
            once = len(pieces) == len(numbers) == self.chunk_count
            if once and not any(start for _, _, start, _ in pieces):
                self._change(shard, {number: content for number, _, _, content in pieces})
                continue
            touched = {number: key for number, key, _, _ in pieces}
            now = dict(
                zip(
                    touched,
                    self.get_partial_values((key, (0, None)) for key in touched.values()),
                    strict=True,
                )
            )
            chunks = {number: bytearray(content or b"") for number, content in now.items()}
            for number, _, start, content in pieces:
                chunk = chunks[number]
                chunk.extend(bytes(max(0, start + len(content) - len(chunk))))
                chunk[start : start + len(content)] = content
            self._change(shard, {number: bytes(chunk) for number, chunk in chunks.items()})

    def _change(self, shard: str, chunks: Mapping[int, bytes]) -> None:
        """Put chunks into a shard; what else is in it stays."""
        whole = len(chunks) == self.chunk_count
        appending = self.writing == "append" and not whole
        with self.store.hold(shard, None if whole else self._tail if appending else (0, None)) as hold:
            source = hold.source
            if whole or source is None:
                self._put(hold, dict(chunks))
                return
            if appending and hold.patchable and source.size is not None:
                entries = self._entries(shard, source.first)
                body, start = bytearray(), source.size
                for number, chunk in sorted(chunks.items()):
                    entries[number] = start + len(body), len(chunk)
                    body += chunk
                body += entries.astype("<u8").tobytes()
                self.store.commit([Patch(hold, appends=[(start, bytes(body))], guard_length=True)])
                return
            content = source.first if not appending else self.store.get(shard)
            self._put(hold, {**self._cut(shard, content), **chunks})

    def _cut(self, shard: str, content: Buffer | None) -> dict[int, bytes]:
        """The stored chunks of a whole shard, by number."""
        view = memoryview(content or b"").cast("B")
        entries = self._entries(shard, view[max(0, len(view) - self.index_nbytes) :])
        span = (len(view) - self.index_nbytes, len(view))
        # not strict: a value of a store may be empty
        check_entries(entries, len(view), span, False, f"shard {shard!r}", self.chunks_per_shard)
        stored = np.flatnonzero(entries[:, 0] != EMPTY)
        return {int(n): bytes(view[int(entries[n, 0]) : int(entries[n, 0] + entries[n, 1])]) for n in stored}

    def _put(self, hold: Hold, chunks: Mapping[int, bytes]) -> None:
        entries = empty_entries(self.chunk_count)
        body = bytearray()
        for number, chunk in sorted(chunks.items()):
            entries[number] = len(body), len(chunk)
            body += chunk
        body += entries.astype("<u8").tobytes()
        sink = self.store.sink(hold)
        try:
            sink.write(0, bytes(body))
            self.store.commit([Put(hold, sink)])
        finally:
            sink.discard()

    # erasing

    def erase(self, key: str) -> None:
        self.erase_values([key])

    def erase_values(self, keys: Iterable[str]) -> None:
        """A shard that becomes empty goes; of any other the index is written where it lies."""
        by_shard: dict[str, set[int]] = {}
        others = []
        for key in keys:
            found = self._find(key)
            if found is None:
                others.append(key)
            else:
                by_shard.setdefault(found[0], set()).add(found[1])
        others += [shard for shard, numbers in by_shard.items() if len(numbers) == self.chunk_count]
        if others:
            self.store.erase_values(others)
        for shard, numbers in by_shard.items():
            if len(numbers) < self.chunk_count:
                self._erase_chunks(shard, sorted(numbers))

    def _erase_chunks(self, shard: str, numbers: builtins.list[int]) -> None:
        with self.store.hold(shard, self._tail) as hold:
            if hold.source is None:
                return
            entries = self._entries(shard, hold.source.first)
            entries[numbers] = EMPTY
            if (entries == EMPTY).all() and self.store.erases_conditionally:
                self.store.commit([Erase(hold)])
            elif hold.patchable and hold.source.size is not None:
                place = hold.source.size - self.index_nbytes
                self.store.commit([Patch(hold, overwrites=[(place, entries.astype("<u8").tobytes())])])
            else:
                left = self._cut(shard, self.store.get(shard))
                self._put(hold, {number: chunk for number, chunk in left.items() if number not in numbers})

    def erase_prefix(self, prefix: str) -> None:
        if not self._is_inside(prefix):
            self.store.erase_prefix(prefix)
            return
        self.erase_values(
            key for shard in self._shards(prefix) for _, key in self._chunks(shard) if key.startswith(prefix)
        )

    # listing

    def list(self) -> Iterator[str]:
        return self.list_prefix("")

    def list_prefix(self, prefix: str) -> Iterator[str]:
        shards = []
        for key in [*self._shards(prefix)] if self._is_inside(prefix) else self.store.list_prefix(prefix):
            if self._index(key) is None:
                yield key
            else:
                shards.append(key)
        yield from (key for key in self._listed(shards) if key.startswith(prefix))

    def list_dir(self, prefix: str) -> tuple[builtins.list[str], builtins.list[str]]:
        """Prefixes inside the grid are those of every chunk that may be there; keys are of chunks that are."""
        if not self._is_inside(prefix) and prefix != self.prefix:
            return self.store.list_dir(prefix)
        below = prefix if prefix == self.prefix else self._translated(prefix)
        keys, prefixes = self.store.list_dir(below)
        shards = [key for key in keys if self._index(key) is not None]
        found = {key for key in keys if self._index(key) is None}
        found |= {key for key in self._listed(shards) if key.startswith(prefix)}
        folders = set()
        for one in prefixes:
            place = self._leading(one)
            if not place:
                folders.add(one)
                continue
            count = self.chunks_per_shard[len(place) - 1]
            start = place[-1] * count
            above = () if prefix == self.prefix else self._leading(prefix) or ()
            folders |= {self._folder((*above, i)) for i in range(start, start + count)}
        return sorted(found), sorted(folders)

    def _listed(self, shards: Sequence[str]) -> Iterator[str]:
        """The keys of the stored chunks of shards; their indexes in one call."""
        if not shards:
            return
        for shard, index in zip(
            shards, self.store.get_partial_values([(shard, self._tail) for shard in shards]), strict=True
        ):
            if index is None:
                continue
            entries = self._entries(shard, index)
            for (_, key), entry in zip(self._chunks(shard), entries, strict=True):
                if entry[0] != EMPTY or entry[1] != EMPTY:
                    yield key

    def _is_inside(self, prefix: str) -> bool:
        """Whether a prefix holds a part of a chunk's key."""
        return self._leading(prefix) is not None

    def _leading(self, prefix: str) -> Index | None:
        """The first indices that a prefix below the array's own spells."""
        if prefix == self.prefix or not prefix.startswith(self.prefix):
            return None
        for known in range(len(self.chunks_per_shard)):
            tail = "/".join(["0"] * (len(self.chunks_per_shard) - known))
            index = self.keys.parse(prefix[len(self.prefix) :] + tail, len(self.chunks_per_shard))
            if index is not None:
                return index[:known]
        return None

    def _folder(self, leading: Index) -> str:
        """The prefix of the chunks whose first indices are these."""
        missing = len(self.chunks_per_shard) - len(leading)
        key = self.keys.key([*leading, *[0] * missing])
        return self.prefix + key.rsplit("/", missing)[0] + "/"

    def _translated(self, prefix: str) -> str:
        """The same prefix in terms of shards."""
        leading = self._leading(prefix) or ()
        return self._folder(
            tuple(i // count for i, count in zip(leading, self.chunks_per_shard, strict=False))
        )

    def _shards(self, prefix: str) -> Iterator[str]:
        """The shards that may hold chunks below a prefix inside the grid."""
        return (
            key for key in self.store.list_prefix(self._translated(prefix)) if self._index(key) is not None
        )


def _inside(entry: tuple[int, int], window: Range) -> tuple[int, int]:
    """A range of a chunk as one of its shard."""
    offset, nbytes = entry
    start, length = window
    begin = max(0, nbytes + start) if start < 0 else min(start, nbytes)
    end = nbytes if length is None else min(nbytes, begin + length)
    return offset + begin, end - begin


class Sharding(Transformer):
    """`sharding` in a list of storage transformers."""

    name: ClassVar[str] = "sharding"

    def __init__(self, chunks_per_shard: Sequence[int]) -> None:
        if isinstance(chunks_per_shard, str) or not isinstance(chunks_per_shard, Sequence):
            refuse("chunks_per_shard", f"found {describe(chunks_per_shard)}, must be a list of integers >= 1")
        for one in chunks_per_shard:
            if isinstance(one, bool) or not isinstance(one, int) or not 1 <= one < 1 << 31:
                refuse("chunks_per_shard", f"found {describe(chunks_per_shard)}, must be integers >= 1")
        self.chunks_per_shard = tuple(chunks_per_shard)

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        at = join(path, "configuration")
        for member in sorted(configuration.keys() - {"type", "chunks_per_shard"}):
            refuse(join(at, member), "is not a member of this configuration; allowed: type, chunks_per_shard")
        if configuration.get("type", "indexed") != "indexed":
            refuse(join(at, "type"), f'found {describe(configuration["type"])}, must be "indexed"')
        if "chunks_per_shard" not in configuration:
            refuse(join(at, "chunks_per_shard"), "is missing")
        return cls(configuration["chunks_per_shard"])

    def configuration(self) -> dict[str, Any]:
        return {"type": "indexed", "chunks_per_shard": list(self.chunks_per_shard)}

    def wrap(self, store: Store, path: str, metadata: ArrayMetadata) -> Store:
        if len(self.chunks_per_shard) != len(metadata.shape):
            raise StoreError(
                f"/{path}: chunks_per_shard has {len(self.chunks_per_shard)} numbers, the array {len(metadata.shape)} "
                "dimensions; there must be one for each"
            )
        keys = chunk_keys_from_extension(metadata.chunk_key_encoding)
        return ShardingStore(store, f"{path}/" if path else "", keys, self.chunks_per_shard)


register_transformer(Sharding)
