"""Attacks: bytes, documents, names and files made to harm who opens them, each with the answer it gets.

The numbers are rows of the table in SECURITY.md. Bombs (rows 1 to 7) are read in a process that measures its memory.
Rows 37 to 43, attacks by servers, are in tests/remote/test_attacks.py.
"""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import threading
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.errors import (
    ChecksumError,
    CodecError,
    KeyRefusedError,
    LimitError,
    MetadataError,
    NodeError,
    ShardError,
    StoreError,
    TerrazzoError,
    UnknownCodecError,
)
from terrazzo.stores.local import LocalStore
from terrazzo.stores.memory import MemoryStore
from terrazzo.stores.zip import ZipStore
from tests.faults.bombs import BOMBS, PLAIN, codec

ROOT = Path(__file__).resolve().parents[2]
EMPTY = 2**64 - 1


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("terrazzo.read.flow.time.sleep", lambda _: None)


# -- 1 to 7: bombs ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def blown() -> dict[str, Any]:
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("this system does not tell a process its peak of memory")
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.bombs"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize("name", BOMBS)
def test_1_to_7_bombs(blown: dict[str, Any], name: str) -> None:
    assert "CodecError" in blown[name]["error"], blown[name]
    assert "c/0" in blown[name]["text"]
    assert blown[name]["rose"] < 64 << 20, f"{blown[name]['rose'] >> 20} MiB"


# -- 8 to 17: shards --------------------------------------------------------------------------------------------------


def sharded(strict: bool = True, index_codecs: int = 4) -> tuple[Any, MemoryStore, bytes]:
    """An array of four inner chunks of 16 bytes, its store, and its shard (index at the end, with a checksum)."""
    store = MemoryStore()
    array = terrazzo.create_array(
        store, shape=(16,), dtype="i4", chunks=(4,), shards=(16,), compressors=None, fill_value=-1
    )
    array[...] = np.arange(16)
    shard = store.get("c/0")
    assert shard is not None and len(shard) == 64 + 64 + index_codecs
    return array, store, shard


def with_entries(shard: bytes, entries: dict[int, tuple[int, int]]) -> bytes:
    """The shard with other index entries, and a checksum that is right for them."""
    index = np.frombuffer(shard[64:128], "<u8").reshape(4, 2).copy()
    for number, entry in entries.items():
        index[number] = entry
    return shard[:64] + index.tobytes() + struct.pack("<I", terrazzo._kernel.crc32c(index.tobytes()))


@pytest.mark.parametrize(
    ("row", "entry"),
    [
        ("8 past the end", (132, 16)),
        ("8 past the end by one", (117, 16)),
        ("9 huge", (0, 2**62)),
        ("10 around 2^64", (2**64 - 8, 16)),
        ("10 around 2^64, second", (16, 2**64 - 8)),
        ("11 half empty", (EMPTY, 8)),
        ("11 half empty, second", (0, EMPTY)),
        ("12 in the index", (60, 16)),
    ],
)
def test_8_to_12_entries_that_cannot_be(row: str, entry: tuple[int, int]) -> None:
    array, store, shard = sharded()
    store.set("c/0", with_entries(shard, {2: entry}))
    with pytest.raises(ShardError, match=r"'c/0'.*\(2,\)"):
        array[...]
    with pytest.raises(ShardError):
        array[0:4] = 7  # nothing is written over what cannot be understood
    assert store.get("c/0") == with_entries(shard, {2: entry})


def test_12_a_chunk_in_the_index_is_read_on_request() -> None:
    _, store, shard = sharded()
    store.set("c/0", with_entries(shard, {2: (64, 16)}))
    found = terrazzo.open_array(store, mode="r").using(strict=False)[8:12]
    assert found.tobytes() == with_entries(shard, {2: (64, 16)})[64:80]


def test_13_entries_that_share_bytes_are_read_and_never_overwritten() -> None:
    array, store, shard = sharded()
    store.set("c/0", with_entries(shard, {1: (0, 16), 2: (0, 16), 3: (8, 16)}))
    assert array[...].tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 2, 3, 4, 5]
    from terrazzo.strategy import InPlace

    array.using(strategy=InPlace(torn_reads=True))[0:4] = 9
    assert array[...].tolist() == [9, 9, 9, 9, 0, 1, 2, 3, 0, 1, 2, 3, 2, 3, 4, 5]


def test_14_a_wrong_checksum_of_the_index() -> None:
    array, store, shard = sharded()
    store.set("c/0", shard[:-1] + bytes([shard[-1] ^ 1]))
    with pytest.raises(ChecksumError, match="'c/0'"):
        array[...]


