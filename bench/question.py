"""A question: a title, a sentence or two, and cases. One file of questions/ asks one.

What it does not do: measure (sitting.py), or say how the answer looks (tables.py, plots.py).
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from libraries import FLOORS, PEERS
from operations import Operation

READERS = ("terrazzo", *PEERS)
WRITERS = ("terrazzo", *PEERS)
WITH_FLOOR = ("terrazzo", *PEERS, *FLOORS)


@dataclass(frozen=True)
class Case:
    """One row of a table: an operation on a layout, by some libraries."""

    name: str
    layout: str
    operation: Operation
    libraries: tuple[str, ...] = READERS
    calls: int = (
        12  # at most this many calls in one process, after one that is not counted; 0: that one counts
    )
    sync: bool = False  # writes are durable when the call returns
    heavy: bool = False  # left out by --quick
    inner_chunks: int = 0  # where the number of chunks is what the question varies


@dataclass(frozen=True)
class Question:
    name: str  # of its file
    title: str
    about: str
    cases: tuple[Case, ...]
    plot: Literal["bars", "lines", "memory", ""] = "bars"
    unit: Literal["ms", "us", "MiB"] = "ms"


def ask(name: str) -> Question:
    question = importlib.import_module(f"questions.{name}").QUESTION
    assert isinstance(question, Question)
    assert question.name == name, f"questions/{name}.py calls itself {question.name!r}"
    return question


#: the order of the page
ORDER = (
    "whole_read",
    "slices",
    "random_chunks",
    "random_boxes",
    "whole_write",
    "whole_write_synced",
    "partial_write",
    "partial_write_synced",
    "chunk_count",
    "huge_shard",
    "small_objects",
    "strings",
    "opening",
    "memory",
)


def every_question() -> list[str]:
    found = {path.stem for path in Path(__file__).with_name("questions").glob("*.py")} - {"__init__"}
    return [name for name in ORDER if name in found] + sorted(found - set(ORDER))
