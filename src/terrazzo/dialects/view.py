"""A store over a store that shows a hierarchy of another format as one of Zarr 3: the part that both formats share.

What it does not do: know a format. A view says which keys below hold a node's documents, what they mean, and where a
chunk lies; everything else is here. Requests for chunks are handed on with another key, nothing else: handles, holds,
sinks and versions are those of the store below.

The documents of one node are read in one round and held together; each is written whole, and across them there is no
transaction, as there is none in these formats.
"""

from __future__ import annotations

import builtins
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, ClassVar, Self

from terrazzo.errors import ConflictError, MetadataError
from terrazzo.metadata import node_from_json, read_json, write_json
from terrazzo.metadata.problems import Problems
from terrazzo.options import Durability, Options
from terrazzo.stores.contract import ALL, Buffer, Change, Erase, Hold, Open, Put, Range, Sink, Source, Tag
from terrazzo.stores.emulation import BufferSink, clip, sink_value
from terrazzo.stores.keys import check_key
from terrazzo.stores.store import Store
from terrazzo.stores.wrappers import WrapperStore

__all__ = ["DialectView", "Documents", "Json"]

Json = dict[str, Any]
#: what is stored of one node's documents, by key
Documents = Mapping[str, bytes]


class DialectView(WrapperStore):
    """Zarr 3 as seen through another format."""

    #: as `metadata.dialect` says it
    dialect: ClassVar[str]

    def __init__(self, store: Store, options: Options | None = None) -> None:
        super().__init__(store)
        self.options = options or Options()
        #: documents that were opened when the format was found out: the next look at them takes these
        self.seen: dict[str, Source | None] = {}

    # what a format says

    @abstractmethod
    def place(self, key: str) -> str:
        """Where a chunk lies."""

    @abstractmethod
    def document_keys(self, path: str) -> tuple[str, ...]:
        """The keys that are read to know a node."""

    @abstractmethod
    def held_keys(self, path: str) -> tuple[str, ...]:
        """The keys that are held to change a node, in the order in which they are taken."""

    @abstractmethod
    def translated(self, path: str, documents: Documents) -> tuple[str, Json] | None:
        """The key that errors name, and what Zarr 3 would say; None where there is no node."""

    @abstractmethod
    def implied(self, path: str) -> Json | None:
        """The document of a node that has none stored, where the format has such nodes."""

    @abstractmethod
    def written(self, path: str, document: Json, documents: Documents) -> dict[str, bytes | None]:
        """What becomes of the keys below, in order, for a node to say `document`; None goes."""

    # documents

    def _node(self, path: str, documents: Documents) -> bytes | None:
        found = self.translated(path, documents)
        if found is None:
            implied = self.implied(path)
            return None if implied is None else write_json(implied)
        key, document = found
        node_from_json(document, key, self.options)  # so that errors name what is stored
        return write_json(document, key)

    def parsed(self, key: str, content: bytes) -> Any:
        return read_json(content, key, self.options.limits, strict=self.options.strict)

    def named(self, key: str) -> Problems:
        return Problems()

    def _open_documents(self, requests: Sequence[Open]) -> builtins.list[Source | None]:
        paths = [node_path(request.key) or "" for request in requests]
        keys = [self.document_keys(path) for path in paths]
        sources = self._sources([key for each in keys for key in each])
        found: builtins.list[Source | None] = []
        try:
            place = 0
            for request, path, each in zip(requests, paths, keys, strict=True):
                mine = dict(zip(each, sources[place : place + len(each)], strict=True))
                place += len(each)
                documents = {key: bytes(one.first or b"") for key, one in mine.items() if one is not None}
                content = self._node(path, documents)
                if content is None:
                    found.append(None)
                    continue
                tag = tuple(None if one is None else one.tag for one in mine.values()) or (content,)
                found.append(_source(request, content, tag))
        finally:
            for source in sources:
                if source is not None:
                    source.close()
        return found

    def _sources(self, keys: Sequence[str]) -> builtins.list[Source | None]:
        bound: Range = (0, self.options.limits.metadata_nbytes + 1)
        seen, self.seen = self.seen, {}
        asked = [key for key in keys if key not in seen and not self.needless(key, seen)]
        opened = dict(
            zip(asked, self.store.open([Open(key, bound) for key in asked]) if asked else (), strict=True)
        )
        return [seen[key] if key in seen else opened.get(key) for key in keys]

    def needless(self, key: str, seen: Mapping[str, Source | None]) -> bool:
        """Whether a document tells nothing beside those that were seen."""
        return False

    def _document(self, key: str) -> bytes | None:
        (source,) = self._open_documents([Open(key, ALL)])
        return None if source is None else bytes(source.handle)  # type: ignore[arg-type]

    # the specification's verbs

    def get(self, key: str) -> bytes | None:
        return self._document(key) if node_path(key) is not None else self.store.get(self.place(key))

    def get_partial_values(self, requests: Iterable[tuple[str, Range]]) -> builtins.list[bytes | None]:
        asked = list(requests)
        chunks = iter(
            self.store.get_partial_values(
                [(self.place(key), window) for key, window in asked if node_path(key) is None]
            )
        )
        found: builtins.list[bytes | None] = []
        for key, window in asked:
            if node_path(key) is None:
                found.append(next(chunks))
            else:
                content = self._document(key)
                found.append(None if content is None else bytes(clip(content, *window)))
        return found

    def exists(self, key: str) -> bool:
        return (
            self._document(key) is not None
            if node_path(key) is not None
            else self.store.exists(self.place(key))
        )

    def getsize(self, key: str) -> int | None:
        path = node_path(key)
        if path is None:
            return self.store.getsize(self.place(key))
        sizes = [self.store.getsize(one) for one in self.held_keys(path)]
        return sum(one for one in sizes if one is not None) if any(one is not None for one in sizes) else None

    def tag(self, key: str) -> Tag | None:
        if node_path(key) is None:
            return self.store.tag(self.place(key))
        (source,) = self._open_documents([Open(key, ALL)])
        return None if source is None else source.tag

    def set(self, key: str, value: Buffer) -> None:
        if node_path(key) is None:
            self.store.set(self.place(key), value)
            return
        with self.hold(key) as hold:
            sink = self.sink(hold)
            sink.write(0, value)
            self.commit([Put(hold, sink)])

    def set_partial_values(self, writes: Iterable[tuple[str, int, Buffer]]) -> None:
        self.store.set_partial_values([(self.place(key), start, value) for key, start, value in writes])

    def set_if(self, key: str, value: Buffer, tag: Tag | None) -> None:
        if node_path(key) is None:
            self.store.set_if(self.place(key), value, tag)
            return
        with self.hold(key) as hold:
            if (hold.source is not None) if tag is None else (self.tag(key) != tag):
                raise ConflictError(f"{key!r} is not the version that was asked for; nothing was written")
            sink = self.sink(hold)
            sink.write(0, value)
            self.commit([Put(hold, sink)])

    def erase(self, key: str) -> None:
        path = node_path(key)
        self.store.erase_values([self.place(key)] if path is None else self.held_keys(path))

    def erase_values(self, keys: Iterable[str]) -> None:
        gone: builtins.list[str] = []
        for key in keys:
            path = node_path(key)
            gone += [self.place(key)] if path is None else self.held_keys(path)
        self.store.erase_values(gone)

    def list(self) -> Iterator[str]:
        return self.list_prefix("")

    # what flows ask for

    def open(self, requests: Sequence[Open]) -> builtins.list[Source | None]:
        documents = [request for request in requests if node_path(check_key(request.key)) is not None]
        chunks = [request for request in requests if node_path(request.key) is None]
        # documents first: what is opened below then has no owner yet that an error could forget
        read = iter(self._open_documents(documents) if documents else ())
        opened = iter(
            self.store.open([request._replace(key=self.place(request.key)) for request in chunks])
            if chunks
            else ()
        )
        return [next(opened) if node_path(request.key) is None else next(read) for request in requests]

    def hold(
        self,
        key: str,
        first: Range | None = None,
        *,
        exclusive: bool = True,
        timeout: float | None = None,
        blind: bool = False,
    ) -> Hold:
        path = node_path(check_key(key))
        if path is None:
            return self.store.hold(self.place(key), first, exclusive=exclusive, timeout=timeout, blind=blind)
        bound: Range = (0, self.options.limits.metadata_nbytes + 1)
        with ExitStack() as stack:
            holds = {}
            for one in self.held_keys(path):
                holds[one] = stack.enter_context(self.store.hold(one, bound, timeout=timeout))
            documents = {
                one: bytes(hold.source.first or b"") for one, hold in holds.items() if hold.source is not None
            }
            content = self._node(path, documents)
            source = None
            if content is not None:
                tag = tuple(None if hold.source is None else hold.source.tag for hold in holds.values())
                source = _source(Open(key, first), content, tag)
            return DocumentHold(key, source, path, holds, documents, stack.pop_all())

    def hold_all(
        self,
        keys: Sequence[str],
        firsts: Sequence[Range | None] = (),
        *,
        exclusive: bool = True,
        timeout: float | None = None,
        blind: Sequence[bool] = (),
    ) -> builtins.list[Hold]:
        if any(node_path(check_key(key)) is not None for key in keys):
            return super().hold_all(keys, firsts, exclusive=exclusive, timeout=timeout, blind=blind)
        below = [self.place(key) for key in keys]
        return self.store.hold_all(below, firsts, exclusive=exclusive, timeout=timeout, blind=blind)

    def sink(self, hold: Hold, nbytes_hint: int | None = None) -> Sink:
        return BufferSink() if isinstance(hold, DocumentHold) else self.store.sink(hold, nbytes_hint)

    def commit(
        self, changes: Sequence[Change], durability: Durability = "fsync"
    ) -> builtins.list[Tag | None]:
        below: builtins.list[Change] = []
        counts = []
        after: builtins.list[tuple[str, Json]] = []
        for change in changes:
            before = len(below)
            if isinstance(change.hold, DocumentHold):
                document = None
                if isinstance(change, Put):
                    document = self.parsed(change.hold.key, sink_value(change.sink))
                    after.append((change.hold.path, document))
                below += self._changes(change.hold, document)
            else:
                below.append(change)
            counts.append(len(below) - before)
        tags = iter(self.store.commit(below, durability) if below else ())
        answers: builtins.list[Tag | None] = []
        for change, count in zip(changes, counts, strict=True):
            mine = [next(tags) for _ in range(count)]
            answers.append(None if isinstance(change.hold, DocumentHold) else mine[0])
        for path, document in after:
            self.committed(path, document)
        return answers

    def committed(self, path: str, document: Json) -> None:
        """What follows when a node's documents are stored."""

    def _changes(self, hold: DocumentHold, document: Json | None) -> Iterator[Change]:
        if document is None:
            wanted: dict[str, bytes | None] = dict.fromkeys(hold.documents)
        else:
            try:
                wanted = self.written(hold.path, document, hold.documents)
            except MetadataError as error:
                where = f"{'/' + hold.path} cannot be written in this format"
                raise type(error)(f"{where}: {error}", error.problems) from None
        for key, content in wanted.items():
            present = hold.documents.get(key)
            if content is None:
                if present is not None:
                    yield Erase(hold.holds[key])
            elif content != present:
                sink = self.store.sink(hold.holds[key])
                sink.write(0, content)
                yield Put(hold.holds[key], sink)

    def recover(self, key: str) -> bool:
        path = node_path(check_key(key))
        keys = (self.place(key),) if path is None else self.held_keys(path)
        changed = [self.store.recover(one) for one in keys]  # every one of them, whatever the first says
        return any(changed)

    # manners

    def again(self, store: Store) -> Self:
        """The same view of another face of the store."""
        return type(self)(store, self.options)

    def with_read_only(self, read_only: bool = True) -> Store:
        return self.again(self.store.with_read_only(read_only))

    @property
    def identity(self) -> Hashable:
        return self.dialect, self.store.identity

    def __str__(self) -> str:
        return str(self.store)


class DocumentHold(Hold):
    """The right to change the documents of one node."""

    def __init__(
        self,
        key: str,
        source: Source | None,
        path: str,
        holds: Mapping[str, Hold],
        documents: Documents,
        stack: ExitStack,
    ) -> None:
        super().__init__(key, source)
        self.path = path
        self.holds = holds
        self.documents = documents
        self._stack = stack

    def release(self) -> None:
        self._stack.close()
        super().release()


def node_path(key: str) -> str | None:
    """The path of the node whose document a key of Zarr 3 is."""
    if key == "zarr.json":
        return ""
    return key.removesuffix("/zarr.json") if key.endswith("/zarr.json") else None


def _source(request: Open, content: bytes, tag: Tag) -> Source:
    first = None if request.first is None or request.known == tag else clip(content, *request.first)
    return Source(request.key, len(content), tag, handle=content, first=first)
