"""reshard: a copy in other shards, or none, whose chunks keep the bytes they have."""

from __future__ import annotations

import argparse

from terrazzo.care.reshard import reshard
from terrazzo.cli.output import address_shown, parse_shape, print_json, print_lines
from terrazzo.cli.show import array_json
from terrazzo.drawing import printable

__all__ = ["NAME", "add_arguments", "run"]

NAME = "reshard"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="an array")
    parser.add_argument("destination", metavar="URL", help="where the copy goes")
    parser.add_argument(
        "--shards", type=parse_shape, required=True, metavar="SHAPE", help="200,200, auto, 64MB or none"
    )
    parser.add_argument("--index-location", choices=("start", "end"), help="of the new shards (end)")
    parser.add_argument("--overwrite", action="store_true", help="delete what is there first")
    parser.set_defaults(makes=True)


def run(arguments: argparse.Namespace) -> int:
    array = reshard(
        arguments.source,
        arguments.destination,
        arguments.shards,
        index_location=arguments.index_location,
        overwrite=arguments.overwrite,
        progress=not arguments.quiet,
    )
    if arguments.json:
        print_json(array_json(array, arguments.destination))
    elif not arguments.quiet:
        shape = "no shards" if array.shards is None else "shards of " + " × ".join(map(str, array.shards))
        print_lines(f"{printable(address_shown(arguments.destination))}: {shape}, no chunk was decoded")
    return 0
