"""Arguments shared by the verbs that make arrays: chunks, shards, codecs, overwriting, memory.

What it does not do: check them; the library does, with better words.
"""

from __future__ import annotations

import argparse
from typing import Any

from terrazzo.cli.output import parse_shape
from terrazzo.shapes import parse_nbytes

__all__ = ["add_making", "making", "nbytes"]


def add_making(parser: argparse.ArgumentParser, default: str) -> None:
    """default: what chunks, shards and codecs are where nothing is said."""
    parser.add_argument("--name", metavar="PATH", help="path of the new node below the destination")
    parser.add_argument(
        "--chunks",
        type=parse_shape,
        default=default,
        metavar="SHAPE",
        help=f"64,64 or 1MB or auto ({default})",
    )
    parser.add_argument(
        "--shards",
        type=parse_shape,
        default=default,
        metavar="SHAPE",
        help=f"as --chunks, or none ({default})",
    )
    parser.add_argument(
        "--compressors", default=default, metavar="CODECS", help=f"zstd:5,crc32c or none ({default})"
    )
    parser.add_argument(
        "--filters", default=default, metavar="CODECS", help=f"codecs before compression ({default})"
    )
    parser.add_argument("--index-location", choices=("end", "start"), help="where shards hold their index")
    parser.add_argument(
        "--overwrite", action="store_true", help="delete what is there, with everything below it"
    )
    parser.add_argument("--memory", type=nbytes, metavar="SIZE", help="values held at a time, such as 256MB")
    parser.add_argument(
        "--verify", action="store_true", help="read everything back and compare it, bit for bit"
    )
    parser.set_defaults(makes=True, interrupted="; a part was written: --overwrite starts again")


def making(arguments: argparse.Namespace) -> dict[str, Any]:
    """The arguments as the library's functions take them."""
    how: dict[str, Any] = {
        "name": arguments.name,
        "chunks": arguments.chunks,
        "shards": arguments.shards,
        "compressors": _codecs(arguments.compressors),
        "filters": _codecs(arguments.filters),
        "overwrite": arguments.overwrite,
        "memory": arguments.memory,
        "verify": arguments.verify,
        "progress": not arguments.quiet,
    }
    if arguments.index_location is not None:
        how["index_location"] = arguments.index_location
    return how


def _codecs(words: str) -> str | None:
    return None if words.lower() == "none" else words


def nbytes(text: str) -> int:
    try:
        return parse_nbytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
