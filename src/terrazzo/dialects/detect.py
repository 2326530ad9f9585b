"""Which format a hierarchy is in, found without help; and the view that a caller asks for by name.

What it does not do: look where a document of Zarr 3 answers already: a store of Zarr 3 costs no further request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from terrazzo.dialects.draft import ENTRY, DraftView
from terrazzo.dialects.n5 import ATTRIBUTES, N5View
from terrazzo.dialects.v2 import ARRAY, GROUP, V2View, below
from terrazzo.dialects.v2 import ATTRIBUTES as ZARR2_ATTRIBUTES
from terrazzo.dialects.view import DialectView
from terrazzo.errors import LimitError, MetadataError
from terrazzo.metadata import read_json
from terrazzo.metadata.draft import Way, check_extensions
from terrazzo.metadata.draft_types import Fallback
from terrazzo.metadata.n5 import is_n5
from terrazzo.metadata.problems import describe
from terrazzo.options import Options
from terrazzo.stores.flow import watched
from terrazzo.stores.store import Open, Source, Store
from terrazzo.stores.wrappers import ReadOnlyStore

__all__ = ["DIALECTS", "as_stored", "dialect_of", "find_view", "is_entry_point", "view_of"]

#: what `dialect=` takes: Zarr 3, Zarr 2, the draft as zarr-python wrote it, the draft to the letter, N5 (read)
DIALECTS = ("v3", "v2", "P", "D", "n5")
#: the address of the draft, of any version: those of another major version are refused by name
CORE = re.compile(rb"/zarr/spec/[^\"]{0,64}core/[0-9]{1,9}\.[0-9]")
VERSION = re.compile(r"/([0-9]{1,9})\.[0-9][^/]*/?$")
Counts = Sequence[int] | Mapping[str, Sequence[int]] | None


def dialect_of(store: Store) -> DialectView | None:
    """The view that a store is, also behind a face that refuses changes."""
    if isinstance(store, ReadOnlyStore):
        return dialect_of(store.store)
    return store if isinstance(store, DialectView) else None


def as_stored(error: MetadataError, store: Store, path: str) -> MetadataError:
    """An error in what a view shows as the document of an array, named by the document that holds it."""
    view = dialect_of(store)
    if view is None:
        return error
    shown, stored = (f"{path}/zarr.json" if path else "zarr.json"), view.held_keys(path)[0]

    def named(text: str) -> str:
        return stored + text.removeprefix(shown) if text.startswith(f"{shown}: ") else text

    lines = "\n".join(map(named, str(error).splitlines()))
    return type(error)(lines, tuple((named(where), said) for where, said in error.problems))


def is_entry_point(content: bytes | None) -> bool:
    """Whether a `zarr.json` is the entry point of a hierarchy of the draft, and not a node's document."""
    return (
        content is not None
        and b'"node_type"' not in content
        and CORE.search(content.replace(b"\\/", b"/")) is not None
    )


def find_view(
    store: Store,
    path: str,
    options: Options,
    entry: bytes | None,
    fallback: Fallback = "error",
    chunks_per_shard: Counts = None,
    reading: bool = False,
) -> DialectView | None:
    """The view in which there may be a node at `path`, where Zarr 3 has none there; None where no format has.

    entry: what the store's `zarr.json` holds, where that is known; at the root it is, and None says that there is none.
    reading: the caller reads the node at once, of which documents that were seen here are not asked for again.
    """
    names = (ARRAY, GROUP, ZARR2_ATTRIBUTES) if reading else (ARRAY, GROUP)
    theirs = [below(path, name) for name in names]
    wanted = dict.fromkeys([*theirs, below(path, ATTRIBUTES), ATTRIBUTES, ENTRY])
    if entry is not None or not path:
        del wanted[ENTRY]
    bound = options.limits.metadata_nbytes + 1
    looks = [Open(key, (0, bound if key in theirs else 1 << 20)) for key in wanted]
    sources = dict(zip(wanted, watched(store).open(looks), strict=True))
    try:
        if any(sources[key] is not None for key in theirs[:2]):
            view = V2View(store, options)
            if reading:
                view.seen = {key: _kept(sources[key]) for key in theirs}
            return view
        found = {key: bytes(one.first or b"") for key, one in sources.items() if one is not None}
    finally:
        for source in sources.values():
            if source is not None:
                source.close()
    entry = found.get(ENTRY, entry)
    if is_entry_point(entry):
        assert entry is not None
        return _draft(store, entry, options, fallback, chunks_per_shard)
    if any(_is_n5(found.get(key), options) for key in (below(path, ATTRIBUTES), ATTRIBUTES)):
        return N5View(store, options)
    return None


