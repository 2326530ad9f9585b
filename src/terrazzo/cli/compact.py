"""compact: drop dead bytes from shards, without decoding a chunk."""

from __future__ import annotations

import argparse

from terrazzo.care.compact import compact
from terrazzo.cli.output import address_shown, print_json, print_lines
from terrazzo.drawing import nbytes_text, printable

__all__ = ["NAME", "add_arguments", "run"]

NAME = "compact"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="an array, or a group with every array below it")
    parser.add_argument(
        "--dead",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="only shards with a larger share of dead bytes (0)",
    )
    parser.add_argument(
        "--order", choices=("morton", "C", "F"), help="shards whose chunks lie otherwise, too"
    )
    parser.add_argument(
        "--keep-slack",
        action="store_true",
        help="bytes left free for chunks to grow do not count as dead",
    )
    parser.add_argument(
        "--keep-foreign",
        action="store_true",
        help="leave shards that are files of another format too as they are",
    )


def run(arguments: argparse.Namespace) -> int:
    report = compact(
        arguments.url,
        dead=arguments.dead,
        chunk_order=arguments.order,
        foreign="keep" if arguments.keep_foreign else "refuse",
        slack="keep" if arguments.keep_slack else "drop",
        progress=not arguments.quiet,
    )
    if arguments.json:
        print_json(report.to_json())
    elif not arguments.quiet:
        print_lines(
            f"{printable(address_shown(arguments.url))}: {report.rewritten:,} of {report.shards:,} shards rewritten, "
            f"{nbytes_text(report.before)} before, {nbytes_text(report.after)} now"
            + (f"; {len(report.foreign):,} left as they are" if report.foreign else "")
        )
    return 0
