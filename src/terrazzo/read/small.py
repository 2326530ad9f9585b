"""Small reads of shards whose indexes are remembered: planned in plain integers, a look at each shard, a kernel call.

What it does not do: anything out of the ordinary. Where an index is not remembered, a shard is another version by now,
or bytes do not decode, it answers False, and `flow.py` reads as if nothing had been tried.
"""

from __future__ import annotations

from array import array
from collections.abc import Generator
from functools import partial
from typing import Any

import numpy as np

from terrazzo import _kernel
from terrazzo.index import IndexCache
from terrazzo.indexing import SmallBox
from terrazzo.layout import Layout
from terrazzo.options import Options
from terrazzo.read.locate import MISSING, signed
from terrazzo.shard import EMPTY
from terrazzo.stores.flow import Opening, Working
from terrazzo.stores.store import Open

__all__ = ["read_small"]

Array = np.ndarray[Any, Any]


def read_small(
    layout: Layout, box: SmallBox, out: Array, options: Options, cache: IndexCache
) -> Generator[Any, Any, bool]:
    """Fill `out`, or answer False: it has to be read in another way."""
    program = layout.chain.native
    if layout.sharding is None or program is None:
        return False
    numbers: dict[tuple[int, ...], int] = {}
    asked: list[Open] = []
    entries: list[Array] = []
    rows = array("q")
    for cell, (outer, inner) in enumerate(box.rows):
        number = numbers.get(outer)
        if number is None:
            name = layout.chunk_key(outer)
            known = cache.get(name)
            if known is None or not known.near:
                return False
            number = numbers[outer] = len(asked)
            asked.append(Open(name, None, known.tag))
            entries.append(known.entries)
        offset, nbytes = entries[number][inner].tolist()
        if offset != EMPTY:
            rows.extend((number, signed(offset), signed(nbytes), 0, cell))
        elif options.missing == "fill":
            rows.extend((MISSING, 0, 0, 0, cell))
        else:
            return False
    sources = yield Opening(asked)
    try:
        handles = []
        for source, look in zip(sources, asked, strict=True):
            if source is None or source.tag != look.known or source.handle is None:
                return False
            handles.append(source.handle)
        target = out.view(f"V{out.dtype.itemsize}")  # elements that every buffer can tell
        failures = yield Working(
            partial(_kernel.decode, [program], handles, rows, box.placement(), target, options.workers)
        )
        return not failures
    finally:
        for source in sources:
            if source is not None:
                source.close()
