"""Array: what a user holds. numpy's manners over the flows.

What it does not do: plan, read or write; it turns a selection into a projection, makes the output, and drives a flow.
The API follows zarr-python 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, Self

import numpy as np

from terrazzo.arrays.attributes import Attributes
from terrazzo.arrays.chunked import Chunked
from terrazzo.arrays.describe import Described, in_one_line
from terrazzo.arrays.documents import change_document
from terrazzo.arrays.early import layout_of
from terrazzo.arrays.entrances import Entrances
from terrazzo.arrays.merging import MEMBER, finish
from terrazzo.arrays.place import Placed
from terrazzo.arrays.selections import BlockView, OrthogonalView, VectorView, without_fields
from terrazzo.arrays.transfers import getting, in_order, refuse_reading, setting
from terrazzo.dialects import as_stored
from terrazzo.errors import MetadataError
from terrazzo.index import IndexCache
from terrazzo.indexing import (
    Projection,
    project_basic,
    project_blocks,
    project_coordinates,
    project_fancy,
    project_mask,
    project_orthogonal,
)
from terrazzo.layout import Layout
from terrazzo.metadata import ArrayMetadata
from terrazzo.options import Options
from terrazzo.read import ChunkCache, read_many
from terrazzo.stores.flow import run
from terrazzo.stores.store import Store
from terrazzo.strategy import Outcomes, Replace, Strategy, strategy_from
from terrazzo.transformers import transformed

__all__ = ["Array"]

Value = np.ndarray[Any, Any]


class Array(Placed, Chunked, Described, Entrances):
    """An N-dimensional array in a store. Get one from `terrazzo.open_array` or `terrazzo.create_array`."""

    def __init__(
        self,
        store: Store,
        path: str,
        metadata: ArrayMetadata,
        options: Options,
        strategy: Strategy | None = None,
        read_only: bool = False,
    ) -> None:
        self._store = store
        self._path = path
        self._metadata = metadata
        self._options = options
        self._strategy = strategy or Replace()
        self._read_only = read_only or not store.writable
        try:
            self._chunk_store = transformed(store, path, metadata)
            if MEMBER in metadata.extra:
                metadata = self._metadata = finish(store, self._chunk_store, path, metadata, options)
            self._layout = layout_of(self._chunk_store, path, metadata, options)
        except MetadataError as error:
            raise as_stored(error, store, path) from None
        self._cache = IndexCache(options.index_cache_nbytes)
        self._outcomes = Outcomes()
        self._chunks = ChunkCache(options.chunk_cache_nbytes) if options.chunk_cache_nbytes else None

    def __getstate__(self) -> tuple[Any, ...]:
        return self._store, self._path, self._metadata, self._options, self._strategy, self._read_only

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    # what it is

    @property
    def chunk_store(self) -> Store:
        """What chunks are read and written through: the store, or the array's storage transformers over it."""
        return self._chunk_store

    @property
    def metadata(self) -> ArrayMetadata:
        return self._metadata

    @property
    def attrs(self) -> Attributes:
        return Attributes(lambda: self._metadata.attributes, self._change_attributes)

    config = Placed.options

    @property
    def strategy(self) -> Strategy:
        """What a changed shard turns into."""
        return self._strategy

    @property
    def outcomes(self) -> Outcomes:
        """What became of the inner chunks that this object has changed in stored shards: how many fitted, grew, moved.

        >>> array = terrazzo.create_array(
        ...     "kept.zarr", data=np.zeros((8, 8)) + 1, chunks=(4, 4), shards=(8, 8), strategy="in-place"
        ... )
        >>> with array.using(strategy=terrazzo.InPlace(slack=200)) as changed:
        ...     changed[...] = 2
        ...     changed[:4, :4] = np.arange(16).reshape(4, 4)
        ...     print(changed.outcomes.grown, changed.outcomes.replaced)
        1 0
        """
        return self._outcomes

    @property
    def chunk_cache(self) -> ChunkCache | None:
        """Decoded chunks that small reads may come back to; None unless `chunk_cache_nbytes` is set."""
        return self._chunks

    @property
    def index_cache(self) -> IndexCache:
        """The shard indexes that this array remembers."""
        return self._cache

    @property
    def layout(self) -> Layout:
        """How the elements lie in objects."""
        return self._layout

    @property
    def shape(self) -> tuple[int, ...]:
        return self._layout.shape

    @shape.setter
    def shape(self, shape: Sequence[int]) -> None:
        self.resize(shape)

    # selections

    def __getitem__(self, selection: Any) -> Any:
        fields, rest = without_fields(selection)
        return self._get(project_fancy(rest, self._layout), fields=fields)

    def __setitem__(self, selection: Any, value: Any) -> None:
        fields, rest = without_fields(selection)
        self._set(lambda write: project_fancy(rest, self._layout, for_write=write), value, fields)

    @property
    def oindex(self) -> OrthogonalView:
        """Orthogonal selections: each dimension is indexed on its own, as by numpy.ix_."""
        return OrthogonalView(self)

    @property
    def vindex(self) -> VectorView:
        """Coordinate and mask selections: element by element, as numpy's integer and boolean arrays."""
        return VectorView(self)

    @property
    def blocks(self) -> BlockView:
        """Selections in units of stored chunks: shards, where there are shards."""
        return BlockView(self)

    def get_basic_selection(
        self, selection: Any = ..., *, out: Value | None = None, fields: Any = None, prototype: Any = None
    ) -> Any:
        """Read with integers and slices."""
        return self._get(project_basic(selection, self._layout), out, fields)

    def set_basic_selection(
        self, selection: Any, value: Any, *, fields: Any = None, prototype: Any = None
    ) -> None:
        """Write with integers and slices."""
        self._set(lambda write: project_basic(selection, self._layout, for_write=write), value, fields)

    def get_orthogonal_selection(
        self, selection: Any, *, out: Value | None = None, fields: Any = None, prototype: Any = None
    ) -> Any:
        """Read with one integer, slice, integer array or mask per dimension."""
        return self._get(project_orthogonal(selection, self._layout), out, fields)

    def set_orthogonal_selection(
        self, selection: Any, value: Any, *, fields: Any = None, prototype: Any = None
    ) -> None:
        """Write with one integer, slice, integer array or mask per dimension."""
        self._set(lambda write: project_orthogonal(selection, self._layout, for_write=write), value, fields)

    def get_coordinate_selection(
        self, selection: Any, *, out: Value | None = None, fields: Any = None, prototype: Any = None
    ) -> Any:
        """Read single elements: one integer array per dimension, broadcast against each other."""
        return self._get(project_coordinates(selection, self._layout), out, fields)

    def set_coordinate_selection(
        self, selection: Any, value: Any, *, fields: Any = None, prototype: Any = None
    ) -> None:
        """Write single elements; where a coordinate repeats, the last value stays."""
        self._set(lambda write: project_coordinates(selection, self._layout, for_write=write), value, fields)

    def get_mask_selection(
        self, mask: Any, *, out: Value | None = None, fields: Any = None, prototype: Any = None
    ) -> Any:
        """Read the elements where `mask`, a boolean array of this array's shape, is true; 1-D."""
        return self._get(project_mask(mask, self._layout), out, fields)

    def set_mask_selection(self, mask: Any, value: Any, *, fields: Any = None, prototype: Any = None) -> None:
        """Write the elements where `mask` is true."""
        self._set(lambda write: project_mask(mask, self._layout, for_write=write), value, fields)

    def get_block_selection(
        self, selection: Any, *, out: Value | None = None, fields: Any = None, prototype: Any = None
    ) -> Any:
        """Read whole stored chunks (shards), selected by integers and slices over their grid."""
        return self._get(project_blocks(selection, self._layout), out, fields)

    def set_block_selection(
        self, selection: Any, value: Any, *, fields: Any = None, prototype: Any = None
    ) -> None:
        """Write whole stored chunks (shards), selected by integers and slices over their grid."""
        self._set(lambda write: project_blocks(selection, self._layout, for_write=write), value, fields)

    def _get(self, projection: Projection, out: Value | None = None, fields: Any = None) -> Any:
        flow, finish = getting(self, projection, out, fields)
        run(flow, self._chunk_store)
        return finish()

    def read_many(self, selections: Sequence[Any], *, out: Sequence[Value] | None = None) -> list[Any]:
        """Read several selections (as in `array[selection]`) at once: every object is opened once for all of them.

        out: one array per selection, of its shape and this array's type, to be filled instead of new ones.
        """
        projections = [project_fancy(selection, self._layout) for selection in selections]
        outs: Sequence[Value | None] = [None] * len(projections) if out is None else out
        if len(outs) != len(projections):
            raise ValueError(f"{len(projections)} selections were given, and {len(outs)} arrays for them")
        buffers = [self.output(p, o) for p, o in zip(projections, outs, strict=True)]
        selected = list(zip(projections, buffers, strict=True))
        store = self._chunk_store
        run(read_many(self._layout, selected, self._options, self._cache, self._chunks, store.cost), store)
        found = []
        for (projection, buffer), given in zip(selected, outs, strict=True):
            if given is not None and not np.may_share_memory(buffer, given):
                given[...] = projection.finish(buffer)
            answer = in_order(projection.finish(buffer), self._options.order) if given is None else given
            found.append(answer)
        return found

    def output(self, projection: Projection, out: Value | None = None) -> Value:
        """The array that the kernel fills: `out` itself where it can be."""
        if out is not None:
            if out.shape != projection.out_shape or out.dtype != self.dtype:
                raise ValueError(
                    f"out has shape {out.shape} and type {out.dtype}; "
                    f"the selection has {projection.out_shape} and {self.dtype}"
                )
            if not projection.flips and out.flags.c_contiguous:
                return out.reshape(projection.buffer_shape)
        return np.empty(projection.buffer_shape, self.dtype)

    def _set(self, project: Callable[[bool], Projection], value: Any, fields: Any = None) -> None:
        run(setting(self, project, value, fields), self._chunk_store)

    def put_shard(self, index: Sequence[int], chunks: Mapping[tuple[int, ...], Any]) -> None:
        """Write one whole shard from its populated inner chunks, in memory of those chunks alone.

        index: of the shard in the grid. chunks: from the index of an inner chunk inside the shard to its values, of
        the inner chunk's shape. Inner chunks that are not named hold the fill value afterwards.
        """
        from terrazzo.write import write_shard

        refuse_reading(self)
        store, options = self._chunk_store, self._options
        flow = write_shard(
            self._layout, tuple(index), chunks, options, self._cache, self._strategy, store.cost
        )
        run(flow, store)

    # numpy's and Python's manners

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Value:
        if copy is False:
            raise ValueError("an array in a store cannot be seen as a numpy array without a copy")
        found = np.asarray(self[...])
        return found if dtype is None else found.astype(dtype, copy=False)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d array")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        step = self._step()
        for start in range(0, self.shape[0], step):
            yield from self[start : start + step]

    def _step(self) -> int:
        """Rows that are read at once by a loop: of a shard as many as fit the memory of a call, of a chunk all."""
        if self._layout.grid.uniform_shape is None:
            return 64
        shard, chunk = self._outer_shape()[0], (self._layout.inner_shape or self._outer_shape())[0]
        row_nbytes = max(1, prod(self.shape[1:]) * self.dtype.itemsize)
        return max(1, min(shard, max(chunk, self._options.memory // row_nbytes // max(1, chunk) * chunk)))

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._cache.clear()  # shards that stayed open
        self._store.close()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Array)
            and self._store == other._store
            and self._path == other._path
            and self._metadata.to_bytes() == other._metadata.to_bytes()
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<terrazzo.Array {self.store_path} {in_one_line(self)}>"

    def __dask_tokenize__(self) -> tuple[str, str, bytes]:
        return type(self).__name__, str(self.store_path), self._metadata.to_bytes()

    # other arrays over the same objects

    def with_config(self, config: Mapping[str, Any]) -> Array:
        """This array, worked on with other settings."""
        from terrazzo.config import options_from

        return self._like(options=options_from(config))

    def using(self, *, strategy: str | Strategy | None = None, **options: Any) -> Array:
        """This array with another write strategy or other options, for a `with` block or to keep."""
        changed = replace(self._options, **options) if options else self._options
        return self._like(options=changed, strategy=None if strategy is None else strategy_from(strategy))

    def _like(self, *, options: Options, strategy: Strategy | None = None) -> Array:
        return Array(
            self._store, self._path, self._metadata, options, strategy or self._strategy, self._read_only
        )

    # changes of the document

    def _change(self, change: Callable[[ArrayMetadata], ArrayMetadata]) -> None:
        refuse_reading(self)
        grid = self._metadata.chunk_grid
        self._metadata = change_document(self._store, self._path, ArrayMetadata, change, self._options)
        if (self._metadata.shape, self._metadata.chunk_grid) != (self._layout.shape, grid):
            self._layout = layout_of(self._chunk_store, self._path, self._metadata, self._options)

    def _change_attributes(self, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
        self._change(lambda document: replace(document, attributes=dict(change(document.attributes))))

    def update_attributes(self, attributes: Mapping[str, Any]) -> Array:
        """Set several attributes in one write."""
        self.attrs.update(attributes)
        return self

    def resize(self, shape: Sequence[int] | int, *, delete_outside_chunks: bool = True) -> None:
        """Change the shape. Chunks that end up wholly outside are deleted, unless `delete_outside_chunks` is False;
        elements outside that share a chunk with elements inside stay stored and come back when the array grows."""
        from terrazzo.arrays.resizing import resize

        refuse_reading(self)
        new = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
        self._metadata, self._layout = resize(self, new, delete_outside_chunks)
        self._cache.clear()

    def append(self, data: Any, axis: int = 0) -> tuple[int, ...]:
        """Grow along `axis` by the extent of `data`, write it there, and answer the new shape.

        The rows are reserved first, behind the end as it is stored now, then written: appenders in many threads or
        processes never get each other's rows. A crash or an error between leaves rows of the fill value, and a reader
        meanwhile sees such.
        """
        from terrazzo.arrays.appending import append

        return append(self, data, axis)
