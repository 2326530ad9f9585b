"""No verb prints what may be a secret in an address: user-info, or what follows a question mark."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from terrazzo.cli import main
from terrazzo.groups.creating import create_array
from terrazzo.groups.opening import open_group
from terrazzo.stores import open as opening
from terrazzo.stores.local import LocalStore
from terrazzo.stores.store import Store

SECRETS = ("s3cret", "t0ken")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sound and broken nodes, made once."""
    folder = tmp_path_factory.mktemp("made")
    values = np.arange(64, dtype="i2").reshape(8, 8)
    create_array(folder / "x.zarr", data=values, chunks=2, shards=4)
    create_array(folder / "plain.zarr", data=values, chunks=4)
    create_array(folder / "old.zarr", data=values, chunks=4, zarr_format=2)
    create_array(folder / "log.zarr", data=values, chunks=([4, 2, 2], 8))
    open_group(folder / "g.zarr", mode="w").create_array("a", data=values, chunks=4)
    for name in ("cut.zarr", "spoiled.zarr"):
        create_array(folder / name, data=values, chunks=2, shards=4)
    (folder / "cut.zarr" / "c" / "0" / "0").write_bytes(b"short")
    (folder / "spoiled.zarr" / "zarr.json").write_text("{")
    (folder / "grid.json").write_text(json.dumps({"output": {"store": "guarded://u:s3cret@host/none"}}))
    np.save(folder / "in.npy", values)
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What precedes a path below a folder that is reached by an address with a secret in it."""

    def opener(rest: str, mode: str, options: Mapping[str, Any]) -> tuple[Store, str]:
        path = rest.partition("@host/")[2].partition("?")[0]
        return LocalStore(tmp_path / path), ""

    monkeypatch.setitem(opening._OPENERS, "guarded", opener)
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return "guarded://user:s3cret@host/"


COMMANDS = [
    "info @x.zarr",
    "info @x.zarr --json --stored",
    "info @g.zarr",
    "tree @g.zarr",
    "ls @g.zarr -l",
    "ls @x.zarr",
    "cat @x.zarr 0",
    "cat @g.zarr",
    "cat @x.zarr 0 --explain",
    "inventory @x.zarr --map",
    "inventory @g.zarr",
    "inventory @g.zarr 0:1",
    "inventory @g.zarr --map",
    "map @x.zarr",
    "map @plain.zarr",
    "map @g.zarr",
    "import in.npy @made.zarr",
    "import in.npy @made.zarr --json",
    "import in.npy @x.zarr",
    "copy @x.zarr @copied.zarr",
    "copy @g.zarr @copied-g.zarr --json",
    "copy @x.zarr @plain.zarr",
    "copy @x.zarr @x.zarr/below",
    "migrate @old.zarr @new.zarr",
    "migrate @old.zarr --dry-run --json",
    "migrate @old.zarr @old.zarr/below",
    "check @x.zarr",
    "check @cut.zarr --json",
    "repair @cut.zarr --to @saved.zarr --unplaced unplaced",
    "repair @cut.zarr",
    "repair @cut.zarr --in-place",
    "repair @cut.zarr --to @saved-2.zarr --json --unplaced unplaced",
    "repair @cut.zarr --chunks-per-shard 2,2",
    "compact @x.zarr",
    "compact @x.zarr --json",
    "reshard @x.zarr @flat.zarr --shards none",
    "reshard @x.zarr @flat-2.zarr --shards none --json",
    "reshard @x.zarr @x.zarr --shards none",
    "merge @log.zarr",
    "merge @x.zarr",
    "grid status grid.json",
    "grid status grid.json --store @none.zarr",
    *(
        f"{verb} @{name}"
        for verb in ("info", "cat", "check", "map", "compact")
        for name in ("none", "spoiled.zarr")
    ),
    "copy @none @copied.zarr",
    "copy @spoiled.zarr @copied.zarr",
]


@pytest.mark.parametrize("verb", ["info", "serve", "copy made.zarr"])
@pytest.mark.parametrize(
    "address",
    [
        "file://user:s3cret@host/x?t0ken",
        "ftp://user:s3cret@host/x?t0ken",
        "s3://user:s3cret@bucket/x?t0ken",
        "gs://bucket?t0ken",
        "http://user:s3cret@[bad/x?t0ken",
        "https://user:s3cret@host:99999/x?t0ken",
        "http://user:s3cret@host/x#t0ken",
        "http://user:s3cret@host/..?t0ken#t0ken",
        "http://user:s3cret@host/x.zip|word:a?t0ken",
    ],
)
def test_an_address_that_is_refused_is_shown_without_its_secrets(
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    address: str,
    verb: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    create_array(tmp_path / "made.zarr", data=np.arange(3))
    assert main([*verb.split(), address]) != 0
    found = capfd.readouterr()
    assert not [one for one in SECRETS if one in found.out + found.err], found.err
    assert len(found.err.splitlines()) == 1


@pytest.mark.parametrize("words", COMMANDS)
def test_nothing_printed_holds_a_secret(
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    argv = [place + word[1:] + "?key=t0ken" if word.startswith("@") else word for word in words.split()]
    main(argv)
    found = capfdbinary.readouterr()
    said = (found.out + found.err).decode("utf-8", "replace")
    assert said, "a verb that says nothing proves nothing"
    assert "should not happen" not in said
    assert not [one for one in SECRETS if one in said], said
