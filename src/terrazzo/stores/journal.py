"""Changes in place that survive a crash: a journal beside the object, written first and redone afterwards.

What it does not do: take the lock (the caller holds it), or choose what to change.

The journal of the object `name` is the file `name.__redo`. It is whole or it does not count: a checksum covers every
byte of it, and it reaches the disk before the object changes.

    header    magic, flags, how many appends and overwrites, checksum of the appended bytes, the object's inode, its
              size before and after, and the inode's generation (0: not known)
    table     (offset, length) of every append, then of every overwrite, 64-bit little endian
    bytes     of the overwrites, in the table's order
    checksum  CRC-32 of everything before it
"""

from __future__ import annotations

import os
import stat
import struct
import sys
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from terrazzo.errors import ConflictError, StoreError
from terrazzo.stores import lanes
from terrazzo.stores.contract import Buffer, Patch, Tag
from terrazzo.stores.files import Files, write_all

if sys.platform != "win32":
    import fcntl

__all__ = [
    "JOURNAL_SUFFIX",
    "WRITE",
    "apply_patch",
    "checked_pieces",
    "generation_of",
    "is_pending",
    "journal_of",
    "mend",
    "read_exactly",
    "tag_of",
]

JOURNAL_SUFFIX = ".__redo"

_MAGIC = b"tzredo1\n"
_HEADER = struct.Struct("<8sIIIIQQQQ")
_SPAN = struct.Struct("<QQ")
_CHECKSUM = struct.Struct("<I")
_GUARDED = 1
_GET_GENERATION = 0x80087601  # FS_IOC_GETVERSION
_MOST_BESIDE = 1 << 26  # bytes of header and table; the overwritten bytes are not more than the object
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
WRITE = os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC

Piece = tuple[int, Buffer]
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Journal:
    """What has to be redone or undone."""

    guarded: bool
    inode: int
    size_before: int
    size_after: int
    tail_checksum: int
    appends: tuple[Span, ...]
    overwrites: tuple[tuple[int, bytes], ...]
    generation: int = 0

    def encode(self) -> bytes:
        header = _HEADER.pack(
            _MAGIC,
            _GUARDED if self.guarded else 0,
            len(self.appends),
            len(self.overwrites),
            self.tail_checksum,
            self.inode,
            self.size_before,
            self.size_after,
            self.generation,
        )
        spans = [*self.appends, *((offset, len(piece)) for offset, piece in self.overwrites)]
        table = b"".join(_SPAN.pack(*span) for span in spans)
        body = b"".join([header, table, *(piece for _, piece in self.overwrites)])
        return body + _CHECKSUM.pack(zlib.crc32(body))

    @classmethod
    def decode(cls, journal: bytes) -> Journal | None:
        """None where it is not whole."""
        if len(journal) < _HEADER.size + _CHECKSUM.size or journal[: len(_MAGIC)] != _MAGIC:
            return None
        body = memoryview(journal)[: -_CHECKSUM.size]
        if _CHECKSUM.unpack(journal[-_CHECKSUM.size :])[0] != zlib.crc32(body):
            return None
        _, flags, n_appends, n_overwrites, tail, inode, before, after, generation = _HEADER.unpack_from(
            journal
        )
        position = _HEADER.size + _SPAN.size * (n_appends + n_overwrites)
        if position > len(body):
            return None
        spans = list(_SPAN.iter_unpack(body[_HEADER.size : position]))
        overwrites = []
        for offset, length in spans[n_appends:]:
            if offset + length > before or position + length > len(body):
                return None
            overwrites.append((offset, bytes(body[position : position + length])))
            position += length
        if position != len(body):
            return None
        return cls(
            bool(flags & _GUARDED),
            inode,
            before,
            after,
            tail,
            tuple(spans[:n_appends]),
            tuple(overwrites),
            generation,
        )


def tag_of(found: os.stat_result) -> Tag:
    """The version of a file: where it lies, its size, and when it was written last."""
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def read_exactly(file: int, offset: int, length: int) -> bytes:
    """Bytes of an open file; fewer only where it ends."""
    part = os.pread(file, length, offset)
    if len(part) == length or not part:
        return part
    parts = [part]  # the system gives at most 2 GiB at once
    have = len(part)
    while have < length:
        part = os.pread(file, length - have, offset + have)
        if not part:
            break
        parts.append(part)
        have += len(part)
    return b"".join(parts)


