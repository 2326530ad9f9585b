"""reshape: the same elements in the same order, as a chunk of another shape.

What it does not do: reorder; that is `transpose`.
Specification: https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/reshape
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self

from terrazzo.codecs.codec import Array, ArrayArrayCodec, ChunkSpec, Context
from terrazzo.codecs.configuration import from_members, integer
from terrazzo.metadata.problems import describe, join, refuse

__all__ = ["Reshape"]


@dataclass(frozen=True, eq=False)
class Reshape(ArrayArrayCodec):
    """Each entry of `shape` is an extent, a list of input dimensions that are joined, or (once) -1 for what is left."""

    shape: tuple[int | tuple[int, ...], ...]

    name = "reshape"

    def __post_init__(self) -> None:
        if not isinstance(self.shape, list | tuple):
            refuse(
                "shape",
                f"found {describe(self.shape)}, must be a list of extents, lists of dimensions, or -1",
            )
        entries: list[int | tuple[int, ...]] = []
        for i, entry in enumerate(self.shape):
            at = join("shape", i)
            if isinstance(entry, list | tuple):
                entries.append(tuple(integer(dimension, join(at, j), 0) for j, dimension in enumerate(entry)))
            elif entry == -1 and not isinstance(entry, bool):
                entries.append(-1)
            else:
                entries.append(integer(entry, at, 1))
        if entries.count(-1) > 1:
            refuse("shape", f"found {describe(self.shape)}, -1 may be there once")
        joined = [dimension for entry in entries if isinstance(entry, tuple) for dimension in entry]
        if any(later <= earlier for earlier, later in pairwise(joined)):
            refuse(
                "shape",
                f"joins the dimensions {describe(joined)}, which must increase: reshape never transposes",
            )
        object.__setattr__(self, "shape", tuple(entries))

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        return from_members(cls, configuration, path, ("shape",))

    def configuration(self) -> dict[str, Any]:
        return {"shape": [list(entry) if isinstance(entry, tuple) else entry for entry in self.shape]}

    def resolve(self, spec: ChunkSpec, context: Context) -> ChunkSpec:
        at = join(join(context.path, "configuration"), "shape")
        shape: list[int] = []
        for i, entry in enumerate(self.shape):
            if isinstance(entry, int):
                shape.append(entry)
                continue
            if entry and entry[-1] >= len(spec.shape):
                refuse(join(at, i), f"found the dimension {entry[-1]}, the chunk has {len(spec.shape)}")
            shape.append(math.prod(spec.shape[dimension] for dimension in entry))
        total = math.prod(spec.shape)
        if -1 in shape:
            others = math.prod(extent for extent in shape if extent != -1)
            if not others or total % others:
                refuse(
                    at,
                    f"found {self._shown()}, which cannot hold the {total} elements of {describe(spec.shape)}",
                )
            shape[shape.index(-1)] = total // others
        if math.prod(shape) != total:
            sentence = f"found {self._shown()}, which are {math.prod(shape)} elements"
            refuse(at, f"{sentence}, must be the {total} of {describe(spec.shape)}")
        for i, entry in enumerate(self.shape):
            if isinstance(entry, tuple) and entry:
                before, after = math.prod(spec.shape[: entry[0]]), math.prod(spec.shape[entry[-1] + 1 :])
                if math.prod(shape[:i]) != before or math.prod(shape[i + 1 :]) != after:
                    sentence = f"found {describe(entry)}, which would lie at different places"
                    refuse(join(at, i), f"{sentence} in {describe(spec.shape)} and in {describe(shape)}")
        return replace(spec, shape=tuple(shape))

    def encode(self, value: Array, spec: ChunkSpec) -> Array:
        shape: list[int] = [
            entry if isinstance(entry, int) else math.prod(spec.shape[dimension] for dimension in entry)
            for entry in self.shape
        ]
        return value.reshape(shape)

    def decode(self, value: Array, spec: ChunkSpec) -> Array:
        return value.reshape(spec.shape)

    def _shown(self) -> str:
        return describe([list(entry) if isinstance(entry, tuple) else entry for entry in self.shape])
