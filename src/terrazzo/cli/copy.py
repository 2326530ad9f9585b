"""copy: copy an array or a group, into other chunks, shards or codecs if asked."""

from __future__ import annotations

import argparse

from terrazzo.arrays.array import Array
from terrazzo.care import copy
from terrazzo.cli.making import add_making, making
from terrazzo.cli.output import address_shown, print_json, print_lines
from terrazzo.cli.show import array_json
from terrazzo.drawing import printable

__all__ = ["NAME", "add_arguments", "run"]

NAME = "copy"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="an array or a group")
    parser.add_argument("destination", metavar="URL", help="where the copy goes")
    add_making(parser, "keep")


def run(arguments: argparse.Namespace) -> int:
    node = copy(arguments.source, arguments.destination, **making(arguments))
    node.store.close()  # an archive appears when it is closed
    if arguments.json:
        url = arguments.destination
        print_json(
            array_json(node, url) if isinstance(node, Array) else {"kind": "group", "url": address_shown(url)}
        )
    elif not arguments.quiet:
        kind = "array" if isinstance(node, Array) else "group"
        place = arguments.destination + (f"/{arguments.name}" if arguments.name else "")
        print_lines(f"{printable(address_shown(place))}: {kind} copied")
    return 0
