"""The map of an array: which of its shards are stored, and how many of their inner chunks.

What it does not do: show the bytes of a shard (shard_map.py), or decode anything; it is drawn from an inventory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from terrazzo.arrays.array import Array
from terrazzo.drawing import heatmap_png, presence_svg
from terrazzo.groups.opening import open_array

__all__ = ["PresenceMap", "presence_map"]

#: shards of a picture; of a larger grid a region can be drawn
MOST = 10_000_000
#: of the longer side of a PNG, about
PIXELS = 512
#: characters from nothing to everything
_SHADES = " .:-=+*#%@"


@dataclass(frozen=True, slots=True, eq=False)
class PresenceMap:
    """counts: stored inner chunks of every shard (in a plain array objects), in the shape of the grid; most: how many
    a shard can have. `print` draws it with characters, a notebook as SVG."""

    counts: np.ndarray[Any, np.dtype[np.int64]]
    most: int
    names: tuple[str | None, ...] | None
    title: str

    def svg(self) -> str:
        """One cell a shard, the more colour the more of it is there."""
        return presence_svg(self.counts, self.most, self.names, title=self.title)

    def png(self) -> bytes:
        """One square a shard, along the last two dimensions; the others are laid below one another."""
        columns = self.counts.shape[-1] if self.counts.ndim else 1
        share = self.counts.reshape(-1, columns) / self.most
        side = max(1, PIXELS // max(1, *share.shape))
        return heatmap_png(share.repeat(side, axis=0).repeat(side, axis=1), low=0, high=1)

    def _repr_html_(self) -> str:
        return self.svg()

    def __str__(self) -> str:
        columns = self.counts.shape[-1] if self.counts.ndim else 1
        share = self.counts.reshape(-1, columns) / self.most
        step = (max(1, -(-share.shape[0] // 40)), max(1, -(-share.shape[1] // 80)))
        lines = [self.title]
        for top in range(0, share.shape[0], step[0]):
            cells = [
                float(share[top : top + step[0], left : left + step[1]].mean())
                for left in range(0, share.shape[1], step[1])
            ]
            lines.append("|" + "".join(_SHADES[_shade(cell)] for cell in cells) + "|")
        there = int((self.counts > 0).sum())
        lines.append(
            f"{there:,} of {self.counts.size:,} stored, {int(self.counts.sum()):,} of "
            f"{self.counts.size * self.most:,} chunks; a character is {step[0]} × {step[1]}, @ all of it"
        )
        return "\n".join(lines)


def _shade(share: float) -> int:
    """Something is never drawn like nothing, nor a part like everything."""
    if share <= 0:
        return 0
    return len(_SHADES) - 1 if share >= 1 else 1 + int(share * (len(_SHADES) - 2))


def presence_map(
    node: Any, region: Any = None, *, storage_options: Mapping[str, Any] | None = None
) -> PresenceMap:
    """Look at the shards of an array (or of a region, as in `array.inventory`) and map what is stored.

    node: an Array, or anything that `open_array` takes. Raises ValueError where there are more than ten million shards.
    """
    array = node if isinstance(node, Array) else open_array(node, mode="r", storage_options=storage_options)
    layout = array.layout
    found = array.inventory(region)
    spans = [
        (dim.find(first)[0], dim.find(stop - 1)[0] + 1) if stop > first else (0, 0)
        for dim, (first, stop) in zip(layout.grid.dims, found.box, strict=True)
    ]
    shape = tuple(stop - first for first, stop in spans)
    if prod(shape) > MOST:
        raise ValueError(
            f"{prod(shape):,} shards are too many for a picture; give a region with up to {MOST:,}"
        )
    counts = np.zeros(shape, np.int64)
    outers = found.chunks.copy()
    most = 1
    if layout.sharding is not None:
        for d, c in enumerate(layout.sharding.chunk_shape):
            outers[:, d] = layout.grid.locate(d, found.chunks[:, d] * c)[0]
        most = prod(
            layout.sharding.chunks_per_shard(layout.grid.uniform_shape or layout.grid.distinct_shapes()[0])
        )
    np.add.at(counts, tuple((outers - np.array([first for first, _ in spans], np.int64)).T), 1)
    what = "chunks" if layout.sharding is None else "shards"
    return PresenceMap(counts, most, array.dimension_names, f"{what} of {array.name}")
