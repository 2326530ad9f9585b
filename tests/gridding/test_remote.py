"""On S3: a run writes what it writes on a disk, and readers ask for an index and a chunk, and never for a list."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from terrazzo.errors import StoreError
from terrazzo.gridding import open_grid, run
from terrazzo.gridding.audit import audit
from terrazzo.gridding.covering import covering
from terrazzo.gridding.regions import Box
from terrazzo.stores.open import open_store
from terrazzo.stores.store import Store
from tests.gridding.cases import GREENLAND, HEIGHTS, configuration, healpix, objects, segments
from tests.remote import servers
from tests.remote.proxy import FaultProxy
from tests.remote.wire import Request

pytest.importorskip("healpix_geo")
pytest.importorskip("pyproj")
pytest.importorskip("h5py")
pytest.importorskip("obstore")
pytest.importorskip("moto")


class Counting(FaultProxy):
    """Passes every request on, and keeps what was asked for: verb, path, range."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.asked: list[tuple[str, str, str]] = []

    async def serve(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        what = "list" if "list-type" in request.query else request.headers.get("range", "")
        self.asked.append((request.method, request.path, what))
        return await super().serve(request, writer)


@pytest.fixture(scope="module")
def moto() -> Iterator[servers.Server]:
    with servers.start("moto") as server:
        yield server


GRIDS = {"healpix": healpix(6, 9, 12), "rectilinear": GREENLAND}


class Case:
    """A gridded store on moto, and a proxy in front of it."""

    def __init__(self, server: servers.Server, proxy: Counting, name: str) -> None:
        self.server, self.proxy, self.name = server, proxy, name

    def store(self, counted: bool = False) -> Store:
        options = self.server.options(self.proxy.port if counted else None)
        return open_store(self.server.address(self.name), **options)[0]

    def asked(self, call: Any) -> tuple[Any, list[tuple[str, str, str]]]:
        """The answer of a call, and the requests for objects of arrays: not those for documents."""
        self.proxy.asked.clear()
        answer = call()
        chunks = [one for one in self.proxy.asked if "/c/" in one[1] or one[2] == "list"]
        return answer, chunks


@pytest.fixture(params=GRIDS)
def case(request: pytest.FixtureRequest, moto: servers.Server, tmp_path: Path) -> Iterator[Case]:
    with Counting(moto.port) as proxy:
        found = Case(moto, proxy, f"grid-{request.param.replace(' ', '-')}")
        run(configuration(GRIDS[request.param], HEIGHTS), segments(), store=found.store(), engine="threads")
        yield found


def test_a_run_on_s3_stores_what_it_stores_on_a_disk(case: Case, tmp_path: Path) -> None:
    keys = GRIDS[case.name.removeprefix("grid-")]
    run(configuration(keys, HEIGHTS), segments(), store=tmp_path)
    store = case.store()
    assert {key: store.get(key) for key in store.list()} == objects(tmp_path)
    assert audit(store).problems == []
    # workers that are other processes open the store for themselves; secrets are sent where that is asked for
    with pytest.raises(StoreError, match="carry_secrets"):
        run(configuration(keys, HEIGHTS), segments(), store=store, engine="processes")
    options = {**case.server.options(), "carry_secrets": True}
    store = open_store(case.server.address(case.name), **options)[0]
    again = run(configuration(keys, HEIGHTS), segments(), store=store, engine="processes")
    assert again.written == 0 and again.current == again.shards


def test_one_inner_chunk_is_two_ranged_reads_and_one_where_the_index_is_known(case: Case) -> None:
    grid = open_grid(case.store())
    number = int(grid.chunks()[3])
    wanted = grid.chunk(number, "count")
    fresh = open_grid(case.store(counted=True))
    values, asked = case.asked(lambda: fresh.chunk(number, "count"))
    np.testing.assert_array_equal(values, wanted)
    assert 1 <= len(asked) <= 2 and all(verb == "GET" and span for verb, _, span in asked)
    # another chunk of the same shard: its index is known
    shard = int(fresh.grid.shard_of(fresh.chunk_cells(number))[0])
    others = [int(one) for one in grid.chunks_of_shard(shard, "count") if one != number]
    values, asked = case.asked(lambda: fresh.chunk(others[0], "count"))
    np.testing.assert_array_equal(values, grid.chunk(others[0], "count"))
    assert len(asked) == 1 and asked[0][0] == "GET" and asked[0][2]
    # one that is not there costs a look at most
    empty = next(n for n in fresh.grid.children("shard", shard).tolist() if n not in (number, *others))
    values, asked = case.asked(lambda: fresh.chunk(empty, "count"))
    assert not values.any() and len(asked) <= 1
    away = next(n for n in range(fresh.grid.n_shards) if n not in grid.shards().tolist())
    values, asked = case.asked(lambda: fresh.chunk(int(fresh.grid.children("shard", away)[0]), "count"))
    assert not values.any() and len(asked) <= 1


def test_nothing_is_listed(case: Case) -> None:
    wanted = open_grid(case.store())
    fresh = open_grid(case.store(counted=True), wanted.group.basename)
    shards, asked = case.asked(fresh.shards)
    assert shards.tolist() == wanted.shards().tolist() and len(asked) == len(shards)
    assert all(verb == "GET" and span for verb, _, span in asked), "one look at each index"
    chunks, asked = case.asked(lambda: fresh.chunks())
    assert len(chunks) == len(wanted.chunks()) and len(asked) <= len(shards)
    box = (-50.4, 70.0, -49.9, 70.6)
    found, asked = case.asked(lambda: fresh.box(*box, ["count"]))
    assert found.cells.tolist() == wanted.box(*box, ["count"]).cells.tolist() and len(found) > 0
    touched = np.intersect1d(covering(wanted.grid, Box(*box)), shards)
    assert len(asked) <= 2 * len(touched) and not any(what == "list" for _, _, what in asked)
    point = float(found.longitude[0]), float(found.latitude[0])
    value, asked = case.asked(lambda: fresh.point(*point, "count"))
    assert value == found.values["count"][0] and len(asked) <= 1
    everything, asked = case.asked(lambda: fresh.everything(["h_mean", "count"]))
    assert everything.values["count"].sum() == 22_284
    assert not any(what == "list" for _, _, what in asked)
    # the ranges of one shard's chunks come in few requests
    assert len(asked) <= 4 * len(shards)
