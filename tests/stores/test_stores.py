"""The suite, on every store of the library and on two that a user could write in twenty lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from terrazzo.stores.folders import _open_by_segment
from terrazzo.stores.local import LocalStore
from terrazzo.stores.mapping import MappingStore
from terrazzo.stores.memory import MemoryStore
from terrazzo.stores.store import Store
from terrazzo.stores.watching import CountingStore, LoggingStore
from terrazzo.stores.wrappers import PrefixStore, WrapperStore
from terrazzo.stores.zip import ZipStore
from tests.stores.suite import StoreSuite


class WholeValues(Store):
    """A user's store that knows whole values only."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def set(self, key: str, value: Any) -> None:
        self.values[key] = bytes(value)

    def erase(self, key: str) -> None:
        self.values.pop(key, None)

    def list(self) -> Iterator[str]:
        return iter(sorted(self.values))


class PartialValues(Store):
    """A user's store that knows ranges only, and folders only."""

    def __init__(self) -> None:
        self.values: dict[str, bytearray] = {}

    def get_partial_values(self, requests: Any) -> list[bytes | None]:
        answers: list[bytes | None] = []
        for key, (start, length) in requests:
            value = self.values.get(key)
            end = None if length is None else start + length
            answers.append(None if value is None else bytes(value[start:end]))
        return answers

    def set_partial_values(self, writes: Any) -> None:
        for key, start, piece in writes:
            value = self.values.setdefault(key, bytearray())
            value.extend(bytes(max(0, start - len(value))))
            value[start : start + memoryview(piece).nbytes] = memoryview(piece).cast("B")

    def erase_values(self, keys: Any) -> None:
        for key in keys:
            self.values.pop(key, None)

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        below = [key for key in self.values if key.startswith(prefix)]
        names = {key[len(prefix) :].split("/")[0] + "/" for key in below if "/" in key[len(prefix) :]}
        return sorted(k for k in below if "/" not in k[len(prefix) :]), sorted(
            prefix + name for name in names
        )


class SizedValues(PartialValues):
    """One that knows sizes too: shards are read in part, and told apart by their indexes."""

    def getsize(self, key: str) -> int | None:
        value = self.values.get(key)
        return None if value is None else len(value)


class TestMemory(StoreSuite):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()


class TestMapping(StoreSuite):
    @pytest.fixture
    def store(self) -> MappingStore:
        return MappingStore({})


class TestLocal(StoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[LocalStore]:
        with LocalStore(tmp_path / "made" / "when needed") as store:
            yield store
        left = [path for path in tmp_path.rglob("*") if path.name.endswith((".__lock", ".__redo"))]
        assert left == []


class TestLocalFollowing(StoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> LocalStore:
        return LocalStore(tmp_path, follow_symlinks=True, durability="none")


class TestLocalSegmentBySegment(StoreSuite):
    """As on systems that cannot refuse symbolic links in one step."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> LocalStore:
        store = LocalStore(tmp_path, durability="rename")
        store.folders.open = store._open = _open_by_segment
        return store


class TestZip(StoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[ZipStore]:
        with ZipStore(tmp_path / "a.zip", "w") as store:
            yield store
        assert list(tmp_path.iterdir()) == [tmp_path / "a.zip"]


class TestWholeValues(StoreSuite):
    @pytest.fixture
    def store(self) -> WholeValues:
        return WholeValues()


class TestPartialValues(StoreSuite):
    @pytest.fixture
    def store(self) -> PartialValues:
        return PartialValues()


class TestWrapper(StoreSuite):
    @pytest.fixture
    def store(self) -> WrapperStore:
        return WrapperStore(MemoryStore())


class TestCounting(StoreSuite):
    @pytest.fixture
    def store(self) -> CountingStore:
        return CountingStore(PartialValues())


class TestLogging(StoreSuite):
    @pytest.fixture
    def store(self, caplog: pytest.LogCaptureFixture) -> LoggingStore:
        caplog.set_level("DEBUG", logger="terrazzo")
        return LoggingStore(MemoryStore())


class TestPrefix(StoreSuite):
    below = "below/here/"

    @pytest.fixture
    def store(self, tmp_path: Path) -> PrefixStore:
        store = LocalStore(tmp_path, durability="none")
        store.set("beside", b"")
        return PrefixStore(store, "below/here/")
