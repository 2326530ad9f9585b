"""Metadata: documents <-> frozen values, data types, fill values bit for bit, names of nodes.

What it does not do: touch a store, a codec or a chunk.
"""

from terrazzo.metadata.consolidated import ConsolidatedMetadata
from terrazzo.metadata.data_types import (
    DataType,
    Fill,
    data_type_from_json,
    data_type_from_numpy,
    register_data_type,
    resolve_data_type,
)
from terrazzo.metadata.extension import Extension
from terrazzo.metadata.fill import same_bits
from terrazzo.metadata.json import plain, read_json, write_json
from terrazzo.metadata.names import is_node_name, normalize_path, sort_key, validate_name
from terrazzo.metadata.v3 import ArrayMetadata, GroupMetadata, Node, node_from_json, parse_node

__all__ = [
    "ArrayMetadata",
    "ConsolidatedMetadata",
    "DataType",
    "Extension",
    "Fill",
    "GroupMetadata",
    "Node",
    "data_type_from_json",
    "data_type_from_numpy",
    "is_node_name",
    "node_from_json",
    "normalize_path",
    "parse_node",
    "plain",
    "read_json",
    "register_data_type",
    "resolve_data_type",
    "same_bits",
    "sort_key",
    "validate_name",
    "write_json",
]
