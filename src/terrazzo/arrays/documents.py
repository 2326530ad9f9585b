"""Documents in a store: read one, create one, change one without losing another writer's change.

What it does not do: say what a document means (metadata), or where nodes are (groups).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from terrazzo.arrays.remembered import node_from
from terrazzo.dialects import dialect_of
from terrazzo.errors import ConflictError, HeldError, LimitError, NodeNotFoundError
from terrazzo.metadata import ArrayMetadata, GroupMetadata
from terrazzo.options import Options
from terrazzo.stores.flow import watched
from terrazzo.stores.store import Erase, Hold, Open, Put, Store

__all__ = [
    "alone_at_the_end",
    "change_document",
    "create_document",
    "document_key",
    "erase_document",
    "is_busy_at_the_end",
    "node_from_content",
    "read_contents",
    "read_document",
    "write_document",
]

Node = ArrayMetadata | GroupMetadata
T = TypeVar("T", ArrayMetadata, GroupMetadata)

#: looks at a document that others keep changing, before giving up
TRIES = 64
#: seconds of the longest pause between two of them
LONGEST_PAUSE = 1.0


def document_key(path: str) -> str:
    """The key of a node's document: Zarr core 3.0, "Metadata"."""
    return f"{path}/zarr.json" if path else "zarr.json"


def read_document(store: Store, path: str, options: Options) -> Node | None:
    """The node at `path`, or None where there is no document."""
    (content,) = read_contents(store, [path], options)
    return None if content is None else node_from_content(store, path, content, options)


def node_from_content(store: Store, path: str, content: bytes, options: Options) -> Node:
    """The node that a document describes, with the dialect that its store keeps it in."""
    node = node_from(content, document_key(path), options)
    view = dialect_of(store)
    return node if view is None else replace(node, dialect=view.dialect)


def read_contents(store: Store, paths: Sequence[str], options: Options) -> list[bytes | None]:
    """The bytes of the documents at many paths in one round, None where there is none; LimitError where too large."""
    limit = options.limits.metadata_nbytes
    sources = watched(store).open([Open(document_key(path), (0, limit + 1)) for path in paths])
    contents: list[bytes | None] = []
    try:
        for path, source in zip(paths, sources, strict=True):
            first = None if source is None else source.first
            if first is not None and memoryview(first).nbytes > limit:
                raise LimitError(
                    f"{document_key(path)}: more than {limit:,} bytes (limits.metadata_nbytes in the configuration)"
                )
            contents.append(None if first is None else bytes(first))
    finally:
        for source in sources:
            if source is not None:
                source.close()
    return contents


def create_document(store: Store, path: str, node: Node, options: Options) -> None:
    """Put the document of `node` where there is none; ConflictError where there is one, whoever put it there."""
    key = document_key(path)
    store = watched(store)
    if store.exclusion == "versions":  # the write itself is refused where something is
        store.set_if(key, node.to_bytes(), None)
        return
    with store.hold(key) as hold:
        if hold.source is not None:
            raise ConflictError(f"{key!r} is there already; nothing was written")
        _commit(store, hold, node, options)


def write_document(store: Store, path: str, node: Node, options: Options) -> None:
    """Put the document of `node`, whole."""
    store = watched(store)
    with store.hold(document_key(path)) as hold:
        _commit(store, hold, node, options)


def change_document(store: Store, path: str, kind: type[T], change: Callable[[T], T], options: Options) -> T:
    """Replace the document of the node at `path` by what `change` makes of it as it is now; answers the new one."""
    key, asked = document_key(path), watched(store)
    for attempt in range(TRIES):
        try:
            with asked.hold(key, (0, options.limits.metadata_nbytes)) as hold:
                if hold.source is None:
                    raise NodeNotFoundError(f"there is no {key!r} any more: the node was deleted")
                node = node_from_content(store, path, bytes(hold.source.first or b""), options)
                if not isinstance(node, kind):
                    raise NodeNotFoundError(f"{key!r} no longer describes the node that was opened")
                changed = change(node)
                _commit(asked, hold, changed, options)
                return changed
        except ConflictError:
            if attempt == TRIES - 1:
                raise
            import random  # not before somebody needs it

            most = min(LONGEST_PAUSE, max(0.001, store.cost.latency) * 2 ** min(attempt, 20))
            time.sleep(random.random() * most)
    raise AssertionError("unreachable")


@contextmanager
def alone_at_the_end(store: Store, path: str) -> Iterator[None]:
    """Keep all others who append to the array, or merge its chunks, out of the block.

    Where holds are no locks, this is so within this process; others are told by the versions of the document.
    """
    with store.hold(_end_key(path), blind=True):
        yield


def _end_key(path: str) -> str:
    return f"{path}/__append" if path else "__append"


def is_busy_at_the_end(store: Store, path: str) -> bool:
    """Whether somebody is alone at the end of the array now; False where holds are no locks. Waits for nobody."""
    if store.exclusion == "versions":
        return False
    try:
        with store.hold(_end_key(path), timeout=0.0, blind=True):
            return False
    except HeldError:
        return True


def erase_document(store: Store, path: str, options: Options) -> None:
    """Take the document away; absence is no error."""
    store = watched(store)
    with store.hold(document_key(path), blind=store.exclusion != "locks") as hold:
        store.commit([Erase(hold)], options.durability)


def _commit(store: Store, hold: Hold, node: Node, options: Options) -> None:
    sink = store.sink(hold)
    try:
        sink.write(0, node.to_bytes())
        store.commit([Put(hold, sink)], options.durability)
    finally:
        sink.discard()
