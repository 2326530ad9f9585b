"""Archives: seen whole or not at all, readable by others, and hostile ones refused."""

from __future__ import annotations

import errno
import os
import pickle
import struct
import warnings
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.errors import KeyRefusedError, LimitError, ReadOnlyError, StoreError, UnsupportedError
from terrazzo.stores.contract import ALL, Open
from terrazzo.stores.zip import ZipStore


def archive(path: Path, members: list[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as made, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about duplicates, which are wanted here
        for name, content in members:
            made.writestr(name, content)
    return path


def test_nobody_sees_it_before_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    store = ZipStore(path, "w")
    store.set("a/b", b"value")
    assert not path.exists()
    store.close()
    with zipfile.ZipFile(path) as made:
        assert made.testzip() is None
        assert made.namelist() == ["a/b"]
        assert made.getinfo("a/b").compress_type == zipfile.ZIP_STORED
    with pytest.raises(StoreError, match="closed"):
        store.set("c", b"")
    with pytest.raises(StoreError, match="closed"):
        store.get("a/b")


def test_an_error_in_the_block_leaves_the_old_one(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", [("old", b"1")])
    for mode in ("w", "a"):
        with pytest.raises(ZeroDivisionError), ZipStore(path, mode) as store:  # type: ignore[arg-type]
            store.set("new", b"2")
            _ = 1 // 0
        assert list(tmp_path.iterdir()) == [path]
        assert list(ZipStore(path).list()) == ["old"]


def test_one_that_is_never_closed_is_lost_and_says_so(tmp_path: Path) -> None:
    store = ZipStore(tmp_path / "a.zip", "w")
    with pytest.warns(ResourceWarning, match="never closed"):
        store.__del__()
    assert list(tmp_path.iterdir()) == []


def test_replaced_members_leave_no_duplicates(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with ZipStore(path, "w") as store:
        for i in range(5):
            store.set("zarr.json", b"%d" % i)
            store.set(f"c/{i}", b"x" * i)
    with ZipStore(path, "a") as store:
        store.set("zarr.json", b"last")
        store.set_partial_values([("c/4", 1, b"YZ")])
        assert store.get("zarr.json") == b"last"
    with zipfile.ZipFile(path) as made:
        assert made.testzip() is None
        assert sorted(made.namelist()) == ["c/0", "c/1", "c/2", "c/3", "c/4", "zarr.json"]
    with ZipStore(path) as store:
        assert store.get("zarr.json") == b"last"
        assert store.get("c/4") == b"xYZx"


def test_modes(tmp_path: Path) -> None:
    path = tmp_path / "below" / "a.zip"
    with pytest.raises(StoreError, match="could not be opened"):
        ZipStore(path)
    with ZipStore(path, "x") as store:
        store.set("a", b"1")
    with pytest.raises(StoreError, match="exists"):
        ZipStore(path, "x")
    with ZipStore(path) as store:
        assert store.read_only
        with pytest.raises(ReadOnlyError):
            store.set("a", b"2")
        assert pickle.loads(pickle.dumps(store)).get("a") == b"1"
    with ZipStore(path, "w"):
        pass
    assert list(ZipStore(path).list()) == []
    with ZipStore(path, "a") as store, pytest.raises(TypeError):
        pickle.dumps(store)
    with pytest.raises(StoreError, match="mode"):
        ZipStore(path, "rw")  # type: ignore[arg-type]


def test_one_out_of_a_pickle_is_opened_when_it_is_used(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", [("a", b"1")])
    with ZipStore(path, max_members=5) as store:
        travelling = pickle.dumps(store)
    path.rename(tmp_path / "b.zip")
    again = pickle.loads(travelling)  # whoever only passes it on needs no archive
    assert (str(again), again.mode, again.writable, again.identity) == (str(path), "r", False, store.identity)
    assert repr(again) == repr(store)
    third = pickle.loads(pickle.dumps(again))
    for use in (lambda: again.get("a"), lambda: list(again.list()), lambda: again.open([Open("a")])):
        with pytest.raises(StoreError, match=r"a\.zip' could not be opened: No such file") as refused:
            use()
        assert refused.value.errno == errno.ENOENT
    again.close()
    with pytest.raises(AttributeError):
        _ = again.nothing
    (tmp_path / "b.zip").rename(path)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(third.get, ["a"] * 20)) == [b"1"] * 20
    assert again.get("a") == b"1" and again.max_members == 5
    again.close()
    with pytest.raises(StoreError, match="closed"):
        again.get("a")
    with pytest.raises(AttributeError):
        _ = third.nothing
    third.close()


def test_an_x_that_was_overtaken_replaces_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    store = ZipStore(path, "x")
    store.set("a", b"late")
    archive(path, [("a", b"first")])
    with pytest.raises(StoreError):
        store.close()
    assert ZipStore(path).get("a") == b"first"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_archives_of_others_are_read(tmp_path: Path, method: int) -> None:
    value = b"0123456789" * 1000
    path = archive(tmp_path / "a.zip", [("a/b", value), ("empty", b""), ("dir/", b""), ("ü", b"u")], method)
    with ZipStore(path) as store:
        assert sorted(store.list()) == ["a/b", "empty", "ü"]
        assert store.get("a/b") == value
        assert store.get("empty") == b""
        (source,) = store.open([Open("a/b", (-3, None))])
        assert source is not None
        assert (bytes(source.first), source.size) == (b"789", 10_000)
        assert [bytes(part) for part in store.fetch([(source, [(5000, 2), (9999, 1)])])[0]] == [b"01", b"9"]


def test_other_methods_are_named(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", [("a", b"x" * 100)], zipfile.ZIP_LZMA)
    with ZipStore(path) as store, pytest.raises(UnsupportedError, match="'a'"):
        store.get("a")


@pytest.mark.parametrize("name", ["../a", "/a", "a/../../b", "a\\b", "C:/a", "a//b", "../", "/"])
def test_hostile_names_are_refused(tmp_path: Path, name: str) -> None:
    path = archive(tmp_path / "a.zip", [("good", b""), ("X" * len(name), b"x")])
    path.write_bytes(path.read_bytes().replace(b"X" * len(name), name.encode()))
    with pytest.raises(KeyRefusedError):
        ZipStore(path)
    assert list(tmp_path.iterdir()) == [path]


def test_duplicates_are_refused_unless_asked_for(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", [("a", b"first"), ("a", b"last")])
    with pytest.raises(StoreError, match="twice"):
        ZipStore(path)
    assert ZipStore(path, allow_duplicates=True).get("a") == b"last"


def patched(path: Path, member: str, field: str, value: int) -> Path:
    """The archive with one number of a member's directory entry changed."""
    with zipfile.ZipFile(path) as made:
        start = made.start_dir
        index = made.namelist().index(member)
        names = made.namelist()[:index]
    at = start + sum(46 + len(name) for name in names)
    offset = {"crc": 16, "compress_size": 20, "file_size": 24, "header_offset": 42, "flags": 8}[field]
    content = bytearray(path.read_bytes())
    struct.pack_into("<H" if field == "flags" else "<L", content, at + offset, value)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("compress_size", 2**31),
        ("compress_size", 0xFFFFFFF0),
        ("file_size", 2**31),
        ("file_size", 3),
        ("header_offset", 0),
        ("header_offset", 2**31),
        ("header_offset", 20),
    ],
)
def test_members_that_lie_about_place_or_size_are_refused(tmp_path: Path, field: str, value: int) -> None:
    path = archive(tmp_path / "a.zip", [("a", b"first"), ("b", b"other")])
    patched(path, "b", field, value)
    with pytest.raises(StoreError):
        store = ZipStore(path)
        store.get("b")


def test_a_deflated_bomb_is_bounded(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", [("bomb", bytes(10_000_000))], zipfile.ZIP_DEFLATED)
    patched(path, "bomb", "file_size", 100)
    with pytest.raises(StoreError, match="damaged"):
        ZipStore(path).get("bomb")
    patched(path, "bomb", "file_size", 0xFFFFFFF0)
    with pytest.raises(StoreError, match="refused"):
        ZipStore(path)
    with pytest.raises(LimitError):
        ZipStore(archive(path, [("bomb", bytes(1000))]), max_member_nbytes=999)


def test_damaged_bytes_are_noticed(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", [("a", b"value")])
    content = path.read_bytes()
    path.write_bytes(content.replace(b"value", b"valve", 1))
    with ZipStore(path) as store, pytest.raises(StoreError, match="checksum"):
        store.get("a")
    path.write_bytes(content.replace(b"PK\x03\x04", b"PK\x03\x05", 1))
    with ZipStore(path) as store, pytest.raises(StoreError, match="header"):
        store.get("a")
    at = content.index(b"PK\x03\x04") + 30
    path.write_bytes(content[:at] + b"z" + content[at + 1 :])
    with ZipStore(path) as store, pytest.raises(StoreError, match="another name"):
        store.get("a")


@pytest.mark.parametrize("members", [0xFFFF, 0x7FFF])
def test_counts_that_cannot_be_are_refused(tmp_path: Path, members: int) -> None:
    path = archive(tmp_path / "a.zip", [("a", b"value")])
    content = bytearray(path.read_bytes())
    struct.pack_into("<HH", content, len(content) - 14, members, members)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="damaged"):
        ZipStore(path)


def test_a_limit_on_members(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", [(f"{i}", b"") for i in range(11)])
    with pytest.raises(LimitError, match="11 members"):
        ZipStore(path, max_members=10)
    assert len(list(ZipStore(path, max_members=11).list())) == 11


@pytest.mark.parametrize("content", [b"", b"PK", b"x" * 100, b"PK\x05\x06", b"PK\x05\x06" + bytes(17)])
def test_what_is_no_archive(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(content)
    with pytest.raises(StoreError):
        ZipStore(path)
    if content:
        with pytest.raises(StoreError):
            ZipStore(path, "a")
    assert list(tmp_path.iterdir()) == [path]


def test_a_cut_archive_is_refused_at_every_byte(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", [("a", b"value"), ("b/c", b"x")])
    content = path.read_bytes()
    for cut in range(len(content)):
        path.write_bytes(content[:cut])
        with pytest.raises(StoreError):
            ZipStore(path)


def test_mutations_raise_nothing_of_others(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", [("a", b"value" * 3), ("b/c", b"x" * 50)], zipfile.ZIP_DEFLATED)
    content = path.read_bytes()
    values = {"a": b"value" * 3, "b/c": b"x" * 50}
    for at in range(len(content)):
        for flip in (0x01, 0x80, 0xFF):
            path.write_bytes(content[:at] + bytes([content[at] ^ flip]) + content[at + 1 :])
            try:
                with ZipStore(path) as store:
                    for key in list(store.list()):
                        value = store.get(key)
                        assert key not in values or value == values[key]
            except (StoreError, LimitError):
                pass


def test_a_pipe_is_no_archive(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.zip")
    for mode in ("r", "a", "w"):
        with pytest.raises(StoreError, match="regular"):
            ZipStore(tmp_path / "a.zip", mode)  # type: ignore[arg-type]


def test_large_archives_of_the_64_bit_kind(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as made:
        with made.open("a", "w", force_zip64=True) as member:
            member.write(b"value")
        made.writestr("b", b"other")
    with ZipStore(path) as store:
        assert store.get_partial_values([("a", ALL), ("b", (1, 2))]) == [b"value", b"th"]
    assert zlib.crc32(b"value") == zipfile.ZipFile(path).getinfo("a").CRC


def test_equal_contents_make_equal_archives(tmp_path: Path) -> None:
    made: list[Any] = []
    for name in ("1.zip", "2.zip"):
        with ZipStore(tmp_path / name, "w") as store:
            store.set("a", b"x")
        made.append((tmp_path / name).read_bytes())
    assert made[0] == made[1]


@pytest.mark.parametrize("how", [{}, {"shards": (4, 4)}, {"zarr_format": 2}, {"dialect": "P"}])
def test_the_fill_value_may_be_written_where_nothing_can_be_erased(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    with ZipStore(tmp_path / "a.zip", "w") as store:
        array = terrazzo.create_array(store, name="a", shape=(4, 4), chunks=(2, 2), dtype="i4", **how)
        array[...] = 0
        assert not any(key.endswith(("0/0", "0.0")) for key in store.list())  # what is not there stays away
        for selection in (np.s_[...], np.s_[:2], np.s_[1:3]):
            array[...] = 5
            expected = np.full((4, 4), 5, "i4")
            array[selection] = expected[selection] = 0
            np.testing.assert_array_equal(array[...], expected)


def test_an_array_does_not_shrink_where_its_chunks_cannot_go(tmp_path: Path) -> None:
    with ZipStore(tmp_path / "a.zip", "w") as store:
        array = terrazzo.create_array(store, data=np.arange(1, 9), chunks=(2,))
        with pytest.raises(UnsupportedError, match="delete_outside_chunks=False"):
            array.resize(3)
        assert array.shape == terrazzo.open_array(store, mode="r").shape == (8,)
        array.resize(7)  # every chunk still has elements
        array.resize(3, delete_outside_chunks=False)
        assert array[...].tolist() == [1, 2, 3]
