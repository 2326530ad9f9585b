"""A new object on its way to a service: in memory as long as it is small, else in a file without a name.

What it does not do: send it (conditions.py does).
"""

from __future__ import annotations

import mmap
import tempfile
from typing import IO, Any

from terrazzo.errors import StoreError
from terrazzo.stores.contract import Buffer
from terrazzo.stores.emulation import BufferSink

__all__ = ["RemoteSink"]


class RemoteSink(BufferSink):
    """`most`: bytes that wait in memory. Pieces are kept as they are given until they are more than that."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self._waiting = 0
        self._file: IO[bytes] | None = None
        self._end = 0

    @property
    def nbytes(self) -> int:
        return max(self._end, super().nbytes)

    @property
    def file(self) -> IO[bytes] | None:
        """Where a large object waits; at its start."""
        if self._file is not None:
            self._spill()
            self._file.flush()
            self._file.seek(0)
        return self._file

    def write(self, position: int, buffer: Buffer) -> None:
        super().write(position, buffer)
        self._waiting += memoryview(buffer).nbytes
        if self._waiting > self._most:
            self._spill()

    def body(self) -> Any:
        """The whole object, as a buffer; a large one is mapped, so that it need not fit into memory."""
        if self._pieces is None:
            raise StoreError("this new object was given up or stored already; ask the store for another sink")
        if self._file is None:
            return self.value()
        self._spill()
        self._file.flush()
        return mmap.mmap(self._file.fileno(), self._end, access=mmap.ACCESS_READ)

    def discard(self) -> None:
        super().discard()
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            self.discard()

    def _spill(self) -> None:
        """What waits in memory goes into the file."""
        assert self._pieces is not None
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="terrazzo-")  # noqa: SIM115 - it lives as long as the sink
        for position, buffer in self._pieces:
            view = memoryview(buffer).cast("B")
            self._file.seek(position)
            self._file.write(view)
            self._end = max(self._end, position + len(view))
        self._pieces.clear()
        self._waiting = 0