def view_of(
    store: Store,
    dialect: str,
    options: Options,
    fallback: Fallback = "error",
    chunks_per_shard: Counts = None,
) -> DialectView:
    """The view of this name."""
    if dialect == "v2":
        return V2View(store, options)
    if dialect == "n5":
        return N5View(store, options)
    if dialect not in ("P", "D"):
        raise ValueError(f"dialect is {dialect!r}; {', '.join(map(repr, DIALECTS))} are allowed")
    way: Way = "P" if dialect == "P" else "D"
    entry = store.get(ENTRY)
    suffix = _suffix(read_json(entry, ENTRY, options.limits)) if is_entry_point(entry) and entry else ".json"
    return DraftView(store, options, way, suffix, fallback, chunks_per_shard)


def _kept(source: Source | None) -> Source | None:
    """What was read of a document, without what has to be closed."""
    return None if source is None else Source(source.key, source.size, source.tag, first=source.first)


def _is_n5(content: bytes | None, options: Options) -> bool:
    """Whether this is N5's; what is no JSON is somebody else's file of the name."""
    if content is None or (b'"dimensions"' not in content and b'"n5"' not in content):
        return False
    try:
        return is_n5(read_json(content, ATTRIBUTES, options.limits))
    except (MetadataError, LimitError):
        return False


def _draft(store: Store, entry: bytes, options: Options, fallback: Fallback, counts: Counts) -> DraftView:
    found = read_json(entry, ENTRY, options.limits, strict=options.strict)
    if not isinstance(found, dict):
        raise MetadataError(f"{ENTRY}: found {describe(found)}, must be an object")
    version = VERSION.search(str(found.get("zarr_format")))
    if version is not None and int(version[1]) != 3:
        raise MetadataError(
            f"{ENTRY}: zarr_format: found {describe(found['zarr_format'])}, must be of the major version 3"
        )
    try:
        check_extensions(found.get("extensions", []), "extensions")
    except MetadataError as error:
        raise type(error)(f"{ENTRY}: {error}", error.problems) from None
    suffix = _suffix(found)
    return DraftView(store, options, _way(store, found, suffix), suffix, fallback, counts)


def _suffix(entry: dict[str, Any]) -> str:
    encoding = entry.get("metadata_encoding")
    kind = encoding.get("type", "json") if isinstance(encoding, dict) else "json"
    foreign = encoding.get("extension") if isinstance(encoding, dict) else None
    if foreign is not None or kind != "json":
        raise MetadataError(
            f"{ENTRY}: metadata_encoding: found {describe(kind if foreign is None else foreign)}, documents in another "
            "encoding than JSON cannot be read"
        )
    inside = encoding.get("metadata_key_suffix") if isinstance(encoding, dict) else None
    # the letter has ".json" where nothing is said, and states the encoding as an object; before it there was no suffix
    letter = isinstance(encoding, dict) or (
        encoding is None and "/protocol/" not in str(entry.get("zarr_format"))
    )
    suffix = inside if inside is not None else entry.get("metadata_key_suffix", ".json" if letter else "")
    if not isinstance(suffix, str) or "/" in suffix or len(suffix) > 64:
        raise MetadataError(
            f"{ENTRY}: metadata_key_suffix: found {describe(suffix)}, must be a suffix of keys"
        )
    return suffix


def _way(store: Store, entry: dict[str, Any], suffix: str) -> Literal["P", "D"]:
    """Where documents lie says it; in an empty hierarchy, the address of the specification does."""
    if any(store.exists(f"meta/root.{kind}{suffix}") for kind in ("group", "array")):
        return "P"
    if any(store.exists(f"meta/{kind}{suffix}") for kind in ("group", "array")):
        return "D"
    if store.listable:
        keys, prefixes = store.list_dir("meta/")
        if "meta/root/" in prefixes:
            return "P"
        if keys or prefixes:
            return "D"
    return "P" if "/protocol/" in str(entry.get("zarr_format")) else "D"
