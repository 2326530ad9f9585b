"""Extensions that are only proposed: refused with the setting that takes them, and read and written where it does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import terrazzo
from terrazzo.chunk_keys import DefaultKeys, FanoutKeys, SuffixKeys, V2Keys
from terrazzo.codecs import Chain, ChunkSpec
from terrazzo.errors import MetadataError, TerrazzoError
from terrazzo.metadata import data_type_from_json
from terrazzo.options import DRAFTS, Options
from terrazzo.storage import MemoryStore
from terrazzo.stores.watching import CountingStore

ZARRS = Path(__file__).resolve().parent / "fixtures" / "documents" / "zarrs" / "v3"
ALL = {"drafts": "all"}
VALUES = np.arange(63, dtype="i4").reshape(9, 7)
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}


def optional(inner: str) -> dict[str, Any]:
    return {"name": "optional", "configuration": {"name": inner, "configuration": {}}}


def optional_codec(*codecs: Any) -> dict[str, Any]:
    members = {"mask_codecs": [{"name": "packbits"}], "data_codecs": list(codecs)}
    return {"name": "optional", "configuration": members}


def sharded(*chunk_shape: int, where: str = "end") -> dict[str, Any]:
    configuration = {
        "chunk_shape": list(chunk_shape),
        "codecs": [LITTLE, {"name": "zstd", "configuration": {"level": 1}}],
        "index_codecs": [LITTLE, {"name": "crc32c"}],
        "index_location": where,
    }
    return {"name": "sharding_indexed", "configuration": configuration}


MAKERS: dict[str, dict[str, Any]] = {
    "suffix": {
        "data": VALUES,
        "chunks": (2, 3),
        "chunk_key_encoding": {"name": "suffix", "configuration": {"suffix": ".bin"}},
    },
    "fanout": {"data": VALUES, "chunks": (2, 3), "chunk_key_encoding": {"name": "fanout"}},
    "clipped": {"data": VALUES, "chunks": (4, 5), "codecs": [sharded(3, 2)]},
    "optional": {"shape": 9, "chunks": 4, "dtype": optional("int16"), "codecs": [optional_codec(LITTLE)]},
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_draft_is_refused_with_the_setting_that_takes_it(name: str) -> None:
    store: dict[str, bytes] = {}
    with pytest.raises(MetadataError, match=rf"drafts=\[.{name}.\]"):
        terrazzo.create_array(store, **MAKERS[name])
    assert store == {}
    terrazzo.create_array(store, **MAKERS[name], config={"drafts": [name]})
    with pytest.raises(MetadataError, match=rf"drafts=\[.{name}.\]"):
        terrazzo.open_array(store)
    others = [one for one in DRAFTS if one != name]
    with pytest.raises(MetadataError, match=name if name != "clipped" else "chunk_shape"):
        terrazzo.open_array(store, config={"drafts": others})
    with terrazzo.config.set({"drafts": name}):
        found = terrazzo.open_array(store)
    if "data" in MAKERS[name]:
        np.testing.assert_array_equal(found[...], VALUES)


def test_the_setting_takes_names_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Options().drafts == ()
    assert set(MAKERS) == set(DRAFTS)
    for wrong in ("sufix", ["optional", "x"], 3):
        with pytest.raises(ValueError, match="drafts"):
            terrazzo.config.set({"drafts": wrong})
    with terrazzo.config.set({"drafts": ["suffix", "optional"]}):
        assert terrazzo.config.options().drafts == ("optional", "suffix")
    monkeypatch.setenv("TERRAZZO_DRAFTS", '["fanout"]')
    terrazzo.config.reset()
    assert terrazzo.config.options().drafts == ("fanout",)
    monkeypatch.delenv("TERRAZZO_DRAFTS")
    terrazzo.config.reset()


# chunk keys


@pytest.mark.parametrize(
    ("keys", "index", "key"),
    [
        (SuffixKeys(".tif"), (1, 0), "c/1/0.tif"),
        (SuffixKeys(".shard.zip", V2Keys(".")), (1, 0), "1.0.shard.zip"),
        (SuffixKeys(".x"), (), "c.x"),
        (FanoutKeys(), (), "c"),
        (FanoutKeys(), (0,), "c/0/000"),
        (FanoutKeys(), (1234, 5, 0, 6789012), "c/1/001/234/0/005/0/000/2/006/789/012"),
        (FanoutKeys(100), (100, 99), "c/1/01/00/0/99"),
        (FanoutKeys(1234), (1000,), "c/1/001/000"),
    ],
)
def test_keys_of_the_proposals(keys: Any, index: tuple[int, ...], key: str) -> None:
    assert keys.key(index) == key
    assert keys.parse(key, len(index)) == index


@given(
    index=st.lists(st.integers(0, 2**63 - 1), max_size=4),
    keys=st.sampled_from([FanoutKeys(), FanoutKeys(100), FanoutKeys(10**9), SuffixKeys("0", V2Keys("/"))]),
)
def test_every_index_comes_back(index: list[int], keys: Any) -> None:
    assert keys.parse(keys.key(index), len(index)) == tuple(index)


@given(
    key=st.text(alphabet="c0123456789/.-", max_size=24),
    ndim=st.integers(0, 3),
    keys=st.sampled_from(
        [FanoutKeys(), FanoutKeys(100), SuffixKeys(".1"), SuffixKeys("0", DefaultKeys("."))]
    ),
)
def test_any_key_is_of_one_index_or_of_none(key: str, ndim: int, keys: Any) -> None:
    index = keys.parse(key, ndim)
    assert index is None or keys.key(index) == key


@pytest.mark.parametrize(
    ("encoding", "place"),
    [
        ({"name": "suffix"}, "configuration.suffix"),
        ({"name": "suffix", "configuration": {"suffix": ""}}, "configuration.suffix"),
        ({"name": "suffix", "configuration": {"suffix": "/../x"}}, "configuration.suffix"),
        ({"name": "suffix", "configuration": {"suffix": 3}}, "configuration.suffix"),
        ({"name": "suffix", "configuration": {"suffix": ".a", "more": 1}}, "configuration.more"),
        ({"name": "suffix", "configuration": {"suffix": ".a", "base_encoding": 3}}, "base_encoding"),
        ({"name": "suffix", "configuration": {"suffix": ".a", "base_encoding": "x"}}, "base_encoding"),
        (
            {"name": "suffix", "configuration": {"suffix": ".a", "base_encoding": {"name": "suffix"}}},
            "base_encoding",
        ),
        (
            {
                "name": "suffix",
                "configuration": {
                    "suffix": ".a",
                    "base_encoding": {"name": "v2", "configuration": {"separator": "-"}},
                },
            },
            "separator",
        ),
        ({"name": "fanout", "configuration": {"max_children": 99}}, "max_children"),
        ({"name": "fanout", "configuration": {"max_children": True}}, "max_children"),
        ({"name": "fanout", "configuration": {"separator": "/"}}, "separator"),
    ],
)
def test_wrong_encodings_are_told_with_their_place(encoding: dict[str, Any], place: str) -> None:
    with pytest.raises(MetadataError, match=place):
        terrazzo.create_array({}, data=VALUES, chunk_key_encoding=encoding, config=ALL)


def test_both_spellings_of_the_base() -> None:
    for member in ("base_encoding", "base-encoding"):
        encoding = {"name": "suffix", "configuration": {"suffix": ".a", member: {"name": "v2"}}}
        store: dict[str, bytes] = {}
        terrazzo.create_array(store, data=VALUES, chunks=(9, 7), chunk_key_encoding=encoding, config=ALL)
        assert "0.0.a" in store


# optional


def test_what_zarrs_wrote() -> None:
    plain = terrazzo.open_array(ZARRS / "array_optional.zarr" / "array", mode="r", config=ALL)
    found = plain[...]
    wanted = [[0, None, 2, 3], [None, 5, None, 7], [8, 9, None, None], [12, None, None, None]]
    assert [[one["value"].item() if one["present"] else None for one in row] for row in found] == wanted
    nested = terrazzo.open_array(ZARRS / "array_optional_nested.zarr" / "array", mode="r", config=ALL)
    assert nested.fill_value["present"]
    assert not nested.fill_value["value"]["present"]
    absent, inside = "N", "SN"
    shown = [
        [
            absent
            if not one["present"]
            else one["value"]["value"].item()
            if one["value"]["present"]
            else inside
            for one in row
        ]
        for row in nested[...]
    ]
    assert shown == [
        [absent, inside, 2, 3],
        [absent, 5, absent, 7],
        [inside, inside, absent, absent],
        [inside, inside, absent, absent],
    ]


@pytest.mark.parametrize("inner", ["uint8", "int16", "float64", "complex64", "bool"])
def test_optional_values_come_back(inner: str) -> None:
    store: dict[str, bytes] = {}
    codec = optional_codec({"name": "bytes"} if inner in ("uint8", "bool") else LITTLE)
    array = terrazzo.create_array(
        store, shape=(9, 5), chunks=(4, 3), dtype=optional(inner), codecs=[codec], fill_value=None, config=ALL
    )
    values = np.zeros((9, 5), array.dtype)
    values["present"] = np.arange(45).reshape(9, 5) % 3 == 1
    values["value"] = np.where(values["present"], np.arange(45).reshape(9, 5), 0)
    array[...] = values
    again = terrazzo.open_array(store, config=ALL)
    assert again[...].tobytes() == values.tobytes()
    again[2:5, 1:4] = values[0, 0]
    assert not again[2:5, 1:4]["present"].any()
    masked = np.ma.array(again[...]["value"], mask=~again[...]["present"])
    assert masked.count() == again[...]["present"].sum()
    assert json.loads(store["zarr.json"])["fill_value"] is None


def test_optional_has_no_form_elsewhere() -> None:
    made = terrazzo.create_array({}, **MAKERS["optional"], config=ALL)
    for form in ({"zarr_format": 2}, {"dialect": "P"}, {"dialect": "D"}):
        with pytest.raises((MetadataError, TypeError)):
            terrazzo.from_array({}, data=made, config=ALL, **form)
    with pytest.raises(MetadataError, match="bytes cannot encode"):
        terrazzo.create_array({}, shape=3, dtype=optional("int16"), codecs=[LITTLE], config=ALL)
    with pytest.raises(MetadataError, match="optional alone"):
        terrazzo.create_array({}, shape=3, dtype="i2", codecs=[optional_codec(LITTLE)], config=ALL)


@settings(max_examples=80, deadline=None)
@given(chunk=st.binary(max_size=40))
def test_any_bytes_are_optional_values_or_refused(chunk: bytes) -> None:
    data_type = data_type_from_json(optional("int16"))
    spec = ChunkSpec((4,), data_type, data_type.default_fill())
    codec = Chain.build([optional_codec(LITTLE)], spec, drafts=("optional",))
    for content in (chunk, b"\1" + bytes(7) + chunk, b"\1" + bytes(7) + b"\4" + bytes(7) + chunk):
        try:
            assert codec.decode(content).shape == (4,)
        except TerrazzoError:
            pass


# inner chunks that overhang their shard


def boxes(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    edges = [[(0, n), (1, n - 1), (n // 2, n // 2 + 1)] for n in shape]
    return (tuple(slice(*one) for one in chosen) for chosen in product(*edges))


@pytest.mark.parametrize("where", ["start", "end"])
@pytest.mark.parametrize(
    ("shard", "inner"), [((4, 5), (3, 2)), ((9, 7), (4, 4)), ((5, 4), (5, 3)), ((2, 2), (3, 3))]
)
def test_shards_whose_chunks_overhang(shard: tuple[int, int], inner: tuple[int, int], where: str) -> None:
    store: dict[str, bytes] = {}
    array = terrazzo.create_array(
        store,
        shape=(9, 7),
        dtype="i4",
        chunks=shard,
        codecs=[sharded(*inner, where=where)],
        fill_value=-1,
        config=ALL,
    )
    model = np.full((9, 7), -1, "i4")
    for number, box in enumerate(boxes((9, 7))):
        array[box] = number
        model[box] = number
        again = terrazzo.open_array(store, config=ALL)
        np.testing.assert_array_equal(again[...], model)
        np.testing.assert_array_equal(again[box], model[box])
    assert json.loads(store["zarr.json"])["codecs"][0]["configuration"]["chunk_shape"] == list(inner)


def test_clipped_chunks_are_cut_and_not_padded() -> None:
    store: dict[str, bytes] = {}
    configuration = {"chunk_shape": [3], "codecs": [LITTLE], "index_codecs": [LITTLE]}
    codec = {"name": "sharding_indexed", "configuration": configuration}
    terrazzo.create_array(store, data=np.arange(4, dtype="<i4"), chunks=4, codecs=[codec], config=ALL)
    index = np.array([[0, 12], [12, 4]], "<u8").tobytes()
    assert store["c/0"] == np.arange(4, dtype="<i4").tobytes() + index


def test_a_part_of_such_a_shard_is_read_by_ranges() -> None:
    below = MemoryStore()
    terrazzo.create_array(below, data=VALUES, chunks=(9, 7), codecs=[sharded(4, 3)], config=ALL)
    counting = CountingStore(below)
    array = terrazzo.open_array(counting, mode="r", config=ALL)
    counting.reset()
    assert array[8, 6] == VALUES[8, 6]
    assert counting.round_trips <= 3
    assert counting.counts.read_nbytes < len(below.get("c/0/0") or b"")


def test_damaged_clipped_shards_are_told() -> None:
    store: dict[str, bytes] = {}
    terrazzo.create_array(store, data=VALUES, chunks=(9, 7), codecs=[sharded(4, 3)], config=ALL)
    whole = store["c/0/0"]
    for damaged in (b"", whole[:20], whole[:-1], bytes(len(whole)), whole[:-8] + bytes(8)):
        store["c/0/0"] = damaged
        with pytest.raises(TerrazzoError):
            terrazzo.open_array(store, config=ALL)[...]
        with pytest.raises(TerrazzoError):
            terrazzo.open_array(store, config=ALL)[1, 1]


def test_a_shard_in_such_a_shard_and_edges_of_many_sizes() -> None:
    store: dict[str, bytes] = {}
    inner = sharded(3, 2)
    outer = {
        "name": "sharding_indexed",
        "configuration": {**sharded(5, 4)["configuration"], "codecs": [inner]},
    }
    terrazzo.create_array(store, data=VALUES, chunks=(9, 7), codecs=[outer], config=ALL)
    np.testing.assert_array_equal(terrazzo.open_array(store, config=ALL)[...], VALUES)
    store = {}
    terrazzo.create_array(store, data=VALUES, chunks=[[4, 5], [2, 5]], codecs=[sharded(2, 2)], config=ALL)
    array = terrazzo.open_array(store, config=ALL)
    np.testing.assert_array_equal(array[...], VALUES)
    np.testing.assert_array_equal(array[3:6, 1:6], VALUES[3:6, 1:6])
