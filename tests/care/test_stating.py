"""Shards that a document lost: stated again where the stored bytes agree, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.care import state_shards
from terrazzo.cli import main
from terrazzo.errors import ShardError, UnsupportedError

VALUES = np.arange(63.0).reshape(9, 7)
DOCUMENT = "meta/root/x.array.json"


def lost(store: Any = None) -> Any:
    """As zarr-python left it after a resize."""
    store = {} if store is None else store
    terrazzo.create_array(
        store, name="x", data=VALUES, chunks=(2, 3), shards=(4, 6), dialect="P", attributes={"a": 1}
    )
    if isinstance(store, dict):
        said = json.loads(store[DOCUMENT])
        del said["storage_transformers"]
        store[DOCUMENT] = json.dumps(said).encode()
    else:
        said = json.loads((store / DOCUMENT).read_text())
        del said["storage_transformers"]
        (store / DOCUMENT).write_text(json.dumps(said))
    return store


def test_right_counts_are_written_down() -> None:
    store = lost()
    assert state_shards(store, (2, 2), path="x").shards == (4, 6)
    array = terrazzo.open_array(store, path="x", mode="r")
    assert array.shards == (4, 6)
    assert array.attrs.asdict() == {"a": 1}
    np.testing.assert_array_equal(array[...], VALUES)
    with pytest.raises(UnsupportedError, match="nothing was lost"):
        state_shards(store, (2, 2), path="x")


@pytest.mark.parametrize("counts", [(1, 2), (2, 1), (4, 4), (3, 2)])
def test_wrong_counts_write_nothing(counts: tuple[int, int]) -> None:
    store = lost()
    before = dict(store)
    with pytest.raises(ShardError, match="nothing was written"):
        state_shards(store, counts, path="x")
    assert store == before


def test_only_the_draft_can_lose_them() -> None:
    store: dict[str, bytes] = {}
    terrazzo.create_array(store, data=VALUES)
    with pytest.raises(UnsupportedError, match="draft"):
        state_shards(store, (2, 2))


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "x.zarr"
    lost(place)
    assert main(["repair", str(place), "--path", "x", "--chunks-per-shard", "3,2"]) != 0
    assert main(["repair", str(place), "--path", "x", "--chunks-per-shard", "2,2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["shards"] == [4, 6]
    assert terrazzo.open_array(place, path="x", mode="r").shards == (4, 6)
