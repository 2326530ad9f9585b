"""The suite on remote stores: moto's S3, our own honest place, and obstore's memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("obstore")
pytest.importorskip("moto")

from obstore.store import MemoryStore as ObstoreMemory

from terrazzo.stores.open import open_store
from terrazzo.stores.store import Store
from tests.remote import servers
from tests.remote.place import Place
from tests.stores.suite import StoreSuite

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def moto() -> Iterator[servers.Server]:
    with servers.start("moto") as server:
        yield server


@pytest.fixture(scope="module")
def honest() -> Iterator[Place]:
    with Place() as place:
        yield place


class TestMoto(StoreSuite):
    @pytest.fixture
    def store(self, moto: servers.Server) -> Store:
        return open_store(moto.address(f"suite-{next(_numbers)}"), **moto.options())[0]


class TestPlace(StoreSuite):
    @pytest.fixture
    def store(self, honest: Place) -> Store:
        return open_store(
            f"s3://bucket/suite-{next(_numbers)}",
            endpoint_url=f"http://127.0.0.1:{honest.port}",
            key="k",
            secret="s",
        )[0]


class TestObstoreMemory(StoreSuite):
    @pytest.fixture
    def store(self) -> Store:
        return open_store(ObstoreMemory())[0]


class TestFsspec(StoreSuite):
    @pytest.fixture
    def store(self) -> Store:
        fs = pytest.importorskip("fsspec").filesystem("memory", skip_instance_cache=True)
        fs.store.clear()
        fs.pseudo_dirs[:] = [""]
        return open_store(fs.get_mapper("root/below"))[0]


class TestFsspecFolder(StoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        fs = pytest.importorskip("fsspec").filesystem("file")
        return open_store(fs.get_mapper(str(tmp_path / "root")))[0]
