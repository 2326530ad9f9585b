"""Stores as objects: folders, memory, dictionaries, archives."""

import numpy as np

import terrazzo as zarr
from terrazzo.storage import LocalStore, MemoryStore, ZipStore

local = LocalStore("folder.zarr")
zarr.create_array(local, shape=(4,), dtype="i4")[:] = np.arange(4)
assert zarr.open_array(LocalStore("folder.zarr"))[3] == 3

memory = MemoryStore()
zarr.create_group(memory).create_array("x", shape=(2,), dtype="f4")
assert list(zarr.open_group(memory, mode="r")) == ["x"]

plain: dict = {}
zarr.create_array(plain, name="y", shape=(2,), dtype="u1", chunks=(1,))[:] = 5
assert (zarr.open_array(plain, path="y")[:] == 5).all()

with ZipStore("archive.zip", mode="w") as store:
    zarr.create_array(store, shape=(10, 10), dtype="u2", chunks=(5, 5))[:] = 3
with ZipStore("archive.zip", mode="r") as store:
    assert (zarr.open_array(store, mode="r")[:] == 3).all()

read_only = LocalStore("folder.zarr").with_read_only(True)
assert zarr.open_array(read_only).read_only
