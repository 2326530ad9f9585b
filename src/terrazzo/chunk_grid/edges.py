"""Edges: one dimension of a chunk grid, whose chunks lie end to end from coordinate 0.

What it does not do: know other dimensions, or documents.

Specification: Zarr v3 core, "Regular grids"; registered extension `rectilinear`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import groupby
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["LARGEST", "Edges", "Ints", "RegularEdges", "RunEdges"]

Ints: TypeAlias = npt.NDArray[np.int64]

LARGEST: Final = 2**63 - 1  # positions and indices are int64


class Edges(ABC):
    """One dimension of a grid: chunks numbered from 0, lying end to end from coordinate 0."""

    __slots__ = ()

    @property
    @abstractmethod
    def uniform(self) -> int | None:
        """The edge length of every chunk, or None where they differ."""

    @property
    @abstractmethod
    def unique(self) -> tuple[int, ...]:
        """Every edge length that occurs, ascending; chunks outside the array count."""

    @property
    @abstractmethod
    def covered(self) -> int | None:
        """The length the declared chunks cover, or None where they cover any length."""

    @abstractmethod
    def find(self, coordinate: int) -> tuple[int, int]:
        """The chunk that holds one coordinate, and where that chunk starts."""

    @abstractmethod
    def begin(self, index: int) -> int:
        """Where one chunk starts."""

    @abstractmethod
    def locate(self, coordinates: Ints) -> tuple[Ints, Ints]:
        """The chunk that holds each coordinate, and the offset inside it."""

    @abstractmethod
    def start(self, index: Ints) -> Ints:
        """Where each chunk starts."""

    @abstractmethod
    def extent(self, index: Ints) -> Ints:
        """The declared edge length of each chunk, also where the array ends earlier."""

    @abstractmethod
    def resized(self, length: int) -> Edges:
        """The edges of this dimension once the array is `length` long."""

    def goes_on_as(self, other: Edges) -> bool:
        """Whether one of the two is the other one with further chunks at its end; edges that cannot tell say so."""
        return True

    def count(self, length: int) -> int:
        """The number of chunks that hold an element of a dimension of this length."""
        return self.find(length - 1)[0] + 1 if length else 0


class RegularEdges(Edges):
    """Chunks of one edge length, as many as the array asks for."""

    __slots__ = ("edge",)

    def __init__(self, edge: int) -> None:
        self.edge = edge

    @property
    def uniform(self) -> int | None:
        return self.edge

    @property
    def unique(self) -> tuple[int, ...]:
        return (self.edge,)

    @property
    def covered(self) -> int | None:
        return None

    def find(self, coordinate: int) -> tuple[int, int]:
        index = coordinate // self.edge
        return index, index * self.edge

    def begin(self, index: int) -> int:
        return index * self.edge

    def locate(self, coordinates: Ints) -> tuple[Ints, Ints]:
        index = coordinates // self.edge
        return index, coordinates - index * self.edge

    def start(self, index: Ints) -> Ints:
        return index * self.edge

    def extent(self, index: Ints) -> Ints:
        return np.full(index.shape, self.edge, dtype=np.int64)

    def resized(self, length: int) -> Edges:
        return self

    def goes_on_as(self, other: Edges) -> bool:
        return self == other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RegularEdges) and self.edge == other.edge

    def __hash__(self) -> int:
        return hash((RegularEdges, self.edge))

    def __repr__(self) -> str:
        return f"RegularEdges({self.edge})"


class RunEdges(Edges):
    """Declared chunks: runs of (edge length, number of chunks), never unrolled."""

    __slots__ = ("_ends", "_firsts", "_lengths", "_starts", "_unique", "runs")

    def __init__(self, runs: Sequence[tuple[int, int]]) -> None:
        merged = [
            (edge, sum(count for _, count in group)) for edge, group in groupby(runs, key=lambda run: run[0])
        ]
        firsts, starts, first, start = [], [], 0, 0
        for edge, count in merged:
            firsts.append(first)
            starts.append(start)
            first, start = first + count, start + edge * count
        if start > LARGEST:
            raise ValueError(f"the edges sum to {start}, beyond {LARGEST}")
        self.runs: tuple[tuple[int, int], ...] = tuple(merged)
        self._firsts = np.array(firsts, dtype=np.int64)
        self._starts = np.array(starts, dtype=np.int64)
        self._lengths = np.array([edge for edge, _ in merged], dtype=np.int64)
        self._ends = start
        self._unique = tuple(sorted({edge for edge, _ in merged}))

    @property
    def uniform(self) -> int | None:
        return self._unique[0] if len(self._unique) == 1 else None

    @property
    def unique(self) -> tuple[int, ...]:
        return self._unique

    @property
    def covered(self) -> int | None:
        return self._ends

    def find(self, coordinate: int) -> tuple[int, int]:
        run = int(np.searchsorted(self._starts, coordinate, side="right")) - 1
        edge, start = self.runs[run][0], int(self._starts[run])
        passed = (coordinate - start) // edge
        return int(self._firsts[run]) + passed, start + passed * edge

    def begin(self, index: int) -> int:
        if not self.runs:
            return 0
        run = int(np.searchsorted(self._firsts, index, side="right")) - 1
        return int(self._starts[run]) + (index - int(self._firsts[run])) * self.runs[run][0]

    def locate(self, coordinates: Ints) -> tuple[Ints, Ints]:
        run = np.searchsorted(self._starts, coordinates, side="right") - 1
        inside = coordinates - self._starts[run]
        edge = self._lengths[run]
        passed = inside // edge
        return self._firsts[run] + passed, inside - passed * edge

    def start(self, index: Ints) -> Ints:
        run = np.searchsorted(self._firsts, index, side="right") - 1
        starts: Ints = self._starts[run] + (index - self._firsts[run]) * self._lengths[run]
        return starts

    def extent(self, index: Ints) -> Ints:
        lengths: Ints = self._lengths[np.searchsorted(self._firsts, index, side="right") - 1]
        return lengths

    def resized(self, length: int) -> Edges:
        # a list of edges is a fixed set: what is missing becomes one chunk, and shrinking keeps every edge
        return RunEdges((*self.runs, (length - self._ends, 1))) if length > self._ends else self

    def goes_on_as(self, other: Edges) -> bool:
        if not isinstance(other, RunEdges):
            return False
        for k, (mine, theirs) in enumerate(zip(self.runs, other.runs, strict=False)):
            if mine != theirs:
                shorter = self.runs if mine[1] < theirs[1] else other.runs
                return mine[0] == theirs[0] and k == len(shorter) - 1
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunEdges) and self.runs == other.runs

    def __hash__(self) -> int:
        return hash((RunEdges, self.runs))

    def __repr__(self) -> str:
        return f"RunEdges({list(self.runs)!r})"
