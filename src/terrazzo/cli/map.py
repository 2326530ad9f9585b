"""map: the bytes of one shard: inner chunks, dead space, slack, index."""

from __future__ import annotations

import argparse
from pathlib import Path

from terrazzo.care import shard_map
from terrazzo.cli.output import print_json, print_lines, write_picture

__all__ = ["NAME", "add_arguments", "run"]

NAME = "map"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="a sharded array")
    parser.add_argument(
        "index", metavar="INDEX", nargs="?", type=_index, help="of the shard: 0,1 (the first stored)"
    )
    parser.add_argument("--picture", metavar="FILE", help="draw it instead: FILE.svg or FILE.png")
    parser.add_argument("--svg", metavar="FILE", help="as --picture, whatever the file is called")
    parser.add_argument(
        "--colour",
        choices=("position", "ratio"),
        default="position",
        help="what colours of the picture mean (position)",
    )


def run(arguments: argparse.Namespace) -> int:
    found = shard_map(arguments.url, arguments.index)
    if arguments.picture is not None:
        write_picture(
            arguments.picture, lambda: found.svg(arguments.colour), lambda: found.png(arguments.colour)
        )
    if arguments.svg is not None:
        Path(arguments.svg).write_text(found.svg(arguments.colour), encoding="utf-8")
    if arguments.json:
        entries = [
            None if first == 2**64 - 1 else [first, nbytes] for first, nbytes in found.entries.tolist()
        ]
        print_json(
            {
                "key": found.key,
                "index": list(found.index),
                "nbytes": found.size,
                "chunks_per_shard": list(found.chunks_per_shard),
                "entries": entries,
                "slack": found.slack,
            }
        )
    elif arguments.svg is None and arguments.picture is None:
        print_lines(str(found))
    return 0


def _index(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no index; write it as 0,1") from None
