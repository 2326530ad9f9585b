"""Every verb of a store out of the ones it brings: whole values from partial ones, listings from one another, and
the flows' verbs from the specification's.

What it does not do: choose for a store that brings a verb itself. Nothing here calls a verb that the store does not
bring, so that no two emulations can call one another for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from terrazzo.errors import ConflictError, StoreError, UnsupportedError
from terrazzo.stores.contract import (
    ALL,
    Buffer,
    Change,
    Open,
    Patch,
    Put,
    Range,
    Sink,
    Source,
    Tag,
)
from terrazzo.stores.exclusion import take_turn
from terrazzo.stores.holds import check_held, spend
from terrazzo.stores.keys import check_key, check_range

if TYPE_CHECKING:
    from terrazzo.stores.store import Store

__all__ = ["BufferSink", "RangeTag", "clip", "content_tag", "exact", "sink_value", "window"]


def clip(value: Buffer, start: int, length: int | None) -> memoryview:
    """The bytes of a range of `value`, clipped like a slice."""
    view = memoryview(value).cast("B")
    begin, end = window(start, length, len(view))
    return view[begin:end]


def window(start: int, length: int | None, size: int) -> tuple[int, int]:
    """The (begin, end) that a range means in an object of `size` bytes."""
    if start < 0:
        return max(0, size + start), size
    begin = min(start, size)
    return begin, size if length is None else min(size, begin + length)


def content_tag(value: Buffer) -> Tag:
    """A tag for stores without versions: equal contents are equal versions."""
    import hashlib  # loads a library of its own

    return hashlib.blake2b(value, digest_size=16).digest()


def exact(part: Buffer | None, key: str, start: int, length: int) -> Buffer:
    """`part`, if it is what was asked for."""
    found = 0 if part is None else memoryview(part).nbytes
    if part is None or found != length:
        raise StoreError(
            f"{key!r}: bytes {start} to {start + length} were asked for, {found} of {length} are there; "
            "the object is shorter than what refers to it says"
        )
    return part


# -- reading ----------------------------------------------------------------------------------------------------------


def get(store: Store, key: str) -> bytes | None:
    if "get_partial_values" in store._own:
        return store.get_partial_values([(key, ALL)])[0]
    raise _cannot(store, "be read: its class brings neither `get` nor `get_partial_values`")


def get_partial_values(store: Store, requests: Iterable[tuple[str, Range]]) -> list[bytes | None]:
    if "get" not in store._own:
        raise _cannot(store, "be read: its class brings neither `get` nor `get_partial_values`")
    whole: dict[str, bytes | None] = {}
    answers: list[bytes | None] = []
    for key, asked in requests:
        if key not in whole:
            whole[key] = store.get(key)
        value = whole[key]
        if value is None or asked == ALL:
            answers.append(value)
        else:
            answers.append(bytes(clip(value, *asked)))
    return answers


def exists(store: Store, key: str) -> bool:
    if "getsize" in store._own:
        return store.getsize(key) is not None
    if "get_partial_values" in store._own:
        return store.get_partial_values([(key, (0, 1))])[0] is not None
    return get_whole(store, key) is not None


def getsize(store: Store, key: str) -> int | None:
    value = get_whole(store, key)
    return None if value is None else memoryview(value).nbytes


def tag(store: Store, key: str) -> Tag | None:
    value = get_whole(store, key)
    return None if value is None else content_tag(value)


def get_whole(store: Store, key: str) -> bytes | None:
    """The value by whichever verb the store brings."""
    return store.get(key) if "get" in store._own else get(store, key)


def open(store: Store, requests: Sequence[Open]) -> list[Source | None]:
    for request in requests:
        check_key(request.key)
        if request.first is not None:
            check_range(request.key, request.first)
    if "get_partial_values" not in store._own:
        return [_open_whole(store, request) for request in requests]
    if "getsize" in store._own or all(request.first == ALL for request in requests):
        return _open_ranges(store, requests)
    # Without sizes nobody could tell whether an index points past its shard: such a store is read whole.
    return [_open_whole(store, request) for request in requests]


def _open_whole(store: Store, request: Open) -> Source | None:
    """A store of whole values gives the version as a buffer: nothing can change under the reader."""
    key = request.key
    if "tag" in store._own:
        before = store.tag(key)
        for _ in range(8):
            value = store.get(key)
            after = store.tag(key)
            if before == after:
                break
            before = after
        else:
            raise ConflictError(f"{key!r} changed 8 times while it was being read; try again")
        version = after
    else:
        value = get_whole(store, key)
        version = None if value is None else content_tag(value)
    if value is None or version is None:
        return None
    first = None
    if request.first is not None and version != request.known:
        first = clip(value, *request.first)
    return Source(key, memoryview(value).nbytes, version, handle=value, first=first)


class RangeTag:
    """The version of an object in a store without versions and of unknown size: the bytes that were read first.

    Weaker than a version: a change that leaves these bytes as they are goes unseen. They are the index of a shard,
    which tells most changes.
    """

    __slots__ = ("digest", "first")

    def __init__(self, first: Range, value: Buffer) -> None:
        self.first = first
        self.digest = content_tag(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RangeTag) and (self.first, self.digest) == (other.first, other.digest)

    def __hash__(self) -> int:
        return hash((self.first, self.digest))


def _open_ranges(store: Store, requests: Sequence[Open]) -> list[Source | None]:
    versions: list[Tag | None] = [None] * len(requests)
    wanted = [_wanted(request) for request in requests]
    tagged = "tag" in store._own
    if tagged:
        versions = [store.tag(request.key) for request in requests]
        ask = [
            i for i, version in enumerate(versions) if version is not None and version != requests[i].known
        ]
        ask = [i for i in ask if requests[i].first is not None]
    else:
        ask = list(range(len(requests)))
    parts = store.get_partial_values([(requests[i].key, wanted[i]) for i in ask]) if ask else []
    found = dict(zip(ask, parts, strict=True))
    sources: list[Source | None] = []
    for i, request in enumerate(requests):
        part = found.get(i)
        version = versions[i] if tagged else (None if part is None else RangeTag(wanted[i], part))
        if version is None or (tagged and i in found and part is None):
            sources.append(None)
            continue
        known = request.first is None or version == request.known
        source = Source(request.key, None, version, first=None if known else part)
        if part is not None and request.first is not None:
            source.size = _size_told(request.first, memoryview(part).nbytes)
            if request.first == ALL:
                source.handle = part
        if source.size is None:
            source.size = store.getsize(request.key)
        sources.append(source)
    if tagged:
        for i in ask:
            if store.tag(requests[i].key) != versions[i]:
                sources[i] = _open_ranges(store, [requests[i]])[0]
    return sources


def _wanted(request: Open) -> Range:
    """What to read of an object first; where it is only to be told whether it changed, what told its version before."""
    known = request.known
    return request.first or (known.first if isinstance(known, RangeTag) else (0, 1))


def _size_told(asked: Range, nbytes: int) -> int | None:
    """The size of the object, where the length of an answer to a range tells it."""
    start, length = asked
    if start < 0:
        return nbytes if nbytes < -start else None
    if nbytes and (length is None or nbytes < length):
        return start + nbytes
    return nbytes if start == 0 and length is None else None


def fetch(store: Store, requests: Sequence[tuple[Source, Sequence[tuple[int, int]]]]) -> list[list[Buffer]]:
    answers: list[list[Buffer]] = []
    ask: list[tuple[str, Range]] = []
    places: list[tuple[int, int, int, int]] = []
    pinned: dict[int, Source] = {}
    for i, (source, ranges) in enumerate(requests):
        parts: list[Buffer] = [b""] * len(ranges)
        for j, (start, length) in enumerate(ranges):
            if start < 0 or length < 0:
                raise StoreError(
                    f"{source.key!r}: range ({start}, {length}) is refused: neither may be negative"
                )
            if source.handle is not None:
                parts[j] = exact(clip(source.handle, start, length), source.key, start, length)
            elif length:
                pinned.setdefault(id(source), source)
                ask.append((source.key, (start, length)))
                places.append((i, j, start, length))
        answers.append(parts)
    if not ask:
        return answers
    by_content = [source for source in pinned.values() if isinstance(source.tag, RangeTag)]
    checks = [(source.key, source.tag.first) for source in by_content if isinstance(source.tag, RangeTag)]
    parts = list(store.get_partial_values(ask + checks))
    for source, part in zip(by_content, parts[len(ask) :], strict=True):
        if part is None or RangeTag(source.tag.first, part) != source.tag:  # type: ignore[attr-defined]
            raise _changed(source.key)
    for source in pinned.values():
        if not isinstance(source.tag, RangeTag) and store.tag(source.key) != source.tag:
            raise _changed(source.key)
    for (i, j, start, length), part in zip(places, parts, strict=False):
        answers[i][j] = exact(part, requests[i][0].key, start, length)
    return answers


def _changed(key: str) -> ConflictError:
    return ConflictError(f"{key!r} is another version now than the one that was opened; open it again")


# -- writing ----------------------------------------------------------------------------------------------------------


def set(store: Store, key: str, value: Buffer) -> None:
    if "set_partial_values" not in store._own:
        raise _cannot(store, "be written to: its class brings neither `set` nor `set_partial_values`")
    nbytes = memoryview(value).nbytes
    if {"erase", "erase_values"} & store._own:
        store.erase(key)  # partial writes never shorten a value
    elif (store.getsize(key) or 0) > nbytes:
        raise _cannot(store, f"shorten {key!r}: it brings neither `set` nor `erase`")
    store.set_partial_values([(key, 0, value)])


def set_partial_values(store: Store, writes: Iterable[tuple[str, int, Buffer]]) -> None:
    if "set" not in store._own:
        raise _cannot(store, "be written to: its class brings neither `set` nor `set_partial_values`")
    by_key: dict[str, list[tuple[int, Buffer]]] = {}
    for key, start, value in writes:
        by_key.setdefault(key, []).append((start, value))
    for key, pieces in by_key.items():
        with store.hold(key, ALL) as hold:
            old = b"" if hold.source is None else hold.source.first
            sink = store.sink(hold)
            sink.write(0, patched(old, pieces))
            store.commit([Put(hold, sink)])


def patched(old: Buffer, pieces: Iterable[tuple[int, Buffer]]) -> bytearray:
    """`old` with every piece written at its start; gaps are zeros."""
    value = bytearray(old)
    for start, piece in pieces:
        view = memoryview(piece).cast("B")
        if start + len(view) > len(value):
            value.extend(bytes(start + len(view) - len(value)))
        value[start : start + len(view)] = view
    return value


def set_if(store: Store, key: str, value: Buffer, tag: Tag | None) -> None:
    turn = take_turn(store.identity, key, None)
    try:
        if store.tag(key) != tag:
            raise ConflictError(f"{key!r} is not the version that was asked for; nothing was written")
        store.set(key, value)
    finally:
        turn.end()


def erase(store: Store, key: str) -> None:
    if "erase_values" not in store._own:
        raise _cannot(store, "erase: its class brings neither `erase` nor `erase_values`")
    store.erase_values([key])


def erase_values(store: Store, keys: Iterable[str]) -> None:
    if "erase" not in store._own:
        raise _cannot(store, "erase: its class brings neither `erase` nor `erase_values`")
    for key in keys:
        store.erase(key)


def erase_prefix(store: Store, prefix: str) -> None:
    store.erase_values(list(store.list_prefix(prefix)))


class BufferSink(Sink):
    """A new object in memory; pieces are kept as they were given until they are put together."""

    def __init__(self) -> None:
        self._pieces: list[tuple[int, Buffer]] | None = []

    @property
    def nbytes(self) -> int:
        return max((start + memoryview(piece).nbytes for start, piece in self._pieces or ()), default=0)

    def write(self, position: int, buffer: Buffer) -> None:
        if self._pieces is None:
            raise StoreError("this new object was given up or stored already; ask the store for another sink")
        if position < 0:
            raise StoreError(f"a position is not negative: {position}")
        self._pieces.append((position, buffer))

    def value(self) -> bytes:
        pieces = self._pieces
        if pieces is None:
            raise StoreError("this new object was given up or stored already; ask the store for another sink")
        if len(pieces) == 1 and pieces[0][0] == 0:
            piece = pieces[0][1]
            return piece if type(piece) is bytes else bytes(memoryview(piece).cast("B"))
        pieces.sort(key=lambda piece: piece[0])
        return bytes(patched(b"", pieces))

    def discard(self) -> None:
        self._pieces = None


def commit(store: Store, changes: Sequence[Change]) -> list[Tag | None]:
    if not {"set", "set_partial_values"} & store._own:
        raise _cannot(store, "be written to: its class brings neither `set` nor `set_partial_values`")
    for change in changes:
        check_held(change.hold)
        if isinstance(change, Patch):
            raise _cannot(store, "change an object in place; replace it")
    done: list[str] = []
    for change in changes:
        key, source = change.hold.key, change.hold.source
        try:
            if isinstance(change, Put):
                value = sink_value(change.sink)
                if "set_if" in store._own and not change.hold.blind:
                    store.set_if(key, value, None if source is None else source.tag)
                else:
                    store.set(key, value)
                change.sink.discard()
            else:
                store.erase(key)
        except (StoreError, OSError) as error:
            raise partly(error, key, done) from error
        done.append(key)
        spend(change.hold)
    return [None] * len(changes)


def sink_value(sink: Sink) -> bytes:
    if not isinstance(sink, BufferSink):
        raise StoreError(f"a sink of this store is needed, not a {type(sink).__name__}")
    return sink.value()


def partly(error: Exception, key: str, done: Sequence[str]) -> Exception:
    """`error`, telling which of the changes of one commit had happened before it."""
    if not done:
        return error
    shown = ", ".join(map(repr, done[:5])) + (f" and {len(done) - 5} more" if len(done) > 5 else "")
    kind = type(error) if isinstance(error, StoreError) else StoreError
    told = kind(f"{key!r}: {error}; already stored in the same call: {shown}")
    told.errno = getattr(error, "errno", None)
    return told


# -- listing ----------------------------------------------------------------------------------------------------------


def list_all(store: Store) -> Iterator[str]:
    if "list_prefix" in store._own:
        return store.list_prefix("")
    if "list_dir" in store._own:
        return _walk(store, "")
    raise _cannot(store, "be listed: its class brings none of `list`, `list_prefix` and `list_dir`")


def list_prefix(store: Store, prefix: str) -> Iterator[str]:
    if "list_dir" in store._own:
        return _walk(store, prefix)
    if "list" in store._own:
        return (key for key in store.list() if key.startswith(prefix))
    raise _cannot(store, "be listed: its class brings none of `list`, `list_prefix` and `list_dir`")


def list_dir(store: Store, prefix: str) -> tuple[list[str], list[str]]:
    below = store.list_prefix(prefix) if "list_prefix" in store._own else None
    if below is None:
        if "list" not in store._own:
            raise _cannot(store, "be listed: its class brings none of `list`, `list_prefix` and `list_dir`")
        below = (key for key in store.list() if key.startswith(prefix))
    keys: list[str] = []
    prefixes: dict[str, None] = {}
    for key in below:
        name, slash, _ = key[len(prefix) :].partition("/")
        if slash:
            prefixes[f"{prefix}{name}/"] = None
        else:
            keys.append(key)
    return sorted(keys), sorted(prefixes)


def _walk(store: Store, prefix: str) -> Iterator[str]:
    ahead = [prefix]
    while ahead:
        keys, prefixes = store.list_dir(ahead.pop())
        yield from keys
        ahead.extend(reversed(list(prefixes)))


def _cannot(store: Store, what: str) -> UnsupportedError:
    return UnsupportedError(f"{type(store).__name__} cannot {what}")
