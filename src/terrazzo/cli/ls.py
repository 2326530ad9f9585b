"""ls: what lies directly below a group, or the stored objects of an array."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from terrazzo.arrays.array import Array
from terrazzo.cli.output import print_json, print_lines
from terrazzo.cli.show import array_json
from terrazzo.drawing import nbytes_text, printable, text_table
from terrazzo.groups.group import Group
from terrazzo.groups.opening import open as open_node

__all__ = ["NAME", "add_arguments", "run"]

NAME = "ls"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="a group or an array")
    parser.add_argument("-l", "--long", action="store_true", help="with shapes, types and sizes")


def run(arguments: argparse.Namespace) -> int:
    node = open_node(arguments.url, mode="r")
    if isinstance(node, Array):
        return _objects(node, arguments)
    members = sorted(node.members())
    if arguments.json:
        print_json({"members": [{"name": name, **_json(member)} for name, member in members]})
    elif arguments.long:
        rows = [_row(name, member) for name, member in members]
        print_lines(text_table(rows, ("name", "type", "shape", "chunks", "shards", "size"), right=(5,)))
    else:
        for name, member in members:
            print_lines(printable(name) + ("/" if isinstance(member, Group) else ""))
    return 0


def _json(node: Array | Group) -> dict[str, Any]:
    if isinstance(node, Group):
        return {"kind": "group"}
    described = array_json(node)
    return {key: described[key] for key in ("kind", "shape", "data_type", "chunks", "shards", "nbytes")}


def _row(name: str, node: Array | Group) -> list[object]:
    if isinstance(node, Group):
        return [name + "/", "group", "", "", "", ""]
    described = array_json(node)

    def times(shape: Any) -> str:
        return "" if shape is None else "×".join(map(str, shape)) or "scalar"

    return [
        name,
        node.metadata.data_type,
        times(described["shape"]),
        times(described["chunks"]),
        times(described["shards"]),
        nbytes_text(node.nbytes),
    ]


def _objects(array: Array, arguments: argparse.Namespace) -> int:
    """Keys of the stored chunks or shards, with their sizes where those are asked for."""
    keys = sorted(_keys(array))
    if arguments.json:
        print_json({"objects": [{"key": key, "nbytes": array.store.getsize(key)} for key in keys]})
    elif arguments.long:
        rows = [(key, array.store.getsize(key) or 0) for key in keys]
        print_lines(text_table(rows, ("key", "bytes"), right=(1,)))
    else:
        for key in keys:
            print_lines(printable(key))
    return 0


def _keys(array: Array) -> Iterator[str]:
    prefix = array.layout.prefix
    for key in array.store.list_prefix(prefix):
        if array.layout.keys.parse(key.removeprefix(prefix), array.ndim) is not None:
            yield key
