"""Stores of zarr-python, taken as they are: the suite, and arrays that zarr-python reads from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import terrazzo
from terrazzo.stores.borrowed import ZarrPythonStore
from terrazzo.stores.open import open_store
from terrazzo.stores.store import Store
from tests.stores.suite import StoreSuite

zarr = pytest.importorskip("zarr")

VALUES = np.arange(64, dtype="i4").reshape(8, 8)


class TestZarrPython(StoreSuite):
    @pytest.fixture
    def store(self) -> Store:
        return open_store(zarr.storage.MemoryStore())[0]


@pytest.mark.parametrize("kind", ["memory", "local", "obstore"])
def test_an_array_goes_in_and_both_read_it(tmp_path: Path, kind: str) -> None:
    if kind == "memory":
        theirs = zarr.storage.MemoryStore()
    elif kind == "local":
        theirs = zarr.storage.LocalStore(tmp_path / "a")
    else:
        theirs = zarr.storage.ObjectStore(pytest.importorskip("obstore.store").MemoryStore())
    array = terrazzo.create_array(theirs, data=VALUES, chunks=(2, 2), shards=(4, 4))
    array[1:3, 1:3] = 5
    expected = VALUES.copy()
    expected[1:3, 1:3] = 5
    np.testing.assert_array_equal(terrazzo.open_array(theirs, mode="r")[...], expected)
    np.testing.assert_array_equal(zarr.open_array(theirs, mode="r")[...], expected)


def test_a_store_that_only_reads_is_only_read(tmp_path: Path) -> None:

    store, _ = open_store(zarr.storage.LocalStore(tmp_path / "a", read_only=True))
    assert isinstance(store, ZarrPythonStore)
    assert not store.writable
