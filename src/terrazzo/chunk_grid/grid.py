"""Chunk grids: the contract, the regular and the rectilinear grid, and the reading of documents.

What it does not do: name chunks, or know that a chunk may be a shard.

Specification: Zarr v3 core, "Chunk grids", "Regular grids"; registered extension `rectilinear`.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np

from terrazzo.chunk_grid.edges import LARGEST, Edges, Ints, RegularEdges, RunEdges
from terrazzo.errors import MetadataError, TerrazzoWarning

__all__ = [
    "ChunkGrid",
    "EqualEdges",
    "RectilinearGrid",
    "RegularGrid",
    "chunk_grid_from_extension",
    "register_chunk_grid",
]

Problems: TypeAlias = list[tuple[str, str]]
Build: TypeAlias = Callable[[Mapping[str, Any], tuple[int, ...], str], "ChunkGrid"]


#: along each dimension: elements of the array, of a chunk of its grid, of an inner chunk
EqualEdges = tuple[tuple[int, int, int], ...]


class ChunkGrid(ABC):
    """Where the chunks of an array lie: the contract of every grid.

    `dims` holds the edges of each dimension. Chunks at the border of the array keep their declared shape.
    """

    name: str
    dims: tuple[Edges, ...]

    @abstractmethod
    def configuration(self) -> dict[str, Any]:
        """The `configuration` member of the array document."""

    @abstractmethod
    def resized(self, shape: Sequence[int]) -> ChunkGrid:
        """The grid of the array once it has this shape; chunks keep their places."""

    @property
    def ndim(self) -> int:
        return len(self.dims)

    @cached_property
    def uniform_shape(self) -> tuple[int, ...] | None:
        """The shape of every chunk, or None where chunks differ."""
        edges = [dim.uniform for dim in self.dims]
        return None if None in edges else tuple(edge for edge in edges if edge is not None)

    def edges(self, shape: Sequence[int], inner: Sequence[int] | None) -> EqualEdges | None:
        """Elements of the array, of a chunk and of an inner chunk (where there are none, of the chunk again) along each
        dimension; None where chunks differ."""
        uniform = self.uniform_shape
        return None if not uniform else tuple(zip(shape, uniform, inner or uniform, strict=True))

    @property
    def is_regular(self) -> bool:
        """Whether every chunk has one shape, and the grid covers an array of any shape."""
        return all(isinstance(dim, RegularEdges) for dim in self.dims)

    def grid_shape(self, array_shape: Sequence[int]) -> tuple[int, ...]:
        """The number of chunks per dimension that hold an element of the array."""
        return tuple(dim.count(length) for dim, length in zip(self.dims, array_shape, strict=True))

    def chunk_extent(self, dim: int, index: Ints) -> Ints:
        """The edge lengths of these chunks along a dimension."""
        return self.dims[dim].extent(index)

    def chunk_start(self, dim: int, index: Ints) -> Ints:
        """The first coordinates of these chunks along a dimension."""
        return self.dims[dim].start(index)

    def locate(self, dim: int, coordinates: Ints) -> tuple[Ints, Ints]:
        """The chunks that hold these coordinates along a dimension, and the offsets inside them."""
        return self.dims[dim].locate(coordinates)

    def chunk_shape(self, index: Sequence[int]) -> tuple[int, ...]:
        """The declared shape of one chunk."""
        return tuple(
            dim.uniform or dim.begin(i + 1) - dim.begin(i) for dim, i in zip(self.dims, index, strict=True)
        )

    def unique_edges(self, dim: int) -> tuple[int, ...]:
        """Every edge length along a dimension, ascending."""
        return self.dims[dim].unique

    def distinct_shapes(self) -> list[tuple[int, ...]]:
        """A few chunk shapes in which every edge length of every dimension occurs, the largest chunk first.

        What holds for these (divisibility, size) holds for every chunk; their number does not grow with the product
        of the dimensions' edge lengths.
        """
        falling = [dim.unique[::-1] or (1,) for dim in self.dims]
        most = max(map(len, falling), default=1)
        return [tuple(edges[min(k, len(edges) - 1)] for edges in falling) for k in range(most)]

    def goes_on_as(self, other: ChunkGrid) -> bool:
        """Whether one of the two is the other one with further chunks at its ends: no chunk lies elsewhere."""
        return all(mine.goes_on_as(theirs) for mine, theirs in zip(self.dims, other.dims, strict=True))

    def to_extension(self) -> dict[str, Any]:
        """The `chunk_grid` member of the array document."""
        return {"name": self.name, "configuration": self.configuration()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChunkGrid) and self.name == other.name and self.dims == other.dims

    def __hash__(self) -> int:
        return hash((self.name, self.dims))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.configuration().values()))})"


class RegularGrid(ChunkGrid):
    """Chunks of one shape."""

    name = "regular"

    def __init__(self, chunk_shape: Sequence[int]) -> None:
        problems: Problems = []
        for dim, edge in enumerate(chunk_shape):
            _check_edge(edge, f"chunk_shape[{dim}]", problems)
        _refuse(problems)
        self.dims = tuple(RegularEdges(int(edge)) for edge in chunk_shape)

    def configuration(self) -> dict[str, Any]:
        return {"chunk_shape": [dim.uniform for dim in self.dims]}

    def resized(self, shape: Sequence[int]) -> ChunkGrid:
        return self


class RectilinearGrid(ChunkGrid):
    """Chunks whose edges are given per dimension: an integer (repeated for ever), or a list of edges and
    `[edge, count]` runs."""

    name = "rectilinear"

    def __init__(self, *chunk_shapes: int | Sequence[int | Sequence[int]]) -> None:
        problems: Problems = []
        dims = [
            _read_edges(edges, f"chunk_shapes[{dim}]", problems) for dim, edges in enumerate(chunk_shapes)
        ]
        _refuse(problems)
        self.dims = tuple(dims)

    def configuration(self) -> dict[str, Any]:
        return {"kind": "inline", "chunk_shapes": [_write_edges(dim) for dim in self.dims]}

    def resized(self, shape: Sequence[int]) -> ChunkGrid:
        grid = RectilinearGrid()
        grid.dims = tuple(dim.resized(length) for dim, length in zip(self.dims, shape, strict=True))
        return grid

    def __repr__(self) -> str:
        return f"RectilinearGrid({', '.join(repr(_write_edges(dim)) for dim in self.dims)})"


class Extension(Protocol):
    """A name and its configuration, as array documents hold them."""

    @property
    def name(self) -> str: ...

    @property
    def configuration(self) -> Mapping[str, Any] | None: ...


def chunk_grid_from_extension(extension: Extension, shape: Sequence[int], where: str = "") -> ChunkGrid:
    """The grid an array document describes; MetadataError lists every problem, after `where` (the document's key)."""
    build = _builders.get(extension.name)
    try:
        if build is None:
            known = ", ".join(sorted(_builders))
            _refuse([("chunk_grid.name", f"{extension.name!r:.60} is not known; known: {known}")])
            raise AssertionError
        for dim, length in enumerate(shape):
            if not 0 <= length <= LARGEST:
                _refuse([(f"shape[{dim}]", f"found {length}; a length lies between 0 and {LARGEST}")])
        return build(extension.configuration or {}, tuple(shape), "chunk_grid.configuration")
    except MetadataError as error:
        if where:
            raise MetadataError(f"{where}: {error}", error.problems) from None
        raise


def register_chunk_grid(name: str, build: Build) -> None:
    """Make a grid known by its name in array documents: `build(configuration, array shape, path) -> ChunkGrid`."""
    _builders[name] = build


def _build_regular(configuration: Mapping[str, Any], shape: tuple[int, ...], path: str) -> ChunkGrid:
    problems = _extra_members(configuration, {"chunk_shape"}, path)
    edges = configuration.get("chunk_shape")
    where = f"{path}.chunk_shape"
    if _has_rank(edges, len(shape), where, problems):
        edges = list(edges)  # type: ignore[arg-type]
        for dim, (edge, length) in enumerate(zip(edges, shape, strict=True)):
            if edge == 0 and type(edge) is int and length == 0:
                # older writers took chunks = shape; nothing is stored, so any size reads the same
                warnings.warn(
                    f"{where}[{dim}] is 0 for a dimension of length 0; read as 1",
                    TerrazzoWarning,
                    stacklevel=3,
                )
                edges[dim] = 1
            else:
                _check_edge(edge, f"{where}[{dim}]", problems)
    _refuse(problems)
    return RegularGrid(edges)  # type: ignore[arg-type]


def _build_rectilinear(configuration: Mapping[str, Any], shape: tuple[int, ...], path: str) -> ChunkGrid:
    problems = _extra_members(configuration, {"kind", "chunk_shapes"}, path)
    if configuration.get("kind") != "inline":
        problems.append((f"{path}.kind", f'found {configuration.get("kind")!r}; the only kind is "inline"'))
    declared, where = configuration.get("chunk_shapes"), f"{path}.chunk_shapes"
    dims: list[Edges] = []
    if _has_rank(declared, len(shape), where, problems):
        for dim, (edges, length) in enumerate(zip(declared, shape, strict=True)):  # type: ignore[arg-type]
            before = len(problems)
            dims.append(_read_edges(edges, f"{where}[{dim}]", problems))
            covered = dims[-1].covered
            if len(problems) == before and covered is not None and covered < length:
                problems.append(
                    (f"{where}[{dim}]", f"the edges cover {covered} of a dimension of length {length}")
                )
    _refuse(problems)
    grid = RectilinearGrid()
    grid.dims = tuple(dims)
    return grid


_builders: dict[str, Build] = {"regular": _build_regular, "rectilinear": _build_rectilinear}


def _read_edges(edges: object, path: str, problems: Problems) -> Edges:
    if not isinstance(edges, Sequence) or isinstance(edges, str):
        return RegularEdges(edges if _check_edge(edges, path, problems) else 1)  # type: ignore[arg-type]
    runs: list[tuple[int, int]] = []
    for number, entry in enumerate(edges):
        where = f"{path}[{number}]"
        if isinstance(entry, Sequence) and not isinstance(entry, str):
            if len(entry) != 2:
                problems.append((where, f"found {len(entry)} members; a run is [edge, count]"))
            elif _check_edge(entry[0], f"{where}[0]", problems) and _check_edge(
                entry[1], f"{where}[1]", problems
            ):
                runs.append((int(entry[0]), int(entry[1])))
        elif _check_edge(entry, where, problems):
            runs.append((int(entry), 1))
    try:
        return RunEdges(runs)
    except ValueError as error:
        problems.append((path, str(error)))
        return RegularEdges(1)


def _write_edges(dim: Edges) -> int | list[int | list[int]]:
    if isinstance(dim, RunEdges):
        entries: list[int | list[int]] = []
        for edge, count in dim.runs:
            # the run form only where it is the shorter text, as other writers do
            if len(f"[{edge},{count}]") < count * (len(str(edge)) + 1) - 1:
                entries.append([edge, count])
            else:
                entries.extend([edge] * count)
        return entries
    if dim.uniform is None:
        raise TypeError(f"{dim!r} has no form in a rectilinear grid")
    return dim.uniform


def _check_edge(edge: object, path: str, problems: Problems) -> bool:
    whole = isinstance(edge, (int, np.integer)) and not isinstance(edge, bool)
    if whole and 1 <= edge <= LARGEST:  # type: ignore[operator]
        return True
    problems.append((path, f"found {edge!r:.60}; allowed is an integer of at least 1"))
    return False


def _has_rank(edges: object, ndim: int, path: str, problems: Problems) -> bool:
    if not isinstance(edges, Sequence) or isinstance(edges, str):
        problems.append(
            (path, f"found {edges!r:.60}; needed is a list with one entry per dimension ({ndim})")
        )
    elif len(edges) != ndim:
        problems.append((path, f"found {len(edges)} entries for an array of {ndim} dimensions"))
    else:
        return True
    return False


def _extra_members(configuration: Mapping[str, Any], allowed: set[str], path: str) -> Problems:
    extra = [key for key in configuration if key not in allowed]
    return [
        (f"{path}.{key}", f"not a member of this grid; allowed: {', '.join(sorted(allowed))}")
        for key in extra
    ]


def _refuse(problems: Problems) -> None:
    if problems:
        raise MetadataError("; ".join(f"{path}: {sentence}" for path, sentence in problems), tuple(problems))
