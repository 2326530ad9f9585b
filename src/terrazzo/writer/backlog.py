"""The backlog: what a buffered writer was given and has not stored, and how it is stored.

What it does not do: take pieces from a caller, or cut them (shard_writer.py). It drives the write room's flows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from terrazzo.errors import ConflictError
from terrazzo.index import IndexCache
from terrazzo.indexing import project_basic, project_coordinates
from terrazzo.layout import Layout
from terrazzo.options import Options
from terrazzo.stores.flow import run
from terrazzo.stores.store import Store
from terrazzo.strategy import Outcomes, Strategy
from terrazzo.write import Memory, Rows, encode, has_slots, put_encoded, write
from terrazzo.writer.boxes import Box
from terrazzo.writer.cuts import Cuts, Part, Stretch
from terrazzo.writer.end import End, pieces_of
from terrazzo.writer.parts import Filling
from terrazzo.writer.pending import Pending

__all__ = ["Backlog"]

Array = np.ndarray[Any, Any]

#: shards stored in one commit
SHARDS_AT_ONCE = 32
#: a part is encoded in one call: larger ones only use more memory
LARGEST_PART = 8 << 20


class Backlog:
    """What waits for its shard, or for the rest of its chunk."""

    def __init__(
        self,
        layout: Layout,
        store: Store,
        options: Options,
        cache: IndexCache,
        strategy: Strategy,
        axis: int,
        memory: int,
        end: End,
        outcomes: Outcomes | None,
    ) -> None:
        self.axis = axis
        self.memory = memory
        self._store, self._cache, self._strategy = store, cache, strategy
        self._options = replace(options, write_empty_chunks=True) if has_slots(layout, strategy) else options
        self._end, self._outcomes = end, outcomes
        self._cuts = Cuts(layout, self.axis, min(LARGEST_PART, self.memory // 8))
        self._layout = layout
        #: the array's extent in its document; up to where all is stored, and complete; where the next step goes
        self._known = self._base = self._ready = self._position = layout.shape[self.axis]
        #: how far steps that were not stored have moved; whether places past the end were named, so that they stay
        self._shifted = 0
        self._placed = False
        #: blocks that have the end for themselves; whether steps are on their way to where they have moved
        self._depth = 0
        self._moving = False
        #: plain chunks that are complete; parts that are, but for what is stored of them
        self._gathered: list[tuple[Part, Array]] = []
        self._due: list[Part] = []
        self._parts: dict[Part, Filling] = {}
        self._pending: dict[tuple[int, ...], Pending] = {}
        self._closed_shards: set[tuple[int, ...]] = set()
        self._rows: dict[int, int] = {}
        #: parts that had to be stored before they were complete, and their steps that have arrived
        self._early: dict[Part, Array] = {}
        #: rows of shards in which steps past the array's end may be stored
        self._ahead: set[int] = set()
        self._held = 0

    # -- parts in -----------------------------------------------------------------------------------------------------

    def _nbytes_of(self, part: Part) -> int:
        return self._layout.dtype.itemsize * prod(s.stop - s.start for s in part)

    def _stretch(self, at: int) -> Stretch:
        stretch = self._cuts.along(at)
        self._layout = self._cuts.layout
        return stretch

    def _give(self, stretch: Stretch, box: Box, value: Array) -> None:
        """Deliver values of one stretch to its parts."""
        for part in self._cuts.parts(stretch, tuple((b.start, b.stop) for b in box)):
            here = tuple(
                slice(max(s.start, b.start), min(s.stop, b.stop)) for s, b in zip(part, box, strict=True)
            )
            inside = tuple(slice(h.start - b.start, h.stop - b.start) for h, b in zip(here, box, strict=True))
            self._deliver(part, here, value[inside])

    def _deliver(self, part: Part, box: Box, value: Array) -> None:
        known = self._parts.get(part)
        if known is None:
            if all(b.start == s.start and b.stop == s.stop for b, s in zip(box, part, strict=True)):
                # all of it at once: what is encoded now need not be copied
                self._finish(part, value.copy() if self._layout.sharding is None else value)
                return
            known = Filling(part, self.axis, self._layout.fill, self._layout.dtype, self._is_fresh(part))
            self._parts[part] = known
            self._held += known.nbytes
        before = known.nbytes
        known.put(box, value)
        self._held += known.nbytes - before
        if known.complete:
            self._drop(part)
            self._finish(part, known.values)
        elif not known.fresh and part[self.axis].stop > self._base and self._all_arrived(known):
            self._due.append(part)  # what lies before the old end stays as it is stored
        if self._held > self.memory and (self._placed or self._depth) and not self._moving:
            self._make_room()

    def _is_fresh(self, part: Part) -> bool:
        return part[self.axis].start >= self._base and self._is_untouched(part)

    def _is_untouched(self, part: Part) -> bool:
        """Whether this writer has stored or encoded nothing of a part yet."""
        if _outer(part) in self._closed_shards or part in self._early:
            return False
        pending = self._pending.get(_outer(part))
        return pending is None or part not in pending.touched

    def _all_arrived(self, known: Filling) -> bool:
        """Whether every step of a part past the old end of the array has arrived, now or earlier."""
        steps = known.steps | self._early.get(known.part, np.False_)
        return bool(steps[max(0, self._base - known.part[self.axis].start) :].all())

    def _finish(self, part: Part, values: Array) -> None:
        """A part all of whose values are here: encode it for its shard, or store its objects."""
        if self._layout.sharding is None:
            self._gathered.append((part, values))
            self._held += values.nbytes
            self._row_arrived(_outer(part))
            return
        pending = self._pending_of(part)
        box = tuple(slice(s.start, s.stop) for s in part)
        (window,) = project_basic(box, self._layout, for_write=True).windows()
        n = len(window.cell)
        rows = Rows(np.zeros(n, np.int64), window.inner, np.arange(n), cell=window.cell)
        sink = Memory()
        names = self._layout.chunk_keys(window.outers)
        flow = encode(
            self._layout, window, rows, names, [b""], [sink], [pending.count], [0], values, self._options
        )
        entries, _ = run(flow, self._store)
        before = pending.nbytes
        pending.add(part, window.inner, entries, sink.body)
        self._held += pending.nbytes - before

    def _pending_of(self, part: Part) -> Pending:
        outer = _outer(part)
        pending = self._pending.get(outer)
        if pending is None:
            closed = outer in self._closed_shards
            pending = Pending(self._layout, part, self.axis, self._base, closed)
            self._pending[outer] = pending
        return pending

    # -- shards out ---------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Store the shards that are complete, and grow the array over every row of shards that is."""
        if not self._reach():
            return
        with self._alone():
            while reach := min(self._reach(), self._position):
                if self._reserve(reach):
                    self._store_due(reach)

    def _reach(self) -> int:
        """How far along the axis reaches what is to be stored now; 0 where nothing is."""
        found = [part[self.axis].stop for part in self._due if part in self._parts]
        found += [pending.stop for pending in self._complete_shards()]
        if found or sum(values.nbytes for _, values in self._gathered) >= self.memory // 4:
            found += [part[self.axis].stop for part, _ in self._gathered]
        return max(found, default=0)

    def _complete_shards(self) -> list[Pending]:
        return [pending for pending in self._pending.values() if not pending.left and not pending.closed]

    def _store_due(self, reach: int) -> None:
        done = self._complete_shards()  # those that the parts below complete are not reserved yet
        due = [part for part in self._due if part in self._parts]
        waiting = [self._pending.get(_outer(part)) for part in due]
        if any(
            pending is not None and part in pending.touched
            for part, pending in zip(due, waiting, strict=True)
        ):
            self._flush()  # its shard has to be stored, as far as it is here
            return
        self._store_gathered()
        for part in due:
            if part in self._parts:
                self._store_in_part(self._parts[part])
        self._due.clear()
        self._put(done)
        for pending in done:
            del self._pending[pending.outer]
            self._row_arrived(pending.outer)
        if not self._placed:
            self._ready = max(self._ready, reach)
        while self._ready < self._position:
            stretch = self._cuts.along(self._ready)
            if self._rows.get(stretch.outer) != self._cuts.outers_across():
                break
            del self._rows[stretch.outer]
            self._ready = min(stretch.outer_stop, self._position)
        self._grow_to(self._ready)
        self._cover(self._position)

    def _store_gathered(self) -> None:
        gathered, self._gathered = self._gathered, []
        for part, values in gathered:
            self._held -= values.nbytes
            self._ahead.add(part[self.axis].outer)
            self._write(tuple(slice(s.start, s.stop) for s in part), values)

    def _row_arrived(self, outer: tuple[int, ...]) -> None:
        if outer not in self._closed_shards:
            self._closed_shards.add(outer)
            row = outer[self.axis]
            self._rows[row] = self._rows.get(row, 0) + 1

    def _put(self, shards: list[Pending]) -> None:
        filled = [pending for pending in shards if pending.filled]
        if self._end.reserves:
            for pending in filled:
                pending.keep_from(self._known)
        for start in range(0, len(filled), SHARDS_AT_ONCE):
            batch = filled[start : start + SHARDS_AT_ONCE]
            self._held -= sum(pending.nbytes for pending in batch)
            self._ahead.update(pending.outer[self.axis] for pending in batch)
            taken = [pending.take() for pending in batch]
            flow = put_encoded(
                self._layout,
                taken,
                self._options,
                self._cache,
                self._strategy,
                self._store.cost,
                self._outcomes,
            )
            run(flow, self._store)

    def _store_in_part(self, known: Filling) -> None:
        """Store what has arrived of a part over what is stored of it."""
        part = known.part
        self._drop(part)
        # Where the array ended inside this part, what lies past its end is nobody's: it becomes the fill value.
        first = self._base if part[self.axis].start < self._base and self._is_untouched(part) else None
        if self._end.reserves:
            first = None  # unless others have reserved it
        pending = self._pending_of(part) if self._layout.sharding is not None else None
        if pending is not None and part in pending.touched:
            self._put([pending])  # what came later goes over it
        self._ahead.add(part[self.axis].outer)
        for selection, values in known.arrived(first):
            self._write(selection, values)
        arrived = self._all_arrived(known)
        if arrived:
            self._early.pop(part, None)
        else:
            self._early[part] = known.steps | self._early.get(part, np.False_)
        if pending is None:
            if arrived:
                self._row_arrived(_outer(part))
            return
        (window,) = project_basic(known.box, self._layout, for_write=True).windows()
        pending.stored[window.inner] = True
        if arrived:
            pending.arrived(part, window.inner)

    def _write(self, selection: Any, values: Array) -> None:
        project = project_basic if all(isinstance(s, slice) for s in selection) else project_coordinates
        projection = project(selection, self._layout, for_write=True)
        run(
            write(
                self._layout,
                projection,
                projection.prepare(values),
                self._options,
                self._cache,
                self._strategy,
                self._store.cost,
                self._outcomes,
            ),
            self._store,
        )

    def _make_room(self) -> None:
        """Too much is held: store encoded chunks of incomplete shards, the most first, then incomplete parts."""
        with self._alone():
            while not self._reserve(given := self._given()):
                pass  # only of a writer whose steps stay
            self._store_until_there_is_room()
            self._cover(given)

    def _given(self) -> int:
        """Past the last step of which anything was given, also where its piece is still on its way in."""
        axis = self.axis
        stops = [part[axis].start + known.last + 1 for part, known in self._parts.items()]
        stops += [part[axis].stop for part, _ in self._gathered]
        stops += [part[axis].stop for pending in self._pending.values() for part in pending.touched]
        return max([self._position, *stops])

    def _store_until_there_is_room(self) -> None:
        self._store_gathered()
        waiting = sorted(self._pending.values(), key=lambda pending: -pending.nbytes)
        while waiting and self._held > self.memory // 2:
            self._put([waiting.pop(0)])
        if self._held <= self.memory:
            return
        for known in sorted(self._parts.values(), key=lambda known: -known.nbytes):
            self._store_in_part(known)
            if self._held <= self.memory // 2:
                return

    def _drain(self) -> None:
        """Store all that is complete, up to the chunk that the next step goes into; that too, if too much is left."""
        with self._alone():
            while not self._reserve(self._complete()):
                pass
            if any(not known.fresh for known in self._parts.values()):
                self._flush()  # over what waits encoded lies what came later
                return
            self._store_gathered()
            self._put(list(self._pending.values()))
            self._start_again(self._complete())
            if self._held > self.memory // 2:
                self._flush()

    def _complete(self) -> int:
        """Up to where every step lies in a complete chunk, or is stored; of a writer whose steps move."""
        left = [part[self.axis].start for part in self._parts if part[self.axis].stop > self._base]
        return max(self._base, min([self._position, *left]))

    def _flush(self) -> None:
        with self._alone():
            while not self._reserve(self._position):
                pass
            for known in [known for known in self._parts.values() if known.fresh]:
                if self._end.reserves and known.part[self.axis].stop > self._known:
                    known.fresh = False  # what lies behind may be others' by now
                    continue
                self._drop(known.part)
                self._finish(known.part, known.values)
            self._store_gathered()
            for known in list(self._parts.values()):
                self._store_in_part(known)
            self._put(list(self._pending.values()))
            self._start_again(self._position)
            self._placed = False

    def _start_again(self, length: int) -> None:
        """Everything before `length` is stored: grow over it, and remember nothing of it."""
        self._pending.clear()
        self._closed_shards.clear()
        self._rows.clear()
        self._early.clear()
        self._ahead.clear()
        self._due.clear()
        self._grow_to(length)
        self._ready = self._base

    def _grow_to(self, length: int) -> None:
        if length <= self._base:
            return
        if self._options.durability == "rename":
            self._store.sync()
        if length > self._known:
            now = self._end.grow(self._cuts.grown(length), self._known, length)
            if now is not None:
                raise ConflictError(
                    f"array {'/' + self._layout.path!r} was resized by somebody who keeps nobody out, from "
                    f"{self._known} to {now.shape[self.axis]} along axis {self.axis}, "
                    "while steps behind its end were stored"
                )
            self._known = length
        self._base = length
        row = self._cuts.along(length).outer
        self._closed_shards = {outer for outer in self._closed_shards if outer[self.axis] >= row}

    def _cover(self, given: int) -> None:
        """Grow over steps that are stored before those in front of them, where the array's end cuts their shard: who
        writes all of it that they know of would wipe them. given: past the last step that was."""
        stretch = self._cuts.along(self._known)
        length = min(stretch.outer_stop, given)
        ours = self._placed and not self._end.reserves and stretch.outer in self._ahead
        if not (ours and stretch.outer_start < self._known < length):
            return
        self._grow_to(length)
        self._ready = max(self._ready, length)
        for pending in self._pending.values():
            pending.keep_before(length)  # from now on others may write there
        for part, known in self._parts.items():
            known.fresh &= part[self.axis].start >= length

    # -- others -------------------------------------------------------------------------------------------------------

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else makes the array longer in this block; where that cannot be, nothing is promised by it."""
        if self._depth:
            yield
            return
        with self._end.alone() as now:
            self._depth += 1
            try:
                if now is not None:
                    self._meet(now)
                yield
            finally:
                self._depth -= 1

    def _reserve(self, length: int) -> bool:
        """Whether steps up to `length` may be stored now; if not, others were there, and steps have moved."""
        if not self._end.reserves or length <= self._known:
            return True
        now = self._end.grow(self._cuts.grown(length), self._known, length)
        if now is None:
            self._known = length
            return True
        self._meet(now)
        return False

    def _meet(self, now: Layout) -> None:
        """Take note of what became of the array: steps that were appended here go behind those of others."""
        axis, old, shape = self.axis, self._layout.shape, now.shape
        if shape[:axis] + shape[axis + 1 :] != old[:axis] + old[axis + 1 :]:
            raise ConflictError(
                f"array {now.path!r} was resized across axis {axis}, to {shape}, while this writer held steps of "
                "another shape; those are not stored"
            )
        same_chunks = self._layout.grid.goes_on_as(now.grid)
        if shape[axis] == self._known and same_chunks:
            return
        if not self._placed:
            self._move(now)
            return
        if not same_chunks:
            raise ConflictError(
                f"array {now.path!r}: chunks lie elsewhere since this writer was made, and it was told where its steps "
                "go; those are not stored"
            )
        self._known = self._base = self._ready = shape[axis]
        self._position = max(self._position, shape[axis])
        for pending in self._pending.values():
            pending.keep_from(0)
        for known in self._parts.values():
            known.fresh = False

    def _move(self, now: Layout) -> None:
        """What is held of steps past the old end goes past the new one; all of it is cut anew."""
        axis, end = self.axis, self._known
        delta = now.shape[axis] - end
        shards = [shard for _, shard in sorted(self._pending.items())]
        pieces = pieces_of(
            self._layout, axis, end, delta, self._position, self._gathered, shards, list(self._parts.values())
        )
        self._parts, self._pending, self._gathered, self._held = {}, {}, [], 0
        self._cuts = Cuts(now, axis, min(LARGEST_PART, self.memory // 8))
        self._layout = now
        self._start_again(0)
        self._shifted += delta
        self._position += delta
        self._known = self._base = self._ready = end + delta
        self._moving = True
        try:
            for box, values in pieces:
                self._place(box, values)
        finally:
            self._moving = False

    def _place(self, box: Box, value: Array) -> None:
        """Deliver the values of a box."""
        axis, first, at = self.axis, 0, box[self.axis].start
        while first < value.shape[axis]:
            stretch = self._stretch(at)
            n = min(stretch.stop - at, value.shape[axis] - first)
            here = (*box[:axis], slice(at, at + n), *box[axis + 1 :])
            self._give(stretch, here, value[(slice(None),) * axis + (slice(first, first + n),)])
            first, at = first + n, at + n

    def _drop(self, part: Part) -> None:
        self._held -= self._parts.pop(part).nbytes


def _outer(part: Part) -> tuple[int, ...]:
    return tuple(stretch.outer for stretch in part)
