"""repair: save what can be read of a damaged array, into a copy or in place."""

from __future__ import annotations

import argparse

from terrazzo.care.repair import repair
from terrazzo.care.stating import state_shards
from terrazzo.cli.output import address_shown, counted, parse_counts, print_json, print_lines
from terrazzo.drawing import printable

__all__ = ["NAME", "add_arguments", "run"]

NAME = "repair"

#: lost chunks named one by one; --json names all
SHOWN = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="a damaged array")
    parser.add_argument("--to", metavar="URL", help="where the copy goes (URL.repaired, for a folder)")
    parser.add_argument(
        "--in-place", action="store_true", help="repair the array itself; damaged objects are kept beside"
    )
    parser.add_argument("--manifest", metavar="FILE", help="an inventory that was saved earlier")
    parser.add_argument("--unplaced", metavar="FOLDER", help="where chunks without a place are saved")
    parser.add_argument(
        "--chunks-per-shard",
        type=parse_counts,
        metavar="N,N",
        help="of an array of the 2022 draft whose document lost it: look whether that is right, and state it again",
    )
    parser.add_argument(
        "--path", metavar="PATH", help="with --chunks-per-shard: the array in the hierarchy at URL"
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.chunks_per_shard is not None:
        array = state_shards(arguments.url, arguments.chunks_per_shard, path=arguments.path)
        if arguments.json:
            print_json({"ok": True, "place": str(array.store_path), "shards": list(array.shards or ())})
        else:
            print_lines(f"{printable(array.name)}: shards of shape {array.shards} are stated again")
        return 0
    report = repair(
        arguments.url,
        arguments.to,
        in_place=arguments.in_place,
        manifest=arguments.manifest,
        unplaced=arguments.unplaced,
        progress=not arguments.quiet,
    )
    if arguments.json:
        print_json(report.to_json())
    else:
        for one in report.lost[:SHOWN]:
            what = f"up to {counted(one.chunks, 'chunk')}" if one.chunk is None else f"chunk {one.chunk}"
            print_lines(f"lost: {printable(one.key)}, {what}: {printable(one.reason)}")
        if len(report.lost) > SHOWN:
            print_lines(f"and {len(report.lost) - SHOWN:,} more")
        for key, source in report.damaged.items():
            if source != "nothing":
                print_lines(f"repaired: {printable(key)}, places from: {source}")
        for key in report.refused:
            print_lines(f"left as it is: {printable(key)} is a file of another format too")
        place = arguments.to or (arguments.url if arguments.in_place else report.place)
        print_lines(f"{printable(address_shown(place))}: {report}")
    return 4 if report.lost else 0 if report.ok else 1
