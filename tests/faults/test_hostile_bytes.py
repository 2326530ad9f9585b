"""Stored bytes that lie, in every place of a chain: bombs before and behind other codecs, entries at the edges of their
numbers, files that are cut under a reader.

What they have in common: an error of terrazzo's own tree that names the object and the inner chunk, soon, and no
memory for what is only claimed. One case of each kind of attack is in test_attack_table.py; here are their relatives.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.errors import CodecError, ShardError, TerrazzoError
from terrazzo.stores.local import LocalStore
from tests.faults.hostile import BYTES, MISSING, bombs, document, shard, sharded

#: bytes above what a process has before a bomb is read
BOUND = 64 << 20
BOMBS = bombs()
ROOT = Path(__file__).parents[2]

MEASURE = """
import json, pathlib, sys
import terrazzo
from tests.faults.hostile import bombs, document, shard, sharded
status, peak = pathlib.Path("/proc/self/status"), pathlib.Path("/proc/self/clear_refs")
def line(name):
    return next(int(text.split()[1]) << 10 for text in status.read_text().splitlines() if text.startswith(name))
sys.modules["terrazzo.read.flow"].time.sleep = lambda _: None
answers = {}
for name, (codecs, encoded) in bombs().items():
    for kind in ("plain", "sharded"):
        if kind == "plain":
            chain, stored, chunk = [{"name": "bytes"}, *codecs], encoded, [8]
        else:
            chain = sharded([{"name": "bytes"}, *codecs], chunk=8)
            stored, chunk = shard([(0, len(encoded)), (2**64 - 1, 2**64 - 1)], encoded), [16]
        grid = {"name": "regular", "configuration": {"chunk_shape": chunk}}
        text = document(shape=[16], data_type="uint8", chunk_grid=grid, codecs=chain)
        try:
            array = terrazzo.open_array({"zarr.json": text, "c/0": stored}, mode="r")
        except terrazzo.errors.UnknownCodecError:
            continue
        if peak.exists():
            peak.write_text("5")
        before = line("VmRSS:") if peak.exists() else 0
        try:
            array[0:8]
            answer = ["nothing", ""]
        except Exception as error:
            answer = [type(error).__name__, str(error)]
        answers[f"{name}, {kind}"] = [*answer, (line("VmHWM:") - before) if peak.exists() else 0]
json.dump(answers, sys.stdout)
"""


@pytest.fixture(scope="module")
def measured() -> dict[str, list[Any]]:
    """What each bomb did in another process: the error's class, its sentence, the peak of memory above the base."""
    made = subprocess.run(
        [sys.executable, "-c", MEASURE], capture_output=True, text=True, timeout=300, cwd=ROOT
    )
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout)  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", ["plain", "sharded"])
@pytest.mark.parametrize("name", BOMBS)
def test_bombs(measured: dict[str, list[Any]], name: str, kind: str) -> None:
    if "lz4" in name:
        pytest.importorskip("numcodecs")
    error, text, peak = measured[f"{name}, {kind}"]
    assert error == "CodecError", text
    assert "c/0" in text
    assert kind == "plain" or "inner chunk (0,)" in text
    assert peak < BOUND, f"{peak / (1 << 20):.0f} MiB"


def opened(stored: bytes, codecs: list[dict[str, Any]] | None = None) -> terrazzo.Array:
    """An array of one shard of 8 int32 in inner chunks of 2, stored as these bytes."""
    grid = {"name": "regular", "configuration": {"chunk_shape": [8]}}
    text = document(shape=[8], chunk_grid=grid, codecs=sharded() if codecs is None else codecs)
    return terrazzo.open_array({"zarr.json": text, "c/0": stored}, mode="r")


GOOD = [(8 * k, 8) for k in range(4)]
BODY = np.arange(8, dtype="<i4").tobytes()


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("terrazzo.read.flow.time.sleep", lambda _: None)


