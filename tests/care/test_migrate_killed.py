"""Migrations killed at every single change that they make: what is left is whole, in the old form or in the new one."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.care import check, migrate

VALUES = np.arange(63.0).reshape(9, 7)


class Killed(BaseException):
    """Nothing after it runs: no handler of errors may put things right."""


class Mortal(dict[str, bytes]):
    """A store that dies at its n-th change, after it."""

    left = 1 << 60

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed

    def __setitem__(self, key: str, value: bytes) -> None:
        super().__setitem__(key, value)
        self._count()

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self._count()

    def pop(self, *arguments: Any) -> Any:
        found = super().pop(*arguments)
        self._count()
        return found


def hierarchy(place: Any, **form: Any) -> None:
    plain = form.get("zarr_format") == 2 or form.pop("plain", False)
    root = terrazzo.open_group(place, mode="w", attributes={"title": "t"}, **form)
    root.create_array(
        "g/x", data=VALUES, chunks=(4, 6), shards=None if plain else (8, 6), attributes={"u": "m"}
    )
    root.create_array("g/y", data=VALUES.astype("i4"), chunks=(9, 7), compressors="gzip:1")
    root.create_group("empty")


def early(place: Any) -> None:
    """The sharding of March 2023: no index codecs, an empty list of codecs."""
    import json

    hierarchy(place)
    said = json.loads(place["g/x/zarr.json"])
    configuration = said["codecs"][0]["configuration"]
    configuration["index_codecs"] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    place["g/x/zarr.json"] = json.dumps(said).encode()
    terrazzo.open_array(place, path="g/x")[...] = VALUES
    del configuration["index_codecs"]
    place["g/x/zarr.json"] = json.dumps(said).encode()


def whole(place: Any) -> None:
    root = terrazzo.open(place, mode="r")
    assert root.attrs["title"] == "t"
    assert sorted(path for path, _ in root.members(None)) == ["empty", "g", "g/x", "g/y"]
    np.testing.assert_array_equal(root["g/x"][...], VALUES)
    np.testing.assert_array_equal(root["g/y"][...], VALUES)
    assert root["g/x"].attrs["u"] == "m"
    for path in ("g/x", "g/y"):
        np.testing.assert_array_equal(terrazzo.open(place, path=path, mode="r")[...], VALUES)


WAYS: dict[str, tuple[Callable[[Any], None], dict[str, Any]]] = {
    "v2": (lambda place: hierarchy(place, zarr_format=2), {}),
    "P": (lambda place: hierarchy(place, dialect="P"), {}),
    "D": (lambda place: hierarchy(place, dialect="D"), {}),
    "2023": (early, {}),
    "v3 to v2": (
        lambda place: hierarchy(place, plain=True, zarr_format=3),
        {"zarr_format": 2},
    ),
}


@pytest.mark.parametrize("confirm", [False, True], ids=["kept", "confirmed"])
@pytest.mark.parametrize("way", WAYS)
def test_killed_at_every_change(way: str, confirm: bool) -> None:
    make, how = WAYS[way]
    start: dict[str, bytes] = {}
    make(start)
    if how:
        start = _like_version_2(start)
    for n in itertools.count():
        store = Mortal(start)
        store.left = n
        try:
            migrate(store, confirm=confirm, **how)
        except Killed:
            pass
        else:
            break
        store.left = 1 << 60
        left = dict(store)
        whole(dict(left))
        migrate(store, confirm=confirm, **how)  # goes on, or finds that nothing is left to do
        whole(store)
        if confirm:
            assert check(dict(store), verify_data=True).ok
        assert n < 500
    assert n > 3
    wanted = "v2" if how else "v3"
    if confirm:
        assert terrazzo.open(dict(store), mode="r").metadata.dialect == wanted
        assert not any("migration" in key for key in store)


def _like_version_2(start: dict[str, bytes]) -> dict[str, bytes]:
    """Arrays of Zarr 3 that Zarr 2 can say: their keys are those of the encoding `v2`."""
    made: dict[str, bytes] = {}
    root = terrazzo.open_group(made, mode="w", attributes={"title": "t"})
    keys = {"name": "v2", "separator": "."}
    root.create_array(
        "g/x",
        data=VALUES,
        chunks=(4, 6),
        attributes={"u": "m"},
        chunk_key_encoding=keys,
        compressors="zstd:3",
    )
    root.create_array(
        "g/y", data=VALUES.astype("i4"), chunks=(9, 7), compressors="gzip:1", chunk_key_encoding=keys
    )
    root.create_group("empty")
    return made


@pytest.mark.parametrize("form", [{}, {"zarr_format": 2}], ids=["v3", "v2"])
def test_what_is_in_the_form_already_loses_nothing(form: dict[str, Any]) -> None:
    store: dict[str, bytes] = {}
    hierarchy(store, **form)
    before = dict(store)
    report = migrate(store, confirm=True, **form)
    assert (report.removed, report.source) == (0, report.target)
    assert store.keys() == before.keys()
    whole(store)


@pytest.mark.parametrize("dialect", ["P", "D"])
def test_killed_at_every_change_of_a_folder(
    dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same with files: links, renames and removals die in turn, after they happened."""
    left = [1 << 60]

    def dying(name: str) -> Any:
        call = getattr(os, name)

        def wrapped(*arguments: Any, **named: Any) -> Any:
            found = call(*arguments, **named)
            left[0] -= 1
            if left[0] < 0:
                left[0] = 1 << 60  # what cleans up may do so
                raise Killed
            return found

        return wrapped

    for name in ("link", "rename", "replace", "unlink", "rmdir"):
        monkeypatch.setattr(os, name, dying(name))
    with terrazzo.config.set({"durability": "none"}):
        for n in range(0, 400, 3):
            folder = tmp_path / str(n)
            hierarchy(folder, dialect=dialect)
            left[0] = n
            try:
                migrate(folder, confirm=True)
            except Killed:
                whole(folder)
                migrate(folder, confirm=True)
                whole(folder)
                continue
            finally:
                left[0] = 1 << 60
            break
    assert n > 6
    whole(folder)
    assert terrazzo.open(folder, mode="r").metadata.dialect == "v3"
