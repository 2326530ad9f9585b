"""Checks that every part of a configuration shares: mappings, known keys, choices.

What it does not do: know any key. A message names the key's full path, what was found and what is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from terrazzo.gridding.errors import GridConfigError, GriddingError

__all__ = ["boolean", "check_known", "mapping", "one_of", "whole"]

Kind = type[GriddingError]


def mapping(given: object, where: str, kind: Kind = GridConfigError) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise kind(f"{where} is {given!r}; names with values below them are needed")
    return given


def check_known(
    given: Mapping[str, Any],
    known: Sequence[str],
    where: str,
    kind: Kind = GridConfigError,
    elsewhere: Mapping[str, str] | None = None,
) -> None:
    """Refuse unknown keys, with the nearest known one; `elsewhere` says what to do instead of some."""
    for key in given:
        if key in known:
            continue
        path = f"{where}.{key}" if where else str(key)
        if elsewhere and key in elsewhere:
            raise kind(f"{path} is not supported: {elsewhere[key]}")
        near = get_close_matches(str(key), known, 1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
        raise kind(f"{path} is unknown; {hint}")


def one_of(value: object, allowed: Sequence[str], where: str, kind: Kind = GridConfigError) -> str:
    if not isinstance(value, str) or value not in allowed:
        near = get_close_matches(str(value), allowed, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise kind(f"{where} is {value!r}; {', '.join(allowed[:-1])} or {allowed[-1]} are allowed{hint}")
    return value


def boolean(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise GridConfigError(f"{where} is {value!r}; true or false are allowed")
    return value


def whole(value: object, where: str, least: int = 1, kind: Kind = GridConfigError) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise kind(f"{where} is {value!r}; an integer of at least {least} is needed")
    return value
