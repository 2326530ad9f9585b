"""Consolidated metadata: the documents of all nodes below a group, kept inside the group's own document.

What it does not do: read the nodes' documents; a node that nobody can read must not hide the others. It goes stale
silently: whoever writes nodes has to consolidate anew.

https://github.com/zarr-developers/zarr-specs/pull/309 (the core specification only allows the member)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from terrazzo.errors import KeyRefusedError
from terrazzo.metadata.names import sort_key, validate_name
from terrazzo.metadata.problems import Problems, describe, join, refuse, remark

__all__ = ["ConsolidatedMetadata"]


@dataclass(frozen=True)
class ConsolidatedMetadata:
    """Whole documents of the nodes below a group by their paths relative to it; `""` is never one of them."""

    documents: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: object, path: str = "consolidated_metadata") -> ConsolidatedMetadata | None:
        """Read the member; None where it is null (written by older zarr-python) or of a kind that is not known."""
        if value is None:
            return None
        if not isinstance(value, dict):
            refuse(path, f"found {describe(value)}, must be an object or null")
        if value.get("kind") != "inline":
            remark(join(path, "kind"), f'found {describe(value.get("kind"))}, only "inline" is read; ignored')
            return None
        entries = value.get("metadata")
        at = join(path, "metadata")
        if not isinstance(entries, dict):
            refuse(at, f"found {describe(entries)}, must be an object with a document for every node")
        problems = Problems()
        for key, document in entries.items():
            with problems.collected():
                _check_entry(key, document, join(at, key))
        problems.raise_any("")
        return cls(dict(entries))

    def to_json(self) -> dict[str, Any]:
        """The member as zarr-python writes it: one flat map, by depth and then by name."""
        entries = {}
        for path in sorted(self.documents, key=sort_key):
            document = dict(self.documents[path])
            if document.get("node_type") == "group":
                document["consolidated_metadata"] = {
                    "kind": "inline",
                    "must_understand": False,
                    "metadata": {},
                }
            entries[path] = document
        return {"kind": "inline", "must_understand": False, "metadata": entries}

    def below(self, path: str) -> ConsolidatedMetadata:
        """The part that lies below one of the groups."""
        prefix = f"{path}/" if path else ""
        return ConsolidatedMetadata(
            {
                key.removeprefix(prefix): document
                for key, document in self.documents.items()
                if key.startswith(prefix)
            }
        )

    def children(self, path: str = "") -> Iterator[str]:
        """The names of the nodes directly below one of the groups, in order."""
        prefix = f"{path}/" if path else ""
        names = {key.removeprefix(prefix) for key in self.documents if key.startswith(prefix)}
        return iter(sorted((name for name in names if "/" not in name), key=sort_key))

    def replaced(self, changes: Mapping[str, dict[str, Any] | None]) -> ConsolidatedMetadata:
        """The same with some documents put in, or taken out (None)."""
        documents = self.documents | {
            key: document for key, document in changes.items() if document is not None
        }
        return ConsolidatedMetadata(
            {key: one for key, one in documents.items() if changes.get(key, one) is not None}
        )


def _check_entry(key: str, document: object, path: str) -> None:
    for name in key.split("/"):
        try:
            validate_name(name)
        except KeyRefusedError as error:
            refuse(path, f"is not the path of a node below this group: {error}")
    if not isinstance(document, dict):
        refuse(path, f"found {describe(document)}, must be a node's document")
    if document.get("node_type") not in ("array", "group"):
        found = describe(document.get("node_type"))
        refuse(join(path, "node_type"), f'found {found}, must be "array" or "group"')
