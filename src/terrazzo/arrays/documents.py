"""Documents in a store: read one, create one, change one without losing another writer's change.

What it does not do: say what a document means (metadata), or where nodes are (groups).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from terrazzo.errors import ConflictError, LimitError, NodeNotFoundError
from terrazzo.metadata import ArrayMetadata, GroupMetadata, parse_node
from terrazzo.options import Options
from terrazzo.stores.store import Erase, Open, Put, Store

__all__ = ["change_document", "document_key", "erase_document", "read_document", "write_document"]

Node = ArrayMetadata | GroupMetadata
T = TypeVar("T", ArrayMetadata, GroupMetadata)

#: looks at a document that others keep changing, before giving up
TRIES = 20


def document_key(path: str) -> str:
    """The key of a node's document: Zarr core 3.0, "Metadata"."""
    return f"{path}/zarr.json" if path else "zarr.json"


def read_document(store: Store, path: str, options: Options) -> Node | None:
    """The node at `path`, or None where there is no document."""
    key = document_key(path)
    (source,) = store.open([Open(key, (0, options.limits.metadata_nbytes + 1))])
    if source is None:
        return None
    with source:
        content = source.first
        assert content is not None
        if memoryview(content).nbytes > options.limits.metadata_nbytes:
            raise LimitError(
                f"{key}: more than {options.limits.metadata_nbytes:,} bytes "
                "(limits.metadata_nbytes in the configuration)"
            )
        return parse_node(bytes(content), key, limits=options.limits, strict=options.strict)


def write_document(store: Store, path: str, node: Node, options: Options) -> None:
    """Put the document of `node`, whole."""
    with store.hold(document_key(path)) as hold:
        sink = store.sink(hold)
        try:
            sink.write(0, node.to_bytes())
            store.commit([Put(hold, sink)], options.durability)
        finally:
            sink.discard()


def change_document(store: Store, path: str, kind: type[T], change: Callable[[T], T], options: Options) -> T:
    """Replace the document of the node at `path` by what `change` makes of it as it is now; answers the new one."""
    key = document_key(path)
    for attempt in range(TRIES):
        try:
            with store.hold(key, (0, options.limits.metadata_nbytes)) as hold:
                if hold.source is None:
                    raise NodeNotFoundError(f"there is no {key!r} any more: the node was deleted")
                node = parse_node(bytes(hold.source.first or b""), key, limits=options.limits, strict=options.strict)
                if not isinstance(node, kind):
                    raise NodeNotFoundError(f"{key!r} no longer describes the node that was opened")
                changed = change(node)
                sink = store.sink(hold)
                try:
                    sink.write(0, changed.to_bytes())
                    store.commit([Put(hold, sink)], options.durability)
                finally:
                    sink.discard()
                return changed
        except ConflictError:
            if attempt == TRIES - 1:
                raise
    raise AssertionError("unreachable")


def erase_document(store: Store, path: str, options: Options) -> None:
    """Take the document away; absence is no error."""
    with store.hold(document_key(path)) as hold:
        store.commit([Erase(hold)], options.durability)
