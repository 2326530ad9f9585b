"""What a check found: problems, each with its place, and counts of what was looked at.

What it does not do: look. The keys of `to_json` are stable; programs may rely on them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

__all__ = ["KINDS", "NOTES", "Findings", "Note", "Problem", "Report"]

#: problems kept; a hierarchy with more is broken as a whole
MOST = 10_000

#: every kind of problem: whether values are lost or unreadable, and what it is
KINDS: dict[str, tuple[bool, str]] = {
    "document": (True, "a document that cannot be read, or describes what cannot be"),
    "index": (True, "a shard whose index cannot be read: cut short, or a wrong checksum"),
    "entry": (True, "an index entry that cannot be right"),
    "chunk": (True, "a chunk that does not decode, or has an impossible length"),
    "unreadable": (True, "an object that the store lists and cannot give"),
    "overlap": (False, "inner chunks that share bytes: legal, but never to be overwritten in place"),
    "outside": (False, "a chunk key outside the grid: left behind by a larger shape"),
    "foreign": (False, "a key that is neither a document nor a chunk of the node it lies in"),
    "orphan": (False, "keys below a place without a document: they belong to no node"),
    "consolidated": (False, "consolidated metadata that no longer say what the documents say"),
}


#: every kind of note: nothing is wrong, and somebody may want to know
NOTES: dict[str, str] = {
    "saved": "what a repair saved beside an array: damaged objects as they were, and chunks without a place",
}
#: nodes named that were not looked at
MOST_UNCHECKED = 1000


@dataclass(frozen=True, slots=True)
class Note:
    """Something that is no problem. key: where it lies. nbytes: how large it is. kind: one of NOTES."""

    node: str
    key: str
    kind: str
    nbytes: int
    sentence: str

    def to_json(self) -> dict[str, Any]:
        return {
            "node": self.node,
            "key": self.key,
            "kind": self.kind,
            "nbytes": self.nbytes,
            "sentence": self.sentence,
        }


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. node: path of the array or group, with a leading slash. key: the store's key.

    chunk: index of the chunk in the array's grid (of inner chunks, where there are shards). kind: one of KINDS.
    """

    node: str
    key: str
    chunk: tuple[int, ...] | None
    kind: str
    sentence: str

    @property
    def corrupt(self) -> bool:
        """Whether values are lost or unreadable."""
        return KINDS[self.kind][0]

    def to_json(self) -> dict[str, Any]:
        return {
            "node": self.node,
            "key": self.key,
            "chunk": None if self.chunk is None else list(self.chunk),
            "kind": self.kind,
            "corrupt": self.corrupt,
            "sentence": self.sentence,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """What a check looked at and found.

    complete: False where `max_seconds` ended it; unchecked: paths of the groups (with all below them) and arrays that
    were not looked at, or not wholly, the first thousand. listed: False where the store cannot list, so that foreign
    keys and chunks outside the grid were not looked for. verified: whether chunks were decoded. objects: stored chunks
    and shards; chunks: stored chunks, inner ones where there are shards; decoded: those that decoded. nbytes: bytes of
    the objects; dead_nbytes: bytes in shards that no chunk and no index covers; slack_nbytes: of them, those that look
    like slack, left free for chunks to grow (None: data were not read, and the index cannot tell). left_out: problems
    past those kept. notes: what is no problem.
    """

    groups: int = 0
    arrays: int = 0
    objects: int = 0
    chunks: int = 0
    decoded: int = 0
    nbytes: int = 0
    dead_nbytes: int = 0
    slack_nbytes: int | None = None
    complete: bool = True
    listed: bool = True
    verified: bool = False
    problems: tuple[Problem, ...] = ()
    left_out: int = 0
    unchecked: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def ok(self) -> bool:
        """Everything was looked at, and nothing is wrong."""
        return self.complete and not self.problems

    @property
    def corrupt(self) -> bool:
        """Values are lost or unreadable."""
        return any(problem.corrupt for problem in self.problems)

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "corrupt": self.corrupt,
            "complete": self.complete,
            "unchecked": list(self.unchecked),
            "listed": self.listed,
            "verified": self.verified,
            "groups": self.groups,
            "arrays": self.arrays,
            "objects": self.objects,
            "chunks": self.chunks,
            "decoded": self.decoded,
            "nbytes": self.nbytes,
            "dead_nbytes": self.dead_nbytes,
            "slack_nbytes": self.slack_nbytes,
            "problems": [problem.to_json() for problem in self.problems],
            "problems_left_out": self.left_out,
            "notes": [note.to_json() for note in self.notes],
        }

    def __str__(self) -> str:
        return (
            f"{self.groups} groups, {self.arrays} arrays, {self.objects} objects, {self.chunks} chunks: {self.verdict}"
            + ("" if self.verified else " (chunks were not decoded)")
        )

    @property
    def verdict(self) -> str:
        """What was found, in some words."""
        many = len(self.problems) + self.left_out
        found = f"{many:,} problem{'s' * (many != 1)}" if many else "nothing is wrong"
        if self.complete:
            return found
        names = ", ".join(map(repr, self.unchecked[:3])) + (" and more" if len(self.unchecked) > 3 else "")
        return (
            f"{found if many else 'no problem'} in what was looked at; not looked at, or not wholly: {names}"
        )


class Findings:
    """A report under construction: what a running check has found so far."""

    def __init__(self, max_seconds: float | None = None) -> None:
        if max_seconds is not None and not max_seconds >= 0:
            raise ValueError(f"max_seconds is {max_seconds!r}; a number of seconds from 0 on is allowed")
        self._end = None if max_seconds is None else time.monotonic() + max_seconds
        self._problems: list[Problem] = []
        self._left_out = 0
        self._notes: list[Note] = []
        self._unchecked: list[str] = []
        self.groups = self.arrays = self.objects = self.chunks = self.decoded = 0
        self.nbytes = self.dead_nbytes = self.slack_nbytes = 0
        self.complete = self.listed = True
        self.verified = False

    def add(
        self, kind: str, node: str, key: str, sentence: str, chunk: tuple[int, ...] | None = None
    ) -> None:
        if len(self._problems) < MOST:
            self._problems.append(Problem(node, key, chunk, kind, sentence))
        else:
            self._left_out += 1

    def note(self, kind: str, node: str, key: str, nbytes: int, sentence: str) -> None:
        self._notes.append(Note(node, key, kind, nbytes, sentence))

    def leave(self, *nodes: str) -> None:
        """These nodes are not looked at, or not wholly."""
        self.complete = False
        self._unchecked += nodes[: MOST_UNCHECKED - len(self._unchecked)]

    def late(self) -> bool:
        """Whether the time is over; from then on the report is not complete."""
        if self._end is not None and time.monotonic() >= self._end:
            self.complete = False
        return not self.complete

    def report(self) -> Report:
        return Report(
            groups=self.groups,
            arrays=self.arrays,
            objects=self.objects,
            chunks=self.chunks,
            decoded=self.decoded,
            nbytes=self.nbytes,
            dead_nbytes=self.dead_nbytes,
            slack_nbytes=self.slack_nbytes if self.verified else None,
            complete=self.complete,
            listed=self.listed,
            verified=self.verified,
            problems=tuple(sorted(self._problems, key=lambda p: (p.node, p.key, p.chunk or ()))),
            left_out=self._left_out,
            unchecked=tuple(self._unchecked),
            notes=tuple(sorted(self._notes, key=lambda note: (note.node, note.key))),
        )
