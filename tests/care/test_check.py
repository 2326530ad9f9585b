"""A sound hierarchy has no problems, and every kind of damage is found where it is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from terrazzo.care import KINDS, Report, check, repair
from terrazzo.care.report import MOST, Findings
from terrazzo.errors import NodeNotFoundError
from terrazzo.groups.creating import create_array
from terrazzo.groups.opening import open_group
from terrazzo.stores.memory import MemoryStore

EMPTY = 2**64 - 1


@pytest.fixture
def sharded() -> MemoryStore:
    """One array "a/b": four shards of 25 inner chunks, uncompressed, with checksums."""
    store = MemoryStore()
    values = np.arange(1.0, 10001.0).reshape(100, 100)
    create_array(store, name="a/b", data=values, chunks=(10, 10), shards=(50, 50), compressors="crc32c")
    return store


def kinds(report: Report) -> list[tuple[str, str, tuple[int, ...] | None]]:
    return [(problem.kind, problem.key, problem.chunk) for problem in report.problems]


def change(store: MemoryStore, key: str, how: Callable[[bytearray], object]) -> None:
    content = bytearray(store.get(key) or b"")
    how(content)
    store.set(key, bytes(content))


def set_entry(store: MemoryStore, key: str, number: int, offset: int, nbytes: int) -> None:
    """Overwrite one index entry and the checksum of the index, as a faulty writer would."""
    from terrazzo._kernel import crc32c

    def how(content: bytearray) -> None:
        index = len(content) - (16 * 25 + 4)
        content[index + 16 * number : index + 16 * number + 16] = np.array([offset, nbytes], "<u8").tobytes()
        content[-4:] = crc32c(bytes(content[index:-4])).to_bytes(4, "little")

    change(store, key, how)


def test_a_sound_hierarchy(sharded: MemoryStore) -> None:
    for report in (check(sharded), check(sharded, verify_data=True)):
        assert report.ok and not report.corrupt and report.complete and report.listed
        assert (report.groups, report.arrays, report.objects, report.chunks) == (2, 1, 4, 100)
        assert report.nbytes == 4 * (25 * (800 + 4) + 16 * 25 + 4)
        assert report.dead_nbytes == 0
    assert report.verified and report.decoded == 100
    assert str(report) == "2 groups, 1 arrays, 4 objects, 100 chunks: nothing is wrong"


def test_arrays_groups_and_folders_can_be_checked(sharded: MemoryStore, tmp_path: Path) -> None:
    group = open_group(sharded, mode="r")
    assert check(group["a"]).groups == 1
    assert check(group["a/b"]).arrays == 1
    create_array(tmp_path / "x.zarr", data=np.arange(10))
    assert check(str(tmp_path / "x.zarr")).objects == 1
    with pytest.raises(NodeNotFoundError, match="there is no array and no group"):
        check(str(tmp_path / "nothing.zarr"))


def test_a_flipped_bit_is_found_only_when_data_are_verified(sharded: MemoryStore) -> None:
    change(sharded, "a/b/c/1/0", lambda content: content.__setitem__(900, content[900] ^ 4))
    assert check(sharded).ok
    report = check(sharded, verify_data=True)
    assert len(report.problems) == 1 and report.corrupt
    (problem,) = report.problems
    assert (problem.kind, problem.node, problem.key) == ("chunk", "/a/b", "a/b/c/1/0")
    assert problem.chunk is not None and 5 <= problem.chunk[0] < 10 and 0 <= problem.chunk[1] < 5
    assert "crc32c" in problem.sentence
    assert report.decoded == 99


def test_a_shard_that_was_cut_short(sharded: MemoryStore) -> None:
    change(sharded, "a/b/c/0/1", lambda content: content.__delitem__(slice(300, None)))
    report = check(sharded, verify_data=True)
    assert kinds(report) == [("index", "a/b/c/0/1", None)]
    assert report.problems[0].sentence == (
        "shard 'a/b/c/0/1' has 300 bytes, and the index of its 25 inner chunks alone has 404: "
        "it was cut short, or belongs to another array"
    )
    assert report.chunks == 75 and report.decoded == 75


def test_an_index_with_a_wrong_checksum(sharded: MemoryStore) -> None:
    change(sharded, "a/b/c/0/0", lambda content: content.__setitem__(-20, content[-20] ^ 1))
    report = check(sharded)
    assert kinds(report) == [("index", "a/b/c/0/0", None)]
    assert report.corrupt and "crc32c" in report.problems[0].sentence


@pytest.mark.parametrize(
    "offset, nbytes, words",
    [
        (EMPTY, 5, "offset 2**64 - 1, nbytes 5: only one of the two marks it as not stored"),
        (10**9, 804, "reaches past the end of the shard, which has 20,504 bytes"),
        (EMPTY - 1, EMPTY - 1, "reaches past the end of the shard"),
        (0, 0, "a stored chunk has at least one byte"),
        (20_000, 400, "lies in the index, which has the bytes 20,100 to 20,504"),
    ],
)
def test_entries_that_cannot_be_right(sharded: MemoryStore, offset: int, nbytes: int, words: str) -> None:
    set_entry(sharded, "a/b/c/1/1", 7, offset, nbytes)
    report = check(sharded, verify_data=True)
    assert kinds(report) == [("entry", "a/b/c/1/1", (6, 7))]
    assert words in report.problems[0].sentence
    assert report.corrupt


def test_overlaps_and_dead_bytes(sharded: MemoryStore) -> None:
    from terrazzo.shard import order

    first, second = (int(number) for number in order("morton", (5, 5))[:2])
    set_entry(sharded, "a/b/c/1/1", second, 0, 804)
    report = check(sharded)
    assert [problem.kind for problem in report.problems] == ["overlap"]
    assert not report.corrupt
    assert report.dead_nbytes == 804
    assert report.problems[0].chunk == (5 + min(first, second) // 5, 5 + min(first, second) % 5)


def test_keys_that_do_not_belong(sharded: MemoryStore) -> None:
    sharded.set("a/b/c/0/9", b"x")
    sharded.set("a/b/c/0/01", b"x")
    sharded.set("a/b/child/zarr.json", b"{}")
    sharded.set("a/notes.txt", b"x")
    sharded.set("lost/c/0", b"x")
    sharded.set("__extension/anything", b"x")
    report = check(sharded)
    assert kinds(report) == [
        ("foreign", "a/notes.txt", None),
        ("foreign", "a/b/c/0/01", None),
        ("outside", "a/b/c/0/9", (0, 9)),
        ("foreign", "a/b/child/zarr.json", None),
        ("orphan", "lost/c/0", None),
    ]
    assert not report.corrupt
    assert "where no node can be" in report.problems[3].sentence


def test_documents_that_cannot_be_read(sharded: MemoryStore) -> None:
    document = json.loads(sharded.get("a/b/zarr.json") or b"")
    sharded.set("bad/zarr.json", b"{not json")
    sharded.set("codec/zarr.json", json.dumps({**document, "codecs": [{"name": "no-such"}]}).encode())
    sharded.set("shape/zarr.json", json.dumps({**document, "shape": [-1, 2]}).encode())
    report = check(sharded)
    assert [(problem.kind, problem.key) for problem in report.problems] == [
        ("document", "bad/zarr.json"),
        ("document", "codec/zarr.json"),
        ("document", "shape/zarr.json"),
    ]
    assert "no-such" in report.problems[1].sentence
    assert report.corrupt and report.arrays == 1


def test_plain_chunks_of_a_wrong_length() -> None:
    store = MemoryStore()
    create_array(store, data=np.arange(1, 101), chunks=50, compressors=None)
    store.set("c/1", b"short")
    report = check(store)
    assert kinds(report) == [("chunk", "c/1", (1,))]
    assert report.problems[0].sentence == "'c/1' has 5 bytes and must have 400"
    store.set("c/0", b"")
    assert len(check(store).problems) == 2


def test_plain_chunks_that_do_not_decode() -> None:
    store = MemoryStore()
    create_array(store, data=np.arange(1, 101), chunks=50, compressors="zstd")
    store.set("c/1", b"not zstd at all")
    assert check(store).ok
    report = check(store, verify_data=True)
    assert kinds(report) == [("chunk", "c/1", (1,))]
    assert report.decoded == 1


def test_consolidated_metadata_that_are_out_of_date(sharded: MemoryStore) -> None:
    from terrazzo.groups.consolidating import consolidate_metadata

    consolidate_metadata(sharded)
    assert check(sharded).ok
    create_array(sharded, name="new", shape=3, dtype="i1")
    open_group(sharded, mode="r+", use_consolidated=False)["a/b"].attrs["x"] = 1
    report = check(sharded)
    assert [problem.kind for problem in report.problems] == ["consolidated"]
    assert "'new' is there and left out; 'a/b' differs in attributes" in report.problems[0].sentence


def test_time_and_progress(sharded: MemoryStore) -> None:
    heard: list[tuple[int, int]] = []
    check(sharded, progress=lambda done, total: heard.append((done, total)))
    assert heard[0] == (0, 4) and heard[-1] == (4, 4)
    report = check(sharded, max_seconds=0)
    assert not report.complete and report.objects == 0
    assert not report.ok and not report.corrupt and report.unchecked == ("/",)
    assert "not looked at, or not wholly: '/'" in str(report) and "nothing is wrong" not in str(report)
    assert report.to_json()["unchecked"] == ["/"]


@pytest.mark.parametrize("seconds", [-1, -0.001, float("nan")])
def test_times_that_cannot_be(sharded: MemoryStore, seconds: float) -> None:
    with pytest.raises(ValueError, match="a number of seconds from 0 on"):
        check(sharded, max_seconds=seconds)


def test_what_was_not_looked_at_is_told(sharded: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time ends in the middle: problems found by then are there, and the nodes that are left."""
    sharded.set("a/notes.txt", b"x")
    create_array(sharded, name="b", data=np.arange(9), chunks=3)
    late = Findings.late
    asked: list[None] = []

    def soon(findings: Findings) -> bool:
        asked.append(None)
        if len(asked) == 7:
            findings._end = 0.0
        return late(findings)

    monkeypatch.setattr(Findings, "late", soon)
    report = check(sharded, max_seconds=1e9)
    assert not report.complete and report.unchecked == ("/a/b", "/b") and report.objects == 2
    assert str(report).startswith(
        "2 groups, 2 arrays, 2 objects, 50 chunks: 1 problem in what was looked at; "
    )


