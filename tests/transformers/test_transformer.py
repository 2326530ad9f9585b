"""Storage transformers: known ones stand before the store, in order; unknown ones are refused by name."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pytest

import terrazzo
from terrazzo.errors import MetadataError
from terrazzo.metadata import ArrayMetadata
from terrazzo.storage import MemoryStore, Store
from terrazzo.transformers import Transformer, known_transformers, register_transformer
from terrazzo.transformers import transformer as table


class Inverted(Store):
    """Every byte of every object inverted, under keys with a suffix."""

    def __init__(self, store: Store, suffix: str) -> None:
        self.store, self.suffix = store, suffix

    def get(self, key: str) -> bytes | None:
        found = self.store.get(key + self.suffix)
        return None if found is None else bytes(255 - byte for byte in found)

    def set(self, key: str, value: bytes) -> None:
        self.store.set(key + self.suffix, bytes(255 - byte for byte in bytes(value)))

    def erase(self, key: str) -> None:
        self.store.erase(key + self.suffix)

    def list(self) -> Iterator[str]:
        return (key.removesuffix(self.suffix) for key in self.store.list() if key.endswith(self.suffix))


@dataclass(frozen=True)
class Invert(Transformer):
    suffix: str

    name = "example.invert"

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        if set(configuration) != {"suffix"}:
            raise MetadataError(f"{path}: needs a suffix and nothing else")
        return cls(**configuration)

    def configuration(self) -> dict[str, Any]:
        return {"suffix": self.suffix}

    def wrap(self, store: Store, path: str, metadata: ArrayMetadata) -> Store:
        return Inverted(store, self.suffix)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_known", {})
    register_transformer(Invert)


def listed(*suffixes: str) -> list[dict[str, Any]]:
    return [{"name": "example.invert", "configuration": {"suffix": suffix}} for suffix in suffixes]


@pytest.mark.parametrize("shards", [None, 4])
def test_chunks_go_through_it_and_documents_do_not(shards: int | None) -> None:
    store = MemoryStore()
    root = terrazzo.create_group(store)
    array = root.create_array(
        "x", shape=8, dtype="i4", chunks=2, shards=shards, storage_transformers=listed(".a"), compressors=None
    )
    array[:] = np.arange(8)
    array[3] = 7
    again = terrazzo.open_array(store, path="x")
    assert again[:].tolist() == [0, 1, 2, 7, 4, 5, 6, 7]
    chunks = [key for key in store.list() if key.startswith("x/c")]
    assert chunks and all(key.endswith(".a") for key in chunks)
    assert store.get("x/zarr.json")
    assert again.nchunks_initialized == 4
    again.resize(4)
    assert [key for key in store.list() if key.startswith("x/c")] == sorted(chunks)[: len(chunks) // 2]
    again.attrs["a"] = 1
    assert terrazzo.open_array(store, path="x").attrs["a"] == 1
    assert "Storage transformers" in repr(again.info)


def test_the_first_is_nearest_the_array() -> None:
    store = MemoryStore()
    array = terrazzo.create_array(store, shape=2, dtype="i4", storage_transformers=listed(".inner", ".outer"))
    array[:] = 5
    assert [key for key in store.list() if key != "zarr.json"] == ["c/0.inner.outer"]


def test_copies_are_read_through_it() -> None:
    array = terrazzo.create_array(None, shape=4, dtype="i4", storage_transformers=listed(".a"))
    array[:] = 3
    dest = terrazzo.create_group({})
    terrazzo.copy(array, dest, "y")
    assert dest["y"][:].tolist() == [3, 3, 3, 3] and not dest["y"].metadata.storage_transformers


def test_unknown_ones_are_refused_by_name() -> None:
    with pytest.raises(
        MetadataError, match=r"storage_transformers\[0\].*'example.nope', which is not known.*example.invert"
    ):
        terrazzo.create_array(None, shape=1, dtype="i4", storage_transformers=["example.nope"])
    document = terrazzo.create_array(None, shape=1, dtype="i4").metadata.to_document()
    store = MemoryStore()
    store.set("x/zarr.json", terrazzo.metadata.write_json({**document, "storage_transformers": ["other"]}))
    with pytest.raises(MetadataError, match=r"x/zarr\.json: storage_transformers\[0\].*'other'"):
        terrazzo.open_array(store, path="x")
    with pytest.raises(MetadataError, match="needs a suffix"):
        terrazzo.create_array(None, shape=1, dtype="i4", storage_transformers=["example.invert"])


def test_registering() -> None:
    assert known_transformers() == ("example.invert",)
    with pytest.raises(TypeError, match="no storage transformer"):
        register_transformer(int)  # type: ignore[type-var]


def test_arrays_with_one_pickle() -> None:
    store = terrazzo.storage.MappingStore({})
    array = terrazzo.create_array(store, shape=3, dtype="i4", storage_transformers=listed(".a"))
    array[:] = 4
    assert pickle.loads(pickle.dumps(array))[:].tolist() == [4, 4, 4]
