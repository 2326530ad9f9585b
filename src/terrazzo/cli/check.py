"""check: every document, key and shard index, and with --verify-data every chunk."""

from __future__ import annotations

import argparse

from terrazzo.care import Report, check
from terrazzo.cli.output import counted, print_json, print_lines
from terrazzo.drawing import nbytes_text, printable

__all__ = ["NAME", "add_arguments", "run"]

NAME = "check"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="an array or a group")
    parser.add_argument(
        "--verify-data", action="store_true", help="decode every stored chunk: reads everything"
    )
    parser.add_argument("--max-seconds", type=float, metavar="S", help="stop after so long")


def run(arguments: argparse.Namespace) -> int:
    report = check(
        arguments.url,
        verify_data=arguments.verify_data,
        max_seconds=arguments.max_seconds,
        progress=not arguments.quiet,
    )
    if arguments.json:
        print_json(report.to_json())
    else:
        _print(report)
    return 4 if report.corrupt else 1 if not report.ok else 0


def _print(report: Report) -> None:
    for problem in report.problems:
        print_lines(f"{problem.kind}: {printable(problem.sentence)}")
    if report.left_out:
        print_lines(f"and {report.left_out:,} problems more")
    lines = [
        f"{counted(report.groups, 'group')}, {counted(report.arrays, 'array')}, "
        f"{counted(report.objects, 'object')} of {nbytes_text(report.nbytes)}, {counted(report.chunks, 'chunk')}",
        f"dead space {nbytes_text(report.dead_nbytes)}"
        + (f", {nbytes_text(report.slack_nbytes)} of it slack" if report.slack_nbytes else ""),
    ]
    if report.verified:
        lines.append(f"{counted(report.decoded, 'chunk')} decoded")
    else:
        lines.append("chunks were not decoded (--verify-data does)")
    if not report.listed:
        lines.append("the store cannot list: foreign keys were not looked for")
    if not report.complete:
        lines.append("the time was over before everything was looked at")
    found = len(report.problems) + report.left_out
    lines.append("nothing is wrong" if report.ok else counted(found, "problem"))
    print_lines("; ".join(lines))
