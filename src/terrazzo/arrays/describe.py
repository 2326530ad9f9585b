"""What an array tells about itself: `info`, `info_complete()`, the picture in a notebook, what is stored of it.

What it does not do: read anything for `info`, `repr` or the picture; they tell what the document says. Counting what
is stored reads shard indexes and sizes, never chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from terrazzo.arrays.documents import document_key
from terrazzo.arrays.stored import inventory_of, layout_fingerprint, listed, stored_versions
from terrazzo.drawing import grid_svg, nbytes_text
from terrazzo.inventory import Inventory
from terrazzo.metadata.draft import FALLBACK

if TYPE_CHECKING:
    from terrazzo.arrays.array import Array

__all__ = ["Described", "Lines", "array_lines", "in_one_line"]


class Lines:
    """Named values, one a line; `dict(lines)` and `lines["Shape"]` give them back."""

    def __init__(self, lines: Iterable[tuple[str, object]]) -> None:
        self._lines = dict(lines)

    def keys(self) -> Iterable[str]:
        return self._lines.keys()

    def __getitem__(self, name: str) -> object:
        return self._lines[name]

    def __repr__(self) -> str:
        width = max(map(len, self._lines), default=0)
        return "\n".join(f"{name:<{width}} : {value}" for name, value in self._lines.items()) + "\n"

    def _repr_html_(self) -> str:
        from html import escape

        rows = "".join(
            f'<tr><th style="text-align: left">{escape(name)}</th>'
            f'<td style="text-align: left">{escape(str(value))}</td></tr>'
            for name, value in self._lines.items()
        )
        return f'<table class="terrazzo-lines"><tbody>{rows}</tbody></table>'


class Described:
    """The part of an Array that describes it."""

    @property
    def info(self) -> Lines:
        """What the array is, readable; nothing is read for it."""
        return Lines(array_lines(_array(self)))

    def info_complete(self) -> Lines:
        """`info`, and what is stored: bytes and populated chunks; reads every shard index."""
        array = _array(self)
        return Lines([*array_lines(array), *_stored_lines(array)])

    @property
    def nchunks_initialized(self) -> int:
        """How many of the chunks that reads touch are stored; inner chunks are counted in the shard indexes."""
        return _stored_chunks(_array(self))

    @property
    def nshards_initialized(self) -> int:
        """How many objects (shards; chunks, in a plain array) are stored."""
        return _stored_objects(_array(self))

    def nbytes_stored(self) -> int:
        """Bytes that the array takes in its store: chunks or shards, and its document."""
        array = _array(self)
        return int(inventory_of(array).sizes.sum()) + (array.store.getsize(document_key(array.path)) or 0)

    def inventory(self, region: Any = None, *, slack: bool = False) -> Inventory:
        """Which chunks are stored, in which objects, where and how large; from shard indexes, without decoding.

        region: slices of step 1 and integers; chunks that lie in it, at least in part, count. None: the whole array.
        slack: read the bytes too that no chunk covers, and tell those left free for chunks to grow (`InPlace`).

            >>> array = terrazzo.create_array(
            ...     {}, shape=(100, 100), dtype="f4", chunks=(10, 10), shards=(50, 50)
            ... )
            >>> array[:30, :30] = 1.5
            >>> found = array.inventory(np.s_[:20, :50])
            >>> len(found), found.keys, found.chunks[0].tolist()
            (6, ['c/0/0'], [0, 0])
        """
        return inventory_of(_array(self), region, slack)

    def stored_versions(self, region: tuple[tuple[int, int], ...]) -> dict[str, int]:
        """For `Inventory.is_stale`: a fingerprint of the version of every stored object of a region."""
        return stored_versions(_array(self), region)

    def layout_fingerprint(self) -> int:
        """For `Inventory.is_stale`: what stands for where this array's chunks lie."""
        return layout_fingerprint(_array(self))

    def _repr_html_(self) -> str:
        array = _array(self)
        picture = _picture(array)
        return (
            '<div style="display: flex; flex-wrap: wrap; gap: 2em; align-items: flex-start">'
            f"<div>{Lines(array_lines(array))._repr_html_()}</div><div>{picture}</div></div>"
        )


def _array(described: object) -> Array:
    from terrazzo.arrays.array import Array

    assert isinstance(described, Array)
    return described


def _data_type(array: Array) -> str:
    """With the type that it stands in for, where that is not known (a fallback of the 2022 draft)."""
    told = array.metadata.extra.get(FALLBACK)
    of = told.get("of") if isinstance(told, dict) else None
    return f"{array.metadata.data_type}" + (f" (fallback of {of})" if of is not None else "")


