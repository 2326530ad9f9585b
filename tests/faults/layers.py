"""File layers that stand in for the disk: they count, fail, die, or record every operation.

All of them set `direct` to False, so that every byte passes them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from terrazzo.stores.files import Files

__all__ = ["OPERATIONS", "Counting", "Failing", "Killing", "Short"]

OPERATIONS = (
    *("create", "pwrite", "truncate", "stamp", "sync", "sync_folder"),
    *("sync_file_system", "rename", "unlink", "mkdir", "rmdir"),
)


class Counting(Files):
    """Counts operations and written bytes; `before` is called ahead of each."""

    direct = False

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.nbytes = 0

    def before(self, operation: str, arguments: tuple[Any, ...]) -> None:
        """For those that stand on this class."""


def _counted(operation: str) -> Callable[..., Any]:
    plain = getattr(Files, operation)

    def perform(self: Counting, *arguments: Any) -> Any:
        self.calls.append(operation)
        self.before(operation, arguments)
        answer = plain(self, *arguments)
        if operation == "pwrite":
            self.nbytes += answer
        return answer

    return perform


for _operation in OPERATIONS:
    setattr(Counting, _operation, _counted(_operation))


class Failing(Counting):
    """The operation number `at` fails with `error`; with `lasting`, so do all after it. Half a write may happen."""

    def __init__(self, at: int, error: int, *, lasting: bool = False, half: bool = False) -> None:
        super().__init__()
        self.at, self.error, self.lasting, self.half = at, error, lasting, half

    def before(self, operation: str, arguments: tuple[Any, ...]) -> None:
        now = len(self.calls) - 1
        if now == self.at or (self.lasting and now > self.at):
            if operation == "pwrite" and self.half:
                file, buffer, offset = arguments
                os.pwrite(file, memoryview(buffer).cast("B")[: memoryview(buffer).nbytes // 2], offset)
            raise OSError(self.error, os.strerror(self.error))


class Killing(Counting):
    """The process dies, as by kill -9, ahead of the operation number `at`, or in the middle of its write."""

    def __init__(self, at: int, *, half: bool = False) -> None:
        super().__init__()
        self.at, self.half = at, half

    def before(self, operation: str, arguments: tuple[Any, ...]) -> None:
        if len(self.calls) - 1 == self.at:
            if operation == "pwrite" and self.half:
                file, buffer, offset = arguments
                os.pwrite(file, memoryview(buffer).cast("B")[: memoryview(buffer).nbytes // 2], offset)
            os.kill(os.getpid(), signal.SIGKILL)


class Short(Counting):
    """The disk takes at most `most` bytes of a write."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def pwrite(self, file: int, buffer: Any, offset: int) -> int:
        return Files.pwrite(self, file, memoryview(buffer).cast("B")[: self.most], offset)
