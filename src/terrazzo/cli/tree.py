"""tree: everything below a group, as a tree."""

from __future__ import annotations

import argparse

from terrazzo.arrays.array import Array
from terrazzo.cli.output import print_json, print_lines
from terrazzo.cli.show import array_json
from terrazzo.groups.group import Group
from terrazzo.groups.opening import open as open_node

__all__ = ["NAME", "add_arguments", "run"]

NAME = "tree"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="a group")
    parser.add_argument("-L", "--level", type=int, metavar="N", help="how many levels to show")
    parser.add_argument("--max-nodes", type=int, default=500, metavar="N", help="nodes drawn at most (500)")


def run(arguments: argparse.Namespace) -> int:
    if arguments.level is not None and arguments.level < 1:
        raise ValueError(f"--level is {arguments.level}; at least 1 level can be shown")
    node = open_node(arguments.url, mode="r")
    if isinstance(node, Array):
        if arguments.json:
            print_json({"nodes": [{"path": "", **_node_json(node)}]})
        else:
            print_lines(f"/ {node.shape} {node.metadata.data_type}")
        return 0
    if arguments.json:
        depth = None if arguments.level is None else arguments.level - 1
        found = sorted(node.members(max_depth=depth))
        print_json({"nodes": [{"path": path, **_node_json(member)} for path, member in found]})
    else:
        print_lines(str(node.tree(level=arguments.level, max_nodes=arguments.max_nodes)))
    return 0


def _node_json(node: Array | Group) -> dict[str, object]:
    if isinstance(node, Group):
        return {"kind": "group"}
    described = array_json(node)
    return {key: described[key] for key in ("kind", "shape", "data_type", "chunks", "shards", "nbytes")}
