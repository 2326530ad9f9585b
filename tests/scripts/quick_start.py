"""Make an array on disk, write, read, look at it."""

import numpy as np

import terrazzo as zarr

z = zarr.create_array(store="quick.zarr", shape=(100, 100), chunks=(10, 10), dtype="f4")
z[:, :] = np.random.default_rng(0).random((100, 100))
print(z)
print(z.info)
assert z.shape == (100, 100) and z.chunks == (10, 10)

again = zarr.open("quick.zarr", mode="r")
np.testing.assert_array_equal(again[:], z[:])
assert again.read_only
