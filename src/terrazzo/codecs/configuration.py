"""Configurations of codecs: documents' members -> constructor arguments, every fault with its path.

What it does not do: know any codec.
Specification: Zarr core 3.0, "Extension definition".

A constructor checks its own arguments with the functions below, whose problems carry the argument's name as path;
`from_members` puts the document's path before it. So each rule is written once, for documents and for callers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from terrazzo.errors import MetadataError
from terrazzo.metadata.problems import describe, join, refuse

__all__ = ["boolean", "choice", "from_members", "integer", "only_members", "shape_of"]

T = TypeVar("T")


def from_members(
    make: Callable[..., T],
    configuration: Mapping[str, Any],
    path: str,
    required: Sequence[str] = (),
    optional: Sequence[str] = (),
) -> T:
    """`make(**configuration)`, with every member that is missing, unknown or wrong named by its path."""
    at = join(path, "configuration")
    only_members(configuration, at, required, optional)
    try:
        return make(**configuration)
    except MetadataError as error:
        if not error.problems:
            raise
        where, sentence = error.problems[0]
        refuse(f"{at}.{where}" if where else path, sentence, type(error))


def only_members(
    configuration: Mapping[str, Any], at: str, required: Sequence[str] = (), optional: Sequence[str] = ()
) -> None:
    """Refuse a configuration that misses a member or has one too many."""
    allowed = [*required, *optional]
    for member in sorted(configuration.keys() - set(allowed)):
        known = ", ".join(f"`{name}`" for name in allowed) or "none"
        refuse(join(at, member), f"is not a member of this configuration; allowed: {known}")
    for member in required:
        if member not in configuration:
            refuse(join(at, member), "is missing; this codec needs it")


def integer(value: object, member: str, low: int, high: int | None = None) -> int:
    """An integer in range."""
    if isinstance(value, np.integer):
        value = int(value)
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or value < low
        or (high is not None and value > high)
    ):
        allowed = f"an integer from {low} to {high}" if high is not None else f"an integer >= {low}"
        refuse(member, f"found {describe(value)}, must be {allowed}")
    return value


def boolean(value: object, member: str) -> bool:
    if not isinstance(value, bool | np.bool_):
        refuse(member, f"found {describe(value)}, must be true or false")
    return bool(value)


def choice(value: object, member: str, allowed: Sequence[str]) -> str:
    """One of a few names."""
    if not isinstance(value, str) or value not in allowed:
        refuse(member, f"found {describe(value)}, must be one of {', '.join(map(describe, allowed))}")
    return value


def shape_of(value: object, member: str) -> tuple[int, ...]:
    """A list of integers >= 1."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        refuse(member, f"found {describe(value)}, must be a list of integers >= 1")
    return tuple(integer(extent, join(member, i), 1) for i, extent in enumerate(value))
