"""Documents and layouts that were understood before: an array that is opened again costs no second understanding.

What it does not do: skip a look. A document is read whenever an array is opened; what is remembered is what its very
bytes mean, under the same options and with the same codecs and data types registered.

Sixty-four of each are kept, of documents up to 64 KiB. Nothing that a caller may change is shared: attributes and
unknown members are copied.
"""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import replace
from typing import Any, Generic, TypeVar

from terrazzo.codecs import registry as codecs
from terrazzo.layout import Layout
from terrazzo.metadata import ArrayMetadata, GroupMetadata, parse_node
from terrazzo.metadata.data_types import registry as data_types
from terrazzo.options import Options

__all__ = ["layout_from", "node_from"]

Node = ArrayMetadata | GroupMetadata
T = TypeVar("T")

KEPT = 64
LARGEST_NBYTES = 64 << 10


class _Recent(Generic[T]):
    """The last few answers by what was asked; safe to use from many threads."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, asked: Hashable) -> T | None:
        with self._lock:
            found = self._known.get(asked)
            if found is not None:
                self._known.move_to_end(asked)
            return found

    def put(self, asked: Hashable, found: T) -> None:
        with self._lock:
            self._known[asked] = found
            if len(self._known) > KEPT:
                self._known.popitem(last=False)


_nodes: _Recent[ArrayMetadata] = _Recent()
#: with the document that a layout was made from: its parts must live as long as their identities stand for them
_layouts: _Recent[tuple[ArrayMetadata, Layout]] = _Recent()


def node_from(content: bytes, key: str, options: Options) -> Node:
    """`parse_node`; of an array's document that was read before, what it meant then."""
    if not options.strict or len(content) > LARGEST_NBYTES:  # what is not strict warns
        return parse_node(content, key, options)
    asked = content, key, options, data_types.registered()
    known = _nodes.get(asked)
    if known is None:
        node = parse_node(content, key, options)
        if not isinstance(node, ArrayMetadata):
            return node
        _nodes.put(asked, node)
        known = node
    return replace(known, attributes=copy.deepcopy(known.attributes), extra=copy.deepcopy(known.extra))


def layout_from(document: ArrayMetadata, path: str, options: Options) -> Layout:
    """`Layout.build`; of the parts of a document that a layout was built from before, that one."""
    if not options.strict or document.chunk_grid.name != "regular":
        return Layout.build(document, path, options)
    parts: tuple[Any, ...] = (
        *(document.data_type, document.chunk_grid, document.chunk_key_encoding, document.fill_value),
        *document.codecs,
    )
    asked = document.shape, tuple(map(id, parts)), path, options, codecs.registered()
    known = _layouts.get(asked)
    if known is None:
        known = document, Layout.build(document, path, options)
        _layouts.put(asked, known)
    return known[1]
