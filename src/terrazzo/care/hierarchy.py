"""Groups, array by array: what care does for a whole hierarchy.

What it does not do: care; each verb does that for one array.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from terrazzo.arrays.array import Array
from terrazzo.groups.group import Group
from terrazzo.groups.opening import open as open_node
from terrazzo.inventory import Inventory
from terrazzo.progress import Progress, follow

__all__ = ["Summary", "arrays_of", "inventories", "opened"]


@dataclass(frozen=True, slots=True)
class Summary:
    """What is stored of one array, or of all below a group. chunks: inner ones where there are shards; of: how many
    there could be. slack_nbytes: None where the bytes were not read."""

    chunks: int
    of: int
    objects: int
    nbytes: int
    chunk_nbytes: int
    decoded_nbytes: int
    dead_nbytes: int
    slack_nbytes: int | None

    @classmethod
    def of_inventory(cls, found: Inventory, nchunks: int) -> Summary:
        return cls(
            len(found),
            nchunks,
            len(found.keys),
            int(found.sizes.sum()),
            found.stored_nbytes,
            found.decoded_nbytes,
            found.dead_nbytes,
            found.slack_nbytes,
        )

    def __add__(self, other: Summary) -> Summary:
        slack = None
        if self.slack_nbytes is not None and other.slack_nbytes is not None:
            slack = self.slack_nbytes + other.slack_nbytes
        return Summary(
            self.chunks + other.chunks,
            self.of + other.of,
            self.objects + other.objects,
            self.nbytes + other.nbytes,
            self.chunk_nbytes + other.chunk_nbytes,
            self.decoded_nbytes + other.decoded_nbytes,
            self.dead_nbytes + other.dead_nbytes,
            slack,
        )

    @property
    def ratio(self) -> float:
        """Decoded bytes of the stored chunks for each encoded byte; 0 where nothing is stored."""
        return self.decoded_nbytes / self.chunk_nbytes if self.chunk_nbytes else 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "chunks": self.chunks,
            "chunks_of_array": self.of,
            "objects": self.objects,
            "nbytes": self.nbytes,
            "chunk_nbytes": self.chunk_nbytes,
            "dead_nbytes": self.dead_nbytes,
            "slack_nbytes": self.slack_nbytes,
            "ratio": self.ratio,
        }


def opened(
    node: Any, mode: Literal["r", "r+"], storage_options: Mapping[str, Any] | None = None
) -> Array | Group:
    """An Array or a Group as it is, or what `open` finds there."""
    if isinstance(node, Array | Group):
        return node
    return open_node(node, mode=mode, storage_options=storage_options)


def arrays_of(node: Array | Group) -> Iterator[tuple[str, Array]]:
    """(path below the group, array) of every array; an array alone has the path ""."""
    if isinstance(node, Array):
        yield "", node
        return
    for path, member in node.walk():
        if isinstance(member, Array):
            yield path, member


def inventories(
    node: Any,
    *,
    slack: bool = False,
    progress: Progress = None,
    storage_options: Mapping[str, Any] | None = None,
) -> dict[str, Summary]:
    """What is stored of every array below a group, by its path, from shard indexes alone.

    node: an Array, a Group, or anything that `open` takes. slack: read the bytes too that nothing covers, and tell
    those left free for chunks to grow. progress: counts arrays.
    """
    arrays = list(arrays_of(opened(node, "r", storage_options)))
    found: dict[str, Summary] = {}
    with follow(progress, len(arrays), "looking") as step:
        for path, array in arrays:
            found[path] = Summary.of_inventory(array.inventory(slack=slack), array.nchunks)
            step(1)
    return found
