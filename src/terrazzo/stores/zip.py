"""A ZIP archive as a store: members are objects, stored without a second compression.

What it does not do: unpack anything to a disk; erase (an archive only grows; replacing a member leaves the old bytes
as a gap); let two processes write one archive.
Specification: the ZIP format of PKWARE's APPNOTE, by the standard library; keys are member names.

Nobody sees a new or a changed archive before `close`: it is written beside its place and renamed. Archives are not
trusted: names that could leave the store, members that overlap or appear twice, sizes that cannot be, and more
members than `max_members` are refused when it is opened.
"""

from __future__ import annotations

import builtins
import os
import secrets
import shutil
import struct
import threading
import warnings
import zipfile
import zlib
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import IO, Any, Literal

from terrazzo.errors import ConflictError, LimitError, ReadOnlyError, StoreError, UnsupportedError
from terrazzo.stores.contract import Buffer, Open, Range, Source, Tag
from terrazzo.stores.emulation import clip, exact, window
from terrazzo.stores.keys import check_key, check_prefix, check_range
from terrazzo.stores.store import Store

__all__ = ["ZipStore"]

Mode = Literal["r", "w", "a", "x"]

_LOCAL_HEADER = struct.Struct("<4s5H3L2H")
_END = struct.Struct("<4s4H2LH")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_64 = struct.Struct("<4sLQL")
_DEFLATE_RATIO = 1032  # no deflated byte stands for more
#: of two threads that use an archive out of a pickle one opens it
_opening = threading.Lock()


