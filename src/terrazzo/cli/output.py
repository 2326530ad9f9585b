"""What verbs print: lines for people, JSON for programs.

What it does not do: let a name, an attribute or a value steer the terminal; lines are made printable by whoever made
them, and JSON is ASCII.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from terrazzo.drawing import printable, text_table

__all__ = [
    "address_shown",
    "counted",
    "parse_counts",
    "parse_shape",
    "print_fields",
    "print_json",
    "print_lines",
    "short_json",
    "write_picture",
]


def print_lines(text: str) -> None:
    sys.stdout.write(text + "\n")


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


def print_fields(fields: list[tuple[str, object]]) -> None:
    """Names and values in two columns."""
    print_lines(text_table(fields, longest=1000))


def write_picture(name: str, svg: Callable[[], str], png: Callable[[], bytes]) -> None:
    """A picture as the file's name says."""
    path = Path(name)
    if path.suffix not in (".svg", ".png"):
        raise ValueError(f"{path.name!r}: pictures are .svg or .png")
    path.write_bytes(png() if path.suffix == ".png" else svg().encode())


def address_shown(text: str) -> str:
    """A path or an address, without what may be a secret in it: user-info, a query."""
    if "://" not in text:
        return text
    from terrazzo.stores.remote.address import shown  # the room of remote stores takes long to import

    return shown(text)


def counted(number: int, word: str) -> str:
    """A number with a word, which gets its plural."""
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def short_json(value: Any, longest: int = 200) -> str:
    """JSON on one line, for the eye."""
    return printable(json.dumps(value, ensure_ascii=False, default=str), longest)


def parse_counts(text: str) -> tuple[int, ...]:
    """`2,2`: a whole number for each dimension."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no count for each dimension; write it as 2,2"
        ) from None


def parse_shape(text: str) -> Any:
    """`auto`, `1MB`, `keep`, `none`, `256`, or `64,64`, as the functions of the library take them."""
    words = text.strip()
    if words.lower() == "none":
        return None
    parts = [part for part in words.replace("x", ",").split(",") if part]
    try:
        numbers = [int(part) for part in parts]
    except ValueError:
        return words
    if not numbers:
        raise argparse.ArgumentTypeError("expected a shape such as 64,64, a size such as 1MB, auto, or none")
    return numbers[0] if len(numbers) == 1 and "," not in words else tuple(numbers)