# -- changing ---------------------------------------------------------------------------------------------------------


def apply_patch(
    files: Files, folder: int, name: str, patch: Patch, expected: Tag | None, sync: bool, journal: bool
) -> Tag:
    """Change the object `name` in place, under its lock; the new tag.

    `sync`: it survives a power loss. `journal`: it survives the death of this process half way.
    An error before anything inside the object changed leaves the old object; one while it changes puts the old bytes
    back, and where that fails too leaves the journal for `mend`.
    """
    key = patch.hold.key
    try:
        file = os.open(name, WRITE, dir_fd=folder)
    except FileNotFoundError:
        raise StoreError(f"{key!r} is not stored; only an object that is there can be patched") from None
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise StoreError(f"{key!r} is not a regular file; it cannot be patched")
        if expected is not None and tag_of(found) != expected:
            raise ConflictError(
                f"{key!r} was changed by a writer without the lock; nothing was written, read it again"
            )
        size = found.st_size
        appends, overwrites = checked_pieces(key, patch, size)
        redo = journal_of(patch, file, appends, overwrites)
        guarded = redo.guarded and journal
        journalled = journal and (guarded or bool(overwrites))
        try:
            if guarded:
                _write_journal(files, folder, name, redo, sync)
            for offset, piece in appends:
                write_all(files, file, offset, piece)
            if sync and appends:
                files.sync(file)
            if journalled and not guarded:
                _write_journal(files, folder, name, redo, sync)
        except BaseException:
            _undo(files, folder, name, file, (), size if appends else None, sync and guarded)
            raise
        old = [(offset, read_exactly(file, offset, memoryview(piece).nbytes)) for offset, piece in overwrites]
        try:
            for offset, piece in overwrites:
                write_all(files, file, offset, piece)
            files.stamp(file)
        except BaseException:
            _undo(files, folder, name, file, old, size if appends else None, sync)
            raise
        if sync and overwrites:
            # Where this fails the journal stays: whoever holds the object next writes the bytes again.
            files.sync(file)
        if journalled:
            _drop_journal(files, folder, name)
        return tag_of(os.fstat(file))
    finally:
        os.close(file)


def _undo(
    files: Files,
    folder: int,
    name: str,
    file: int,
    old: Sequence[Piece],
    size: int | None,
    sync: bool,
) -> None:
    """Put the old bytes and the old size back. An error in here leaves the journal, for `mend`."""
    for offset, piece in old:
        write_all(files, file, offset, piece)
    if size is not None:
        files.truncate(file, size)
    if sync:  # what is undone has to reach the disk before the journal goes
        files.sync(file)
    _drop_journal(files, folder, name)


def checked_pieces(key: str, patch: Patch, size: int) -> tuple[list[Piece], list[Piece]]:
    appends = sorted(patch.appends, key=lambda piece: piece[0])
    overwrites = sorted(patch.overwrites, key=lambda piece: piece[0])
    end = size
    for offset, piece in appends:
        if offset < end:
            raise StoreError(
                f"{key!r}: an append at byte {offset} lies before byte {end}, where the object ends"
            )
        end = offset + memoryview(piece).nbytes
    end = 0
    for offset, piece in overwrites:
        if offset < end:
            raise StoreError(f"{key!r}: overwrites overlap, or start before the object, at byte {offset}")
        end = offset + memoryview(piece).nbytes
    if overwrites and end > size:
        raise StoreError(f"{key!r}: an overwrite ends at byte {end}; the object has {size}")
    return appends, overwrites