@pytest.mark.parametrize("nbytes", [0, 10, 16 * 4 + 3])
def test_15_shards_shorter_than_their_index(nbytes: int) -> None:
    array, store, shard = sharded()
    store.set("c/0", shard[-nbytes:] if nbytes else b"")
    with pytest.raises(ShardError, match="'c/0'"):
        array[...]


@pytest.mark.parametrize("nbytes", [1, 15, 17, 32])
def test_16_inner_chunks_of_a_wrong_length(nbytes: int) -> None:
    array, store, shard = sharded()
    store.set("c/0", with_entries(shard, {1: (0, nbytes)}))
    with pytest.raises(CodecError, match=r"\(1,\)"):
        array[...]


@pytest.mark.parametrize("compressors", [None, "zstd"])
def test_17_a_file_that_shrinks_while_it_is_read(tmp_path: Path, compressors: Any) -> None:
    """Nothing is mapped: an error, and no signal."""
    array = terrazzo.create_array(
        LocalStore(tmp_path),
        shape=(1 << 16,),
        dtype="i4",
        chunks=(1 << 12,),
        shards=(1 << 16,),
        compressors=compressors,
    )
    array[...] = np.random.default_rng(0).integers(0, 1 << 30, 1 << 16)

    class Shrinking(LocalStore):
        def open(self, requests: Any) -> Any:
            sources = super().open(requests)
            if any(request.key.startswith("c/") for request in requests):
                os.truncate(tmp_path / "c/0", 1000)
            return sources

    with pytest.raises(TerrazzoError, match="c/0"):
        terrazzo.open_array(Shrinking(tmp_path), mode="r")[...]


# -- 18 to 29: documents ----------------------------------------------------------------------------------------------


def document(**changes: Any) -> dict[str, Any]:
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [8],
        "data_type": "float64",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0,
        "codecs": [PLAIN],
        **changes,
    }


def opened_from(found: dict[str, Any] | bytes) -> Any:
    store = MemoryStore()
    store.set("zarr.json", found if isinstance(found, bytes) else json.dumps(found).encode())
    return terrazzo.open_array(store, mode="r")


def shards_of(inner: list[int], *codecs: dict[str, Any]) -> dict[str, Any]:
    return codec(
        "sharding_indexed",
        chunk_shape=inner,
        codecs=list(codecs) or [PLAIN],
        index_codecs=[PLAIN, codec("crc32c")],
        index_location="end",
    )


def grid(*shape: Any) -> dict[str, Any]:
    return {"name": "regular", "configuration": {"chunk_shape": list(shape)}}


def nested(depth: int) -> dict[str, Any]:
    inside: dict[str, Any] = PLAIN
    for _ in range(depth):
        inside = shards_of([4], inside)
    return inside


LIMITS = {
    "18 a chunk of 2^40 elements": document(shape=[2**41], chunk_grid=grid(2**40)),
    "18 an inner chunk of 2^40 elements": document(
        shape=[2**41], chunk_grid=grid(2**40), codecs=[shards_of([2**40])]
    ),
    "19 2^40 inner chunks in a shard": document(
        shape=[2**41], chunk_grid=grid(2**40), codecs=[shards_of([1])]
    ),
    "23 shards 50 deep in shards": document(codecs=[nested(70)]),
}
WRONG = {
    "21 chunk 0": document(chunk_grid=grid(0)),
    "21 negative chunk": document(chunk_grid=grid(-4)),
    "21 fractional chunk": document(chunk_grid=grid(4.5)),
    "21 chunk that is text": document(chunk_grid=grid("4")),
    "21 chunk that is true": document(chunk_grid=grid(True)),
    "21 negative shape": document(shape=[-1]),
    "21 shape that is true": document(shape=[True]),
    "21 shape that is text": document(shape="8"),
    "22 1,000 dimensions": document(shape=[1] * 1000, chunk_grid=grid(*[1] * 1000)),
    "27 a fill value of 10^6 digits": json.dumps(document()).replace(
        '"fill_value": 0', '"fill_value": ' + "9" * 10**6
    ),
    "27 a fill value of 10^6 hexadecimal digits": document(fill_value="0x" + "f" * 10**6),
    "27 raw bits without end": document(data_type="r" + "8" + "0" * 12),
    "28 an extension that must be understood": document(something={"name": "new", "must_understand": True}),
    "29 objects": document(data_type="object"),
    "31 a separator of another kind": document(
        chunk_key_encoding={"name": "default", "configuration": {"separator": "|"}}
    ),
    "31 a separator that climbs": document(
        chunk_key_encoding={"name": "default", "configuration": {"separator": "/../"}}
    ),
}


