"""Nodes of Zarr 2 whose names Zarr 3 reserves: never left out of a copy or a migration, and hiding no neighbours."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.care import copy, migrate
from terrazzo.cli import main
from terrazzo.errors import KeyRefusedError
from terrazzo.stores.mapping import MappingStore

GROUP = b'{"zarr_format": 2}'
ARRAY = json.dumps(
    {
        "zarr_format": 2,
        "shape": [4],
        "chunks": [2],
        "dtype": "<i4",
        "compressor": None,
        "fill_value": 0,
        "order": "C",
        "filters": None,
    }
).encode()
VALUES = np.arange(4, dtype="<i4")

RESERVED = ["__x", "__receipts", "zarr.json", "...", "g/__x", "g/zarr.json", "__terrazzo_migration.json"]
ODD = [".hidden", "a b", "ü", "é", "c", "0", "~", "a%20b", "x.zarr", "line\nbreak", "g/.x", "a__b"]
HOW: list[Callable[[Any, Any], Any]] = [
    lambda store, target: migrate(store, target),
    lambda store, target: migrate(store),
    lambda store, target: migrate(store, confirm=True),
    lambda store, target: migrate(store, dry_run=True),
    lambda store, target: copy(store, target),
]


def hierarchy(name: str, consolidated: bool = False, document: bytes = ARRAY) -> dict[str, bytes]:
    kind = ".zarray" if document is ARRAY else ".zgroup"
    documents = {".zgroup": GROUP, "g/.zgroup": GROUP, "ok/.zarray": ARRAY, f"{name}/{kind}": document}
    chunks = {f"{node}/{i}": VALUES[2 * i : 2 * i + 2].tobytes() for node in ("ok", name) for i in (0, 1)}
    if consolidated:
        entries = {key: json.loads(document) for key, document in documents.items()}
        whole = {"zarr_consolidated_format": 1, "metadata": entries}
        documents[".zmetadata"] = json.dumps(whole).encode()
    return {**documents, **chunks}


class Unlistable(MappingStore):
    listable = False


@pytest.mark.parametrize("document", [ARRAY, GROUP], ids=["array", "group"])
@pytest.mark.parametrize("how", range(len(HOW)))
@pytest.mark.parametrize("name", RESERVED)
def test_a_reserved_name_is_refused_before_anything_is_written(name: str, how: int, document: bytes) -> None:
    store, target = hierarchy(name, document=document), dict[str, bytes]()
    before = dict(store)
    with pytest.raises(
        KeyRefusedError, match=rf"'/{name}' is a node of Zarr 2 that Zarr 3 does not allow; rename"
    ):
        HOW[how](store, target)
    assert store == before and target == {}


@pytest.mark.parametrize("how", range(len(HOW)))
def test_what_cannot_be_listed_tells_by_its_consolidated_metadata(how: int) -> None:
    store, target = Unlistable(hierarchy("g/__x", consolidated=True)), dict[str, bytes]()
    with pytest.raises(KeyRefusedError, match="'/g/__x' is a node of Zarr 2"):
        HOW[how](store, target)
    assert target == {}


@pytest.mark.parametrize("name", RESERVED)
def test_a_reserved_name_hides_no_neighbours(name: str) -> None:
    for consolidated in (False, True):
        group = terrazzo.open_group(hierarchy(name, consolidated), mode="r")
        assert (group.metadata.consolidated is not None) == consolidated
        assert sorted(group.keys()) == ["g", "ok"]
        assert np.array_equal(group["ok"][:], VALUES)
    with pytest.raises(KeyRefusedError, match="choose another name"):
        terrazzo.open_array(hierarchy(name), path=name, mode="r")


@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.parametrize("name", ODD)
def test_odd_names_are_names(name: str, consolidated: bool) -> None:
    for how in HOW[:3]:
        store, target = hierarchy(name, consolidated), dict[str, bytes]()
        report = how(store, target)
        assert report.nodes == 4
        group = terrazzo.open_group(target or store, mode="r", zarr_format=3)
        assert np.array_equal(group[name][:], VALUES)
        assert len(group.members(max_depth=None)) == 3


def test_folders_that_are_no_nodes_are_nobody_s(tmp_path: Path) -> None:
    store = hierarchy("ok")
    store.update({"__cache/x": b"1", "g/__cache/y": b"2", ".../z": b"3"})
    target: dict[str, bytes] = {}
    assert migrate(store, target).nodes == 3
    assert not [key for key in target if "cache" in key]


def test_the_verb_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for key, content in hierarchy("__x").items():
        path = tmp_path / "old.zarr" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    assert main(["migrate", str(tmp_path / "old.zarr"), str(tmp_path / "new.zarr")]) == 1
    err = capsys.readouterr().err
    assert "'/__x' is a node of Zarr 2 that Zarr 3 does not allow" in err and len(err.splitlines()) == 1
    assert not (tmp_path / "new.zarr").exists()


def test_a_folder_where_a_document_goes(tmp_path: Path) -> None:
    """On a disk nothing can be put beside it, so that not even the group can be opened."""
    (tmp_path / "zarr.json").mkdir()
    for key, content in hierarchy("ok").items():
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(content)
    with pytest.raises(OSError, match="'zarr.json' is a folder, not an object"):
        migrate(tmp_path)
