"""cat --explain: what a read asks of the store, as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.arrays.explain import Explainer
from terrazzo.cli import main
from terrazzo.stores.open import register_opener
from tests.stores.far import FarStore

VALUES = np.random.default_rng(3).integers(0, 1 << 16, (64, 64), np.uint16)


def explained(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, str]:
    assert main(["cat", *argv, "--explain"]) == 0
    return dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())


def test_a_shard_on_a_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "a.zarr")
    terrazzo.save_array(path, VALUES, chunks=(8, 8), shards=(32, 32), compressors=None)
    found = {key: value.strip() for key, value in explained(capsys, path, "0:8,0:40").items()}
    index = 16 * 16 + 4
    assert found == {
        "requests to open": "1",
        "shards": "2, stored 2",
        "inner chunks": "5, stored 5",
        "indexes remembered": "0",
        "requests": "2 (open 2)",
        "round trips": "1",
        "bytes fetched": f"{2 * index:,}",
        "bytes without requests": f"{5 * 128:,}",
        "bytes needed": f"{5 * 128:,}",
    }


def test_json_of_a_plain_array(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "a.zarr")
    array = terrazzo.create_array(path, shape=(64, 64), chunks=(32, 32), dtype="uint16", compressors=None)
    array[:32] = VALUES[:32]
    assert main(["cat", path, "--explain", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {
        "opening_requests": 1,
        "objects": 4,
        "stored_objects": 2,
        "chunks": 4,
        "stored_chunks": 2,
        "remembered": 0,
        "requests": {"open": 4},
        "round_trips": 1,
        "fetched_nbytes": 0,
        "direct_nbytes": 4096,
        "needed_nbytes": 4096,
    }


@pytest.fixture
def far() -> FarStore:
    store = FarStore()
    terrazzo.save_array(store, VALUES, chunks=(4, 4), shards=(32, 32), compressors=None, fill_value=0)
    return store


def test_reads_over_a_network(far: FarStore) -> None:
    # shards of 64 inner chunks of 32 bytes are small: each comes whole
    explainer = Explainer(terrazzo.open_array(far, mode="r"))
    np.testing.assert_array_equal(explainer.read((slice(0, 8), slice(0, 4))), VALUES[:8, :4])
    first = explainer.explained
    assert (first.requests, first.round_trips, first.remembered) == ({"open": 1}, 1, 0)
    assert (first.chunks, first.needed_nbytes, first.fetched_nbytes) == (2, 64, 64 * 32 + 64 * 16 + 4)
    with far.watched() as seen:
        explainer.read((slice(0, 8), slice(0, 4)))
    second = explainer.explained
    assert (second.requests, second.round_trips, second.remembered) == (
        {"open": 1, "fetch": seen.count},
        2,
        1,
    )
    assert second.fetched_nbytes - first.fetched_nbytes == seen.read
    assert (second.needed_nbytes, second.direct_nbytes) == (128, 0)


def test_what_is_not_stored_is_told(far: FarStore) -> None:
    array = terrazzo.open_array(far, mode="r+")
    array[:32, :32] = 0
    array[32:40, :8] = 0
    explainer = Explainer(terrazzo.open_array(far, mode="r"))
    explainer.read(...)
    found: Any = explainer.explained
    assert (found.objects, found.stored_objects) == (4, 3)
    assert (found.chunks, found.stored_chunks) == (256, 64 * 3 - 4)
    assert found.needed_nbytes == 32 * found.stored_chunks


def test_the_command_over_a_network(far: FarStore, capsys: pytest.CaptureFixture[str]) -> None:
    register_opener("far-explained", lambda url, mode, options: (far, ""))
    assert main(["cat", "far-explained://x", "0:8,0:4", "--explain", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["opening_requests"], found["requests"]) == (1, {"open": 1})


@pytest.fixture
def hierarchy() -> FarStore:
    """Three groups of four arrays each, and an array beside them."""
    store = FarStore()
    root = terrazzo.create_group(store)
    for name in "abc":
        group = root.create_group(name)
        for number in range(4):
            array = group.create_array(f"x{number}", shape=(64,), chunks=(8,), shards=(32,), dtype="uint16")
            array[...] = VALUES[0]
    root.create_array("top", shape=(4,), dtype="uint8")
    register_opener("far-tree", lambda url, mode, options: (store, ""))
    return store


def test_a_tree_over_a_network(hierarchy: FarStore, capsys: pytest.CaptureFixture[str]) -> None:
    """A document of every node, a listing of every group, and nothing of an array but its document."""
    with hierarchy.watched() as seen:
        assert main(["tree", "far-tree://x"]) == 0
    drawn = capsys.readouterr().out
    assert (seen.of("GET"), seen.of("LIST"), seen.count) == (17, 4, 21)
    assert {key.rpartition("/")[2] for method, key, _ in seen.requests if method == "GET"} == {"zarr.json"}
    assert seen.round_trips == 3 + 4  # the documents of a level come together
    with hierarchy.watched() as seen:
        assert main(["tree", "far-tree://x", "-L", "1"]) == 0
    assert (seen.of("GET"), seen.of("LIST")) == (5, 1)
    capsys.readouterr()
    terrazzo.consolidate_metadata(hierarchy)
    for arguments in ([], ["--json"], ["-L", "1"]):
        with hierarchy.watched() as seen:
            assert main(["tree", "far-tree://x", *arguments]) == 0
        assert (seen.count, seen.round_trips) == (1, 1)
        if not arguments:
            assert capsys.readouterr().out == drawn


def test_an_index_that_is_not_kept_leaves_the_need_unknown(far: FarStore) -> None:
    explainer = Explainer(terrazzo.open_array(far, mode="r", config={"index_cache_nbytes": 0}))
    explainer.read(...)
    assert explainer.explained.needed_nbytes is None
