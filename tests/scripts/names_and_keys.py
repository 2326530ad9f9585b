"""Dimension names, and how chunks are named."""

import os

import numpy as np

import terrazzo as zarr

z = zarr.create_array(
    "named.zarr",
    shape=(4, 6),
    chunks=(2, 3),
    dtype="i2",
    dimension_names=["y", "x"],
    chunk_key_encoding={"name": "v2", "separator": "."},
)
z[:] = np.ones((4, 6))
assert tuple(z.metadata.dimension_names) == ("y", "x")
assert os.path.exists("named.zarr/1.1")

default = zarr.create_array("default.zarr", shape=(4,), chunks=(2,), dtype="i2")
default[:] = 1
assert os.path.exists("default.zarr/c/1")
