"""Power loss: a file layer that records what a writer asks of the disk, and the states that a power loss can leave.

What is modelled: data and size of a file are certain after its sync, a name after the sync of its folder; before that
any part may have reached the disk. Written bytes arrive in sectors of 512 bytes (or pieces of 64, which is worse), in
any order; a file may be as long as it
was, as long as it should be (with zeros where nothing arrived), or anything between; names of a folder change in any
order, each change whole. A state is made from a prefix of the operations and a random choice of what arrived.

What is not: sectors that hold neither the old nor the new bytes, and disks that lie about a sync.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from terrazzo.stores import lanes
from terrazzo.stores.journal import JOURNAL_SUFFIX, generation_of
from tests.faults.layers import Counting

__all__ = ["RETURNED", "SYNCS", "Disk", "Recording", "crash"]

SECTORS = (512, 512, 64)
RETURNED = "returned"
SYNCS = ("sync", "sync_folder", "sync_file_system")

Operation = tuple[Any, ...]


class Recording(Counting):
    """Does everything, and writes down what it did, with a number for every file and folder it met."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.log: list[Operation] = []
        self.numbers: dict[int, int] = {}  # inode -> number
        self.inodes: dict[int, int] = {}  # number -> inode
        self.base = Disk()
        self._take(root, "")
        self.base.root = self.numbers[os.stat(root).st_ino]

    def returned(self) -> None:
        """A call of the user's returned: what it wrote is durable from here on."""
        self.log.append((RETURNED,))

    def _new(self, inode: int) -> int:
        number = len(self.inodes)
        self.numbers[inode] = number
        self.inodes[number] = inode
        return number

    def _take(self, path: Path, name: str) -> int:
        """What lies there already is on the disk."""
        number = self._new(os.stat(path).st_ino)
        if path.is_dir():
            self.base.folders[number] = Names({p.name: self._take(p, p.name) for p in sorted(path.iterdir())})
        else:
            self.base.files[number] = Bytes(bytearray(path.read_bytes()))
        return number

    def _of(self, descriptor: int) -> int:
        return self.numbers[os.fstat(descriptor).st_ino]

    def _named(self, name: str, folder: int) -> int:
        return self.numbers[os.stat(name, dir_fd=folder, follow_symlinks=False).st_ino]

    def create(self, name: str, folder: int, flags: int) -> int:
        try:
            os.stat(name, dir_fd=folder, follow_symlinks=False)
            new = False
        except FileNotFoundError:
            new = True
        file: int = super().create(name, folder, flags)
        if new:
            number = self._new(os.fstat(file).st_ino)
            self.log.append(("create", self._of(folder), name, number))
        return file

    def pwrite(self, file: int, buffer: Any, offset: int) -> int:
        written: int = super().pwrite(file, buffer, offset)
        taken = bytes(memoryview(buffer).cast("B")[:written])
        self.log.append(("pwrite", self._of(file), offset, taken))
        return written

    def truncate(self, file: int, size: int) -> None:
        super().truncate(file, size)
        self.log.append(("truncate", self._of(file), size))

    def sync(self, file: int) -> None:
        super().sync(file)
        self.log.append(("sync", self._of(file)))

    def sync_folder(self, folder: int) -> None:
        super().sync_folder(folder)
        self.log.append(("sync_folder", self._of(folder)))

    def sync_file_system(self, file: int) -> bool:
        self.log.append(("sync_file_system",))
        return True

    def rename(self, old: str, new: str, folder: int) -> None:
        number = self._named(old, folder)
        super().rename(old, new, folder)
        self.log.append(("names", self._of(folder), ((old, None), (new, number))))

    def unlink(self, name: str, folder: int) -> None:
        super().unlink(name, folder)
        self.log.append(("names", self._of(folder), ((name, None),)))

    def mkdir(self, name: str, folder: int) -> None:
        super().mkdir(name, folder)
        number = self._new(os.stat(name, dir_fd=folder).st_ino)
        self.log.append(("mkdir", self._of(folder), name, number))

    def rmdir(self, name: str, folder: int) -> None:
        super().rmdir(name, folder)
        self.log.append(("names", self._of(folder), ((name, None),)))


@dataclass
class Bytes:
    """A file: what is on the disk for certain, and what was asked for since."""

    certain: bytearray = field(default_factory=bytearray)
    pending: list[Operation] = field(default_factory=list)


@dataclass
class Names:
    """A folder: the names on the disk for certain, and the changes asked for since."""

    certain: dict[str, int] = field(default_factory=dict)
    pending: list[tuple[tuple[str, int | None], ...]] = field(default_factory=list)


@dataclass
class Disk:
    """Files and folders by number."""

    root: int = 0
    files: dict[int, Bytes] = field(default_factory=dict)
    folders: dict[int, Names] = field(default_factory=dict)

    def copy(self) -> Disk:
        return Disk(
            self.root,
            {n: Bytes(bytearray(f.certain), list(f.pending)) for n, f in self.files.items()},
            {n: Names(dict(d.certain), list(d.pending)) for n, d in self.folders.items()},
        )

    def after(self, operation: Operation) -> None:
        match operation:
            case ("create", folder, name, number):
                self.files[number] = Bytes()
                self.folders[folder].pending.append(((name, number),))
            case ("mkdir", folder, name, number):
                self.folders[number] = Names()
                self.folders[folder].pending.append(((name, number),))
            case ("pwrite" | "truncate", number, *_):
                self.files[number].pending.append(operation)
            case ("names", folder, changes):
                self.folders[folder].pending.append(changes)
            case ("sync", number):
                file = self.files[number]
                file.certain = all_of(file)
                file.pending.clear()
            case ("sync_folder", number):
                folder = self.folders[number]
                folder.certain = names_of(folder, folder.pending)
                folder.pending.clear()
            case ("sync_file_system",):
                for number in self.files:
                    self.after(("sync", number))
                for number in self.folders:
                    self.after(("sync_folder", number))

    def at(self, log: Sequence[Operation], stop: int) -> Disk:
        """The disk after the first `stop` operations of a log."""
        disk = self.copy()
        for operation in log[:stop]:
            disk.after(operation)
        return disk