@pytest.mark.parametrize("row", LIMITS)
def test_18_19_23_larger_than_the_limits(row: str) -> None:
    with pytest.raises(LimitError):
        opened_from(LIMITS[row])


def test_23_shards_3000_deep() -> None:
    """Too deep for a document, before it is too deep for shards."""
    with pytest.raises((LimitError, MetadataError)):
        depth = 3000
        inside = (
            '{"name":"sharding_indexed","configuration":{"chunk_shape":[4],"index_codecs":[],"codecs":['
            * depth
        )
        text = json.dumps(document(codecs=["HERE"])).replace(
            '"HERE"', inside + json.dumps(PLAIN) + "]}}" * depth
        )
        opened_from(text.encode())


def test_20_extents_that_no_machine_word_holds() -> None:
    array = opened_from(document(shape=[2**62, 2**62], chunk_grid=grid(4, 4)))
    assert array.size == 2**124
    assert array.nchunks == 2**120
    assert (array[2**62 - 3 :, 5:7] == 0).all()
    assert array[2**61, 2**61] == 0
    with pytest.raises((IndexError, TerrazzoError)):
        array[2**62, 0]


@pytest.mark.parametrize("row", WRONG)
def test_21_to_31_documents_that_are_wrong(row: str) -> None:
    found = WRONG[row]
    with pytest.raises(MetadataError):
        opened_from(found.encode() if isinstance(found, str) else found)


@pytest.mark.parametrize("opening", ["[", '{"attributes":'])
def test_24_json_100_000_deep(opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    text = json.dumps(document(attributes="HERE")).replace(
        '"HERE"', opening * 100_000 + "1" + closing * 100_000
    )
    with pytest.raises((MetadataError, LimitError)):
        opened_from(text.encode())


def test_25_documents_that_are_too_long_are_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "zarr.json", "wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(LimitError, match="zarr.json"):
        terrazzo.open_array(tmp_path, mode="r")


@pytest.mark.parametrize(
    "text",
    [
        '{"zarr_format": 3, "zarr_format": 3}',
        '{"zarr_format": 3, "node_type": "array", "shape": [NaN]}',
        "\ufeff{}",
        "{",
        "",
        "null",
        "[]",
    ],
)
def test_26_documents_that_are_no_documents(text: str) -> None:
    with pytest.raises((MetadataError, NodeError)):
        opened_from(text.encode())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "latin-1"])
def test_26_documents_in_another_encoding(encoding: str) -> None:
    with pytest.raises(MetadataError):
        opened_from(json.dumps(document(attributes={"name": "größer"}), ensure_ascii=False).encode(encoding))


def test_26_duplicate_names_are_refused() -> None:
    text = json.dumps(document())[:-1] + ', "shape": [1000]}'
    with pytest.raises(MetadataError, match="shape"):
        opened_from(text.encode())


def test_28_unknown_codecs_are_named() -> None:
    with pytest.raises(UnknownCodecError, match="made-up"):
        opened_from(document(codecs=[PLAIN, codec("made-up")]))