def journal_of(patch: Patch, file: int, appends: Sequence[Piece], overwrites: Sequence[Piece]) -> Journal:
    """What makes `patch` of the open object whole, whenever it is redone."""
    found = os.fstat(file)
    checksum, end, spans = 0, found.st_size, []
    for offset, piece in appends:
        view = memoryview(piece).cast("B")
        checksum = zlib.crc32(view, checksum)
        end = offset + len(view)
        spans.append((offset, len(view)))
    return Journal(
        guarded=patch.guard_length and bool(appends),
        inode=found.st_ino,
        size_before=found.st_size,
        size_after=end,
        tail_checksum=checksum,
        appends=tuple(spans),
        overwrites=tuple((offset, bytes(memoryview(piece).cast("B"))) for offset, piece in overwrites),
        generation=generation_of(file),
    )


def generation_of(file: int) -> int:
    """What tells files apart that have had one inode after the other; 0 where the file system does not say.

    A writer without our journals may replace the object twice, and the second time its inode is used again.
    """
    answer = bytearray(8)
    if not sys.platform.startswith("linux"):
        return 0
    try:
        fcntl.ioctl(file, _GET_GENERATION, answer)
    except OSError:
        return 0
    return int.from_bytes(answer[:4], sys.byteorder)


def _write_journal(files: Files, folder: int, name: str, journal: Journal, sync: bool) -> None:
    file = files.create(name + JOURNAL_SUFFIX, folder, os.O_WRONLY | os.O_EXCL)
    try:
        write_all(files, file, 0, journal.encode())
        if sync:
            files.sync(file)
    finally:
        os.close(file)
    if sync:
        files.sync_folder(folder)


def _drop_journal(files: Files, folder: int, name: str) -> None:
    """Remove the journal. Its folder needs no sync: a journal that comes back after a power loss is redone to the
    same end, and whoever changes the object next makes a new journal, or a new object, and syncs the folder."""
    with suppress(FileNotFoundError):
        files.unlink(name + JOURNAL_SUFFIX, folder)


# -- mending ----------------------------------------------------------------------------------------------------------


def is_pending(folder: int, name: str) -> bool:
    """Whether a journal lies beside the object."""
    try:
        os.stat(name + JOURNAL_SUFFIX, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def mend(files: Files, folder: int, name: str) -> bool:
    """Finish or undo, under the lock, what a dead writer began; True where there was a journal."""
    try:
        opened = os.open(name + JOURNAL_SUFFIX, _READ, dir_fd=folder)
    except FileNotFoundError:
        return False
    try:
        try:
            file = os.open(name, WRITE, dir_fd=folder)
        except FileNotFoundError:
            pass  # erased since: nothing is left to mend
        else:
            try:
                _redo(files, file, opened)
            finally:
                os.close(file)
    finally:
        os.close(opened)
    _drop_journal(files, folder, name)
    return True


def _redo(files: Files, file: int, opened: int) -> None:
    found, written = os.fstat(file), os.fstat(opened)
    if not stat.S_ISREG(written.st_mode):
        return
    if lanes.are_lanes(opened):
        redone = [_redo_one(files, file, Journal.decode(record)) for record in lanes.records(opened)]
        if any(redone):
            files.stamp(file)
            files.sync(file)
        return
    if written.st_size > found.st_size + _MOST_BESIDE:
        return  # no journal of ours is that large; it is not read into memory to find out
    if _redo_one(files, file, Journal.decode(read_exactly(opened, 0, written.st_size))):
        files.stamp(file)
        files.sync(file)


def _redo_one(files: Files, file: int, journal: Journal | None) -> bool:
    if journal is None:
        return False  # torn: the object had not been touched yet
    found = os.fstat(file)
    same = found.st_ino == journal.inode and journal.generation in (0, generation_of(file))
    if not same or found.st_size < journal.size_before:
        return False  # the object was replaced since: the journal speaks of one that is gone
    if journal.guarded and not _tail_is_whole(file, found.st_size, journal):
        files.truncate(file, journal.size_before)
    else:
        for offset, piece in journal.overwrites:
            write_all(files, file, offset, piece)
    return True


def _tail_is_whole(file: int, size: int, journal: Journal) -> bool:
    if size != journal.size_after:
        return False
    checksum = 0
    for offset, length in journal.appends:
        end = offset + length
        while offset < end:
            part = read_exactly(file, offset, min(end - offset, 1 << 24))
            if not part:
                return False
            checksum = zlib.crc32(part, checksum)
            offset += len(part)
    return checksum == journal.tail_checksum
