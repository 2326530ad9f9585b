"""The library reads over the network what it serves: every layout, under a writer, and with few requests."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import terrazzo
from terrazzo.serve import serve

pytest.importorskip("aiohttp", reason="the extra that reads from web servers is not installed")
VALUES = np.arange(64 * 64, dtype="i4").reshape(64, 64)


@pytest.mark.parametrize("how", [{"shards": (32, 32)}, {"shards": (32, 32), "index_location": "start"}, {}])
def test_what_is_served_is_read(tmp_path: Path, how: dict[str, object]) -> None:
    root = terrazzo.create_group(tmp_path / "g.zarr", attributes={"a": 1})
    root.create_array("x/y", data=VALUES, chunks=(8, 8), **how)
    terrazzo.consolidate_metadata(tmp_path / "g.zarr")
    with serve(tmp_path / "g.zarr") as server:
        found = terrazzo.open_group(server.address, mode="r")
        assert found.attrs["a"] == 1
        array = found["x/y"]
        assert (array[:] == VALUES).all() and (array[5:40, 9] == VALUES[5:40, 9]).all()
        again = terrazzo.open_array(server.address + "x/y", mode="r")
        assert (again[::7, ::5] == VALUES[::7, ::5]).all()


def test_a_reader_under_a_writer(tmp_path: Path) -> None:
    """The shard is replaced without pause; what is read of it is always one version."""
    writer = terrazzo.create_array(
        tmp_path / "a.zarr", shape=(32, 32), dtype="i4", chunks=(4, 4), shards=(32, 32), fill_value=-1
    )
    writer[:] = 0
    done, mixed, seen = threading.Event(), [], set()

    def write() -> None:
        number = 0
        while not done.is_set():
            number += 1
            with writer.using(durability="none") as quick:
                quick[:] = number

    thread = threading.Thread(target=write)
    with serve(tmp_path / "a.zarr") as server:
        array = terrazzo.open_array(server.address, mode="r")
        thread.start()
        try:
            for _ in range(30):
                found = np.unique(array[3:30, 2:31])
                seen.add(int(found[0]))
                if len(found) > 1:
                    mixed.append(found)
        finally:
            done.set()
            thread.join()
    assert mixed == [] and len(seen) > 5
