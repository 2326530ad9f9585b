"""A cache of decoded chunks, within a byte budget; off unless `options.chunk_cache_nbytes` says otherwise.

What it does not do: decide what to read. A chunk is remembered with the version of the object it came from, so that a
changed object is never answered from here.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import numpy as np

from terrazzo.stores.store import Tag

__all__ = ["ChunkCache"]

Array = np.ndarray[Any, Any]
Name = tuple[str, int]


class ChunkCache:
    """Decoded chunks by (key of the object, number of the inner chunk), least recently used out first."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._held = 0
        self._known: OrderedDict[Name, tuple[Tag, Array]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: Name, tag: Tag) -> Array | None:
        """The chunk as it is in that version of the object."""
        with self._lock:
            found = self._known.get(name)
            if found is None or found[0] != tag:
                return None
            self._known.move_to_end(name)
            return found[1]

    def put(self, name: Name, tag: Tag, chunk: Array) -> None:
        with self._lock:
            old = self._known.pop(name, None)
            if old is not None:
                self._held -= old[1].nbytes
            self._known[name] = (tag, chunk)
            self._held += chunk.nbytes
            while self._held > self.nbytes:
                _, (_, out) = self._known.popitem(last=False)
                self._held -= out.nbytes

    def clear(self) -> None:
        with self._lock:
            self._known.clear()
            self._held = 0

    def __len__(self) -> int:
        return len(self._known)

    def __reduce__(self) -> tuple[Any, ...]:
        return ChunkCache, (self.nbytes,)  # a copy in another process starts empty
