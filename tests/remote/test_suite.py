"""The suite of every store on the servers of `make servers`; moto has its own in tests/stores/test_remote.py."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

pytest.importorskip("obstore")

from terrazzo.stores.open import open_store
from terrazzo.stores.store import Store
from tests.remote import servers
from tests.stores.suite import StoreSuite

if not servers.wanted("radosgw", "azurite"):
    pytest.skip("`make servers` starts the servers of these tests", allow_module_level=True)

_numbers = itertools.count(1)


class OnServer(StoreSuite):
    """A store in a folder of its own for each test. s3rver is not among them: it takes `bytes=-4` for the first five
    bytes and `bytes=0-0` for all; the store says so, instead of reading (test_soak.py)."""

    name = ""

    @pytest.fixture(scope="class")
    @classmethod
    def server(cls) -> Iterator[servers.Server]:
        name = cls.name
        if absent := servers.missing(name) if servers.wanted(name) else f"{name} is not in TEST_SERVERS":
            pytest.skip(absent)
        with servers.start(name) as server:
            yield server

    @pytest.fixture
    def store(self, server: servers.Server) -> Store:
        return open_store(server.address(f"suite-{next(_numbers)}"), **server.options())[0]


class TestRadosgw(OnServer):
    name = "radosgw"


class TestAzurite(OnServer):
    name = "azurite"
