"""Readers of gridded stores: by cell, point, parent cell, box and polygon; chunk after chunk; pictures.

What it does not do: write. What is populated is read from the indexes of shards that runs have set out to make and a
region touches, and remembered. Objects are listed only where no run has said which shards there are (in another
writer's store), or where inner chunks are objects of their own, and more than a thousand would have to be looked for.

Reads stores of this library, and stores of other writers with the same layout (a `dggs` block; crs, resolution and
bounds; or GeoZarr's proj: and spatial: in the group's attributes), sharded or not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from terrazzo.arrays.array import Array
from terrazzo.errors import BoundsCheckError, LimitError, NodeNotFoundError, SelectionError
from terrazzo.gridding.covering import covering
from terrazzo.gridding.errors import GridMismatchError
from terrazzo.gridding.grid import Grid
from terrazzo.gridding.healpix import HealpixGrid, interleave
from terrazzo.gridding.optional import required
from terrazzo.gridding.planned import read_planned
from terrazzo.gridding.recognise import grid_of, says_grid
from terrazzo.gridding.regions import Box, Polygon, Region
from terrazzo.groups.group import Group
from terrazzo.groups.opening import open_group
from terrazzo.inventory import survey
from terrazzo.stores.flow import run

__all__ = ["Cellwise", "GridStore", "differs", "open_grid"]

Values = np.ndarray[Any, Any]
#: up to so many objects are looked for one by one, be they stored or not
MOST_LOOKS = 1000
#: values that one call answers without being asked for more
MOST_NBYTES = 1 << 30


@dataclass(frozen=True)
class Cellwise:
    """Cells and one value each: cells int64 (n,), longitude and latitude of their centres, values by field."""

    cells: Values
    longitude: Values
    latitude: Values
    values: dict[str, Values]

    def __len__(self) -> int:
        return len(self.cells)


def open_grid(store: Any, group: str | None = None, *, ellipsoid: str | None = None) -> GridStore:
    """The gridded group in a store: the only one (of a pyramid the finest), or the one at `group`.

    store: a path, an address, a Store, a Group. ellipsoid: "sphere" or "WGS84", instead of the one that the attributes
    say; stores that zagg wrote with mortie older than 0.9.8 say WGS84, and their points are in cells of a sphere.
    """
    root = store if isinstance(store, Group) else open_group(store, mode="r")
    if group is None:
        if _is_grid(root):
            return GridStore(root, ellipsoid)
        found = [name for name, one in root.groups() if _is_grid(one)]
        if not found:
            raise NodeNotFoundError(f"there is no gridded group in {root.store_path}")
        group = max(found, key=lambda name: (name.isdigit(), int(name) if name.isdigit() else 0, -len(name)))
    return GridStore(root.get_group(group), ellipsoid)


def _is_grid(group: Group) -> bool:
    return says_grid(dict(group.attrs))


class GridStore:
    """A gridded group. `fields` are its arrays with one value per cell; `companions`, one per inner chunk."""

    def __init__(self, group: Group, ellipsoid: str | None = None) -> None:
        self.group = group
        members = dict(group.arrays())
        self.grid: Grid = grid_of(dict(group.attrs), members, group.name, ellipsoid)
        n = self.grid.ndim
        self.fields: dict[str, Array] = {}
        self.companions: dict[str, Array] = {}
        for name, array in sorted(members.items()):
            if array.shape[:n] == self.grid.shape and name not in ("cell_ids", "morton"):
                self.fields[name] = array
            elif array.shape[:n] == self.grid.chunk_grid and self.grid.k >= 1 and name not in ("x", "y"):
                self.companions[name] = array
        if not self.fields:
            raise GridMismatchError(
                f"group {group.name!r} has no array of the grid's shape {self.grid.shape}"
            )

    def __repr__(self) -> str:
        return f"<GridStore {self.group.store_path} {self.grid!r} fields={list(self.fields)}>"

    # what is there

    def shards(self, region: Region | None = None, field: str | None = None) -> Values:
        """The keys of the shards with at least one populated inner chunk of a field, ascending, int64."""
        chunks = self.chunks(region, field)
        index = np.stack(np.unravel_index(chunks, self.grid.chunk_grid), axis=1)
        outer = tuple((index // np.array(self.grid.chunks_per_shard)).T)
        return np.unique(np.ravel_multi_index(outer, self.grid.shard_grid)).astype(np.int64)

    def chunks(self, region: Region | None = None, field: str | None = None) -> Values:
        """The populated inner chunks of a field (the first) that may touch a region: their numbers in C order."""
        array = self._field(field)
        planned = read_planned(self.group.store, self.group.path, self.grid)
        shards = planned
        if region is not None:
            touched = covering(self.grid, region)
            shards = touched if planned is None else np.intersect1d(touched, planned)
        # one look for each shard that was planned; more looks than a listing has pages are not worth it
        few = planned is not None and (array.shards is not None or self.grid.k == 1)
        found = self._populated(array, shards, few)[:, : self.grid.ndim]
        numbers = np.sort(np.ravel_multi_index(tuple(found.T), self.grid.chunk_grid)).astype(np.int64)
        if region is None or not len(numbers):
            return numbers
        return numbers[region.may_touch(*self.grid.circles("chunk", numbers))]

    def shards_of_any(self) -> Values:
        """The keys of the shards in which any field has a populated inner chunk, ascending."""
        return np.unique(np.concatenate([self.shards(None, name) for name in self.fields]))

    def chunks_of_shard(self, shard: int, field: str | None = None) -> Values:
        """The populated inner chunks of one shard, from its index: their numbers in C order, ascending."""
        self.grid.check_shard(shard)
        found = self._populated(self._field(field), np.array([shard], np.int64), True)[:, : self.grid.ndim]
        return np.sort(np.ravel_multi_index(tuple(found.T), self.grid.chunk_grid)).astype(np.int64)

    def _field(self, name: str | None) -> Array:
        if name is None:
            return next(iter(self.fields.values()))
        if name not in self.fields:
            raise NodeNotFoundError(
                f"there is no field {name!r} in {self.group.name}; there are {', '.join(self.fields)}"
            )
        return self.fields[name]

    def _populated(self, array: Array, shards: Values | None, few: bool) -> Values:
        """The stored inner chunks of some shards, int64 (n, ndim), from their indexes; of all (None), by listing.

        few: do not list, however many shards there are.
        """
        if shards is None:
            return array.inventory().chunks
        if array.shards is not None or self.grid.k == 1:
            outers = np.stack(np.unravel_index(shards, self.grid.shard_grid), axis=1)
        else:
            inner = [self.grid.children("shard", shard) for shard in shards.tolist()]
            numbers = np.concatenate(inner) if inner else np.zeros(0, np.int64)
            outers = np.stack(np.unravel_index(numbers, self.grid.chunk_grid), axis=1)
        if not few and len(outers) > MOST_LOOKS and array.chunk_store.listable:
            return array.inventory().chunks
        behind = np.zeros((len(outers), array.ndim - self.grid.ndim), np.int64)
        outers = np.concatenate([outers.astype(np.int64), behind], axis=1)
        whole = tuple((0, n) for n in array.shape)
        store = array.chunk_store
        found = survey(array.layout, outers, whole, array.options, array.index_cache, cost=store.cost)
        return run(found, store).chunks

    # values

    def cells(self, cells: Any, field: str | None = None) -> Values:
        """The values of these cells, (n, …); the fill value where nothing is stored."""
        array = self._field(field)
        given = np.asarray(cells)
        if given.size and given.dtype.kind not in "iu":
            raise SelectionError(
                f"cells are whole numbers; found {given.dtype}, for places there are point and box"
            )
        wanted = given.astype(np.int64)
        if wanted.size and not 0 <= int(wanted.min()) <= int(wanted.max()) < int(np.prod(self.grid.shape)):
            raise BoundsCheckError(f"cells are 0 to {int(np.prod(self.grid.shape)) - 1}; asked were {wanted}")
        index: tuple[Any, ...] = self.grid.cell_index(wanted.reshape(-1))
        extra = array.shape[self.grid.ndim :]
        if not extra:
            return np.asarray(array.vindex[index]).reshape(wanted.shape)
        rest = np.indices(extra).reshape(len(extra), -1)
        wide = tuple(i[:, None] for i in index) + tuple(r[None, :] for r in rest)
        return np.asarray(array.vindex[wide]).reshape(wanted.shape + extra)

    def cell(self, cell: int, field: str | None = None) -> Any:
        """The value of one cell."""
        return self.cells(np.array([cell]), field)[0]

    def point(self, longitude: float, latitude: float, field: str | None = None) -> Any:
        """The value of the cell around a point."""
        cell = self.grid.locate(np.array([longitude]), np.array([latitude]))
        if cell[0] < 0:
            raise BoundsCheckError(f"({longitude}, {latitude}) lies outside the grid")
        return self.cells(cell, field)[0]

    def parent(self, order: int, number: int, field: str | None = None) -> Values:
        """All cells of a coarser HEALPix cell, in nested order: 4 times as many for each order between.

        Raises LimitError above 1 GiB of values, or above the setting `memory` where that is more; `blocks` reads the
        populated ones, some at a time.
        """
        if not isinstance(self.grid, HealpixGrid) or not 0 <= order <= self.grid.child_order:
            raise GridMismatchError(
                f"a parent is a HEALPix cell of order 0 to the cells' own; asked was order {order}"
            )
        if not 0 <= number < 12 * 4**order:
            raise BoundsCheckError(f"cells of order {order} are 0 to {12 * 4**order - 1}; asked was {number}")
        n = 4 ** (self.grid.child_order - order)
        array = self._field(field)
        nbytes = n * math.prod(array.shape[1:]) * array.dtype.itemsize
        if nbytes > (most := max(MOST_NBYTES, array.options.memory)):
            raise LimitError(
                f"a cell of order {order} has {n:,} cells of order {self.grid.child_order}, {nbytes:,} bytes of "
                f"{array.name}; at most {most:,} are read at once. Ask for cells of a finer order, read what is "
                "populated with `blocks`, or raise `memory` in the configuration"
            )
        return np.asarray(array[number * n : (number + 1) * n])

    def chunk(self, number: int, field: str | None = None) -> Values:
        """One inner chunk, of the grid's chunk shape; the fill value where it is not stored."""
        array = self._field(field)
        return np.asarray(array[self._region(number)])

    def _region(self, number: int) -> tuple[slice, ...]:
        count = math.prod(self.grid.chunk_grid)
        if not 0 <= number < count:
            raise BoundsCheckError(f"inner chunks are 0 to {count - 1}; asked was {number}")
        index = np.unravel_index(number, self.grid.chunk_grid)
        return tuple(
            slice(int(i) * c, (int(i) + 1) * c) for i, c in zip(index, self.grid.chunk_shape, strict=True)
        )

    def blocks(self, field: str | None = None, region: Region | None = None) -> Iterator[tuple[int, Values]]:
        """Every populated inner chunk of a field: its number and its values; read some at a time."""
        array = self._field(field)
        numbers = self.chunks(region, field).tolist()
        for start in range(0, len(numbers), 64):
            part = numbers[start : start + 64]
            yield from zip(part, array.read_many([self._region(number) for number in part]), strict=True)

    def box(
        self, west: float, south: float, east: float, north: float, fields: Sequence[str] | None = None
    ) -> Cellwise:
        """The populated cells whose centres lie in a box of longitude and latitude; `west` may exceed `east`."""
        return self.region(Box(west, south, east, north), fields)

    def polygon(self, corners: Sequence[Sequence[float]], fields: Sequence[str] | None = None) -> Cellwise:
        """The populated cells whose centres lie in a polygon of (longitude, latitude) corners."""
        return self.region(Polygon(corners), fields)

    def everything(self, fields: Sequence[str] | None = None) -> Cellwise:
        """All populated cells."""
        return self.region(None, fields)

    def region(self, region: Region | None, fields: Sequence[str] | None = None) -> Cellwise:
        """The cells of a region that differ from the fill value in at least one of the fields."""
        names = list(self.fields) if fields is None else list(fields)
        numbers = np.unique(np.concatenate([self.chunks(region, name) for name in names]))
        cells: list[Values] = []
        values: dict[str, list[Values]] = {name: [] for name in names}
        for start in range(0, len(numbers), 64):
            part = numbers[start : start + 64]
            every = np.stack([self.chunk_cells(int(number)) for number in part])
            flat = {}
            populated = np.zeros(every.shape, np.bool_)
            for name in names:
                array = self._field(name)
                found = np.stack(array.read_many([self._region(int(number)) for number in part]))
                flat[name] = found.reshape(every.shape + array.shape[self.grid.ndim :])
                populated |= differs(flat[name], array.fill_value, every.ndim)
            chosen = every[populated]
            if region is not None:
                inside = region.contains(*self.grid.centres(chosen))
                populated[populated] = inside
                chosen = chosen[inside]
            cells.append(chosen)
            for name in names:
                values[name].append(flat[name][populated])
        joined = np.concatenate(cells) if cells else np.zeros(0, np.int64)
        longitude, latitude = self.grid.centres(joined) if len(joined) else (np.zeros(0), np.zeros(0))
        empty = {
            name: np.zeros((0, *self._field(name).shape[self.grid.ndim :]), self._field(name).dtype)
            for name in names
        }
        return Cellwise(
            joined,
            longitude,
            latitude,
            {name: np.concatenate(parts) if parts else empty[name] for name, parts in values.items()},
        )

    def chunk_cells(self, number: int) -> Values:
        """The cells of an inner chunk in C order, int64."""
        index = np.unravel_index(number, self.grid.chunk_grid)
        if self.grid.ndim == 1:
            n = self.grid.cells_per_chunk
            return np.arange(number * n, (number + 1) * n)
        (h, w), across = self.grid.chunk_shape, self.grid.shape[1]
        rows, columns = int(index[0]) * h + np.arange(h), int(index[1]) * w + np.arange(w)
        found: Values = (rows[:, None] * across + columns).reshape(-1)
        return found

    def image(self, number: int, field: str | None = None) -> Values:
        """One inner chunk as a picture; of HEALPix, a square by the bits of its numbers, north at the upper right."""
        values = self.chunk(number, field)
        if not isinstance(self.grid, HealpixGrid):
            return values
        edge = 2 ** (self.grid.child_order - self.grid.chunk_order)
        rows, columns = np.mgrid[:edge, :edge]
        # nested numbers grow to the north-east (even bits) and to the north-west (odd bits)
        nested = interleave(rows.reshape(-1), columns.reshape(-1)).reshape(edge, edge)
        return np.asarray(values[nested][::-1])

    def to_xarray(self, region: Region | None = None, fields: Sequence[str] | None = None) -> Any:
        """The populated cells of a region as an xarray Dataset over `cells`; `cell_ids` and centres are coordinates."""
        xarray = required("xarray", "Datasets", "xarray")
        found = self.region(region, fields)
        coordinates: Mapping[str, Any] = {
            "cell_ids": ("cells", found.cells.astype(np.uint64), self._cell_attributes()),
            "longitude": ("cells", found.longitude),
            "latitude": ("cells", found.latitude),
        }
        columns = {
            name: (["cells", *(f"{name}_{k}" for k in range(values.ndim - 1))], values)
            for name, values in found.values.items()
        }
        return xarray.Dataset(columns, coordinates)

    def _cell_attributes(self) -> dict[str, Any]:
        if not isinstance(self.grid, HealpixGrid):
            return {}
        return {
            "grid_name": "healpix",
            "level": self.grid.child_order,
            "indexing_scheme": "nested",
            "ellipsoid": self.grid.ellipsoid,
        }


def differs(values: Values, fill: Any, ndim: int) -> Values:
    """Where a cell's value is not the fill value, over all that lies behind the first `ndim` dimensions."""
    same = values == fill
    if values.dtype.kind == "f" and np.isnan(fill):
        same = np.isnan(values)
    return np.asarray(~same if values.ndim == ndim else ~same.reshape(*values.shape[:ndim], -1).all(axis=-1))
