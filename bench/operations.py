"""What a question does with a library: prepare (not timed), perform (timed), check (not timed).

What it does not do: know libraries, or measure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from contract import Library
from volumes import Box, Layout, Shape, every, load, slices

Select = Callable[[Shape, Layout, np.random.Generator], list[Box]]
"""The boxes of one call: of an array's shape, its layout, and a generator seeded per call."""


@dataclass
class Job:
    """One call in one process."""

    make: type[Library]
    path: str
    values: Path
    layout: Layout
    shape: Shape
    rng: np.random.Generator
    library: Library | None = None

    def opened(self) -> Library:
        assert self.library is not None
        return self.library


class Operation:
    #: what lies at the path: the stored array itself, a copy of it that is written, or its document alone
    on: Literal["stored", "copy", "empty"] = "stored"
    #: whether the library opens the array before the clock runs
    opens = True

    def prepare(self, job: Job) -> Any:
        raise NotImplementedError

    def perform(self, job: Job, prepared: Any) -> Any:
        raise NotImplementedError

    def nbytes(self, prepared: Any, answer: Any) -> int:
        """Decoded bytes that were moved."""
        return 0

    def check(self, job: Job, prepared: Any, answer: Any) -> None:
        """Raises AssertionError when the answer is wrong."""


def same(found: Any, wanted: Any) -> bool:
    left, right = np.squeeze(np.asarray(found)), np.squeeze(np.asarray(wanted))
    if left.dtype.kind in "OTU":
        return left.tolist() == right.tolist()
    return np.array_equal(left, right)


@dataclass(frozen=True)
class Read(Operation):
    """Boxes one after the other, or all at once. chunks: each is one whole chunk."""

    select: Select
    batched: bool = False
    chunks: bool = False

    def prepare(self, job: Job) -> list[Box]:
        return self.select(job.shape, job.layout, job.rng)

    def perform(self, job: Job, prepared: list[Box]) -> list[Any]:
        library = job.opened()
        if self.batched:
            return library.read_many(prepared, chunks=self.chunks)
        one = library.read_chunk if self.chunks else library.read
        return [one(box) for box in prepared]

    def nbytes(self, prepared: Any, answer: list[Any]) -> int:
        return sum(np.asarray(part).nbytes for part in answer)

    def check(self, job: Job, prepared: list[Box], answer: list[Any]) -> None:
        wanted = load(job.values)
        for box, part in list(zip(prepared, answer, strict=True))[:40]:
            assert same(part, wanted[slices(box)]), f"wrong values at {box}"


@dataclass(frozen=True)
class Open(Operation):
    """Open the array again and again; with `select`, and read from it the first time."""

    count: int
    select: Select | None = None
    opens = False

    def prepare(self, job: Job) -> list[Box]:
        return self.select(job.shape, job.layout, job.rng)[: self.count] if self.select else []

    def perform(self, job: Job, prepared: list[Box]) -> list[Any]:
        if not prepared:
            for _ in range(self.count):
                job.make(job.path, "r")
            return []
        return [job.make(job.path, "r").read_chunk(box) for box in prepared]

    def check(self, job: Job, prepared: list[Box], answer: list[Any]) -> None:
        Read(every_box).check(job, prepared, answer)


@dataclass(frozen=True)
class Write(Operation):
    """Boxes, one assignment each, with new values that compress about as well as the old."""

    select: Select
    on: Literal["stored", "copy", "empty"] = "empty"

    def prepare(self, job: Job) -> list[tuple[Box, np.ndarray]]:
        found = load(job.values)
        boxes = self.select(job.shape, job.layout, job.rng)
        return [(box, self.value(found, box)) for box in boxes]

    def value(self, found: np.ndarray, box: Box) -> np.ndarray:
        part = np.array(found[slices(box)])
        if self.on == "copy":
            part ^= part.dtype.type(2)
        return part

    def perform(self, job: Job, prepared: list[tuple[Box, np.ndarray]]) -> None:
        library = job.opened()
        for box, value in prepared:
            library.write(box, value)

    def nbytes(self, prepared: list[tuple[Box, np.ndarray]], answer: Any) -> int:
        return sum(value.nbytes for _, value in prepared)

    def check(self, job: Job, prepared: list[tuple[Box, np.ndarray]], answer: Any) -> None:
        """By zarr-python: what was written, and (in a copy) what was not."""
        from libraries import LIBRARIES

        stored = LIBRARIES["zarr-fused"](job.path, "r")
        wanted = np.array(load(job.values)) if self.on == "copy" else load(job.values)
        for box, value in prepared:
            if self.on == "copy":
                wanted[slices(box)] = value
        assert same(stored.read(every(job.shape)), wanted), "what was written does not read back"


# selections


def every_box(shape: Shape, layout: Layout, rng: np.random.Generator) -> list[Box]:
    return [every(shape)]


def random_chunks(count: int) -> Select:
    """Whole chunks, as reads touch them, drawn with repetition."""

    def select(shape: Shape, layout: Layout, rng: np.random.Generator) -> list[Box]:
        edges = layout.read_shape
        cells = [n // edge for n, edge in zip(shape, edges, strict=True)]
        picks = rng.integers(cells, size=(count, len(shape))).tolist()
        return [tuple((i * e, (i + 1) * e) for i, e in zip(pick, edges, strict=True)) for pick in picks]

    return select


def random_boxes(count: int, edge: int) -> Select:
    """Cubes that fit no chunk."""

    def select(shape: Shape, layout: Layout, rng: np.random.Generator) -> list[Box]:
        starts = rng.integers([n - edge for n in shape], size=(count, len(shape))).tolist()
        return [tuple((a, a + edge) for a in start) for start in starts]

    return select


def one_slice(axis: int) -> Select:
    """One plane: one position along `axis`, everything along the others."""

    def select(shape: Shape, layout: Layout, rng: np.random.Generator) -> list[Box]:
        k = int(rng.integers(shape[axis]))
        return [tuple((k, k + 1) if d == axis else (0, n) for d, n in enumerate(shape))]

    return select


def middle(edge: int) -> Select:
    """A cube in the middle, across the borders of shards."""

    def select(shape: Shape, layout: Layout, rng: np.random.Generator) -> list[Box]:
        half = [min(edge, n) // 2 for n in shape]
        return [tuple((n // 2 - h, n // 2 + h) for n, h in zip(shape, half, strict=True))]

    return select


def first(count: int) -> Select:
    """The first `count` positions of every dimension."""
    return lambda shape, layout, rng: [tuple((0, min(count, n)) for n in shape)]
