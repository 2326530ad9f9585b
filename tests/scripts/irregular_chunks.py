"""Chunks of several shapes."""

import numpy as np

import terrazzo as zarr

with zarr.config.set({"array.rectilinear_chunks": True}):
    z = zarr.create_array("edges.zarr", shape=(60, 10), chunks=[[10, 20, 30], [5, 5]], dtype="i4")
    data = np.arange(600).reshape(60, 10)
    z[:] = data
    np.testing.assert_array_equal(z[5:35, 3:8], data[5:35, 3:8])
    again = zarr.open_array("edges.zarr", mode="r")
    np.testing.assert_array_equal(again[:], data)
    assert again.write_chunk_sizes[0] == (10, 20, 30)
