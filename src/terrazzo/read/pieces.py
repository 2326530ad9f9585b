"""Pieces of objects: many ranges, fetched by few requests, and cut apart again.

What it does not do: decode. Where the kernel takes chunks out of what was fetched, nothing is cut (decode.py).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from terrazzo.read.spans import joined
from terrazzo.stores.flow import Fetching
from terrazzo.stores.store import Cost, Source

__all__ = ["fetch_pieces"]

Array = np.ndarray[Any, Any]


def fetch_pieces(
    sources: Sequence[Source | None], pieces: Array, cost: Cost
) -> Generator[Any, Any, list[memoryview]]:
    """The bytes of each piece, int64 (n, 3) of the number of its source, its start and its length; in one batch."""
    if not len(pieces):
        return []
    number, start, length = pieces.T
    spans = joined(number, start, length, cost)
    answers = yield Fetching([(sources[of], ranges) for of, ranges in spans.of_objects()])  # type: ignore[misc]
    buffers = [memoryview(part).cast("B") for parts in answers for part in parts]
    places = zip(spans.span.tolist(), spans.offset.tolist(), length.tolist(), strict=True)
    return [buffers[span][offset : offset + nbytes] for span, offset, nbytes in places]
