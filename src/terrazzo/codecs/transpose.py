"""transpose: the dimensions of a chunk in another order.

What it does not do: the constants "C" and "F" of drafts; whoever reads those writes them out.
Specification: https://zarr-specs.readthedocs.io/en/latest/v3/codecs/transpose/index.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from terrazzo.codecs.codec import Array, ArrayArrayCodec, ChunkSpec, Context, Step
from terrazzo.codecs.configuration import from_members, integer
from terrazzo.metadata.problems import describe, join, refuse

__all__ = ["TransposeCodec"]


@dataclass(frozen=True, eq=False)
class TransposeCodec(ArrayArrayCodec):
    """Dimension i of what is stored is dimension order[i] of the chunk."""

    order: tuple[int, ...]

    name = "transpose"

    def __post_init__(self) -> None:
        if not isinstance(self.order, list | tuple):
            refuse("order", f"found {describe(self.order)}, must be a list of all dimensions, such as [1, 0]")
        order = tuple(integer(dimension, join("order", i), 0) for i, dimension in enumerate(self.order))
        if sorted(order) != list(range(len(order))):
            refuse(
                "order", f"found {describe(order)}, must name every dimension from 0 to {len(order) - 1} once"
            )
        object.__setattr__(self, "order", order)

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        return from_members(cls, configuration, path, ("order",))

    def configuration(self) -> dict[str, Any]:
        return {"order": list(self.order)}

    def resolve(self, spec: ChunkSpec, context: Context) -> ChunkSpec:
        if len(self.order) != len(spec.shape):
            at = join(join(context.path, "configuration"), "order")
            refuse(at, f"found {describe(self.order)}, the chunk has {len(spec.shape)} dimensions")
        return replace(spec, shape=tuple(spec.shape[dimension] for dimension in self.order))

    def step(self, spec: ChunkSpec) -> Step:
        return ("transpose", self.order)

    def encode(self, value: Array, spec: ChunkSpec) -> Array:
        return value.transpose(self.order)

    def decode(self, value: Array, spec: ChunkSpec) -> Array:
        inverse = sorted(range(len(self.order)), key=self.order.__getitem__)
        return value.transpose(inverse)
