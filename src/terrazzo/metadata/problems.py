"""What is wrong with a document: every problem with its JSON path, and which faults are only worth a warning.

What it does not do: look for problems. The readers of documents, data types and fill values do, and tell them here.

Three verbs, in falling order of gravity:
    refuse   the value is not certain, or the format forbids it
    doubt    the format is broken, the value is certain, the peers disagree: refused when strict, else a warning
    remark   the format is broken (or a choice is unwise) and every known peer reads it the same way: a warning

https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from terrazzo.errors import MetadataError, MetadataValidationError, TerrazzoWarning

__all__ = ["Problems", "describe", "doubt", "join", "refuse", "remark"]

PROBLEMS_SHOWN = 100


def refuse(path: str, sentence: str, kind: type[MetadataError] = MetadataValidationError) -> NoReturn:
    """Raise one problem at a JSON path."""
    raise kind(f"{path}: {sentence}" if path else sentence, ((path, sentence),))


def doubt(path: str, sentence: str, *, strict: bool) -> None:
    """Refuse when strict, else warn: the value is certain although the document breaks the format."""
    if strict:
        refuse(path, f"{sentence} (`strict=False` reads it with a warning)")
    remark(path, sentence)


def remark(path: str, sentence: str) -> None:
    """Warn of something that every known reader takes the same way."""
    warnings.warn(f"{path}: {sentence}" if path else sentence, TerrazzoWarning, stacklevel=2)


class Problems:
    """Collects the problems of one document, so that all of them can be told at once."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []

    def add(self, path: str, sentence: str) -> None:
        self.found.append((path, sentence))

    @contextmanager
    def collected(self, path: str = "") -> Iterator[None]:
        """Keep the problems that the block raises, and go on after it."""
        try:
            yield
        except MetadataError as error:
            self.found.extend(error.problems or ((path, str(error)),))

    def raise_any(self, key: str, kind: type[MetadataError] = MetadataValidationError) -> None:
        """Raise all problems in one error whose every line names the document's key and the path."""
        if not self.found:
            return
        lines = [": ".join(part for part in (key, path, sentence) if part) for path, sentence in self.found]
        if len(lines) > PROBLEMS_SHOWN:
            lines[PROBLEMS_SHOWN:] = [f"... and {len(lines) - PROBLEMS_SHOWN} more problems"]
        raise kind("\n".join(lines), tuple(self.found))


def join(path: str, member: str | int) -> str:
    """The path of a member or an element below `path`."""
    if isinstance(member, int):
        return f"{path}[{member}]"
    if len(member) > 64 or not member.replace("_", "a").replace("-", "a").isalnum():
        return f"{path}[{describe(member)}]"
    return f"{path}.{member}" if path else member


def describe(value: object) -> str:
    """A found value as JSON writes it, short enough for a sentence."""
    if isinstance(value, dict):
        return f"an object with {len(value)} members" if value else "{}"
    if isinstance(value, (list, tuple)):
        if len(value) > 8 or any(isinstance(one, (dict, list, tuple)) for one in value):
            return f"a list of {len(value)}"
        return "[" + ", ".join(describe(one) for one in value) + "]"
    try:
        text = json.dumps(value[:80] if isinstance(value, str) else value)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 64 else f"{text[:60]}..."
