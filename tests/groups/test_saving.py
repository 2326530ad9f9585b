"""save and load: whole arrays in one call, sharded, and nothing lost by accident."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.errors import ContainsArrayError, GroupNotFoundError


def test_one_array(tmp_path: Path) -> None:
    values = np.random.default_rng(1).random((300, 200))
    terrazzo.save(tmp_path / "one.zarr", values)
    array = terrazzo.open_array(tmp_path / "one.zarr")
    assert array.shards is not None and [c.name for c in array.compressors] == ["zstd", "crc32c"]
    np.testing.assert_array_equal(terrazzo.load(tmp_path / "one.zarr"), values)
    with pytest.raises(ContainsArrayError):
        terrazzo.save(tmp_path / "one.zarr", values)
    terrazzo.save_array(tmp_path / "one.zarr", values + 1, overwrite=True)
    terrazzo.save_array(tmp_path / "one.zarr", values + 2, mode="w")
    assert terrazzo.load(tmp_path / "one.zarr")[0, 0] == values[0, 0] + 2


def test_several(tmp_path: Path) -> None:
    terrazzo.save(tmp_path / "g.zarr", np.zeros(3), [1, 2], b=np.ones((2, 2)))
    loaded = terrazzo.load(tmp_path / "g.zarr")
    assert sorted(loaded) == ["arr_0", "arr_1", "b"] and loaded["arr_1"].tolist() == [1, 2]
    terrazzo.save_group(tmp_path / "g.zarr", **{"deep/er": np.arange(2)})
    assert list(terrazzo.load(tmp_path / "g.zarr")) == ["deep/er"]
    with pytest.raises(ValueError, match="given by name and by place"):
        terrazzo.save_group({}, np.zeros(1), arr_0=np.zeros(1))


def test_below_a_path(tmp_path: Path) -> None:
    store = tmp_path / "p.zarr"
    terrazzo.save(store, np.arange(3), path="a/b")
    terrazzo.save(store, x=np.arange(2), path="c")
    assert terrazzo.load(store, path="a/b")[2] == 2 and terrazzo.load(store, "c")["x"].tolist() == [0, 1]
    assert sorted(terrazzo.load(store)) == ["a/b", "c/x"]


def test_an_archive_is_written_when_the_call_ends(tmp_path: Path) -> None:
    terrazzo.save(tmp_path / "a.zip", np.arange(5))
    assert terrazzo.load(tmp_path / "a.zip").tolist() == [0, 1, 2, 3, 4]
    terrazzo.save_group(tmp_path / "b.zip", np.arange(5), k=np.ones(2))
    assert sorted(terrazzo.load(tmp_path / "b.zip")) == ["arr_0", "k"]


@pytest.mark.parametrize("wrong", [None, "text", {"a": 1}, [1, "a", None]])
def test_what_is_no_array_is_refused_before_anything_is_deleted(wrong: Any, tmp_path: Path) -> None:
    terrazzo.save_group(tmp_path / "g.zarr", np.arange(3))
    for save in (terrazzo.save_group, terrazzo.save):
        with pytest.raises(TypeError):
            save(tmp_path / "g.zarr", np.zeros(2), x=wrong)
    assert terrazzo.load(tmp_path / "g.zarr")["arr_0"].tolist() == [0, 1, 2]


def test_nothing_to_save_or_load(tmp_path: Path) -> None:
    for save in (terrazzo.save, terrazzo.save_group):
        with pytest.raises(ValueError, match="nothing to save"):
            save(tmp_path / "x.zarr")
    with pytest.raises(GroupNotFoundError):
        terrazzo.load(tmp_path / "x.zarr")
    assert not (tmp_path / "x.zarr").exists()
    terrazzo.save(tmp_path / "x.zarr", np.zeros(1), zarr_format=2)
    assert (tmp_path / "x.zarr" / ".zarray").exists()


@pytest.mark.parametrize(
    "values",
    [
        np.array(3.5),
        np.zeros((0, 4)),
        np.array(["a", "größer"]),
        np.array(["a", "größer"], dtype=object),
        np.array(["2024-01-01", "NaT"], dtype="M8[D]"),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        np.arange(5, dtype=">i4"),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.arange(10)[::-2],
        np.array([True, False]),
        np.array([1 + 2j, -0.0]),
    ],
    ids=lambda values: f"{values.dtype}{values.shape}",
)
def test_every_kind_of_value_comes_back(values: Any) -> None:
    store: dict[str, Any] = {}
    terrazzo.save_array(store, values)
    found = terrazzo.load(store)
    np.testing.assert_array_equal(found, values)
    assert np.shape(found) == values.shape
