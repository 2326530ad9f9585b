"""Repair gives back every chunk whose place is known, bit for bit, and names every one that is lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.arrays.array import Array
from terrazzo.care.check import check
from terrazzo.care.repair import RepairReport, repair
from terrazzo.stores.memory import MemoryStore
from terrazzo.strategy import Append

SHAPE, CHUNKS, SHARDS = (16, 16), (4, 4), (8, 16)
VALUES = np.random.default_rng(5).integers(1, 60, SHAPE, dtype="i4")


def made(root: Any, **how: Any) -> Array:
    array = terrazzo.create_array(
        root, shape=SHAPE, dtype="i4", **{"chunks": CHUNKS, "shards": SHARDS, **how}
    )
    array[...] = VALUES
    return array


def damage(root: Path, key: str, how: Callable[[bytearray], Any]) -> bytes:
    path = root / key
    body = bytearray(path.read_bytes())
    how(body)
    path.write_bytes(body)
    return bytes(body)


def lost_boxes(report: RepairReport) -> list[tuple[slice, ...]]:
    return [
        tuple(slice(i * c, (i + 1) * c) for i, c in zip(one.chunk or (), CHUNKS, strict=True))
        for one in report.lost
    ]


def expected(report: RepairReport) -> np.ndarray[Any, Any]:
    values = VALUES.copy()
    for box in lost_boxes(report):
        values[box] = 0
    return values


def test_a_sound_array_is_copied_byte_for_byte(tmp_path: Path) -> None:
    made(tmp_path / "a")
    report = repair(tmp_path / "a")
    assert report.ok and report.objects == 2 and report.kept == 16 and not report.damaged
    for key in ("c/0/0", "c/1/0", "zarr.json"):
        assert (tmp_path / "a.repaired" / key).read_bytes() == (tmp_path / "a" / key).read_bytes()
    assert not (tmp_path / "a.unplaced").exists()
    with pytest.raises(FileExistsError):
        repair(tmp_path / "a")
    assert repair(tmp_path / "a", in_place=True).ok


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(
    "compressors", ["auto", ["crc32c"], ["gzip:1", "crc32c"], ["blosc", "crc32c"], ["zstd"]]
)
def test_cut_short_with_the_index_at_the_start(tmp_path: Path, compressors: Any, in_place: bool) -> None:
    made(tmp_path / "a", index_location="start", compressors=compressors)
    size = (tmp_path / "a/c/0/0").stat().st_size
    before = damage(tmp_path / "a", "c/0/0", lambda body: body.__delitem__(slice(size - 100, None)))
    report = repair(tmp_path / "a", in_place=in_place)
    assert report.damaged == {"c/0/0": "index"} and 1 <= len(report.lost) <= 2
    assert all("past the end" in one.reason for one in report.lost) and report.kept == 16 - len(report.lost)
    root = tmp_path / ("a" if in_place else "a.repaired")
    np.testing.assert_array_equal(terrazzo.open(root)[...], expected(report))
    assert check(root, verify_data=True).ok
    if in_place:
        assert (tmp_path / "a.unplaced/c-0-0.damaged").read_bytes() == before
    else:
        assert (tmp_path / "a/c/0/0").read_bytes() == before


@pytest.mark.parametrize("compressors", ["auto", ["crc32c"], ["gzip:1", "crc32c"], ["blosc", "crc32c"]])
def test_an_index_that_is_gone(tmp_path: Path, compressors: Any) -> None:
    """Without a manifest nothing tells the places: every chunk is found and saved. With one they all come back."""
    array = made(tmp_path / "a", compressors=compressors)
    array.inventory().save(tmp_path / "manifest")
    damage(tmp_path / "a", "c/0/0", lambda body: body.__delitem__(slice(len(body) - 132, None)))
    report = repair(tmp_path / "a", tmp_path / "b", unplaced=tmp_path / "u")
    assert report.damaged == {"c/0/0": "nothing"}
    assert [(one.key, one.chunk, one.chunks) for one in report.lost] == [("c/0/0", None, 8)]
    assert report.chunks_lost == 8 and "8 chunks kept, up to 8 lost, 8 saved without a place" in str(report)
    np.testing.assert_array_equal(
        terrazzo.open(tmp_path / "b")[...], np.vstack([np.zeros((8, 16)), VALUES[8:]])
    )
    assert not (tmp_path / "b/c/0/0").exists()
    found = sorted(np.load(path).tobytes() for path in (tmp_path / "u").iterdir())
    blocks = [VALUES[i : i + 4, j : j + 4] for i in (0, 4) for j in (0, 4, 8, 12)]
    assert found == sorted(np.ascontiguousarray(block).tobytes() for block in blocks)
    assert sorted(report.unplaced) == sorted(map(str, (tmp_path / "u").iterdir()))
    report = repair(tmp_path / "a", tmp_path / "d", manifest=tmp_path / "manifest")
    assert report.ok and report.damaged == {"c/0/0": "manifest"} and not report.unplaced
    np.testing.assert_array_equal(terrazzo.open(tmp_path / "d")[...], VALUES)


def test_large_chunks_without_a_frame(tmp_path: Path) -> None:
    values = np.random.default_rng(7).integers(1, 99, (64, 1024), dtype="i4")
    terrazzo.create_array(
        tmp_path / "a", data=values, chunks=(8, 1024), shards=(64, 1024), compressors="crc32c"
    )
    damage(tmp_path / "a", "c/0/0", lambda body: body.__delitem__(slice(len(body) - 132, None)))
    report = repair(tmp_path / "a")
    found = sorted(np.load(path).tobytes() for path in report.unplaced)
    assert found == sorted(values[i : i + 8].tobytes() for i in range(0, 64, 8))


def test_an_index_at_the_other_place(tmp_path: Path) -> None:
    made(tmp_path / "a", index_location="start")
    made(tmp_path / "b", index_location="end")
    shutil.copy(tmp_path / "a/c/0/0", tmp_path / "b/c/0/0")
    report = repair(tmp_path / "b")
    assert report.ok and report.damaged == {"c/0/0": "other index"}
    np.testing.assert_array_equal(terrazzo.open(tmp_path / "b.repaired")[...], VALUES)


def test_a_torn_tail_and_an_older_index_before_it(tmp_path: Path) -> None:
    array = made(tmp_path / "a").using(strategy=Append(dead=1, index_at_end=True))
    array[:4, :4] = 77
    middle = VALUES.copy()
    middle[:4, :4] = 77
    array[4:8, :8] = 88
    damage(tmp_path / "a", "c/0/0", lambda body: body.__delitem__(slice(len(body) - 1, None)))
    report = repair(tmp_path / "a")
    assert report.ok and report.damaged == {"c/0/0": "rest of the index"}
    last = middle.copy()
    last[4:8, :8] = 88
    np.testing.assert_array_equal(terrazzo.open(tmp_path / "a.repaired")[...], last)
    damage(tmp_path / "a", "c/0/0", lambda body: body.__delitem__(slice(len(body) - 20, None)))
    report = repair(tmp_path / "a", tmp_path / "b", unplaced=tmp_path / "u")
    assert report.ok and report.damaged == {"c/0/0": "older index"}
    copy = terrazzo.open(tmp_path / "b")
    np.testing.assert_array_equal(copy[...], middle)
    assert copy.inventory().dead_nbytes == 0
    # what was written last is there, without a place; so is the dead version of the first chunk
    assert sorted(int(np.load(path).flat[0]) for path in report.unplaced) == sorted(
        [88, 88, int(VALUES[0, 0])]
    )


def test_rotten_chunks_are_lost_and_nothing_else(tmp_path: Path) -> None:
    array = made(tmp_path / "a")
    found = array.inventory()
    row = int(np.flatnonzero((found.chunks == (1, 2)).all(axis=1))[0])
    damage(tmp_path / "a", "c/0/0", lambda body: body.__setitem__(int(found.offset[row]) + 9, 255))
    report = repair(tmp_path / "a")
    assert (
        [one.chunk for one in report.lost] == [(1, 2)]
        and not report.unplaced
        and "crc32c" in report.lost[0].reason
    )
    np.testing.assert_array_equal(terrazzo.open(tmp_path / "a.repaired")[...], expected(report))
    # all other chunks have the bytes they had
    again = terrazzo.open(tmp_path / "a.repaired").inventory()
    assert len(again) == 15 and set(again.nbytes) <= set(found.nbytes)


def test_plain_arrays(tmp_path: Path) -> None:
    made(tmp_path / "a", shards=None, compressors=["zstd", "crc32c"])
    damage(tmp_path / "a", "c/1/2", lambda body: body.__delitem__(slice(10, None)))
    report = repair(tmp_path / "a")
    assert [(one.key, one.chunk) for one in report.lost] == [("c/1/2", (1, 2))] and report.kept == 15
    np.testing.assert_array_equal(terrazzo.open(tmp_path / "a.repaired")[...], expected(report))
    repair(tmp_path / "a", in_place=True)
    np.testing.assert_array_equal(terrazzo.open(tmp_path / "a")[...], expected(report))
    assert len((tmp_path / "a.unplaced/c-1-2.damaged").read_bytes()) == 10


def test_every_length_a_shard_can_be_cut_to(tmp_path: Path) -> None:
    store = MemoryStore()
    made(store, index_location="start")
    body = store.get("c/0/0") or b""
    whole = terrazzo.open(store).inventory(np.s_[:8])
    for length in range(0, len(body), 7):
        cut = MemoryStore()
        made(cut, index_location="start")
        cut.set("c/0/0", body[:length])
        report = repair(cut, MemoryStore(), unplaced=tmp_path / "u")
        if length >= 8 * 16 + 4:
            there = int((whole.offset + whole.nbytes <= length).sum())
            assert len(report.lost) == 8 - there and report.kept == 8 + there
        else:
            assert report.lost[0].chunk is None and report.kept == 8


def test_a_foreign_shard_is_left_as_it_is(tmp_path: Path) -> None:
    made(tmp_path / "a", index_location="end")
    array = terrazzo.open(tmp_path / "a")
    body = (tmp_path / "a/c/0/0").read_bytes()
    head = b"II*\0" + bytes(60)
    sharding = array.layout.sharding
    assert sharding is not None
    entries = sharding.decode_index(body[-132:], (2, 4))
    moved = entries.copy()
    moved[:, 0] += np.uint64(64)
    new = bytearray(head + body[:-132] + sharding.encode_index(moved, (2, 4)))
    new[70] ^= 255
    (tmp_path / "a/c/0/0").write_bytes(new)
    report = repair(tmp_path / "a", in_place=True)
    assert report.refused == ["c/0/0"] and not report.ok
    assert (tmp_path / "a/c/0/0").read_bytes() == new


def test_what_is_refused(tmp_path: Path) -> None:
    store = MemoryStore()
    array = made(store)
    with pytest.raises(ValueError, match="give `to`"):
        repair(store)
    with pytest.raises(ValueError, match="leave `to` out"):
        repair(store, MemoryStore(), in_place=True)
    store.set("c/0/0", (store.get("c/0/0") or b"")[:-3])
    with pytest.raises(ValueError, match="unplaced="):
        repair(store, in_place=True)
    manifest = array.inventory(np.s_[8:])
    other = made(MemoryStore(), chunks=(2, 2))
    with pytest.raises(ValueError, match="the manifest is of another array"):
        repair(other, MemoryStore(), manifest=manifest)


def test_the_report_as_json(tmp_path: Path) -> None:
    made(tmp_path / "a")
    damage(tmp_path / "a", "c/0/0", lambda body: body.__setitem__(3, body[3] ^ 1))
    report = repair(tmp_path / "a")
    shown = report.to_json()
    assert shown["ok"] is False and shown["chunks_kept"] == 15 and len(shown["lost"]) == 1
    assert shown["chunks_lost_at_most"] == 1 and shown["lost"][0]["chunks"] == 1
    assert str(report) == "2 objects, 1 of them damaged; 15 chunks kept, 1 lost, 0 saved without a place"


@pytest.mark.parametrize("index_location", ["start", "end"])
def test_check_finds_flipped_bits(index_location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few here; ten thousand in tests/faults/ledgers/flips.json. The pause of a second look is left out."""
    monkeypatch.setattr("terrazzo.read.flow.time.sleep", lambda seconds: None)
    store = MemoryStore()
    made(store, index_location=index_location)
    body = store.get("c/0/0") or b""
    rng = np.random.default_rng(6)
    for at in rng.integers(0, 8 * len(body), 60).tolist():
        bad = bytearray(body)
        bad[at // 8] ^= 1 << at % 8
        store.set("c/0/0", bytes(bad))
        assert check(store, verify_data=True).corrupt, at