def all_of(file: Bytes) -> bytearray:
    found = bytearray(file.certain)
    for operation in file.pending:
        if operation[0] == "truncate":
            _resize(found, operation[2])
        else:
            _put(found, operation[2], operation[3])
    return found


def names_of(folder: Names, changes: Sequence[tuple[tuple[str, int | None], ...]]) -> dict[str, int]:
    names = dict(folder.certain)
    for change in changes:
        for name, number in change:
            if number is None:
                names.pop(name, None)
            else:
                names[name] = number
    return names


def crash(disk: Disk, dice: random.Random) -> tuple[dict[int, bytes], dict[int, dict[str, int]]]:
    """One state that a power loss now can leave: the bytes of files and the names of folders, by number."""
    return (
        {number: _arrived(file, dice) for number, file in disk.files.items()},
        {number: names_of(folder, _some(folder.pending, dice)) for number, folder in disk.folders.items()},
    )


def _some(changes: Sequence[Any], dice: random.Random) -> list[Any]:
    if not changes:
        return []
    how = dice.random()
    if how < 0.25:
        return list(changes)
    if how < 0.4:
        return []
    if how < 0.7:
        return list(changes[: dice.randint(0, len(changes))])
    return [change for change in changes if dice.random() < 0.5]


def _arrived(file: Bytes, dice: random.Random) -> bytes:
    if not file.pending:
        return bytes(file.certain)
    how = dice.random()
    if how < 0.2:
        return bytes(all_of(file))
    if how < 0.35:
        return bytes(file.certain)
    found = bytearray(file.certain)
    # In order up to a point, torn there; or every sector for itself.
    stop = dice.randint(0, len(file.pending)) if how < 0.6 else None
    share = dice.choice((0.1, 0.5, 0.9))
    sector = dice.choice(SECTORS)
    for i, operation in enumerate(file.pending):
        if stop is not None and i > stop:
            break
        whole = stop is not None and i < stop
        if operation[0] == "truncate":
            if whole or dice.random() < 0.5:
                _resize(found, operation[2])
            continue
        _, _, offset, piece = operation
        if whole:
            _put(found, offset, piece)
            continue
        if dice.random() < 0.3:
            _resize(found, max(len(found), offset + len(piece)))
        start = 0
        while start < len(piece):
            end = min(len(piece), start + sector - (offset + start) % sector)
            if dice.random() < share:
                _put(found, offset + start, piece[start:end])
            start = end
    return bytes(found)


def _put(found: bytearray, offset: int, piece: bytes) -> None:
    if len(found) < offset:
        found.extend(bytes(offset - len(found)))
    found[offset : offset + len(piece)] = piece


def _resize(found: bytearray, size: int) -> None:
    if size < len(found):
        del found[size:]
    else:
        found.extend(bytes(size - len(found)))


# -- making a state ---------------------------------------------------------------------------------------------------


def lay(
    state: tuple[dict[int, bytes], dict[int, dict[str, int]]], disk: Disk, inodes: dict[int, int], at: Path
) -> None:
    """Make the state in the folder `at`, which is emptied first."""
    shutil.rmtree(at, ignore_errors=True)
    files, folders = state
    journals: list[tuple[Path, bytes]] = []
    made: dict[int, tuple[int, int]] = {}

    def fill(number: int, path: Path) -> None:
        path.mkdir()
        for name, inside in folders[number].items():
            below = path / name
            if inside in folders:
                fill(inside, below)
            elif name.endswith(JOURNAL_SUFFIX):
                journals.append((below, files[inside]))
            else:
                below.write_bytes(files[inside])
                made[inodes[inside]] = _identity(below)

    fill(disk.root, at)
    for path, journal in journals:
        path.write_bytes(_translated(journal, made))


def _identity(path: Path) -> tuple[int, int]:
    with open(path, "rb") as file:
        return os.fstat(file.fileno()).st_ino, generation_of(file.fileno())


# A journal names the inode of its object, and the object made here has another one: the same journal about it.
_INODE, _GENERATION = slice(24, 32), slice(48, 56)


def _translated(journal: bytes, made: dict[int, tuple[int, int]]) -> bytes:
    if journal[: len(lanes.HEAD)] != lanes.HEAD:
        return _with_inode(journal, made)
    moved = bytearray(journal)
    for start in range(lanes.FIRST, len(journal), lanes.LANE):
        length = struct.unpack_from("<Q", journal, start + 8)[0] if len(journal) >= start + 16 else 0
        record = slice(start + 16, start + 16 + length)
        moved[record] = _with_inode(journal[record], made)
    return bytes(moved)


def _with_inode(record: bytes, made: dict[int, tuple[int, int]]) -> bytes:
    body = bytearray(record[:-4])
    if len(record) < 68 or zlib.crc32(body) != struct.unpack("<I", record[-4:])[0]:
        return record  # torn
    inode, generation = made.get(struct.unpack("<Q", body[_INODE])[0], (0, 0))
    body[_INODE], body[_GENERATION] = struct.pack("<Q", inode), struct.pack("<Q", generation)
    return bytes(body) + struct.pack("<I", zlib.crc32(body))
