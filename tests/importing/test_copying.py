"""An imported array holds the bits of the file, and says where its values come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from terrazzo.arrays.array import Array
from terrazzo.care import check
from terrazzo.errors import ContainsArrayError, SourceError
from terrazzo.groups.opening import open_array
from terrazzo.importing import Imported, import_array, open_source
from terrazzo.stores.memory import MemoryStore


class Counted(Imported):
    """Values that are computed where they are read, and a record of what was read."""

    def __init__(self, shape: tuple[int, ...], **more: Any) -> None:
        super().__init__("counted", shape, "f8", **more)
        self.asked: list[tuple[slice, ...]] = []

    def read(self, selection: tuple[slice, ...]) -> np.ndarray[Any, Any]:
        self.asked.append(selection)
        return self.whole()[selection]

    def whole(self) -> np.ndarray[Any, Any]:
        return np.arange(float(np.prod(self.shape))).reshape(self.shape)


def test_blocks_are_whole_shards_within_memory() -> None:
    source = Counted((50, 60))
    array = import_array(source, None, chunks=(5, 5), shards=(10, 20), memory=10 * 40 * 8)
    np.testing.assert_array_equal(array[...], source.whole())
    assert len(source.asked) == 5 * 2
    assert all(a.start % 10 == 0 and b.start % 20 == 0 for a, b in source.asked)
    assert sum((a.stop - a.start) * (b.stop - b.start) for a, b in source.asked) == 50 * 60


@pytest.mark.parametrize("chunks", [None, (5, 1)])
def test_a_shard_larger_than_memory_is_read_inner_chunk_by_inner_chunk(
    chunks: tuple[int, int] | None,
) -> None:
    source = Counted((47, 63), chunks=chunks)
    array = import_array(source, None, chunks=(5, 5), shards=(20, 40), memory=3 * 5 * 5 * 8, fill_value=-1.0)
    np.testing.assert_array_equal(array[...], source.whole())
    assert len(source.asked) == 10 * 13
    assert all(a.stop - a.start <= 5 and b.stop - b.start <= 5 for a, b in source.asked)
    again = import_array(source, None, chunks=(5, 5), shards=(20, 40), memory=600, verify=True)
    np.testing.assert_array_equal(again[...], source.whole())


def test_pieces_of_the_file_that_cross_inner_chunks_are_read_by_shards() -> None:
    source = Counted((40, 40), chunks=(1, 40))
    array = import_array(source, None, chunks=(5, 5), shards=(20, 40), memory=600)
    np.testing.assert_array_equal(array[...], source.whole())
    assert [(a.stop - a.start, b.stop - b.start) for a, b in source.asked] == [(20, 40)] * 2


@pytest.mark.parametrize("order", ["C", "F"])
def test_parts_of_a_mapped_file_are_put_together(
    tmp_path: Path, order: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("terrazzo.importing.source.MAPPED_AT_ONCE", 100)
    values = np.asarray(np.arange(11 * 7 * 5, dtype="i4").reshape(11, 7, 5), order=order)
    np.save(tmp_path / "a.npy", values)
    with open_source(tmp_path / "a.npy") as source:
        for place in (np.s_[0:11, 0:7, 0:5], np.s_[3:4, 2:7, 1:2], np.s_[10:11, 0:1, 4:5]):
            np.testing.assert_array_equal(source.read(place), values[place])


def test_names_attributes_and_fill_value_come_along() -> None:
    source = Counted(
        (4, 6), dimension_names=("y", None), attributes={"units": "m", "n": 1}, fill_value=-1.0, chunks=(2, 3)
    )
    array = import_array(source, None, attributes={"n": 2})
    assert array.dimension_names == ("y", None)
    assert dict(array.attrs) == {"units": "m", "n": 2}
    assert array.fill_value == -1.0
    assert array.shards is not None
    given = import_array(source, None, chunks="source", shards=None, fill_value=7, dimension_names=("a", "b"))
    assert given.chunks == (2, 3) and given.fill_value == 7 and given.dimension_names == ("a", "b")
    assert import_array(Counted((4,)), None, chunks="source").chunks == (4,)


def test_a_file_is_imported_and_reopened(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 1000, (30, 40)).astype(">u2")
    np.save(tmp_path / "a.npy", values)
    heard: list[tuple[int, int]] = []
    array = import_array(
        tmp_path / "a.npy",
        tmp_path / "x.zarr",
        name="deep/a",
        chunks=(10, 10),
        shards=(20, 20),
        compressors="gzip:1",
        verify=True,
        progress=lambda done, total: heard.append((done, total)),
    )
    assert heard[0] == (0, values.nbytes) and heard[-1] == (values.nbytes, values.nbytes)
    again = open_array(tmp_path / "x.zarr" / "deep" / "a", mode="r")
    np.testing.assert_array_equal(again[...], values)
    assert array.options.durability == "fsync"
    assert check(tmp_path / "x.zarr", verify_data=True).ok
    with pytest.raises(ContainsArrayError):
        import_array(tmp_path / "a.npy", tmp_path / "x.zarr", name="deep/a")
    import_array(tmp_path / "a.npy", tmp_path / "x.zarr", name="deep/a", overwrite=True)


def test_a_wrong_file_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(b"nothing")
    with pytest.raises(SourceError):
        import_array(tmp_path / "a.npy", tmp_path / "x.zarr")
    assert not (tmp_path / "x.zarr").exists()


def test_netcdf_to_an_array(tmp_path: Path) -> None:
    netCDF4 = pytest.importorskip("netCDF4")
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", 5)
        held = file.createVariable("t", "i2", ("time",), fill_value=-999)
        held.scale_factor = 0.1
        held[:] = np.ma.masked_array([1.0, 2.0, 3.0, 4.0, 5.0], [0, 0, 1, 0, 0])
    array = import_array(path, MemoryStore())
    assert array[...].tolist() == [10, 20, -999, 40, 50]
    assert dict(array.attrs) == {"scale_factor": 0.1, "_FillValue": -999}
    assert array.fill_value == -999


@pytest.mark.parametrize(
    "values", [np.array(3.5), np.zeros((0, 3)), np.array(["a", "Zü"]), np.array([True, False])]
)
def test_small_and_odd_arrays(tmp_path: Path, values: np.ndarray[Any, Any]) -> None:
    np.save(tmp_path / "a.npy", values)
    array = import_array(tmp_path / "a.npy", None, verify=True)
    assert isinstance(array, Array)
    np.testing.assert_array_equal(array[...], values)


def test_an_open_source_stays_open(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(4))
    with open_source(tmp_path / "a.npy") as source:
        import_array(source, None)
        assert source.read((slice(1, 2),)).tolist() == [1]


@pytest.mark.parametrize(
    "stated, kept",
    [(-1.0, -1), (np.nan, None), (1e10, None), (0.5, None), ("text", None), (np.int64(7), 7), (None, None)],
)
def test_fill_values_that_the_type_cannot_hold_are_left_out(stated: Any, kept: Any) -> None:
    class Integers(Counted):
        def __init__(self) -> None:
            Imported.__init__(self, "integers", (3,), "i2", fill_value=stated)
            self.asked = []

    assert Integers().fill_value == kept
    assert import_array(Integers(), None).fill_value == (kept or 0)
