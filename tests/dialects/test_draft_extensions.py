"""The draft's points of extension: codecs and transformers of one's own by their addresses, what must be understood,
groups that are implied, stores that cannot list."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import pytest

import terrazzo
from terrazzo.codecs import ArrayArrayCodec, BytesBytesCodec, ChunkSpec, Context, registry
from terrazzo.errors import MetadataError, NodeNotFoundError, UnknownCodecError, UnsupportedError
from terrazzo.metadata import ArrayMetadata
from terrazzo.storage import MemoryStore
from terrazzo.stores.store import Store
from terrazzo.stores.wrappers import WrapperStore
from terrazzo.transformers import Transformer, register_transformer, transformer

VALUES = np.arange(63, dtype="i4").reshape(9, 7)
FLIP = "https://example.org/codecs/flip/1.0"
NEGATE = "https://example.org/codecs/negate"
HIDE = "https://example.org/transformers/hide/1.0"


class Flip(BytesBytesCodec):
    """Every bit turned."""

    name = FLIP

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        return cls()

    def configuration(self) -> dict[str, Any]:
        return {}

    def encode(self, buffer: Any) -> bytes:
        return bytes(255 - one for one in bytes(buffer))

    def decode(self, buffer: Any, limit: int) -> bytes:
        return self.encode(buffer)


class Negate(ArrayArrayCodec):
    name = NEGATE

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        return cls()

    def configuration(self) -> dict[str, Any]:
        return {}

    def resolve(self, spec: ChunkSpec, context: Context) -> ChunkSpec:
        return ChunkSpec(spec.shape, spec.data_type, np.asarray(-spec.fill))

    def encode(self, value: Any, spec: ChunkSpec) -> Any:
        return -value

    def decode(self, value: Any, spec: ChunkSpec) -> Any:
        return -value


class HidingStore(WrapperStore):
    """Chunks have a letter before them below."""


class Hide(Transformer):
    name: ClassVar[str] = HIDE
    wrapped: ClassVar[list[str]] = []

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        assert configuration == {"type": "plain", "depth": 2}
        return cls()

    def configuration(self) -> dict[str, Any]:
        return {"type": "plain", "depth": 2}

    def wrap(self, store: Store, path: str, metadata: ArrayMetadata) -> Store:
        self.wrapped.append(path)
        return HidingStore(store)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_codecs", {**registry._codecs, FLIP: Flip, NEGATE: Negate})


def store(way: str, **members: Any) -> dict[str, bytes]:
    """An array `x` of a hierarchy in one of both ways, to whose document members are added."""
    found: dict[str, bytes] = {}
    root = terrazzo.open_group(found, mode="w", dialect=way)
    root.create_array("x", data=VALUES, chunks=(9, 7), compressors=None)
    key = "meta/x.array.json" if way == "D" else "meta/root/x.array.json"
    found[key] = json.dumps({**json.loads(found[key]), **members}).encode()
    return found


RAW = VALUES.astype("<i4").tobytes()
FLIPPED = bytes(255 - one for one in RAW)
NEGATED = (-VALUES).astype("<i4").tobytes()


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("codecs", "chunk"),
    [
        ([FLIP], FLIPPED),
        ([NEGATE], NEGATED),
        ([NEGATE, FLIP], bytes(255 - one for one in NEGATED)),
        ([FLIP, FLIP], RAW),
    ],
)
def test_codecs_of_ones_own_are_known_by_their_address(codecs: list[str], chunk: bytes) -> None:
    found = store("D", codecs=[{"type": one, "configuration": {}} for one in codecs])
    found["data/x/c0/0"] = chunk
    array = terrazzo.open_array(found, path="x")
    np.testing.assert_array_equal(array[...], VALUES)
    array[3] = -1
    array.resize((9, 8))
    again = terrazzo.open_array(found, path="x", mode="r")
    assert again[3, 0] == -1
    assert [one["type"] for one in json.loads(found["meta/x.array.json"])["codecs"]] == codecs


@pytest.mark.usefixtures("known")
def test_a_compressor_of_ones_own_in_zarr_pythons_way() -> None:
    found = store("P", compressor={"codec": FLIP, "configuration": {}})
    found["data/root/x/c0/0"] = FLIPPED
    np.testing.assert_array_equal(terrazzo.open_array(found, path="x", mode="r")[...], VALUES)


@pytest.mark.usefixtures("known")
def test_it_is_written_under_its_address() -> None:
    found: dict[str, bytes] = {}
    terrazzo.create_array(found, data=VALUES, chunks=(9, 7), compressors=[{"name": FLIP}], dialect="D")
    assert json.loads(found["meta/array.json"])["codecs"] == [{"type": FLIP, "configuration": {}}]
    assert found["data/c0/0"] == FLIPPED


@pytest.mark.parametrize("way", ["P", "D"])
def test_unknown_codecs_and_transformers_are_refused_by_name(way: str) -> None:
    member: dict[str, Any] = {"codecs": [{"type": "https://example.org/codecs/none"}]}
    if way == "P":
        member = {"compressor": {"codec": "https://example.org/codecs/none"}}
    stored = "meta/x.array.json" if way == "D" else "meta/root/x.array.json"
    with pytest.raises(UnknownCodecError, match=f"^{stored}: codecs.*example.org/codecs/none") as caught:
        terrazzo.open_array(store(way, **member), path="x", mode="r")
    assert all(where.startswith(f"{stored}: ") for where, _ in caught.value.problems)
    unknown = [{"extension": "https://example.org/none", "type": "x", "configuration": {}}]
    with pytest.raises(MetadataError, match=f"^{stored}: storage_transformers.*example.org/none"):
        terrazzo.open_array(store(way, storage_transformers=unknown), path="x", mode="r")


@pytest.mark.parametrize("way", ["P", "D"])
def test_transformers_of_ones_own_stand_behind_the_shards(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformer, "_known", dict(transformer._known))
    register_transformer(Hide)
    Hide.wrapped.clear()
    stated = {"extension": HIDE, "type": "plain", "configuration": {"depth": 2}}
    sharding = {
        "extension": "https://purl.org/zarr/spec/storage_transformers/sharding/1.0",
        "type": "indexed",
        "configuration": {"chunks_per_shard": [1, 1]},
    }
    found = store(way, storage_transformers=[sharding, stated])
    array = terrazzo.open_array(found, path="x")
    array[...] = VALUES
    np.testing.assert_array_equal(terrazzo.open_array(found, path="x", mode="r")[...], VALUES)
    assert set(Hide.wrapped) == {"x"}
    array.attrs["a"] = 1
    key = "meta/x.array.json" if way == "D" else "meta/root/x.array.json"
    assert json.loads(found[key])["storage_transformers"] == [sharding, stated]
    with pytest.raises(MetadataError, match="nearer"):
        terrazzo.open_array(store(way, storage_transformers=[stated, sharding]), path="x", mode="r")


def test_one_at_run_time_is_a_store_around_the_store() -> None:
    """What keeps the layout, such as a cache, needs no word in a document."""

    class Remembering(WrapperStore):
        asked = 0

        def open(self, requests: Any) -> Any:
            type(self).asked += len(requests)
            return super().open(requests)

    below = MemoryStore()
    for key, value in store("P").items():
        below.set(key, value)
    array = terrazzo.open_array(Remembering(below), path="x", mode="r")
    np.testing.assert_array_equal(array[...], VALUES)
    assert Remembering.asked > 0


# what must be understood


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (
            {
                "metadata_encoding": {
                    "extension": "http://x/msgpack",
                    "type": "msgpack",
                    "metadata_key_suffix": ".mp",
                }
            },
            "x/msgpack",
        ),
        ({"metadata_encoding": {"type": "cbor", "metadata_key_suffix": ".cbor"}}, "cbor"),
        ({"metadata_encoding": {"type": "json", "metadata_key_suffix": "/x"}}, "suffix"),
        ({"extensions": [{"extension": "http://x/y", "must_understand": True}]}, "x/y"),
        ({"extensions": [{"extension": "http://x/y"}]}, "x/y"),
        ({"extensions": {}}, "extensions"),
    ],
)
def test_entry_points_that_cannot_be_read(change: dict[str, Any], named: str) -> None:
    found = store("D")
    found["zarr.json"] = json.dumps({**json.loads(found["zarr.json"]), **change}).encode()
    with pytest.raises(MetadataError, match=named):
        terrazzo.open(found, mode="r")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"chunk_grid": {"extension": "http://x/irregular", "type": "irregular"}}, "http://x/irregular"),
        ({"chunk_memory_layout": {"extension": "http://x/hilbert", "type": "hilbert"}}, "http://x/hilbert"),
        ({"extensions": [{"extension": "http://x/y", "must_understand": True}]}, "x/y"),
        ({"data_type": {"extension": "http://x/y", "type": "quaternion"}}, "quaternion"),
        ({"anything": 3}, "anything"),
    ],
)
def test_arrays_that_cannot_be_read(change: dict[str, Any], named: str) -> None:
    with pytest.raises(MetadataError, match=named):
        terrazzo.open_array(store("D", **change), path="x", mode="r")


# groups


@pytest.mark.parametrize("way", ["P", "D"])
def test_an_implied_group_outlives_what_implied_it(way: str) -> None:
    found: dict[str, bytes] = {}
    root = terrazzo.open_group(found, mode="w", dialect=way)
    root.create_array("a/b/x", data=VALUES)
    meta = "meta/root/" if way == "P" else "meta/"
    del found[f"{meta}a.group.json"], found[f"{meta}a/b.group.json"]
    root = terrazzo.open(found, mode="r+")
    del root["a/b/x"]
    assert [path for path, _ in root.members(None)] == ["a", "a/b"]
    assert f"{meta}a/b.group.json" in found
    del root["a"]
    assert list(root) == []


class Blind(WrapperStore):
    """A store that cannot list, as many web servers."""

    def __init__(self, below: Store) -> None:
        super().__init__(below)
        self.listable = False


@pytest.mark.parametrize("way", ["P", "D"])
def test_a_store_that_cannot_list(way: str) -> None:
    below = MemoryStore()
    root = terrazzo.open_group(below, mode="w", dialect=way)
    root.create_array("g/x", data=VALUES, chunks=(2, 3), shards=(4, 6))
    found = terrazzo.open_group(Blind(below), mode="r")
    with pytest.raises(UnsupportedError, match="list"):
        found.members()
    np.testing.assert_array_equal(found["g/x"][...], VALUES)
    np.testing.assert_array_equal(terrazzo.open_array(Blind(below), path="g/x", mode="r")[2:5], VALUES[2:5])
    with pytest.raises((NodeNotFoundError, KeyError)):
        found["g/none"]


@pytest.mark.parametrize(
    ("entry", "suffix"),
    [
        ({"metadata_encoding": {"type": "json", "metadata_key_suffix": ".json"}}, ".json"),
        ({"metadata_encoding": {"type": "json", "metadata_key_suffix": ".txt"}}, ".txt"),
        ({"metadata_encoding": {"type": "json", "metadata_key_suffix": ""}}, ""),
        ({"metadata_encoding": {"type": "json"}}, ".json"),
        ({"metadata_encoding": {}}, ".json"),
        ({}, ".json"),
        ({"metadata_encoding": "application/json"}, ""),
        ({"metadata_encoding": "application/json", "metadata_key_suffix": ".json"}, ".json"),
        ({"zarr_format": "https://purl.org/zarr/spec/protocol/core/3.0"}, ""),
    ],
)
def test_the_suffix_of_documents_is_said_or_left_out(entry: dict[str, Any], suffix: str) -> None:
    document = {
        "shape": [2],
        "data_type": "int16",
        "chunk_grid": {"type": "regular", "chunk_shape": [2], "separator": "/"},
        "chunk_memory_layout": "C",
        "fill_value": 7,
        "extensions": [],
        "attributes": {},
    }
    said = {"zarr_format": "https://purl.org/zarr/spec/core/3.0", "extensions": [], **entry}
    root = "root/" if "/protocol/" in said["zarr_format"] else ""
    store = {
        "zarr.json": json.dumps(said).encode(),
        f"meta/{root}a.array{suffix}": json.dumps(document).encode(),
    }
    assert terrazzo.open(store, path="a", mode="r")[...].tolist() == [7, 7]
    assert list(terrazzo.open_group(store, mode="r")) == ["a"]
