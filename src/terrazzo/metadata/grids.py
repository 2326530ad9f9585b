"""The form of chunk grids and chunk key encodings that the format names, checked against the shape of the array.

What it does not do: grid arithmetic or keys; unknown names pass, for whoever registered them.

https://zarr-specs.readthedocs.io/en/latest/v3/chunk-grids/regular-grid/index.html
https://github.com/zarr-developers/zarr-extensions/tree/main/chunk-grids/rectilinear
https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html#chunk-key-encoding
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from terrazzo.metadata.extension import Extension
from terrazzo.metadata.problems import Problems, describe, join, refuse, remark

__all__ = ["EXTENT_END", "checked_grid", "checked_key_encoding"]

EXTENT_END = 1 << 63
SEPARATORS = {"default": "/", "v2": "."}


def checked_grid(grid: Extension, shape: tuple[int, ...] | None, path: str = "chunk_grid") -> Extension:
    """The same grid, its form checked; a chunk of 0 along an axis of 0 becomes 1."""
    at = join(path, "configuration")
    for member in ("origin", "offset"):
        if member in grid.configuration:
            refuse(
                join(at, member),
                "grids that do not start at zero (and chunks of negative index) are not supported",
            )
    if grid.name == "rectangular":  # ZEP 3, a draft of the rectilinear grid
        remark(join(path, "name"), 'found "rectangular", a draft of "rectilinear"; read as that')
        shapes = grid.configuration.get("chunk_shape", grid.configuration.get("chunk_shapes"))
        grid = replace(grid, name="rectilinear", configuration={"kind": "inline", "chunk_shapes": shapes})
    if grid.name == "regular":
        edges = _list(grid.configuration, "chunk_shape", ("chunk_shape",), shape, at)
        return replace(grid, configuration={"chunk_shape": _regular(edges, shape, join(at, "chunk_shape"))})
    if grid.name == "rectilinear":
        members = ("kind", "chunk_shapes")
        edges = _list(grid.configuration, "chunk_shapes", members, shape, at)
        kind = grid.configuration.get("kind")
        if kind != "inline":
            refuse(join(at, "kind"), f'found {describe(kind)}, must be "inline"')
        _rectilinear(edges, shape, join(at, "chunk_shapes"))
    return grid


def checked_key_encoding(encoding: Extension, path: str = "chunk_key_encoding") -> Extension:
    """The same encoding with its separator always stated, as some readers need it."""
    if encoding.name not in SEPARATORS:
        return encoding
    at = join(path, "configuration")
    _only(encoding.configuration, ("separator",), at)
    separator = encoding.configuration.get("separator", SEPARATORS[encoding.name])
    if separator not in ("/", "."):
        refuse(join(at, "separator"), f'found {describe(separator)}, must be "/" or "."')
    return replace(encoding, configuration={"separator": separator})


def _regular(edges: list[Any], shape: tuple[int, ...] | None, path: str) -> list[int]:
    problems = Problems()
    chunk_shape = list(edges)
    for i, edge in enumerate(edges):
        if edge == 0 and _is_extent(edge) and shape is not None and shape[i] == 0:
            remark(join(path, i), "found 0 for an axis of length 0, read as 1; a chunk must have at least 1")
            chunk_shape[i] = 1
        elif not _is_extent(edge) or edge == 0:
            problems.add(join(path, i), f"found {describe(edge)}, must be an integer >= 1")
    problems.raise_any("")
    return chunk_shape


def _rectilinear(axes: list[Any], shape: tuple[int, ...] | None, path: str) -> None:
    problems = Problems()
    for i, axis in enumerate(axes):
        at = join(path, i)
        if _is_edge(axis):
            continue
        if not isinstance(axis, list) or not axis:
            problems.add(at, f"found {describe(axis)}, must be an integer >= 1 or a list of edges")
            continue
        total = 0
        for j, edge in enumerate(axis):
            if _is_edge(edge):
                total += edge
            elif isinstance(edge, list) and len(edge) == 2 and _is_edge(edge[0]) and _is_edge(edge[1]):
                total += edge[0] * edge[1]
            else:
                problems.add(
                    join(at, j), f"found {describe(edge)}, must be an integer >= 1 or a pair [edge, count]"
                )
                break
        else:
            if shape is not None and total < shape[i]:
                problems.add(at, f"found edges that sum to {total}, must cover the {shape[i]} of the axis")
    problems.raise_any("")


def _list(
    configuration: dict[str, Any],
    member: str,
    members: tuple[str, ...],
    shape: tuple[int, ...] | None,
    path: str,
) -> list[Any]:
    _only(configuration, members, path)
    at = join(path, member)
    if member not in configuration:
        refuse(at, "is missing")
    edges = configuration[member]
    if not isinstance(edges, list):
        refuse(at, f"found {describe(edges)}, must be a list with an entry for every dimension")
    if shape is not None and len(edges) != len(shape):
        refuse(at, f"found {len(edges)} entries, must be {len(shape)}: one for every dimension of the shape")
    return edges


def _only(configuration: dict[str, Any], members: tuple[str, ...], path: str) -> None:
    for member in sorted(configuration.keys() - set(members)):
        refuse(join(path, member), f"is not a member here; allowed: {', '.join(members)}")


def _is_extent(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < EXTENT_END


def _is_edge(value: object) -> bool:
    return _is_extent(value) and value != 0
