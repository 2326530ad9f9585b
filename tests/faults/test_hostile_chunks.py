"""Stored chunks changed at random, through every codec that has its own way of reading them: values, or an error of
terrazzo's own tree; and no more memory than chunks have."""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.errors import ShardError, TerrazzoError
from terrazzo.stores.memory import MemoryStore

TURNS = 150
TEXT = np.array(["", "a", "ä" * 9, "some words"] * 24, object).astype(np.dtypes.StringDType()).reshape(8, 12)
NUMBERS = (np.arange(96) // 5).astype("f4").reshape(8, 12)

PIPES: list[list[Any]] = [
    [],
    ["zstd:1"],
    ["gzip:1"],
    ["blosc"],
    ["gzip:1", "zstd:1"],
    ["crc32c", "gzip:1"],
    [{"name": "numcodecs.zlib", "configuration": {"level": 1}}],
    [{"name": "numcodecs.bz2", "configuration": {"level": 1}}],
    [{"name": "numcodecs.lzma", "configuration": {}}],
    [{"name": "numcodecs.lz4", "configuration": {}}],
    [{"name": "numcodecs.shuffle", "configuration": {"elementsize": 4}}],
    [{"name": "numcodecs.fletcher32", "configuration": {}}],
    [{"name": "numcodecs.adler32", "configuration": {}}, "zstd:1"],
    [
        {"name": "numcodecs.lz4", "configuration": {}},
        {"name": "numcodecs.bz2", "configuration": {"level": 1}},
    ],
]
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
NESTED = {
    "name": "sharding_indexed",
    "configuration": {
        "chunk_shape": [2, 3],
        "codecs": ["bytes", "zstd:1", "crc32c"],
        "index_codecs": [LITTLE, {"name": "crc32c"}],
        "index_location": "start",
    },
}
SERIALIZERS: list[tuple[Any, str]] = [
    (None, "f4"),
    ({"name": "packbits", "configuration": {"padding_encoding": "first_byte"}}, "bool"),
    ({"name": "bytes", "configuration": {"endian": "big"}}, "bool"),
    ({"name": "bytes", "configuration": {"endian": "big"}}, "c16"),
    (None, "T"),
    (None, "M8[s]"),
    (None, "S5"),
    (None, "U3"),
    ({"name": "numcodecs.pcodec", "configuration": {}}, "f4"),
    (NESTED, "f4"),
]


def value_of(dtype: str) -> Any:
    if dtype == "T":
        return TEXT
    return NUMBERS.astype("i8").astype(dtype) if dtype == "M8[s]" else NUMBERS.astype(dtype)


def changed(stored: bytes, dice: random.Random) -> bytes:
    bad = bytearray(stored)
    for _ in range(dice.choice([1, 1, 2, 4])):
        if not bad:
            break
        at, kind = dice.randrange(len(bad)), dice.randrange(6)
        if kind == 0:
            del bad[at:]
        elif kind == 1:
            bad[at:at] = dice.randbytes(dice.choice([1, 4, 16]))
        elif kind == 2:
            bad[at : at + 4] = dice.choice([b"\xff" * 4, bytes(4), b"\xff\xff\xff\x7f"])
        else:
            bad[at] ^= dice.randrange(1, 256)
    return bytes(bad)


def outcomes(
    turns: int, seed: int, shards: Any, compressors: Any, serializer: Any, dtype: str
) -> tuple[int, int]:
    """(values read, errors); anything but an error of our tree is raised."""
    store, dice = MemoryStore(), random.Random(f"{seed} {shards} {compressors} {serializer} {dtype}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = terrazzo.create_array(
            store,
            shape=(8, 12),
            dtype=np.dtypes.StringDType() if dtype == "T" else dtype,
            chunks=(4, 6),
            shards=shards,
            compressors=compressors,
            **({} if serializer is None else {"serializer": serializer}),
        )
    array[...] = value_of(dtype)
    key = next(key for key in store.list() if key.startswith("c/"))
    whole = store.get(key)
    assert whole is not None
    read = errors = 0
    for _ in range(turns):
        store.set(key, changed(bytes(whole), dice))
        try:
            array[...] if dice.random() < 0.5 else array[0, ::5]
            read += 1
        except TerrazzoError as error:
            errors += key in str(error)
    assert read + errors == turns, "an error does not name the object"
    return read, errors


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("terrazzo.read.flow.time.sleep", lambda _: None)


def _needs(*named: Any) -> None:
    for package, words in {"numcodecs": ("lz4", "fletcher32"), "pcodec": ("pcodec",)}.items():
        if any(word in str(named) for word in words):
            pytest.importorskip(package)


@pytest.mark.parametrize("shards", [None, (8, 12)], ids=["plain", "sharded"])
@pytest.mark.parametrize("compressors", PIPES, ids=str)
def test_compressors(compressors: list[Any], shards: Any) -> None:
    _needs(compressors)
    _, errors = outcomes(TURNS, 1, shards, compressors, None, "f4")
    assert errors > TURNS // 10


@pytest.mark.parametrize("shards", [None, (8, 12)], ids=["plain", "sharded"])
@pytest.mark.parametrize("serializer, dtype", SERIALIZERS, ids=str)
def test_serializers(serializer: Any, dtype: str, shards: Any) -> None:
    _needs(serializer)
    _, errors = outcomes(TURNS, 2, shards, [], serializer, dtype)
    assert errors > TURNS // 10


@pytest.mark.parametrize("length", [0, 5, 60, 67])
def test_a_shard_in_a_shard_that_is_cut_names_its_place(length: int) -> None:
    store = MemoryStore()
    how: dict[str, Any] = {"shape": (8, 12), "dtype": "f4", "chunks": (4, 6), "compressors": []}
    array = terrazzo.create_array(store, serializer=NESTED, **how)
    array[...] = NUMBERS
    whole = store.get("c/0/1")
    assert whole is not None
    store.set("c/0/1", whole[:length])
    with pytest.raises(ShardError, match="'c/0/1'"):
        array[...]
    with pytest.raises(ShardError, match="'c/0/1'"):
        array[0, 7] = 3
