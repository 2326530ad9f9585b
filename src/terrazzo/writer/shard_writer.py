"""The buffered writer: time steps, camera frames or tiles in, whole shards out, in bounded memory.

What it does not do: read an array, or choose where changed chunks go (strategy.py). It drives the write room's flows.

Every inner chunk is encoded once, as soon as it is complete, and waits encoded for its shard. Chunks first, the shape
last: the array grows along the axis once everything before its new end is durable, so that a reader never sees a step
that could go, and after a crash a new writer goes on where the array ends.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np

from terrazzo.errors import SelectionError, TerrazzoWarning
from terrazzo.index import IndexCache
from terrazzo.indexing import project_basic, project_coordinates
from terrazzo.layout import Layout
from terrazzo.options import Options
from terrazzo.stores.flow import run
from terrazzo.stores.store import Store
from terrazzo.strategy import Outcomes, Strategy
from terrazzo.write import Memory, Rows, check_strategy, encode, has_slots, put_encoded, write
from terrazzo.writer.cuts import Cuts, Part, Stretch
from terrazzo.writer.parts import Filling
from terrazzo.writer.pending import Pending

__all__ = ["ShardWriter"]

Array = np.ndarray[Any, Any]
Box = tuple[slice, ...]

#: shards stored in one commit
SHARDS_AT_ONCE = 32
#: a part is encoded in one call: larger ones only use more memory
LARGEST_PART = 8 << 20


class ShardWriter:
    """Takes pieces of an array and stores whole shards; get one from `array.writer()`.

    Use it in a `with` block: when that ends, also by an error, everything that was given to it is stored. Pieces may
    come in any order and overlap; the last one counts. Elements that never come hold what they held, or the fill value
    where the array grew. One writer appends to an array at a time, as it reserves no rows beforehand: two of them, or
    one and `array.append`, would write the same rows. Others may write elsewhere meanwhile.
    """

    def __init__(
        self,
        layout: Layout,
        store: Store,
        options: Options,
        cache: IndexCache,
        strategy: Strategy,
        axis: int,
        memory: int | None,
        convert: Callable[[Any], Array],
        grow: Callable[[Layout, int], None],
        outcomes: Outcomes | None = None,
    ) -> None:
        ndim = layout.ndim
        if not -ndim <= axis < ndim:
            raise ValueError(
                f"array {layout.path!r} has {ndim} dimensions; there is no axis {axis} to write along"
            )
        check_strategy(layout, strategy)
        self.axis = axis % ndim
        self.memory = options.memory if memory is None else int(memory)
        if self.memory < 1:
            raise ValueError(f"memory={memory}; a number of bytes, or None for the setting, is needed")
        self._store, self._cache, self._strategy = store, cache, strategy
        self._options = replace(options, write_empty_chunks=True) if has_slots(layout, strategy) else options
        self._convert, self._grow, self._outcomes = convert, grow, outcomes
        self._cuts = Cuts(layout, self.axis, min(LARGEST_PART, self.memory // 8))
        self._layout = layout
        #: the array's extent in its document; up to where it is complete; where the next step goes
        self._base = self._ready = self._position = layout.shape[self.axis]
        self._since_grown = 0
        self._parts: dict[Part, Filling] = {}
        self._pending: dict[tuple[int, ...], Pending] = {}
        self._closed_shards: set[tuple[int, ...]] = set()
        self._rows: dict[int, int] = {}
        #: parts that had to be stored before they were complete, and their steps that have arrived
        self._early: dict[Part, Array] = {}
        self._held = 0
        self._lock = threading.RLock()
        self._closed = False
        self._warn_of_small_memory()

    # -- what one does with it ----------------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """The index along the axis at which the next `append` goes; in a new writer, where the array ends."""
        return self._position

    @property
    def stored(self) -> int:
        """The extent of the array along the axis: everything before it is durable."""
        return self._base

    def append(self, data: Any) -> int:
        """Add one step (of the array's shape without the axis) or several (with it) at `position`; the new position.

        Raises ValueError where the shape does not fit.
        """
        with self._lock:
            self._refuse_closed()
            value = self._convert(data)
            shape, axis = self._layout.shape, self.axis
            across = shape[:axis] + shape[axis + 1 :]
            if value.shape == across:
                value = np.expand_dims(value, axis)
            elif value.ndim != len(shape) or value.shape[:axis] + value.shape[axis + 1 :] != across:
                raise ValueError(
                    f"array {self._layout.path!r} grows along axis {axis} by steps of shape {across}; data of shape "
                    f"{value.shape} was given"
                )
            start = self._position
            box = [slice(0, n) for n in shape]
            box[axis] = slice(start, start + value.shape[axis])
            self._take(tuple(box), value)
            return self._position

    def write(self, selection: Any, value: Any) -> None:
        """Assign `value` to integers and slices (of step 1); along the axis they may reach past the array's end."""
        with self._lock:
            self._refuse_closed()
            box, dropped = self._box(selection)
            shape = tuple(b.stop - b.start for b in box)
            kept = tuple(n for d, n in enumerate(shape) if d not in dropped)
            given = self._convert(value)
            try:
                fitted = np.broadcast_to(given, kept).reshape(shape)
            except ValueError:
                raise ValueError(
                    f"a value of shape {given.shape} does not fit a selection of shape {kept}"
                ) from None
            self._take(box, fitted)

    def flush(self) -> None:
        """Store everything that was given so far; when it returns, it is durable and the array's shape covers it."""
        with self._lock:
            self._flush()

    def close(self) -> None:
        """`flush`, and take nothing more; harmless when repeated."""
        with self._lock:
            if not self._closed:
                self._flush()
                self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close()
        except Exception as second:  # what went wrong first is what the caller has to see
            error.add_note(
                f"the array is stored up to index {self._base} along axis {self.axis}; storing the rest failed too: "
                f"{second}"
            )

    def __repr__(self) -> str:
        return (
            f"<terrazzo.ShardWriter of {self._layout.path or '/'} axis={self.axis} position={self._position} "
            f"stored={self._base} held={self._held}>"
        )

    # -- pieces in ----------------------------------------------------------------------------------------------------

    def _take(self, box: Box, value: Array) -> None:
        along = box[self.axis]
        at = along.start
        while at < along.stop:
            stretch = self._cuts.along(at)
            self._layout = self._cuts.layout
            stop = min(stretch.stop, along.stop)
            for part in self._cuts.parts(stretch, tuple((b.start, b.stop) for b in box)):
                here = tuple(
                    slice(max(s.start, b.start), min(s.stop, b.stop)) for s, b in zip(part, box, strict=True)
                )
                inside = tuple(
                    slice(h.start - b.start, h.stop - b.start) for h, b in zip(here, box, strict=True)
                )
                self._deliver(part, here, value[inside])
            self._position = max(self._position, stop)
            self._settle(stretch)
            at = stop

    def _deliver(self, part: Part, box: Box, value: Array) -> None:
        known = self._parts.get(part)
        if known is None:
            if all(b.start == s.start and b.stop == s.stop for b, s in zip(box, part, strict=True)):
                self._finish(part, value)  # all of it at once: it need not be copied
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
            self._store_in_part(known)  # what lies before the old end stays as it is stored
        if self._held > self.memory:
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
            box = tuple(slice(s.start, s.stop) for s in part)
            self._write(box, values)
            self._since_grown += values.nbytes
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

    def _settle(self, stretch: Stretch) -> None:
        """Store the shards that are complete, and grow the array over every row of shards that is."""
        done = [pending for pending in self._pending.values() if not pending.left and not pending.closed]
        if done:
            self._put(done)
            for pending in done:
                del self._pending[pending.outer]
                self._row_arrived(pending.outer)
        while self._rows.get(stretch.outer) == self._cuts.outers_across():
            if not stretch.outer_start <= self._ready < stretch.outer_stop:
                break  # rows before it are not complete: the array cannot grow past them yet
            del self._rows[stretch.outer]
            self._ready = min(stretch.outer_stop, self._position)
            if self._layout.sharding is not None or self._since_grown >= self.memory // 4:
                self._grow_to(self._ready)
            if self._position <= self._ready:
                break
            stretch = self._cuts.along(self._ready)

    def _row_arrived(self, outer: tuple[int, ...]) -> None:
        if outer not in self._closed_shards:
            self._closed_shards.add(outer)
            row = outer[self.axis]
            self._rows[row] = self._rows.get(row, 0) + 1

    def _put(self, shards: list[Pending]) -> None:
        filled = [pending for pending in shards if pending.filled]
        for start in range(0, len(filled), SHARDS_AT_ONCE):
            batch = filled[start : start + SHARDS_AT_ONCE]
            self._held -= sum(pending.nbytes for pending in batch)
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
        pending = self._pending_of(part) if self._layout.sharding is not None else None
        if pending is not None:
            self._put([pending])
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
        waiting = sorted(self._pending.values(), key=lambda pending: -pending.nbytes)
        while waiting and self._held > self.memory // 2:
            self._put([waiting.pop(0)])
        if self._held <= self.memory:
            return
        for known in sorted(self._parts.values(), key=lambda known: -known.nbytes):
            self._store_in_part(known)
            if self._held <= self.memory // 2:
                return

    def _flush(self) -> None:
        for known in [known for known in self._parts.values() if known.fresh]:
            self._drop(known.part)
            self._finish(known.part, known.values)
        for known in list(self._parts.values()):
            self._store_in_part(known)
        self._put(list(self._pending.values()))
        self._pending.clear()
        self._closed_shards.clear()
        self._rows.clear()
        self._early.clear()
        self._grow_to(self._position)
        self._ready = self._base

    def _grow_to(self, length: int) -> None:
        if self._options.durability == "rename":
            self._store.sync()
        self._since_grown = 0
        if length > self._base:
            self._grow(self._cuts.grown(length), length)
            self._base = length
            row = self._cuts.along(length).outer
            self._closed_shards = {outer for outer in self._closed_shards if outer[self.axis] >= row}

    # -- below --------------------------------------------------------------------------------------------------------

    def _drop(self, part: Part) -> None:
        self._held -= self._parts.pop(part).nbytes

    def _refuse_closed(self) -> None:
        if self._closed:
            raise ValueError(f"the writer of array {self._layout.path!r} is closed; make another one")

    def _box(self, selection: Any) -> tuple[Box, set[int]]:
        """The selected box, and the dimensions that an integer selects one element of."""
        given = list(selection) if isinstance(selection, tuple) else [selection]
        ndim, shape = self._layout.ndim, self._layout.shape
        if sum(entry is Ellipsis for entry in given) > 1:
            raise SelectionError("a selection has more than one `...`")
        at = next((k for k, entry in enumerate(given) if entry is Ellipsis), len(given))
        if at == len(given):
            given.append(Ellipsis)
        if len(given) - 1 > ndim:
            raise SelectionError(
                f"array {self._layout.path!r} has {ndim} dimensions; {len(given) - 1} were selected"
            )
        given[at : at + 1] = [slice(None)] * (ndim - len(given) + 1)
        box, dropped = [], set()
        for d, entry in enumerate(given):
            length = self._position if d == self.axis else shape[d]
            if isinstance(entry, int | np.integer) and not isinstance(entry, bool):
                index = int(entry) + (length if entry < 0 else 0)
                if index < 0 or (d != self.axis and index >= length):
                    raise SelectionError(
                        f"index {int(entry)} is outside dimension {d}, which has {length} elements"
                    )
                box.append(slice(index, index + 1))
                dropped.add(d)
                continue
            if not isinstance(entry, slice) or entry.step not in (None, 1):
                raise SelectionError(
                    f"{entry!r} along dimension {d}: a writer takes integers and slices of step 1"
                )
            if d == self.axis:
                length = max(length, entry.stop or 0)  # past the end, an explicit stop says how far
            start, stop, _ = entry.indices(length)
            box.append(slice(start, max(start, stop)))
        return tuple(box), dropped

    def _warn_of_small_memory(self) -> None:
        shape, axis = self._layout.shape, self.axis
        step = self._layout.dtype.itemsize * int(np.prod(shape[:axis] + shape[axis + 1 :], dtype=object))
        stretch = self._cuts.along(self._base)
        wanted = step * (stretch.stop - stretch.start)
        if wanted > self.memory:
            warnings.warn(
                f"array {self._layout.path!r}: chunks are {stretch.stop - stretch.start} steps long, and so many steps "
                f"take {wanted:,} bytes; within memory={self.memory:,} some chunks are stored several times when steps "
                "are appended one by one",
                TerrazzoWarning,
                stacklevel=4,
            )


def _outer(part: Part) -> tuple[int, ...]:
    return tuple(stretch.outer for stretch in part)
