"""Chunks that the array's end cuts: what a write may not take for its own there.

What it does not do: read documents; whoever writes brings the look.

A chunk, or a shard, that reaches past the array's end may hold what others appended since the array was opened. A write
that takes all that it knows of such a chunk replaces it whole, and need not read it, unless something is stored there
and the array has become longer. So where something is found under the hold, the document is looked at, while nobody
else can change the object: whoever appended to it before had made the document longer before that, and whoever comes
later finds what was written here. Where holds are no locks, the commit compares versions, which comes to the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from terrazzo.errors import ConflictError
from terrazzo.indexing import Window
from terrazzo.layout import Layout
from terrazzo.stores.store import Hold

__all__ = ["Cut", "Ends", "Uncut", "cut_by_the_end"]

Array = np.ndarray[Any, Any]

#: (of the objects, of the rows of a window: those that are replaced whole as far as the array goes, and go further)
Cut = tuple[Array, Array]

#: decoded bytes of new objects that are sent without a look whether something is there: more cost more than a look
UNSEEN_NBYTES = 8 << 20


class Ends:
    """What one write knows of where the array ends.

    look: whether the array is longer now than the layout says; ConflictError where its chunks lie elsewhere. compares:
    whether a commit notices what others did since the hold, though nothing was looked at. listed: whether chunks may
    come to lie elsewhere, so that the document is looked at for every one of them.
    """

    def __init__(self, look: Callable[[], bool], *, compares: bool = False, listed: bool = False) -> None:
        self._look = look
        self.compares = compares
        self.listed = listed
        #: others have made the array longer: chunks that its end cut may be theirs too
        self.moved = False
        #: something is stored in chunks that the end cuts, or may be: they are looked at
        self.found = False
        #: why nothing more can be written
        self.refusal: ConflictError | None = None

    def look(self) -> bool:
        """Look at the document; True where the window has to be begun again, or given up."""
        before = self.moved
        try:
            self.moved = self._look() or before
        except ConflictError as error:
            self.refusal = error
        return self.moved != before or self.refusal is not None

    def concern(self, window: Window, cut: Cut | None, holds: Sequence[Hold]) -> bool:
        """Whether the document has to be looked at before these held objects are written."""
        if self.listed:
            return True
        if cut is None:
            return False
        there = np.array([hold.source is not None for hold in holds])
        objects, rows = cut[0] & there, cut[1] & there[window.shard_number]
        self.found |= bool(objects.any())
        return bool(objects.any() or rows.any())

    def hopes(self, layout: Layout, objects: int) -> bool:
        """Whether so many objects are written as if nothing were there: the commit tells if something is."""
        return self.compares and not self.found and objects * layout.object_nbytes <= UNSEEN_NBYTES


def cut_by_the_end(layout: Layout, window: Window) -> Cut | None:
    """What of a window the array's end cuts, and is written whole; None where there is none."""
    edges = layout.edges
    if edges is not None and not any(n % s for n, s, _ in edges):
        return None
    outers = window.outers
    starts = np.empty(outers.shape, np.int64)
    reach = np.zeros(len(outers), np.bool_)
    for d, n in enumerate(layout.shape):
        starts[:, d] = layout.grid.chunk_start(d, outers[:, d])
        reach |= starts[:, d] + layout.grid.chunk_extent(d, outers[:, d]) > n
    if not reach.any():
        return None
    rows = reach[window.shard_number] & window.whole
    if layout.inner_shape is not None and rows.any():
        at = np.flatnonzero(rows)
        rows[at] = _inner_cut(layout, window, at, starts)
    objects = reach & window.whole_shard
    return (objects, rows) if objects.any() or rows.any() else None


def _inner_cut(layout: Layout, window: Window, at: Array, starts: Array) -> Array:
    """Which of these rows' inner chunks reach past the array's end."""
    assert layout.inner_shape is not None
    number = window.shard_number[at]
    counts = np.array(layout.counts(window.outers), np.int64)[number]
    left = window.inner[at]
    found = np.zeros(len(at), np.bool_)
    for d in reversed(range(layout.ndim)):
        left, place = np.divmod(left, counts[:, d])
        found |= starts[number, d] + (place + 1) * layout.inner_shape[d] > layout.shape[d]
    return found


class Uncut(Window):
    """A window that replaces whole only what the array's end does not cut; the rest is laid over what is there."""

    def __init__(self, window: Window, cut: Cut) -> None:
        self.outers = window.outers
        self.shard_number = window.shard_number
        self.inner = window.inner
        self.cell = window.cell
        self._window = window
        self._cut = cut

    def placement(self) -> tuple[object, ...]:
        return self._window.placement()

    @property
    def whole(self) -> Any:
        return self._window.whole & ~self._cut[1]

    @property
    def whole_shard(self) -> Any:
        return self._window.whole_shard & ~self._cut[0]

    def chunk_selection(self, row: int) -> tuple[Any, ...]:
        return self._window.chunk_selection(row)

    def out_selection(self, row: int) -> tuple[Any, ...]:
        return self._window.out_selection(row)
