"""What a repair puts beside an array: damaged objects as they were, chunks without a place, and its journal.

What it does not do: decide anything, or touch the array. Everything here is whole and on the disk when a call returns.

The journal has a record for every object that is repaired in place, written before the object changes: which of its
chunks stay, which are lost, and what tells its old version from the new one. A repair that was cut off is finished by
the next one, as it was decided, and that one tells of all of it; then the journal goes.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from terrazzo.errors import TerrazzoError
from terrazzo.stores.files import Files
from terrazzo.stores.local import LocalStore

__all__ = ["UNPLACED", "Beside", "Record", "digest", "is_saved"]

#: what the folder beside an array is called, after the array
UNPLACED = ".unplaced"
SAVED = re.compile(r"journal/(over|.+\.json)|.+\.damaged|.+-at-\d+\.(npy|chunk)")

FORMAT = "terrazzo repair 1"
JOURNAL = "journal/"
#: says that the journal was told of, while its records go
OVER = "journal/over"


def is_saved(name: str) -> bool:
    """Whether a file in such a folder is named as what is put into it."""
    return SAVED.fullmatch(name) is not None


def digest(body: Any) -> str:
    """What tells one version of an object from others."""
    return hashlib.sha256(body).hexdigest()


@dataclass(frozen=True, slots=True)
class Record:
    """The repair of one object, as it was decided.

    before, after: digests of the object as it was and as it becomes (None: it goes). source: as in `Salvaged`. entries:
    (inner chunk, offset, nbytes) of what stays, in the object as it was. lost: (chunk or None, reason) of what does
    not. kept: how many chunks stay. unplaced: files of chunks without a place.
    """

    key: str
    before: str
    after: str | None
    source: str
    entries: list[tuple[int, int, int]]
    lost: list[tuple[list[int] | None, str]]
    kept: int
    unplaced: list[str]


class Beside:
    """A folder beside an array, which is made where something is put into it."""

    def __init__(self, folder: Path | None, files: Files | None) -> None:
        self.folder = folder
        self._store = None if folder is None else LocalStore(folder, files=files)

    def save_damaged(self, key: str, body: bytes) -> None:
        """The whole object as it was. What lies there under its name from an earlier repair stays, under its own."""
        store, name = self._place(key), f"{_flat(key)}.damaged"
        old = store.get(name)
        if old is not None and old != body:
            name = f"{_flat(key)}-{digest(body)[:8]}.damaged"
        if old is None or old != body:
            store.set(name, body)

    def save_chunk(self, key: str, offset: int, value: np.ndarray[Any, Any], encoded: bytes) -> str:
        """A chunk without a place, by where it lay in which object; the file's path. As it is encoded, where numpy
        cannot write its values."""
        store, name = self._place(key), f"{_flat(key)}-at-{offset}"
        if value.dtype.kind in "OT":
            store.set(f"{name}.chunk", encoded)
            return str(Path(store.root, f"{name}.chunk"))
        written = io.BytesIO()
        np.save(written, value, allow_pickle=False)
        store.set(f"{name}.npy", written.getvalue())
        return str(Path(store.root, f"{name}.npy"))

    def records(self) -> dict[str, Record]:
        """What an earlier repair decided and did not live to tell, by key."""
        if self._store is None or self._store.exists(OVER):
            return {}
        found = {}
        for name in list(self._store.list_prefix(JOURNAL)):
            try:
                record = _record_of(json.loads(self._store.get(name) or b""))
                found[record.key] = record
            except (ValueError, TypeError, KeyError, AttributeError, TerrazzoError):
                continue  # not ours, or of another version: what it told of is found anew
        return found

    def save_record(self, record: Record) -> None:
        words = {"format": FORMAT, **asdict(record)}
        self._place(record.key).set(f"{JOURNAL}{_flat(record.key)}.json", json.dumps(words).encode())

    def clear(self) -> None:
        """The repair is over, and was told of."""
        if self._store is None:
            return
        records = [name for name in self._store.list_prefix(JOURNAL) if name != OVER]
        if records:
            self._store.set(OVER, b"")
            self._store.erase_values(records)
        self._store.erase_prefix(JOURNAL)  # the mark goes last; and what dead writers left

    def _place(self, key: str) -> LocalStore:
        if self._store is None:
            raise ValueError(
                f"{key!r} is damaged; say in which folder chunks without a place, and objects before they are repaired "
                "in place, are to be saved: unplaced="
            )
        return self._store


def _record_of(words: Any) -> Record:
    """What a file of the journal says; ValueError and its like where that cannot be: it may be anybody's."""
    if words.pop("format") != FORMAT:
        raise ValueError("another format")
    return Record(
        key=_text(words["key"]),
        before=_text(words["before"]),
        after=None if words["after"] is None else _text(words["after"]),
        source=_text(words["source"]),
        entries=[(int(n), int(offset), int(nbytes)) for n, offset, nbytes in words["entries"]],
        lost=[
            (None if chunk is None else [int(i) for i in chunk], _text(reason))
            for chunk, reason in words["lost"]
        ],
        kept=int(words["kept"]),
        unplaced=[_text(path) for path in words["unplaced"]],
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.60} is no text")
    return value


def _flat(key: str) -> str:
    return key.replace("/", "-")
