"""Zarr 2 seen as Zarr 3: `.zarray`, `.zgroup`, `.zattrs` and `.zmetadata` beside the chunks.

What it does not do: translate documents (metadata/v2.py). Chunks lie where Zarr 3 with the key encoding `v2` has them,
so their keys are the same.

A change keeps what Zarr 3 cannot say (a fill value of null, unknown members): where the new document differs from the
old one in its shape alone, only the shape is put into the stored one.

https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from terrazzo.dialects.view import DialectView, Documents, Json, node_path
from terrazzo.errors import MetadataError
from terrazzo.metadata import is_node_name, node_from_json, write_json
from terrazzo.metadata.problems import describe, refuse
from terrazzo.metadata.v2 import array_from_v2, array_to_v2, group_from_v2, group_to_v2
from terrazzo.stores.store import Source

__all__ = ["V2View"]

ARRAY, GROUP, ATTRIBUTES, CONSOLIDATED = ".zarray", ".zgroup", ".zattrs", ".zmetadata"


class V2View(DialectView):
    """A hierarchy of Zarr 2."""

    dialect: ClassVar[str] = "v2"

    def place(self, key: str) -> str:
        return key

    def document_keys(self, path: str) -> tuple[str, ...]:
        return tuple(below(path, name) for name in (ARRAY, GROUP, ATTRIBUTES, CONSOLIDATED))

    def held_keys(self, path: str) -> tuple[str, ...]:
        return tuple(below(path, name) for name in (ARRAY, GROUP, ATTRIBUTES))

    def needless(self, key: str, seen: Mapping[str, Source | None]) -> bool:
        """An array has no consolidated metadata."""
        path, _, name = key.rpartition("/")
        return name == CONSOLIDATED and seen.get(below(path, ARRAY)) is not None

    def translated(self, path: str, documents: Documents) -> tuple[str, Json] | None:
        name = next((one for one in (ARRAY, GROUP) if below(path, one) in documents), None)
        if name is None:
            return None
        key = below(path, name)
        with_key = self._translated(
            path, name, self.parsed(key, documents[key]), self._attributes(path, documents)
        )
        consolidated = documents.get(below(path, CONSOLIDATED))
        if name == GROUP and consolidated is not None:
            with_key["consolidated_metadata"] = self._consolidated(path, consolidated)
        return key, with_key

    def _translated(self, path: str, name: str, found: Any, attributes: Json) -> Json:
        translate = array_from_v2 if name == ARRAY else group_from_v2
        try:
            return translate(found, attributes, strict=self.options.strict)
        except MetadataError as error:
            key = below(path, name)
            lines = "\n".join(f"{key}: {line}" for line in str(error).splitlines())
            raise type(error)(lines, error.problems) from None

    def _attributes(self, path: str, documents: Documents) -> Json:
        key = below(path, ATTRIBUTES)
        attributes = self.parsed(key, documents[key]) if key in documents else {}
        if not isinstance(attributes, dict):
            refuse(key, f"found {describe(attributes)}, must be an object")
        return attributes

    def _consolidated(self, path: str, content: bytes) -> Json:
        """All documents below, translated; one that cannot be is left out, so that it does not hide the others."""
        key = below(path, CONSOLIDATED)
        found = self.parsed(key, content)
        entries = found.get("metadata") if isinstance(found, dict) else None
        if not isinstance(entries, dict):
            refuse(key, "found no `metadata`, must be an object with a document for every key")
        translated: Json = {}
        for entry, document in entries.items():
            node, _, name = entry.rpartition("/")
            if not node or name not in (ARRAY, GROUP) or (name == GROUP and node in translated):
                continue
            if not all(map(is_node_name, node.split("/"))):
                continue
            attributes = entries.get(below(node, ATTRIBUTES), {})
            try:
                translated[node] = self._translated(
                    below(path, node), name, document, attributes if isinstance(attributes, dict) else {}
                )
            except MetadataError:
                continue
        return {"kind": "inline", "must_understand": False, "metadata": translated}

    def unreachable(self, path: str, names: Iterable[str]) -> Iterator[str]:
        """Those of the names of folders in a group that are nodes of Zarr 2, and that Zarr 3 does not allow."""
        for name in names:
            node = below(path, name)
            if not is_node_name(name) and any(self.store.exists(below(node, one)) for one in (ARRAY, GROUP)):
                yield node

    def unreachable_consolidated(self, path: str) -> Iterator[str]:
        """The same, as the consolidated metadata of a group tells, for stores that cannot list."""
        key = below(path, CONSOLIDATED)
        content = self.store.get(key)
        found = None if content is None else self.parsed(key, content)
        entries = found.get("metadata") if isinstance(found, dict) else None
        for entry in entries if isinstance(entries, dict) else ():
            node, _, name = entry.rpartition("/")
            if name in (ARRAY, GROUP) and not all(map(is_node_name, filter(None, node.split("/")))):
                yield below(path, node)

    def implied(self, path: str) -> Json | None:
        return None

    def written(self, path: str, document: Json, documents: Documents) -> dict[str, bytes | None]:
        array, group = below(path, ARRAY), below(path, GROUP)
        attributes = document.get("attributes") or {}
        key = below(path, ATTRIBUTES)
        kept = documents.get(key)
        if kept is not None and self.parsed(key, kept) == attributes:
            new_attributes: bytes | None = kept
        else:
            new_attributes = write_json(attributes, key) if attributes or kept is not None else None
        wanted: dict[str, bytes | None] = {key: new_attributes}
        if document["node_type"] == "group":
            return {**wanted, group: documents.get(group) or write_json(group_to_v2(), group), array: None}
        wanted[array] = write_json(self._array(path, document, documents.get(array)), array)
        return {**wanted, group: None}

    def _array(self, path: str, document: Json, stored: bytes | None) -> Json:
        if stored is not None:
            old = self.parsed(below(path, ARRAY), stored)
            changed = {**old, "shape": document["shape"]}
            if "attributes" in document and self._same(changed, document):
                return changed
        return array_to_v2(document)

    def _same(self, stored: Json, document: Json) -> bool:
        there = node_from_json(array_from_v2(stored, document.get("attributes") or {}, strict=False))
        return there == node_from_json(document)

    def committed(self, path: str, document: Json) -> None:
        """Consolidated metadata go into a document of their own, made of what is stored, word by word."""
        consolidated = document.get("consolidated_metadata")
        if document["node_type"] != "group" or not consolidated:
            return
        entries: Json = {}
        nodes = ["", *consolidated["metadata"]]
        names = (ARRAY, GROUP, ATTRIBUTES)
        keys = [below(node, name) for node in nodes for name in names]
        contents = self.store.get_partial_values([(below(path, key), (0, None)) for key in keys])
        for key, content in zip(keys, contents, strict=True):
            if content is not None:
                entries[key] = self.parsed(below(path, key), content)
        key = below(path, CONSOLIDATED)
        self.store.set(key, write_json({"metadata": entries, "zarr_consolidated_format": 1}, key))

    # listing

    def list_prefix(self, prefix: str) -> Iterator[str]:
        found = self.store.list_prefix(prefix)
        arrays: set[str] = set()
        for key in found:
            node, _, name = key.rpartition("/")
            if name in (ARRAY, GROUP):
                if node not in arrays:
                    arrays.add(node)
                    yield below(node, "zarr.json")
            elif name not in (ATTRIBUTES, CONSOLIDATED) and node_path(key) is None:
                yield key

    def list_dir(self, prefix: str) -> tuple[builtins.list[str], builtins.list[str]]:
        keys, prefixes = self.store.list_dir(prefix)
        names = {key.rpartition("/")[2] for key in keys}
        hidden = {ARRAY, GROUP, ATTRIBUTES, CONSOLIDATED, "zarr.json"}
        kept = [key for key in keys if key.rpartition("/")[2] not in hidden]
        if names & {ARRAY, GROUP}:
            kept.append(prefix + "zarr.json")
        return sorted(kept), prefixes

    def erase_prefix(self, prefix: str) -> None:
        self.store.erase_prefix(prefix)


def below(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name
