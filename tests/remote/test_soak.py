"""Many clients of one shard through a network that fails, and creators of one array; small here, long in long.py."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.errors import ContainsNodeError, StoreError, TerrazzoError, UnsupportedError
from terrazzo.stores.open import open_store
from tests.remote import servers
from tests.remote.endurance import endurance, grown
from tests.remote.place import Place
from tests.remote.proxy import FAULTS, FaultProxy
from tests.remote.soak import FIVE_PERCENT, soak

pytest.importorskip("obstore")


@pytest.fixture(scope="module", params=servers.wanted(*servers.SERVERS))
def server(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    if absent := servers.missing(request.param):
        pytest.skip(absent)
    with servers.start(request.param) as server:
        yield server


@pytest.fixture
def honest(server: servers.Server) -> servers.Server:
    if not server.conditions:
        pytest.skip(f"{server.name} ignores conditions")
    return server


def test_clients_of_one_shard_lose_nothing(honest: servers.Server) -> None:
    told = soak(honest, clients=4, turns=6, readers=1, faults=FIVE_PERCENT, seed=1, path="soak")
    assert told["violations"] == 0, told
    assert told["reads"] > 0
    assert sum(told["requests"].values()) > told["requests"]["passed"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_write_happens_once_whatever_becomes_of_its_answer(honest: servers.Server, fault: str) -> None:
    """Every other request fails in this way: a counter that one client adds to, and inner chunks, are exact."""
    path = f"once-{fault.replace(' ', '-')}"
    with FaultProxy(honest.port, {fault: 0.5}, seed=3, drip=0.01) as proxy:
        address, options = honest.address(path), {**honest.options(proxy.port), "tries": 40}
        store, below = open_store(address, **options)
        key = f"{below}/counter".lstrip("/")
        store.set_if(key, b"0", None)
        for n in range(5):
            store.set_if(key, b"%d" % (n + 1), store.tag(key))
        assert store.get(key) == b"5"
        array = terrazzo.create_array(
            address + "/array",
            shape=(4, 8),
            chunks=(1, 8),
            shards=(4, 8),
            dtype="i4",
            storage_options=options,
        )
        for n in range(4):
            array[n] = n + 1
            array[n] = array[n] + 1
        assert proxy.done[fault] > 4
    found = terrazzo.open_array(address + "/array", mode="r", storage_options=honest.options())[...]
    np.testing.assert_array_equal(found, np.repeat([[2], [3], [4], [5]], 8, axis=1))


@pytest.mark.parametrize("fault", ["cut", "short", "503", "reset"])
def test_listings_are_whole_whatever_becomes_of_their_pages(fault: str) -> None:
    with Place() as place, FaultProxy(place.port, {fault: 0.3}, seed=4) as proxy:
        names = {f"g/{n:05d}" for n in range(10)} | {f"g/below/{n:05d}" for n in range(2500)}
        place.objects.update({f"/b/{name}": b"1" for name in names})
        options = {"endpoint": proxy.origin, "access_key_id": "a", "secret_access_key": "b", "tries": 40}
        store, _ = open_store("s3://b", mode="r", **options)
        for _ in range(4):
            assert sorted(store.list()) == sorted(names)
            keys, prefixes = store.list_dir("g/")
            assert (len(keys), prefixes) == (10, ["g/below/"])
        assert proxy.done[fault] > 3


def test_a_client_that_does_not_recognise_its_own_write_is_found() -> None:
    """Without that, a counter like the one above is wrong: whoever takes a lost answer for a write that did not happen
    adds once more."""
    import obstore
    from obstore.exceptions import GenericError, PreconditionError
    from obstore.store import S3Store

    with Place() as place, FaultProxy(place.port, {"lost": 0.3}, seed=1) as proxy:
        place.objects["/b/n"] = b"0"
        options = {"endpoint": proxy.origin, "access_key_id": "a", "secret_access_key": "b"}
        store = S3Store("b", **options, client_options={"allow_http": True})  # type: ignore[arg-type]
        done = 0
        while done < 20:
            try:
                found = obstore.get(store, "n")
                fresh = b"%d" % (int(bytes(found.bytes())) + 1)
                obstore.put(store, "n", fresh, mode={"e_tag": found.meta["e_tag"]})  # type: ignore[typeddict-item]
                done += 1
            except (PreconditionError, GenericError):
                continue
        assert int(place.objects["/b/n"]) > 20


def raced(works: list[Callable[[], Any]]) -> list[Any]:
    """What each of them comes to, begun at one moment."""
    gate, told = threading.Barrier(len(works)), [None] * len(works)

    def guarded(n: int) -> None:
        gate.wait()
        try:
            told[n] = works[n]()
        except Exception as error:
            told[n] = error  # type: ignore[call-overload]

    threads = [threading.Thread(target=guarded, args=(n,)) for n in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told


def creators(address: str, options: dict[str, Any], rounds: int) -> None:
    for turn in range(rounds):

        def make(length: int, name: str = f"{address}/{turn}") -> Any:
            return terrazzo.create_array(name, shape=(length,), dtype="i4", storage_options=options)

        told = raced([lambda: make(1), lambda: make(2), lambda: make(3)])
        winners = [one for one in told if isinstance(one, terrazzo.Array)]
        losers = [one for one in told if isinstance(one, ContainsNodeError)]
        assert (len(winners), len(losers)) == (1, 2), told
        found = terrazzo.open_array(f"{address}/{turn}", mode="r", storage_options=options)
        assert found.shape == winners[0].shape


def test_of_several_creators_one_wins_and_the_others_are_told(honest: servers.Server) -> None:
    creators(honest.address("creators"), honest.options(), 5)


def test_of_several_creators_one_wins_where_all_saw_nothing() -> None:
    """Answers take so long that each creator has looked before any of them wrote."""
    with Place(latency=0.03) as place:
        creators(
            "s3://b/creators", {"endpoint": place.origin, "access_key_id": "a", "secret_access_key": "b"}, 5
        )


def test_of_several_creators_one_wins_though_answers_are_lost(honest: servers.Server) -> None:
    """Who created it, and did not hear of it, has created it."""
    with FaultProxy(honest.port, {"lost": 0.1, "late 500": 0.1}, seed=5) as proxy:
        creators(honest.address("unheard"), {**honest.options(proxy.port), "tries": 40}, 4)


def test_a_server_that_ignores_conditions_is_refused(server: servers.Server) -> None:
    if server.conditions:
        pytest.skip(f"{server.name} keeps conditions")
    address, options = server.address("refused"), server.options()
    with pytest.raises(UnsupportedError, match="single_writer"):
        terrazzo.create_array(address, shape=(4,), dtype="i4", storage_options=options)
    array = terrazzo.create_array(
        address, shape=(4, 4), chunks=(1, 4), shards=(4, 4), dtype="i4",
        storage_options={**options, "single_writer": True},
    )  # fmt: skip
    array[1] = 5
    for mode in ("r", "r+"):
        again = terrazzo.open_array(address, mode=mode, storage_options=options)
        assert again[1].tolist() == [5] * 4
    with pytest.raises(UnsupportedError, match="single_writer"):
        again[2] = 6
    with pytest.raises(TerrazzoError):
        open_store(address, **options)[0].set_if("refused/k", b"1", None)


def test_values_are_what_was_written(honest: servers.Server) -> None:
    """Whole and partial writes, reads of blocks, listings: every kind of request once, on every server."""
    address, options = honest.address("values/array"), honest.options()
    value = np.random.default_rng(0).integers(0, 1 << 40, (100, 90))
    array = terrazzo.create_array(
        address, shape=value.shape, chunks=(10, 9), shards=(50, 45), dtype="i8", storage_options=options
    )
    array[...] = value
    array[13:57, 20:80] = value[13:57, 20:80] = -value[13:57, 20:80]
    array[50:, 45:] = value[50:, 45:] = 0
    found = terrazzo.open_array(address, mode="r", storage_options=options)
    np.testing.assert_array_equal(found[...], value)
    np.testing.assert_array_equal(found[7:60, 33], value[7:60, 33])
    np.testing.assert_array_equal(found.oindex[[3, 99], [0, 50, 89]], value[np.ix_([3, 99], [0, 50, 89])])
    group = terrazzo.open_group(honest.address("values"), mode="a", storage_options=options)
    assert list(group.array_keys()) == ["array"]


def test_a_server_that_mistakes_ranges_is_noticed(server: servers.Server) -> None:
    if server.name != "s3rver":
        pytest.skip(f"{server.name} takes ranges for what they are")
    store, below = open_store(server.address("ranges"), **server.options(), single_writer=True)
    key = f"{below}/k".lstrip("/")
    store.set(key, bytes(range(10)))
    assert store.get_partial_values([(key, (3, 4)), (key, (0, None))]) == [
        bytes([3, 4, 5, 6]),
        bytes(range(10)),
    ]
    for window in ((-4, None), (0, 1)):
        with pytest.raises(StoreError, match="the server sent bytes"):
            store.get_partial_values([(key, window)])


@pytest.mark.parametrize("protocol", ["s3", "http"])
def test_small_reads_leave_nothing_behind(protocol: str) -> None:
    """500 of them, 16 at a time, 5 ms each; 10,000 at 20 ms in long.py."""
    told = endurance(500, protocol=protocol, latency=0.005)
    assert told["wrong"] == 0
    assert set(grown(told, 8192)) <= {"threads"}  # those that wait ten seconds before they end
    assert told["requests"] < 600
