"""migrate: bring Zarr 2, the 2022 draft or the sharding of early 2023 into Zarr 3, mostly without moving a byte."""

from __future__ import annotations

import argparse

from terrazzo.care.migrate import Migration, migrate
from terrazzo.cli.output import counted, parse_counts, print_json, print_lines

__all__ = ["NAME", "add_arguments", "run"]

NAME = "migrate"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="an array or a group")
    parser.add_argument("destination", metavar="URL", nargs="?", help="where it goes; without it, in place")
    parser.add_argument(
        "--zarr-format", type=int, choices=(2, 3), default=3, help="the format to end with (3)"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    parser.add_argument("--verify", action="store_true", help="compare all values afterwards, bit for bit")
    parser.add_argument(
        "--confirm", action="store_true", help="in place: remove the old documents and names when all is done"
    )
    parser.add_argument(
        "--link",
        action="store_true",
        help="elsewhere: link chunks instead of copying them (one file, two names)",
    )
    parser.add_argument(
        "--dialect", choices=("v2", "v3", "P", "D"), help="of the source, where it is not found out"
    )
    parser.add_argument(
        "--chunks-per-shard",
        type=parse_counts,
        metavar="N,N",
        help="of arrays of the draft whose document lost it",
    )


def run(arguments: argparse.Namespace) -> int:
    report = migrate(
        arguments.source,
        arguments.destination,
        zarr_format=arguments.zarr_format,
        dry_run=arguments.dry_run,
        verify=arguments.verify,
        confirm=arguments.confirm,
        link=True if arguments.link else None,
        dialect=arguments.dialect,
        chunks_per_shard=arguments.chunks_per_shard,
        progress=not arguments.quiet,
    )
    if arguments.json:
        print_json(report.to_json())
    elif not arguments.quiet:
        print_lines(_sentence(report))
    return 0


def _sentence(report: Migration) -> str:
    parts = [
        f"{report.source} to {report.target}: {counted(report.nodes, 'document')}",
        f"{counted(report.same, 'chunk')} left in place, {report.linked:,} linked, {report.copied:,} copied",
    ]
    if report.encoded:
        parts.append(f"{counted(len(report.encoded), 'array')} encoded anew")
    if report.verified:
        parts.append("all values are equal")
    if report.removed:
        parts.append(f"{counted(report.removed, 'old key')} removed")
    if report.dry_run:
        parts.append("nothing was changed (dry run)")
    return "; ".join(parts)