def test_a_hierarchy_that_was_repaired_in_place_is_clean(tmp_path: Path) -> None:
    group = open_group(tmp_path / "g", mode="w")
    values = np.arange(1.0, 1025.0).reshape(32, 32)
    for name in ("x/y", "plain"):
        group.create_array(name, data=values, chunks=(8, 8), shards=(16, 32) if name == "x/y" else None)
    array = group["x/y"]
    path = tmp_path / "g/x/y/c/0/0"
    path.write_bytes(path.read_bytes()[:-132])
    plain = tmp_path / "g/plain/c/0/0"
    plain.write_bytes(b"no chunk")
    assert check(tmp_path / "g").corrupt
    report = repair(array, in_place=True)
    assert report.chunks_lost == 8 and len(report.unplaced) == 8
    repair(group["plain"], in_place=True)
    found = check(tmp_path / "g", verify_data=True)
    assert found.ok, found.problems
    assert [(note.kind, note.node, note.key) for note in found.notes] == [
        ("saved", "/plain", "plain.unplaced/"),
        ("saved", "/x/y", "x/y.unplaced/"),
    ]
    saved = [one for one in (tmp_path / "g/x/y.unplaced").rglob("*") if one.is_file()]
    assert found.notes[1].nbytes == sum(one.stat().st_size for one in saved)
    assert "delete the folder" in found.notes[1].sentence and "cut off" not in found.notes[1].sentence
    assert found.to_json()["notes"][0]["key"] == "plain.unplaced/"
    # a repair that was cut off is told of, and anything else there is nobody's
    (tmp_path / "g/x/y.unplaced/journal").mkdir()
    (tmp_path / "g/x/y.unplaced/journal/c-0-0.json").write_text("{}")
    assert "finishes it" in check(tmp_path / "g").notes[1].sentence
    (tmp_path / "g/x/y.unplaced/other.txt").write_text("")
    assert [one.kind for one in check(tmp_path / "g").problems] == ["orphan"]


