"""One version of one object, opened for one response, and read piece by piece.

What it does not do: speak HTTP. Every function here waits, and is called in a thread.

A response is made of one version: the source stays open from the first byte to the last, and a file that is changed
in place meanwhile is noticed, before the response begins or by breaking it off.
"""

from __future__ import annotations

import errno
import os
import time

from terrazzo.errors import ConflictError, KeyRefusedError, StoreError
from terrazzo.stores.contract import Open, Source, Tag
from terrazzo.stores.journal import tag_of
from terrazzo.stores.keys import check_key
from terrazzo.stores.local import OWN_SUFFIXES, FileSource
from terrazzo.stores.store import Store

__all__ = ["FORBIDDEN", "PIECE", "Version", "key_of", "open_version"]

#: bytes read and sent at a time
PIECE = 1 << 20
#: names with a leading dot that format 2 gives to documents
_DOTTED = frozenset({".zarray", ".zgroup", ".zattrs", ".zmetadata"})
#: what a store refuses to give, whoever asks: no right to read it, or a link that leads out
FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.ELOOP, errno.EXDEV})
_PAUSES = (0.001, 0.002, 0.004, 0.008, 0.016)  # seconds that a change in place is waited for


class Version:
    """An open source, its size known."""

    def __init__(self, store: Store, source: Source, size: int) -> None:
        self.store = store
        self.source = source
        self.size = size
        handle = source.handle
        # what an open file looks like as long as nobody changes it in place
        self._mark: Tag = None
        if isinstance(handle, int):
            self._mark = source.tag if isinstance(source, FileSource) else tag_of(os.fstat(handle))

    def read(self, start: int, length: int) -> bytes | memoryview:
        """These bytes of this version; ConflictError once they cannot be had any more."""
        if not length:
            return b""
        part = self.store.fetch([(self.source, [(start, length)])])[0][0]
        if not self._stands():
            raise ConflictError(f"{self.source.key!r} was changed in place while it was sent")
        return part if isinstance(part, bytes) else memoryview(part).cast("B")

    def _stands(self) -> bool:
        """Whether an open file still is the version that was opened; buffers and fetched ranges always are."""
        handle = self.source.handle
        return not isinstance(handle, int) or tag_of(os.fstat(handle)) == self._mark

    def close(self) -> None:
        self.source.close()


def key_of(path: str, hidden: bool) -> str | None:
    """The key that a path of a URL names; None for what is never served.

    Names with a leading dot are served only where `hidden` says so, save the documents of format 2; lock files and
    journals never are.
    """
    try:
        key = check_key(path)
    except KeyRefusedError:
        return None
    *above, name = key.split("/")
    if any(segment.endswith(OWN_SUFFIXES) for segment in (*above, name)):
        return None
    dotted = [segment for segment in above if segment.startswith(".")]
    if not hidden and (dotted or (name.startswith(".") and name not in _DOTTED)):
        return None
    return key


def open_version(store: Store, key: str) -> Version | None:
    """The present version, or None where nothing is stored; a change in place is waited for a little."""
    for pause in (*_PAUSES, None):
        version = _open(store, key)
        if version is None or not isinstance(version.source.handle, int):
            return version
        if pause is None or not store.unsettled(key):
            return version
        version.close()
        time.sleep(pause)
    raise AssertionError("the last look answers")


def _open(store: Store, key: str) -> Version | None:
    try:
        source = store.open([Open(key)])[0]
    except KeyRefusedError:
        return None
    except ConflictError:
        raise
    except StoreError as error:
        # a name that no file can have, or a folder where an object was asked for
        if error.errno == errno.ENAMETOOLONG or (error.errno not in FORBIDDEN and not store.exists(key)):
            return None
        raise
    if source is None:
        return None
    size = source.size
    if size is None:  # a server that tells no size with its first answer
        size = store.getsize(key)
        if size is None or store.tag(key) != source.tag:
            source.close()
            raise ConflictError(f"{key!r} changed while it was opened")
    return Version(store, source, size)
