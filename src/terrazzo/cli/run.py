"""From arguments to an exit code: the parser, and what becomes of every error.

What it does not do: the work of any verb. Exit codes are in EXIT_CODES; 141 is a pipe whose reader went away.
"""

from __future__ import annotations

import _thread
import argparse
import errno
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

from terrazzo.cli import (
    cat,
    check,
    compact,
    copy,
    grid,
    import_file,
    inventory,
    ls,
    map,
    merge,
    migrate,
    repair,
    reshard,
    serve,
    show,
    tree,
)
from terrazzo.cli.hints import GENERAL, not_an_array, not_found
from terrazzo.cli.output import address_shown, print_json
from terrazzo.drawing import printable
from terrazzo.errors import (
    ChunkNotFoundError,
    CodecError,
    ContainsNodeError,
    LimitError,
    MetadataError,
    NodeNotFoundError,
    NodeTypeValidationError,
    SelectionError,
    ShardError,
    StoreError,
    TerrazzoError,
)
from terrazzo.groups.opening import open as open_node

__all__ = ["EXIT_CODES", "main"]

VERBS = (
    *(show, tree, ls, cat, inventory, map, import_file, copy, migrate),
    *(check, repair, compact, reshard, merge, grid, serve),
)

#: what each exit code means, for the help and the docs
EXIT_CODES = {
    0: "fine",
    1: "something was found (check), or the work failed",
    2: "wrong usage",
    3: "not found",
    4: "corrupt: values are lost or unreadable",
    5: "incomplete: the time of a check was over before everything was looked at",
    130: "interrupted",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, and answer its exit code."""
    try:
        return _run(argv)
    except KeyboardInterrupt:  # before it began, or while it ended
        print("terrazzo: interrupted", file=sys.stderr)
        return 130


def _run(argv: Sequence[str] | None) -> int:
    parser = _parser()
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as end:  # argparse has said why
        return end.code if isinstance(end.code, int) else 2
    if not hasattr(arguments, "run"):
        parser.print_help(sys.stderr)
        return 2
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot show a character shows its number
            stream.reconfigure(errors="backslashreplace")
    unraisable, sys.unraisablehook = sys.unraisablehook, _interrupt_again
    with warnings.catch_warnings():
        warnings.showwarning = _quiet_warning if arguments.quiet else _warning
        try:
            code: int = arguments.run(arguments)
            sys.stdout.flush()
            return code
        except KeyboardInterrupt:
            print("terrazzo: interrupted" + getattr(arguments, "interrupted", ""), file=sys.stderr)
            return 130
        except BrokenPipeError:
            # nobody reads any more; the interpreter must not find that out again when it closes stdout
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 141
        except Exception as error:
            if arguments.debug:
                traceback.print_exc()
            return _failed(error, arguments)
        finally:
            sys.unraisablehook = unraisable


def _interrupt_again(ignored: Any) -> None:
    """An interrupt that arrives inside a finalizer is swallowed there: send it once more, a little later."""
    if isinstance(ignored.exc_value, KeyboardInterrupt):
        threading.Timer(0.01, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(ignored)


def _parser() -> argparse.ArgumentParser:
    codes = "; ".join(f"{code} {words}" for code, words in EXIT_CODES.items())
    parser = argparse.ArgumentParser(
        prog="terrazzo",
        description="Look at, copy, import, check and care for Zarr arrays with shards.",
        epilog=f"exit codes: {codes}",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and end")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--json", action="store_true", help="print JSON with stable keys")
    shared.add_argument("-q", "--quiet", action="store_true", help="no progress, no warnings")
    shared.add_argument("--debug", action="store_true", help="show the traceback of an error")
    verbs = parser.add_subparsers(metavar="VERB", title="verbs")
    for verb in VERBS:
        words = (verb.__doc__ or "").splitlines()[0].partition(": ")[2]
        one = verbs.add_parser(verb.NAME, help=words, description=words, parents=[shared])
        verb.add_arguments(one)
        one.set_defaults(run=verb.run)
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        # asked of the installed package, which takes longer than most verbs: only where it is wanted
        from importlib.metadata import PackageNotFoundError, version

        try:
            found = version("terrazzo")
        except PackageNotFoundError:
            found = "(not installed)"
        print(f"terrazzo {found}")
        parser.exit()


def _warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"terrazzo: warning: {printable(message)}", file=sys.stderr)


def _quiet_warning(*_: Any, **__: Any) -> None:
    pass


def _failed(error: Exception, arguments: argparse.Namespace) -> int:
    """One line, a hint where there is one, and the exit code."""
    code, hint = _meaning(error, arguments)
    text = (
        str(error) if isinstance(error, (TerrazzoError, OSError, ValueError, TypeError, ImportError)) else ""
    )
    text = text or f"{type(error).__name__}: {error}"
    if (
        isinstance(error, OSError)
        and not isinstance(error, TerrazzoError)
        and error.filename
        and error.strerror
    ):
        text = f"{os.fsdecode(error.filename)!r}: {error.strerror}"  # without the number
    if isinstance(error, (NodeNotFoundError, StoreError)):
        text = text.partition("; mode ")[0].partition("; mode=")[0]  # of functions, not of verbs
    print(f"terrazzo: error: {printable(_with_place(text, error, arguments))}", file=sys.stderr)
    if hint:
        print(f"hint: {printable(hint)}", file=sys.stderr)
    if arguments.json:
        print_json({"error": {"kind": type(error).__name__, "message": text, "exit": code}})
    return code


def _with_place(text: str, error: Exception, arguments: argparse.Namespace) -> str:
    """A sentence about a key or a document names the place too, where the command has only one."""
    url = getattr(arguments, "url", None)
    if url is None and isinstance(error, MetadataError) and _unreadable(arguments):
        url = arguments.source
    placed = (StoreError, MetadataError, CodecError, ShardError, LimitError, ChunkNotFoundError)
    if url is None or not isinstance(error, placed) or os.path.basename(url.rstrip("/")) in text:
        return text
    return f"{address_shown(url)}: {text}"


def _meaning(error: Exception, arguments: argparse.Namespace) -> tuple[int, str]:
    url = getattr(arguments, "url", None) or getattr(arguments, "source", None)
    match error:
        case NodeNotFoundError():
            return 3, GENERAL if getattr(arguments, "path", None) else not_found(url)
        case NodeTypeValidationError():
            return 3, not_an_array(url)
        case FileNotFoundError():
            return 3, ""
        case StoreError() if error.errno == errno.ENOENT:
            return 3, ""
        case ContainsNodeError():
            return (
                1,
                "--overwrite deletes what is there, with everything below it"
                if "overwrite" in arguments
                else "",
            )
        case ChunkNotFoundError():
            return 3, ""
        case CodecError() | ShardError():
            return 4, "`terrazzo check --verify-data` lists everything that is wrong"
        case MetadataError() | LimitError():
            made = getattr(arguments, "makes", False) and not _unreadable(arguments)
            return (2, "") if made else (4, "`terrazzo check` lists everything that is wrong")
        case SelectionError():
            return 2, ""
        case TerrazzoError() | OSError() | ImportError():
            return 1, ""
        case ValueError() | TypeError():
            return 2, ""
        case MemoryError():
            return 1, "less at a time: a smaller selection, or --memory"
        case _:
            return 1, "" if arguments.debug else "this should not happen; --debug shows where it did"


def _unreadable(arguments: argparse.Namespace) -> bool:
    """Whether what a verb that makes arrays was to copy is wrong, and not what was said of the copy."""
    try:
        if "source" in arguments:
            open_node(arguments.source, mode="r")
    except MetadataError:
        return True
    except Exception:
        pass  # the first error is the one that is told
    return False
