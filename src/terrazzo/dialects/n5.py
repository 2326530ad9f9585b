"""N5 seen as Zarr 3: `attributes.json` beside blocks, whose keys are those of the encoding `v2` with a slash.

What it does not do: write documents. Values of what is there can be read and changed; datasets are made by N5's own
libraries. Every folder is a group, unless it is inside a dataset.

https://github.com/saalfeldlab/n5#file-system-specification
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import ClassVar

from terrazzo.dialects.view import DialectView, Documents, Json, node_path
from terrazzo.errors import MetadataError, UnsupportedError
from terrazzo.metadata.n5 import node_from_n5

__all__ = ["ATTRIBUTES", "N5View"]

ATTRIBUTES = "attributes.json"


class N5View(DialectView):
    """A hierarchy of N5."""

    dialect: ClassVar[str] = "n5"

    def place(self, key: str) -> str:
        return key

    def document_keys(self, path: str) -> tuple[str, ...]:
        return (f"{path}/{ATTRIBUTES}" if path else ATTRIBUTES,)

    held_keys = document_keys

    def translated(self, path: str, documents: Documents) -> tuple[str, Json] | None:
        (key,) = self.document_keys(path)
        if key not in documents:
            return None
        try:
            return key, node_from_n5(self.parsed(key, documents[key]))
        except MetadataError as error:
            lines = "\n".join(f"{key}: {line}" for line in str(error).splitlines())
            raise type(error)(lines, error.problems) from None

    def implied(self, path: str) -> Json | None:
        """A folder is a group; one below a dataset holds blocks."""
        prefix = f"{path}/" if path else ""
        if not self.store.listable or next(iter(self.store.list_prefix(prefix)), None) is None:
            return None
        parts = path.split("/")
        above = ["/".join(parts[:n]) for n in range(len(parts))]
        for one in above:
            (key,) = self.document_keys(one)
            content = self.store.get(key)
            if content is not None and node_from_n5(self.parsed(key, content))["node_type"] == "array":
                return None
        return {"zarr_format": 3, "node_type": "group", "attributes": {}}

    def written(self, path: str, document: Json, documents: Documents) -> dict[str, bytes | None]:
        raise UnsupportedError(
            f"/{path}: documents of N5 are read and not written; copy it to Zarr 3 (terrazzo copy) to change it"
        )

    def list_prefix(self, prefix: str) -> Iterator[str]:
        named: set[str] = set()
        for key in self.store.list_prefix(prefix):
            if key.rpartition("/")[2] == ATTRIBUTES:
                path = key.removesuffix(ATTRIBUTES).removesuffix("/")
                named.add(path)
                yield f"{path}/zarr.json" if path else "zarr.json"
            elif node_path(key) is None:
                yield key

    def list_dir(self, prefix: str) -> tuple[builtins.list[str], builtins.list[str]]:
        keys, prefixes = self.store.list_dir(prefix)
        kept = [key for key in keys if key.rpartition("/")[2] not in (ATTRIBUTES, "zarr.json")]
        kept.append(prefix + "zarr.json")
        return sorted(kept), prefixes

    def erase_prefix(self, prefix: str) -> None:
        self.store.erase_prefix(prefix)
