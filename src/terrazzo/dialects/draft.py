"""The 2022 draft of Zarr 3 seen as Zarr 3: an entry point, documents below `meta/`, chunks below `data/`.

What it does not do: translate documents (metadata/draft.py). The layout of zarr-python ("P") has a `root` below both,
the letter of the draft ("D") does not. Groups need no document: what has nodes below is a group.

A change keeps the stored document where only its shape and its attributes differ, and always its storage transformers.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

from terrazzo.chunk_keys import ChunkKeys, register_chunk_keys
from terrazzo.dialects.view import DialectView, Documents, Json, node_path
from terrazzo.errors import KeyRefusedError, MetadataError
from terrazzo.metadata import node_from_json, write_json
from terrazzo.metadata.draft import SHARDING, Way, array_from_draft, array_to_draft, group_from_draft
from terrazzo.metadata.draft_types import Fallback
from terrazzo.metadata.names import is_node_name
from terrazzo.options import Options
from terrazzo.stores.store import Store

__all__ = ["ENTRY", "DraftKeys", "DraftView"]

ENTRY = "zarr.json"
#: where zarr-python put consolidated metadata, and the group that it made for them
CONSOLIDATED, HOLDER = "meta/root/consolidated/.zmetadata", "consolidated"
PROTOCOL = "https://purl.org/zarr/spec/protocol/core/3.0"
LETTER = "https://purl.org/zarr/spec/core/3.0"
ASCII = re.compile(r"[A-Za-z0-9\-_./]*")
NUMBER = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)


class DraftView(DialectView):
    """A hierarchy of the draft."""

    dialect: ClassVar[str] = "draft"

    def __init__(
        self,
        store: Store,
        options: Options | None = None,
        way: Way = "P",
        suffix: str = ".json",
        fallback: Fallback = "error",
        chunks_per_shard: Sequence[int] | Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        super().__init__(store, options)
        self.way = way
        self.suffix = suffix
        self.fallback: Fallback = fallback
        self.chunks_per_shard = chunks_per_shard
        self._meta, self._data = ("meta/root/", "data/root/") if way == "P" else ("meta/", "data/")

    def again(self, store: Store) -> Self:
        return type(self)(store, self.options, self.way, self.suffix, self.fallback, self.chunks_per_shard)

    def place(self, key: str) -> str:
        return self._data + key

    def document_keys(self, path: str) -> tuple[str, ...]:
        keys = self.held_keys(path)
        return (*keys, CONSOLIDATED) if not path and self.way == "P" else keys

    def held_keys(self, path: str) -> tuple[str, ...]:
        return self._key(path, "array"), self._key(path, "group")

    def _key(self, path: str, kind: Literal["array", "group"]) -> str:
        if path:
            return f"{self._meta}{path}.{kind}{self.suffix}"
        return f"meta/root.{kind}{self.suffix}" if self.way == "P" else f"meta/{kind}{self.suffix}"

    def translated(self, path: str, documents: Documents) -> tuple[str, Json] | None:
        array, group = self.held_keys(path)
        key = array if array in documents else group
        if key not in documents:
            return None
        found = self.parsed(key, documents[key])
        try:
            document = self._array(path, found) if key == array else group_from_draft(found, self.way)
        except MetadataError as error:
            lines = "\n".join(f"{key}: {line}" for line in str(error).splitlines())
            raise type(error)(lines, error.problems) from None
        if key == group and CONSOLIDATED in documents:
            document["consolidated_metadata"] = self._consolidated(documents[CONSOLIDATED])
        return key, document

    def _consolidated(self, content: bytes) -> Json:
        """All documents, translated; one that cannot be is left out, so that it does not hide the others."""
        found = self.parsed(CONSOLIDATED, content)
        entries = found.get("metadata") if isinstance(found, dict) else None
        if not isinstance(entries, dict):
            raise MetadataError(
                f"{CONSOLIDATED}: found no `metadata`, must be an object with a document for every key"
            )
        translated: Json = {}
        for key, document in entries.items():
            path = self._path_of(key)
            if not path or key == self._key(HOLDER, "group"):
                continue
            try:
                is_array = key == self._key(path, "array")
                translated[path] = (
                    self._array(path, document) if is_array else group_from_draft(document, self.way)
                )
            except MetadataError:
                continue
            for above in _above(path):  # groups need no document of their own
                translated.setdefault(above, {"zarr_format": 3, "node_type": "group", "attributes": {}})
        return {"kind": "inline", "must_understand": False, "metadata": translated}

    def committed(self, path: str, document: Json) -> None:
        """Consolidated metadata go where zarr-python has them, made of what is stored, word by word."""
        consolidated = document.get("consolidated_metadata")
        if path or document["node_type"] != "group" or not consolidated:
            return
        keys = [ENTRY, *(key for node in ("", *consolidated["metadata"]) for key in self.held_keys(node))]
        contents = self.store.get_partial_values([(key, (0, None)) for key in keys])
        entries = {
            key: self.parsed(key, content)
            for key, content in zip(keys, contents, strict=True)
            if content is not None
        }
        holder = self._key(HOLDER, "group")
        self.store.set(holder, write_json({"attributes": {}}, holder))
        self.store.set(
            CONSOLIDATED, write_json({"metadata": entries, "zarr_consolidated_format": 1}, CONSOLIDATED)
        )

    def _array(self, path: str, found: Any) -> Json:
        return array_from_draft(
            found,
            self.way,
            fallback=self.fallback,
            chunks_per_shard=self._counts(path),
            strict=self.options.strict,
        )

    def _counts(self, path: str) -> Sequence[int] | None:
        said = self.chunks_per_shard
        return said.get(path) if isinstance(said, Mapping) else said

    def implied(self, path: str) -> Json | None:
        group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
        if not path:
            return group if self.store.exists(ENTRY) or self._anything("meta/") else None
        return group if self._anything(f"{self._meta}{path}/") else None

    def _anything(self, prefix: str) -> bool:
        return self.store.listable and next(iter(self.store.list_prefix(prefix)), None) is not None

    def written(self, path: str, document: Json, documents: Documents) -> dict[str, bytes | None]:
        if not ASCII.fullmatch(path):
            raise KeyRefusedError(
                f"the draft names nodes with A-Z a-z 0-9 - _ . alone, not {path!r}; choose another name"
            )
        array, group = self.held_keys(path)
        if document.get("consolidated_metadata") and (path or self.way == "D"):
            raise MetadataError(
                "consolidated_metadata: zarr-python's draft has them at the root alone, the letter of the draft nowhere"
            )
        self._ensure_entry()
        if document["node_type"] == "group":
            return {group: write_json({"attributes": document.get("attributes") or {}}, group), array: None}
        stored = documents.get(array)
        made = self._kept(path, document, self.parsed(array, stored)) if stored is not None else None
        return {array: write_json(made or array_to_draft(document, self.way), array), group: None}

    def _kept(self, path: str, document: Json, stored: Json) -> Json | None:
        """The stored document with another shape and other attributes, where that says it all."""
        attributes = dict(document.get("attributes") or {})
        filters = (stored.get("attributes") or {}).get("filters")
        changed = {**stored, "shape": document["shape"], "attributes": attributes}
        counts = self._counts(path)
        if counts is not None and not stored.get("storage_transformers"):  # mends what a resize lost
            lost = {
                "extension": SHARDING,
                "type": "indexed",
                "configuration": {"chunks_per_shard": list(counts)},
            }
            changed["storage_transformers"] = [lost]
        if filters is not None and "filters" not in attributes:
            changed["attributes"] = {**attributes, "filters": filters}
        try:
            same = node_from_json(self._array(path, changed)) == node_from_json(document)
        except MetadataError:
            return None
        return changed if same else None

    def _ensure_entry(self) -> None:
        if self.store.exists(ENTRY):
            return
        if self.way == "P":
            entry: Json = {
                "zarr_format": PROTOCOL,
                "metadata_encoding": PROTOCOL,
                "metadata_key_suffix": self.suffix,
                "extensions": [],
            }
        else:
            encoding = {"type": "json", "metadata_key_suffix": self.suffix}
            entry = {"zarr_format": LETTER, "metadata_encoding": encoding, "extensions": []}
        self.store.set(ENTRY, write_json(entry, ENTRY))

    # listing

    def list_prefix(self, prefix: str) -> Iterator[str]:
        named: set[str] = set()
        implied: set[str] = set()
        for key in [*self._documents_at(prefix), *self.store.list_prefix(self._meta + prefix)]:
            path = self._path_of(key)
            if path == HOLDER and self._holds_only():
                continue
            if path is not None and f"{path}/".startswith(prefix) and path not in named:
                named.add(path)
                yield f"{path}/zarr.json" if path else "zarr.json"
            if path:
                implied.update("/".join(path.split("/")[:n]) for n in range(path.count("/") + 1))
        for path in sorted(implied - named):
            if f"{path}/".startswith(prefix) or not prefix:
                yield f"{path}/zarr.json" if path else "zarr.json"
        for key in self.store.list_prefix(self._data + prefix):
            yield key[len(self._data) :]

    def _documents_at(self, prefix: str) -> builtins.list[str]:
        """The documents of the node whose prefix this is; they lie beside it."""
        if self.way == "D" and not prefix:
            return []
        return [key for key in self.held_keys(prefix.removesuffix("/")) if self.store.exists(key)]

    def unreachable(self, path: str) -> Iterator[str]:
        """The nodes at and below `path` with names that the draft allows and Zarr 3 does not."""
        prefix = f"{path}/" if path else ""
        for key in self.store.list_prefix(self._meta + prefix):
            found = self._path_of(key)
            if found and not all(map(is_node_name, found.split("/"))):
                yield found

    def _path_of(self, key: str) -> str | None:
        if key in self.held_keys(""):
            return ""
        for kind in ("array", "group"):
            end = f".{kind}{self.suffix}"
            if key.startswith(self._meta) and key.endswith(end):
                return key[len(self._meta) : -len(end)] or None
        return None

    def list_dir(self, prefix: str) -> tuple[builtins.list[str], builtins.list[str]]:
        keys, prefixes = self.store.list_dir(self._meta + prefix)
        found = {below[len(self._meta) :] for below in prefixes}
        for key in keys:
            path = self._path_of(key)
            if path:
                found.add(f"{path}/")
        if not prefix and f"{HOLDER}/" in found and self._holds_only():
            found.remove(f"{HOLDER}/")
        chunks, folders = self.store.list_dir(self._data + prefix)
        found |= {below[len(self._data) :] for below in folders}
        listed = [key[len(self._data) :] for key in chunks]
        path = prefix.removesuffix("/")
        if keys or prefixes or any(self.store.exists(key) for key in self.held_keys(path)):
            listed.append(prefix + "zarr.json")
        return sorted(listed), sorted(found)

    def erase_prefix(self, prefix: str) -> None:
        path = prefix.removesuffix("/")
        self.store.erase_values(self.held_keys(path))
        self.store.erase_prefix(self._meta + prefix)
        self.store.erase_prefix(self._data + prefix)

    def erase(self, key: str) -> None:
        path = node_path(key)
        self.store.erase_values([self.place(key)] if path is None else self.held_keys(path))

    def _holds_only(self) -> bool:
        """Whether the group that zarr-python makes for consolidated metadata is that and nothing more."""
        return self.way == "P" and self.store.list_dir(f"{self._meta}{HOLDER}/") == ([CONSOLIDATED], [])


def _above(path: str) -> Iterator[str]:
    """The paths of the groups around a node, without the root."""
    parts = path.split("/")
    return ("/".join(parts[:n]) for n in range(1, len(parts)))


class DraftKeys(ChunkKeys):
    """`c1/23/45`: no separator after the `c`; without dimensions `c0` (zarr-python) or `c` (the letter)."""

    name = "terrazzo.draft"

    def __init__(self, separator: str = "/", scalar: str = "c0") -> None:
        self.separator = separator
        self.scalar = scalar

    def key(self, index: Sequence[int]) -> str:
        return "c" + self.separator.join(map(str, index)) if len(index) else self.scalar

    def parse(self, key: str, ndim: int) -> tuple[int, ...] | None:
        if not ndim:
            return () if key == self.scalar else None
        parts = key[1:].split(self.separator)
        if not key.startswith("c") or len(parts) != ndim or not all(map(NUMBER.fullmatch, parts)):
            return None
        return tuple(map(int, parts))

    def configuration(self) -> dict[str, Any]:
        return {"separator": self.separator, "scalar": self.scalar}

    @classmethod
    def build(cls, configuration: Mapping[str, Any], path: str) -> DraftKeys:
        separator, scalar = configuration.get("separator", "/"), configuration.get("scalar", "c0")
        if separator not in ("/", ".") or scalar not in ("c0", "c") or len(configuration) > 2:
            raise MetadataError(
                f"{path}: found {dict(configuration)!r:.80}, which is no way of the draft to name chunks"
            )
        return cls(separator, scalar)


register_chunk_keys(DraftKeys.name, DraftKeys.build)
