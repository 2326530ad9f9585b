"""consolidate_metadata: the documents of all nodes below a group, gathered into the group's own document.

What it does not do: keep them up to date afterwards; consolidate again after nodes were made, changed or deleted.
Specification: the core specification allows the member; its form is zarr-python's (zarr-specs, pull request 309).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Unpack

from terrazzo.arrays.documents import change_document
from terrazzo.groups.creating import Settings, resolve_settings
from terrazzo.groups.formats import settled
from terrazzo.groups.group import Group
from terrazzo.groups.nodes import group_at, refuse_read_only, walk
from terrazzo.groups.places import StoreLike, place_of
from terrazzo.metadata import ConsolidatedMetadata, GroupMetadata

__all__ = ["consolidate_metadata"]


def consolidate_metadata(
    store: StoreLike,
    path: str | None = None,
    zarr_format: int | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    **how: Unpack[Settings],
) -> Group:
    """Put the documents of all nodes below a group into its own, anew, and answer the group.

    A reader then finds and lists everything with one request. What is consolidated already is replaced.

    >>> from terrazzo import open_group
    >>> root = open_group({})
    >>> _ = root.create_array("deep/down", shape=3, dtype="f4")
    >>> sorted(consolidate_metadata(root.store).metadata.consolidated.documents)
    ['deep', 'deep/down']
    """
    place = place_of(store, path, storage_options=storage_options)
    options, strategy = resolve_settings(**how)
    place = settled(place, options, **({} if zarr_format is None else {"zarr_format": zarr_format}))
    group_at(place, options)
    refuse_read_only(place)
    documents = {}
    for below, node in walk(place.store, place.path, options):
        if isinstance(node, GroupMetadata):
            node = replace(node, consolidated=None)
        documents[below] = node.to_document()
    found = ConsolidatedMetadata(documents)
    metadata = change_document(
        place.store, place.path, GroupMetadata, lambda node: replace(node, consolidated=found), options
    )
    return Group(place.store, place.path, metadata, options, strategy)