def _picture(array: Array) -> str:
    inner = array.layout.inner_shape
    uniform = array.layout.grid.uniform_shape
    outer: list[Any] = (
        list(uniform) if uniform is not None else [list(edges) for edges in array.write_chunk_sizes]
    )
    return grid_svg(
        array.shape,
        outer if inner is None else list(inner),
        None if inner is None else outer,
        array.dimension_names,
        itemsize=array.dtype.itemsize,
    )


def in_one_line(array: Array) -> str:
    """Shape, data type, chunks, shards and codecs, for `repr`."""
    sharding, uniform = array.layout.sharding, array.layout.grid.uniform_shape
    outer = uniform if uniform is not None else "varied"
    words = [f"shape={array.shape}", f"dtype={array.dtype}"]
    if sharding is None:
        words.append(f"chunks={outer}")
    else:
        words += [f"chunks={sharding.chunk_shape}", f"shards={outer}"]
    codecs = (*array.filters, array.serializer, *array.compressors)
    words.append(f"codecs={'+'.join(codec.name for codec in codecs)}")
    return " ".join(words)


def array_lines(array: Array) -> list[tuple[str, object]]:
    """What the document says of an array."""
    regular = array.layout.grid.uniform_shape is not None
    lines: list[tuple[str, object]] = [
        ("Type", "Array"),
        ("Zarr format", array.metadata.zarr_format),
        ("Data type", _data_type(array)),
        ("Fill value", array.fill_value),
        ("Shape", array.shape),
    ]
    if array.dimension_names is not None:
        lines.append(("Dimension names", array.dimension_names))
    sharded = array.layout.sharding is not None
    if sharded:
        lines.append(("Shard shape", array.shards if regular else _varied(array.write_chunk_sizes)))
        lines.append(("Chunk shape", array.layout.inner_shape))
        lines.append(("Index location", array.layout.sharding.index_location))  # type: ignore[union-attr]
    else:
        lines.append(("Chunk shape", array.chunks if regular else _varied(array.write_chunk_sizes)))
    lines += [
        ("Order", array.order),
        ("Read-only", array.read_only),
        ("Store type", type(array.store).__name__),
        ("Filters", array.filters),
        ("Serializer", array.serializer),
        ("Compressors", array.compressors),
    ]
    if array.metadata.storage_transformers:
        lines.append(("Storage transformers", tuple(one.name for one in array.metadata.storage_transformers)))
    lines.append(("No. bytes", _nbytes(array.nbytes)))
    lines.append(("No. chunks", f"{array.nchunks:,}"))
    if sharded:
        lines.append(("No. shards", f"{prod(array.shard_grid_shape):,}"))
    return lines


def _stored_lines(array: Array) -> list[tuple[str, object]]:
    found = inventory_of(array)
    stored = int(found.sizes.sum()) + (array.store.getsize(document_key(array.path)) or 0)
    lines: list[tuple[str, object]] = [("No. bytes stored", _nbytes(stored))]
    if stored and array.dtype.itemsize:
        lines.append(("Storage ratio", f"{array.nbytes / stored:.1f}"))
    lines.append(("Chunks initialized", f"{len(found):,}/{array.nchunks:,}"))
    if array.layout.sharding is not None:
        lines.append(("Shards initialized", f"{len(found.keys):,}/{prod(array.shard_grid_shape):,}"))
        dead = int(found.dead.sum())
        if dead:
            lines.append(("Dead bytes", _nbytes(dead)))
    return lines


def _nbytes(nbytes: int) -> str:
    return f"{nbytes} ({nbytes_text(nbytes)})" if nbytes >= 1000 else str(nbytes)


def _varied(sizes: Sequence[tuple[int, ...]]) -> str:
    """Edges of chunks of several shapes, shortened."""
    parts = []
    for edges in sizes:
        shown = ", ".join(map(str, edges[:4])) + (", …" if len(edges) > 4 else "")
        parts.append(f"[{shown}]")
    return f"({', '.join(parts)})"


# what is stored


def _stored_objects(array: Array) -> int:
    if array.chunk_store.listable:
        return len(listed(array))
    return len(inventory_of(array).keys)


def _stored_chunks(array: Array) -> int:
    # an object of a plain array is a chunk: its size need not be asked for
    return _stored_objects(array) if array.layout.sharding is None else len(inventory_of(array))
