"""A copy holds the same bits in other chunks, and the source is as it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from terrazzo.arrays.array import Array
from terrazzo.blocks import aligned_blocks, count_blocks, same_bits
from terrazzo.care import check, copy
from terrazzo.errors import ContainsArrayError, NodeNotFoundError, StoreError
from terrazzo.groups.creating import create_array
from terrazzo.groups.group import Group
from terrazzo.groups.opening import open_group
from terrazzo.stores.memory import MemoryStore


@pytest.fixture
def source() -> Array:
    values = np.random.default_rng(0).normal(size=(70, 90)).astype("f4")
    values[10:30, 20:40] = np.nan
    return create_array(
        MemoryStore(),
        data=values,
        chunks=(10, 10),
        shards=(50, 50),
        fill_value=np.nan,
        attributes={"unit": "m"},
        dimension_names=("y", "x"),
    )


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"chunks": (7, 13), "shards": (35, 39)},
        {"chunks": (16, 16), "shards": None},
        {"shards": (20, 30)},
        {"compressors": "gzip:1"},
        {"compressors": None, "filters": None},
        {"chunks": "4kB", "shards": "auto"},
        {"index_location": "start"},
    ],
)
@pytest.mark.parametrize("verify", [False, True])
def test_the_same_bits_in_other_chunks(source: Array, how: dict[str, Any], verify: bool) -> None:
    before = np.array(source[...])
    made = copy(source, MemoryStore(), verify=verify, **how)
    assert isinstance(made, Array)
    np.testing.assert_array_equal(made[...], before)
    assert dict(made.attrs) == {"unit": "m"}
    assert made.dimension_names == ("y", "x")
    assert np.isnan(made.fill_value)
    if "chunks" not in how:
        assert made.chunks == source.chunks
    elif isinstance(how["chunks"], tuple):
        assert made.chunks == how["chunks"]
    assert made.options.durability == source.options.durability
    assert check(made, verify_data=True).ok


def test_a_copy_without_changes_keeps_the_bytes(source: Array) -> None:
    source[:5, :5] = np.nan
    target = MemoryStore()
    copy(source, target)
    keys = sorted(source.store.list())
    assert sorted(target.list()) == keys
    assert all(target.get(key) == source.store.get(key) for key in keys)


def test_memory_bounds_the_blocks(source: Array, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    plain = Array.get_basic_selection

    def counted(self: Array, *args: Any, **more: Any) -> Any:
        found = plain(self, *args, **more)
        read.append(found.nbytes)
        return found

    monkeypatch.setattr(Array, "get_basic_selection", counted)
    copy(source, MemoryStore(), chunks=(5, 5), shards=(10, 10), memory=10 * 90 * 4)
    assert max(read) <= 10 * 90 * 4 and sum(read) == source.nbytes


def test_groups_are_copied_with_all_below(tmp_path: Path) -> None:
    root = Group.from_store(MemoryStore(), attributes={"title": "t"})
    root["a/b"] = np.arange(100.0)
    root["a/names"] = np.array(["x", "Zürich"], np.dtypes.StringDType())
    root.create_group("empty")
    root.store.set("a/notes.txt", b"belongs to nobody")
    made = copy(root, tmp_path / "x.zarr", shards="auto", verify=True)
    assert isinstance(made, Group)
    again = open_group(tmp_path / "x.zarr", mode="r")
    assert dict(again.attrs) == {"title": "t"}
    np.testing.assert_array_equal(again["a/b"][...], np.arange(100.0))
    assert again["a/names"][1] == "Zürich"
    assert sorted(again) == ["a", "empty"]
    assert again["a/b"].shards is not None
    assert check(again, verify_data=True).ok


def test_parts_of_hierarchies_and_places_inside_them() -> None:
    root = Group.from_store(MemoryStore())
    root["a/b"] = np.arange(10)
    copy(root["a"], root.store, name="c/d")
    np.testing.assert_array_equal(root["c/d/b"][...], np.arange(10))
    for name in ("a", "a/inside", ""):
        with pytest.raises(ValueError, match="the same place, or one lies in the other"):
            copy(root["a"], root.store, name=name)


def test_folders_in_one_another_are_refused(tmp_path: Path) -> None:
    create_array(tmp_path / "x.zarr", name="a", data=np.arange(3))
    with pytest.raises(ValueError, match="one lies in the other"):
        copy(tmp_path / "x.zarr", tmp_path / "x.zarr" / "a" / "copy")
    copy(tmp_path / "x.zarr", tmp_path / "x.zarr2")


def test_what_is_there_is_kept(source: Array) -> None:
    target = MemoryStore()
    create_array(target, data=np.arange(3))
    with pytest.raises(ContainsArrayError):
        copy(source, target)
    copy(source, target, overwrite=True)
    assert check(target).ok
    with pytest.raises(NodeNotFoundError):
        copy(MemoryStore(), MemoryStore())


def test_a_lossy_codec_is_noticed(source: Array) -> None:
    lossy = {"name": "bitround", "configuration": {"keepbits": 3}}
    copy(source, MemoryStore(), filters=[lossy])
    with pytest.raises(
        StoreError, match=r"reads back otherwise than it was written at \[0:50, 0:50\]; a lossy codec"
    ):
        copy(source, MemoryStore(), filters=[lossy], verify=True, memory=1)


def test_progress_counts_bytes(source: Array) -> None:
    heard: list[tuple[int, int]] = []
    copy(source, MemoryStore(), chunks=(5, 5), shards=(10, 10), memory=1, progress=lambda *n: heard.append(n))
    assert heard[0] == (0, source.nbytes) and heard[-1] == (source.nbytes, source.nbytes)
    assert len(heard) == 1 + 7 * 9
    heard.clear()
    copy(source, MemoryStore(), progress=lambda *n: heard.append(n))
    assert heard[-1] == (source.nbytes, source.nbytes)


def test_nothing_is_written_after_an_interrupt(source: Array) -> None:
    target = MemoryStore()

    def stop(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy(source, target, chunks=(5, 5), shards=(10, 10), memory=1, progress=stop)
    assert sum(1 for key in target.list() if key.startswith("c/")) == 1


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,)])
def test_small_shapes(shape: tuple[int, ...]) -> None:
    values = np.ones(shape, "i2")
    made = copy(create_array(None, data=values), MemoryStore(), compressors=None, verify=True)
    np.testing.assert_array_equal(made[...], values)  # type: ignore[index]


def test_rectilinear_grids() -> None:
    source = create_array(None, data=np.arange(60), chunks=[[10, 20, 30]])
    made = copy(source, MemoryStore(), compressors=None, verify=True, memory=1)
    assert isinstance(made, Array)
    assert made.write_chunk_sizes == ((10, 20, 30),)


# blocks


def cells(shape: tuple[int, ...], blocks: Iterator[tuple[slice, ...]]) -> np.ndarray:
    seen = np.zeros(shape, int)
    for block in blocks:
        seen[block] += 1
    return seen


@pytest.mark.parametrize(
    "shape, unit",
    [
        ((10, 11), (3, 4)),
        ((10,), ([1, 2, 7],)),
        ((10, 5), ([5, 5, 5], 2)),
        ((), ()),
        ((4, 0), (2, 2)),
        ((7,), (100,)),
    ],
)
@pytest.mark.parametrize("memory", [1, 40, 10**6])
def test_blocks_cover_everything_once(shape: tuple[int, ...], unit: Any, memory: int) -> None:
    blocks = list(aligned_blocks(shape, unit, 4, memory))
    assert (cells(shape, iter(blocks)) == 1).all()
    assert len(blocks) == count_blocks(shape, unit, 4, memory) or 0 in shape
    smallest = list(aligned_blocks(shape, unit, 4, 0))
    starts = [{block[d].start for block in smallest} for d in range(len(shape))]
    for block in blocks:
        assert all(s.start in starts[d] for d, s in enumerate(block))
        nbytes = 4 * int(np.prod([s.stop - s.start for s in block]))
        assert nbytes <= memory or block in smallest


def test_blocks_of_a_huge_grid_come_one_by_one() -> None:
    blocks = aligned_blocks((10**15, 10**15), (1, 1), 8, 1)
    assert next(blocks) == (slice(0, 1), slice(0, 1))
    assert count_blocks((10**15, 10**15), (1, 1), 8, 1) == 10**30


def test_bits_and_not_values_are_compared() -> None:
    zero, nan = np.array([0.0, -0.0]), np.array([np.nan])
    assert same_bits(nan, nan.copy())
    assert not same_bits(zero, zero[::-1])
    assert not same_bits(zero, zero.astype("f4"))
    assert same_bits(np.array(["a"], np.dtypes.StringDType()), np.array(["a"], np.dtypes.StringDType()))
    assert not same_bits(np.zeros(2), np.zeros(3))