@pytest.mark.parametrize("location", ["start", "end"])
def test_a_good_shard_is_read(location: str) -> None:
    entries = [(offset + 68 * (location == "start"), nbytes) for offset, nbytes in GOOD]
    array = opened(shard(entries, BODY, location), sharded(location=location))
    assert np.array_equal(array[...], np.arange(8))


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("location", ["start", "end"])
@pytest.mark.parametrize(
    "entry",
    [
        pytest.param((200, 8), id="past the end"),
        pytest.param((99, 8), id="starts inside, ends past the end"),
        pytest.param((2**40, 8), id="far past the end"),
        pytest.param((68, 2**62), id="2^62 bytes"),
        pytest.param((0, 2**64 - 2), id="as many bytes as can be said"),
        pytest.param((2**63, 2**63 + 8), id="a sum that wraps to 8"),
        pytest.param((2**64 - 8, 16), id="a sum that wraps into the shard"),
        pytest.param((2**63 - 4, 8), id="a sum past int64"),
        pytest.param((MISSING, 8), id="no offset, 8 bytes"),
        pytest.param((68, MISSING), id="an offset, no length"),
        pytest.param((68, 0), id="no bytes"),
    ],
)
def test_entries_at_the_edges_of_their_numbers(entry: tuple[int, int], location: str, whole: bool) -> None:
    base = 68 if location == "start" else 0
    entries = [(offset + base, nbytes) for offset, nbytes in GOOD]
    entries[2] = entry
    array = opened(shard(entries, BODY, location), sharded(location=location))
    with pytest.raises(ShardError, match="cannot be right") as caught:
        array[...] if whole else array[4:5]
    assert "'c/0'" in str(caught.value) and "inner chunk (2,)" in str(caught.value)


def test_many_chunks_in_one_range_cost_one_chunk_each() -> None:
    """All 2^15 inner chunks are the same 60 KB: 2 GiB if they were read or decoded ahead of their turn."""
    zstd = {"name": "zstd", "configuration": {"level": 1, "checksum": False}}
    payload = np.random.default_rng(1).bytes(60_000)
    encoded = terrazzo._kernel.Pipe([("zstd", 1, False)]).encode(payload + bytes(5536))
    n = 1 << 15
    text = document(
        shape=[n << 16],
        data_type="uint8",
        chunk_grid={"name": "regular", "configuration": {"chunk_shape": [n << 16]}},
        codecs=sharded([{"name": "bytes"}, zstd], chunk=1 << 16),
    )
    array = terrazzo.open_array({"zarr.json": text, "c/0": shard([(0, len(encoded))] * n, encoded)}, mode="r")
    assert np.array_equal(array[:: 1 << 22], np.full(n >> 6, payload[0]))


@pytest.mark.parametrize("codecs", [[], ["zstd"], ["crc32c"], ["gzip", "crc32c"]], ids=str)
@pytest.mark.parametrize("change", [-1, 1, -7, 100])
def test_chunks_that_are_too_short_or_too_long(codecs: list[str], change: int) -> None:
    forms = {
        "zstd": {"name": "zstd", "configuration": {"level": 1, "checksum": False}},
        "gzip": {"name": "gzip", "configuration": {"level": 1}},
        "crc32c": {"name": "crc32c"},
    }
    steps = {"zstd": ("zstd", 1, False), "gzip": ("gzip", 1), "crc32c": ("crc32c",)}
    encoded = terrazzo._kernel.Pipe([steps[name] for name in codecs]).encode(bytes(8 + change))
    stored = shard([(0, len(encoded)), *[(MISSING, MISSING)] * 3], encoded)
    array = opened(stored, sharded([BYTES, *(forms[name] for name in codecs)]))
    with pytest.raises(CodecError, match="c/0") as caught:
        array[...]
    assert "inner chunk (0,)" in str(caught.value)


@pytest.mark.parametrize("compressors", [[], ["crc32c"], ["zstd:1"]], ids=str)
@pytest.mark.parametrize("left", [0, 40, 130])
def test_a_file_that_was_cut_after_its_index_was_read(
    tmp_path: Path, compressors: list[str], left: int
) -> None:
    with terrazzo.config.set({"immutable": True}):
        array = terrazzo.create_array(
            LocalStore(tmp_path), shape=(64,), chunks=(8,), shards=(64,), dtype="i4", compressors=compressors
        )
        array[...] = np.arange(1, 65)
        assert array[0] == 1  # the index is known from here on
        os.truncate(tmp_path / "c/0", left)
        with pytest.raises(TerrazzoError, match="c/0"):
            array[40:48]
