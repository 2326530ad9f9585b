"""Consolidated metadata: read whoever wrote it, written as zarr-python does, hostile paths refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from terrazzo.errors import MetadataValidationError, NodeNotFoundError, TerrazzoWarning
from terrazzo.metadata import ArrayMetadata, ConsolidatedMetadata, GroupMetadata, parse_node

ARRAY: dict[str, Any] = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [4],
    "data_type": "int8",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": 0,
    "codecs": [{"name": "bytes"}],
    "attributes": {},
}
GROUP: dict[str, Any] = {"zarr_format": 3, "node_type": "group", "attributes": {"g": 1}}
EMPTY = {"kind": "inline", "must_understand": False, "metadata": {}}


def root(entries: Any, **changes: Any) -> dict[str, Any]:
    member = {"kind": "inline", "must_understand": False, "metadata": entries} | changes
    return {"zarr_format": 3, "node_type": "group", "attributes": {}, "consolidated_metadata": member}


def parse(document: Any) -> GroupMetadata:
    node = parse_node(json.dumps(document).encode())
    assert isinstance(node, GroupMetadata)
    return node


def test_written_flat_by_depth_then_folded_name_with_empty_ones_in_groups() -> None:
    consolidated = ConsolidatedMetadata(
        {"b/x": ARRAY, "B": GROUP, "a": ARRAY, "b": GROUP, "b/c": GROUP, "b/c/d": ARRAY}
    )
    written = json.loads(GroupMetadata({}, consolidated).to_bytes())["consolidated_metadata"]
    assert list(written) == ["kind", "must_understand", "metadata"]
    assert written["kind"] == "inline" and written["must_understand"] is False
    assert list(written["metadata"]) == ["a", "B", "b", "b/c", "b/x", "b/c/d"]
    assert written["metadata"]["b"] == GROUP | {"consolidated_metadata": EMPTY}
    assert written["metadata"]["a"] == ARRAY
    assert "consolidated_metadata" not in GROUP


def test_read_in_any_order_and_members_bring_their_part() -> None:
    node = parse(
        root({"b/c/d": ARRAY, "b": GROUP | {"consolidated_metadata": EMPTY}, "a": ARRAY, "b/c": GROUP})
    )
    assert node.consolidated is not None
    assert list(node.consolidated.children()) == ["a", "b"]
    assert list(node.consolidated.children("b")) == ["c"]
    assert isinstance(node.member("a"), ArrayMetadata)
    inner = node.member("b")
    assert (
        isinstance(inner, GroupMetadata) and inner.attributes == {"g": 1} and inner.consolidated is not None
    )
    assert list(inner.consolidated.documents) == ["c/d", "c"]
    assert inner.member("c/d") == node.member("b/c/d") == node.member("a")
    for path in ("", "x", "b/", "d", "b/c/d/e"):
        with pytest.raises(NodeNotFoundError, match="no node"):
            node.member(path)
    with pytest.raises(NodeNotFoundError):
        GroupMetadata().member("a")
    assert parse(node.to_document()).to_bytes() == node.to_bytes()


def test_a_node_nobody_can_read_hides_no_other() -> None:
    node = parse(root({"a": ARRAY, "odd": ARRAY | {"data_type": "quaternion"}}))
    assert isinstance(node.member("a"), ArrayMetadata)
    with pytest.raises(MetadataValidationError, match=r"^odd/zarr.json \(consolidated\): data_type: "):
        node.member("odd")


def test_changes() -> None:
    before = ConsolidatedMetadata({"a": ARRAY, "b": GROUP})
    after = before.replaced({"a": None, "c": ARRAY, "missing": None})
    assert list(after.documents) == ["b", "c"] and list(before.documents) == ["a", "b"]
    assert before.below("").documents == before.documents


def test_other_kinds_are_ignored_with_a_warning() -> None:
    for kind in ("file", None, 3):
        with pytest.warns(TerrazzoWarning, match=r"consolidated_metadata.kind: found .* ignored"):
            assert parse(root({}, kind=kind)).consolidated is None


@pytest.mark.parametrize(
    "entries, path, sentence",
    [
        ([], "consolidated_metadata.metadata", "must be an object"),
        (None, "consolidated_metadata.metadata", "must be an object"),
        ({"a": None}, "consolidated_metadata.metadata.a", "must be a node's document"),
        ({"a": {}}, "consolidated_metadata.metadata.a.node_type", 'must be "array" or "group"'),
        ({"": GROUP}, 'consolidated_metadata.metadata[""]', "must not be empty"),
        ({"/a": GROUP}, 'consolidated_metadata.metadata["/a"]', "must not be empty"),
        ({"a/": GROUP}, 'consolidated_metadata.metadata["a/"]', "must not be empty"),
        ({"..": GROUP}, 'consolidated_metadata.metadata[".."]', "periods"),
        ({"../../etc": GROUP}, 'consolidated_metadata.metadata["../../etc"]', "periods"),
        ({"a/../b": GROUP}, 'consolidated_metadata.metadata["a/../b"]', "periods"),
        ({"a\\b": GROUP}, 'consolidated_metadata.metadata["a\\\\b"]', "backslash"),
        ({"__a": GROUP}, "consolidated_metadata.metadata.__a", "reserved"),
        ({"a/zarr.json": GROUP}, 'consolidated_metadata.metadata["a/zarr.json"]', "metadata document"),
    ],
)
def test_wrong_entries_name_their_path(entries: Any, path: str, sentence: str) -> None:
    with pytest.raises(MetadataValidationError) as caught:
        parse(root(entries))
    assert [found for found, _ in caught.value.problems] == [path]
    assert sentence in str(caught.value)


def test_every_wrong_entry_is_told() -> None:
    with pytest.raises(MetadataValidationError) as caught:
        parse(root({"..": GROUP, "a": ARRAY, "b": 3}) | {"attributes": 1})
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize("value", [[], "inline", False, 3])
def test_not_an_object(value: Any) -> None:
    with pytest.raises(
        MetadataValidationError, match=r"consolidated_metadata: found .*, must be an object or null"
    ):
        parse(GROUP | {"consolidated_metadata": value})
