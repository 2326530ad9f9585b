"""Addresses of several parts, and archives that lie in another store."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("obstore")
pytest.importorskip("aiohttp")

import terrazzo
from terrazzo.errors import ConflictError, LimitError, StoreError, UnsupportedError
from terrazzo.stores.contract import ALL, Open
from terrazzo.stores.memory import MemoryStore
from terrazzo.stores.open import open_store
from terrazzo.stores.pipes import Pipe, parse_pipe
from terrazzo.stores.remote.archive import RemoteZipStore
from terrazzo.stores.wrappers import ReadOnlyStore
from terrazzo.stores.zip import ZipStore
from tests.remote.place import Place

VALUES = np.arange(64 * 64, dtype="i4").reshape(64, 64)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("s3://b/x.zip|zip:", Pipe("s3://b/x.zip", True, "")),
        ("s3://b/x.zip|zip:a/b|zarr3:", Pipe("s3://b/x.zip", True, "a/b")),
        ("s3://b/x.zip|zip:|zarr3:a/b/", Pipe("s3://b/x.zip", True, "a/b")),
        ("x.zip|zip:a|zarr:b", Pipe("x.zip", True, "a/b")),
        ("https://host/x|zarr3:", Pipe("https://host/x", False, "")),
        ("zarr3://http://host/x", Pipe("http://host/x", False, "")),
        ("zarr2://gs://b/x|zarr2:a", Pipe("gs://b/x", False, "a")),
        ("a|b", None),
        ("|zip:", None),
        ("s3://b/x", None),
        ("zarr3://nothing", None),
    ],
)
def test_what_an_address_of_parts_means(text: str, meaning: Pipe | None) -> None:
    assert parse_pipe(text) == meaning


@pytest.mark.parametrize("text", ["s3://b/x|n5:", "s3://b/x.zip|zarr3:|zip:", "s3://b/x|zip:|zip:a"])
def test_other_parts_are_refused_by_name(text: str) -> None:
    with pytest.raises(UnsupportedError, match=r"zip:.*zarr3:"):
        parse_pipe(text)


def test_a_path_with_a_bar_is_a_path(tmp_path: Path) -> None:
    open_store(str(tmp_path / "a|b"))[0].set("x", b"1")
    assert (tmp_path / "a|b" / "x").read_bytes() == b"1"


def archive(path: Path, compressed: bool = False) -> Path:
    folder = path.with_suffix("")
    group = terrazzo.create_group(folder)
    group.create_array("deep/a", data=VALUES, chunks=(8, 8), shards=(32, 32))
    kind = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", kind) as made:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                made.write(file, file.relative_to(folder).as_posix())
    return path


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    "address", ["s3://b/x.zip|zip:", "{origin}/b/x.zip|zip:|zarr3:", "zarr://{origin}/b/x.zip|zip:"]
)
def test_an_archive_over_a_network(tmp_path: Path, address: str, compressed: bool) -> None:
    with Place() as place:
        place.objects["/b/x.zip"] = archive(tmp_path / "x.zip", compressed).read_bytes()
        options = dict(endpoint_url=place.origin, key="k", secret="s") if address.startswith("s3") else {}
        store, path = open_store(address.format(origin=place.origin), mode="r", **options)
        assert path == ""
        assert place.counts == {"GET": 1}  # its end, which holds the directory
        assert not store.writable
        array = terrazzo.open_array(store, path="deep/a", mode="r")
        np.testing.assert_array_equal(array[...], VALUES)
        np.testing.assert_array_equal(array[3:17, 40:], VALUES[3:17, 40:])
        with pytest.raises(StoreError):
            store.set("zarr.json", b"")
        again = pickle.loads(pickle.dumps(store))
        assert again == store or again.identity == store.identity
        assert again.get("zarr.json") == store.get("zarr.json")


def test_members_of_one_call_come_together(tmp_path: Path) -> None:
    """Two round trips however many members: their headers, and then their bytes."""
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as made:
        for n in range(20):
            made.writestr(f"m{n}", bytes([n]) * 20_000)
    with Place() as place:
        place.objects["/b/x.zip"] = path.read_bytes()
        store, _ = open_store("s3://b/x.zip|zip:", endpoint_url=place.origin, key="k", secret="s")
        place.counts.clear()
        sources = store.open([Open(f"m{n}", (-10, None)) for n in range(10)])
        assert [bytes(source.first) for source in sources if source] == [bytes([n]) * 10 for n in range(10)]
        assert place.counts == {"GET": 20}
        place.counts.clear()
        parts = store.fetch([(source, [(5, 7), (100, 9)]) for source in sources if source])
        assert [bytes(part) for pair in parts for part in pair] == [
            bytes([n]) * k for n in range(10) for k in (7, 9)
        ]
        assert place.counts == {"GET": 20}
        assert store.get("m19") == bytes([19]) * 20_000
        assert store.get_partial_values([("m3", ALL), ("nothing", ALL)]) == [bytes([3]) * 20_000, None]


def test_an_archive_that_was_replaced_is_noticed(tmp_path: Path) -> None:
    below = MemoryStore()
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as made:
        made.writestr("big", b"x" * 300_000)
    whole = (tmp_path / "x.zip").read_bytes()
    below.set("x.zip", whole)
    store = RemoteZipStore(ReadOnlyStore(below), "x.zip")
    assert store.get("big") == b"x" * 300_000
    with Place() as place:
        place.objects["/b/x.zip"] = whole
        far, _ = open_store("s3://b/x.zip|zip:", endpoint_url=place.origin, key="k", secret="s")
        place.objects["/b/x.zip"] = whole[:100] + b"y" + whole[101:]
        place._tags.clear()
        with pytest.raises(ConflictError):
            far.get("big")


def test_what_is_no_archive_is_refused() -> None:
    below = MemoryStore()
    below.set("x.zip", b"not an archive" * 100)
    with pytest.raises(StoreError, match="not a ZIP"):
        RemoteZipStore(below, "x.zip")
    with pytest.raises(StoreError, match="no archive"):
        RemoteZipStore(below, "y.zip")


def test_limits_reach_an_archive_far_away(tmp_path: Path) -> None:
    with Place() as place:
        place.objects["/b/x.zip"] = archive(tmp_path / "x.zip").read_bytes()
        with pytest.raises(LimitError):
            open_store(f"{place.origin}/b/x.zip|zip:", max_members=2)
        with pytest.raises(UnsupportedError, match="read"):
            open_store(f"{place.origin}/b/x.zip|zip:", mode="w")


def test_a_local_archive_by_its_long_name(tmp_path: Path) -> None:
    made = archive(tmp_path / "x.zip")
    for root in (str(made), f"file://{made}"):
        store, path = open_store(f"{root}|zip:deep|zarr3:a", mode="r")
        assert path == "deep/a"
        assert isinstance(store, ZipStore)
        np.testing.assert_array_equal(terrazzo.open_array(store, path=path, mode="r")[:8, :8], VALUES[:8, :8])
    np.testing.assert_array_equal(
        terrazzo.open_array(f"zarr3://file://{tmp_path}/x", path="deep/a", mode="r")[:8], VALUES[:8]
    )


def test_the_name_of_an_archive_on_a_web_server_may_be_escaped(tmp_path: Path) -> None:
    with ZipStore(str(tmp_path / "x.zip"), "w") as archive:
        terrazzo.create_array(archive, data=VALUES, chunks=(8, 8), shards=(32, 32))
    with Place() as place:
        place.objects["/b/x y#1.zip"] = (tmp_path / "x.zip").read_bytes()
        for name in ("x%20y%231.zip", "x y%231.zip", "x%20y%231.zip?sig=a"):
            found = terrazzo.open_array(f"{place.origin}/b/{name}|zip:", mode="r")
            np.testing.assert_array_equal(found[...], VALUES)