class Touching:
    """Unpickled, it would make a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["pickle", "numcodecs.pickle", "numcodecs.msgpack2", "numcodecs.json2"])
def test_29_nothing_is_unpickled(tmp_path: Path, name: str) -> None:
    import pickle

    store = MemoryStore()
    store.set("zarr.json", json.dumps(document(codecs=[codec(name)])).encode())
    store.set("c/0", pickle.dumps(Touching(tmp_path / "touched")))
    with pytest.raises(MetadataError):
        terrazzo.open_array(store, mode="r")[...]
    assert not (tmp_path / "touched").exists()


# -- 30 to 36: names and files ----------------------------------------------------------------------------------------

CLIMBING = [
    "../secret",
    "a/../../secret",
    "/etc/passwd",
    "..",
    ".",
    "a/./b",
    "a//b",
    "..\\secret",
    "C:/x",
    "a\0b",
    "",
]


@pytest.mark.parametrize("key", CLIMBING)
def test_30_keys_that_leave_the_root(tmp_path: Path, key: str) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    store = LocalStore(tmp_path / "root")
    store.set("there", b"1")
    for use in (
        store.get,
        store.exists,
        store.getsize,
        store.erase,
        lambda k: store.set(k, b"x"),
        store.hold,
    ):
        with pytest.raises((KeyRefusedError, StoreError)):
            use(key)
    assert (tmp_path / "secret").read_bytes() == b"secret"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["root", "secret", "there"]


def test_30_a_percent_sign_means_nothing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "root")
    store.set("%2e%2e/x", b"1")
    assert (tmp_path / "root" / "%2e%2e" / "x").exists()


@pytest.mark.parametrize("name", ["../../x", "/x", "a/../x", "..", "a//b"])
def test_32_consolidated_names_that_climb(tmp_path: Path, name: str) -> None:
    store = MemoryStore()
    group = {
        "zarr_format": 3,
        "node_type": "group",
        "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": {name: document()}},
    }
    store.set("g/zarr.json", json.dumps(group).encode())
    store.set("x/zarr.json", json.dumps(document()).encode())
    with pytest.raises((MetadataError, NodeError, KeyRefusedError)):
        found = terrazzo.open_group(store, path="g", mode="r")
        list(found.members())
        found[name]


def with_outside(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "0").write_bytes(b"not yours")
    array = terrazzo.create_array(
        LocalStore(tmp_path / "root"), shape=(4,), dtype="u1", chunks=(4,), compressors=None
    )
    array[...] = 1
    return outside


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_33_links_out_of_the_root(tmp_path: Path, kind: str) -> None:
    outside = with_outside(tmp_path)
    root = tmp_path / "root"
    (root / "c/0").unlink()
    if kind == "file":
        (root / "c/0").symlink_to(outside / "0")
    else:
        (root / "c").rmdir()
        (root / "c").symlink_to(outside)
    with pytest.raises(StoreError, match="link"):
        terrazzo.open_array(root, mode="r")[...]
    try:
        terrazzo.open_array(LocalStore(root), mode="r+")[...] = 5
    except StoreError:
        assert kind == "folder" or (root / "c/0").is_symlink()
    assert (outside / "0").read_bytes() == b"not yours"
    assert os.listdir(outside) == ["0"]


def test_33_links_are_followed_on_request(tmp_path: Path) -> None:
    outside = with_outside(tmp_path)
    (outside / "0").write_bytes(b"\x07\x08\x09\x0a")
    (tmp_path / "root/c/0").unlink()
    (tmp_path / "root/c/0").symlink_to(outside / "0")
    store = LocalStore(tmp_path / "root", follow_symlinks=True)
    assert terrazzo.open_array(store, mode="r")[...].tolist() == [7, 8, 9, 10]


def test_33_a_folder_swapped_for_a_link_during_a_write(tmp_path: Path) -> None:
    outside = with_outside(tmp_path)
    root = tmp_path / "root"

    class Swapping(LocalStore):
        def commit(self, *arguments: Any) -> Any:
            (root / "c").rename(root / "moved")
            (root / "c").symlink_to(outside)
            return super().commit(*arguments)

    terrazzo.open_array(Swapping(root), mode="r+")[...] = 5
    assert (outside / "0").read_bytes() == b"not yours"
    assert os.listdir(outside) == ["0"]
    assert (root / "moved/0").read_bytes() == b"\x05" * 4


@pytest.mark.parametrize("suffix", [".__lock", ".__redo"])
def test_34_a_link_at_the_lock_or_the_journal(tmp_path: Path, suffix: str) -> None:
    outside = with_outside(tmp_path)
    (tmp_path / "root" / f"c/0{suffix}").symlink_to(outside / "0")
    with pytest.raises(StoreError, match=r"c/0|0\.__lock"):
        terrazzo.open_array(LocalStore(tmp_path / "root"), mode="r+")[...] = 5
    assert (outside / "0").read_bytes() == b"not yours"


def test_34_a_hard_link_at_the_lock(tmp_path: Path) -> None:
    """A lock file that is also another file would be written over."""
    outside = with_outside(tmp_path)
    os.link(outside / "0", tmp_path / "root/c/0.__lock")
    with pytest.raises(StoreError, match="lock"):
        terrazzo.open_array(LocalStore(tmp_path / "root"), mode="r+")[...] = 5
    assert (outside / "0").read_bytes() == b"not yours"


@pytest.mark.parametrize("kind", ["pipe", "folder", "socket"])
@pytest.mark.parametrize("name", ["c/0", "c/0.__lock", "c/0.__redo", "zarr.json"])
def test_35_what_is_no_file(tmp_path: Path, kind: str, name: str) -> None:
    """Nothing hangs; reading and writing end, with an error of ours if at all."""
    with_outside(tmp_path)
    root = tmp_path / "root"
    path = root / name
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        import socket

        here = os.getcwd()
        os.chdir(path.parent)  # the names of sockets are short
        try:
            socket.socket(socket.AF_UNIX).bind(path.name)
        finally:
            os.chdir(here)
    done = threading.Event()

    def use() -> None:
        for mode in ("r", "r+"):
            try:
                array = terrazzo.open_array(root, mode=mode)  # type: ignore[arg-type]
                array[...]
                if mode == "r+":
                    array[...] = 5
            except TerrazzoError:
                pass
        done.set()

    threading.Thread(target=use, daemon=True).start()
    assert done.wait(30)


@pytest.mark.parametrize("name", ["../outside", "/outside", "a/../../outside", "a\\..\\outside"])
def test_36_archives_with_names_that_climb(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as made:
        made.writestr("zarr.json", json.dumps(document()))
        made.writestr(name, b"x")
    found: list[str] = []
    try:
        found = list(ZipStore(tmp_path / "a.zip").list())
    except StoreError:
        pass
    assert not [key for key in found if "outside" in key and key != "outside"]
    assert [p.name for p in tmp_path.iterdir()] == ["a.zip"], "nothing is extracted"


def test_36_archives_with_a_name_twice(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as made, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.writestr("k", b"one")
        made.writestr("k", b"two")
    try:
        found = ZipStore(tmp_path / "a.zip").get("k")
    except StoreError:
        return
    assert found == b"two", "as every reader of archives: the last one counts"


def test_36_archives_whose_directory_lies(tmp_path: Path) -> None:
    """The number of entries, the place of the directory, and members on top of each other."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("a", b"aaaa")
        made.writestr("b", b"bbbb")
    whole = path.read_bytes()
    end = whole.rindex(b"PK\5\6")
    second = whole.rindex(b"PK\1\2")
    for place, fresh in [
        (end + 8, b"\xff\xff\xff\xff"),  # entries
        (end + 12, struct.pack("<I", 2**32 - 2)),  # size of the directory
        (end + 16, struct.pack("<I", 2**32 - 2)),  # its place
        (second + 20, struct.pack("<II", 2**32 - 2, 2**32 - 2)),  # sizes of the second member
        (second + 42, struct.pack("<I", 0)),  # the second member lies where the first one does
    ]:
        path.write_bytes(whole[:place] + fresh + whole[place + len(fresh) :])
        with pytest.raises(TerrazzoError):
            store = ZipStore(path)
            store.get("a")
            found = store.get("b")
            assert found == b"bbbb", "or the error below"
            raise StoreError("both members are what they were")