def test_progress_may_end_the_check(sharded: MemoryStore) -> None:
    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check(sharded, progress=stop)


def test_an_object_that_cannot_be_read(tmp_path: Path) -> None:
    create_array(tmp_path / "x.zarr", data=np.arange(1, 101), chunks=50)
    path = tmp_path / "x.zarr" / "c" / "1"
    path.unlink()
    os.symlink(tmp_path / "nowhere", path)
    report = check(str(tmp_path / "x.zarr"))
    assert report.chunks == 1
    assert all(problem.key == "c/1" for problem in report.problems)


def test_locks_of_a_writer_are_not_foreign(tmp_path: Path) -> None:
    array = create_array(tmp_path / "x.zarr", data=np.arange(1, 101), chunks=5, shards=50)
    with array.store.hold("c/0"):
        assert check(str(tmp_path / "x.zarr")).ok


@pytest.mark.parametrize("dtype", ["U3", "string", "complex64"])
def test_rectilinear_grids_and_other_types(dtype: str) -> None:
    store = MemoryStore()
    array = create_array(store, shape=(60,), dtype=dtype, chunks=[[10, 20, 30]])
    array[...] = "ab" if dtype != "complex64" else 1j
    report = check(store, verify_data=True)
    assert report.ok and report.objects == 3 and report.decoded == 3


