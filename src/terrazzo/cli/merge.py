"""merge: small chunks at the end of a rectilinear axis become larger ones."""

from __future__ import annotations

import argparse

from terrazzo.care.merge import merge
from terrazzo.cli.output import address_shown, print_json, print_lines
from terrazzo.cli.show import array_json
from terrazzo.drawing import printable
from terrazzo.groups.opening import open_array

__all__ = ["NAME", "add_arguments", "run"]

NAME = "merge"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="an array whose chunk edges are listed")
    parser.add_argument("--axis", type=int, default=0, metavar="N", help="along which it was appended to (0)")
    parser.add_argument(
        "--edge", type=int, metavar="N", help="how long the merged ones are (the longest there is)"
    )


def run(arguments: argparse.Namespace) -> int:
    array = open_array(arguments.url, mode="r+")
    before = array.shard_grid_shape[arguments.axis] if -array.ndim <= arguments.axis < array.ndim else 0
    array = merge(array, arguments.axis, edge=arguments.edge, progress=not arguments.quiet)
    if arguments.json:
        print_json(array_json(array, arguments.url))
    elif not arguments.quiet:
        after = array.shard_grid_shape[arguments.axis]
        print_lines(
            f"{printable(address_shown(arguments.url))}: {before:,} along axis {arguments.axis} became {after:,}"
        )
    return 0
