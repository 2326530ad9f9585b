"""Objects over a network: what is asked of each, and its chunks decoded as soon as they are there.

What it does not do: fetch ranges of what was opened (decode.py), or read where a request costs nothing (locate.py).

Where answers bring their chunks along (chunks of a plain array, shards that are read whole), these are decoded while
other answers are on their way, and let go. All else waits for the last answer, so that what has to be fetched is asked
for together.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any

import numpy as np

from terrazzo.index import IndexCache, ShardIndex, first_range, parse
from terrazzo.layout import Layout
from terrazzo.options import Options
from terrazzo.read.decode import Job, Some, decode_held, let_go
from terrazzo.read.locate import Objects, Part, counts_of, rows_in, size_of
from terrazzo.read.looks import Wanted, looks
from terrazzo.stores.arrivals import Arrivals
from terrazzo.stores.emulation import clip
from terrazzo.stores.flow import Arriving, Opening
from terrazzo.stores.store import ALL, Cost, Open, Source, Tag

__all__ = ["open_far"]

Array = np.ndarray[Any, Any]


def open_far(
    layout: Layout,
    batch: Sequence[Part],
    outers: Array,
    options: Options,
    cache: IndexCache,
    cost: Cost,
    seen: list[Tag | None],
    *,
    attempt: int,
    fetched: bool,
    parts: bool,
) -> Generator[Any, Any, tuple[Objects, Sequence[Part]]]:
    """Open the objects with these grid indices in one batch; the objects, and what of the batch is left to decode.

    attempt: nothing is remembered from the second one on. seen: takes the version of each, also where its index turns
    out to be wrong. fetched: no chunk comes from a cache. parts: some plain chunk may be read in part.
    """
    opening = _Opening(layout, batch, outers, options, cache, cost, attempt, fetched, parts)
    objects = opening.objects
    # A second look takes its time: it is to tell what is the matter. So does a read that has to tell first what is
    # missing, or that may need less than whole chunks.
    objects.hurried = attempt == 0
    hurried = attempt == 0 and fetched and options.missing == "fill" and not layout.chain.partial
    try:
        if hurried and len(outers) > 1 and any(opening.whole):
            batch = yield from _decode_as_they_come(layout, batch, opening, options)
        else:
            opening.take(enumerate((yield Opening(opening.requests))))
        if opening.longer:
            # longer than it had to be, since much of it is dead: opened again, for its index
            again = opening.ask_again()
            opening.take(zip(opening.longer, (yield Opening(again)), strict=True))
    except BaseException:
        objects.close()
        raise
    finally:
        seen += opening.tags
    return objects, batch


def _decode_as_they_come(
    layout: Layout, batch: Sequence[Part], opening: _Opening, options: Options
) -> Generator[Any, Any, Sequence[Part]]:
    """Decode what comes whole; what is left of the batch."""
    objects = opening.objects
    waiting = np.ones(len(objects.sources), np.bool_)
    arrivals = Arrivals("open", opening.requests)
    try:
        while arrivals.left:
            held = opening.take([(k, source) for k, source, _ in (yield Arriving(arrivals))])
            if not held:
                continue
            here = np.zeros(len(waiting), np.bool_)
            here[held] = True
            waiting &= ~here
            handles = [
                b"" if source is None or source.handle is None else source.handle
                for source in objects.sources
            ]
            jobs = [
                Job(window, number, rows_in(layout, window, objects, number), out)
                for window, out, number in _part(batch, here)
            ]
            yield from decode_held(layout, objects, jobs, handles, options)
            let_go([objects.sources[k] for k in held])
    finally:
        arrivals.close()
    return _part(batch, waiting)


def _part(batch: Sequence[Part], objects: Array) -> list[Part]:
    """The rows of these objects."""
    found: list[Part] = []
    for window, out, number in batch:
        picked = np.flatnonzero(objects[number])
        if len(picked) == len(number):
            found.append((window, out, number))
        elif len(picked):
            found.append((Some(window, picked), out, number[picked]))
    return found


class _Opening:
    """What is asked of each object, and what its answer tells.

    whole: those whose answer is all of them. longer: of those, which had more bytes than they were asked for.
    """

    def __init__(
        self,
        layout: Layout,
        batch: Sequence[Part],
        outers: Array,
        options: Options,
        cache: IndexCache,
        cost: Cost,
        attempt: int,
        fetched: bool,
        parts: bool,
    ) -> None:
        names, counts = layout.chunk_keys(outers), counts_of(layout, outers)
        n = len(names)
        self.tags: list[Tag | None] = [None] * n
        self.longer: list[int] = []
        self._layout, self._options, self._cache = layout, options, cache
        if layout.sharding is None:
            self.objects = Objects(outers, names, counts, [None] * n, [], cost)
            self.whole = [not parts] * n
            self.requests = [Open(name, None if parts else ALL, or_handle=True) for name in names]
            return
        self.objects = Objects(outers, names, counts, [None] * n, [None] * n, cost)
        number = np.concatenate([number for _, _, number in batch])
        inner = np.concatenate([window.inner for window, _, _ in batch])
        wanted = Wanted.of(number, inner, n, fetched)
        # Held here until they are used: another thread may change or drop what the cache has of a key meanwhile.
        self._remembered: list[ShardIndex | None] = [None if attempt else cache.get(name) for name in names]
        self.requests, self.whole = looks(
            layout, names, counts, self._remembered, options, cost, wanted, attempt
        )

    def take(self, answers: Iterable[tuple[int, Source | None]]) -> list[int]:
        """Keep what was opened, by number; the numbers of those whose chunks came along."""
        held = []
        for k, source in answers:
            self.objects.sources[k] = source
            self.tags[k] = None if source is None else source.tag
            if self._layout.sharding is not None:
                self._read_index(k, source)
            elif source is not None and source.handle is None and self.whole[k]:
                source.handle, source.size = source.first, size_of(source)
            if source is not None and source.handle is not None:
                held.append(k)
        return held

    def ask_again(self) -> list[Open]:
        """For the indexes of those that are longer."""
        sharding, objects = self._layout.sharding, self.objects
        assert sharding is not None
        for k in self.longer:
            self.whole[k] = False
        return [Open(objects.names[k], first_range(sharding, objects.counts[k])) for k in self.longer]

    def _read_index(self, k: int, source: Source | None) -> None:
        name, count = self.objects.names[k], self.objects.counts[k]
        if source is None:
            self._cache.drop(name)
            return
        shard = self._cut(k, source) if self.whole[k] else None
        if self.whole[k] and shard is None:
            self.longer.append(k)
            source.close()
            return
        index = self._remembered[k] if source.first is None else None
        if index is None:
            index = parse(self._layout, name, count, source, self._options.strict)
            self._cache.put(name, index)
        self.objects.entries[k] = index.entries
        if shard is not None:
            source.handle = shard

    def _cut(self, k: int, source: Source) -> Any:
        """The shard, where it was read whole; what was read first of it becomes the index alone."""
        asked, shard = self.requests[k].first, source.first
        assert asked is not None and asked[1] is not None and shard is not None
        assert self._layout.sharding is not None
        nbytes = memoryview(shard).nbytes
        if source.size is None and nbytes < asked[1]:
            source.size = nbytes
        if source.size != nbytes:
            return None
        source.first = clip(shard, *first_range(self._layout.sharding, self.objects.counts[k]))
        return shard