def test_shards_that_reach_past_the_array() -> None:
    store = MemoryStore()
    create_array(store, data=np.arange(1, 71), chunks=7, shards=49)
    report = check(store, verify_data=True)
    assert report.ok and report.decoded == 10


def test_a_flood_of_problems_is_bounded() -> None:
    findings = Findings()
    for number in range(MOST + 5):
        findings.add("foreign", "/", str(number), "x")
    report = findings.report()
    assert len(report.problems) == MOST and report.left_out == 5
    assert report.to_json()["problems_left_out"] == 5


def test_every_kind_says_what_it_is(sharded: MemoryStore) -> None:
    assert set(KINDS) == {
        *("document", "index", "entry", "chunk", "unreadable"),
        *("overlap", "outside", "foreign", "orphan", "consolidated"),
    }
    sharded.set("a/x", b"")
    assert check(sharded).to_json()["problems"] == [
        {
            "node": "/a",
            "key": "a/x",
            "chunk": None,
            "kind": "foreign",
            "corrupt": False,
            "sentence": "'a/x' lies in a group and is not its document",
        }
    ]


def test_the_report_says_that_chunks_were_not_decoded(sharded: MemoryStore) -> None:
    assert "chunks were not decoded" in str(check(sharded))
    assert "chunks were not decoded" not in str(check(sharded, verify_data=True))


def test_drafts_that_an_open_node_was_allowed_are_no_problem() -> None:
    from terrazzo.care import copy

    store = MemoryStore()
    keys = {"name": "suffix", "configuration": {"suffix": ".bin"}}
    made = {"data": np.arange(9), "chunks": 2, "chunk_key_encoding": keys}
    array = create_array(store, name="a", config={"drafts": ["suffix"]}, **made)
    assert not check(array, verify_data=True).problems
    open_group(store, mode="a")
    assert not check(open_group(store, mode="r", config={"drafts": ["suffix"]})).problems
    (problem,) = check(store).problems
    assert problem.kind == "document" and "suffix" in problem.sentence
    assert copy(array, None)[...].tolist() == list(range(9))
