"""What names a store: paths, addresses, archives, mappings, stores; and what does not, with a reason."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from terrazzo.errors import KeyRefusedError, ReadOnlyError, StoreError, UnsupportedError
from terrazzo.stores import open as opening
from terrazzo.stores.local import LocalStore
from terrazzo.stores.mapping import MappingStore
from terrazzo.stores.memory import MemoryStore
from terrazzo.stores.open import known_schemes, open_store, register_opener
from terrazzo.stores.wrappers import ReadOnlyStore
from terrazzo.stores.zip import ZipStore


def test_paths(tmp_path: Path) -> None:
    for what in (
        tmp_path / "a.zarr",
        str(tmp_path / "a.zarr"),
        f"file://{tmp_path}/a.zarr",
        f"file://localhost{tmp_path}/a.zarr",
    ):
        store, path = open_store(what)
        assert store == LocalStore(tmp_path / "a.zarr")
        assert path == ""
    assert not (tmp_path / "a.zarr").exists()


def test_an_address_is_decoded_and_a_path_is_not(tmp_path: Path) -> None:
    assert open_store(f"file://{tmp_path}/a%20b")[0] == LocalStore(tmp_path / "a b")
    assert open_store(f"{tmp_path}/a%20b")[0] == LocalStore(tmp_path / "a%20b")


def test_a_relative_path_stays_where_it_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store, _ = open_store("here")
    monkeypatch.chdir("/")
    store.set("a", b"x")
    assert (tmp_path / "here" / "a").exists()


def test_options_reach_the_store(tmp_path: Path) -> None:
    store, _ = open_store(tmp_path, durability="rename", follow_symlinks=True)
    assert isinstance(store, LocalStore)
    assert (store.durability, store.follow_symlinks) == ("rename", True)
    for what in (tmp_path, tmp_path / "a.zip", "memory://x", {}, MemoryStore()):
        with pytest.raises(StoreError, match="colour"):
            open_store(what, colour="red")


def test_memory_is_shared_by_name() -> None:
    one, path = open_store("memory://shared-by-name/a/b/")
    assert path == "a/b"
    one.set("x", b"1")
    assert open_store("memory://shared-by-name")[0].get("x") == b"1"
    assert open_store("memory://another-name")[0].get("x") is None
    assert MemoryStore() != MemoryStore()
    assert open_store(None)[0] != open_store(None)[0]
    with pytest.raises(KeyRefusedError):
        open_store("memory://name/a/../b")


def test_archives(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with pytest.raises(StoreError, match="does not exist"):
        open_store(path, mode="r+")
    store, inner = open_store(path, mode="w-")
    assert isinstance(store, ZipStore)
    store.set("g/zarr.json", b"{}")
    store.close()
    with pytest.raises(StoreError, match="exists"):
        open_store(path, mode="w-")
    for what in (path, str(path), f"file://{path}"):
        store, inner = open_store(what, mode="r")
        assert (type(store), inner) == (ZipStore, "")
        assert store.get("g/zarr.json") == b"{}"
    store, inner = open_store(f"{path}/g", mode="r")
    assert (type(store), inner) == (ZipStore, "g")
    (tmp_path / "folder.zip").mkdir()
    assert isinstance(open_store(tmp_path / "folder.zip")[0], LocalStore)


def test_mappings_and_stores() -> None:
    mapping: dict[str, bytes] = {}
    store, path = open_store(mapping)
    assert (store, path) == (MappingStore(mapping), "")
    memory = MemoryStore()
    assert open_store(memory) == (memory, "")


def test_mode_r_refuses_writing(tmp_path: Path) -> None:
    for what in (tmp_path, "memory://read", {}, MemoryStore()):
        store, _ = open_store(what, mode="r")
        assert isinstance(store, ReadOnlyStore)
        with pytest.raises(ReadOnlyError):
            store.set("a", b"")
    assert list(tmp_path.iterdir()) == []
    assert isinstance(MemoryStore().with_read_only(False), MemoryStore)
    with pytest.raises(UnsupportedError):
        ReadOnlyStore(MemoryStore()).with_read_only(False)


@pytest.mark.parametrize("what", ["hdfs://host/a", "ftp://example.org/a", "unknown://x"])
def test_unknown_schemes_say_what_is_known(what: str) -> None:
    with pytest.raises(UnsupportedError, match=r"file://.*memory://.*mapping") as found:
        open_store(what)
    assert what.split("://")[0] in str(found.value)


@pytest.mark.parametrize("what", ["", 5, b"bytes", ["a"], "file://otherhost/x", "file:///a\0b"])
def test_what_names_no_store(what: Any) -> None:
    with pytest.raises(StoreError):
        open_store(what)
    with pytest.raises(StoreError, match="mode"):
        open_store({}, mode="rw")  # type: ignore[arg-type]


def test_upper_rooms_add_schemes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_OPENERS", dict(opening._OPENERS))
    seen = []

    def opener(rest: str, mode: Any, options: Any) -> Any:
        seen.append((rest, mode, dict(options)))
        return MemoryStore(), "inner"

    register_opener("shelf", opener)
    assert "shelf" in known_schemes()
    assert open_store("SHELF://a/b", mode="a", x=1)[1] == "inner"
    assert seen == [("a/b", "a", {"x": 1})]
    with pytest.raises(StoreError, match="already"):
        register_opener("shelf", opener)
    register_opener("shelf", opener, replace=True)
    for bad in ("c", "S3", "a b", ""):
        with pytest.raises(StoreError, match="scheme"):
            register_opener(bad, opener)


def test_a_home_is_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert open_store("~/a")[0] == LocalStore(os.path.join(tmp_path, "a"))
