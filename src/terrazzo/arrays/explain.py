"""What a read asks of the store: objects, requests, round trips, and how many of the bytes were needed.

What it does not do: read in another way. The flow and the store are those of any read; what passes between them is
counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from terrazzo.indexing import project_fancy
from terrazzo.read import MAX_ROWS, max_objects, read, size_of
from terrazzo.stores.flow import run
from terrazzo.stores.store import ALL, Store
from terrazzo.stores.watching import CountingStore

if TYPE_CHECKING:
    from terrazzo.arrays.array import Array

__all__ = ["Explained", "Explainer"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Explained:
    """What reads of an array asked for.

    objects, chunks: that the selections touch, and of them those that are stored; chunks are inner ones where there
    are shards. remembered: shards whose index needed no reading. requests: per verb of the store. fetched_nbytes: in
    answers to requests. direct_nbytes: encoded chunks that the kernel took from a file or memory without a request.
    needed_nbytes: of all encoded chunks that were wanted, each once per read; None where an index was not kept.
    """

    objects: int
    stored_objects: int
    chunks: int
    stored_chunks: int
    remembered: int
    requests: dict[str, int]
    round_trips: int
    fetched_nbytes: int
    direct_nbytes: int
    needed_nbytes: int | None


class _Looks(CountingStore):
    """Notes which objects were looked at, and what the looks brought."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.remembered = 0
        self.sizes: dict[str, int] = {}
        self.direct: set[str] = set()

    def ask(self, verb: str, what: Any, call: Callable[[], T]) -> T:
        answer = super().ask(verb, what, call)
        if verb == "open":
            for request, source in zip(what, answer, strict=True):  # type: ignore[call-overload]
                if source is None:
                    continue
                self.remembered += request.known is not None and source.first is None
                if source.handle is not None and (request.first != ALL or source.first is None):
                    self.direct.add(request.key)
                if source.size is not None or source.first is not None:
                    self.sizes[request.key] = size_of(source)
        return answer

    def begin(self, verb: str, requests: Any, arrived: Any = None) -> None:
        """Everything is asked for, so that nobody has what a look brought before it was noted."""


class Explainer:
    """Reads selections of an array, and tells what they asked for so far."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self._looks = _Looks(array.chunk_store)
        self._objects: set[str] = set()
        self._stored: set[str] = set()
        self._chunks = self._stored_chunks = self._direct = 0
        self._needed: int | None = 0

    def read(self, selection: Any) -> np.ndarray[Any, Any]:
        """The values of `array[selection]`."""
        array, store = self.array, self._looks
        projection = project_fancy(selection, array.layout)
        buffer = array.output(projection)
        self._looks.direct.clear()
        self._looks.sizes.clear()
        known = array.index_cache, array.chunk_cache
        run(read(array.layout, projection, buffer, array.options, *known, store.cost), store)
        for window in projection.windows(MAX_ROWS, max_objects(array.layout, array.options, store.cost)):
            for k, name in enumerate(array.layout.chunk_keys(window.outers)):
                self._note(name, np.unique(window.inner[window.shard_number == k]))
        return np.asarray(projection.finish(buffer))

    def _note(self, name: str, inner: np.ndarray[Any, Any]) -> None:
        """Count one object, and the chunks of it that were wanted."""
        self._objects.add(name)
        self._chunks += len(inner)
        index = None if self.array.layout.sharding is None else self.array.index_cache.get(name)
        if index is not None:
            chunks, nbytes = index.stored(inner)
        elif name not in self._looks.sizes:
            return  # nothing is stored there
        elif self.array.layout.sharding is None:
            chunks, nbytes = 1, self._looks.sizes[name]
        else:
            self._needed = None
            return
        self._stored.add(name)
        self._stored_chunks += chunks
        if self._needed is not None:
            self._needed += nbytes
        if name in self._looks.direct:
            self._direct += nbytes

    @property
    def explained(self) -> Explained:
        counts = self._looks.counts
        return Explained(
            objects=len(self._objects),
            stored_objects=len(self._stored),
            chunks=self._chunks,
            stored_chunks=self._stored_chunks,
            remembered=self._looks.remembered,
            requests=dict(counts.requests),
            round_trips=self._looks.round_trips,
            fetched_nbytes=counts.read_nbytes,
            direct_nbytes=self._direct,
            needed_nbytes=self._needed,
        )