# -- 44, 46, 47 -------------------------------------------------------------------------------------------------------


def test_44_what_the_kernel_throws_is_an_exception() -> None:
    """Rows of nonsense: no panic of the kernel's leaves it as something that `except Exception` does not catch."""
    kernel = terrazzo._kernel
    program = kernel.Program([("bytes", (), "")], [4], 4, bytes(4))
    dice = np.random.default_rng(0)
    placement = ("grid", [("span", np.array([[0, 4, 0]]), 1)])
    for _ in range(2000):
        rows = dice.integers(-(2**63), 2**63 - 1, (2, 5)) >> dice.integers(0, 63, (2, 5))
        try:
            kernel.decode([program], [b"x" * 32], rows, placement, np.zeros(4, "i4"), 1)
        except (ValueError, TypeError, OverflowError, MemoryError):
            pass


def calls_of(work: Any) -> int:
    count = 0

    def note(*_: Any) -> None:
        nonlocal count
        count += 1

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_46_a_million_places_cost_a_million() -> None:
    """Calls grow with the chunks that are touched and no faster than the places."""
    array = terrazzo.create_array(
        MemoryStore(), shape=(1000, 1000), dtype="i4", chunks=(50, 50), shards=(500, 500)
    )
    value = np.arange(10**6, dtype="i4").reshape(1000, 1000)
    array[...] = value
    dice = np.random.default_rng(0)
    costs = []
    for n in (10**4, 10**5, 10**6):
        rows, columns = dice.integers(0, 1000, n), dice.integers(0, 1000, n)
        found: list[Any] = []
        costs.append(calls_of(lambda r=rows, c=columns, f=found: f.append(array.vindex[r, c])))
        np.testing.assert_array_equal(found[0], value[rows, columns])
    assert costs[2] <= 2 * costs[0]
    many = dice.integers(0, 1000, 2000)
    np.testing.assert_array_equal(array.oindex[many, many], value[np.ix_(many, many)])


def test_47_what_we_build_from_is_pinned() -> None:
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        lines = [line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
        for line in filter(None, lines):
            assert re.match(r"[\w.\-\[\]]+==\S+|--", line), f"{path.name}: {line!r} is not pinned"
    lock = (ROOT / "kernel/Cargo.lock").read_text(encoding="utf-8")
    packages = [block for block in lock.split("[[package]]") if "source = " in block]
    assert len(packages) > 10
    assert all("checksum = " in block for block in packages)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "--locked" in makefile
