"""Bytes that other libraries wrote once decode for ever: every archive of tests/fixtures, to the last bit.

The archives are made by the scripts beside them; their manifests name the writer, its version and the expected values.
"""

from __future__ import annotations

import base64
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import Case, canonical, differences

import terrazzo
import terrazzo.errors

FIXTURES = Path(__file__).resolve().parent / "fixtures"
ARCHIVES = sorted(FIXTURES.glob("*.zip"))


def manifest(archive: Path) -> dict[str, Any]:
    with zipfile.ZipFile(archive) as content:
        return dict(json.loads(content.read("manifest.json")))


MANIFESTS = {archive.stem: manifest(archive) for archive in ARCHIVES}


def kept(kind: str) -> list[tuple[str, str]]:
    return [(archive, name) for archive, found in MANIFESTS.items() for name in found.get(kind, {})]


ARRAYS, GROUPS = kept("arrays"), kept("groups")


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every archive, unpacked side by side."""
    folder = tmp_path_factory.mktemp("fixtures")
    for archive in ARCHIVES:
        with zipfile.ZipFile(archive) as content:
            content.extractall(folder / archive.stem)
    return folder


def numpy_type(spelled: Any) -> np.dtype[Any]:
    if isinstance(spelled, list):
        return np.dtype([(name, numpy_type(kind)) for name, kind in spelled])
    try:
        return np.dtype(spelled)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, spelled))


def expected_values(folder: Path, entry: dict[str, Any]) -> np.ndarray[Any, Any]:
    file = folder / entry["expected"]
    if file.suffix == ".json":
        saved = json.loads(file.read_text(encoding="utf-8"))
        items = [base64.b64decode(i) if entry.get("items") == "bytes" else i for i in saved["items"]]
        flat = np.empty(len(items), dtype=object)
        flat[:] = items
        return flat.reshape(saved["shape"])
    saved = np.load(file, allow_pickle=False)
    dtype = numpy_type(entry["dtype"])
    found = saved if saved.dtype == dtype else np.ascontiguousarray(saved).view(dtype).reshape(saved.shape)
    return found.astype(dtype.newbyteorder("="), copy=False)


@pytest.mark.parametrize(("archive", "name"), ARRAYS, ids=["/".join(pair) for pair in ARRAYS])
def test_array_reads_as_its_writer_does(archive: str, name: str, unpacked: Path) -> None:
    entry = MANIFESTS[archive]["arrays"][name]
    folder = unpacked / archive
    wanted = expected_values(folder / "expected" / name, entry)
    array = terrazzo.open_array(
        folder / "arrays" / entry.get("store", name), path=entry.get("path", ""), mode="r"
    )
    case = Case(name, {"data_type": entry["data_type"], "shape": wanted.shape}, wanted.dtype)
    assert array.shape == wanted.shape
    found = canonical(array[...], case)
    assert differences(found, wanted, case) == 0, f"found {found!r}, wanted {wanted!r}"
    for key, value in entry.get("attributes", {}).items():
        assert array.attrs[key] == value


@pytest.mark.parametrize(("archive", "name"), ARRAYS, ids=["/".join(pair) for pair in ARRAYS])
def test_parts_equal_the_whole(archive: str, name: str, unpacked: Path) -> None:
    """A part is read another way than the whole: fewer chunks, ranges of a shard, cut edges."""
    entry = MANIFESTS[archive]["arrays"][name]
    folder = unpacked / archive
    wanted = expected_values(folder / "expected" / name, entry)
    array = terrazzo.open_array(
        folder / "arrays" / entry.get("store", name), path=entry.get("path", ""), mode="r"
    )
    part = tuple(slice(extent // 3, extent - extent // 4) for extent in wanted.shape)
    inside = np.asarray(wanted[(*part, ...)])
    case = Case(name, {"data_type": entry["data_type"], "shape": inside.shape}, wanted.dtype)
    assert differences(canonical(array[part], case), inside, case) == 0


@pytest.mark.parametrize(("archive", "name"), GROUPS, ids=["/".join(pair) for pair in GROUPS])
def test_group_holds_what_its_writer_put_there(archive: str, name: str, unpacked: Path) -> None:
    entry = MANIFESTS[archive]["groups"][name]
    group = terrazzo.open_group(unpacked / archive / "arrays" / entry["store"], path=entry["path"], mode="r")
    assert dict(group.attrs) == entry["attributes"]
    assert sorted(group.array_keys()) == entry["arrays"]
    assert sorted(group.group_keys()) == entry["groups"]


def test_the_fixtures_cover_what_they_are_for() -> None:
    """Guards the tests above against an empty or cut archive."""
    counts = {archive: len(found["arrays"]) for archive, found in MANIFESTS.items()}
    assert counts.keys() >= {"zarr", "zarr-zarrs", "tensorstore", "zarrista", "hierarchies", "draft", "zarr2"}
    assert counts.keys() >= {"zarr-3.0", "zarr-3.1", "letter"}
    assert sum(counts.values()) > 800
    assert FIXTURES.joinpath("zarr.zip").stat().st_size + sum(a.stat().st_size for a in ARCHIVES) < 4_000_000