class ZipStore(Store):
    """The members of the archive at `path`.

    mode: "r" reads; "w" makes a new archive, "x" only where there is none; "a" adds to one, or makes it. Used as a
    context manager, an archive whose block ended with an exception is left as it was.
    max_members, max_member_nbytes: more is refused (LimitError).
    allow_duplicates: of members with one name the last counts; else such an archive is refused.
    """

    erasable = False
    durable = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: Mode = "r",
        *,
        max_members: int = 1 << 22,
        max_member_nbytes: int = 1 << 40,
        allow_duplicates: bool = False,
    ) -> None:
        if mode not in ("r", "w", "a", "x"):
            raise StoreError(f"mode {mode!r} is unknown; an archive is opened with 'r', 'w', 'a' or 'x'")
        self.path = self._named(path)
        self.mode: Mode = mode
        self.max_members = max_members
        self.max_member_nbytes = max_member_nbytes
        self.allow_duplicates = allow_duplicates
        self.writable = mode != "r"
        self._guard = threading.RLock()
        self._partial: str | None = None
        self._members: dict[str, zipfile.ZipInfo] = {}
        self._ends: dict[int, int] = {}
        self._places: dict[int, int] = {}
        try:
            self._file = self._open_archive()
            try:
                self._archive = self._read_directory()
            except BaseException:
                self._file.close()
                self._remove_partial()
                raise
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            told = StoreError(f"{self.path!r} could not be opened: {error.strerror or error}")
            told.errno = error.errno
            raise told from error

    @classmethod
    def unopened(cls, path: str, how: dict[str, Any]) -> ZipStore:
        """One out of a pickle, which is opened when it is used first: whoever only passes it on needs no archive, and
        an error while a pickle is read would leave pools of processes waiting for ever. how: arguments to open it."""
        store = cls.__new__(cls)
        store.__dict__.update(how, path=path, mode="r", writable=False, _unopened=how)
        return store

    def __getattr__(self, name: str) -> Any:
        how = self.__dict__.get("_unopened")
        if how is None or name.startswith("__") or not name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        with _opening:
            if "_unopened" in self.__dict__:
                opened = type(self)(**how)
                self.__dict__.update(opened.__dict__)
                del self.__dict__["_unopened"]
                opened.__dict__.clear()  # it ends here, and the file stays open
        return getattr(self, name)

    def __repr__(self) -> str:
        return f"ZipStore({self.path!r}, {self.mode!r})"

    def __str__(self) -> str:
        return self.path

    def __reduce__(self) -> tuple[Any, ...]:
        if self.writable:
            raise TypeError(
                "a ZipStore that is being written cannot be pickled: only one process writes an archive"
            )
        return _again, (self.path, self.max_members, self.max_member_nbytes, self.allow_duplicates)

    @property
    def identity(self) -> Hashable:
        return ("zip", self.path) if self.mode == "r" else id(self)

    # -- the specification's verbs ------------------------------------------------------------------------------------

    def get(self, key: str) -> bytes | None:
        member = self._members.get(key)
        return None if member is None else self._whole(member)

    def get_partial_values(self, requests: Iterable[tuple[str, Range]]) -> builtins.list[bytes | None]:
        answers: list[bytes | None] = []
        for key, asked in requests:
            member = self._members.get(key)
            answers.append(None if member is None else self._part(member, asked))
        return answers

    def exists(self, key: str) -> bool:
        return key in self._members

    def getsize(self, key: str) -> int | None:
        member = self._members.get(key)
        return None if member is None else member.file_size

    def tag(self, key: str) -> Tag | None:
        member = self._members.get(key)
        return None if member is None else self._tag(member)

    def set(self, key: str, value: Buffer) -> None:
        content = memoryview(value).cast("B")
        member = zipfile.ZipInfo(key, date_time=(1980, 1, 1, 0, 0, 0))  # equal contents make equal archives
        member.external_attr = 0o644 << 16
        with self._guard:
            archive = self._writable_archive(key)
            before = self._members.get(key)
            if before is not None:
                archive.filelist.remove(before)
                del archive.NameToInfo[key]
            try:
                archive.writestr(member, content)
                self._file.flush()
            except OSError as error:
                raise StoreError(
                    f"{key!r} could not be written to {self.path!r}: {error.strerror}"
                ) from error
            self._members[key] = member

    def erase(self, key: str) -> None:
        if key in self._members:
            raise UnsupportedError(
                f"{key!r} cannot be erased: an archive only grows; copy what should stay into a new one"
            )

    def list(self) -> Iterator[str]:
        return iter(list(self._members))

    # -- what flows ask for -------------------------------------------------------------------------------------------

    def open(self, requests: Sequence[Open]) -> builtins.list[Source | None]:
        sources: list[Source | None] = []
        for request in requests:
            member = self._members.get(check_key(request.key))
            if member is None:
                sources.append(None)
                continue
            source = Source(request.key, member.file_size, self._tag(member))
            if member.compress_type != zipfile.ZIP_STORED:
                source.handle = self._whole(member)
            if request.first is not None and source.tag != request.known:
                check_range(request.key, request.first)
                source.first = self._part(member, request.first, source.handle)
            sources.append(source)
        return sources

    def fetch(
        self, requests: Sequence[tuple[Source, Sequence[tuple[int, int]]]]
    ) -> builtins.list[builtins.list[Buffer]]:
        answers: list[list[Buffer]] = []
        for source, ranges in requests:
            member = self._members.get(source.key)
            if member is None or self._tag(member) != source.tag:
                raise _changed(source.key)
            parts: list[Buffer] = []
            for start, length in ranges:
                if start < 0 or length < 0:
                    raise StoreError(
                        f"{source.key!r}: range ({start}, {length}) is refused: neither may be negative"
                    )
                if start + length > member.file_size:
                    exact(b"", source.key, start, length)
                part = self._part(member, (start, length), source.handle)
                parts.append(exact(part, source.key, start, length))
            answers.append(parts)
        return answers

    def close(self) -> None:
        """Write the directory and put the archive in its place; harmless when repeated."""
        if "_unopened" in self.__dict__:
            return
        with self._guard:
            if self._file.closed:
                return
            try:
                if self._archive is not None:
                    self._archive.close()
                    self._file.flush()
                    os.fsync(self._file.fileno())
                    self._publish()
            except OSError as error:
                raise StoreError(f"{self.path!r} could not be written: {error.strerror or error}") from error
            finally:
                self._file.close()
                self._remove_partial()

    def discard(self) -> None:
        """Close without writing: the archive at `path` stays as it was."""
        if "_unopened" in self.__dict__:
            return
        with self._guard:
            if self._file.closed:
                return
            try:
                if self._archive is not None:
                    self._archive.close()  # into the partial file, which goes
            except OSError:
                pass
            finally:
                self._file.close()
                self._remove_partial()

    def __del__(self) -> None:
        if "_archive" in vars(self) and not self._file.closed:
            if self.writable:
                warnings.warn(
                    f"{self!r} was never closed; what was written is lost", ResourceWarning, source=self
                )
            self.discard()

    def __exit__(self, *raised: object) -> None:
        if raised and raised[0] is not None:
            self.discard()
        else:
            self.close()

    # -- below --------------------------------------------------------------------------------------------------------

    def _open_archive(self) -> IO[bytes]:
        exists = os.path.exists(self.path)
        if exists and not os.path.isfile(self.path):  # opening a pipe would wait for its other end
            raise StoreError(f"{self.path!r} is not a regular file")
        if self.mode == "r":
            return open(self.path, "rb")
        if self.mode == "x" and exists:
            raise StoreError(f"{self.path!r} exists already; mode 'w' replaces it, 'a' adds to it")
        folder, name = os.path.split(self.path)
        os.makedirs(folder, exist_ok=True)
        partial = os.path.join(folder, f".{name}.{secrets.token_hex(4)}.partial")
        file = open(partial, "x+b")  # noqa: SIM115 - it stays open as long as the store
        self._partial = partial
        try:
            if self.mode == "a" and exists:
                with open(self.path, "rb") as old:
                    shutil.copyfileobj(old, file, 1 << 22)
                file.flush()
        except BaseException:
            file.close()
            self._remove_partial()
            raise
        return file

    def _named(self, path: str | os.PathLike[str]) -> str:
        return os.path.realpath(os.fspath(path))

    def _archive_nbytes(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def _read_directory(self) -> zipfile.ZipFile | None:
        size = self._archive_nbytes()
        if self.mode != "r" and size == 0:
            return zipfile.ZipFile(self._file, "w", zipfile.ZIP_STORED, allowZip64=True)
        count, directory_nbytes = self._announced(size)
        if count > self.max_members or directory_nbytes > self.max_members * 1024:
            raise LimitError(f"{self.path!r} announces {count} members; at most {self.max_members} are read")
        try:
            archive = zipfile.ZipFile(self._file, "r" if self.mode == "r" else "a", zipfile.ZIP_STORED)
        except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error) as error:
            raise StoreError(f"{self.path!r} is not a ZIP archive that can be read: {error}") from error
        self._admit(archive, size)
        return None if self.mode == "r" else archive

    def _announced(self, size: int) -> tuple[int, int]:
        """(members, bytes of the directory) as the end of the archive says, before anything is allocated for them."""
        tail_nbytes = min(size, _END.size + 0xFFFF)
        tail = self._read_at(size - tail_nbytes, tail_nbytes)
        at = tail.rfind(b"PK\x05\x06")
        if at < 0 or at + _END.size > len(tail):
            raise StoreError(f"{self.path!r} is not a ZIP archive, or was cut off: it has no end record")
        record = _END.unpack_from(tail, at)
        count, nbytes = record[4], record[5]
        if at >= _LOCATOR_64.size and tail[at - _LOCATOR_64.size :].startswith(b"PK\x06\x07"):
            offset = _LOCATOR_64.unpack_from(tail, at - _LOCATOR_64.size)[2]
            if offset + _END_64.size > size:
                raise StoreError(f"{self.path!r} is damaged: its end record lies outside of it")
            record = _END_64.unpack(self._read_at(offset, _END_64.size))
            count, nbytes = record[7], record[8]
        if nbytes > size or count > nbytes // 46:
            raise StoreError(
                f"{self.path!r} is damaged: it announces {count} members in {nbytes} bytes of {size}"
            )
        return count, nbytes

    def _admit(self, archive: zipfile.ZipFile, size: int) -> None:
        """Check every member, and where it may end at most."""
        if len(archive.filelist) > self.max_members:
            raise LimitError(f"{self.path!r} has more than {self.max_members} members")
        limit = min(getattr(archive, "start_dir", size), size)
        for member in sorted(archive.filelist, key=lambda member: member.header_offset, reverse=True):
            name = member.orig_filename
            nbytes = _LOCAL_HEADER.size + len(name) + member.compress_size
            if member.header_offset < 0 or member.header_offset + nbytes > limit:
                raise StoreError(
                    f"{self.path!r} is refused: member {name!r} overlaps another, or the directory"
                )
            self._ends[member.header_offset] = limit
            limit = member.header_offset
        for member in archive.filelist:
            name = member.orig_filename
            if name.endswith("/"):
                check_prefix(name)
                continue
            check_key(name)
            if name in self._members and not self.allow_duplicates:
                raise StoreError(
                    f"{self.path!r} is refused: {name!r} is in it twice; open it with allow_duplicates=True to take "
                    "the last one"
                )
            self._check_sizes(name, member)
            self._members[name] = member

    def _check_sizes(self, name: str, member: zipfile.ZipInfo) -> None:
        if member.file_size > self.max_member_nbytes:
            raise LimitError(
                f"{name!r} announces {member.file_size} bytes; at most {self.max_member_nbytes} are read"
            )
        stored = member.compress_type == zipfile.ZIP_STORED
        deflated = member.compress_type == zipfile.ZIP_DEFLATED
        most = member.compress_size if stored else member.compress_size * _DEFLATE_RATIO
        if (stored and member.file_size != most) or (deflated and member.file_size > most):
            raise StoreError(
                f"{self.path!r} is refused: {name!r} announces {member.file_size} bytes out of {member.compress_size}"
            )

    def _writable_archive(self, key: str) -> zipfile.ZipFile:
        if self._archive is None:
            raise ReadOnlyError(f"{key!r}: {self.path!r} was opened for reading; open it with mode 'a'")
        if self._file.closed:
            raise StoreError(f"{key!r}: {self.path!r} was closed")
        return self._archive

    def _tag(self, member: zipfile.ZipInfo) -> Tag:
        return (self.path, member.header_offset, member.file_size, member.CRC)

    def _whole(self, member: zipfile.ZipInfo) -> bytes:
        name = member.orig_filename
        content = self._read_at(self._place(member), member.compress_size)
        if member.compress_type == zipfile.ZIP_DEFLATED:
            inflate = zlib.decompressobj(-15)
            try:
                content = inflate.decompress(content, member.file_size + 1)
            except zlib.error as error:
                raise StoreError(f"{name!r} is damaged: {error}") from error
        elif member.compress_type != zipfile.ZIP_STORED:
            raise UnsupportedError(
                f"{name!r} is compressed by method {member.compress_type}; stored and deflated members are read"
            )
        if len(content) != member.file_size:
            raise StoreError(
                f"{name!r} is damaged: it announces {member.file_size} bytes and has {len(content)}"
            )
        if zlib.crc32(content) != member.CRC:
            raise StoreError(f"{name!r} is damaged: its checksum is not that of its bytes")
        return content

    def _part(self, member: zipfile.ZipInfo, asked: Range, whole: Any = None) -> bytes:
        if whole is None and (member.compress_type != zipfile.ZIP_STORED or asked == (0, None)):
            whole = self._whole(member)
        if whole is not None:
            return bytes(clip(whole, *asked))
        start, end = window(*asked, member.file_size)
        return self._read_at(self._place(member) + start, end - start)

    def _place(self, member: zipfile.ZipInfo) -> int:
        """Where the bytes of a member start, once its own header agrees with the directory."""
        at = member.header_offset
        place = self._places.get(at)
        if place is None:
            header = self._read_at(at, _LOCAL_HEADER.size)
            if len(header) < _LOCAL_HEADER.size or header[:4] != b"PK\x03\x04":
                raise StoreError(
                    f"{member.orig_filename!r} is damaged: its header is not where the directory says"
                )
            fields = _LOCAL_HEADER.unpack(header)
            if fields[2] & 1:
                raise UnsupportedError(f"{member.orig_filename!r} is encrypted")
            name = self._read_at(at + _LOCAL_HEADER.size, fields[9])
            if name != member.orig_filename.encode("utf-8" if fields[2] & 0x800 else "cp437", "replace"):
                raise StoreError(f"{member.orig_filename!r} is damaged: its header bears another name")
            place = at + _LOCAL_HEADER.size + fields[9] + fields[10]
            if place + member.compress_size > self._ends.get(at, place + member.compress_size):
                raise StoreError(
                    f"{self.path!r} is refused: member {member.orig_filename!r} overlaps another"
                )
            self._places[at] = place
        return place

    def _read_at(self, offset: int, nbytes: int) -> bytes:
        with self._guard:
            if self._file.closed:
                raise StoreError(f"{self.path!r} was closed")
            before = self._file.tell()
            self._file.seek(offset)
            part = self._file.read(nbytes)
            self._file.seek(before)
            return part

    def _publish(self) -> None:
        partial = self._partial
        assert partial is not None
        if self.mode == "x":
            os.link(partial, self.path)  # fails where somebody else was faster
        else:
            os.replace(partial, self.path)
            self._partial = None
        folder = os.open(os.path.dirname(self.path), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _remove_partial(self) -> None:
        partial, self._partial = self._partial, None
        if partial is not None:
            try:
                os.unlink(partial)
            except FileNotFoundError:
                pass


def _changed(key: str) -> ConflictError:
    return ConflictError(f"{key!r} is another version now than the one that was opened; open it again")


def _again(path: str, max_members: int, max_member_nbytes: int, allow_duplicates: bool) -> ZipStore:
    limits = {
        "max_members": max_members,
        "max_member_nbytes": max_member_nbytes,
        "allow_duplicates": allow_duplicates,
    }
    return ZipStore.unopened(path, {"path": path, **limits})
