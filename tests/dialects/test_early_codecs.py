"""The sharding codec of 2023: indexes with and without a checksum, codecs left out, `endian`, "C" and "F"."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.codecs.native import crc32c
from terrazzo.errors import MetadataError, TerrazzoWarning

VALUES = np.arange(16, dtype=np.int32).reshape(4, 4)
ENDIAN = {"name": "endian", "configuration": {"endian": "little"}}


def shard(*, checked: bool, fortran: bool = False) -> bytes:
    body, entries = b"", []
    for i in range(2):
        for j in range(2):
            chunk = VALUES[2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
            encoded = (chunk.T if fortran else chunk).tobytes()
            entries += [len(body), len(encoded)]
            body += encoded
    index = np.array(entries, "<u8").tobytes()
    return body + index + (crc32c(index).to_bytes(4, "little") if checked else b"")


def document(**members: Any) -> dict[str, Any]:
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [4, 4],
        "data_type": "int32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 4]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "attributes": {},
        **members,
    }


@pytest.mark.parametrize("checked", [False, True], ids=["March", "May"])
@pytest.mark.parametrize(
    "codecs",
    [None, [], [ENDIAN], [{"name": "transpose", "configuration": {"order": "F"}}, ENDIAN]],
    ids=["absent", "empty", "endian", "F"],
)
def test_shards_of_2023_are_read_and_written_in_their_form(checked: bool, codecs: Any) -> None:
    inner = {"chunk_shape": [2, 2], **({} if codecs is None else {"codecs": codecs})}
    said = document(codecs=[{"name": "sharding_indexed", "configuration": inner}])
    stored = shard(checked=checked, fortran=bool(codecs) and codecs[0]["name"] == "transpose")
    store = {"zarr.json": json.dumps(said).encode(), "c/0/0": stored}
    array = terrazzo.open_array(store)
    np.testing.assert_array_equal(array[...], VALUES)
    array[1, 2] = 99
    array.attrs["k"] = 1
    assert json.loads(store["zarr.json"])["codecs"] == said["codecs"]
    again = terrazzo.open_array(store)
    assert again[1, 2] == 99
    assert np.count_nonzero(again[...] != VALUES) == 1
    tail = store["c/0/0"][-4:]
    assert (crc32c(store["c/0/0"][-68:-4]).to_bytes(4, "little") == tail) is checked


def test_without_shards_indexes_get_their_checksum() -> None:
    said = document(codecs=[{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 2]}}])
    store = {"zarr.json": json.dumps(said).encode()}
    array = terrazzo.open_array(store)
    array[...] = VALUES
    assert store["c/0/0"][-4:] == crc32c(store["c/0/0"][-68:-4]).to_bytes(4, "little")


def test_the_serializer_may_be_missing_where_that_is_asked_for() -> None:
    said = document(codecs=[{"name": "gzip", "configuration": {"level": 1}}])
    store: dict[str, bytes] = {"zarr.json": json.dumps(said).encode()}
    terrazzo.open_array(store)[...] = VALUES
    assert terrazzo.open_array(store)[3, 3] == 15
    del said["codecs"]
    store = {"zarr.json": json.dumps(said).encode(), "c/0/0": VALUES.tobytes()}
    with pytest.raises(MetadataError, match="codecs: is missing"):
        terrazzo.open_array(store)
    with pytest.warns(TerrazzoWarning, match="codecs: is missing"):
        array = terrazzo.open_array(store, config={"strict": False})
    np.testing.assert_array_equal(array[...], VALUES)


def test_the_rectangular_grid_is_the_rectilinear_one() -> None:
    grid = {"name": "rectangular", "configuration": {"chunk_shape": [[1, 3], 2]}}
    said = document(chunk_grid=grid, codecs=[ENDIAN])
    store = {"zarr.json": json.dumps(said).encode()}
    with pytest.warns(TerrazzoWarning, match="rectangular"):
        array = terrazzo.open_array(store)
    array[...] = VALUES
    assert store["c/1/0"] == VALUES[1:, :2].tobytes()


@pytest.mark.parametrize("member", ["origin", "offset"])
def test_a_grid_that_starts_elsewhere_is_refused_by_name(member: str) -> None:
    grid = {"name": "regular", "configuration": {"chunk_shape": [2, 2], member: [-2, 0]}}
    store = {"zarr.json": json.dumps(document(chunk_grid=grid, codecs=[ENDIAN])).encode()}
    with pytest.raises(MetadataError, match=f"configuration.{member}: .*start at zero"):
        terrazzo.open_array(store)
