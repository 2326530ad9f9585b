"""The cache on a disk: what it saves, what it never mixes, and a folder that is full, shared or wrong."""

from __future__ import annotations

import math
import os
import pickle
import random
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import terrazzo
from terrazzo.errors import ConflictError, StoreError
from terrazzo.stores.cache import CachingStore
from terrazzo.stores.contract import ALL, Open, Source
from terrazzo.stores.extents import BLOCK, LONGEST, Extents, name_of
from terrazzo.stores.local import LocalStore
from terrazzo.stores.memory import MemoryStore
from terrazzo.stores.open import open_store
from terrazzo.stores.store import Store
from terrazzo.stores.versions import is_lasting, tag_of_text, tag_text
from terrazzo.stores.wrappers import PrefixStore
from tests.stores.far import FarStore
from tests.stores.suite import StoreSuite

VALUES = np.arange(64 * 64, dtype="i4").reshape(64, 64)
ROOT = Path(__file__).resolve().parents[2]
NAME = name_of("an object", "a version")


class NamedFarStore(FarStore):
    """One that other processes know by the same name."""

    @property
    def identity(self) -> Any:
        return ("far", "s3://bucket?token=hunter2")


class TestCachingStore(StoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:  # type: ignore[override]
        return CachingStore(MemoryStore(), tmp_path / "cache")


class TestCachingStoreOfAFolder(StoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:  # type: ignore[override]
        return CachingStore(LocalStore(tmp_path / "objects"), tmp_path / "cache")


@pytest.fixture
def far() -> FarStore:
    store = NamedFarStore()
    terrazzo.create_array(store, data=VALUES, chunks=(8, 8), shards=(32, 32), compressors=None)
    return store


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*/*") if path.name != "last")


def disk(folder: Path) -> int:
    """What every file and folder below the folder takes, as far as it is there when it is looked at."""
    total = 0
    for place, _, names in os.walk(folder):
        total += 4096
        for name in names:
            with suppress(FileNotFoundError):
                if place != str(folder):
                    total += -(-os.lstat(f"{place}/{name}").st_size // 4096) * 4096
    return total - 4096


def pinned(store: Store, key: str, source: Source) -> Source:
    found = store.open([Open(key, (-4, None), source.tag, pinned=True)])[0]
    assert found is not None
    return found


# -- what it saves ----------------------------------------------------------------------------------------------------


def test_what_was_read_is_read_again_without_a_request(far: FarStore, tmp_path: Path) -> None:
    array = terrazzo.open_array(CachingStore(far, tmp_path), mode="r")
    with far.watched() as first:
        assert (array[:40, :40] == VALUES[:40, :40]).all()
    assert first.count > 0
    with far.watched() as again:
        assert (array[:40, :40] == VALUES[:40, :40]).all()
        assert (array[3:9, 2:5] == VALUES[3:9, 2:5]).all()
    assert again.count == 0


def test_what_is_missing_of_a_range_is_one_request(tmp_path: Path) -> None:
    far = FarStore()
    far.set("x", bytes(range(256)) * 40)
    store = CachingStore(far, tmp_path)
    source = store.open([Open("x")])[0]
    assert source is not None
    value = far.objects["x"][0]
    for start, length, asked in [
        (1000, 100, (1000, 100)),
        (1020, 50, None),
        (2000, 100, (2000, 100)),
        (950, 100, (950, 50)),
        (1050, 1000, (1100, 900)),
        (900, 1300, (900, 1300)),  # holes at both ends: what lies between comes along
        (900, 1300, None),
    ]:
        with far.watched() as seen:
            assert store.fetch([(source, [(start, length)])])[0][0] == value[start : start + length]
        assert [one for _, _, one in seen.requests] == ([] if asked is None else [asked])


def test_many_ranges_of_many_objects_are_one_round_trip(tmp_path: Path) -> None:
    far = FarStore()
    store = CachingStore(far, tmp_path)
    values = {f"x{i}": random.Random(i).randbytes(1000) for i in range(5)}
    for key, value in values.items():
        far.set(key, value)
    sources = store.open([Open(key) for key in values])
    asked = [(source, [(0, 10), (500, 10)]) for source in sources if source is not None]
    store.fetch(asked[:2])
    with far.watched() as seen:
        wider = [(source, [(0, 20), (500, 10), (7, 0)]) for source, _ in asked]
        found = store.fetch(wider)
    assert found == [[value[:20], value[500:510], b""] for value in values.values()]
    assert seen.round_trips == 1
    assert sorted(seen.requests) == sorted(
        [("GET", f"x{i}", (10, 10)) for i in range(2)]
        + [("GET", f"x{i}", one) for i in range(2, 5) for one in ((0, 20), (500, 10))]
    )


def test_documents_and_indexes_are_asked_for_and_do_not_come_again(far: FarStore, tmp_path: Path) -> None:
    with far.watched() as first:
        terrazzo.open_array(CachingStore(far, tmp_path), mode="r")[:]
    with far.watched() as again:  # another program, as it were
        assert (terrazzo.open_array(CachingStore(far, tmp_path), mode="r")[:] == VALUES).all()
    assert again.count <= first.count
    assert again.read <= 8 < first.read


def test_another_process_finds_what_this_one_kept(far: FarStore, tmp_path: Path) -> None:
    """Stores that both know by one name; those that only this process knows keep apart."""
    CachingStore(far, tmp_path).get("zarr.json")
    before = far.seen.read
    other = NamedFarStore()
    other.objects = far.objects
    assert CachingStore(other, tmp_path).get("zarr.json") == far.objects["zarr.json"][0]
    assert far.seen.read == before and other.seen.read == 0
    unnamed = FarStore()
    unnamed.objects = {"zarr.json": (b"other", far.objects["zarr.json"][1])}
    assert CachingStore(unnamed, tmp_path).get("zarr.json") == b"other"


# -- what it never mixes ----------------------------------------------------------------------------------------------


def test_a_stale_range_never_meets_a_new_one(tmp_path: Path) -> None:
    far = FarStore()
    far.set("x", b"a" * 1000)
    store = CachingStore(far, tmp_path, fresh=math.inf)
    old = store.open([Open("x")])[0]
    assert old is not None
    assert store.fetch([(old, [(0, 100)])]) == [[b"a" * 100]]
    far.set("x", b"b" * 1000)
    with pytest.raises(ConflictError):
        store.fetch([(old, [(50, 100)])])  # half of it is there
    new = store.open([Open("x")])[0]
    assert new is not None
    assert store.fetch([(new, [(50, 100), (0, 100)])]) == [[b"b" * 100, b"b" * 100]]
    with pytest.raises(ConflictError):  # all of it is there; that it is old is known
        store.fetch([(pinned(store, "x", old), [(0, 100)])])


def test_a_change_by_others_is_seen_in_time(tmp_path: Path) -> None:
    far = FarStore()
    far.set("x", b"a" * 1000)
    store = CachingStore(far, tmp_path, fresh=0.2)
    source = store.open([Open("x")])[0]
    assert source is not None
    store.fetch([(source, [(0, 100)])])
    with far.watched() as seen:
        assert store.fetch([(pinned(store, "x", source), [(0, 100)])]) == [[b"a" * 100]]
        assert seen.count == 0
        time.sleep(0.25)
        assert store.fetch([(pinned(store, "x", source), [(0, 100), (50, 10)])])[0][0] == b"a" * 100
        assert seen.requests == [("GET", "x", (0, 1))]  # one byte, under a condition
    far.set("x", b"b" * 1000)
    time.sleep(0.25)
    with pytest.raises(ConflictError):
        store.fetch([(pinned(store, "x", source), [(0, 100)])])


def test_own_writes_are_read_at_once(far: FarStore, tmp_path: Path) -> None:
    array = terrazzo.open_array(CachingStore(far, tmp_path, fresh=math.inf), mode="r+")
    for number in range(5):
        assert (array[:] == (VALUES if number == 0 else number - 1)).all()
        array[:] = number
        array[3, 3] = -1
        assert array[3, 3] == -1 and array[3, 4] == number
        array[3, 3] = number
    array.store.set("x", b"1")
    assert array.store.get("x") == b"1"
    array.store.set("x", b"2")
    assert array.store.get("x") == b"2"
    array.store.erase("x")
    assert array.store.get("x") is None


def test_a_source_that_is_rewritten_without_pause(tmp_path: Path) -> None:
    """Readers with and without memory of their own; every shard read is one version, and never an older one than
    was present `fresh` seconds before."""
    far = NamedFarStore()
    shape, fresh = (32, 32), 0.02
    writer = terrazzo.create_array(
        far, shape=shape, dtype="i4", chunks=(4, 4), shards=(16, 16), compressors=None
    )
    writer[:] = 0
    done, wrong, counts = threading.Event(), [], [0, 0]
    history: list[tuple[float, int]] = [(time.monotonic(), 0)]

    def write() -> None:
        number = 0
        while not done.is_set():
            number += 1
            writer[:16, :16] = number
            history.append((time.monotonic(), number))
            counts[0] += 1
            time.sleep(0.001)

    def read(seed: int) -> None:
        chance = random.Random(seed)
        store = CachingStore(far, tmp_path, nbytes=200_000, fresh=fresh)
        array = terrazzo.open_array(store, mode="r")
        while not done.is_set():
            if chance.random() < 0.05:
                array = terrazzo.open_array(store, mode="r")
            a, b = sorted(chance.sample(range(17), 2))
            began = time.monotonic()
            found = array[a:b, :16]
            if (found != found[0, 0]).any():
                wrong.append(f"a mixture: {np.unique(found)}")
            oldest = max(
                number for when, number in list(history) if when <= began - fresh - 0.01 or number == 0
            )
            if found[0, 0] < oldest:
                wrong.append(f"{found[0, 0]} although {oldest} was there")
            counts[1] += 1

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
    threads.append(threading.Thread(target=write))
    for thread in threads:
        thread.start()
    time.sleep(3)
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == [] and counts[0] > 50 and counts[1] > 50
    assert disk(tmp_path) <= 200_000


# -- the folder -------------------------------------------------------------------------------------------------------


@given(
    kept=st.lists(st.tuples(st.integers(0, 900), st.integers(1, 300)), max_size=12),
    asked=st.lists(st.tuples(st.integers(0, 900), st.integers(1, 300)), min_size=1, max_size=6),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_what_is_found_is_what_was_kept(
    tmp_path_factory: pytest.TempPathFactory, kept: Any, asked: Any, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    value = random.Random(1).randbytes(1200)
    first, second = Extents(folder, 1 << 20), Extents(folder, 1 << 20)
    covered = set()
    for start, length in kept:
        data.draw(st.sampled_from([first, second])).keep(NAME, start, value[start : start + length])
        covered |= set(range(start, start + length))
    for extents in (first, second):
        for (start, length), found in zip(asked, extents.find(NAME, asked), strict=True):
            assert value[start:].startswith(found.head)
            assert value[: start + length].endswith(found.tail)
            if covered >= set(range(start, start + length)):
                assert len(found.head) == length
            else:
                assert start + len(found.head) not in covered
                assert len(found.head) + len(found.tail) < length


def test_long_ranges_are_cut_and_read_in_part(tmp_path: Path) -> None:
    extents = Extents(tmp_path, 1 << 28)
    value = np.random.default_rng(0).integers(0, 256, LONGEST + 3 * BLOCK + 7, "u1").tobytes()
    extents.keep(NAME, 5, value)
    assert len(files_of(tmp_path)) == 2
    ends = [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, LONGEST - 1, LONGEST, LONGEST + 1, len(value) - 1, len(value)]
    for start in ends:
        for end in ends:
            if start < end:
                assert extents.find(NAME, [(5 + start, end - start)])[0].head == value[start:end]


def wrongs(content: bytes) -> Iterator[tuple[str, bytes]]:
    for at in (0, 8, 16, 24, 31, 32, 40, len(content) // 2, len(content) - 1):
        damaged = bytearray(content)
        damaged[at] ^= 1
        yield f"a bit at {at}", bytes(damaged)
    yield "empty", b""
    yield "cut", content[:-1]
    yield "half", content[: len(content) // 2]
    yield "longer", content + b"x"
    yield "zeros", bytes(len(content))
    yield "huge", struct.pack("<8sQQ", b"tzrange1", 0, 1 << 62) + content[24:]


def test_a_file_that_is_not_what_was_kept_is_a_miss(tmp_path: Path) -> None:
    value = random.Random(2).randbytes(200_000)
    Extents(tmp_path, 1 << 20).keep(NAME, 100, value)
    (path,) = files_of(tmp_path)
    content = path.read_bytes()
    for what, damaged in wrongs(content):
        path.write_bytes(damaged)
        assert (
            Extents(tmp_path, 1 << 20).find(NAME, [(100, len(value))])[0].head != value or damaged == content
        ), what
        found = Extents(tmp_path, 1 << 20).find(NAME, [(100, len(value))])[0]
        assert value.startswith(found.head) and value.endswith(found.tail)
    path.write_bytes(content)
    assert Extents(tmp_path, 1 << 20).find(NAME, [(100, len(value))])[0].head == value


def test_a_file_of_another_place_is_a_miss(tmp_path: Path) -> None:
    """Good bytes under another name: of another range, another version, another object."""
    extents = Extents(tmp_path, 1 << 20)
    extents.keep(NAME, 100, b"x" * 50)
    (path,) = files_of(tmp_path)
    content = path.read_bytes()
    for name in (name_of("an object", "another version"), name_of("another object", "a version")):
        place = tmp_path / name.object
        place.mkdir(parents=True, exist_ok=True)
        (place / path.name.replace(NAME.version, name.version)).write_bytes(content)
        assert Extents(tmp_path, 1 << 20).find(name, [(100, 50)])[0].head == b""
    (path.parent / f"{NAME.version}.{99:x}-{50:x}").write_bytes(content)
    assert Extents(tmp_path, 1 << 20).find(NAME, [(99, 50)])[0].head == b""


def test_strange_things_in_the_folder_are_misses(tmp_path: Path) -> None:
    far = NamedFarStore()
    far.set("x", b"v" * 1000)
    cache, secret = tmp_path / "cache", tmp_path / "secret"
    secret.write_text("secret")
    store = CachingStore(far, cache)
    source = store.open([Open("x")])[0]
    assert source is not None
    name = store._name("x", source.tag)
    assert name is not None
    place = cache / name.object
    place.mkdir(parents=True)
    (place / f"{name.version}.0-64").symlink_to(secret)
    os.mkfifo(place / f"{name.version}.64-64")
    (place / f"{name.version}.c8-64").mkdir()
    (place / f"{name.version}.zz-1").write_text("x")
    (place / f"{name.version}.{'f' * 16}-{'f' * 16}").touch()
    for wrong in (
        b"{",
        b"[" * 4000,
        b'{"tag": "(1,", "size": 3}',
        b'{"tag": "5", "size": -1, "name": "x"}',
        b"\xff",
    ):
        store.extents.note(name.object, wrong.decode("latin-1"))
        assert store.get("x") == b"v" * 1000
    for _ in range(2):
        assert store.fetch([(source, [(0, 100), (100, 100), (200, 100)])]) == [[b"v" * 100] * 3]
    (cache / "total").unlink()
    (cache / "total").mkdir()
    assert store.fetch([(source, [(400, 100)])]) == [[b"v" * 100]]
    assert secret.read_text() == "secret"


def test_a_note_that_was_damaged_is_no_version(tmp_path: Path) -> None:
    """Any bit of it: what is read stays right, at worst it is fetched."""
    far = NamedFarStore()
    far.set("x", bytes(range(250)))
    CachingStore(far, tmp_path).get("x")
    (note,) = tmp_path.glob("*/last")
    content = note.read_bytes()
    for at in range(len(content)):
        for damaged in (content[:at], content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]):
            note.write_bytes(damaged)
            source = CachingStore(far, tmp_path).open([Open("x", (-20, None))])[0]
            assert source is not None and source.first == bytes(range(230, 250)) and source.size == 250


def test_a_folder_that_was_removed_is_made_again(far: FarStore, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    array = terrazzo.open_array(CachingStore(far, folder), mode="r")
    for _ in range(3):
        assert (array[:] == VALUES).all()
        shutil.rmtree(folder)
    assert (array[:] == VALUES).all() and (array[:] == VALUES).all()
    with far.watched() as seen:
        assert (array[:] == VALUES).all()
    assert seen.count == 0 and files_of(folder)


def test_the_budget_is_held(tmp_path: Path) -> None:
    extents = Extents(tmp_path, 300_000)
    chance = random.Random(3)
    for number in range(300):
        start = chance.randrange(1 << 30)
        extents.keep(
            name_of(f"object {number % 7}", str(number % 3)), start, bytes(chance.randrange(1, 20_000))
        )
        extents.note(name_of(f"object {number % 40}", "").object, "words")
        assert disk(tmp_path) <= 300_000
    assert disk(tmp_path) > 150_000
    extents.keep(NAME, 0, bytes(100_000))  # more than a quarter of it is not kept at all
    assert extents.find(NAME, [(0, 10)])[0].head == b""


def test_what_was_used_last_stays(tmp_path: Path) -> None:
    extents = Extents(tmp_path, 100 * 8192 + 4096)
    for number in range(99):
        extents.keep(NAME, number * 8000, bytes([number]) * 8000)
    for age, path in enumerate(files_of(tmp_path)):
        os.utime(path, (1000 + age, 1000 + age))
    used = files_of(tmp_path)[0]
    start = int(used.name.partition(".")[2].partition("-")[0], 16)
    assert len(extents.find(NAME, [(start, 10)])[0].head) == 10
    for number in range(200, 230):
        extents.keep(NAME, number * 8000, bytes(8000))
    assert used.exists() and len(extents.find(NAME, [(start, 8000)])[0].head) == 8000
    assert disk(tmp_path) <= 100 * 8192 + 4096


def test_a_lost_count_is_counted_again(tmp_path: Path) -> None:
    Extents(tmp_path, 100_000).keep(NAME, 0, bytes(20_000))
    for content in (b"", b"nonsense", struct.pack("<8sQ", b"tzrange1", 1 << 60)):
        (tmp_path / "total").write_bytes(content)
        extents = Extents(tmp_path, 100_000)
        for number in range(1, 20):
            extents.keep(NAME, number * 20_000, bytes(20_000))
            assert disk(tmp_path) <= 100_000
        assert len(files_of(tmp_path)) > 1


SHARED = """
import random, sys
from terrazzo.stores.cache import CachingStore
from terrazzo.stores.contract import Open
from tests.stores.far import FarStore

class Named(FarStore):
    identity = ("far", "one name")

values = [random.Random(key).randbytes(50_000) for key in range(8)]
far = Named()
for key, value in enumerate(values):
    far.set(f"x{key}", value)
store = CachingStore(far, sys.argv[1], nbytes=150_000)
chance, wrong = random.Random(int(sys.argv[2])), 0
for _ in range(200):
    key, start, length = chance.randrange(8), chance.randrange(40_000), chance.randrange(1, 10_000)
    source = store.open([Open(f"x{key}")])[0]
    wrong += store.fetch([(source, [(start, length)])])[0][0] != values[key][start : start + length]
print(wrong, far.seen.read)
"""


def test_processes_share_a_folder(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SHARED, str(tmp_path), str(seed)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for seed in range(3)
    ]
    most = 0
    while any(process.poll() is None for process in processes):
        most = max(most, disk(tmp_path))
        time.sleep(0.01)
    answers = [process.communicate()[0].split() for process in processes]
    assert [answer[0] for answer in answers] == ["0", "0", "0"]
    assert 0 < most <= 150_000 and disk(tmp_path) <= 150_000


KILLED = """
import itertools, random, sys
from terrazzo.stores.extents import Extents, name_of
extents = Extents(sys.argv[1], 2_000_000)
for number in itertools.count():
    extents.keep(name_of("object", str(number % 5)), number % 50 * 30_000, random.Random(number % 50).randbytes(30_000))
    extents.note(name_of(str(number % 9), "").object, "words")
    print(number, flush=True)
"""


def test_a_writer_that_is_killed_leaves_nothing_that_is_believed(tmp_path: Path) -> None:
    for round in range(4):
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        for _ in range(20 + 11 * round):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        extents = Extents(tmp_path, 2_000_000)
        believed = 0
        for version in range(5):
            for number in range(50):
                name = name_of("object", str(version))
                head = extents.find(name, [(number * 30_000, 30_000)])[0].head
                assert random.Random(number).randbytes(30_000).startswith(head)
                believed += len(head) == 30_000
        assert believed
    assert disk(tmp_path) <= 2_000_000
    for path in tmp_path.glob("*/.*"):  # what dead writers left goes with time
        os.utime(path, (0, 0))
    list(extents.shelf._walk())
    assert not list(tmp_path.glob("*/.*"))


def test_names_of_files_tell_nothing(far: FarStore, tmp_path: Path) -> None:
    store = CachingStore(far, tmp_path)
    terrazzo.open_array(store, mode="r")[:]
    told = "\n".join(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert told and not [word for word in ("hunter2", "token", "bucket", "c/0/0", "zarr") if word in told]
    contents = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"hunter2" not in contents
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.rglob("*"))


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(StoreError, match="others may write to it"):
        CachingStore(MemoryStore(), folder)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot hold a cache"):
        CachingStore(MemoryStore(), tmp_path / "file")
    with pytest.raises(StoreError, match="positive"):
        CachingStore(MemoryStore(), tmp_path / "x", nbytes=0)
    with pytest.raises(StoreError, match="positive"):
        CachingStore(MemoryStore(), tmp_path / "x", fresh=float("nan"))


def test_a_disk_that_fails_is_a_miss(far: FarStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, "writev", full)
    array = terrazzo.open_array(CachingStore(far, tmp_path), mode="r")
    assert (array[:] == VALUES).all() and (array[:] == VALUES).all()
    assert files_of(tmp_path) == []


def test_below_a_prefix(far: FarStore, tmp_path: Path) -> None:
    below = NamedFarStore()
    below.objects = {f"a/b/{key}": value for key, value in far.objects.items()}
    store = CachingStore(PrefixStore(PrefixStore(below, "a/"), "b/"), tmp_path)
    array = terrazzo.open_array(store, mode="r")
    assert (array[:] == VALUES).all()
    with below.watched() as seen:
        assert (array[:] == VALUES).all()
        assert seen.count == 0
        assert (terrazzo.open_array(store, mode="r")[:] == VALUES).all()
        assert seen.read <= 8


def test_it_is_asked_for_when_a_store_is_opened(far: FarStore, tmp_path: Path) -> None:
    options = {"cache": tmp_path / "cache", "cache_nbytes": 1 << 20, "cache_fresh": 60}
    store, _ = open_store(far, mode="r+", **options)
    assert isinstance(store, CachingStore) and store.extents.shelf.nbytes == 1 << 20 and store.fresh == 60
    read, _ = open_store(far, mode="r", cache=str(tmp_path / "cache"))
    assert read.read_only and (terrazzo.open_array(read, mode="r")[:] == VALUES).all()
    array = terrazzo.open_array(far, mode="r", storage_options=options)
    with far.watched() as seen:
        assert (array[:] == VALUES).all()
    assert seen.read <= 8
    with pytest.raises(StoreError, match="cache='folder' says where"):
        open_store(far, cache_nbytes=5)


def test_it_travels(tmp_path: Path) -> None:
    store = CachingStore(LocalStore(tmp_path / "x"), tmp_path / "cache", nbytes=1 << 20, fresh=3.0)
    again = pickle.loads(pickle.dumps(store))
    assert again == store and again.fresh == 3.0 and again.extents.shelf.nbytes == 1 << 20
    assert repr(again) == repr(store)


def test_files_of_this_machine_are_not_kept(tmp_path: Path) -> None:
    terrazzo.create_array(tmp_path / "x.zarr", data=VALUES, chunks=(8, 8), shards=(32, 32))
    array = terrazzo.open_array(CachingStore(LocalStore(tmp_path / "x.zarr"), tmp_path / "cache"), mode="r")
    assert (array[:] == VALUES).all()
    assert files_of(tmp_path / "cache") == []


@pytest.mark.parametrize("tag", [None, 1, True, "a", "'\"\n", b"\0x", (1, "a", (2, b"c")), (), ("x",)])
def test_tags_as_text(tag: Any) -> None:
    text = tag_text(tag)
    assert text is not None
    assert tag_of_text(text) == tag and type(tag_of_text(text)) is type(tag)


def test_tags_that_stay_here() -> None:
    assert tag_text(object()) is None and tag_text((1, object())) is None and tag_text([1]) is None
    for text in ("", "(", "[1]", "1+1", "__import__('os')", "(" * 3000, "'" * 3, " 1", "1.5", "{}"):
        assert tag_of_text(text) is None


def test_identities_that_last() -> None:
    assert is_lasting(("file", "/x")) and is_lasting((("file", "/x"), "a/")) and is_lasting("name")
    assert not is_lasting(5) and not is_lasting((5, "a/")) and not is_lasting(((5, "a/"), "b/"))
    assert is_lasting((("S3Store", None, "", "bucket"), "prefix/"))
    assert not is_lasting((("obstore", 140_000), "prefix/")) and not is_lasting(("x", object()))
    assert not is_lasting(()) and not is_lasting(None) and not is_lasting(frozenset())


def test_a_range_past_the_end_is_an_error_as_without_a_cache(tmp_path: Path) -> None:
    far = FarStore()
    far.set("x", b"0123456789")
    store = CachingStore(far, tmp_path)
    source = store.open([Open("x", ALL)])[0]
    assert source is not None
    for asked in ((5, 10), (20, 1), (-1, 2), (0, -1)):
        with pytest.raises(StoreError):
            store.fetch([(source, [asked])])


# -- over a network ---------------------------------------------------------------------------------------------------


@pytest.fixture
def place() -> Iterator[Any]:
    pytest.importorskip("obstore")
    from tests.remote.place import Place

    with Place() as place:
        yield place


def remote(place: Any, folder: Path | None, **options: Any) -> Store:
    keeping = {} if folder is None else {"cache": folder, **options}
    endpoint = f"http://127.0.0.1:{place.port}"
    return open_store(
        "s3://bucket/x.zarr", endpoint_url=endpoint, key="k", secret="hunter2", tries=2, **keeping
    )[0]


class TestCachingStoreOverS3(StoreSuite):
    @pytest.fixture
    def store(self, place: Any, tmp_path: Path) -> Store:  # type: ignore[override]
        return remote(place, tmp_path / "cache", cache_fresh=0.0)


def test_over_s3(place: Any, tmp_path: Path) -> None:
    terrazzo.create_array(remote(place, None), data=VALUES, chunks=(8, 8), shards=(32, 32), compressors=None)
    array = terrazzo.open_array(remote(place, tmp_path), mode="r")
    assert (array[:] == VALUES).all()
    place.requests.clear()
    assert (array[:] == VALUES).all() and (array[9:30, 5] == VALUES[9:30, 5]).all()
    assert place.requests == []
    before = place.sent_nbytes
    again = terrazzo.open_array(remote(place, tmp_path), mode="r")  # as another program would
    assert (again[:] == VALUES).all()
    assert len(place.requests) <= 5 and place.sent_nbytes - before < 100
    terrazzo.open_array(remote(place, None), mode="r+")[:] = VALUES + 1
    assert (terrazzo.open_array(remote(place, tmp_path), mode="r")[:] == VALUES + 1).all()
    told = "".join(str(path) for path in tmp_path.rglob("*")) + repr(again.store)
    assert "hunter2" not in told and "hunter2" not in str([vars(one) for one in (again.store,)])


@pytest.mark.parametrize("tags", ["weak", "none", "changing"])
def test_a_service_whose_versions_cannot_be_told_is_not_kept(place: Any, tmp_path: Path, tags: str) -> None:
    terrazzo.create_array(remote(place, None), data=VALUES, chunks=(8, 8), shards=(32, 32))
    place.tags = tags
    store = remote(place, tmp_path, cache_fresh=math.inf)
    try:
        array = terrazzo.open_array(store, mode="r")
        assert (array[:] == VALUES).all() and (array[3:5, 3:5] == VALUES[3:5, 3:5]).all()
    except StoreError:
        assert tags == "changing"  # refused, as without a cache
    else:
        assert tags == "changing" or files_of(tmp_path) == []


def test_writers_and_readers_through_one_folder_over_s3(place: Any, tmp_path: Path) -> None:
    """Compare-and-swap through the cache loses nothing, and what is read is one version."""
    trusted = {"cache_fresh": 0.01, "cache_nbytes": 1 << 20}
    writer = terrazzo.create_array(
        remote(place, tmp_path, **trusted),
        shape=(16, 16),
        dtype="i4",
        chunks=(4, 4),
        shards=(16, 16),
        fill_value=-1,
    )
    writer[:] = 0
    wrong: list[Any] = []
    done = threading.Event()

    def write(corner: int) -> None:
        array = terrazzo.open_array(remote(place, tmp_path, **trusted), mode="r+")
        for number in range(1, 16):
            array[corner : corner + 4, :] = number

    def read() -> None:
        array = terrazzo.open_array(remote(place, tmp_path, **trusted), mode="r")
        last = np.zeros(16, "i4")
        while not done.is_set():
            found = array[:]
            if (found != found[:, :1]).any() or (found[::4, 0] != found[3::4, 0]).any():
                wrong.append(found)
            if (found[:, 0] < last).any():
                wrong.append("back in time")
            last = found[:, 0]

    readers = [threading.Thread(target=read) for _ in range(2)]
    writers = [threading.Thread(target=write, args=(corner,)) for corner in (0, 4, 8)]
    for thread in (*readers, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert wrong == []
    assert (terrazzo.open_array(remote(place, tmp_path), mode="r")[:12] == 15).all()
