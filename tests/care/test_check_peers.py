"""What other writers made has no problems: not in its keys, not in its indexes, not in its chunks."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path

import pytest

from terrazzo.arrays.place import StorePath
from terrazzo.care import check
from terrazzo.stores.memory import MemoryStore

ARCHIVES = Path(__file__).resolve().parents[1] / "fixtures"


@pytest.mark.parametrize("writer", ["tensorstore", "zarr", "zarr-zarrs", "zarrista"])
def test_arrays_of_other_writers_are_sound(writer: str) -> None:
    with zipfile.ZipFile(ARCHIVES / f"{writer}.zip") as archive:
        store = MemoryStore()
        for name in archive.namelist():
            if not name.endswith("/"):
                store.set(name, archive.read(name))
    places = sorted(key.rpartition("/")[0] for key in store.list() if key.endswith("zarr.json"))
    chunks = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for place in places:
            report = check(StorePath(store, place), verify_data=True)
            # a document of a type that numpy does not have is all that may be told of
            assert [p.sentence for p in report.problems if p.kind != "document"] == []
            assert report.decoded == report.chunks
            chunks += report.chunks
    assert chunks > len(places)
