"""Audit: a gridded store beside its receipts: every object that should be there, as it was written, and no other.

What it does not do: decode, or mend.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from terrazzo.arrays.array import Array
from terrazzo.gridding.planned import NAME
from terrazzo.gridding.reader import open_grid
from terrazzo.gridding.receipts import FOLDER, checksum, read_receipt
from terrazzo.groups.opening import open_group
from terrazzo.stores.store import Store

__all__ = ["Audit", "audit"]


@dataclass
class Audit:
    """What was found. problems: one sentence each; shards, objects, nbytes: by the receipts."""

    shards: int = 0
    objects: int = 0
    nbytes: int = 0
    problems: list[str] = field(default_factory=list)


def audit(store: Any, group: str | None = None, *, contents: bool = True) -> Audit:
    """Compare the stored objects of a gridded group with the receipts of its shards.

    contents: read every object and compare its checksum, where the receipt has one; else lengths only.
    """
    grid = open_grid(store, group)
    place, path = grid.group.store, grid.group.path
    prefix = f"{path}/" if path else ""
    found = Audit()
    expected: dict[str, tuple[int, int | None]] = {}
    for key in sorted(place.list_prefix(f"{prefix}{FOLDER}/")):
        if key.endswith(f"/{NAME}"):
            continue
        name = key.rpartition("/")[2].removesuffix(".json")
        receipt = read_receipt(place, path, int(name)) if name.isdigit() else None
        if receipt is None or str(receipt.shard) != name:
            found.problems.append(f"{key}: a receipt that cannot be read; run again to make its shard again")
            continue
        found.shards += 1
        for one, (nbytes, crc) in receipt.objects.items():
            if one in expected:
                found.problems.append(f"{one}: two shards claim this object")
            expected[one] = (nbytes, crc)
    arrays = [one for _, one in grid.group.arrays() if _written_by_shard(one, grid.grid.ndim)]
    arrays += _coarser(place, path, expected, grid.grid.ndim)
    stored = {key for one in arrays for key in _objects(one)}
    for key in sorted(stored - set(expected)):
        found.problems.append(
            f"{key}: no receipt has this object; it was written by something else, or by a run that ended"
        )
    for key, (nbytes, crc) in sorted(expected.items()):
        found.objects += 1
        found.nbytes += nbytes
        size = place.getsize(key)
        if size is None:
            found.problems.append(f"{key}: missing; its receipt says {nbytes} bytes")
        elif size != nbytes:
            found.problems.append(f"{key}: {size} bytes; its receipt says {nbytes}")
        elif contents and crc is not None and checksum(place, key, nbytes) != crc:
            found.problems.append(f"{key}: other bytes than those that were written")
    return found


def _coarser(store: Store, path: str, expected: Mapping[str, Any], ndim: int) -> list[Array]:
    """The arrays of coarser grids that shards were written to, by their receipts."""
    above, _, name = path.rpartition("/")
    below = f"{above}/" if above else ""
    groups = {key.removeprefix(below).partition("/")[0] for key in expected} - {name}
    found: list[Array] = []
    for one in sorted(groups):
        group = open_group(store, path=below + one, mode="r")
        found += [array for _, array in group.arrays() if _written_by_shard(array, ndim)]
    return found


def _written_by_shard(array: Array, ndim: int) -> bool:
    """Coordinates of a grid with two dimensions are written once for all."""
    return not (ndim > 1 and array.ndim == 1)


def _objects(array: Array) -> list[str]:
    prefix = array.layout.prefix
    return [key for key in array.store.list_prefix(prefix) if not key.endswith(("zarr.json", ".__lock"))]
