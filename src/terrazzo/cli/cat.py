"""cat: a selection of an array, as text, npy or raw bytes; or what reading it asks of the store."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from math import prod
from typing import IO, Any

import numpy as np

from terrazzo.arrays.array import Array
from terrazzo.arrays.explain import Explainer
from terrazzo.cli.output import address_shown, print_fields, print_json
from terrazzo.cli.selection import Box, parse_selection, pieces
from terrazzo.drawing import printable
from terrazzo.errors import NodeTypeValidationError
from terrazzo.groups.group import Group
from terrazzo.groups.opening import open as open_node
from terrazzo.progress import follow
from terrazzo.stores.watching import Traffic, traffic

__all__ = ["NAME", "add_arguments", "run"]

NAME = "cat"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="an array")
    parser.add_argument(
        "selection", metavar="SELECTION", nargs="?", default="...", help="as in Python: 0:10,5 (all)"
    )
    parser.add_argument(
        "-f", "--format", choices=("text", "npy", "raw"), default="text", help="what to write (text)"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write to a file; by default to standard output"
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="read the selection, and tell its requests and bytes instead of its values",
    )


def run(arguments: argparse.Namespace) -> int:
    with traffic() as opening:
        array = open_node(arguments.url, mode="r")
    if isinstance(array, Group):
        inside = ", ".join(sorted(array.array_keys())[:10]) if array.store.listable else ""
        raise NodeTypeValidationError(
            f"{address_shown(arguments.url)!r} is a group, not an array"
            + (f"; its arrays are {inside}" if inside else "")
        )
    box = parse_selection(arguments.selection, array.shape)
    if arguments.explain:
        _explain(array, box, opening, arguments.json)
        return 0
    if arguments.json:
        print_json({"shape": list(box.shape), "values": array[box.key].tolist()})
        return 0
    if arguments.format != "text" and (array.dtype.hasobject or array.dtype.kind == "T"):
        raise ValueError(f"values of type {array.dtype} have no fixed size; --format text can show them")
    if arguments.format != "text" and arguments.output is None and sys.stdout.isatty():
        raise ValueError(
            f"--format {arguments.format} is not for a terminal; name a file by -o, or use a pipe"
        )
    total = prod(box.shape) * array.dtype.itemsize
    show = not arguments.quiet and arguments.output is not None
    with _target(arguments.output) as target, follow(show, total, "reading") as step:
        writer = {"text": _write_text, "npy": _write_npy, "raw": _write_raw}[arguments.format]
        for values in writer(target, array, box):
            step(values.nbytes)
    return 0


def _explain(array: Array, box: Box, opening: Traffic, as_json: bool) -> None:
    """Read a selection block by block, as it would be written, and tell what that asked for."""
    explainer = Explainer(array)
    for piece in pieces(box, _chunk_extents(array), array.dtype.itemsize, array.options.memory):
        explainer.read(piece)
    found = explainer.explained
    if as_json:
        print_json({"opening_requests": opening.requests, **asdict(found)})
        return
    sharded = array.shards is not None
    verbs = ", ".join(f"{verb} {n:,}" for verb, n in found.requests.items())
    fields: list[tuple[str, object]] = [
        ("requests to open", f"{opening.requests:,}"),
        ("shards" if sharded else "chunks", f"{found.objects:,}, stored {found.stored_objects:,}"),
    ]
    if sharded:
        fields += [
            ("inner chunks", f"{found.chunks:,}, stored {found.stored_chunks:,}"),
            ("indexes remembered", f"{found.remembered:,}"),
        ]
    fields += [
        ("requests", f"{sum(found.requests.values()):,}" + (f" ({verbs})" if verbs else "")),
        ("round trips", f"{found.round_trips:,}"),
        ("bytes fetched", f"{found.fetched_nbytes:,}"),
    ]
    if found.direct_nbytes:
        fields.append(("bytes without requests", f"{found.direct_nbytes:,}"))
    needed = "not known" if found.needed_nbytes is None else f"{found.needed_nbytes:,}"
    print_fields([*fields, ("bytes needed", needed)])


@contextmanager
def _target(path: str | None) -> Iterator[IO[bytes]]:
    """Standard output, or a file that appears under its name when it is whole."""
    if path is None or path == "-":
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    part = path + ".part"
    try:
        with open(part, "wb") as file:
            yield file
        os.replace(part, path)
    except BaseException:
        if os.path.exists(part):
            os.remove(part)
        raise


def _blocks(array: Array, box: Box) -> Iterator[np.ndarray[Any, Any]]:
    for piece in pieces(box, _chunk_extents(array), array.dtype.itemsize, array.options.memory):
        yield np.asarray(array[piece])


def _chunk_extents(array: Array) -> list[int]:
    return [max(sizes, default=1) for sizes in array.read_chunk_sizes]


def _write_raw(target: IO[bytes], array: Array, box: Box) -> Iterator[np.ndarray[Any, Any]]:
    """Little-endian values in C order."""
    stored = array.dtype.newbyteorder("<")
    for values in _blocks(array, box):
        target.write(np.ascontiguousarray(values, stored).reshape(-1).view(np.uint8).data)
        yield values


def _write_npy(target: IO[bytes], array: Array, box: Box) -> Iterator[np.ndarray[Any, Any]]:
    described = {
        "descr": np.lib.format.dtype_to_descr(array.dtype.newbyteorder("<")),
        "fortran_order": False,
        "shape": box.shape,
    }
    np.lib.format.write_array_header_2_0(target, described)
    yield from _write_raw(target, array, box)


def _write_text(target: IO[bytes], array: Array, box: Box) -> Iterator[np.ndarray[Any, Any]]:
    """A row of the last dimension per line, values separated by tabs; planes of more dimensions under their index."""
    row = box.shape[-1] if len(box.shape) > 1 else 1
    plane = row * box.shape[-2] if len(box.shape) > 2 else 0
    written = 0
    for values in _blocks(array, box):
        words = [printable(_word(value)) for value in values.reshape(-1)]
        lines, at = [], 0
        while at < len(words):
            if plane and written % plane == 0:
                index = np.unravel_index(written // plane, box.shape[:-2])
                lines.append(f"# {', '.join(str(int(i)) for i in index)}\n")
            here = min(row - written % row, len(words) - at)
            whole = (written + here) % row == 0
            lines.append("\t".join(words[at : at + here]) + ("\n" if whole else "\t"))
            at += here
            written += here
        target.write("".join(lines).encode("utf-8", "backslashreplace"))
        yield values


def _word(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)
