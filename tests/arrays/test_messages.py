"""What one who is new to it reads when something is wrong; and settings that scripts ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.errors import ShardError
from terrazzo.stores.memory import MemoryStore


def test_fields_that_are_not_there() -> None:
    plain = terrazzo.create_array({}, shape=3, dtype="i4")
    with pytest.raises(IndexError, match="field name 'x'; the array holds int32, which has no fields"):
        plain["x"]
    pairs = terrazzo.create_array({}, shape=3, dtype=[("a", "i4"), ("b", "f8")])
    with pytest.raises(IndexError, match="no field 'x'; there are 'a', 'b'"):
        pairs["x"]
    with pytest.raises(IndexError, match="no field 'x'"):
        pairs["a", "x"] = 1


@pytest.mark.parametrize(
    ("dtype", "value", "error", "said"),
    [
        ("i4", None, TypeError, "found None, must be values of int32: "),
        ("i4", "x", ValueError, "found 'x', must be values of int32: "),
        ("f4", ["x"] * 4, ValueError, r"found \['x', 'x', 'x', 'x'\], must be values of float32: "),
        ("f4", np.array(["a"] * 4), ValueError, "found values of <U1, must be values of float32: "),
        ("u1", [300] * 4, OverflowError, r"found \[300, 300, 300, 300\], must be values of uint8: "),
    ],
)
def test_values_that_cannot_be_converted(dtype: str, value: Any, error: type[Exception], said: str) -> None:
    array = terrazzo.create_array({}, shape=(4, 4), dtype=dtype, chunks=(2, 4))
    with pytest.raises(error, match=f"^{said}"):
        array.append(value)
    with array.writer() as writer:
        with pytest.raises(error, match=f"^{said}"):
            writer.append(value)
        with pytest.raises(error, match=f"^{said}"):
            writer.write(0, value)
    with pytest.raises(error, match=f"^{said}"):
        array[0] = value
    assert array.shape == (4, 4) and not array[...].any()


def test_several_fields_at_once() -> None:
    pairs = terrazzo.create_array({}, shape=3, dtype=[("a", "i4"), ("b", "f8"), ("c", "i2")])
    pairs["a", "b"] = 1
    pairs["b", "c"] = np.array([(1, 2), (3, 4), (5, 6)], dtype=[("b", "f4"), ("c", "i8")])
    assert pairs[:].tolist() == [(1, 1.0, 2), (1, 3.0, 4), (1, 5.0, 6)]


def test_the_array_at_the_root_has_a_name() -> None:
    array = terrazzo.create_array({}, shape=3, dtype="i4")
    with pytest.raises(ValueError, match="array '/' has 1 dimensions"):
        array.resize((1, 2))


def test_a_writer_names_the_array() -> None:
    for path in ("", "a/b"):
        array = terrazzo.create_array({}, name=path or None, shape=(0, 4), dtype="f4", chunks=(2, 4))
        with (
            array.writer() as writer,
            pytest.raises(ValueError, match=f"array '/{path}' grows along axis 0"),
        ):
            writer.append(None)


def test_a_broken_index_names_the_array(tmp_path: Path) -> None:
    group = terrazzo.open_group(tmp_path / "g.zarr", mode="w")
    array = group.create_array("rain", shape=(8,), chunks=(2,), shards=(4,), dtype="i4")
    array[:] = np.arange(8)
    (tmp_path / "g.zarr/rain/c/0").write_bytes(b"")
    with pytest.raises(ShardError, match="array 'rain': shard 'rain/c/0' has 0 bytes"):
        array[:]


def test_settings_that_scripts_ask_for() -> None:
    assert terrazzo.config.get("array.order") == "C"
    assert terrazzo.config.get("default_zarr_format") == 3
    assert terrazzo.config.get("array.write_empty_chunks") is False
    assert terrazzo.config.get("async.concurrency") is None
    assert terrazzo.config.get("nothing.of.it", 3) == 3
    with pytest.raises(KeyError, match=r"nothing\.of\.it"):
        terrazzo.config.get("nothing.of.it")


@pytest.mark.parametrize("shards", [{"shape": (10,), "index_location": "start"}, {"shape": (10,)}])
def test_shards_with_the_place_of_their_index(shards: dict[str, object]) -> None:
    array = terrazzo.create_array(MemoryStore(), shape=(30,), chunks=(5,), shards=shards, dtype="i4")  # type: ignore[arg-type]
    assert array.shards == (10,)
    assert array.layout.sharding.index_location == shards.get("index_location", "end")
    with pytest.raises(ValueError, match="'shape' is needed"):
        terrazzo.create_array({}, shape=(30,), chunks=(5,), shards={"index_location": "end"}, dtype="i4")  # type: ignore[arg-type]
