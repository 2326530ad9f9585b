"""Slack: laid behind chunks, grown over, told from dead bytes; and what becomes of chunks is counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import terrazzo
from terrazzo.care import check, compact, shard_map
from terrazzo.inventory import Inventory
from terrazzo.shard import EMPTY
from terrazzo.stores.memory import MemoryStore
from terrazzo.strategy import Append, Changed, InPlace, Outcomes, Replace, plan

SHAPE, CHUNK = (32, 48), (8, 12)
N = 16


def noise(seed: int, bits: int, shape: tuple[int, ...] = SHAPE) -> Any:
    return np.random.default_rng(seed).integers(1, 1 << bits, shape, dtype="i4")


def made(strategy: Any, index_location: str = "end", bits: int = 8, **how: Any) -> terrazzo.Array:
    how = {"chunks": CHUNK, "shards": SHAPE, "compressors": ["zstd:1", "crc32c"], **how}
    array = terrazzo.create_array(
        MemoryStore(), shape=SHAPE, dtype="i4", index_location=index_location, strategy=strategy, **how
    )
    array[...] = noise(0, bits)
    return array


def gaps(array: terrazzo.Array) -> Any:
    """Free bytes behind each chunk, in the order in which chunks lie."""
    found = array.inventory()
    order = np.argsort(found.offset)
    starts, nbytes = found.offset[order].astype(int), found.nbytes[order].astype(int)
    at_end = array.layout.sharding is not None and array.layout.sharding.index_location == "end"
    end = int(found.sizes[0]) - (N * 16 + 4 if at_end else 0)
    return np.append(starts[1:], end) - starts - nbytes, nbytes


@pytest.mark.parametrize("place", ["start", "end"])
@pytest.mark.parametrize("order", ["morton", "C", "F", "unordered"])
def test_every_chunk_has_its_share(place: str, order: Any) -> None:
    free, nbytes = gaps(made(InPlace(slack=0.25, order=order), place))
    np.testing.assert_array_equal(free, (nbytes * 0.25).astype(int))
    free, _ = gaps(made(InPlace(slack=100, order=order), place))
    assert (free == 100).all()
    free, _ = gaps(made(InPlace(order=order), place))
    assert not free.any()


def test_no_more_than_the_limit() -> None:
    free, _ = gaps(made(InPlace(slack=10.0, slack_limit=1600)))
    assert (free == 100).all(), "equal parts of the limit"
    free, _ = gaps(made(InPlace(slack=0.25, slack_limit=0)))
    assert not free.any()


@pytest.mark.parametrize("place", ["start", "end"])
def test_a_chunk_grows_into_it_and_back(place: str) -> None:
    array = made(InPlace(slack=2000), place)
    (key,) = array.inventory().keys
    before = array.inventory()
    for bits in (12, 31, 3, 20):
        value = noise(bits, bits, CHUNK)
        array[8:16, 12:24] = value
        np.testing.assert_array_equal(array[8:16, 12:24], value)
        now = array.inventory()
        np.testing.assert_array_equal(now.offset, before.offset)
        assert now.sizes[0] == before.sizes[0]
    assert array.outcomes.grown == 3, "from 3 to 20 bits it grows over bytes that it had left"
    assert array.outcomes.in_place == 1
    assert array.outcomes.appended == array.outcomes.replaced == array.outcomes.outgrown == 0
    assert len(array.store.get(key) or b"") == before.sizes[0]


@pytest.mark.parametrize("otherwise", ["append", "replace"])
def test_a_chunk_that_outgrows_its_slack_goes_otherwise_and_is_counted(otherwise: Any) -> None:
    array = made(InPlace(slack=20, otherwise=otherwise), bits=4)
    before = array.inventory().sizes[0]
    array[:8, :12] = noise(1, 31, CHUNK)
    np.testing.assert_array_equal(array[:8, :12], noise(1, 31, CHUNK))
    told = array.outcomes
    assert (told.appended, told.replaced) == ((1, 0) if otherwise == "append" else (0, 1))
    assert told.outgrown == 1
    assert (gaps(array)[0] == 20).all() == (otherwise == "replace"), "slack is laid anew with the shard"
    assert array.inventory().sizes[0] > before


def test_with_append_dead_bytes_have_a_limit() -> None:
    array = made(InPlace(otherwise="append", dead=0.3), bits=2)
    appended = 0
    for turn in range(30):
        array[8 * (turn % 4) :, :12] = noise(turn, 4 + 27 * (turn % 2), array[8 * (turn % 4) :, :12].shape)
        if array.outcomes.appended > appended:
            found = array.inventory()
            assert found.dead_nbytes <= 0.3 * found.sizes[0]
        appended = array.outcomes.appended
    assert appended
    assert array.outcomes.replaced


def test_a_shard_written_in_pieces_or_by_a_writer_has_slack_too() -> None:
    chunks = {(i, j): noise(i * 4 + j, 8, CHUNK) for i in range(4) for j in range(4)}
    array = made(InPlace(slack=64))
    array.put_shard((0, 0), chunks)
    assert (gaps(array)[0] == 64).all()
    grown = terrazzo.create_array(
        MemoryStore(), shape=(0, 48), dtype="i4", chunks=CHUNK, shards=SHAPE, strategy=InPlace(slack=64)
    )
    with grown.writer() as writer:
        for row in noise(5, 8):
            writer.append(row)
    assert (gaps(grown)[0] == 64).all()
    np.testing.assert_array_equal(grown[...], noise(5, 8))


def test_chains_that_the_kernel_does_not_know() -> None:
    array = made(InPlace(slack=33), compressors=["numcodecs.bz2", "crc32c"])
    assert (gaps(array)[0] == 33).all()
    np.testing.assert_array_equal(array[...], noise(0, 8))


def test_in_small_memory_it_is_the_same_shard() -> None:
    array = made(InPlace(slack=0.5))
    small = made(InPlace(slack=0.5))
    small.using(memory=3000)[...] = noise(0, 8)
    assert array.store.get("c/0/0") == small.store.get("c/0/0")


def test_chunks_of_one_length_need_none() -> None:
    assert not gaps(made(InPlace(slack=0.5), compressors=["crc32c"]))[0].any()


def test_inventory_check_and_map_tell_slack_from_dead_bytes() -> None:
    array = made(InPlace(slack=100, otherwise="append", dead=1))
    assert array.inventory().slack is None
    found = array.inventory(slack=True)
    assert found.slack_nbytes == found.dead_nbytes == N * 100
    old = int(found.nbytes[0])
    array[:8, :12] = noise(1, 31, CHUNK)  # goes past the end: its old bytes and the old index are dead
    found = array.inventory(slack=True)
    assert found.dead_nbytes == N * 100 + old + N * 16 + 4
    # the old index follows the last chunk's slack, and ends in a checksum: as far as bytes tell, that slack is dead
    assert N * 100 - 100 <= found.slack_nbytes <= N * 100 + 1
    report = check(array, verify_data=True)
    assert report.slack_nbytes == found.slack_nbytes
    assert report.dead_nbytes == found.dead_nbytes
    assert check(array).slack_nbytes is None
    drawn = shard_map(array)
    assert sum(stop - start for start, stop in drawn.slack) == found.slack_nbytes
    assert "_" in str(drawn).splitlines()[2]
    assert "slack" in drawn.svg()
    assert drawn.png().startswith(b"\x89PNG")


def test_a_manifest_keeps_it(tmp_path: Any) -> None:
    array = made(InPlace(slack=200))
    for slack in (False, True):
        found = array.inventory(slack=slack)
        found.save(tmp_path / "manifest")
        assert Inventory.load(tmp_path / "manifest").slack_nbytes == (N * 200 if slack else None)


def test_compact_drops_it_or_leaves_it() -> None:
    array = made(InPlace(slack=200))
    assert compact(array, slack="keep").rewritten == 0
    assert array.inventory().dead_nbytes == N * 200
    assert compact(array).rewritten == 1
    assert array.inventory().dead_nbytes == 0
    with pytest.raises(ValueError, match="slack"):
        compact(array, slack="lay")  # type: ignore[arg-type]


@pytest.mark.parametrize("slack", [-1, -0.1, float("nan"), True, "1KB"])
def test_what_is_no_slack(slack: Any) -> None:
    with pytest.raises(ValueError, match="slack"):
        InPlace(slack=slack)


@pytest.mark.parametrize(
    ("strategy", "wrong"),
    [
        *((strategy, {"order": "hilbert"}) for strategy in (Replace, InPlace, Append)),
        *((strategy, {"order": None}) for strategy in (Replace, InPlace, Append)),
        *((strategy, {"dead": -0.1}) for strategy in (Replace, InPlace, Append)),
        *((strategy, {"dead": float("nan")}) for strategy in (Replace, InPlace, Append)),
        *((strategy, {"dead": 30}) for strategy in (Replace, InPlace, Append)),
        (InPlace, {"otherwise": "drop"}),
        (InPlace, {"torn_reads": "no"}),
        (InPlace, {"slack_limit": -1}),
        (InPlace, {"slack_limit": 0.5}),
        (Append, {"index_at_end": "no"}),
    ],
)
def test_settings_that_are_none(strategy: Any, wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(ValueError, match=rf"{name}=.* is allowed"):
        strategy(**wrong)


def test_slack_that_the_limit_of_dead_bytes_would_take_away() -> None:
    with pytest.raises(ValueError, match="dead"):
        InPlace(slack=2.0, otherwise="append")
    assert InPlace(slack=2.0).slack == 2.0
    assert InPlace(slack=2.0, otherwise="append", dead=0.8).dead == 0.8


def test_what_lies_in_the_index_never_grows() -> None:
    """A chunk that reaches into the index is read with strict=False; it is not written over it."""
    entries = np.full((3, 2), EMPTY, np.uint64)
    entries[0] = 10, 5
    entries[2] = 40, 5
    inner, nbytes = np.array([0]), np.array([6])
    for index in [(0, 52), (8, 60)]:
        found = plan(InPlace(), Changed(entries, 60, index, inner, nbytes))
        assert found is None
    found = plan(InPlace(), Changed(entries, 60, (0, 8), inner, np.array([30])))
    assert found is not None
    assert found.offsets.tolist() == [10]
    assert plan(InPlace(), Changed(entries, 60, (0, 8), inner, np.array([31]))) is None
    assert plan(InPlace(), Changed(entries, 60, (0, 8), np.array([2]), np.array([20]))) is not None
    assert plan(InPlace(), Changed(entries, 60, (0, 8), np.array([2]), np.array([21]))) is None


def test_a_chunk_without_bytes_does_not_grow_over_its_neighbour() -> None:
    entries = np.array([[10, 0], [10, 5]], np.uint64)
    assert plan(InPlace(), Changed(entries, 60, (0, 8), np.array([0]), np.array([3]))) is None


@settings(max_examples=60, deadline=None)
@given(data=st.data(), place=st.sampled_from(["start", "end"]))
def test_any_writes_agree_with_numpy(data: st.DataObject, place: str) -> None:
    slack = data.draw(st.sampled_from([0, 16, 300, 0.1, 0.9]))
    strategies = [
        InPlace(slack=slack),
        InPlace(slack=slack, otherwise="append", dead=0.6),
        Append(index_at_end=True),
        Replace(),
    ]
    array, model = made(strategies[0], place), noise(0, 8)
    for _ in range(data.draw(st.integers(1, 6))):
        edges = [sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n)))) for n in SHAPE]
        box = tuple(slice(a, b) for a, b in edges)
        bits = data.draw(st.integers(0, 31))
        value = noise(bits, bits, model[box].shape) if bits else 0
        array.using(strategy=data.draw(st.sampled_from(strategies)))[box] = value
        model[box] = value
    np.testing.assert_array_equal(array[...], model)
    assert check(array, verify_data=True).ok


def test_outcomes_are_counted_by_threads() -> None:
    import threading

    total = Outcomes()
    threads = [
        threading.Thread(target=lambda: [total.add(Outcomes(in_place=1)) for _ in range(500)])
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert total.in_place == 4000


@pytest.mark.parametrize("at_once", [7, 64, 1 << 24])
@pytest.mark.parametrize("close", [0, 1 << 14])
def test_zeros_at_the_ends_of_ranges(monkeypatch: pytest.MonkeyPatch, at_once: int, close: int) -> None:
    """Read one by one, or in one sweep, in pieces of any size: as numpy counts them."""
    from terrazzo.inventory import slack
    from terrazzo.stores.flow import run
    from terrazzo.stores.store import Open

    monkeypatch.setattr(slack, "AT_ONCE", at_once)
    monkeypatch.setattr(slack, "CLOSE", close)
    monkeypatch.setattr(slack, "FIRST", 5)
    dice = np.random.default_rng(at_once)
    for n in (1, 3, 65, 200):
        edges = np.sort(dice.choice(np.arange(1, 4000), 2 * n, replace=False)).reshape(n, 2)
        body = (dice.random(4000) < 0.05).astype("u1").tobytes()
        store = MemoryStore()
        store.set("x", body)
        (source,) = store.open([Open("x")])
        assert source is not None
        ranges = np.stack([edges[:, 0], edges[:, 1] - edges[:, 0]], axis=1)
        expected = [len(body[a:b]) - len(body[a:b].rstrip(b"\0")) for a, b in edges.tolist()]
        assert run(slack.zeros_at_end(source, ranges), store).tolist() == expected
