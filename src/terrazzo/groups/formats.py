"""Finding a node whatever format it is in: Zarr 3 first, then Zarr 2 and the draft; or the one that a caller names.

What it does not do: translate anything (dialects). What is found comes as a place in a store of Zarr 3.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from terrazzo.arrays.documents import document_key, node_from_content, read_contents, read_document
from terrazzo.arrays.place import StorePath
from terrazzo.dialects import DIALECTS, DraftView, dialect_of, find_view, is_entry_point, view_of
from terrazzo.errors import MetadataError, StoreError, UnsupportedError
from terrazzo.groups.nodes import erase_node
from terrazzo.metadata import Extension, Node
from terrazzo.metadata.draft_types import Fallback
from terrazzo.options import Options
from terrazzo.stores.local import LocalStore
from terrazzo.stores.store import Store
from terrazzo.stores.wrappers import ReadOnlyStore

__all__ = ["Format", "find", "making", "settled", "stored_as", "suited", "wanted_dialect"]


class Format(TypedDict, total=False):
    """Which format a node is in, or is to be made in.

    zarr_format: 2 or 3; None finds out. dialect: "v3", "v2", "n5" (read), or for the draft of 2022 "P" (as zarr-python
    2.12 to 2.18 wrote it) or "D" (to the letter). fallback: for data types of the draft that are not known: "error",
    "warn" or "use" their fallback. chunks_per_shard: of arrays of the draft whose document lost it, for all or by path.
    """

    zarr_format: int | None
    dialect: str | None
    fallback: Fallback
    chunks_per_shard: Sequence[int] | Mapping[str, Sequence[int]] | None


def wanted_dialect(zarr_format: int | None = None, dialect: str | None = None) -> str | None:
    """The dialect that the two arguments name; None where they leave it open. ValueError where they contradict."""
    if zarr_format not in (None, 2, 3):
        raise ValueError(f"zarr_format is {zarr_format!r}; 2 and 3 are allowed (or None)")
    if dialect is not None and dialect not in DIALECTS:
        raise ValueError(f"dialect is {dialect!r}; {', '.join(map(repr, DIALECTS))} are allowed (or None)")
    if zarr_format is not None and dialect is not None and (zarr_format == 2) != (dialect == "v2"):
        raise ValueError(f"zarr_format={zarr_format} and dialect={dialect!r} contradict each other")
    return "v2" if zarr_format == 2 else dialect


def settled(place: StorePath, options: Options, **wanted: Any) -> StorePath:
    """The place in the store that shows its format as Zarr 3; itself where nothing is found. No document is understood
    for it, so that one that cannot be read is told by whoever reads it."""
    if dialect_of(place.store) is None and not wanted:
        content = _content(place, options)
        entry = content if place.path == "" else None
        if content is not None and not is_entry_point(entry):
            return place
        return _shown(place, options, entry) or place
    return find(place, options, **wanted)[0]


def _content(place: StorePath, options: Options) -> bytes | None:
    """What Zarr 3 has at the place; nothing where that is a folder of chunks of the draft's node `zarr.json`."""
    try:
        (content,) = read_contents(place.store, [place.path], options)
    except StoreError:
        if not place.path or not is_entry_point(place.store.get(document_key(""))):
            raise
        return None
    return content


def find(
    place: StorePath,
    options: Options,
    zarr_format: int | None = None,
    dialect: str | None = None,
    fallback: Fallback = "error",
    chunks_per_shard: Sequence[int] | Mapping[str, Sequence[int]] | None = None,
) -> tuple[StorePath, Node | None]:
    """The node at a place, and the place in the store that shows its format as Zarr 3.

    Where two formats are in one place, Zarr 3 is found; name the other one to have it.
    """
    named = wanted_dialect(zarr_format, dialect)
    view = dialect_of(place.store)
    if view is not None:
        own = getattr(view, "way", view.dialect)
        if named not in (None, own) or (zarr_format == 3 and own == "v2"):
            asked = f"dialect={named!r}" if named else "zarr_format=3"
            raise MetadataError(
                f"{place.store} shows a hierarchy of the dialect {own!r}; {asked} was asked for"
            )
        if chunks_per_shard is not None and isinstance(view, DraftView) and view.chunks_per_shard is None:
            view = view_of(view.store, view.way, options, fallback, chunks_per_shard)
            place = StorePath(view, place.path)
        return place, read_document(place.store, place.path, options)
    if named not in (None, "v3"):
        shown = StorePath(view_of(place.store, named, options, fallback, chunks_per_shard), place.path)
        return shown, read_document(shown.store, shown.path, options)
    content = _content(place, options)
    entry = content if place.path == "" else None
    if content is not None and not (entry is not None and is_entry_point(entry)):
        return place, node_from_content(place.store, place.path, content, options)
    if named == "v3":
        if content is not None:
            raise MetadataError(
                f"{document_key('')} is the entry point of a hierarchy of the draft; dialect='P' reads it"
            )
        return place, None
    found = _shown(place, options, entry, fallback, chunks_per_shard, reading=True)
    if found is None or (zarr_format == 3 and getattr(found.store, "dialect", None) == "v2"):
        return place, None
    return found, read_document(found.store, found.path, options)


