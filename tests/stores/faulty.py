"""File layers that fail: the n-th call once, or the n-th and all after it as if the process had died there."""

from __future__ import annotations

import errno
import os
from typing import Any

from terrazzo.stores.files import Files

__all__ = ["Died", "DyingFiles", "FailingFiles", "ShortFiles"]

CALLS = (
    "create",
    "pwrite",
    "truncate",
    "stamp",
    "sync",
    "sync_folder",
    "sync_file_system",
    "rename",
    "unlink",
    "mkdir",
    "rmdir",
)


class Died(BaseException):
    """The process is dead; nothing after this reaches the disk."""


class _Counted(Files):
    direct = False

    def __init__(self, fail_at: int) -> None:
        self.fail_at = fail_at
        self.calls: list[str] = []

    @property
    def failed(self) -> bool:
        return len(self.calls) > self.fail_at

    def fail(self, call: str, arguments: tuple[Any, ...]) -> None:
        raise NotImplementedError

    def now(self) -> bool:
        return len(self.calls) - 1 == self.fail_at


def _counting(call: str) -> Any:
    def counted(self: _Counted, *arguments: Any) -> Any:
        self.calls.append(call)
        if self.now():
            self.fail(call, arguments)
        return getattr(Files, call)(self, *arguments)

    return counted


for _call in CALLS:
    setattr(_Counted, _call, _counting(_call))


class FailingFiles(_Counted):
    """One call fails with an error of the disk; a write takes half of its bytes before it fails."""

    def __init__(self, fail_at: int, number: int = errno.ENOSPC) -> None:
        super().__init__(fail_at)
        self.number = number

    def fail(self, call: str, arguments: tuple[Any, ...]) -> None:
        if call == "pwrite":
            file, buffer, offset = arguments
            os.pwrite(file, buffer[: len(buffer) // 2], offset)
        raise OSError(self.number, os.strerror(self.number))


class DyingFiles(_Counted):
    """From one call on nothing happens any more; a write is torn in the middle."""

    def now(self) -> bool:
        return self.failed

    def fail(self, call: str, arguments: tuple[Any, ...]) -> None:
        if call == "pwrite" and len(self.calls) - 1 == self.fail_at:
            file, buffer, offset = arguments
            os.pwrite(file, buffer[: len(buffer) // 2], offset)
        raise Died(call)


class ShortFiles(Files):
    """Writes take at most three bytes at a time."""

    direct = False

    def pwrite(self, file: int, buffer: Any, offset: int) -> int:
        return super().pwrite(file, buffer[:3], offset)
