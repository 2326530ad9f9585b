"""check: every document, key and shard index, and with --verify-data every chunk."""

from __future__ import annotations

import argparse

from terrazzo.care import Report, check
from terrazzo.cli.output import counted, print_json, print_lines
from terrazzo.drawing import nbytes_text, printable

__all__ = ["NAME", "add_arguments", "run"]

NAME = "check"
#: the time was over before everything was looked at
INCOMPLETE = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="an array or a group")
    parser.add_argument(
        "--verify-data", action="store_true", help="decode every stored chunk: reads everything"
    )
    parser.add_argument(
        "--max-seconds",
        type=_seconds,
        metavar="S",
        help=f"stop after so long; exit code {INCOMPLETE} where something was not looked at",
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0 on")
    return seconds


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
    return 4 if report.corrupt else INCOMPLETE if not report.complete else 1 if not report.ok else 0


def _print(report: Report) -> None:
    for problem in report.problems:
        print_lines(f"{problem.kind}: {printable(problem.sentence)}")
    for note in report.notes:
        print_lines(f"note: {printable(note.sentence)}")
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
    lines.append(printable(report.verdict))
    print_lines("; ".join(lines))
    if not report.complete:
        print_lines(
            f"the time was over before everything was looked at: {counted(len(report.unchecked), 'node')}"
        )