def _shown(
    place: StorePath,
    options: Options,
    entry: bytes | None,
    fallback: Fallback = "error",
    chunks_per_shard: Sequence[int] | Mapping[str, Sequence[int]] | None = None,
    reading: bool = False,
) -> StorePath | None:
    """The place in a view of the hierarchy, where another format than Zarr 3 is found."""
    view = find_view(place.store, place.path, options, entry, fallback, chunks_per_shard, reading)
    if view is not None:
        return StorePath(view, place.path)
    for root, path, content in _roots_above(place):
        view = find_view(root, "", options, content, fallback, chunks_per_shard)
        if view is not None and read_document(view, path, options) is not None:
            return StorePath(view, path)
    return None


def _roots_above(place: StorePath) -> Iterator[tuple[Store, str, bytes]]:
    """The hierarchy of the draft that a folder would lie in, by its name: nodes of the draft are no folders."""
    store = place.store
    local = store.store if isinstance(store, ReadOnlyStore) else store
    if place.path or not isinstance(local, LocalStore):
        return
    above, name = os.path.split(local.root)
    path = name
    while name:
        root: Store = LocalStore(
            above, follow_symlinks=local.follow_symlinks, durability=local.durability, files=local.files
        )
        try:
            (content,) = root.get_partial_values([(document_key(""), (0, 1 << 20))])
        except StoreError:
            content = None
        if content is not None:
            if is_entry_point(content):
                yield (root if store is local else root.with_read_only()), path, content
            return
        above, name = os.path.split(above)
        path = f"{name}/{path}"


def making(
    place: StorePath,
    options: Options,
    zarr_format: int | None = None,
    dialect: str | None = None,
    *,
    overwrite: bool = False,
) -> tuple[StorePath, str]:
    """Where a new node goes, and the dialect that it is written in: the named one, or that of the place, or Zarr 3.

    overwrite: what is there in another format goes.
    """
    named = wanted_dialect(zarr_format, dialect)
    view = dialect_of(place.store)
    if named == "n5" or (view is not None and view.dialect == "n5"):
        raise UnsupportedError(
            "hierarchies of N5 are read, and nothing is made in them; choose another dialect"
        )
    if view is None:
        if named in (None, "v3"):
            return place, "v3"
        if overwrite and not place.read_only:
            erase_node(place, options)
        return StorePath(view_of(place.store, named or "v3", options), place.path), named or "v3"
    own: str = getattr(view, "way", view.dialect)
    if named not in (None, own) or (zarr_format == 3 and own == "v2"):
        asked = f"dialect={named!r}" if named else "zarr_format=3"
        raise MetadataError(
            f"{place.store} holds a hierarchy of the dialect {own!r}; {asked} cannot be mixed into it"
        )
    return place, own


def stored_as(dialect: str) -> str:
    """What `metadata.dialect` says of nodes in a dialect."""
    return "draft" if dialect in ("P", "D") else dialect


def suited(dialect: str, ndim: int, dtype: Any, how: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `array_metadata` as a dialect wants them: key encoding, codecs left to us, order, index."""
    order = how.pop("order", None)
    encoding = how.get("chunk_key_encoding")
    separator = _separator(encoding)
    if dialect == "v3":
        if getattr(encoding, "name", None) == "terrazzo.draft":
            how["chunk_key_encoding"] = Extension("default", {"separator": separator})
        return how
    if dialect == "v2":
        how["chunk_key_encoding"] = Extension("v2", {"separator": separator or "."})
    else:
        scalar = "c0" if dialect == "P" else "c"
        how["chunk_key_encoding"] = Extension(
            "terrazzo.draft", {"separator": separator or "/", "scalar": scalar}
        )
        how["index_codecs"] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    if how.get("codecs") is not None:
        return how
    if isinstance(how.get("compressors"), str) and how["compressors"] == "auto":
        how["compressors"] = "gzip:6" if dialect == "D" else "zstd:3"
    if order == "F" and ndim > 1:
        given = how.get("filters")
        kept = [] if given is None or (isinstance(given, str) and given == "auto") else given
        listed = list(kept) if isinstance(kept, list | tuple) else [kept]
        how["filters"] = [
            {"name": "transpose", "configuration": {"order": list(reversed(range(ndim)))}},
            *listed,
        ]
    if isinstance(how.get("serializer"), str) and how["serializer"] == "auto" and _is_big(dtype):
        how["serializer"] = {"name": "bytes", "configuration": {"endian": "big"}}
    return how


def _separator(encoding: Any) -> str | None:
    if isinstance(encoding, Mapping):
        found = encoding.get("separator", encoding.get("configuration", {}).get("separator"))
    elif isinstance(encoding, tuple | list) and len(encoding) == 2:
        found = encoding[1]
    else:
        found = getattr(encoding, "separator", None)
        configuration = getattr(encoding, "configuration", None)
        if isinstance(configuration, Mapping):
            found = configuration.get("separator")
    return found if isinstance(found, str) else None


def _is_big(dtype: Any) -> bool:
    try:
        found = np.dtype(dtype)
        return bool(found.newbyteorder(">") == found and found.newbyteorder("<") != found)
    except TypeError:  # no type of numpy's, or one without a byte order, as its text has
        return False
